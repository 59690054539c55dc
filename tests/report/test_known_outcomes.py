"""The section of a report about what is known of the outcomes: sources, their agreement, and where they differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.errors import SettingError
from boolab.logs.outcomes.frame import evidence_lines
from boolab.logs.outcomes.label_file import Line, append_lines, make_header, make_label
from boolab.logs.units import LabelUnit, units_of_run
from boolab.report.html_page import page_of
from boolab.report.outcomes import MAX_DISAGREEMENTS, OutcomeSources
from boolab.report.question import Question
from boolab.report.snippets import LogInputs, python, shell
from boolab.report.study import Study, study_of
from tests.support.report_cases import draw_no_figures, write_log, write_sessions


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Three sessions of Claude Code with two turns each."""
    folder = tmp_path / "logs"
    folder.mkdir()
    return write_sessions(folder)


def units_in(logs: Path) -> list[LabelUnit]:
    return [unit for run in bl.load_runs(logs) for unit in units_of_run(run, "turn")]


def write_labels(logs: Path, *lines: Line) -> None:
    append_lines(logs / "boolab-labels.jsonl", [make_header("it works"), *lines])


def known(logs: Path, **how: object) -> OutcomeSources:
    found = study(logs, **how)
    return OutcomeSources(found.runs, found.loaded_logs.unit_lines, found.question.trust, found.found.known)


def study(logs: Path, **how: object) -> Study:
    return study_of([str(logs)], Question(**how))  # type: ignore[arg-type] # a test's own keywords


def asked(command: str, result: str) -> list[dict[str, Any]]:
    """The messages of one shell command."""
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    call = {"id": "c1", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "bash", "content": result},
    ]


def section(page: str) -> str:
    start = page.index('id="outcomes"')
    return page[start : page.index('id="data"', start)]


def test_sources_are_counted_and_compared_with_a_person(logs: Path) -> None:
    units = units_in(logs)
    by_hand = [make_label(unit, "success" if unit.turn == 1 else "failure", facts={"who": "ann"}) for unit in units]
    by_tests = [make_label(unit, "success", "tests", {"why": "12 passed"}) for unit in units[:4]]
    write_labels(logs, *by_hand, *by_tests, make_label(units[4], "unknown", "tests"))
    found = known(logs)
    assert found.sentence == "6 labelled: 6 by hand."
    assert [tuple(row) for row in found.rows] == [
        ("by hand", True, 3, 3, 0, ""),
        ("evidence of tests", False, 4, 0, 1, "2 of 4 (50%)"),
    ]
    assert [(one.unit.run_id, one.unit.turn) for one in found.disagreements] == [("s0", 2), ("s1", 2)]
    assert found.disagreements[0].words == "by hand failure (ann); tests success (12 passed)"
    assert found.title == "Sources differ about 2 turns:"


