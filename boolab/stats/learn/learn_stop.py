"""A stop rule that is learned from labelled runs, with a threshold that keeps successes.

The score of a run is its highest at a boundary. A rule stops a run only if that exceeds a bound, so a run whose score
equals the bound is kept; ties make the rule keep more, never less. The bound comes from tasks that the model has not
seen, with one of two promises:

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from scipy import stats  # type: ignore[import-untyped] # scipy has no types
from tqdm.auto import tqdm

from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import Scope
from boolab.errors import SettingError
from boolab.frames.runs import Runs, as_runs, distinct_runs
from boolab.io.checks import check_name, check_whole
from boolab.limits.detector import Detector, check_detector
from boolab.limits.learned.features import DEFAULT, check_features
from boolab.limits.learned.models import BILLION, ScoreModel
from boolab.limits.learned.rule import LearnedFrom, LearnedRisk, LearnedRule, Promise, learned_rule
from boolab.stats.intervals import check_confidence
from boolab.stats.kept_share import tasks_missing
from boolab.stats.learn.fit import check_trees, fit_model
from boolab.stats.learn.report import HeldOut, judge_held_out, report_of
from boolab.stats.learn.table import FeatureTable, feature_table
from boolab.whatif.step_table import Flags, Ints, check_scope

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
        model, highest_kept, tasks = learn_from(table, everything, question)
        bar.update()

        def held_out_rule(chosen: Flags) -> HeldOut | None:
            rule = _held_out_rule(table, chosen, question)
            bar.update()
            return rule

        held_out_runs = judge_held_out(table, folds, seed, held_out_rule) if folds else None
    promise = Promise(question.keep, question.confidence, tasks)
    n_tasks = int(table.task.max()) + 1
    source = LearnedFrom(
        table.n_runs, int(table.success.sum()), n_tasks, int(table.steps.sum()), table.digest, question.cluster
    )
    report = None
    if folds:
        report = report_of(table, model, highest_kept + 1, promise, held_out_runs)
        report = replace(report, notes=(*repeats, *report.notes)) if repeats else report
    return learned_rule(LearnedRisk(model, question.detectors), highest_kept + 1, promise, source, report)


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
        check_whole(folds, "learn_stop: folds", 2)
    feature_list = [features] if isinstance(features, str) else list(features)
    detectors = [feature for feature in feature_list if not isinstance(feature, str)]
    for detector in detectors:
        check_detector(detector)
    names = [feature if isinstance(feature, str) else feature.name for feature in feature_list]
    check_features(names, [detector.name for detector in detectors])
    return Question(
        keep, confidence, estimator, tuple(names), tuple(detectors), cluster, calibration, check_whole(seed, "seed", 0)
    )


def _check_labels(runs: Sequence[Run]) -> None:
    """Raise `SettingError` where there is nothing to learn from."""
    if not runs:
        msg = "no run has a label: learn_stop learns from runs whose success is True or False (see bl.label)"
        raise SettingError(msg)
    successes = sum(run.success is True for run in runs)
    if successes in (0, len(runs)):
        outcome = "succeeded" if successes else "failed"
        msg = f"all {count(len(runs), 'labelled run')} {outcome}: a rule is learned from runs of both kinds"
        raise SettingError(msg)


def learn_from(table: FeatureTable, runs: Flags, question: Question) -> tuple[ScoreModel, int, int]:
    """The model, the highest score that is kept, and the number of calibration tasks with a success."""
    calibration = calibration_runs(table, runs, question)
    fit = runs & ~calibration
    if table.success[fit].all():
        msg = "no run failed of those that the model is fitted to: more runs are needed"
        raise SettingError(msg)
    model = fit_model(table, fit, question.estimator, question.seed)
    calibration_successes = calibration & table.success
    peaks = table.peaks(table.scores(model))
    highest_kept = bound_of(
        peaks[calibration_successes], table.task[calibration_successes], question.keep, question.confidence
    )
    if highest_kept is None:
        raise SettingError(_too_few_message(len(np.unique(table.task[calibration_successes])), question))
    return model, min(highest_kept, BILLION), len(np.unique(table.task[calibration_successes]))


def calibration_runs(table: FeatureTable, runs: Flags, question: Question) -> Flags:
    """Whether each run is of a task that sets the threshold, drawn from tasks with and without a success."""
    rng = np.random.default_rng(question.seed)
    having = np.unique(table.task[runs & table.success])
    tasks_without = np.setdiff1d(np.unique(table.task[runs]), having)
    n_needed = tasks_needed(question.keep, question.confidence)
    n = max(n_needed, round(question.calibration * len(having)))
    if len(having) - n < MIN_FIT_TASKS:
        raise SettingError(_too_few_message(len(having), question))
    chosen_tasks = [
        *rng.permutation(having)[:n],
        *rng.permutation(tasks_without)[: round(len(tasks_without) * n / len(having))],
    ]
    return runs & np.isin(table.task, chosen_tasks)


def _too_few_message(having: int, question: Question) -> str:
    """The message that there are too few tasks with a success."""
    n_needed = tasks_needed(question.keep, question.confidence)
    word = "task" if question.cluster == "task" else question.cluster
    promise = f"keep={question.keep:g} and confidence={question.confidence}"
    weaker_promise = f", or confidence=None, which needs {tasks_needed(question.keep, None)} and promises less"
    weaker_promise = "" if question.confidence is None else weaker_promise
    return (
        f"{count(having, word)} with a success: {promise} needs {n_needed} to set the threshold, and {MIN_FIT_TASKS} "
        f"more to fit the model; use runs of more tasks, a smaller keep{weaker_promise}"
    )


def _held_out_rule(table: FeatureTable, runs: Flags, question: Question) -> HeldOut | None:
    """The scores and the threshold of a rule that is learned from some of the runs; None if they are too few."""
    try:
        model, highest_kept, _ = learn_from(table, runs, question)
    except SettingError:
        return None
    return HeldOut(table.scores(model), highest_kept + 1)


_ROUNDING: Final = 1e-12


def tasks_needed(keep: float, confidence: float | None) -> int:
    """The least number of calibration tasks with a success for which there is a bound."""
    return math.ceil(keep / (1 - keep) - 1e-9) if confidence is None else tasks_missing([], [], keep, 1 - confidence)


def rank_of(tasks: int, keep: float, confidence: float) -> int:
    """The least r for which the r-th smallest of so many scores keeps `keep` at `confidence`; else `tasks` + 1."""
    ranks = np.arange(1, tasks + 1)
    fine = stats.binom.cdf(ranks - 1, tasks, keep) >= confidence - _ROUNDING
    return int(ranks[fine][0]) if fine.any() else tasks + 1


def bound_of(peaks: Ints, tasks: Ints, keep: float, confidence: float | None) -> int | None:
    """The highest score that is kept, promised at `confidence` (None: on average); None if tasks are too few."""
    _, code, sizes = np.unique(tasks, return_inverse=True, return_counts=True)
    n = len(sizes)
    if confidence is not None:
        highest = np.zeros(n, dtype=np.int64)
        np.maximum.at(highest, code, peaks)
        rank = rank_of(n, keep, confidence)
        return None if rank > n else int(np.sort(highest)[rank - 1])
    order = np.argsort(peaks, kind="stable")
    mass = np.cumsum(1 / sizes[code[order]]) / (n + 1)
    position = int(np.searchsorted(mass, keep - _ROUNDING))
    return None if position >= len(order) else int(peaks[order[position]])
