"""Which harness, version, effort, commit and folder a run had: on record, in frames, in files and in facts."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import boolab as bl
from boolab.core.run import Run
from tests.support.helpers import play, steps

PLACES = {
    "git_commit": "0123abcd",
    "git_branch": "secret-branch",
    "cwd": "/home/secret",
    "entrypoint": "secret-entry",
}


def run_with(*efforts: str | None, version: str | None = "2.1.11") -> Run:
    """A run of some steps, each with its effort."""
    run = play(steps(" ".join("ABCDEFG"[: len(efforts)])))
    listed = [
        step._replace(response=step.response._replace(effort=effort, speed="fast", service_tier="priority"))
        for step, effort in zip(run.steps, efforts, strict=False)
    ]
    return replace(run, steps=tuple(listed), harness_version=version, **PLACES)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("efforts", "of_run"),
    [
        (["high", "high"], "high"),
        (["high", "low"], "mixed"),
        (["high", None], None),
        (["high", "low", None], "mixed"),
        ([None, None], None),
    ],
)
def test_a_run_has_the_effort_that_all_its_steps_have(efforts: list[str | None], of_run: str | None) -> None:
    shown = bl.runs_df(run_with(*efforts))["effort"][0]
    assert (None if pd.isna(shown) else shown) == of_run


def test_a_swept_effort_is_that_of_its_runs() -> None:
    run = replace(run_with(None), settings={"effort": 3})
    assert bl.runs_df(run)["effort"][0] == "3"


def test_own_runs_have_the_version_of_boolab() -> None:
    assert bl.runs_df(play(steps("A B")))["harness_version"].tolist() == [bl.__version__]


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.parquet", "runs.db"])
@pytest.mark.parametrize("version", ["2.1.11", None, "unknown", ""])
def test_files_and_stores_keep_where_runs_came_from(name: str, version: str | None, tmp_path: Path) -> None:
    run = run_with("high", "low", version=version)
    path = tmp_path / name
    if name.endswith(".db"):
        with bl.Store(path) as store:
            store.add([run])
    else:
        bl.save_runs(run, path)
    assert bl.load_runs(path, prices=False) == [run]


def test_facts_keep_version_and_effort_and_leave_places_out(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    bl.save_runs(run_with("high", "my own words", version="2.1.11"), path, contents="facts")
    (run,) = bl.load_runs(path)
    assert run.harness_version == "2.1.11"
    assert [(step.response.effort, step.response.speed, step.response.service_tier) for step in run.steps][:1] == [
        ("high", "fast", "priority")
    ]
    assert [getattr(run, name) for name in PLACES] == [None] * len(PLACES)
    text = path.read_text()
    assert not [word for word in ("secret", "0123abcd", "my own words") if word in text]


@pytest.mark.parametrize("by", ["effort", "harness_version"])
def test_runs_are_grouped_by_effort_and_version(by: str) -> None:
    runs = [
        replace(run_with(effort, effort, version=version), run_id=str(number), success=True)
        for number, (effort, version) in enumerate([("high", "2.1.11"), ("low", "2.0.46")])
    ]
    values = {getattr(run, by) for run in runs}
    table = bl.counterfactual(runs, grid={"max_steps": [1]}, by=by, aggregate=True)
    assert set(table[by]) == values
    assert set(bl.survival(runs, by=by)[by]) == values
    assert set(bl.scorecard(runs, [bl.doom_loop(3)], by=by)[by]) == values
    saved = bl.recording_df(runs)
    assert set(bl.counterfactual(saved, grid={"max_steps": [1]}, by=by, aggregate=True)[by]) == values
