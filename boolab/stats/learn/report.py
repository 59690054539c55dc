"""What a learned rule saves and keeps on tasks that it was not learned from, as numbers and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.core.text import count
from boolab.display.numbers import percent
from boolab.limits.learned.features import DEFAULT, FEATURES
from boolab.limits.learned.models import BILLION, LinearModel, ScoreModel, Tree, TreeModel
from boolab.limits.learned.rule import Promise
from boolab.stats.finding import Finding
from boolab.stats.intervals import ClusterBootstrap
from boolab.stats.learn.fit import moments
from boolab.stats.learn.table import FeatureTable
from boolab.whatif.step_table import Flags, Ints

_BINS: Final = 10
_MAX_FEATURES: Final = 5
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class LearnReport(Finding):
    """What a learned rule saves and keeps on held-out tasks, and what it goes by.

    Args:
        title: What it is about.
        frame: One row: `n_runs`, `successes`, `n_tasks`, `saved_share` of all steps, `kept_share` of the successes, and
            `tasks_kept_share` of the tasks with a success, each with `_low` and `_high` (95%, over tasks). NA where
            there are too few tasks to hold some out.
        sentences: What they show, in plain words.
        notes: What limits the answer.
        table: What is shown of the features.
        tests: None.
        reliability: A row for each tenth of the boundaries, by score (each run counts once): the mean `estimate` of
            failure, the share that `failed`, and the number of `boundaries` and `runs`.
        features: A row for each feature: `weight` (logistic: log-odds for one unit), `effect` (logistic: log-odds for
            one standard deviation; trees: the share of all splits), `mean`, and what it is (`about`).
    """

    reliability: pd.DataFrame = field(default_factory=pd.DataFrame)
    features: pd.DataFrame = field(default_factory=pd.DataFrame)


def report_of(
    table: FeatureTable, model: ScoreModel, threshold: int, promise: Promise, held_out_runs: HeldOutRuns | None
) -> LearnReport:
    """The report on a rule, from runs that were judged by rules learned without their tasks."""
    features = _effects_df(table, model)
    frame = _frame(table, held_out_runs)
    reliability = pd.DataFrame() if held_out_runs is None else reliability_df(table, held_out_runs)
    estimate = f"{100 * threshold / BILLION:.4g}%"
    never_stops = "It stops no run: a success had the highest estimate that there is."
    stops = f"It stops a run after a step at which its estimate of failure is {estimate} or more."
    words = [stops if threshold <= BILLION else never_stops, str(promise)]
    learned_from = (
        f"Learned from {count(table.n_runs, 'run')} of {count(int(table.task.max()) + 1, 'task')}, with "
        f"{count(int(table.success.sum()), 'success', 'successes')}; the threshold was set on "
        f"{count(promise.calibration_tasks, 'task')} with a success."
    )
    notes = [learned_from]
    never = [
        table.names[feature_index] for feature_index in np.flatnonzero(np.isnan(table.features).all(axis=0)).tolist()
    ]
    if never:
        notes.append(f"Never known in these runs, and without a weight: {', '.join(never)}.")
    if held_out_runs is None:
        notes.append(
            "There are too few tasks to hold some out, so what the rule saves and keeps elsewhere is not known."
        )
    else:
        words += [_held_out_sentence(frame, held_out_runs), _calibration(reliability)]
    words += _effects(features, model)
    return LearnReport(
        title="A stop rule that was learned from runs",
        frame=frame,
        sentences=tuple(words),
        notes=tuple(notes),
        table=features.head(2 * _MAX_FEATURES),
        reliability=reliability,
        features=features,
    )


def _frame(table: FeatureTable, held_out_runs: HeldOutRuns | None) -> pd.DataFrame:
    success, tasks = table.success, np.unique(table.task[table.success])
    row: dict[str, list[object]] = {
        "n_runs": [table.n_runs],
        "n_tasks": [int(table.task.max()) + 1],
        "successes": [int(success.sum())],
        "tasks_with_success": [len(tasks)],
    }
    shares: dict[str, tuple[object, object, object]] = dict.fromkeys(
        ("saved_share", "kept_share", "tasks_kept_share"), (np.nan, np.nan, np.nan)
    )
    if held_out_runs is not None:
        bootstrap = ClusterBootstrap(table.task)
        saved = bootstrap.share(held_out_runs.saved, table.steps, _CONFIDENCE)
        kept_share = bootstrap.share(held_out_runs.kept & success, success, _CONFIDENCE)
        tasks_lost = np.unique(table.task[success & ~held_out_runs.kept])
        whole_tasks = ClusterBootstrap(tasks).share(~np.isin(tasks, tasks_lost), np.ones(len(tasks)), _CONFIDENCE)
        shares = {
            name: (float(estimate.value), float(estimate.low), float(estimate.high))
            for name, estimate in zip(shares, (saved, kept_share, whole_tasks), strict=True)
        }
    for name, values in shares.items():
        row |= {f"{name}{end}": [value] for end, value in zip(("", "_low", "_high"), values, strict=True)}
    return pd.DataFrame(row)


def reliability_df(table: FeatureTable, held_out_runs: HeldOutRuns) -> pd.DataFrame:
    """Estimates of failure against what happened, in tenths of the boundaries by score; each run counts once."""
    weights = table.weights(np.ones(table.n_runs, dtype=bool))
    rows = np.flatnonzero(weights > 0)
    order = rows[np.argsort(held_out_runs.score[rows], kind="stable")]
    weight_share = np.cumsum(weights[order]) / weights[order].sum()
    bins = np.minimum((weight_share * _BINS - 1e-9).astype(int), _BINS - 1)
    frame = pd.DataFrame(
        {
            "tenth": bins + 1,
            "weight": weights[order],
            "estimate": held_out_runs.score[order] / BILLION * weights[order],
            "failed": (~table.success[table.run[order]]) * weights[order],
            "run": table.run[order],
        }
    )
    groups = frame.groupby("tenth")
    sums = groups[["weight", "estimate", "failed"]].sum()
    out = sums[["estimate", "failed"]].div(sums["weight"], axis=0)
    return out.assign(boundaries=groups.size(), runs=groups["run"].nunique()).reset_index()


def features_df() -> pd.DataFrame:
    """The features that `bl.learn_stop` can learn from.

    Returns:
        A row for each feature: `feature` (its name), `default` (whether it is used if none are named), `about` (what it
        is after each step), `family` (the fold that counts it) and `source` (the harness that has a limit on it, or
        "own").

    Example:
        >>> features_df().query("family == 'errors'")["feature"].tolist()
        ['error_streak', 'error_share', 'error_recent']
    """
    rows = [
        (feature.name, feature.name in DEFAULT, feature.meaning, feature.fold, feature.source)
        for feature in FEATURES.values()
    ]
    return pd.DataFrame(rows, columns=["feature", "default", "about", "family", "source"])


def _effects_df(table: FeatureTable, model: ScoreModel) -> pd.DataFrame:
    """The features of a model, the most important first."""
    weights = table.weights(np.ones(table.n_runs, dtype=bool))
    rows = weights > 0
    mean, scale = moments(table.features[rows], weights[rows])
    descriptions = [
        FEATURES[name].meaning if name in FEATURES else "log(1 + the detector's count)" for name in model.features
    ]
    frame = pd.DataFrame({"feature": model.features, "mean": mean, "about": descriptions})
    if isinstance(model, LinearModel):
        slopes = np.array(model.weights)
        frame.insert(1, "weight", slopes)
        frame.insert(2, "effect", slopes * scale)
    elif isinstance(model, TreeModel):
        splits = np.bincount([*_splits(model.trees)], minlength=len(model.features))
        frame.insert(1, "effect", splits / max(splits.sum(), 1))
    return frame.sort_values("effect", key=abs, ascending=False, kind="stable", ignore_index=True)


def _splits(trees: tuple[Tree, ...]) -> Iterator[int]:
    for tree in trees:
        if isinstance(tree, tuple):
            yield tree[0]
            yield from _splits(tree[2:])


def _held_out_sentence(frame: pd.DataFrame, held_out_runs: HeldOutRuns) -> str:
    row = frame.iloc[0]

    def share(name: str) -> str:
        low, high = percent(row[f"{name}_low"]), percent(row[f"{name}_high"])
        return f"{percent(row[name])} ({low} to {high})"

    return (
        f"On held-out tasks ({held_out_runs.folds} rules, each learned without a part of the tasks; in brackets 95% "
        f"intervals over tasks), it saves {share('saved_share')} of the steps and keeps {share('kept_share')} of "
        f"{count(int(row['successes']), 'success', 'successes')}; all successes are kept in "
        f"{share('tasks_kept_share')} of {count(int(row['tasks_with_success']), 'task')} with one."
    )


def _calibration(reliability: pd.DataFrame) -> str:
    gaps = (reliability["estimate"] - reliability["failed"]).abs()
    low, high = reliability.iloc[0], reliability.iloc[-1]
    return (
        "Its estimates of failure and the share of runs that failed differ by "
        f"{100 * gaps.mean():.0f} points on average over tenths of the boundaries, {100 * gaps.max():.0f} at most: in "
        f"the lowest tenth it gives {percent(low['estimate'])} and {percent(low['failed'])} failed, in the highest "
        f"{percent(high['estimate'])} and {percent(high['failed'])}."
    )


def _effects(features: pd.DataFrame, model: ScoreModel) -> Iterator[str]:
    if isinstance(model, LinearModel):
        for sign, verb in ((1, "raises"), (-1, "lowers")):
            features_with_sign = features[sign * features["effect"] > 0].head(_MAX_FEATURES)
            if len(features_with_sign):
                names = "; ".join(
                    f"{name} ({description})"
                    for name, description in zip(
                        features_with_sign["feature"], features_with_sign["about"], strict=True
                    )
                )
                yield f"What {verb} the estimate most: {names}."
    else:
        features_with_sign = features[features["effect"] > 0].head(_MAX_FEATURES)
        yield f"What the trees split by most: {', '.join(features_with_sign['feature'])}."


class HeldOut(NamedTuple):
    """A rule: its score after each step of the whole table, and its threshold."""

    scores: Ints
    threshold: int


class HeldOutRuns(NamedTuple):
    """Runs, each judged by a rule that was learned without its task."""

    score: Ints  # N: the score after each step
    kept: Flags  # R: whether no boundary reaches the threshold
    saved: Ints  # R: how many steps are saved
    folds: int  # how many rules there are


def judge_held_out(
    table: FeatureTable, folds: int, seed: int, learn: Callable[[Flags], HeldOut | None]
) -> HeldOutRuns | None:
    """Judge each run by a rule that `learn` makes of the other parts; None if a part leaves too few runs."""
    tasks = np.random.default_rng(seed).permutation(int(table.task.max()) + 1)
    part = np.argsort(tasks)[table.task] % folds
    score = np.zeros(len(table.run), dtype=np.int64)
    is_kept, saved = np.zeros(table.n_runs, dtype=bool), np.zeros(table.n_runs, dtype=np.int64)
    for fold in range(folds):
        fold_runs = part == fold
        rule = learn(~fold_runs)
        if rule is None:
            return None
        steps = fold_runs[table.run]
        score[steps] = rule.scores[steps]
        is_kept[fold_runs] = (table.peaks(rule.scores) < rule.threshold)[fold_runs]
        saved[fold_runs] = table.saved_steps(rule.scores, rule.threshold)[fold_runs]
    return HeldOutRuns(score, is_kept, saved, folds)
