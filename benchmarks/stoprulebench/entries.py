"""What the benchmark judges: rules, functions of a run's prefix, and lists of stops.

An entry is prepared once for the recordings. It then gives, for each split, after which step it stops the runs that are
judged: one row for the share of successes that it is to keep, and one for each further level of `Splits.levels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

import numpy as np

from benchmarks.stoprulebench.first_stops import NEVER, RuleTables, Scoped, Setting, Stops
from benchmarks.stoprulebench.recordings import Floats, Recordings
from benchmarks.stoprulebench.tracks import Part, Track
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.limits.function_rule import Prefix, StopFunction
from boolab.limits.stop import StopRule, Threshold
from boolab.whatif.step_table import Flags, Ints

Kind: TypeAlias = Literal["rules", "function", "csv", "scale"]
PERCENTILES: Final = (75.0, 25.0, 40.0, 50.0, 60.0, 85.0, 95.0, 99.0)
"""Of the lengths of runs, for entries that are chosen by a percentile: the first, and those of the frontier."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class About:
    """How a submission describes an entry.

    Attributes:
        name: Its name on the leaderboard.
        authors: Who made it.
        description: One sentence.
        url: Where to read more.
        definition: What it is, in text: its rules as YAML, the name of its function, or the SHA-256 of its list.
    """

    name: str
    authors: str = ""
    description: str = ""
    url: str = ""
    definition: str = ""


class Prepared(Protocol):
    """An entry that was prepared for recordings."""

    def enters(self, track: Track) -> bool:
        """Whether it can be judged in a track."""
        ...

    def stops(self, part: Part) -> Stops:
        """After which step it stops the runs that a split judges: levels x runs, `NEVER` for not at all."""
        ...


class Entry(Protocol):
    """What the benchmark judges."""

    @property
    def about(self) -> About:
        """How a submission describes it."""
        ...

    @property
    def kind(self) -> Kind:
        """How it was entered."""
        ...

    @property
    def settings(self) -> Sequence[Setting]:
        """The settings of rules that it is chosen among; none for other kinds."""
        ...

    def prepare(self, data: Recordings, tables: RuleTables) -> Prepared:
        """Do once what does not depend on a split."""
        ...


# --- Rules ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RuleEntry:
    """A rule, or several of which the best is chosen on the training runs.

    Attributes:
        about: How a submission describes it.
        settings: The settings to choose among.
        fixed: The place of the setting that is used without any training; None if there is none.
        by_percentile: Whether `settings` are caps, max_steps(1), max_steps(2) ..., of which the percentile of the
            lengths of the training runs is used.
        kind: How it was entered.
    """

    about: About
    settings: Sequence[Setting]
    fixed: int | None = None
    by_percentile: bool = False
    kind: Kind = "rules"

    def prepare(self, data: Recordings, tables: RuleTables) -> Prepared:
        fixed = 0 if len(self.settings) == 1 else self.fixed
        return _Menu(data, tables.stops(self.settings), fixed, by_percentile=self.by_percentile)


class _Menu:
    """Settings whose stops are known for all runs, and what each keeps and saves in each cell."""

    def __init__(self, data: Recordings, stops: Stops, fixed: int | None, *, by_percentile: bool = False) -> None:
        self._data = data
        self._stops = stops
        self._fixed = fixed
        self._by_percentile = by_percentile
        if stops.shape[1] > 1 and not by_percentile:
            stopped = stops != NEVER
            left = data.lengths[:, None] - stops
            starts = np.searchsorted(data.cell, np.arange(len(data.cells)))
            self._saved = np.add.reduceat(np.where(stopped, left, 0), starts, axis=0).astype(np.float64)
            self._steps = np.add.reduceat(data.lengths, starts).astype(np.float64)
            lost = stopped & data.success[:, None]
            self._lost = np.add.reduceat(lost, starts, axis=0, dtype=np.int64).astype(np.float64)
            self._successes = np.add.reduceat(data.success, starts, dtype=np.int64).astype(np.float64)

    def enters(self, track: Track) -> bool:
        return track != "none" or self._fixed is not None

    def stops(self, part: Part) -> Stops:
        data = self._data
        rows = np.flatnonzero(part.test[data.cell])
        levels = (data.fixed.keep, *data.fixed.levels)
        if self._stops.shape[1] == 1 or part.track == "none":
            return np.tile(self._stops[rows, self._fixed or 0], (len(levels), 1))
        if self._by_percentile:
            return self._percentiles(part, rows, len(levels))
        kept, saved = self._shares(part.train)
        return np.stack([self._of_best(kept, saved, keep, rows) for keep in levels])

    def _of_best(self, kept: Floats, saved: Floats, keep: float, rows: Ints) -> Stops:
        """The stops of the setting that saves most of those that keep enough; of these, of the one that keeps most."""
        enough = kept >= keep - _ROUNDING
        if not enough.any():
            return np.full(len(rows), NEVER, dtype=np.int32)
        most = enough & (saved >= saved[enough].max() - _ROUNDING)
        best = int(np.argmax(np.where(most, kept, -1.0)))
        return np.asarray(self._stops[rows, best])

    def _shares(self, train: Flags) -> tuple[Floats, Floats]:
        """What each setting keeps and saves of the training runs: the mean of the shares of their sets.

        Without any success to learn from, all that is known to keep them is never to stop.
        """
        data, kept, saved = self._data, [], []
        for number in np.unique(data.set_of_cell[train]).tolist():
            mine = train & (data.set_of_cell == number)
            saved.append(self._saved[mine].sum(axis=0) / self._steps[mine].sum())
            successes = self._successes[mine].sum()
            if successes:
                kept.append(1 - self._lost[mine].sum(axis=0) / successes)
        if not kept:
            return np.zeros(self._stops.shape[1]), np.zeros(self._stops.shape[1])
        return np.mean(kept, axis=0), np.mean(saved, axis=0)

    def _percentiles(self, part: Part, rows: Ints, levels: int) -> Stops:
        lengths = self._data.lengths[part.train[self._data.cell]]
        if not len(lengths):
            return np.full((levels, len(rows)), NEVER, dtype=np.int32)
        caps = np.floor(np.percentile(lengths, PERCENTILES[:levels])).astype(int)
        return np.stack([self._stops[rows, min(cap, self._stops.shape[1]) - 1] for cap in caps])


