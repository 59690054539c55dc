"""Colour scales of cells: what is kept around a promise, and amounts from the background on."""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib.colors import (
    Colormap,
    LinearSegmentedColormap,
    ListedColormap,
    LogNorm,
    Normalize,
    TwoSlopeNorm,
    to_rgb,
)

from boolab.plots import palette

BROKEN: Final = ("#a63c00", "#c8661f", "#f6e2d3")
"""Below the promise: orange, the stronger the worse."""
WHITE: Final = (1.0, 1.0, 1.0)
HELD: Final = ("#d3e6f2", "#a9cfe6")
"""At the promise and above it: a light blue, because more than enough is no news."""

BROKEN_IN_DARK: Final = ("#f08030", "#96501f", "#3b2d25")
HELD_IN_DARK: Final = ("#1d3347", "#2c5c83")
"""The same for a dark page, where what is near the promise is dark."""


def around(keep: float, low: float, *, dark: bool = False) -> tuple[Colormap, Normalize]:
    """Two ranges that meet at the share that is to be kept, from the lowest share on."""
    broken, held = (BROKEN_IN_DARK, HELD_IN_DARK) if dark else (BROKEN, HELD)
    below, above = (
        LinearSegmentedColormap.from_list(name, colours)(np.linspace(0, 1, 128))
        for name, colours in (("below", broken), ("above", held))
    )
    centre = min(keep, 0.999)
    return ListedColormap(np.concatenate((below, above))), TwoSlopeNorm(centre, min(low, centre - 0.01), 1)


def rising(
    color: str, low: float, high: float, ground: palette.Color = WHITE, *, log: bool = False
) -> tuple[Colormap, Normalize]:
    """One range, from near the background to a colour."""
    under = np.array(ground)
    end = np.array(to_rgb(color))
    first = tuple(0.92 * under + 0.08 * end)
    colours = LinearSegmentedColormap.from_list("rising", [first, tuple(0.35 * under + 0.65 * end), color])
    return colours, (LogNorm if log else Normalize)(low, high)
