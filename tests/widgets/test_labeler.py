"""`Labeler`: the desk without a browser, and what its view and its page are given."""

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import RunLabel
from boolab.errors import SettingError
from boolab.logs.outcomes.label_file import NAME, read_labels
from boolab.widgets._base.standalone_html import module_of
from boolab.widgets.labeler.widget import Labeler
from tests.stats.desk.test_session import VALUES, all_runs
from tests.support.packed import unpacked
from tests.support.scripts import unread_keys

RUNS = all_runs()[:60]
CRITERION = "tests pass"


def labeler(folder: Path, runs: tuple[bl.Run, ...] = RUNS, **options: Any) -> Labeler:
    """A desk whose file is in a folder."""
    given = {"labels": folder / "labels.jsonl", "criterion": CRITERION, "who": "ann", **options}
    return Labeler(runs, VALUES, **given)


def drawn(desk: Labeler) -> dict[str, Any]:
    """What the view draws."""
    data = unpacked(desk._view._data)
    assert isinstance(data, dict)
    return data


def press(desk: Labeler, key: str, text: str = "", unit: str | None = None) -> dict[str, Any]:
    """What the view draws after a key of it."""
    question = drawn(desk)["question"]
    shown = question["id"] if question else ""
    message: Mapping[str, Any] = {"key": key, "unit": shown if unit is None else unit, "text": text}
    desk._view._handle_custom_msg(message, [])
    return drawn(desk)


def answers(folder: Path) -> list[str]:
    """The answers in the file."""
    return [line["label"] for line in read_labels(folder / "labels.jsonl").labels]


def test_ask_answer_and_undo_work_without_a_browser(tmp_path: Path) -> None:
    desk = labeler(tmp_path)
    first = desk.ask()
    assert first is not None
    assert first.prompt.startswith("Task ")
    assert desk.answer("s") != first
    desk.answer("failure", note="wrong file")
    desk.answer("u")
    assert (desk.state.n_answers, answers(tmp_path)) == (3, ["success", "failure", "unknown"])
    desk.undo()
    desk.undo()
    desk.undo()
    assert (desk.ask(), answers(tmp_path)) == (first, [])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_answers_are_in_the_file_before_the_next_unit(tmp_path: Path) -> None:
    """A process that is killed between two answers loses none of them."""
    child = os.fork()  # a new one would import all that is imported here
    if not child:
        try:
            desk = labeler(tmp_path)
            for outcome in "sfs":
                desk.answer(outcome)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert answers(tmp_path) == ["success", "failure", "success"]
    assert labeler(tmp_path).state.n_answers == 3


def test_another_outcome_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="accepted: s, f, u, success, failure, unknown"):
        labeler(tmp_path).answer("yes")


def test_criterion_comes_before_the_first_question(tmp_path: Path) -> None:
    desk = labeler(tmp_path, criterion="")
    assert (drawn(desk)["phase"], desk.question, desk.replay) == ("criterion", None, None)
    assert not (tmp_path / "labels.jsonl").exists()
    with pytest.raises(SettingError, match="there is no criterion yet"):
        desk.ask()
    shown = press(desk, "start", "the change does what was asked")
    assert (shown["phase"], shown["criterion"]) == ("asking", "the change does what was asked")
    assert labeler(tmp_path, criterion="").ask() == desk.ask()


def test_another_criterion_is_refused_once_there_are_answers(tmp_path: Path) -> None:
    labeler(tmp_path, criterion="it runs")
    labeler(tmp_path).answer("s")
    with pytest.raises(SettingError, match="'tests pass'"):
        labeler(tmp_path, criterion="it runs")


def test_keys_of_the_view_answer_take_back_and_pause(tmp_path: Path) -> None:
    desk = labeler(tmp_path)
    press(desk, "note", "wrong file")
    assert press(desk, "f")["answers"] == 1
    assert read_labels(tmp_path / "labels.jsonl").labels[-1]["note"] == "wrong file"
    assert press(desk, "z")["answers"] == 0
    assert (press(desk, "q")["phase"], desk.replay) == ("paused", None)
    assert press(desk, "s")["answers"] == 0
    assert press(desk, "q")["phase"] == "asking"


