"""The style that all plots share, for figures of your own: sizes, the frame around the data, and texts.

A plot gets its Axes from `axes_for` or `rows_axes`, draws, and ends with `finish`. Sizes depend on the Axes: small ones
get small texts. What things look like is in `palette`; what figures of your own need of it is here too.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, Normalize, to_rgb, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedLocator, MaxNLocator, PercentFormatter, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from boolab.core.text import NAME_CHARS, shorten
from boolab.plots.palette import (  # noqa: F401 - for figures of one's own
    GROUP_LOOKS,
    IN_DARK,
    KEPT,
    SAVED,
    STOP_LOOKS,
    WRONG,
    Color,
    Ink,
    Look,
    is_dark,
    light_edge,
    lighten,
    mix,
)
from boolab.plots.themed import new_figure

Keyword: TypeAlias = Any
"""A keyword that is passed on to matplotlib."""

PLAIN: Final[Mapping[str, Any]] = {"parse_math": False, "usetex": False}
"""For texts that hold names from the data: a `$` or a `_` in them is a character, not markup."""

_Group = TypeVar("_Group")

MAX_PANELS: Final = 30
"""How many panels a figure has at most."""
_ACROSS: Final = 3

AUTO: Final = "auto"
"""The `title` of a plot that is its finding."""

# --- Colours on this background ---------------------------------------------------------------------------------------


def fade(ax: Axes, strength: float) -> Ink:
    """The colour of the user's own text, faded towards the background; words keep all of it without a background."""
    ink = to_rgb(ax.title.get_color())
    if is_transparent(ax):
        return (*ink, 1.0 if strength >= _WORDS else strength)
    return mix(ink, ground(ax), strength)


def is_transparent(ax: Axes) -> bool:
    """Whether a figure has no background of its own."""
    return not any(to_rgba(color)[3] for color in (ax.get_facecolor(), ax.figure.get_facecolor()))


def ground(ax: Axes) -> Color:
    """The colour of the background."""
    for color in (ax.get_facecolor(), ax.figure.get_facecolor()):
        if to_rgba(color)[3]:
            return to_rgb(color)
    return (1.0, 1.0, 1.0)


def tint(ax: Axes, color: str) -> Color:
    """A colour for lines and letters: lighter on a dark background, to be readable."""
    return to_rgb(lighten(color) if is_dark(ground(ax)) else color)


def area(ax: Axes, look: Look) -> Ink:
    """The colour of an area."""
    if look.fill == "none":
        return ground(ax)
    return IN_DARK.get(look.fill, look.fill) if is_dark(ground(ax)) else look.fill


def edge(ax: Axes, look: Look) -> Ink:
    """The colour of edges; on a dark background, a light one."""
    return light_edge(look) if is_dark(ground(ax)) else look.ink


def paint(ax: Axes, look: Look, rows: int = 1) -> dict[str, Any]:
    """The keywords of matplotlib for the look of an area; edges are thinner where there are many rows."""
    linewidth = min(0.5, 0.05 * row_height(ax, rows))
    return {"facecolor": "none" if look.fill == "none" else area(ax, look), "edgecolor": edge(ax, look),
            "linewidth": linewidth}  # fmt: skip


_WORDS: Final = 0.55  # the least strength of texts
NO_VALUE: Final = 0.14
"""How strong the grey is of cells without a value."""


def grey_ground(ax: Axes) -> None:
    """Fill the Axes with the grey of cells without a value, to be covered by those that have one."""
    corner, color = (0, 0), fade(ax, NO_VALUE)
    ax.add_patch(Rectangle(corner, 1, 1, transform=ax.transAxes, facecolor=color, linewidth=0, zorder=0.5,
                           gid="no value"))  # fmt: skip


# --- Sizes, in points -------------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """Font sizes."""

    title: float
    text: float
    note: float


def sizes(ax: Axes) -> Sizes:
    """Font sizes, from the user's own; smaller in small Axes."""
    base = float(mpl.rcParams["font.size"]) * (0.8 if is_small(ax) else 1)
    return Sizes(base * 1.2, base * 0.9, base * 0.8)


def is_small(ax: Axes) -> bool:
    """Whether the Axes are less than three inches wide."""
    return ax.get_window_extent().width / ax.figure.dpi < 3  # noqa: PLR2004 - inches


