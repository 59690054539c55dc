"""Two settings against a measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, Normalize, to_rgb
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from boolab.errors import SettingError
from boolab.plots import style
from boolab.plots.settings import (
    AXIS_NAMES,
    AXIS_UNITS,
    UNITS,
    Point,
    Words,
    as_columns,
    by_group,
    grid_of,
    is_off,
    point_of,
    row_at,
    sample_of,
    setting,
    spent_and_saved,
    tick,
    words_of,
)
from boolab.plots.words import count, percent, span

_COLOURS: Final = "cividis"
"""Even steps in lightness, and the same to colour-blind readers."""
_MAX_NUMBERS = 600  # of cells: with more, none shows its number
_GAP = 0.15  # of a cell, or more in a fine grid: between the numbers and "off"


class _Measure(NamedTuple):
    """What is drawn: its values, how they are called, and whether they are shares."""

    numbers: pd.Series[Any]
    name: str
    shares: bool


class _Side(NamedTuple):
    """One side of the grid: its values in order, off last; where cells begin and end, in units of a cell."""

    name: str
    settings: list[Any]
    starts: Any
    ends: Any

    @property
    def middles(self) -> Any:  # noqa: ANN401 - an array
        return (self.starts + self.ends) / 2

    def place(self, value: Any) -> int:  # noqa: ANN401 - a number, None or NA
        return next(i for i, v in enumerate(self.settings) if (is_off(v) if is_off(value) else v == value))


def plot_heatmap(
    table: pd.DataFrame,
    x: str = "step_cap",
    y: str = "tool_budget",
    value: str = "kept_lower",
    *,
    keep: float | None = 0.95,
    at: Mapping[str, Any] | None = None,
    recommended: Point | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Two settings against a measure: a cell for each pair, and a line around those that keep enough.

    Args:
        table: The tally that `counterfactual(..., tally=True)` returns, of one group.
        x: The axis to the right.
        y: The axis upwards.
        value: A column: `kept_lower` and `kept_upper` as shares of the successes, `saved_steps` and the like as shares
            of what was recorded, `n_truncated` and other counts as shares of the runs; any other column as it is.
        keep: The share of successes, kept for certain, around which the line is drawn; None for no line.
        at: Values of the other axes, such as `{"doom_loop": 3}`; None is off. By default each is off, or, where the
            table has no such row, at its loosest.
        recommended: Values by axis to mark, or what `recommend` returns.
        ax: The Axes to draw in; a new figure by default. A colour bar takes some of its room.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column, an axis or a value that was asked for, or holds several groups.

    Example:
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> table = pd.DataFrame({
        ...     "step_cap": [5, 5, 9, 9], "tool_budget": [3, 6, 3, 6], "n_runs": 8, "success_by": "label",
        ...     "successes": 6, "kept_lower": [2, 3, 4, 6]})
        >>> plot_heatmap(table, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        '1 of 4 settings keeps at least 95% of 6 successes'
    """
    if x == y:
        msg = f"x={x!r}, y={y!r}: expected two different axes"
        raise SettingError(msg)
    if keep is not None and (isinstance(keep, bool) or not 0 < keep <= 1):
        msg = f"keep={keep!r}: expected a share above 0 and up to 1, or None"
        raise SettingError(msg)
    point = point_of(recommended, [x, y], table)
    needed = [value, *(["successes", "kept_lower"] if keep is not None or value.startswith("kept_") else [])]
    fixed = {**{name: v for name, v in point.items() if name not in (x, y)}, **as_columns(at or {})}
    grid = grid_of(table, [x, y], needed, fixed)
    if grid.rows.empty:
        return style.empty_axes(ax, "no settings")
    words = words_of(grid.rows)
    ((_, rows),) = by_group(grid.rows, grid.groups, 1)
    target = {name: point[name] for name in (x, y) if name in point}
    marked = row_at(rows, target) if target else None
    measure = _measure(rows, value, words)
    across, up = _side(rows, x), _side(rows, y)
    ax = style.axes_for(ax, 4.6)
    cells = _cells(rows, measure.numbers, across, up)
    if np.isnan(cells).all() and measure.shares and value.startswith("kept_") and (rows["successes"] == 0).all():
        return style.empty_axes(ax, f"no {words.several} to keep")
    if np.isnan(cells).all():
        return style.empty_axes(ax, f"{measure.name.split(' (')[0]}: unknown in every setting")
    colours, scale = mpl.colormaps[_COLOURS], _scale(cells, measure)
    _draw(ax, cells, across, up, colours, scale)
    _number(ax, cells, across, up, measure, colours, scale)
    good = _cells(rows, _enough(rows, keep), across, up) == 1 if keep is not None else None
    if good is not None:
        _outline(ax, good, across, up)
    if marked is not None:
        _mark(ax, across, up, marked)
    _bar(ax, measure, colours, scale)
    _ticks(ax, across, up)
    notes = [*sample_of([("", rows)], words), grid.note.strip(), *_notes(cells, good, keep, marked, words)]
    finished = style.finish(
        ax,
        title=_title(rows, measure, good, keep, marked, value, words, (x, y)),
        xlabel=f"{AXIS_NAMES[x]} ({AXIS_UNITS[x]})",
        ylabel=AXIS_NAMES[y] if style.is_small(ax) else f"{AXIS_NAMES[y]} ({AXIS_UNITS[y]})",
        grid=ax.yaxis,
        key=[],
        notes=notes,
    )
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return finished


