"""Curves: against a case worked by hand, and against plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.intervals import ClusterBootstrap, clopper_pearson
from boolab.stats.survival_curves import curve, logrank

UNITS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["success", "failure", "cut"])), min_size=1, max_size=60)


def naive(units: list[tuple[int, str]]) -> tuple[dict[int, float], dict[str, dict[int, float]]]:
    """Kaplan-Meier and Aalen-Johansen as the textbook writes them: one time after the other."""
    alive, so_far = 1.0, {"success": 0.0, "failure": 0.0}
    survival: dict[int, float] = {}
    incidence: dict[str, dict[int, float]] = {name: {} for name in so_far}
    for time in sorted({t for t, _ in units}):
        at_risk = sum(t >= time for t, _ in units)
        ended = {name: sum(t == time and kind == name for t, kind in units) for name in so_far}
        for name, n in ended.items():
            so_far[name] += alive * n / at_risk
            incidence[name][time] = so_far[name]
        alive *= 1 - sum(ended.values()) / at_risk
        survival[time] = alive
    return survival, incidence


def naive_variance(units: list[tuple[int, str]], name: str, at: int) -> float:
    """The delta method's variance of an incidence, term by term (Marubini and Valsecchi 1995, 10.3)."""
    survival, incidence = naive(units)
    total, before = 0.0, 1.0
    for time, after in survival.items():
        if time <= at:
            n = sum(t >= time for t, _ in units)
            d = sum(t == time and kind != "cut" for t, kind in units)
            e = sum(t == time and kind == name for t, kind in units)
            ahead = incidence[name][at] - incidence[name][time]
            total += ahead**2 * d / (n * (n - d)) if d < n else 0.0
            total += before**2 * e * (n - e) / n**3 - 2 * ahead * before * e / n**2
        before = after
    return total


def columns(units: list[tuple[int, str]]) -> tuple[list[int], list[bool], dict[str, list[bool]]]:
    kinds = {name: [kind == name for _, kind in units] for name in ("success", "failure")}
    return [t for t, _ in units], [kind != "cut" for _, kind in units], kinds


def test_kaplan_meier_of_freireich_is_as_worked_by_hand() -> None:
    # Weeks of remission under 6-MP (Freireich 1963), the textbooks' example: 21 units, 9 ends.
    ends = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    cuts = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    found = curve(ends + cuts, [True] * 9 + [False] * 12)
    by_time = dict(zip(found.time.tolist(), found.survival.value.round(4).tolist(), strict=True))
    expected = {6: 0.8571, 7: 0.8067, 10: 0.7529, 13: 0.6902, 16: 0.6275, 22: 0.5378, 23: 0.4482}
    assert {time: by_time[time] for time in expected} == expected
    at_risk = dict(zip(found.time.tolist(), found.at_risk.tolist(), strict=True))
    assert [at_risk[time] for time in expected] == [21, 17, 15, 12, 11, 7, 6]
    assert found.ended.sum() == 9
    assert found.censored.sum() == 12
    # R's survfit with conf.type = "log-log" gives these at 6 and 23.
    low, high = (dict(zip(found.time.tolist(), part.tolist(), strict=True)) for part in found.survival[1:])
    assert (low[6], high[6]) == pytest.approx((0.620, 0.952), abs=5e-4)
    assert (low[23], high[23]) == pytest.approx((0.188, 0.680), abs=5e-4)


@given(UNITS)
def test_curves_are_those_of_plain_python(units: list[tuple[int, str]]) -> None:
    times, ended, kinds = columns(units)
    found = curve(times, ended, kinds)
    survival, incidence = naive(units)
    assert found.time.tolist() == list(survival)
    assert found.survival.value.tolist() == pytest.approx(list(survival.values()), abs=1e-12)
    for name, values in incidence.items():
        assert found.incidence[name].value.tolist() == pytest.approx(list(values.values()), abs=1e-12)
    total = found.incidence["success"].value + found.incidence["failure"].value
    assert found.survival.value.tolist() == pytest.approx((1 - total).tolist(), abs=1e-12)


