"""The limits that can be set and varied, and what a run uses: one table of each.

All that lists limits, counters, stop reasons or units reads it here: grids, rules, exports, the hook, audits and costs.
What a harness calls a limit is in `boolab.harnesses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from boolab.core.types import MICRO


class Limit(NamedTuple):
    """A limit, such as a step cap."""

    name: str  # what grids, columns, agents and rules call it
    counter: str  # the counter that its rule reads
    reason: str  # the stop reason of a run that it stops
    label: str  # its name in sentences, tables and plots
    unit: str  # what its values count, in the plural
    meaning: str  # when it stops a run: the end of a sentence that begins with "It stops"
    min_value: int = 0  # the smallest value that is accepted
    # how many of the counter's units one of its own is: the counter `cost` is in micro-dollars, `elapsed` in
    # milliseconds
    per_unit: int = 1
    fractions: bool = False  # whether its values may be fractions
    value_format: str = "{:,}"  # how a sentence writes a value
    field: str = ""  # the field of an agent that sets it ("" for none)
    budget: str = ""  # the field of a policy's `Budgets` that sets it ("" for none)

    @property
    def option(self) -> str:
        """The option of commands that sets it."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def short_label(self) -> str:
        """The label without `threshold`."""
        return self.label.removesuffix(" threshold").replace("-", " ")

    @property
    def min_useful(self) -> int:
        """The smallest value that lets a run begin."""
        return max(1, self.min_value)

    def with_value(self, value: float) -> str:
        """The limit with a value, as a sentence has it."""
        return f"{'an' if self.label[0] in 'aeiou' else 'a'} {self.label} of {self.value_format.format(value)}"


_TABLE: Final = (
    Limit(
        "max_steps", "steps", "step_cap", "step cap", "steps", "after this many model responses", field="max_steps"
    ),
    Limit(
        "tool_budget", "tool_calls", "tool_budget", "tool budget", "tool calls",
        "once this many tool calls have been executed", field="tool_budget",
    ),
    Limit(
        "doom_loop", "repeat_streak", "doom_loop", "doom-loop threshold", "identical calls",
        "when the same call is made this many times in a row", min_value=2, field="doom_loop",
    ),
    Limit(
        "error_streak", "error_streak", "error_streak", "error-streak threshold", "failed calls",
        "when this many calls in a row have failed",
    ),
    Limit(
        "max_tokens", "tokens", "token_budget", "token budget", "tokens",
        "once this many tokens have been used, input and output together", budget="tokens",
    ),
    Limit(
        "max_cost", "cost", "cost_budget", "cost budget", "dollars", "once this many dollars have been spent",
        per_unit=MICRO, fractions=True, value_format="${:,}", budget="cost",
    ),
    Limit(
        "max_time", "elapsed", "time_budget", "time budget", "seconds", "at the first step after this many seconds",
        per_unit=1000, fractions=True, value_format="{:,} s", budget="seconds",
    ),
)  # fmt: skip

LIMITS: Final[Mapping[str, Limit]] = MappingProxyType({limit.name: limit for limit in _TABLE})
"""By name, in the order of tables and options."""

AGENT_LIMITS: Final = tuple(limit.name for limit in _TABLE if limit.field)
"""The limits that an agent has a field for: the step cap, the tool budget and the doom-loop threshold."""

BUDGETS: Final[Mapping[str, str]] = MappingProxyType({limit.name: limit.budget for limit in _TABLE if limit.budget})
"""The limits that a policy's `Budgets` have a field for, with the field."""

LIMIT_OF_REASON: Final[Mapping[str, str]] = MappingProxyType({limit.reason: limit.name for limit in _TABLE})
"""By stop reason, the limit that stops so."""


def describe_limits(settings: Mapping[str, int | None], ceiling: int | None) -> list[str]:
    """The limits of settings in words; None is no limit, but for the ceiling on steps."""
    return [
        f"{LIMITS[name].label} {value:,}"
        if value is not None
        else f"{LIMITS[name].label}: no limit{f' up to {ceiling:,}' if name == 'max_steps' and ceiling else ''}"
        for name, value in settings.items()
    ]


COUNTERS: Final = ("steps", "tool_calls", "input_tokens", "output_tokens", "tokens", "cost", "elapsed")
"""What rules read at a boundary, beside the counts of detectors."""

COST_AHEAD: Final = "cost_ahead"
"""What will be spent at least if one more request is sent, at its dearest: a counter of the live loop alone."""

RESPONSE_COUNTERS: Final = ("responses", "tool_steps", "supersteps")
"""Those that exist at a response alone: see `boolab.limits.ladder.projected`."""


MeasureName: TypeAlias = Literal["steps", "tool_calls", "tokens", "cost"]
MeasureColumn: TypeAlias = Literal["steps", "tool_calls", "tokens", "cost_usd"]


class Measure(NamedTuple):
    """Something that a run uses, and that a limit can save."""

    name: MeasureName  # the counter
    column: MeasureColumn  # its column in frames of runs and settings; `cost_usd` is in dollars
    singular: str  # one of it, in words
    plural: str  # several, in words
    label: str  # its name where an amount is named without its unit


MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        measure.name: measure
        for measure in (
            Measure("steps", "steps", "step", "steps", "steps"),
            Measure("tool_calls", "tool_calls", "tool call", "tool calls", "tool calls"),
            Measure("tokens", "tokens", "token", "tokens", "tokens"),
            Measure("cost", "cost_usd", "dollar", "dollars", "cost"),
        )
    }
)
"""What a run uses, by counter, from the smallest unit to the largest."""
OBJECTIVES: Final = tuple([*MEASURES][::-1])
"""What a recommendation can save most of, the largest unit first."""
