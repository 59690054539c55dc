"""Policies: everything that a harness does, as one frozen value.

A policy is data that the loop reads; no harness is a subclass. `Policy.vary` makes a variant, `bl.compare_policies`
compares policies field by field, and `bl.policies` has the presets.

A limit is evaluated at one of three places:

- at the *boundary*, before a request: nothing beyond the limit is paid for, and the batch that crosses a budget is
  completed;
- at the *response*, before its calls are executed: what exceeds the limit has been paid for and is dropped;
- at a *call*, before it is executed (guards only).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

from boolab.core.displayable import Displayable
from boolab.core.run import Run
from boolab.display.document import Document, Facts, Table
from boolab.errors import SettingError
from boolab.harnesses.compaction import Compaction
from boolab.harnesses.groups import (
    GROUPS,
    About,
    Budgets,
    Cap,
    Continues,
    Detectors,
    Execution,
    FieldGroup,
    Finish,
    Inputs,
    LastStep,
    LimitCheck,
    WrapUp,
)
from boolab.harnesses.never_fires import FiresFirst, never_fires
from boolab.io.checks import MAX_COUNT, check_name, is_whole, repr_of
from boolab.limits.catalog import max_time, tool_budget
from boolab.limits.stop import AnyOf, StopRule, Threshold
from boolab.limits.table import AGENT_LIMITS, BUDGETS, LIMITS, describe_limits


class _Default(enum.Enum):
    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.DEFAULT
"""The value of a setting that was not set: the policy's default applies. (None means no limit, up to the ceiling.)"""

Setting: TypeAlias = int | Literal[_Default.DEFAULT] | None
_OTHER_LIMITS: Final = ("guards", *(LIMITS[name].reason for name in BUDGETS))


