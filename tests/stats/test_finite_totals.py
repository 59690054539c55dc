"""Confidence sequences for totals of finite populations."""

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.errors import SettingError
from boolab.stats.finite_totals import TotalSequence, total_sequence

values = st.lists(st.integers(0, 3), min_size=1, max_size=25)


def sequence(
    observed: npt.ArrayLike, size: int, confidence: float = 0.95, most: int = 1, *, whole: bool = True
) -> TotalSequence:
    return total_sequence(
        observed, observed, minima=[0] * size, maxima=[most] * size, confidence=confidence, integers=whole
    )  # fmt: skip


@pytest.mark.parametrize("population", [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0]])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_total_is_missed_no_more_than_promised_over_all_orders(population: list[int], confidence: float) -> None:
    """The exact probability: each order of a small population once."""
    missed = n = 0
    for order in set(itertools.permutations(population)):
        found = sequence(order, len(order), confidence)
        total = sum(order)
        missed += bool((found.low > total + 1e-9).any() or (found.high < total - 1e-9).any())
        n += 1
    assert missed <= (1 - confidence) * n + 1e-9


@given(values, st.integers(0, 2**32 - 1))
def test_total_of_a_fully_observed_population_is_certain(population: list[int], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(population)
    found = sequence(order, len(order), most=3)
    assert [*found.last_interval] == [sum(population)] * 2
    assert (found.low <= found.high).all()


@given(values, st.integers(0, 20))
def test_before_any_observation_only_the_bounds_are_known(seen: list[int], more: int) -> None:
    size = len(seen) + more
    found = sequence(seen, size, most=3)
    assert (found.low[0], found.high[0]) == (0, 3 * size)
    known = np.concatenate(([0], np.cumsum(seen)))
    left = 3 * (size - np.arange(len(seen) + 1))
    assert (found.low >= known).all()
    assert (found.high <= known + left).all()


@given(values, st.integers(1, 20), st.integers(-5, 5))
def test_a_shift_of_all_values_shifts_the_interval(seen: list[int], more: int, shift: int) -> None:
    size = len(seen) + more
    one = sequence(seen, size, most=3)
    moved = [value + shift for value in seen]
    other = total_sequence(moved, moved, minima=[shift] * size, maxima=[3 + shift] * size)
    assert np.allclose(other.low, one.low + shift * size)
    assert np.allclose(other.high, one.high + shift * size)


@given(values, st.integers(1, 20))
def test_the_interval_is_symmetric_in_what_is_counted(seen: list[int], more: int) -> None:
    size = len(seen) + more
    one, other = sequence(seen, size, most=3), sequence([3 - value for value in seen], size, most=3)
    assert np.allclose(one.low, 3 * size - other.high)


@given(values, st.integers(1, 20), st.lists(st.booleans(), min_size=25, max_size=25))
def test_values_that_are_not_known_widen_both_ends_alone(seen: list[int], more: int, unknown: list[bool]) -> None:
    size = len(seen) + more
    low = [0 if gone else value for value, gone in zip(seen, unknown, strict=False)]
    high = [3 if gone else value for value, gone in zip(seen, unknown, strict=False)]
    wide = total_sequence(low, high, minima=[0] * size, maxima=[3] * size)
    exact = sequence(seen, size, most=3)
    assert (wide.low <= exact.low + 1e-9).all()
    assert (wide.high >= exact.high - 1e-9).all()


def test_coarse_interval_contains_the_exact_interval() -> None:
    rng = np.random.default_rng(5)
    order = rng.permutation(np.repeat([0, 1], [700, 100]))
    exact = sequence(order[:300], 800, whole=True)  # more candidates than are tried one by one
    coarse = sequence(order[:300], 800, whole=False)
    assert (coarse.low <= exact.low).all()
    assert (exact.high <= coarse.high).all()
    assert (exact.high - coarse.low).max() - (exact.high - exact.low).max() <= math.ceil(800 / 500) * 2


def test_half_of_400_observed_gives_a_width_below_a_tenth() -> None:
    order = np.random.default_rng(0).permutation(np.repeat([0, 1], [360, 40]))
    found = sequence(order[:200], 400)
    assert found.high[-1] - found.low[-1] < 40


@pytest.mark.parametrize(
    ("low", "high"), [([2], [2]), ([1], [0]), ([-1], [0]), ([0] * 4, [0] * 4)]
)  # fmt: skip
def test_values_outside_of_their_bounds_are_refused(low: list[int], high: list[int]) -> None:
    with pytest.raises(SettingError):
        total_sequence(low, high, minima=[0] * 3, maxima=[1] * 3)
