"""The desk with a file: it resumes, withdraws, appends new units, refuses another question, and asks some again."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boolab as bl
from boolab.errors import SettingError
from boolab.logs.outcomes.label_file import OutcomeWord, append_lines, make_header, make_label, make_order, read_labels
from boolab.stats.desk.state import DeskState
from boolab.stats.recommend.desk_session import AskedUnit, Desk

CALL = {"tool_calls": [{"name": "look", "arguments": {}}]}
VALUES = {"max_steps": [8, 3]}


@cache
def all_runs() -> tuple[bl.Run, ...]:
    """Runs of 2 to 9 steps, each with a prompt of its own."""
    agent = bl.Agent("a", max_steps=50, doom_loop=None)
    lengths = np.random.default_rng(0).choice([1, 1, 1, 2, 3, 6, 8], 120).tolist()
    return tuple(
        bl.run_sync(agent, f"Task {n}", model=bl.ScriptedModel([CALL] * length + ["Done."], tools={"look": "seen"}))
        for n, length in enumerate(lengths)
    )


def ask_until_done(desk: Desk, outcome: Callable[[AskedUnit], OutcomeWord], most: int = 500) -> DeskState:
    """Answer what is asked, at most so many times."""
    for _ in range(most):
        asked = desk.next_unit
        if asked is None:
            break
        desk.answer(asked, outcome(asked))
    return desk.state


def by_length(asked: AskedUnit) -> OutcomeWord:
    """Short runs are successes, and long ones are not."""
    return "success" if len(asked.run.steps) < 7 else "failure"


def new_desk(path: Path, runs: tuple[bl.Run, ...] | None = None, who: str = "ann", **options: object) -> Desk:
    """A desk that has started, with a seed that is always the same."""
    own_runs = all_runs() if runs is None else runs
    desk = Desk(own_runs, path / "labels.jsonl", VALUES, who=who, pi=0.5, **options)  # type: ignore[arg-type]
    if not desk.file.header:
        append_lines(desk.file.path, [{**make_header("tests pass", desk.question), "seed": "0"}])
        desk = Desk(own_runs, path / "labels.jsonl", VALUES, who=who, **options)  # type: ignore[arg-type]
    desk.start()
    return desk


def test_desk_resumes_where_it_stopped(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    ask_until_done(desk, by_length, 7)
    again = Desk(all_runs(), tmp_path / "labels.jsonl", who="ann")
    again.start()
    assert (again.state, again.units.prints, again.design) == (desk.state, desk.units.prints, desk.design)
    assert again.file.header["criterion"] == "tests pass"
    assert ask_until_done(again, by_length).setting == {"max_steps": 8}


def test_replaced_question_has_an_order_of_its_own(tmp_path: Path) -> None:
    first = new_desk(tmp_path)
    second = Desk(all_runs(), first.file.path, {"max_steps": [9]}, who="ann")
    second.start()
    assert second.criterion == "tests pass"
    ask_until_done(second, by_length, 3)
    again = Desk(all_runs(), first.file.path)
    assert (again.state, again.units.prints) == (second.state, second.units.prints)
    assert {*again.units.prints} == {*first.units.prints}
    assert again.units.prints != first.units.prints


def test_undo_gives_the_state_before(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    ask_until_done(desk, by_length, 5)
    before, asked = desk.state, desk.next_unit
    assert asked is not None
    desk.answer(asked, "failure")
    assert desk.state != before
    assert (desk.undo(), desk.state) == (asked.print, before)


def test_undo_without_an_answer_does_nothing(tmp_path: Path) -> None:
    assert new_desk(tmp_path).undo() is None


def test_torn_line_loses_no_other_answer(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    ask_until_done(desk, by_length, 4)
    with (tmp_path / "labels.jsonl").open("a") as file:
        file.write('{"id": "torn')
    again = new_desk(tmp_path)
    assert again.state == desk.state
    ask_until_done(again, by_length, 1)
    assert new_desk(tmp_path).state.n_answers == 5


def test_new_runs_are_appended_and_change_no_order(tmp_path: Path) -> None:
    first = new_desk(tmp_path, all_runs()[:80])
    ask_until_done(first, by_length, 6)
    second = new_desk(tmp_path)
    assert second.units.prints[: len(first.units.prints)] == first.units.prints
    assert len(second.units.prints) == 120
    assert second.state.values[0]._replace(max_answers=0, expected_answers=0) == first.state.values[0]._replace(
        max_answers=0, expected_answers=0
    )


def test_runs_appended_after_the_end_are_no_second_chance(tmp_path: Path) -> None:
    few = all_runs()[:20]
    state = ask_until_done(new_desk(tmp_path, few), by_length)
    assert state.values[0].verdict == "undecided"
    lines = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    early = [{**line, "at": "2026-01-01T00:00:00Z"} if "at" in line else line for line in lines]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in early))
    later = new_desk(tmp_path)
    assert len(later.units.prints) == 120
    assert (later.state.values[0].verdict, later.next_unit) == ("undecided", None)


def test_one_run_of_each_task_is_asked_about(tmp_path: Path) -> None:
    runs = tuple(replace(run, task=f"t{n // 4}") for n, run in enumerate(all_runs()))
    desk = new_desk(tmp_path, runs)
    assert len(desk.units.prints) == 30
    more = tuple(replace(run, task="t0") for run in all_runs()[:4])
    assert new_desk(tmp_path, (*runs, *more)).units.prints == desk.units.prints


@pytest.mark.parametrize(
    "options", [{"pi": 0.1}, {"keep": 0.9}, {"values": {"max_steps": [8, 4]}}, {"confidence": 0.9}]
)
def test_another_question_is_refused_once_there_are_answers(tmp_path: Path, options: dict[str, object]) -> None:
    desk = new_desk(tmp_path)
    Desk(all_runs(), desk.file.path, **options)  # type: ignore[arg-type]
    ask_until_done(desk, by_length, 1)
    with pytest.raises(SettingError, match="its question is fixed"):
        Desk(all_runs(), desk.file.path, **options)  # type: ignore[arg-type]


def test_order_that_is_not_its_seeds_is_refused(tmp_path: Path) -> None:
    desk = new_desk(tmp_path, all_runs()[:50])
    desk.start()
    append_lines(desk.file.path, [make_order(reversed([f"{n:020x}" for n in range(9)]))])
    with pytest.raises(SettingError, match="not in the order of its seed"):
        Desk(all_runs(), desk.file.path)


def test_two_people_share_a_file_and_disagree(tmp_path: Path) -> None:
    ann, bob = new_desk(tmp_path), new_desk(tmp_path, who="bob")
    asked = ann.next_unit
    assert asked is not None
    assert bob.next_unit == asked
    ann.answer(asked, "success")
    bob.refresh()
    assert bob.next_unit != asked
    bob.answer(asked, "failure")
    assert bob.answers[asked.print] == "unknown"
    bob.undo()
    assert bob.answers[asked.print] == "success"


def test_people_who_start_together_share_one_question(tmp_path: Path) -> None:
    """Both see a file that is not there yet."""
    ann, bob, eve = (Desk(all_runs(), tmp_path / "new.jsonl", VALUES, who=who) for who in ("ann", "bob", "eve"))
    other = Desk(all_runs(), tmp_path / "new.jsonl", {"max_steps": [7]}, who="dan")
    ann.start("tests pass")
    bob.start("it runs")
    eve.start()
    assert ann.units.prints == bob.units.prints == eve.units.prints
    assert ann.criterion == bob.criterion == "tests pass"
    assert sum("boolab_labels" in line for line in read_labels(ann.file.path).lines) == 1
    with pytest.raises(SettingError, match="another person has begun another question"):
        other.start("tests pass")


def test_people_who_share_a_file_get_different_units(tmp_path: Path) -> None:
    desks = [new_desk(tmp_path, who=who) for who in ("ann", "bob", "eve")]
    taken = [desk.take_unit() for desk in desks]
    order = [unit.print for unit in desks[0].state.units]
    assert [asked.print for asked in taken if asked is not None] == order[:3]
    ann, bob = taken[:2]
    assert ann is not None
    assert bob is not None
    desks[1].answer(bob, "success")
    assert desks[0].take_unit() == ann
    after = desks[1].take_unit()
    assert after is not None
    assert after.print == order[3]
    assert not {asked.print for asked in taken if asked is not None and asked is not bob} & {*desks[1].answers}


def test_unit_of_a_person_who_left_comes_after_nine_others(tmp_path: Path) -> None:
    ann, bob = new_desk(tmp_path), new_desk(tmp_path, who="bob")
    left = ann.take_unit()
    assert left is not None
    asked = []
    for _ in range(10):
        question = bob.take_unit()
        assert question is not None
        asked.append(question.print)
        bob.answer(question, "failure")
    assert asked[-1] == left.print
    assert len({*asked}) == 10


def test_claims_that_are_old_or_unreadable_hold_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = new_desk(tmp_path), new_desk(tmp_path, who="bob")
    first, second = ann.take_unit(), bob.take_unit()
    assert first is not None
    assert second is not None
    assert first.print != second.print
    file = tmp_path / "labels.jsonl.open"
    file.write_text(file.read_text()[:20])
    assert bob.take_unit() == first
    ann.take_unit()
    monkeypatch.setattr("boolab.logs.outcomes.open_units.SECONDS", -1)
    assert bob.take_unit() == first


def send(process: subprocess.Popen[str], lines: str) -> list[str]:
    """Write some lines to a process; returns what it printed for each."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines)
    process.stdin.flush()
    return [process.stdout.readline().strip() for _ in lines.splitlines()]


