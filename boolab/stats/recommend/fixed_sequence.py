"""Which values keep enough successes: tests along paths that are fixed before the data are used.

A *path* is a list of values from loose to tight, each of which loses all that the one before it loses. Values are
accepted along it up to the first one that fails. The first value of a path that is truly too tight is accepted with a
probability of at most the path's part of the error; all parts add up to 1 - confidence. So every accepted value of
every path keeps enough, at that confidence, and any of them may be chosen, such as the one that saves most.

One value is tested on whole tasks, as in `boolab.stats.kept_share`: no dependence is estimated.

Sources: Maurer, Hothorn and Lehmacher (1995), fixed sequences; Angelopoulos et al., Learn then Test, arXiv 2110.01052;
Hoeffding, Ann. Math. Stat. 27 (1956) 713 (unequal chances: for new runs of the same tasks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from boolab.stats.kept_share import (
    KnownOutcomes,
    keeps_enough,
    kept_bound,
    shares_of,
    sure_bound,
    surely_keeps_enough,
    tasks_missing,
)
from boolab.whatif.step_table import Flags, Ints

Dependence: TypeAlias = Literal["tasks", "same_tasks"]
DEPENDENCE: Final = ("tasks", "same_tasks")

LADDER_TOP: Final = 400
LADDER_RATIO: Final = 0.95
"""The caps of the joint path: 400 times every whole power of 0.95, rounded."""

JOINT: Final = "joint"
JOINT_AXES: Final = ("max_steps", "doom_loop", "tool_budget")
OFF: Final = np.iinfo(np.int64).max - 1
"""A threshold that nothing reaches. A peak that is not known is larger: see `Ledger.peak`."""
NOT_KNOWN: Final = OFF - 1
"""The peak of a unit whose counter is not known at some boundary: every limit loses it, but no limit does not."""


_NO_UNITS: Final = np.zeros(0, dtype=np.int64)


class Path(NamedTuple):
    """Values from loose to tight: the name of their axis (or `JOINT`), their number, and the path's part of the error.

    `lost_at` is, for each success, the number of values before the first one that loses it; `size` if none does.
    `open_lost_at` is the same for each unit of unknown outcome.
    """

    name: str
    size: int
    lost_at: Ints
    share: float
    open_lost_at: Ints = _NO_UNITS


class PathResult(NamedTuple):
    """The result of the tests along a path.

    `error` is its part of the error in the end; 0 if it was dropped, and no value of it tested. `accepted` is the
    number of accepted values, from the loosest on.
    """

    path: Path
    error: float
    accepted: int


class Successes(NamedTuple):
    """The successes that settings keep or lose.

    `clusters` has the task of each, numbered from 0. `dependence` "tasks": those of one task may depend on each other
    in any way. "same_tasks": they are independent, which holds for new runs of the recorded tasks only.
    `open_clusters` has the task of each unit of unknown outcome: the tests hold whatever these are.
    """

    clusters: Ints
    dependence: Dependence = "tasks"
    open_clusters: Ints = _NO_UNITS

    def by_task(self, is_lost: Flags | None = None) -> Ints:
        """How many each task has, or loses: shape (tasks,). For "same_tasks" each success is a task of its own."""
        if self.dependence == "same_tasks":
            return np.ones(len(self.clusters), dtype=np.int64) if is_lost is None else is_lost.astype(np.int64)
        counted = self.clusters if is_lost is None else self.clusters[is_lost]
        return np.bincount(counted, minlength=int(self.clusters.max(initial=-1)) + 1)

    def known(self, path: Path, level: int) -> KnownOutcomes:
        """What is known of each task at a level of a path."""
        clusters = np.append(self.clusters, self.open_clusters)
        if self.dependence == "same_tasks":  # each unit is a task of its own
            clusters = np.arange(len(clusters))
        n_tasks, n_known = int(clusters.max(initial=-1)) + 1, len(self.clusters)

        def count(of_units: Ints, flags: Flags) -> Ints:
            return np.bincount(of_units[flags], minlength=n_tasks)

        return KnownOutcomes(
            kept=count(clusters[:n_known], path.lost_at >= level),
            lost=count(clusters[:n_known], path.lost_at < level),
            open_lost=count(clusters[n_known:], path.open_lost_at < level),
            open_kept=count(clusters[n_known:], path.open_lost_at >= level),
        )

    def passes(self, path: Path, level: int, keep: float, error: float) -> bool:
        """Whether a level of a path is shown to keep enough."""
        if not len(self.open_clusters):
            return bool(keeps_enough(self.by_task(path.lost_at < level), self.by_task(), keep, error))
        return bool(surely_keeps_enough(self.known(path, level), keep, error))

    def bound(self, path: Path, level: int, error: float) -> float:
        """The lower bound of the share that a level of a path keeps, by itself."""
        if not len(self.open_clusters):
            return float(kept_bound(self.by_task(path.lost_at < level), self.by_task(), error))
        return float(sure_bound(self.known(path, level), error))


def accept_values(paths: Sequence[Path], successes: Successes, keep: float, alpha: float) -> list[PathResult]:
    """Test every path. With too few tasks for all of them, test only the first, with the whole error.

    `alpha` is the error that is allowed over all paths.
    """
    errors = _least_errors(paths, successes, keep, alpha)
    results = []
    for path, error in zip(paths, errors, strict=True):
        low, high = 0, path.size + 1  # values are accepted up to the first that fails, and lose ever more
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if successes.passes(path, middle, keep, error) else (low, middle)
        results.append(PathResult(path, error, low))
    return results


def errors_of(paths: Sequence[Path], sizes: Ints, keep: float, alpha: float) -> list[float]:
    """The error of each path, after those are dropped that even a value without a loss could not pass.

    This uses the number of tasks with a success alone: given that number, the tests are as valid as before.
    """
    n_tasks, most = int(np.count_nonzero(sizes)), int(sizes.max(initial=0))
    equal = np.full(n_tasks, most)
    errors = [alpha * path.share for path in paths]
    for index, error in enumerate(errors[1:], 1):
        if not keeps_enough(np.zeros(n_tasks), equal, keep, error):
            errors[0] += error
            errors[index] = 0.0
    return errors


def _least_errors(paths: Sequence[Path], successes: Successes, keep: float, alpha: float) -> list[float]:
    """The least error of each path, whatever the unknown outcomes are.

    Else who labels could choose how the error is shared, by how many successes are known.
    """
    known_sizes = successes.by_task()
    if not len(successes.open_clusters):
        return errors_of(paths, known_sizes, keep, alpha)
    everything = Successes(np.append(successes.clusters, successes.open_clusters), successes.dependence).by_task()
    numbers = [np.count_nonzero(sizes) for sizes in (known_sizes, everything)]
    largest = [int(sizes.max(initial=1)) for sizes in (known_sizes, everything)]
    errors = [errors_of(paths, np.full(n, size), keep, alpha) for n, size in product(numbers, largest)]
    return [min(of_path) for of_path in zip(*errors, strict=True)]


def missing(results: Sequence[PathResult], successes: Successes, keep: float, alpha: float) -> int:
    """How many more tasks like these, without a further loss, until a value is accepted; 0 if one is."""
    if any(result.accepted for result in results):
        return 0
    sizes = successes.by_task()

    def needed(result: PathResult, error: float) -> int:
        known = successes.known(result.path, 1)
        lost = np.add(known.lost, known.open_lost)
        return tasks_missing(lost, np.add(known.kept, lost), keep, error)

    first, *others = results
    n_more = needed(first, first.error)
    tested_then = errors_of(
        [result.path for result in results], np.append(sizes, np.full(n_more, sizes.max(initial=1))), keep, alpha
    )
    if tested_then[0] < first.error:  # with more tasks, paths are tested that are dropped now
        n_more = needed(first, tested_then[0])
    return min([n_more, *(needed(result, result.error) for result in others if result.error)])


def paths_of(
    thresholds: Mapping[str, Ints], peaks: Mapping[str, Ints], *, all_integers: bool, joint: bool = True
) -> tuple[list[Path], npt.NDArray[np.int64]]:
    """A path for each axis, and the joint one if there is a cap and a doom-loop threshold or a tool budget.

    `thresholds`: the values of each axis, as the thresholds of their rules, from tight to loose. `all_integers`: the
    joint path uses all whole numbers; else only those of `thresholds`. Returns the paths, and the levels of the joint
    one, from loose to tight: levels x (steps, doom_loop, tool_budget), `OFF` where an axis is off.
    """
    levels = _levels(thresholds if joint else {}, peaks, all_integers=all_integers)
    shares = shares_of(len(thresholds) + (len(levels) > 0))
    paths = [
        Path(name, len(values), len(values) - np.searchsorted(values, peaks[name], side="right"), share)
        for (name, values), share in zip(thresholds.items(), shares, strict=False)
    ]
    if len(levels):
        lost_by_axis = [
            np.searchsorted(-column, -peaks[name], side="left")
            for name, column in zip(JOINT_AXES, levels.T, strict=True)
            if name in thresholds
        ]
        paths.append(Path(JOINT, len(levels), np.min(lost_by_axis, axis=0), shares[-1]))
    return paths, levels


def _levels(thresholds: Mapping[str, Ints], peaks: Mapping[str, Ints], *, all_integers: bool) -> npt.NDArray[np.int64]:
    """The joint path from the first level that loses nothing: looser ones are accepted if it is."""
    no_levels = np.zeros((0, len(JOINT_AXES)), dtype=np.int64)
    axes_used = [name in thresholds and len(thresholds[name]) > 0 for name in JOINT_AXES]
    if not axes_used[0] or sum(axes_used) == 1:
        return no_levels
    highest = [
        float(np.max(peaks[name], where=peaks[name] < NOT_KNOWN, initial=0)) if is_used else 0.0
        for name, is_used in zip(JOINT_AXES, axes_used, strict=True)
    ]
    levels = ladder(max(highest[0] + 1, 6 * (highest[1] + 1), (highest[2] + 1) / 1.5))
    for column, (name, is_used) in enumerate(zip(JOINT_AXES, axes_used, strict=True)):
        if not is_used:
            levels[:, column] = OFF
        elif not all_integers:
            values = np.append(thresholds[name], OFF)
            levels[:, column] = values[np.searchsorted(values, levels[:, column])]
    new = np.append(True, (np.diff(levels, axis=0) != 0).any(axis=1))
    return np.asarray(levels[new])


def ladder(top: float) -> npt.NDArray[np.int64]:
    """The joint path over all whole numbers, from loose to tight; its loosest cap is at least `top`.

    Levels x (cap, doom-loop threshold, tool budget). The threshold is a sixth of the cap, but at least 3; the budget is
    one and a half times the cap; halves are rounded up.
    """
    first = int(np.floor(np.log(max(top, 1) / LADDER_TOP) / np.log(LADDER_RATIO)))
    last = int(np.ceil(np.log(0.5 / LADDER_TOP) / np.log(LADDER_RATIO)))
    caps = np.floor(LADDER_TOP * LADDER_RATIO ** np.arange(first, last + 1) + 0.5).astype(np.int64)
    caps = np.unique(caps[caps > 0])[::-1]
    return np.stack([caps, np.maximum(3, np.floor(caps / 6 + 0.5)), np.floor(1.5 * caps + 0.5)], axis=1).astype(
        np.int64
    )
