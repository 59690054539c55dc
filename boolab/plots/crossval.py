"""What a way to choose a rule keeps on held-out tasks, beside what it shows on the tasks that it was chosen by."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from boolab.core.text import count, shorten
from boolab.display.numbers import level, percent, span
from boolab.plots import style
from boolab.plots._frames import floats, format_missing, frame_of
from boolab.plots._grid import split_groups
from boolab.stats.compare_rules.cross_validation import POOLED, SAME_TASKS
from boolab.stats.finding import Finding

_COLUMNS: Final = ("part", "rule", "successes", "kept_share", "kept_low", "kept_high", "saved_share", "keep", "holds")
_PER_ROW: Final = 0.36  # inches
MAX_GROUPS: Final = 60
_CUT_SHARE: Final = 0.1  # of the intervals may go beyond the axis
_HELD_OUT_COLOR, _SAME_TASKS_COLOR = (
    "#332288",
    "#cc6677",
)  # held-out tasks, and the same tasks: two of the colours of groups


def plot_crossval(data: Finding | pd.DataFrame, *, title: str | None = style.AUTO, ax: Axes | None = None) -> Axes:
    """The share of successes kept on held-out tasks, with its interval, and on the tasks that the rule was chosen by.

    There is a row for each group; of a single group, one for each fold too. The line is what was to be kept. At the
    right stands the share of steps saved, on held-out tasks and in brackets on the same tasks.

    Args:
        data: What `bl.stats.crossval` returns, or its frame.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default, higher for more groups.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column, or has more than 60 groups.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> frame = pd.DataFrame({
        ...     "set": "a", "part": ["held out", "same tasks"], "rule": "max_steps(9)", "successes": 20,
        ...     "kept_share": [0.9, 0.95], "kept_low": [0.7, 0.75], "kept_high": [0.99, 1.0], "saved_share": 0.2,
        ...     "keep": 0.95, "holds": [False, True]})
        >>> bl.plots.plot_crossval(frame, ax=Figure(figsize=(16, 4)).subplots()).get_title(loc="left")
        'Chosen to keep 95%, it keeps 90% of 20 successes on held-out tasks'
    """
    frame = frame_of(data, lambda other: other, _COLUMNS, "crossval")
    rows = _rows(frame)
    if rows.empty:
        return style.empty_axes(ax, "no groups" if frame.empty else "too few tasks to hold some out")
    ax = style.rows_axes(ax, rows["name"].tolist(), pd.Series([], dtype="string"), _PER_ROW)
    keep = None if pd.isna(frame["keep"].iloc[0]) else float(frame["keep"].iloc[0])
    left_edge = _room_for_text(ax, rows, keep)
    if keep is not None:
        ax.axvline(keep, color=style.fade(ax, 0.5), linewidth=1, linestyle=(0, (4, 2)), zorder=1, label="keep")
    _draw(ax, rows, left_edge)
    return style.finish(
        ax,
        title=style.choose_title(title, _title(rows, keep)),
        xlabel="successes kept",
        ylabel="",
        grid=ax.xaxis,
        key=_key(ax),
        notes=_notes(ax, rows, frame, keep),
        subject="Successes kept by a rule that is chosen on other tasks",
    )


def _rows(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each group: its name, and its figures on held-out tasks and on the same tasks."""
    names = [str(name) for name in frame.columns]
    keys = names[: names.index("part")]
    columns = ["rule", "successes", "kept_share", "kept_low", "kept_high", "saved_share", "holds"]
    groups = split_groups(frame, keys, MAX_GROUPS)
    row_list = []
    for name, part in groups:
        by_part = part.set_index("part")
        if POOLED not in by_part.index:
            continue
        same_tasks_row = by_part.loc[SAME_TASKS]
        folds = (
            [str(part_name) for part_name in by_part.index if part_name not in (POOLED, SAME_TASKS)]
            if len(groups) == 1
            else []
        )
        for part_name in (*folds, POOLED):
            row: dict[str, Any] = {column: by_part.loc[part_name, column] for column in columns}
            label = part_name if not name else f"{name}, {part_name}" if folds else name
            row |= {"name": f"{label} ({int(row['successes']):,})", "pooled": part_name == POOLED}
            same_values = {
                f"same_{column}": same_tasks_row[column] for column in ("kept_share", "saved_share", "rule", "holds")
            }
            row_list.append(row | (same_values if part_name == POOLED else dict.fromkeys(same_values, pd.NA)))
    return pd.DataFrame(row_list)


def _texts(rows: pd.DataFrame, *, small: bool) -> list[str]:
    """What stands at the right of each row."""
    texts = []
    for saved, same_saved, rule in zip(rows["saved_share"], rows["same_saved_share"], rows["same_rule"], strict=True):
        text = "saves unknown" if pd.isna(saved) else f"saves {percent(float(saved))}"
        if not pd.isna(same_saved):
            text += (
                f" ({percent(float(same_saved))})"
                if small
                else f" ({percent(float(same_saved))}, {shorten(str(rule), 28)})"
            )
        texts.append(text)
    return texts


