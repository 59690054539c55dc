"""Fits a model to some of the runs of a table: first which runs to stop, then how sure the estimate is.

The odds of a model that is fitted with `FeatureTable.stakes` are those of what a stop saves over what it loses, so that
the order of its scores is one that saves many steps for each success. They are not the odds of failure. A second fit of
two numbers, slope and intercept, to tasks that the model has not seen makes them so without changing their order.

A model is a logistic regression with a ridge penalty, by Newton's method, or gradient boosting of small trees, by
scikit-learn (the extra `learn`), as plain numbers.

Sources: Hastie, Tibshirani and Friedman, The Elements of Statistical Learning (2009), 4.4.1 (Newton's method as
iteratively reweighted least squares), 3.4.1 (ridge); Friedman, Computational Statistics & Data Analysis 38 (2002)
367-378 (stochastic gradient boosting).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any, Final

import numpy as np

from boolab.errors import SettingError, install
from boolab.limits.learned.models import LinearModel, ScoreModel, Tree, TreeModel
from boolab.stats.intervals import Array
from boolab.stats.learn.table import FeatureTable, log_odds_of
from boolab.whatif.step_table import Flags, Ints

_DIGITS = 6


def fit_model(table: FeatureTable, runs: Flags, estimator: str, seed: int) -> ScoreModel:
    """A model of failure, fitted to the boundaries of some runs; rounded to six digits, as its file has it."""
    weights = table.weights(runs)
    rows = np.flatnonzero(weights > 0)
    features, failed = table.features[rows], (~table.success[table.run[rows]]).astype(float)
    stakes, task = table.stakes(runs)[rows], table.task[table.run[rows]]
    penalty = penalty_of(features, failed, stakes, task) if estimator == "logistic" else 0.0

    def fit(rows_used: Flags) -> ScoreModel:
        if estimator == "trees":
            return fit_trees(features[rows_used], failed[rows_used], stakes[rows_used], table.names, seed)
        return fit_logistic(features[rows_used], failed[rows_used], stakes[rows_used], table.names, penalty)

    model = fit(np.ones(len(rows), dtype=bool))
    slope, intercept = calibration_of(_held_out_log_odds(fit, model, features, failed, task), failed, weights[rows])
    return _rescale(model, slope, intercept)


def _held_out_log_odds(
    fit: Callable[[Flags], ScoreModel], model: ScoreModel, features: Array, failed: Array, task: Ints
) -> Array:
    """The log-odds of each row by a model that has not seen its task; by the model, where a part lacks a class."""
    fold = np.unique(task, return_inverse=True)[1] % FOLDS
    log_odds = log_odds_of(model, features)
    for fold_number in range(FOLDS):
        training_rows = fold != fold_number
        if 0 < failed[training_rows].mean() < 1:
            log_odds[~training_rows] = log_odds_of(fit(training_rows), features[~training_rows])
    return log_odds


@singledispatch
def _rescale(model: ScoreModel, slope: float, intercept: float) -> ScoreModel:
    """The model whose log-odds are slope times those of another one, plus the intercept; rounded."""
    raise NotImplementedError(type(model))


@_rescale.register
def _(model: LinearModel, slope: float, intercept: float) -> LinearModel:
    weights = tuple(_round(slope * weight) for weight in model.weights)
    return LinearModel(model.features, weights, _round(slope * model.intercept + intercept), _round_all(model.unknown))


@_rescale.register
def _(model: TreeModel, slope: float, intercept: float) -> TreeModel:
    trees = tuple(_leaves(tree, lambda leaf: _round(slope * leaf)) for tree in model.trees)
    return TreeModel(model.features, trees, _round(slope * model.intercept + intercept), _round_all(model.unknown))


def _leaves(tree: Tree, change: Callable[[float], float]) -> Tree:
    if not isinstance(tree, tuple):
        return change(tree)
    feature_index, split_value, low, high = tree
    return feature_index, _round(split_value), _leaves(low, change), _leaves(high, change)


def _round_all(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(_round(value) for value in values)


def _round(value: float) -> float:
    return float(f"{np.float64(value):.{_DIGITS}g}")


FOLDS: Final = 3
PENALTIES: Final = (10.0, 100.0, 1000.0)
"""The penalties that are tried, from the weakest to the strongest. Each run has weight 1, so they are in runs."""
_STEPS: Final = 50
_TOLERANCE: Final = 1e-8
_ROWS: Final = 8_000
_SLOPE_PENALTY: Final = 10.0
"""Of a slope that differs from 1: with few runs it would be chance, and estimates of several models not comparable."""
_MIN_SLOPE: Final = 0.05
_MIN_SCALE: Final = 1e-9


def fit_logistic(features: Array, failed: Array, weights: Array, names: Sequence[str], penalty: float) -> LinearModel:
    """Fit a weighted logistic regression of failure on features.

    Features are standardised for the penalty. A value that is not known counts as the feature's weighted mean.

    `features`: rows x features; NaN where a value is not known. A feature that never varies has weight 0. `failed`:
    rows: 1 where the run failed, else 0. `weights`: rows: what each counts. `penalty`: of the squares of the
    standardised coefficients; see `PENALTIES`.
    """
    x, mean, scale = _standardise(features, weights)
    beta = _newton(x, failed, weights, penalty)
    slopes = beta[1:] / scale
    intercept = float(beta[0]) - float(np.dot(slopes, mean))
    return LinearModel(tuple(names), tuple(slopes.tolist()), intercept, tuple(mean.tolist()))


def penalty_of(features: Array, failed: Array, weights: Array, tasks: Ints) -> float:
    """The penalty of `PENALTIES` with the smallest deviance on held-out tasks, in `FOLDS` folds."""
    x, _, _ = _standardise(features, weights)
    interval = max(1, len(x) // _ROWS)
    _, order = np.unique(tasks, return_inverse=True)
    sampled = order % interval == 0
    x, failed, weights, fold = x[sampled], failed[sampled], weights[sampled], order[sampled] // interval % FOLDS
    deviance = []
    for penalty in PENALTIES:
        parts = [(fold == number, fold != number) for number in range(FOLDS)]
        fits = [
            _newton(x[training_rows], failed[training_rows], weights[training_rows], penalty)
            for _, training_rows in parts
        ]
        fold_fits = zip(parts, fits, strict=True)
        deviance.append(
            sum(
                _deviance(x[test_rows], failed[test_rows], weights[test_rows], beta)
                for (test_rows, _), beta in fold_fits
            )
        )
    return PENALTIES[int(np.argmin(deviance))]


def calibration_of(log_odds: Array, failed: Array, weights: Array) -> tuple[float, float]:
    """Slope and intercept that make log-odds those of failure, without changing their order.

    A slope that differs from 1 is penalised. Source: Platt, in Advances in Large Margin Classifiers (1999) 61-74.

    `log_odds`: rows: of runs that the model has not seen. `failed`: rows: 1 where the run failed, else 0. `weights`:
    rows: what each counts. Returns a slope, at least 0.05 so that the order stays where log-odds are noise, and an
    intercept.
    """
    x = np.column_stack([np.ones(len(log_odds)), log_odds])
    intercept, slope = _newton(x, failed, weights, _SLOPE_PENALTY, np.array([0.0, 1.0])).tolist()
    if slope < _MIN_SLOPE:
        slope = _MIN_SLOPE
        share = float(np.clip(weights @ failed / weights.sum(), _MIN_SCALE, 1 - _MIN_SCALE))
        intercept = math.log(share / (1 - share)) - slope * float(weights @ log_odds / weights.sum())
    return slope, intercept


def _standardise(features: Array, weights: Array) -> tuple[Array, Array, Array]:
    """The features with mean 0 and variance 1 behind a column of ones; their means, and scales: infinite for none."""
    mean, spread = moments(features, weights)
    scale = np.where(spread > 0, spread, np.inf)
    x = np.where(np.isnan(features), 0.0, (features - mean) / scale)
    return np.column_stack([np.ones(len(x)), x]), mean, scale


def moments(features: Array, weights: Array) -> tuple[Array, Array]:
    """The weighted mean and standard deviation of each column, over known values; 0 if there are none."""
    is_known = ~np.isnan(features)
    filled = np.where(is_known, features, 0.0)
    total = weights @ is_known
    safe = np.where(total > 0, total, 1.0)
    mean = (weights @ filled) / safe
    variance = (weights @ np.where(is_known, (filled - mean) ** 2, 0.0)) / safe
    scale = np.sqrt(variance)
    return mean, np.where(scale > _MIN_SCALE * (1 + np.abs(mean)), scale, 0.0)


def _newton(x: Array, y: Array, weights: Array, penalty: float, target: Array | float = 0.0) -> Array:
    """The coefficients. The penalty is on the square of their differences from a target, but for the first one."""
    ridge = np.full(x.shape[1], penalty)
    ridge[0] = 1e-6  # where all runs of a part fail, the intercept has no optimum of its own
    beta = np.zeros(x.shape[1])
    loss = _loss(x, y, weights, beta, ridge, target)
    for _ in range(_STEPS):
        p = _logistic(x @ beta)
        gradient = x.T @ (weights * (p - y)) + ridge * (beta - target)
        curvature = (x * (weights * p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        move = np.linalg.solve(curvature, gradient)
        size = 1.0
        while (new := _loss(x, y, weights, beta - size * move, ridge, target)) > loss and size > _TOLERANCE:
            size /= 2
        beta, last_loss, loss = beta - size * move, loss, new
        if last_loss - loss < _TOLERANCE * (1 + abs(loss)):
            break
    return beta


def _loss(x: Array, y: Array, weights: Array, beta: Array, ridge: Array, target: Array | float) -> float:
    return _deviance(x, y, weights, beta) / 2 + float(ridge @ (beta - target) ** 2) / 2


def _deviance(x: Array, y: Array, weights: Array, beta: Array) -> float:
    """Twice the weighted negative log-likelihood."""
    eta = x @ beta
    return 2 * float(weights @ (np.logaddexp(0, eta) - y * eta))


def _logistic(eta: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(eta, -500, 500))), dtype=float)


_TREES: Final = 60
_RATE: Final = 0.1
_DEPTH: Final = 2
_PART: Final = 0.5
_LEAF: Final = 0.02


def check_trees() -> type[Any]:
    """The class that fits the trees."""
    try:
        from sklearn.ensemble import GradientBoostingClassifier
    except ImportError as error:
        raise SettingError(f"estimator='trees' needs scikit-learn: {install('boolab[learn]')}") from error
    return GradientBoostingClassifier  # type: ignore[no-any-return] # scikit-learn has no types


def fit_trees(features: Array, failed: Array, weights: Array, names: Sequence[str], seed: int) -> TreeModel:
    """Fit boosted trees of depth 2 to failure; see `fit_logistic` for the arguments."""
    mean, _ = moments(features, weights)
    fitted = check_trees()(
        n_estimators=_TREES,
        learning_rate=_RATE,
        max_depth=_DEPTH,
        subsample=_PART,
        max_features="sqrt",
        min_weight_fraction_leaf=_LEAF,
        random_state=seed,
    ).fit(np.where(np.isnan(features), mean, features), failed, sample_weight=weights)
    share = float(weights @ failed / weights.sum())
    trees = tuple(_tree(estimator.tree_, 0) for estimator in fitted.estimators_[:, 0])
    return TreeModel(tuple(names), trees, float(np.log(share / (1 - share))), tuple(mean.tolist()))


def _tree(tree: Any, node: int) -> Tree:  # noqa: ANN401 - scikit-learn has no types
    """A tree of scikit-learn from a node on; its leaves are scaled by the learning rate."""
    if tree.children_left[node] < 0:
        return _RATE * float(tree.value[node, 0, 0])
    return (
        int(tree.feature[node]),
        float(tree.threshold[node]),
        _tree(tree, int(tree.children_left[node])),
        _tree(tree, int(tree.children_right[node])),
    )
