"""Fits a model to some of the runs of a table: first which runs to stop, then how sure the estimate is.

The odds of a model that is fitted with `FeatureTable.stakes` are those of what a stop saves over what it loses, so that
the order of its scores is one that saves many steps for each success. They are not the odds of failure. A second fit of
two numbers, slope and intercept, to tasks that the model has not seen makes them so without changing their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

import numpy as np

from boolab.limits.learned.models import LinearModel, Model, Tree, TreeModel
from boolab.stats.learn.logistic import FOLDS, Array, calibration_of, fit_logistic, penalty_of
from boolab.stats.learn.predict import log_odds_of
from boolab.stats.learn.table import FeatureTable
from boolab.stats.learn.trees import fit_trees
from boolab.whatif.step_table import Flags, Ints

_DIGITS = 6


def fit_model(table: FeatureTable, runs: Flags, estimator: str, seed: int) -> Model:
    """A model of failure, fitted to the boundaries of some runs, among which are successes and failures.

    Its numbers are rounded to six significant digits, so that a rule that is read from its file is the same.

    `runs`: R: which of them to fit it to.
    """
    weights = table.weights(runs)
    rows = np.flatnonzero(weights > 0)
    values, failed = table.features[rows], (~table.success[table.run[rows]]).astype(float)
    stakes, task = table.stakes(runs)[rows], table.task[table.run[rows]]
    penalty = penalty_of(values, failed, stakes, task) if estimator == "logistic" else 0.0

    def fit(some: Flags) -> Model:
        if estimator == "trees":
            return fit_trees(values[some], failed[some], stakes[some], table.names, seed)
        return fit_logistic(values[some], failed[some], stakes[some], table.names, penalty)

    model = fit(np.ones(len(rows), dtype=bool))
    slope, intercept = calibration_of(_held_out(fit, model, values, failed, task), failed, weights[rows])
    return _rescaled(model, slope, intercept)


def _held_out(fit: Callable[[Flags], Model], model: Model, values: Array, failed: Array, task: Ints) -> Array:
    """The log-odds of each row by a model that has not seen its task; by the model, where a part lacks a class."""
    fold = np.unique(task, return_inverse=True)[1] % FOLDS
    log_odds = log_odds_of(model, values)
    for one in range(FOLDS):
        others = fold != one
        if 0 < failed[others].mean() < 1:
            log_odds[~others] = log_odds_of(fit(others), values[~others])
    return log_odds


@singledispatch
def _rescaled(model: Model, slope: float, intercept: float) -> Model:
    """The model whose log-odds are slope times those of another one, plus the intercept; rounded."""
    raise NotImplementedError(type(model))


@_rescaled.register
def _(model: LinearModel, slope: float, intercept: float) -> LinearModel:
    weights = tuple(_rounded(slope * weight) for weight in model.weights)
    return LinearModel(model.features, weights, _rounded(slope * model.intercept + intercept), _all(model.unknown))


@_rescaled.register
def _(model: TreeModel, slope: float, intercept: float) -> TreeModel:
    trees = tuple(_leaves(tree, lambda leaf: _rounded(slope * leaf)) for tree in model.trees)
    return TreeModel(model.features, trees, _rounded(slope * model.intercept + intercept), _all(model.unknown))


def _leaves(tree: Tree, change: Callable[[float], float]) -> Tree:
    if not isinstance(tree, tuple):
        return change(tree)
    place, bound, low, high = tree
    return place, _rounded(bound), _leaves(low, change), _leaves(high, change)


def _all(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(_rounded(value) for value in values)


def _rounded(value: float) -> float:
    return float(f"{np.float64(value):.{_DIGITS}g}")
