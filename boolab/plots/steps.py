"""How many steps runs take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from boolab.core.text import count, shorten
from boolab.display.numbers import format_all, number
from boolab.errors import SettingError
from boolab.frames.tables import runs_df
from boolab.plots import style
from boolab.plots._frames import (
    Data,
    Groups,
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
from boolab.plots.palette import STOP_LOOKS, TURN_LOOKS, Look

_USUAL, _LONG = 0.98, 2  # the last bin is open where the longest run is twice as long as 98% of runs


class Bins(NamedTuple):
    """Bins of whole numbers, all equally wide: their edges, between the numbers, and where on the axis these stand.

    The last may hold all numbers from `rest` on.
    """

    edges: list[float]
    positions: list[float]
    hint: str = ""
    rest: int | None = None

    def find_bins(self, numbers: pd.Series[int]) -> pd.Series[int]:
        """The bin of each number."""
        return pd.cut(numbers, self.edges, labels=False)

    def place(self, numbers: pd.Series[Any]) -> npt.NDArray[Any]:
        """Where on the axis each number stands."""
        return np.asarray(np.interp(numbers, self.edges, self.positions))


def bins_of(numbers: pd.Series[int], room: float, groups: pd.Series[Any] | None = None) -> Bins:
    """Bins from 1 (or 0) to the largest number, as wide as there is room for; the last holds long tails."""
    low, high = min(1, int(numbers.min())), int(numbers.max())
    max_bins = max(10, min(60, int(room / 5)))
    grouped = numbers.groupby(pd.Series(0, numbers.index) if groups is None else groups)
    usual = int(grouped.quantile(_USUAL, interpolation="lower").max())
    tail = high > max_bins and usual * _LONG < high
    last = usual if tail else high
    round_numbers = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    width = next(width for width in round_numbers if width * (max_bins - 1) >= last)
    start = [-0.5] * (low == 0)
    edges = [*start, *(0.5 + width * k for k in range(math.ceil(last / width) + 1))]
    hint = f"bins of {width}" if width > 1 else ""
    if not tail:
        return Bins(edges, edges, hint)
    rest = int(edges[-1] + 0.5)
    return Bins([*edges, high + 0.5], [*edges, edges[-1] + width], hint, rest)


def label_bins(ax: Axes, bins: Bins) -> None:
    """Numbers on the x axis; under the last bin, from which number on it holds all."""
    ax.set_xlim(bins.positions[0], max(bins.positions[-1], 10.5))
    style.count_ticks(ax, ax.xaxis, 10)
    if bins.rest is None:
        return
    low, high = ax.get_xlim()
    wide = style.text_width(f"{bins.rest:,}+", style.sizes(ax).text) / style.room(ax) * (high - low)
    ends = [tick for tick in ax.get_xticks() if bins.positions[0] <= tick < bins.positions[-2] - wide]
    ax.set_xticks(
        [*ends, (bins.positions[-2] + bins.positions[-1]) / 2], [*(f"{x:,.0f}" for x in ends), f"{bins.rest:,}+"]
    )


MAX_DOTS = 40  # runs of a group that are a dot each
_LOOKS: Final[Mapping[str, Mapping[str, Look]]] = {"run": STOP_LOOKS, "turn": TURN_LOOKS}
"""What can be drawn, and how each of its stop reasons looks."""


def plot_steps(
    data: Data,
    *,
    by: str | Sequence[str] | None = None,
    unit: Literal["run", "turn"] = "run",
    title: str | None = style.AUTO,
    ax: Axes | None = None,
) -> Axes:
    """How many steps runs take, by stop reason.

    Without `by`, a histogram: a bar is as high as it has runs. Its bins are equally wide and end at round numbers,
    where caps are; where the longest run is more than twice as long as 98% of a group, the last bin holds all that
    are longer, as in "201+". With `by`, a row for each group: a dot is a run, or, where a group has more than 40 runs,
    a small histogram of the group's shares.

    Args:
        data: A run, runs, or a frame like `runs_df`.
        by: A column of that frame, such as "agent", "policy" or a setting that was swept, or several.
        unit: What a row of the frame is: a run, or a turn of one, which may end as "interrupted" too.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column or holds an unknown stop reason, or the unit is neither.

    Example:
        >>> import boolab as bl
        >>> from matplotlib.figure import Figure
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.plots.plot_steps(run, ax=Figure().subplots()).get_title(loc="left")
        'The one run takes 1 step'
    """
    if unit not in _LOOKS:
        raise SettingError(f"unit={unit!r}: expected {' or '.join(map(repr, _LOOKS))}")
    keys, looks = [] if by is None else columns_of(by), _LOOKS[unit]
    runs = table_of(data, runs_df, ["n_steps", "stop_reason"], keys)
    known_runs = runs[runs["n_steps"].notna()].reset_index(drop=True)
    if known_runs.empty:
        return style.empty_axes(ax, f"no {unit}s{'' if runs.empty else ' with a known number of steps'}")
    steps, reasons = known_runs["n_steps"].astype("int64"), stop_reasons(known_runs, looks)
    censored = int(known_runs["censored"].astype("boolean").sum()) if "censored" in known_runs else 0
    notes = [
        sample(runs, keys, unit),
        format_missing(len(runs) - len(known_runs), unit, "not shown: number of steps unknown"),
        format_missing(censored, unit, "censored: full length unknown"),
        unknown_reasons(reasons, unit),
    ]
    if by is None:
        ax = style.axes_for(ax)
        bins = bins_of(steps, style.room(ax))
        _draw_histogram(ax, steps, reasons, bins, looks)
        finding, ylabel, dots = _title(steps, unit), f"{unit}s", False
    else:
        groups, name = groups_of(known_runs, keys, unit), ", ".join(keys)
        dots = max(groups.sizes) <= MAX_DOTS
        labels = [f"{label} ({size:,})" for label, size in zip(groups.labels, groups.sizes, strict=True)]
        ax = style.rows_axes(ax, labels, reasons, 0.34 if dots else 0.6)
        bins = bins_of(steps, style.room(ax), groups.rows)
        draw = _draw_dots if dots else _draw_small_histograms
        draw(ax, steps, reasons, bins, groups, looks)
        medians = steps.groupby(groups.rows).median()
        _draw_medians(ax, medians, bins)
        finding = _title(steps, unit) if len(medians) == 1 else _medians_title(medians, groups.labels, name, unit)
        ylabel = name
        notes += ["" if dots else f"Heights: shares of a row's {unit}s.", f"Triangles: medians; in brackets: {unit}s."]
        notes += [groups.note]
    label_bins(ax, bins)
    hint = f" ({bins.hint})" if bins.hint and not dots else ""
    key = style.key_of(ax, reasons, looks, markers=dots)
    xlabel, ticks = f"steps per {unit}{hint}", ax.yaxis if by is None else ax.xaxis
    return style.finish(ax, title=style.choose_title(title, finding), xlabel=xlabel, ylabel=ylabel, grid=ticks, key=key,
                        notes=notes, subject=f"Steps per {unit}, by stop reason")  # fmt: skip


def _draw_histogram(
    ax: Axes, steps: pd.Series[int], reasons: pd.Series[str], bins: Bins, looks: Mapping[str, Look]
) -> None:
    """A stacked bar for each bin."""
    counts = cross(bins.find_bins(steps), reasons, looks)
    left_edges, width = np.array(bins.positions)[counts.index], np.diff(bins.positions)[counts.index]
    for name, mask, low, high in stack_counts(counts):
        paint = style.paint(ax, looks[name])
        ax.bar(left_edges[mask], high - low, width[mask], low, align="edge", label=name, **paint)
    style.count_ticks(ax, ax.yaxis)


def _draw_small_histograms(
    ax: Axes,
    steps: pd.Series[int],
    reasons: pd.Series[str],
    bins: Bins,
    groups: Groups,
    looks: Mapping[str, Look],
) -> None:
    """A histogram on each row, as high as its shares; all rows to one scale."""
    counts = cross([groups.rows, bins.find_bins(steps)], reasons, looks)
    row, bin_index = (counts.index.get_level_values(level).to_numpy().astype(int) for level in (0, 1))
    left_edges, right = np.array(bins.positions)[bin_index], np.array(bins.positions)[bin_index + 1]
    sizes = np.array(groups.sizes)[row]
    foot, scale = row + 0.42, 0.86 / (counts.sum(axis=1) / sizes).max()
    for name, mask, start, end in stack_counts(counts):
        low, high = (foot[mask] - ends / sizes[mask] * scale for ends in (start, end))
        corners: Any = np.array(
            [[left_edges[mask], right[mask], right[mask], left_edges[mask]], [low, low, high, high]]
        ).T
        paint = style.paint(ax, looks[name], len(groups.labels))
        ax.add_collection(PolyCollection(corners, label=name, **paint), autolim=False)
    feet = np.arange(len(groups.labels)) + 0.42
    ax.hlines(feet, 0, 1, colors=[style.fade(ax, 0.3)], linewidth=0.6, transform=ax.get_yaxis_transform())


def _draw_dots(
    ax: Axes,
    steps: pd.Series[int],
    reasons: pd.Series[str],
    bins: Bins,
    groups: Groups,
    looks: Mapping[str, Look],
) -> None:
    """A dot for each run; runs of the same row and number of steps are stacked, by stop reason."""
    order = reasons.map({name: i for i, name in enumerate(looks)})
    dots = pd.DataFrame({"row": groups.rows, "steps": steps, "reason": reasons, "order": order})
    dots = dots.dropna().sort_values("order", kind="stable")
    piles = dots.groupby(["row", "steps"])["order"]
    pile_index, height = piles.cumcount(), piles.transform("size")
    row = style.row_height(ax, len(groups.labels))
    across = max(3.0, min(6.5, row * 0.45))
    gap = (0.8 / (height - 1).clip(lower=1)).clip(upper=across / row)
    dots["y"] = dots["row"] + (pile_index - (height - 1) / 2) * gap
    dots["x"] = bins.place(dots["steps"])
    for name, look in looks.items():
        reason_dots = dots[dots["reason"] == name]
        if len(reason_dots):
            ax.scatter(reason_dots["x"], reason_dots["y"], s=across**2, marker=look.marker, facecolors=look.fill,
                       edgecolors=[style.edge(ax, look)], linewidths=0.6, label=name, zorder=3)  # fmt: skip


def _draw_medians(ax: Axes, medians: pd.Series[Any], bins: Bins) -> None:
    """A triangle under each row."""
    ax.plot(
        bins.place(medians),
        medians.index + 0.47,
        linestyle="",
        marker=6,  # CARETUP: its tip is at the point
        markersize=max(2.0, min(5.0, style.row_height(ax, len(medians)) * 0.25)),
        markeredgewidth=0,
        color=style.fade(ax, 0.85),
        label="median",
        zorder=4,
        clip_on=False,
    )


def _title(steps: pd.Series[int], unit: str) -> str:
    shortest, longest = int(steps.min()), int(steps.max())
    if shortest == longest:
        return f"{format_all(len(steps), unit)} {'takes' if len(steps) == 1 else 'take'} {_steps(longest)}"
    median = _steps(float(steps.median()))
    return f"The median of {count(len(steps), unit)} is {median}, the longest takes {longest:,}"


def _medians_title(medians: pd.Series[Any], labels: list[str], key_name: str, unit: str) -> str:
    smallest, largest = float(medians.min()), float(medians.max())
    if smallest == largest:
        return f"The median {unit} takes {_steps(smallest)} with each {key_name}"
    low, high = (shorten(labels[row]) for row in (medians.argmin(), medians.argmax()))
    if low[:1].isdigit() or high[:1].isdigit():  # a number does not show of what it is
        low, high = f"{key_name}={low}", f"{key_name}={high}"
    return f"The median {unit} takes {_steps(smallest)} ({low}) to {number(largest)} ({high})"


def _steps(value: float) -> str:
    return f"{number(value)} step{'' if value == 1 else 's'}"
