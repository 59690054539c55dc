"""What another threshold would have cost by a record, against an agent that reads again what it no longer sees."""

import statistics
from collections.abc import Iterable

import pytest

from benchmarks.context_policies import SEEDS, Pair, pairs


def check(made: Iterable[Pair]) -> None:
    ratios = []
    for pair in made:
        assert pair.lower <= pair.cost
        ratios.append(pair.estimate / pair.cost)
    assert max(abs(ratio - 1) for ratio in ratios) <= 0.12
    assert abs(statistics.fmean(ratios) - 1) <= 0.04


def test_estimates_are_near_what_two_agents_cost() -> None:
    check(pairs(1, seeds=(1, 2)))


@pytest.mark.slow
def test_estimates_are_near_what_twelve_agents_cost() -> None:
    made = [*pairs(1, SEEDS)]
    assert len(made) > 60
    check(made)
    reads = statistics.fmean(pair.reads_estimated - pair.reads for pair in made)
    assert abs(reads) < 1