def room(ax: Axes) -> float:
    """The approximate width of the Axes: less what its left margin cannot hold of its row labels."""
    size, margin = sizes(ax).text, 25.0 if is_small(ax) else 40.0
    longest = max((text_width(label.get_text(), size) for label in ax.get_yticklabels()), default=0.0)
    figure = ax.figure.figure  # that of a subfigure
    fills_it = figure is not None and figure.get_layout_engine() is not None and figure.axes == [ax]
    gain = 1.12 if fills_it else 1.0  # a layout reduces the margins
    return max(40.0, gain * ax.get_window_extent().width / ax.figure.dpi * 72 - max(0.0, longest - margin))


def row_height(ax: Axes, rows: int) -> float:
    """The approximate height of one of these rows."""
    return ax.get_window_extent().height / ax.figure.dpi * 72 / rows


def text_width(text: str, size: float) -> float:
    """The approximate width of a text."""
    return max(map(len, text.splitlines()), default=0) * size * 0.58


# --- The frame --------------------------------------------------------------------------------------------------------


def axes_for(ax: Axes | None, height: float = 4.2) -> Axes:
    """The user's Axes, or those of a new figure of this height in inches."""
    return new_figure(7.2, height + 0.4).add_subplot() if ax is None else ax


def rows_axes(ax: Axes | None, labels: Sequence[str], key: pd.Series[str], inches_per_row: float = 0.34) -> Axes:
    """Axes with a row for each label, the first on top; where rows are too low, only some are labelled."""
    ax = axes_for(ax, max(2.2, min(24.0, 1.4 + 0.04 * key.nunique() + inches_per_row * len(labels))))
    height = row_height(ax, len(labels))
    size = max(5.0, min(sizes(ax).text, height * 0.9))
    labelled_rows = range(0, len(labels), math.ceil(size * 1.15 / height))
    max_chars = NAME_CHARS // 2 if is_small(ax) else NAME_CHARS
    ax.set_yticks(labelled_rows, [shorten(labels[row], max_chars) for row in labelled_rows], **PLAIN)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.yaxis.set_tick_params(labelsize=size, length=0)
    return ax


def empty_axes(ax: Axes | None, text: str) -> Axes:
    """Axes with a text that explains why they are empty."""
    ax = axes_for(ax, 2.2)
    ax.set_axis_off()
    size = sizes(ax).text
    text = _wrap(ax, text, size)
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", size=size, color=fade(ax, 0.6), **PLAIN)
    return ax


