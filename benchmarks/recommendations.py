"""How often does a decision break its promise, what does it save, and does it set limits where that is no use?

In worlds whose truth is known a record is drawn, and decided on as `recommend` does: groups by the lengths of runs, a
setting by its net gain among those that are shown to keep enough, and limits only if the runs that they stop are shown
to fail more often. The promise is broken if a setting that is shown, of any group, truly keeps less than `keep` of the
group's successes. At 95% confidence that may happen in 5% of the records, those without an answer included. Beside it
stands "ignored" (`dependence="same_tasks"`, runs taken as independent: it must fail where they are not) on the same
records.

Worlds are simulated (truth: a population of 400,000 runs or more), or real: the tasks of a set of the atlas, drawn with
replacement (truth: the whole set). The promise assumes that no task to come has more successes than the largest on
record. Worlds in which a record often misses the largest tasks have no target. In null worlds success does not depend
on the length of a run; in others failures run twice as long. Some have several models.

The figure is the share of records whose promise is broken; in null worlds, and in those in which failures run twice as
long, a second one is the share with limits to set; where sizes of tasks are varied, the share with an answer. The
detail has the records in which a setting keeps enough, those with limits to set, and the steps that are truly saved (0
without limits), on average; then the broken promises and the answers of "ignored", where tasks have several runs.

Usage: python -m benchmarks.recommendations [--records 300] [--processes 2] [--only WORDS] [--write]
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.results import Row, argument_parser, publish
from boolab import load_dataset, recording_df
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.stats.recommend.candidates import Candidates
from boolab.stats.recommend.decide import choose_tested
from boolab.stats.recommend.fixed_sequence import JOINT_AXES, OFF, Dependence
from boolab.stats.recommend.groups import MEASURED, shared_errors, split_columns, task_sizes
from boolab.stats.recommend.question import Question
from boolab.stats.recommend.units import clusters_of_ledger, grouped_units
from boolab.whatif.from_frame import ledger_of_frame
from boolab.whatif.step_table import Ledger

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Setting = tuple[int, int, int]
"""A cap, a doom-loop threshold and a tool budget; `OFF` is off."""
Group = tuple[tuple[str, str], ...]
"""The columns that separate a group from others, each with its value."""

KEEPS: Final = (0.9, 0.95)
ALPHA: Final = 0.05
POWER: Final = 80.0
POPULATION: Final = 400_000
NOTHING: Final[Setting] = (OFF, OFF, OFF)
STOPS_NOTHING: Final = 10**9
_FIRST_PROMPT: Final = 2_000
_PROMPT_GROWTH: Final = 400
"""Tokens of the prompt, in the first step and added by each step, where costs grow; a token costs a micro-dollar."""
TOO_FEW: Final = "a limit: some 94 tasks with 1.9 of 3 successes each weigh as 60 of the largest, and it takes 67"
SETS: Final = (
    "intercode-bash", "intercode-ctf", "intercode-python", "intercode-sql", "swebench-verified", "tau-airline",
    "tau2-airline", "tau2-retail", "tau2-telecom",
)  # fmt: skip


# --- Runs -------------------------------------------------------------------------------------------------------------


class Runs:
    """Runs as columns.

    Args:
        steps: How many steps each run has.
        peaks: The largest count at a boundary, of steps, repeats and calls.
        success: Whether it succeeded.
        task: Its task, numbered from 0.
        stop: The boundary at which each run, of those asked for, reaches a value of an axis; used where its peak does.
        units: The same runs as `recommend` counts them.
        columns: Columns that may keep runs apart, such as the model.
    """

    def __init__(
        self,
        steps: Ints,
        peaks: tuple[Ints, Ints, Ints],
        success: npt.NDArray[np.bool_],
        task: Ints,
        stop: Callable[[int, int, Ints], Ints],
        units: Callable[[Runs], Ledger],
        columns: Mapping[str, npt.NDArray[np.str_]],
    ) -> None:
        self.steps, self.peaks, self.success, self.task = steps, peaks, success, task
        self.columns = columns
        self._stop, self._units = stop, units

    def take(self, rows: Ints, task: Ints | None = None) -> Runs:
        """The runs in `rows`, as often as they stand there; `task` are other numbers of tasks."""
        steps, calls, repeats = (peak[rows] for peak in self.peaks)
        stop, units = self._stop, self.units if "units" in self.__dict__ else None
        number = self.task[rows] if task is None else task

        def as_counted(runs: Runs) -> Ledger:
            ledger = (self.units if units is None else units).take(rows)
            ids = pd.Series(np.arange(len(rows)).astype(str), dtype="string")
            tasks = pd.Series(runs.task.astype(str), dtype="string")
            return replace(ledger, runs=ledger.runs.assign(run_id=ids, task=tasks))

        return Runs(self.steps[rows], (steps, calls, repeats), self.success[rows], number,
                    lambda axis, value, which: stop(axis, value, rows[which]), as_counted,
                    {name: values[rows] for name, values in self.columns.items()})  # fmt: skip

    def of(self, group: Group) -> Runs:
        """The runs of a group."""
        is_member = np.ones(len(self.steps), dtype=bool)
        for name, value in group:
            is_member &= self.columns[name] == value
        return self if not group else self.take(np.flatnonzero(is_member))

    def kept(self, setting: Setting) -> float:
        """The share of successes that a setting leaves as they are."""
        lost = np.zeros(len(self.steps), dtype=bool)
        for peak, value in zip(self.peaks, setting, strict=True):
            lost |= peak >= value
        return 1 - float((lost & self.success).sum() / self.success.sum())

    def saved(self, setting: Setting) -> int:
        """How many steps a setting saves."""
        end = self.steps.copy()
        for axis, value in enumerate(setting):
            which = np.flatnonzero(self.peaks[axis] >= value)
            if len(which):
                end[which] = np.minimum(end[which], self._stop(axis, value, which))
        return int(self.steps.sum() - end.sum())

    @property
    def has_repeats(self) -> bool:
        """Whether tasks have several runs."""
        return len(np.unique(self.task)) < len(self.task)

    @cached_property
    def winners(self) -> dict[str, Ints]:
        """The peaks of the successes, by axis."""
        return {name: peak[self.success] for name, peak in zip(JOINT_AXES, self.peaks, strict=True)}

    @cached_property
    def units(self) -> Ledger:
        """The runs as `recommend` counts them."""
        return self._units(self)


def simulated(
    tool_steps: Ints,
    calls: Ints,
    streak: Ints,
    success: npt.NDArray[np.bool_],
    task: Ints,
    model: Ints | None = None,
    *,
    grows: bool = False,
) -> Runs:
    """Runs that end in a text. Calls beyond one per step come in the first step; the streak comes last.

    `grows`: whether each step costs more than the one before it, as with a growing context; else there are no costs.
    """
    extra = calls - tool_steps

    def stop(axis: int, value: int, which: Ints) -> Ints:
        if axis == 0:
            return np.full(len(which), value)
        if axis == 1:
            return (tool_steps - streak + value)[which]
        return np.asarray(np.maximum(1, value - extra[which]))

    def units(runs: Runs) -> Ledger:
        return ledger_of_frame(frame_of(runs, grows=grows), [RepeatStreak()], "auto").apply_own_limits()

    columns = {} if model is None else {"model": model.astype(str)}
    return Runs(tool_steps + 1, (tool_steps, streak, calls), success, task, stop, units, columns)


def frame_of(runs: Runs, *, grows: bool = False) -> pd.DataFrame:
    """Simulated runs as `recommend` reads them: a row per step, the last of which is a text."""
    steps, streak, calls = runs.peaks
    run = np.repeat(np.arange(len(steps)), steps + 1)
    place = np.arange(len(run)) - np.repeat(np.cumsum(steps + 1) - steps - 1, steps + 1)
    final = place == steps[run]
    # The calls beyond one per step come in the first step; the streak, in the last ones.
    n = np.where(final, 0, 1 + np.where(place == 0, (calls - steps)[run], 0))
    before = np.clip(place - (steps - streak)[run], 1, None)
    before[place == 0] = 0
    return pd.DataFrame(
        {
            "run_id": run.astype(str),
            "step": place + 1,
            "censored": False,
            "boundary": ~final,
            "n_tool_calls": n,
            "repeat_streak": before,
            "success": runs.success[run],
            "task": runs.task[run].astype(str),
            **{name: values[run] for name, values in runs.columns.items()},
            **({"cost_usd": (_FIRST_PROMPT + _PROMPT_GROWTH * place) / 1e6} if grows else {}),
        }
    )


def recorded(frame: pd.DataFrame) -> Runs:
    """Recordings, as `bl.recording_df` makes them, counted through whole runs."""
    watch = RepeatStreak()
    ledger = ledger_of_frame(frame, [watch], "run").apply_own_limits()
    columns = {name: ledger.runs[name].fillna("").to_numpy(dtype=str) for name in MEASURED if name in ledger.runs}
    ledger = replace(ledger, runs=ledger.runs.assign(**columns))
    names = ("steps", watch.name, "tool_calls")
    peaks = tuple(ledger.peak(name) for name in names)
    run = np.repeat(np.arange(ledger.n_runs), np.diff(ledger.first))
    after = np.arange(1, ledger.n_steps + 1) - ledger.first[run]
    tables = []
    for name, peak in zip(names, peaks, strict=True):
        table = np.full((ledger.n_runs, int(peak.max(initial=0)) + 2), np.iinfo(np.int64).max)
        counts = np.where(ledger.boundary, ledger.counters[name], 0)
        np.minimum.at(table, (run, counts), after)
        tables.append(np.minimum.accumulate(table[:, ::-1], axis=1)[:, ::-1])  # at this count or more
    tasks = pd.factorize(ledger.runs["task"])[0].astype(np.int64)
    return Runs(np.diff(ledger.first), (peaks[0], peaks[1], peaks[2]), ledger.success == 1, tasks,
                lambda axis, value, which: tables[axis][which, value], lambda _: ledger, columns)  # fmt: skip


# --- Worlds -----------------------------------------------------------------------------------------------------------


Draw = Callable[[np.random.Generator, int], Runs]
Sizes = Callable[[np.random.Generator, Floats], Floats]


class World(NamedTuple):
    """Where records come from.

    Attributes:
        name: In a few words.
        tasks: How many a record has.
        draw: That many tasks with their runs.
        coarse: Whether each limit has two values alone: one that truly keeps a little less than it should, and one
            that stops nothing. The hardest case for the promise.
        harsh: Whether a record often misses the largest tasks, so that the assumption of the promise does not hold.
        kind: "null" if success does not depend on length, "slow" if failures run twice as long, "unequal" if the sizes
            of tasks are what is varied.
        measure: What is to be saved.
        limit: Why limits cannot be set at the largest share to keep; its row has no target.
    """

    name: str
    tasks: int
    draw: Draw
    coarse: bool = False
    harsh: bool = False
    kind: str = ""
    measure: str = "steps"
    limit: str = ""


def each(n: float) -> Sizes:
    """So many runs of each task."""
    return lambda _, hard: np.full(len(hard), n, dtype=np.float64)


def geometric(mean: float) -> Sizes:
    """A geometric number of runs of each task."""
    return lambda rng, hard: rng.geometric(1 / mean, len(hard)).astype(float)


def heavy(rng: np.random.Generator, hard: Floats) -> Floats:
    """Few tasks with very many runs: a Pareto distribution, cut at 60."""
    return np.asarray(np.minimum(60, np.ceil(rng.pareto(1.2, len(hard)) * 2 + 0.01)), dtype=np.float64)


def two_sizes(ratio: float) -> Sizes:
    """1 in 20 tasks has 12 runs; the others have so few that 12 are `ratio` times the mean."""
    fewer = 12 * (1 / ratio - 0.05) / 0.95

    def draw(rng: np.random.Generator, hard: Floats) -> Floats:
        return np.where(rng.random(len(hard)) < 0.05, 12.0, np.floor(fewer + rng.random(len(hard))))

    return draw


def by_length(mean: float, slope: float) -> Sizes:
    """The more runs, the longer they are (slope above 0), or the shorter."""
    return lambda rng, hard: np.asarray(1.0 + rng.poisson(mean * np.exp(slope * hard)), dtype=np.float64)


def tasks_of(
    sizes: Sizes,
    *,
    between: float = 0.6,
    within: float = 0.65,
    level: float = 2.2,
    limits: str = "related",
    rare: tuple[float, float, float] | None = None,
) -> Draw:
    """Tasks with runs of lognormal length: `between` and `within` tasks, its logarithm spreads so much.

    `limits`: streaks and calls are "related" to the length, or "unrelated" to it, or there are "three" kinds of
    failure: long ones, loops, and bursts of calls. `rare`: the chance of a kind of task, how much longer (logarithm)
    its runs are, and how many times as many runs it has.
    """

    def draw(rng: np.random.Generator, tasks: int) -> Runs:
        hard = rng.normal(0, 1, tasks) * between
        size = np.maximum(1, sizes(rng, hard)).astype(np.int64)
        odd = np.zeros(tasks, dtype=bool)
        if rare is not None:
            odd = rng.random(tasks) < rare[0]
            size = np.where(odd, (size * rare[2]).astype(np.int64), size)
        task = np.repeat(np.arange(tasks), size)
        runs, h = len(task), hard[task]
        success = rng.random(runs) < 1 / (1 + np.exp(h * 2 - 0.6))
        fails = np.where(success, 0.0, 0.5)
        log = level + h + fails + rng.normal(0, within, runs)
        if rare is not None:
            log = np.where(odd[task], level + rare[1] + rng.normal(0, 0.1, runs), log)
        steps = np.maximum(1, np.exp(np.minimum(log, 8.0)).astype(np.int64))
        if limits == "related":
            more = rng.poisson(0.3 * steps)
            loops = rng.random(runs) < np.where(success, 0.3, 0.7)
            streak = np.minimum(1 + rng.geometric(0.6, runs) * loops, steps)
        elif limits == "unrelated":
            more = rng.geometric(0.05, runs)
            streak = 1 + rng.geometric(0.4, runs)
            steps = np.maximum(steps, streak)
        else:
            kind = np.where(success, 0, rng.integers(1, 4, runs))
            steps = np.where(kind == 1, steps * 3, steps)
            streak = 1 + rng.geometric(0.6, runs) * (rng.random(runs) < 0.3)
            streak = np.where(kind == 2, streak + 10 + rng.geometric(0.05, runs), streak)
            steps = np.maximum(steps, streak + 1)
            more = np.where(kind == 3, rng.poisson(4.0 * steps + 20), rng.poisson(0.3 * steps))
        return simulated(steps, steps + more, streak, success, task)

    return draw


def mixed(tail_together: bool) -> Draw:
    """Lengths whose middle depends on the task and whose tail does not, or the other way round."""

    def draw(rng: np.random.Generator, tasks: int) -> Runs:
        task = np.repeat(np.arange(tasks), 5)
        runs = len(task)
        success = rng.random(runs) < 0.65
        if tail_together:
            long = (rng.random(tasks) < 0.12)[task]
            steps = np.where(long, rng.integers(30, 90, tasks)[task], rng.integers(2, 30, runs))
        else:
            long = rng.random(runs) < 0.12
            steps = np.where(long, rng.integers(30, 90, runs), rng.integers(2, 30, tasks)[task])
        steps = np.where(success, steps, (steps * 1.6).astype(np.int64))
        streak = np.minimum(1 + rng.geometric(0.6, runs), steps)
        return simulated(steps, steps + rng.poisson(0.3 * steps), streak, success, task)

    return draw


def half_spread(rng: np.random.Generator, tasks: int) -> Runs:
    """10 runs of each task: 3% of the tasks are long as a whole, and 3% of the other runs."""
    task = np.repeat(np.arange(tasks), 10)
    long = (rng.random(tasks) < 0.03)[task] | (rng.random(len(task)) < 0.03)
    steps = np.where(long, rng.integers(60, 90, len(task)), rng.integers(2, 30, len(task)))
    streak = np.minimum(1 + rng.geometric(0.6, len(task)), steps)
    return simulated(steps, steps + rng.poisson(0.3 * steps), streak, rng.random(len(task)) < 0.8, task)


def by_hazard(
    sizes: Sizes,
    success_share: float,
    *,
    hazard: float = 0.1,
    factor: float = 1.0,
    between: float = 0.0,
    grows: bool = False,
) -> Draw:
    """Runs that end at each step with the same chance; failures run `factor` times as long.

    `between`: how much the logarithm of the length, and of the odds of success, vary between tasks: each by itself.
    """

    def draw(rng: np.random.Generator, tasks: int) -> Runs:
        task = np.repeat(np.arange(tasks), sizes(rng, np.zeros(tasks)).astype(np.int64))
        odds = np.log(success_share / (1 - success_share)) + 2 * rng.normal(0, between, tasks)[task]
        success = rng.random(len(task)) < 1 / (1 + np.exp(-odds))
        length = rng.geometric(hazard, len(task)) * np.exp(rng.normal(0, between, tasks))[task]
        steps = np.maximum(1, np.rint(length * np.where(success, 1.0, factor))).astype(np.int64)
        streak = np.minimum(1 + rng.geometric(0.6, len(task)), steps)
        return simulated(steps, steps + rng.poisson(0.3 * steps), streak, success, task, grows=grows)

    return draw


def by_model(sizes: Sequence[float], longer: Sequence[float], runs: int = 1) -> Draw:
    """Models with these shares of the runs, whose runs are so many times as long; each runs each of its tasks anew.

    Failures run half as long again.
    """

    def draw(rng: np.random.Generator, tasks: int) -> Runs:
        task = np.repeat(np.arange(tasks), runs)
        model = rng.choice(len(sizes), len(task), p=np.array(sizes) / sum(sizes))
        hard = rng.normal(0, 0.3, tasks)[task]
        success = rng.random(len(task)) < 1 / (1 + np.exp(2 * hard - 1.2))
        log = 2.2 + hard + np.log(np.array(longer)[model] * np.where(success, 1, 1.5)) + rng.normal(0, 0.5, len(task))
        steps = np.maximum(1, np.exp(log).astype(np.int64))
        streak = np.minimum(1 + rng.geometric(0.6, len(task)), steps)
        return simulated(steps, steps + rng.poisson(0.3 * steps), streak, success, task, model)

    return draw


def rare_kind(tasks: int, runs: int, share: float) -> World:
    """Tasks of equal size, of which a share is ten times as long."""
    draw = tasks_of(each(runs), between=0.0, within=0.2, rare=(share, np.log(10), 1))
    return World(f"{tasks} tasks x {runs}, {share:.1%} long", tasks, draw)


alone = partial(tasks_of, between=0.0)
alike = partial(tasks_of, within=0.05)
WORLDS: Final = (
    World("own tasks, 60 runs", 60, alone(each(1))),
    World("own tasks, 130", 130, alone(each(1))),
    World("own tasks, 400", 400, alone(each(1))),
    World("own tasks, 1,500", 1500, alone(each(1))),
    World("own tasks, long runs, 200", 200, alone(each(1), level=4.6)),
    World("own tasks, long runs, 1,000", 1000, alone(each(1), level=4.6)),
    World("unrelated limits, 400", 400, alone(each(1), limits="unrelated")),
    World("unrelated limits, two values, 2,000", 2000, alone(each(1), limits="unrelated"), coarse=True),
    World("related limits, two values, 400", 400, alone(each(1)), coarse=True),
    World("three limits matter, 400", 400, alone(each(1), limits="three")),
    World("three limits matter, 80 tasks x 5", 80, tasks_of(each(5), limits="three", within=0.4)),
    World("40 tasks x 5", 40, tasks_of(each(5))),
    World("150 tasks x 10, alike", 150, alike(each(10))),
    World("30 tasks x 10, alike", 30, alike(each(10))),
    World("100 tasks x 4, half alike", 100, tasks_of(each(4), within=0.4)),
    World("60 tasks x 20, half alike", 60, tasks_of(each(20), within=0.4)),
    World("60 tasks x 20, little alike", 60, tasks_of(each(20), between=0.2)),
    World("15 tasks x 40, half alike", 15, tasks_of(each(40), within=0.4)),
    World("60 tasks x 20, alike, two values", 60, alike(each(20)), coarse=True),
    World("60 tasks x 20, half alike, two values", 60, tasks_of(each(20), within=0.4), coarse=True),
    World("100 tasks, unequal, half alike", 100, tasks_of(geometric(6), within=0.4)),
    World("100 tasks, unequal, alike", 100, alike(geometric(6))),
    World("100 tasks, very unequal, alike", 100, alike(heavy)),
    World("100 tasks, very unequal, half alike", 100, tasks_of(heavy, within=0.4)),
    World("80 tasks, larger where longer", 80, tasks_of(by_length(4, 1.5), within=0.4)),
    World("80 tasks, larger where longer, alike", 80, alike(by_length(4, 1.5))),
    World("80 tasks, smaller where longer", 80, tasks_of(by_length(4, -1.5), within=0.4)),
    World("80 tasks x 8, long runs, half alike", 80, tasks_of(each(8), within=0.4, level=4.6)),
    World("80 tasks x 5, tail by task", 80, mixed(tail_together=True)),
    World("80 tasks x 5, tail by run", 80, mixed(tail_together=False)),
    World("100 tasks x 5, 1 in 7 long", 100, tasks_of(each(5), between=0.2, rare=(0.14, 2.0, 1))),
    World("100 tasks x 5, 1 in 14 long", 100, tasks_of(each(5), between=0.2, rare=(0.07, 2.0, 1))),
    World("100 tasks x 5, 1 in 30 long x 20", 100, tasks_of(each(5), between=0.2, rare=(0.033, 2.0, 4)), harsh=True),
    *(rare_kind(tasks, runs, share) for runs, share in ((10, 0.055), (5, 0.055), (10, 0.11), (5, 0.11))
      for tasks in (15, 25, 40, 55)),
    rare_kind(150, 10, 0.055),
    *(World(f"{tasks} tasks x 10, half spread{', two values' if coarse else ''}", tasks, half_spread, coarse=coarse)
      for tasks, coarse in ((60, False), (150, False), (150, True))),
    *(World(f"150 tasks, the largest {ratio:g} times the mean", 150, tasks_of(two_sizes(ratio)), kind="unequal")
      for ratio in (1, 1.5, 2, 3, 5)),
    World("60 tasks x 3, 1 in 50 long x 10", 60, tasks_of(each(3), between=0.0, rare=(0.02, np.log(10), 10)),
          harsh=True),
    *(World(f"null, {what}{', cost grows' if grows else ''}", tasks,
            by_hazard(sizes, share, between=between, grows=grows), kind="null", measure="cost" if grows else "steps")
      for what, tasks, sizes, share, between in (("300 runs, 90% succeed", 300, each(1), 0.9, 0.0),
                                                 ("300 runs, 60% succeed", 300, each(1), 0.6, 0.0),
                                                 ("1,500 runs, 60% succeed", 1500, each(1), 0.6, 0.0),
                                                 ("100 tasks x 5", 100, each(5), 0.7, 0.0),
                                                 ("100 tasks x 5, half alike", 100, each(5), 0.7, 0.6),
                                                 ("300 tasks x 3, half alike", 300, each(3), 0.7, 0.6),
                                                 ("250 tasks, unequal, half alike", 250, geometric(2), 0.7, 0.6))
      for grows in (False, True)),
    *(World(f"failures twice as long, {what}{', cost grows' if grows else ''}", tasks,
            by_hazard(sizes, share, factor=2, between=between, grows=grows), kind="slow",
            measure="cost" if grows else "steps", limit=TOO_FEW if tasks == 100 else "")
      for what, tasks, sizes, share, between in (("300 runs, 60% succeed", 300, each(1), 0.6, 0.0),
                                                 ("300 runs, 80% succeed", 300, each(1), 0.8, 0.0),
                                                 ("100 tasks x 3", 100, each(3), 0.6, 0.0),
                                                 ("100 tasks x 3, half alike", 100, each(3), 0.6, 0.3),
                                                 ("200 tasks x 3, half alike", 200, each(3), 0.6, 0.3))
      for grows in (False, True)),
    World("2 models, 3 times as long", 400, by_model((1, 1), (1, 3))),
    World("2 models, one small", 400, by_model((4, 1), (1, 3))),
    World("2 models, little longer", 400, by_model((1, 1), (1, 1.25))),
    World("3 models, up to 4 times as long", 600, by_model((3, 2, 1), (1, 2, 4))),
    World("4 models, all small", 240, by_model((1, 1, 1, 1), (1, 1.5, 2, 4))),
    World("2 models, 150 tasks x 4", 150, by_model((1, 1), (1, 2), 4)),
    World("4 models, 150 tasks x 8", 150, by_model((4, 2, 1, 1), (1, 2, 3, 4), 8)),
)  # fmt: skip


# --- Judging ----------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """The decision on a group: the setting that is shown, and whether it is to be set."""

    group: Group
    setting: Setting
    is_set: bool


def decide(
    units: Ledger, keep: float, dependence: Dependence, grid: Mapping[str, list[int]] | None, measure: str
) -> list[Answer]:
    """Decide as `recommend` does, without what it says beside the decision; groups without an answer are left out.

    Of "same_tasks" it is of interest what is promised alone: nothing is set.
    """
    columns = split_columns(units, keep, ALPHA)
    parts = [*grouped_units(units, columns)]
    answers = []
    for (values, part), error in zip(parts, shared_errors(task_sizes(units, columns), keep, ALPHA), strict=True):
        question = Question(keep, 1 - ALPHA, measure, JOINT_AXES, grid, None, 0, dependence, error=error)
        candidates = Candidates(part, clusters_of_ledger(part), question)
        tested = choose_tested(candidates) if dependence == "tasks" else None
        choice = candidates.choose() if tested is None else tested.choice
        if not choice.qualifies:
            continue
        candidate = choice.best or choice.tightest
        limits = {} if candidate is None else candidate.setting
        is_set = tested is not None and tested.null is not None and tested.null.is_shown
        cap, doom, budget = (limits.get(name, OFF) for name in JOINT_AXES)
        group = tuple(zip(columns, map(str, values), strict=True))
        answers.append(Answer(group, (cap, doom, budget), is_set))
    return answers


class Verdict(NamedTuple):
    """What a procedure came to in a world.

    Attributes:
        world: Its name.
        keep: The share to keep.
        dependence: That of the procedure.
        records: How many were drawn.
        answers: In how many a setting is shown to keep enough.
        n_set: In how many there are limits to set.
        broken: In how many a setting that is shown keeps less than it should.
        saved: The share of steps that the limits to set truly save, on average.
    """

    world: str
    keep: float
    dependence: Dependence
    records: int
    answers: int
    n_set: int
    broken: int
    saved: float


@cache
def population(name: str) -> Runs:
    """A large sample of a simulated world."""
    world = next(world for world in WORLDS if world.name == name)
    few = world.draw(np.random.default_rng(0), 1000)
    tasks = int(POPULATION / len(few.steps) * 1000)
    return world.draw(np.random.default_rng([1, len(name)]), max(tasks, 20_000))


def just_below(whole: Runs, keep: float) -> dict[str, list[int]]:
    """For each limit the loosest value that truly keeps less than it should, and one that stops nothing."""
    out = {}
    for name, peaks in whole.winners.items():
        ordered = np.sort(peaks)
        bad = int(ordered[int(keep * len(ordered))])
        out[name] = [max(bad, 2 if name == "doom_loop" else 1), STOPS_NOTHING]
    return out


class Truth:
    """What settings truly keep and save, of a group."""

    def __init__(self, whole: Runs) -> None:
        self._whole = whole
        self._groups: dict[Group, Runs] = {}
        self._results: dict[tuple[Group, Setting], tuple[float, float]] = {}

    def of(self, group: Group, setting: Setting) -> tuple[float, float]:
        """The share of the group's successes that is kept, and the share of all steps that is saved."""
        if (group, setting) not in self._results:
            runs = self._groups.setdefault(group, self._whole.of(group))
            saved = runs.saved(setting) / float(self._whole.steps.sum())
            self._results[group, setting] = runs.kept(setting), saved
        return self._results[group, setting]


