"""Runs that are passed twice are counted once, and a note names them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.frames.runs import distinct_runs
from tests.support.helpers import distinct, play

NOTE = "3 of 6 runs are there more than once: each is counted once."


def labelled(n: int, success: bool = True) -> list[Run]:
    return [replace(play(distinct(2 + k % 3)), task=f"t{k}", success=success) for k in range(n)]


@pytest.mark.parametrize(
    "ask",
    [
        bl.recommend,
        lambda runs: bl.scorecard(runs, bl.max_steps(2)),
        lambda runs: bl.stats.frontier(runs, {"max_steps": [1, 2]}, progress=False),
    ],
)
def test_repeated_runs_count_once_with_a_note(ask: Callable[[list[Run]], Any]) -> None:
    runs = labelled(3)
    once, twice = ask(runs), ask(runs + [replace(run) for run in runs])
    assert twice.frame.equals(once.frame)
    assert twice.sentences == once.sentences
    assert NOTE not in once.notes
    assert NOTE in twice.notes


def test_learn_stop_counts_repeated_runs_once_with_a_note() -> None:
    looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n % 2}}]} for n in range(12)]
    models = [bl.ScriptedModel([*looks[: 2 + n % 4 if n % 2 else 12], "Done."]) for n in range(80)]
    runs = [
        replace(bl.run_sync(None, "Look", model=model), task=f"task {n}", success=n % 2 == 1)
        for n, model in enumerate(models)
    ]
    rules = [bl.learn_stop(given, confidence=None, folds=2) for given in (runs, runs + runs)]
    assert rules[0].threshold == rules[1].threshold
    assert rules[1].report is not None
    assert "80 of 160 runs are there more than once: each is counted once." in rules[1].report.notes


def test_distinct_runs_keep_labels_and_runs_that_differ() -> None:
    run = play(distinct(2))
    label, other = replace(run, success=True), replace(play(distinct(3)), run_id=run.run_id)
    assert distinct_runs([run, label, other]) == ([label, other], ("1 of 3 runs is there twice: it is counted once.",))
    kept, notes = distinct_runs([label, replace(run, success=False), replace(run, run_id="new")])
    assert (len(kept), notes) == (3, ())
