"""Models that make a score of the features of a run: a weighted sum, or trees. Both are plain numbers.

A score is the model's estimate of the probability that the run fails, in billionths: fine enough that the most hopeless
runs still differ. It is an integer, as all counters are. All arithmetic is in a
fixed order on floats, so that the same features give the same score, live and offline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, TypeAlias

BILLION: Final = 1_000_000_000
_MAX_LOG_ODDS: Final = 30.0

Values: TypeAlias = Sequence[float | None]
"""The values of a model's features after a step, in its order; None where one is not known."""


class ScoreModel(Protocol):
    """A function from features to log-odds.

    Attributes:
        kind: Its name in files and labels.
        features: The names of its features, in the order in which it takes their values.
        unknown: What takes the place of a value that is not known, for each feature: its mean in the fit.
    """

    kind: ClassVar[str]

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def unknown(self) -> tuple[float, ...]: ...

    def log_odds(self, values: Values) -> float:
        """The log-odds of failure for the values of the features, in order."""
        ...


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A weighted sum of features: what a logistic regression gives.

    A value that is not known counts as its mean in the fit, so it moves the score neither way.
    """

    kind: ClassVar[str] = "logistic"

    features: tuple[str, ...]  # the names of the features
    weights: tuple[float, ...]  # the log-odds that one unit of each feature adds
    intercept: float  # the log-odds where all features are 0
    unknown: tuple[float, ...]  # what takes the place of a value that is not known

    def log_odds(self, values: Values) -> float:
        """The log-odds of failure."""
        total = self.intercept
        # Not sum(), whose rounding differs between Python 3.11 and 3.12.
        for weight, value, unknown in zip(self.weights, values, self.unknown, strict=True):
            total += weight * (unknown if value is None else value)
        return total


Tree: TypeAlias = "float | tuple[int, float, Tree, Tree]"
"""A leaf's log-odds; or a feature's place, a bound, and the trees for values up to the bound and above it."""


@dataclass(frozen=True, slots=True)
class TreeModel:
    """A sum of small decision trees: what gradient boosting gives."""

    kind: ClassVar[str] = "trees"

    features: tuple[str, ...]  # the names of the features
    trees: tuple[Tree, ...]  # the trees
    intercept: float  # what the trees add to
    unknown: tuple[float, ...]  # what takes the place of a value that is not known: its mean in the fit

    def log_odds(self, values: Values) -> float:
        """The log-odds of failure."""
        filled_values = [
            unknown if value is None else value for value, unknown in zip(values, self.unknown, strict=True)
        ]
        total = self.intercept
        for tree in self.trees:
            node = tree
            while isinstance(node, tuple):
                index, threshold, low, high = node
                node = low if filled_values[index] <= threshold else high
            total += node
        return total


def score_of(log_odds: float) -> int:
    """Log-odds as a probability in billionths."""
    bounded = min(max(log_odds, -_MAX_LOG_ODDS), _MAX_LOG_ODDS)
    return round(BILLION / (1 + math.exp(-bounded)))