def count_ticks(ax: Axes, axis: Axis, max_ticks: int | None = None) -> None:
    """Ticks at whole, round numbers."""
    axis.set_tick_params(labelsize=sizes(ax).text)
    axis.set_major_locator(MaxNLocator(max_ticks or (4 if is_small(ax) else 8), integer=True, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def share_ticks(ax: Axes, axis: Axis) -> None:
    """Ticks from 0% to 100%."""
    axis.set_tick_params(labelsize=sizes(ax).text)
    axis.set_major_locator(FixedLocator([0, 0.5, 1] if is_small(ax) else [0, 0.25, 0.5, 0.75, 1]))
    axis.set_major_formatter(PercentFormatter(1, decimals=0))


def choose_title(title: str | None, finding: str) -> str:
    """The title of a plot: its finding, or the user's own, or none."""
    return finding if title == AUTO else title or ""


def finish(
    ax: Axes,
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    grid: Axis | None,
    key: Sequence[Artist],
    notes: Iterable[str],
    subject: str = "",
) -> Axes:
    """The parts of every plot: its finding, what is drawn, a key, units at the ends of the axes, notes under it.

    Where `subject` names what is drawn, the first of the notes, the sample, stands beside it under the title. Without a
    title both are left to the caption of a paper. Without `grid` there are no spines either.
    """
    size, (left_reach, up_reach) = sizes(ax), _reach(ax)
    rest = [note for note in notes if note]
    subtitle = f"{subject}: {rest.pop(0).rstrip('.')}" if subject and rest and title else subject if title else ""
    _name_axes(ax, xlabel, ylabel, left_reach, up_reach + 4)
    for side, spine in ax.spines.items():
        spine.set_visible(grid is not None and side == "bottom")
        spine.set(color=fade(ax, 0.4), linewidth=0.8)
    ax.grid(visible=False)
    if grid is not None:
        grid.grid(visible=True, color=fade(ax, 0.12), linewidth=0.8, linestyle="-")
        ax.yaxis.set_tick_params(length=0)
    ax.set_axisbelow(True)
    above = up_reach + 5 + (size.text * 1.4 if ylabel else 0)
    above += _draw_key(ax, key, left_reach, above) * size.note * 1.45
    if ylabel and not title:  # a layout reserves room for half of the label only
        annotate(
            ax,
            " ",
            (0, 1),
            (-left_reach, up_reach + 4),
            xycoords="axes fraction",
            va="bottom",
            size=size.text,
            gid="room",
        )
    if subtitle:
        text = _wrap(ax, subtitle, size.text, left_reach, balanced=True)
        annotate(ax, text, (0, 1), (-left_reach, above + 3), 0.75, xycoords="axes fraction", va="bottom",
                 size=size.text, linespacing=1.25, annotation_clip=False, gid="subtitle")  # fmt: skip
        above += (text.count("\n") + 1) * size.text * 1.3 + 5
    heading = ax.set_title(_wrap(ax, title, size.title * 1.1, left_reach, balanced=True), loc="left", size=size.title,
                           weight="bold", y=1.0, pad=above + 2, **PLAIN)  # fmt: skip
    heading.set_transform(heading.get_transform() + _points(ax, -left_reach, 0))
    anchor = ("axes fraction", ax.xaxis.label)
    note = _wrap(ax, " ".join(rest), size.note, left_reach)
    annotate(
        ax, note, (0, 0), (-left_reach, -3), 0.68, xycoords=anchor, va="top", annotation_clip=False, gid="footnote"
    )
    return ax


def _name_axes(ax: Axes, xlabel: str, ylabel: str, left_reach: float, up_reach: float) -> None:
    """Units at the ends of the axes: at the right under the one, above the other."""
    look: dict[str, Any] = {"size": sizes(ax).text, "color": fade(ax, 0.65), **PLAIN}
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_tick_params(labelcolor=fade(ax, 0.85), color=fade(ax, 0.4))
    ax.set_xlabel(xlabel, loc="right", labelpad=3, **look)
    ax.set_ylabel(ylabel, rotation=0, ha="left", va="bottom", **look)
    ax.yaxis.set_label_coords(0, 1, transform=ax.transAxes + _points(ax, -left_reach, up_reach))


def _reach(ax: Axes) -> tuple[float, float]:
    """How far the labels of ticks reach beyond the Axes: to the left, and upwards."""
    point = ax.figure.dpi / 72
    box, left_reach, up_reach = ax.get_window_extent(), 0.0, 0.0
    ax.yaxis.label.set_text("")
    ax.xaxis.label.set_text("")
    for axis in (ax.yaxis, ax.xaxis):
        tick_box = axis.get_tightbbox() if ax.axison else None
        if tick_box is not None:
            left_reach, up_reach = (
                max(left_reach, (box.x0 - tick_box.x0) / point),
                max(up_reach, (tick_box.y1 - box.y1) / point),
            )
    return left_reach, up_reach if ax.xaxis.get_ticks_position() == "top" else 0.0


def _points(ax: Axes, right: float, upwards: float) -> ScaledTranslation:
    """A shift by so many points."""
    return ScaledTranslation(right / 72, upwards / 72, ax.figure.dpi_scale_trans)


def color_bar(ax: Axes, colours: Colormap, scale: Normalize, label: str, **options: Keyword) -> Colorbar:
    """A colour bar beside the Axes, whose room it takes."""
    size = sizes(ax).note
    bar = ax.figure.colorbar(mpl.cm.ScalarMappable(scale, colours), ax=ax, pad=0.02, **options)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=size, labelcolor=fade(ax, 0.85))
    bar.set_label(label, size=size, color=fade(ax, 0.65), **PLAIN)
    return bar


def annotate(
    ax: Axes,
    text: str,
    xy: tuple[float, float],
    offset: tuple[float, float],
    strength: float = 0.85,
    **options: Keyword,
) -> Annotation:
    """A small text beside a point, in the colour of the user's text, faded."""
    style = {"size": sizes(ax).note, "color": fade(ax, strength), **PLAIN, **options}
    return ax.annotate(text, xy, xytext=offset, textcoords="offset points", **style)


def _wrap(ax: Axes, text: str, size: float, extra_width: float = 0, *, balanced: bool = False) -> str:
    """A text in lines as wide as the Axes, and so many points wider; or of about equal length, without a last word."""
    width = max(16, int((room(ax) + extra_width) / (size * 0.56)))
    lines = _lines(text, width)
    if balanced and len(lines) > 1:
        widths = range(max(16, len(text) // len(lines)), width + 1)
        lines = next(candidate for line_width in widths if len(candidate := _lines(text, line_width)) == len(lines))
    return "\n".join(lines)


def _lines(text: str, width: int) -> list[str]:
    """Lines of at most so many characters, in which names such as tau-airline stay whole."""
    return textwrap.wrap(text, width, break_on_hyphens=False)


# --- The key ----------------------------------------------------------------------------------------------------------


def key_of(ax: Axes, values: pd.Series[str], looks: Mapping[str, Look], *, markers: bool = False) -> list[Artist]:
    """What each colour means and how often it occurs, in the order of `looks`."""
    counts = values.value_counts()
    labels = {name: f"{name} {counts[name]:,}" for name in looks if name in counts}
    if not markers:
        return [Patch(label=text, **paint(ax, looks[name])) for name, text in labels.items()]
    return [marker_key(ax, looks[name], text) for name, text in labels.items()]


def marker_key(ax: Axes, look: Look, label: str) -> Line2D:
    """The marker of a look, with a label."""
    return Line2D([], [], linestyle="", marker=look.marker, markerfacecolor=area(ax, look), label=label,
                  markeredgecolor=edge(ax, look), markeredgewidth=0.6)  # fmt: skip


def _draw_key(ax: Axes, key: Sequence[Artist], left_reach: float, up_offset: float) -> int:
    """The key in lines between title and Axes, read line by line; how many lines it takes."""
    size = sizes(ax).note
    widths = [text_width(str(handle.get_label()), size) + 2.9 * size for handle in key]
    fitting = (n for n in range(len(key), 1, -1) if sum(max(widths[i::n]) for i in range(n)) <= room(ax) + left_reach)
    columns = next(fitting, 1)
    legend = ax.legend(
        handles=[*chain.from_iterable(key[first::columns] for first in range(columns))],
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=ax.transAxes + _points(ax, -left_reach, up_offset),
        frameon=False,
        fontsize=size,
        labelcolor=[fade(ax, 0.85)] * len(key),
        borderpad=0,
        borderaxespad=0,
        handlelength=1.1,
        handleheight=0.9,
        handletextpad=0.5,
        columnspacing=1.3,
        labelspacing=0.35,
    )
    for text in legend.get_texts():
        text.set(**PLAIN)
    return math.ceil(len(key) / columns)


# --- Small multiples --------------------------------------------------------------------------------------------------


def draw_panels(
    parts: Sequence[tuple[str, _Group]],
    draw: Callable[[_Group, Axes], object],
    *,
    title: str,
    notes: Iterable[str],
    height: float = 1.7,
) -> Axes:
    """A new figure with a panel for each group, all to one scale; returns the first panel's Axes."""
    across = min(_ACROSS, len(parts))
    down = math.ceil(len(parts) / across)
    figure = new_figure(7.2, 1.1 + height * down, pad=0.06)
    grid = figure.subplots(down, across, squeeze=False).ravel().tolist()
    panels: list[Axes] = grid[: len(parts)]
    for panel, (name, part) in zip(panels, parts, strict=True):
        draw(part, panel)
        panel.set_title(name, loc="left", size=sizes(panel).text, weight="bold", y=1.0,
                        pad=4 + 1.6 * sizes(panel).text, **PLAIN)  # fmt: skip
    for index, panel in enumerate(panels):
        _strip_panel(panel, labelled=not index, is_leftmost=not index % across, lowest=index + across >= len(parts))
    for side in ("xlim", "ylim"):
        lows, highs = zip(*(getattr(panel, f"get_{side}")() for panel in panels), strict=True)
        for panel in panels:
            getattr(panel, f"set_{side}")(min(lows), max(highs))
    for panel in grid[len(parts) :]:
        panel.set_axis_off()
    size = sizes(panels[0])
    wide = figure.get_figwidth() * 72 * 0.95
    wrapped = textwrap.fill(title, int(wide / (size.title * 1.25 * 0.6)))
    figure.suptitle(wrapped, x=0.01, ha="left", size=size.title * 1.25, weight="bold", **PLAIN)
    note = textwrap.fill(" ".join(filter(None, notes)), int(wide / (size.note * 1.15 * 0.56)))
    ink = fade(panels[0], 0.68)
    figure.supxlabel(note, x=0.01, ha="left", size=size.note * 1.15, color=ink, gid="footnote", **PLAIN)
    return panels[0]


def _strip_panel(panel: Axes, *, labelled: bool, is_leftmost: bool, lowest: bool) -> None:
    """Remove what other panels show already: names of lines are in the first panel, of axes at the edges."""
    for text in panel.findobj(Text):
        if text.get_gid() in ("footnote", "subtitle") or (text.get_gid() in ("line label", "mark") and not labelled):
            text.set_visible(False)
            text.set_in_layout(False)
    if not is_leftmost:
        panel.set_ylabel("")
        panel.tick_params(labelleft=False)
    if not lowest:
        panel.set_xlabel("")
