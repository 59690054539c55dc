"""The figures of a profile as they are estimated, each at its place, with its interval; and when runs finish.

A probability is a share of the observations. A distribution is lognormal where that is close, else quantiles. Without
observations there is no figure.

The hazard of step s is the share of the runs that are about to take step s which finish with it. A run that a limit cut
counts in every recorded step, and in none after: nothing is assumed about how long it would have continued.

Sources: Efron, JASA 83 (1988) 414-425 (hazards of discrete time as a regression of yes or no, with runs that were cut);
Jackson et al., IEEE Signal Processing Letters 12 (2005) 105-108 (the best division into pieces); Schwarz, Annals of
Statistics 6 (1978) 461-464 (what a further piece must explain); Zou, American Journal of Epidemiology 159 (2004)
702-706, and Zou and Donner, Statistical Methods in Medical Research 22 (2013) 661-670 (factors on a probability by
Poisson regression with a robust variance, and the same over clusters).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.intervals import NO_ESTIMATE, Array, Estimated, check_confidence, mean, share, spread

MIN_OBSERVATIONS: Final = 20
"""A group with fewer observations gets no estimate of its own, but that of all groups together."""

_NOT_LOGNORMAL: Final = 0.1
"""The distance between distribution functions above which quantiles are given in place of median and sigma."""
_QUANTILES: Final = 11


class Figures:
    """The parts of a profile. Observations are pairs of a cluster and a value.

    `profile` has the figures, nested as in a profile's file; `rows` each with its interval, by its place with dots. By
    place, `basis` has the observations behind the figures, and `assumed` why there is a figure that was not measured.
    `notes` are what the record lacks, and what was left out.
    """

    def __init__(self, confidence: float) -> None:
        self.confidence = confidence
        self.profile: dict[str, Any] = {}
        self.rows: dict[str, Estimated] = {}
        self.basis: dict[str, str] = {}
        self.assumed: dict[str, str] = {}
        self.notes: list[str] = []

    def put(self, path: Sequence[str], value: object) -> None:
        """Put a figure, or a group of figures, at its place."""
        inner = self.profile
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value

    def estimate(self, path: Sequence[str], estimate: Estimated) -> None:
        """Put an estimate with its interval at its place, if anything was observed."""
        if estimate.n:
            self.put(path, estimate.value)
            self.rows[".".join(path)] = estimate

    def probability(self, path: Sequence[str], observed: Iterable[tuple[int, bool]]) -> Estimated:
        """The share of true observations, at its place."""
        estimate = self.share(observed)
        self.estimate(path, estimate)
        return estimate

    def shares(self, path: Sequence[str], observed: Sequence[tuple[int, Any]], suffix: Sequence[str] = ()) -> None:
        """The share of each observed value, at its place; further in, by the names of `suffix`."""
        for value in sorted({value for _, value in observed}):
            estimate = self.share((code, other == value) for code, other in observed)
            self.put((*path, value, *suffix), estimate.value)
            self.rows[".".join(map(str, (*path, value, *suffix)))] = estimate

    def amount(self, path: Sequence[str], observed: Iterable[tuple[int, int | None]]) -> bool:
        """The distribution of the known observations, at its place; False if there are none."""
        distribution, rows = self.distribution(observed)
        if distribution is not None:
            self.put(path, distribution)
            self.rows |= {".".join((*path, figure)): estimate for figure, estimate in rows.items()}
        return distribution is not None

    def note_absent(self, path: str, reason: str) -> None:
        """Note that a figure was not measured, and that its default is an assumption."""
        self.notes.append(reason)
        self.assumed[path] = reason

    def share(self, observed: Iterable[tuple[int, bool]]) -> Estimated:
        """The share of true observations."""
        pairs = list(observed)
        if not pairs:
            return NO_ESTIMATE
        codes, true = zip(*pairs, strict=True)
        return share(np.bincount(codes, true), np.bincount(codes), self.confidence)

    def distribution(self, observed: Iterable[tuple[int, int | None]]) -> tuple[Any, dict[str, Estimated]]:
        """A distribution as profiles have it, and the intervals of its figures; None if nothing is known."""
        pairs = [(code, value) for code, value in observed if value is not None]
        if not pairs:
            return None, {}
        codes, values = (np.array(part) for part in zip(*pairs, strict=True))
        if (values == values[0]).all():
            return float(values[0]), {}
        zeros = self.share((code, value == 0) for code, value in pairs)
        part, rows = ({"zeros": zeros.value}, {"zeros": zeros}) if zeros.value else ({}, {})
        positive = values[values > 0]
        logs = np.log(positive)
        middle = mean(logs, codes[values > 0], self.confidence)
        wide = spread(logs, codes[values > 0], self.confidence)
        if len(logs) >= MIN_OBSERVATIONS and wide.value and _distance(logs, middle.value, wide.value) > _NOT_LOGNORMAL:
            return {"quantiles": _quantiles(positive), **part}, rows
        rows["median"] = middle._replace(
            value=math.exp(middle.value), low=math.exp(middle.low), high=math.exp(middle.high)
        )
        if wide.clusters and wide.n > 1:
            rows["sigma"] = wide
        sigma = 0.0 if math.isnan(wide.value) else wide.value
        return {"median": math.exp(middle.value), "sigma": sigma, **part}, rows


def _quantiles(values: Array) -> list[float]:
    """Equidistant quantiles; the largest is chosen so that the mean is that of the values.

    With a straight line from the last but one to the one largest value, the mean of a long tail would be overstated,
    and costs and times add up means.
    """
    levels = np.quantile(values, np.linspace(0, 1, _QUANTILES))
    rest = levels[0] / 2 + levels[1:-1].sum()
    levels[-1] = max(levels[-2], 2 * ((_QUANTILES - 1) * float(values.mean()) - rest))
    return [round(level, 1) for level in levels.tolist()]


def _distance(logs: Array, middle: float, wide: float) -> float:
    """The largest distance between the distribution function of logarithms and that of a normal distribution."""
    values, counts = np.unique(logs, return_counts=True)
    # What is rounded to whole numbers is compared in the middle of its steps.
    observed_share = (np.cumsum(counts) - counts / 2) / len(logs)
    return float(np.abs(special.ndtr((values - middle) / wide) - observed_share).max())


MIN_FINISHES: Final = 5
"""A factor is estimated only where at least so many finishes are expected."""

_ROUNDS = 500
_CLOSE = 1e-10


Group: TypeAlias = tuple[str, ...]


class Chances(NamedTuple):
    """The steps in which a run might have finished, one entry each."""

    steps: npt.NDArray[np.int64]
    finished: npt.NDArray[np.bool_]
    clusters: npt.NDArray[np.int64]


class Hazards(NamedTuple):
    """The hazard from each of some steps on, and its factor by group."""

    starts: list[int]
    levels: list[Estimated]
    factors: dict[Group, Estimated]


def pieces(steps: npt.ArrayLike, finished: npt.ArrayLike) -> list[int]:
    """The steps from which the hazard changes, from 1: the division of least -log likelihood + log(n) for each piece.

    Each further piece has two figures, its start and its hazard: log(n) is what Schwarz' criterion requires of them.
    `steps` and `finished` have the shape (chances,).
    """
    step_array, ends = np.asarray(steps, int), np.asarray(finished, bool)
    if not ends.any():
        return [1]
    happened = np.unique(step_array[ends])
    starts = np.unique(np.concatenate([[1], happened, happened + 1]))
    starts = starts[starts <= step_array.max()]
    block = np.searchsorted(starts, step_array, side="right") - 1
    chances_before = np.concatenate([[0], np.cumsum(np.bincount(block, minlength=len(starts)))]).astype(float)
    ends_before = np.concatenate([[0], np.cumsum(np.bincount(block, ends, minlength=len(starts)))])
    price = math.log(len(step_array))
    best, came_from = np.zeros(len(starts) + 1), np.zeros(len(starts) + 1, dtype=int)
    for end in range(1, len(starts) + 1):
        n, x = chances_before[end] - chances_before[:end], ends_before[end] - ends_before[:end]
        cost = best[:end] - special.xlogy(x, x) - special.xlogy(n - x, n - x) + special.xlogy(n, n) + price
        came_from[end] = int(np.argmin(cost))
        best[end] = cost[came_from[end]]
    out: list[int] = []
    position = len(starts)
    while position:
        position = int(came_from[position])
        out.append(int(starts[position]))
    return out[::-1]


def hazards(
    chances: Chances,
    starts: Sequence[int],
    groups: Sequence[Sequence[Group | None]] = (),
    confidence: float = 0.95,
) -> Hazards:
    """The hazard of each piece, from its start, and its factor for each group, with intervals.

    Where no group has a factor of its own, the hazards are plain shares. A group, or a piece, without a finish has the
    estimate 0 and a bound from that alone. `groups` are partitions of the chances, each as the name of every chance's
    group, or None. A group for which fewer than `ENOUGH_FINISHES` finishes are expected, and the largest of each
    partition, have factor 1.
    """
    check_confidence(confidence)
    block = np.searchsorted(np.asarray(starts), chances.steps, side="right") - 1
    levels = [_share(chances, block == piece, confidence) for piece in range(len(starts))]
    base = np.array([0.0 if math.isnan(level.value) else level.value for level in levels])
    groups_with_factor = list(chain.from_iterable(_groups_with_factor(partition, base[block]) for partition in groups))
    if not groups_with_factor:
        return Hazards([*starts], levels, {})
    members: dict[Group, npt.NDArray[np.bool_]] = {}
    for partition in groups:
        present = set(partition)
        for name in groups_with_factor:
            if name in present:
                members[name] = np.array([other == name for other in partition])
    never = {name: in_group for name, in_group in members.items() if not chances.finished[in_group].any()}
    is_used = base[block] > 0
    for in_group in never.values():
        is_used &= ~in_group
    rest = {name: in_group for name, in_group in members.items() if name not in never}
    alive = [piece for piece in range(len(starts)) if (is_used & (block == piece)).any() and base[piece] > 0]
    columns = [block == piece for piece in alive] + list(rest.values())
    estimates = _log_linear(np.column_stack(columns)[is_used].astype(float), chances, is_used, confidence)
    for piece, estimate in zip(alive, estimates, strict=False):
        levels[piece] = estimate
    factors = dict(zip(rest, estimates[len(alive) :], strict=True))
    fitted = np.array([level.value for level in levels])
    for name, in_group in never.items():
        expected = float(np.nan_to_num(fitted)[block][in_group].sum())
        factors[name] = Estimated(0.0, 0.0, -math.log((1 - confidence) / 2) / expected, int(in_group.sum()), 0)
    return Hazards([*starts], levels, factors)


def _share(chances: Chances, which_chances: npt.NDArray[np.bool_], confidence: float) -> Estimated:
    codes = chances.clusters[which_chances]
    if not len(codes):
        return NO_ESTIMATE
    return share(np.bincount(codes, chances.finished[which_chances]), np.bincount(codes), confidence)


def _groups_with_factor(partition: Sequence[Group | None], expected: Array) -> list[Group]:
    """The groups with a factor of their own: those for which enough finishes are expected, except the largest."""
    sizes: dict[Group, float] = {}
    counts: dict[Group, int] = {}
    for name, chance in zip(partition, expected, strict=True):
        if name is not None:
            sizes[name] = sizes.get(name, 0.0) + float(chance)
            counts[name] = counts.get(name, 0) + 1
    reference = max(counts, key=lambda name: counts[name], default=None)
    return [name for name, size in sizes.items() if size >= MIN_FINISHES and name != reference]


def _log_linear(design: Array, chances: Chances, is_used: npt.NDArray[np.bool_], confidence: float) -> list[Estimated]:
    """P(finish) = the product of the figures whose columns are 1, with a robust variance over clusters."""
    y = chances.finished[is_used].astype(float)
    codes = np.unique(chances.clusters[is_used], return_inverse=True)[1]
    finishes = design.T @ y
    figures = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        last_figures = figures.copy()
        for column in range(len(figures)):
            rate = np.exp(design @ figures)
            figures[column] += math.log(finishes[column] / float(design[:, column] @ rate))
        if np.abs(figures - last_figures).max() < _CLOSE:
            break
    rate = np.exp(design @ figures)
    inverse = np.linalg.pinv(design.T @ (design * rate[:, None]))
    residuals = design * (y - rate)[:, None]
    number = int(codes.max()) + 1
    by_cluster = np.zeros((number, design.shape[1]))
    np.add.at(by_cluster, codes, residuals)
    simple_variance = inverse @ (design.T @ (design * (rate * np.clip(1 - rate, 0, 1))[:, None])) @ inverse
    cluster_variance = inverse @ (by_cluster.T @ by_cluster) @ inverse * number / max(number - 1, 1)
    half = special.stdtrit(max(number - 1, 1), (1 + confidence) / 2) * np.sqrt(
        np.maximum(np.diag(simple_variance), np.diag(cluster_variance))
    )
    n = design.sum(axis=0)
    return [
        Estimated(math.exp(figure), math.exp(figure - wide), math.exp(figure + wide), int(size), number)
        for figure, wide, size in zip(figures.tolist(), half.tolist(), n.tolist(), strict=True)
    ]
