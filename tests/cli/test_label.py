"""The command `boolab label`: its page, its keys, its files, and a real terminal."""

import csv
import io
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.label import DeskPage, page_lines
from boolab.cli.main import main
from boolab.logs.outcomes.label_file import append_lines, make_label, make_undo, read_labels
from boolab.stats.desk.card import card_of
from boolab.stats.recommend.desk_dialog import Dialog
from boolab.stats.recommend.desk_session import Desk
from boolab.stats.recommend.desk_status import status_lines
from tests.stats.desk.test_session import all_runs, new_desk
from tests.support.screen import Screen

FEW = all_runs()[:60]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with 60 runs."""
    folder = tmp_path / "logs"
    folder.mkdir()
    bl.save_runs(FEW, folder / "runs.jsonl")
    return folder


def press(desk: Desk, keys: str, note: str = "") -> str:
    """What stands on the terminal after some keys."""
    stream, waiting = io.StringIO(), iter(keys)
    DeskPage(desk, stream, lambda: next(waiting), lambda _: note, show=lambda text: stream.write(text[:40])).ask()
    screen = Screen()
    screen.feed(stream.getvalue())
    return screen.text


def test_keys_answer_take_back_and_end(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    press(desk, "sfuzq")
    assert [line["label"] for line in desk.file.labels] == ["success", "failure"]


def test_reason_is_shown_only_after_the_answer(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    assert "drawn by chance" not in press(desk, "q")
    assert "would stop it" not in press(desk, "q")
    assert "The last one, success: " in press(desk, "sq")
    assert "Why this one: " in press(desk, "wq")


def test_evidence_is_hidden_before_the_answer(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    assert "not before its answer" in press(desk, "eq")
    assert "Of the last one: " in press(desk, "seq")


def test_note_is_kept_with_the_answer(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    press(desk, "nfq", note="wrong file")
    assert [(line["label"], line["note"], line["asked"]) for line in desk.file.labels] == [("failure", "wrong file", 1)]


def test_page_has_24_lines_of_less_than_80_columns(tmp_path: Path) -> None:
    prompt = "long wörds 界 \x1b[31m" * 400
    agent = bl.Agent("a")
    runs = tuple(bl.run_sync(agent, f"{n} {prompt}", model=bl.ScriptedModel(["x\n" * 99])) for n in range(3))
    for folder, own_runs in (("short", FEW), ("long", (*runs, *FEW))):
        (tmp_path / folder).mkdir()
        desk = new_desk(tmp_path / folder, own_runs)
        dialog = Dialog(desk)
        dialog.note = "note " * 40
        for row, run in enumerate(own_runs[:3]):
            dialog.press("w")
            dialog.card = card_of(run, desk.recorded.units[row])
            lines = page_lines(dialog)
            assert len(lines) == 24
            screen = Screen()
            screen.feed("\n".join(lines))


def test_status_counts_answers_and_says_what_is_open(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    assert "No question is open" not in "\n".join(status_lines(desk))
    for _ in range(22):
        asked = desk.next_unit
        assert asked is not None
        desk.answer(asked, "failure")
    text = "\n".join(status_lines(desk))
    assert "22 by hand" in text
    assert "ann answered 2 of 2 alike when asked again." in text


def test_status_says_how_long_the_answers_of_each_person_took(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    times = {"ann": ["10:00:00", "10:00:20", "10:01:30", "10:30:00", "10:30:10"], "bob": ["11:00:00"]}
    units = iter(desk.recorded.units)
    for who, moments in times.items():
        for moment in moments:
            line = make_label(next(units), "success", facts={"who": who})
            append_lines(desk.file.path, [{**line, "at": f"2026-01-01T{moment}Z"}])
    append_lines(desk.file.path, [make_undo(line["id"], "bob")])
    desk.refresh()
    lines = [*status_lines(desk)]
    assert (
        "ann: 3 answers in 1.7 minutes, a median of 20 s each, from the times in the file; 1 pause of over 10 minutes "
        "left out." in lines
    )
    assert not any(line.startswith("bob") for line in lines)


def test_status_counts_answers_that_differ(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    unit = desk.recorded.units[0]
    lines = [make_label(unit, "success", facts={"who": "ann"}), make_label(unit, "failure", facts={"who": "bob"})]
    append_lines(desk.file.path, lines)
    desk.refresh()
    assert "1 turn with answers that differ, so the outcome is unknown." in [*status_lines(desk)]


def test_label_without_a_terminal_counts_the_open_questions(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["label", str(logs), "--max-steps", "8,3"]) == 1
    error = capsys.readouterr().err
    assert "there is no terminal" in error
    assert "60 tasks or sessions to ask about" in error
    assert not (logs / "boolab-labels.jsonl").exists()


def test_status_and_export_read_the_file_beside_the_logs(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desk = new_desk(logs, FEW)
    (logs / "labels.jsonl").rename(logs / "boolab-labels.jsonl")
    desk = Desk(bl.load_runs(str(logs / "runs.jsonl")), logs / "boolab-labels.jsonl", who="ann")
    press(desk, "sfq")
    assert main(["label", str(logs), "--status"]) == 0
    assert "2 by hand" in capsys.readouterr().out
    assert main(["label", str(logs), "--export", str(logs.parent / "labels.csv")]) == 0
    rows = list(csv.DictReader((logs.parent / "labels.csv").read_text().splitlines()))
    assert sorted(row["success"] for row in rows) == ["False", "True"]
    assert {row["source"] for row in rows} == {"hand"}


def test_status_gives_the_decision_once_a_value_is_shown(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = logs / "elsewhere.jsonl"
    runs = bl.load_runs(str(logs / "runs.jsonl"))
    desk = Desk(runs, labels, {"max_steps": [8]}, who="ann", pi=1)
    desk.start("tests pass")
    while (question := desk.next_unit) is not None:
        desk.answer(question, "failure" if len(question.run.steps) > 8 else "success")
    failed = sum(len(run.steps) > 8 for run in runs)
    state = desk.state.values[0]
    assert (state.verdict, state.successes) == ("yes" if 60 - failed >= 59 else "undecided", 60 - failed)
    assert main(["label", str(logs), "--labels", str(labels), "--status"]) == 0
    told = capsys.readouterr().out
    assert ("on record it keeps" in told) == (state.verdict == "yes")


def test_disagreements_and_merge_of_two_files(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ann = new_desk(logs, FEW)
    (logs.parent / "bob.jsonl").write_bytes((logs / "labels.jsonl").read_bytes())
    asked = ann.next_unit
    assert asked is not None
    ann.answer(asked, "success")
    append_lines(logs.parent / "bob.jsonl", [make_label(asked.unit, "failure", facts={"who": "bob"})])
    command = ["label", str(logs), "--labels", str(logs / "labels.jsonl")]
    assert main([*command, "--disagreements"]) == 0
    assert "No two people disagree." in capsys.readouterr().out
    for _ in range(2):
        assert main([*command, "--merge", str(logs.parent / "bob.jsonl")]) == 0
    assert "0 lines" in capsys.readouterr().err
    assert main([*command, "--disagreements"]) == 0
    assert "ann success, bob failure" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals")
def test_killed_terminal_loses_no_answer(logs: Path) -> None:
    """In a real pseudo-terminal: three answers, then a kill; the next start goes on."""
    labels = logs / "boolab-labels.jsonl"
    command = [sys.executable, "-m", "boolab", "label", str(logs), "--max-steps", "8,3", "--criterion", "tests pass"]
    n_answers = 0
    for keys in ("fff", "f"):  # no success: the seed is drawn, and two long ones might decide
        n_answers += len(keys)
        own_end, terminal = pty.openpty()
        with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
            try:
                os.close(terminal)
                for key in keys:
                    read_page(own_end)
                    os.write(own_end, key.encode())
                read_page(own_end)
                os.write(own_end, b"\x1b[F")  # the key End, whose last letter is no answer
                read_page(own_end)
                assert len(read_labels(labels).labels) == n_answers
            finally:
                process.kill()
        os.close(own_end)
    assert read_labels(labels).header["criterion"] == "tests pass"


def read_page(terminal: int) -> None:
    """Read a pseudo-terminal until a page is complete."""
    shown, end = "", time.monotonic() + 60
    while not shown.endswith("w why  q") and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            try:
                shown += os.read(terminal, 65536).decode("utf-8", "replace")
            except OSError:  # the command has ended
                break
    assert shown.endswith("w why  q"), shown
