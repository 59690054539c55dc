"""The demo's part on recordings, and the simulated recording that comes with boolab."""

import runpy
from collections import Counter
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from boolab.cli.demo.recordings import Findings, Recording, findings_of, recordings
from boolab.core.text import WIDTH
from boolab.core.types import Run
from boolab.frames.tables import calls_df, runs_df
from boolab.io.resources import data_path
from boolab.logs.load import load_runs

FOLDER = data_path("datasets") / "runs"
README = (FOLDER / "README.md").read_text()


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return load_runs(FOLDER)


@pytest.fixture(scope="module")
def simulated() -> Recording:
    return recordings()[1]


@pytest.fixture(scope="module")
def told(simulated: Recording) -> Findings:
    return findings_of([simulated])


def longest_streak(run: Run, tool: str) -> int:
    best = streak = 0
    last = None
    for step in run.steps:
        for call in step.response.tool_calls:
            streak = streak + 1 if (call.name, call.arguments) == last else 1
            last = (call.name, call.arguments)
            best = max(best, streak if call.name == tool else 0)
    return best


# The recording.


@pytest.mark.slow
def test_the_script_makes_the_recording_anew_byte_for_byte(tmp_path: Path) -> None:
    runpy.run_path(str(FOLDER / "make_runs.py"))["main"](tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (FOLDER / "coder.jsonl").read_bytes()


def test_the_recording_is_small_labelled_and_says_that_it_is_simulated(runs: list[Run]) -> None:
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


# What the demo says.


def test_it_scores_every_limit_on_every_run(told: Findings, simulated: Recording) -> None:
    one = told.rows[told.rows["max_steps"] == 50]
    assert len(one) == len(simulated.runs)
    assert max(map(len, told.text.splitlines())) <= WIDTH
    assert "step cap 50" in told.text


def test_its_table_counts_what_its_rows_say(told: Findings) -> None:
    (line,) = [line for line in told.text.splitlines() if line.startswith("step cap 30 ")]
    rows = told.rows[told.rows["max_steps"] == 30]
    stopped = int((~rows["outcome"].isin(["unchanged", "censored"])).sum())
    assert line.split()[3] == str(stopped)
    assert line.split()[-2] == f"{int(rows['saved_steps'].sum()):,}"


def test_it_recommends_by_a_recording_that_carries_it(told: Findings, simulated: Recording) -> None:
    setting = simulated.recommend().setting
    assert f"Set a step cap of {setting['max_steps']}" in told.text
    assert "synthetic" in told.text


def test_its_figures_can_be_drawn(told: Findings) -> None:
    assert list(told.figures) == ["caps.png", "heatmap.png", "survival.png"]
    for draw in told.figures.values():
        ax = Figure(figsize=(9, 5), layout="constrained").add_subplot()
        draw(ax)
        assert ax.get_title(loc="left")


def test_on_public_runs_it_prints_the_numbers_of_the_reference() -> None:
    """They were counted on the first of four trials."""
    public = recordings()[0]
    trial = [run for run in public.runs if run.run_id.endswith("/0")]
    text = findings_of([public._replace(runs=trial)]).text
    for limit, kept, steps in (
        ("step cap 5", "3-10 of 21", "392"),
        ("step cap 15", "17-18 of 21", "81"),
        ("tool budget 8", "17-19 of 21", "89"),
        ("tool budget 13", "21-21 of 21", "29"),
    ):
        (line,) = [line for line in text.splitlines() if line.startswith(f"{limit} ")]
        assert kept in line
        assert f" {steps} " in line
