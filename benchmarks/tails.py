"""How often do budgets, quantiles and the mean of the dearest runs promise what is not true?

In worlds whose truth is known (a population of 400,000 runs) a record is drawn. Each step costs more than the one
before it, and runs differ in their length and in the price of a step, which a task shares among its runs. In some
worlds a share of the tasks is a dear kind, of which a record may hold none.

*Budgets*: the loosest step cap under which at most 5% of runs are shown to cost more than a budget, as
`recommend(budget=)` finds it, or no limit if that is shown without one. It is wrong if truly more cost more. Beside it
stands the same test with runs taken as independent, which must fail where they are not. *Quantiles*: the intervals of
the median and the 95th percentile; one without an upper end cannot miss there. *The dearest 5%*: the interval of their
mean under a hard limit of cost; beside it the upper end of Thomas and Learned-Miller (2019), as a multiple of ours,
which is proved for independent runs. Each figure is the share of records that miss the truth, the records without an
answer included.

Usage: python -m benchmarks.tails [--records 300] [--write] [PART ...]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.results import Row, argument_parser, publish
from boolab.core.types import MICRO
from boolab.stats.kept_share import keeps_enough
from boolab.stats.recommend.budget import fit_budget
from boolab.stats.recommend.candidates import Candidates
from boolab.stats.recommend.question import Budget, Question
from boolab.stats.recommend.units import clusters_of_ledger
from boolab.stats.tail_bounds import TaskAmounts, quantile_interval, shortfall_interval
from boolab.whatif.from_frame import ledger_of_frame

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SHARE: Final = 0.95
POPULATION: Final = 400_000
LONGEST: Final = 60
_FIRST_STEP, _GROWTH = 2_000, 400
"""Micro-dollars of the first step, and by how much each one costs more than the one before it."""
SUMS: Final[Floats] = np.cumsum(_FIRST_STEP + _GROWTH * np.arange(LONGEST)) / MICRO
"""The dollars of the first steps."""


class Record(NamedTuple):
    """Some runs: how many steps each has, what its steps cost as a multiple of the usual, and its task."""

    steps: Ints
    factor: Floats
    task: Ints

    def costs(self, cap: int = LONGEST) -> Floats:
        """What each run costs under a step cap."""
        return np.asarray(SUMS[np.minimum(self.steps, cap) - 1] * self.factor)


class World(NamedTuple):
    """Where records come from.

    Attributes:
        name: In a few words.
        tasks: How many a record has.
        sizes: How many runs each of so many tasks has; whether a task is dear may have a part in it.
        by_task: How much the logarithm of the price of a step differs between tasks.
        by_run: How much it differs between the runs of a task.
        dear: The share of tasks of a kind that is eight times as dear.
    """

    name: str
    tasks: int
    sizes: Callable[[np.random.Generator, npt.NDArray[np.bool_]], Ints]
    by_task: float = 0.6
    by_run: float = 0.3
    dear: float = 0.0

    def draw(self, rng: np.random.Generator, tasks: int) -> Record:
        """So many tasks with their runs."""
        is_dear = rng.random(tasks) < self.dear
        sizes = self.sizes(rng, is_dear)
        task = np.repeat(np.arange(tasks), sizes)
        middle = np.minimum(rng.geometric(0.08, tasks), LONGEST - 5)
        steps = np.clip(middle[task] + rng.integers(-4, 5, len(task)), 1, LONGEST)
        prices = np.exp(self.by_task * rng.normal(size=tasks)[task] + self.by_run * rng.normal(size=len(task)))
        return Record(steps, prices * np.where(is_dear, 8.0, 1.0)[task], task)


def all_have(n: int) -> Callable[[np.random.Generator, npt.NDArray[np.bool_]], Ints]:
    """Tasks of one size."""
    return lambda _, is_dear: np.full(len(is_dear), n)


def _unequal(rng: np.random.Generator, is_dear: npt.NDArray[np.bool_]) -> Ints:
    return np.minimum(rng.geometric(0.4, len(is_dear)), 6)


def _dear_are_large(_: np.random.Generator, is_dear: npt.NDArray[np.bool_]) -> Ints:
    return np.where(is_dear, 4, 2)


WORLDS: Final = (
    World("200 tasks of 1 run", 200, all_have(1)),
    World("100 tasks of 5 runs", 100, all_have(5)),
    World("300 tasks of 3 runs, prices of tasks far apart", 300, all_have(3), by_task=1.2),
    World("400 tasks of 1 to 6 runs", 400, _unequal),
    World("200 tasks, a dear kind of 3% with twice as many runs", 200, _dear_are_large, dear=0.03),
    World("120 tasks of 10 runs, a dear kind of 6.5%", 120, all_have(10), dear=0.065),
    World("40 tasks of 10 runs, a dear kind of 6.5%", 40, all_have(10), dear=0.065),
    World("25 tasks of 10 runs, a dear kind of 6.5%", 25, all_have(10), dear=0.065),
    World("15 tasks of 10 runs, a dear kind of 6.5%", 15, all_have(10), dear=0.065),
    World("40 tasks of 3 runs", 40, all_have(3)),
)


@cache
def truth(world: World) -> Record:
    """A population."""
    rng = np.random.default_rng(1)
    mean_size = world.draw(rng, 2_000).task.size / 2_000
    return world.draw(rng, round(POPULATION / mean_size))


def records(world: World, n: int) -> Iterator[Record]:
    """Some records."""
    rng = np.random.default_rng(7)
    return (world.draw(rng, world.tasks) for _ in range(n))


# --- Budgets ----------------------------------------------------------------------------------------------------------


def frame_of(record: Record) -> pd.DataFrame:
    """A record as `recommend` reads it: a row per step, of which the last is a text."""
    run = np.repeat(np.arange(len(record.steps)), record.steps)
    place = np.arange(len(run)) - np.repeat(np.cumsum(record.steps) - record.steps, record.steps)
    is_final = place == record.steps[run] - 1
    return pd.DataFrame(
        {
            "run_id": run.astype(str), "step": place + 1, "censored": False, "boundary": ~is_final,
            "n_tool_calls": (~is_final).astype(int), "task": record.task[run].astype(str),
            "cost_usd": (_FIRST_STEP + _GROWTH * place) * record.factor[run] / MICRO,
        }
    )  # fmt: skip


def cap_of(record: Record, budget: float) -> int | None:
    """The cap for a budget; `LONGEST` for no limit, None for no answer."""
    units = ledger_of_frame(frame_of(record), [], "run").apply_own_limits()
    asked = Budget(round(budget * MICRO), SHARE)
    question = Question(SHARE, 0.95, "cost", ("max_steps",), None, None, 0, budget=asked)
    choice, _ = fit_budget(Candidates(units, clusters_of_ledger(units), question), asked)
    return None if not choice.qualifies else choice.setting.get("max_steps", LONGEST)


def cap_of_runs(record: Record, budget: float) -> int | None:
    """The same, if runs were independent."""
    caps = [
        cap
        for cap in range(1, LONGEST + 1)
        if keeps_enough(record.costs(cap) > budget, np.ones(len(record.steps)), SHARE, 0.05)
    ]
    return max(caps, default=None)


def budget_rows(n: int) -> Iterator[Row]:
    """How often a budget is truly exceeded by more than 5%."""
    for world in WORLDS:
        population = truth(world)
        budget = float(np.quantile(population.costs(), 0.8))
        over = [0.0, *(float((population.costs(cap) > budget).mean()) for cap in range(1, LONGEST + 1))]
        wrong, answers, caps, wrong_of_runs = 0, 0, [], 0
        for record in records(world, n):
            cap, of_runs = cap_of(record, budget), cap_of_runs(record, budget)
            answers += cap is not None
            caps += [] if cap is None else [cap]
            wrong += cap is not None and over[cap] > 1 - SHARE
            wrong_of_runs += of_runs is not None and over[of_runs] > 1 - SHARE
        best = max(cap for cap in range(LONGEST + 1) if over[cap] <= 1 - SHARE)
        detail = f"an answer in {answers / n:.0%}"
        detail += f", a cap of {np.mean(caps):.0f} in the mean, where {best} would do" if caps else ""
        detail += f"; runs as independent: wrong in {wrong_of_runs / n:.1%}"
        yield Row(world.name, 100 * wrong / n, "%", at_most=5, detail=detail)


# --- Quantiles --------------------------------------------------------------------------------------------------------


def quantile_rows(n: int) -> Iterator[Row]:
    """How often the intervals of quantiles miss."""
    for world in WORLDS:
        costs = truth(world).costs()
        for share, name in ((0.5, "median"), (SHARE, "95th percentile")):
            value = float(np.quantile(costs, share, method="inverted_cdf"))
            missed, bounded, widths = 0, 0, []
            for record in records(world, n):
                low, high, _ = quantile_interval(TaskAmounts(record.costs(), record.task), share)
                missed += low > value or high < value
                bounded += not math.isnan(high)
                widths += [] if math.isnan(high) or math.isnan(low) else [(high - low) / value]
            width = f", {np.median(widths):.2f} of it wide" if widths else ""
            detail = f"an upper end in {bounded / n:.0%}{width}"
            yield Row(f"{name}: {world.name}", 100 * missed / n, "%", at_most=5, detail=detail)


# --- The dearest 5% ---------------------------------------------------------------------------------------------------


def shortfall_rows(n: int) -> Iterator[Row]:
    """How often the interval of the mean of the dearest 5% misses under a hard limit."""
    for world in WORLDS:
        population = truth(world).costs()
        bound = 2 * float(np.quantile(population, 0.99))
        costs = np.minimum(population, bound)
        value = TaskAmounts(costs, np.zeros(len(costs))).shortfall(SHARE)
        missed, ends, ratios = 0, [], []
        for record in records(world, n):
            amounts = TaskAmounts(np.minimum(record.costs(), bound), record.task)
            low, high = shortfall_interval(amounts, SHARE, bound)
            missed += low > value or high < value
            ends.append((low / value, high / value))
            ratios.append(thomas_learned_miller(amounts.values, SHARE, bound, 0.025) / high)
        low, high = np.median(ends, axis=0)
        detail = f"from {low:.2f} to {high:.2f} of it in the median; Thomas and Learned-Miller {np.median(ratios):.2f}"
        yield Row(world.name, 100 * missed / n, "%", at_most=5, detail=detail)


def thomas_learned_miller(values: Floats, share: float, bound: float, error: float) -> float:
    """The upper end of the mean of the largest values, of independent ones that do not exceed a bound (Theorem 3)."""
    ordered = np.append(np.sort(values), bound)
    n = len(values)
    below = np.arange(1, n + 1) / n - math.sqrt(math.log(1 / error) / (2 * n))
    return float(bound - (np.diff(ordered) * np.maximum(below - share, 0)).sum() / (1 - share))


PARTS: Final[dict[str, Callable[[int], Iterator[Row]]]] = {
    "budgets": budget_rows,
    "quantiles": quantile_rows,
    "the_dearest": shortfall_rows,
}


def main() -> None:
    """Measure."""
    parser = argument_parser(__doc__, PARTS)
    parser.add_argument("--records", type=int, default=300, help="records of each world (default: %(default)s)")
    options = parser.parse_args()
    publish(__doc__, {name: part(options.records) for name, part in PARTS.items()}, options)


if __name__ == "__main__":
    main()
