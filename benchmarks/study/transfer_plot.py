"""What a rule that was chosen on one group keeps on each other: a cell for each pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from boolab.core.text import count, shorten
from boolab.display.numbers import level, percent, span
from boolab.errors import SettingError
from boolab.plots import palette, style
from boolab.plots._frames import check_columns, floats, format_missing, frame_of
from boolab.plots.palette import BROKEN_COLOURS, HELD_COLOURS, WHITE, diverging_colours, sequential_colours
from boolab.plots.themed import new_figure
from boolab.stats.finding import Finding

_NEEDED: Final = ("chosen_on", "judged_on", "rule", "kept_share", "saved_share", "successes", "keep", "holds",
                  "held_out")  # fmt: skip
VALUES: Final[Mapping[str, str]] = {"kept_share": "successes kept", "saved_share": "steps saved"}
"""What a cell's colour may be, and its name."""
MAX_GROUPS: Final = 40
_CELL: Final = ((10, 0.66), (20, 0.44), (MAX_GROUPS, 0.3))  # inches, by the number of groups
_NAME: Final = 32  # characters of a group


class _Square(NamedTuple):
    """The pairs as squares: a row for each group that a rule was chosen on, a column for each that it is judged on."""

    names: list[str]
    rules: list[str]
    kept: npt.NDArray[np.float64]
    saved: npt.NDArray[np.float64]
    own: npt.NDArray[np.bool_]

    def of(self, value: str) -> npt.NDArray[np.float64]:
        return self.kept if value == "kept_share" else self.saved


def plot_transfer(
    data: Finding | pd.DataFrame,
    value: str = "kept_share",
    *,
    ordered: bool = True,
    title: str | None = style.AUTO,
    ax: Axes | None = None,
) -> Axes:
    """What the rule of each group keeps, or saves, on each other group: a heat map with a row for each rule.

    Cells in blue keep at least what is promised, cells in orange keep less, the stronger the worse. The cells with a
    frame are those of a group's own rule, on its held-out tasks. Where there is room, a second number is the share of
    steps saved.

    Args:
        data: What `transfer` returns, or its frame.
        value: The column that is coloured: "kept_share" or "saved_share".
        ordered: Whether the groups are in the order of what their rules keep elsewhere on average, the most first; else
            as they come.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default, larger for more groups. A colour bar takes some of its room.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column or a pair, has more than 40 groups, or the value is not one of these.

    Example:
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> from benchmarks.study.transfer_plot import plot_transfer
        >>> frame = pd.DataFrame({
        ...     "chosen_on": ["a", "a", "b", "b"], "judged_on": ["a", "b", "a", "b"], "rule": "max_steps(9)",
        ...     "successes": 20, "kept_share": [0.95, 0.8, 1.0, 0.9], "saved_share": 0.2, "keep": 0.95,
        ...     "holds": [True, False, True, False], "held_out": [True, False, False, True]})
        >>> plot_transfer(frame, ax=Figure(figsize=(16, 6)).subplots()).get_title(loc="left")
        'The rule of one group keeps 95% of successes on another in 1 of 2 pairs, and on its own in 1 of 2'
    """
    if value not in VALUES:
        msg = f"value={value!r}: expected one of {', '.join(VALUES)}"
        raise SettingError(msg)
    frame = frame_of(data, lambda other: other, _NEEDED, "transfer")
    if frame.empty:
        return style.empty_axes(ax, "no groups")
    square = _square_of(frame, ordered=ordered)
    keep = float(frame["keep"].iloc[0])
    ax = _axes(square) if ax is None else ax
    cells, colours, scale = square.of(value), *_colours(ax, value, keep, square.of(value))
    _draw(ax, cells, colours, scale)
    _outline(ax, square)
    _number(ax, square, value, colours, scale)
    _ticks(ax, square)
    bar = style.color_bar(ax, colours, scale, VALUES[value], fraction=0.04, aspect=30)
    if value == "kept_share":
        bar.set_ticks(sorted({0.0, keep, 1.0, *(at for at in (0.25, 0.5, 0.75) if at < keep - 0.1)}))
    else:
        bar.locator = MaxNLocator(5)
    bar.formatter = FuncFormatter(lambda share, _: f"{100 * share:g}%")
    bar.update_ticks()
    return style.finish(
        ax,
        title=style.choose_title(title, _title(frame, keep)),
        xlabel="judged on",
        ylabel="chosen on",
        grid=None,
        key=_key(ax, keep) if value == "kept_share" else [],
        notes=_notes(frame, value),
        subject=f"{VALUES[value].capitalize()} by the rule of the row, on the group of the column",
    )


