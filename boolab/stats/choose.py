"""Which setting is chosen on runs: paths of settings, tested as `boolab.stats.fixed_sequence` says, and what they save.

There is a path for each limit by itself, and one that tightens cap, doom loop and tool budget together. Of all settings
that are accepted, the answer is the one that saves most on record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from boolab.detectors import Identities
from boolab.grid import Axis, Grid, Settings, settings_of
from boolab.ledger import Flags, Ints, Ledger
from boolab.stats.fixed_sequence import JOINT, JOINT_AXES, OFF, Dependence, PathResult, accept_values, missing, paths_of
from boolab.tally import tally_of


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        keep: The share of successes to keep.
        confidence: One-sided.
        measure: What to save: steps, tool_calls, tokens or cost.
        order: The axes. The first has half of the error.
        grid: The values of each axis; None for all whole numbers.
        identity: What makes two calls the same.
        seed: Of the split into folds.
        dependence: How runs of a task depend on each other.
    """

    keep: float
    confidence: float
    measure: str
    order: tuple[str, ...]
    grid: Grid | None
    identity: Identities | None
    seed: int
    dependence: Dependence = "auto"

    def settings(self, values: dict[str, Sequence[Any]]) -> Settings:
        """The settings of a grid; without any axis, the one that limits nothing."""
        return settings_of(values or {self.order[0]: [None]}, identity=self.identity)


