"""Simulations with a known truth: how often an interval holds it. `benchmarks/coverage.py` runs them at length."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from boolab.stats.intervals import ClusterBootstrap, clopper_pearson, lower_bound
from boolab.stats.survival_curves import curve, logrank

Draw = Callable[[np.random.Generator], bool]


class Case(NamedTuple):
    """A simulation: what it is about, and whether one draw's interval held the truth.

    `honest` is False for what must be seen to fail: intervals that take copies for observations.
    """

    name: str
    holds: Draw
    honest: bool = True


def _kaplan_meier(tasks: int, copies: int, *, resample: bool) -> Draw:
    """Steps are geometric with median 7, a quarter are cut; copies of a run are the same run."""

    def holds(rng: np.random.Generator) -> bool:
        ends, cut = rng.geometric(0.1, tasks), rng.geometric(0.03, tasks)
        times, over = np.repeat(np.minimum(ends, cut), copies), np.repeat(ends <= cut, copies)
        found = curve(times, over, clusters=np.repeat(np.arange(tasks), copies) if resample else None)
        return _held(found.time, found.survival, 0.9**7, 7)

    return holds


def _frailty(tasks: int, runs: int) -> Draw:
    """Runs of a task share its chance to end at each step, which is Beta(2, 18); truth: S(7) = E[(1 - p)^7]."""
    truth = float(np.prod([(18 + i) / (20 + i) for i in range(7)]))

    def holds(rng: np.random.Generator) -> bool:
        chance = np.repeat(rng.beta(2, 18, tasks), runs)
        ends, cut = rng.geometric(chance), rng.geometric(0.03, tasks * runs)
        found = curve(np.minimum(ends, cut), ends <= cut, clusters=np.repeat(np.arange(tasks), runs))
        return _held(found.time, found.survival, truth, 7)

    return holds


def _aalen_johansen(tasks: int, copies: int, *, resample: bool) -> Draw:
    """Of those that end, four in ten succeed; truth: F(7) = 0.4 (1 - 0.9^7)."""

    def holds(rng: np.random.Generator) -> bool:
        ends, cut, won = rng.geometric(0.1, tasks), rng.geometric(0.03, tasks), rng.random(tasks) < 0.4
        times, over, wins = (np.repeat(x, copies) for x in (np.minimum(ends, cut), ends <= cut, won))
        clusters = np.repeat(np.arange(tasks), copies) if resample else None
        found = curve(times, over, {"success": wins}, clusters=clusters)
        return _held(found.time, found.incidence["success"], 0.4 * (1 - 0.9**7), 7)

    return holds


def _held(time: np.ndarray, share: tuple[np.ndarray, ...], truth: float, at: int) -> bool:
    place = int(np.searchsorted(time, at, side="right")) - 1
    if place < 0:  # nothing has happened yet: the curve says nothing that could be wrong
        return True
    return bool(share[1][place] <= truth <= share[2][place])


def _retained(sizes: list[int], share: float, *, naive: bool = False, spread: float = 0.0) -> Draw:
    """Tasks of these numbers of successes, all kept or lost together; or each by its task's own chance, if spread."""
    codes = np.repeat(np.arange(len(sizes)), sizes)
    successes = np.ones(len(codes))

    def holds(rng: np.random.Generator) -> bool:
        if spread:
            chance = rng.beta(share * spread, (1 - share) * spread, len(sizes))[codes]
            kept = rng.random(len(codes)) < chance
        else:
            kept = (rng.random(len(sizes)) < share)[codes]
        if naive:
            low, high = clopper_pearson(kept.sum(), len(codes))
            return low <= share <= high
        found = ClusterBootstrap(codes).share(kept, successes)
        return bool(found.low <= share <= found.high)

    return holds


def _unequal_by_number(sizes: list[int], share: float) -> Draw:
    """As `_retained`, with the bare number of tasks as n: what Kish's effective number is for."""
    weights = np.array(sizes, float)

    def holds(rng: np.random.Generator) -> bool:
        kept = float((weights * (rng.random(len(sizes)) < share)).sum() / weights.sum())
        return float(lower_bound(len(sizes) * kept, len(sizes))) <= share

    return holds


