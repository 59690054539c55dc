"""The share that is kept on record: an enumeration in exact fractions, and records whose truth is known."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.stats.desk.on_record import Stratum, keeps_enough_on_record
from tests.support.cases import first


def mixture(labelled: int, successes: int, a: Fraction, b: Fraction) -> Fraction:
    """The chance of labels in their order, if the next one is a success as the urn of Polya has it."""
    chance = Fraction(1)
    for n in range(labelled):
        good = n < successes
        seen = n if good else n - successes
        chance *= ((a if good else b) + seen) / (a + b + n)
    return chance


def ratio(stratum: Stratum, total: int, a: Fraction, b: Fraction) -> Fraction:
    """The ratio of both chances of the labels, in exact fractions."""
    units, labelled, successes = stratum
    in_order = Fraction(comb(units - labelled, total - successes), comb(units, total))
    return mixture(labelled, successes, a, b) / in_order


STRATA = st.integers(0, 12).flatmap(
    lambda units: st.integers(0, units).flatmap(
        lambda labelled: st.tuples(st.just(units), st.just(labelled), st.integers(0, labelled))
    )
)


@given(STRATA, STRATA, st.sampled_from([0.5, 0.8, 0.9]), st.sampled_from([0.05, 0.2]))
def test_verdict_is_that_of_all_totals_in_fractions(
    long: tuple[int, int, int], short: tuple[int, int, int], keep: float, error: float
) -> None:
    of_long, of_short, share = Stratum(*long), Stratum(*short), Fraction(keep).limit_denominator(10)
    worst = min(
        (
            ratio(of_long, lost, Fraction(1, 2), Fraction(5)) * ratio(of_short, kept, Fraction(1), Fraction(1))
            for lost in range(long[2], long[0] - long[1] + long[2] + 1)
            for kept in range(short[2], short[0] - short[1] + short[2] + 1)
            if lost * share > (1 - share) * kept
        ),
        default=None,
    )
    expected = worst is None or worst >= 1 / Fraction(error).limit_denominator(100)
    assert keeps_enough_on_record(of_long, of_short, keep, error) == expected


@pytest.mark.parametrize("n_long", first(1, [30, 60]))
def test_record_that_keeps_too_little_seldom_passes_at_any_look(n_long: int) -> None:
    rng = np.random.default_rng(n_long)
    passed = 0
    for _ in range(150):
        long, short = rng.permutation(np.arange(n_long) < 10), rng.permutation(np.arange(200) < 180)
        for n in range(1, n_long + 1):
            of_short = Stratum(200, min(3 * n, 200), int(short[: 3 * n].sum()))
            if keeps_enough_on_record(Stratum(n_long, n, int(long[:n].sum())), of_short, 0.95, 0.05):
                passed += 1
                break
    assert passed <= 150 * 0.05 + 3 * (150 * 0.05) ** 0.5


def test_whole_record_is_decided_by_its_totals() -> None:
    assert keeps_enough_on_record(Stratum(20, 20, 5), Stratum(95, 95, 95), 0.95, 0.05)
    assert not keeps_enough_on_record(Stratum(20, 20, 6), Stratum(95, 95, 95), 0.95, 0.05)
