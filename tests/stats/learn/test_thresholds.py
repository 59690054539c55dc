"""The two promises: thresholds against plain computations, and over many draws."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.stats.learn.learn_stop import bound_of, rank_of, tasks_needed
from boolab.whatif.step_table import Ints
from tests.support.cases import cases


def binomial(n: int, p: float, most: int) -> float:
    """P(Binomial(n, p) <= most), term by term."""
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(most + 1))


@given(st.integers(1, 150), st.sampled_from([0.5, 0.8, 0.9, 0.95]), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_rank_is_the_least_that_keeps_the_share_with_confidence(n: int, keep: float, confidence: float) -> None:
    rank = rank_of(n, keep, confidence)
    if rank <= n:
        assert binomial(n, keep, rank - 1) >= confidence - 1e-9
    if rank > 1:
        assert binomial(n, keep, rank - 2) < confidence
    assert (rank > n) == (n < tasks_needed(keep, confidence))


def test_for_95_percent_at_90_percent_45_tasks_are_needed() -> None:
    assert (tasks_needed(0.95, 0.9), tasks_needed(0.95, None)) == (45, 19)
    peaks = np.arange(45)
    assert bound_of(peaks, peaks, 0.95, 0.9) == 44
    assert bound_of(peaks[:44], peaks[:44], 0.95, 0.9) is None
    assert bound_of(peaks[:19], peaks[:19], 0.95, None) == 18
    assert bound_of(peaks[:18], peaks[:18], 0.95, None) is None


@cases(100)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 12)), min_size=1, max_size=60), st.sampled_from([0.5, 0.8]))
def test_average_bound_is_the_least_score_covering_enough_tasks(successes: list[tuple[int, int]], keep: float) -> None:
    tasks, peaks = (np.array(column) for column in zip(*successes, strict=True))
    n = len({*tasks.tolist()})

    def covered(bound: int) -> float:
        return sum(float(np.mean(peaks[tasks == task] <= bound)) for task in {*tasks.tolist()}) / (n + 1)

    fine = [bound for bound in sorted({*peaks.tolist()}) if covered(bound) >= keep - 1e-9]
    assert bound_of(peaks, tasks, keep, None) == (fine[0] if fine else None)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), min_size=1, max_size=200))
def test_a_task_counts_by_the_highest_of_its_successes(successes: list[tuple[int, int]]) -> None:
    tasks, peaks = (np.array(column) for column in zip(*successes, strict=True))
    highest = [max(p for t, p in successes if t == task) for task in sorted({*tasks.tolist()})]
    assert bound_of(peaks, tasks, 0.8, 0.8) == bound_of(np.array(highest), np.arange(len(highest)), 0.8, 0.8)


def test_more_confidence_never_lowers_the_bound() -> None:
    peaks = np.random.default_rng(0).integers(1000, size=80)
    bounds = [bound_of(peaks, np.arange(80), 0.9, confidence) or 0 for confidence in (0.1, 0.5, 0.9, 0.99)]
    assert all(a <= b for a, b in pairwise(bounds))


@pytest.mark.parametrize("ties", [False, True])
def test_over_many_draws_both_promises_hold(ties: bool) -> None:
    """Tasks have a level of their own, and one to four successes around it; the next tasks are drawn alike."""
    rng = np.random.default_rng(3)
    kept_tasks: list[float] = []
    kept: list[float] = []

    def draw(n: int) -> tuple[Ints, Ints]:
        tasks = np.repeat(np.arange(n), rng.integers(1, 5, size=n))
        scores = rng.normal(size=n)[tasks] + rng.normal(size=len(tasks))
        return (np.round(scores) if ties else 1000 * scores).astype(np.int64) + 10_000, tasks

    for _ in range(200):
        peaks, tasks = draw(60)
        further, of = draw(400)
        for confidence, out in ((0.9, kept_tasks), (None, kept)):
            bound = bound_of(peaks, tasks, 0.9, confidence)
            assert bound is not None
            share = np.bincount(of, further <= bound) / np.bincount(of)
            out.append(float((share == 1).mean() if confidence else share.mean()))
    assert np.mean(np.array(kept_tasks) < 0.9 - 0.02) <= 0.1  # 0.02: the share is that of 400 tasks, not of all
    assert np.mean(kept) >= 0.9 - 0.005
