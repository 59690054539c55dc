"""Which setting is chosen on runs: paths of settings, tested as in `fixed_sequence`, and what they save.

There is a path for each limit by itself, and one that tightens cap, doom loop and tool budget together. Of all accepted
settings, the answer is the one that saves most on record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.core.text import count
from boolab.core.types import MICRO, Identities
from boolab.errors import SettingError
from boolab.harnesses.policy import Policy
from boolab.limits.table import LIMITS, MeasureName
from boolab.stats.intervals import Labels
from boolab.stats.kept_share import kept_bound, tasks_missing
from boolab.stats.recommend.fixed_sequence import (
    JOINT,
    JOINT_AXES,
    NOT_KNOWN,
    OFF,
    Dependence,
    PathResult,
    Successes,
    accept_values,
    missing,
    paths_of,
)
from boolab.stats.recommend.units import base_of, cluster_noun, is_root
from boolab.whatif.aggregate import SPENT_MEASURES, aggregate_of
from boolab.whatif.first_crossing import Places
from boolab.whatif.grid import Grid, GridAxis, Settings, settings_of
from boolab.whatif.outcomes import grid_stops, outcome_columns, stops_of_spans
from boolab.whatif.policy_limits import AXIS_OF, LIMIT_OF
from boolab.whatif.step_table import LABEL, UNKNOWN_PEAK, Flags, Ints, Ledger

FOLDS: Final = 5
MOSTLY: Final = 0.5
"""The share of steps that have to report what is to be saved: the savings of few are not those of all."""


@dataclass(frozen=True, slots=True)
class Question:
    """The checked arguments of `recommend`, for one group.

    `measure` is what to save: steps, tool_calls, tokens or cost. `order` are the axes; the first has half of the error.
    `grid` has the values of each axis; None for all whole numbers. `policy` is the harness whose limits are set, where
    it evaluates them; its further limits are in force too.
    """

    keep: float
    confidence: float
    measure: str
    order: tuple[str, ...]
    grid: Grid | None
    identity: Identities | None
    seed: int
    dependence: Dependence = "tasks"
    policy: Policy | None = None

    def settings(self, values: dict[str, Iterable[Any]]) -> Settings:
        """The settings of a grid; without any axis, the one with no limits except the policy's own."""
        return settings_of(values or {self.order[0]: [None]}, self.policy, self.identity)

    def axis(self, name: str, values: Iterable[Any]) -> GridAxis:
        """One axis with these values."""
        return next(axis for axis in self.settings({name: values}).axes if axis.name == name)


