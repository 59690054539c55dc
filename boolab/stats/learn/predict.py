"""The log-odds of models for whole tables: the same sums as `Model.log_odds`, in the same order."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import numpy.typing as npt

from boolab.limits.learned.models import LinearModel, Model, Tree, TreeModel

Array = npt.NDArray[np.float64]


def log_odds_of(model: Model, values: Array) -> Array:
    """The log-odds for each row of values; NaN is a value that is not known.

    Example:
        >>> model = LinearModel(("calls_streak", "error_share"), (1.5, 2.0), -1.0, (0.8, 0.25))
        >>> log_odds_of(model, np.array([[2.0, 0.5], [2.0, np.nan]])).tolist()
        [3.0, 2.5]
    """
    known = np.where(np.isnan(values), np.asarray(model.unknown), values)
    return _of(model, known)


@singledispatch
def _of(model: Model, values: Array) -> Array:
    return np.array([model.log_odds(row) for row in values.tolist()], dtype=float)


@_of.register
def _(model: LinearModel, values: Array) -> Array:
    total = np.full(len(values), model.intercept)
    for weight, column in zip(model.weights, values.T, strict=True):
        total += weight * column
    return total


@_of.register
def _(model: TreeModel, values: Array) -> Array:
    total = np.full(len(values), model.intercept)
    for tree in model.trees:
        total += _leaves(tree, values)
    return total


def _leaves(tree: Tree, values: Array) -> Array:
    if not isinstance(tree, tuple):
        return np.full(len(values), tree)
    place, bound, low, high = tree
    return np.where(values[:, place] <= bound, _leaves(low, values), _leaves(high, values))
