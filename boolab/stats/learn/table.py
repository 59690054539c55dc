"""The features of recorded runs after each step, all that a fit needs to know of each run, and the scores of models.

The log-odds of a model for a whole table are the same sums as `ScoreModel.log_odds`, in the same order: a rule that is
evaluated live and one that is evaluated here must stop at the same step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import chain

import numpy as np

from boolab.core.gc_pause import pause_collection
from boolab.core.run import Run
from boolab.core.types import Scope
from boolab.errors import SettingError, near
from boolab.frames.runs import turns_of
from boolab.frames.tables import runs_df
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detector import Detector
from boolab.limits.learned.features import FeatureReader
from boolab.limits.learned.models import LinearModel, ScoreModel, Tree, TreeModel, score_of
from boolab.stats.intervals import Array
from boolab.stats.units import units_of
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.step_table import Flags, Ints


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """R labelled runs of N steps, in order."""

    names: tuple[str, ...]  # the names of F features
    features: Array  # n x F: their values after each step; NaN where one is not known
    first: Ints  # r + 1 offsets: the steps of run r are `first[r]` to `first[r + 1]`
    run: Ints  # N: the run of each step
    boundary: Flags  # N: whether a rule is evaluated after the step, with the limits of the recording in force
    span: Ints  # N: the turn of the step where counters start again in each, numbered through all runs; else its run
    after: Ints  # N: how many steps of its span come after it
    success: Flags  # R: whether the run succeeded
    task: Ints  # R: the number of each run's task (or other cluster), from 0
    digest: str  # SHA-256 over the runs' ids, tasks and labels, and the features

    @property
    def n_runs(self) -> int:
        """R."""
        return len(self.success)

    @property
    def steps(self) -> Ints:
        """R: the steps of each run."""
        return np.diff(self.first)

    def take(self, runs: Ints, task: Ints) -> FeatureTable:
        """Some of the runs, in this order and as often as they are named, with tasks of their own."""
        lengths = self.steps[runs]
        first = np.concatenate(([0], np.cumsum(lengths)))
        run = np.repeat(np.arange(len(runs)), lengths)
        steps = np.arange(first[-1]) + (self.first[runs] - first[:-1])[run]
        opens = np.diff(self.span[steps], prepend=-1) != 0
        opens[first[:-1][lengths > 0]] = True
        return replace(
            self,
            features=self.features[steps],
            first=first,
            run=run,
            boundary=self.boundary[steps],
            span=np.cumsum(opens) - 1,
            after=self.after[steps],
            success=self.success[runs],
            task=task,
        )

    def weights(self, runs: Flags) -> Array:
        """N: one for each of some runs, divided among its boundaries: so each run counts once, however long it is."""
        weighted_steps = self.boundary & runs[self.run]
        per_run = np.bincount(self.run[weighted_steps], minlength=self.n_runs)
        return np.asarray(weighted_steps / np.maximum(per_run, 1)[self.run], dtype=float)

    def stakes(self, runs: Flags) -> Array:
        """N: as `weights`, but within failures each boundary by the steps that a stop there saves.

        Failures count as much in total as they do in `weights`. The odds that a model gives under these weights are
        what a stop saves over what it loses.
        """
        weights = self.weights(runs)
        failed = ~self.success[self.run]
        saved = np.where(failed, weights * self.after, 0.0)
        rate = float(weights[failed].sum()) / max(float(saved.sum()), 1.0)
        return np.where(failed, rate * saved, weights)

    def scores(self, model: ScoreModel) -> Ints:
        """N: the score of a model after each step, as its detector counts it."""
        columns = [self.names.index(name) for name in model.features]
        return np.fromiter(map(score_of, log_odds_of(model, self.features[:, columns]).tolist()), dtype=np.int64)

    def peaks(self, scores: Ints) -> Ints:
        """R: the highest score at a boundary of each run; 0 where there is none."""
        peak = np.zeros(self.n_runs, dtype=np.int64)
        np.maximum.at(peak, self.run[self.boundary], scores[self.boundary])
        return peak

    def saved_steps(self, scores: Ints, threshold: int) -> Ints:
        """R: how many steps of each run a rule with this threshold would have saved: those after it in its span."""
        fired = np.flatnonzero(self.boundary & (scores >= threshold))
        _, firsts = np.unique(self.span[fired], return_index=True)
        first_stops = fired[firsts]
        return np.bincount(self.run[first_stops], weights=self.after[first_stops], minlength=self.n_runs).astype(
            np.int64
        )


def feature_table(
    runs: Sequence[Run], names: Sequence[str], detectors: Sequence[Detector], scope: Scope, cluster: str
) -> FeatureTable:
    """The table of labelled runs."""
    ledger = ledger_of(runs, scope=scope).apply_own_limits()
    reader = FeatureReader(names, detectors)
    by_turn = (ledger.runs["scope"] == "turn").tolist()
    with pause_collection():
        rows_by_run = (_rows(run, reader, turns=turns) for run, turns in zip(runs, by_turn, strict=True))
        rows = list(chain.from_iterable(rows_by_run))
    values = np.array(rows, dtype=float).reshape(-1, len(names))
    opens = ledger.opens()
    span = np.cumsum(opens) - 1
    ends = np.append(np.flatnonzero(opens)[1:], ledger.n_steps)
    task = _clusters(runs, cluster)
    success = np.array([run.success is True for run in runs], dtype=bool)
    digest = hashlib.sha256()
    for run, code in zip(runs, task.tolist(), strict=True):
        digest.update(f"{run.run_id}\t{code}\t{run.success}\t{len(run.steps)}\n".encode("utf-8", "surrogatepass"))
    digest.update(np.ascontiguousarray(values).tobytes())
    return FeatureTable(
        tuple(names),
        values,
        ledger.first,
        np.repeat(np.arange(ledger.n_runs), np.diff(ledger.first)),
        ledger.boundary,
        span,
        ends[span] - np.arange(ledger.n_steps) - 1,
        success,
        task,
        digest.hexdigest(),
    )


def _rows(run: Run, reader: FeatureReader, *, turns: bool) -> Iterator[list[float | None]]:
    """The values after each step, as `Watch` and `ledger_of` count: anew in each turn where `turns` is true."""
    state, number = reader.start, 0
    for turn_index, (_, steps) in enumerate(turns_of(run)):
        if turns and turn_index:
            state, number = reader.start, 0
        for step in steps:
            if step.counted:
                number += 1
                text = step.response.text
                for call, result in zip(step.response.tool_calls, step.results, strict=True):
                    if result is not None:
                        state = reader.fold(state, ObservedCall(call, result, number, text))
                        text = ""
                state = reader.close(state, step.response)
            yield reader.values(state)


def _clusters(runs: Sequence[Run], cluster: str) -> Ints:
    """The number of each run's cluster, in order of first appearance."""
    if cluster == "task":
        names = units_of(runs, scope="run")["cluster"].tolist()
    else:
        table = runs_df(runs)
        if cluster not in table:
            msg = f"cluster={cluster!r}: there is no such column{near(cluster, [*table.columns], 'columns')}"
            raise SettingError(msg)
        if table[cluster].isna().any():
            run = table["run_id"][table[cluster].isna()].iloc[0]
            raise SettingError(f"cluster={cluster!r}: run {run!r} has no value: expected one for each run")
        names = table[cluster].tolist()
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.array([codes[name] for name in names], dtype=np.int64)


def log_odds_of(model: ScoreModel, features: Array) -> Array:
    """The log-odds for each row of features; NaN is a value that is not known."""
    filled = np.where(np.isnan(features), np.asarray(model.unknown), features)
    return _log_odds(model, filled)


@singledispatch
def _log_odds(model: ScoreModel, features: Array) -> Array:
    return np.array([model.log_odds(row) for row in features.tolist()], dtype=float)


@_log_odds.register
def _(model: LinearModel, features: Array) -> Array:
    total = np.full(len(features), model.intercept)
    for weight, column in zip(model.weights, features.T, strict=True):
        total += weight * column
    return total


@_log_odds.register
def _(model: TreeModel, features: Array) -> Array:
    total = np.full(len(features), model.intercept)
    for tree in model.trees:
        total += _leaves(tree, features)
    return total


def _leaves(tree: Tree, features: Array) -> Array:
    if not isinstance(tree, tuple):
        return np.full(len(features), tree)
    feature_index, split_value, low, high = tree
    return np.where(features[:, feature_index] <= split_value, _leaves(low, features), _leaves(high, features))
