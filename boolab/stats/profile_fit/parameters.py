"""The figures of a profile as they are estimated: each at its place, with its interval.

A probability is a share of the observations. A distribution is lognormal where that is close, else quantiles. Without
observations there is no figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.estimates import NOTHING, Estimated, mean, share, spread
from boolab.stats.intervals import Array

ENOUGH: Final = 20
"""A group with fewer observations gets no estimate of its own, but that of all groups together."""

_NOT_LOGNORMAL: Final = 0.1
"""The distance between distribution functions above which quantiles are given in place of median and sigma."""
_QUANTILES: Final = 11


class Figures:
    """The parts of a profile. Observations are pairs of a cluster and a value.

    `profile` has the figures, nested as in a profile's file; `rows` each with its interval, by its place with dots. By
    place, `basis` has the observations behind the figures, and `assumed` why there is a figure that was not measured.
    `notes` are what the record lacks, and what was left out.

    Example:
        >>> figures = Figures(0.95)
        >>> figures.probability(("loop", "rate"), [(0, True), (1, False)]).value
        0.5
        >>> figures.profile
        {'loop': {'rate': 0.5}}
    """

    def __init__(self, confidence: float) -> None:
        self.confidence = confidence
        self.profile: dict[str, Any] = {}
        self.rows: dict[str, Estimated] = {}
        self.basis: dict[str, str] = {}
        self.assumed: dict[str, str] = {}
        self.notes: list[str] = []

    def put(self, place: Sequence[str], value: object) -> None:
        """Put a figure, or a group of figures, at its place."""
        inner = self.profile
        for name in place[:-1]:
            inner = inner.setdefault(name, {})
        inner[place[-1]] = value

    def estimate(self, place: Sequence[str], estimate: Estimated) -> None:
        """Put an estimate with its interval at its place, if anything was observed."""
        if estimate.n:
            self.put(place, estimate.value)
            self.rows[".".join(place)] = estimate

    def probability(self, place: Sequence[str], observed: Iterable[tuple[int, bool]]) -> Estimated:
        """The share of true observations, at its place."""
        estimate = self.share(observed)
        self.estimate(place, estimate)
        return estimate

    def shares(self, place: Sequence[str], observed: Sequence[tuple[int, Any]], within: Sequence[str] = ()) -> None:
        """The share of each observed value, at its place; further in, by the names of `within`."""
        for value in sorted({value for _, value in observed}):
            estimate = self.share((code, other == value) for code, other in observed)
            self.put((*place, value, *within), estimate.value)
            self.rows[".".join(map(str, (*place, value, *within)))] = estimate

    def amount(self, place: Sequence[str], observed: Iterable[tuple[int, int | None]]) -> bool:
        """The distribution of the known observations, at its place; False if there are none."""
        distribution, rows = self.distribution(observed)
        if distribution is not None:
            self.put(place, distribution)
            self.rows |= {".".join((*place, figure)): estimate for figure, estimate in rows.items()}
        return distribution is not None

    def absent(self, place: str, why: str) -> None:
        """Note that a figure was not measured, and that its default is an assumption."""
        self.notes.append(why)
        self.assumed[place] = why

    def share(self, observed: Iterable[tuple[int, bool]]) -> Estimated:
        """The share of true observations."""
        pairs = list(observed)
        if not pairs:
            return NOTHING
        codes, true = zip(*pairs, strict=True)
        return share(np.bincount(codes, true), np.bincount(codes), self.confidence)

    def distribution(self, observed: Iterable[tuple[int, int | None]]) -> tuple[Any, dict[str, Estimated]]:
        """A distribution as profiles have it, and the intervals of its figures; None if nothing is known."""
        pairs = [(code, value) for code, value in observed if value is not None]
        if not pairs:
            return None, {}
        codes, values = (np.array(part) for part in zip(*pairs, strict=True))
        if (values == values[0]).all():
            return float(values[0]), {}
        zeros = self.share((code, value == 0) for code, value in pairs)
        part, rows = ({"zeros": zeros.value}, {"zeros": zeros}) if zeros.value else ({}, {})
        positive = values[values > 0]
        logs = np.log(positive)
        middle = mean(logs, codes[values > 0], self.confidence)
        wide = spread(logs, codes[values > 0], self.confidence)
        if len(logs) >= ENOUGH and wide.value and _distance(logs, middle.value, wide.value) > _NOT_LOGNORMAL:
            return {"quantiles": _quantiles(positive), **part}, rows
        rows["median"] = middle._replace(
            value=math.exp(middle.value), low=math.exp(middle.low), high=math.exp(middle.high)
        )
        if wide.clusters and wide.n > 1:
            rows["sigma"] = wide
        sigma = 0.0 if math.isnan(wide.value) else wide.value
        return {"median": math.exp(middle.value), "sigma": sigma, **part}, rows


def _quantiles(values: Array) -> list[float]:
    """Equidistant quantiles; the largest is chosen so that the mean is that of the values.

    With a straight line from the last but one to the one largest value, the mean of a long tail would be overstated,
    and costs and times add up means.
    """
    levels = np.quantile(values, np.linspace(0, 1, _QUANTILES))
    rest = levels[0] / 2 + levels[1:-1].sum()
    levels[-1] = max(levels[-2], 2 * ((_QUANTILES - 1) * float(values.mean()) - rest))
    return [round(level, 1) for level in levels.tolist()]


def _distance(logs: Array, middle: float, wide: float) -> float:
    """The largest distance between the distribution function of logarithms and that of a normal distribution."""
    values, counts = np.unique(logs, return_counts=True)
    # What is rounded to whole numbers is compared in the middle of its steps.
    seen = (np.cumsum(counts) - counts / 2) / len(logs)
    return float(np.abs(special.ndtr((values - middle) / wide) - seen).max())