class Found(NamedTuple):
    """What was found along a path.

    Attributes:
        tests: How it was tested.
        setting: Of the values that were accepted the one that saves most, by axis, None for off; the loosest of those
            that save as much. None if no value was accepted.
        lost: How many successes it loses; if no value was accepted, how many the loosest one loses.
        saved: What it saves on record.
    """

    tests: PathResult
    setting: dict[str, Any] | None
    lost: int
    saved: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and on what grounds.

    Attributes:
        setting: The value of each axis, None for off.
        best: The path that it comes from; None if there is none, or nothing that was accepted saves anything.
        paths: What was found along each path.
        missing: How many more successes without a further loss it takes until there is a setting; 0 if there is one.
        successes: How many there are.
        tasks: In how many clusters.
    """

    setting: dict[str, Any]
    best: Found | None
    paths: tuple[Found, ...]
    missing: int
    successes: int
    tasks: int

    @property
    def qualifies(self) -> bool:
        """Whether any value was accepted: then no limit at all is an answer too."""
        return any(found.tests.accepted for found in self.paths)


def choose(units: Ledger, clusters: Any, question: Question) -> Choice:  # noqa: ANN401 - labels of any type
    """Of all settings that are shown to keep enough, the one that saves most on record.

    Args:
        units: Runs, or turns as runs.
        clusters: R: what makes units dependent, such as their task.
        question: What is asked.

    Returns:
        The choice.
    """
    good = base_of(units)
    codes, tasks = pd.factorize(pd.Series(clusters)[good])
    axes = {name: question.settings({name: candidates(name, units, question)}).axes[0] for name in question.order}
    thresholds = {name: _thresholds(axis) for name, axis in axes.items()}
    # What is not known counts as lost by every limit, but not by none.
    peaks = {name: np.minimum(units.peak(axis.counter)[good], OFF - 1) for name, axis in axes.items()}
    paths, rungs = paths_of(thresholds, peaks, whole=question.grid is None)
    alpha = 1 - question.confidence
    results = accept_values(paths, codes.astype(np.int64), question.keep, alpha, question.dependence)
    work = _Savings(units, question)
    found = tuple(
        work.joint(result, rungs, peaks) if result.path.name == JOINT else work.single(result, axes)
        for result in results
    )
    best = max((one for one in found if one.saved > 0), key=lambda one: one.saved, default=None)
    setting = dict.fromkeys(question.order) | ({} if best is None else best.setting or {})
    short = missing(results, len(codes), question.keep, alpha)
    return Choice(setting, best, found, short, len(codes), len(tasks))


def base_of(units: Ledger) -> Flags:
    """R: which units are successes: what a setting keeps or loses."""
    return np.asarray(units.success == 1)


def candidates(name: str, units: Ledger, question: Question) -> list[Any]:
    """The values that an axis may take."""
    if question.grid is not None:
        return list(question.grid[name])
    least = 2 if name == "doom_loop" else 1
    counter = question.settings({name: [least]}).axes[0].counter
    highest = int(units.peak(counter).max(initial=0))
    return list(range(least, max(least, highest + 1) + 1))  # the last of them never fires


def _thresholds(axis: Axis) -> Ints:
    """The thresholds of an axis from tight to loose; off, if that is asked for, is the last."""
    rules = [rule.threshold for rule in axis.rules]
    return np.array([*rules, OFF] if len(axis.values) > axis.size else rules, dtype=np.int64)


class _Savings:
    """What the settings of one record save."""

    def __init__(self, units: Ledger, question: Question) -> None:
        self._units = units
        self._question = question
        self._whole = self._spent({})

    def single(self, result: PathResult, axes: dict[str, Axis]) -> Found:
        """Along the path of one axis."""
        name, size = result.path.name, result.path.size
        if not result.accepted:
            return _none(result)
        values = axes[name].values[size - result.accepted :]  # noqa: PD011 - no pandas
        wanted = self._question.settings({name: [*values, None]})
        spent = self._tally(wanted)[: len(wanted.axes[0].values)]
        best = int(np.flatnonzero(spent == spent.min())[-1])  # of those that save as much, the loosest; off is the last
        value = wanted.axes[0].values[best]  # noqa: PD011
        place = size - 1 - axes[name].values.index(value) if value is not None else 0  # noqa: PD011
        lost = 0 if value is None else int(result.path.lost()[place])
        return Found(result, {name: value}, lost, self._whole - int(spent[best]))

    def joint(self, result: PathResult, rungs: Ints, peaks: Mapping[str, Ints]) -> Found:
        """Along the joint path: its tightest accepted rung, without the limits that add nothing to it."""
        if not result.accepted:
            return _none(result)
        rung = zip(JOINT_AXES, rungs[result.accepted - 1].tolist(), strict=True)
        setting = {name: value for name, value in rung if value < OFF}
        spent = self._spent(setting)
        for name in reversed(list(setting)):
            fewer = {other: value for other, value in setting.items() if other != name}
            if self._spent(fewer) == spent:
                setting = fewer
        lost = np.any([peaks[name] >= value for name, value in setting.items()], axis=0).sum() if setting else 0
        return Found(result, setting, int(lost), self._whole - spent)

    def _spent(self, setting: dict[str, Any]) -> int:
        wanted = self._question.settings({name: [value] for name, value in setting.items()})
        return int(self._tally(wanted).flat[0])

    def _tally(self, wanted: Settings) -> Ints:
        measure = self._question.measure
        spent: Ints = tally_of(self._units, wanted, only=[measure])[measure][0]
        return spent


def _none(result: PathResult) -> Found:
    return Found(result, None, int(np.count_nonzero(result.path.lost_at == 0)), 0)


def sums_of(units: Ledger, setting: dict[str, Any], question: Question) -> dict[str, int]:
    """The tally of one setting."""
    settings = question.settings({name: [value] for name, value in setting.items() if value is not None})
    place = (0, *(0 for _ in settings.axes))
    return {name: int(values[place]) for name, values in tally_of(units, settings).items()}


def held_out(units: Ledger, clusters: Any, question: Question, folds: int) -> dict[str, int] | None:  # noqa: ANN401
    """How settings do on units that were not used to choose them: sums over folds of whole clusters.

    Returns:
        The sums of `sums_of` over all folds, each under the setting chosen without it, and `chosen`, in how many folds
        there was one; None if there are too few clusters to split.
    """
    codes = pd.factorize(pd.Series(clusters))[0]
    count = int(codes.max(initial=-1)) + 1
    if count < folds:
        return None
    fold = np.random.default_rng(question.seed).permutation(count) % folds
    total: dict[str, int] = {"chosen": 0}
    for number in range(folds):
        out: Flags = np.asarray(fold[codes] == number)
        rest = choose(units.where(~out), pd.Series(clusters).array[~out], question)
        total["chosen"] += rest.qualifies
        for name, value in sums_of(units.where(out), rest.setting, question).items():
            total[name] = total.get(name, 0) + value
    return total
