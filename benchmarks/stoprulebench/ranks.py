"""The ranks of the entries of a track, with intervals over sets and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from benchmarks.stoprulebench.metrics import draws_of, mean_over_sets
from benchmarks.stoprulebench.recordings import Floats
from benchmarks.stoprulebench.splits import splits
from benchmarks.stoprulebench.submission import N_SCORES, PER_SCORE, Submission, TrackResult
from benchmarks.stoprulebench.tracks import Track

REPETITIONS: Final = 2_000
_TAIL: Final = 0.025


class Rank(NamedTuple):
    """A rank, and the ends of its 95% interval. Entries whose scores are equal share one."""

    value: int
    low: int
    high: int


def ranks_of(entries: Sequence[Submission], track: Track) -> list[Rank]:
    """The rank of each entry in a track.

    In each sample, sets are drawn with replacement, and for each set a sample of its tasks, the same for all entries.
    The entries are ranked by the mean of their scores there.

    Args:
        entries: Submissions that entered the track.
        track: The track.
    """
    if not entries:
        return []
    results = [entry.tracks[track] for entry in entries]
    names = list(dict.fromkeys(name for result in results for name in result.sets))
    draws = draws_of(len(names), of_tasks=N_SCORES, repetitions=REPETITIONS, seed=splits().seed_of_sets)
    means = np.stack([mean_over_sets(*_scores(result, names), draws) for result in results])
    means = np.nan_to_num(means, nan=-1.0)
    ranks = 1 + (means[None] > means[:, None]).sum(axis=1)
    ends = np.quantile(ranks[:, 1:], [_TAIL, 1 - _TAIL], axis=1, method="inverted_cdf").astype(int)
    return [Rank(*map(int, row)) for row in zip(ranks[:, 0], *ends, strict=True)]


def _scores(result: TrackResult, names: Sequence[str]) -> tuple[Floats, Floats]:
    """The score of each set, and in each sample of its tasks; NaN where the entry was not judged."""
    sets = [result.sets.get(name) for name in names]
    values = [np.nan if one is None or one.score.value is None else one.score.value for one in sets]
    samples = [
        [np.nan if part is None else part / PER_SCORE for part in one.scores] if one else [np.nan] * N_SCORES
        for one in sets
    ]
    return np.array(values), np.array(samples, dtype=np.float64)
