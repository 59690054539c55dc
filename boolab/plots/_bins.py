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


class Bins(NamedTuple):
    """Bins of whole numbers: their edges, between the numbers, and where on the axis these edges stand.

    `names` is empty where the axis is a plain number line; else bins stand side by side, each under its name.
    """

    edges: list[float]
    places: list[float]
    names: list[str]
    hint: str = ""

    def holding(self, numbers: pd.Series[int]) -> pd.Series[int]:
        """The bin of each number."""
        return pd.cut(numbers, self.edges, labels=False)

    def place(self, numbers: pd.Series[Any]) -> npt.NDArray[Any]:
        """Where on the axis each number stands."""
        return np.asarray(np.interp(numbers, self.edges, self.places))


def bins_of(numbers: pd.Series[int], room: float) -> Bins:
    """Bins from 1 (or 0) to the largest number: as wide as there is room for, or, with a long tail, widening."""
    low, high = min(1, int(numbers.min())), int(numbers.max())
    most = max(10, min(60, int(room / 5)))
    if high > most and float(numbers.quantile(0.25)) * 10 < high:
        return _widening_bins(low, high)
    width = next(width for width in _round_numbers((1, 2, 5)) if width * most >= high)
    edges = [-0.5] * (low == 0) + [0.5 + width * k for k in range(math.ceil(high / width) + 1)]
    return Bins(edges, edges, [], f"bins of {width}" if width > 1 else "")


def _widening_bins(low: int, high: int) -> Bins:
    """1, 2, ..., 10, 11-15, 16-20, 21-30, 31-50, 51-100, ...: round numbers, where caps are, end their bins."""
    ends = [*range(low, 11), 15]
    for end in _round_numbers((20, 30, 50, 100)):
        ends.append(end)
        if end >= high:
            break
    names = [str(b) if b == a + 1 else f"{a + 1}-{b}" for a, b in itertools.pairwise([low - 1, *ends])]
    edges = [low - 0.5, *(end + 0.5 for end in ends)]
    return Bins(edges, [float(place) for place in range(len(edges))], names, "bins widen to the right")


def _round_numbers(leading: Sequence[int]) -> Iterator[int]:
    return (digit * 10**power for power in itertools.count() for digit in leading)


def label_bins(ax: Axes, bins: Bins) -> None:
    """Numbers on the x axis, or the names of the bins."""
    if not bins.names:
        ax.set_xlim(bins.places[0], max(bins.places[-1], 10.5))
        style.count_ticks(ax, ax.xaxis, 10)
        return
    ax.set_xlim(bins.places[0], bins.places[-1] + 0.2)
    names = [name.replace("-", "-\n") for name in bins.names]
    size = style.sizes(ax).note
    widest = max(style.text_width(name, size) for name in names) + 2
    every = math.ceil(widest / (style.room(ax) / len(names)))
    shown = range((len(names) - 1) % every, len(names), every)
    ax.set_xticks([(bins.places[i] + bins.places[i + 1]) / 2 for i in shown], [names[i] for i in shown], **style.PLAIN)
    ax.xaxis.set_tick_params(labelsize=size, length=0)
