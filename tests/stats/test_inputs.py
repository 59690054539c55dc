"""Every function that takes runs takes them from wherever they are."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

import boolab as bl

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "recommend": lambda runs: bl.recommend(runs, grid={"max_steps": [5, 20]}).frame,
    "scorecard": lambda runs: bl.scorecard(runs, [bl.max_steps(10)]).frame,
    "counterfactual": lambda runs: bl.counterfactual(runs, grid={"max_steps": [5]}),
    "frontier": lambda runs: bl.stats.frontier(runs, [bl.max_steps(n) for n in (5, 9)]).frame,
    "survival": lambda runs: bl.survival(runs).frame,
    "runs_df": bl.runs_df,
    "steps_df": bl.steps_df,
    "calls_df": bl.calls_df,
    "recording_df": bl.recording_df,
    "CapLab": lambda runs: bl.CapLab(runs).answer["kept"],
    "plot_steps": lambda runs: bl.plot_steps(runs).get_title(loc="left"),
}
BY_STEP = ("recommend", "scorecard", "counterfactual", "frontier")
"""Those that take tables of steps."""
INPUTS = ("runs.parquet", "logs/*.jsonl", "runs.db")


@pytest.fixture(scope="module")
def runs() -> list[bl.Run]:
    return bl.load_dataset("atlas/tau-airline", limit=12)


@pytest.fixture(scope="module")
def folder(runs: list[bl.Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs")
    (path / "logs").mkdir()
    for name, some in (("runs.parquet", runs), ("runs.jsonl", runs), ("logs/a.jsonl", runs[:5]),
                       ("logs/b.jsonl", runs[5:])):  # fmt: skip
        bl.save_runs(some, path / name)
    bl.recording_df(runs).to_parquet(path / "steps.parquet")
    with bl.Store(path / "runs.db") as store:
        for run in runs:
            store.add(run)
    return path


def result(function: str, value: Any) -> str:
    try:
        made = FUNCTIONS[function](value)
        return made.to_csv() if hasattr(made, "to_csv") else str(made)
    finally:
        plt.close("all")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_inputs_give_the_same_result(function: str, runs: list[bl.Run], folder: Path) -> None:
    expected = result(function, runs)
    for name in INPUTS:
        assert result(function, str(folder / name)) == expected, name
    assert result(function, folder / "logs") == expected
    assert result(function, iter(runs)) == expected
    if function in BY_STEP:
        assert result(function, folder / "steps.parquet") == expected
        assert result(function, bl.recording_df(runs)) == expected


@pytest.mark.parametrize("function", FUNCTIONS)
def test_inputs_that_are_none_are_named(function: str, folder: Path) -> None:
    for value, words in (
        (3, "expected a Run or runs, not int"),
        (None, "expected a Run or runs, not NoneType"),
        ([str(folder)], "bl.load_runs reads paths"),
        ({"messages": []}, "bl.load_runs reads paths, and messages in memory"),
        (folder / "none.jsonl", "no such file or folder"),
        ("atlas/tau-airlin", "did you mean 'atlas/tau-airline'?"),
    ):
        with pytest.raises((TypeError, bl.BoolabError)) as error:
            FUNCTIONS[function](value)
        assert words in str(error.value)


def test_atlas_set_and_home_are_inputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(bl.runs_df("atlas/tau-airline")) == 200
    monkeypatch.setitem(os.environ, "HOME", str(folder))
    assert len(bl.runs_df("~/logs")) == 12


def test_replay_names_the_runs_of_several(folder: Path, runs: list[bl.Run]) -> None:
    with pytest.raises(bl.SettingError, match=r"Replay takes one run, not 12: 'gpt-4o-airline/0/0'.*choose one"):
        bl.Replay(folder / "runs.jsonl")
    bl.save_runs(runs[0], folder / "one.json.jsonl")
    assert bl.Replay(folder / "one.json.jsonl").run.run_id == runs[0].run_id
