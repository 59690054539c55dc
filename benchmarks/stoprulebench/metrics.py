"""The figures of an entry, with intervals over tasks. docs/stoprulebench.md has the formulas in words.

For the runs of a set that a track judges, with `n` steps each and a stop after step `k` (a stop after the last step is
none), at each level that the entry was tuned for:

- kept: the share of the successes that are not stopped.
- saved steps: the sum of `n - k` over the stopped runs, divided by the sum of `n` over all runs.
- saved cost: the same with the dollars of the steps, over the runs whose cost is known.
- score: `saved steps * min(1, (1 - 0.95) / (1 - kept))`. That is what is saved if the rule is switched on in so many
  runs only, chosen at random, that 95% of the successes are kept; all of it if they are kept anyway.
- area: the frontier is `F(x) = max over levels of saved * min(1, (1 - x) / (1 - kept))`, the most that is saved with at
  least a share `x` of the successes kept; the area is its mean over x from 80% to 100% (trapezoids, every 1%).

The figures of a track are the means over its sets. The interval of a set is the 2.5th to 97.5th percentile over samples
of whole tasks, drawn with replacement. That of a mean is over samples of both: as many sets as there are, drawn with
replacement, each with a sample of its tasks. What was trained is not trained again for each sample. The interval of
`kept` is at least as wide as the Clopper-Pearson interval with the effective number of tasks, because all samples are
the same where no success is lost; that of its mean is at least as wide as the one made of those of the sets.

Sources: Davison and Hinkley, Bootstrap Methods (1997), 3.8 (resampling in two stages); Field and Welsh, J. R. Stat.
Soc. B 69 (2007) 369-390 (resampling of clusters); Zou and Donner, Statistics in Medicine 27 (2008) 1693-1702 (the
interval of a sum from the intervals of its terms).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.stoprulebench.first_stops import NEVER, Stops
from benchmarks.stoprulebench.recordings import Floats, Recordings
from boolab.stats.intervals import ClusterBootstrap, Interval, clopper_pearson, expand_tail, percentiles
from boolab.whatif.step_table import Ints

FIGURES: Final = ("score", "saved_steps", "saved_cost", "kept", "area")
AREA_FROM: Final = 0.8
_GRID: Final = np.linspace(AREA_FROM, 1.0, 21)
_TAIL: Final = 0.025
_ROUNDING: Final = 1e-9


class Figure(NamedTuple):
    """A value, and the ends of its 95% interval; None where it is not defined, such as the cost where none is known."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Samples:
    """The figures of one set, or their means over sets.

    Attributes:
        values: By name, the value first, then one for each sample of the tasks. NaN where it is undefined.
        kept: The share of successes kept, with its interval.
    """

    values: Mapping[str, Floats]
    kept: Figure

    def figures(self) -> dict[str, Figure]:
        """The values with their intervals."""
        return {**{name: _figure(values) for name, values in self.values.items()}, "kept": self.kept}


class Draws(NamedTuple):
    """Samples of sets with a sample of the tasks of each: samples x sets. All entries are judged on the same ones.

    Attributes:
        sets: Which sets are drawn, as many as there are.
        tasks: Which sample of its tasks each of them has.
    """

    sets: Ints
    tasks: Ints


def draws_of(n_sets: int, *, of_tasks: int, repetitions: int, seed: int) -> Draws:
    """Draw sets with replacement, and for each a sample of its tasks.

    Args:
        n_sets: The number of sets.
        of_tasks: The number of samples of the tasks of each set.
        repetitions: The number of samples.
        seed: The seed.
    """
    rng = np.random.default_rng(seed)
    shape = (repetitions, n_sets)
    return Draws(rng.integers(n_sets, size=shape), rng.integers(of_tasks, size=shape))


def mean_over_sets(values: Floats, samples: Floats, draws: Draws) -> Floats:
    """The mean over sets, then that of each draw. A set where the value is undefined is left out.

    Args:
        values: The value in each set; NaN where it is undefined.
        samples: Sets x samples of the tasks of each.
        draws: The samples of sets.
    """
    known = ~np.isnan(values)
    mean = values[known].mean() if known.any() else np.nan
    drawn = samples[draws.sets, draws.tasks]
    there = ~np.isnan(drawn) & known[draws.sets]
    total, n = np.where(there, drawn, 0.0).sum(axis=1), there.sum(axis=1)
    return np.concatenate(([mean], np.divide(total, n, out=np.full(len(total), np.nan), where=n > 0)))


def mean_of(samples: Iterable[Samples], seed: int = 0) -> Samples:
    """The means over sets, with samples of sets and of the tasks of each.

    Args:
        samples: The figures of each set.
        seed: The seed of the samples of sets.
    """
    listed = list(samples)
    of_tasks = len(listed[0].values["score"]) - 1
    draws = draws_of(len(listed), of_tasks=of_tasks, repetitions=of_tasks, seed=seed)
    tables = {name: np.stack([each.values[name] for each in listed]) for name in FIGURES}
    means = {name: mean_over_sets(table[:, 0], table[:, 1:], draws) for name, table in tables.items()}
    over_sets, over_tasks = _figure(means["kept"]), _kept_over_tasks([each.kept for each in listed])
    return Samples(means, _wider(over_sets, over_tasks))


