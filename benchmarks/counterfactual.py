"""Counterfactuals against the memory's speed: 10,000 runs, about 1.1 million steps, 50 x 20 x 5 settings.

Most figures are ratios to a numpy fill that is timed in the same rounds. `fill` writes an array of 100 MB that is there
already; `new fill` makes one.

- `four sums`: from raw columns (calls per step, a key per call, tokens, cost, offsets of runs) to the sums of steps,
  calls, tokens and cost of all 5,000 settings.
- `all sums and counts`: the same with the counts by outcome and stop reason, successes kept, and what is saved.
- `keys`: an array with the stop of each run under each setting.
- `counterfactual(frame, aggregate=True)`: as users call it, from a DataFrame.

All are checked against plain re-simulation, step by step in Python, on 40 settings.

Usage: python -m benchmarks.counterfactual [--rounds 15] [--write]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.results import Row, argument_parser, publish, ratio
from boolab import counterfactual
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.whatif.aggregate import aggregate_of
from boolab.whatif.call_columns import repeats_of
from boolab.whatif.first_crossing import RANKS, Places, fires_of, first_fires, keys_of
from boolab.whatif.grid import settings_of
from boolab.whatif.step_table import PROXY, Ledger, finished_reasons, running_sum

RUNS = 10_000
GRID: dict[str, list[int]] = {
    "max_steps": list(range(4, 204, 4)),
    "tool_budget": np.unique(np.round(np.geomspace(5, 300, 20)).astype(int)).tolist(),
    "doom_loop": [2, 3, 4, 6, 10],
}


class Raw(NamedTuple):
    """Recordings as a reader would hand them over."""

    first: np.ndarray[Any, np.dtype[np.int64]]
    calls: np.ndarray[Any, np.dtype[np.int64]]
    keys: np.ndarray[Any, np.dtype[np.int64]]
    tokens: np.ndarray[Any, np.dtype[np.int64]]
    cost: np.ndarray[Any, np.dtype[np.int64]]
    ended: np.ndarray[Any, np.dtype[np.bool_]]


def recordings(runs: int = RUNS, seed: int = 7) -> Raw:
    """Runs of 1 to 200 steps; some repeat themselves; four fifths end by themselves."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(1 / 160, runs) + 10, 200)
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    ended = (rng.random(runs) < 0.8) & (lengths < 200)
    calls = rng.choice([1, 1, 1, 1, 1, 2, 3], int(first[-1])).astype(np.int64)
    calls[first[1:][ended] - 1] = 0
    tokens = rng.integers(200, 20_000, int(first[-1]))
    stubborn = np.repeat(np.repeat(rng.beta(1, 8, runs), lengths), calls)
    keys = rng.integers(1, 2**62, int(calls.sum()))
    same = rng.random(len(keys)) < stubborn
    source = np.where(same, 0, np.arange(len(keys)))
    keys = keys[np.maximum.accumulate(source)]
    return Raw(first, calls, keys, tokens, tokens * 3, ended)


def ledger_of_raw(raw: Raw) -> Ledger:
    """The ledger, with the counters that the grid asks for; each run is one turn."""
    lengths = np.diff(raw.first)
    opens = np.zeros(int(raw.first[-1]), dtype=bool)
    opens[raw.first[:-1][lengths > 0]] = True
    starts = np.flatnonzero(opens)
    boundary = np.ones(len(opens), dtype=bool)
    boundary[raw.first[1:][raw.ended & (lengths > 0)] - 1] = False
    turn = np.ones(len(opens), dtype=np.int64)
    return Ledger(
        runs=pd.DataFrame({"run_id": np.arange(len(lengths)), "scope": pd.array(["turn"] * len(lengths), "string")}),
        first=raw.first,
        turn=turn,
        span=turn,
        boundary=boundary,
        complete=boundary,
        counted=np.ones(len(opens), dtype=bool),
        final=~boundary,
        answered=~boundary,
        judged=np.full(len(opens), -1),
        ended=raw.ended,
        terminated=raw.ended,
        success=raw.ended.astype(np.int64),
        reason=finished_reasons(raw.ended),
        used={"tool_calls": raw.calls, "tokens": raw.tokens, "cost": raw.cost},
        counters={
            "steps": np.arange(1, len(opens) + 1) - np.repeat(raw.first[:-1], lengths),
            "tool_calls": running_sum(raw.calls, starts, lengths[lengths > 0]),
            RepeatStreak().name: repeats_of(raw.keys, raw.calls, opens),
        },
        success_by=PROXY,
    )


def simulate(raw: Raw, steps: int, budget: int, doom: int) -> tuple[list[int], list[int]]:
    """One setting, run by run and step by step: the boundary of each stop (or the end), and why."""
    boundaries, reasons = [], []
    calls, keys = raw.calls.tolist(), raw.keys.tolist()
    at = 0
    for run in range(len(raw.first) - 1):
        start, end = int(raw.first[run]), int(raw.first[run + 1])
        used = streak = 0
        last = None
        call = at
        boundary, reason = end - start, 3
        for step in range(start, end):
            longest = 0 if calls[step] else streak
            for key in keys[call : call + calls[step]]:
                streak = streak + 1 if key == last else 1
                longest = max(longest, streak)
                last = key
            call += calls[step]
            used += calls[step]
            if step == end - 1 and raw.ended[run]:
                break
            done = step - start + 1
            if done >= steps or longest >= doom or used >= budget:
                boundary, reason = done, 0 if done >= steps else 1 if longest >= doom else 2
                break
        boundaries.append(boundary)
        reasons.append(reason)
        at += int(sum(calls[start:end]))
    return boundaries, reasons


