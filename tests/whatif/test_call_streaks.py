"""Streaks of calls from columns: a scope starts at 0, also where its first steps have no calls."""

from __future__ import annotations

import numpy as np
import pytest

from boolab.frames.recording import NO_KEY
from boolab.whatif.call_columns import (
    error_streaks_of,
    failures_in_a_row,
    number_pairs,
    number_values,
    repeats_of,
    run_lengths,
)


@pytest.mark.parametrize(
    ("keys", "calls", "opens", "streaks"),
    [
        ([7, 7, 7, 7], [2, 1, 0, 1], [True, False, True, False], [2, 3, 0, 1]),
        ([7, 7, 8, 8], [1, 1, 0, 2], [True, False, False, False], [1, 2, 2, 2]),
        ([7, 7, 7], [1, 2], [True, True], [1, 2]),
        ([NO_KEY, NO_KEY, 7, 7], [1, 1, 1, 1], [True, False, False, False], [1, 1, 1, 2]),
        ([], [0, 0], [True, False], [0, 0]),
    ],
)
def test_a_repeat_streak_after_each_step(
    keys: list[int], calls: list[int], opens: list[bool], streaks: list[int]
) -> None:
    found = repeats_of(np.array(keys, dtype=np.int64), np.array(calls), np.array(opens))
    assert found.tolist() == streaks


def test_an_error_streak_after_each_step() -> None:
    errors, calls, opens = np.array([1, 1, 1, 1, -1, 1, 0]), np.array([2, 1, 0, 1, 1, 1, 1]), np.zeros(7, dtype=bool)
    opens[[0, 2]] = True
    assert error_streaks_of(errors, calls, opens).tolist() == [2, 3, 0, 1, -1, -1, 0]


def test_values_are_numbered_by_first_appearance() -> None:
    codes, values = number_values(["b", "a", "b"])
    assert codes.tolist() == [0, 1, 0]
    assert values == ["b", "a"]


def test_pairs_are_numbered_by_first_appearance() -> None:
    codes, first = number_pairs(np.array([1, 1, 1]), np.array([0, 2, 0]))
    assert codes.tolist() == [0, 1, 0]
    assert first.tolist() == [0, 1]


def test_run_length_starts_again_at_a_gap() -> None:
    assert run_lengths(np.array([True, True, False, True])).tolist() == [1, 2, 0, 1]


def test_streak_is_unknown_after_an_unknown_result() -> None:
    assert failures_in_a_row(np.array([1, 1, 0, 1, -1, 1]), np.zeros(6, dtype=np.int64)).tolist() == [
        1,
        2,
        0,
        1,
        -1,
        -1,
    ]
