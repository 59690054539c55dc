"""Trials in simulation, where the truth is known: coverage at every look, branches until a decision, bias of hazards.

In each world a record is simulated under a cap, and a trial branches all of its open runs. The truth is what the change
adds to exactly these runs. A trial counts as covered if its interval holds the truth at every look, from the first task
to the last. The sign is known at the first look at which the interval lies on one side of 0, or has only 0 left.

    python -m benchmarks.trials [--trials 500]
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import boolab as bl
from boolab.stats.intervals import Array, clopper_pearson
from boolab.trials.result import TrialResult

CAP: Final = 12
TASKS: Final = 60
PER_TASK: Final = 2
HAZARD: Final = 0.06
WIDTHS: Final = (0.10, 0.05)


@dataclass(frozen=True)
class World:
    """A simulated agent, the policy of its record, the change, and how often it succeeds by the step it ends at."""

    name: str
    success: dict[str, Any]
    change: Any
    more: dict[str, Any]


def _by_step(early: float, late: float) -> list[dict[str, float]]:
    return [{"from_step": 1, "probability": early}, {"from_step": CAP + 1, "probability": late}]


INFORMED: Final = bl.policies["naive"].vary(
    name="informed", cap={"max_steps": CAP}, last_step={"reminder": "turns_left"}
)
"""The same cap as on record, of which the model is informed in each request."""
WORLDS: Final = (
    World("no gain", {"finished": _by_step(0.7, 0.0), "cut": 0.0}, {"max_steps": 40}, {}),
    World("small gain", {"finished": _by_step(0.7, 0.1), "cut": 0.0}, {"max_steps": 40}, {}),
    World("large gain", {"finished": _by_step(0.7, 0.6), "cut": 0.0}, {"max_steps": 40}, {}),
    World(
        "negative, visible to the model",
        {"finished": [{"from_step": 1, "probability": 0.05}, {"from_step": 5, "probability": 0.7}], "cut": 0.0},
        INFORMED,
        {"reminders": [{"turns_left": CAP, "least": 0.5}]},
    ),
)


def model_of(world: World) -> bl.SimulatedModel:
    """The agent of a world."""
    return bl.SimulatedModel(
        bl.models.Profile.of(
            {
                "tools": {"look": {}, "edit": {}},
                "finish": {"hazard": HAZARD},
                "success": world.success,
                "tokens": {"prompt": 200, "output": 40},
                "price": {"input": 3.0, "output": 15.0},
                **world.more,
            }
        )
    )


def record(model: bl.SimulatedModel, agent: bl.Agent, seed: int, tasks: int = TASKS) -> list[bl.Run]:
    """Runs of so many tasks; another seed gives other runs."""
    return [
        bl.run_sync(agent, f"Task {task}", model=model, seed=1000 * seed + PER_TASK * task + repeat)
        for task in range(tasks)
        for repeat in range(PER_TASK)
    ]


def tried(world: World, seed: int) -> TrialResult:
    """A trial of all open runs in one record of a world."""
    model = model_of(world)
    runs = record(model, bl.Agent("a", policy="naive", max_steps=CAP), seed)
    plan = bl.trial(runs, world.change, model=model, seed=seed, agent=bl.Agent("a", policy="naive", max_steps=CAP))
    return asyncio.run(plan.run(progress=False))


def _until(widths: Array, branches: npt.NDArray[np.int64], runs: int, share: float) -> int:
    """How many branches it took until the interval was so narrow."""
    return int(branches[np.flatnonzero(widths <= share * runs + 1e-9)[0]])


def row_of(world: World, trials: int) -> tuple[str, bool]:
    """What the trials of a world give, and whether coverage is as promised."""
    covered, gains, decided, sides, opened = 0, [], [], [], []
    for seed in range(trials):
        found = tried(world, seed)
        low, high = (found.looks[name].to_numpy(float) for name in ("gain_low", "gain_high"))
        truth = low[-1]
        assert truth == high[-1]
        covered += bool(((low <= truth) & (truth <= high)).all())
        gains.append(truth)
        branches = found.looks["branches"].to_numpy(int)
        known = np.flatnonzero((low > 0) | (high < 0) | (high == low))
        decided.append([int(branches[known[0]]), *(_until(high - low, branches, found.n_runs, w) for w in WIDTHS)])
        sides.append(float(low[known[0]] > 0) - float(high[known[0]] < 0))
        opened.append(found.n_open)
    ends = clopper_pearson(covered, trials)
    wrong = sum(side * gain < 0 for side, gain in zip(sides, gains, strict=True))
    text = (
        f"{world.name:32} {np.mean(gains):+7.1f} {np.mean(opened):7.1f} {covered / trials:8.1%} "
        f"{ends.low:6.1%} to {ends.high:5.1%} {' '.join(f'{n:8.0f}' for n in np.median(decided, axis=0))} {wrong:7d}"
    )
    return text, covered / trials >= 0.94 or ends.high >= 0.95


def hazards(trials: int, *, holds: bool) -> str:
    """The mean of what hazards suggest, beside the truth, where their assumption holds and where it does not.

    Some runs of the record have no cap. Where the assumption holds they are of the same agent; else the capped ones are
    of harder tasks, which finish more slowly and succeed less often.
    """
    fine, gains, truths, inside, expected = WORLDS[2], [], [], 0, []
    hard = replace(fine, success={"finished": _by_step(0.4, 0.1), "cut": 0.0}, more={"finish": {"hazard": HAZARD / 2}})
    capped = model_of(fine if holds else hard)
    for seed in range(trials):
        runs = record(capped, bl.Agent("a", policy="naive", max_steps=CAP), seed)
        free = record(model_of(fine), bl.Agent("a", policy="naive", max_steps=None), 100_000 + seed)
        free = [replace(run, task=f"free {run.task}") for run in free]
        plan = bl.trial([*runs, *free], {"max_steps": 40}, model=capped)
        found = asyncio.run(plan.run(progress=False))
        h = found.hazards
        assert h.gain is not None
        assert h.interval is not None
        gains.append(h.gain)
        truths.append(found.gain.low - found.other.low)
        expected.append((h.interval.low, h.interval.high))
    mean = float(np.mean(truths))
    inside = sum(low <= mean <= high for low, high in expected)
    name = "hazards, assumption holds" if holds else "hazards, capped runs are of harder tasks"
    error = np.std(np.subtract(gains, truths)) / math.sqrt(trials)
    return (
        f"{name:42} suggest {np.mean(gains):+6.1f}, truth {mean:+6.1f}, bias {np.mean(gains) - mean:+6.1f} "
        f"+- {error:.1f}; 95% interval holds the mean truth in {inside / trials:.1%}"
    )


def main() -> None:
    """Print a row for each world."""
    parser = argparse.ArgumentParser(description="Measure trials in simulation.")
    parser.add_argument("--trials", type=int, default=500, help="how many trials of each world")
    trials = parser.parse_args().trials
    print(
        f"{trials} trials of each world; each record has {TASKS * PER_TASK} runs of {TASKS} tasks under a cap of {CAP}"
    )
    print(
        f"{'world':32} {'gain':>7} {'open':>7} {'covered':>8} {'95% interval':>15} {'sign':>8} {'10%':>8} {'5%':>8} "
        f"{'wrong':>7}"
    )
    missed = False
    for world in WORLDS:
        start = time.perf_counter()
        text, fine = row_of(world, trials)
        missed |= not fine
        print(f"{text}   {time.perf_counter() - start:5.0f} s", flush=True)
    print(
        "covered: at every look. sign, 10%, 5%: the median of branches until the sign is known, or until the interval"
    )
    print("has a width of so many of the runs. wrong: trials whose sign was wrong.")
    for holds in (True, False):
        print(hazards(trials // 5 or 1, holds=holds))
    sys.exit(missed and "coverage is below what was promised")


if __name__ == "__main__":
    main()
