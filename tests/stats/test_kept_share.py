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

from boolab.stats.kept_share import (
    STAKES,
    KnownOutcomes,
    keeps_enough,
    kept_bound,
    surely_keeps_enough,
    tasks_missing,
)
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


UNITS = st.lists(
    st.tuples(st.integers(0, 30), st.booleans(), st.sampled_from([1, 1, 1, 0, -1])), min_size=1, max_size=60
)
"""The task of each unit, whether a setting loses it, and its outcome; -1 is unknown."""


def known_outcomes(units: list[tuple[int, bool, int]]) -> KnownOutcomes:
    """What is known of each task."""
    tasks = range(max(task for task, _, _ in units) + 1)

    def counts(outcome: int, is_long: bool) -> list[int]:
        return [sum(unit == (task, is_long, outcome) for unit in units) for task in tasks]

    return KnownOutcomes(counts(1, False), counts(1, True), counts(-1, True), counts(-1, False))


def few_tasks(units: list[tuple[int, bool, int]], n_tasks: int) -> list[tuple[int, bool, int]]:
    """The units in so many tasks."""
    return [(task % n_tasks, long, outcome) for task, long, outcome in units]


@given(UNITS, st.integers(1, 31), st.sampled_from([0.1, 0.3, 0.5, 0.8]), st.data())
def test_pass_with_bounds_is_a_pass_with_all_labels(
    units: list[tuple[int, bool, int]], n_tasks: int, keep: float, data: st.DataObject
) -> None:
    """For all outcomes of a few unknown units, and any outcomes of the others."""
    units = few_tasks(units, n_tasks)
    if not surely_keeps_enough(known_outcomes(units), keep, 0.05):
        return
    unknown = [index for index, (_, _, outcome) in enumerate(units) if outcome < 0]
    others = {index: data.draw(st.integers(0, 1)) for index in unknown[4:]}
    for bits in range(2 ** len(unknown[:4])):
        chosen = others | {index: bits >> place & 1 for place, index in enumerate(unknown[:4])}
        labelled = [(task, long, chosen.get(index, outcome)) for index, (task, long, outcome) in enumerate(units)]
        all_known = known_outcomes(labelled)
        successes = np.add(all_known.kept, all_known.lost)
        assert keeps_enough(all_known.lost, successes, keep, 0.05)


@given(TASKS, KEEPS)
def test_bounds_of_known_outcomes_are_the_test_itself(tasks: list[tuple[int, int]], keep: float) -> None:
    lost, successes = np.array(tasks).T
    none = np.zeros(len(tasks))
    known = KnownOutcomes(successes - lost, lost, none, none)
    assert surely_keeps_enough(known, keep, 0.05) == keeps_enough(lost, successes, keep, 0.05)


def test_59_labels_of_short_units_pass_if_all_long_ones_fail() -> None:
    kept, none = np.repeat([1, 0], [59, 241]), np.zeros(300)
    unlabelled = np.repeat([0, 1], [59, 241])
    assert surely_keeps_enough(KnownOutcomes(kept, none, none, unlabelled), 0.95, 0.05)
    one_long = np.repeat([0, 1], [299, 1])
    assert not surely_keeps_enough(KnownOutcomes(kept, none, one_long, unlabelled - one_long), 0.95, 0.05)


def test_bounds_of_several_settings_are_no_weaker_than_each() -> None:
    rng = np.random.default_rng(5)
    columns = [rng.integers(0, 3, (40, 6)) for _ in range(4)]
    together = surely_keeps_enough(KnownOutcomes(*columns), 0.3, 0.05)
    alone = [surely_keeps_enough(KnownOutcomes(*(c[:, n] for c in columns)), 0.3, 0.05) for n in range(6)]
    assert not (together & ~np.array(alone)).any()
