"""Which values keep enough successes: tests along paths that are fixed before the data are used.

A *path* is a list of values from loose to tight, each of which loses all that the one before it loses. Values are
accepted along it up to the first one that fails. The first value of a path that is truly too tight is accepted with a
probability of at most the path's part of the error; all parts add up to 1 - confidence. So every accepted value of
every path keeps enough, at that confidence, and any of them may be chosen, such as the one that saves most.

One value is tested as by Clopper and Pearson, on the *effective sample size*: the number of successes divided by the
design effect, the factor by which the number of lost successes varies more than if successes were lost independently.
That is exact for independent successes, and an approximation where runs share tasks.

The design effect is measured along each path at a reference, where as large a share is lost as a value that fails would
lose. At the values that are accepted too few are lost to see whether they are lost together.

Sources: Maurer, Hothorn and Lehmacher (1995), fixed sequences; Angelopoulos et al., Learn then Test, arXiv 2110.01052;
Clopper and Pearson, Biometrika 26 (1934) 404; Kish, Survey Sampling (1965), and Rao and Scott, Biometrics 48 (1992)
577, the design effect and the effective sample size; Hoeffding, Ann. Math. Stat. 27 (1956) 713, unequal chances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from boolab.whatif.step_table import Ints

Dependence: TypeAlias = Literal["auto", "worst", "same_tasks"]
DEPENDENCE: Final = ("auto", "worst", "same_tasks")

LADDER_TOP: Final = 400
LADDER_RATIO: Final = 0.95
"""The caps of the joint path: 400 times every whole power of 0.95, rounded."""

JOINT: Final = "joint"
JOINT_AXES: Final = ("max_steps", "doom_loop", "tool_budget")
OFF: Final = np.iinfo(np.int64).max - 1
NOT_KNOWN: Final = OFF - 1
"""The peak of a unit whose counter is not known at some boundary: every limit loses it, but no limit does not."""
"""A threshold that nothing reaches. A peak that is not known is larger: see `Ledger.peak`."""

_FIRST_SHARE: Final = 0.5
_MAX_LOST: Final = 0.7
"""A reference never loses more of the successes than this."""
_MIN_TASKS: Final = 10
"""A reference hits at least so many tasks."""
_UPPER_95: Final = 1.645
_ROUNDING: Final = 1e-12
_MAX_MISSING: Final = 10_000_000


class Path(NamedTuple):
    """Values from loose to tight: the name of their axis (or `JOINT`), their number, and the path's part of the error.

    `lost_at` is, for each success, the number of values before the first one that loses it; `size` if none does.
    """

    name: str
    size: int
    lost_at: Ints
    share: float

    def lost(self) -> Ints:
        """The number of successes that each value loses."""
        return np.asarray(np.cumsum(np.bincount(self.lost_at, minlength=self.size + 1)[: self.size]), dtype=np.int64)


class PathResult(NamedTuple):
    """The result of the tests along a path.

    `error` is its part of the error in the end; 0 if it was dropped, and no value of it tested. `effective` is the
    number of successes divided by the design effect. `may_lose` is how many of them a value may lose and be accepted;
    -1 if none is accepted even without a loss. `accepted` is the number of accepted values, from the loosest on.
    """

    path: Path
    error: float
    design_effect: float
    effective: float
    may_lose: int
    accepted: int


def shares_of(n_paths: int) -> list[float]:
    """Each path's part of the error: half of it for the first, and the same for each of the others."""
    if n_paths == 1:
        return [1.0]
    return [_FIRST_SHARE, *[(1 - _FIRST_SHARE) / (n_paths - 1)] * (n_paths - 1)]


def accept_values(
    paths: Sequence[Path], clusters: Ints, keep: float, alpha: float, dependence: Dependence = "auto"
) -> list[PathResult]:
    """Test every path. With too few successes for all of them, test only the first, with the whole error.

    `clusters` has the task of each success, numbered from 0; `alpha` is the error that is allowed over all paths.
    `dependence` "auto": the design effect is measured. "worst": runs of a task are lost or kept together. "same_tasks":
    successes are independent, which holds for new runs of the recorded tasks only.
    """
    n = len(clusters)
    effects = [effect_of(path, clusters, keep, dependence) for path in paths]
    errors = errors_of(paths, [n / effect for effect in effects], keep, alpha)
    results = []
    for path, effect, error in zip(paths, effects, errors, strict=True):
        max_lost = allowance(n, effect, keep, error)
        n_accepted = int(np.searchsorted(path.lost(), max_lost, side="right"))
        results.append(PathResult(path, error, effect, n / effect, max_lost, n_accepted))
    return results


def errors_of(paths: Sequence[Path], effective: Sequence[float], keep: float, alpha: float) -> list[float]:
    """The error of each path, after those are dropped that even a value without a loss could not pass.

    This uses the number of successes and the design effects, but none of the losses that are tested.
    """
    errors = [alpha * path.share for path in paths]
    chance = keep ** effective[0]
    while hopeless := [n for n in range(1, len(errors)) if 0 < errors[n] * (1 + _ROUNDING) < chance]:
        worst = min(hopeless, key=lambda n: errors[n])
        errors[0] += errors[worst]
        errors[worst] = 0.0
    return errors