def _heavy(rng: np.random.Generator, tasks: int) -> np.ndarray:
    """Few tasks with very many runs: a Pareto distribution, cut at 60."""
    return np.minimum(60, np.ceil(rng.pareto(1.2, tasks) * 2 + 0.01)).astype(np.int64)


def _unequal_share(tasks: int, *, together: bool) -> Draw:
    """Right or wrong by the task's own chance, Beta(8, 2), or all runs of a task alike; sizes are heavy-tailed."""

    def holds(rng: np.random.Generator) -> bool:
        codes = np.repeat(np.arange(tasks), _heavy(rng, tasks))
        chance = rng.beta(8, 2, tasks)
        right = (rng.random(tasks) < 0.8)[codes] if together else rng.random(len(codes)) < chance[codes]
        found = ClusterBootstrap(codes).share(right, np.ones(len(codes)))
        return bool(found.low <= 0.8 <= found.high)

    return holds


def _unequal_curve(tasks: int, *, success: bool) -> Draw:
    """Tasks have their own chances to end and to succeed, and heavy-tailed sizes; the curve at its 30th step."""
    survival = float(np.prod([(18 + i) / (20 + i) for i in range(30)]))

    def holds(rng: np.random.Generator) -> bool:
        codes = np.repeat(np.arange(tasks), _heavy(rng, tasks))
        ends, cut = rng.geometric(rng.beta(2, 18, tasks)[codes]), rng.geometric(0.03, len(codes))
        won = rng.random(len(codes)) < rng.beta(2, 2, tasks)[codes]
        found = curve(np.minimum(ends, cut), ends <= cut, {"success": won}, clusters=codes)
        if success:
            return _held(found.time, found.incidence["success"], 0.5 * (1 - survival), 30)
        return _held(found.time, found.survival, survival, 30)

    return holds


def _precision(tasks: int) -> Draw:
    """Alarms of a task are right by its own chance, Beta(8, 2); one to five of them."""

    def holds(rng: np.random.Generator) -> bool:
        codes = np.repeat(np.arange(tasks), rng.integers(1, 6, tasks))
        right = rng.random(len(codes)) < rng.beta(8, 2, tasks)[codes]
        found = ClusterBootstrap(codes).share(right, np.ones(len(codes)))
        return bool(found.low <= 0.8 <= found.high)

    return holds


def _saved(tasks: int, *, unequal: bool = False) -> Draw:
    """Saved steps over steps: runs of a task have its length; beyond the tenth step they are saved."""
    chance = 0.08
    lengths = np.arange(1, 2000)
    mass = chance * (1 - chance) ** (lengths - 1)
    truth = float((np.clip(lengths - 10, 0, None) * mass).sum() / (lengths * mass).sum())

    def holds(rng: np.random.Generator) -> bool:
        sizes = rng.integers(1, 9, tasks) if unequal else 3
        steps, codes = (np.repeat(values, sizes) for values in (rng.geometric(chance, tasks), np.arange(tasks)))
        found = ClusterBootstrap(codes).share(np.clip(steps - 10, 0, None), steps)
        return bool(found.low <= truth <= found.high)

    return holds


def _logrank(tasks: int, runs: int, *, resample: bool, paired: bool = False) -> Draw:
    """Two groups that are alike; "holds" if the test does not say otherwise at 5%."""

    def holds(rng: np.random.Generator) -> bool:
        codes = np.repeat(np.arange(tasks), runs)
        ends, cut = rng.geometric(rng.beta(2, 18, tasks)[codes]), rng.geometric(0.03, tasks * runs)
        first = np.arange(tasks * runs) % 2 == 0 if paired else codes % 2 == 0
        found = logrank(np.minimum(ends, cut), ends <= cut, first, codes if resample else None)
        return found.p > 0.05

    return holds


