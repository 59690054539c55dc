"""Bars that are divided into parts: why runs end, and the results of the calls of each tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from boolab.core.text import count, shorten
from boolab.display.numbers import format_all
from boolab.display.text import NO_NAME
from boolab.frames.dtypes import TEXT
from boolab.frames.tables import calls_df, runs_df
from boolab.plots import palette, style
from boolab.plots._frames import (
    Data,
    check_top,
    columns_of,
    cross,
    format_missing,
    groups_of,
    sample,
    stack_counts,
    stop_reasons,
    table_of,
    unknown_reasons,
)
from boolab.plots.palette import CALL_LOOKS, STOP_LOOKS, UNKNOWN, Look
from boolab.plots.style import Keyword

MAX_PARTS = 400  # of bars: with more, none is labelled


def draw_bars(ax: Axes, counts: pd.DataFrame, looks: Mapping[str, palette.Look]) -> list[tuple[Rectangle, str]]:
    """A horizontal bar for each row of a table of counts, divided by column; the parts, each with its column's name."""
    parts: list[tuple[Rectangle, str]] = []
    rows = np.arange(len(counts))
    for name, mask, start, end in stack_counts(counts):
        paint = style.paint(ax, looks[name], len(counts))
        bars = ax.barh(rows[mask], end - start, height=0.72, left=start, label=name, **paint)
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

    def __init__(self, bar: Rectangle, choices: Sequence[str], **options: Keyword) -> None:
        x, y = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
        super().__init__(x, y, choices[0], ha="center", va="center", **options)
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


_UNEQUAL: Final = 10
"""Where a group has so many times the runs of another, bars of counts would leave nothing of the other."""
_VERBS: Final[Mapping[str, tuple[str, str, str]]] = {
    "finished": ("finishes", "finish", ""),
    "synthesis": ("ends", "end", " with a synthesis"),
    "paused": ("waits", "wait", " for an answer"),
    "step_cap": ("ends", "end", " at the step cap"),
    "tool_budget": ("ends", "end", " at the tool budget"),
    "doom_loop": ("ends", "end", " in a doom loop"),
    "token_budget": ("ends", "end", " at the token budget"),
    "cost_budget": ("ends", "end", " at the cost budget"),
    "time_budget": ("ends", "end", " at the time budget"),
    "error_streak": ("ends", "end", " in an error streak"),
    "stuck": ("gets", "get", " stuck"),
    "aborted": ("is", "are", " aborted"),
    "error": ("fails", "fail", " with an error"),
    UNKNOWN: ("ends", "end", " for an unknown reason"),
}
"""The verb in a title for one run, or several, that ended that way."""


def plot_stop_reasons(
    data: Data,
    *,
    by: str | Sequence[str] | None = None,
    looks: Mapping[str, Look] | None = None,
    title: str | None = style.AUTO,
    ax: Axes | None = None,
) -> Axes:
    """Why runs end: a bar for each group, divided by stop reason.

    Where one group has more than ten times the runs of another, bars are shares of a group's runs, so that each can be
    read; the number at the end of a bar is that of its runs.

    Args:
        data: A run, runs, or a frame like `runs_df`.
        by: A column of that frame, or several, "agent" by default; or "policy", a setting that was swept, ... Runs
            without a value are one group, "no name" or "no limit", which comes last.
        looks: By stop reason, a look in place of boolab's own, as in `style.STOP_LOOKS`.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column or holds an unknown stop reason.

    Example:
        >>> import boolab as bl
        >>> from matplotlib.figure import Figure
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.plots.plot_stop_reasons(run, ax=Figure().subplots()).get_title(loc="left")
        'The one run finishes'
    """
    keys = columns_of("agent" if by is None else by)
    runs = table_of(data, runs_df, ["stop_reason"], keys)
    if runs.empty:
        return style.empty_axes(ax, "no runs")
    reasons = stop_reasons(runs)
    groups = groups_of(runs, keys)
    look_of = {**STOP_LOOKS, **(looks or {})}
    counts = cross(groups.rows, reasons, look_of)
    ax = style.rows_axes(ax, groups.labels, reasons)
    in_shares = max(groups.sizes) > _UNEQUAL * min(groups.sizes)
    if in_shares:
        counts = counts.div(groups.sizes, axis=0) * 100
    label_inside(ax, draw_bars(ax, counts, look_of), look_of, "{:.0f}%" if in_shares else "{:,.0f}")
    label_ends(ax, counts, [f"{size:,}" for size in groups.sizes])
    if in_shares:
        ax.set_xticks(range(0, 101, 20))
    notes = [sample(runs, keys), unknown_reasons(reasons), groups.note]
    key = style.key_of(ax, reasons, look_of)
    return style.finish(
        ax,
        title=style.choose_title(title, _reasons_title(reasons)),
        xlabel="% of a row's runs" if in_shares else "runs",
        ylabel=", ".join(keys),
        grid=ax.xaxis,
        key=key,
        notes=notes,
        subject=f"Stop reasons by {' and '.join(keys)}",
    )


def _reasons_title(reasons: pd.Series[str]) -> str:
    total = len(reasons)
    counts = reasons.value_counts().reindex(list(STOP_LOOKS), fill_value=0).sort_values(ascending=False, kind="stable")
    (first, n), (next_reason, m), *_ = counts.items()
    if n == total:
        return f"{format_all(total, 'run')} {ends(str(first), n)}"
    half = total > 2 and 2 * n == total  # noqa: PLR2004 - one half, and "1 of 2" is as short
    return f"{'Half' if half else f'{n:,}'} of {total:,} runs {ends(str(first), n)}, {m:,} {ends(str(next_reason), m)}"