def _measure(rows: pd.DataFrame, value: str, words: Words) -> _Measure:
    if not pd.api.types.is_numeric_dtype(rows[value]):
        msg = f"value={value!r}: expected a column of numbers"
        raise SettingError(msg)
    raw = rows[value].astype("Float64")
    spent = value.removeprefix("saved_")
    if value in ("kept_lower", "kept_upper"):
        most = "" if value == "kept_lower" else " at most"
        base = rows["successes"].astype("Float64")
        return _Measure(raw / base.mask(base == 0), f"{words.short}{most} (share)".replace("\n", " "), shares=True)
    if spent != value and spent in UNITS and spent in rows:
        base = rows[spent].astype("Float64") + raw
        return _Measure(raw / base.mask(base == 0), f"{UNITS[spent][1]} saved (share)", shares=True)
    if value.startswith("n_") and value != "n_runs" and "n_runs" in rows:
        base = rows["n_runs"].astype("Float64")
        return _Measure(raw / base.mask(base == 0), f"runs {_ended(value[2:])} (share)", shares=True)
    unit = UNITS[value][1] if value in UNITS else value.replace("_", " ")
    return _Measure(raw, f"{unit} spent" if value in UNITS else unit, shares=False)


def _ended(name: str) -> str:
    """What such runs do, as in "runs that end by tool budget", "runs truncated"."""
    words = name.replace("_", " ")
    return f"that end by {words}" if name in style.STOP_LOOKS and name != "finished" else words


def _enough(rows: pd.DataFrame, keep: float) -> pd.Series[Any]:
    """Whether a setting keeps that share for certain."""
    base = rows["successes"].astype("Float64")
    return ((rows["kept_lower"].astype("Float64") >= keep * base - 1e-9) & (base > 0)).astype("Float64")


def _side(rows: pd.DataFrame, name: str) -> _Side:
    values: list[Any] = sorted(rows[name].dropna().unique().tolist())
    n = len(values)
    starts, ends = np.arange(n, dtype=float), np.arange(1, n + 1, dtype=float)
    if rows[name].isna().any():
        gap = max(_GAP, 0.012 * n) if n else 0.0
        wide = max(1.0, 0.035 * n)
        values, starts, ends = [*values, None], np.append(starts, n + gap), np.append(ends, n + gap + wide)
    return _Side(name, values, starts, ends)


