"""Precision against recall of detectors, over their thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from boolab.core.text import count, shorten
from boolab.display.numbers import count_span, percent, span
from boolab.errors import SettingError
from boolab.plots import palette, style
from boolab.plots._frames import add_set_name, floats, format_missing, frame_of
from boolab.plots._grid import split_groups
from boolab.plots.palette import GROUP_LOOKS
from boolab.plots.style import MAX_PANELS, draw_panels

_COLUMNS: Final = (
    *("detector", "threshold", "n_runs", "n_positive", "alarms", "precision", "precision_low", "precision_high"),
    *("recall", "false_alarm_rate", "base_rate", "lift_low"),
)
_NAME: Final = 34
Box: TypeAlias = tuple[float, float, float, float]


class _DetectorGroup(NamedTuple):
    """A group: its name, and the points of its detectors, those without an alarm left out."""

    name: str
    rows: pd.DataFrame
    points: pd.DataFrame


def plot_precision_recall(data: pd.DataFrame, *, title: str | None = style.AUTO, ax: Axes | None = None) -> Axes:
    """Precision against recall of each detector, a point for each threshold.

    Precision is the share of alarms that are right, recall the share of what is to be found that raises an alarm.
    Thresholds stand beside their points. The dashed line is the base rate, the precision of random alarms; upright
    lines are the intervals of precision. The ring is around the threshold that separates best: the largest difference
    between recall and the rate of false alarms. Several groups have a panel each, in a figure of their own.

    Args:
        data: What `bl.stats.precision_recall_df` returns.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw one group in; a new figure by default.

    Returns:
        The Axes; of panels, the first.

    Raises:
        SettingError: if the frame lacks a column, or has too many detectors (more than 6), or too many groups: more
            than 30, or more than one for the Axes that were given.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> frame = pd.DataFrame({
        ...     "detector": "doom_loop", "threshold": [2, 3], "n_runs": 50, "n_positive": 29, "alarms": [20, 12],
        ...     "precision": [0.7, 0.75], "precision_low": 0.6, "precision_high": 0.9, "recall": [0.48, 0.31],
        ...     "false_alarm_rate": [0.29, 0.14], "base_rate": 0.58, "lift_low": 1.03})
        >>> bl.plots.plot_precision_recall(frame, ax=Figure(figsize=(12, 4)).subplots()).get_title(loc="left")
        'doom_loop at 2 separates best: it finds 48% of positives and alarms in 29% of others'
    """
    frame = frame_of(data, lambda other: other, _COLUMNS, "precision_recall_df")
    if frame.empty:
        return style.empty_axes(ax, "no detectors")
    names = [str(name) for name in frame["detector"].unique()]
    if len(names) > len(GROUP_LOOKS):
        msg = f"the frame has {len(names)} detectors: choose at most {len(GROUP_LOOKS)}, as in table[table['detector']"
        raise SettingError(f"{msg} == {names[0]!r}]")
    keys = [str(name) for name in frame.columns[: list(frame.columns).index("detector")] if name not in _COLUMNS]
    parts = [
        _DetectorGroup(name, rows, rows[floats(rows["alarms"]) > 0].reset_index(drop=True))
        for name, rows in split_groups(frame, keys, MAX_PANELS if ax is None else 1)
    ]
    if len(parts) == 1:
        return _draw_group(parts[0], names, title, ax)

    def draw_panel(part: _DetectorGroup, panel: Axes) -> Axes:
        return _draw_group(part, names, None, panel)

    heading = style.choose_title(title, _title_of_panels(parts))
    return draw_panels(
        [(part.name, part) for part in parts], draw_panel, title=heading, notes=_notes_of_panels(parts, names)
    )


def _draw_group(part: _DetectorGroup, names: Sequence[str], title: str | None, ax: Axes | None) -> Axes:
    """One group, in Axes of its own or in a panel."""
    ax = style.axes_for(ax, 4.8)
    small = style.is_small(ax)
    ax.set_xlim(0, 1.02)
    ax.set_ylim(0, 1.04)
    for axis in (ax.xaxis, ax.yaxis):
        style.share_ticks(ax, axis)
    for base in np.unique(floats(part.rows["base_rate"].dropna())):
        ax.axhline(base, color=style.fade(ax, 0.55), linewidth=0.9, linestyle=(0, (4, 2)), zorder=1, label="base rate")
    for name, (color, dash, marker) in zip(names, GROUP_LOOKS, strict=False):
        points = part.points[(part.points["detector"] == name) & part.points["recall"].notna()]
        if points.empty:  # a line without a point would confuse the layout
            continue
        ink, x, y = style.tint(ax, color), floats(points["recall"]), floats(points["precision"])
        ax.vlines(x, floats(points["precision_low"]), floats(points["precision_high"]), colors=[ink], alpha=0.3,
                  linewidth=0.8 if small else 1.4, zorder=2, label=f"{name} interval")  # fmt: skip
        ax.plot(x, y, color=ink, linestyle=dash, linewidth=1 if small else 1.5, marker=marker, markeredgewidth=0,
                markersize=2.5 if small else 4.5, label=name, zorder=3, clip_on=False)  # fmt: skip
    best = _best_index(part)
    if best is not None:
        row: Any = part.points.iloc[best]
        ax.plot([row["recall"]], [row["precision"]], linestyle="", marker="o", markersize=7 if small else 12,
                markerfacecolor="none", markeredgecolor=style.tint(ax, palette.SAVED),
                markeredgewidth=1.2 if small else 1.8, label="best", zorder=4, clip_on=False)  # fmt: skip
    _write(ax, part, best)
    return style.finish(
        ax,
        title=style.choose_title(title, _title(part, best)),
        xlabel="recall",
        ylabel="precision",
        grid=ax.yaxis,
        key=[] if small else _key(ax, names, part),
        notes=_notes([part]),
        subject="Detectors by threshold",
    )


def _best_index(part: _DetectorGroup) -> int | None:
    """The place of the point whose recall is farthest above its rate of false alarms; None if there is none."""
    differences = floats(part.points["recall"]) - floats(part.points["false_alarm_rate"])
    return None if np.isnan(differences).all() else int(np.nanargmax(differences))


def _write(ax: Axes, part: _DetectorGroup, best: int | None) -> None:
    """The thresholds beside their points, the best first, where there is room; small Axes have room for the best."""
    size, wide, high = style.sizes(ax).note, style.room(ax), style.row_height(ax, 1)
    halo = [withStroke(linewidth=2.0, foreground=style.ground(ax))]
    taken_boxes: list[Box] = []
    indices = range(len(part.points)) if not style.is_small(ax) else []
    for index in [*([] if best is None else [best]), *(index for index in indices if index != best)]:
        row = part.points.iloc[index]
        text, x, y = _threshold(row["threshold"]), float(row["recall"]), float(row["precision"])
        gap = 7.0 if index == best else 4.0
        left_edge, low = x / ax.get_xlim()[1] * wide + gap, y / ax.get_ylim()[1] * high - gap - size
        box = (left_edge, low, left_edge + style.text_width(text, size) + 2, low + size)
        if any(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in taken_boxes):
            continue
        taken_boxes.append(box)
        strength, weight = (1.0, "bold") if index == best else (0.75, "normal")
        style.annotate(ax, text, (x, y), (gap, -gap), strength, va="top", gid="threshold", zorder=5, weight=weight,
                       path_effects=halo, annotation_clip=False).set_in_layout(False)  # fmt: skip


def _threshold(value: float) -> str:
    """A threshold as text."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def _key(ax: Axes, names: Sequence[str], part: _DetectorGroup) -> list[Artist]:
    key: list[Artist] = [
        Line2D([], [], color=style.tint(ax, color), linestyle=dash, marker=marker, markersize=4.5, linewidth=1.5,
               label=shorten(name, _NAME))
        for name, (color, dash, marker) in zip(names, GROUP_LOOKS, strict=False)
    ]  # fmt: skip
    base = part.rows["base_rate"].dropna().unique()
    if len(base):
        label = f"base rate {percent(float(base[0]))}" if len(base) == 1 else "base rates"
        key.append(Line2D([], [], color=style.fade(ax, 0.55), linestyle=(0, (4, 2)), linewidth=0.9, label=label))
    return key


