"""Intervals of quantiles and of the mean of the largest amounts, which count whole tasks."""

import math

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from boolab.errors import SettingError
from boolab.stats.tail_bounds import TaskAmounts, quantile_interval, shortfall_interval, tasks_missing

RNG = np.random.default_rng(5)


def in_clusters(n_tasks: int, runs: int, rng: np.random.Generator, dear: float = 0.0) -> TaskAmounts:
    """Tasks whose runs are alike; a share of them is eight times as dear."""
    prices = np.exp(rng.normal(size=n_tasks)) * np.where(rng.random(n_tasks) < dear, 8.0, 1.0)
    return TaskAmounts(np.repeat(prices, runs), np.repeat(np.arange(n_tasks), runs))


@pytest.mark.parametrize("n", [20, 59, 73, 200])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_single_runs_have_the_binomial_order_statistics(n: int, share: float) -> None:
    low, high, missing = quantile_interval(TaskAmounts(RNG.permutation(n), np.arange(n)), share)
    chances = stats.binom.cdf(np.arange(n), n, share)  # that no more runs than so many are below the quantile
    ends = np.flatnonzero(chances >= 0.975)
    assert math.isnan(high) == (missing > 0) == (not len(ends))
    assert not len(ends) or high == ends[0]
    assert low == np.flatnonzero(chances <= 0.025)[-1]


def test_an_interval_is_the_same_in_any_order_of_runs() -> None:
    amounts = in_clusters(120, 3, np.random.default_rng(1))
    order = RNG.permutation(len(amounts.values))
    shuffled = TaskAmounts(amounts.values[order], amounts.tasks[order])
    assert quantile_interval(amounts, 0.95) == quantile_interval(shuffled, 0.95)
    assert shortfall_interval(amounts, 0.95, 100.0) == pytest.approx(shortfall_interval(shuffled, 0.95, 100.0))


@pytest.mark.parametrize("n_tasks", [15, 25, 40])
def test_few_tasks_of_many_runs_have_no_upper_end(n_tasks: int) -> None:
    amounts = in_clusters(n_tasks, 10, np.random.default_rng(2), dear=0.065)
    low, high, missing = quantile_interval(amounts, 0.95)
    assert math.isnan(high)
    more = in_clusters(n_tasks + missing, 10, np.random.default_rng(2))
    assert not math.isnan(quantile_interval(more, 0.95).high)
    fewer = in_clusters(n_tasks + missing - 1, 10, np.random.default_rng(2))
    assert math.isnan(quantile_interval(fewer, 0.95).high)
    assert low <= amounts.quantile(0.95)


def test_copies_of_runs_add_nothing() -> None:
    prices = np.random.default_rng(3).random(300)
    intervals = [
        quantile_interval(TaskAmounts(np.repeat(prices, n), np.repeat(np.arange(300), n)), 0.95) for n in (2, 5)
    ]
    assert intervals[0] == intervals[1]
    alone = quantile_interval(TaskAmounts(prices, np.arange(300)), 0.95)
    assert alone.high <= intervals[0].high


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_intervals_hold_for_tasks_whose_runs_are_alike(share: float) -> None:
    rng = np.random.default_rng(4)
    truth = math.exp(stats.norm.ppf(share))
    missed = 0
    for _ in range(120):
        low, high, _ = quantile_interval(in_clusters(100, 4, rng), share)
        missed += low > truth or high < truth
    assert missed <= 120 * 0.05 + 5  # two standard deviations


def test_the_mean_of_the_largest_counts_a_part_of_the_last() -> None:
    amounts = TaskAmounts(range(1, 31), range(30))
    assert amounts.shortfall(0.9) == pytest.approx((30 + 29 + 28) / 3)
    assert amounts.shortfall(0.95) == pytest.approx((30 + 29 / 2) / 1.5)
    assert TaskAmounts([2.0] * 9, range(9)).shortfall(0.95) == pytest.approx(2)


def test_the_mean_of_the_largest_has_no_interval_without_a_bound() -> None:
    amounts = in_clusters(200, 1, np.random.default_rng(5))
    assert all(math.isnan(end) for end in shortfall_interval(amounts, 0.95, None))
    with pytest.raises(SettingError, match="more than the bound of 1: expected a hard limit"):
        shortfall_interval(amounts, 0.95, 1)


def test_a_looser_bound_gives_a_wider_interval() -> None:
    amounts = in_clusters(300, 2, np.random.default_rng(6))
    bounds = [amounts.quantile(1) * factor for factor in (1, 2, 8)]
    ends = [shortfall_interval(amounts, 0.95, bound) for bound in bounds]
    assert [low for low, _ in ends] == [ends[0].low] * 3
    assert ends[0].low < amounts.shortfall(0.95) < ends[0].high < ends[1].high < ends[2].high <= bounds[2]


def test_the_mean_of_the_largest_is_in_its_interval() -> None:
    rng, draws = np.random.default_rng(7), np.random.default_rng(8).exponential(size=200_000)
    bound = 6.0
    truth = TaskAmounts(np.minimum(draws, bound), np.zeros(len(draws))).shortfall(0.95)
    missed = 0
    for _ in range(40):
        prices = np.minimum(rng.exponential(size=150), bound)
        low, high = shortfall_interval(TaskAmounts(np.repeat(prices, 2), np.repeat(np.arange(150), 2)), 0.95, bound)
        missed += not low <= truth <= high
    assert missed <= 4


def test_missing_tasks_are_those_of_the_binomial_for_single_runs() -> None:
    assert [tasks_missing([1] * n, 0.95, 0.05) for n in (0, 40, 59)] == [59, 19, 0]
