"""The recorded runs of a small model: they have texts, can be replayed, and follow from their tools."""

from typing import Any

import pytest

import boolab as bl
from boolab.runtime.tasks.families import FIX, MAZE, TaskFamily
from tests.support.project import ROOT

FOLDER = ROOT / "datasets" / "local"


def runs_of(name: str) -> list[bl.Run]:
    return bl.load_dataset(f"atlas/local-{name}")


@pytest.mark.parametrize("name", ["fix", "maze"])
def test_local_runs_are_labelled_and_not_in_the_atlas_as_a_whole(name: str) -> None:
    runs = runs_of(name)
    assert {run.settings["set"] for run in runs} == {f"local-{name}"}
    assert {type(run.success) for run in runs} == {bool}
    assert {run.stop_reason for run in runs} <= {"finished", "step_cap"}
    assert len({run.task for run in runs}) == len(runs) >= 20
    assert all(run.model.startswith("smollm2-135m") for run in runs)
    assert len(bl.load_dataset("atlas", limit=1)) == 1
    assert f"local-{name}" not in {run.settings["set"] for run in bl.load_dataset("atlas", limit=300)}


@pytest.mark.parametrize("family", [FIX, MAZE], ids=["fix", "maze"])
def test_recorded_answers_give_the_same_runs_without_the_model(family: TaskFamily) -> None:
    for run in runs_of(family.name)[:20]:
        options: dict[str, Any] = {"tools": [family.tool], "score": family.succeeded, "seed": run.seed}
        again = bl.run_sync(family.agent(), run.task, model=bl.RecordedModel(run), **options)
        assert [step.response.tool_calls for step in again.steps] == [step.response.tool_calls for step in run.steps]
        assert [step.results for step in again.steps] == [step.results for step in run.steps]
        assert (again.text, again.stop_reason, again.success) == (run.text, run.stop_reason, run.success)


def test_local_sets_are_small_and_name_the_model_and_its_licence() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 200_000
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "HuggingFaceTB/SmolLM2-135M-Instruct" in page
    assert "Apache License 2.0" in page
