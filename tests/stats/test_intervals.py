"""Intervals: against scipy's own, and against plain Python."""

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from boolab.errors import SettingError
from boolab.stats.intervals import (
    ClusterBootstrap,
    clopper_pearson,
    expand_tail,
    interval_columns,
    lower_bound,
    percentiles,
    runs_needed,
    upper_bound,
)

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


@given(st.integers(1, 400), st.floats(0, 1), LEVELS)
def test_clopper_pearson_is_that_of_scipys_binomial_test(n: int, share: float, confidence: float) -> None:
    x = round(share * n)
    expected = stats.binomtest(x, n).proportion_ci(confidence, method="exact")
    assert clopper_pearson(x, n, confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)
    one_sided = stats.binomtest(x, n, alternative="greater").proportion_ci(confidence, method="exact")
    assert float(lower_bound(x, n, confidence)) == pytest.approx(one_sided.low, abs=1e-9)
    other = stats.binomtest(x, n, alternative="less").proportion_ci(confidence, method="exact")
    assert float(upper_bound(x, n, confidence)) == pytest.approx(other.high, abs=1e-9)


@given(st.floats(0.5, 300), st.floats(0, 1), LEVELS)
def test_bounds_of_fractional_counts_are_growing_beta_quantiles(n: float, share: float, confidence: float) -> None:
    x = share * n
    bound = float(lower_bound(x, n, confidence))
    assert 0 <= bound <= 1
    if x > 0.01:
        assert bound == pytest.approx(stats.beta.ppf(1 - confidence, x, n - x + 1), abs=1e-8)
    assert bound <= float(lower_bound(min(x + 0.3, n), n, confidence)) + 1e-12


def test_of_nothing_nothing_is_known() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)


def test_runs_needed_without_a_loss_are_29_59_and_299() -> None:
    assert [runs_needed(keep) for keep in (0.90, 0.95, 0.99)] == [29, 59, 299]
    assert runs_needed(0.5, 0.5) == runs_needed(0.1, 0.9) == 1  # 0.1 = 1 - 0.9 but for rounding


@given(st.floats(0.05, 0.999), LEVELS)
def test_so_many_runs_are_needed_and_not_one_less(keep: float, confidence: float) -> None:
    n = runs_needed(keep, confidence)
    assert float(lower_bound(n, n, confidence)) >= keep - 1e-9
    if n > 1:
        assert float(lower_bound(n - 1, n - 1, confidence)) < keep


def test_settings_that_are_none_are_refused() -> None:
    for confidence in (0, 1, 95, float("nan")):
        with pytest.raises(SettingError, match="between 0 and 1"):
            clopper_pearson(1, 2, confidence)
    with pytest.raises(SettingError, match="between 0 and n"):
        lower_bound(3, 2)
    with pytest.raises(SettingError, match="keep=1"):
        runs_needed(1)
    with pytest.raises(SettingError, match="2 observations"):
        ClusterBootstrap(["a", "b"]).ratio([1], [1])
    with pytest.raises(SettingError, match="no cluster"):
        ClusterBootstrap(["a", None])
    with pytest.raises(SettingError, match="repetitions=0"):
        ClusterBootstrap(["a"], repetitions=0)
    with pytest.raises(SettingError, match="finite"):
        ClusterBootstrap(["a"]).sums([float("nan")])
    with pytest.raises(SettingError, match="negative"):
        ClusterBootstrap(["a"]).ratio([1], [-1])
    with pytest.raises(SettingError, match="numerator"):
        ClusterBootstrap(["a"]).ratio([2], [1], proportion=True)


def bound(kept: npt.ArrayLike, clusters: Iterable[object]) -> float:
    """The lower end of the interval of the share that is kept."""
    return float(ClusterBootstrap(clusters).ratio(kept, np.ones(len(np.asarray(kept))), proportion=True).low)


@given(st.lists(st.booleans(), min_size=1, max_size=120), LEVELS)
def test_ratio_without_repeated_tasks_is_clopper_pearson(kept: list[bool], confidence: float) -> None:
    n = len(kept)
    found = ClusterBootstrap(range(n)).ratio(kept, np.ones(n), confidence, proportion=True)
    assert (float(found.low), float(found.high)) == pytest.approx(clopper_pearson(sum(kept), n, confidence), abs=1e-9)
    assert (int(found.clusters), float(found.effective)) == (n, n)


@pytest.mark.parametrize("copies", [2, 10])
@pytest.mark.parametrize("losses", [0, 1, 4])
def test_copies_of_each_run_never_tighten_the_bound(copies: int, losses: int) -> None:
    kept = np.arange(60) >= losses
    alone = bound(kept, range(60))
    together = bound(np.repeat(kept, copies), np.repeat(np.arange(60), copies))
    naive = bound(np.repeat(kept, copies), range(60 * copies))
    assert together <= alone + 1e-12
    assert naive > alone  # this is what copies do where they are taken for runs


