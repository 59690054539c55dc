"""How often does a recommendation break its promise, and what does it save? In worlds whose truth is known.

A record is drawn from a world, a setting is chosen on it, and judged on the whole world: the promise is broken if it
truly keeps less than `keep` of the successes. At 95% confidence that may happen in 5% of the records, those without an
answer included. Beside the procedure of `recommend` (`boolab.stats.recommend.fixed_sequence`) stands "ignored"
(`dependence="same_tasks"`, runs taken as independent: it must fail where they are not) on the same records.

Worlds are simulated (truth: a population of 400,000 runs or more), or real: the tasks of a set of the atlas, drawn with
replacement (truth: the whole set). The promise assumes that no task to come has more successes than the largest on
record. Worlds in which a record often misses the largest tasks have no target.

The figure is the share of records whose promise is broken. The detail has the records with an answer, and the steps
that are truly saved (0 without an answer), on average; then the same of "ignored".

Usage: python -m benchmarks.recommendations [--records 300] [--processes 2] [--only WORDS] [--write]
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.results import Row, argument_parser, publish
from boolab import load_dataset, recording_df
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.stats.recommend.fixed_sequence import JOINT_AXES, OFF, PathResult, Successes, accept_values, paths_of
from boolab.whatif.from_frame import ledger_of_frame

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Setting = tuple[int, int, int]
"""A cap, a doom-loop threshold and a tool budget; `OFF` is off."""

KEEPS: Final = (0.9, 0.95)
ALPHA: Final = 0.05
POPULATION: Final = 400_000
NOTHING: Final[Setting] = (OFF, OFF, OFF)
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
    """

    def __init__(
        self,
        steps: Ints,
        peaks: tuple[Ints, Ints, Ints],
        success: npt.NDArray[np.bool_],
        task: Ints,
        stop: Callable[[int, int, Ints], Ints],
    ) -> None:
        self.steps, self.peaks, self.success, self.task = steps, peaks, success, task
        self._stop = stop

    def take(self, rows: Ints, task: Ints) -> Runs:
        """The runs in `rows`, as often as they stand there, under other numbers of tasks."""
        steps, calls, repeats = (peak[rows] for peak in self.peaks)
        stop = self._stop
        return Runs(self.steps[rows], (steps, calls, repeats), self.success[rows], task,
                    lambda axis, value, which: stop(axis, value, rows[which]))  # fmt: skip

    def kept(self, setting: Setting) -> float:
        """The share of successes that a setting leaves as they are."""
        lost = np.zeros(len(self.steps), dtype=bool)
        for peak, value in zip(self.peaks, setting, strict=True):
            lost |= peak >= value
        return 1 - float((lost & self.success).sum() / self.success.sum())

    def saved(self, setting: Setting) -> float:
        """The share of steps that a setting saves."""
        end = self.steps.copy()
        for axis, value in enumerate(setting):
            which = np.flatnonzero(self.peaks[axis] >= value)
            if len(which):
                end[which] = np.minimum(end[which], self._stop(axis, value, which))
        return 1 - float(end.sum() / self.steps.sum())

    @cached_property
    def winners(self) -> dict[str, Ints]:
        """The peaks of the successes, by axis."""
        return {name: peak[self.success] for name, peak in zip(JOINT_AXES, self.peaks, strict=True)}

    @cached_property
    def clusters(self) -> Ints:
        """The task of each success, numbered from 0."""
        return np.unique(self.task[self.success], return_inverse=True)[1].astype(np.int64)

    def thresholds(self) -> dict[str, Ints]:
        """All whole numbers that make a difference on each axis."""
        return {
            name: np.arange(2 if name == "doom_loop" else 1, max(2, int(peak.max(initial=0)) + 1) + 1)
            for name, peak in zip(JOINT_AXES, self.peaks, strict=True)
        }


def simulated(tool_steps: Ints, calls: Ints, streak: Ints, success: npt.NDArray[np.bool_], task: Ints) -> Runs:
    """Runs that end in a text. Calls beyond one per step come in the first step; the streak comes last."""
    extra = calls - tool_steps

    def stop(axis: int, value: int, which: Ints) -> Ints:
        if axis == 0:
            return np.full(len(which), value)
        if axis == 1:
            return (tool_steps - streak + value)[which]
        return np.asarray(np.maximum(1, value - extra[which]))

    return Runs(tool_steps + 1, (tool_steps, streak, calls), success, task, stop)


def frame_of(runs: Runs) -> pd.DataFrame:
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
        }
    )