class PathFinding(NamedTuple):
    """The result along a path: of its tests, and of the accepted value that saves most, by axis.

    Of those that save as much it is the loosest; None is off. If no value was accepted, `setting` is None, and `lost`
    is how many successes the loosest value loses. `bound` is the lower bound of the share that the setting keeps, by
    itself, at the path's part of the error.
    """

    tests: PathResult
    setting: dict[str, Any] | None
    lost: int
    saved: int
    bound: float = 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen setting by axis, None for off, and the reasons for it.

    `best` is the path that it comes from; None if there is none, or nothing that was accepted saves anything. `missing`
    is how many more tasks like these without a further loss are needed until there is a setting. `tasks` is the number
    of clusters of the `successes`, and `largest` the most successes of one. `keep_possible` is the share that they
    would show to be kept, if nothing was lost. `cluster` is what a cluster is called.
    """

    setting: dict[str, Any]
    best: PathFinding | None
    paths: tuple[PathFinding, ...]
    missing: int
    successes: int
    tasks: int
    largest: int
    keep_possible: float
    cluster: str

    @property
    def counts_tasks(self) -> bool:
        """Whether the unit of the promise is the cluster; else each success is one by itself."""
        return self.largest > 1

    @property
    def missing_in_words(self) -> str:
        """What is missing, such as "20 more tasks like these"."""
        if self.counts_tasks:
            return f"{count(self.missing, f'more {self.cluster}')} like these"
        return count(self.missing, "more success", "more successes")

    def needed_in_words(self, keep: float, confidence: float) -> str:
        """What it takes to show that a share is kept, such as "59 successes without a loss"."""
        needed = tasks_missing([], [], keep, 1 - confidence, largest=self.largest)
        what = (
            count(needed, f"{self.cluster} of one size", f"{self.cluster}s of one size")
            if self.counts_tasks
            else count(needed, "success", "successes")
        )
        return f"{what} without a loss"

    @property
    def qualifies(self) -> bool:
        """Whether any value was accepted: then no limit at all is an answer too."""
        return any(path.tests.accepted for path in self.paths)


@dataclass(frozen=True, slots=True)
class Group:
    """What was found for one group of units: runs, or turns.

    `names` are the values of the columns that separate it from other groups, `noun` is what a unit is called, `sums`
    are the aggregate of the chosen setting, `folds` that on units that were not used to choose; None if there are too
    few to split.
    """

    names: tuple[Any, ...]
    noun: str
    units: Ledger
    choice: Choice
    sums: dict[str, int]
    folds: dict[str, int] | None

    @property
    def labelled(self) -> bool:
        """Whether its successes are labels, not the proxy that a unit ended by itself."""
        return self.units.success_by == LABEL

    def successes(self, n: int) -> str:
        """A number of its successes; by a proxy, what is counted as such."""
        if self.labelled:
            return count(n, "success", "successes")
        return f"{count(n, self.noun)} that ended by {'itself' if n == 1 else 'themselves'}"

    @property
    def decisive(self) -> PathFinding:
        """The result along the path of the recommended setting; along the first, if no limit is recommended."""
        return self.choice.best or self.choice.paths[0]

    def share_of(self, path: PathFinding, measure: str) -> float | None:
        """What the best setting of a path saves, as a share of the use on record."""
        total = used_in(self.sums, measure)
        return path.saved / total if total else None

    def saved_share(self, measure: str) -> float | None:
        """What is saved, as a share of the use on record."""
        return _share(self.sums, measure)

    def heldout_saved_share(self, measure: str) -> float | None:
        """What is saved, as a share of the use on record, on units that were not used to choose."""
        return None if self.folds is None else _share(self.folds, measure)


def used_in(sums: dict[str, int], measure: str) -> int:
    """What all units use without the setting."""
    return sums[measure] + sums[f"saved_{measure}"]


def _share(sums: dict[str, int], measure: str) -> float | None:
    total = used_in(sums, measure)
    return sums[f"saved_{measure}"] / total if total else None


class Candidates:
    """The possible settings for some units: which successes each of them loses, and what it saves.

    `clusters` is R: the cluster of each unit, such as its task. All of it is computed once, and summed over the units
    that take part.
    """

    def __init__(self, units: Ledger, clusters: Labels, question: Question) -> None:
        self._units = units
        self._question = question
        self._cluster = cluster_noun(units)
        self._clusters = pd.factorize(pd.Series(clusters))[0].astype(np.int64)
        order = np.random.default_rng(question.seed).permutation(int(self._clusters.max(initial=-1)) + 1)
        self._fold = np.asarray(order % FOLDS, dtype=np.int64)[self._clusters]
        """R: the fold of each unit."""
        self._axes = {name: self._axis(name) for name in question.order}
        if question.policy is None:
            self._thresholds = {name: _thresholds(axis) for name, axis in self._axes.items()}
            self._peaks = {name: np.minimum(units.peak(axis.counter), NOT_KNOWN) for name, axis in self._axes.items()}
            self._along = {name: self._spent(Settings((axis,), (name,))) for name, axis in self._axes.items()}
        else:
            self._thresholds, self._peaks, self._along = {}, {}, {}
            for name in question.order:
                self._evaluate_policy(name)
        self._of_setting: dict[tuple[tuple[str, Any], ...], Ints] = {}

    def choose(self, left_out_fold: int | None = None) -> Choice:
        """Of all settings that are shown to keep enough, the one that saves most on record, without one fold."""
        question, fold = self._question, np.arange(FOLDS)
        good = base_of(self._units) & (True if left_out_fold is None else self._fold != left_out_fold)
        successes = Successes(pd.factorize(self._clusters[good])[0].astype(np.int64), question.dependence)
        peaks = {name: peak[good] for name, peak in self._peaks.items()}
        paths, levels = paths_of(
            self._thresholds, peaks, all_integers=question.grid is None, joint=question.policy is None
        )
        alpha = 1 - question.confidence
        results = accept_values(paths, successes, question.keep, alpha)
        used = fold != left_out_fold
        path_choices = tuple(
            PathFinding(result, None, int(np.count_nonzero(result.path.lost_at == 0)), 0)
            if not result.accepted
            else self._joint_result(result, levels, successes, used)
            if result.path.name == JOINT
            else self._single(result, successes, used)
            for result in results
        )
        best = max((path for path in path_choices if path.saved > 0), key=lambda path: path.saved, default=None)
        setting = dict.fromkeys(question.order) | ({} if best is None else best.setting or {})
        short = missing(results, successes, question.keep, alpha)
        by_task = successes.by_task()
        n_tasks, largest = len(set(successes.clusters.tolist())), int(by_task.max(initial=0))
        possible = float(kept_bound(np.zeros(len(by_task)), by_task, alpha))
        return Choice(
            setting, best, path_choices, short, len(successes.clusters), n_tasks, largest, possible, self._cluster
        )

    def held_out(self) -> dict[str, int] | None:
        """The results of settings on units that were not used to choose them; None with too few clusters to split.

        They are the sums of `sums_of` over all folds, each under the setting chosen without it, and `chosen`, the
        number of folds with a setting.
        """
        if self._clusters.max(initial=-1) + 1 < FOLDS:
            return None
        total: dict[str, int] = {"chosen": 0}
        for number in range(FOLDS):
            rest = self.choose(left_out_fold=number)
            total["chosen"] += rest.qualifies
            out = self._units.take(np.asarray(self._fold == number))
            for name, value in sums_of(out, rest.setting, self._question).items():
                total[name] = total.get(name, 0) + value
        return total

    def _axis(self, name: str) -> GridAxis:
        """An axis with all values that it may have."""
        question, units = self._question, self._units
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

    def _evaluate_policy(self, name: str) -> None:
        """What the values of an axis lose and spend where the policy evaluates them, beside its further limits.

        Values are numbered by their place: those from the tightest up to a unit's peak stop it.
        """
        axis_values = self._axes[name].values  # noqa: PD011 - no pandas
        values = [value for value in axis_values if value is not None]
        is_lost, amounts = reach_of(
            self._units, self._question.settings({name: [*values, None]}), self._question.measure
        )
        ranks = np.arange(1, len(values) + 1)
        self._thresholds[name] = np.append(ranks, OFF) if None in axis_values else ranks
        self._peaks[name] = np.where(is_lost[:, -1], OFF, is_lost[:, :-1].sum(axis=1)).astype(np.int64)
        self._along[name] = np.zeros((FOLDS, amounts.shape[1]), dtype=np.int64)
        np.add.at(self._along[name], self._fold, amounts)

    def _single(self, result: PathResult, successes: Successes, folds_used: Flags) -> PathFinding:
        """The result along the path of one axis."""
        name, size = result.path.name, result.path.size
        amounts = self._along[name][folds_used].sum(axis=0)  # the last of them is off
        first = size - result.accepted
        best = first + int(
            np.flatnonzero(amounts[first:] == amounts[first:].min())[-1]
        )  # the loosest that saves as much
        is_off = best == len(amounts) - 1
        value = None if is_off else self._axes[name].values[best]  # noqa: PD011 - no pandas
        is_lost = np.zeros(len(result.path.lost_at), dtype=bool) if is_off else result.path.lost_at < size - best
        return _finding_of(result, {name: value}, successes, is_lost, int(amounts[-1] - amounts[best]))

    def _joint_result(self, result: PathResult, levels: Ints, successes: Successes, folds_used: Flags) -> PathFinding:
        """The result along the joint path: its tightest accepted level, without the limits that add nothing to it."""
        level = zip(JOINT_AXES, levels[result.accepted - 1].tolist(), strict=True)
        setting = {name: value for name, value in level if value < OFF}
        amount = self._spent_under(setting, folds_used)
        for name in reversed(list(setting)):
            fewer = {other: value for other, value in setting.items() if other != name}
            if self._spent_under(fewer, folds_used) == amount:
                setting = fewer
        good = base_of(self._units) & folds_used[self._fold]
        is_lost = np.zeros(int(good.sum()), dtype=bool)
        for name, value in setting.items():
            is_lost |= self._peaks[name][good] >= value
        return _finding_of(result, setting, successes, is_lost, self._spent_under({}, folds_used) - amount)

    def _spent_under(self, setting: dict[str, Any], folds_used: Flags) -> int:
        """What is spent under a setting."""
        if not setting:
            return int(next(iter(self._along.values()))[folds_used, -1].sum())
        key = tuple(setting.items())
        if key not in self._of_setting:
            grid_settings = self._question.settings({name: [value] for name, value in key})
            self._of_setting[key] = self._spent(grid_settings).reshape(FOLDS, -1)[:, 0]
        return int(self._of_setting[key][folds_used].sum())

    def _spent(self, grid_settings: Settings) -> Ints:
        """What is spent under each setting, by fold."""
        measure = self._question.measure
        amounts: Ints = aggregate_of(self._units, grid_settings, groups=self._fold, n_groups=FOLDS, measures=[measure])[
            measure
        ]
        return amounts


def _finding_of(
    result: PathResult, setting: dict[str, Any], successes: Successes, is_lost: Flags, saved: int
) -> PathFinding:
    bound = kept_bound(successes.by_task(is_lost), successes.by_task(), result.error)
    return PathFinding(result, setting, int(np.count_nonzero(is_lost)), saved, float(bound))


def reach_of(units: Ledger, grid_settings: Settings, measure: str) -> tuple[Flags, Ints]:
    """R x settings each: whether a setting stops a unit, and what the unit spends; 0 where that is not known."""
    columns = _rows_of(units, grid_settings)
    is_lost = np.asarray(columns["outcome"] != "unchanged", dtype=bool)
    return is_lost.reshape(units.n_runs, -1), _amount(columns, measure).reshape(units.n_runs, -1)


def _rows_of(units: Ledger, grid_settings: Settings) -> dict[str, Any]:
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


def sums_of(units: Ledger, setting: dict[str, Any], question: Question) -> dict[str, int]:
    """The aggregate of one setting."""
    settings = question.settings({name: [value] for name, value in setting.items() if value is not None})
    if question.policy is not None:
        columns = _rows_of(units, settings)
        names = [*SPENT_MEASURES, *(f"saved_{name}" for name in SPENT_MEASURES)]
        kept_sums = {name: int(columns[name].fillna(0).sum()) for name in ("kept_lower", "kept_upper")}
        return {**kept_sums, **{name: int(_amount(columns, name).sum()) for name in names}}
    cell = (0, *(0 for _ in settings.axes))
    sums = {name: int(values[cell]) for name, values in aggregate_of(units, settings).items()}
    return sums if units.unit is None else sums | _count_kept_families(units, settings)


def _count_kept_families(units: Ledger, settings: Settings) -> dict[str, int]:
    """How many families keep their success under one setting: at least, and at most.

    A family whose subagent is stopped may have kept it. One whose root is stopped has not, if calls follow.
    """
    good = base_of(units)
    limits = [(axis.counter, axis.rules[0].threshold) for axis in settings.axes if axis.rules]
    stopped = np.zeros(units.n_runs, dtype=bool)
    for counter, threshold in limits:
        stopped |= units.peak(counter) >= threshold
    roots = units.take(is_root(units) & good)
    of_roots = {name: int(values.flat[0]) for name, values in aggregate_of(roots, settings).items()}
    certain = of_roots["successes"] - of_roots["kept_upper"]
    return {"kept_lower": int((good & ~stopped).sum()), "kept_upper": int(good.sum()) - certain}


def axes_of(policy: Policy) -> tuple[str, ...]:
    """The axes of a policy that can be recommended, in the order in which they are set."""
    return tuple(name for name in JOINT_AXES if name in policy.order)


def check_policy(policy: Policy, grid: Grid) -> None:
    """Raise `SettingError` if a recording does not show what these limits would do under a policy."""
    limits = {LIMIT_OF.get(name, name): name for name in grid}
    lacks = [axis for limit, axis in limits.items() if limit not in (*policy.order, *AXIS_OF)]
    policy_limits = ", ".join(AXIS_OF.get(name, name) for name in policy.order if name != "guards") or "none"
    if not grid or lacks:
        missing_limit = f"{lacks[0]!r}" if lacks else "a cap, a doom-loop threshold or a tool budget"
        msg = f"policy {policy.name}: it has no limit such as {missing_limit}; its limits: {policy_limits}"
        raise SettingError(msg)
    settings = settings_of({name: [*values, None] for name, values in grid.items()}, policy)
    if not settings.is_ordered:
        raise SettingError(
            f"policy {policy.name}: its cap grows unless {policy.continues.unless}, so a larger cap may stop a run "
            "earlier, and no value can be tested before the next: compare its values with counterfactual(grid=...)"
        )
    if not settings.is_silent:
        raise SettingError(
            f"policy {policy.name}: it sends the model messages or changes its request before it stops, so a recording "
            "does not show what its limits would keep: expected a policy that the model does not notice, or none"
        )


def measure_of(parts: Iterable[Ledger], objective: MeasureName) -> str:
    """What savings are counted in: the objective; where fewer than half of a group's steps have it, tokens or steps."""
    with_steps = [part for part in parts if part.n_steps]
    return next(
        name
        for name in (objective, "tokens", "steps")
        if name == "steps" or all((part.used[name] >= 0).mean() >= MOSTLY for part in with_steps)
    )