def test_the_page_names_what_opens_each_disagreement(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_figures(monkeypatch)
    units = units_in(logs)
    write_labels(logs, make_label(units[1], "failure"), make_label(units[1], "success", "tests"))
    page = section(page_of(study(logs), inputs=LogInputs([str(logs)])))
    assert "1 labelled: 1 by hand; 5 unknown." in page
    assert "bl.Replay(run_by_id[&#39;s0&#39;], step=4, runs=runs)" in page
    assert f"bl.load_runs(&#39;{logs}&#39;)" in page
    assert "s0 turn 2: by hand failure; tests success" in " ".join(re.sub("<[^>]*>", "", page).split())
    assert '<a href="#run-0">' in page
    run_by_id = {run.run_id: run for run in bl.load_runs(logs)}
    assert bl.Replay(run_by_id["s0"], step=4, runs=[*run_by_id.values()]).step == 4  # as the page has it


def test_at_most_ten_disagreements_are_listed(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_figures(monkeypatch)
    for number in range(3, 15):
        text = (logs / "session0.jsonl").read_text()
        (logs / f"session{number}.jsonl").write_text(text.replace("s0", f"s{number}").replace("Question", f"{number}"))
    units = units_in(logs)
    write_labels(logs, *[make_label(unit, "failure") for unit in units])
    append_lines(logs / "boolab-labels.jsonl", [make_label(unit, "success", "tests") for unit in units])
    page = section(page_of(study(logs)))
    assert page.count("bl.Replay(") == MAX_DISAGREEMENTS
    assert f"Sources differ about {len(units)} turns; 10 of them:" in page


def test_labels_of_a_benchmark_alone_take_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_figures(monkeypatch)
    write_log(tmp_path / "log.json", [1, 2, 3], rewards=[1, 0, 1])
    page = section(page_of(study(tmp_path, scope="run")))
    assert "3 labelled: 3 by the benchmark." in page
    assert "<table" not in page


def test_runs_without_labels_say_so(logs: Path) -> None:
    found = known(logs)
    assert (found.sentence, found.is_several) == ("No label is on record.", False)


def test_the_verdict_that_a_person_contradicts_is_counted(tmp_path: Path) -> None:
    write_log(tmp_path / "log.json", [1, 2, 3], rewards=[1, 0, 1])
    runs = bl.load_runs(tmp_path)
    units = [unit for run in runs for unit in units_of_run(run, "run")]
    write_labels(tmp_path, make_label(units[0], "failure"))
    found = known(tmp_path, scope="run")
    assert found.sentence == "3 labelled: 2 by the benchmark, 1 by hand."
    assert [tuple(row) for row in found.rows] == [
        ("by hand", True, 0, 1, 0, ""),
        ("by the benchmark", True, 2, 1, 0, "0 of 1 (0%)"),
    ]
    assert [one.words for one in found.disagreements] == ["by hand failure; by the benchmark success"]


def test_people_who_disagree_are_listed(logs: Path) -> None:
    unit = units_in(logs)[0]
    write_labels(logs, make_label(unit, "failure", facts={"who": "ann"}), make_label(unit, "success"))
    (one,) = known(logs).disagreements
    assert one.words == "by hand unknown (disagree: someone success, ann failure)"


def test_evidence_is_looked_for_if_asked(logs: Path) -> None:
    found = known(logs, evidence=("tests", "reaction"))
    assert [(row.words, row.unknown) for row in found.rows] == [("evidence of reaction", 6), ("evidence of tests", 6)]
    assert any("No turn has a label by hand" in note for note in found.notes())
    assert not found.disagreements


def test_trusted_evidence_that_is_looked_for_counts(tmp_path: Path) -> None:
    lines = [
        {"role": "user", "content": "Fix it"},
        *asked("pytest -q", "3 passed in 0.1s"),
        {"role": "assistant", "content": "Done."},
    ]
    (tmp_path / "chat.json").write_text(json.dumps({"messages": lines}))
    found = known(tmp_path, evidence=("tests",), trust=("tests",))
    assert found.sentence == "1 labelled: 1 by tests."
    assert [(row.words, row.is_label, row.success) for row in found.rows] == [("by tests", True, 1)]
    assert known(tmp_path, evidence=("tests",)).sentence == "No label is on record."


def test_the_command_takes_evidence(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw_no_figures(monkeypatch)
    (tmp_path / "project").mkdir()
    out = tmp_path / "report.html"
    words = ["report", str(logs), "-o", str(out), "--evidence", "git,tests", "--git", str(tmp_path / "project")]
    assert main(words) == 0
    page = out.read_text()
    assert "evidence of git" in section(page)
    assert main(["report", str(logs), "-o", str(out), "--git", str(tmp_path)]) == 1
    assert "add --evidence git" in capsys.readouterr().err


def test_the_commands_of_a_report_name_its_evidence(logs: Path) -> None:
    found = study(logs, evidence=("tests",))
    inputs = LogInputs([str(logs)])
    assert "--evidence tests" in shell(found, inputs, "report")
    assert "--evidence" not in shell(found, inputs)  # whatif takes none
    assert "evidence = bl.outcomes(runs, git=False, tests=True, reaction=False)" in python(found, inputs)


def test_evidence_that_is_not_known_is_refused(logs: Path) -> None:
    with pytest.raises(SettingError, match="evidence of 'gti'; did you mean 'git'"):
        known(logs, evidence=("gti",))
    with pytest.raises(SettingError, match="add git to the sources"):
        evidence_lines(bl.load_runs(logs), ["tests"], git=logs)
