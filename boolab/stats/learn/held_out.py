"""What learned rules save and keep on tasks that they were not learned from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from boolab.stats.learn.table import FeatureTable
from boolab.whatif.step_table import Flags, Ints


class HeldOut(NamedTuple):
    """A rule: its score after each step of the whole table, and its threshold."""

    scores: Ints
    threshold: int


class Judged(NamedTuple):
    """Runs, each judged by a rule that was learned without its task.

    Attributes:
        score: N: the score after each step.
        kept: R: whether no boundary reaches the threshold.
        saved: R: how many steps are saved.
        folds: How many rules there are.
    """

    score: Ints
    kept: Flags
    saved: Ints
    folds: int


def held_out(table: FeatureTable, folds: int, seed: int, learn: Callable[[Flags], HeldOut | None]) -> Judged | None:
    """Judge each run by a rule that is learned from the other parts of the tasks.

    `learn`: a rule, from flags of the runs to learn from; None if they are too few. Returns the runs; None if a part
    leaves too few runs to learn from.
    """
    tasks = np.random.default_rng(seed).permutation(int(table.task.max()) + 1)
    part = np.argsort(tasks)[table.task] % folds
    score = np.zeros(len(table.run), dtype=np.int64)
    kept, saved = np.zeros(table.n_runs, dtype=bool), np.zeros(table.n_runs, dtype=np.int64)
    for fold in range(folds):
        mine = part == fold
        rule = learn(~mine)
        if rule is None:
            return None
        steps = mine[table.run]
        score[steps] = rule.scores[steps]
        kept[mine] = (table.peaks(rule.scores) < rule.threshold)[mine]
        saved[mine] = table.saved(rule.scores, rule.threshold)[mine]
    return Judged(score, kept, saved, folds)
