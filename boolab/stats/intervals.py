"""Confidence intervals for shares, ratios, means and standard deviations, also where observations come in clusters.

Runs of the same task resemble each other: ten copies of one run are one observation and not ten. So `ClusterBootstrap`
resamples whole clusters. `share`, `mean` and `spread`, of steps, take the variance between clusters, by linearisation,
and never less than independent observations would have: a few clusters can be alike by chance.

A share of what is in clusters (of alarms that are right, of successes that are kept, of runs that continue) has the
interval of Clopper and Pearson, for whole clusters. Each sample weighs the clusters by independent exponential numbers,
and has one more cluster, as large as the largest: at the lower end it has no part in the share, at the upper end it is
all in it. So a kind of cluster that is rare, and not on record, is allowed for; as in `boolab.stats.kept_share`, the
one assumption is that no cluster to come is larger than the largest on record. Where all have one size, and each is in
the share as a whole or not at all, the quantiles of such samples are Clopper and Pearson's, and none is drawn. In
general it is a conjecture, and measured by the tests, that the method misses no more often than it should. A promise,
as that of `recommend`, rests on `kept_share`, which is proved.

Sources: Clopper and Pearson, Biometrika 26 (1934) 404-413; Gaffke, Math. Methods of Statistics 14 (2005), and
Learned-Miller and Thomas, arXiv 1905.06208 (bounded observations, one more of which is the largest); Field and Welsh,
J. R. Stat. Soc. B 69 (2007) 369-390 (resampling of clusters); Hesterberg, The American Statistician 69 (2015) 371-386
(the percentile interval widened to what Student's t gives for a mean, because the bootstrap's spread is too small in
small samples); Korn and Graubard, Survey Methodology 24 (1998) 193-201 (`share`: the Clopper-Pearson interval on the
effective number of observations, with its correction for few clusters); Woodruff, JASA 66 (1971) 411-414 (the variance
of a ratio by linearisation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from boolab.errors import SettingError
from boolab.io.checks import is_share, repr_of

Array: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = "npt.ArrayLike | pd.Series[Any] | Iterable[object]"
"""The cluster of each observation, of any type."""

REPETITIONS = 2000
_CELLS = 4_000_000  # weights drawn at a time: 32 MB as float64
_KEPT_BYTES = 128_000_000  # of weights that are kept for the next question
_CLUSTERS_AT_ONCE = 32


class Interval(NamedTuple):
    """Both ends of an interval; NaN where it is undefined."""

    low: float
    high: float


class Estimate(NamedTuple):
    """A value with its interval for each column; NaN where it is undefined.

    `low` and `high` have the shape of `value`. `clusters` is the number of clusters with a nonzero denominator.
    """

    value: Array
    low: Array
    high: Array
    clusters: npt.NDArray[np.int64]


def interval_columns(*names: str) -> list[str]:
    """The columns of some estimates, each with both ends of its interval."""
    return ["".join(parts) for parts in product(names, ("", "_low", "_high"))]


def check_confidence(confidence: float, name: str = "confidence") -> float:
    """Return a share that lies strictly between 0 and 1; `SettingError` if it does not."""
    if not is_share(confidence):
        msg = f"{name}={repr_of(confidence)}: expected a number between 0 and 1, without these two, such as 0.95"
        raise SettingError(msg)
    return float(confidence)


def lower_bound(successes: npt.ArrayLike, n: npt.ArrayLike, confidence: float = 0.95) -> Array:
    """The one-sided lower Clopper-Pearson bound: the beta quantile B(1 - confidence; x, n - x + 1), 0 where x is 0.

    `successes` x, 0 to n, and `n` broadcast. Fractional counts are allowed, as effective numbers are.
    """
    x, total = np.broadcast_arrays(np.asarray(successes, float), np.asarray(n, float))
    alpha = 1 - check_confidence(confidence)
    if not np.all((x >= 0) & (x <= total) & np.isfinite(total)):
        msg = "successes must be between 0 and n"
        raise SettingError(msg)
    # x = 0 would be outside of the beta distribution's domain.
    quantile = special.betaincinv(np.where(x > 0, x, 1), total - x + 1, alpha)
    return np.asarray(np.where(x > 0, quantile, 0.0), dtype=float)


def upper_bound(successes: npt.ArrayLike, n: npt.ArrayLike, confidence: float = 0.95) -> Array:
    """The one-sided upper Clopper-Pearson bound: 1 minus the lower bound of the failures; see `lower_bound`."""
    return 1 - lower_bound(np.asarray(n, float) - np.asarray(successes, float), n, confidence)


def clopper_pearson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """The two-sided Clopper-Pearson interval of a share; see `lower_bound`. With n = 0 it is 0 to 1."""
    one_sided = (1 + check_confidence(confidence)) / 2
    return Interval(float(lower_bound(successes, n, one_sided)), float(upper_bound(successes, n, one_sided)))


def expand_tail(tail: float, clusters: npt.ArrayLike) -> Array:
    """The tail of the bootstrap's percentiles that gives what Student's t would for a mean (Hesterberg 2015, 5.3).

    It is Phi(sqrt(n / (n - 1)) t(tail; n - 1)), smaller than the nominal `tail`, such as 0.025; NaN below 2 clusters.
    """
    n = np.asarray(clusters, float)
    free = np.where(n > 1, n - 1, 1)
    level = special.ndtr(np.sqrt(n / free) * special.stdtrit(free, tail))
    return np.asarray(np.where(n > 1, level, np.nan), dtype=float)


class ClusterBootstrap:
    """Intervals for shares, and for ratios of them, over observations in clusters.

    Whole clusters are drawn with replacement, as many as there are. All columns use the same draws, so that settings
    which share their runs are compared on the same draws.

    `clusters`: the cluster of each observation, of any type; shape (observations,).
    """

    def __init__(self, clusters: Labels, *, repetitions: int = REPETITIONS, seed: int = 0) -> None:
        codes, labels = pd.factorize(pd.Series(clusters))
        if repetitions < 1:
            raise SettingError(f"repetitions={repetitions}: expected at least 1")
        if (codes < 0).any():
            msg = "an observation has no cluster"
            raise SettingError(msg)
        self.codes: npt.NDArray[np.intp] = codes
        self.n_clusters = len(labels)
        self.repetitions = repetitions
        self.seed = seed
        self._order = np.argsort(codes, kind="stable")
        self._starts = np.searchsorted(codes[self._order], np.arange(self.n_clusters))
        self._kept: dict[str, list[npt.NDArray[Any]]] = {}

    def weights(self) -> Iterator[npt.NDArray[np.uint16]]:
        """How often each cluster was drawn, in blocks of shape (some of the repetitions, clusters)."""
        n = self.n_clusters

        def draw(rng: np.random.Generator, rows: int) -> npt.NDArray[np.uint16]:
            draws = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
            return np.bincount(draws.ravel(), minlength=rows * n).reshape(rows, n).astype(np.uint16)

        return self._blocks("whole", draw)

    def weights_with_one_more(self) -> Iterator[npt.NDArray[np.float32]]:
        """The exponential weight of each cluster, and in the last column that of one more, in blocks as `weights`."""

        def draw(rng: np.random.Generator, rows: int) -> npt.NDArray[np.float32]:
            return rng.standard_exponential((rows, self.n_clusters + 1), dtype=np.float32)

        return self._blocks("one more", draw)

    def _blocks(
        self, name: str, draw: Callable[[np.random.Generator, int], npt.NDArray[Any]]
    ) -> Iterator[npt.NDArray[Any]]:
        """Rows of weights, one for each repetition: the same each time."""
        if name in self._kept:
            yield from self._kept[name]
            return
        rng = np.random.default_rng(self.seed)
        size = max(1, _CELLS // max(self.n_clusters, 1))
        blocks: list[npt.NDArray[Any]] = []
        n_bytes = 0
        for start in range(0, self.repetitions, size):
            block = draw(rng, min(size, self.repetitions - start))
            n_bytes += block.nbytes
            blocks = [*blocks, block] if n_bytes <= _KEPT_BYTES else []
            yield block
        if n_bytes <= _KEPT_BYTES:
            self._kept[name] = blocks

    def sums(self, values: npt.ArrayLike) -> Array:
        """Sums by cluster: shape (observations, ...) becomes (clusters, ...)."""
        array = np.asarray(values, float)
        if array.shape[:1] != self.codes.shape:
            raise SettingError(f"expected {len(self.codes)} observations, not an array of shape {array.shape}")
        if not np.isfinite(array).all():
            msg = "values must be finite: leave out what is unknown, or give it a bound"
            raise SettingError(msg)
        if not self.n_clusters:
            return np.zeros((0, *array.shape[1:]))
        return np.asarray(np.add.reduceat(array[self._order], self._starts, axis=0), dtype=float)

    def share(self, parts: npt.ArrayLike, wholes: npt.ArrayLike, confidence: float = 0.95) -> Estimate:
        """A share with its two-sided interval, for any number of columns at once: see the module.

        `parts` and `wholes` are what is counted, and of what: shape (observations,) or (observations, columns); of
        either, one column for all. Returns values and intervals of shape () or (columns,). NaN where the whole is 0.
        """
        tail = (1 - check_confidence(confidence)) / 2
        part, total, shape = self._columns(parts, wholes)
        if not np.all((part >= 0) & (part <= total)):
            msg = "a part must be between 0 and its whole"
            raise SettingError(msg)
        value = _divide(part.sum(axis=0), total.sum(axis=0))
        low, high = np.full((2, *value.shape), np.nan)
        has_value = ~np.isnan(value)
        largest = total.max(axis=0, initial=0)[has_value]
        x, n = part.sum(axis=0)[has_value] / largest, total.sum(axis=0)[has_value] / largest
        low[has_value], high[has_value] = lower_bound(x, n, 1 - tail), upper_bound(x, n, 1 - tail)
        # Where each cluster counts as a whole, or not at all, these are the quantiles of the samples.
        resampled = (((total > 0) & (total < total.max(axis=0, initial=0))) | ((part > 0) & (part < total))).any(axis=0)
        if resampled.any():
            lower, upper = self._shares_with_one_more(part[:, resampled], total[:, resampled])
            low[resampled] = np.minimum(percentiles(lower, [tail])[0], value[resampled])
            high[resampled] = np.maximum(percentiles(upper, [1 - tail])[0], value[resampled])
        clusters = (total > 0).sum(axis=0).astype(np.int64)
        return Estimate(value.reshape(shape), low.reshape(shape), high.reshape(shape), clusters.reshape(shape))

    def ratio(self, numerator: npt.ArrayLike, denominator: npt.ArrayLike, confidence: float = 0.95) -> Estimate:
        """A ratio of sums that is no share, with its percentile interval; as `share`, but any numerator is allowed.

        It is valid for many clusters, none of which has much of all. The interval is NaN where one cluster has all.
        """
        tail = (1 - check_confidence(confidence)) / 2
        numerators, denominators, shape = self._columns(numerator, denominator)
        if (denominators < 0).any():
            msg = "a denominator is negative"
            raise SettingError(msg)
        clusters = (denominators > 0).sum(axis=0).astype(np.int64)
        level = expand_tail(tail, clusters)
        low, high = percentiles(self._ratios(numerators, denominators), np.stack([level, 1 - level]))
        value = _divide(numerators.sum(axis=0), denominators.sum(axis=0))
        return Estimate(value.reshape(shape), low.reshape(shape), high.reshape(shape), clusters.reshape(shape))

    def _columns(self, numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> tuple[Array, Array, tuple[int, ...]]:
        """The sums of both by cluster, as (clusters, columns), and the shape of the columns."""
        sums = self.sums(numerator), self.sums(denominator)
        shape = np.broadcast_shapes(*(array.shape[1:] for array in sums))
        above, below = (np.broadcast_to(_columns(array), (len(array), int(np.prod(shape)))) for array in sums)
        return above, below, shape

    def _shares_with_one_more(self, parts: Array, wholes: Array) -> tuple[Array, Array]:
        """The shares in each sample, with one more cluster that has no part, or all: shape (repetitions, columns)."""
        distinct, (part_columns, whole_columns) = _distinct_columns(parts, wholes)
        largest = wholes.max(axis=0)
        lower, upper = [], []
        for block in self.weights_with_one_more():
            sums, one_more = block[:, :-1].astype(float) @ distinct, block[:, -1:] * largest
            total = sums[:, whole_columns] + one_more
            lower.append(sums[:, part_columns] / total)
            upper.append((sums[:, part_columns] + one_more) / total)
        return np.concatenate(lower), np.concatenate(upper)

    def quotient(
        self,
        numerator_ratio: tuple[npt.ArrayLike, npt.ArrayLike],
        denominator_ratio: tuple[npt.ArrayLike, npt.ArrayLike],
        confidence: float,
    ) -> tuple[Array, Array]:
        """The percentile interval of one ratio of sums over another, such as precision over the share of positives.

        It is valid for many clusters, none of which has much of all.

        `numerator_ratio`: its numerator and denominator; shape (observations, columns) each. `denominator_ratio`: those
        of the ratio below it; the same shape. Returns both ends, of shape (columns,). NaN where fewer than two clusters
        have a part of the first denominator.
        """
        sums = [_columns(self.sums(values)) for values in (*numerator_ratio, *denominator_ratio)]
        level = expand_tail((1 - confidence) / 2, (sums[1] > 0).sum(axis=0))
        low, high = np.full((2, len(level)), np.nan)
        resampled = ~np.isnan(level)
        if resampled.any():
            numerator_ratios, denominator_ratios = (
                self._ratios(numerators[:, resampled], denominators[:, resampled])
                for numerators, denominators in (sums[:2], sums[2:])
            )
            ends = np.stack([level[resampled], 1 - level[resampled]])
            low[resampled], high[resampled] = percentiles(_divide(numerator_ratios, denominator_ratios), ends)
        return low, high

    def largest_values(self, values: npt.ArrayLike) -> Array:
        """The largest value of each sample, from one for each cluster: shape (repetitions,).

        It is that of the first cluster drawn, in descending order: one of the first few, as a rule.
        """
        array = np.asarray(values, float)
        order = np.argsort(-array, kind="stable")
        out = []
        for block in self.weights():
            block_values = np.full(len(block), np.nan)
            missing, start = np.arange(len(block)), 0
            while len(missing):
                is_drawn = block[missing[:, None], order[start : start + _CLUSTERS_AT_ONCE]] > 0
                has_any = is_drawn.any(axis=1)
                block_values[missing[has_any]] = array[order[start + np.argmax(is_drawn[has_any], axis=1)]]
                missing, start = missing[~has_any], start + _CLUSTERS_AT_ONCE
            out.append(block_values)
        return np.concatenate(out)

    def _ratios(self, numerators: Array, denominators: Array) -> Array:
        """The ratio in each sample; shape (repetitions, columns). NaN where a sample's denominator is 0."""
        distinct, (numerator_columns, denominator_columns) = _distinct_columns(numerators, denominators)
        sums = (block.astype(float) @ distinct for block in self.weights())
        return np.concatenate([_divide(block[:, numerator_columns], block[:, denominator_columns]) for block in sums])