class PolicyChanges(TypedDict, total=False):
    """What `Policy.vary` changes."""

    name: str
    order: tuple[str, ...]
    about: About | Mapping[str, object]
    cap: Cap | Mapping[str, object]
    continues: Continues | Mapping[str, object]
    last_step: LastStep | Mapping[str, object]
    budgets: Budgets | Mapping[str, object]
    detectors: Detectors | Mapping[str, object]
    finish: Finish | Mapping[str, object]
    execution: Execution | Mapping[str, object]
    inputs: Inputs | Mapping[str, object]
    wrap_up: WrapUp | Mapping[str, object]
    compaction: Compaction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Displayable):
    """What a harness does, in groups of fields: `policy.cap.max_steps`, `policy.finish.tools`.

    Attributes:
        name: The name in records.
        order: Its limits, in order of precedence. A policy ignores `max_steps`, `tool_budget` or `doom_loop` if it is
            not listed. `guards`, `token_budget`, `cost_budget` and `time_budget` come last unless they are listed.
        about: Where it comes from, in words.
        cap: The limit on steps.
        continues: How a turn continues after its cap.
        last_step: The last step under the cap.
        budgets: The limits on tool calls, tokens, cost and time.
        detectors: What detects repetition.
        finish: What ends a turn without a limit.
        execution: How calls are executed, and what failures do.
        inputs: The user's messages during a turn.
        wrap_up: What a limit adds to the end of the record.
        compaction: When the history is summarised; None is never.

    Raises:
        SettingError: if the values contradict each other.

    Example:
        >>> import boolab as bl
        >>> policy = bl.Policy(name="mine").vary(cap={"max_steps": 30}, finish={"tools": ("submit",)})
        >>> policy.cap.max_steps, policy.finish.tools
        (30, ('submit',))
    """

    name: str
    order: tuple[str, ...] = ("max_steps",)
    about: About = field(default_factory=About)
    cap: Cap = field(default_factory=Cap)
    continues: Continues = field(default_factory=Continues)
    last_step: LastStep = field(default_factory=LastStep)
    budgets: Budgets = field(default_factory=Budgets)
    detectors: Detectors = field(default_factory=Detectors)
    finish: Finish = field(default_factory=Finish)
    execution: Execution = field(default_factory=Execution)
    inputs: Inputs = field(default_factory=Inputs)
    wrap_up: WrapUp = field(default_factory=WrapUp)
    compaction: Compaction | None = None

    def __post_init__(self) -> None:
        limit_names = {*AGENT_LIMITS, *_OTHER_LIMITS}
        if not set(self.order) <= limit_names or len(set(self.order)) < len(self.order):
            msg = f"policy {self.name}: order={self.order!r}: expected some of {', '.join(AGENT_LIMITS)}, each once"
            raise SettingError(msg)
        for name, kind in GROUPS.items():
            if not isinstance(getattr(self, name), kind):
                raise SettingError(f"policy {self.name}: {name}={getattr(self, name)!r}: expected {kind.__name__}(...)")
        if "max_steps" not in self.order:
            for path, unset in (("last_step.action", "tools"), ("continues.times", 0), ("last_step.reminder", "none")):
                value = self.value(path)
                if value not in (unset, None):
                    raise SettingError(f"policy {self.name}: {path}={repr_of(value)} needs 'max_steps' in order")
        _check_continues(self)
        if self.finish.batch == "until" and self.execution.calls == "parallel":
            msg = f"policy {self.name}: finish.batch='until' needs calls in sequence: execution.calls='parallel'"
            raise SettingError(msg)
        if self.cap.counts in ("tool_steps", "supersteps") and self.finish.conditions != ("no_calls",):
            raise SettingError(
                f"policy {self.name}: cap.counts={self.cap.counts!r} needs finish.conditions=('no_calls',), "
                f"not {self.finish.conditions!r}"
            )

    def vary(self, **changes: Unpack[PolicyChanges]) -> Policy:
        """A variant of this policy.

        Args:
            **changes: By field: a new value, or for a group a dict with new values of some of its fields.

        Returns:
            The variant. Give it its own `name`: records and tables use it.

        Raises:
            SettingError: if there is no such group or field, or the values contradict each other.

        Example:
            >>> import boolab as bl
            >>> preset = bl.policies["boocode"]
            >>> loose = preset.vary(name="loose", detectors={"doom_loop": 5}, wrap_up={"summary": "none"})
            >>> loose.effective({})["doom_loop"], loose.cap == preset.cap
            (5, True)
            >>> bl.policies["boocode"].vary(cap={"maxsteps": 5})
            Traceback (most recent call last):
            boolab.errors.SettingError: policy boocode: cap has no field 'maxsteps'; did you mean 'max_steps'?
        """
        new: dict[str, Any] = dict(changes)
        for name, value in new.items():
            self._check_field(name)
            if name in GROUPS and isinstance(value, Mapping):
                for part in value:
                    check_name(part, _names(GROUPS[name]), f"policy {self.name}: {name} has no field {part!r}")
                new[name] = replace(getattr(self, name), **value)
        return replace(self, **new)

    def _check_field(self, name: str) -> None:
        for group, kind in GROUPS.items():
            if name not in _names(Policy) and name in _names(kind):
                msg = f"policy {self.name}: there is no field {name!r}; did you mean {group}={{{name!r}: ...}}?"
                raise SettingError(msg)
        check_name(name, _names(Policy), f"policy {self.name}: there is no field {name!r}")

    def value(self, path: str) -> object:
        """The value of a field, by its path.

        Args:
            path: One of `PATHS`, such as `cap.max_steps` or `order`.

        Returns:
            The field's value.

        Example:
            >>> import boolab as bl
            >>> bl.policies["autogpt"].value("cap.counts")
            'actions'
        """
        return attrgetter(path)(self)

    def effective(
        self, asked: Mapping[str, Setting], *, read_only: bool = False, no_agent: bool = False
    ) -> dict[str, int | None]:
        """The value of each setting that the policy has: the given one, else the default.

        Args:
            asked: The given settings by name; absent or `DEFAULT` means the policy's default.
            read_only: Whether all of the agent's tools are read-only.
            no_agent: Whether there is no agent.

        Returns:
            The values by name; None is no limit.

        Raises:
            SettingError: if the policy does not accept a value.
        """
        budget = self.budgets.read_only if read_only else self.budgets.writing
        defaults = default_settings(self, self.budgets.no_agent if no_agent else budget)
        settings = {}
        for name in self.order:
            if name in defaults:
                value = asked.get(name, DEFAULT)
                settings[name] = defaults[name] if value is DEFAULT else value
        if settings.get("max_steps") == 0 and self.cap.zero in ("unlimited", "default"):
            settings["max_steps"] = None if self.cap.zero == "unlimited" else self.cap.max_steps
        self.check(settings)
        return settings

    def never_fires(
        self, asked: Mapping[str, Setting], *, read_only: bool = False, no_agent: bool = False
    ) -> dict[str, FiresFirst]:
        """The limits that can never fire, because another one always fires first.

        Args:
            asked: The given settings by name, as those of `effective`.
            read_only: Whether all of the agent's tools are read-only.
            no_agent: Whether there is no agent.

        Returns:
            By limit, the `limit` that fires first and `why`; empty if each limit can fire.

        Raises:
            SettingError: if the policy does not accept a value.

        Example:
            >>> import boolab as bl
            >>> found = bl.policies["boocode"].never_fires({"max_steps": 200, "tool_budget": 50})
            >>> found["max_steps"].limit, found["max_steps"].why
            ('tool_budget', 'each step makes at least one call, so a tool budget of 50 is used up before ...')
        """
        return never_fires(self, self.effective(asked, read_only=read_only, no_agent=no_agent))

    def check(self, settings: Mapping[str, Setting]) -> None:
        """Refuse settings that the policy does not accept.

        Args:
            settings: The settings of an agent or a grid, by name.

        Raises:
            SettingError: if the policy does not accept a value.
        """
        for name, value in settings.items():
            check_setting(name, value)
        if self.cap.zero == "invalid" and settings.get("max_steps") == 0:
            msg = f"max_steps=0 is not valid under {self.name}: expected an integer >= 1, or None for no limit"
            raise SettingError(msg, "max_steps")

    def rule(self, settings: Mapping[str, int | None]) -> StopRule | None:
        """The stop rule at a boundary.

        Args:
            settings: The result of `effective`.

        Returns:
            The rule, an alternative of the limits in order of `precedence`; None if there is no limit.
        """
        return _rule(self, tuple(settings.items()), "boundary")

    def response_rule(self, settings: Mapping[str, int | None]) -> StopRule | None:
        """The stop rule at a response, before its calls are executed.

        Its counters include the response and its calls. Besides the counters of a boundary it reads `responses`,
        `tool_steps` and `supersteps`.

        Args:
            settings: The result of `effective`.

        Returns:
            The rule, as that of `rule`.
        """
        return _rule(self, tuple(settings.items()), "response")

    @property
    def precedence(self) -> tuple[str, ...]:
        """The names of all limits in the order of their evaluation: `order`, then the others."""
        return _precedence(self.order)

    def limit(self, name: str, value: int | None, place: LimitCheck) -> tuple[StopRule, ...]:
        """The rules of one limit at one place: the parts of `rule` and `response_rule`.

        Args:
            name: One of `precedence`.
            value: The effective setting, for `max_steps`, `tool_budget` and `doom_loop`; else None.
            place: The boundary, or the response.

        Returns:
            The rules in order; none if the limit is off or is evaluated elsewhere.

        Example:
            >>> import boolab as bl
            >>> policy = bl.Policy(name="p").vary(cap={"check": "response", "ceiling": None})
            >>> policy.limit("max_steps", 3, "boundary"), [str(r) for r in policy.limit("max_steps", 3, "response")]
            ((), ['max_responses(3)'])
        """
        return _limit(self, name, value, place)

    @property
    def seen(self) -> tuple[str, ...]:
        """The axes by which the model or the user gets information about limits and guards before the stop.

        A text-only answer under a cap of 0 is not among them: nothing comes before that stop.

        Example:
            >>> import boolab as bl
            >>> bl.Policy(name="p").vary(last_step={"reminder": "turns_left"}).seen
            ('reminder',)
        """
        actions = {action for _, action in chain.from_iterable(guard.ladder for guard in self.detectors.guards)}
        text_ends = bool(self.finish.conditions) and {*self.finish.conditions} <= {"no_calls", "no_new_input"}
        axes = {
            "last_step": self.last_step.action != "tools" or self.cap.kind == "soft",
            "reminder": self.last_step.reminder != "none",
            "continues_by": self.continues.times != 0
            and (self.continues.by == "ask" or (self.continues.by == "loop" and self.continues.message)),
            "compaction": self.compaction is not None,
            "guards": bool(actions & {"nudge", "ask", "block"}),
            "idle": self.finish.idle != "again" and not text_ends,
        }
        return tuple(name for name, true in axes.items() if true)

    @property
    def unseen(self) -> bool:
        """Whether no limit or guard changes a request before the stop, so that recordings are exact."""
        return not self.seen

    def end_of(self, run: Run) -> str:
        """The harness's own word for the end of a run; without one, the stop reason or the kind of error.

        Args:
            run: A run under this policy.

        Returns:
            The word, such as `MaxTurnsExceeded`.

        Example:
            >>> import boolab as bl
            >>> look = {"tool_calls": [{"name": "ls"}], "repeat": "forever"}
            >>> endless = bl.ScriptedModel([look], tools={"ls": "a file"})
            >>> bl.policies["openai_agents"].end_of(bl.run_sync(None, "go", model=endless, policy="openai_agents"))
            'MaxTurnsExceeded'
        """
        words, stop = dict(self.about.own_words), run.stop
        kind = (run.error or "").partition(":")[0] if stop.reason == "error" else (stop.rule or "").partition(" ")[0]
        limit = (stop.threshold or 1) - 1
        keys = (f"{stop.reason}, {kind}", f"{stop.reason}, {'odd' if limit % 2 else 'even'} cap", stop.reason)
        usual = kind if stop.reason == "error" else stop.reason
        return next((words[key] for key in keys if key in words), usual)

    def __hash__(self) -> int:
        # A few of the fifty fields are enough: every run computes the hash.
        return hash((self.name, self.cap.max_steps, self.cap.ceiling, self.order))

    def __str__(self) -> str:
        return self.name

    def _document_(self) -> Document:
        about = self.about
        rows = [("loop style", about.loop_style), ("finish guard", about.finish_guard), ("weakness", about.weakness)]
        known_rows = [row for row in rows if row[1]]
        return Document(
            title=self.name,
            lead=[Facts(describe_limits(self.effective({}), self.cap.ceiling))],
            table=Table(["", "how it works"], known_rows) if known_rows else None,
            paragraphs=[Facts([about.source])],
            footer="bl.compare_policies(policy, another) shows where two differ; policy.vary(...) makes a variant",
            card=True,
        )