def judge(
    name: str,
    draw: Draw,
    tasks: int,
    whole: Runs,
    records: int,
    *,
    keeps: Sequence[float] = KEEPS,
    coarse: bool = False,
    measure: str = "steps",
) -> list[Verdict]:
    """Draw records, decide on each, and look at what the settings truly keep and save."""
    truth = Truth(whole)
    grids = {keep: just_below(whole, keep) if coarse else None for keep in keeps}
    few = draw(np.random.default_rng(0), tasks)
    how: tuple[Dependence, ...] = ("tasks", "same_tasks") if few.has_repeats else ("tasks",)
    counts = {(keep, dependence): [0, 0, 0, 0.0] for keep in keeps for dependence in how}
    for number in range(records):
        runs = draw(np.random.default_rng([7, len(name), number]), tasks)
        if not runs.success.any():
            continue
        for (keep, dependence), count in counts.items():
            answers = decide(runs.units, keep, dependence, grids[keep], measure)
            found = [truth.of(answer.group, answer.setting) for answer in answers]
            count[0] += bool(answers)
            count[1] += any(answer.is_set for answer in answers)
            count[2] += any(kept < keep for kept, _ in found)
            count[3] += sum(saved for answer, (_, saved) in zip(answers, found, strict=True) if answer.is_set)
    return [
        Verdict(name, keep, dependence, records, int(answers), int(n_set), int(broken), saved / records)
        for (keep, dependence), (answers, n_set, broken, saved) in counts.items()
    ]


