"""What a decision rests on, beside the promise: whom a setting stops, and how its saving spreads."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.frames.dtypes import is_missing
from boolab.stats.intervals import ClusterBootstrap
from boolab.stats.recommend.candidates import Candidates, reach_of
from boolab.stats.recommend.question import Question
from boolab.stats.recommend.units import base_of
from boolab.whatif.step_table import Flags, Ints, Ledger

LEAST_SUCCESSES: Final = 10
"""A group with fewer successes shows nothing about the share that it keeps."""
_NEW: Final = 0.5
_MIN_DATED: Final = 30


class Stopped(NamedTuple):
    """The units that a setting stops, by their outcome."""

    n: int
    failures: int
    successes: int
    unknown: int


class KeptShares(NamedTuple):
    """The share of the successes on record that a setting keeps, at least and at most, whatever unknown outcomes are.

    `unknown` is how many units have no known outcome.
    """

    low: float
    high: float
    unknown: int


def kept_shares(sums: Mapping[str, int], if_success: Mapping[str, int]) -> KeptShares | None:
    """The shares that a setting may keep; None where all outcomes are known.

    At least: each unit of unknown outcome that it may stop is a success that it loses, and no other one is a success.
    At most: each that it may leave as it was is a success, and no other one is.

    Args:
        sums: The aggregate of the setting: kept_lower, kept_upper and successes.
        if_success: The same, if each unit of unknown outcome were a success.

    Example:
        >>> known = {"kept_lower": 40, "kept_upper": 41, "successes": 43}
        >>> kept_shares(known, {"kept_lower": 90, "kept_upper": 91, "successes": 95})
        KeptShares(low=0.8888888888888888, high=0.978494623655914, unknown=52)
    """
    n_unknown = if_success["successes"] - sums["successes"]
    if not n_unknown:
        return None
    n_stopped = n_unknown - (if_success["kept_lower"] - sums["kept_lower"])
    n_kept = if_success["kept_upper"] - sums["kept_upper"]
    n_worst, n_best = sums["successes"] + n_stopped, sums["successes"] + n_kept
    low = sums["kept_lower"] / n_worst if n_worst else 1.0
    high = (sums["kept_upper"] + n_kept) / n_best if n_best else 0.0
    return KeptShares(low, high, n_unknown)


class Saving(NamedTuple):
    """What a setting saves, and of what it is made.

    Attributes:
        share: The share of what is spent on record; None if nothing is.
        low: The lower end of its 95% interval, which resamples tasks.
        high: The upper end.
        run: The run that makes the largest part of the saving; "" if nothing is saved.
        run_share: That part, from 0 to 1.
        task: The task that makes the largest part.
        task_share: That part.
    """

    share: float | None
    low: float | None
    high: float | None
    run: str
    run_share: float
    task: str
    task_share: float


class Broken(NamedTuple):
    """A group whose share of kept successes, under a limit for all, is below the promise on record."""

    column: str
    value: str
    kept: int
    successes: int


class OneForAll(NamedTuple):
    """What one limit for all groups saves and keeps, held out, beside a limit for each, over the same runs.

    Attributes:
        setting: The limits of one for all that gain most on record, with the whole error; empty if there are none.
        saved: What one for all saves, held out, in whole units of what is saved.
        each_saved: What a limit for each saves, held out.
        total: What the runs use without a limit.
        kept_successes: How many successes one for all keeps, held out, at least.
        each_kept: How many a limit for each keeps.
        successes: How many there are.
        broken_groups: Groups of which `setting` keeps less than the promise, on record; the worst first.
    """

    setting: dict[str, Any]
    saved: int
    each_saved: int
    total: int
    kept_successes: int
    each_kept: int
    successes: int
    broken_groups: tuple[Broken, ...]

    @property
    def saved_share(self) -> float:
        """What one for all saves of what is spent, held out."""
        return self.saved / self.total if self.total else 0.0

    @property
    def each_saved_share(self) -> float:
        """What a limit for each saves of what is spent, held out."""
        return self.each_saved / self.total if self.total else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON has them."""
        return {
            "candidate": self.setting,
            "heldout_saved_share": self.saved_share,
            "heldout_kept": self.kept_successes,
            "each_heldout_saved_share": self.each_saved_share,
            "each_heldout_kept": self.each_kept,
            "heldout_successes": self.successes,
            "broken": [
                {"group": row.value, "kept_lower": row.kept, "successes": row.successes} for row in self.broken_groups
            ],
        }


class Recency(NamedTuple):
    """Whether the record still holds: its newest third against the older two thirds.

    Attributes:
        n_newest: How many units are of the newest third.
        steps_older: The median number of steps of the older ones.
        steps_newest: That of the newest third.
        kept: How many of their successes the newest third keeps under the setting.
        successes: How many successes it has.
        older_setting: What is chosen on the older two thirds alone; empty for no limit.
        older_kept: How many successes of the newest third that setting keeps.
        older_qualifies: Whether the older two thirds are enough to choose.
        changes: Models and versions of more than half of the newest third, that less than half of the others have.
    """

    n_newest: int
    steps_older: float
    steps_newest: float
    kept: int
    successes: int
    older_setting: Mapping[str, Any]
    older_kept: int
    older_qualifies: bool
    changes: tuple[tuple[str, str], ...]


