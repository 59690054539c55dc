"""Why runs end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd
from matplotlib.axes import Axes

from boolab.display.numbers import all_of
from boolab.frames.tables import runs_df
from boolab.plots import style
from boolab.plots._bars import draw_bars, label_ends, label_inside
from boolab.plots._frames import Data, columns_of, cross, groups_of, sample, stop_reasons, table_of, unknown_reasons
from boolab.plots.palette import STOP_LOOKS, UNKNOWN, Look

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
        title=style.chosen(title, _title(reasons)),
        xlabel="% of a row's runs" if in_shares else "runs",
        ylabel=", ".join(keys),
        grid=ax.xaxis,
        key=key,
        notes=notes,
        what=f"Stop reasons by {' and '.join(keys)}",
    )


def _title(reasons: pd.Series[str]) -> str:
    total = len(reasons)
    counts = reasons.value_counts().reindex(list(STOP_LOOKS), fill_value=0).sort_values(ascending=False, kind="stable")
    (first, n), (second, m), *_ = counts.items()
    if n == total:
        return f"{all_of(total, 'run')} {ends(str(first), n)}"
    half = total > 2 and 2 * n == total  # noqa: PLR2004 - one half, and "1 of 2" is as short
    return f"{'Half' if half else f'{n:,}'} of {total:,} runs {ends(str(first), n)}, {m:,} {ends(str(second), m)}"


def ends(reason: str, n: int) -> str:
    """How one run, or several, ended: "finishes", "end at the step cap"."""
    one, several, rest = _VERBS[reason]
    return f"{one if n == 1 else several}{rest}"