def _cells(rows: pd.DataFrame, values: pd.Series[Any], across: _Side, up: _Side) -> Any:  # noqa: ANN401 - an array
    """The values by row and column; NaN where there is none."""
    out = np.full((len(up.settings), len(across.settings)), np.nan)
    places = [rows[side.name].map({v: i for i, v in enumerate(side.settings)}).fillna(len(side.settings) - 1)
              for side in (up, across)]  # fmt: skip
    out[places[0].astype(int), places[1].astype(int)] = values.to_numpy(dtype=float, na_value=np.nan)
    return out


def _scale(cells: Any, measure: _Measure) -> Normalize:  # noqa: ANN401 - an array
    """From 0 to 100% for what is kept or saved; else from the least to the most."""
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    if measure.shares:
        return Normalize(0, 1 if high > 0.5 else max(high, 0.01))  # noqa: PLR2004 - a half
    return Normalize(low, high if high > low else low + 1)


def _draw(ax: Axes, cells: Any, across: _Side, up: _Side, colours: Colormap, scale: Normalize) -> None:  # noqa: ANN401
    """Four blocks at most: numbers and off, to the right and upwards; what is unknown is hatched."""
    x_blocks, y_blocks = _blocks(across), _blocks(up)
    ax.set_xlim(0, across.ends[-1])
    ax.set_ylim(0, up.ends[-1])
    if np.isnan(cells).any():
        look = style.CALL_LOOKS[style.UNKNOWN]
        ax.add_patch(Rectangle((0, 0), 1, 1, transform=ax.transAxes, facecolor="none", edgecolor=style.edge(ax, look),
                               hatch=look.hatch, linewidth=0, zorder=0.5))  # fmt: skip
    for columns in x_blocks:
        for rows in y_blocks:
            edges = [
                np.append(side.starts[some], side.ends[some][-1]) for side, some in ((across, columns), (up, rows))
            ]
            ax.pcolormesh(*edges, np.ma.masked_invalid(cells[rows, columns]), cmap=colours, norm=scale, rasterized=True)
    for side, blocks, low in ((across, x_blocks, "x"), (up, y_blocks, "y")):
        if len(blocks) == 2:  # noqa: PLR2004 - the gap before "off" shows the background
            start, wide = side.ends[-2], side.starts[-1] - side.ends[-2]
            corner, size = ((start, 0), (wide, up.ends[-1])) if low == "x" else ((0, start), (across.ends[-1], wide))
            ax.add_patch(Rectangle(corner, *size, facecolor=style.ground(ax), linewidth=0, zorder=1))


def _blocks(side: _Side) -> list[slice]:
    n = len(side.settings)
    return [slice(0, n - 1), slice(n - 1, n)] if n > 1 and is_off(side.settings[-1]) else [slice(0, n)]


def _number(
    ax: Axes,
    cells: Any,  # noqa: ANN401 - an array
    across: _Side,
    up: _Side,
    measure: _Measure,
    colours: Colormap,
    scale: Normalize,
) -> None:
    """The number in each cell, where all of them fit."""
    size = style.sizes(ax).note
    texts = [[_text(cell, measure) for cell in row] for row in cells.tolist()]
    widest = max(style.text_width(text, size) for row in texts for text in row)
    wide, high = style.room(ax) * 0.8 / across.ends[-1], style.row_height(ax, 1) / up.ends[-1]
    if cells.size > _MAX_NUMBERS or widest + 3 > wide or size * 1.2 > high:
        return
    for y, row in zip(up.middles, zip(cells.tolist(), texts, strict=True), strict=True):
        for x, cell, text in zip(across.middles, *row, strict=True):
            if text:
                fill = colours(scale(cell))[:3]
                ink = "#ffffff" if style.is_dark(to_rgb(fill)) else "#1c2430"
                ax.text(x, y, text, ha="center", va="center", size=size, color=ink, gid="cell", **style.PLAIN)


