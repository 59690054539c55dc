"""The state of the desk: what it asks for, what the answers show, what was fixed before, and what is refused."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from boolab.errors import SettingError
from boolab.stats.desk.design import (
    DeskDesign,
    DeskUnits,
    check_order,
    choose_share,
    design_of,
    draw_units,
    looser_value,
    plan_answers,
    propose_values,
)
from boolab.stats.desk.marks import marks_up_to
from boolab.stats.desk.state import DeskState, desk_state, replay

CAPS = {"max_steps": [60, 45, 30]}


def desk_units(lengths: Any, coin: Any, values: dict[str, list[int]] = CAPS) -> DeskUnits:
    """Units named by their positions; all axes count the same lengths."""
    steps = np.asarray(lengths)
    is_long = {axis: steps[:, None] > np.asarray(caps) for axis, caps in values.items()}
    return DeskUnits([str(position) for position in range(len(steps))], is_long, np.asarray(coin, dtype=bool))


def ask_all(design: DeskDesign, units: DeskUnits, truth: Any) -> tuple[DeskState, dict[str, str]]:
    """Answer what is asked for until nothing is open."""
    answers: dict[str, str] = {}
    while (unit := (state := desk_state(design, units, answers)).unit) is not None:
        answers[unit.print] = "success" if truth[unit.position] else "failure"
    return state, answers


def test_desk_asks_for_long_units_and_those_whose_coin_fell() -> None:
    units = desk_units([10, 70, 10, 50, 10], [True, False, False, False, True])
    state = desk_state(DeskDesign(CAPS), units, {})
    assert [(unit.position, unit.value, unit.is_long) for unit in state.units] == [
        (0, 60, False), (1, 60, True), (4, 60, False),
    ]  # fmt: skip
    assert (state.max_answers, state.values[0].max_answers) == (4, 3)
    assert [value.verdict for value in state.values] == ["open", "waiting", "waiting"]


def test_units_after_one_without_an_answer_wait() -> None:
    units = desk_units([10] * 40, [True] * 40)
    answers = {str(position): "success" for position in range(1, 40)}
    state = desk_state(DeskDesign(CAPS), units, answers)
    assert (state.values[0].n_answers, state.values[0].verdict, state.unit.position) == (0, "open", 0)  # type: ignore[union-attr]
    assert desk_state(DeskDesign(CAPS), units, answers | {"0": "success"}).setting == {"max_steps": 30}


def test_newly_long_units_are_asked_where_they_were_passed() -> None:
    lengths = np.full(60, 10)
    lengths[3] = 50
    units = desk_units(lengths, np.arange(60) != 3, CAPS)
    answers = {str(position): "success" for position in range(24) if position != 3}
    state = desk_state(DeskDesign(CAPS), units, answers)
    assert state.values[0].verdict == "yes"
    assert (state.unit.position, state.unit.value, state.unit.is_long) == (3, 45, True)  # type: ignore[union-attr]
    assert state.current == state.values[1]


def test_first_value_that_is_no_yes_ends_the_sequence() -> None:
    lengths = [50 if position % 2 else 10 for position in range(100)]
    state, _ = ask_all(DeskDesign(CAPS), desk_units(lengths, [True] * 100), [True] * 100)
    assert [value.verdict for value in state.values] == ["yes", "no", "waiting"]
    assert (state.setting, state.max_answers, state.unit) == ({"max_steps": 60}, 0, None)


def test_cannot_tell_is_a_loss_if_long_and_nothing_if_short() -> None:
    units = desk_units([70, 10, 10], [True, True, True])
    state = desk_state(DeskDesign(CAPS), units, {"0": "unknown", "1": "unknown", "2": "success"})
    assert (state.values[0].successes, state.values[0].n_lost) == (2, 1)


def test_end_of_the_record_decides_once() -> None:
    units = desk_units([10] * 16, [True] * 16)
    answers = {str(position): "success" for position in range(16)}
    assert desk_state(DeskDesign(CAPS), units, answers).setting == {"max_steps": 30}
    fewer = {**answers, "15": "failure"}
    state = desk_state(DeskDesign(CAPS), units, fewer)
    assert (state.values[0].verdict, state.values[0].end) == ("undecided", 16)
    more_units = desk_units([10] * 60, [True] * 60)
    more = fewer | {str(position): "success" for position in range(16, 60)}
    assert replay(DeskDesign(CAPS), [(units, fewer), (more_units, more)]).values[0].verdict == "undecided"
    assert replay(DeskDesign(CAPS), [(units, {}), (more_units, more)]).values[0].verdict == "yes"


def test_end_that_was_planned_waits_for_its_units() -> None:
    design = DeskDesign(CAPS, end=20)
    answers = {str(position): "success" for position in range(60)}
    early = desk_state(design, desk_units([10] * 16, [True] * 16), answers)
    assert (early.values[0].verdict, early.unit) == ("open", None)
    at_end = desk_state(design, desk_units([10] * 60, [True] * 60), answers)
    assert (at_end.values[0].verdict, at_end.values[0].n_answers, at_end.values[0].end) == ("yes", 20, 20)


def test_axes_share_the_error_and_one_order() -> None:
    design = DeskDesign({"max_steps": [60], "tool_budget": [50]})
    assert (design.error_of("max_steps"), design.error_of("tool_budget")) == (0.025, 0.025)
    units = desk_units([10, 55, 70, 10], [True, False, False, False], {"max_steps": [60], "tool_budget": [50]})
    state = desk_state(design, units, {})
    assert [(unit.position, unit.axis) for unit in state.units] == [
        (0, "max_steps"),
        (1, "tool_budget"),
        (2, "max_steps"),
    ]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.25, 1.0]))
def test_desk_gives_what_a_plain_walk_gives(seed: int, pi: float) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(20, 250))
    lengths, coin = rng.integers(1, 100, size), rng.random(size) < pi
    truth = rng.random(size) < np.where(lengths > 30, rng.choice([0.0, 0.1]), 0.8)
    state, answers = ask_all(DeskDesign(CAPS, pi=pi), desk_units(lengths, coin), truth)
    marks, best, asked = marks_up_to(size, 0.95, pi, 0.05), None, set()
    for cap in CAPS["max_steps"]:
        n = lost = 0
        passed = None
        for position in range(size):
            if not (lengths[position] > cap or coin[position]):
                continue
            asked.add(str(position))
            if truth[position]:
                n, lost = n + 1, lost + (lengths[position] > cap)
                if lost <= marks.yes_losses[n] or lost >= marks.no_losses[n]:
                    passed = bool(lost <= marks.yes_losses[n])
                    break
        if not (lost <= marks.end_losses[n] if passed is None else passed):
            break
        best = cap
    assert state.setting == {"max_steps": best}
    assert {*answers} == asked


@example(202_193)
@given(st.integers(0, 2**32 - 1))
def test_answers_of_units_that_were_not_asked_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = desk_units(rng.integers(1, 100, 120), rng.random(120) < 0.25)
    truth = rng.random(120) < 0.6
    state, answers = ask_all(DeskDesign(CAPS), units, truth)
    others = {name: str(rng.choice(["success", "failure"])) for name in units.prints if name not in answers}
    with_others = desk_state(DeskDesign(CAPS), units, answers | others)
    assert with_others.values == state.values


def test_plan_says_how_many_answers_the_first_value_takes() -> None:
    lengths = [70] * 13 + [10] * 87
    coin = [False] * 13 + [position % 4 == 0 for position in range(87)]
    plan = plan_answers(DeskDesign(CAPS), desk_units(lengths * 5, coin * 5))
    assert (plan.expected, plan.max_answers, plan.long_share, plan.is_mostly_long) == (53, 175, 0.13, False)


def test_plan_sees_where_the_desk_is_no_help() -> None:
    lengths = [*range(1, 101)]
    cap = {"max_steps": [45]}
    assert plan_answers(DeskDesign(cap), desk_units(lengths, [True] * 100, cap)).is_mostly_long
    assert looser_value(lengths) == 75
    assert propose_values(lengths) == [97, 93, 88, 80, 70, 55]
    assert propose_values([]) == propose_values([4, 4]) == []


def test_share_of_short_units_depends_on_likely_successes() -> None:
    assert [choose_share(150), choose_share(300), choose_share(1000)] == [1.0, 0.25, 0.1]
    assert [choose_share(150, 0.9), choose_share(400, 0.2), choose_share(1000, 0.05)] == [0.25, 1.0, 1.0]


def test_one_unit_of_each_cluster_is_drawn() -> None:
    rng = np.random.default_rng(3)
    clusters = rng.integers(0, 20, 100).tolist()
    drawn = draw_units(clusters, rng.random(100), drawn_clusters={3, 4}).tolist()
    assert sorted(clusters[row] for row in drawn) == sorted({*clusters} - {3, 4})
    chosen = [draw_units([0, 0, 0], rng.random(3)).tolist()[0] for _ in range(300)]
    assert np.bincount(chosen).min() > 70


@pytest.mark.parametrize(
    "design", [DeskDesign(CAPS, pi=0.1), DeskDesign({"tool_budget": [9], "max_steps": [60, 45]}, 0.9, 0.8, end=40)]
)
def test_question_of_a_file_gives_the_design_again(design: DeskDesign) -> None:
    assert design_of(json.loads(json.dumps(design.question("turn")))) == design


@pytest.mark.parametrize(
    "question", [{}, {"axis": "max_steps", "values": 3}, DeskDesign(CAPS).question("run") | {"pi": None}]
)
def test_question_that_is_none_is_refused(question: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="question="):
        design_of(question)


def test_order_that_was_not_followed_is_refused() -> None:
    check_order([0.1, 0.5, 0.9, 0.2, 0.3], [3, 2])
    with pytest.raises(SettingError, match="line 2"):
        check_order([0.1, 0.5, 0.9, 0.3, 0.2], [3, 2])


def test_values_that_do_not_run_from_loose_to_tight_are_refused() -> None:
    values = {"max_steps": [30, 60]}
    with pytest.raises(SettingError, match="loose to tight"):
        desk_state(DeskDesign(values), desk_units([40], [True], values), {})


@pytest.mark.parametrize("wrong", [{"values": {}}, {"values": {"max_steps": []}}, {"pi": 0}, {"keep": 1}])
def test_design_without_a_question_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        DeskDesign(**{"values": CAPS} | wrong)
