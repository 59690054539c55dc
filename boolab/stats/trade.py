"""What a success costs, with and without a rule, and whether what a rule saves is worth the successes that it loses.

A success that a rule loses can be had again: by more runs, at what a success costs on record. So a rule that saves more
for each success that it loses than a success costs leaves more successes for the same work: its *even trade* is above
1. This takes further runs to be like those on record, on tasks that are worth the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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


def trade_of(
    *, steps: int, saved_steps: int, successes: int, kept: int, cost: float | None, saved_cost: float | None
) -> dict[str, float | None]:
    """The columns of `TRADE`, for one rule over some runs; None where they are not defined or not known.

    Args:
        steps: Those of all runs.
        saved_steps: Of them, those that the rule saves.
        successes: The number of runs that succeed.
        kept: Of them, those that the rule keeps for certain.
        cost: That of all runs, in any unit; None if it is not known for each.
        saved_cost: Of it, what the rule saves.

    Example:
        >>> found = trade_of(steps=1000, saved_steps=200, successes=50, kept=45, cost=None, saved_cost=None)
        >>> found["steps_per_success"], found["saved_steps_per_lost_success"], found["even_trade"]
        (20.0, 40.0, 2.0)
    """
    each, lost = _share(steps, successes), _share(saved_steps, successes - kept)
    known = cost is not None and saved_cost is not None
    return {
        "steps_per_success": each,
        "steps_per_kept_success": _share(steps - saved_steps, kept),
        "saved_steps_per_lost_success": lost,
        "even_trade": lost / each if lost is not None and each else None,
        "cost_per_success_usd": _share(cost, successes) if cost is not None else None,
        "cost_per_kept_success_usd": _share(cost - saved_cost, kept) if known else None,  # type: ignore[operator] # known
    }


def _share(amount: float, base: int) -> float | None:
    return amount / base if base else None
