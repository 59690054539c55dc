"""Streaks from columns: how many in a row up to each one have a property, within a scope."""

from __future__ import annotations

import numpy as np

from boolab.frames.recording import NO_KEY
from boolab.whatif.step_table import UNKNOWN, Flags, Ints


def repeats_of(keys: Ints, calls: Ints, opens: Flags) -> Ints:
    """N: the repeat streak after each step, from the keys of all calls in order; `NO_KEY` equals no other.

    `calls` is N: the number of calls of each step; `opens` is N: whether it is the first of its scope.
    """
    end = np.cumsum(calls)
    same = np.zeros(len(keys) + 1, dtype=bool)
    np.equal(keys[1:], keys[:-1], out=same[1:-1])
    same[:-1][keys == NO_KEY] = False
    same[(end - calls)[opens]] = False
    repeats = run_lengths(same)
    repeats[:-1] += 1
    return after_steps(repeats[:-1], calls, end, opens)


def run_lengths(flags: Flags) -> Ints:
    """How many in a row up to each one are set.

    Example:
        >>> run_lengths(np.array([True, True, False, True])).tolist()
        [1, 2, 0, 1]
    """
    # Few are set as a rule, so only those are counted.
    some = np.flatnonzero(flags)
    heads = np.flatnonzero(np.diff(some, prepend=-2) > 1)
    lengths = np.zeros(len(flags), dtype=np.int64)
    lengths[some] = some - np.repeat(some[heads], np.diff(np.append(heads, len(some)))) + 1
    return lengths


def after_steps(after_calls: Ints, calls: Ints, end: Ints, opens: Flags) -> Ints:
    """N: a counter after each call, as it stands after each step: 0 before the first call of a scope."""
    after: Ints = after_calls[np.maximum(end, 1) - 1] if len(after_calls) else np.zeros_like(end)
    starts = np.flatnonzero(opens)
    if not calls[starts].all():
        after[end == np.repeat((end - calls)[starts], np.diff(np.append(starts, len(calls))))] = 0
    return after


def error_streaks_of(errors: Ints, calls: Ints, opens: Flags) -> Ints:
    """N: the error streak after each step, from a number for each call: 1 failed, 0 did not, -1 unknown."""
    end = np.cumsum(calls)
    heads = (end - calls)[opens]
    starts = np.repeat(heads, np.diff(np.append(heads, len(errors))))
    return after_steps(failures_in_a_row(errors, starts), calls, end, opens)


def failures_in_a_row(failed: Ints, starts: Ints, begins: Flags | None = None) -> Ints:
    """How many in a row up to each one failed; unknown from an unknown one to the next that is known not to have.

    `failed`: 1 for what failed, 0 for what did not, -1 where that is not known. `begins`: where a failure begins a new
    streak, because it differs from the one before.

    Example:
        >>> failures_in_a_row(np.array([1, 1, 0, 1, -1, 1]), np.zeros(6, dtype=np.int64)).tolist()
        [1, 2, 0, 1, -1, -1]
    """
    place = np.arange(len(failed))
    ends = np.where(failed == 0, place, -1)
    if begins is not None:
        ends = np.where((failed > 0) & begins, place - 1, ends)
    before = np.maximum(np.maximum.accumulate(ends), starts - 1)
    unknown = np.maximum.accumulate(np.where(failed < 0, place, -1))
    return np.where(unknown > before, UNKNOWN, place - before)
