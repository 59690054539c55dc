"""Where settings stop runs, and what that saves for certain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from boolab.stats.intervals import Array, ClusterBootstrap, Interval
from boolab.stats.kept_share import KnownOutcomes, kept_bound, sure_bound
from boolab.stats.recommend.units import clusters_of_ledger, success_of_units
from boolab.whatif.first_crossing import RANKS, Keys, Places, fires_of, first_fires, keys_of
from boolab.whatif.grid import Settings
from boolab.whatif.step_table import LABEL, UNKNOWN, Flags, Ints, Ledger, split_for_stops


class FirstStops:
    """The first step at which each threshold is reached in each run of a ledger."""

    def __init__(self, ledger: Ledger, settings: Settings, run_places: Places) -> None:
        self._fires = [
            first_fires(ledger, fires_of(ledger, axis, run_places), run_places, rank)
            for rank, axis in enumerate(settings.axes)
        ]

    def keys(self, columns: Sequence[Sequence[int]], rows: Ints | slice = slice(None)) -> Keys:
        """The key of the stop of each run of `rows` under each setting; the largest number for none.

        `columns`: those of each axis; there is a setting for each combination of them.
        """
        tables = [table[rows][:, list(some)] for table, some in zip(self._fires, columns, strict=True)]
        keys = keys_of(tables)
        return keys.reshape(len(keys), math.prod(keys.shape[1:]))


class KeptByTask:
    """The lower bounds of the share of the successes that settings keep: see `boolab.stats.kept_share`."""

    def __init__(self, units: Ledger, stops: FirstStops) -> None:
        outcomes = success_of_units(units)
        rows = np.flatnonzero((outcomes == 1) | ((outcomes == UNKNOWN) & (units.success_by == LABEL)))
        tasks = clusters_of_ledger(units).iloc[rows].factorize()[0]
        unit = rows if units.unit is None else units.unit[rows]
        order = np.lexsort((unit, tasks))
        is_first = np.diff(unit[order], prepend=-1) != 0
        task_of_unit = tasks[order][is_first]
        self._rows: Ints = rows[order]
        self._first_of_units: Ints = np.flatnonzero(is_first)
        self._first: Ints = np.flatnonzero(np.diff(task_of_unit, prepend=-1))
        self._is_open: Flags = (outcomes[self._rows] == UNKNOWN)[self._first_of_units]
        self._stops = stops

    def _is_lost(self, columns: Sequence[Sequence[int]]) -> Flags:
        """Which units settings may lose: units x settings."""
        keys = self._stops.keys(columns, self._rows)
        is_lost = keys != np.iinfo(keys.dtype).max
        return np.logical_or.reduceat(is_lost, self._first_of_units, axis=0) if len(self._rows) else is_lost

    def _sum_tasks(self, flags: Flags) -> Ints:
        """How many units of each task have a flag."""
        if not len(self._rows):
            return flags.astype(np.int64)
        return np.asarray(np.add.reduceat(flags.astype(np.int64), self._first, axis=0), dtype=np.int64)

    def lost(self, columns: Sequence[Sequence[int]]) -> Ints:
        """How many known successes of each task settings may lose: tasks x settings.

        `columns`: those of each axis; there is a setting for each combination of them.
        """
        return self._sum_tasks(self._is_lost(columns) & ~self._is_open[:, None])

    def least(self, columns: Sequence[Sequence[int]], error: float) -> Array:
        """The lower bound for each setting, asked by itself, so that it has all of the error that the runs may have.

        Settings that lose as many have to lose the same, as along one axis. It holds whatever unknown outcomes are.
        """
        is_lost, is_open = self._is_lost(columns), self._is_open[:, None]
        _, first, inverse = np.unique(is_lost.sum(axis=0), return_index=True, return_inverse=True)
        is_lost = is_lost[:, first]
        lost, sizes = self._sum_tasks(is_lost & ~is_open), self._sum_tasks(~self._is_open)
        if not self._is_open.any():
            return kept_bound(lost, sizes, error)[inverse]
        open_lost, open_kept = self._sum_tasks(is_lost & is_open), self._sum_tasks(~is_lost & is_open)
        return sure_bound(KnownOutcomes(sizes[:, None] - lost, lost, open_lost, open_kept), error)[inverse]


class SavedByTask:
    """What settings save of each task, and the interval of the share that they save, as a decision has it.

    The interval is that of runs of other tasks like these: the runs of one task count together. A run without the name
    of a task is a task of its own. Each turn is limited by itself where counters start at zero in it.
    """

    def __init__(self, ledger: Ledger, settings: Settings, weights: Ints, stops: FirstStops) -> None:
        span_ledger = split_for_stops(ledger)
        self._first = span_ledger.first
        self._stops = stops if span_ledger is ledger else FirstStops(span_ledger, settings, Places(span_ledger))
        self._until: Ints = np.concatenate(([0], np.cumsum(weights)))
        names = span_ledger.runs["task"].where(span_ledger.runs["task"] != "", span_ledger.runs["run_id"])
        self._task: Ints = names.factorize()[0]
        self._whole = np.bincount(self._task, self._until[span_ledger.first[1:]] - self._until[span_ledger.first[:-1]])
        self._tasks = ClusterBootstrap(range(len(self._whole)))

    def sum_saved(self, columns: Sequence[Sequence[int]]) -> Array:
        """What a setting saves of each task."""
        keys = self._stops.keys(columns)[:, 0]
        stopped = keys != np.iinfo(keys.dtype).max
        stop_rows = self._first[:-1] + np.where(stopped, keys // RANKS, np.diff(self._first)).astype(np.int64)
        parts = self._until[self._first[1:]] - self._until[stop_rows]
        return np.bincount(self._task, parts, minlength=len(self._whole)).astype(float)

    def interval(self, columns: Sequence[Sequence[int]]) -> Interval | None:
        """The 95% interval of the share that a setting saves; None where there is nothing to save."""
        if not self._whole.any():
            return None
        estimate = self._tasks.share(self.sum_saved(columns), self._whole)
        return Interval(float(estimate.low), float(estimate.high))


def weights_of(ledger: Ledger, run_places: Places, name: str) -> Ints:
    """N: what each step used; 0 for the steps of runs that do not report all of it."""
    if name == "steps":
        return np.ones(ledger.n_steps, dtype=np.int64)
    usage = ledger.used[name]
    reports = np.ones(ledger.n_runs, dtype=bool)
    reports[run_places.run[usage < 0]] = False
    return np.where(reports[run_places.run], usage, 0)


def chosen_columns(
    settings: Settings, options: Mapping[str, Sequence[int | None]], limits: Mapping[str, int | None]
) -> list[list[int]]:
    """The column of each axis: that of the limit, and the first for a further limit of the policy."""
    return [[options[axis.name].index(limits[axis.name]) if axis.name in options else 0] for axis in settings.axes]
