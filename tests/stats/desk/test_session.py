"""The desk with a file: it resumes, withdraws, appends new units, refuses another question, and asks some again."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

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