def _wider(figure: Figure, other: Figure) -> Figure:
    """The value with the lower of two lower ends and the higher of two higher ones."""
    if figure.low is None or figure.high is None or other.low is None or other.high is None:
        return figure
    return Figure(figure.value, min(figure.low, other.low), max(figure.high, other.high))


def _kept_over_tasks(kept: list[Figure]) -> Figure:
    known = np.array([figure for figure in kept if None not in figure], dtype=np.float64).reshape(-1, 3)
    if not len(known):
        return Figure(None, None, None)
    value, low, high = known.T
    mean = float(value.mean())
    below, above = (float(np.sqrt(np.square(end - value).sum())) / len(known) for end in (low, high))
    return Figure(*(round(end, 6) for end in (mean, max(mean - below, 0.0), min(mean + above, 1.0))))


class SetWeights:
    """How often each task of a set is in each sample: drawn once, so that all entries are judged on the same samples.

    Args:
        data: The recordings.
        number: The place of the set among their sets.
    """

    def __init__(self, data: Recordings, number: int) -> None:
        self._data = data
        self.rows: Ints = np.flatnonzero(data.set_of == number)
        bootstrap = ClusterBootstrap(
            data.task[self.rows], repetitions=data.fixed.repetitions, seed=data.fixed.seed_of(data.sets[number])
        )
        self._bootstrap = bootstrap
        ones = np.ones((1, bootstrap.n_clusters))
        self._weights: Floats = np.concatenate([ones, *(block.astype(np.float64) for block in bootstrap.weights())])

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return self._bootstrap.n_clusters

    def samples(self, stops: Stops) -> Samples:
        """The figures for stops of the set's runs.

        Args:
            stops: Levels x the runs of the set; the first level is that of the share to keep.
        """
        data, rows = self._data, self.rows
        keep = data.fixed.keep
        length, success = data.lengths[rows], data.success[rows]
        stopped = stops != NEVER
        kept = self._ratio(np.where(stopped, 0, success), success)
        saved = self._ratio(np.where(stopped, length - stops, 0), length)
        has_cost, so_far = data.has_cost[rows], data.cost_so_far
        last, first = data.first[rows + 1], data.first[rows]
        spent = np.where(has_cost, so_far[last] - so_far[first], 0.0)
        left = np.where(stopped[0] & has_cost, so_far[last] - so_far[first + stops[0]], 0.0)
        return Samples(
            {
                "score": (saved * mixed(kept, keep))[:, 0],
                "saved_steps": saved[:, 0],
                "saved_cost": self._ratio(left[None], spent)[:, 0],
                "kept": kept[:, 0],
                "area": area(kept, saved),
            },
            self._kept_figure(kept[:, 0], success),
        )

    def _kept_figure(self, kept: Floats, success: npt.ArrayLike) -> Figure:
        """The share that is kept, and in each sample, with the interval that version 2 states: submissions hold it."""
        by_task = self._bootstrap.sums(success)
        if not by_task.any():
            return Figure(None, None, None)
        n = float(by_task.sum() ** 2 / (by_task**2).sum())
        ends = clopper_pearson(min(n * float(kept[0]), n), n)
        tail = float(expand_tail(_TAIL, np.count_nonzero(by_task)))
        if by_task.max() > 1 and not np.isnan(tail):
            low, high = percentiles(kept[1:, None], [tail, 1 - tail])[:, 0]
            ends = Interval(min(ends.low, low), max(ends.high, high))
        return Figure(*(round(float(end), 6) for end in (kept[0], *ends)))

    def _ratio(self, above: npt.ArrayLike, below: npt.ArrayLike) -> Floats:
        """A ratio of sums: samples x levels. NaN where the denominator is 0."""
        up = self._weights @ self._bootstrap.sums(np.asarray(above, float).T)
        down = (self._weights @ self._bootstrap.sums(np.asarray(below, float)))[:, None]
        return np.asarray(np.divide(up, down, out=np.full(up.shape, np.nan), where=down > 0), dtype=np.float64)


def mixed(kept: Floats, keep: float) -> Floats:
    """In which share of the runs a rule that keeps `kept` may be on, if the share `keep` of successes is to be kept.

    Args:
        kept: The share of successes that the rule keeps where it is on.
        keep: The share that is to be kept.

    Example:
        >>> mixed(np.array([1.0, 0.95, 0.90]), 0.95).round(3).tolist()
        [1.0, 1.0, 0.5]
    """
    lost = 1 - kept
    return np.asarray(np.where(lost <= 1 - keep + _ROUNDING, 1.0, (1 - keep) / np.maximum(lost, _ROUNDING)))


def area(kept: Floats, saved: Floats) -> Floats:
    """The mean height of the frontier between 80% and 100% of the successes kept.

    Args:
        kept: Samples x levels.
        saved: Samples x levels.

    Example:
        >>> area(np.array([[1.0]]), np.array([[0.3]])).round(3).tolist()
        [0.3]
    """
    heights = np.stack([np.max(saved * mixed(kept, share), axis=1) for share in _GRID.tolist()], axis=1)
    return np.asarray((heights[:, :-1] + heights[:, 1:]).mean(axis=1) / 2)


def _figure(values: Floats) -> Figure:
    if np.isnan(values[0]):
        return Figure(None, None, None)
    low, high = percentiles(values[1:, None], [_TAIL, 1 - _TAIL])[:, 0].tolist()
    return Figure(*(None if np.isnan(value) else round(float(value), 6) for value in (values[0], low, high)))
