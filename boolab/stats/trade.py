"""What a success costs, with and without a rule, and whether what a rule saves is worth the successes that it loses.

A success that a rule loses can be had again: by more runs, at what a success costs on record. So a rule that saves more
for each success that it loses than a success costs leaves more successes for the same work: its *even trade* is above
1. This takes further runs to be like those on record, on tasks that are worth the same.
See docs/terms.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from boolab.display.numbers import money, percent
from boolab.frames.dtypes import FLOAT

TRADE: Final[Mapping[str, str]] = dict.fromkeys(
    (
        "steps_per_success",
        "steps_per_kept_success",
        "saved_steps_per_lost_success",
        "even_trade",
        "cost_per_success_usd",
        "cost_per_kept_success_usd",
    ),
    FLOAT,
)
"""The columns of a trade, and their types."""
BETTER_OFF: Final = "better left off"
"""What is advised where the trade is poor, in the answer of each command and widget."""


@dataclass(frozen=True, slots=True)
class Trade:
    """What a limit saves, and the successes that it loses for that.

    A limit gives up a larger share of the successes than of the steps when `saved / total < lost / successes`, which
    is `saved / lost < total / successes`: for each success that it loses it saves less than a success costs on record.
    Such a trade is poor: further runs cost more to win the lost successes back than the limit saves.

    `total`: what all runs use without it, in the same unit. `unit`: what is saved, in the plural, or "cost" for
    dollars. `counted`: what a success is one of, "run" or "turn"; "" to leave it out.
    """

    saved: float
    lost: int
    total: float
    successes: int
    unit: str = "steps"
    counted: str = ""

    @property
    def per_lost_success(self) -> float | None:
        """What is saved for each lost success; None when nothing is lost."""
        return _share(self.saved, self.lost)

    @property
    def per_success(self) -> float | None:
        """What a success costs on record; None if there is none."""
        return _share(self.total, self.successes)

    @property
    def is_poor(self) -> bool:
        """Whether a larger share of the successes is lost than of the steps is saved."""
        return self.saved * self.successes < self.lost * self.total

    @property
    def is_even(self) -> bool:
        """Whether the two shares are the same, and something is lost."""
        return self.lost > 0 and self.saved * self.successes == self.lost * self.total

    @property
    def sentence(self) -> str:
        """The trade in plain words; "" if there is no success on record."""
        if self.per_success is None:
            return ""
        if self.per_lost_success is None:
            return "No success is lost on record."
        of = f" of {self.counted}s" if self.counted else ""
        unit = f"in {'dollars' if self.unit == 'cost' else self.unit}{of}"
        if self.is_even:
            return f"The trade is even, {unit}: for each lost success it saves {self.costs}, as a success costs."
        word = "poor" if self.is_poor else "good"
        saves = f"it saves {self.each} for each lost success"
        return f"The trade is {word}, {unit}: {saves}, and a success costs {self.costs} on record."

    @property
    def each(self) -> str | None:
        """What is saved for each lost success, in words; None when nothing is lost."""
        value = self.per_lost_success
        return None if value is None else self._amount(value, self._digits)

    @property
    def costs(self) -> str | None:
        """What a success costs on record, in words; None if there is none."""
        value = self.per_success
        return None if value is None else self._amount(value, self._digits)

    @property
    def _digits(self) -> int:
        """As many as are needed to see which of the two is larger."""
        saved_each, costs = self.per_lost_success, self.per_success
        if saved_each is None or costs is None or self.is_even:
            return 0
        return 0 if round(saved_each) != round(costs) else 1 if round(saved_each, 1) != round(costs, 1) else 3

    @property
    def shares(self) -> str:
        """The two shares that are compared."""
        if not self.total or not self.successes:
            return ""
        saved, lost_share = percent(self.saved / self.total), percent(self.lost / self.successes)
        return f"{saved} of the {self.unit} for {lost_share} of the successes"

    def _amount(self, value: float, digits: int = 0) -> str:
        if self.unit == "cost":
            return money(value)
        number = f"{value:,.{digits}f}"
        return f"{number} {self.unit[:-1] if number == '1' else self.unit}"


def trade_of(
    *, steps: int, saved_steps: int, successes: int, kept: int, cost: float | None, saved_cost: float | None
) -> dict[str, float | None]:
    """The columns of `TRADE`, for one rule over some runs; None where they are not defined or not known."""
    steps_each, saved_per_lost = _share(steps, successes), _share(saved_steps, successes - kept)
    # One division of whole numbers: it is below 1 exactly where the trade is poor.
    even = saved_steps * successes / ((successes - kept) * steps) if saved_per_lost is not None and steps_each else None
    cost_known = cost is not None and saved_cost is not None
    return {
        "steps_per_success": steps_each,
        "steps_per_kept_success": _share(steps - saved_steps, kept),
        "saved_steps_per_lost_success": saved_per_lost,
        "even_trade": even,
        "cost_per_success_usd": _share(cost, successes) if cost is not None else None,
        "cost_per_kept_success_usd": _share(cost - saved_cost, kept) if cost_known else None,  # type: ignore[operator] # known
    }


def _share(amount: float, base: int) -> float | None:
    return amount / base if base else None
