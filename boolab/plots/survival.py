"""How long runs take, and how they end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from boolab.core.text import count, shorten
from boolab.display.numbers import format_all, whole_percent
from boolab.errors import SettingError
from boolab.plots import palette, style
from boolab.plots._frames import Data, add_set_name, floats, frame_of, is_of_steps
from boolab.plots._grid import UNITS, split_groups
from boolab.plots._labels import Line, label_lines, stairs
from boolab.plots.style import MAX_PANELS, draw_panels
from boolab.stats.finding import Finding

_COLUMNS: Final = ("of", "time", "at_risk", "ended", "censored")
_HALF: Final = 0.5
_INCIDENCES: Final = {"success": palette.KEPT, "failure": palette.WRONG}


class _StairLine(NamedTuple):
    """One stair line with its band: the group, the columns it is drawn from, and its look."""

    group: str
    rows: pd.DataFrame
    column: str
    bounds: tuple[str, str]
    start: float
    color: str
    dash: Any
    text: str


def plot_survival(
    data: Finding | Data, *, incidence: bool = False, title: str | None = style.AUTO, ax: Axes | None = None
) -> Axes:
    """How many runs are still running after each number of steps, tool calls or tokens.

    Lines are stairs with their pointwise intervals. A short upright stroke is where runs are censored (stopped by a
    limit before they ended): they count as running until then. The numbers under the axis are the runs still observed.
    More than six groups have a panel each, in a figure of their own.

    Args:
        data: What `survival` returns, its frame, or runs.
        incidence: Draw the share of runs that have ended in success, and in failure, instead.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes; of panels, the first.

    Raises:
        SettingError: if the frame lacks a column, counts several things, or has too many groups: more than 30, or more
            than six for the Axes that were given.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> frame = pd.DataFrame({
        ...     "of": "steps", "time": [3, 8], "at_risk": [4, 2], "ended": [2, 1], "censored": [0, 1],
        ...     "survival": [0.5, 0.25], "low": [0.1, 0.0], "high": [0.9, 0.8], "confidence": 0.95})
        >>> bl.plots.plot_survival(frame, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        'Half of 4 runs end within 3 steps'
    """
    columns = [f"{kind}{end}" for kind, end in product(_INCIDENCES, ("", "_low", "_high"))]
    is_result = isinstance(data, pd.DataFrame) and not is_of_steps(data)
    finding_or_frame = data if is_result or hasattr(data, "frame") else _compute_survival(data)
    required_columns = [*_COLUMNS, *(columns if incidence else ["survival", "low", "high"])]
    frame = frame_of(finding_or_frame, lambda other: other, required_columns, "survival")
    noun = str(frame["unit"].iloc[0]) if "unit" in frame and len(frame) else "run"
    if frame.empty:
        return style.empty_axes(ax, f"no {noun}s")
    units = frame["of"].dropna().unique().tolist()
    if len(units) != 1 or units[0] not in UNITS:
        msg = f"of={', '.join(map(str, units)) or 'NA'}: expected one of {', '.join(list(UNITS)[:3])} in all rows"
        raise SettingError(msg)
    if "by_success" in frame:
        frame = frame.assign(by_success=frame["by_success"].map({True: "success", False: "failure"}))
    groups = [str(name) for name in frame.columns[: list(frame.columns).index("of")]]
    max_groups = len(palette.GROUP_LOOKS) if ax is not None else MAX_PANELS
    parts = [(name, part.sort_values("time")) for name, part in split_groups(frame, groups, max_groups)]
    if incidence and frame["success"].isna().all():
        return style.empty_axes(ax, f"no labels: which {noun}s succeeded is not known")
    singular_unit, plural_unit = UNITS[units[0]]
    finding = _incidence_title(parts, noun) if incidence else _title(parts, (singular_unit, plural_unit), noun)
    if len(parts) > len(palette.GROUP_LOOKS):
        named_parts = [(f"{name} ({_size(part):,})", part.drop(columns=groups)) for name, part in parts]
        notes = _notes(frame, parts, noun, incidence=incidence, small=True)

        def draw_panel(part: pd.DataFrame, panel: Axes) -> Axes:
            return plot_survival(part, incidence=incidence, ax=panel)

        return draw_panels(named_parts, draw_panel, title=style.choose_title(title, finding), notes=notes)
    ax = style.axes_for(ax, 4.2 + 0.17 * len(parts))
    curves = _incidences(parts) if incidence else _survivals(parts)
    end = float(frame["time"].max())
    _frame_axes(ax, end, max(1.0 if not incidence else 0.0, *(_top(curve) for curve in curves)))
    lines = [_draw(ax, curve, end) for curve in curves]
    label_lines(ax, lines)
    style.finish(
        ax,
        title=style.choose_title(title, finding),
        xlabel=plural_unit,
        ylabel="share ended" if incidence else "share still running",
        grid=ax.yaxis,
        key=[],
        notes=_notes(frame, parts, noun, incidence=incidence, small=style.is_small(ax)),
        subject=f"How {noun}s end by number of {plural_unit}"
        if incidence
        else f"{plural_unit.capitalize()} until a {noun} ends",
    )
    if not style.is_small(ax):
        _draw_at_risk(ax, parts)
    return ax


def _compute_survival(runs: Data) -> Finding:
    from boolab.stats.survival import survival

    return survival(runs)


def _survivals(parts: Sequence[tuple[str, pd.DataFrame]]) -> list[_StairLine]:
    looks = zip(parts, palette.GROUP_LOOKS, strict=False)
    return [
        _StairLine(
            name, part, "survival", ("low", "high"), 1.0, color, dash, f"{name} ({_size(part):,})" if name else ""
        )
        for (name, part), (color, dash, _) in looks
    ]


def _incidences(parts: Sequence[tuple[str, pd.DataFrame]]) -> list[_StairLine]:
    """Success and failure: in the colours of these where there is one group, else by group, failure thin and dotted."""
    curves: list[_StairLine] = []
    for (name, part), (color, dash, _) in zip(parts, palette.GROUP_LOOKS, strict=False):
        for kind, kind_color in _INCIDENCES.items():
            line = dash if kind == "success" and len(parts) > 1 else "-" if kind == "success" else (0, (1, 1))
            look = color if len(parts) > 1 else kind_color
            text = f"{name}: {kind}" if name else kind
            curves.append(_StairLine(name, part, kind, (f"{kind}_low", f"{kind}_high"), 0.0, look, line, text))
    return curves


def _draw(ax: Axes, curve: _StairLine, end: float) -> Line:
    """The band, the line, and a stroke where runs are censored; the line, to be labelled."""
    rows, color = curve.rows, style.tint(ax, curve.color)
    last = float(rows["time"].max())
    time = np.append(0.0, floats(rows["time"]))
    reach = last + (0.015 * end if last >= end else 0)
    low, value, high = (
        stairs(time, np.append(curve.start, floats(rows[name])), reach)
        for name in (curve.bounds[0], curve.column, curve.bounds[1])
    )
    ax.fill_between(
        low[0],
        low[1],
        high[1],
        color=color,
        alpha=0.16 if curve.column == "survival" else 0.1,
        linewidth=0,
        label=f"{curve.text or 'all'} interval",
    )
    ax.plot(*value, color=color, linewidth=2, linestyle=curve.dash, label=curve.text or "all", zorder=3)
    censored = rows[(rows["censored"] > 0) & rows[curve.column].notna()]
    ax.plot(floats(censored["time"]), floats(censored[curve.column]), linestyle="", marker="|",
            markersize=7 if not style.is_small(ax) else 5, markeredgewidth=1.3, color=color, zorder=4,
            label=f"{curve.text or 'all'} censored")  # fmt: skip
    return Line(*value, curve.text, color)


def _top(curve: _StairLine) -> float:
    return float(curve.rows[[curve.column, curve.bounds[1]]].astype("Float64").max().fillna(0).max())


def _frame_axes(ax: Axes, end: float, top: float) -> None:
    ax.set_ylim(0, max(0.25, float(np.ceil(top * 4 - 1e-9)) / 4) * 1.03)
    ax.set_xlim(0, 1.015 * end if end else 1)
    style.share_ticks(ax, ax.yaxis)
    style.count_ticks(ax, ax.xaxis)


def _size(part: pd.DataFrame) -> int:
    return int(part["ended"].sum() + part["censored"].sum())


def _draw_at_risk(ax: Axes, parts: Sequence[tuple[str, pd.DataFrame]]) -> None:
    """A row for each group under the ticks: how many runs are still observed there."""
    size = style.sizes(ax).note
    first, last = ax.get_xlim()
    ticks = [float(x) for x in ax.xaxis.get_major_locator()() if first <= x <= last]
    widest = style.text_width(f"{max(_size(part) for _, part in parts):,}", size) + 4
    ticks = ticks[:: max(1, int(np.ceil(widest * len(ticks) / style.room(ax))))]
    base = ("data", ax.transAxes)
    for row, ((name, part), (color, _, _)) in enumerate(zip(parts, palette.GROUP_LOOKS, strict=False)):
        down = -(style.sizes(ax).text + 13 + row * size * 1.35)
        ink = style.tint(ax, color) if name else style.fade(ax, 0.65)
        time, at_risk = part["time"].to_numpy(dtype=float), part["at_risk"].to_numpy(dtype=float)
        for x in ticks:
            index = int(np.searchsorted(time, x, side="left"))
            left_count = int(at_risk[index]) if index < len(time) else 0
            style.annotate(ax, f"{left_count:,}", (x, 0), (0, down), color=ink, xycoords=base, ha="center", va="center",
                           annotation_clip=False, gid="at risk").set_in_layout(False)  # fmt: skip
    ax.xaxis.labelpad = 3 + size * 1.35 * len(parts)


def _median(part: pd.DataFrame) -> float | None:
    """The first time at which no more than half are still running."""
    rows_below = part[part["survival"] <= _HALF + 1e-9]
    return float(rows_below["time"].iloc[0]) if len(rows_below) else None


def _title(parts: Sequence[tuple[str, pd.DataFrame]], noun: tuple[str, str], unit_noun: str) -> str:
    medians = [(_median(part), name) for name, part in parts]
    if len(parts) == 1:
        median, n = medians[0][0], _size(parts[0][1])
        part = parts[0][1]
        if n == 1:
            verb = "is censored" if part["censored"].sum() else "ends"
            return f"The one {unit_noun} {verb} after {count(int(part['time'].iloc[-1]), *noun)}"
        if not part["ended"].sum():
            return f"{format_all(n, unit_noun)} are censored: how long they take is not known"
        if median is None:
            return f"More than half of {count(n, unit_noun)} take more than {count(int(part['time'].max()), *noun)}"
        return f"Half of {count(n, unit_noun)} end within {count(int(median), *noun)}"
    known_medians = [(median, name) for median, name in medians if median is not None]
    if not known_medians:
        return f"In none of {len(parts)} groups half of the {unit_noun}s end"
    (low, first), (high, last) = min(known_medians), max(known_medians)
    if len(known_medians) < len(parts):
        unknown = f"in {len(parts) - len(known_medians)} of {len(parts)} groups not half of them end"
        return f"Half of the {unit_noun}s end within {count(int(low), *noun)} ({first}); {unknown}"
    if low == high:
        return f"In each of {len(parts)} groups half of the {unit_noun}s end within {count(int(low), *noun)}"
    ends = f"{count(int(low), *noun)} ({shorten(first, 20)}) to {int(high):,} ({shorten(last, 20)})"
    return f"Half of the {unit_noun}s end within {ends}"


def _incidence_title(parts: Sequence[tuple[str, pd.DataFrame]], noun: str) -> str:
    ends = [(name, part.dropna(subset=["success", "failure"])) for name, part in parts]
    known_shares = [
        (float(part["success"].iloc[-1]), float(part["failure"].iloc[-1]), name, part)
        for name, part in ends
        if len(part)
    ]
    if len(known_shares) == 1:
        success, failure, name, part = known_shares[0]
        name_text = f" of {name}" if name else ""
        rest = ", the rest unknown" if success + failure < 0.995 else ""  # noqa: PLR2004 - what rounds to less than all
        runs = f"{count(_size(part), noun)}{name_text}"
        return f"{whole_percent(success, 1)} of {runs} end in success, {whole_percent(failure, 1)} in failure{rest}"
    best, worst = max(known_shares, key=lambda item: item[0]), min(known_shares, key=lambda item: item[0])
    low, high = (f"{whole_percent(item[0], 1)} ({shorten(item[2], 20)})" for item in (worst, best))
    return f"{low} to {high} of the {noun}s end in success"


def _notes(
    frame: pd.DataFrame, parts: Sequence[tuple[str, pd.DataFrame]], noun: str, *, incidence: bool, small: bool
) -> Iterable[str]:
    n, censored = sum(_size(part) for _, part in parts), int(frame["censored"].sum())
    yield add_set_name(frame, f"{count(n, noun)}{f' in {len(parts)} groups' if len(parts) > 1 else ''}.")
    if censored:
        counts = "it counts" if censored == 1 else "they count"
        yield f"{count(censored, noun)} censored (strokes): {counts} as running until then."
    levels = frame["confidence"].dropna().unique().tolist() if "confidence" in frame else []
    if len(levels) == 1:
        yield f"Bands: pointwise {100 * levels[0]:.4g}% intervals."
    if incidence:
        unlabelled_count = sum(bool(part["success"].isna().all()) for _, part in parts)
        yield f"{count(unlabelled_count, 'group')} without labels." if unlabelled_count else ""
        success_kinds = frame["success_by"].dropna().astype(str).unique().tolist() if "success_by" in frame else []
        yield f"Success by {', '.join(map(shorten, success_kinds))}." if success_kinds else ""
    if not small:
        yield f"Under the ticks: {noun}s still observed."
