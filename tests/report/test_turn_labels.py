"""Sessions whose turns a person judged: all surfaces count turns, by their labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.harnesses.setting import Setting
from boolab.logs.outcomes.label_file import append_lines, make_header, make_label
from boolab.logs.units import units_of_run
from boolab.report.data_quality import Quality
from boolab.report.question import Question
from boolab.report.study import study_of
from boolab.widgets.caplab.data import CapTables
from boolab.widgets.caplab.question import Question as CapQuestion
from tests.support.report_cases import write_sessions


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Sessions of Claude Code, with labels of their turns beside them; the first turn of each is a success."""
    folder = tmp_path / "logs"
    folder.mkdir()
    write_sessions(folder)
    units = [unit for run in bl.load_runs(folder) for unit in units_of_run(run, "turn")]
    lines = [make_label(unit, "success" if unit.turn == 1 else "failure", facts={"who": "ann"}) for unit in units]
    append_lines(folder / "boolab-labels.jsonl", [make_header("it works"), *lines])
    return folder


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


def test_whatif_counts_labelled_turns(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = json.loads(printed(capsys, "whatif", str(logs), "--json", "--max-steps", "1,2,none"))
    runs = bl.load_runs(logs)
    n_turns = sum(len({step.turn for step in run.steps}) for run in runs)
    (group,) = found["recommendation"]["groups"]
    assert (group["unit"], group["success_by"], group["n_units"]) == ("turn", "label", n_turns)
    rows = found["axes"]["max_steps"]
    assert {(row["unit"], row["success_by"], row["successes"]) for row in rows} == {
        ("turn", "label", group["successes"])
    }
    assert group["successes"] == len([run for run in runs if units_of_run(run, "turn")])


def test_the_report_is_made_of_labelled_turns(logs: Path) -> None:
    study = study_of([str(logs)], Question())
    assert [(kind.proxy, kind.noun) for kind in study.counted_units] == [(False, "turn")]
    assert {unit.run.success for unit in study.units if unit.turn == 1} == {True}
    labels = [unit.run.success for unit in study.units if unit.run.success is not None]
    (counts,) = study.agent_counts
    assert (counts.successes, counts.labelled) == (sum(labels), len(labels))
    assert counts.labelled > counts.runs


def test_the_report_states_what_agrees_with_a_person(logs: Path) -> None:
    units = [unit for run in bl.load_runs(logs) for unit in units_of_run(run, "turn")]
    append_lines(logs / "boolab-labels.jsonl", [make_label(units[0], "success", "tests")])
    study = study_of([str(logs)], Question())
    sentences = [*Quality(study).sentences()]
    assert "What is known of the outcomes: tests agrees with 1 of 1 label by hand." in sentences
    assert not any("warning" in sentence for sentence in sentences)


def test_trusted_evidence_is_asked_for_by_an_option(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / "boolab-labels.jsonl").unlink()
    units = [unit for run in bl.load_runs(logs) for unit in units_of_run(run, "turn")]
    lines = [make_label(unit, "success", "tests") for unit in units]
    append_lines(logs.parent / "found.jsonl", [make_header("it works"), *lines])
    words = ("whatif", str(logs), "--json", "--max-steps", "1,2", "--labels", str(logs.parent / "found.jsonl"))
    assert json.loads(printed(capsys, *words))["data"]["success_by"] != "label"
    found = json.loads(printed(capsys, *words, "--trust", "git,tests"))
    assert (found["data"]["success_by"], found["data"]["labels"]) == ("label", {"tests": len(units), "unknown": 0})


def test_ended_leaves_labels_of_turns_out(logs: Path) -> None:
    study = study_of([str(logs)], Question(success="ended"))
    assert [(kind.proxy, kind.noun) for kind in study.counted_units] == [(True, "turn")]


def test_caplab_counts_labelled_turns(logs: Path) -> None:
    runs = bl.load_runs(logs)
    table = CapTables(runs, CapQuestion(objective="steps")).get_table(Setting())
    assert table.answer(Setting())["kept"]["of"] == len(runs)
    assert (table.noun, table.ledger.success_by) == ("turn", "label")


def test_the_proxy_may_stand_in_for_missing_labels(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = logs / "boolab-labels.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))  # one turn has no label
    words = ("whatif", str(logs), "--json", "--max-steps", "1,2")
    assert json.loads(printed(capsys, *words))["data"]["success_by"] == "label"
    found = json.loads(printed(capsys, *words, "--unlabelled", "proxy"))
    assert found["data"]["success_by"] == "turn ended by itself"
    assert found["recommendation"]["groups"][0]["success_by"] == "turn ended by itself"
    assert "proxy" in " ".join(found["data"]["notes"])
    study = study_of([str(logs)], Question(unlabelled="proxy"))
    assert [(kind.proxy, kind.noun) for kind in study.counted_units] == [(True, "turn")]
    assert not any(run.labels for run in study.runs)
