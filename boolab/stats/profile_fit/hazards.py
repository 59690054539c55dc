"""When runs finish: the probability at each step, where it changes, and what it depends on.

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
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.estimates import NOTHING, Estimated, share
from boolab.stats.intervals import Array, check_confidence

ENOUGH = 5
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

    Example:
        >>> pieces([*range(1, 5)] * 100, [False, False, False, True] * 100)
        [1, 4]
    """
    at, ends = np.asarray(steps, int), np.asarray(finished, bool)
    if not ends.any():
        return [1]
    happened = np.unique(at[ends])
    starts = np.unique(np.concatenate([[1], happened, happened + 1]))
    starts = starts[starts <= at.max()]
    block = np.searchsorted(starts, at, side="right") - 1
    seen = np.concatenate([[0], np.cumsum(np.bincount(block, minlength=len(starts)))]).astype(float)
    taken = np.concatenate([[0], np.cumsum(np.bincount(block, ends, minlength=len(starts)))])
    price = math.log(len(at))
    best, came_from = np.zeros(len(starts) + 1), np.zeros(len(starts) + 1, dtype=int)
    for end in range(1, len(starts) + 1):
        n, x = seen[end] - seen[:end], taken[end] - taken[:end]
        cost = best[:end] - special.xlogy(x, x) - special.xlogy(n - x, n - x) + special.xlogy(n, n) + price
        came_from[end] = int(np.argmin(cost))
        best[end] = cost[came_from[end]]
    out: list[int] = []
    place = len(starts)
    while place:
        place = int(came_from[place])
        out.append(int(starts[place]))
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
    group, or None. A group for which fewer than `ENOUGH` finishes are expected, and the largest of each partition, have
    factor 1.
    """
    check_confidence(confidence)
    block = np.searchsorted(np.asarray(starts), chances.steps, side="right") - 1
    levels = [_share(chances, block == place, confidence) for place in range(len(starts))]
    base = np.array([0.0 if math.isnan(level.value) else level.value for level in levels])
    named = [name for partition in groups for name in _with_factor(partition, base[block])]
    if not named:
        return Hazards([*starts], levels, {})
    members = {
        name: np.array([other == name for other in part]) for part in groups for name in set(part) if name in named
    }
    never = {name: some for name, some in members.items() if not chances.finished[some].any()}
    used = base[block] > 0
    for some in never.values():
        used &= ~some
    rest = {name: some for name, some in members.items() if name not in never}
    alive = [place for place in range(len(starts)) if (used & (block == place)).any() and base[place] > 0]
    columns = [block == place for place in alive] + list(rest.values())
    found = _log_linear(np.column_stack(columns)[used].astype(float), chances, used, confidence)
    for place, estimate in zip(alive, found, strict=False):
        levels[place] = estimate
    factors = dict(zip(rest, found[len(alive) :], strict=True))
    fitted = np.array([level.value for level in levels])
    for name, some in never.items():
        expected = float(np.nan_to_num(fitted)[block][some].sum())
        factors[name] = Estimated(0.0, 0.0, -math.log((1 - confidence) / 2) / expected, int(some.sum()), 0)
    return Hazards([*starts], levels, factors)


def _share(chances: Chances, some: npt.NDArray[np.bool_], confidence: float) -> Estimated:
    codes = chances.clusters[some]
    if not len(codes):
        return NOTHING
    return share(np.bincount(codes, chances.finished[some]), np.bincount(codes), confidence)


def _with_factor(partition: Sequence[Group | None], expected: Array) -> list[Group]:
    """The groups with a factor of their own: those for which enough finishes are expected, except the largest."""
    sizes: dict[Group, float] = {}
    counts: dict[Group, int] = {}
    for name, chance in zip(partition, expected, strict=True):
        if name is not None:
            sizes[name] = sizes.get(name, 0.0) + float(chance)
            counts[name] = counts.get(name, 0) + 1
    reference = max(counts, key=lambda name: counts[name], default=None)
    return [name for name, size in sizes.items() if size >= ENOUGH and name != reference]


def _log_linear(design: Array, chances: Chances, used: npt.NDArray[np.bool_], confidence: float) -> list[Estimated]:
    """P(finish) = the product of the figures whose columns are 1, with a robust variance over clusters."""
    y = chances.finished[used].astype(float)
    codes = np.unique(chances.clusters[used], return_inverse=True)[1]
    taken = design.T @ y
    figures = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        before = figures.copy()
        for column in range(len(figures)):
            rate = np.exp(design @ figures)
            figures[column] += math.log(taken[column] / float(design[:, column] @ rate))
        if np.abs(figures - before).max() < _CLOSE:
            break
    rate = np.exp(design @ figures)
    inverse = np.linalg.pinv(design.T @ (design * rate[:, None]))
    away = design * (y - rate)[:, None]
    number = int(codes.max()) + 1
    by_cluster = np.zeros((number, design.shape[1]))
    np.add.at(by_cluster, codes, away)
    alone = inverse @ (design.T @ (design * (rate * np.clip(1 - rate, 0, 1))[:, None])) @ inverse
    together = inverse @ (by_cluster.T @ by_cluster) @ inverse * number / max(number - 1, 1)
    half = special.stdtrit(max(number - 1, 1), (1 + confidence) / 2) * np.sqrt(
        np.maximum(np.diag(alone), np.diag(together))
    )
    n = design.sum(axis=0)
    return [
        Estimated(math.exp(figure), math.exp(figure - wide), math.exp(figure + wide), int(size), number)
        for figure, wide, size in zip(figures.tolist(), half.tolist(), n.tolist(), strict=True)
    ]