def allowance(n: int, design_effect: float, keep: float, error: float) -> int:
    """How many of n successes a value may lose and be accepted; -1 if none is accepted even without a loss."""
    return int(np.count_nonzero(_passes(np.arange(n), n, design_effect, keep, error))) - 1


def _passes(
    n_lost: npt.ArrayLike, n: npt.ArrayLike, design_effect: float, keep: float, error: npt.ArrayLike
) -> npt.NDArray[np.bool_]:
    """Whether so few are lost with a probability of at most the error, if just `keep` were kept; lost < n."""
    effective_lost, effective_kept = (
        np.asarray(n_lost) / design_effect,
        (np.asarray(n) - np.asarray(n_lost)) / design_effect,
    )
    return np.asarray(special.betainc(effective_kept, effective_lost + 1, keep) <= np.asarray(error) * (1 + _ROUNDING))


def missing(results: Sequence[PathResult], n: int, keep: float, alpha: float) -> int:
    """How many more successes, in similar tasks and without a further loss, until a value is accepted."""
    if any(result.accepted for result in results):
        return 0
    first = results[0]
    loosest = [int(np.count_nonzero(result.path.lost_at == 0)) if result.path.size else n for result in results]
    start, size = 1, 1024
    while start < _MAX_MISSING:
        total = n + np.arange(start, start + size)
        chance = keep ** (total / first.design_effect)
        error_of_dropped = np.zeros(len(total))
        passes = np.zeros(len(total), dtype=bool)
        for result, n_lost in list(zip(results, loosest, strict=True))[1:]:
            error = alpha * result.path.share
            is_tested = chance <= error * (1 + _ROUNDING)
            passes |= is_tested & _passes(n_lost, total, result.design_effect, keep, error)
            error_of_dropped += np.where(is_tested, 0.0, error)
        passes |= _passes(loosest[0], total, first.design_effect, keep, alpha * first.path.share + error_of_dropped)
        if passes.any():
            return start + int(np.argmax(passes))
        start, size = start + size, 2 * size
    return _MAX_MISSING


def worst_effect(clusters: Ints) -> float:
    """The design effect where all successes of a task are lost or kept together: sum of squared sizes / their sum."""
    sizes = np.bincount(clusters)
    return float((sizes**2).sum() / sizes.sum()) if len(clusters) else 1.0


def effect_of(path: Path, clusters: Ints, keep: float, dependence: Dependence = "auto") -> float:
    """The design effect of a path; where it cannot be measured, that of `worst_effect`."""
    worst = worst_effect(clusters)
    if dependence == "same_tasks" or worst == 1:
        return 1.0
    if dependence == "worst":
        return worst
    value_index = reference(path, clusters, keep)
    if value_index is None:
        return worst
    sizes = np.bincount(clusters)
    lost_by_task = np.bincount(clusters[path.lost_at <= value_index], minlength=len(sizes))
    return float(np.clip(design_effect(lost_by_task[sizes > 0], sizes[sizes > 0]), 1.0, worst))


def reference(path: Path, clusters: Ints, keep: float) -> int | None:
    """The place of the loosest value that loses 1 - keep of the successes, in ten tasks or more.

    There the design effect is measured. If there is no such value, it is the tightest one that loses successes of ten
    tasks; None if there is none. No value that loses more than 70% is taken.
    """
    first = np.full(int(clusters.max(initial=-1)) + 1, path.size)
    np.minimum.at(first, clusters, path.lost_at)
    hit = np.cumsum(np.bincount(first, minlength=path.size + 1)[: path.size])
    n_lost = path.lost()
    n = len(clusters)
    fit = np.flatnonzero((hit >= _MIN_TASKS) & (n_lost <= _MAX_LOST * n * (1 + _ROUNDING)))
    if not len(fit):
        return None
    with_enough = fit[n_lost[fit] >= (1 - keep) * n * (1 - _ROUNDING)]
    return int(with_enough[0] if len(with_enough) else fit[-1])


def design_effect(lost_by_task: npt.ArrayLike, sizes: npt.ArrayLike) -> float:
    """The upper 95% limit of the design effect of a share of lost successes, from each task's lost and all successes.

    It is the design effect times exp(1.645 s), with s the standard error of its logarithm by a jackknife that leaves
    out one task at a time; infinite where the jackknife is undefined.
    """
    lost_array, size = np.asarray(lost_by_task, float), np.asarray(sizes, float)
    moments_by_task, tasks = np.array([lost_array, size, lost_array**2, lost_array * size, size**2]), len(size)
    sums = moments_by_task.sum(axis=1, keepdims=True)
    value = float(_ratio(sums, tasks)[0])
    if not value > _ROUNDING:
        return 0.0 if value >= 0 else float("inf")
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(_ratio(sums - moments_by_task, tasks - 1))
    spread = float(np.sqrt((tasks - 1) / tasks * ((logs - logs.mean()) ** 2).sum()))
    return value * float(np.exp(_UPPER_95 * spread)) if np.isfinite(spread) else float("inf")


def _ratio(sums: npt.NDArray[np.float64], tasks: int) -> npt.NDArray[np.float64]:
    """The variance of the number of lost successes between tasks over that of independent ones."""
    total_lost, n, lost_squared, lost_times_size, squared = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        p = total_lost / n
        task_variance = lost_squared - 2 * p * lost_times_size + p * p * squared
        return np.asarray(tasks / (tasks - 1) * task_variance / (n * p * (1 - p)))


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
