"""The recordings that come with boolab: simulated runs, and public ones."""

import runpy
from collections import Counter
from pathlib import Path

import pytest

from boolab.core.run import Run
from boolab.frames.tables import calls_df, runs_df
from boolab.io.resources import data_path
from boolab.logs.load import load_runs
from boolab.whatif.evaluate import counterfactual
from tests.support.samples import atlas

FOLDER = data_path("datasets") / "runs"
README = (FOLDER / "README.md").read_text()


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return load_runs(FOLDER)


def longest_streak(run: Run, tool: str) -> int:
    best = streak = 0
    last = None
    for step in run.steps:
        for call in step.response.tool_calls:
            streak = streak + 1 if (call.name, call.arguments) == last else 1
            last = (call.name, call.arguments)
            best = max(best, streak if call.name == tool else 0)
    return best


# The simulated runs.


@pytest.mark.slow
def test_the_script_makes_the_recording_anew_byte_for_byte(tmp_path: Path) -> None:
    runpy.run_path(str(FOLDER / "make_runs.py"))["main"](tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (FOLDER / "coder.jsonl").read_bytes()


def test_shipped_recording_is_small_labelled_and_simulated(runs: list[Run]) -> None:
    assert (FOLDER / "coder.jsonl").stat().st_size < 2_500_000
    assert {run.model for run in runs} == {"simulated"}
    assert "**simulated**" in README
    assert all(run.success is not None for run in runs)


def test_the_readme_of_the_recording_counts_what_is_in_it(runs: list[Run]) -> None:
    frame = runs_df(runs)
    good = frame[frame["success"]]
    assert (len(frame), frame["task"].nunique(), len(good)) == (132, 96, 95)
    assert "132 runs" in README
    assert "96 tasks" in README
    assert "95 successes: 92 take 3 to 35 steps, three take 55 to 59" in README
    lengths = sorted(good["n_steps"])
    assert (lengths[0], lengths[-4], lengths[-3], lengths[-1]) == (3, 35, 55, 59)
    cut = frame[frame["stop_reason"] == "step_cap"]
    assert len(cut) == 5
    assert {"coder-099", "coder-108", "coder-121"} <= set(cut["run_id"])


def test_one_run_makes_364_identical_greps_and_others_a_few(runs: list[Run]) -> None:
    greps = {run.run_id: longest_streak(run, "grep") for run in runs}
    assert greps["coder-041"] == 364
    assert max(n for n in greps.values() if n < 364) <= 40


def test_polls_are_the_same_call_with_another_result_each_time(runs: list[Run]) -> None:
    calls = calls_df([run for run in runs if longest_streak(run, "wait_for_build")])
    polls = calls[calls["tool"] == "wait_for_build"]
    assert polls["arguments"].nunique() == 1
    for _, some in polls.groupby("run_id"):
        assert 4 <= len(some) <= 14
        assert some["result"].is_unique
    assert any(run.success and longest_streak(run, "wait_for_build") for run in runs)


def test_sessions_of_two_turns_are_among_the_runs(runs: list[Run]) -> None:
    turns = Counter(max(step.turn for step in run.steps) for run in runs)
    assert set(turns) == {1, 2}
    assert all(len(run.inputs) == max(step.turn for step in run.steps) - 1 for run in runs)


# The public runs.


def test_first_trial_of_public_runs_reproduces_reference_numbers() -> None:
    """They were counted on the first of four trials."""
    trial = [run for run in atlas("tau-airline") if run.run_id.endswith("/0")]
    for axis, value, lower, upper, steps in (
        ("max_steps", 5, 3, 10, 392),
        ("max_steps", 15, 17, 18, 81),
        ("tool_budget", 8, 17, 19, 89),
        ("tool_budget", 13, 21, 21, 29),
    ):
        (row,) = counterfactual(trial, grid={axis: [value]}, scope="run", aggregate=True).to_dict("records")
        assert (row["kept_lower"], row["kept_upper"], row["successes"]) == (lower, upper, 21)
        assert row["saved_steps"] == steps