def _room_for_text(ax: Axes, rows: pd.DataFrame, keep: float | None) -> float:
    """An axis from below most points to 100%, and the room for the texts beyond; where the axis begins."""
    values = [*floats(rows["kept_share"]), *floats(rows["same_kept_share"]), keep or 1.0]
    lows = floats(rows["kept_low"])
    lowest = float(np.quantile(lows[~np.isnan(lows)], _CUT_SHARE)) if (~np.isnan(lows)).any() else 1.0
    left_edge: float = max(
        0.0, math.floor(min(lowest, *(value for value in values if not math.isnan(value))) * 10 - 0.2) / 10
    )
    texts = _texts(rows, small=style.is_small(ax))
    size = style.sizes(ax).note
    share = min(0.6, (max(style.text_width(text, size) for text in texts) + 16) / style.room(ax))
    ax.set_xlim(left_edge, left_edge + (1 - left_edge) / (1 - share))
    style.share_ticks(ax, ax.xaxis)
    ticks = MaxNLocator(3 if style.is_small(ax) else 6, steps=[1, 2, 2.5, 5, 10]).tick_values(left_edge, 1)
    ax.set_xticks([tick for tick in ticks if left_edge <= tick <= 1 + 1e-9])
    ax.spines["bottom"].set_bounds(left_edge, 1)
    height = style.row_height(ax, len(rows))
    for row, text in enumerate(texts):
        if height >= size:
            style.annotate(ax, text, (1, row), (12, 0), va="center", gid="end").set_in_layout(False)
    return left_edge


def _draw(ax: Axes, rows: pd.DataFrame, left_edge: float) -> None:
    y, height = np.arange(len(rows), dtype=float), style.row_height(ax, len(rows))
    held_out_color, same_color = style.tint(ax, _HELD_OUT_COLOR), style.tint(ax, _SAME_TASKS_COLOR)
    value, same_kept = floats(rows["kept_share"]), floats(rows["same_kept_share"])
    pooled = rows["pooled"].to_numpy(dtype=bool)
    low, high = floats(rows["kept_low"]), floats(rows["kept_high"])
    for mask, strength in ((pooled, 1.0), (~pooled, 0.45)):
        ax.hlines(y[mask], low[mask], high[mask], colors=[held_out_color], linewidth=min(2.0, height * 0.12),
                  alpha=strength, zorder=2, label="interval")  # fmt: skip
        size = max(2.0, min(7.0, height * 0.3))
        ax.plot(value[mask], y[mask], linestyle="", marker="o", color=held_out_color, markeredgewidth=0,
                markersize=size, alpha=strength, zorder=4, label="held out", clip_on=False)  # fmt: skip
    ax.plot(same_kept, y, linestyle="", marker="D", markerfacecolor=style.ground(ax), markeredgecolor=same_color,
            markersize=max(2.0, min(6.0, height * 0.26)), markeredgewidth=1.5, zorder=3, label="same tasks",
            clip_on=False)  # fmt: skip
    for row in np.flatnonzero(np.isnan(value)):
        style.annotate(ax, "no success to keep", (left_edge, float(y[row])), (4, 0), 0.6, va="center", gid="undefined",
                       style="italic")  # fmt: skip


def _key(ax: Axes) -> list[Artist]:
    held_out_color, same_color = style.tint(ax, _HELD_OUT_COLOR), style.tint(ax, _SAME_TASKS_COLOR)
    held_out = Line2D([], [], color=held_out_color, marker="o", markersize=6, linewidth=1.8, label="held-out tasks")
    same_mark = Line2D([], [], linestyle="", marker="D", markerfacecolor=style.ground(ax), markeredgecolor=same_color,
                  markersize=5.5, markeredgewidth=1.5, label="the tasks that it was chosen by")  # fmt: skip
    return [held_out, same_mark]


def _title(rows: pd.DataFrame, keep: float | None) -> str:
    pooled = rows[rows["pooled"]]
    to_keep = "" if keep is None else f"Chosen to keep {level(keep)}, "
    if len(pooled) == 1:
        row = pooled.iloc[0]
        if pd.isna(row["kept_share"]):
            return "There is no success to keep"
        kept_text = f"{percent(float(row['kept_share']))} of {count(int(row['successes']), 'success', 'successes')}"
        return f"{to_keep}{'it' if to_keep else 'It'} keeps {kept_text} on held-out tasks"
    known_rows = pooled[pooled["holds"].notna()]
    if keep is None or known_rows.empty:
        shares = floats(pooled["kept_share"])
        shares = shares[~np.isnan(shares)]
        ends = (
            f"{percent(float(shares.min()))} to {percent(float(shares.max()))}" if len(shares) else "an unknown share"
        )
        return f"{count(len(pooled), 'group')} keep {ends} of successes on held-out tasks"
    held_count, same_count = int(known_rows["holds"].sum()), int(known_rows["same_holds"].fillna(value=False).sum())
    groups = f"{held_count:,} of {count(len(known_rows), 'group')}"
    return (
        f"Chosen to keep {level(keep)}, a rule does so in {groups} on held-out tasks, "
        f"and in {same_count:,} on the same tasks"
    )


def _notes(ax: Axes, rows: pd.DataFrame, frame: pd.DataFrame, keep: float | None) -> Iterable[str]:
    pooled = rows[rows["pooled"]]
    low, high = int(pooled["successes"].min()), int(pooled["successes"].max())
    yield f"{count(len(pooled), 'group')} of {span(low, high)} successes (in brackets)."
    folds = frame["folds"][frame["folds"] > 0].dropna().unique().tolist() if "folds" in frame else []
    yield f"{int(folds[0]):,} folds by task." if len(folds) == 1 else ""
    levels = frame["confidence"].dropna().unique().tolist() if "confidence" in frame else []
    yield f"Lines: {level(float(levels[0]))} intervals over tasks." if len(levels) == 1 else ""
    yield f"Dashed: {level(keep)}." if keep is not None else ""
    yield "At the right: steps saved on held-out tasks, in brackets with the rule of all tasks on all tasks."
    left_out = int((frame["part"] == SAME_TASKS).sum()) - len(pooled)
    lows = floats(rows["kept_low"])
    cut_count = int((lows[~np.isnan(lows)] < ax.get_xlim()[0]).sum())
    yield format_missing(cut_count, "interval", f"{'begins' if cut_count == 1 else 'begin'} below the axis")
    yield format_missing(left_out, "group", "with too few tasks to hold some out")
