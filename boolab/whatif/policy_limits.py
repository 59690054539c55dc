"""A policy as counterfactuals evaluate it: its limits as thresholds, and what it does before a stop.

A recording shows what a limit would have done as long as the model would not have noticed it. If the model got the same
messages at the same places, a recording is as informative about a policy as about one that sends none. Where the policy
would have sent something else, what would have followed is not known. A policy that changes requests from the first
one on is refused here. `first_crossing` has where caps that the loop lets grow stop recordings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Final, NamedTuple

from boolab.core.endings import has_boundary
from boolab.core.events import compactions_of
from boolab.core.run import Run
from boolab.core.types import Step
from boolab.errors import SettingError
from boolab.frames.dtypes import Cell
from boolab.frames.runs import turns_of
from boolab.harnesses.groups import LimitCheck
from boolab.harnesses.policy import Policy
from boolab.limits.catalog import max_steps
from boolab.limits.ladder import LadderState, response_counter
from boolab.limits.stop import StopRule, Threshold
from boolab.limits.table import BUDGETS, LIMITS

AXIS_OF: Final[Mapping[str, str]] = {LIMITS[name].reason: name for name in BUDGETS}
"""The axis of a grid for a policy's limit, where it has another name."""
LIMIT_OF: Final[Mapping[str, str]] = {axis: limit for limit, axis in AXIS_OF.items()}
"""The policy's limit for such an axis."""
FIELD_OF: Final[Mapping[str, str]] = {limit: BUDGETS[axis] for limit, axis in AXIS_OF.items()}
"""The field of `Budgets` that holds such a limit."""
NEVER: Final = 1 << 62
"""A threshold that no counter reaches."""


class PolicyLimit(NamedTuple):
    """One rule of a policy without an axis in a grid, and where it is evaluated.

    `alone`: it is evaluated after all others at its place, so that it never fires together with another. `closes`: the
    request before it is changed.
    """

    name: str
    rule: Threshold
    place: LimitCheck
    alone: bool = False
    closes: bool = False


def check_identified(policy: Policy, axes: Collection[str]) -> None:
    """Raise `SettingError` if recordings do not identify the limits of these axes under the policy."""
    reason = ""
    if policy.compaction is not None:
        reason = (
            "compaction changes the requests, and no recording shows what the model would do then: expected one "
            "without, such as policy.vary(compaction=None)"
        )
    elif policy.last_step.reminder != "none":
        reason = (
            f"last_step.reminder={policy.last_step.reminder!r} changes every request, so that a recording "
            "shows nothing about another limit: expected 'none'"
        )
    elif policy.budgets.batch == "cut" and "tool_budget" in axes:
        reason = (
            "budgets.batch='cut' executes a part of a batch, and the model then answers differently: expected "
            "'overshoot' or 'reject', or no tool budget"
        )
    if reason:
        raise SettingError(f"policy {policy.name}: {reason}")


def thresholds_of(policy: Policy, axis: str, value: Cell) -> tuple[Threshold | None, Threshold | None]:
    """The rules for a value of an axis, not None, under a policy: at the boundary, and at the response."""
    name = LIMIT_OF.get(axis, axis)
    if axis == "max_steps" and value == 0:
        if policy.cap.zero in ("unlimited", "default"):
            meaning = "no limit" if policy.cap.zero == "unlimited" else f"the default, {policy.cap.max_steps}"
            msg = f"grid: max_steps=0 is {meaning}, under {policy.name}: expected an integer >= 1, or None for no limit"
            raise SettingError(msg)
        if policy.cap.zero == "text_only":
            return next(max_steps(0).leaves()), None
    free = policy.vary(cap={"ceiling": None})
    if name in AXIS_OF:
        free, value = free.vary(budgets={FIELD_OF[name]: value}), None
    at_boundary, at_response = (
        next((next(rule.leaves()) for rule in free.limit(name, value, check)), None)
        for check in ("boundary", "response")
    )
    if axis == "max_steps" and (policy.last_step.action != "tools" or policy.cap.kind == "soft"):
        at_boundary = next(max_steps(value).leaves())
    return at_boundary, at_response


def own_limits(policy: Policy, axes: Collection[str], *, settings: bool) -> Iterator[PolicyLimit]:
    """The limits of a policy without an axis in a grid, in order of precedence; with `settings`, its defaults too."""
    defaults = policy.effective({}, no_agent=True) if settings else {}
    limited = policy if settings else policy.vary(cap={"ceiling": None})
    cap = defaults.get("max_steps")
    if settings and cap is not None and (policy.last_step.action != "tools" or policy.cap.kind == "soft"):
        limited = policy.vary(cap={"ceiling": None})
        yield PolicyLimit(
            "max_steps", next(max_steps(min(cap, policy.cap.ceiling or cap)).leaves()), "boundary", closes=True
        )
        defaults["max_steps"] = None
    for name in policy.precedence:
        if AXIS_OF.get(name, name) in axes:
            continue
        for check in ("boundary", "response"):
            for rule in limited.limit(name, defaults.get(name), check):
                yield PolicyLimit(name, next(rule.leaves()), check)
    for guard in policy.detectors.guards:
        threshold = next((threshold for threshold, action in guard.ladder if action == "stop"), None)
        if guard.check == "response" and threshold is not None:
            rule = guard.at(threshold)
            yield PolicyLimit("guards", replace(rule, counter=response_counter(rule.counter)), "response", alone=True)


