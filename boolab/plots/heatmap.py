"""Two settings against a measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from boolab.display.text import capitalize
from boolab.errors import SettingError
from boolab.frames.dtypes import NO_LIMIT, Cell, axis_value, is_missing
from boolab.limits.table import LIMITS
from boolab.plots import palette, style
from boolab.plots._grid import Point
from boolab.plots._grid_cells import CellMeasure, Square, cell_text, square_of
from boolab.plots.palette import WHITE, diverging_colours, sequential_colours

_MAX_NUMBERS = 600  # of cells: with more, none shows its number
_GAP = 0.15  # of a cell, or more in a fine grid: between the numbers and no limit


class _Side(NamedTuple):
    """One side of the grid: its values in order, off last; where cells begin and end, in units of a cell."""

    name: str
    settings: list[Any]
    starts: Any
    ends: Any

    @property
    def middles(self) -> npt.NDArray[Any]:
        return np.asarray((self.starts + self.ends) / 2)

    def place(self, value: Cell) -> int:
        return next(i for i, v in enumerate(self.settings) if (is_missing(v) if is_missing(value) else v == value))


def plot_heatmap(
    table: pd.DataFrame,
    x: str | None = None,
    y: str | None = None,
    value: str = "kept_lower",
    *,
    keep: float | None = 0.95,
    at: Mapping[str, Any] | None = None,
    recommended: Point | None = None,
    title: str | None = style.AUTO,
    ax: Axes | None = None,
) -> Axes:
    """Two settings against a measure: a cell for each pair, and a line around those that keep enough.

    Args:
        table: The aggregate that `counterfactual(..., aggregate=True)` returns, of one group.
        x: The axis to the right; by default the first that the table has several values of, usually `max_steps`.
        y: The axis upwards; by default the next.
        value: A column: `kept_lower` and `kept_upper` as shares of the successes, `saved_steps` and the like as shares
            of what was recorded, `n_truncated` and other counts as shares of the runs; any other column as it is.
        keep: The share of successes, kept on record, around which the line is drawn; None for no line.
        at: Values of the other axes, such as `{"doom_loop": 3}`; None is off. By default each is off, or, where the
            table has no such row, at its loosest.
        recommended: Values by axis to mark, or what `recommend` returns. Where no limit is to be set,
            none is marked, and the title is its answer.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default. A colour bar takes some of its room.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column, an axis or a value that is required, has fewer than two axes, or
            holds several groups.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> table = pd.DataFrame({
        ...     "max_steps": [5, 5, 9, 9], "tool_budget": [3, 6, 3, 6], "n_runs": 8, "success_by": "label",
        ...     "successes": 6, "kept_lower": [2, 3, 4, 6]})
        >>> bl.plots.plot_heatmap(table, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        '1 of 4 settings keeps at least 95% of 6 successes'
    """
    x, y = _axes_of(table, x, y)
    square = square_of(table, x, y, value, keep=keep, at=at, recommended=recommended)
    if not len(square.rows):
        return style.empty_axes(ax, square.empty)
    across, up_side = _side(x, square.across), _side(y, square.up_values)
    ax = style.axes_for(ax, 4.6)
    if square.empty:
        return style.empty_axes(ax, square.empty)
    colours, scale = scale_of(square, style.ground(ax))
    _draw(ax, square.cells, across, up_side, colours, scale)
    _number(ax, square, across, up_side, colours, scale)
    if square.good is not None:
        _outline(ax, square.good, across, up_side)
    if square.marked_row is not None:
        _mark(ax, across, up_side, square.marked_row)
    _bar(ax, square.measure, colours, scale)
    _ticks(ax, across, up_side)
    return style.finish(
        ax,
        title=style.choose_title(title, square.title),
        xlabel=f"{LIMITS[x].label} ({LIMITS[x].unit})",
        ylabel=LIMITS[y].label if style.is_small(ax) else f"{LIMITS[y].label} ({LIMITS[y].unit})",
        grid=None,
        key=[],
        notes=square.notes,
        subject=capitalize(f"{square.measure.name.split(' (')[0]} by {LIMITS[x].label} and {LIMITS[y].label}"),
    )


def scale_of(square: Square, ground: palette.Color = WHITE, *, dark: bool = False) -> tuple[Colormap, Normalize]:
    """The colours of cells, and how numbers become these.

    They are around what is to be kept; or from the background on, to the colour of what is kept or saved, or to grey.
    `dark` is for a page. A figure has the same cells on any ground: a page that shows one in both themes has it once.
    """
    shows_kept = square.value.startswith("kept_")
    if shows_kept and square.keep is not None:
        return diverging_colours(square.keep, float(np.nanmin(square.cells)), dark=dark)
    color = palette.KEPT if shows_kept else palette.SAVED if square.value.startswith("saved_") else "#46505c"
    return sequential_colours(palette.lighten(color) if dark else color, *square.limits, ground)


def _axes_of(table: pd.DataFrame, x: str | None, y: str | None) -> tuple[str, str]:
    """The two axes to draw: those that are named, else the first of the table that have several values."""
    axes = [name for name in LIMITS if name in table]
    varying_axes = [name for name in axes if len(table[name].drop_duplicates()) > 1]
    free = [name for name in dict.fromkeys([*varying_axes, *axes]) if name not in (x, y)]
    if len(free) < (x is None) + (y is None):
        if not axes:
            return x or "max_steps", y or "tool_budget"  # reading the table reports what it lacks
        raise SettingError(
            f"a heatmap has two axes, and the table has one axis, {axes[0]}: draw it with "
            "bl.plot_caps(table), or use another axis, as in grid={'max_steps': [9, 20], 'doom_loop': [3, 5]}"
        )
    return x or free.pop(0), y or free.pop(0)


def _side(name: str, settings: list[Any]) -> _Side:
    """Cells one unit wide; off stands apart, and is a little wider in a fine grid."""
    has_off = bool(settings) and is_missing(settings[-1])
    n = len(settings) - has_off
    starts, ends = np.arange(n, dtype=float), np.arange(1, n + 1, dtype=float)
    if has_off:
        gap = max(_GAP, 0.012 * n) if n else 0.0
        wide = max(1.0, 0.035 * n)
        starts, ends = np.append(starts, n + gap), np.append(ends, n + gap + wide)
    return _Side(name, settings, starts, ends)


def _draw(
    ax: Axes, cells: npt.NDArray[Any], across: _Side, up_side: _Side, colours: Colormap, scale: Normalize
) -> None:
    """Four blocks at most: numbers and off, to the right and upwards; what is unknown is grey."""
    x_blocks, y_blocks = _blocks(across), _blocks(up_side)
    ax.set_xlim(0, across.ends[-1])
    ax.set_ylim(0, up_side.ends[-1])
    if np.isnan(cells).any():
        style.grey_ground(ax)
    for columns in x_blocks:
        for rows in y_blocks:
            edges = [
                np.append(side.starts[block], side.ends[block][-1])
                for side, block in ((across, columns), (up_side, rows))
            ]
            ax.pcolormesh(*edges, np.ma.masked_invalid(cells[rows, columns]), cmap=colours, norm=scale, rasterized=True)
    for side, blocks, low in ((across, x_blocks, "x"), (up_side, y_blocks, "y")):
        if len(blocks) == 2:  # noqa: PLR2004 - the gap before no limit shows the background
            start, wide = side.ends[-2], side.starts[-1] - side.ends[-2]
            corner, size = (
                ((start, 0), (wide, up_side.ends[-1])) if low == "x" else ((0, start), (across.ends[-1], wide))
            )
            ax.add_patch(Rectangle(corner, *size, facecolor=style.ground(ax), linewidth=0, zorder=1))


def _blocks(side: _Side) -> list[slice]:
    n = len(side.settings)
    return [slice(0, n - 1), slice(n - 1, n)] if n > 1 and is_missing(side.settings[-1]) else [slice(0, n)]


def _number(ax: Axes, square: Square, across: _Side, up_side: _Side, colours: Colormap, scale: Normalize) -> None:
    """The number in each cell, where all of them fit."""
    cells = square.cells
    size = style.sizes(ax).note
    texts = [[cell_text(cell, square.measure) for cell in row] for row in cells.tolist()]
    widest = max(style.text_width(text, size) for text in chain.from_iterable(texts))
    wide, high = style.room(ax) * 0.8 / across.ends[-1], style.row_height(ax, 1) / up_side.ends[-1]
    if cells.size > _MAX_NUMBERS or widest + 3 > wide or size * 1.2 > high:
        return
    for y, row in zip(up_side.middles, zip(cells.tolist(), texts, strict=True), strict=True):
        for x, cell, text in zip(across.middles, *row, strict=True):
            if text:
                ink = palette.ink_on(colours(scale(cell))[:3])
                ax.text(x, y, text, ha="center", va="center", size=size, color=ink, gid="cell", **style.PLAIN)


def _outline(ax: Axes, good: npt.NDArray[Any], across: _Side, up_side: _Side) -> None:
    """A line between cells that keep enough and cells that do not; along cells' edges, because nothing lies between."""
    segments: list[Any] = []
    for i, j in np.argwhere(good[:, 1:] != good[:, :-1]):
        x = (across.ends[j] + across.starts[j + 1]) / 2
        segments.append([(x, _low_edge(up_side, i)), (x, _high_edge(up_side, i))])
    for i, j in np.argwhere(good[1:] != good[:-1]):
        y = (up_side.ends[i] + up_side.starts[i + 1]) / 2
        segments.append([(_low_edge(across, j), y), (_high_edge(across, j), y)])
    # First a wider line in the colour of the ground, so that the outline is seen on any cell.
    for color, linewidth, name in ((style.ground(ax), 4.2, ""), (style.fade(ax, 0.95), 1.8, "keep")):
        line = LineCollection(segments, colors=color, linewidths=linewidth, zorder=3, label=name, capstyle="projecting")
        ax.add_collection(line, autolim=False)


def _low_edge(side: _Side, i: int) -> float:
    return float(side.starts[i] if i == 0 else (side.ends[i - 1] + side.starts[i]) / 2)


def _high_edge(side: _Side, i: int) -> float:
    return float(side.ends[i] if i + 1 == len(side.ends) else (side.ends[i] + side.starts[i + 1]) / 2)


def _mark(ax: Axes, across: _Side, up_side: _Side, row: Mapping[str, Any]) -> None:
    """An outline of the recommended cell; a ring where cells are small."""
    x, y = (side.middles[side.place(row[side.name])] for side in (across, up_side))
    ink = style.tint(ax, palette.KEPT)
    cells = [float((side.ends - side.starts)[side.place(row[side.name])]) for side in (across, up_side)]
    wide, high = (
        style.room(ax) * 0.8 / across.ends[-1] * cells[0],
        style.row_height(ax, 1) / up_side.ends[-1] * cells[1],
    )
    if min(wide, high) >= 9:  # noqa: PLR2004 - points: an outline leaves the number to be read
        cell = Rectangle((x - cells[0] / 2, y - cells[1] / 2), cells[0], cells[1])
        cell.set(facecolor="none", edgecolor=ink, linewidth=2.6, zorder=5, label="recommended",
                 path_effects=[withStroke(linewidth=4.6, foreground=style.ground(ax))])  # fmt: skip
        ax.add_patch(cell)
        return
    ax.plot([x], [y], linestyle="", marker="o", markersize=9, markerfacecolor="none", markeredgecolor=ink,
            markeredgewidth=2.4, zorder=5, label="recommended",
            path_effects=[withStroke(linewidth=4.4, foreground=style.ground(ax))])  # fmt: skip


def _bar(ax: Axes, measure: CellMeasure, colours: Colormap, scale: Normalize) -> None:
    """The colour bar, in the style of the figure."""
    bar = style.color_bar(ax, colours, scale, measure.name, fraction=0.05, aspect=24)
    bar.locator = MaxNLocator(5)
    if measure.is_share:
        bar.formatter = FuncFormatter(lambda value, _: f"{100 * value:g}%")
    bar.update_ticks()


def _ticks(ax: Axes, across: _Side, up_side: _Side) -> None:
    """As many as fit, at round values; no limit always, below the axis in two lines."""
    size = style.sizes(ax).text
    for axis, side, room in ((ax.xaxis, across, style.room(ax) * 0.8), (ax.yaxis, up_side, style.row_height(ax, 1))):
        texts = [axis_value(side.name, value) for value in side.settings]
        widest = max(style.text_width(text, size) for text in texts if text != NO_LIMIT or len(texts) == 1)
        texts = texts if side is up_side else [text.replace(NO_LIMIT, NO_LIMIT.replace(" ", "\n")) for text in texts]
        tick_room = size * 1.5 if side is up_side else widest + size
        indices = _thin_ticks(side.settings, max(1, int(room / tick_room)))
        axis.set_ticks([side.middles[i] for i in indices], [texts[i] for i in indices], **style.PLAIN)
        axis.set_tick_params(labelsize=size, length=0)


def _thin_ticks(values: Sequence[Any], max_ticks: int) -> list[int]:
    """Which values get a tick: all, or multiples of a round number, or every nth; no limit always."""
    off_indices = [len(values) - 1] if is_missing(values[-1]) else []
    on_indices = list(range(len(values) - len(off_indices)))
    if len(on_indices) + len(off_indices) <= max_ticks:
        return [*on_indices, *off_indices]
    max_ticks = max(1, max_ticks - len(off_indices))
    for power in range(8):
        for digit in (1, 2, 5):
            multiples = [i for i in on_indices if values[i] % (digit * 10**power) == 0]
            if len(multiples) <= max_ticks and (len(multiples) > 1 or max_ticks < 3):  # noqa: PLR2004 - two ticks
                near = [
                    i for i in multiples if not off_indices or len(on_indices) - i > len(on_indices) / max_ticks / 2
                ]
                return [*near, *off_indices]
    return [*on_indices[:: -(-len(on_indices) // max_ticks)], *off_indices]
