"""What a step cap saves against how much longer failures are than successes, a point for each group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from benchmarks.study.length_ratios import rank_correlation
from boolab.core.text import count
from boolab.display.numbers import level, percent, span
from boolab.plots import palette, style
from boolab.plots._frames import floats, format_missing, frame_of
from boolab.plots._grid import split_groups
from boolab.plots._labels import Line, label_points
from boolab.stats.finding import Finding

_NEEDED: Final = ("rule", "length_ratio", "n_runs", "saved_share", "saved_low", "saved_high", "keep")
MAX_GROUPS: Final = 60
_MAX_NAMES: Final = 25
_FEWEST: Final = 5  # groups of which a correlation is given
_STRONG: Final = 0.5  # a correlation that the title may state
_CLOSE: Final = 2.0  # below it, failures are not much longer
_TICKS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 10, 15, 20, 30, 50, 100)
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_REST: Final = "mean length of failures / mean length of successes (log scale)"


def plot_length_ratio(table: Finding | pd.DataFrame, *, title: str | None = style.AUTO, ax: Axes | None = None) -> Axes:
    """What a step cap saves against how much longer failures are than successes, a point for each group.

    The cap is the smallest that keeps enough of the group's successes. A thin line is the interval of what it saves.
    The grey line is fitted by least squares, over the logarithm of the ratio, to guide the eye. A name for which there
    is no room is left out.

    Args:
        table: What `length_ratio` returns; or its frame.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column, or has more than 60 groups.

    Example:
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> from benchmarks.study.length_ratio_plot import plot_length_ratio
        >>> frame = pd.DataFrame({
        ...     "set": list("abcde"), "rule": "max_steps(9)", "length_ratio": [1.1, 1.4, 2.0, 4.0, 6.0], "n_runs": 50,
        ...     "saved_share": [0.01, 0.04, 0.03, 0.3, 0.4], "saved_low": 0.0, "saved_high": 0.5, "keep": 0.95})
        >>> plot_length_ratio(frame, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        'The longer failures are than successes, the more a cap saves'
    """
    frame = frame_of(table, lambda other: other, _NEEDED, "length_ratio")
    names = [str(name) for name in frame.columns]
    keys = names[: names.index("rule")]
    parts = [(name, part) for name, part in split_groups(frame, keys, MAX_GROUPS) if part["length_ratio"].notna().all()]
    if not parts:
        return style.empty_axes(ax, "no group with both successes and failures")
    rows = pd.concat([part.iloc[[0]] for _, part in parts])
    ax = style.axes_for(ax, 4.2)
    ratio, saved = floats(rows["length_ratio"]), floats(rows["saved_share"])
    _frame_axes(ax, ratio, saved)
    _shade(ax, ratio, saved)
    trend = _draw(ax, rows)
    if len(parts) <= _MAX_NAMES and not style.is_small(ax):
        points = [Line([x], [y], name) for (name, _), x, y in zip(parts, ratio, saved, strict=True)]
        label_points(ax, points, [trend] if trend else [])
    keep = sorted({float(one) for one in rows["keep"]})
    kept = level(keep[0]) if len(keep) == 1 else "enough"
    return style.finish(
        ax,
        title=style.choose_title(title, _title(ratio, saved)),
        xlabel="failures / successes" if style.is_small(ax) else _REST,
        ylabel="steps saved",
        grid=ax.yaxis,
        key=[],
        notes=_notes(frame, rows, fitted=trend is not None),
        subject=f"Steps saved by the smallest cap that keeps {kept} of successes",
    )


def _frame_axes(ax: Axes, ratio: npt.NDArray[np.float64], saved: npt.NDArray[np.float64]) -> None:
    ax.set_xscale("log")
    low, high = min(1.0, float(ratio.min())), max(2.0, float(ratio.max()))
    ax.set_xlim(low / 1.15, high * 1.25)
    top = max(0.05, float(saved.max()) * 1.18)
    ax.set_ylim(-0.1 * top, top)  # with room for a name below a point that saves nothing
    shown = [tick for tick in _TICKS if low / 1.15 <= tick <= high * 1.25]
    ax.xaxis.set_major_locator(FixedLocator(shown[:: 2 if style.is_small(ax) else 1]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{_TIMES}"))
    style.share_ticks(ax, ax.yaxis)
    ax.yaxis.set_major_locator(MaxNLocator(3 if style.is_small(ax) else 5, steps=[1, 2, 5, 10]))


def _shade(ax: Axes, ratio: npt.NDArray[np.float64], saved: npt.NDArray[np.float64]) -> None:
    """The ground where failures are less than twice as long, with the most that a cap saves there."""
    close = saved[ratio < _CLOSE]
    if not len(close) or len(close) == len(saved):
        return
    ax.axvspan(ax.get_xlim()[0], _CLOSE, color=style.fade(ax, 0.05), linewidth=0, zorder=0.3, label="close")
    text = f"below 2{_TIMES}: {percent(float(close.max()))} at most"
    if not style.is_small(ax):
        style.annotate(ax, text, (ax.get_xlim()[0], ax.get_ylim()[1]), (6, -6), 0.7, va="top", gid="close")


def _draw(ax: Axes, rows: pd.DataFrame) -> Line | None:
    """The points with their intervals, and the line through them, which is returned; None of few points."""
    x, y, small = floats(rows["length_ratio"]), floats(rows["saved_share"]), style.is_small(ax)
    ink = style.tint(ax, palette.SAVED)
    ax.vlines(x, floats(rows["saved_low"]), floats(rows["saved_high"]), color=ink, alpha=0.35, linewidth=1.2,
              zorder=3, label="interval")  # fmt: skip
    ax.plot(x, y, linestyle="", marker="o", markersize=4 if small else 7, color=ink, markeredgecolor=style.ground(ax),
            markeredgewidth=1, zorder=4, label="groups")  # fmt: skip
    if len(x) < _FEWEST or len(np.unique(x)) == 1:
        return None
    slope, start = np.polyfit(np.log(x), y, 1)
    at = np.geomspace(x.min(), x.max(), 60)
    line = np.clip(start + slope * np.log(at), 0, None)
    ax.plot(at, line, color=style.fade(ax, 0.35), linewidth=1.4, zorder=2, label="fit")
    return Line(at, line)


def _title(ratio: npt.NDArray[np.float64], saved: npt.NDArray[np.float64]) -> str:
    if len(ratio) < _FEWEST:
        (low, x), (high, y) = min(zip(saved, ratio, strict=True)), max(zip(saved, ratio, strict=True))
        if len(ratio) == 1:
            return f"Failures are {x:.1f} times as long as successes, and a cap saves {percent(low)} of steps"
        return f"A cap saves {percent(low)} where the ratio is {x:.1f}, and {percent(high)} where it is {y:.1f}"
    rho = rank_correlation(ratio.tolist(), saved.tolist())
    if rho >= _STRONG:
        return "The longer failures are than successes, the more a cap saves"
    if rho <= -_STRONG:
        return "The longer failures are than successes, the less a cap saves"
    return "What a cap saves hardly depends on how much longer failures are than successes"


def _notes(frame: pd.DataFrame, rows: pd.DataFrame, *, fitted: bool) -> Iterable[str]:
    runs = rows["n_runs"].astype(int)
    yield f"{count(len(rows), 'group')} of {span(int(runs.min()), int(runs.max()))} runs."
    rho = rank_correlation(rows["length_ratio"].tolist(), rows["saved_share"].tolist())
    if fitted and not np.isnan(rho):
        yield f"Rank correlation (Spearman) {rho:.2f}. Line: least squares, to guide the eye."
    levels = frame["confidence"].dropna().unique().tolist() if "confidence" in frame else []
    yield f"Thin lines: {level(levels[0])} intervals of what this cap saves." if len(levels) == 1 else ""
    yield "Counted on the runs that the cap was chosen by."
    yield format_missing(len(frame) - len(rows), "group", "without both successes and failures, not shown")
