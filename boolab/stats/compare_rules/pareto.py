"""The Pareto front of what is kept against what is saved, and how it varies with the sample of tasks.

A setting is on the front if no other keeps as much and saves more, or saves as much and keeps more. The front as a
function gives, for a share of steps to be saved, the largest share of successes that a setting keeps which saves so
much; at 0 it is 1, which is what no limit keeps, and where no setting saves so much it is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from boolab.stats.intervals import ClusterBootstrap, expanded, percentiles
from boolab.whatif.rule_matrix import Floats
from boolab.whatif.step_table import Flags


class Band(NamedTuple):
    """The front at some levels of what is saved, with its bootstrap interval at each.

    `on_front` is, for each setting, the share of the samples in which it is on the front.
    """

    levels: Floats
    front: Floats
    low: Floats
    high: Floats
    on_front: Floats


def undominated(kept: npt.ArrayLike, saved: npt.ArrayLike) -> Flags:
    """Which settings are on the front; settings that keep and save the same are on it together.

    `kept`: what each setting keeps: shape (settings,), or (samples, settings). `saved`: what each saves, of the same
    shape. Both are compared exactly, so they are sums and not shares.

    Example:
        >>> undominated([9, 8, 8, 5, 9], [0, 4, 3, 7, 0]).tolist()
        [True, True, False, True, True]
    """
    keep, save = np.atleast_2d(np.asarray(kept, float)), np.atleast_2d(np.asarray(saved, float))
    order = np.lexsort((-keep, -save), axis=1)
    keep, save = np.take_along_axis(keep, order, 1), np.take_along_axis(save, order, 1)
    best = np.maximum.accumulate(keep, axis=1)
    places = np.broadcast_to(np.arange(keep.shape[1]), keep.shape)
    new = np.concatenate((np.ones((len(save), 1), dtype=bool), save[:, 1:] < save[:, :-1]), axis=1)
    start = np.maximum.accumulate(np.where(new, places, 0), axis=1)  # where those that save the same begin
    before = np.where(start > 0, np.take_along_axis(best, np.maximum(start - 1, 0), 1), -np.inf)
    alive = (keep == np.take_along_axis(keep, start, 1)) & (keep > before)
    out = np.zeros_like(alive)
    np.put_along_axis(out, order, alive, 1)
    return np.asarray(out.reshape(np.shape(kept)), dtype=bool)


def front_at(kept: Floats, saved: Floats, levels: Floats) -> Floats:
    """The front as a function: samples x levels.

    `kept`: the share that each setting keeps: samples x settings. `saved`: the share that each saves.

    Example:
        >>> front_at(np.array([[1.0, 0.9, 0.5]]), np.array([[0.1, 0.3, 0.6]]), np.array([0.0, 0.2, 0.5, 0.7])).tolist()
        [[1.0, 0.9, 0.5, 0.0]]
    """
    order = np.argsort(-saved, axis=1)
    losing = -np.take_along_axis(saved, order, 1)
    best = np.maximum.accumulate(np.take_along_axis(kept, order, 1), axis=1)
    best = np.concatenate((np.zeros((len(best), 1)), best), axis=1)
    out = np.stack([row[np.searchsorted(ends, -levels, side="right")] for row, ends in zip(best, losing, strict=True)])
    out[:, levels <= 0] = 1.0
    return out


def band_of(
    bootstrap: ClusterBootstrap,
    kept: npt.NDArray[np.bool_],
    successes: Flags,
    saved: npt.NDArray[np.int32],
    steps: npt.NDArray[np.int64],
    levels: Floats,
    confidence: float,
) -> Band:
    """The front of runs under settings, with the percentiles of the fronts of resampled tasks.

    `kept`: r x S: which successes each setting keeps. `successes`: R: which runs succeed. `saved`: r x S: the steps
    that each setting saves. `steps`: R: the steps of the runs.
    """
    sums = [bootstrap.sums(values) for values in (kept, successes, saved, steps)]
    point = [of_tasks.sum(axis=0, keepdims=True) for of_tasks in sums]
    front = front_at(_share(point[0], point[1]), _share(point[2], point[3]), levels)[0]
    fronts, counts, n = [], np.zeros(kept.shape[1]), 0
    for block in bootstrap.weights():
        weights = block.astype(float)
        some, successful, less, whole = (weights @ of_tasks for of_tasks in sums)
        there = successful > 0  # a sample without a success has no front
        some, successful, less, whole = some[there], successful[there], less[there], whole[there]
        if len(some):
            fronts.append(front_at(_share(some, successful[:, None]), _share(less, whole[:, None]), levels))
            counts += undominated(some, less).sum(axis=0)
            n += len(some)
    nothing = np.full(len(levels), np.nan)
    if not n or bootstrap.n_clusters <= 1:
        return Band(levels, front, nothing, nothing, np.full(kept.shape[1], np.nan))
    level = expanded((1 - confidence) / 2, np.full(len(levels), bootstrap.n_clusters))
    low, high = percentiles(np.concatenate(fronts), np.stack([level, 1 - level]))
    return Band(levels, front, low, high, counts / n)


def _share(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0), dtype=np.float64)