@pytest.mark.slow
def test_two_processes_on_one_file_answer_no_unit_twice(tmp_path: Path) -> None:
    """One of them is killed while a unit is shown; the other one is asked about it in the end."""
    new_desk(tmp_path)
    code = f"""
import sys
from pathlib import Path
from boolab.stats.recommend.desk_dialog import Dialog
from tests.stats.desk.test_session import new_desk
dialog = Dialog(new_desk(Path({str(tmp_path)!r}), who=sys.argv[1]))
for line in sys.stdin:
    print(dialog.question.print, flush=True)
    if line.strip():
        dialog.press("f")
"""
    command = [sys.executable, "-c", code]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "ann"], **pipes) as ann, subprocess.Popen([*command, "bob"], **pipes) as bob:
        people = {"ann": ann, "bob": bob}
        assert len({send(process, "\n")[0] for process in people.values()}) == 2
        shown = {name: send(process, "answer\nanswer\n\n") for name, process in people.items()}
        ann.kill()
        bob.communicate("answer\n" * 11, timeout=60)
    labels = read_labels(tmp_path / "labels.jsonl").labels
    answered = [line["print"] for line in labels]
    assert len(answered) == len({*answered}) == 15
    assert answered.index(shown["ann"][-1]) > 8


def test_two_of_20_answers_are_asked_again_without_a_word(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    first: list[str] = []
    again: list[str] = []
    for _ in range(25):
        asked = desk.next_unit
        if asked is None:
            break
        (first if asked.open_unit is not None else again).append(asked.print)
        desk.answer(asked, "failure")
    assert len(again) == 2
    assert {*again} < {*first[:20]}
    changed = next(line for line in desk.file.labels if line.get("again"))
    append_lines(desk.file.path, [make_label(desk.recorded.units[desk.prints.index(changed["print"])], "success",
                                             facts={"who": "ann", "again": True}, after=desk.file.lines)])  # fmt: skip
    desk.refresh()
    assert desk.answers[changed["print"]] == "unknown"


def test_labels_that_exist_are_used_where_the_order_reaches_them(tmp_path: Path) -> None:
    runs = tuple(bl.label(all_runs(), lambda run: len(run.steps) < 7))
    desk = new_desk(tmp_path, runs)
    assert (desk.next_unit, desk.state.setting) == (None, {"max_steps": 8})
    assert not read_labels(desk.file.path).labels


def test_values_are_proposed_from_lengths_alone(tmp_path: Path) -> None:
    labelled = bl.label(all_runs(), lambda run: int(run.prompt[-1].parts[0].text.split()[-1]) % 2 == 0)  # type: ignore[union-attr]
    designs = [Desk(runs, tmp_path / "none.jsonl").design for runs in (all_runs(), labelled)]
    assert designs[0] == designs[1]
    assert designs[0].values["max_steps"] == [8, 7, 4]
    assert designs[0].pi == 1
