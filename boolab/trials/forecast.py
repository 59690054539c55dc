"""How many more branches an answer is likely to take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from boolab.stats.finite_totals import total_sequence
from boolab.stats.intervals import Array
from boolab.trials.estimates import OpenTask

_DRAWS: Final = 15
_SEED: Final = 0


class Forecast(NamedTuple):
    """How many branches in all an interval of some width is likely to take.

    Attributes:
        width: The width, in successes.
        branches: The median over possible outcomes; None if even all of them do not suffice.
        tasks: Likewise.
    """

    width: float
    branches: int | None
    tasks: int | None


def forecast(
    tasks: Sequence[OpenTask],
    low: Sequence[float],
    high: Sequence[float],
    share: float,
    width: float,
    *,
    other: float,
    confidence: float,
) -> Forecast:
    """How many branches it is likely to take until the interval of the gain is narrow enough.

    `share`: the share of the open runs of other tasks whose outcome differs from the record.
    """
    least = np.array([sum(one.low for one in task.openings) for task in tasks], float)
    most = np.array([sum(one.high for one in task.openings) for task in tasks], float)
    sizes = np.array([len(task.openings) for task in tasks])
    seen = len(low)
    rng = np.random.default_rng(_SEED)
    needed = []
    for _ in range(_DRAWS):
        drawn = _drawn(tasks[seen:], share, rng)
        lows, highs = (np.concatenate((np.asarray(part, float), drawn)) for part in (low, high))
        found = total_sequence(lows, highs, least=least, most=most, confidence=confidence)
        narrow = np.flatnonzero(found.high - found.low + other <= width + 1e-9)
        needed.append(int(narrow[0]) if len(narrow) else len(tasks) + 1)
    middle = int(np.median(needed))
    if middle > len(tasks):
        return Forecast(width, None, None)
    return Forecast(width, int(sizes[:middle].sum()), middle)


def _drawn(tasks: Sequence[OpenTask], share: float, rng: np.random.Generator) -> Array:
    """Gains of tasks: in each open run the success differs from the record with that probability."""
    sizes = np.array([len(task.openings) for task in tasks], int)
    if not len(sizes):
        return np.zeros(0)
    signs = np.array([1.0 if one.high > 0 else -1.0 for task in tasks for one in task.openings])
    changed = signs * (rng.random(len(signs)) < share)
    return np.asarray(np.add.reduceat(changed, np.concatenate(([0], np.cumsum(sizes)[:-1]))), float)