def _text(cell: float, measure: _Measure) -> str:
    if np.isnan(cell):
        return ""
    if measure.shares:
        return percent(cell, 1)
    return f"{cell:,.0f}" if cell == int(cell) or cell >= 100 else f"{cell:.3g}"  # noqa: PLR2004


def _outline(ax: Axes, good: Any, across: _Side, up: _Side) -> None:  # noqa: ANN401 - an array
    """A line between cells that keep enough and cells that do not; along cells' edges, because nothing lies between."""
    segments: list[Any] = []
    for i, j in np.argwhere(good[:, 1:] != good[:, :-1]):
        x = (across.ends[j] + across.starts[j + 1]) / 2
        segments.append([(x, _low(up, i)), (x, _high(up, i))])
    for i, j in np.argwhere(good[1:] != good[:-1]):
        y = (up.ends[i] + up.starts[i + 1]) / 2
        segments.append([(_low(across, j), y), (_high(across, j), y)])
    for color, linewidth, name in (("#1c2430", 4.2, ""), ("#ffffff", 2.0, "keep")):
        line = LineCollection(segments, colors=color, linewidths=linewidth, zorder=3, label=name, capstyle="projecting")
        ax.add_collection(line, autolim=False)


def _low(side: _Side, i: int) -> float:
    return float(side.starts[i] if i == 0 else (side.ends[i - 1] + side.starts[i]) / 2)


def _high(side: _Side, i: int) -> float:
    return float(side.ends[i] if i + 1 == len(side.ends) else (side.ends[i] + side.starts[i + 1]) / 2)


def _mark(ax: Axes, across: _Side, up: _Side, row: Mapping[str, Any]) -> None:
    """A ring at the recommended cell."""
    x, y = (side.middles[side.place(row[side.name])] for side in (across, up))
    cell = Rectangle((0, 0), 0, 0)
    cells = [float((side.ends - side.starts)[side.place(row[side.name])]) for side in (across, up)]
    wide, high = style.room(ax) * 0.8 / across.ends[-1] * cells[0], style.row_height(ax, 1) / up.ends[-1] * cells[1]
    if min(wide, high) >= 9:  # noqa: PLR2004 - points: an outline leaves the number to be read
        cell = Rectangle((x - cells[0] / 2, y - cells[1] / 2), cells[0], cells[1])
        cell.set(facecolor="none", edgecolor=style.SAVED, linewidth=2.6, zorder=5, label="recommended",
                 path_effects=[withStroke(linewidth=4.6, foreground="#ffffff")])  # fmt: skip
        ax.add_patch(cell)
        return
    ax.plot([x], [y], linestyle="", marker="o", markersize=9, markerfacecolor="none", markeredgecolor=style.SAVED,
            markeredgewidth=2.4, zorder=5, label="recommended",
            path_effects=[withStroke(linewidth=4.4, foreground="#ffffff")])  # fmt: skip


def _bar(ax: Axes, measure: _Measure, colours: Colormap, scale: Normalize) -> None:
    """The colour bar, in the style of the figure."""
    size = style.sizes(ax)
    bar = ax.figure.colorbar(mpl.cm.ScalarMappable(scale, colours), ax=ax, fraction=0.05, pad=0.02, aspect=24)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=size.note, labelcolor=style.fade(ax, 0.85))
    bar.locator = MaxNLocator(5)
    if measure.shares:
        bar.formatter = FuncFormatter(lambda value, _: f"{100 * value:g}%")
    bar.set_label(measure.name, size=size.note, color=style.fade(ax, 0.65), **style.PLAIN)
    bar.update_ticks()


def _ticks(ax: Axes, across: _Side, up: _Side) -> None:
    """As many as fit, at round values; "off" always."""
    size = style.sizes(ax).text
    for axis, side, room in ((ax.xaxis, across, style.room(ax) * 0.8), (ax.yaxis, up, style.row_height(ax, 1))):
        texts = [tick(side.name, value) for value in side.settings]
        each = size * 1.5 if side is up else max(style.text_width(text, size) for text in texts) + size
        shown = _thinned(side.settings, max(1, int(room / each)))
        axis.set_ticks([side.middles[i] for i in shown], [texts[i] for i in shown], **style.PLAIN)
        axis.set_tick_params(labelsize=size, length=0)