def _kind(rows: pd.DataFrame) -> str:
    """How what is to be found is called: "failed runs", or a neutral word."""
    kinds = rows["positive_is"].dropna().astype(str).unique().tolist() if "positive_is" in rows else []
    return f"{shorten(kinds[0])} runs" if len(kinds) == 1 and len(kinds[0].split()) == 1 else "positives"


def _title(part: _DetectorGroup, best: int | None) -> str:
    if part.points.empty:
        return "No threshold raises an alarm"
    if best is None:
        return "Which detector separates best is not known"
    if not (floats(part.points["lift_low"]) > 1).any():
        base = percent(float(part.rows["base_rate"].max()))
        return f"No detector is shown to be right more often than random alarms, {base} of which would be"
    row: Any = part.points.iloc[best]
    name = f"{shorten(str(row['detector']), _NAME)} at {_threshold(row['threshold'])}"
    recall, false_rate = percent(float(row["recall"])), percent(float(row["false_alarm_rate"]))
    return f"{name} separates best: it finds {recall} of {_kind(part.rows)} and alarms in {false_rate} of others"


def _title_of_panels(parts: Sequence[_DetectorGroup]) -> str:
    best_points = [part.points.iloc[best] for part in parts if (best := _best_index(part)) is not None]
    if not best_points:
        return f"What detectors find in {count(len(parts), 'group')}"
    winners = pd.Series([str(row["detector"]) for row in best_points]).value_counts()
    name, n = shorten(str(winners.index[0]), _NAME), int(winners.iloc[0])
    thresholds = [float(row["threshold"]) for row in best_points if str(row["detector"]) == winners.index[0]]
    low, high = _threshold(min(thresholds)), _threshold(max(thresholds))
    threshold_text = f"always at {low}" if low == high else f"at {low} to {high}"
    return f"{name} separates best in {n:,} of {count(len(parts), 'group')}, {threshold_text}"


