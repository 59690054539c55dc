"""The limits that can be set and varied: one table of what each is called, what it counts and what values it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Axis(NamedTuple):
    """A limit, such as a step cap.

    Attributes:
        label: Its name in sentences, tables and plots.
        unit: What its values count, in the plural.
        meaning: When it stops a run: the end of a sentence that begins with "It stops".
        min_value: The smallest value that is accepted.
        fractions: Whether its values may be fractions.
        written: How a sentence writes a value.
    """

    label: str
    unit: str
    meaning: str
    min_value: int = 0
    fractions: bool = False
    written: str = "{:,}"

    @property
    def min_useful(self) -> int:
        """The smallest value that lets a run begin."""
        return max(1, self.min_value)

    def with_value(self, value: float) -> str:
        """The limit with a value, as a sentence has it.

        Example:
            >>> AXES["max_cost"].with_value(0.5), AXES["error_streak"].with_value(3)
            ('a cost budget of $0.5', 'an error-streak threshold of 3')
        """
        return f"{'an' if self.label[0] in 'aeiou' else 'a'} {self.label} of {self.written.format(value)}"


AXES: Final[Mapping[str, Axis]] = {
    "max_steps": Axis("step cap", "steps", "after this many model responses"),
    "tool_budget": Axis("tool budget", "tool calls", "once this many tool calls have been executed"),
    "doom_loop": Axis(
        "doom-loop threshold", "identical calls", "when the same call is made this many times in a row", min_value=2
    ),
    "error_streak": Axis("error-streak threshold", "failed calls", "when this many calls in a row have failed"),
    "max_tokens": Axis("token budget", "tokens", "once this many tokens have been used, input and output together"),
    "max_cost": Axis(
        "cost budget", "dollars", "once this many dollars have been spent", fractions=True, written="${:,}"
    ),
    "max_time": Axis(
        "time budget", "seconds", "at the first step after this many seconds", fractions=True, written="{:,} s"
    ),
}
"""By the name that grids, columns, agents and options use."""

SETTINGS: Final = ("max_steps", "tool_budget", "doom_loop")
"""The axes that an agent has a field for."""

AXIS_OF_REASON: Final[Mapping[str, str]] = {
    "step_cap": "max_steps",
    "tool_budget": "tool_budget",
    "doom_loop": "doom_loop",
    "token_budget": "max_tokens",
    "cost_budget": "max_cost",
    "time_budget": "max_time",
    "error_streak": "error_streak",
}
"""By stop reason, the limit that stops so."""