def has_response_guards(policy: Policy) -> bool:
    """Whether the policy has guards that are evaluated at the response."""
    return any(guard.check == "response" for guard in policy.detectors.guards)


AS_RECORDED, AT_RESPONSE, AFTERWARDS = 0, 1, 2
"""What a policy would have done at a step: nothing else than the recording holds; acted on its calls before they were
executed; sent a message, or changed the request, before the next step."""
_HELD_BACK: Final = ("exactly_one", "rejected")


def intervenes(policy: Policy) -> bool:
    """Whether the policy may send the model messages during a turn, or act on its calls.

    Example:
        >>> import boolab as bl
        >>> intervenes(bl.policies["boocode"]), intervenes(bl.policies["openhands"])
        (False, True)
    """
    return "idle" in policy.seen or any(guard.check == "call" or guard.intervenes for guard in policy.detectors.guards)


def divergences(policy: Policy, run: Run, *, turns: bool = True) -> list[int]:
    """For each step of a run, whether the policy would have intervened in a way that the recording does not hold.

    Where a run ends by itself is the recording's, and so is how its calls were executed. Counters start again in each
    turn with `turns`. Each value is `AS_RECORDED`, `AT_RESPONSE` or `AFTERWARDS`.
    """
    parts = [steps for _, steps in turns_of(run)] if turns else [list(run.steps)]
    recorded_messages: dict[int, list[str]] = {}
    for step_index, message in run.inputs:
        recorded_messages.setdefault(step_index, []).append(message.text)
    return list(chain.from_iterable(_turn_counts(policy, run, steps, recorded_messages) for steps in parts))


def _turn_counts(policy: Policy, run: Run, steps: Sequence[Step], recorded_messages: dict[int, list[str]]) -> list[int]:
    guards = [guard for guard in policy.detectors.guards if guard.check == "call" or guard.intervenes]
    at_call = [guard for guard in guards if guard.check == "call"]
    at_boundary = [guard for guard in guards if guard.check == "boundary"]
    ladder = LadderState(tuple(dict.fromkeys(guard.watch for guard in guards)), at_call, at_boundary, per_turn=False)
    compacted = compactions_of(run)
    codes: list[int] = []
    for step in steps:
        ladder.add_recorded_compactions(step, compacted)
        calls = () if step.broke_off else step.response.tool_calls  # what broke off was never evaluated
        acts = any(level.action != "shadow" for level in ladder.replay_calls(step.response, range(len(calls))))
        ladder.messages.clear()
        if step.counted:
            ladder.apply(step)
        follows = step is not steps[-1] or has_boundary(run, step)
        sent_texts: list[str | None] = [text for _, text in ladder.messages]
        if follows and _is_idle(policy, step):
            sent_texts.append(policy.finish.idle_prompt if policy.finish.idle == "prompt" else None)
        recorded_here = recorded_messages.get(step.index + 1, [])
        differs = follows and any(text not in recorded_here for text in sent_texts)
        codes.append(AT_RESPONSE if acts else AFTERWARDS if differs else AS_RECORDED)
    return codes


def _is_idle(policy: Policy, step: Step) -> bool:
    """Whether the policy counts the step as one without calls."""
    if "idle" not in policy.seen or step.error:
        return False
    held_back = policy.execution.calls in _HELD_BACK or policy.execution.unknown_tools in _HELD_BACK
    return not step.response.tool_calls or (held_back and not any(step.results))


@dataclass(frozen=True, slots=True)
class Extension:
    """How a cap grows: see `boolab.harnesses.groups.Continues`."""

    times: int | None  # how often; None for any number of times
    adds: int | None  # by how many steps; None: by as many as it had at first
    message: bool  # whether the model gets a message
    unless: StopRule | None  # it grows only where this rule is false; None: everywhere
    ceiling: int | None  # no cap is above it

    def levels(self, cap: int, top: int) -> list[int]:
        """The caps that a run may have in turn, up to the first above `top`, the largest count on record."""
        return list(self._levels(cap, top))

    def _levels(self, cap: int, top: int) -> Iterator[int]:
        adds = cap if self.adds is None else self.adds
        for time in count():
            level = cap + time * adds
            yield level if self.ceiling is None else min(level, self.ceiling)
            if time == self.times or level > top or not adds or (self.ceiling is not None and level >= self.ceiling):
                return


def changes_ahead(policy: Policy, name: str) -> int:
    """How many boundaries before its stop a cap changes a request."""
    changes = policy.last_step.action not in ("tools", "grace") and policy.last_step.in_cap
    return int(name == "max_steps" and (changes or policy.cap.kind == "soft"))


def goes_on_after(policy: Policy, name: str) -> bool:
    """Whether the policy sends the model one more request after a stop at that boundary."""
    extra_request = policy.last_step.action == "grace" or not policy.last_step.in_cap
    asks_only = policy.last_step.action == "prompt" or policy.cap.kind == "soft"
    extended = policy.continues.by == "loop" and policy.continues.times != 0
    as_recorded = extension_of(policy, name, None) is not None
    return extra_request or (name == "max_steps" and (asks_only or (extended and not as_recorded)))


def extension_of(policy: Policy, name: str, highest: int | None) -> Extension | None:
    """How the loop lets a cap grow, if a recording shows what happens until then."""
    grows = policy.continues
    closes = policy.cap.kind == "soft" or policy.last_step.action != "tools"
    if name != "max_steps" or grows.by != "loop" or grows.times == 0 or grows.counters == "fresh" or closes:
        return None
    return Extension(grows.times, grows.adds, grows.message, grows.unless, highest)
