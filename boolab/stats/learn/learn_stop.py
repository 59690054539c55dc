"""A stop rule that is learned from labelled runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from tqdm.auto import tqdm

from boolab.core.text import count
from boolab.core.types import Run, Scope
from boolab.errors import SettingError
from boolab.frames.runs import Runs, as_runs, distinct_runs
from boolab.io.checks import check_name, whole
from boolab.limits.detector import Detector, check_detector
from boolab.limits.learned.features import DEFAULT, check_features
from boolab.limits.learned.models import BILLION, Model
from boolab.limits.learned.risk import LearnedRisk
from boolab.limits.learned.rule import LearnedFrom, LearnedRule, Promise, learned_rule
from boolab.stats.intervals import check_confidence
from boolab.stats.learn.fit import fit_model
from boolab.stats.learn.held_out import HeldOut, held_out
from boolab.stats.learn.report import report_of
from boolab.stats.learn.table import FeatureTable, feature_table
from boolab.stats.learn.thresholds import bound_of, tasks_needed
from boolab.stats.learn.trees import check_trees
from boolab.whatif.scopes import check_scope
from boolab.whatif.step_table import Flags

Estimator: TypeAlias = Literal["logistic", "trees"]

MIN_FIT_TASKS: Final = 5
"""The least number of tasks with a success that are left to fit the model."""


def learn_stop(
    runs: Runs,
    *,
    keep: float = 0.95,
    confidence: float | None = 0.9,
    estimator: Estimator = "logistic",
    features: Sequence[str | Detector] = DEFAULT,
    cluster: str = "task",
    scope: Scope = "auto",
    calibration: float = 0.7,
    folds: int = 5,
    seed: int = 0,
    progress: bool = True,
) -> LearnedRule:
    """Learn a stop rule from labelled runs, with a promise about the successes that it keeps.

    After each step, a model estimates from what is known by then how likely the run is to fail; the rule stops a run
    whose estimate reaches a threshold. It is a stop rule like any other: it runs live and in shadow, and in
    `scorecard`, `counterfactual` and `bl.stats.frontier`.

    The tasks are divided into two parts at random. The model is fitted to one; see
    `boolab.stats.learn.fit` for how. The threshold is set on the other, so that it keeps successes that the model has
    not seen, with one of two promises:

    - `confidence=0.9` is about this rule. With probability 0.9 or more, it keeps *all* successes of at least `keep` of
      the tasks that have one. A task is kept only if each of its successes is, so the promise depends on how often
      tasks are run here. It needs 45 calibration tasks with a success for `keep=0.95`.
    - `confidence=None` is on average over rules. A random success of a random new task is kept with probability `keep`
      or more, if rules are learned like this one again and again; this one may keep less. It stops more, and needs 19
      calibration tasks with a success.

    Both need no assumption about the model, and hold for tasks that are drawn like those of `runs`: not for another
    agent, model or harness. Where success itself would change under the rule (an agent that sees it), neither holds.

    Args:
        runs: Runs with labels (see `bl.label`), of one or more tasks; those without a label are left out.
        keep: The share of tasks, or of successes, to keep.
        confidence: The probability of the promise about this rule; None for the promise on average.
        estimator: `logistic`, or `trees` (gradient boosting, which needs the extra `learn` to be fitted, and for
            small data is worse).
        features: Names of features of `bl.stats.features_df()`, all that need no tokens by default; a detector is a
            feature too (the log of 1 + its count). One that is never known in these runs, or never varies, has no
            weight. Where a value is not known later, its mean here takes its place.
        cluster: What is drawn at random: `task`, or another column of `runs_df`, such as a repository, if tasks of one
            resemble each other. Where no task is named, it is the run.
        scope: Where counters start anew: see `counterfactual`.
        calibration: The share of the tasks that set the threshold; more, if the promise needs more.
        folds: How many rules are learned for the report, each without a part of the tasks; 0 for no report.
        seed: Of the division of the tasks, and of `trees`.
        progress: Whether to show a progress bar, if it takes more than a second.

    Returns:
        The rule. `rule.report` has what it saves and keeps on tasks that were held out, how well its estimates are
        calibrated, and which features matter; `bl.stats.save_rule` writes it to a file.

    Raises:
        SettingError: if there are too few tasks with a success, no run failed, or an argument is not one of those
            above.

    Example:
        >>> import boolab as bl
        >>> from dataclasses import replace
        >>> def play(n):
        ...     pages = range(2 + n % 4) if n % 2 else [m % 2 for m in range(12)]
        ...     looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": page}}]} for page in pages]
        ...     run = bl.run_sync(None, "Look", model=bl.ScriptedModel([*looks, "Done."]))
        ...     return replace(run, task=f"task {n}", success=n % 2 == 1)
        >>> rule = bl.learn_stop([play(n) for n in range(120)], confidence=None)
        >>> print(rule.promise)
        On average over rules learned like this one, a success of a new task is kept with probability 95% or more.
        >>> rule.report["kept_share"].tolist(), bool(rule.report["saved_share"][0] > 0.3)
        ([1.0], True)
    """
    question = question_of(keep, confidence, estimator, features, cluster, scope, calibration, folds, seed)
    distinct, repeats = distinct_runs(as_runs(runs))
    labelled = [run for run in distinct if run.success is not None]
    _check_labels(labelled)
    table = feature_table(labelled, question.names, question.detectors, scope, cluster)
    everything = np.ones(table.n_runs, dtype=bool)
    with tqdm(total=folds + 1, unit="fit", disable=not progress, delay=1) as bar:
        model, bound, tasks = learn_from(table, everything, question)
        bar.update()

        def held_out_rule(chosen: Flags) -> HeldOut | None:
            rule = _held_out_rule(table, chosen, question)
            bar.update()
            return rule

        judged = held_out(table, folds, seed, held_out_rule) if folds else None
    promise = Promise(question.keep, question.confidence, tasks)
    n_tasks = int(table.task.max()) + 1
    source = LearnedFrom(
        table.n_runs, int(table.success.sum()), n_tasks, int(table.steps.sum()), table.digest, question.cluster
    )
    report = None
    if folds:
        report = report_of(table, model, bound + 1, promise, judged)
        report = replace(report, notes=(*repeats, *report.notes)) if repeats else report
    return learned_rule(LearnedRisk(model, question.detectors), bound + 1, promise, source, report)


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be learned: the checked arguments of `learn_stop`."""

    keep: float
    confidence: float | None
    estimator: str
    names: tuple[str, ...]
    detectors: tuple[Detector, ...]
    cluster: str
    calibration: float
    seed: int


