"""Which setting is chosen on runs: paths of settings, tested as in `fixed_sequence`, and what they save.

There is a path for each limit by itself, and one that tightens cap, doom loop and tool budget together. Of all accepted
settings, the answer is the one that gains most: see `Question.net_gain`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.core.types import MICRO
from boolab.limits.table import LIMITS
from boolab.stats.intervals import Labels
from boolab.stats.kept_share import kept_bound
from boolab.stats.recommend.choice import Candidate, Choice, Margin, PathFinding
from boolab.stats.recommend.fixed_sequence import (
    JOINT,
    JOINT_AXES,
    NOT_KNOWN,
    OFF,
    Path,
    PathResult,
    Successes,
    accept_values,
    errors_of,
    missing,
    paths_of,
)
from boolab.stats.recommend.question import Question
from boolab.stats.recommend.units import base_of, cluster_noun, is_root, open_units
from boolab.whatif.aggregate import SPENT_MEASURES, Sums, aggregate_of, sum_spent_along
from boolab.whatif.first_crossing import Places
from boolab.whatif.grid import GridAxis, Settings
from boolab.whatif.outcomes import grid_stops, outcome_columns, stops_of_spans
from boolab.whatif.step_table import UNKNOWN_PEAK, Flags, Ints, Ledger

FOLDS: Final = 5


class Levels(NamedTuple):
    """The levels of a path, from no limit (level 0) to the tightest.

    Attributes:
        path: The path; its `lost_at` is, for each unit, the last level that does not stop it.
        spent: What the units use at each level, by cell of units: shape (cells, levels).
        setting: The limits that are on at a level.
    """

    path: Path
    spent: Ints
    setting: Callable[[int], dict[str, Any]]


class _Tested(NamedTuple):
    """The tests of all paths on the units of some cells; `scores` are those of `Candidates._score`."""

    cells: Flags
    successes: Successes
    results: list[PathResult]
    scores: list[tuple[Ints, Ints, Ints]]


class Candidates:
    """The possible settings for some units: which successes each of them loses, and what it saves.

    `clusters` is R: the cluster of each unit, such as its task. `newest` is R: whether a unit is of the newest third.
    All of it is computed once, and summed over the units that take part.
    """

    def __init__(self, units: Ledger, clusters: Labels, question: Question, newest: Flags | None = None) -> None:
        self.units = units
        self.question = question
        self._cluster = cluster_noun(units, clusters)
        self.clusters = pd.factorize(pd.Series(clusters))[0].astype(np.int64)
        order = np.random.default_rng(question.seed).permutation(int(self.clusters.max(initial=-1)) + 1)
        fold = np.asarray(order % FOLDS, dtype=np.int64)[self.clusters]
        self.newest = newest
        self._cell = fold if newest is None else fold + FOLDS * newest
        self._n_cells = FOLDS if newest is None else 2 * FOLDS
        self._axes = {name: self._axis(name) for name in question.order}
        self._thresholds: dict[str, Ints] = {}
        self._peaks: dict[str, Ints] = {}
        self.always_lost: Flags = np.zeros(units.n_runs, dtype=bool)
        """R: whether the further limits of the policy stop the unit."""
        along: dict[str, Ints] = {}
        for name, axis in self._axes.items():
            if question.policy is None:
                self._thresholds[name] = _thresholds(axis)
                self._peaks[name] = np.minimum(units.peak(axis.counter), NOT_KNOWN)
                along[name] = self._spent(Settings((axis,), (name,)))
            else:
                along[name] = self._evaluate_policy(name)
        paths, joint_levels = paths_of(
            self._thresholds,
            self._peaks,
            all_integers=question.grid is None,
            joint=question.policy is None and question.desk is None,
        )
        self.levels = tuple(
            self._joint(path, joint_levels, along) if path.name == JOINT else self._single(path, along[path.name])
            for path in paths
        )

    def values_of(self, name: str) -> list[Any]:
        """The values of an axis that are on, from tight to loose."""
        return [value for value in self._axes[name].values if value is not None]  # noqa: PD011 - no pandas

    def bound_of(self, setting: Mapping[str, Any]) -> float:
        """The lower bound of the share of successes that one value of the first axis keeps, by itself."""
        tested, values = self._test(self.everything), self.values_of(self.question.order[0])
        level = len(values) - values.index(next(iter(setting.values()))) if setting else 0
        return tested.successes.bound(tested.results[0].path, level, self.question.error)

    @property
    def everything(self) -> Flags:
        """The cells of all units."""
        return np.ones(self._n_cells, dtype=bool)

    def without_fold(self, fold: int) -> Flags:
        """The cells of the units that are not in a fold."""
        return np.asarray(np.arange(self._n_cells) % FOLDS != fold, dtype=bool)

    @property
    def older_cells(self) -> Flags:
        """The cells of the units that are not of the newest third."""
        return np.arange(self._n_cells) < FOLDS

    def in_cells(self, cells: Flags) -> Flags:
        """R: which units are in some cells."""
        return np.asarray(cells[self._cell])

    def path_names(self, axes: Collection[str] | None) -> list[str]:
        """The names of the paths that use only some limits; of all of them if `axes` is None."""
        needed = {JOINT: {name for name in JOINT_AXES if name in self._thresholds}}
        names = [levels.path.name for levels in self.levels]
        return names if axes is None else [name for name in names if needed.get(name, {name}) <= {*axes}]

    def choose(self, cells: Flags | None = None, paths: Collection[str] | None = None) -> Choice:
        """Of the settings that are shown to keep enough on the units of some cells, the one that gains most there.

        `paths`: the names of those that it may be on; None for all.
        """
        tested = self._test(self.everything if cells is None else cells)
        places, gains = self._frontier_of(tested, paths)
        successes, results, desk = tested.successes, tested.results, self.question.desk

        def candidate(index: int, level: int) -> Candidate:
            result, (_, lost, saved) = results[index], tested.scores[index]
            bound = successes.bound(result.path, level, result.error) if desk is None else desk.keep
            setting = self._setting(tested, index, level)
            return Candidate(result.path.name, setting, int(lost[level]), int(saved[level]), float(bound))

        findings = []
        for index, result in enumerate(results):
            if not result.accepted:
                loosest = int(np.count_nonzero(result.path.lost_at == 0))
                findings.append(PathFinding(result, None, loosest, 0))
                continue
            found = candidate(index, int(np.argmax(tested.scores[index][0])))
            name = result.path.name
            setting = found.setting if name == JOINT else {name: found.setting.get(name)}
            findings.append(PathFinding(result, setting, found.lost, found.saved, found.bound))
        at = int(np.argmax(gains)) if gains else 0
        around = {n: candidate(*places[n]) for n in {at - 1, at, at + 1, len(places) - 1} if 0 <= n < len(places)}
        best = around[at] if gains and gains[at] > 0 else None
        by_task = successes.by_task()
        return Choice(
            best=best,
            tightest=around[len(places) - 1] if len(places) > 1 else None,
            last_step=None if best is None else Margin(around[at - 1], around[at]),
            next_step=Margin(around[at], around[at + 1]) if at + 1 < len(places) else None,
            paths=tuple(findings),
            missing=missing(results, successes, self.question.keep, self.question.error),
            successes=len(successes.clusters),
            tasks=len(set(successes.clusters.tolist())),
            largest=int(by_task.max(initial=0)),
            keep_possible=self._keep_possible([result.path for result in results], by_task),
            cluster=self._cluster,
            spent=int(self.levels[0].spent[tested.cells, 0].sum()),
        )

    def setting_on(self, cells: Flags, paths: Collection[str] | None = None) -> dict[str, Any] | None:
        """The setting that `choose` finds on the units of some cells; empty for no limit, None if none is accepted."""
        tested = self._test(cells)
        places, gains = self._frontier_of(tested, paths)
        if not any(result.accepted for result in tested.results):
            return None
        at = int(np.argmax(gains)) if gains else 0
        return self._setting(tested, *places[at]) if gains and gains[at] > 0 else {}

    def _test(self, cells: Flags) -> _Tested:
        """Test all paths on the units of some cells."""
        question, in_cells = self.question, self.in_cells(cells)
        good, unknown = base_of(self.units) & in_cells, open_units(self.units) & in_cells
        numbers = pd.factorize(np.append(self.clusters[good], self.clusters[unknown]))[0].astype(np.int64)
        n_good = int(good.sum())
        successes = Successes(numbers[:n_good], question.dependence, numbers[n_good:])
        paths = [
            levels.path._replace(lost_at=levels.path.lost_at[good], open_lost_at=levels.path.lost_at[unknown])
            for levels in self.levels
        ]
        if question.desk is None:
            results = accept_values(paths, successes, question.keep, question.error)
        else:  # they were tested at the desk
            results = [PathResult(path, question.error * path.share, question.desk.shown[path.name]) for path in paths]
        n_always_lost = int((good & self.always_lost).sum())
        scores = [
            self._score(levels, result, n_good, n_always_lost, cells)
            for levels, result in zip(self.levels, results, strict=True)
        ]
        return _Tested(cells, successes, results, scores)

    def _frontier_of(self, tested: _Tested, paths: Collection[str] | None) -> tuple[list[tuple[int, int]], list[int]]:
        """The settings of the frontier that are on some paths, as (path, level), and what they gain."""
        places = _frontier(
            [
                score if paths is None or levels.path.name in paths else None
                for levels, score in zip(self.levels, tested.scores, strict=True)
            ]
        )
        return places, [int(tested.scores[index][0][level]) for index, level in places]

    def _setting(self, tested: _Tested, index: int, level: int) -> dict[str, Any]:
        """The limits of a level that add something to the others."""
        saved = int(tested.scores[index][2][level])
        return self._without_idle(self.levels[index].setting(level), saved, tested.cells)

    def _keep_possible(self, paths: Sequence[Path], by_task: Ints) -> float:
        """The largest share to keep at which the loosest value of the first path passes, if it loses nothing."""
        if not paths:
            return 0.0
        none, error = np.zeros(len(by_task)), self.question.error
        alone = float(kept_bound(none, by_task, error))
        if not any(errors_of(paths, by_task, alone, error)[1:]):  # the others are dropped at that share
            return alone
        return float(kept_bound(none, by_task, error * paths[0].share))

    def held_out(self, paths: Collection[str] | None = None) -> dict[str, int] | None:
        """The results of settings on units that were not used to choose them; None with too few clusters to split.

        They are the sums of `sums_of` over all folds, each under the setting chosen without it, and `chosen`, the
        number of folds with a setting.
        """
        if self.clusters.max(initial=-1) + 1 < FOLDS:
            return None
        total: dict[str, int] = {"chosen": 0}
        for number in range(FOLDS):
            setting = self.setting_on(self.without_fold(number), paths)
            total["chosen"] += setting is not None
            out = self.units.take(~self.in_cells(self.without_fold(number)))
            for name, value in sums_of(out, setting or {}, self.question).items():
                total[name] = total.get(name, 0) + value
        return total

    def _score(
        self, levels: Levels, result: PathResult, successes: int, n_always_lost: int, cells: Flags
    ) -> tuple[Ints, Ints, Ints]:
        """Of each accepted level of a path, from no limit on: its gain, how many it loses, and what it saves."""
        spent = levels.spent[cells].sum(axis=0)
        at_level = np.bincount(result.path.lost_at, minlength=result.path.size + 1)
        lost = np.concatenate(([n_always_lost], np.cumsum(at_level)))[: result.accepted + 1]
        saved = (spent[0] - spent)[: result.accepted + 1]
        return self.question.net_gain(saved, lost - lost[0], int(spent[0]), successes), lost, saved

    def _without_idle(self, setting: dict[str, Any], saved: int, cells: Flags) -> dict[str, Any]:
        """A setting without the limits that add nothing to it."""
        for name in reversed(list(setting)) if len(setting) > 1 else ():
            fewer = {other: value for other, value in setting.items() if other != name}
            amounts = self._spent(self.question.settings({other: [value] for other, value in fewer.items()}))
            spent = int(amounts.reshape(self._n_cells, -1)[cells, 0].sum())
            if int(self.levels[0].spent[cells, 0].sum()) - spent == saved:
                setting = fewer
        return setting

    def _axis(self, name: str) -> GridAxis:
        """An axis with all values that it may have."""
        question, units = self.question, self.units
        if question.grid is not None:
            return question.axis(name, list(question.grid[name]))
        least_value = LIMITS[name].min_useful
        tightest = question.axis(name, [least_value])
        rules_and_units = [(rule, units) for rule in tightest.rules] + [
            (rule, units.response_ledger()) for rule in tightest.responses
        ]
        # The distance from the tightest value to the largest known peak; the last value never fires.
        peaks = [(recordings.peak(rule.counter), rule.threshold) for rule, recordings in rules_and_units]
        distances = [int(peak.max(where=peak < UNKNOWN_PEAK, initial=0)) - tight + 1 for peak, tight in peaks]
        return question.axis(name, range(least_value, least_value + max(0, *distances) + 1))

    def _evaluate_policy(self, name: str) -> Ints:
        """What the values of an axis lose and spend where the policy evaluates them, beside its further limits.

        Values are numbered by their place: those from the tightest up to a unit's peak stop it.
        """
        axis_values = self._axes[name].values  # noqa: PD011 - no pandas
        values = [value for value in axis_values if value is not None]
        is_lost, amounts = reach_of(self.units, self.question.settings({name: [*values, None]}), self.question.measure)
        self.always_lost = is_lost[:, -1]
        ranks = np.arange(1, len(values) + 1)
        self._thresholds[name] = np.append(ranks, OFF) if None in axis_values else ranks
        self._peaks[name] = np.where(is_lost[:, -1], OFF, is_lost[:, :-1].sum(axis=1)).astype(np.int64)
        along = np.zeros((self._n_cells, amounts.shape[1]), dtype=np.int64)
        np.add.at(along, self._cell, amounts)
        return along

    def _single(self, path: Path, spent: Ints) -> Levels:
        """The levels of one axis; the last of `spent` is off."""
        from_loose = spent[:, ::-1] if spent.shape[1] > path.size else np.hstack([spent[:, -1:], spent[:, ::-1]])
        values = self._axes[path.name].values  # noqa: PD011 - no pandas

        def setting(level: int) -> dict[str, Any]:
            value = None if level == 0 else values[path.size - level]
            return {} if value is None else {path.name: value}

        return Levels(path, from_loose, setting)

    def _joint(self, path: Path, levels: Ints, along: dict[str, Ints]) -> Levels:
        """The levels of the joint path."""

        def setting(level: int) -> dict[str, Any]:
            limits = levels[level - 1].tolist() if level else [OFF] * len(JOINT_AXES)
            return {name: value for name, value in zip(JOINT_AXES, limits, strict=True) if value < OFF}

        off = next(iter(along.values()))[:, -1:]
        if not path.size:
            return Levels(path, off, setting)
        axes, places = [], []
        for name, column in zip(JOINT_AXES, levels.T, strict=True):
            if name in self._thresholds:
                thresholds = np.unique(column[column < OFF])
                axes.append(self.question.axis(name, [*thresholds.tolist(), None]))
                places.append(np.searchsorted(thresholds, column))
        spent = sum_spent_along(
            self.units, axes, places, self.question.measure, groups=self._cell, n_groups=self._n_cells
        )
        return Levels(path, np.hstack([off, spent]), setting)

    def _spent(self, grid_settings: Settings) -> Ints:
        """What is spent under each setting, by cell."""
        measure = self.question.measure
        amounts: Ints = aggregate_of(
            self.units, grid_settings, groups=self._cell, n_groups=self._n_cells, measures=[measure]
        )[measure]
        return amounts


def _frontier(scored: Sequence[tuple[Ints, Ints, Ints] | None]) -> list[tuple[int, int]]:
    """The accepted settings, as (path, level), from which each step loses more and saves less for it than the last.

    It begins with no limit. These are the corners of the upper hull of what is saved over what is lost.
    """
    accepted = [(index, *score[1:]) for index, score in enumerate(scored) if score is not None and len(score[1]) > 1]
    points = []
    for index, lost, saved in accepted:
        points += [(int(lost[level]), -int(saved[level]), index, level) for level in range(1, len(lost))]
    hull = [(int(lost[0]), 0, index, 0) for index, lost, _ in accepted[:1]]
    for point in sorted(points):
        if point[1] >= hull[-1][1]:  # it saves no more, and loses no less
            continue
        while len(hull) > 1 and _is_below(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return [(index, level) for _, _, index, level in hull]


def _is_below(first: tuple[int, ...], middle: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Whether the middle point saves no more than the line from the first to the last."""
    return (middle[1] - first[1]) * (last[0] - first[0]) >= (last[1] - first[1]) * (middle[0] - first[0])