_SIZES = [1] * 50 + [5] * 20 + [40] * 2
CASES = {
    "km": Case("Kaplan-Meier at the median, 50 runs", _kaplan_meier(50, 1, resample=False)),
    "km_small": Case("Kaplan-Meier at the median, 15 runs", _kaplan_meier(15, 1, resample=False)),
    "km_copies": Case("Kaplan-Meier, 30 tasks, 10 copies of each run", _kaplan_meier(30, 10, resample=True)),
    "km_naive": Case("  the same, copies taken for runs", _kaplan_meier(30, 10, resample=False), honest=False),
    "km_frailty": Case("Kaplan-Meier, 30 tasks, 5 runs that resemble", _frailty(30, 5)),
    "km_few": Case("Kaplan-Meier, 6 tasks, 10 runs that resemble", _frailty(6, 10)),
    "aj": Case("Aalen-Johansen at the median, 50 runs", _aalen_johansen(50, 1, resample=False)),
    "aj_small": Case("Aalen-Johansen at the median, 15 runs", _aalen_johansen(15, 1, resample=False)),
    "aj_copies": Case("Aalen-Johansen, 30 tasks, 10 copies of each run", _aalen_johansen(30, 10, resample=True)),
    "aj_naive": Case("  the same, copies taken for runs", _aalen_johansen(30, 10, resample=False), honest=False),
    "retained": Case("kept share, 100 tasks of one success, 0.95 kept", _retained([1] * 100, 0.95)),
    "retained_copies": Case("kept share, 60 tasks of 10, all or none, 0.95", _retained([10] * 60, 0.95)),
    "retained_naive": Case(
        "  the same, Clopper-Pearson over runs", _retained([10] * 60, 0.95, naive=True), honest=False
    ),
    "retained_resembling": Case("kept share, 60 tasks of 10 that resemble", _retained([10] * 60, 0.95, spread=5)),
    "retained_unequal": Case("kept share, 72 tasks of 1, 5 or 40, all or none, 0.9", _retained(_SIZES, 0.9)),
    "retained_number": Case(
        "  the same, n = number of tasks, no bootstrap", _unequal_by_number(_SIZES, 0.9), honest=False
    ),
    "precision": Case("precision, 40 tasks of 1 to 5 alarms that resemble", _precision(40)),
    "share_heavy_8": Case("share, 8 tasks of very unequal size", _unequal_share(8, together=False)),
    "share_heavy_15": Case("share, 15 tasks of very unequal size, all or none", _unequal_share(15, together=True)),
    "share_heavy_40": Case("share, 40 tasks of very unequal size, all or none", _unequal_share(40, together=True)),
    "km_heavy": Case("Kaplan-Meier at step 30, 40 tasks of very unequal size", _unequal_curve(40, success=False)),
    "aj_heavy": Case("Aalen-Johansen at step 30, 40 tasks of very unequal size", _unequal_curve(40, success=True)),
    "saved_unequal": Case("saved steps over steps, 40 tasks of 1 to 8 copies", _saved(40, unequal=True)),
    "saved": Case("saved steps over steps, 40 tasks of 3 copies", _saved(40)),
    "saved_few": Case("saved steps over steps, 8 tasks of 3 copies", _saved(8)),
    "logrank": Case("logrank by task, 40 tasks of 5, alike", _logrank(40, 5, resample=True)),
    "logrank_few": Case("logrank by task, 10 tasks of 6, alike", _logrank(10, 6, resample=True)),
    "logrank_paired": Case(
        "logrank by task, 40 tasks across groups, alike", _logrank(40, 6, resample=True, paired=True)
    ),
    "logrank_naive": Case("  40 tasks of 5, runs taken as independent", _logrank(40, 5, resample=False), honest=False),
}


def coverage(case: Case, repetitions: int, seed: int = 0) -> tuple[float, float]:
    """The share of draws in which the interval held the truth, and its Monte Carlo standard error."""
    rng = np.random.default_rng(seed)
    share = sum(case.holds(rng) for _ in range(repetitions)) / repetitions
    return share, float(np.sqrt(max(share * (1 - share), 1 / repetitions) / repetitions))
