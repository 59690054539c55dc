"""Which unit a label is about, and which label counts: the table of the specification, and what it leaves open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from boolab.core.messages import Input, Message, Text
from boolab.core.run import Run
from boolab.core.types import Response, Step, Stop, ToolCall
from boolab.logs.outcomes.label_file import Line, make_label
from boolab.logs.outcomes.resolve import Label, match_lines, match_units, resolve
from boolab.logs.units import LabelUnit, units_of_run

Call = tuple[str, str]
LOOK: Call = ("look", '{"p":1,"q":2}')


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def session(run_id: str, *answers: Any, turns: tuple[int, ...] = (), reason: Any = "finished") -> Run:
    """A run with a response for each answer, a text or a text with calls; `turns` are the first steps of later ones."""
    steps, turn = [], 1
    for index, item in enumerate(answers, 1):
        turn += index in turns
        text, calls = (item, []) if isinstance(item, str) else (item[0], item[1:])
        made = tuple(ToolCall(f"{run_id}{index}", *call) for call in calls)
        steps.append(Step(index, turn, 10, 5, 5, Response(text, made), (None,) * len(made)))
    return Run(
        run_id=run_id,
        agent="",
        model="",
        policy="",
        task="",
        stop=Stop(reason, 0),
        steps=tuple(steps),
        inputs=tuple(Input(index, user(f"more {index}")) for index in turns),
        prompt=(user("Fix it"),),
    )


FIRST = session("a", ("look", LOOK), "done")
(FIRST_UNIT,) = units_of_run(FIRST, "run")
LABEL = make_label(FIRST_UNIT, "success")


def matches(line: Line, *runs: Run) -> tuple[str, list[str]]:
    units = [unit for run in runs for unit in units_of_run(run, "run")]
    matched = match_lines([line], units)
    kind = "same" if matched.lines else "grown" if matched.grown else "gone"
    places = matched.lines or matched.grown
    assert bool(matched.missing) is (kind == "gone")
    return kind, [units[place].run_id for place in places]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([FIRST], ("same", ["a"]), id="same"),
        pytest.param([replace(FIRST, run_id="z", path="b")], ("same", ["z"]), id="moved and renamed, other id"),
        pytest.param([session("a", ("look", ("look", '{"q": 2, "p": 1}')), "done")], ("same", ["a"]),
                     id="keys in another order"),
        pytest.param([session("a", ("look", LOOK), "done", "more")], ("grown", ["a"]), id="resumed later"),
        pytest.param([session("b", ("look", LOOK), "done", "x"), session("c", ("look", LOOK), "done", "y")],
                     ("grown", ["b", "c"]), id="forked: two longer runs"),
        pytest.param([FIRST, replace(FIRST, run_id="copy")], ("same", ["a", "copy"]), id="copy beside it"),
        pytest.param([FIRST, session("b", ("look", LOOK), "done", "x")], ("same", ["a"]),
                     id="original and its fork"),
        pytest.param([session("b", ("look", ("look", '{"p": 9}')), "done")], ("gone", []), id="another attempt"),
        pytest.param([], ("gone", []), id="deleted"),
    ],
)  # fmt: skip
def test_a_label_finds_its_unit(runs: list[Run], expected: tuple[str, list[str]]) -> None:
    assert matches(LABEL, *runs) == expected


def line(label: str, who: str = "ann", source: str = "hand", **facts: Any) -> Line:
    return {"print": "p", "steps": 2, "label": label, "source": source, "who": who, **facts}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([line("failure", "", "tests"), line("success")], ("success", "hand"), id="hand before tests"),
        pytest.param([line("failure"), line("success")], ("success", "hand"), id="last word of one person"),
        pytest.param([line("failure"), line("success", "bob")], ("unknown", "hand"), id="two people disagree"),
        pytest.param([line("failure"), line("success", "bob"), line("success", "eve", settles=True)],
                     ("success", "hand"), id="settled"),
        pytest.param([line("unknown"), line("success", "bob")], ("success", "hand"), id="unknown and success"),
        pytest.param([line("success"), line("failure", "", "benchmark")], ("success", "hand"),
                     id="hand before benchmark"),
        pytest.param([line("success", "", "tests"), line("failure", "", "benchmark")], ("failure", "benchmark"),
                     id="benchmark before trusted evidence"),
        pytest.param([line("success", "", "tests")], ("success", "tests"), id="trusted evidence"),
        pytest.param([line("success", "", "git"), line("failure", "", "tests")], ("failure", "tests"),
                     id="the first trusted source"),
        pytest.param([line("success", "", "judge")], None, id="evidence that is not trusted"),
        pytest.param([line("unknown"), line("failure", "", "benchmark")], ("unknown", "hand"),
                     id="a person cannot tell"),
        pytest.param([line("success"), line("failure", again=True)], ("unknown", "hand"), id="asked again"),
        pytest.param([line("success"), line("success", again=True)], ("success", "hand"), id="asked again, the same"),
        pytest.param([line("success"), line("failure", again=True), line("failure")], ("failure", "hand"),
                     id="asked again, then decided"),
        pytest.param([line("success", settles=True), line("failure", "bob", settles=True)], ("unknown", "hand"),
                     id="settled twice, differently"),
        pytest.param([], None, id="nothing"),
    ],
)  # fmt: skip
def test_one_label_counts(lines: list[Line], expected: tuple[str, str] | None) -> None:
    label = resolve(lines, trust=["tests", "git"])
    assert (label and label[:2]) == expected


def test_people_who_disagree_are_named() -> None:
    label = resolve([line("failure"), line("success", "bob")])
    assert label == Label("unknown", "hand", "disagree: ann failure, bob success", disputed=True)
    assert label.success is None
    assert resolve([line("failure", note="half done")]) == Label("failure", "hand", "ann: half done")


def test_a_verdict_is_about_the_run_that_it_names() -> None:
    other = replace(FIRST, run_id="b")
    units = [unit for run in (FIRST, other) for unit in units_of_run(run, "run")]
    verdicts = [make_label(units[0], "success", "benchmark"), make_label(units[1], "failure", "benchmark")]
    matched = match_lines(verdicts, units)
    assert {place: [item["label"] for item in lines] for place, lines in matched.lines.items()} == {
        0: ["success"],
        1: ["failure"],
    }
    assert matched.copies == []
    alone = match_lines(verdicts, units[:1])
    assert [item["label"] for item in alone.lines[0]] == ["success"]
    renamed = match_lines(verdicts[:1], [units[0]._replace(run_id="z")])
    assert [item["label"] for item in renamed.lines[0]] == ["success"]


def test_a_label_by_hand_is_that_of_all_copies() -> None:
    units = [*units_of_run(FIRST, "run"), *units_of_run(replace(FIRST, run_id="b"), "run")]
    assert match_lines([LABEL], units).copies == [(0, 1)]


def test_a_line_without_a_fingerprint_goes_by_its_id() -> None:
    by_hand: Line = {"run_id": "a", "label": "success"}
    assert matches(by_hand, FIRST) == ("same", ["a"])
    assert matches({**by_hand, "run_id": "b"}, FIRST) == ("gone", [])
    turns = units_of_run(session("a", "one", "two", turns=(2,)), "turn")
    assert match_lines([{**by_hand, "turn": 2}], turns).lines.keys() == {1}
    assert match_lines([by_hand], turns).missing == [by_hand]
    assert match_lines([by_hand], turns[:1]).lines.keys() == {0}


TWO = session("a", "one", "two", "three", turns=(3,))


def test_later_turns_do_not_change_a_turn() -> None:
    before = units_of_run(session("a", "one", "two"), "turn")
    after = units_of_run(TWO, "turn")
    assert [(unit.turn, unit.steps) for unit in after] == [(1, 2), (2, 3)]
    assert before == after[:1]
    assert match_lines([make_label(before[0], "success")], after).lines.keys() == {0}


def test_a_turn_that_may_still_grow_is_no_unit() -> None:
    open_turn = replace(TWO, stop=Stop("aborted", 0))
    assert [unit.turn for unit in units_of_run(open_turn, "turn")] == [1]
    assert [unit.turn for unit in units_of_run(open_turn, "run")] == [None]
    assert [unit.turn for unit in units_of_run(replace(TWO, stop=Stop("step_cap", 1)), "turn")] == [1, 2]
    assert units_of_run(replace(TWO, parent_run_id="b"), "turn") == []


def test_a_unit_that_has_grown_keeps_its_place() -> None:
    (before,) = units_of_run(session("a", "one"), "run")
    grown = units_of_run(TWO, "run")
    assert match_units(grown, [before.print]) == [before.print]
    assert match_units(grown, [before.print, grown[0].print]) == [grown[0].print]
    assert match_units(grown, []) == [grown[0].print]


def test_a_turn_does_not_continue_the_one_before() -> None:
    first, second = units_of_run(TWO, "turn")
    assert first.print not in second.beginnings
    assert match_lines([make_label(first, "success")], [second]).missing


def test_facts_have_the_same_units() -> None:
    from boolab.logs.facts import facts_of

    (facts,) = facts_of(TWO)
    assert units_of_run(facts, "turn") == [unit._replace(run_id=facts.run_id) for unit in units_of_run(TWO, "turn")]


def test_a_run_without_responses_is_a_unit() -> None:
    (unit,) = units_of_run(session("a"), "run")
    assert unit == LabelUnit("a", None, unit.print, 0, {}, 0)
    assert units_of_run(session("a"), "turn") == []
