"""A scorecard of 22 rules and survival curves over 22,472 real runs of about 493,630 steps.

The runs of the atlas are repeated, with ids and tasks of their own, up to that size. Each figure is the median of
several rounds: in seconds, in seconds of processor time (where the machine has other work), and the latter as a ratio
to one plain pass over the same steps in Python, timed in the same round.

- `scorecard of runs`: 22 rules, on runs; the folds of 15 detectors are in it.
- `scorecard of a table`: the 14 of these rules that need no texts, on the frame of `recording_df`.
- `scorecard by model`: as the first, for each model by itself.
- `survival of runs`, `survival of a table`: steps until the end, with success and failure.

Usage: python -m benchmarks.scorecard [--runs FILE] [--rounds 3] [--profile NAME]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import boolab as bl
from boolab import detectors
from boolab.core.run import Run
from boolab.limits.stop import StopRule

RUNS, STEPS = 22_472, 493_630
OF_TABLES: list[StopRule] = [
    *(bl.max_steps(n) for n in (5, 10, 20, 40)),
    *(bl.tool_budget(n) for n in (5, 20)),
    *(bl.doom_loop(n) for n in (2, 3, 5)),
    *(bl.error_streak(n, on_unknown="ignore") for n in (2, 3, 5)),
    bl.doom_loop(3) | bl.max_steps(30),
    bl.doom_loop(2) & bl.error_streak(2, on_unknown="ignore"),
]
RULES: list[StopRule] = [
    *OF_TABLES,
    bl.doom_loop(3, "ordered"),
    bl.doom_loop(3, "call+result"),
    bl.cycle(None, 3),
    detectors.round_streak(3),
    detectors.step_repeats(3),
    detectors.tool_window(8, 10),
    detectors.same_error(3, on_unknown="ignore"),
    detectors.repeating_actions(4),
]


def enlarged(runs: Sequence[Run], n_runs: int = RUNS, n_steps: int = STEPS) -> list[Run]:
    """Copies of runs with about so many steps in all: a long one wherever the mean so far is below the mean wanted."""
    mean = n_steps / n_runs
    some = [run for run in runs if run.steps]
    kinds = [[run for run in some if (run.n_steps > mean) is long] for long in (False, True)]
    if not all(kinds):
        kinds = [some, some]
    out: list[Run] = []
    taken, steps = [0, 0], 0
    while len(out) < n_runs:
        long = steps < mean * len(out)
        copy, place = divmod(taken[long], len(kinds[long]))
        run = kinds[long][place]
        taken[long] += 1
        steps += run.n_steps
        out.append(replace(run, run_id=f"{run.run_id}/{copy}", task=f"{run.task}/{copy}") if copy else run)
    return out


def plain_pass(runs: Sequence[Run]) -> int:
    """Look once at each step and each call."""
    found = 0
    for run in runs:
        for step in run.steps:
            for call, result in zip(step.response.tool_calls, step.results, strict=True):
                if result is not None and call.arguments:
                    found += 1
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", help="a file of runs in place of the atlas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", help="profile the one figure of this name in place of all measurements")
    args = parser.parse_args()
    runs = enlarged(bl.load_runs(args.runs) if args.runs else bl.load_dataset("atlas"))
    table = bl.recording_df(runs)
    of_runs = bl.runs_df(runs)
    work: dict[str, Callable[[], Any]] = {
        "plain pass": lambda: plain_pass(runs),
        "scorecard of runs": lambda: bl.scorecard(runs, RULES),
        "scorecard of a table": lambda: bl.scorecard(table, OF_TABLES),
        "scorecard by model": lambda: bl.scorecard(runs, RULES, by="model"),
        "survival of runs": lambda: bl.survival(runs),
        "survival of a table": lambda: bl.survival(of_runs),
    }
    if args.profile:
        profile = cProfile.Profile()
        profile.runcall(work[args.profile])
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    for _ in range(args.rounds):
        for name, do in work.items():
            started, spent = time.perf_counter(), time.process_time()
            do()
            times[name].append((time.perf_counter() - started, time.process_time() - spent))
    seconds, cpu = (
        {name: statistics.median(pair[kind] for pair in pairs) for name, pairs in times.items()} for kind in (0, 1)
    )
    tasks = len({run.task for run in runs})
    print(f"{len(runs):,} runs of {tasks:,} tasks, {sum(run.n_steps for run in runs):,} steps, {len(RULES)} rules")
    print(f"{'':<24}{'s':>8}{'cpu s':>8}{'times a pass':>14}  target")
    targets = {"scorecard of runs": "5 s", "scorecard of a table": "5 s", "survival of runs": "1 s",
               "survival of a table": "1 s"}  # fmt: skip
    for name in work:
        ratio = cpu[name] / cpu["plain pass"]
        print(f"{name:<24}{seconds[name]:>8.2f}{cpu[name]:>8.2f}{ratio:>14.1f}  {targets.get(name, '')}")


if __name__ == "__main__":
    main()
