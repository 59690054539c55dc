"""A logistic regression with a ridge penalty, by Newton's method.

Sources: Hastie, Tibshirani and Friedman, The Elements of Statistical Learning (2009), 4.4.1 (Newton's method as
iteratively reweighted least squares), 3.4.1 (ridge).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from boolab.limits.learned.models import LinearModel

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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


def fit_logistic(values: Array, failed: Array, weights: Array, names: Sequence[str], penalty: float) -> LinearModel:
    """Fit a weighted logistic regression of failure on features.

    Features are standardised for the penalty. A value that is not known counts as the feature's weighted mean.

    `values`: rows x features; NaN where a value is not known. A feature that never varies has weight 0. `failed`: rows:
    1 where the run failed, else 0. `weights`: rows: what each counts. `penalty`: of the squares of the standardised
    coefficients; see `PENALTIES`.
    """
    x, mean, scale = _standardised(values, weights)
    beta = _newton(x, failed, weights, penalty)
    slopes = beta[1:] / scale
    intercept = float(beta[0]) - float(np.dot(slopes, mean))
    return LinearModel(tuple(names), tuple(slopes.tolist()), intercept, tuple(mean.tolist()))


def penalty_of(values: Array, failed: Array, weights: Array, tasks: Ints) -> float:
    """The penalty of `PENALTIES` with the smallest deviance on held-out tasks, in `FOLDS` folds.

    Of many rows, a part of the tasks decides. The arguments are those of `fit_logistic`, with the task of each row.
    """
    x, _, _ = _standardised(values, weights)
    every = max(1, len(x) // _ROWS)
    _, order = np.unique(tasks, return_inverse=True)
    some = order % every == 0
    x, failed, weights, fold = x[some], failed[some], weights[some], order[some] // every % FOLDS
    deviance = []
    for penalty in PENALTIES:
        parts = [(fold == one, fold != one) for one in range(FOLDS)]
        fits = [_newton(x[others], failed[others], weights[others], penalty) for _, others in parts]
        held = zip(parts, fits, strict=True)
        deviance.append(sum(_deviance(x[mine], failed[mine], weights[mine], beta) for (mine, _), beta in held))
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


def _standardised(values: Array, weights: Array) -> tuple[Array, Array, Array]:
    """The features with mean 0 and variance 1 behind a column of ones; their means, and scales: infinite for none."""
    mean, spread = moments(values, weights)
    scale = np.where(spread > 0, spread, np.inf)
    x = np.where(np.isnan(values), 0.0, (values - mean) / scale)
    return np.column_stack([np.ones(len(x)), x]), mean, scale


def moments(values: Array, weights: Array) -> tuple[Array, Array]:
    """The weighted mean and standard deviation of each column, over known values; 0 if there are none."""
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    total = weights @ known
    safe = np.where(total > 0, total, 1.0)
    mean = (weights @ filled) / safe
    variance = (weights @ np.where(known, (filled - mean) ** 2, 0.0)) / safe
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
        beta, before, loss = beta - size * move, loss, new
        if before - loss < _TOLERANCE * (1 + abs(loss)):
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