@functools.cache
def _precedence(order: tuple[str, ...]) -> tuple[str, ...]:
    other_limits = tuple(name for name in _OTHER_LIMITS if name not in order)
    return (*order, *other_limits, *(() if "max_steps" in order else ("max_steps",)))


@functools.lru_cache(maxsize=1024)
def _rule(policy: Policy, settings: tuple[tuple[str, int | None], ...], check: LimitCheck) -> StopRule | None:
    """The rule of settings in order of precedence; cached because a sweep needs the same few many times."""
    values = dict(settings)
    rules = [*chain.from_iterable(_limit(policy, name, values.get(name), check) for name in policy.precedence)]
    if len(rules) > 1:
        return AnyOf(tuple(rules))
    return rules[0] if rules else None


@functools.lru_cache(maxsize=4096)
def _limit(policy: Policy, name: str, value: int | None, check: LimitCheck) -> tuple[StopRule, ...]:
    """The rules of one limit at one place; cached because a grid has many settings of few values."""
    return tuple(_limits(policy, name, value, check))


def _limits(policy: Policy, name: str, value: int | None, check: LimitCheck) -> Iterator[StopRule]:
    if name == "max_steps":
        is_off = policy.cap.kind == "soft" or "max_steps" not in policy.order
        yield from policy.cap.rules(None if is_off else value, check)
    elif name == "tool_budget" and value is not None:
        if policy.budgets.batch == "overshoot" and check == "boundary":
            yield tool_budget(value)
        elif policy.budgets.batch == "reject" and check == "response":
            yield Threshold("tool_budget", "tool_calls", value + 1, f"tool_budget({value}, whole batches)")
    elif name == "doom_loop" and value is not None and check == "boundary":
        yield policy.detectors.repeat_rule(value)
    elif name == "guards" and check == "boundary":
        yield from (guard.rule for guard in policy.detectors.guards if guard.rule is not None)
    elif name in ("token_budget", "cost_budget"):
        yield from policy.budgets.rules(name, check)
    elif name == "time_budget" and policy.budgets.seconds is not None and check == "boundary":
        yield max_time(policy.budgets.seconds, policy.budgets.on_unknown)


