"""Whether enough successes are kept, and the lower bound of the share that is: for whole tasks.

The unit is the task, because the runs of one task resemble each other. Tasks to come are drawn as those on record were.
Let a task have S successes, of which a setting loses L, and let no task have more than M successes. A setting keeps too
little if E[L] > (1 - keep) E[S]. Then

    g = (L - (1 - keep) S) / (keep M)

has a mean above 0, and never exceeds 1. So a stake whose wealth is multiplied by 1 - b g at each task, with 0 <= b < 1,
gains nothing on average, and by Markov's inequality its wealth reaches 1 / error with a probability of at most `error`.
The wealth is the sum of three stakes, which suit records without a loss, with few and with many losses. Without a loss
it takes 67 tasks of one size for 95% at 95% confidence.

Where no task has more than one success, they are independent, and the test is that of Clopper and Pearson: it takes 59.

Nothing is estimated: a kind of task that is rare, and lost as a whole, is allowed for although the record may not hold
one. The one assumption is M: by default, that no task to come has more successes than the largest on record. Without
such an assumption there is no bound, because the successes of one task could be more than all that are on record.

Sources: Waudby-Smith and Ramdas, arXiv 2010.09686 (means of bounded observations by betting); Clopper and Pearson,
Biometrika 26 (1934) 404.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.intervals import lower_bound

Stakes: TypeAlias = tuple[tuple[float, float], ...]
STAKES: Final[Stakes] = ((0.5, 0.998), (0.3, 0.75), (0.2, 0.4))
"""The parts of the first wealth, and the share of its wealth that each stake bets."""
_FIRST_SHARE: Final = 0.5
_DIGITS: Final = 1_000_000
_ROUNDING: Final = 1e-12
_MAX_MISSING: Final = 10_000_000

Counts: TypeAlias = npt.ArrayLike
Array: TypeAlias = npt.NDArray[np.float64]


def keeps_enough(
    lost: Counts, successes: Counts, keep: float, error: float, *, largest: int = 0
) -> npt.NDArray[np.bool_]:
    """Whether the record shows that settings keep at least `keep` of the successes of tasks to come.

    Args:
        lost: How many of its successes each task loses; shape (tasks,), or (tasks, settings).
        successes: How many each task has; shape (tasks,), or (tasks, settings) where each setting has its own record.
        keep: The share to keep, between 0 and 1.
        error: The probability that a setting passes that keeps less.
        largest: The most successes of a task to come, where they may be more than those on record.

    Returns:
        A flag, or one for each setting. Of settings that lose ever more, those that pass are the first ones.

    Example:
        >>> [bool(keeps_enough([0] * n, [2] * n, 0.95, 0.05)) for n in (66, 67)]
        [False, True]
        >>> [bool(keeps_enough([0] * n, [1] * n, 0.95, 0.05)) for n in (58, 59)]
        [False, True]
    """
    n_lost, n, most = _checked(lost, successes, largest)
    if error <= 0:
        return np.zeros(n_lost.shape[1:], dtype=bool)
    most_of_each = np.maximum(n.max(axis=0, initial=0), largest) if n.ndim > 1 else np.full(n_lost.shape[1:], most)
    chance = independent_chance(n_lost.sum(axis=0), n.sum(axis=0), keep)
    passed = np.asarray(chance <= error * (1 + _ROUNDING))
    if (most_of_each > 1).any():
        by_bets = reaches(log_wealth_of(n_lost, n, keep, np.maximum(most_of_each, 1)), error)
        passed = np.where(most_of_each > 1, by_bets, passed)
    return passed


class KnownOutcomes(NamedTuple):
    """What is known of the units of each task under some settings: shape (tasks,), or (tasks, settings).

    Attributes:
        kept: The known successes that a setting leaves as they are.
        lost: The known successes that it loses.
        open_lost: The units of unknown outcome that it would lose, if they are successes.
        open_kept: The units of unknown outcome that it leaves as they are.
    """

    kept: Counts
    lost: Counts
    open_lost: Counts
    open_kept: Counts


def surely_keeps_enough(outcomes: KnownOutcomes, keep: npt.ArrayLike, error: float) -> npt.NDArray[np.bool_]:
    """Whether `keeps_enough` passes whatever the unknown outcomes are, however the known ones were chosen.

    Kept are the known successes alone; lost are the known ones and all unknown units that a setting would lose. Each
    size that the largest task may have is tried, because the test depends on it.

    Args:
        outcomes: What is known of the units of each task.
        keep: See `keeps_enough`.
        error: See `keeps_enough`.

    Returns:
        A flag, or one for each setting.

    Example:
        >>> known, none = [1] * 59 + [0] * 40, [0] * 99
        >>> one_long = [0] * 98 + [1]
        >>> [bool(surely_keeps_enough(KnownOutcomes(known, none, n, none), 0.95, 0.05)) for n in (none, one_long)]
        [True, False]
    """
    n_kept, n_lost, open_lost, open_kept = (np.asarray(counts, dtype=np.float64) for counts in outcomes)
    if error <= 0:
        return np.zeros(n_kept.shape[1:], dtype=bool)
    worst_lost = n_lost + open_lost
    min_size = float((n_kept + n_lost).max(initial=0))
    max_size = max(2.0, float((n_kept + worst_lost + open_kept).max(initial=0)))
    middle = max(2.0, min_size, float((n_kept + worst_lost).max(initial=0)))
    passed = np.ones(n_kept.shape[1:], dtype=bool)
    if min_size <= 1:
        lost_of_1 = _within(worst_lost, n_kept, 1).sum(axis=0)
        passed &= independent_chance(lost_of_1, n_kept.sum(axis=0) + lost_of_1, keep) <= error * (1 + _ROUNDING)
    if float((n_kept + worst_lost + open_kept).max(initial=0)) <= 1:
        return passed
    for size in np.arange(max(min_size, 2), middle):
        lost_of_size = _within(worst_lost, n_kept, size)
        passed &= reaches(log_wealth_of(lost_of_size, n_kept + lost_of_size, keep, size), error)
    # From the size on that holds all losses, the logarithm of each stake is concave in 1 / size: least at an end.
    ends = [log_wealth_of(worst_lost, n_kept + worst_lost, keep, size) for size in (middle, max_size)]
    return np.asarray(passed & reaches(np.minimum(*ends), error))


def sure_bound(outcomes: KnownOutcomes, error: float) -> Array:
    """The lower bound of the share that each setting keeps, whatever the unknown outcomes are; as `kept_bound`.

    Example:
        >>> known, none = [1] * 59 + [0] * 40, [0] * 99
        >>> outcomes = [KnownOutcomes(known, none, [0] * (99 - n) + [1] * n, none) for n in (0, 3)]
        >>> [float(sure_bound(known_outcomes, 0.05)) for known_outcomes in outcomes]
        [0.950492, 0.879663]
    """
    shape = np.asarray(outcomes.open_lost).shape[1:]
    low, high = np.zeros(shape, dtype=np.int64), np.full(shape, _DIGITS)
    while (high - low > 1).any():
        middle = (low + high) // 2
        passed = surely_keeps_enough(outcomes, np.maximum(middle, 1) / _DIGITS, error)
        low, high = np.where(passed, middle, low), np.where(passed, high, middle)
    return low / _DIGITS


def _within(n_lost: Array, n_kept: Array, size: float) -> Array:
    """The successes that tasks lose at most, if none has more than `size` successes."""
    return np.minimum(n_lost, size - n_kept)


def kept_bound(lost: Counts, successes: Counts, error: float, *, largest: int = 0) -> Array:
    """The lower bound of the share that each setting keeps of the successes of tasks to come.

    Args:
        lost: See `keeps_enough`.
        successes: See `keeps_enough`.
        error: The probability that a bound is too high, for one setting by itself.
        largest: See `keeps_enough`.

    Returns:
        The largest `keep` that the record shows, rounded down to six digits; one, or one for each setting.

    Example:
        >>> float(kept_bound([0] * 59, [1] * 59, 0.05)), float(kept_bound([0] * 67, [3] * 67, 0.05))
        (0.950492, 0.950197)
    """
    n_lost, n, most = _checked(lost, successes, largest)
    low, high = np.zeros(n_lost.shape[1:], dtype=np.int64), np.full(n_lost.shape[1:], _DIGITS)
    if not n.any() or error <= 0:
        return low / _DIGITS
    if most <= 1:
        return np.asarray(np.floor(lower_bound(n.sum() - n_lost.sum(axis=0), n.sum(), 1 - error) * _DIGITS) / _DIGITS)
    while (high - low > 1).any():  # the wealth falls as `keep` rises
        middle = (low + high) // 2
        passed = reaches(log_wealth_of(n_lost, n, np.maximum(middle, 1) / _DIGITS, most), error)
        low, high = np.where(passed, middle, low), np.where(passed, high, middle)
    return low / _DIGITS


def tasks_missing(lost: Counts, successes: Counts, keep: float, error: float, *, largest: int = 0) -> int:
    """How many more tasks like these, without a further loss, until a setting is shown to keep enough.

    Args:
        lost: See `keeps_enough`; of one setting, shape (tasks,).
        successes: See `keeps_enough`. Where there is none, tasks of one size are expected.
        keep: See `keeps_enough`.
        error: See `keeps_enough`.
        largest: See `keeps_enough`.

    Returns:
        The number; 0 if the record shows it.

    Example:
        >>> tasks_missing([0] * 60, [3] * 60, 0.95, 0.05)
        7
        >>> [tasks_missing([], [], 0.95, 0.05, largest=most) for most in (1, 5)]
        [59, 67]
    """
    n_lost, n, most = _checked(lost, successes, largest)
    sizes = n[n > 0] if n.any() else np.full(1, max(most, 1))
    if most > 1:
        now = log_wealth_of(n_lost, n, keep, most)
        gain = log_wealth_of(np.zeros(len(sizes)), sizes, keep, most) / len(sizes)
    low, high = -1, _MAX_MISSING
    while high - low > 1:
        middle = (low + high) // 2
        if most > 1:
            passed = bool(reaches(now + middle * gain, error))
        else:
            passed = bool(independent_chance(n_lost.sum(), n.sum() + middle, keep) <= error * (1 + _ROUNDING))
        low, high = (low, middle) if passed else (middle, high)
    return high


def most_lost(n: int, keep: float, error: float) -> int:
    """How many of n independent successes may be lost, so that a setting is shown to keep enough; -1 if none may.

    Example:
        >>> [most_lost(n, 0.95, 0.05) for n in (58, 59, 93)]
        [-1, 0, 1]
    """
    return int(np.count_nonzero(independent_chance(np.arange(n + 1), n, keep) <= error * (1 + _ROUNDING))) - 1


def independent_chance(lost: Counts, n: Counts, keep: npt.ArrayLike) -> Array:
    """The chance that at most so many of n independent successes are lost, if just `keep` of them were kept.

    Args:
        lost: How many are lost; 0 to n.
        n: How many there are.
        keep: The share that is kept.

    Returns:
        The chance: the regularised incomplete beta function I(keep; n - lost, lost + 1); 1 where all are lost.

    Example:
        >>> round(float(independent_chance(0, 59, 0.95)), 4)
        0.0485
    """
    n_lost, total = np.asarray(lost, dtype=np.float64), np.asarray(n, dtype=np.float64)
    some = n_lost < total
    return np.asarray(np.where(some, special.betainc(np.where(some, total - n_lost, 1), n_lost + 1, keep), 1.0))


def shares_of(n_paths: int) -> list[float]:
    """Each path's part of the error: half of it for the first, and the same for each of the others."""
    if n_paths == 1:
        return [1.0]
    return [_FIRST_SHARE, *[(1 - _FIRST_SHARE) / (n_paths - 1)] * (n_paths - 1)]