def _square_of(frame: pd.DataFrame, *, ordered: bool) -> _Square:
    check_columns(frame, _NEEDED, "transfer makes")
    names = frame["chosen_on"].astype(str).drop_duplicates().tolist()
    n = len(names)
    if n > MAX_GROUPS:
        msg = f"{n:,} groups are too many for a heat map: expected at most {MAX_GROUPS}"
        raise SettingError(msg)
    place = {name: at for at, name in enumerate(names)}
    rows, columns = (frame[name].astype(str).map(place) for name in ("chosen_on", "judged_on"))
    if columns.isna().any() or len({*zip(rows, columns, strict=True)}) != n * n or len(frame) != n * n:
        msg = f"the frame has {len(frame):,} rows for {count(n, 'group')}: expected one for each pair, {n * n:,}"
        raise SettingError(msg)
    kept, saved, own = np.full((n, n), np.nan), np.full((n, n), np.nan), np.zeros((n, n), dtype=bool)
    at = rows.to_numpy(dtype=int), columns.to_numpy(dtype=int)
    kept[at], saved[at] = floats(frame["kept_share"]), floats(frame["saved_share"])
    own[at] = frame["held_out"].fillna(value=False).to_numpy(dtype=bool)
    rules = frame.drop_duplicates("chosen_on")["rule"].astype(str).tolist()
    elsewhere = np.nan_to_num(np.where(own, np.nan, kept), nan=-1.0)
    order = np.argsort(-elsewhere.mean(axis=1), kind="stable") if ordered else np.arange(n)
    both = np.ix_(order, order)
    return _Square([names[i] for i in order], [rules[i] for i in order], kept[both], saved[both], own[both])


def _axes(square: _Square) -> Axes:
    """A new figure, with cells of a size that depends on their number."""
    n = len(square.names)
    each = next(size for most, size in _CELL if n <= most)
    longest = max(len(_label(square, row)) for row in range(n))
    wide = max(7.2, n * each + 0.075 * longest + 1.1)
    tall = n * each * 0.85 + 0.05 * max(len(shorten(name, _NAME)) for name in square.names) + 1.9
    return new_figure(wide, tall).add_subplot()


def _colours(ax: Axes, value: str, keep: float, cells: npt.NDArray[np.float64]) -> tuple[Colormap, Normalize]:
    """For what is kept, two ranges that meet at the promise; for what is saved, one."""
    if value == "kept_share":
        return diverging_colours(keep, 0)
    known = cells[~np.isnan(cells)]
    return sequential_colours(palette.SAVED, 0, max(0.01, float(known.max(initial=0))), style.ground(ax))


def _draw(ax: Axes, cells: npt.NDArray[np.float64], colours: Colormap, scale: Normalize) -> None:
    n = len(cells)
    ax.set_xlim(-0.5, n - 0.5)
    ax.set_ylim(n - 0.5, -0.5)
    if np.isnan(cells).any():
        style.grey_ground(ax)
    edges = np.arange(n + 1) - 0.5
    # On the user's promise the cell is blue: equal is kept, whatever the last digit of a float.
    nudged = np.clip(cells + 1e-9, None, 1.0)
    ax.pcolormesh(edges, edges, np.ma.masked_invalid(nudged), cmap=colours, norm=scale, rasterized=True,
                  edgecolors=[style.ground(ax)], linewidth=min(1.2, style.room(ax) / n * 0.04))  # fmt: skip


def _outline(ax: Axes, square: _Square) -> None:
    """A frame around each cell of a group's own rule."""
    ink = palette.ink_on(WHITE)
    for row, column in np.argwhere(square.own):
        ax.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, facecolor="none", edgecolor=ink,
                               linewidth=1.6, zorder=4, label="own", clip_on=False))  # fmt: skip


