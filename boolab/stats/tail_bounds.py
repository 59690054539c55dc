"""Intervals for quantiles, and for the mean of the dearest runs, that count whole tasks.

The unit is the task, as in `boolab.stats.kept_share`: the runs of one task resemble each other, and how much cannot be
measured where hardly any run is in the tail, because a dear kind of task may not be on record at all. So no design
effect is estimated.

A quantile. The end x of its interval is a value on record. At most a share of 1 - q of the runs cost more than x, or at
most a share of q cost less: each is the test of `kept_share`, a run above (or below) x being lost. The tests are nested
in x, so the outermost x that passes misses the quantile no more often than one test does. Where each task has one run
the ends are the order statistics of the binomial distribution. Else stakes are bet on whole tasks; they are chosen by
the number of tasks, which fixes them before any cost is used.

The expected shortfall is the mean of the dearest share `a` of the runs, and the least of h + E[max(X - h, 0)] / a over
all h (Rockafellar and Uryasev). If it is at least e, E[max(X - h, 0)] is at least a (e - h) for each h below e. With
0 <= X <= M a stake against that has the gain ((X - h)+ - a (e - h)) / (M - h - a (e - h)), which never exceeds 1, and
the mean of such stakes over fixed h is a stake too: the upper end is the least e against which it wins. If it is at
most e, E[max(X - h, 0)] is at most a (e - h) for some h, so the lower end needs a win for every h. Without M there is
no upper end: a run that is dear beyond all that is on record may raise the mean by any amount. The bound of Thomas and
Learned-Miller is for independent runs, and hardly ever narrower (`benchmarks.tails`).

Sources: Waudby-Smith and Ramdas, arXiv 2010.09686 (betting); Clopper and Pearson, Biometrika 26 (1934) 404; David and
Nagaraja, Order Statistics (2003), 7.1 (intervals of quantiles); Rockafellar and Uryasev, J. of Risk 2 (2000) 21;
Thomas and Learned-Miller, Concentration Inequalities for Conditional Value at Risk, ICML 2019, PMLR 97, 6225-6233.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from boolab.errors import SettingError
from boolab.stats.intervals import Interval
from boolab.stats.kept_share import Stakes, independent_chance, log_wealth_of, reaches

Array: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

_PARTS: Final = ((0.4, 1.5), (0.4, 2.5), (0.2, 4.0))
"""The parts of the first wealth, and by how many standard deviations of a share of so many tasks each bets."""
_LARGEST_BET: Final = 0.998
_HEIGHTS: Final = (0.0, 1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8)
"""The h of the upper end, as shares of the bound: fixed, because the data may not choose them."""
_N_HEIGHTS: Final = 64
_BISECTIONS: Final = 30
_MAX_MISSING: Final = 1_000_000
_ROUNDING: Final = 1e-12


class TaskAmounts:
    """What some runs cost, or took, by task.

    Args:
        values: The amount of each run.
        tasks: The task of each, numbered from 0 without gaps.
    """

    def __init__(self, values: npt.ArrayLike, tasks: npt.ArrayLike) -> None:
        self.values: Array = np.asarray(values, dtype=np.float64)
        self.tasks: Ints = np.asarray(tasks, dtype=np.int64)
        self.sizes: Array = np.bincount(self.tasks).astype(np.float64)

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.sizes)

    @property
    def largest_task(self) -> float:
        """The most runs of a task."""
        return float(self.sizes.max(initial=0))

    def sum_by_task(self, amounts: npt.ArrayLike) -> Array:
        """The sum of something over the runs of each task."""
        weights = np.asarray(amounts, dtype=np.float64)
        return np.asarray(np.bincount(self.tasks, weights=weights, minlength=self.n_tasks), dtype=np.float64)

    def quantile(self, share: float) -> float:
        """The least value that at least such a share of the runs does not exceed."""
        ordered = np.sort(self.values)
        return float(ordered[max(0, math.ceil(share * len(ordered) - _ROUNDING) - 1)])

    def shortfall(self, share: float) -> float:
        """The mean of the largest values: of a share of 1 - `share` of the runs, the last of them in part."""
        tail = 1 - share
        height = self.quantile(share)
        return height + float(np.maximum(self.values - height, 0).mean()) / tail


class QuantileInterval(NamedTuple):
    """The interval of a quantile; NaN for an end that the record does not show.

    Attributes:
        low: The lower end.
        high: The upper end.
        missing: How many more tasks like these, none of them dearer, until there is an upper end; 0 if there is one.
    """

    low: float
    high: float
    missing: int


def quantile_interval(amounts: TaskAmounts, share: float, confidence: float = 0.95) -> QuantileInterval:
    """The interval of a quantile of runs to come, of tasks like those on record.

    The one assumption is that no task to come has more runs than the largest on record.

    Args:
        amounts: The runs, one at least.
        share: Which quantile, such as 0.95.
        confidence: Of the interval; each end may miss with half of the rest.

    Returns:
        The interval.

    Example:
        >>> quantile_interval(TaskAmounts(range(100), range(100)), 0.5)
        QuantileInterval(low=39.0, high=60.0, missing=0)
        >>> quantile_interval(TaskAmounts(range(40), range(40)), 0.95)
        QuantileInterval(low=34.0, high=nan, missing=32)
    """
    error = (1 - confidence) / 2
    values = np.unique(amounts.values)
    high_place = _first(len(values), lambda index: _shows(amounts, amounts.values > values[index], share, error))
    low_place = _first(
        len(values), lambda index: _shows(amounts, amounts.values < values[-1 - index], 1 - share, error)
    )
    return QuantileInterval(
        math.nan if low_place is None else float(values[-1 - low_place]),
        math.nan if high_place is None else float(values[high_place]),
        tasks_missing(amounts.sizes, share, error) if high_place is None else 0,
    )


def _first(n: int, passes: Callable[[int], bool]) -> int | None:
    """The first of n places that passes, if all after it do too; None if the last one does not."""
    if not n or not passes(n - 1):
        return None
    low, high = -1, n - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _shows(amounts: TaskAmounts, is_lost: npt.NDArray[np.bool_], keep: float, error: float) -> bool:
    """Whether the record shows that at most a share of 1 - `keep` of the runs is lost."""
    if amounts.largest_task <= 1:
        return bool(independent_chance(is_lost.sum(), len(is_lost), keep) <= error * (1 + _ROUNDING))
    stakes = _stakes(keep, amounts.n_tasks)
    n_lost = amounts.sum_by_task(is_lost)
    return bool(reaches(log_wealth_of(n_lost, amounts.sizes, keep, amounts.largest_task, stakes), error, stakes))


def _stakes(keep: float, n_tasks: int) -> Stakes:
    """Bets that win if the share of what is kept is some standard deviations above `keep`.

    A stake grows fastest with a bet of (p - keep) / (1 - keep), where p is the true share (Kelly).
    """
    scale = math.sqrt(keep / ((1 - keep) * max(n_tasks, 1)))
    return tuple((part, min(_LARGEST_BET, n_deviations * scale)) for part, n_deviations in _PARTS)


def tasks_missing(sizes: npt.ArrayLike, keep: float, error: float) -> int:
    """How many more tasks of such sizes, until a value that no run exceeds is shown to be an upper end.

    Args:
        sizes: How many runs each task has.
        keep: Which quantile.
        error: The probability that the end is too low.

    Returns:
        The number; 0 if it is shown.

    Example:
        >>> tasks_missing([1] * 40, 0.95, 0.05), tasks_missing([10] * 40, 0.95, 0.05)
        (19, 22)
    """
    n_now = np.size(sizes)
    n = np.asarray(sizes, dtype=np.float64) if n_now else np.ones(1)

    def passes(n_tasks: int) -> bool:
        if n.max() <= 1:
            return bool(independent_chance(0, n_tasks, keep) <= error * (1 + _ROUNDING))
        stakes = _stakes(keep, n_tasks)
        log_wealth = log_wealth_of(np.zeros(len(n)), n, keep, float(n.max()), stakes)
        return bool(reaches(log_wealth * n_tasks / len(n), error, stakes))

    missing = _first(_MAX_MISSING, lambda n_more: passes(n_now + n_more))
    return _MAX_MISSING if missing is None else missing


def shortfall_interval(amounts: TaskAmounts, share: float, bound: float | None, confidence: float = 0.95) -> Interval:
    """The interval of the mean of the largest amounts, of runs to come; NaN without a bound of what a run may cost.

    Args:
        amounts: The runs, one at least; each has 0 or more.
        share: The quantile above which runs count, such as 0.95.
        bound: What no run exceeds, because a hard limit stops it; None if there is no such limit.
        confidence: Of the interval.

    Returns:
        The interval.

    Raises:
        SettingError: if a run exceeds the bound.

    Example:
        >>> amounts = TaskAmounts([number % 10 for number in range(200)], range(200))
        >>> amounts.shortfall(0.95), shortfall_interval(amounts, 0.95, None)
        (9.0, Interval(low=nan, high=nan))
        >>> low, high = shortfall_interval(amounts, 0.95, 12)
        >>> 7 < low < 9 < high < 12
        True
    """
    if bound is None:
        return Interval(math.nan, math.nan)
    largest = float(amounts.values.max(initial=0))
    if largest > bound:
        raise SettingError(f"a run has {largest:g}, more than the bound of {bound:g}: expected a hard limit")
    tail, error = 1 - share, (1 - confidence) / 2
    return Interval(_shortfall_low(amounts, tail, error), _shortfall_high(amounts, tail, error, bound))


def _shortfall_high(amounts: TaskAmounts, tail: float, error: float, bound: float) -> float:
    """The least e that is shown to be too much, up to the bound."""
    heights = bound * np.array(_HEIGHTS)
    stakes = _stakes(1 - tail, amounts.n_tasks)
    excess_by_task = np.stack(
        [amounts.sum_by_task(np.maximum(amounts.values - height, 0)) for height in heights], axis=1
    )

    def is_too_much(mean: float) -> bool:
        is_below = heights < mean
        shares = excess_by_task[:, is_below] / (bound - heights[is_below])
        keep = 1 - tail * (mean - heights[is_below]) / (bound - heights[is_below])
        wealth = log_wealth_of(shares, amounts.sizes, keep, amounts.largest_task, stakes)
        total = np.logaddexp.reduce(wealth, axis=1, initial=-np.inf) - math.log(len(heights))
        return bool(reaches(total, error, stakes))

    low, high = 0.0, bound
    if not is_too_much(bound):
        return bound
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_too_much(middle) else (middle, high)
    return high


def _shortfall_low(amounts: TaskAmounts, tail: float, error: float) -> float:
    """The greatest e that is shown to be too little, whatever the quantile is.

    The heights are values on record. Between two of them the excess is at least that over the upper one, and what is
    tested at most that at the lower one.
    """
    stakes = _stakes(tail, amounts.n_tasks)
    values = np.unique(np.append(0.0, amounts.values))
    heights = values[np.unique(np.linspace(0, len(values) - 1, _N_HEIGHTS).astype(np.int64))]
    excess_by_task = np.stack(
        [amounts.sum_by_task(np.maximum(amounts.values - height, 0)) for height in heights], axis=1
    )

    def is_too_little(mean: float) -> bool:
        n_cells = int(np.searchsorted(heights, mean))
        excess, limit = excess_by_task[:, 1 : n_cells + 1], tail * (mean - heights[:n_cells])
        if excess.shape[1] < n_cells:  # no run has as much
            return False
        gains = excess / (limit * amounts.largest_task) - amounts.sizes[:, np.newaxis] / amounts.largest_task
        wealth = np.array([np.log1p(bet * gains).sum(axis=0) for _, bet in stakes])
        return bool(reaches(wealth, error, stakes).all())

    low, high = 0.0, float(values[-1])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_too_little(middle) else (low, middle)
    return low
