"""What the desk says."""

import pytest

from boolab.stats.desk.design import DeskDesign, plan_answers
from boolab.stats.desk.state import OpenUnit, desk_state
from boolab.stats.desk.words import more_in_words, plan_in_words, value_in_words, why_in_words
from tests.stats.desk.test_state import CAPS, desk_units


@pytest.mark.parametrize(
    ("pi", "is_long", "why"),
    [
        (0.25, True, "a step cap of 45 would stop it"),
        (0.25, False, "one of a quarter of the shorter runs, drawn by chance"),
        (0.1, False, "one of 10% of the shorter runs, drawn by chance"),
        (1, False, "all runs are asked for"),
    ],
)
def test_why_a_unit_is_asked_for(pi: float, is_long: bool, why: str) -> None:
    unit = OpenUnit(0, "p", "max_steps", 45, is_long)
    assert why_in_words(unit, DeskDesign(CAPS, pi=pi), "run") == why


def test_state_in_words_before_within_and_after() -> None:
    design, units = DeskDesign(CAPS), desk_units([10] * 60, [True] * 60)
    empty = desk_state(design, units, {})
    assert more_in_words(empty) == "about 39 more, at most 60"
    assert value_in_words(empty.values[0], design) == (
        "Of a step cap of 60 nothing is shown yet; to show 95% takes about 39 more."
    )
    assert value_in_words(empty.values[1], design) == "A step cap of 45 is not tested before the looser one."
    within = desk_state(design, units, {str(position): "success" for position in range(12)})
    assert value_in_words(within.values[0], design) == (
        "A step cap of 60 keeps at least 90.0% (95% confidence); to show 95% takes about 13 more."
    )
    after = desk_state(design, units, {str(position): "success" for position in range(23)})
    assert more_in_words(after) == "no more answers"
    assert value_in_words(after.values[2], design) == (
        "A step cap of 30 keeps at least 95% (95% confidence): 23 successes, 0 of them lost."
    )


def test_plan_in_words_warns_of_a_tight_first_cap() -> None:
    cap = {"max_steps": [45]}
    units = desk_units([*range(1, 101)], [True] * 100, cap)
    assert [*plan_in_words(plan_answers(DeskDesign(cap), units), DeskDesign(cap), "run", 75)] == [
        "A step cap of 45 takes about 100 answers; all values take at most 100.",
        (
            "It would stop 55% of the runs. If more than half of them are long failures, the desk is no help: begin "
            "with a step cap of 75, or label by the verdicts of a benchmark."
        ),
    ]
