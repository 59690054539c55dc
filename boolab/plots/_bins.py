"""Bins of whole numbers, such as steps: they end at round ones, where caps are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from boolab.plots import style

_USUAL, _LONG = 0.98, 2  # the last bin is open where the longest run is twice as long as 98% of runs


class Bins(NamedTuple):
    """Bins of whole numbers, all equally wide: their edges, between the numbers, and where on the axis these stand.

    The last may hold all numbers from `rest` on.
    """

    edges: list[float]
    places: list[float]
    hint: str = ""
    rest: int | None = None

    def holding(self, numbers: pd.Series[int]) -> pd.Series[int]:
        """The bin of each number."""
        return pd.cut(numbers, self.edges, labels=False)

    def place(self, numbers: pd.Series[Any]) -> npt.NDArray[Any]:
        """Where on the axis each number stands."""
        return np.asarray(np.interp(numbers, self.edges, self.places))


def bins_of(numbers: pd.Series[int], room: float, groups: pd.Series[Any] | None = None) -> Bins:
    """Bins from 1 (or 0) to the largest number, as wide as there is room for; the last holds long tails."""
    low, high = min(1, int(numbers.min())), int(numbers.max())
    most = max(10, min(60, int(room / 5)))
    by = numbers.groupby(pd.Series(0, numbers.index) if groups is None else groups)
    usual = int(by.quantile(_USUAL, interpolation="lower").max())
    tail = high > most and usual * _LONG < high
    last = usual if tail else high
    width = next(width for width in _round_numbers((1, 2, 5)) if width * (most - 1) >= last)
    start = [-0.5] * (low == 0)
    edges = [*start, *(0.5 + width * k for k in range(math.ceil(last / width) + 1))]
    hint = f"bins of {width}" if width > 1 else ""
    if not tail:
        return Bins(edges, edges, hint)
    rest = int(edges[-1] + 0.5)
    return Bins([*edges, high + 0.5], [*edges, edges[-1] + width], hint, rest)


def _round_numbers(leading: Sequence[int]) -> Iterator[int]:
    return (digit * 10**power for power in itertools.count() for digit in leading)


def label_bins(ax: Axes, bins: Bins) -> None:
    """Numbers on the x axis; under the last bin, from which number on it holds all."""
    ax.set_xlim(bins.places[0], max(bins.places[-1], 10.5))
    style.count_ticks(ax, ax.xaxis, 10)
    if bins.rest is None:
        return
    low, high = ax.get_xlim()
    wide = style.text_width(f"{bins.rest:,}+", style.sizes(ax).text) / style.room(ax) * (high - low)
    ends = [tick for tick in ax.get_xticks() if bins.places[0] <= tick < bins.places[-2] - wide]
    ax.set_xticks([*ends, (bins.places[-2] + bins.places[-1]) / 2], [*(f"{x:,.0f}" for x in ends), f"{bins.rest:,}+"])
