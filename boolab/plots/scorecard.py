"""How well rules distinguish runs that fail from runs that succeed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from boolab.core.text import count, shorten
from boolab.display.numbers import span
from boolab.errors import SettingError
from boolab.frames.dtypes import Cell
from boolab.plots import style
from boolab.plots._frames import add_set_name, floats, format_missing, frame_of, no_value
from boolab.plots.style import MAX_PANELS, draw_panels
from boolab.stats.finding import Finding

_COLUMNS: Final = (
    *("rule", "n_runs", "n_positive", "alarms", "true_alarms", "false_alarms", "missed"),
    *("precision", "precision_low", "precision_high", "recall", "recall_low", "recall_high"),
)
_PER_ROW: Final = 0.62  # inches
_MAX_ROWS: Final = 10  # with groups, in one Axes
_PER_GROUP: Final = 0.19  # inches of a row in a panel
_PANEL_TEXTS: Final = 0.55
_MIN_PANEL: Final = 1.7
_MAX_PANEL: Final = 10.0
_GROUP_NAME, _RULE_NAME = 30, 26  # characters
_NO_KEY: Final = pd.Series([], dtype="string")
MAX_NAME: Final = 34
MAX_TEXT: Final = 0.6  # of the Axes: wider texts are shortened


class _Mark(NamedTuple):
    """How a ratio is drawn: its colour and marker, how far above the middle of its row; the text without a base."""

    color: str
    marker: str
    offset: float
    undefined: str
    base: str


_MARKS: Final[Mapping[str, _Mark]] = {
    "precision": _Mark("#332288", "o", 0.17, "no alarms", "alarms"),
    "recall": _Mark("#cc6677", "D", -0.17, "nothing to find", "n_positive"),
}


def plot_scorecard(table: Finding | pd.DataFrame, *, title: str | None = style.AUTO, ax: Axes | None = None) -> Axes:
    """Precision and recall of each rule, with their intervals and the counts behind them.

    Precision is the share of alarms that were right, recall the share of what was to be found that raised an alarm. A
    ratio without a base has a text instead of a mark. Where groups make more than 10 rows, each rule has a panel in a
    figure of its own, with a row for each group, in the order of their base rates, which are marked.

    Args:
        table: What `scorecard` returns, or its frame: a row for each rule, and for each group if there are any.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column, or has more than 30 rules for panels.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> frame = pd.DataFrame({
        ...     "rule": ["doom_loop(3)"], "n_runs": 50, "n_positive": 29, "alarms": 12, "true_alarms": 9,
        ...     "false_alarms": 3, "missed": 20, "precision": 0.75, "precision_low": 0.43, "precision_high": 0.95,
        ...     "recall": 0.31, "recall_low": 0.15, "recall_high": 0.51})
        >>> bl.plots.plot_scorecard(frame, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        'doom_loop(3) is right in 9 of 12 alarms and finds 9 of 29 positives'
    """
    rows = frame_of(table, lambda other: other, _COLUMNS, "scorecard")
    if rows.empty:
        return style.empty_axes(ax, "no rules")
    keys = _group_columns(rows)
    if ax is None and keys and len(rows) > _MAX_ROWS:
        return _panels(rows, keys, title)
    names = _names(rows)
    ax = style.rows_axes(ax, names, _NO_KEY, _PER_ROW)
    counts = [_counts(row, small=style.is_small(ax)) for row in _records(rows)]
    if _share(ax, counts) > MAX_TEXT:
        counts = [_counts(row, small=True) for row in _records(rows)]
    _room_for(ax, counts)
    for name, mark in _MARKS.items():
        _draw(ax, rows, name, mark)
    _write(ax, counts)
    ax.hlines(np.arange(1, len(rows)) - 0.5, 0, 1, colors=[style.fade(ax, 0.12)], linewidth=0.8)
    return style.finish(
        ax,
        title=style.choose_title(title, _title(rows, names)),
        xlabel="share",
        ylabel="",
        grid=ax.xaxis,
        key=_key(ax),
        notes=_notes(rows),
        subject="Alarms of each rule",
    )


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def _group_columns(rows: pd.DataFrame) -> list[str]:
    return [str(name) for name in rows.columns[: list(rows.columns).index("rule")] if name not in _COLUMNS]


def _names(rows: pd.DataFrame) -> list[str]:
    """The rules; with groups, a rule and its group."""
    keys = _group_columns(rows)
    names = [str(rule) if not pd.isna(rule) else "no rule" for rule in rows["rule"]]
    if not keys:
        return names
    return [f"{name}, {group}" for name, group in zip(names, _groups(rows, keys), strict=True)]


def _groups(rows: pd.DataFrame, keys: list[str]) -> list[str]:
    """The name of each row's group."""
    lacking = [no_value(rows[key]) for key in keys]
    return [
        ", ".join(
            lacking_text if pd.isna(part) or part == "" else str(part)
            for part, lacking_text in zip(row, lacking, strict=True)
        )
        for row in rows[keys].to_numpy()
    ]


def _panels(rows: pd.DataFrame, keys: list[str], title: str | None) -> Axes:
    """A panel for each rule, with a row for each group, which is the same row in all panels."""
    groups, rules = pd.Series(_groups(rows, keys)), rows["rule"].fillna("no rule").astype(str)
    kinds = rules.unique().tolist()
    if len(kinds) > MAX_PANELS:
        msg = f"the frame has {len(kinds):,} rules: choose at most {MAX_PANELS}, as in table[table['rule'] == ...]"
        raise SettingError(msg)
    base = pd.Series(floats(rows["n_positive"]) / np.maximum(floats(rows["n_runs"]), 1))
    order = base.groupby(groups, sort=False).max().sort_values(ascending=False, kind="stable").index.tolist()
    parts = []
    for rule in kinds:
        rule_rows = rows[(rules == rule).to_numpy()].assign(base=base)
        rule_rows.index = pd.Index(groups[rule_rows.index])
        parts.append((shorten(rule, _RULE_NAME), rule_rows[~rule_rows.index.duplicated()].reindex(order)))
    height = min(_MAX_PANEL, max(_MIN_PANEL, _PANEL_TEXTS + _PER_GROUP * len(order)))
    heading = style.choose_title(title, _title_of_panels(rows, rules, len(order)))
    return draw_panels(parts, _panel, title=heading, notes=_notes_of_panels(rows), height=height)


def _panel(rows: pd.DataFrame, ax: Axes) -> Axes:
    """One rule: a row for each group, the index of these rows."""
    names = [str(name) for name in rows.index]
    ax = style.rows_axes(ax, names, _NO_KEY)
    ax.set_yticklabels([shorten(names[int(tick)], _GROUP_NAME) for tick in ax.get_yticks()], **style.PLAIN)
    ax.set_xlim(-0.03, 1.03)
    style.share_ticks(ax, ax.xaxis)
    ax.hlines(np.arange(len(rows)), 0, 1, colors=[style.fade(ax, 0.1)], linewidth=0.6, zorder=1)
    y, half = np.arange(len(rows)), 0.38
    ax.vlines(floats(rows["base"]), y - half, y + half, colors=[style.fade(ax, 0.6)], linewidth=1.2, zorder=2,
              label="base rate")  # fmt: skip
    for name, mark in _MARKS.items():
        _draw(ax, rows, name, mark)
    return style.finish(ax, title="", xlabel="share", ylabel="", grid=ax.xaxis, key=[], notes=())


def _title_of_panels(rows: pd.DataFrame, rules: pd.Series[Any], n: int) -> str:
    """In how many groups the best rule is right more often than random alarms."""
    if "lift_low" not in rows:
        return f"What {count(rules.nunique(), 'rule')} find in {n:,} groups"
    better = pd.Series(floats(rows["lift_low"]) > 1).groupby(rules.to_numpy(), sort=False).sum()
    most_groups = int(better.max())
    if not most_groups:
        return f"In none of {n:,} groups a rule is shown to be right more often than random alarms"
    name = shorten(str(better.idxmax()), MAX_NAME)
    return f"{name} is right more often than random alarms in {most_groups:,} of {n:,} groups"


def _notes_of_panels(rows: pd.DataFrame) -> Iterable[str]:
    yield "Circles: precision; diamonds: recall; upright strokes: base rate, the precision of random alarms."
    yield from _notes(rows)


def _draw(ax: Axes, rows: pd.DataFrame, name: str, mark: _Mark) -> None:
    """A point with its interval on each row; words where the ratio is undefined."""
    color, height = style.tint(ax, mark.color), style.row_height(ax, len(rows))
    values, low, high = (floats(rows[column]) for column in (name, f"{name}_low", f"{name}_high"))
    y = np.arange(len(rows)) - mark.offset
    ax.hlines(y, low, high, colors=[color], linewidth=min(1.8, height * 0.1), label=f"{name} interval", zorder=3)
    ax.plot(values, y, linestyle="", marker=mark.marker, color=color, markersize=max(1.5, min(6.5, height * 0.2)),
            markeredgewidth=0, label=name, zorder=4, clip_on=False)  # fmt: skip
    if height < 2 * style.sizes(ax).note:
        return
    base = floats(rows[mark.base])
    for index in np.flatnonzero(np.isnan(values)):
        text = mark.undefined if base[index] == 0 else f"{name} unknown"
        style.annotate(ax, text, (0, float(y[index])), (4, 0), 0.6, va="center", gid="undefined", style="italic")


def _counts(row: Mapping[str, Any], *, small: bool) -> str:
    """What stands at the right of a row: alarms, what they cost, what they save."""
    alarms = _whole_number(row["alarms"])
    if alarms is None or not alarms:
        first = "no alarms" if alarms == 0 else "alarms unknown"
    else:
        first = f"{count(alarms, 'alarm')}, {_whole_number(row['true_alarms']) or 0:,} true"
    if small:
        return first
    clean = _whole_number(row.get("clean_threshold"))
    first += f"; none false from {clean:,} up" if clean is not None else ""
    return "\n".join(filter(None, [first, _format_lost(row), _format_saved(row)] if alarms else [first]))


def _format_lost(row: Mapping[str, Any]) -> str:
    low, high = (_whole_number(row.get(f"successes_lost_{end}")) for end in ("lower", "upper"))
    if low is None or high is None:
        return ""
    base = row.get("successes")
    if base is None and str(row.get("positive_is", "")).startswith("failed"):
        base = row["n_runs"] - row["n_positive"]
    return f"lost {span(low, high)}" + (
        "" if base is None or pd.isna(base) else f" of {count(int(base), 'success', 'successes')}"
    )


def _format_saved(row: Mapping[str, Any]) -> str:
    steps, cost = row.get("saved_steps"), row.get("saved_cost_usd")
    parts = [] if steps is None or pd.isna(steps) else [count(int(steps), "step")]
    parts += [] if cost is None or pd.isna(cost) else [f"${cost:,.2f}"]
    return f"saved {', '.join(parts)}" if parts else ""


def _whole_number(value: Cell) -> int | None:
    return None if value is None or pd.isna(value) else int(value)


def _share(ax: Axes, texts: list[str]) -> float:
    """Which share of the Axes the texts take."""
    size = style.sizes(ax).note
    return (max(style.text_width(text, size) for text in texts) + 14) / style.room(ax)


def _room_for(ax: Axes, texts: list[str]) -> None:
    """An axis from 0% to 100%, and beyond it the room for the counts."""
    ax.set_xlim(0, 1 / (1 - min(0.7, _share(ax, texts))))
    style.share_ticks(ax, ax.xaxis)
    ax.spines["bottom"].set_bounds(0, 1)


def _write(ax: Axes, texts: list[str]) -> None:
    size = style.sizes(ax).note
    height = style.row_height(ax, len(texts))
    for row, text in enumerate(texts):
        lines = text.splitlines()[: max(1, int(height / (size * 1.25)))]
        if height >= size:
            style.annotate(ax, "\n".join(lines), (1, row), (12, 0), va="center", gid="end", linespacing=1.3
                           ).set_in_layout(False)  # fmt: skip


def _key(ax: Axes) -> list[Artist]:
    labels = {"precision": "precision: share of alarms that are right", "recall": "recall: share found"}
    return [Line2D([], [], color=style.tint(ax, mark.color), marker=mark.marker, markersize=5, linewidth=1.8,
                   label=name if style.is_small(ax) else labels[name]) for name, mark in _MARKS.items()]  # fmt: skip


def _positives(rows: pd.DataFrame) -> str:
    """How what is to be found is called: "failed runs", or a neutral word."""
    kinds = rows["positive_is"].dropna().astype(str).unique().tolist() if "positive_is" in rows else []
    return f"{shorten(kinds[0])} runs" if len(kinds) == 1 and len(kinds[0].split()) == 1 else "positives"


def _title(rows: pd.DataFrame, names: list[str]) -> str:
    positives = _positives(rows)
    if len(rows) == 1:
        return _describe_rule(_records(rows)[0], shorten(names[0], MAX_NAME), positives)
    alarms = rows["alarms"].fillna(0)
    sounding = rows[alarms > 0]
    n = len(rows)
    if rows["alarms"].isna().all():
        return f"How often {n:,} rules raise an alarm is not known"
    if sounding.empty:
        return f"None of {n:,} rules raises an alarm"
    clean = sounding[sounding["false_alarms"].fillna(1) == 0]
    if len(clean):
        best = int(floats(clean["true_alarms"]).argmax())
        row = _records(clean.iloc[best : best + 1])[0]
        name = shorten(names[int(clean.index[best])], MAX_NAME)
        found_text = (
            f"{_whole_number(row['true_alarms']) or 0:,} of {_whole_number(row['n_positive']) or 0:,} {positives}"
        )
        if len(clean) == 1:
            return f"{name} raises no false alarm and finds {found_text}"
        return f"{len(clean):,} of {n:,} rules raise alarms and no false one; {name} finds most, {found_text}"
    ratio = floats(sounding["precision"])
    if np.isnan(ratio).all():
        return f"{len(sounding):,} of {n:,} rules raise alarms"
    best = int(np.nanargmax(ratio))
    row = _records(sounding.iloc[best : best + 1])[0]
    name = shorten(names[int(sounding.index[best])], MAX_NAME)
    right = f"{_whole_number(row['true_alarms']) or 0:,} of {_whole_number(row['alarms']) or 0:,}"
    return f"No rule is without false alarms; {name} is right most often, in {right}"


def _describe_rule(row: Mapping[str, Any], name: str, positives: str) -> str:
    alarms, true, base = (_whole_number(row[key]) for key in ("alarms", "true_alarms", "n_positive"))
    if not alarms:
        return f"{name} raises no alarm" if alarms == 0 else f"What {name} finds is not known"
    found_text = f" and finds {true:,} of {base:,} {positives}" if base else ""
    return f"{name} is right in {true:,} of {count(alarms, 'alarm')}{found_text}"


def _notes(rows: pd.DataFrame) -> Iterable[str]:
    runs, positive = rows["n_runs"].dropna(), rows["n_positive"].dropna()
    if len(runs):
        low, high = int(runs.min()), int(runs.max())
        yield add_set_name(rows, f"{span(low, high)} run{'' if high == 1 else 's'}{' per row' if low != high else ''}.")
    kinds = rows["positive_is"].dropna().astype(str).unique().tolist() if "positive_is" in rows else []
    if len(positive):
        low, high = int(positive.min()), int(positive.max())
        is_what = f" ({', '.join(map(shorten, kinds))})" if kinds else ""
        yield f"To find: {span(low, high)}{is_what}."
    levels = rows["confidence"].dropna().unique().tolist() if "confidence" in rows else []
    if len(levels) == 1:
        yield f"Lines: {100 * levels[0]:.4g}% intervals."
    noun = "row" if _group_columns(rows) else "rule"
    yield format_missing(int(rows["precision"].isna().sum()), noun, "without a known precision")
