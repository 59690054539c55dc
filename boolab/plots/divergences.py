"""Where policies diverge, pair by pair."""

from __future__ import annotations

from itertools import chain, permutations
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize, to_hex
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from boolab.core.text import shorten
from boolab.errors import SettingError
from boolab.plots import palette, style
from boolab.plots.palette import sequential_colours

_COLOUR: Final = palette.GROUP_LOOKS[0][0]
"""What diverges late is dark on a light background: even steps in lightness, the same to colour-blind readers."""
_ROW_HEIGHT: Final = 0.19  # inches
MIN_SIZE: Final = 4.5  # points: smaller numbers are not shown
_DIAGONAL_COLOR: Final = "#8b95a3"


def plot_divergences(table: pd.DataFrame, *, title: str | None = style.AUTO, ax: Axes | None = None) -> Axes:
    """Pairs of policies, coloured by the first step at which they diverge.

    Policies that diverge late are neighbours. Two of them diverge from a third at the same step, so the figure has
    blocks within blocks.

    Args:
        table: What `divergences` returns: a row and a column for each policy, NA where two never diverge.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default. A colour bar takes some of its room.

    Returns:
        The Axes.

    Raises:
        SettingError: if the table is not square, or not symmetric.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> names = ["boocode", "crush", "naive"]
        >>> table = pd.DataFrame([[None, 4, 4], [4, None, 11], [4, 11, None]], names, names, dtype="Int64")
        >>> bl.plots.plot_divergences(table, ax=Figure(figsize=(9, 6)).subplots()).get_title(loc="left")
        'All 3 pairs of policies diverge, 2 of them by step 4'
    """
    steps = _check_table(table)
    if len(steps) < 2:  # noqa: PLR2004 - a pair
        return style.empty_axes(ax, "no pairs of policies")
    order = _order_by_divergence(steps, list(range(len(steps))))
    cells, names = steps[np.ix_(order, order)], [str(table.index[i]) for i in order]
    ax = style.axes_for(ax, max(3.2, 2.0 + _ROW_HEIGHT * len(names)))
    upper = cells[np.triu_indices(len(cells), 1)]
    known_steps = upper[np.isfinite(upper)]
    last_step = max(2.0, float(known_steps.max()) if len(known_steps) else 2.0)
    colours, scale = sequential_colours(to_hex(style.tint(ax, _COLOUR)), 1, last_step, style.ground(ax), log=True)
    _draw(ax, cells, colours, scale)
    _label(ax, names)
    if len(known_steps):
        _bar(ax, colours, scale)
    key = [Patch(label="never diverge", facecolor=style.fade(ax, style.NO_VALUE), linewidth=0)]
    return style.finish(
        ax,
        title=style.choose_title(title, _title(upper, known_steps)),
        xlabel="",
        ylabel="policy",
        grid=None,
        key=key if len(known_steps) < len(upper) else [],
        notes=[f"{len(names)} policies on the same script.", "Those that diverge late are neighbours."],
        subject="First step at which two policies diverge",
    )


def _check_table(table: pd.DataFrame) -> npt.NDArray[Any]:
    """The steps, infinite where two never diverge."""
    if [*table.index] != [*table.columns]:
        msg = "the table is not square: expected a row and a column for each policy, as divergences makes them"
        raise SettingError(msg)
    steps = table.to_numpy(dtype=float, na_value=np.inf)
    if not (steps == steps.T).all():
        msg = "the table is not symmetric: expected what divergences returns"
        raise SettingError(msg)
    return steps


def _order_by_divergence(steps: npt.NDArray[Any], indices: list[int]) -> list[int]:
    """An order in which those that diverge late are neighbours: the largest group first, each ordered likewise."""
    if len(indices) <= 1:
        return indices
    first = min(steps[i, j] for i, j in permutations(indices, 2))
    if np.isinf(first):
        return indices
    groups: list[list[int]] = []
    for i in indices:
        home = next((group for group in groups if steps[group[0], i] > first), None)
        if home is None:
            groups.append([i])
        else:
            home.append(i)
    if len(groups) == 1:  # the first is not the one that diverges
        return indices
    ordered = (_order_by_divergence(steps, group) for group in sorted(groups, key=len, reverse=True))
    return [*chain.from_iterable(ordered)]


def _draw(ax: Axes, cells: npt.NDArray[Any], colours: Colormap, scale: Normalize) -> None:
    n = len(cells)
    ax.set_xlim(0, n)
    ax.set_ylim(n, 0)
    style.grey_ground(ax)
    edges = np.arange(n + 1)
    masked_cells = np.ma.masked_invalid(np.where(np.isfinite(cells), cells, np.nan))
    ax.pcolormesh(edges, edges, masked_cells, cmap=colours, norm=scale, rasterized=True)
    for draw in (ax.hlines, ax.vlines):  # as vectors, which follow the theme
        draw(edges, 0, n, colors=[style.ground(ax)], linewidth=0.6, zorder=1.5)
    for i in range(n):
        ax.add_patch(Rectangle((i, i), 1, 1, facecolor=style.ground(ax), linewidth=0, zorder=2))
        ax.plot([i + 0.3, i + 0.7], [i + 0.3, i + 0.7], color=_DIAGONAL_COLOR, linewidth=0.8, zorder=3)
    size = style.sizes(ax).note * 0.9
    widest = max((len(f"{cell:.0f}") for cell in cells[np.isfinite(cells)].tolist()), default=0)
    size = min(size, 0.75 * style.row_height(ax, 1) * 0.8 / n)
    if size < MIN_SIZE or widest * size * 0.58 + 2 > style.room(ax) * 0.7 / n:
        return
    for i, j in np.argwhere(np.isfinite(cells)):
        if i == j:
            continue
        text, ink = f"{cells[i, j]:.0f}", palette.ink_on(colours(scale(cells[i, j]))[:3])
        ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", size=size, color=ink, gid="cell", **style.PLAIN)


def _label(ax: Axes, names: list[str]) -> None:
    size = min(style.sizes(ax).text, 0.75 * 0.8 * style.row_height(ax, len(names)))  # a layout lowers the rows
    short_names = [shorten(name, 20) for name in names]
    middles = [index + 0.5 for index in range(len(names))]
    ax.set_xticks(middles, short_names, rotation=90, **style.PLAIN)
    ax.set_yticks(middles, short_names, **style.PLAIN)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_tick_params(labelsize=size, length=0)


def _bar(ax: Axes, colours: Colormap, scale: Normalize) -> None:
    bar = style.color_bar(ax, colours, scale, "first step at which they diverge", fraction=0.04, aspect=30)
    last_step = float(scale.vmax or 2)
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= last_step]
    bar.ax.yaxis.set_major_locator(FixedLocator(ticks))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _title(upper: npt.NDArray[Any], known_steps: npt.NDArray[Any]) -> str:
    total, diverged = len(upper), len(known_steps)
    if not diverged:
        return f"No two policies diverge in {total:,} pairs" if total > 1 else "The two policies never diverge"
    half = int(np.sort(known_steps)[(diverged - 1) // 2])
    early = int((known_steps <= half).sum())
    if total == 1:
        return f"The two policies diverge at step {half}"
    count_text = f"All {total:,}" if diverged == total else f"{diverged:,} of {total:,}"
    return f"{count_text} pairs of policies diverge, {early:,} of them by step {half:,}"
