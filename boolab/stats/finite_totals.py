"""Confidence sequences for the total of a finite population whose members are observed in a random order.

A confidence sequence holds at all looks at once: one may look after each observation and stop whenever one likes. The
population is fixed, and only the order is random, so nothing is assumed about how its values arise. Once all of it is
observed, the interval is the total.

For each candidate of the total there is a bet against it. Under the candidate, the mean of what is left is known before
each draw, so the capital of a bet on larger (or smaller) values does not grow on average. The chance that it ever
reaches 1/a is at most a (Ville's inequality), so such a candidate is excluded for good. The capital here is the mean of
the capitals of several fixed shares of the largest possible bet: no share has to be chosen in advance.

Source: Waudby-Smith and Ramdas, Confidence sequences for sampling without replacement (NeurIPS 2020, arXiv 2006.04347),
and Estimating means of bounded random variables by betting (J. R. Stat. Soc. B 86 (2024), arXiv 2010.09686), sections
4 and 5.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from boolab.errors import SettingError
from boolab.stats.intervals import Array, Interval, check_confidence

_BETS: Final = np.linspace(0.05, 0.95, 10)
"""The shares of the largest possible bet."""
_CANDIDATES: Final = 501
"""How many candidates are tried at most; between two of them the interval ends at the outer one."""
_ROUNDING: Final = 1e-9


class TotalSequence(NamedTuple):
    """Both ends of the interval after each observation, shape (observed + 1,): the first are before any."""

    low: Array
    high: Array

    @property
    def last_interval(self) -> Interval:
        """The interval at the last look."""
        return Interval(float(self.low[-1]), float(self.high[-1]))


def total_sequence(
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    *,
    minima: npt.ArrayLike,
    maxima: npt.ArrayLike,
    confidence: float = 0.95,
    integers: bool = True,
) -> TotalSequence:
    """The interval for the total of a population after each of the observations so far.

    `low`: the observed values in order, shape (observed,); where one is not known, the least that it can be. `high`:
    the same; where one is not known, the most that it can be. Returns the ends of the interval at each look. The last
    look at a whole population has the total itself.
    """
    bottom, top = np.asarray(minima, float), np.asarray(maxima, float)
    lows, highs = np.asarray(low, float), np.asarray(high, float)
    n_observed = len(lows)
    if n_observed > len(bottom):
        raise SettingError(f"{n_observed} observations of a population of {len(bottom)}")
    slack = _ROUNDING * max(1.0, float(np.abs(top).max(initial=0)))
    if (
        np.any(lows < bottom[:n_observed] - slack)
        or np.any(highs > top[:n_observed] + slack)
        or np.any(lows > highs + slack)
    ):
        msg = "a value lies outside of its bounds: expected minima <= low <= high <= maxima"
        raise SettingError(msg)
    alpha = (1 - check_confidence(confidence)) / 2
    width = float((top - bottom).max(initial=0))
    range_ = float((top - bottom).sum())
    if not width:
        return TotalSequence(np.full(n_observed + 1, bottom.sum()), np.full(n_observed + 1, top.sum()))
    exact = integers and round(range_) < _CANDIDATES
    candidates = np.linspace(0.0, range_, round(range_) + 1 if exact else _CANDIDATES) / width
    room = (top - bottom) / width
    above_limit = (lows - bottom[:n_observed]) / width
    below_limit = (top[:n_observed] - highs) / width
    # What lies above the least possible total is bounded from below by bets on large values; what lies below the most
    # possible total likewise by bets on large distances from it. Both are the same computation.
    from_below, from_above = (
        _lower_bounds(values, room, candidates, alpha, 0 if exact else 1) * width
        for values in (above_limit, below_limit)
    )
    if integers:
        from_below, from_above = np.ceil(from_below - _ROUNDING), np.ceil(from_above - _ROUNDING)
    starts = bottom.sum() + from_below
    return TotalSequence(starts, np.maximum(top.sum() - from_above, starts))


def _lower_bounds(values: Array, room: Array, candidates: Array, alpha: float, step: int) -> Array:
    """A lower bound of the total after each observation, for values from 0 to `room`, which is at most 1.

    `step` is how many places below the least candidate that is left the total may lie: 0 where only candidates can be
    the total.
    """
    size, threshold = len(room), len(_BETS) / alpha
    capital = np.ones((len(_BETS), len(candidates)))
    bounds = np.zeros(len(values) + 1)
    observed_sum, first = 0.0, 0
    for draw, value in enumerate(values):
        mean = (candidates[first:] - observed_sum) / (size - draw)
        positive = mean > _ROUNDING
        ratio = np.where(positive, value / np.where(positive, mean, 1.0), 1.0)
        capital *= 1 + _BETS[:, None] * (ratio - 1)
        observed_sum += value
        excluded = (capital.sum(axis=0) >= threshold) | (candidates[first:] < observed_sum - _ROUNDING)
        if excluded.all():  # happens with a probability of at most alpha: the last interval stands
            bounds[draw + 1 :] = bounds[draw]
            break
        n_excluded = int(np.argmin(excluded))  # capital falls with the candidate: the excluded ones are the smallest
        first += n_excluded
        capital = capital[:, n_excluded:]
        bounds[draw + 1] = max(bounds[draw], observed_sum, candidates[max(first - step, 0)])
    rest = room.sum() - np.concatenate(([0.0], np.cumsum(room[: len(values)])))
    high_limit: Array = np.concatenate(([0.0], np.cumsum(values))) + rest
    return np.minimum(bounds, high_limit, dtype=float)
