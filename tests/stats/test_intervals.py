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


def test_settings_that_are_none_are_refused() -> None:
    for confidence in (0, 1, 95, float("nan")):
        with pytest.raises(SettingError, match="between 0 and 1"):
            clopper_pearson(1, 2, confidence)
    with pytest.raises(SettingError, match="between 0 and n"):
        lower_bound(3, 2)
    with pytest.raises(SettingError, match="2 observations"):
        ClusterBootstrap(["a", "b"]).share([1], [1])
    with pytest.raises(SettingError, match="no cluster"):
        ClusterBootstrap(["a", None])
    with pytest.raises(SettingError, match="repetitions=0"):
        ClusterBootstrap(["a"], repetitions=0)
    with pytest.raises(SettingError, match="finite"):
        ClusterBootstrap(["a"]).sums([float("nan")])
    with pytest.raises(SettingError, match="negative"):
        ClusterBootstrap(["a"]).ratio([1], [-1])
    for part, whole in ((1, -1), (2, 1), (-1, 1)):
        with pytest.raises(SettingError, match="a part must be between 0 and its whole"):
            ClusterBootstrap(["a"]).share([part], [whole])


def bound(kept: npt.ArrayLike, clusters: Iterable[object]) -> float:
    """The lower end of the interval of the share that is kept."""
    return float(ClusterBootstrap(clusters).share(kept, np.ones(len(np.asarray(kept)))).low)


@given(st.lists(st.booleans(), min_size=1, max_size=120), LEVELS)
def test_share_without_repeated_tasks_is_clopper_pearson(kept: list[bool], confidence: float) -> None:
    n = len(kept)
    found = ClusterBootstrap(range(n)).share(kept, np.ones(n), confidence)
    assert (float(found.low), float(found.high)) == pytest.approx(clopper_pearson(sum(kept), n, confidence), abs=1e-9)
    assert int(found.clusters) == n


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
    found = ClusterBootstrap(codes).share(np.ones(1000), np.ones(1000))
    assert int(found.clusters) == 101
    assert float(found.low) < 0.2


def test_many_settings_at_once_are_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 40, 200)
    kept = rng.random((200, 7)) < 0.9
    together = ClusterBootstrap(codes).share(kept, np.ones(200))
    assert together.low.shape == together.value.shape == (7,)
    assert together.low.tolist() == [bound(kept[:, i], codes) for i in range(7)]
    ratios = [ClusterBootstrap(codes, seed=seed).share(kept, np.ones(200)).low.tolist() for seed in (0, 0, 1)]
    assert ratios[0] == ratios[1] != ratios[2]


def test_weights_are_whole_resamples_and_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap = ClusterBootstrap(list("aabbbc"), repetitions=50)
    first = np.concatenate(list(bootstrap.weights()))
    assert first.shape == (50, 3)
    assert set(first.sum(axis=1)) == {3}
    monkeypatch.setattr("boolab.stats.intervals._CELLS", 10)
    monkeypatch.setattr("boolab.stats.intervals._KEPT_BYTES", 0)
    small = ClusterBootstrap(list("aabbbc"), repetitions=50)
    assert len(list(small.weights())) > 1
    assert np.array_equal(np.concatenate(list(small.weights())), np.concatenate(list(small.weights())))
    assert np.array_equal(np.concatenate(list(small.weights())), first)


def test_ratio_is_that_of_a_plain_bootstrap() -> None:
    codes = ["a", "a", "b", "c", "c", "c", "d"]
    above, below = [1.0, 2, 0, -3, 1, 0, 2], [2.0, 2, 1, 4, 2, 1, 5]
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


def test_ratio_of_one_cluster_has_no_interval() -> None:
    one = ClusterBootstrap(list("aabb")).ratio([1, 2, 0, 0], [2, 2, 0, 0])
    assert (float(one.value), math.isnan(float(one.low)), math.isnan(float(one.high))) == (0.75, True, True)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12), LEVELS)
def test_share_of_tasks_is_that_of_weighted_tasks_and_one_more(tasks: list[tuple[int, int]], level: float) -> None:
    parts, wholes = [part for part, _ in tasks], [part + rest for part, rest in tasks]
    bootstrap = ClusterBootstrap(range(len(tasks)), repetitions=199)
    found = bootstrap.share(parts, wholes, level)
    if not sum(wholes):
        assert math.isnan(float(found.low))
        return
    largest, ends = max(wholes), []
    for *weights, one_more in np.concatenate(list(bootstrap.weights_with_one_more())).tolist():
        part, whole = (sum(w * n for w, n in zip(weights, numbers, strict=True)) for numbers in (parts, wholes))
        total = whole + one_more * largest
        ends.append((part / total, (part + one_more * largest) / total))
    lower, upper = (sorted(values) for values in zip(*ends, strict=True))
    tail = (1 - level) / 2
    value = sum(parts) / sum(wholes)
    if all(part in (0, whole) and whole in (0, largest) for part, whole in zip(parts, wholes, strict=True)):
        expected: tuple[float, float] = clopper_pearson(sum(parts) / largest, sum(wholes) / largest, level)
    else:
        expected = min(lower[math.floor(tail * 198)], value), max(upper[math.ceil((1 - tail) * 198)], value)
    assert (float(found.low), float(found.high)) == pytest.approx(expected, abs=1e-5)


def test_quantiles_of_weighted_tasks_are_clopper_and_pearsons() -> None:
    bootstrap = ClusterBootstrap(range(30), repetitions=20_000)
    won = np.arange(30) < 21
    samples = np.concatenate(list(bootstrap.weights_with_one_more())).astype(float)
    low = np.quantile(samples[:, :-1] @ won / samples.sum(axis=1), 0.025)
    assert low == pytest.approx(clopper_pearson(21, 30).low, abs=0.01)


def test_share_of_nothing_is_not_known_and_of_one_task_hardly() -> None:
    bootstrap = ClusterBootstrap(list("aabb"))
    none = bootstrap.share([0, 0, 0, 0], [0, 0, 0, 0])
    assert [math.isnan(float(part)) for part in none[:3]] == [True] * 3
    one = bootstrap.share([2, 2, 0, 0], [2, 2, 0, 0])
    assert (float(one.low), float(one.value), float(one.high)) == pytest.approx((0.025, 1, 1))
    assert int(one.clusters) == 1
    both = bootstrap.share(np.array([[0, 1], [0, 1], [0, 0], [0, 1]]), np.array([[0, 1], [0, 1], [0, 1], [0, 1]]))
    assert np.isnan(both.value).tolist() == [True, False]
    assert math.isnan(float(ClusterBootstrap([]).share([], []).value))


def test_share_of_all_is_not_certain() -> None:
    codes = np.repeat(np.arange(10), 3)
    found = ClusterBootstrap(codes).share(np.ones(30), np.ones(30))
    assert (float(found.value), float(found.high)) == (1.0, 1.0)
    assert float(found.low) == pytest.approx(clopper_pearson(10, 10).low)
    alone = ClusterBootstrap(range(30)).share(np.arange(30) < 20, np.ones(30))
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
