"""Other context policies: what is computed from a record against what a simulated agent then does.

`EditorModel` edits files after a plan, and reads a file before an edit only if its text is no longer in its prompt.
Each of 12 agents runs without compaction; from that record, `context_costs` estimates its cost at thresholds of 40,000
to 100,000 tokens, and the agent is then run with each. A figure without a unit is the estimate over what the run cost.

`law` compares the threshold of `compaction_threshold` with the cheapest one of a grid, on longer runs of the same
agents. `speed` is a grid of 8 x 6 policies on a run of 1,000 steps, in CPU seconds.

Usage: python -m benchmarks.context_policies [PART ...] [--write]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import boolab as bl
from benchmarks.results import Row, argument_parser, publish
from boolab.core.types import MICRO

SEEDS: Final = range(12)
THRESHOLDS: Final = (40_000, 50_000, 60_000, 70_000, 80_000, 90_000, 100_000)
SUMMARY_TOKENS: Final = 2_000


class Pair(NamedTuple):
    """An estimate from the record, and the run that was made."""

    estimate: float
    lower: float
    upper: float
    cost: float
    reads_estimated: int
    reads: int
    changes: int
    compactions: int


def agent(max_steps: int = 1_000) -> bl.Agent:
    """An agent that no limit stops, under a policy without a ceiling of its own."""
    return bl.Agent("editor", max_steps=max_steps, tool_budget=None, doom_loop=None)


def cost_of(run: bl.Run) -> float:
    """The dollars of a run, with its compactions."""
    usages = [*(step.response.usage for step in run.steps), *run.outside]
    return sum(usage.cost or 0 for usage in usages) / MICRO


def pairs(keep_steps: int, seeds: Iterable[int] = SEEDS) -> Iterator[Pair]:
    """Each agent at each threshold that its prompts exceed."""
    for seed in seeds:
        model = bl.EditorModel(seed=seed)
        record = bl.run_sync(agent(), "Rename the unit", model=model, policy="naive")
        grid = {"compact_at": THRESHOLDS, "keep_steps": [keep_steps], "summary_tokens": [SUMMARY_TOKENS]}
        for row in bl.context_costs(record, grid=grid).to_dict("records"):
            if not row["changes"]:
                continue
            compaction = bl.Compaction(at_tokens=int(row["compact_at"]), keep_steps=keep_steps)
            run = bl.run_sync(agent(), "Rename the unit", model=model, policy="naive", compaction=compaction)
            yield Pair(
                row["cost_usd"], row["cost_lower"], row["cost_upper"], cost_of(run), row["reads_again"],
                run.n_steps - record.n_steps, row["changes"], len(run.compactions),
            )  # fmt: skip


def estimate_rows() -> Iterator[Row]:
    """By kept steps: the estimate over the run, the bounds, and the reads."""
    for keep_steps in (1, 0, 3, 5):
        made = [*pairs(keep_steps)]
        ratios = [pair.estimate / pair.cost for pair in made]
        name = f"keep {keep_steps}"
        mean, worst = statistics.fmean(ratios), max(abs(ratio - 1) for ratio in ratios)
        detail = f"{len(ratios)} pairs, {min(ratios):.3f} to {max(ratios):.3f}"
        is_goal = keep_steps == 1
        yield Row(f"{name}: mean", mean, "", 1.04 if is_goal else None, None, detail)
        yield Row(f"{name}: largest error", 100 * worst, "%", 12 if is_goal else None)
        above = sum(pair.lower > pair.cost * (1 + 1e-9) for pair in made)
        yield Row(f"{name}: runs that cost less than the lower bound", above, "", 0 if is_goal else None)
        below = sum(pair.upper < pair.cost for pair in made)
        yield Row(f"{name}: runs that cost more than the upper bound", below, "")
        low = [pair.lower / pair.cost for pair in made]
        yield Row(f"{name}: lower bound, mean", statistics.fmean(low), "", detail=f"{min(low):.3f} to {max(low):.3f}")
        reads = statistics.fmean(pair.reads_estimated for pair in made)
        yield Row(f"{name}: files read again, estimated", reads, "a run",
                  detail=f"{statistics.fmean(pair.reads for pair in made):.1f} were")  # fmt: skip
        changes = statistics.fmean(pair.changes for pair in made)
        yield Row(f"{name}: compactions, estimated", changes, "a run",
                  detail=f"{statistics.fmean(pair.compactions for pair in made):.1f} were")  # fmt: skip


def law_rows() -> Iterator[Row]:
    """The threshold of the law: its cost in the walk over that of the cheapest of a grid, nothing read again."""
    thresholds = [*range(25_000, 150_001, 5_000)]
    for bound in ("cost_lower", "cost_usd"):
        dearer = []
        for seed in SEEDS:
            model = bl.EditorModel(seed=seed, edits=200, files=60)
            run = bl.run_sync(agent(), "Rename the unit", model=model, policy="naive")
            law = bl.compaction_threshold(run).threshold
            frame = bl.context_costs(run, grid={"compact_at": [law, *thresholds]})
            costs: Sequence[float] = frame[bound].tolist()
            dearer.append(100 * (costs[0] / min(costs) - 1))
        what = "nothing read again" if bound == "cost_lower" else "by reference"
        yield Row(f"the law's threshold over the cheapest of a grid, {what}", statistics.fmean(dearer), "% more",
                  detail=f"{min(dearer):.1f} to {max(dearer):.1f} in {len(dearer)} runs")  # fmt: skip


def speed_rows() -> Iterator[Row]:
    """48 policies on 1,000 steps."""
    model = bl.EditorModel(seed=1, edits=1_000, files=150)
    run = bl.run_sync(agent(), "Rename the unit", model=model, policy="naive")
    grid = {"compact_at": [*range(40_000, 200_000, 20_000)], "keep_steps": [0, 1, 2, 3, 5, 8]}
    seconds = []
    for _ in range(3):
        start = time.process_time()
        bl.context_costs(run, grid=grid)
        seconds.append(time.process_time() - start)
    yield Row(f"8 x 6 policies, {run.n_steps:,} steps", min(seconds), "s of CPU", 2.0)


if __name__ == "__main__":
    PARTS = {"estimates": estimate_rows, "law": law_rows, "speed": speed_rows}
    parsed = argument_parser(__doc__, PARTS).parse_args()
    publish(__doc__, {name: rows() for name, rows in PARTS.items()}, parsed)
