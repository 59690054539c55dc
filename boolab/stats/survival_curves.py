"""Survival curves and cumulative incidences with pointwise intervals, and a logrank test for clusters.

Sources: Kaplan and Meier, JASA 53 (1958) 457-481; Aalen and Johansen, Scand. J. Stat. 5 (1978) 141-150; the variance of
a cumulative incidence by the delta method in Marubini and Valsecchi, Analysing Survival Data from Clinical Trials
(1995), 10.3, and its log-log interval in Choudhury, Statistics in Medicine 21 (2002) 1129-1144; effective sample size
in Dorey and Korn, Statistics in Medicine 6 (1987) 679-687; the logrank test with clusters in Lee, Wei and Amato, in
Survival Analysis: State of the Art (1992) 237-247.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse, special, stats  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.intervals import Array, ClusterBootstrap, Labels, lower_bound, percentiles, upper_bound

Counts: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_BLOCK = 500  # times whose counts are held at a time
_AT_TIME, _ENDED = " here", " over"  # no cause has such a name
_ROUNDING = 1e-12


class Share(NamedTuple):
    """A share at each time, with both ends of its pointwise interval."""

    value: Array
    low: Array
    high: Array


class Curve(NamedTuple):
    """What happened by each of the times at which anything happened; every array has shape (times,).

    `survival` is the share that continues beyond each time; `incidence` has, by cause, the share that ended so by then.
    """

    time: Counts
    at_risk: Counts
    ended: Counts
    censored: Counts
    survival: Share
    incidence: dict[str, Share]


class GroupTest(NamedTuple):
    """A test of two groups: above 0 if the first ends sooner than expected. NaN where nothing can be tested."""

    statistic: float
    p: float


def curve(
    times: npt.ArrayLike,
    ended: npt.ArrayLike,
    causes: Mapping[str, npt.ArrayLike] | None = None,
    *,
    clusters: Labels | ClusterBootstrap | None = None,
    confidence: float = 0.95,
) -> Curve:
    """Kaplan-Meier survival and Aalen-Johansen incidences with pointwise intervals, at each distinct time.

    - `times`: how long each unit was observed; integers, shape (units,), at least one unit.
    - `ended`: whether it ended then; else it is censored; shape (units,).
    - `causes`: by name, whether each unit ended in this way; shape (units,). Ignored where a unit is censored.
    - `clusters`: the cluster of each unit, at least two; shape (units,). None if units are independent. Of several
      curves of the same units, a bootstrap of their clusters, which draws once.
    """
    durations, has_ended = np.asarray(times, dtype=np.int64), np.asarray(ended, dtype=bool)
    kinds = {name: has_ended & np.asarray(flags, dtype=bool) for name, flags in (causes or {}).items()}
    time, time_index = np.unique(durations, return_inverse=True)
    n = len(time)
    leave_at, ends_at = np.bincount(time_index, minlength=n), np.bincount(time_index[has_ended], minlength=n)
    at_risk = len(durations) - np.cumsum(leave_at) + leave_at
    estimate = stats.ecdf(stats.CensoredData(uncensored=durations[has_ended], right=durations[~has_ended])).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # undefined where none or all have ended: see _ends
        interval = estimate.confidence_interval(confidence, method="log-log")
    alive = np.clip(estimate.probabilities, 0, 1)
    alive_before = np.concatenate(([1.0], alive[:-1]))
    survived = Share(alive, interval.low.probabilities, interval.high.probabilities)
    incidence = {
        name: _incidence(at_risk, ends_at, np.bincount(time_index[flags], minlength=n), alive_before, confidence)
        for name, flags in kinds.items()
    }
    if clusters is None:
        # At risk over survival until then: how many units it rests on, all of them if none was censored before.
        effective = at_risk / np.maximum(alive_before, _ROUNDING)
        survived = _ends(survived, effective, confidence)
        incidence = {name: _ends(share, effective, confidence) for name, share in incidence.items()}
    else:
        bootstrap = clusters if isinstance(clusters, ClusterBootstrap) else ClusterBootstrap(clusters)
        limits = _resampled_limits(time_index, has_ended, kinds, bootstrap, confidence)
        survived = _around(alive, *limits[""])
        incidence = {name: _around(share.value, *limits[name]) for name, share in incidence.items()}
    return Curve(time, at_risk, ends_at, leave_at - ends_at, survived, incidence)


def logrank(
    times: npt.ArrayLike,
    ended: npt.ArrayLike,
    first: npt.ArrayLike,
    clusters: Labels | None = None,
) -> GroupTest:
    """Whether two groups end alike: scipy's logrank test, or one for units in clusters; the signed statistic and p.

    The latter compares the same difference of observed and expected ends with the spread of its parts by cluster, so
    that clusters may lie within a group or across both. Its statistic is compared with Student's t with one degree of
    freedom less than there are clusters. `times`, `ended` and `clusters` are as for `curve`; `first` marks one group.
    """
    durations, has_ended, in_first = np.asarray(times, float), np.asarray(ended, bool), np.asarray(first, bool)
    time_index = np.unique(durations, return_inverse=True)[1]
    leave_at, left_one = np.bincount(time_index), np.bincount(time_index, weights=in_first)
    ends_at = np.bincount(time_index, weights=has_ended)
    at_risk, at_risk_one = (x[::-1].cumsum()[::-1] for x in (leave_at, left_one))
    share = at_risk_one / at_risk
    if not np.any(ends_at * share * (1 - share) * (at_risk > ends_at)):
        return GroupTest(float("nan"), float("nan"))
    if clusters is None:
        parts = [
            stats.CensoredData(uncensored=durations[group & has_ended], right=durations[group & ~has_ended])
            for group in (in_first, ~in_first)
        ]
        result = stats.logrank(*parts)
        return GroupTest(float(result.statistic), float(result.pvalue))
    hazard, expected = np.cumsum(ends_at / at_risk), np.cumsum(share * ends_at / at_risk)
    scores = has_ended * (in_first - share[time_index]) - in_first * hazard[time_index] + expected[time_index]
    totals = pd.Series(scores).groupby(pd.factorize(pd.Series(clusters))[0]).sum().to_numpy()
    n, spread = len(totals), float((totals**2).sum())
    if n < 2 or not spread:  # noqa: PLR2004 - one cluster has no spread
        return GroupTest(float("nan"), float("nan"))
    statistic = float(totals.sum() / np.sqrt(spread * n / (n - 1)))
    return GroupTest(statistic, float(2 * special.stdtr(n - 1, -abs(statistic))))


def _incidence(at_risk: Counts, ends_at: Counts, ends: Counts, alive_before: Array, confidence: float) -> Share:
    """Aalen-Johansen for one cause, with the delta method's variance on the log-log scale.

    With F the incidence, S(j-1) the survival before time j, n at risk, d ended and e ended by this cause, the variance
    of F(t) is the sum over j up to t of (F(t) - F(j))^2 d / (n (n - d)) + S(j-1)^2 e (n - e) / n^3
    - 2 (F(t) - F(j)) S(j-1) e / n^2. Multiplied out, each part is a cumulative sum.
    """
    n = at_risk.astype(float)
    step = alive_before * ends / n
    value = np.cumsum(step)
    # Where all at risk end, F moves no more, and the first term is zero whatever its weight.
    weight = np.divide(ends_at, n * (n - ends_at), out=np.zeros(len(n)), where=ends_at < n)
    variance = (
        value**2 * np.cumsum(weight)
        - 2 * value * np.cumsum(weight * value)
        + np.cumsum(weight * value**2)
        + np.cumsum(alive_before * step * (n - ends) / n**2)
        - 2 * (value * np.cumsum(step / n) - np.cumsum(step * value / n))
    )
    is_open = (value > _ROUNDING) & (value < 1 - _ROUNDING)
    safe = np.where(is_open, value, 0.5)
    spread = special.ndtri((1 + confidence) / 2) * np.sqrt(np.clip(variance, 0, None)) / np.abs(safe * np.log(safe))
    low, high = (np.where(is_open, safe ** np.exp(sign * spread), np.nan) for sign in (1, -1))
    return Share(value, low, high)


def _ends(share: Share, effective: Array, confidence: float) -> Share:
    """The share, with Clopper-Pearson intervals on the effective number where it is 0 or 1, and has no variance."""
    is_zero, is_one = share.value <= _ROUNDING, share.value >= 1 - _ROUNDING
    sure = (1 + confidence) / 2
    low = np.where(is_zero, 0.0, np.where(is_one, lower_bound(effective, effective, sure), share.low))
    high = np.where(is_one, 1.0, np.where(is_zero, upper_bound(np.zeros_like(effective), effective, sure), share.high))
    return Share(share.value, low, high)


def _resampled_limits(
    time_index: npt.NDArray[np.intp],
    has_ended: Flags,
    kinds: Mapping[str, Flags],
    bootstrap: ClusterBootstrap,
    confidence: float,
) -> dict[str, tuple[Array, Array]]:
    """Percentile intervals from weighted clusters: of the survival under "", of each incidence under its name.

    Tasks are the units: each sample weighs whole clusters, so runs of one may depend on each other in any way. As for a
    share (`boolab.stats.intervals`), one more cluster is added, as large as the largest, which stays at risk. At each
    time it may have ended just then, or not yet: the lower end of the survival and the upper end of an incidence are
    those with its end in it, the others those without.

    What happens is counted by cluster and time, and the counts of each sample are its weights times these. Times come
    in blocks, so that the counts of all samples are never in memory for all times at once: each sample carries its
    number at risk, and its survival and incidences so far.
    """
    tail = (1 - confidence) / 2
    sample_weights = np.concatenate([block.T for block in bootstrap.weights_with_one_more()], axis=1)
    sizes = np.bincount(bootstrap.codes)
    sample_weights, one_more = np.ascontiguousarray(sample_weights[:-1]), sizes.max() * sample_weights[-1].astype(float)

    def sum_by_time(flags: Flags) -> sparse.csr_array:
        shape = (int(time_index.max()) + 1, bootstrap.n_clusters)
        return sparse.csr_array(
            (np.ones(int(flags.sum()), np.float32), (time_index[flags], bootstrap.codes[flags])), shape=shape
        )

    counts = {
        name: sum_by_time(flags)
        for name, flags in {_AT_TIME: np.ones_like(has_ended), _ENDED: has_ended, **kinds}.items()
    }
    at_risk = (sizes.astype(np.float32) @ sample_weights).astype(float)
    alive = np.ones(sample_weights.shape[1])
    so_far = {name: np.zeros(sample_weights.shape[1]) for name in kinds}
    limits: dict[str, list[tuple[Array, Array]]] = {name: [] for name in ("", *kinds)}

    def add_limits(name: str, lower: Array, upper: Array) -> None:
        limits[name].append((percentiles(lower.T, [tail])[0], percentiles(upper.T, [1 - tail])[0]))

    for start in range(0, counts[_AT_TIME].shape[0], _BLOCK):
        at_time, ended, *ends = (
            (count[start : start + _BLOCK] @ sample_weights).astype(float) for count in counts.values()
        )
        # Those at risk at the block's start, less those who left since; sums of float32 are a little off.
        risk = np.maximum(at_risk - np.cumsum(at_time, axis=0) + at_time, ended) + one_more
        after = alive * np.cumprod(1 - ended / risk, axis=0)
        alive_before = np.concatenate((alive[None, :], after[:-1]))
        its_part = alive_before * one_more / risk
        add_limits("", after - its_part, after)
        for name, of_kind in zip(kinds, ends, strict=True):
            value = so_far[name] + np.cumsum(alive_before * of_kind / risk, axis=0)
            add_limits(name, value, value + its_part)
            so_far[name] = value[-1]
        alive, at_risk = after[-1], at_risk - at_time.sum(axis=0)
    return {
        name: (np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts]))
        for name, parts in limits.items()
    }


def _around(value: Array, low: Array, high: Array) -> Share:
    """A share with its limits, which are never beyond it: sums of float32 are a little off."""
    return Share(value, np.minimum(low, value), np.maximum(high, value))