def _distinct_columns(numerators: Array, denominators: Array) -> tuple[Array, Sequence[npt.NDArray[np.intp]]]:
    """The columns that differ, and the places of each array's among them: rules often share their denominators."""
    index_by_bytes: dict[bytes, int] = {}
    columns = np.ascontiguousarray(np.concatenate((numerators, denominators), axis=1).T)
    indices = np.array(
        [index_by_bytes.setdefault(column.tobytes(), len(index_by_bytes)) for column in columns], dtype=np.intp
    )
    first = np.unique(indices, return_index=True)[1]
    return np.ascontiguousarray(columns[first].T), np.split(indices, 2)


def _columns(array: Array) -> Array:
    """Shape (clusters, ...) as (clusters, columns), also where there are no clusters."""
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def _divide(numerators: npt.ArrayLike, denominators: npt.ArrayLike) -> Array:
    a, b = np.broadcast_arrays(np.asarray(numerators, float), np.asarray(denominators, float))
    return np.asarray(np.divide(a, b, out=np.full(a.shape, np.nan), where=b > 0), dtype=float)


def percentiles(samples: Array, levels: npt.ArrayLike) -> Array:
    """Percentiles of each column of `samples`, over those that are not NaN: shape (levels, columns).

    Between two samples it takes the outer one, so that a coarse bootstrap errs towards the wider interval. `levels` are
    between 0 and 1, for all columns or for each; NaN gives NaN.
    """
    ordered = np.sort(samples.T, axis=1)  # NaN last; a row of its own is quicker to sort than a column
    n_known = (~np.isnan(ordered)).sum(axis=1)
    level_array = np.asarray(levels, float)
    level_array = np.broadcast_to(
        level_array if level_array.ndim > 1 else level_array[:, None], (len(level_array), len(n_known))
    )
    fine = ~np.isnan(level_array) & (n_known > 0)
    position = np.where(fine, level_array, 0.5) * (n_known - 1)
    index = np.where(position < (n_known - 1) / 2, np.floor(position), np.ceil(position)).astype(int)
    picked = ordered[np.arange(len(n_known)), np.clip(index, 0, None)]
    return np.asarray(np.where(fine, picked, np.nan), dtype=float)