# --- Lists of stops ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ListEntry:
    """Stops that were found elsewhere, such as by another package.

    Attributes:
        about: How a submission describes it.
        stops_of: The stops of the runs, from the recordings: R for each track that it enters.
        kind: How it was entered.
    """

    about: About
    stops_of: Callable[[Recordings], dict[Track, Ints]]
    kind: Kind = "csv"
    settings: ClassVar[Sequence[Setting]] = ()

    def prepare(self, data: Recordings, tables: RuleTables) -> Prepared:  # noqa: ARG002 - no rules are evaluated
        return _Listed(data, self.stops_of(data))


class _Listed:
    """The stops of each track."""

    def __init__(self, data: Recordings, stops: dict[Track, Ints]) -> None:
        self._data = data
        self._stops = {
            track: np.where(at >= data.lengths, NEVER, at).astype(np.int32)[:, None] for track, at in stops.items()
        }

    def enters(self, track: Track) -> bool:
        return track in self._stops

    def stops(self, part: Part) -> Stops:
        rows = np.flatnonzero(part.test[self._data.cell])
        return np.tile(self._stops[part.track][rows, 0], (1 + len(self._data.fixed.levels), 1))


# --- Functions --------------------------------------------------------------------------------------------------------


class Learner(Protocol):
    """What is fitted on training runs before it stops others."""

    def fit(self, runs: Sequence[Run]) -> StopFunction | StopRule:
        """What stops runs of other tasks.

        Args:
            runs: The training runs, whole, with `success`.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class FunctionEntry:
    """A function of a run's prefix, or an object with a `fit` that gives one, or a rule.

    Attributes:
        about: How a submission describes it.
        target: The function, or the object.
        kind: How it was entered.
    """

    about: About
    target: StopFunction | Learner
    kind: Kind = "function"
    settings: ClassVar[Sequence[Setting]] = ()

    def prepare(self, data: Recordings, tables: RuleTables) -> Prepared:
        if hasattr(self.target, "fit"):
            return _Fitted(data, tables, self.target, self.about.name)
        scores = _scores(data, np.arange(len(data.runs)), self.target, self.about.name)
        return _Scored(data, scores)


class _Scored:
    """A function that is not fitted: its answers are found once. Yes and no are the scores 1 and 0."""

    def __init__(self, data: Recordings, scores: Scores) -> None:
        self._data = data
        self._scores = scores

    def enters(self, track: Track) -> bool:
        return track != "none" or not self._scores.are_numbers

    def stops(self, part: Part) -> Stops:
        rows = np.flatnonzero(part.test[self._data.cell])
        if not self._scores.are_numbers:
            return np.tile(self._scores.first_at_least(1.0)[rows], (1 + len(self._data.fixed.levels), 1))
        train = np.flatnonzero(part.train[self._data.cell])
        thresholds = thresholds_of(self._data, train, self._scores.peaks[train])
        return np.stack([self._scores.first_at_least(threshold)[rows] for threshold in thresholds])


class _Fitted:
    """What is fitted for each split anew."""

    def __init__(self, data: Recordings, tables: RuleTables, learner: Learner, name: str) -> None:
        self._data = data
        self._tables = tables
        self._learner = learner
        self._name = name

    def enters(self, track: Track) -> bool:
        return track != "none"

    def stops(self, part: Part) -> Stops:
        data = self._data
        rows = np.flatnonzero(part.test[data.cell])
        tuned = bool(getattr(self._learner, "scores", False))
        train = np.flatnonzero((part.train & ~part.tune if tuned else part.train)[data.cell])
        if not data.success[train].any():
            return np.full((1 + len(data.fixed.levels), len(rows)), NEVER, dtype=np.int32)
        fitted: Any = self._learner.fit([data.runs[row] for row in train.tolist()])
        if isinstance(fitted, StopRule):
            return _of_fitted_rule(data, rows, fitted)
        scores = _scores(data, rows, fitted, self._name)
        if not scores.are_numbers:
            return np.tile(scores.first_at_least(1.0), (1 + len(data.fixed.levels), 1))
        if not tuned:
            msg = (
                f"{self._name}: its fitted function gives numbers, whose threshold has to be chosen on runs that it "
                "was not fitted on: give the object with `fit` the attribute `scores = True`, or return True and False"
            )
            raise SettingError(msg)
        tune = np.flatnonzero(part.tune[data.cell])
        thresholds = thresholds_of(data, tune, _scores(data, tune, fitted, self._name).peaks)
        return np.stack([scores.first_at_least(threshold) for threshold in thresholds])


def _of_fitted_rule(data: Recordings, rows: Ints, rule: StopRule) -> Stops:
    """The stops of a rule, and those at other thresholds if it is one threshold.

    The others are quantiles of its counter's peaks in the runs that are judged, whose labels are not looked at: they
    are for the frontier alone.
    """
    tables = RuleTables([data.runs[row] for row in rows.tolist()])
    levels = len(data.fixed.levels)
    own = (Scoped(rule),)
    if not isinstance(rule, Threshold):
        return np.tile(tables.stops([own])[:, 0], (1 + levels, 1))
    tables.stops([own])
    ledger, _ = tables.ledger("run")
    peaks = np.maximum(ledger.peak(rule.counter), 0)
    known = peaks[peaks < np.iinfo(np.int64).max]
    shares = np.linspace(0.2, 0.95, levels)
    others = [int(value) + 1 for value in np.quantile(known, shares)] if len(known) else [rule.threshold] * levels
    settings = [own, *((Scoped(replace(rule, threshold=value)),) for value in others)]
    return tables.stops(settings).T


# --- Scores -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """The answers of a function for some runs, after each step but the last: the largest so far.

    Attributes:
        first: The place of each run's first answer, and one more.
        largest: The largest answer up to each step.
        are_numbers: Whether a threshold has to be chosen; else 1 is yes and 0 is no.
    """

    first: Ints
    largest: Floats
    are_numbers: bool
    peaks: Floats = field(init=False)

    def __post_init__(self) -> None:
        some = np.diff(self.first) > 0
        peaks = np.full(len(some), -np.inf)
        peaks[some] = self.largest[self.first[1:][some] - 1]
        object.__setattr__(self, "peaks", peaks)

    def first_at_least(self, threshold: float) -> Stops:
        """The number of the first step of each run at which the score is this or more; `NEVER` if there is none."""
        below = np.concatenate(([0], np.cumsum(self.largest < threshold)))
        at = below[self.first[1:]] - below[self.first[:-1]] + 1
        return np.where(self.peaks >= threshold, at, NEVER).astype(np.int32)


def _scores(data: Recordings, rows: Ints, function: StopFunction, name: str) -> Scores:
    """Ask a function about all prefixes of some runs."""
    answers: list[float] = []
    first = [0]
    kinds: set[bool] = set()
    for row in rows.tolist():
        run, largest = data.runs[row], -np.inf
        for k in range(1, len(run.steps)):
            answer: object = function(Prefix(run.agent, run.model, run.steps[:k]))
            if not isinstance(answer, bool | int | float | np.bool_ | np.number) or answer != answer:  # noqa: PLR0124 - NaN
                msg = f"{name}: it gave {answer!r} after step {k} of run {run.run_id}: expected True, False or a number"
                raise SettingError(msg)
            yes = isinstance(answer, bool | np.bool_)
            kinds.add(yes)
            largest = max(largest, float(answer))
            if yes and answer:
                answers += [1.0] * (len(run.steps) - k)
                break
            answers.append(largest)
        first.append(len(answers))
    if len(kinds) > 1:
        raise SettingError(f"{name}: it gave both True or False and numbers: expected one kind of answer")
    return Scores(np.array(first, dtype=np.int64), np.array(answers, dtype=np.float64), False in kinds)


def thresholds_of(data: Recordings, rows: Ints, peaks: Floats) -> list[float]:
    """For each level, the smallest threshold on a score that keeps so many successes of some runs.

    A success is kept if its largest score is below the threshold. Each set of the runs counts the same.
    """
    rows, peaks = rows[data.success[rows]], peaks[data.success[rows]]
    levels = (data.fixed.keep, *data.fixed.levels)
    if not len(rows):
        return [np.inf] * len(levels)
    set_of = data.set_of[rows]
    weight = (1 / np.bincount(set_of)[set_of]) / len(np.unique(set_of))
    order = np.argsort(peaks, kind="stable")
    so_far, ordered = np.cumsum(weight[order]), peaks[order]
    places = [min(int(np.searchsorted(so_far, keep - _ROUNDING)), len(rows) - 1) for keep in levels]
    return [float(np.nextafter(ordered[place], np.inf)) for place in places]