@given(UNITS)
def test_every_interval_is_defined_and_holds_its_estimate(units: list[tuple[int, str]]) -> None:
    times, ended, kinds = columns(units)
    found = curve(times, ended, kinds)
    for value, low, high in (found.survival, *found.incidence.values()):
        assert np.all((low >= 0) & (low <= value + 1e-9) & (value <= high + 1e-9) & (high <= 1))
        assert np.all(high > low)


@given(UNITS)
def test_the_intervals_of_incidences_follow_the_delta_method(units: list[tuple[int, str]]) -> None:
    times, ended, kinds = columns(units)
    found = curve(times, ended, kinds)
    for name, (value, low, high) in found.incidence.items():
        for place, time in enumerate(found.time.tolist()):
            f = float(value[place])
            if 1e-9 < f < 1 - 1e-9:
                spread = 1.959964 * math.sqrt(max(naive_variance(units, name, time), 0)) / abs(f * math.log(f))
                ends = (f ** math.exp(spread), f ** math.exp(-spread))
                assert (low[place], high[place]) == pytest.approx(ends, abs=1e-5)


def test_incidence_variance_without_cuts_is_binomial() -> None:
    units = [(t, "success" if t % 3 else "failure") for t in range(1, 41)]
    share = 20 / 40
    assert naive_variance(units, "success", 30) == pytest.approx(share * (1 - share) / 40)


def test_one_cause_alone_is_one_less_survival() -> None:
    rng = np.random.default_rng(3)
    ended = rng.random(50) < 0.7
    found = curve(rng.integers(1, 15, 50), ended, {"success": ended})
    mirrored = found.incidence["success"]
    assert mirrored.value.tolist() == pytest.approx((1 - found.survival.value).tolist())


def test_survival_interval_at_none_or_all_is_clopper_pearson() -> None:
    found = curve([1, 1, 1, 5, 5], [False, False, False, True, True], {"success": [False] * 5})
    none, every = (tuple(float(part[place]) for part in found.survival) for place in (0, 1))
    assert none == pytest.approx((1.0, clopper_pearson(5, 5).low, 1.0))
    assert every == pytest.approx((0.0, 0.0, clopper_pearson(0, 2).high))
    assert found.incidence["success"].high.tolist() == pytest.approx([clopper_pearson(0, n).high for n in (5, 2)])
    complete = curve(range(1, 21), [True] * 20)
    assert complete.survival.high[-1] == pytest.approx(clopper_pearson(0, 20).high)


def naive_limits(units: list[tuple[int, str]], weights: list[float], one_more: float) -> dict[str, list[list[float]]]:
    """The lower and upper limits that weighted units and one more give at each time."""
    out: dict[str, list[list[float]]] = {name: [[], []] for name in ("", "success", "failure")}
    alive, so_far = 1.0, {"success": 0.0, "failure": 0.0}
    for time in sorted({t for t, _ in units}):
        risk = sum(w for (t, _), w in zip(units, weights, strict=True) if t >= time) + one_more
        now = {kind: sum(w for u, w in zip(units, weights, strict=True) if u == (time, kind)) for kind in so_far}
        part = alive * one_more / risk
        for kind, weight in now.items():
            so_far[kind] += alive * weight / risk
            out[kind][0].append(so_far[kind])
            out[kind][1].append(so_far[kind] + part)
        alive *= 1 - sum(now.values()) / risk
        out[""][0].append(alive - part)
        out[""][1].append(alive)
    return out


@pytest.mark.parametrize("block", [1, 7, 500])
def test_limits_of_curves_are_of_weighted_tasks_and_one_more(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boolab.stats.survival_curves._BLOCK", block)
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(8), [1, 2, 3, 4, 4, 4, 6, 8])
    units = [
        (int(t), str(kind))
        for t, kind in zip(rng.geometric(0.2, 32), rng.choice(["success", "failure", "cut"], 32), strict=True)
    ]
    times, ended, kinds = columns(units)
    found = curve(times, ended, kinds, clusters=clusters)
    samples = [
        naive_limits(units, [row[code] for code in clusters], 8 * row[-1])
        for row in np.concatenate(list(ClusterBootstrap(clusters).weights_with_one_more())).tolist()
    ]
    for name, share in (("", found.survival), *found.incidence.items()):
        lower, upper = np.sort(np.array([sample[name] for sample in samples]), axis=0).transpose(1, 0, 2)
        low, high = np.minimum(lower[math.floor(0.025 * 1999)], share.value), upper[math.ceil(0.975 * 1999)]
        assert share.low.tolist() == pytest.approx(low.tolist(), abs=1e-5)
        assert share.high.tolist() == pytest.approx(np.maximum(high, share.value).tolist(), abs=1e-5)