class Estimated(NamedTuple):
    """A number with its interval, and the numbers of observations and clusters. NaN where nothing was observed."""

    value: float
    low: float
    high: float
    n: int
    clusters: int


NO_ESTIMATE = Estimated(math.nan, math.nan, math.nan, 0, 0)


def share(parts: npt.ArrayLike, wholes: npt.ArrayLike, confidence: float = 0.95) -> Estimated:
    """The share of true observations, such as steps with an error, with its Korn-Graubard interval.

    Clusters are the units: their variance is estimated, which is valid for many clusters, none of which has much of
    all, and a share that is not close to 0 or 1. Shares of tasks or of their runs have `ClusterBootstrap.share`.

    A single cluster does not show how clusters differ: then its observations count as independent. `parts` and `wholes`
    are the numbers of true and of all observations of each cluster; shape (clusters,).
    """
    check_confidence(confidence)
    has_observations = np.asarray(wholes, float) > 0  # clusters with observations
    counts, totals = np.asarray(parts, float)[has_observations], np.asarray(wholes, float)[has_observations]
    n, clusters = float(totals.sum()), len(totals)
    if not n:
        return NO_ESTIMATE
    value = float(counts.sum()) / n
    binomial_variance = value * (1 - value) / n
    effective = n
    if clusters > 1 and binomial_variance:
        cluster_variance = _cluster_variance(counts - value * totals) / n**2
        effective = (
            n
            * min(1.0, binomial_variance / cluster_variance if cluster_variance else 1.0)
            * (_t(confidence, n) / _t(confidence, clusters)) ** 2
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
        return NO_ESTIMATE
    value = float(observed.mean())
    deviations = observed - value
    simple_variance = float((deviations**2).sum()) / max(n - 1, 1) / n
    half = _half_width(simple_variance, np.asarray(np.bincount(codes, deviations), float), n, confidence)
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
        return NO_ESTIMATE._replace(n=n, clusters=n)
    squares = (observed - observed.mean()) ** 2
    variance = float(squares.sum()) / (n - 1)
    number = int(codes.max()) + 1
    if not variance:
        return Estimated(0.0, 0.0, 0.0, n, number)
    deviations = (squares - squares.mean()) / variance
    half = _half_width(2 / (n - 1), np.asarray(np.bincount(codes, deviations), float), n, confidence)
    value = math.sqrt(variance)
    return Estimated(value, value * math.exp(-half / 2), value * math.exp(half / 2), n, number)


def _cluster_variance(deviations: Array) -> float:
    """The variance of a sum, from the deviation of each cluster from its expected part."""
    return len(deviations) / (len(deviations) - 1) * float((deviations**2).sum())


def _half_width(simple_variance: float, deviations: Array, n: int, confidence: float) -> float:
    """Half the width of an interval, from the variance of independent observations and each cluster's deviation."""
    clusters = len(deviations)
    if n < 2:  # noqa: PLR2004 - one observation has no variance
        return math.nan
    if clusters < 2:  # noqa: PLR2004 - one cluster shows no difference
        return _t(confidence, n) * math.sqrt(simple_variance)
    return _t(confidence, clusters) * math.sqrt(max(simple_variance, _cluster_variance(deviations) / n**2))


def _t(confidence: float, n: float) -> float:
    """The two-sided quantile of Student's t with n - 1 degrees of freedom."""
    return float(special.stdtrit(max(n - 1, 1), (1 + confidence) / 2))
