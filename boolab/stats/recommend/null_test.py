"""Do the runs that a setting stops fail more often than the others? A permutation test that repeats the choice.

A setting may save much and lose little by chance alone, or because late steps are dear: where the length of a run shows
nothing about its outcome, stopping long runs drops long tasks for short ones. So the outcomes are permuted, the best
setting of each path is chosen anew on each permutation in the same way, and the runs that it stops are compared. The
statistic is the number of stopped runs that fail, less what is expected, in standard deviations (Mantel and Haenszel,
over strata); minus infinity where no setting is chosen. The p-value of a path is the share of the permutations, the
record itself included, of which the largest statistic of all paths is at least the path's on the record. So where
outcomes show nothing, a path passes in at most 5% of records, whichever of them are looked at, and in which order: a
path that fails hides no other.

Outcomes are permuted within each task that has several runs, and over all runs of the other tasks. For a doom-loop
threshold they are permuted within classes of length as well: a long run has more repeats, whatever its outcome. Not so
for a cap: it loses the same number of successes whichever runs of a length succeed.

Sources: Mantel and Haenszel, J. Natl. Cancer Inst. 22 (1959) 719; Westfall and Young, Resampling-Based Multiple Testing
(1993), on repeating the choice, and on the largest of several statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.stats.kept_share import keeps_enough, most_lost
from boolab.stats.recommend.candidates import Levels
from boolab.stats.recommend.question import Question
from boolab.whatif.step_table import Flags, Ints

PERMUTATIONS: Final = 199
LEVEL: Final = 0.05
"""The largest p-value at which the runs that a setting stops are taken to fail more often."""
LENGTH_CLASSES: Final = 5
_BLOCK: Final = 2_000_000
_ROUNDING: Final = 1e-9
Matrix = npt.NDArray[np.bool_]
Array = npt.NDArray[np.float64]


class NullTest(NamedTuple):
    """Whether the runs that a setting stops fail more often than the others.

    Attributes:
        stopped: How many runs of known outcome the setting stops.
        failed: How many of them fail.
        expected: How many would fail, if they failed as often as the others.
        p_value: One-sided.
        within: Within what outcomes were permuted: "task" where a task has several runs, else "group"; with classes of
            length, "task and length" or "length".
    """

    stopped: int
    failed: int
    expected: float
    p_value: float
    within: str

    @property
    def is_shown(self) -> bool:
        """Whether they are shown to fail more often, at 5%."""
        return self.p_value <= LEVEL


def null_tests(
    levels: Sequence[Levels],
    errors: Sequence[float],
    question: Question,
    success: Ints,
    clusters: Ints,
    lengths: Ints | None,
    always_lost: Flags | None = None,
    accepted: Sequence[int] | None = None,
) -> dict[str, NullTest]:
    """Permute the outcomes, choose anew along each path, and compare the runs that are stopped.

    Args:
        levels: The paths from which a setting is chosen.
        errors: The error of each path; 0 for one that is not tested.
        question: What is asked.
        success: R: 1, 0, or -1 where it is not known.
        clusters: R: the task of each unit, from 0.
        lengths: R: the length of each unit, to permute within classes of it; None to permute over all lengths.
        always_lost: R: whether the unit is stopped whatever is chosen; None for no unit.
        accepted: The last level of each path that is accepted on the record, where fewer are than known outcomes alone
            would show. Of permutations all are that these show: the p-value can only be larger for it.

    Returns:
        The result for each path that is tested, by name; its numbers are those of the best setting on the record.
    """
    known, clusters = _in_fixed_order(levels, success, clusters)
    outcome = success[known] == 1
    strata, within = _strata(clusters, lengths if lengths is None else lengths[known])
    certain = np.zeros(len(known), dtype=bool) if always_lost is None else always_lost[known]
    last_levels = [path_levels.path.size for path_levels in levels] if accepted is None else accepted
    paths = [
        _path_of(path_levels, error, known, certain, strata, ~outcome, last)
        for path_levels, error, last in zip(levels, errors, last_levels, strict=True)
        if error > 0
    ]
    tasks = None if question.dependence == "same_tasks" else np.flatnonzero(np.diff(clusters, prepend=-1))
    # Other records, other permutations: one set for all of them would be wrong for all of them in the same direction.
    rng = np.random.default_rng([question.seed, *(abs(int(path.saved.sum())) for path in paths)])
    size = max(1, _BLOCK // max(len(outcome), 1))
    parts = []
    for start in range(0, PERMUTATIONS + 1, size):
        outcomes = _permute(rng, outcome, strata, min(size, PERMUTATIONS + 1 - start))
        if not start:
            outcomes[0] = outcome
        parts.append(_choose(paths, outcomes, tasks, question, certain, has_record=not start))
    if not paths:
        return {}
    facts = np.concatenate(parts, axis=2)
    largest = facts[:, 3].max(axis=0)
    results = {}
    for path, (stopped, failed, expected, z) in zip(paths, facts[:, :, 0], strict=True):
        p_value = float((largest >= z - _ROUNDING).mean()) if np.isfinite(z) and z > 0 else 1.0
        results[path.name] = NullTest(int(stopped), int(failed), float(expected), p_value, within)
    return results


def _in_fixed_order(levels: Sequence[Levels], success: Ints, clusters: Ints) -> tuple[Ints, Ints]:
    """The units of known outcome by task, and the number of the task of each; not in the order of the record.

    Units and tasks are ordered by what the test knows of them, so that the same runs in another order, or under other
    names, have the same permutations.
    """
    known = np.flatnonzero(success >= 0)
    facts = np.column_stack([success[known], *(path_levels.path.lost_at[known] for path_levels in levels)])
    kind = np.unique(facts, axis=0, return_inverse=True)[1].reshape(-1)
    known, kind = known[np.argsort(kind, kind="stable")], np.sort(kind)
    kinds: dict[int, list[int]] = {}
    for task, unit_kind in zip(clusters[known].tolist(), kind.tolist(), strict=True):
        kinds.setdefault(task, []).append(unit_kind)
    number = {task: n for n, task in enumerate(sorted(kinds, key=kinds.__getitem__))}
    tasks = np.array([number[task] for task in clusters[known].tolist()], dtype=np.int64)
    order = np.argsort(tasks, kind="stable")
    return known[order], tasks[order]


class _TestedPath(NamedTuple):
    """The levels of a path that can be chosen, over the units of known outcome.

    Of levels that lose the same units only the tightest can: it saves most.

    Attributes:
        name: That of the path.
        error: Its part of the error.
        order: The units, from those that are lost first.
        n_lost: How many of them each level loses; the first level is no limit.
        n_stopped: How many it stops that are not lost without a limit.
        saved: What it saves.
        spent: What all units use without a limit.
        expected: How many of those that it stops would fail, if they failed as often as the others.
        deviation: The standard deviation of that number.
        last: The last of its levels that can be accepted on the record.
    """

    name: str
    error: float
    order: Ints
    n_lost: Ints
    n_stopped: Ints
    saved: Ints
    spent: int
    expected: Array
    deviation: Array
    last: int


def _path_of(
    levels: Levels, error: float, known: Ints, certain: Flags, strata: Ints, failed: Flags, accepted: int
) -> _TestedPath:
    """A path over the units of known outcome; `certain` are those that are lost without a limit."""
    lost_at = levels.path.lost_at[known]
    order = np.argsort(lost_at, kind="stable")
    n_lost = np.append(0, np.searchsorted(lost_at[order], np.arange(1, levels.path.size + 1)))
    can_be_chosen = np.append(np.diff(n_lost) > 0, True)
    can_be_chosen[0] = True
    spent = levels.spent.sum(axis=0)
    n_lost, saved = n_lost[can_be_chosen], (spent[0] - spent)[can_be_chosen]
    n, n_failed = np.bincount(strata), np.bincount(strata, weights=failed)
    stopped = np.zeros((len(n_lost) + 1, len(n)))  # levels x strata
    first = np.searchsorted(n_lost, np.arange(len(order)), side="right")
    np.add.at(stopped, (first, strata[order]), ~certain[order])
    stopped = np.cumsum(stopped, axis=0)[:-1]
    expected = stopped * n_failed / n
    variance = expected * (n - stopped) * (n - n_failed) / (n * np.maximum(n - 1, 1))
    return _TestedPath(
        levels.path.name, error, order, n_lost, stopped.sum(axis=1).astype(np.int64), saved, int(spent[0]),
        expected.sum(axis=1), np.sqrt(variance.sum(axis=1)),
        int(np.searchsorted(np.flatnonzero(can_be_chosen), accepted)),
    )  # fmt: skip


def _strata(clusters: Ints, lengths: Ints | None) -> tuple[Ints, str]:
    """Within what the outcomes are permuted: numbers from 0, and their name."""
    sizes = np.bincount(clusters, minlength=1)
    repeats = sizes[clusters] > 1
    strata = np.unique(np.where(repeats, clusters, -1), return_inverse=True)[1]
    by_task = bool(repeats.any())
    if lengths is None:
        return strata, "task" if by_task else "group"
    ranks = pd.Series(lengths).rank(method="min", pct=True).to_numpy()
    classes = np.minimum(np.ceil(ranks * LENGTH_CLASSES).astype(np.int64), LENGTH_CLASSES) - 1
    return np.unique(strata * LENGTH_CLASSES + classes, return_inverse=True)[1], (
        "task and length" if by_task else "length"
    )


def _permute(rng: np.random.Generator, outcome: Flags, strata: Ints, rows: int) -> Matrix:
    """Rows of the outcomes, permuted within strata."""
    outcomes = np.tile(outcome, (rows, 1))
    n, n_good = np.bincount(strata), np.bincount(strata, weights=outcome)
    mixed = np.flatnonzero(((n_good > 0) & (n_good < n))[strata])
    if strata.any():
        mixed = mixed[np.argsort(strata[mixed], kind="stable")]
        keys = strata[mixed] + rng.random((rows, len(mixed)))
        outcomes[:, mixed] = outcome[mixed][np.argsort(keys, axis=1)]
        return outcomes
    return rng.permuted(outcomes, axis=1, out=outcomes)


def _choose(
    paths: Sequence[_TestedPath],
    outcomes: Matrix,
    tasks: Ints | None,
    question: Question,
    certain: Flags,
    *,
    has_record: bool,
) -> Array:
    """For each path and row of outcomes, of the setting that is chosen on it: see `null_tests`.

    `tasks` are the places where the units of a task begin; None if each success is one by itself. Returns how many
    units it stops, how many of them fail, how many were expected to, and by how many standard deviations more do;
    minus infinity where none is chosen. The shape is paths x 4 x rows.
    """
    rows = np.arange(len(outcomes))
    n_successes, lost_anyway = outcomes.sum(axis=1), (outcomes & certain).sum(axis=1)
    sizes = None if tasks is None else _count_by_task(outcomes, tasks)
    best = np.empty((len(paths), 4, len(rows)))
    for path, of_path in zip(paths, best, strict=True):
        lost = np.zeros((len(rows), len(path.order) + 1), dtype=np.int64)
        np.cumsum(outcomes[:, path.order], axis=1, out=lost[:, 1:])
        lost = lost[:, path.n_lost]
        if question.desk is not None:  # what the desk shows holds for permutations too: they have the same losses left
            accepted = np.full(len(rows), path.last, dtype=np.int64)
        else:
            accepted = _accept(path, outcomes, lost, n_successes, tasks, sizes, question.keep)
        if has_record:
            accepted[0] = min(accepted[0], path.last)
        lost[:, 1:] -= lost_anyway[:, np.newaxis]
        saved = np.broadcast_to(path.saved, lost.shape)
        gain = question.net_gain(saved, lost, path.spent, n_successes[:, np.newaxis])
        gain = np.where(np.arange(lost.shape[1]) <= accepted[:, np.newaxis], gain, np.iinfo(np.int64).min)
        level = np.argmax(gain, axis=1)
        gain, lost = gain[rows, level], lost[rows, level]
        failed = path.n_stopped[level] - lost
        deviation = path.deviation[level]
        z = np.divide(failed - path.expected[level], deviation, out=np.full(len(rows), -np.inf), where=deviation > 0)
        nothing = np.array([[0.0], [0.0], [0.0], [-np.inf]])
        of_path[:] = np.where(gain > 0, [path.n_stopped[level], failed, path.expected[level], z], nothing)
    return best


def _accept(
    path: _TestedPath,
    outcomes: Matrix,
    lost: Ints,
    n_successes: Ints,
    tasks: Ints | None,
    sizes: Ints | None,
    keep: float,
) -> Ints:
    """For each row of outcomes, the last level of a path that is accepted: see `fixed_sequence.accept_values`."""
    if tasks is None or sizes is None or sizes.max(initial=0) <= 1:
        most = most_lost(int(n_successes[0]), keep, path.error)  # as many successes are in each row
        return np.asarray((lost[:, 1:] <= most).sum(axis=1))
    rank = np.empty(len(path.order), dtype=np.int64)
    rank[path.order] = np.arange(len(path.order))
    low, high = np.zeros(len(outcomes), dtype=np.int64), np.full(len(outcomes), lost.shape[1])
    while (high - low > 1).any():
        middle = (low + high) // 2
        is_lost = outcomes & (rank < path.n_lost[middle][:, np.newaxis])
        passed = keeps_enough(_count_by_task(is_lost, tasks).T, sizes.T, keep, path.error)
        low, high = np.where(passed, middle, low), np.where(passed, high, middle)
    return low


def _count_by_task(flags: Matrix, tasks: Ints) -> Ints:
    """How many units of each task have a flag: rows x tasks."""
    return np.asarray(np.add.reduceat(flags, tasks, axis=1, dtype=np.int64))
