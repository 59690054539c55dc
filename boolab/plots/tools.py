"""The results of the calls of each tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from boolab.core.text import count, shorten
from boolab.display.numbers import all_of
from boolab.display.text import NO_NAME
from boolab.frames.dtypes import TEXT
from boolab.frames.tables import calls_df
from boolab.plots import style
from boolab.plots._bars import draw_bars, label_ends
from boolab.plots._frames import Data, check_top, cross, missing, table_of
from boolab.plots.palette import CALL_LOOKS, UNKNOWN


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
    tools = cross(calls["tool"].astype(TEXT).fillna("").replace("", NO_NAME), outcomes, CALL_LOOKS)
    tools = tools.loc[tools.sum(axis=1).sort_values(ascending=False, kind="stable").index]
    shown = tools.iloc[:top]
    ax = style.rows_axes(ax, [shorten(str(name)) for name in shown.index], outcomes)
    draw_bars(ax, shown, CALL_LOOKS)
    label_ends(ax, shown, [_failures(row) for row in shown.to_dict("records")])
    key = style.key_of(ax, outcomes, CALL_LOOKS)
    notes = _notes(calls, tools, tools.iloc[top:])
    return style.finish(ax, title=style.chosen(title, _title(tools)), xlabel="tool calls", ylabel="tool", grid=ax.xaxis,
                        key=key, notes=notes, what="Results of calls by tool")  # fmt: skip


def outcomes_of(calls: pd.DataFrame) -> pd.Series[str]:
    """The result of each call, as in `CALL_LOOKS`."""
    failed = calls["is_error"].astype("boolean")
    names = failed.map({True: "failed", False: "ok"}).astype("string").fillna(UNKNOWN)
    return names.mask(calls["dropped"].astype("boolean").fillna(value=False).astype(bool), "dropped")


def _failures(row: Mapping[Any, int]) -> str:
    """The results of the calls of a bar: failures with their base, and the calls that are not in the base."""
    known = row["failed"] + row["ok"]
    parts = [f"{row['failed']:,} of {known:,} failed"] if known else []
    parts += [f"{row[name]:,} {name}" for name in (UNKNOWN, "dropped") if row[name]]
    return ", ".join(parts)


def _notes(calls: pd.DataFrame, tools: pd.DataFrame, rest: pd.DataFrame) -> list[str]:
    runs = f" in {count(calls['run_id'].nunique(), 'run')} with calls" if "run_id" in calls else ""
    total, hidden = tools.sum().astype(int), rest.sum().astype(int)
    notes = [
        f"{count(len(calls), 'call')} of {count(len(tools), 'tool')}{runs}.",
        missing(total[UNKNOWN], "call", "of unknown error status"),
        missing(total["dropped"], "call", "dropped: paid for, never executed"),
    ]
    if len(rest):
        of_hidden = f"{count(int(hidden.sum()), 'call')} ({_failures(hidden.to_dict())})"
        notes.append(f"Not shown: {count(len(rest), 'further tool')} with {of_hidden}.")
    return notes


def _title(tools: pd.DataFrame) -> str:
    failed, ok, unknown, dropped = (int(tools[name].sum()) for name in CALL_LOOKS)
    known = failed + ok
    if not known and unknown:
        how_many = f"ow many of {count(unknown, 'call')} failed is not known"
        if len(tools) == 1:
            return f"H{how_many}"
        calls = tools.sum(axis=1)
        return f"{shorten(str(calls.idxmax()))} is called most, {int(calls.max()):,} times; h{how_many}"
    if not known:
        return f"{all_of(dropped, 'call')} {'was' if dropped == 1 else 'were'} dropped"
    which = " of known outcome" if unknown or dropped else ""
    if failed == known:
        return f"{all_of(known, 'call')}{which} failed"
    if not failed:
        return f"The one call{which} did not fail" if known == 1 else f"None of {known:,} calls{which} failed"
    title = f"{failed:,} of {known:,} calls{which} failed"
    if len(tools) == 1:
        return title
    most, worst = int(tools["failed"].max()), shorten(str(tools["failed"].idxmax()))
    return f"{title}, all in {worst}" if most == failed else f"{title}, {most:,} of them in {worst}"