def redrawn(whole: Runs) -> Draw:
    """The tasks of a set, drawn with replacement: each is a task of its own however often it comes."""
    order = np.argsort(whole.task, kind="stable")
    sizes = np.bincount(whole.task)
    starts = np.cumsum(sizes) - sizes

    def draw(rng: np.random.Generator, tasks: int) -> Runs:
        chosen = rng.integers(len(sizes), size=tasks)
        counts = sizes[chosen]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = order[np.repeat(starts[chosen], counts) + within]
        return whole.take(rows, np.repeat(np.arange(tasks), counts))

    return draw


@cache
def real(name: str) -> Runs:
    """A set of the atlas."""
    frame = recording_df(load_dataset(f"atlas/{name}"))
    return recorded(frame[frame["success"].notna()].reset_index(drop=True))


def work(job: tuple[str, str, int]) -> list[Verdict]:
    """Judge one world."""
    kind, name, records = job
    if kind == "simulated":
        world = next(world for world in WORLDS if world.name == name)
        whole = population(name)
        return judge(name, world.draw, world.tasks, whole, records, coarse=world.coarse, measure=world.measure)
    whole = real(name)
    return judge(f"real: {name}", redrawn(whole), int(whole.task.max()) + 1, whole, records)


def rows_of(verdicts: Sequence[Verdict]) -> Iterator[Row]:
    """The broken promises of a world, beside those of runs taken as independent; and how often limits are set."""
    for tasks in verdicts:
        if tasks.dependence != "tasks":
            continue
        world = next((world for world in WORLDS if world.name == tasks.world), None)
        detail = f"answers {tasks.answers / tasks.records:.0%}, sets {tasks.n_set / tasks.records:.0%}"
        detail += f", saves {tasks.saved:.1%}"
        for other in verdicts:
            if (other.keep, other.dependence) == (tasks.keep, "same_tasks"):
                broken, answers = other.broken / other.records, other.answers / other.records
                detail += f"; ignored: {100 * broken:.1f} %, answers {answers:.0%}"
        what = f"{tasks.world}, keep={tasks.keep}"
        harsh = world is not None and world.harsh
        broken = 100 * tasks.broken / tasks.records
        yield Row(what, broken, "%", at_most=None if harsh else 100 * ALPHA, detail=detail)
        if world is not None and world.kind == "unequal":
            yield Row(f"{what}: answered", 100 * tasks.answers / tasks.records, "%")
        elif world is not None and world.kind:
            share = 100 * tasks.n_set / tasks.records
            limit = world.limit if tasks.keep == max(KEEPS) else ""
            most, least = (100 * ALPHA, None) if world.kind == "null" else (None, None if limit else POWER)
            yield Row(f"{what}: limits are set", share, "%", at_most=most, at_least=least, detail=limit)


def measured(jobs: Sequence[tuple[str, str, int]], processes: int) -> Iterator[Row]:
    """The rows of all worlds."""
    with multiprocessing.Pool(processes) as pool:
        for verdicts in pool.imap(work, jobs):
            yield from rows_of(verdicts)


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--records", type=int, default=300, help="records drawn from each world")
    parser.add_argument("--processes", type=int, default=2, help="how many work at once")
    parser.add_argument("--only", default="", help="only worlds whose names hold these words")
    options = parser.parse_args()
    tables = {}
    for kind, names in (("simulated", [world.name for world in WORLDS]), ("real", SETS)):
        jobs = [(kind, name, options.records) for name in names if options.only in name]
        tables[f"{kind} worlds"] = measured(jobs, options.processes)
    publish(__doc__, tables, options)


if __name__ == "__main__":
    main()
