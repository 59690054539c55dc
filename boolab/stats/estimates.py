"""Estimates from observations in clusters: shares, means and standard deviations, each with an interval.

The steps of a run resemble each other more than the steps of different runs may, so ten steps of one run can hold
less information than ten steps of ten runs. So the variance of an estimate is that between clusters, by linearisation,
and never less than independent observations would have: a few clusters can be alike by chance.

Sources: Korn and Graubard, Survey Methodology 24 (1998) 193-201 (the Clopper-Pearson interval of a share on the
effective number of observations, with its correction for few clusters); Woodruff, JASA 66 (1971) 411-414 (the variance
of a ratio by linearisation).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.intervals import Array, check_confidence, clopper_pearson


class Estimated(NamedTuple):
    """A number with its interval, and the numbers of observations and clusters. NaN where nothing was observed."""

    value: float
    low: float
    high: float
    n: int
    clusters: int


NOTHING = Estimated(math.nan, math.nan, math.nan, 0, 0)


def share(parts: npt.ArrayLike, wholes: npt.ArrayLike, confidence: float = 0.95) -> Estimated:
    """The share of true observations, with its Korn-Graubard interval.

    A single cluster does not show how clusters differ: then its observations count as independent. `parts` and `wholes`
    are the numbers of true and of all observations of each cluster; shape (clusters,).

    Example:
        >>> [round(x, 3) for x in share([2, 3, 3], [3, 4, 3])[:3]]
        [0.8, 0.139, 1.0]
    """
    check_confidence(confidence)
    some = np.asarray(wholes, float) > 0  # clusters with observations
    part, whole = np.asarray(parts, float)[some], np.asarray(wholes, float)[some]
    n, clusters = float(whole.sum()), len(whole)
    if not n:
        return NOTHING
    value = float(part.sum()) / n
    alone = value * (1 - value) / n
    effective = n
    if clusters > 1 and alone:
        between = _between(part - value * whole) / n**2
        effective = (
            n * min(1.0, alone / between if between else 1.0) * (_t(confidence, n) / _t(confidence, clusters)) ** 2
        )
    low, high = clopper_pearson(min(value * effective, effective), effective, confidence)
    return Estimated(value, low, high, round(n), clusters)


def mean(values: npt.ArrayLike, clusters: npt.ArrayLike, confidence: float = 0.95) -> Estimated:
    """The mean of observations, with Student's interval on the number of clusters; NaN for one observation.

    `values` and `clusters`, any labels, have the shape (observations,).
    """
    check_confidence(confidence)
    observed, codes = np.asarray(values, float), np.unique(clusters, return_inverse=True)[1]
    n = len(observed)
    if not n:
        return NOTHING
    value = float(observed.mean())
    away = observed - value
    alone = float((away**2).sum()) / max(n - 1, 1) / n
    half = _half(alone, np.asarray(np.bincount(codes, away), float), n, confidence)
    return Estimated(value, value - half, value + half, n, int(codes.max()) + 1)


def spread(values: npt.ArrayLike, clusters: npt.ArrayLike, confidence: float = 0.95) -> Estimated:
    """The standard deviation (n - 1) of observations; arguments as for `mean`.

    The interval is symmetric on the logarithm of the variance. Where clusters do not widen it, it is as wide as that of
    normal observations. Zero has the interval zero to zero.
    """
    check_confidence(confidence)
    observed, codes = np.asarray(values, float), np.unique(clusters, return_inverse=True)[1]
    n = len(observed)
    if n < 2:  # noqa: PLR2004 - one observation has no spread
        return NOTHING._replace(n=n, clusters=n)
    squares = (observed - observed.mean()) ** 2
    variance = float(squares.sum()) / (n - 1)
    number = int(codes.max()) + 1
    if not variance:
        return Estimated(0.0, 0.0, 0.0, n, number)
    away = (squares - squares.mean()) / variance
    half = _half(2 / (n - 1), np.asarray(np.bincount(codes, away), float), n, confidence)
    value = math.sqrt(variance)
    return Estimated(value, value * math.exp(-half / 2), value * math.exp(half / 2), n, number)


def _between(away: Array) -> float:
    """The variance of a sum, from the deviation of each cluster from its expected part."""
    return len(away) / (len(away) - 1) * float((away**2).sum())


def _half(alone: float, away: Array, n: int, confidence: float) -> float:
    """Half the width of an interval, from the variance of independent observations and each cluster's deviation."""
    clusters = len(away)
    if n < 2:  # noqa: PLR2004 - one observation has no variance
        return math.nan
    if clusters < 2:  # noqa: PLR2004 - one cluster shows no difference
        return _t(confidence, n) * math.sqrt(alone)
    return _t(confidence, clusters) * math.sqrt(max(alone, _between(away) / n**2))


def _t(confidence: float, n: float) -> float:
    """The two-sided quantile of Student's t with n - 1 degrees of freedom."""
    return float(special.stdtrit(max(n - 1, 1), (1 + confidence) / 2))
