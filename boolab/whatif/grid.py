"""Grids of settings: the axes that `counterfactual` knows, and the thresholds on them.

| axis and column | stop reason    | counter       | unit    |
|-----------------|----------------|---------------|---------|
| `max_steps`     | `step_cap`     | steps         | steps   |
| `tool_budget`   | `tool_budget`  | tool_calls    | calls   |
| `doom_loop`     | `doom_loop`    | repeat_streak | calls   |
| `error_streak`  | `error_streak` | error_streak  | calls   |
| `max_tokens`    | `token_budget` | tokens        | tokens  |
| `max_cost`      | `cost_budget`  | cost          | dollars |
| `max_time`      | `time_budget`  | elapsed       | seconds |

A value of None is *off*, and so is an axis that is not in the grid. An axis applies to every agent, each on its own
counters. `max_steps@scout` replaces `max_steps` for the runs of the agent `scout`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from boolab.core.types import Identities, StopReason
from boolab.errors import SettingError, near
from boolab.frames.dtypes import Cell, is_missing
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.io.checks import repr_of
from boolab.limits.catalog import RULES, ceiling
from boolab.limits.detector import Detector
from boolab.limits.stop import StopRule, Threshold
from boolab.limits.table import COST_AHEAD, LIMITS
from boolab.whatif.policy_limits import (
    AXIS_OF,
    NEVER,
    Extension,
    PolicyLimit,
    changes_ahead,
    check_identified,
    extension_of,
    goes_on_after,
    intervenes,
    own_limits,
    thresholds_of,
)
from boolab.whatif.step_table import Ints

Grid: TypeAlias = Mapping[str, Iterable[Any]]

MAX_SETTINGS: Final = 5_000_000
_MAX_TABLE: Final = 4_000_000
_MAX_THRESHOLD: Final = 1 << 61
MAX_AXES: Final = 12
"""How many axes there can be at once: their places at a boundary, or a response, are distinguished by four bits."""


@dataclass(frozen=True, slots=True)
class GridAxis:
    """One setting and its values, from tight to loose."""

    name: str  # the setting
    rules: tuple[Threshold, ...]  # the rule of each value that is not off, in order
    values: tuple[Any, ...]  # the values, in the user's units; None, if it is there, comes last
    # 1 if the policy changes the request of the last step under the cap, so that a recording shows nothing from the
    # boundary before that step on; else 0
    ahead: int = 0
    # Likewise, the rule of each value that is evaluated at the response, before its calls are executed; empty if there
    # are none
    responses: tuple[Threshold, ...] = ()
    goes_on: bool = False  # whether the turn continues after such a stop, in a way that a recording does not show
    alone: bool = False  # whether it is evaluated after all others at its place, so that it is never true beside one
    plain_zero: bool = False  # whether a cap of 0 is one like any other, and the model gets no request
    agent: str = ""  # the only agent that it applies to; "" for all of them
    but_for: tuple[str, ...] = ()  # the agents that have an axis of this name of their own
    # how the cap grows; None if it does not, or in a way that a recording does not show
    extension: Extension | None = None

    @property
    def key(self) -> str:
        """Its key in the grid and its column in tables."""
        return f"{self.name}@{self.agent}" if self.agent else self.name

    def holds_for(self, agents: Iterable[str]) -> list[bool]:
        """Whether it applies to the runs of each of these agents."""
        return [agent == self.agent if self.agent else agent not in self.but_for for agent in agents]

    @property
    def reason(self) -> StopReason:
        """The stop reason of its rules."""
        return next((rule.reason for rule in (*self.rules, *self.responses)), "step_cap")

    @property
    def counter(self) -> str:
        """The counter that its rules read."""
        return self.rules[0].counter if self.rules else "steps"

    @property
    def size(self) -> int:
        """The number of values that are not off at the boundary."""
        return len(self.rules)

    @property
    def response_axis(self) -> GridAxis | None:
        """The axis as it is evaluated at the response; None if it is not."""
        if not self.responses:
            return None
        return GridAxis(self.name, self.responses, self.values, agent=self.agent, but_for=self.but_for)

    @property
    def is_text_only(self) -> bool:
        """Whether the tightest value is a cap of 0: one answer without tools, which no recording with tools holds."""
        return self.name == "max_steps" and bool(self.rules) and self.rules[0].threshold == 0 and not self.plain_zero

    @property
    def is_open_ended(self) -> bool:
        """Whether the model's request changes from its stops on, or from the boundary before."""
        return bool(self.ahead) or self.goes_on

    def count_reached(self, counts: Ints) -> Ints:
        """How many of the thresholds each count has reached; 0 where it is unknown."""
        thresholds = np.array([rule.threshold - self.ahead for rule in self.rules], dtype=np.int64)
        top = int(thresholds[-1]) if self.size else 0
        if not 0 <= top < _MAX_TABLE:
            return np.where(counts < 0, 0, np.searchsorted(thresholds, counts, side="right"))
        table = np.searchsorted(thresholds, np.arange(top + 1), side="right")
        counts_reached: Ints = table.take(counts, mode="clip")
        if len(counts) and counts.min() < 0:
            counts_reached[counts < 0] = 0
        return counts_reached


