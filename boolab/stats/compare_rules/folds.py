"""The division of tasks into folds, and the rules that a chooser returns for parts of the runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from boolab.errors import SettingError
from boolab.io.checks import repr_of
from boolab.stats.compare_rules.choosers import Chooser, ReadyChooser
from boolab.stats.compare_rules.judged import Judged, runs_at
from boolab.stats.compare_rules.settings import rule_of
from boolab.whatif.recordings import Recorded
from boolab.whatif.rule_matrix import Rule
from boolab.whatif.step_table import Ints

MIN_FOLDS = 2


def check_folds(folds: int | Mapping[str, int]) -> None:
    """Raise `SettingError` unless there are two folds at least."""
    if isinstance(folds, Mapping):
        if len(set(folds.values())) >= MIN_FOLDS:
            return
    elif not isinstance(folds, bool) and isinstance(folds, int) and folds >= MIN_FOLDS:
        return
    msg = f"folds={repr_of(folds)}: expected a whole number of at least 2, or the fold of each task by its name"
    raise SettingError(msg)


def folds_of(clusters: pd.Series[Any], folds: int | Mapping[str, int], seed: int) -> Ints:
    """The fold of each run, from 1: all runs of a task are in one.

    The names of the tasks are sorted, then shuffled by `numpy.random.default_rng(seed)`, then dealt out to the folds in
    turn. So the folds depend on the names and the seed alone, and their numbers of tasks differ by one at most. With
    fewer tasks than folds there is a fold for each task.

    Example:
        >>> folds_of(pd.Series(list("abcab")), 2, seed=0).tolist()
        [2, 1, 1, 2, 1]
    """
    names = clusters.astype(str)
    if isinstance(folds, Mapping):
        missing = sorted(set(names) - set(map(str, folds)))
        if missing:
            msg = f"folds: task {missing[0]!r} has no fold; {len(missing):,} of the runs' tasks are not in the mapping"
            raise SettingError(msg)
        given = {str(name): fold for name, fold in folds.items()}
        ranks = {fold: place for place, fold in enumerate(sorted({given[name] for name in names}), 1)}
        return np.array([ranks[given[name]] for name in names], dtype=np.int64)
    tasks = sorted(set(names))
    order = np.random.default_rng(seed).permutation(len(tasks))
    fold = {tasks[task]: place % folds + 1 for place, task in enumerate(order.tolist())}
    return np.array([fold[name] for name in names], dtype=np.int64)


class Choices:
    """The rules that a chooser returns for parts of the runs."""

    def __init__(self, recorded: Recorded, judged: Judged, choose: Chooser) -> None:
        self._recorded = recorded
        self._judged = judged
        self._choose = choose

    def of(self, places: Ints) -> Rule:
        """The choice by some of the runs."""
        if isinstance(self._choose, ReadyChooser):
            return self._choose.pick(self._judged.rows(places))
        return rule_of(self._choose(runs_at(self._recorded, self._judged, places)))


def candidates_of(choose: object) -> tuple[Rule, ...]:
    """The rules that a chooser needs to be evaluated before it chooses; `SettingError` if it cannot be called."""
    if not callable(choose):
        msg = (
            f"choose={choose!r}: expected a function that takes runs and returns a rule, such as "
            "bl.stats.smallest_cap(0.95)"
        )
        raise SettingError(msg)
    return choose.candidates if isinstance(choose, ReadyChooser) else ()


class Places:
    """Rules, each once, and their places."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self._at: dict[str, int] = {}

    def of(self, rule: Rule) -> int:
        """The place of a rule, which is added if it is new."""
        key = str(rule)
        if key not in self._at:
            self._at[key] = len(self.rules)
            self.rules.append(rule)
        return self._at[key]
