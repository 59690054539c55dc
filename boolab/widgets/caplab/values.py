"""Which values a slider has, and how the axis of a figure is divided."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np

from boolab.limits.table import LIMITS
from boolab.whatif.step_table import Ints

_MAX_VALUES: Final = {"max_steps": 120, "tool_budget": 120, "doom_loop": 16}
"""How many values an axis has at most: with all three, 250,000 settings, 50 MB."""
MAX_BARS: Final = 60  # of the distribution
FAR: Final = 1.25  # so many times as far as the axis, the longest run is beyond it
_LOG: Final = 0.2  # an axis is logarithmic if the lower half of its values takes a smaller share of it


class Values(NamedTuple):
    """The values of an axis, ascending, and whether they are all that make a difference."""

    listed: list[int]
    whole: bool


def values_of(name: str, peak: int, also: Collection[int] = ()) -> Values:
    """The values of an axis up to the largest count: all whole numbers, or, of a long range, ever fewer; and `also`."""
    least, most = LIMITS[name].min_useful, _MAX_VALUES[name]
    top = max(peak, least)
    if top - least < most:
        return Values(sorted({*range(least, top + 1), *also}), whole=True)
    head = most // 2
    tail = np.geomspace(least + head, top, most - head).round().astype(int)
    return Values(sorted({*range(least, least + head), *tail.tolist(), *also}), whole=False)


def end_of(lengths: Ints, least: int) -> int:
    """Where the axis of a figure ends: at the longest run, or, if a few are much longer, where 99.5% have ended.

    Example:
        >>> end_of(np.array([3] * 400 + [100]), 5), end_of(np.array([3, 4, 100]), 5)
        (5, 100)
    """
    longest = int(lengths.max(initial=1))
    usual = int(np.percentile(lengths, 99.5, method="higher")) if len(lengths) else 1
    end = max(usual, least)
    return end if longest > FAR * end else longest


def edges_of(end: int, longest: int) -> tuple[Ints, int]:
    """The edges of the bars of a distribution of lengths, and where the axis ends: the last bar may be beyond it.

    Example:
        >>> edges_of(3, 3), edges_of(3, 100)
        ((array([0, 1, 2, 3, 4]), 4), (array([  0,   1,   2,   3,   4, 101]), 4))
    """
    width = -(-max(end, 1) // MAX_BARS)
    edges = np.arange(0, end + width + 1, width, dtype=np.int64)
    last = int(edges[-1])
    return (edges if longest < last else np.append(edges, longest + 1)), last


def is_log(caps: Sequence[int]) -> bool:
    """Whether the axis of the caps is logarithmic: half of them are close to its beginning."""
    lowest, highest = caps[0], caps[-1]
    return highest > lowest + 1 and bool((np.median(caps) - lowest) / (highest - lowest) < _LOG)