def test_key_about_a_unit_that_is_gone_answers_nothing(tmp_path: Path) -> None:
    desk = labeler(tmp_path)
    first = drawn(desk)["question"]["id"]
    press(desk, "s")
    shown = press(desk, "f", unit=first)
    assert (shown["answers"], answers(tmp_path)) == (1, ["success"])


def test_reason_and_evidence_are_hidden_until_the_answer(tmp_path: Path) -> None:
    desk = labeler(tmp_path)
    before = str(drawn(desk))
    assert "would stop it" not in before
    assert "asked for" not in before
    assert "not before its answer" in press(desk, "e")["messages"][0]
    assert press(desk, "w")["messages"][0].startswith("Why this one: ")
    press(desk, "s")
    assert drawn(desk)["messages"][0].startswith("The last one, success: ")
    assert press(desk, "e")["messages"][0].startswith("Of the last one: tests: ")


def test_replay_shows_the_end_of_the_unit_without_its_outcome(tmp_path: Path) -> None:
    runs = tuple(replace(run, labels=(RunLabel(success=None, source="judge", why="poor"),)) for run in RUNS)
    desk = labeler(tmp_path, runs)
    question = desk.question
    assert question is not None
    assert desk.replay is not None
    assert desk.replay.run.run_id == question.run.run_id
    assert desk.replay.run.labels == ()
    assert desk.replay.step == question.unit.last_step
    desk.answer("s")
    assert desk.question is not None
    assert desk.replay.run.run_id == desk.question.run.run_id


@pytest.mark.slow
def test_two_units_come_again_with_the_reason_of_the_first_time(tmp_path: Path) -> None:
    desk = labeler(tmp_path)
    for _ in range(20):
        desk.answer("f")
    assert desk.question is not None
    assert desk.question.open_unit is None
    assert "again" not in press(desk, "w")["messages"][0]
    desk.answer("f")
    desk.answer("f")
    assert any("ann answered 2 of 2 alike" in note for note in desk.found.notes)


def test_found_has_a_row_and_a_sentence_for_each_value(tmp_path: Path) -> None:
    desk = labeler(tmp_path)
    desk.answer("s")
    found = desk.found
    assert found["value"].tolist() == VALUES["max_steps"]
    assert (found["n_answers"][0], found.frame["successes"].isna().tolist()) == (1, [False, True])
    assert len(found.sentences) == 2
    assert "1 by hand" in found.notes[0]
    assert labeler(tmp_path / "..", criterion="", labels=tmp_path / "new.jsonl").found.sentences == ()


def test_page_without_a_kernel_has_the_state_alone(tmp_path: Path) -> None:
    desk = labeler(tmp_path)
    desk.answer("s")
    (part,) = desk._parts()
    assert isinstance(part.data, dict)
    assert (part.data["question"], part.data["answers"]) == (None, 1)
    assert "Task " not in str(part.data)
    assert "Labeler(1 answer; " in repr(desk)


def test_fault_of_the_file_is_shown_and_the_unit_stays(tmp_path: Path) -> None:
    desk = labeler(tmp_path)
    before = drawn(desk)["question"]
    (tmp_path / "labels.jsonl").unlink()
    (tmp_path / "labels.jsonl").mkdir()
    shown = press(desk, "s")
    assert "labels.jsonl" in shown["fault"]
    assert shown["question"] == before


def test_labels_stand_beside_the_logs_or_above_them(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "project"
    folder.mkdir(parents=True)
    bl.save_runs(RUNS[:3], folder / "runs.jsonl")
    runs = tuple(bl.load_runs(str(folder)))
    assert labeler(tmp_path, runs, labels=None)._desk.file.path == folder / NAME
    (folder / NAME).rename(folder.parent / NAME)
    assert labeler(tmp_path, runs, labels=None)._desk.file.path == folder.parent / NAME
    assert Labeler(folder, criterion=CRITERION)._desk.file.path == folder / NAME


def test_script_of_the_view_reads_all_that_python_sends(tmp_path: Path) -> None:
    data = drawn(labeler(tmp_path))
    for part in (data, data["question"], *data["values"]):
        assert unread_keys({*part} - {"draws"}, module_of("labeler")) == []