def check_setting(name: str, value: object) -> None:
    """Raise `SettingError` unless the setting called `name` accepts `value`."""
    minimum = LIMITS[name].min_value
    if value is None or value is DEFAULT:
        return
    if not is_whole(value) or value < minimum:
        msg = f"{name}: {repr_of(value)} is not accepted; expected an integer >= {minimum}, or none for no limit"
        raise SettingError(msg, name)
    if value > MAX_COUNT:
        msg = f"{name}: the number is too large; expected an integer <= {MAX_COUNT:,}, or none for no limit"
        raise SettingError(msg, name)


def _check_continues(policy: Policy) -> None:
    """Refuse a turn that would never end, and settings that have no effect with a cap at the response."""
    continues, cap = policy.continues, policy.cap
    if continues.times is None and continues.by == "loop" and continues.counters == "fresh":
        raise SettingError(
            f"policy {policy.name}: continues.times=None never ends with continues.by='loop' and "
            "continues.counters='fresh': expected a number of times, or 'kept'"
        )
    at_response = cap.check == "response" or cap.counts in ("tool_steps", "supersteps")
    if "max_steps" not in policy.order or not at_response:
        return
    for path, works in (
        ("continues.by", continues.times == 0 or continues.by == "user"),
        ("last_step.action", policy.last_step.action != "grace"),
    ):
        if not works:
            raise SettingError(
                f"policy {policy.name}: {path}={policy.value(path)!r} needs a cap at the boundary, but "
                f"cap.check={cap.check!r} and cap.counts={cap.counts!r} evaluate it at the response"
            )


def _names(kind: type[Policy | FieldGroup]) -> tuple[str, ...]:
    """The names of a dataclass's fields."""
    return tuple(item.name for item in fields(kind))


PATHS: Final = tuple(
    chain.from_iterable(
        [f"{name}.{part}" for part in _names(GROUPS[name])] if name in GROUPS else [name] for name in _names(Policy)
    )
)
"""The paths of all fields: those of the policy itself, and `group.field`."""


def default_settings(policy: Policy, tool_budget: int | None) -> dict[str, int | None]:
    """The limits under a policy of an agent that sets none, by the names of `AGENT_LIMITS`."""
    return {"max_steps": policy.cap.max_steps, "tool_budget": tool_budget, "doom_loop": policy.detectors.doom_loop}
