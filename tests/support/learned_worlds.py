"""Worlds in which the promises of learned rules can be checked: a large set of tasks, of which some are drawn.

Each world is a list of runs with labels. Rules are learned from tasks that are drawn from it at random, with
replacement, and what they keep is counted in all of it: so the truth is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

import boolab as bl
from boolab.errors import SettingError
from boolab.limits.learned.features import DEFAULT
from boolab.stats.learn.learn_stop import learn_from, question_of
from boolab.stats.learn.table import FeatureTable, feature_table
from boolab.whatif.step_table import Flags, Ints
from tests.support.labelled_runs import labelled_runs, made_run

TASKS: Final = 600
"""How many tasks a world has."""


def _shared(tasks: int) -> list[bl.Run]:
    """Three runs a task, which share its difficulty; failures are longer and repeat more."""
    return labelled_runs(tasks, 3, seed=1)


def _many_runs(tasks: int) -> list[bl.Run]:
    """Eight runs a task; in each task the successes look alike, in some of them like failures."""
    random, runs = Random(2), []  # noqa: S311 - chance is no secret here
    for task in range(tasks):
        odd = random.random()
        for number in range(8):
            failed = random.random() < 0.5
            repeats = min(0.9, 0.1 + 0.5 * odd + 0.3 * failed)
            length = 3 + int(10 * odd) + random.randint(0, 4) + 6 * failed
            calls = [("{}", "x") if random.random() < repeats else (f'"{step}"', "y") for step in range(length)]
            runs.append(made_run(f"{task}.{number}", f"task {task}", calls, success=not failed))
    return runs


def _ties(tasks: int) -> list[bl.Run]:
    """Runs of four kinds, so that each score is equal to many others, and a few successes look like failures."""
    random, runs = Random(3), []  # noqa: S311 - as above
    for task in range(tasks):
        hard = random.random() < 0.4
        for number in range(2):
            failed = random.random() < (0.8 if hard else 0.2)
            same = random.random() < (0.6 if failed else 0.03)
            calls = [("{}" if same else f'"{step}"', "x") for step in range(2 + 2 * (failed or same))]
            runs.append(made_run(f"{task}.{number}", f"task {task}", calls, success=not failed))
    return runs


def _nothing(tasks: int) -> list[bl.Run]:
    """Nothing that is seen has to do with failure."""
    random, runs = Random(4), []  # noqa: S311 - as above
    for task in range(tasks):
        difficulty = random.random()
        for number in range(3):
            calls = [(f'"{random.randint(0, 6)}"', "x" * random.randint(0, 9)) for _ in range(random.randint(2, 20))]
            runs.append(made_run(f"{task}.{number}", f"task {task}", calls, success=random.random() > difficulty))
    return runs


def _unequal(tasks: int) -> list[bl.Run]:
    """One to nine runs a task, more of the hard ones; lengths have a heavy tail; one feature of many tells a little."""
    random, runs = Random(5), []  # noqa: S311 - as above
    for task in range(tasks):
        difficulty = random.betavariate(0.7, 0.7)
        for number in range(1 + int(8 * difficulty * random.random())):
            failed = random.random() < difficulty
            length = min(60, 2 + int(3 * random.paretovariate(1.3)))
            wrong = 0.35 if failed else 0.25
            calls = [(f'"{step}"', "error" if random.random() < wrong else "x" * step) for step in range(length)]
            runs.append(made_run(f"{task}.{number}", f"task {task}", calls, success=not failed))
    return runs


WORLDS: Final[Mapping[str, Callable[[int], list[bl.Run]]]] = {
    "tasks share their difficulty": _shared,
    "eight runs a task, alike": _many_runs,
    "few different scores": _ties,
    "nothing tells": _nothing,
    "unequal numbers, heavy tail": _unequal,
}


class Fit(NamedTuple):
    """What a rule keeps in the whole world, and saves.

    Attributes:
        tasks_kept: The share of the tasks with a success, all of whose successes are kept.
        success_kept: The probability that a random success of a random task with one is kept.
        saved: The share of the steps that is saved.
    """

    tasks_kept: float
    success_kept: float
    saved: float


def world(name: str, tasks: int = TASKS) -> FeatureTable:
    """The features of all runs of a world."""
    return feature_table(WORLDS[name](tasks), DEFAULT, (), "auto", "task")


def fits(
    table: FeatureTable, confidence: float | None, fits: int, *, keep: float, tasks: int, seed: int = 0
) -> Iterator[Fit]:
    """What rules keep that are learned from so many tasks, drawn anew for each; draws that are refused are left out."""
    of_task = [np.flatnonzero(table.task == task) for task in range(int(table.task.max()) + 1)]
    having = np.unique(table.task[table.success])
    for number in range(fits):
        rng = np.random.default_rng((seed, number))
        drawn = [of_task[task] for task in rng.integers(len(of_task), size=tasks)]
        runs = np.concatenate(drawn)
        some = table.take(runs, np.repeat(np.arange(tasks), [len(one) for one in drawn]))
        question = question_of(keep, confidence, "logistic", DEFAULT, "task", "auto", 0.7, 0, number)
        try:
            model, bound, _ = learn_from(some, np.ones(some.n_runs, dtype=bool), question)
        except SettingError:
            continue
        scores = table.scores(model)
        kept = table.peaks(scores) <= bound
        lost = table.success & ~kept
        yield Fit(
            float(1 - np.isin(having, table.task[lost]).mean()),
            float(np.mean(_shares(table.task[table.success], kept[table.success]))),
            float(table.saved_steps(scores, bound + 1).sum() / table.steps.sum()),
        )


def _shares(task: Ints, kept: Flags) -> npt.NDArray[np.float64]:
    """The share of kept ones in each task."""
    n = np.bincount(task)
    some = n > 0
    return np.asarray(np.bincount(task, weights=kept)[some] / n[some])
