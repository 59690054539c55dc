"""Coverage: a small slice of `benchmarks/coverage.py`, seeded."""

import pytest

from tests.support.stats_cases import CASES, coverage

REPETITIONS = 150
FAST = [
    "km",
    "km_small",
    "km_frailty",
    "aj",
    "aj_small",
    "retained",
    "retained_copies",
    "retained_resembling",
    "precision",
    "share_heavy_8",
    "share_heavy_15",
    "share_heavy_40",
    "km_heavy",
    "aj_heavy",
    "saved_unequal",
    "logrank",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    # Of 150 draws with 95%, fewer than 132 (88%) hold in one of 2,000 slices; the long benchmark measures it closely.
    assert coverage(CASES[name], REPETITIONS)[0] >= 0.88


@pytest.mark.parametrize("name", ["km_naive", "aj_naive", "retained_naive", "logrank_naive"])
def test_the_slice_would_notice_copies_taken_for_runs(name: str) -> None:
    assert not CASES[name].honest
    assert coverage(CASES[name], REPETITIONS)[0] < 0.88
