"""Recorded against simulated: how well a fitted profile matches the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from boolab.core.text import count, shorten
from boolab.display.numbers import percent, whole_percent
from boolab.errors import SettingError
from boolab.plots import palette, style
from boolab.plots._frames import add_set_name, check_top
from boolab.plots._labels import stairs

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from boolab.stats.profile_fit.result import Fit

Of: TypeAlias = Literal["steps", "success_steps", "tools", "repeat_streak"]

MIN_LOG: Final = 100  # steps: from here on the axis is logarithmic
_BAND: Final = 0.18
_LABELS: Final = {
    "steps": ("steps per turn", "share still running"),
    "success_steps": ("steps per turn", "share of the successes that have ended"),
    "repeat_streak": ("longest run of the same call", "share of turns with at least that"),
    "tools": ("share of calls", ""),
}


def plot_fit(
    fit: Fit, of: Of = "steps", *, top: int = 12, title: str | None = style.AUTO, ax: Axes | None = None
) -> Axes:
    """Recorded turns against those of the profile that was fitted to them.

    The band is where as many turns of the profile itself would lie. Where the record is outside of it, the profile
    differs from the agent.

    Args:
        fit: What `fit_profile` returns.
        of: "steps": how many steps turns take. "success_steps": how many the successes take, which is what a cap keeps
            of them. "repeat_streak": how often the same call is made in a row, which is what
            doom-loop thresholds count. "tools": which tools are called.
        top: How many tools to show, those with most recorded calls first. The note counts the others.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if `of` is not one of the four, there is nothing of it to draw, or `top` is not a number of tools.

    Example:
        >>> import boolab as bl
        >>> from matplotlib.figure import Figure
        >>> model = bl.SimulatedModel(bl.models.Profile.of({"tools": {"look": {}}}))
        >>> fit = bl.fit_profile([bl.run_sync(None, "Go", model=model, seed=i) for i in range(30)], simulated=100)
        >>> bl.plots.plot_fit(fit, "tools", ax=Figure().subplots()).get_title(loc="left")
        'Tools: no difference between recorded and simulated'
    """
    if of not in _LABELS:
        raise SettingError(f"of={of!r}: expected one of {', '.join(_LABELS)}")
    check_top(top)
    rows = fit.bands[fit.bands["of"] == of].reset_index(drop=True)
    for column in ("recorded", "simulated") if of == "success_steps" else ():
        if rows[column].isna().any():
            raise SettingError(f"of={of!r}: no {column} turn ended as a success: there is nothing to compare")
    sample = add_set_name(fit.bands, f"{count(fit.turns, 'turn')} on record.")
    notes = [sample, f"Band: {100 * fit.confidence:.4g}% of as many simulated turns."]
    if of == "tools":
        rows = rows.sort_values("recorded", ascending=False, kind="stable").reset_index(drop=True)
        hidden_rows = rows.iloc[top:]
        rows = rows.iloc[:top]
        ax = style.rows_axes(ax, [shorten(str(name)) for name in rows["x"]], pd.Series(["", " "], dtype=str))
        _draw_rows(ax, rows)
        if len(hidden_rows):
            share = whole_percent(float(hidden_rows["recorded"].sum()), 1)
            notes.append(f"Not shown: {count(len(hidden_rows), 'further tool')} with {share} of the recorded calls.")
    else:
        ax = style.axes_for(ax)
        _draw_lines(ax, rows, stepped=of in ("steps", "success_steps"))
    xlabel, ylabel = _LABELS[of]
    return style.finish(
        ax,
        title=style.choose_title(title, _title(fit.goodness, of)),
        xlabel=f"{xlabel} (logarithmic)" if ax.get_xscale() == "log" else xlabel,
        ylabel=ylabel,
        grid=ax.xaxis if of == "tools" else ax.yaxis,
        key=_key(ax, lines=of in ("steps", "success_steps") or ax.get_xscale() == "log"),
        notes=notes,
        subject="Recorded turns against simulated ones",
    )


def _draw_lines(ax: Axes, rows: pd.DataFrame, *, stepped: bool) -> None:
    """Lines with a band: as stairs where the share changes at each step, as dots where only whole numbers occur."""
    x, ink = rows["x"].to_numpy(dtype=float), style.tint(ax, palette.KEPT)
    dark = style.fade(ax, 0.9)
    recorded, simulated, low, high = (
        rows[name].to_numpy(dtype=float) for name in ("recorded", "simulated", "low", "high")
    )
    long = float(x[-1]) >= MIN_LOG
    if stepped or long:
        end = float(x[-1]) + 0.02 * max(float(x[-1]), 1.0)
        band_x, band_low = stairs(x, low, end)
        ax.fill_between(band_x, band_low, stairs(x, high, end)[1], color=ink, alpha=_BAND, linewidth=0, label="band")
        ax.plot(*stairs(x, simulated, end), color=ink, linewidth=1.6, linestyle=(0, (4, 1.5)), label="simulated")
        ax.plot(*stairs(x, recorded, end), color=dark, linewidth=2, label="recorded", zorder=3)
        ax.set_xlim(1 if long else 0, end)
    else:
        ax.bar(x, np.maximum(high - low, 0.004), 0.62, low, color=ink, alpha=_BAND, linewidth=0, label="band")
        ax.hlines(simulated, x - 0.31, x + 0.31, color=ink, linewidth=1.8, label="simulated")
        ax.plot(x, recorded, linestyle="", marker="o", markersize=6, color=dark, label="recorded", zorder=3)
        ax.set_xlim(x[0] - 0.6, x[-1] + 0.6)
    ax.set_ylim(0, 1.03)
    style.share_ticks(ax, ax.yaxis)
    if long:  # otherwise the few very long turns would hide all others
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda steps, _: f"{steps:,.0f}")
        ax.xaxis.set_minor_formatter(lambda *_: "")
    else:
        style.count_ticks(ax, ax.xaxis)


def _draw_rows(ax: Axes, rows: pd.DataFrame) -> None:
    """A row for each tool: band, simulated share, recorded share."""
    y, ink = np.arange(len(rows), dtype=float), style.tint(ax, palette.KEPT)
    low, high = rows["low"].to_numpy(dtype=float), rows["high"].to_numpy(dtype=float)
    simulated = rows["simulated"].to_numpy(dtype=float)
    ax.barh(y, np.maximum(high - low, 0.002), 0.6, low, color=ink, alpha=_BAND, linewidth=0, label="band")
    ax.vlines(simulated, y - 0.3, y + 0.3, color=ink, linewidth=1.8, label="simulated")
    ax.plot(rows["recorded"], y, linestyle="", marker="o", markersize=6, color=style.fade(ax, 0.9), label="recorded",
            zorder=3)  # fmt: skip
    ax.set_xlim(0, max(float(rows[["recorded", "high"]].max().max()) * 1.08, 0.05))
    ax.xaxis.set_tick_params(labelsize=style.sizes(ax).text)
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")


def _key(ax: Axes, *, lines: bool) -> Sequence[Artist]:
    dark, ink = style.fade(ax, 0.9), style.tint(ax, palette.KEPT)
    recorded = (
        Line2D([], [], color=dark, linewidth=2, label="recorded")
        if lines
        else Line2D([], [], linestyle="", marker="o", color=dark, label="recorded")
    )
    dash: Any = (0, (2, 0.8)) if lines else "-"
    simulated = Line2D([], [], color=ink, linewidth=1.8, linestyle=dash, label="simulated")
    return [recorded, simulated, Patch(facecolor=ink, alpha=_BAND, label="by chance")]


def _title(goodness: pd.DataFrame, measure: str) -> str:
    row = goodness[goodness["measure"] == measure].iloc[0]
    subject = {
        "steps": "Steps",
        "success_steps": "Steps of successes",
        "tools": "Tools",
        "repeat_streak": "Repeated calls",
    }[measure]
    if not row["distance"]:
        return f"{subject}: no difference between recorded and simulated"
    distance, chance = (percent(float(row[name])) for name in ("distance", "by_chance"))
    if bool(row["fits"]):
        return f"{subject}: {distance} apart, within the {chance} of chance"
    return f"{subject}: {distance} apart, more than the {chance} of chance"
