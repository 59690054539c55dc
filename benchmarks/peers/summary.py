"""From samples to figures: medians with quartiles, and growth."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """The median of a few samples, and their quartiles."""

    middle: float
    low: float
    high: float


def spread(samples: Sequence[float]) -> Spread:
    """The median and the quartiles, interpolated.

    Example:
        >>> spread([1.0, 2.0, 4.0])
        Spread(middle=2.0, low=1.5, high=3.0)
        >>> spread([5.0])
        Spread(middle=5.0, low=5.0, high=5.0)
    """
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(middle, low, high)


class Figures(NamedTuple):
    """What one row of the table says.

    Attributes:
        cpu_us: Microseconds of CPU for a step, by steps of a run.
        ratio: The same, in steps of the bare loop in the same process.
        growth: How many times as much a step of the longest runs costs as one of the shortest, both as ratios; None
            where one of them could not be measured.
        import_s: CPU seconds to import what the work needs.
        ready_s: CPU seconds from the start of Python until a first short run was done.
        ready_mib: The memory that was held then.
        peak_mib: The peak of memory, in the longest runs that there are.
    """

    cpu_us: dict[int, Spread]
    ratio: dict[int, Spread]
    growth: float | None
    import_s: float
    ready_s: float
    ready_mib: float
    peak_mib: float


def figures(samples: dict[str, list[dict[str, Any]]], steps: Sequence[int]) -> Figures | None:
    """The figures of one row; None where nothing of it could be measured.

    Args:
        samples: What its processes said, by steps of a run.
        steps: The steps that were asked for, in ascending order.
    """
    taken = {n: samples[str(n)] for n in steps if samples.get(str(n))}
    if not taken:
        return None
    ratio = {n: spread([one["ratio"] for one in said]) for n, said in taken.items()}
    each = [one for said in taken.values() for one in said]
    first, last = steps[0], steps[-1]
    return Figures(
        cpu_us={n: spread([one["cpu_us"] for one in said]) for n, said in taken.items()},
        ratio=ratio,
        growth=ratio[last].middle / ratio[first].middle if first in ratio and last in ratio else None,
        import_s=statistics.median(one["import_cpu_s"] for one in each),
        ready_s=statistics.median(one["ready_cpu_s"] for one in each),
        ready_mib=statistics.median(one["ready_mib"] for one in each),
        peak_mib=statistics.median(one["peak_mib"] for one in taken[max(taken)]),
    )
