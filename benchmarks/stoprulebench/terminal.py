"""A submission as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.stoprulebench.kinds import counted
from benchmarks.stoprulebench.metrics import Figure
from benchmarks.stoprulebench.recordings import Recordings
from benchmarks.stoprulebench.submission import Submission, TrackResult
from benchmarks.stoprulebench.tracks import TRACK_NAMES
from boolab.core.text import clean, count
from boolab.display.text import align_columns

WORDS: Final = {
    "score": "score",
    "saved_steps": "steps saved",
    "saved_cost": "cost saved",
    "kept": "successes kept",
    "area": "area",
}
"""What the figures are called."""


def headline(data: Recordings) -> Iterator[str]:
    """What is judged on."""
    steps, tasks = int(data.lengths.sum()), len(set(data.task.tolist()))
    yield (
        f"{data.fixed.benchmark} {data.fixed.version} on {clean(data.name)}: {count(len(data.runs), 'run')} of "
        f"{count(tasks, 'task')} in {count(len(data.sets), 'set')}, {count(steps, 'step')}"
    )
    yield f"Kinds of sets: {counted(data.kinds)}"
    if data.hidden:
        yield f"Chosen and fitted on the open sets alone; judged on {count(len(data.hidden), 'hidden set')}"
    if data.n_left_out:
        yield f"{count(data.n_left_out, 'run')} without a label or a step left out"
    priced = int(data.has_cost.sum())
    if priced < len(data.runs):
        those = f"over the {priced:,} of {count(len(data.runs), 'run')} whose cost is known"
        yield f"{WORDS['saved_cost']}: {those if priced else 'unknown, as the cost of no run is known'}"


def lines_of(submission: Submission) -> Iterator[str]:
    """The name of the entry, and a row for each figure: in percent, a column for each track that it entered."""
    results = submission.tracks.values()
    rows = [[WORDS[name], *(shown(getattr(result.mean, name)) for result in results)] for name in WORDS]
    rows.insert(1 + list(WORDS).index("saved_cost"), ["runs with a cost", *map(coverage, results)])
    kept = [f"{result.sets_kept} of {len(result.sets)}" for result in results]
    yield clean(submission.name)
    yield from align_columns(
        [
            ["in percent", *(TRACK_NAMES[track] for track in submission.tracks)],
            *rows,
            [f"sets, {submission.keep:.0%} kept", *kept],
        ]
    )


def coverage(result: TrackResult) -> str:
    """On how many of the runs of a track the cost is known."""
    sets = result.sets.values()
    return f"{sum(one.n_with_cost for one in sets):,} of {sum(one.n_runs for one in sets):,}"


def shown(figure: Figure) -> str:
    """A figure with its interval, in percent.

    Example:
        >>> shown(Figure(0.1234, 0.1, 0.1501)), shown(Figure(None, None, None))
        ('12.3 (10.0-15.0)', '-')
    """
    value, low, high = figure
    if value is None:
        return "-"
    interval = "" if low is None or high is None else f" ({percent_of(low)}-{percent_of(high)})"
    return f"{percent_of(value)}{interval}"


def percent_of(share: float) -> str:
    """A share in percent, with one digit if it is less than 1.

    Example:
        >>> percent_of(0.1234), percent_of(1.0)
        ('12.3', '100')
    """
    return "100" if share == 1 else f"{100 * share:.1f}"
