"""The marks of the desk: the specification's figures, an enumeration in exact fractions, and worlds that are known."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.stats.desk.marks import (
    FAILURE,
    SHARES,
    SUCCESS,
    UNSURE,
    Marks,
    judge_records,
    kept_so_far,
    loss_chance,
    marks_up_to,
)
from boolab.whatif.step_table import Ints

ERROR = Fraction(1, 20)


class Row(NamedTuple):
    """What decides at a number of successes, and the chances of a wrong answer up to it."""

    yes: int
    end: int
    no: int
    wrong_yes: Fraction
    wrong_no: Fraction


def chances(losses: Ints, each: list[Fraction]) -> list[Fraction]:
    """The chance of each number of losses, given that of one order with so many."""
    counts = np.bincount(losses, minlength=len(each)).tolist()
    return [n * chance for n, chance in zip(counts, each, strict=True)]


def enumerated(keep: Fraction, pi: Fraction, most: int) -> Iterator[Row]:
    """The marks for 1, 2, ... successes: all orders of losses are listed, and their chances are exact."""
    q = (1 - keep) / (1 - keep + keep * pi)
    losses = np.zeros(1, dtype=np.int64)
    without_yes = without_no = np.ones(1, dtype=bool)
    spent_yes, spent_no, k = Fraction(0), Fraction(0), 0
    for m in range(1, most + 1):
        losses = np.concatenate([losses, losses + 1])
        without_yes, without_no = np.tile(without_yes, 2), np.tile(without_no, 2)
        each = [q**x * (1 - q) ** (m - x) for x in range(m + 1)]
        released = ERROR * sum(Fraction(1, 2 * (j + 1) * (j + 2)) for j in range(k + 1))
        yes = -1
        if sum(chances(losses[without_yes], each)[: k + 1]) <= released - spent_yes:
            yes, spent_yes = k, spent_yes + sum(chances(losses[without_yes], each)[: k + 1])
            without_yes = without_yes & (losses > k)
            k += 1
        left = chances(losses[without_yes], each)
        end = max((x for x in range(m + 1) if sum(left[: x + 1]) <= ERROR - spent_yes), default=-1)
        wrong_yes = spent_yes + sum(left[: end + 1])
        budget = ERROR * (1 - 1 / (1 + Fraction(m, 10))) - spent_no
        left = chances(losses[without_no], each)
        no = min((x for x in range(m + 1) if sum(left[x:]) <= budget), default=m + 1)
        spent_no += sum(left[no:])
        without_no = without_no & (losses < no)
        yield Row(yes, end, no, wrong_yes, spent_no)


@pytest.mark.parametrize(
    ("keep", "pi"),
    [("19/20", "1/4"), ("19/20", "1/10"), ("19/20", "1"), ("9/10", "1/10"), ("4/5", "1/4"), ("1/2", "1")],
)
def test_marks_are_those_of_an_enumeration_in_fractions(keep: str, pi: str) -> None:
    rows = [*enumerated(Fraction(keep), Fraction(pi), 20)]
    marks = marks_up_to(20, float(Fraction(keep)), float(Fraction(pi)), float(ERROR))
    assert marks.yes_losses[1:21].tolist() == [row.yes for row in rows]
    assert marks.end_losses[1:21].tolist() == [row.end for row in rows]
    assert np.minimum(marks.no_losses, np.arange(len(marks.no_losses)) + 1)[1:21].tolist() == [row.no for row in rows]
    assert max(row.wrong_yes for row in rows) <= ERROR
    assert max(row.wrong_no for row in rows) <= ERROR


@pytest.mark.parametrize(
    ("pi", "first_marks", "at_end"),
    [
        (0.25, [23, 37, 49, 61, 71, 81], 16),
        (0.1, [11, 16, 23, 28, 33, 37], 8),
        (1.0, [86, 135, 180, 222, 260, 297], 59),
    ],
)
def test_marks_at_95_percent_are_the_published_ones(pi: float, first_marks: list[int], at_end: int) -> None:
    marks = marks_up_to(300, 0.95, pi, 0.05)
    assert np.flatnonzero(marks.yes_losses >= 0)[:6].tolist() == first_marks
    assert marks.yes_losses[first_marks].tolist() == [0, 1, 2, 3, 4, 5]
    assert int(np.argmax(marks.end_losses >= 0)) == at_end


def test_marks_do_not_depend_on_how_many_are_computed() -> None:
    few, many = marks_up_to(10, 0.95, 0.25, 0.05), marks_up_to(1000, 0.95, 0.25, 0.05)
    for short, long in zip(few, many, strict=True):
        m = np.arange(len(short))
        assert np.minimum(short, m + 1).tolist() == np.minimum(long[: len(short)], m + 1).tolist()


def chance_of_wrong_yes(marks: Marks, q: float, most: int, *, at_each_look: bool) -> float:
    """The chance of a yes if a loss has chance q: at marks, or of who closes as soon as the end would give one."""
    left, total = np.zeros(most + 2), 0.0
    left[0] = 1.0
    for m in range(1, most + 1):
        left[1:] = left[1:] * (1 - q) + left[:-1] * q
        left[0] *= 1 - q
        allowed = int((marks.end_losses if at_each_look else marks.yes_losses)[m]) + 1
        total += float(left[:allowed].sum())
        left[:allowed] = 0.0
    return total


def test_who_closes_as_soon_as_it_passes_is_wrong_too_often() -> None:
    q, marks = loss_chance(0.95, 0.25), marks_up_to(157, 0.95, 0.25, 0.05)
    assert chance_of_wrong_yes(marks, q, 157, at_each_look=True) == pytest.approx(0.158, abs=0.001)
    assert chance_of_wrong_yes(marks, q, 157, at_each_look=False) == pytest.approx(0.023, abs=0.001)


def judged(outcomes: Sequence[int], is_long: Sequence[bool], is_asked: Sequence[bool]) -> tuple[str, int]:
    """The verdict on one record at marks, and the position that decides."""
    verdicts = judge_records(outcomes, is_long, is_asked, 0.95, 0.25, 0.05)
    answer = "yes" if verdicts.is_yes else "no" if verdicts.is_no else "end" if verdicts.is_end_yes else "open"
    return answer, int(verdicts.position)


UNITS = st.lists(
    st.tuples(st.sampled_from([FAILURE, SUCCESS, SUCCESS, SUCCESS]), st.booleans(), st.booleans()), max_size=80
)


@given(UNITS, st.floats(0, 0.3))
def test_records_are_judged_as_by_a_plain_walk(units: list[tuple[int, bool, bool]], lost_share: float) -> None:
    kept = [(outcome, long and number % 10 < 10 * lost_share, ask or long) for number, (outcome, long, ask) in
            enumerate(units)]  # fmt: skip
    marks = marks_up_to(100, 0.95, 0.25, 0.05)
    n = lost = 0
    expected = ("open", len(kept) - 1)
    for position, (outcome, long, ask) in enumerate(kept):
        if ask and outcome == SUCCESS:
            n, lost = n + 1, lost + long
            if lost <= marks.yes_losses[n] or lost >= marks.no_losses[n]:
                expected = ("yes" if lost <= marks.yes_losses[n] else "no", position)
                break
    else:
        if kept and lost <= marks.end_losses[n]:
            expected = ("end", len(kept) - 1)
    assert judged(*map(list, zip(*kept, strict=True))) == expected if kept else judged([], [], []) == expected


@given(UNITS, st.data())
def test_unsure_answers_are_the_worst_case_of_each_verdict(
    units: list[tuple[int, bool, bool]], data: st.DataObject
) -> None:
    """A yes, or a no, with unsure answers stands if none of them is a success that speaks against it."""
    outcomes, is_long = [unit[0] for unit in units], [unit[1] for unit in units]
    is_asked = [ask or long for _, long, ask in units]
    unsure = [data.draw(st.sampled_from([outcome, outcome, UNSURE])) for outcome in outcomes]
    answer, _ = judged(unsure, is_long, is_asked)
    for verdict, as_long in (("yes", SUCCESS), ("no", FAILURE)):
        worst = [
            (as_long if long else SUCCESS - as_long) if outcome == UNSURE else outcome
            for outcome, long in zip(unsure, is_long, strict=True)
        ]
        if answer == verdict:
            assert judged(worst, is_long, is_asked)[0] == verdict


def test_kept_so_far_reaches_the_share_at_its_first_mark() -> None:
    for share in SHARES[::10]:
        n = int(np.argmax(marks_up_to(600, share, 0.25, 0.05).yes_losses >= 0))
        record = ([SUCCESS] * n, [False] * n, True)
        assert kept_so_far(*record, 0.25, 0.05) >= share
    assert kept_so_far([], [], [], 0.25, 0.05) == 0


@pytest.mark.parametrize(("share", "pi"), [(0.949, 0.25), (0.949, 0.1), (0.95, 1.0)])
def test_promise_holds_in_simulated_records(share: float, pi: float) -> None:
    rng = np.random.default_rng(int(1000 * share + 10 * pi))
    shape = (2000, 400)
    success = rng.random(shape) < 0.6
    is_long = rng.random(shape) < np.where(success, 1 - share, 0.3)
    verdicts = judge_records(success, is_long, is_long | (rng.random(shape) < pi), 0.95, pi, 0.05)
    assert (verdicts.is_yes | verdicts.is_end_yes).mean() <= 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5