def reach_of(units: Ledger, grid_settings: Settings, measure: str) -> tuple[Flags, Ints]:
    """R x settings each: whether a setting stops a unit, and what the unit spends; 0 where that is not known."""
    columns, shape = rows_under(units, grid_settings), (units.n_runs, grid_settings.count)
    is_lost = np.asarray(columns["outcome"] != "unchanged", dtype=bool)
    return is_lost.reshape(shape), _amount(columns, measure).reshape(shape)


def rows_under(units: Ledger, grid_settings: Settings) -> dict[str, Any]:
    """The columns of a row for each unit and setting."""
    positions = Places(units)
    stops = stops_of_spans(
        units, positions, lambda ledger, part_positions: grid_stops(ledger, grid_settings, part_positions)
    )
    return outcome_columns(units, positions, *stops)


def _amount(columns: dict[str, Any], name: str) -> Ints:
    """A column of what is spent or saved, in whole units; 0 where it is not known."""
    column = columns[f"{name}_usd" if name.endswith("cost") else name]
    values = np.asarray(column.to_numpy(np.float64, na_value=0)) * (MICRO if name.endswith("cost") else 1)
    amounts: Ints = np.rint(values).astype(np.int64)
    return amounts


def _thresholds(axis: GridAxis) -> Ints:
    """The thresholds of an axis from tight to loose; off, if it is among the values, is the last."""
    rules = [rule.threshold for rule in axis.rules]
    return np.array([*rules, OFF] if len(axis.values) > axis.size else rules, dtype=np.int64)


