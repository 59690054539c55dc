"""Bars that are divided into parts, and the labels in and behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from boolab.plots import palette, style
from boolab.plots._frames import stacked
from boolab.plots.style import Keyword

MAX_PARTS = 400  # of bars: with more, none is labelled


def draw_bars(ax: Axes, counts: pd.DataFrame, looks: Mapping[str, palette.Look]) -> list[tuple[Rectangle, str]]:
    """A horizontal bar for each row of a table of counts, divided by column; the parts, each with its column's name."""
    parts: list[tuple[Rectangle, str]] = []
    rows = np.arange(len(counts))
    for name, some, start, end in stacked(counts):
        paint = style.paint(ax, looks[name], len(counts))
        bars = ax.barh(rows[some], end - start, height=0.72, left=start, label=name, **paint)
        parts += [(bar, name) for bar in bars]
    return parts


def label_ends(ax: Axes, counts: pd.DataFrame, texts: Sequence[str]) -> None:
    """A text at the end of each bar, and an axis long enough to hold it."""
    size, width = style.sizes(ax).note, style.room(ax)
    ends = counts.sum(axis=1).tolist()
    shares = [min(0.75, (style.text_width(text, size) + 10) / width) for text in texts]
    ax.set_xlim(0, max(end / (1 - share) for end, share in zip(ends, shares, strict=True)))
    style.count_ticks(ax, ax.xaxis)
    if style.row_height(ax, len(texts)) >= size * 0.7:
        for row, (end, text) in enumerate(zip(ends, texts, strict=True)):
            style.annotate(ax, text, (end, row), (4, 0), va="center", gid="end").set_in_layout(False)


def label_inside(
    ax: Axes, parts: Sequence[tuple[Rectangle, str]], looks: Mapping[str, palette.Look], form: str = "{:,.0f}"
) -> None:
    """Name and number in each part of a bar where they fit, else the number, else nothing."""
    if len(parts) > MAX_PARTS:
        return
    for bar, name in parts:
        number, ink = form.format(bar.get_width()), palette.ink_on(style.area(ax, looks[name]), themed=True)
        text = _Inside(bar, [f"{name} {number}", number], color=ink, size=style.sizes(ax).note)
        ax.add_artist(text)


class _Inside(Text):
    """A text in a bar: the first of several that fits when the figure is drawn, or none."""

    def __init__(self, bar: Rectangle, choices: Sequence[str], **how: Keyword) -> None:
        x, y = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
        super().__init__(x, y, choices[0], ha="center", va="center", **how)
        self._bar = bar
        self._choices = choices
        self.set_in_layout(False)

    def draw(self, renderer: RendererBase) -> None:
        """Draw the text that fits."""
        room = self._bar.get_window_extent(renderer)
        for choice in self._choices:
            self.set_text(choice)
            box = self.get_window_extent(renderer)
            if box.width + 2 <= room.width and box.height <= room.height:
                super().draw(renderer)
                return
