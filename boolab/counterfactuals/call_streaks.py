"""Streaks of calls after each step, from columns with a number for each call."""

from __future__ import annotations

import numpy as np

from boolab.counterfactuals.step_table import UNKNOWN, Flags, Ints
from boolab.frames.recording import NO_KEY


def repeats_of(keys: Ints, calls: Ints, opens: Flags) -> Ints:
    """N: the repeat streak after each step, from the keys of all calls in order; `NO_KEY` equals no other.

    `calls` is N: the number of calls of each step; `opens` is N: whether it is the first of its scope.
    """
    end = np.cumsum(calls)
    same = np.zeros(len(keys) + 1, dtype=bool)
    np.equal(keys[1:], keys[:-1], out=same[1:-1])
    same[:-1][keys == NO_KEY] = False
    same[(end - calls)[opens]] = False
    # Few calls repeat, so only those are counted: how many in a row before each one were the same.
    again = np.flatnonzero(same)
    heads = np.flatnonzero(np.diff(again, prepend=-2) > 1)
    repeats = np.zeros(len(keys) + 1, dtype=np.int64)
    repeats[again] = again - np.repeat(again[heads], np.diff(np.append(heads, len(again)))) + 1
    repeats[:-1] += 1
    return _at_boundaries(repeats[:-1], calls, end, opens)


def _at_boundaries(after_call: Ints, calls: Ints, end: Ints, opens: Flags) -> Ints:
    """A counter after each call, as it stands after each step: 0 before the first call of a scope."""
    after: Ints = after_call[np.maximum(end, 1) - 1] if len(after_call) else np.zeros_like(end)
    starts = np.flatnonzero(opens)
    if not calls[starts].all():
        after[end == np.repeat((end - calls)[starts], np.diff(np.append(starts, len(calls))))] = 0
    return after


def error_streaks_of(errors: Ints, calls: Ints, opens: Flags) -> Ints:
    """N: the error streak after each step, from a number for each call: 1 failed, 0 did not, -1 unknown."""
    end = np.cumsum(calls)
    first = set((end - calls)[opens].tolist())
    out, streak = np.empty(len(errors), dtype=np.int64), 0
    for place, error in enumerate(errors.tolist()):
        if place in first:
            streak = 0
        streak = UNKNOWN if error < 0 else 0 if error == 0 else streak + 1 if streak >= 0 else UNKNOWN
        out[place] = streak
    return _at_boundaries(out, calls, end, opens)
