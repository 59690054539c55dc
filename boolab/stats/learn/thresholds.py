"""Thresholds that keep successes, with one of two promises, from tasks that the model has not seen.

The score of a run is its highest at a boundary. A rule stops a run only if that exceeds a bound, so a run whose score
equals the bound is kept; ties make the rule keep more, never less.

**About this rule** (`confidence=0.9`). A task's score is the highest of its successes. If a task is a random draw from
those that have a success, then the share of all such tasks whose score is at most the r-th smallest of K scores is at
least a Beta(r, K + 1 - r) variable, so it is at least `keep` with probability P(Binomial(K, keep) <= r - 1) or more.
The bound is the r-th smallest, with the least r for which that is `confidence`. With r = K it is 1 - keep^K, so there
is no such bound below `tasks_needed` tasks. Source: Wilks, Ann. Math. Stat. 12 (1941) 91-96.

**On average over rules** (`confidence=None`). Each of K tasks has a mass of 1 / (K + 1), divided equally among its
successes, and the bound is the `keep` quantile of their scores, with the rest of the mass at infinity. If tasks are
exchangeable, a random success of a further task is at most the bound with probability `keep` or more, on average over
calibration tasks and the further one. Sources: Dunn, Wasserman and Ramdas, J. Am. Stat. Assoc. 118 (2023) 2491-2502
(arXiv 1809.07441: two-layer models; pooling the tasks' distributions covers asymptotically, one success a task
exactly); Lee, Barber and Willett, arXiv 2306.06342 (the mass at infinity makes pooling exact).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.intervals import runs_needed
from boolab.whatif.step_table import Ints

_ROUNDING: Final = 1e-12


def tasks_needed(keep: float, confidence: float | None) -> int:
    """The least number of calibration tasks with a success for which there is a bound.

    Example:
        >>> tasks_needed(0.95, 0.9), tasks_needed(0.9, 0.9), tasks_needed(0.95, None)
        (45, 22, 19)
    """
    return runs_needed(keep, confidence) if confidence is not None else math.ceil(keep / (1 - keep) - 1e-9)


def rank_of(tasks: int, keep: float, confidence: float) -> int:
    """The least r for which the r-th smallest of so many scores keeps `keep` at `confidence`; `tasks` + 1 if none does.

    Example:
        >>> rank_of(45, 0.95, 0.9), rank_of(200, 0.95, 0.9), rank_of(44, 0.95, 0.9)
        (45, 195, 45)
    """
    ranks = np.arange(1, tasks + 1)
    fine = stats.binom.cdf(ranks - 1, tasks, keep) >= confidence - _ROUNDING
    return int(ranks[fine][0]) if fine.any() else tasks + 1


def bound_of(peaks: Ints, tasks: Ints, keep: float, confidence: float | None) -> int | None:
    """The highest score that is kept.

    `confidence`: that of the promise about this rule; None for the one on average. Returns the bound; None if there are
    too few tasks: see `tasks_needed`.

    Example:
        >>> bound_of(np.array([3, 9, 4, 4]), np.array([0, 0, 1, 2]), 0.5, None)
        4
    """
    _, code, sizes = np.unique(tasks, return_inverse=True, return_counts=True)
    n = len(sizes)
    if confidence is not None:
        highest = np.zeros(n, dtype=np.int64)
        np.maximum.at(highest, code, peaks)
        rank = rank_of(n, keep, confidence)
        return None if rank > n else int(np.sort(highest)[rank - 1])
    order = np.argsort(peaks, kind="stable")
    mass = np.cumsum(1 / sizes[code[order]]) / (n + 1)
    place = int(np.searchsorted(mass, keep - _ROUNDING))
    return None if place >= len(order) else int(peaks[order[place]])