def aggregate_of_units(units: Ledger, settings: Settings) -> Sums:
    """The sums of all settings, as `aggregate_of` names them, with the successes of families counted once each.

    A family whose subagent is stopped may have kept its success. One whose root is stopped has not, if calls follow.
    """
    sums = aggregate_of(units, settings)
    if units.unit is None:
        return sums
    good = base_of(units)
    fired = [axis.count_reached(units.peak(axis.counter)[good]) for axis in settings.axes]
    n_kept = np.zeros(settings.shape, dtype=np.int64)
    np.add.at(n_kept, tuple(fired), 1)
    for axis in range(n_kept.ndim):
        np.cumsum(n_kept, axis=axis, out=n_kept)
    of_roots = aggregate_of(units.take(is_root(units) & good), settings)
    certainly_lost = of_roots["successes"] - of_roots["kept_upper"]
    return sums | {"kept_lower": n_kept[None], "kept_upper": sums["successes"] - certainly_lost}


def sums_of(units: Ledger, setting: dict[str, Any], question: Question) -> dict[str, int]:
    """The aggregate of one setting."""
    settings = question.settings({name: [value] for name, value in setting.items() if value is not None})
    if question.policy is not None:
        columns = rows_under(units, settings)
        names = [*SPENT_MEASURES, *(f"saved_{name}" for name in SPENT_MEASURES)]
        kept_sums = {name: int(columns[name].fillna(0).sum()) for name in ("kept_lower", "kept_upper")}
        return {**kept_sums, **{name: int(_amount(columns, name).sum()) for name in names}}
    cell = (0, *(0 for _ in settings.axes))
    return {name: int(values[cell]) for name, values in aggregate_of_units(units, settings).items()}
