"""How much more often runs fail that raise an alarm, group by group."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from boolab.core.text import count, shorten
from boolab.display.numbers import count_span
from boolab.errors import SettingError
from boolab.plots import palette, style
from boolab.plots._frames import floats, format_missing, frame_of
from boolab.plots._grid import split_groups
from boolab.stats.finding import Finding

_NEEDED: Final = ("rule", "n_runs", "alarms", "true_alarms", "precision", "precision_low", "precision_high",
                  "base_rate", "lift_low")  # fmt: skip
MAX_GROUPS: Final = 60
_PER_ROW: Final = 0.36  # inches


def plot_lift(table: Finding | pd.DataFrame, *, title: str | None = style.AUTO, ax: Axes | None = None) -> Axes:
    """What an alarm of one rule adds to the base rate: the share of runs that fail, of all and of those with an alarm.

    There is a row for each group, in the order of the difference. A point is filled, and its line blue, where the
    whole interval of precision is above the base rate. At the right stand the difference and the true alarms.

    Args:
        table: What `scorecard` returns for one rule, with a row for each group; or its frame.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default, higher for more groups.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column, or has several rules or more than 60 groups.

    Example:
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> from benchmarks.study.lift_plot import plot_lift
        >>> frame = pd.DataFrame({
        ...     "set": ["a", "b"], "rule": "doom_loop(3)", "n_runs": 50, "alarms": [12, 4], "true_alarms": [11, 2],
        ...     "precision": [0.92, 0.5], "precision_low": [0.7, 0.1], "precision_high": [0.99, 0.9], "base_rate": 0.4,
        ...     "lift_low": [1.7, 0.3]})
        >>> plot_lift(frame, ax=Figure(figsize=(12, 4)).subplots()).get_title(loc="left")
        'Alarms of doom_loop(3) are shown to exceed the base rate in 1 of 2 groups'
    """
    frame = frame_of(table, lambda other: other, _NEEDED, "scorecard")
    rules = frame["rule"].astype(str).unique().tolist()
    if len(rules) > 1:
        msg = f"the frame has {len(rules)} rules: choose one, as in table[table['rule'] == {rules[0]!r}]"
        raise SettingError(msg)
    rows = _rows(frame)
    if rows.empty:
        return style.empty_axes(ax, "no alarms" if len(frame) else "no rules")
    ax = style.rows_axes(ax, rows["name"].tolist(), pd.Series([], dtype="string"), _PER_ROW)
    ax.set_ylim(len(rows) - 0.5, -1.2)
    _room_for_text(ax, rows)
    _draw(ax, rows)
    kinds = frame["positive_is"].dropna().astype(str).unique().tolist() if "positive_is" in frame else []
    what = "runs that fail" if kinds == ["failed"] else "runs to be found"
    return style.finish(
        ax,
        title=style.choose_title(title, _title(rows, rules[0])),
        xlabel="",
        ylabel="",
        grid=ax.xaxis,
        key=[],
        notes=_notes(frame, rows),
        subject=f"Share of {what}, among all runs and among those with an alarm",
    )


def _rows(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each group with an alarm, the largest difference first."""
    names = [str(name) for name in frame.columns]
    keys = [name for name in names[: names.index("rule")] if name not in _NEEDED]
    found = [part.iloc[[0]].assign(name=name or "all runs") for name, part in split_groups(frame, keys, MAX_GROUPS)]
    rows = pd.concat(found) if found else frame.assign(name="")
    rows = rows[(rows["alarms"].fillna(0) > 0) & rows["precision"].notna() & rows["base_rate"].notna()]
    rows = rows.assign(points=floats(rows["precision"]) - floats(rows["base_rate"]), sure=floats(rows["lift_low"]) > 1)
    return rows.sort_values("points", ascending=False, kind="stable").reset_index(drop=True)