def _number(ax: Axes, square: _Square, value: str, colours: Colormap, scale: Normalize) -> None:
    """The number in each cell, where all of them fit; below it, where there is room too, what is saved."""
    n, size = len(square.names), style.sizes(ax).note
    wide, high = style.room(ax) * 0.86 / n, style.row_height(ax, n) * 0.8
    size = min(size, wide / 2.1, high / 1.1)
    if size < 5:
        return
    second = value == "kept_share" and wide > style.text_width("saves 99%", size * 0.85) and high > 2.3 * size
    cells = square.of(value)
    for row, column in np.argwhere(~np.isnan(cells)):
        cell, saved = float(cells[row, column]), float(square.saved[row, column])
        ink = palette.ink_on(colours(scale(cell))[:3])
        look: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, **style.PLAIN}
        up, sign, weight = (0.14, "%", "bold") if second else (0.0, "", "normal")
        whole = math.floor(100 * cell + 1e-9)  # 94.96% is not to read as the 95% that it misses
        ax.text(column, row - up, f"{whole}{sign}", size=size, weight=weight, gid="cell", **look)
        if second and not np.isnan(saved):
            ax.text(
                column, row + 0.22, f"saves {math.floor(100 * saved + 1e-9)}%", size=size * 0.8, gid="saved", **look
            )


def _label(square: _Square, row: int) -> str:
    return f"{shorten(square.names[row], _NAME)}: {shorten(square.rules[row], _NAME)}"


def _ticks(ax: Axes, square: _Square) -> None:
    n, size = len(square.names), style.sizes(ax).text
    size = max(5.0, min(size, style.row_height(ax, n) * 0.8))
    texts = [shorten(name, _NAME) for name in square.names]
    small = style.is_small(ax)
    ax.set_yticks(range(n), texts if small else [_label(square, row) for row in range(n)], **style.PLAIN)
    ax.set_xticks(range(n), texts, rotation=40, ha="right", rotation_mode="anchor", **style.PLAIN)
    ax.tick_params(length=0, labelsize=size)


def _key(ax: Axes, keep: float) -> list[Patch]:
    own = Patch(facecolor="none", edgecolor=style.fade(ax, 0.95), linewidth=1.6, label="own group, held-out tasks")
    kept = Patch(facecolor=HELD_COLOURS[-1], linewidth=0, label=f"keeps at least {level(keep)}")
    return [kept, Patch(facecolor=BROKEN_COLOURS[1], linewidth=0, label="keeps less"), own]


def _title(frame: pd.DataFrame, keep: float) -> str:
    own = frame["held_out"].fillna(value=False)
    known = frame["holds"].notna()
    held, kept = (int(frame.loc[some & known, "holds"].sum()) for some in (own, ~own))
    n_own, n_other = int((own & known).sum()), int((~own & known).sum())
    if not n_other:
        return "What a rule of one group keeps on another is not known: no group has a success"
    return (
        f"The rule of one group keeps {level(keep)} of successes on another in {kept:,} of {count(n_other, 'pair')}, "
        f"and on its own in {held:,} of {n_own:,}"
    )


def _notes(frame: pd.DataFrame, value: str) -> Iterable[str]:
    own = frame[frame["held_out"].fillna(value=False)]
    successes = [int(n) for n in own["successes"].dropna()]
    if successes:
        yield f"{count(len(own), 'group')} of {span(min(successes), max(successes))} successes."
    if value == "kept_share":
        yield "Numbers: percent of the judged group's successes that are kept, rounded down."
    else:
        yield "Numbers: percent of the judged group's steps that are saved, rounded down."
    elsewhere = floats(frame.loc[~frame["held_out"].fillna(value=False), value])
    elsewhere = elsewhere[~np.isnan(elsewhere)]
    if len(elsewhere):
        yield f"Median elsewhere: {percent(float(np.median(elsewhere)))}."
    folds: Any = own["folds"].dropna().unique().tolist() if "folds" in own else []
    if len(folds) == 1:
        yield f"On its own group, a rule is chosen in {int(folds[0]):,} folds by task and judged on the tasks left out."
    yield format_missing(int(frame["kept_share"].isna().sum()), "pair", "without a known figure")