def ends(reason: str, n: int) -> str:
    """How one run, or several, ended: "finishes", "end at the step cap"."""
    singular_verb, plural_verb, rest = _VERBS[reason]
    return f"{singular_verb if n == 1 else plural_verb}{rest}"


def plot_tools(data: Data, *, top: int = 12, title: str | None = style.AUTO, ax: Axes | None = None) -> Axes:
    """Calls by tool: which failed, which did not, for which that is not known, and which were dropped.

    Args:
        data: A run, runs, or a frame like `calls_df`.
        top: How many tools to show, those with most calls first. The note under the figure counts the others.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column, or `top` is not a number of tools.

    Example:
        >>> import boolab as bl
        >>> from matplotlib.figure import Figure
        >>> script = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": 2}, "Done."], tools={"ls": "a.py"})
        >>> bl.plots.plot_tools(bl.run_sync(None, "Look", model=script), ax=Figure().subplots()).get_title(loc="left")
        'None of 2 calls failed'
    """
    check_top(top)
    calls = table_of(data, calls_df, ["tool", "is_error", "dropped"])
    if calls.empty:
        return style.empty_axes(ax, "no tool calls")
    outcomes = outcomes_of(calls)
    tool_counts = cross(calls["tool"].astype(TEXT).fillna("").replace("", NO_NAME), outcomes, CALL_LOOKS)
    tool_counts = tool_counts.loc[tool_counts.sum(axis=1).sort_values(ascending=False, kind="stable").index]
    shown_tools = tool_counts.iloc[:top]
    ax = style.rows_axes(ax, [shorten(str(name)) for name in shown_tools.index], outcomes)
    draw_bars(ax, shown_tools, CALL_LOOKS)
    label_ends(ax, shown_tools, [_failures(row) for row in shown_tools.to_dict("records")])
    key = style.key_of(ax, outcomes, CALL_LOOKS)
    notes = _tools_notes(calls, tool_counts, tool_counts.iloc[top:])
    heading = style.choose_title(title, _tools_title(tool_counts))
    return style.finish(ax, title=heading, xlabel="tool calls", ylabel="tool", grid=ax.xaxis, key=key, notes=notes,
                        subject="Results of calls by tool")  # fmt: skip


def outcomes_of(calls: pd.DataFrame) -> pd.Series[str]:
    """The result of each call, as in `CALL_LOOKS`."""
    failed = calls["is_error"].astype("boolean")
    names = failed.map({True: "failed", False: "ok"}).astype("string").fillna(UNKNOWN)
    return names.mask(calls["dropped"].astype("boolean").fillna(value=False).astype(bool), "dropped")


def _failures(row: Mapping[Any, int]) -> str:
    """The results of the calls of a bar: failures with their base, and the calls that are not in the base."""
    known_count = row["failed"] + row["ok"]
    parts = [f"{row['failed']:,} of {known_count:,} failed"] if known_count else []
    parts += [f"{row[name]:,} {name}" for name in (UNKNOWN, "dropped") if row[name]]
    return ", ".join(parts)


def _tools_notes(calls: pd.DataFrame, tool_counts: pd.DataFrame, rest: pd.DataFrame) -> list[str]:
    runs = f" in {count(calls['run_id'].nunique(), 'run')} with calls" if "run_id" in calls else ""
    total, hidden_totals = tool_counts.sum().astype(int), rest.sum().astype(int)
    notes = [
        f"{count(len(calls), 'call')} of {count(len(tool_counts), 'tool')}{runs}.",
        format_missing(total[UNKNOWN], "call", "of unknown error status"),
        format_missing(total["dropped"], "call", "dropped: paid for, never executed"),
    ]
    if len(rest):
        of_hidden = f"{count(int(hidden_totals.sum()), 'call')} ({_failures(hidden_totals.to_dict())})"
        notes.append(f"Not shown: {count(len(rest), 'further tool')} with {of_hidden}.")
    return notes


def _tools_title(tool_counts: pd.DataFrame) -> str:
    failed, ok, unknown, dropped = (int(tool_counts[name].sum()) for name in CALL_LOOKS)
    known_count = failed + ok
    if not known_count and unknown:
        how_many = f"ow many of {count(unknown, 'call')} failed is not known"
        if len(tool_counts) == 1:
            return f"H{how_many}"
        calls = tool_counts.sum(axis=1)
        return f"{shorten(str(calls.idxmax()))} is called most, {int(calls.max()):,} times; h{how_many}"
    if not known_count:
        return f"{format_all(dropped, 'call')} {'was' if dropped == 1 else 'were'} dropped"
    condition = " of known outcome" if unknown or dropped else ""
    if failed == known_count:
        return f"{format_all(known_count, 'call')}{condition} failed"
    if not failed:
        return (
            f"The one call{condition} did not fail"
            if known_count == 1
            else f"None of {known_count:,} calls{condition} failed"
        )
    title = f"{failed:,} of {known_count:,} calls{condition} failed"
    if len(tool_counts) == 1:
        return title
    most_failures, worst = int(tool_counts["failed"].max()), shorten(str(tool_counts["failed"].idxmax()))
    return f"{title}, all in {worst}" if most_failures == failed else f"{title}, {most_failures:,} of them in {worst}"