def _notes(parts: Sequence[_DetectorGroup]) -> Iterable[str]:
    rows = pd.concat([part.rows for part in parts])
    runs, positive = rows["n_runs"].dropna(), rows["n_positive"].dropna()
    if len(runs):
        suffix = " per group" if len(parts) > 1 else ""
        yield add_set_name(parts[0].rows, f"{count_span(int(runs.min()), int(runs.max()), 'run')}{suffix}.")
    if len(positive):
        yield f"To find: {span(int(positive.min()), int(positive.max()))} {_kind(rows)}."
    yield "Numbers: thresholds. Ring: recall less rate of false alarms is largest. Dashed: base rate."
    levels = rows["confidence"].dropna().unique().tolist() if "confidence" in rows else []
    if len(levels) == 1:
        yield f"Upright lines: {100 * levels[0]:.4g}% intervals of precision."
    silent = int((floats(rows["alarms"]) == 0).sum())
    yield format_missing(silent, "threshold", "without an alarm, not shown")


def _notes_of_panels(parts: Sequence[_DetectorGroup], names: Sequence[str]) -> Iterable[str]:
    shapes = {"o": "circle", "s": "square", "^": "triangle", "D": "diamond", "v": "triangle down", "P": "plus"}
    marks = [
        f"{shapes[marker]} {shorten(name, _NAME)}" for name, (_, _, marker) in zip(names, GROUP_LOOKS, strict=False)
    ]
    yield f"Marks: {', '.join(marks)}."
    yield from _notes(parts)