def _texts(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """For each row the difference in points, rounded towards zero, and the true alarms."""
    points = (math.trunc(100 * one + math.copysign(1e-9, one)) for one in rows["points"])
    pairs = zip(rows["true_alarms"], rows["alarms"], strict=True)
    return [(f"{n:+d} points", f"{int(true):,} of {int(of):,}") for n, (true, of) in zip(points, pairs, strict=True)]


def _room_for_text(ax: Axes, rows: pd.DataFrame) -> None:
    """An axis from below all points to 100%, and beyond it the room for two columns."""
    size = style.sizes(ax).note
    columns = [*zip(*_texts(rows), strict=True)]
    wide = [max(style.text_width(text, size * 1.08) for text in (*column, name)) + 14
            for column, name in zip(columns, ("lift", "true alarms"), strict=True)]  # fmt: skip
    share = min(0.6, sum(wide) / style.room(ax))
    left = max(0.0, math.floor(10 * min(floats(rows["precision"]).min(), floats(rows["base_rate"]).min()) - 0.5) / 10)
    ax.set_xlim(left, left + (1 - left) / (1 - share))
    style.share_ticks(ax, ax.xaxis)
    step = 0.25 if style.is_small(ax) else 0.2 if left < 0.5 else 0.1
    ax.set_xticks([tick for tick in np.arange(0, 1.01, step) if tick >= left - 1e-9])
    ax.spines["bottom"].set_bounds(left, 1)
    for place, (texts, sure) in enumerate(zip(_texts(rows), rows["sure"], strict=True)):
        for text, right, bold in zip(texts, (12.0, 12 + wide[0]), (sure, False), strict=True):
            how: dict[str, Any] = {"weight": "bold"} if bold else {}
            style.annotate(ax, text, (1, place), (right, 0), va="center", gid="end", **how).set_in_layout(False)
    for text, right in (("lift", 12.0), ("true alarms", 12 + wide[0])):
        style.annotate(ax, text, (1, -0.8), (right, 0), 0.65, va="center", gid="column").set_in_layout(False)


def _draw(ax: Axes, rows: pd.DataFrame) -> None:
    grey, blue, ground = style.fade(ax, 0.6), style.tint(ax, palette.KEPT), style.ground(ax)
    left = ax.get_xlim()[0]
    high = style.row_height(ax, len(rows) + 1)
    size = max(2.5, min(7.0, high * 0.3))
    listed: list[Any] = [*rows.itertuples()]
    for place, row in enumerate(listed):
        color: Any = blue if row.sure else grey
        low, top = float(row.precision_low), float(row.precision_high)
        ax.barh(place, top - max(low, left), 0.34, max(low, left), color=color, alpha=0.22, linewidth=0, zorder=1.5,
                label="interval")  # fmt: skip
        ax.plot([row.base_rate, row.precision], [place] * 2, color=color, linewidth=1.6, zorder=2, label="lift")
        dot: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": size, "markeredgewidth": 1.4}
        ax.plot([row.base_rate], [place], markerfacecolor=ground, markeredgecolor=grey, zorder=3, label="all runs",
                **dot)  # fmt: skip
        ax.plot([row.precision], [place], markerfacecolor=color if row.sure else ground, markeredgecolor=color,
                zorder=3, clip_on=False, label="runs with an alarm", **dot)  # fmt: skip
    first: Any = rows.iloc[0]
    for share, text, side in (
        (first["base_rate"], "all runs", "center"),
        (first["precision"], "with an alarm", "right"),
    ):
        color = blue if side == "right" and first["sure"] else grey
        style.annotate(ax, text, (share, -0.8), (6 if side == "right" else 0, 0), color=color, va="center", ha=side,
                       gid="line label").set_in_layout(False)  # fmt: skip


def _title(rows: pd.DataFrame, rule: str) -> str:
    name, sure = shorten(rule, 34), int(rows["sure"].sum())
    if len(rows) == 1:
        row: Any = rows.iloc[0]
        right = f"{int(row['true_alarms']):,} of {count(int(row['alarms']), 'alarm')}"
        return f"{name} is right in {right}" + ("" if sure else ", which is not shown to exceed the base rate")
    return f"Alarms of {name} are shown to exceed the base rate in {sure:,} of {len(rows):,} groups"


def _notes(frame: pd.DataFrame, rows: pd.DataFrame) -> Iterable[str]:
    runs = rows["n_runs"].dropna()
    each = f" of {count_span(int(runs.min()), int(runs.max()), 'run')}" if len(runs) else ""
    yield f"{count(len(rows), 'group')}{each}."
    levels = frame["confidence"].dropna().unique().tolist() if "confidence" in frame else []
    yield f"Bands: {100 * levels[0]:.4g}% intervals of precision." if len(levels) == 1 else ""
    yield "Hollow and grey: not shown to exceed the base rate." if not rows["sure"].all() else ""
    yield format_missing(len(frame) - len(rows), "group", "without an alarm, not shown")
