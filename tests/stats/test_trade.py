"""What a limit saves against the successes that it loses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.stats.trade import Trade, trade_of


@given(st.integers(0, 10**6), st.integers(0, 500), st.integers(1, 10**6), st.integers(1, 500))
def test_trade_is_poor_if_it_loses_more_successes_than_it_saves(
    saved: int, lost: int, total: int, successes: int
) -> None:
    trade = Trade(saved, lost, total, successes)
    each = trade.per_lost_success
    assert (each is None) == (lost == 0)
    if each is not None:
        assert trade.is_poor == (saved * successes < lost * total)
        assert trade.is_even == (saved * successes == lost * total)
    assert not (trade.is_poor and trade.is_even)


@given(st.integers(0, 10**6), st.integers(0, 500), st.integers(1, 10**6), st.integers(1, 500))
def test_even_trade_is_below_one_if_poor_and_one_if_even(saved: int, lost: int, total: int, successes: int) -> None:
    lost = min(lost, successes)
    kept = successes - lost
    row = trade_of(steps=total, saved_steps=saved, successes=successes, kept=kept, cost=None, saved_cost=None)
    trade, even = Trade(saved, lost, total, successes), row["even_trade"]
    assert (even is None) == (lost == 0)
    if even is not None:
        assert trade.is_poor == (even < 1)
        assert trade.is_even == (even == 1)


@pytest.mark.parametrize(
    ("trade", "sentence"),
    [
        (
            Trade(351, 8, 16707, 168),
            "poor, in steps: it saves 44 steps for each lost success, and a success costs 99 steps",
        ),
        (
            Trade(200, 2, 1000, 20),
            "good, in steps: it saves 100 steps for each lost success, and a success costs 50 steps",
        ),
        (
            Trade(99.4, 1, 990, 10),
            "good, in steps: it saves 99.4 steps for each lost success, and a success costs 99.0 steps",
        ),
        (Trade(50, 1, 1000, 20), "even, in steps: for each lost success it saves 50 steps, as a success costs"),
        (
            Trade(1, 1, 40, 20, "steps"),
            "poor, in steps: it saves 1 step for each lost success, and a success costs 2 steps",
        ),
        (
            Trade(3.5, 2, 10, 20, "cost"),
            "good, in dollars: it saves $1.75 for each lost success, and a success costs $0.50",
        ),
        (Trade(50, 1, 1000, 20, counted="turn"), "even, in steps of turns: for each lost success it saves 50 steps"),
        (Trade(3, 0, 10, 20), "No success is lost on record."),
    ],
)
def test_the_sentence_agrees_with_the_numbers(trade: Trade, sentence: str) -> None:
    assert sentence in trade.sentence


def test_without_a_success_there_is_no_trade() -> None:
    trade = Trade(3, 0, 10, 0)
    assert (trade.per_success, trade.is_poor, trade.sentence, trade.shares) == (None, False, "", "")
