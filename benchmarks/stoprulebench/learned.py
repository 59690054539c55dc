"""The rule of `bl.learn_stop` as a baseline: learned for each split anew, with each of its two promises.

The features of all runs are computed once. Both promises need the same model wherever they leave it the same runs, so
it is fitted once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from benchmarks.stoprulebench.entries import About, Kind, Prepared, Scores, thresholds_of
from benchmarks.stoprulebench.first_stops import NEVER, RuleTables, Setting, Stops
from benchmarks.stoprulebench.recordings import Floats, Recordings
from benchmarks.stoprulebench.tracks import Part, Track
from boolab.errors import SettingError
from boolab.limits.learned.features import DEFAULT
from boolab.limits.learned.models import ScoreModel, score_of
from boolab.stats.learn.fit import fit_model
from boolab.stats.learn.learn_stop import Question, bound_of, calibration_runs, question_of
from boolab.stats.learn.table import FeatureTable, feature_table, log_odds_of
from boolab.whatif.step_table import Flags, Ints

CALIBRATION: Final = 0.7
"""The share of the tasks that set the threshold: the default of `learn_stop`."""
_SEED: Final = 0


class Fits:
    """The features of recordings, and the models that were fitted to parts of them."""

    def __init__(self) -> None:
        self._of: Recordings | None = None
        self._table: FeatureTable | None = None
        self._peaks: dict[tuple[bytes, bytes], tuple[Scores, Ints]] = {}

    def table(self, data: Recordings) -> FeatureTable:
        """The features of the runs, in their order."""
        if self._table is None or self._of is not data:
            self._of, self._peaks = data, {}
            self._table = feature_table(list(data.runs), DEFAULT, (), "run", "task")
        return self._table

    def scores(self, data: Recordings, fit: Flags, kept: Flags, rows: Ints) -> tuple[Scores, Ints]:
        """The scores of some runs by a model that is fitted to others, and the peaks of the runs that it is to keep."""
        table = self.table(data)
        key = fit.tobytes(), rows.tobytes()
        if key not in self._peaks:
            needed = kept.copy()
            needed[rows] = True
            scores = _scores_of(table, fit_model(table, fit, "logistic", _SEED), needed[table.run])
            self._peaks[key] = _before_the_last(table, scores, rows), table.peaks(scores)
        return self._peaks[key]


@dataclass(frozen=True, kw_only=True)
class LearnedEntry:
    """A rule that is learned on the training runs of each split.

    Attributes:
        about: How a submission describes it.
        confidence: Which of the promises it has: see `bl.learn_stop`.
        fits: The models, which entries can share.
        kind: How it was entered.
    """

    about: About
    confidence: float | None
    fits: Fits = field(repr=False)
    kind: Kind = "function"
    settings: ClassVar[Sequence[Setting]] = ()

    def prepare(self, data: Recordings, tables: RuleTables) -> Prepared:  # noqa: ARG002 - it needs no rules
        question = question_of(
            data.fixed.keep, self.confidence, "logistic", DEFAULT, "task", "run", CALIBRATION, 0, _SEED
        )
        return _Learned(data, self.fits, question)


class _Learned:
    """The rule of each split."""

    def __init__(self, data: Recordings, fits: Fits, question: Question) -> None:
        self._data = data
        self._fits = fits
        self._question = question

    def enters(self, track: Track) -> bool:
        return track != "none"

    def stops(self, part: Part) -> Stops:
        data, table, question = self._data, self._fits.table(self._data), self._question
        train, rows = part.train[data.cell], np.flatnonzero(part.test[data.cell])
        nothing = np.full((1 + len(data.fixed.levels), len(rows)), NEVER, dtype=np.int32)
        try:
            calibration = calibration_runs(table, train, question)
        except SettingError:  # too few tasks with a success for the promise
            return nothing
        fit = train & ~calibration
        if table.success[fit].all() or not table.success[fit].any():
            return nothing
        kept = calibration & table.success
        scores, peaks = self._fits.scores(data, fit, kept, rows)
        bound = bound_of(peaks[kept], table.task[kept], question.keep, question.confidence)
        if bound is None:
            return nothing
        calibrated = np.flatnonzero(kept)
        others = thresholds_of(data, calibrated, peaks[calibrated].astype(np.float64))[1:]
        return np.stack([scores.first_at_least(threshold) for threshold in (bound + 1.0, *others)])


def _scores_of(table: FeatureTable, model: ScoreModel, steps: Flags) -> Ints:
    """N: the scores after some of the steps, and 0 after the others, which take as long as those that are needed."""
    places = [table.names.index(name) for name in model.features]
    scores = np.zeros(len(steps), dtype=np.int64)
    scores[steps] = list(map(score_of, log_odds_of(model, table.features[steps][:, places]).tolist()))
    return scores


def _before_the_last(table: FeatureTable, scores: Ints, rows: Ints) -> Scores:
    """The largest score so far of some runs, after each step but the last."""
    so_far: list[Floats] = []
    for row in rows.tolist():
        steps = slice(int(table.first[row]), max(int(table.first[row + 1]) - 1, int(table.first[row])))
        so_far.append(np.maximum.accumulate(np.where(table.boundary[steps], scores[steps], 0).astype(np.float64)))
    first = np.concatenate(([0], np.cumsum([len(each) for each in so_far]))).astype(np.int64)
    return Scores(first, np.concatenate(so_far) if so_far else np.zeros(0), are_numbers=True)


def learned_baselines(authors: str) -> list[LearnedEntry]:
    """The learned rule with each of its promises.

    Args:
        authors: Who made them.
    """
    fits = Fits()
    promised = {
        "learn_stop, on average": (None, "keeps 95% of the successes on average over rules"),
        "learn_stop, confidence 0.9": (0.9, "keeps all successes of 95% of the tasks with a confidence of 90%"),
    }
    entries = []
    for name, (confidence, words) in promised.items():
        what = f"bl.learn_stop on the training runs: it {words}, and stops nothing where tasks are too few for that."
        definition = f"bl.learn_stop(runs, keep=0.95, confidence={confidence}, scope='run')"
        about = About(name=name, authors=authors, description=what, definition=definition)
        entries.append(LearnedEntry(about=about, confidence=confidence, fits=fits))
    return entries
