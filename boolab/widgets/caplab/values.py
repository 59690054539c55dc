"""Which values a slider has, and how the axis of a figure is divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from boolab.core.axes import AXES
from boolab.counterfactuals.step_table import Ints

_MAX_VALUES: Final = {"max_steps": 120, "tool_budget": 120, "doom_loop": 16}
"""How many values an axis has at most: with all three, 250,000 settings, 50 MB."""
MAX_BARS: Final = 60  # of the distribution
_LOG: Final = 0.2  # an axis is logarithmic if the lower half of its values takes a smaller share of it


class Values(NamedTuple):
    """The values of an axis, ascending, and whether they are all that make a difference."""

    listed: list[int]
    whole: bool


def values_of(name: str, peak: int, also: int | None = None) -> Values:
    """The values of an axis up to the largest count: all whole numbers, or, of a long range, ever fewer; and `also`."""
    least, most = AXES[name].min_useful, _MAX_VALUES[name]
    top = max(peak, least)
    if top - least < most:
        return Values(list(range(least, max(top, also or 0) + 1)), whole=True)
    head = most // 2
    tail = np.geomspace(least + head, top, most - head).round().astype(int)
    wanted = () if also is None else (also,)
    return Values(sorted({*range(least, least + head), *tail.tolist(), *wanted}), whole=False)


def edges_of(longest: int) -> Ints:
    """The edges of the bars of a distribution of lengths: whole numbers."""
    width = -(-max(longest, 1) // MAX_BARS)
    return np.arange(0, longest + width + 1, width, dtype=np.int64)


def is_log(caps: Sequence[int]) -> bool:
    """Whether the axis of the caps is logarithmic: half of them are close to its beginning."""
    lowest, highest = caps[0], caps[-1]
    return highest > lowest + 1 and bool((np.median(caps) - lowest) / (highest - lowest) < _LOG)
