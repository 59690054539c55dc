"""Recommendations judged on runs that they did not see: how often is the true retained share below `keep`?

Runs are simulated, so that the truth can be had from a population of 400,000 more of them. Settings are chosen on small
data sets, by `recommend` as users call it, and judged on that population. At 95% confidence no more than 5% of the
recommendations may keep less than they promise. Three worlds: runs of tasks of their own; ten runs of each task, alike;
and limits that have nothing to do with one another, the hardest case for setting several at once.

Usage: python benchmarks/recommendations.py [--sets 500]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from boolab import recommend

KEEP = 0.95
POPULATION = 400_000


class World(NamedTuple):
    """How runs come about: their number, and how many of them share a task."""

    name: str
    runs: int
    per_task: int
    related: bool
    coarse: bool = False


WORLDS = (
    World("runs of tasks of their own, 130", 130, 1, related=True),
    World("runs of tasks of their own, 400", 400, 1, related=True),
    World("unrelated limits, 400", 400, 1, related=False),
    World("unrelated limits, few values, 2000", 2000, 1, related=False, coarse=True),
    World("10 runs of each of 150 tasks", 1500, 10, related=True),
    World("5 runs of each of 40 tasks", 200, 5, related=True),
)


def lengths(world: World, runs: int, rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], ...]:
    """For each run: tool steps, calls, longest streak, success, task."""
    tasks = max(1, runs // world.per_task)
    task = np.repeat(np.arange(tasks), world.per_task)[:runs]
    hard = rng.normal(0, 0.6, tasks)[task] * (world.per_task > 1)
    noise = 0.05 if world.per_task > 1 else 0.65
    success = rng.random(runs) < 1 / (1 + np.exp(hard * 2 - 0.6))
    longer = np.where(success, 0.0, 0.5)
    steps = np.maximum(1, np.exp(2.2 + hard + longer + rng.normal(0, noise, runs)).astype(int))
    if world.related:
        more = rng.poisson(0.3 * steps)
        streak = np.minimum(1 + rng.geometric(0.6, runs) * (rng.random(runs) < np.where(success, 0.3, 0.7)), steps)
    else:
        more = rng.geometric(0.05, runs)
        streak = 1 + rng.geometric(0.4, runs)
        steps = np.maximum(steps, streak)
    return steps, steps + more, streak, success, task


def recorded(world: World, rng: np.random.Generator) -> pd.DataFrame:
    """A data set as `recommend` reads it: a row per step, the last of which is a text."""
    steps, calls, streak, success, task = lengths(world, world.runs, rng)
    run = np.repeat(np.arange(world.runs), steps + 1)
    place = np.arange(len(run)) - np.repeat(np.cumsum(steps + 1) - steps - 1, steps + 1)
    final = place == steps[run]
    # The calls beyond one per step come in the first step; the streak, in the last ones.
    n = np.where(final, 0, 1 + np.where(place == 0, (calls - steps)[run], 0))
    before = np.clip(place - (steps - streak)[run], 1, None)
    before[place == 0] = 0
    return pd.DataFrame(
        {
            "run_id": run.astype(str),
            "censored": False,
            "boundary": ~final,
            "n_tool_calls": n,
            "repeat_streak": before,
            "success": success[run],
            "task": task[run].astype(str),
        }
    )


def retained(setting: dict[str, Any], population: tuple[np.ndarray[Any, Any], ...]) -> float:
    """The true share of successes that a setting leaves unchanged."""
    steps, calls, streak, success, _ = population
    kept = success.copy()
    for name, counts in (("steps", steps), ("tool_budget", calls), ("doom_loop", streak)):
        if setting[name] is not None:
            kept &= counts < setting[name]
    return float(kept.sum() / success.sum())


def _just_below(population: tuple[np.ndarray[Any, Any], ...]) -> dict[str, list[int]]:
    """For each limit the loosest value that truly keeps less than it should, and one that keeps all."""
    success = population[3]
    out = {}
    for name, counts in zip(("steps", "tool_budget", "doom_loop"), population[:3], strict=True):
        ascending = np.sort(counts[success])
        bad = int(ascending[int(KEEP * len(ascending))])
        out[name] = [bad, int(counts.max()) + 1]
    return out


def judge(
    world: World, sets: int, seed: int, tell: Callable[[str], object] = print, *, hide_tasks: bool = False
) -> tuple[int, int]:
    """How many recommendations there were, and how many of them keep less than they promise."""
    population = lengths(world, POPULATION, np.random.default_rng([seed, 0]))
    grid = _just_below(population) if world.coarse else None
    made = below = 0
    shares, saved, limits = [], [], []
    started = time.perf_counter()
    for number in range(sets):
        frame = recorded(world, np.random.default_rng([seed, number + 1]))
        if hide_tasks:
            frame = frame.drop(columns="task")
        found = recommend(frame, KEEP, 0.95, "steps", grid=grid)
        if bool(found["qualifies"][0]):
            made += 1
            share = retained(found.setting, population)
            below += share < KEEP
            shares.append(share)
            saved.append(float(found["saved_share"][0]))
            limits.append(sum(value is not None for value in found.setting.values()))
    took = (time.perf_counter() - started) / sets
    if made:
        error = (below / made * (1 - below / made) / made) ** 0.5
        tell(
            f"{world.name:<34}{made:>6} of {sets}{below:>8} = {below / made:6.1%} +- {error:.1%}"
            f"{np.median(shares):>9.1%}{np.mean(saved):>9.1%}{np.mean(limits):>8.2f}{took * 1000:>9.0f} ms"
        )
    else:
        tell(f"{world.name:<34}     0 of {sets}")
    return made, below


def main() -> None:
    """Print one line for each world."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=500, help="simulated data sets for each world")
    args = parser.parse_args()
    print(f"{'world':<34}{'recommended':>13}{f'below {KEEP:.0%}':>18}{'kept':>15}{'saved':>9}{'limits':>8}{'time':>12}")
    for seed, world in enumerate(WORLDS):
        judge(world, args.sets, seed)


if __name__ == "__main__":
    main()
