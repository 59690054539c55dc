"""A scorecard of 22 rules and survival curves over 22,472 real runs of about 493,630 steps.

The runs of the atlas are repeated, with ids and tasks of their own, up to that size. Each figure is the median of
several rounds: in seconds, and in processor time as a ratio to one plain pass over the same steps in Python, timed in
the same round.

- `scorecard of runs`: 22 rules, on runs; the folds of 15 detectors are in it.
- `scorecard of a table`: the 14 of these rules that need no texts, on the frame of `recording_df`.
- `scorecard by model`: as the first, for each model by itself.
- `survival of runs`, `survival of a table`: steps until the end, with success and failure.

Usage: python -m benchmarks.scorecard [--runs FILE] [--rounds 3] [--profile NAME] [--write]
"""

from __future__ import annotations

import cProfile
import pstats
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import boolab as bl
from benchmarks.results import Row, argument_parser, publish, ratio
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


def work_on(path: str | None) -> dict[str, Callable[[], Any]]:
    """What is measured, by its name."""
    runs = enlarged(bl.load_runs(path) if path else bl.load_dataset("atlas"))
    table = bl.recording_df(runs)
    of_runs = bl.runs_df(runs)
    return {
        "plain pass": lambda: plain_pass(runs),
        "scorecard of runs": lambda: bl.scorecard(runs, RULES),
        "scorecard of a table": lambda: bl.scorecard(table, OF_TABLES),
        "scorecard by model": lambda: bl.scorecard(runs, RULES, by="model"),
        "survival of runs": lambda: bl.survival(runs),
        "survival of a table": lambda: bl.survival(of_runs),
    }


def measured(path: str | None, rounds: int) -> Iterator[Row]:
    """What each takes, on the clock and of the processor."""
    work = work_on(path)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, do in work.items():
            started, spent = time.perf_counter(), time.process_time()
            do()
            times[name].append((time.perf_counter() - started, time.process_time() - spent))
    targets = {"scorecard of runs": 5, "scorecard of a table": 5, "survival of runs": 1, "survival of a table": 1}
    passes = [cpu for _, cpu in times.pop("plain pass")]
    for name, pairs in times.items():
        yield Row(name, statistics.median(clock for clock, _ in pairs), "s", at_most=targets.get(name))
        yield ratio(f"{name} / plain pass", zip((cpu for _, cpu in pairs), passes, strict=True), "s of CPU")


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", help="a file of runs in place of the atlas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", help="profile the one figure of this name in place of all measurements")
    options = parser.parse_args()
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(work_on(options.runs)[options.profile])
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    tables = {"Scorecards and survival": measured(options.runs, options.rounds)}
    publish(__doc__, tables, options)


if __name__ == "__main__":
    main()
