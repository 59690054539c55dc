"""What a sweep that is done has found, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boolab.core.text import count


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the runs of one setting came to.

    `share` is the share of successes, in which each task counts once; `cost` is the mean cost in dollars where it is
    known, `steps` the mean number of steps.
    """

    name: str
    successes: int
    labelled: int
    share: float
    steps: float
    cost: float | None

    @property
    def spent(self) -> float:
        """What a run takes: its cost where that is known, else its steps."""
        return self.steps if self.cost is None else self.cost

    def spent_text(self) -> str:
        """What a run takes, in words."""
        return f"{self.steps:,.1f} steps" if self.cost is None else f"${self.cost:,.2f}"


def verdict_of(outcomes: Sequence[Outcome]) -> str:
    """The setting with the most successes, and the best of those that take less.

    Example:
        >>> loose = Outcome("no step cap", 41, 60, 41 / 60, 56.7, 5.93)
        >>> tight = Outcome("step cap 40", 24, 60, 24 / 60, 39.1, 2.94)
        >>> verdict_of([tight, loose])
        'Most successes: no step cap, 41 of 60 runs for $5.93 a run. Next for less: step cap 40, 24 of 60 for $2.94.'
    """
    if len(outcomes) < 2:  # noqa: PLR2004 - nothing to compare
        return ""
    if any(one.cost is None for one in outcomes) and any(one.cost is not None for one in outcomes):
        return ""  # what a run takes cannot be compared
    best = max(outcomes, key=lambda one: (one.share, -one.spent))
    if best.share == 0:
        return f"No setting has a success; the least is spent with {min(outcomes, key=lambda one: one.spent).name}."
    share = f"{best.successes:,} of {count(best.labelled, 'run')}"
    head = f"Most successes: {best.name}, {share} for {best.spent_text()} a run."
    less = [one for one in outcomes if one.spent < best.spent]
    if not less:
        return f"{head} No other setting takes less."
    other = max(less, key=lambda one: (one.share, -one.spent))
    if other.share == 0:
        return f"{head} Settings that take less have no success."
    tail = f"{other.name}, {other.successes:,} of {other.labelled:,} for {other.spent_text()}."
    return f"{head} Next for less: {tail}"