@dataclass(frozen=True, slots=True)
class Settings:
    """A checked grid."""

    # its axes in order of precedence, and one of a single value for each further limit of its policy
    axes: tuple[GridAxis, ...]
    named: tuple[str, ...]  # the names of its axes in the user's order
    # the policy with the order of precedence, and with more limits and guards than the axes
    policy: Policy | None = None

    @property
    def count(self) -> int:
        """The number of settings."""
        return prod(len(axis.values) for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each axis, off always included."""
        return tuple(axis.size + 1 for axis in self.axes)

    @property
    def checks_responses(self) -> bool:
        """Whether a limit is evaluated at the response."""
        return any(axis.responses for axis in self.axes)

    @property
    def is_plain(self) -> bool:
        """Whether all limits are evaluated at boundaries, and nothing happens except stops, as aggregates require."""
        wide = self.intervenes or self.checks_responses or bool(self.agents) or self.has_extension
        return bool(self.axes) and not wide and not any(axis.goes_on for axis in self.axes)

    @property
    def agents(self) -> list[str]:
        """The agents that have an axis of their own."""
        return [*dict.fromkeys(axis.agent for axis in self.axes if axis.agent)]

    @property
    def is_silent(self) -> bool:
        """Whether no stop changes a request before it, so that what is saved is certain."""
        changes = self.intervenes or self.announces
        return not changes and not any(axis.is_open_ended or axis.is_text_only for axis in self.axes)

    @property
    def has_extension(self) -> bool:
        """Whether a cap grows."""
        return any(axis.extension is not None for axis in self.axes)

    @property
    def announces(self) -> bool:
        """Whether the model gets a message where a cap grows."""
        return any(axis.extension is not None and axis.extension.message for axis in self.axes)

    @property
    def is_ordered(self) -> bool:
        """Whether a larger value of an axis never stops a run earlier. A cap that grows on a condition may."""
        return all(axis.extension is None or axis.extension.unless is None for axis in self.axes)

    @property
    def places(self) -> Ints:
        """The place of each setting's value on each axis: axes x settings, the last axis fastest."""
        shape = [len(axis.values) for axis in self.axes]
        return np.indices(shape).reshape(len(shape), -1)

    @property
    def intervenes(self) -> bool:
        """Whether the policy may send the model messages during a turn, or act on its calls."""
        return self.policy is not None and intervenes(self.policy)

    def detectors(self) -> list[Detector]:
        """The detectors that its rules need."""
        conditions = (axis.extension.unless for axis in self.axes if axis.extension is not None)
        return detectors_of([*self.first_rules(), *conditions])

    def first_rules(self) -> list[Threshold]:
        """A rule of each axis at each of its places: all others of the place differ in the threshold alone."""
        return list(chain.from_iterable((*axis.rules[:1], *axis.responses[:1]) for axis in self.axes))


def detectors_of(rules: Iterable[StopRule | None]) -> list[Detector]:
    """The detectors of rules, each once; None is no limit. `SettingError` for a rule that no recording decides."""
    limits = [rule for rule in rules if rule is not None]
    for leaf in chain.from_iterable(rule.leaves() for rule in limits):
        if leaf.counter == COST_AHEAD:
            msg = f"{leaf} depends on what a request might have cost, which no recording has: leave out hard=True"
            raise SettingError(msg)
    return [*dict.fromkeys(chain.from_iterable(rule.detectors() for rule in limits))]


def settings_of(grid: Grid, policy: str | Policy | None = None, identity: Identities | None = None) -> Settings:
    """The settings of a grid: the values of each axis, by name; `name@agent` for the runs of one agent alone.

    The order of precedence and the identity are those of the policy. Without one: cap, doom loop, budget, then the
    others; identity canonical. `identity` overrides the policy's.
    """
    preset = None if policy is None else get_policy(policy)
    identities: Identities = (
        identity if identity is not None else "canonical" if preset is None else preset.detectors.identity
    )
    agents = _agents_by_axis(grid)
    axes_by_name: dict[str, list[GridAxis]] = {}
    for name in RULES:
        for agent in agents.get(name, ()):
            axis = _axis(name, grid[f"{name}@{agent}" if agent else name], identities, preset)
            other_agents = () if agent else tuple(named_agent for named_agent in agents[name] if named_agent)
            axes_by_name.setdefault(name, []).append(replace(axis, agent=agent, but_for=other_agents))
    if preset is None:
        axes = list(chain.from_iterable(axes_by_name.values()))
    else:
        check_identified(preset, axes_by_name)
        for axis in axes_by_name.get("max_steps", ()):
            for value in axis.values:
                preset.check({"max_steps": value})
        policy_limits = own_limits(preset, axes_by_name, settings=False)
        axes = _order_axes(preset, axes_by_name, [_own_axis(preset, limit) for limit in policy_limits])
    return _check_settings(Settings(tuple(axes), tuple(grid), preset))


def _agents_by_axis(grid: Grid) -> dict[str, list[str]]:
    """The agents of each axis of a grid, "" for all of them."""
    accepted_names = f"accepted: {', '.join(RULES)}, and each of them as name@agent for the runs of one agent"
    if not grid:
        raise SettingError(f"grid: it has no axes; {accepted_names}")
    agents_by_axis: dict[str, list[str]] = {}
    for key in grid:
        name, separator, agent = str(key).partition("@")
        if name not in RULES or (separator and not agent):
            raise SettingError(f"grid: there is no axis {key!r}{near(key, list(RULES)) or f'; {accepted_names}'}")
        agents_by_axis.setdefault(name, []).append(agent)
    return agents_by_axis


def settings_of_policy(policy: str | Policy) -> Settings:
    """The one setting of a policy as it comes; a `SettingError`, which names the axis, if it is not identified."""
    preset = get_policy(policy)
    limits = list(own_limits(preset, (), settings=True))
    check_identified(preset, {limit.name for limit in limits})
    return _check_settings(
        Settings(tuple(_order_axes(preset, {}, [_own_axis(preset, limit) for limit in limits])), (), preset)
    )


def _order_axes(
    policy: Policy, axes_by_name: Mapping[str, Sequence[GridAxis]], policy_axes: Sequence[GridAxis]
) -> list[GridAxis]:
    """Axes in a policy's order of precedence: those that it does not have come after its guards."""
    order = list(policy.order if "guards" in policy.order else (*policy.order, "guards"))
    order = [AXIS_OF.get(name, name) for name in order]
    order += [name for name in RULES if name not in order]
    axes: list[GridAxis] = []
    for name in order:
        axes += [*axes_by_name.get(name, ()), *(axis for axis in policy_axes if axis.name == name)]
    # What comes before the last step is evaluated before its request is changed.
    return sorted(axes, key=lambda axis: axis.ahead)


def _check_settings(settings: Settings) -> Settings:
    if settings.count > MAX_SETTINGS:
        largest_axis = max(settings.axes, key=lambda axis: len(axis.values))
        name = f"{largest_axis.name}@{largest_axis.agent}" if largest_axis.agent else largest_axis.name
        raise SettingError(
            f"grid: {settings.count:,} settings are too many; expected at most {MAX_SETTINGS:,}: give fewer values of "
            f"{name}, which has {len(largest_axis.values):,}"
        )
    if len(settings.axes) > MAX_AXES:
        raise SettingError(f"{len(settings.axes)} limits are too many at once; expected at most {MAX_AXES}")
    return settings


def _own_axis(policy: Policy, limit: PolicyLimit) -> GridAxis:
    """The axis of one value for a further limit of a policy."""
    name, value = AXIS_OF.get(limit.name, limit.name), (limit.rule.threshold,)
    if limit.place == "response":
        return GridAxis(name, (), value, responses=(limit.rule,), alone=limit.alone)
    boundaries_ahead = changes_ahead(policy, name) if limit.closes else 0
    is_ceiling = policy.cap.ceiling is not None and limit.rule == next(ceiling(policy.cap.ceiling).leaves())
    highest = policy.cap.ceiling if policy.cap.counts == "steps" else None  # it counts steps
    return GridAxis(
        name,
        (limit.rule,),
        value,
        boundaries_ahead,
        goes_on=goes_on_after(policy, name),
        plain_zero=True,
        extension=None if is_ceiling else extension_of(policy, name, highest),
    )


def _axis(name: str, values: Iterable[Any], identity: Identities, policy: Policy | None) -> GridAxis:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise SettingError(f"grid: {name}={values!r}: expected a list of values, such as [5, 10, None]")
    cell_values = [None if is_missing(value) else value for value in values]
    if not cell_values:
        raise SettingError(f"grid: {name} has no values; leave the axis out to turn it off")
    rule_by_threshold: dict[
        int, tuple[Threshold, Any]
    ] = {}  # of two values with one threshold, such as 5 and 5.0, the last stays
    for value in cell_values:
        if value is not None:
            rule = _rule(name, value, identity, policy)
            rule_by_threshold[rule.threshold] = rule, value
    tight_to_loose = [rule_by_threshold[threshold] for threshold in sorted(rule_by_threshold)]
    off_values = (None,) if None in cell_values else ()
    rules = tuple(rule for rule, _ in tight_to_loose)
    all_values = (*(value for _, value in tight_to_loose), *off_values)
    if policy is None or name in ("doom_loop", "error_streak"):
        return GridAxis(name, rules, all_values, goes_on=policy is not None and goes_on_after(policy, name))
    # Dollars and seconds as they are given, all else as the whole number that it is.
    pairs = [
        thresholds_of(policy, name, value if LIMITS[name].fractions else rule.threshold)
        for rule, value in tight_to_loose
    ]
    at_boundary, at_response = (_fill_rules([pair[check_index] for pair in pairs]) for check_index in (0, 1))
    boundaries_ahead, goes_on = changes_ahead(policy, name), goes_on_after(policy, name)
    return GridAxis(
        name,
        at_boundary,
        all_values,
        boundaries_ahead,
        at_response,
        goes_on,
        plain_zero=policy.cap.zero != "text_only",
        extension=extension_of(policy, name, None) if at_boundary else None,
    )


def _fill_rules(rules: Sequence[Threshold | None]) -> tuple[Threshold, ...]:
    """The rules at one place, one for each value; none if there are none at all."""
    example = next((rule for rule in rules if rule is not None), None)
    if example is None:
        return ()
    return tuple(replace(example, threshold=NEVER) if rule is None else rule for rule in rules)


def _rule(name: str, value: Cell, identity: Identities, policy: Policy | None) -> Threshold:
    if isinstance(value, float) and value.is_integer() and not LIMITS[name].fractions:
        value = int(value)  # a column with NA in it holds whole numbers as floats
    if name == "doom_loop" and policy is not None:
        rule = policy.detectors.repeat_rule(value, identity)
    else:
        rule = RULES[name](value, *([identity] if name == "doom_loop" else []))
    leaf = next(rule.leaves())
    if leaf.threshold > _MAX_THRESHOLD:
        raise SettingError(f"grid: {name}={repr_of(value)} is too large; None is off")
    return leaf