def question_of(
    keep: float,
    confidence: float | None,
    estimator: str,
    features: Iterable[str | Detector],
    cluster: str,
    scope: Scope,
    calibration: float,
    folds: int,
    seed: int,
) -> Question:
    """The question of `learn_stop`, whose arguments these are."""
    check_confidence(keep, "keep")
    if confidence is not None:
        check_confidence(confidence)
    check_confidence(calibration, "calibration")
    check_name(estimator, get_args(Estimator), f"estimator={estimator!r} is not known")
    if estimator == "trees":
        check_trees()
    check_scope(scope)
    if folds != 0:
        whole(folds, "learn_stop: folds", 2)
    listed = [features] if isinstance(features, str) else list(features)
    detectors = [one for one in listed if not isinstance(one, str)]
    for detector in detectors:
        check_detector(detector)
    names = [one if isinstance(one, str) else one.name for one in listed]
    check_features(names, [detector.name for detector in detectors])
    return Question(
        keep, confidence, estimator, tuple(names), tuple(detectors), cluster, calibration, whole(seed, "seed", 0)
    )


def _check_labels(runs: Sequence[Run]) -> None:
    """Raise `SettingError` where there is nothing to learn from."""
    if not runs:
        msg = "no run has a label: learn_stop learns from runs whose success is True or False (see bl.label)"
        raise SettingError(msg)
    successes = sum(run.success is True for run in runs)
    if successes in (0, len(runs)):
        which = "succeeded" if successes else "failed"
        msg = f"all {count(len(runs), 'labelled run')} {which}: a rule is learned from runs of both kinds"
        raise SettingError(msg)


def learn_from(table: FeatureTable, runs: Flags, question: Question) -> tuple[Model, int, int]:
    """The model, the highest score that is kept, and the number of calibration tasks with a success."""
    calibration = calibration_runs(table, runs, question)
    fit = runs & ~calibration
    if table.success[fit].all():
        msg = "no run failed of those that the model is fitted to: more runs are needed"
        raise SettingError(msg)
    model = fit_model(table, fit, question.estimator, question.seed)
    kept = calibration & table.success
    peaks = table.peaks(table.scores(model))
    bound = bound_of(peaks[kept], table.task[kept], question.keep, question.confidence)
    if bound is None:
        raise SettingError(_too_few(len(np.unique(table.task[kept])), question))
    return model, min(bound, BILLION), len(np.unique(table.task[kept]))


def calibration_runs(table: FeatureTable, runs: Flags, question: Question) -> Flags:
    """Whether each run is of a task that sets the threshold.

    Tasks with a success are drawn apart from those without, so that both parts have their share of both.
    """
    rng = np.random.default_rng(question.seed)
    having = np.unique(table.task[runs & table.success])
    others = np.setdiff1d(np.unique(table.task[runs]), having)
    needed = tasks_needed(question.keep, question.confidence)
    n = max(needed, round(question.calibration * len(having)))
    if len(having) - n < MIN_FIT_TASKS:
        raise SettingError(_too_few(len(having), question))
    chosen = [*rng.permutation(having)[:n], *rng.permutation(others)[: round(len(others) * n / len(having))]]
    return runs & np.isin(table.task, chosen)


def _too_few(having: int, question: Question) -> str:
    """The message that there are too few tasks with a success."""
    needed = tasks_needed(question.keep, question.confidence)
    word = "task" if question.cluster == "task" else question.cluster
    promise = f"keep={question.keep:g} and confidence={question.confidence}"
    less = f", or confidence=None, which needs {tasks_needed(question.keep, None)} and promises less"
    less = "" if question.confidence is None else less
    return (
        f"{count(having, word)} with a success: {promise} needs {needed} to set the threshold, and {MIN_FIT_TASKS} "
        f"more to fit the model; use runs of more tasks, a smaller keep{less}"
    )


def _held_out_rule(table: FeatureTable, runs: Flags, question: Question) -> HeldOut | None:
    """The scores and the threshold of a rule that is learned from some of the runs; None if they are too few."""
    try:
        model, bound, _ = learn_from(table, runs, question)
    except SettingError:
        return None
    return HeldOut(table.scores(model), bound + 1)