def stops_and_savings(units: Ledger, setting: Mapping[str, Any], question: Question) -> tuple[Flags, Ints, Ints]:
    """R each: whether a setting stops the unit, what it saves there, and what the unit uses without it."""
    is_stopped, spent = reach_of(
        units, question.settings({name: [value] for name, value in setting.items()}), question.measure
    )
    own_stop, used = reach_of(units, question.settings({}), question.measure)
    return (
        is_stopped[:, 0] & ~own_stop[:, 0] if question.policy else is_stopped[:, 0],
        used[:, 0] - spent[:, 0],
        used[:, 0],
    )


def stopped_by(units: Ledger, is_stopped: Flags) -> Stopped:
    """How many units are stopped, by outcome; runs that share a success are one unit."""
    owner = np.arange(units.n_runs) if units.unit is None else units.unit
    n = int(owner.max(initial=-1)) + 1
    stopped = np.zeros(n, dtype=bool)
    np.logical_or.at(stopped, owner, is_stopped)
    success = np.full(n, -1)
    np.maximum.at(success, owner, units.success)
    counts = [int((stopped & (success == value)).sum()) for value in (0, 1, -1)]
    return Stopped(int(stopped.sum()), counts[0], counts[1], counts[2])


def saving_of(units: Ledger, clusters: Ints, saved: Ints, used: Ints, seed: int) -> Saving:
    """What is saved, its interval, and the run and the task that make most of it."""
    total, spent = int(saved.sum()), int(used.sum())
    if not spent:
        return Saving(None, None, None, "", 0.0, "", 0.0)
    estimate = ClusterBootstrap(clusters, seed=seed).share(saved, used)
    if total <= 0:
        return Saving(total / spent, float(estimate.low), float(estimate.high), "", 0.0, "", 0.0)
    run = int(np.argmax(saved))
    by_task = np.bincount(clusters, weights=saved)
    task_index = int(np.argmax(by_task))
    tasks = units.runs["task"].fillna("") if "task" in units.runs else pd.Series("", index=units.runs.index)
    task = str(tasks[int(np.argmax(clusters == task_index))])
    return Saving(
        total / spent,
        float(estimate.low),
        float(estimate.high),
        str(units.runs["run_id"].iloc[run]),
        float(saved[run] / total),
        task,
        float(by_task[task_index] / total),
    )


def broken_groups(units: Ledger, is_stopped: Flags, keep: float, columns: Sequence[str]) -> Iterator[Broken]:
    """The values of some columns that keep less than was asked, on record; the worst first within a column."""
    good = base_of(units)
    for name in columns:
        if name not in units.runs or units.runs[name].nunique(dropna=False) < 2:  # noqa: PLR2004
            continue
        values = units.runs[name].fillna("")
        rows = []
        for value in values[good].unique():
            has_value = good & (values == value).to_numpy()
            rows.append(Broken(name, str(value), int((has_value & ~is_stopped).sum()), int(has_value.sum())))
        yield from sorted(
            (row for row in rows if row.successes >= LEAST_SUCCESSES and row.kept < keep * row.successes),
            key=lambda row: row.kept / row.successes,
        )


def newest_third(units: Ledger, dates: Mapping[Hashable, datetime | None]) -> Flags | None:
    """R: which units are of the newest third; None where the start of some is not known, or there are few."""
    starts = [dates.get(run_id) for run_id in units.runs["run_id"].tolist()]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts) or len(starts) < _MIN_DATED:
        return None
    ordered = sorted(known)
    bound = ordered[len(ordered) - len(ordered) // 3]
    return None if bound == ordered[0] else np.array([start >= bound for start in known], dtype=bool)


def recency_of(
    units: Ledger,
    newest: Flags,
    candidates: Candidates,
    is_stopped: Flags,
    question: Question,
    paths: Collection[str],
) -> Recency:
    """The newest third against the older two thirds."""
    good, lengths = base_of(units) & newest, np.diff(units.first)
    older = candidates.setting_on(candidates.older_cells, paths)
    older_stops = stops_and_savings(units, older or {}, question)[0]
    changes = []
    for name in ("model", "harness_version"):
        if name in units.runs:
            values = units.runs[name].fillna("")
            for value in values[newest].unique():
                is_value = (values == value).to_numpy()
                if is_value[newest].mean() > _NEW >= is_value[~newest].mean() and not is_missing(value) and value:
                    changes.append((name, str(value)))
    return Recency(
        n_newest=int(newest.sum()),
        steps_older=float(np.median(lengths[~newest])),
        steps_newest=float(np.median(lengths[newest])),
        kept=int((good & ~is_stopped).sum()),
        successes=int(good.sum()),
        older_setting=older or {},
        older_kept=int((good & ~older_stops).sum()),
        older_qualifies=older is not None,
        changes=tuple(changes),
    )