def _checked(lost: Counts, successes: Counts, largest: int) -> tuple[Array, Array, float]:
    """The arguments as arrays, and the most successes that a task can have."""
    n_lost, n = np.asarray(lost, dtype=np.float64), np.asarray(successes, dtype=np.float64)
    return n_lost, n, max(float(n.max(initial=0)), float(largest))


def log_wealth_of(
    lost: Array, successes: Array, keep: npt.ArrayLike, most: npt.ArrayLike, stakes: Stakes = STAKES
) -> Array:
    """The logarithm of what all tasks multiply the wealth of each stake by: stakes (x settings)."""
    n = successes if successes.ndim == lost.ndim else successes.reshape(-1, *([1] * (lost.ndim - 1)))
    gains = (lost - (1 - np.asarray(keep)) * n) / (np.asarray(keep) * most)
    return np.array([np.log1p(-bet * gains).sum(axis=0) for _, bet in stakes])


def reaches(log_wealth: Array, error: float, stakes: Stakes = STAKES) -> npt.NDArray[np.bool_]:
    """Whether the wealth of all stakes together is 1 / error or more; the first axis are the stakes."""
    parts = np.log([part for part, _ in stakes]).reshape(-1, *([1] * (log_wealth.ndim - 1)))
    return np.asarray(np.logaddexp.reduce(log_wealth + parts, axis=0) >= -math.log(error) - _ROUNDING)
