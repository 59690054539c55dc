"""Gradient boosting of small trees, by scikit-learn (the extra `learn`), as plain numbers.

Source: Friedman, Computational Statistics & Data Analysis 38 (2002) 367-378 (stochastic gradient boosting).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from boolab.errors import SettingError
from boolab.limits.learned.models import Tree, TreeModel
from boolab.stats.learn.logistic import moments

Array = npt.NDArray[np.float64]

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
        msg = "estimator='trees' needs scikit-learn: pip install 'boolab[learn]'"
        raise SettingError(msg) from error
    return GradientBoostingClassifier  # type: ignore[no-any-return] # scikit-learn has no types


def fit_trees(values: Array, failed: Array, weights: Array, names: Sequence[str], seed: int) -> TreeModel:
    """Fit boosted trees of depth 2 to failure; see `fit_logistic` for the arguments."""
    mean, _ = moments(values, weights)
    fitted = check_trees()(
        n_estimators=_TREES,
        learning_rate=_RATE,
        max_depth=_DEPTH,
        subsample=_PART,
        max_features="sqrt",
        min_weight_fraction_leaf=_LEAF,
        random_state=seed,
    ).fit(np.where(np.isnan(values), mean, values), failed, sample_weight=weights)
    share = float(weights @ failed / weights.sum())
    trees = tuple(_tree(one.tree_, 0) for one in fitted.estimators_[:, 0])
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