def frame_of(raw: Raw) -> pd.DataFrame:
    """The recordings as a frame like `recording_df` makes."""
    run = np.repeat(np.arange(len(raw.first) - 1), np.diff(raw.first))
    parts = np.split(raw.keys, np.cumsum(raw.calls)[:-1])
    boundary = np.ones(len(run), dtype=bool)
    boundary[raw.first[1:][raw.ended] - 1] = False
    return pd.DataFrame(
        {
            "run_id": run.astype(str),
            "censored": ~raw.ended[run],
            "boundary": boundary,
            "n_tool_calls": raw.calls,
            "call_keys": parts,
            "input_tokens": raw.tokens,
            "output_tokens": 0,
            "cost_usd": raw.cost / 1e6,
        }
    )


def check(raw: Raw, keys: np.ndarray[Any, Any], sums: dict[str, Any], settings: int, seed: int = 1) -> int:
    """How many settings were compared with plain re-simulation; raises if one differs."""
    rng = np.random.default_rng(seed)
    names = list(GRID)
    total = {
        "steps": np.arange(len(raw.calls) + 1),
        "tool_calls": np.concatenate(([0], np.cumsum(raw.calls))),
        "tokens": np.concatenate(([0], np.cumsum(raw.tokens))),
        "cost": np.concatenate(([0], np.cumsum(raw.cost))),
    }
    never = np.iinfo(keys.dtype).max
    lengths = np.diff(raw.first)
    for _ in range(settings):
        place = {name: int(rng.integers(len(GRID[name]))) for name in names}
        boundaries, reasons = simulate(
            raw, *(GRID[name][place[name]] for name in ("max_steps", "tool_budget", "doom_loop"))
        )
        mine = keys[:, place["max_steps"], place["doom_loop"], place["tool_budget"]].astype(np.int64)
        found = np.where(mine == never, lengths * RANKS + 3, mine)
        assert (found // RANKS == boundaries).all()
        assert (found % RANKS == reasons).all()
        cell = (0, place["max_steps"], place["doom_loop"], place["tool_budget"])
        for name, so_far in total.items():
            assert sums[name][cell] == (so_far[raw.first[:-1] + boundaries] - so_far[raw.first[:-1]]).sum()
    return settings


def measured(rounds: int, checked: int) -> Iterator[Row]:
    """What the parts of a counterfactual cost, after a comparison with plain re-simulation on some settings."""
    raw = recordings()
    settings = settings_of(GRID)
    shape = (RUNS, *(len(axis.values) for axis in settings.axes))
    there = np.ones(shape, dtype=np.uint16)
    out = np.ones(shape, dtype=np.uint16)
    ledger = ledger_of_raw(raw)
    places = Places(ledger)
    only = ("steps", "tool_calls", "tokens", "cost")

    def first_tables() -> list[Any]:
        return [first_fires(ledger, fires_of(ledger, axis, places), places, n) for n, axis in enumerate(settings.axes)]

    tables = first_tables()
    compared = check(raw, keys_of(tables), aggregate_of(ledger, settings), checked)
    detail = f"of {settings.count:,}; {RUNS:,} runs of {len(raw.calls):,} steps"
    yield Row("equal to plain re-simulation: stop, reason and four sums", compared, "settings", detail=detail)
    work: dict[str, tuple[Callable[[], Any], str, float | None]] = {
        "fill": (lambda: there.fill(7), "", None),
        "new fill": (lambda: np.full(shape, 7, dtype=np.uint16), "fill", None),
        "four sums": (lambda: aggregate_of(ledger_of_raw(raw), settings, measures=only), "fill", 17),
        "all sums and counts": (lambda: aggregate_of(ledger_of_raw(raw), settings), "fill", None),
        "keys": (lambda: keys_of(tables, out), "fill", 10),
        "new keys": (lambda: keys_of(tables), "new fill", 10),
        "first-fire tables": (first_tables, "fill", None),
    }
    ms: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, (do, _, _) in work.items():
            started = time.perf_counter()
            do()
            ms[name].append(1000 * (time.perf_counter() - started))
    for name, (_, bare, at_most) in work.items():
        if bare:
            yield ratio(f"{name} / {bare}", zip(ms[name], ms[bare], strict=True), "ms", at_most=at_most)
    frame = frame_of(raw)
    started = time.perf_counter()
    counterfactual(frame, grid=GRID, aggregate=True)
    yield Row("counterfactual(frame, aggregate=True)", 1000 * (time.perf_counter() - started), "ms")


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", type=int, default=40, help="settings that are simulated again")
    options = parser.parse_args()
    publish(__doc__, {"Counterfactuals": measured(options.rounds, options.check)}, options)


if __name__ == "__main__":
    main()