def _thinned(values: Sequence[Any], most: int) -> list[int]:
    """Which values get a tick: all, or multiples of a round number, or every so many; off always."""
    off = [len(values) - 1] if is_off(values[-1]) else []
    on = list(range(len(values) - len(off)))
    if len(on) + len(off) <= most:
        return [*on, *off]
    most = max(1, most - len(off))
    for power in range(8):
        for digit in (1, 2, 5):
            some = [i for i in on if values[i] % (digit * 10**power) == 0]
            if len(some) <= most and (len(some) > 1 or most < 3):  # noqa: PLR2004
                near = [i for i in some if not off or len(on) - i > len(on) / most / 2]
                return [*near, *off]
    return [*on[:: -(-len(on) // most)], *off]


def _notes(
    cells: Any,  # noqa: ANN401 - an array
    good: Any,  # noqa: ANN401 - an array or None
    keep: float | None,
    marked: Mapping[str, Any] | None,
    words: Words,
) -> Iterable[str]:
    if good is not None and keep is not None and good.any() and not good.all():
        yield f"White line: up to where at least {percent(keep, 1)} of {words.several} are kept for certain."
    if marked is not None:
        yield "Orange: recommended."
    unknown = int(np.isnan(cells).sum())
    if unknown:
        yield f"{count(unknown, 'setting')} unknown (hatched)."
    yield "Counted on these very runs."


def _title(
    rows: pd.DataFrame,
    measure: _Measure,
    good: Any,  # noqa: ANN401 - an array or None
    keep: float | None,
    marked: Mapping[str, Any] | None,
    value: str,
    words: Words,
    drawn: Sequence[str],
) -> str:
    if marked is not None and "successes" in marked and not pd.isna(marked["successes"]) and marked["successes"]:
        where = " with ".join(setting(name, marked[name]) for name in drawn)
        kept = f"keeps {span(int(marked['kept_lower']), int(marked.get('kept_upper', marked['kept_lower'])))}"
        said = [f"{kept} of {words.number(int(marked['successes']))}"]
        said += [spent_and_saved("steps", marked)] if {"steps", "saved_steps"} <= set(marked) else []
        return f"{where[:1].upper()}{where[1:]} {' and '.join(filter(None, said))}"
    total = rows["successes"].max() if "successes" in rows else pd.NA
    if good is not None and keep is not None and not pd.isna(total) and total:
        enough = int(good.sum())
        share = "all" if keep == 1 else f"at least {percent(keep, 1)} of"
        if value.startswith("saved_") and enough and measure.shares:
            best = int(measure.numbers.where(_enough(rows, keep) == 1).fillna(-1).argmax())
            row = row_at(rows.iloc[best : best + 1], {})
            most = spent_and_saved(value.removeprefix("saved_"), row, "Up to").replace("Up to ", "", 1)
            return f"Up to {most} are saved while {share} {words.number(int(total))} are kept"
        verb = "keeps" if enough == 1 else "keep"
        known = int(rows["kept_lower"].notna().sum())
        which = "The one setting" if len(rows) == enough == 1 else f"{enough:,} of {count(known, 'setting')}"
        which += " of known outcome" if known < len(rows) else ""
        return f"{which} {verb} {share} {words.number(int(total))}"
    if not pd.isna(total) and not total and value.startswith("kept_"):
        return f"No {words.one} to keep, whatever the setting"
    values = measure.numbers.dropna()
    low, high = (_text(float(v), measure) for v in (values.min(), values.max()))
    name = measure.name.split(" (")[0]
    return f"{name[:1].upper()}{name[1:]}: {low} to {high}" if low != high else f"{name[:1].upper()}{name[1:]}: {low}"