def test_one_large_task_does_not_hide_behind_many_small_ones() -> None:
    codes = np.repeat(np.arange(101), [900, *[1] * 100])
    found = ClusterBootstrap(codes).ratio(np.ones(1000), np.ones(1000), proportion=True)
    assert int(found.clusters) == 101
    assert float(found.effective) == pytest.approx(1000**2 / (900**2 + 100))
    assert float(found.low) < 0.2


def test_many_settings_at_once_are_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 40, 200)
    kept = rng.random((200, 7)) < 0.9
    together = ClusterBootstrap(codes).ratio(kept, np.ones(200), proportion=True)
    assert together.low.shape == together.value.shape == (7,)
    assert together.low.tolist() == [bound(kept[:, i], codes) for i in range(7)]
    ratios = [ClusterBootstrap(codes, seed=seed).ratio(kept, np.ones(200)).low.tolist() for seed in (0, 0, 1)]
    assert ratios[0] == ratios[1] != ratios[2]


def test_weights_are_whole_resamples_and_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap = ClusterBootstrap(list("aabbbc"), repetitions=50)
    first = np.concatenate(list(bootstrap.weights()))
    assert first.shape == (50, 3)
    assert set(first.sum(axis=1)) == {3}
    monkeypatch.setattr("boolab.stats.intervals._CELLS", 10)
    monkeypatch.setattr("boolab.stats.intervals._KEPT_CELLS", 0)
    small = ClusterBootstrap(list("aabbbc"), repetitions=50)
    assert len(list(small.weights())) > 1
    assert np.array_equal(np.concatenate(list(small.weights())), np.concatenate(list(small.weights())))
    assert np.array_equal(np.concatenate(list(small.weights())), first)


def test_a_ratio_is_that_of_a_plain_bootstrap() -> None:
    codes = ["a", "a", "b", "c", "c", "c", "d"]
    above, below = [1.0, 2, 0, 3, 1, 0, 2], [2.0, 2, 1, 4, 2, 1, 5]
    bootstrap = ClusterBootstrap(codes, repetitions=999)
    found = bootstrap.ratio(above, below, 0.8)
    samples = []
    for weights in np.concatenate(list(bootstrap.weights())).tolist():
        times = dict(zip("abcd", weights, strict=True))
        pairs = [(times[c] * x, times[c] * y) for c, x, y in zip(codes, above, below, strict=True)]
        samples.append(sum(x for x, _ in pairs) / sum(y for _, y in pairs))
    samples.sort()
    level = float(expand_tail(0.1, 4))
    assert float(found.value) == sum(above) / sum(below)
    assert float(found.low) == pytest.approx(samples[math.floor(level * 998)])
    assert float(found.high) == pytest.approx(samples[math.ceil((1 - level) * 998)])


def test_empty_ratios_and_one_cluster_intervals_are_undefined() -> None:
    bootstrap = ClusterBootstrap(list("aabb"))
    none = bootstrap.ratio([0, 0, 0, 0], [0, 0, 0, 0], proportion=True)
    assert [math.isnan(float(part)) for part in none[:3]] == [True] * 3
    one = bootstrap.ratio([1, 2, 0, 0], [2, 2, 0, 0])
    assert (float(one.value), math.isnan(float(one.low)), math.isnan(float(one.high))) == (0.75, True, True)
    assert int(one.clusters) == 1
    both = bootstrap.ratio(np.array([[0, 1], [0, 1], [0, 0], [0, 1]]), np.array([[0, 1], [0, 1], [0, 1], [0, 1]]))
    assert np.isnan(both.value).tolist() == [True, False]
    nothing = ClusterBootstrap([])
    assert math.isnan(float(nothing.ratio([], [], proportion=True).value))


def test_a_proportion_of_all_is_not_certain() -> None:
    codes = np.repeat(np.arange(10), 3)
    found = ClusterBootstrap(codes).ratio(np.ones(30), np.ones(30), proportion=True)
    assert (float(found.value), float(found.high)) == (1.0, 1.0)
    assert float(found.low) == pytest.approx(clopper_pearson(10, 10).low)
    alone = ClusterBootstrap(range(30)).ratio(np.arange(30) < 20, np.ones(30), proportion=True)
    assert (float(alone.low), float(alone.high)) == pytest.approx(clopper_pearson(20, 30))


def test_percentiles_are_taken_further_out_for_few_clusters() -> None:
    levels = expand_tail(0.025, [1, 2, 5, 20, 1000])
    assert math.isnan(levels[0])
    assert all(a < b for a, b in pairwise(levels[1:]))
    assert levels[-1] == pytest.approx(0.025, rel=0.02)
    n = 20
    t = stats.t.ppf(0.025, n - 1) * math.sqrt(n / (n - 1))
    assert levels[3] == pytest.approx(stats.norm.cdf(t))
    assert np.isnan(percentiles(np.full((3, 2), np.nan), [0.5])).all()


def test_estimate_has_columns_for_both_ends() -> None:
    assert interval_columns("kept") == ["kept", "kept_low", "kept_high"]
