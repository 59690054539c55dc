"""The test and the bound of the share that is kept: an independent computation, and worlds whose truth is known."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.kept_share import STAKES, keeps_enough, kept_bound, tasks_missing
from boolab.whatif.step_table import Ints

TASKS = st.lists(st.integers(0, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=40)
Draw: TypeAlias = "Callable[[np.random.Generator, int], tuple[Ints, Ints]]"
KEEPS = st.sampled_from([0.5, 0.8, 0.9, 0.95])


def wealth(tasks: list[tuple[int, int]], keep: Fraction, most: int) -> Fraction:
    """The wealth of all stakes, in exact fractions."""
    total = Fraction(0)
    for part, bet in STAKES:
        own = Fraction(part).limit_denominator(1000)
        for lost, successes in tasks:
            gain = (lost - (1 - keep) * successes) / (keep * most)
            own *= 1 - Fraction(bet).limit_denominator(1000) * gain
        total += own
    return total


@given(TASKS, KEEPS)
def test_kept_share_test_is_that_of_exact_fractions(tasks: list[tuple[int, int]], keep: float) -> None:
    lost, successes = np.array(tasks).T
    most = int(successes.max())
    exact = Fraction(keep).limit_denominator(100)
    if most <= 1:
        expected = bool(binom.cdf(lost.sum(), successes.sum(), 1 - keep) <= 0.05) and lost.sum() < successes.sum()
    else:
        expected = wealth(tasks, exact, most) >= 20
    assert bool(keeps_enough(lost, successes, keep, 0.05)) == expected


@given(TASKS)
def test_kept_bound_is_the_largest_share_that_passes(tasks: list[tuple[int, int]]) -> None:
    lost, successes = np.array(tasks).T
    bound = float(kept_bound(lost, successes, 0.05))
    assert bound == 0 or keeps_enough(lost, successes, bound, 0.05)
    assert bound > 1 - 2e-6 or not keeps_enough(lost, successes, bound + 2e-6, 0.05)


@given(TASKS)
def test_kept_bound_falls_with_each_further_loss(tasks: list[tuple[int, int]]) -> None:
    lost, successes = np.array(tasks).T
    more = np.minimum(lost + 1, successes)
    bounds = kept_bound(np.stack([lost, more, successes], axis=1), successes, 0.05)
    assert bounds[0] >= bounds[1] >= bounds[2]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=200), st.integers(2, 6), st.integers(0, 5))
def test_larger_tasks_to_come_lower_the_bound_of_no_loss(sizes: list[int], most: int, larger: int) -> None:
    none_lost = np.zeros(len(sizes))
    bounds = [float(kept_bound(none_lost, sizes, 0.05, largest=most + more)) for more in (4, 4 + larger)]
    assert bounds[0] >= bounds[1]


@pytest.mark.parametrize("lost", [0, 1, 8, 167, 168])
def test_bound_of_single_successes_is_clopper_and_pearsons(lost: int) -> None:
    exact = beta.ppf(0.05, 168 - lost, lost + 1) if lost < 168 else 0.0
    assert float(kept_bound([1] * lost + [0] * (168 - lost), [1] * 168, 0.05)) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(("keep", "single", "equal"), [(0.9, 29, 33), (0.95, 59, 67)])
def test_tasks_needed_without_a_loss(keep: float, single: int, equal: int) -> None:
    assert tasks_missing([], [], keep, 0.05) == single
    assert tasks_missing([], [], keep, 0.05, largest=4) == equal
    for size, needed in ((1, single), (7, equal)):
        assert keeps_enough([0] * needed, [size] * needed, keep, 0.05)
        assert not keeps_enough([0] * (needed - 1), [size] * (needed - 1), keep, 0.05)


def broken(keep: float, tasks: int, draw: Draw, records: int = 1000) -> float:
    """The share of records that pass."""
    rng = np.random.default_rng(int(keep * 100) + tasks)
    drawn = (draw(rng, tasks) for _ in range(records))
    return float(np.mean([keeps_enough(lost, successes, keep, 0.05) for lost, successes in drawn]))


@pytest.mark.parametrize("tasks", [15, 25, 40, 55, 100, 200])
@pytest.mark.parametrize(("keep", "rare"), [(0.95, 0.055), (0.95, 0.11), (0.9, 0.11)])
def test_promise_holds_where_a_rare_kind_of_task_is_lost(keep: float, rare: float, tasks: int) -> None:
    """The worlds in which a design effect broke up to 35% of the promises."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Ints, Ints]:
        return 10 * (rng.random(n) < rare), np.full(n, 10)

    assert broken(keep, tasks, draw) <= 0.05


@pytest.mark.parametrize("tasks", [60, 100, 150])
def test_promise_holds_where_half_of_the_loss_is_spread(tasks: int) -> None:
    def draw(rng: np.random.Generator, n: int) -> tuple[Ints, Ints]:
        return np.where(rng.random(n) < 0.03, 10, rng.binomial(10, 0.03, n)), np.full(n, 10)

    assert broken(0.95, tasks, draw) <= 0.05


def test_150_tasks_with_2_percent_of_spread_loss_have_an_answer() -> None:
    def draw(rng: np.random.Generator, n: int) -> tuple[Ints, Ints]:
        return rng.binomial(10, 0.02, n), np.full(n, 10)

    assert broken(0.95, 150, draw) >= 0.9


def test_error_of_zero_shows_nothing() -> None:
    assert not keeps_enough([0] * 500, [1] * 500, 0.9, 0.0)
    assert float(kept_bound([0] * 500, [2] * 500, 0.0)) == 0
    assert math.isclose(float(kept_bound([], [], 0.05)), 0)