def recorded(frame: pd.DataFrame) -> Runs:
    """Recordings, as `bl.recording_df` makes them, counted through whole runs."""
    watch = RepeatStreak()
    ledger = ledger_of_frame(frame, [watch], "run").apply_own_limits()
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
                lambda axis, value, which: tables[axis][which, value])  # fmt: skip


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
    """

    name: str
    tasks: int
    draw: Draw
    coarse: bool = False
    harsh: bool = False


def each(n: float) -> Sizes:
    """So many runs of each task."""
    return lambda _, hard: np.full(len(hard), n, dtype=np.float64)


def geometric(mean: float) -> Sizes:
    """A geometric number of runs of each task."""
    return lambda rng, hard: rng.geometric(1 / mean, len(hard)).astype(float)


def heavy(rng: np.random.Generator, hard: Floats) -> Floats:
    """Few tasks with very many runs: a Pareto distribution, cut at 60."""
    return np.asarray(np.minimum(60, np.ceil(rng.pareto(1.2, len(hard)) * 2 + 0.01)), dtype=np.float64)


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
    World("60 tasks x 3, 1 in 50 long x 10", 60, tasks_of(each(3), between=0.0, rare=(0.02, np.log(10), 10)),
          harsh=True),
)  # fmt: skip


# --- Procedures -------------------------------------------------------------------------------------------------------


def best_of(results: list[PathResult], rungs: Ints, values: Mapping[str, Ints], runs: Runs) -> Setting | None:
    """Of the tightest accepted settings, the one that saves most on record; None if none was accepted."""
    settings: list[Setting] = []
    for result in results:
        if not result.accepted:
            continue
        if result.path.name == "joint":
            cap, doom, budget = rungs[result.accepted - 1].tolist()
            settings.append((cap, doom, budget))
        else:
            setting = list(NOTHING)
            setting[JOINT_AXES.index(result.path.name)] = int(values[result.path.name][-result.accepted])
            settings.append((setting[0], setting[1], setting[2]))
    return max(settings, key=runs.saved, default=None)


def by_paths(dependence: Any) -> Callable[[Runs, float, Mapping[str, Ints] | None], Setting | None]:  # noqa: ANN401
    """The procedure of `recommend`."""

    def chosen(runs: Runs, keep: float, grid: Mapping[str, Ints] | None) -> Setting | None:
        values = runs.thresholds() if grid is None else grid
        paths, rungs = paths_of(values, runs.winners, all_integers=grid is None)
        successes = Successes(runs.clusters, dependence)
        return best_of(accept_values(paths, successes, keep, ALPHA), rungs, values, runs)

    return chosen


PROCEDURES: Final[dict[str, Callable[[Runs, float, Mapping[str, Ints] | None], Setting | None]]] = {
    "recommend": by_paths("tasks"),
    "ignored": by_paths("same_tasks"),
}


# --- Judging ----------------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """What a procedure came to in a world: of so many records, answers and broken promises; what it truly saves."""

    world: str
    keep: float
    procedure: str
    records: int
    answers: int
    broken: int
    saved: float


@cache
def population(name: str) -> Runs:
    """A large sample of a simulated world."""
    world = next(world for world in WORLDS if world.name == name)
    few = world.draw(np.random.default_rng(0), 1000)
    tasks = int(POPULATION / len(few.steps) * 1000)
    return world.draw(np.random.default_rng([1, len(name)]), max(tasks, 20_000))


def just_below(whole: Runs, keep: float) -> dict[str, Ints]:
    """For each limit the loosest value that truly keeps less than it should, and one that stops nothing."""
    out = {}
    for name, peaks in whole.winners.items():
        ordered = np.sort(peaks)
        bad = int(ordered[int(keep * len(ordered))])
        out[name] = np.array([max(bad, 2 if name == "doom_loop" else 1), OFF - 1])
    return out


def judge(
    name: str,
    draw: Draw,
    tasks: int,
    whole: Runs,
    keep: float,
    records: int,
    *,
    coarse: bool = False,
    only: Sequence[str] = tuple(PROCEDURES),
) -> list[Verdict]:
    """Draw records, ask each procedure for a setting, and look at what the setting truly keeps and saves."""
    grid = just_below(whole, keep) if coarse else None
    truth: dict[Setting, tuple[float, float]] = {NOTHING: (1.0, 0.0)}
    counts = {procedure: [0, 0, 0.0] for procedure in only}
    for number in range(records):
        runs = draw(np.random.default_rng([7, len(name), number]), tasks)
        for procedure in only:
            setting = PROCEDURES[procedure](runs, keep, grid) if len(runs.clusters) else None
            if setting is None:
                continue
            if setting not in truth:
                truth[setting] = whole.kept(setting), whole.saved(setting)
            kept, saved = truth[setting]
            counts[procedure][0] += 1
            counts[procedure][1] += kept < keep
            counts[procedure][2] += saved
    return [
        Verdict(name, keep, procedure, records, int(answers), int(broken), saved / records)
        for procedure, (answers, broken, saved) in counts.items()
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


def work(job: tuple[str, str, float, int]) -> list[Verdict]:
    """Judge one world at one `keep`."""
    kind, name, keep, records = job
    if kind == "simulated":
        world = next(world for world in WORLDS if world.name == name)
        return judge(name, world.draw, world.tasks, population(name), keep, records, coarse=world.coarse)
    whole = real(name)
    return judge(f"real: {name}", redrawn(whole), int(whole.task.max()) + 1, whole, keep, records)


def row_of(recommended: Verdict, ignored: Verdict) -> Row:
    """The broken promises of a world, beside what the other procedure comes to."""
    harsh = any(world.harsh and world.name == recommended.world for world in WORLDS)
    ends = [f"answers {one.answers / one.records:.0%}, saves {one.saved:.1%}" for one in (recommended, ignored)]
    broken, other = (100 * one.broken / one.records for one in (recommended, ignored))
    detail = f"{ends[0]}; ignored: {other:.1f} %, {ends[1]}"
    what = f"{recommended.world}, keep={recommended.keep}"
    return Row(what, broken, "%", at_most=None if harsh else 100 * ALPHA, detail=detail)


def measured(jobs: Sequence[tuple[str, str, float, int]], processes: int) -> Iterator[Row]:
    """The rows of all worlds."""
    with multiprocessing.Pool(processes) as pool:
        yield from (row_of(*verdicts) for verdicts in pool.imap(work, jobs))


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--records", type=int, default=300, help="records drawn from each world")
    parser.add_argument("--processes", type=int, default=2, help="how many work at once")
    parser.add_argument("--only", default="", help="only worlds whose names hold these words")
    options = parser.parse_args()
    tables = {}
    for kind, names in (("simulated", [world.name for world in WORLDS]), ("real", SETS)):
        jobs = [(kind, name, keep, options.records) for name in names if options.only in name for keep in KEEPS]
        tables[f"{kind} worlds"] = measured(jobs, options.processes)
    publish(__doc__, tables, options)


if __name__ == "__main__":
    main()