def test_limits_without_censoring_are_those_of_a_share_of_tasks() -> None:
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(20), rng.integers(1, 9, 20))
    times = rng.geometric(0.2, len(clusters))
    found = curve(times, np.ones(len(times), dtype=bool), clusters=clusters)
    for place, time in enumerate(found.time.tolist()):
        share = ClusterBootstrap(clusters).share(times > time, np.ones(len(times)))
        assert [float(part[place]) for part in found.survival] == pytest.approx([float(x) for x in share[:3]], abs=2e-3)


@pytest.mark.parametrize("copies", [2, 10])
def test_copies_of_each_run_widen_no_less_than_the_runs_alone(copies: int) -> None:
    rng = np.random.default_rng(7)
    times, ended = rng.geometric(0.1, 40), rng.random(40) < 0.8
    codes = np.arange(40)
    alone = curve(times, ended, clusters=codes)
    many = curve(np.repeat(times, copies), np.repeat(ended, copies), clusters=np.repeat(codes, copies))
    for a, b in zip(alone.survival, many.survival, strict=True):
        assert a.tolist() == pytest.approx(b.tolist(), abs=1e-5)  # sums of float32


def test_logrank_equals_scipy_and_the_clustered_test_agrees() -> None:
    rng = np.random.default_rng(11)
    first = np.arange(400) % 2 == 0
    times, ended = rng.geometric(np.where(first, 0.12, 0.1)), rng.random(400) < 0.8
    plain = logrank(times, ended, first)
    samples = [stats.CensoredData(uncensored=times[g & ended], right=times[g & ~ended]) for g in (first, ~first)]
    expected = stats.logrank(*samples)
    assert plain == pytest.approx((expected.statistic, expected.pvalue))
    clustered = logrank(times, ended, first, np.arange(400))
    assert clustered == pytest.approx(plain, rel=0.1)
    doubled = logrank(np.tile(times, 2), np.tile(ended, 2), np.tile(first, 2), np.tile(np.arange(400), 2))
    assert doubled == pytest.approx(clustered)


def test_the_clustered_logrank_test_is_that_of_plain_python() -> None:
    rng = np.random.default_rng(13)
    times, ended = rng.integers(1, 9, 24).tolist(), (rng.random(24) < 0.7).tolist()
    first, clusters = (rng.random(24) < 0.5).tolist(), [i // 4 for i in range(24)]
    units = list(zip(times, ended, first, clusters, strict=True))
    totals = dict.fromkeys(clusters, 0.0)
    for time in sorted(set(times)):
        risk = [unit for unit in units if unit[0] >= time]
        share = sum(unit[2] for unit in risk) / len(risk)
        hazard = sum(unit[0] == time and unit[1] for unit in risk) / len(risk)
        for seen, over, one, cluster in risk:
            totals[cluster] += ((seen == time and over) - hazard) * (one - share)
    statistic = sum(totals.values()) / math.sqrt(6 / 5 * sum(total**2 for total in totals.values()))
    found = logrank(times, ended, first, clusters)
    assert found == pytest.approx((statistic, 2 * stats.t.sf(abs(statistic), 5)))


def test_what_cannot_be_compared_is_unknown() -> None:
    for times, ended in (
        ([1, 2, 3, 4], [False] * 4),
        ([3, 3, 3, 3], [True] * 4),
        ([1, 2, 8, 9], [True, True, False, False]),
    ):
        found = logrank(times, ended, [True, True, False, False], [0, 0, 0, 0])
        assert math.isnan(found.p)
    assert math.isnan(logrank([3, 3], [True, True], [True, False]).p)
