"""Calls count in the order in which they were made, within a step too, live and offline."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Response, Step, Stop, ToolCall, ToolResult
from boolab.limits.stop import StopRule
from tests.support.cases import cases
from tests.support.helpers import QUIET, call, play

NEVER = bl.tool_budget(10**9)
FREE = QUIET.vary(cap={"ceiling": None})
STEPS = ["p", "p", "p", "p1", "p2", "p3"]
"""One letter for each call: the same call in each step, and from the fourth step on another one after it."""


def run_of(steps: list[str], failing: str = "") -> Run:
    """A record of these steps; each letter is a call."""
    made = []
    for index, letters in enumerate(steps, 1):
        calls = tuple(ToolCall(f"{index}.{n}", letter, "{}") for n, letter in enumerate(letters))
        results = tuple(ToolResult(call.id, "out", is_error=call.name in failing) for call in calls)
        made.append(Step(index, 1, 0, 0, 0, Response("", calls), results))
    return Run(
        run_id="r", agent="", model="", policy="", task="", stop=Stop("aborted", len(made)), steps=tuple(made)
    )  # fmt: skip


def stop_step(data: Any, **how: Any) -> int | None:
    """After how many steps a counterfactual stops; None if it does not."""
    (row,) = bl.counterfactual(data, own_limits="lifted", **how).to_dict("records")
    return None if pd.isna(row["stop_step"]) else int(row["stop_step"])


def streak_reached(steps: list[str], n: int) -> int | None:
    """The step in which the n-th equal call in a row was made, by a walk over all calls."""
    calls = [(step, letter) for step, letters in enumerate(steps, 1) for letter in letters]
    for _, group in groupby(calls, key=lambda made: made[1]):
        streak = [*group]
        if len(streak) >= n:
            return streak[n - 1][0]
    return None


@pytest.mark.parametrize(("n", "step"), [(2, 2), (3, 3), (4, 4), (5, None)])
def test_a_later_call_of_the_step_does_not_hide_a_streak(n: int, step: int | None, tmp_path: Path) -> None:
    run = run_of(STEPS)
    bl.save_runs([run], tmp_path / "runs.parquet")
    with bl.Store(tmp_path / "runs.db") as store:
        store.add([run])
    inputs: list[Any] = [run, bl.recording_df(run), str(tmp_path / "runs.parquet"), str(tmp_path / "runs.db")]
    assert streak_reached(STEPS, n) == step
    assert [stop_step(data, grid={"doom_loop": [n]}) for data in inputs] == [step] * 4
    assert stop_step(run, rules=[bl.doom_loop(n)]) == step


def test_the_live_loop_stops_after_the_step_and_makes_its_calls() -> None:
    items = [{"tool_calls": [call("look", what=letter) for letter in letters]} for letters in STEPS]
    run = play([*items, "done"], policy=FREE, stop=bl.doom_loop(4))
    assert (run.stop.reason, run.stop.step, run.stop.value) == ("doom_loop", 4, 4)
    assert [len(step.results) for step in run.steps] == [1, 1, 1, 2]
    assert all(run.steps[-1].results)


def test_a_monitor_stops_after_the_same_step() -> None:
    monitor = bl.Monitor(bl.doom_loop(4))
    stops = [monitor.after([(name, {}) for name in letters], ["out"] * len(letters)).action for letters in STEPS]
    assert stops == ["continue", "continue", "continue", "stop", "continue", "continue"]


def test_steps_df_has_the_streaks_that_a_rule_reads() -> None:
    frame = bl.steps_df(run_of(["p", "pp1", "11", "", "1"]))
    assert frame["repeat_streak"].tolist() == [0, 1, 3, 3, 3]
    frame = bl.steps_df(run_of(["p", "pp1", "", "1"]))
    assert frame["repeat_streak"].tolist() == [0, 1, 3, 1]


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        (bl.error_streak(3), ["x", "x", "xa", "b"]),
        (bl.detectors.same_error(3), ["x", "x", "xa", "b"]),
        (bl.detectors.same_error(2), ["x", "b", "xx1", "x"]),
        (bl.detectors.similar_calls(3), ["a", "a", "ab", "c"]),
        (bl.detectors.cycle(2, 2), ["a", "ba", "bc", "d"]),
        (bl.detectors.cycle(None, 3), ["a", "a", "ab", "c"]),
        (bl.detectors.call_window(3, 3), ["a", "a", "abc", "d"]),
        (bl.detectors.tool_window(3, 3), ["a", "a", "abc", "d"]),
    ],
    ids=str,
)
def test_other_detectors_of_calls_are_read_within_a_step(rule: StopRule, steps: list[str]) -> None:
    assert stop_step(run_of(steps, "x"), rules=[rule]) == 3


def test_boocode_reads_the_last_call_of_a_step_alone() -> None:
    run = run_of(["p", "p", "p1", "p", "pp"])
    assert stop_step(run, policy="boocode", grid={"doom_loop": [3]}) == 5
    assert stop_step(bl.recording_df(run, identity="ordered"), policy="boocode", grid={"doom_loop": [3]}) == 5
    assert stop_step(run, grid={"doom_loop": [3]}) == 3
    any_call = bl.policies["boocode"].vary(name="any", detectors={"reached_at": "any_call"})
    assert stop_step(run, policy=any_call, grid={"doom_loop": [3]}) == 3


def test_an_alarm_within_a_step_can_converge() -> None:
    """What repeats is the call with the streak, and not the last one of the step."""
    run = run_of(["p", "p", "p1", "p"])
    answers = tuple(result._replace(content="other") for result in run.steps[-1].results if result is not None)
    changed = replace(run, steps=(*run.steps[:-1], run.steps[-1]._replace(results=answers)), success=False)
    assert bl.scorecard([changed], [bl.doom_loop(3)])["converged"].tolist() == [1]


@cases(60)
@given(st.lists(st.text("ab", min_size=1, max_size=4), max_size=8), st.integers(2, 6))
def test_doom_loop_stops_in_the_step_of_the_nth_equal_call(steps: list[str], n: int) -> None:
    expected = streak_reached(steps, n)
    assert stop_step(run_of(steps), grid={"doom_loop": [n]}) == expected
    items = [{"tool_calls": [call("look", what=letter) for letter in letters]} for letters in steps]
    live = play([*items, "done"], policy=FREE, stop=bl.doom_loop(n))
    assert (live.stop.step if live.stop.reason == "doom_loop" else None) == expected
