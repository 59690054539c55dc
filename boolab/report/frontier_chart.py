"""What limits keep against what they save, for all agents in one chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from boolab.core.text import count, shorten
from boolab.display.numbers import floor_percent, level, percent
from boolab.frames.dtypes import is_missing
from boolab.limits.table import LIMITS
from boolab.plots import style
from boolab.plots._labels import Line, label_lines
from boolab.plots.palette import KEPT
from boolab.report.figures import PageFigures
from boolab.report.study import MAX_GROUPS, UNITS, Study
from boolab.report.summary import SummaryRow
from boolab.report.text import kept_name
from boolab.stats.recommend.words import limits_in_words
from boolab.stats.units import short_names

MAX_CURVES: Final = 12
MIN_SUCCESSES: Final = 20
"""With fewer, a line is a few steps of five percent and more: it shows no trade."""
_NAME: Final = 24
"""As many characters of a name as fit beside a line."""
_SIZE: Final = (6.0, 4.6)


class LimitCurve(NamedTuple):
    """What the values of one limit make of the runs of an agent: points of what is saved and what is kept."""

    name: str
    points: list[tuple[float, float]]
    """(share saved, share kept), from the loosest value to the tightest."""
    values: list[Any]
    chosen: tuple[float, float] | None
    """The setting that the decision is about, which may have other limits too."""
    is_set: bool = True
    """Whether that is to be set."""


class Chart(NamedTuple):
    """A chart, and its finding."""

    title: str
    svg: Markup
    note: str
    """What its lines and dots are."""


def frontier_chart(study: Study, rows: Sequence[SummaryRow], figures: PageFigures) -> Chart | None:
    """The chart of a study; None where nothing is to keep or to save."""
    axis = "max_steps" if "max_steps" in study.margins else next(iter(study.margins))
    curves = curves_of(study, axis, rows)
    if not curves:
        return None
    hidden_curves = [curve for curve in curves if not curve.chosen] if len(curves) > MAX_GROUPS else []
    curves = [curve for curve in curves if curve not in hidden_curves] or curves
    keep = study.question.keep
    x_label = f"{_unit(study)} saved, by tightening the {LIMITS[axis].label}"
    noun = kept_name(study).partition(" (")[0]
    label = LIMITS[axis].label
    note = f"Line: the {label} by itself. {_dots(rows, curves)}".rstrip()
    title = title_of(rows, label, _unit(study), noun)
    if hidden_curves and hidden_curves != curves:
        note += f" Not drawn: {count(len(hidden_curves), 'group')} without a limit."
    caption = f"{noun.capitalize()} kept against {x_label}: {', '.join(curve.name for curve in curves)}"

    def draw(ax: Axes | None) -> Axes:
        return _draw(style.axes_for(ax), curves, keep, x_label, noun)

    return Chart(title, figures.draw(draw, caption, *_SIZE), note)


def _dots(rows: Sequence[SummaryRow], curves: Sequence[LimitCurve]) -> str:
    """What the dots are; "" if there are none."""
    dots = [curve for curve in curves if curve.chosen]
    if not dots:
        return ""
    if len(curves) == len(dots) == 1:
        (evidence,) = (row.evidence for row in rows if row.evidence and not row.by_itself)
        return f"Dot: {limits_in_words(evidence)}{'' if dots[0].is_set else ', left off'}."
    hollow = "" if all(curve.is_set for curve in dots) else " Hollow: limits that are left off."
    return f"Dot: the limits of the table together.{hollow}"


def curves_of(study: Study, axis: str, rows: Sequence[SummaryRow]) -> list[LimitCurve]:
    """A curve for each agent with successes and a measure of what is saved."""
    curves = []
    row_by_key = {row.key: row for row in rows if not row.by_itself}
    short = short_names(study.keys, [row.names for row in row_by_key.values()])
    names = dict(zip(row_by_key, [row.name for row in rows] if not study.keys else short, strict=False))
    for key, part in study.groups(axis):
        row = row_by_key.get(key)
        points = list(_points(part, axis, study.measure))
        if row is None or row.successes < MIN_SUCCESSES or len(points) < 2:  # noqa: PLR2004 - a line has two points
            continue
        share = row.saved_share
        dot = None if share is None or not row.evidence else (share, row.kept[0] / row.successes)
        curves.append(
            LimitCurve(names[key], [(x, y) for x, y, _ in points], [value for *_, value in points], dot, row.is_set)
        )

    return curves[:MAX_CURVES]


def _points(part: Any, axis: str, measure: str) -> Iterator[tuple[float, float, Any]]:  # noqa: ANN401 - a frame
    ordered = part.assign(_off=part[axis].isna()).sort_values(["_off", axis], ascending=[False, False])
    for row in ordered.to_dict("records"):
        saved, amount = row[f"saved_{measure}"], row[measure]
        if is_missing(saved) or is_missing(amount) or not saved + amount or not row["successes"]:
            continue
        yield float(saved) / float(saved + amount), int(row["kept_lower"]) / int(row["successes"]), row[axis]


def title_of(rows: Sequence[SummaryRow], label: str, unit: str, noun: str = "successes") -> str:
    """What the limits to set save and keep, as the table has it; what the chart shows where none is to be set."""
    known_rows = [row for row in rows if row.is_set and row.saved_share is not None]
    total = "the cost" if unit == "cost" else f"the {unit}"
    if not known_rows:
        return f"What each {label} keeps and saves, on record"
    saved = _share_range(percent, [row.saved_share or 0 for row in known_rows])
    keep = _share_range(floor_percent, [row.kept[0] / row.successes for row in known_rows])
    return f"The limits to set save {saved} of {total} and keep {keep} of the {noun}, on record"


def _share_range(words: Callable[[float], str], shares: Sequence[float]) -> str:
    low, high = words(min(shares)), words(max(shares))
    return low if low == high else f"{low} to {high}"


def _unit(study: Study) -> str:
    return UNITS[study.measure]


# --- Drawing ----------------------------------------------------------------------------------------------------------


def _draw(ax: Axes, curves: Sequence[LimitCurve], keep: float, x_label: str, noun: str) -> Axes:
    """Draw the curves as far as they matter, with their names beside them."""
    enough = [x for curve in curves for x, y in curve.points if y >= keep]
    max_saved = max([*enough, *(curve.chosen[0] for curve in curves if curve.chosen)], default=0.0)
    right = min(1.0, max(0.02, 1.4 * max_saved))
    lowest = min(y for curve in curves for x, y in curve.points if x <= right)
    bottom = max(0.0, 1 - (2 if lowest >= 1 - 2 * (1 - keep) else 5) * (1 - keep))
    ax.set(xlim=(0, right), ylim=(bottom, 1 + 0.02 * (1 - bottom)))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_locator(MaxNLocator(6, prune="upper" if bottom else None))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")
    ink, end = style.tint(ax, KEPT), min(right, 1 - bottom)
    ax.axhline(keep, color=ink, linestyle=(0, (1, 1.5)), linewidth=1.2)
    style.annotate(ax, f"{level(keep)} kept", (1, keep), (0, 3), color=ink, ha="right",
                   xycoords=ax.get_yaxis_transform()).set_in_layout(False)  # fmt: skip
    ax.plot([0, end], [1, 1 - end], color=style.fade(ax, 0.5), linestyle=(0, (5, 4)), linewidth=1)
    labels = [Line([0, end], [1, 1 - end], "even trade", style.fade(ax, 0.7))]
    for curve in curves:
        x, y = np.array(curve.points).T
        xs = np.linspace(0, min(right, x[-1]), 300)
        is_visible = np.interp(xs, x, y) >= bottom
        strong = curve.chosen is not None and curve.is_set
        color = style.fade(ax, 1 if strong else 0.65)
        ax.plot(x, y, color=color, linewidth=2 if strong else 1.3, zorder=3)
        labels.append(Line(xs[is_visible], np.interp(xs, x, y)[is_visible], shorten(curve.name, _NAME), color))
        if curve.chosen:
            saved, share = curve.chosen[0], max(curve.chosen[1], bottom)
            ax.plot([saved, saved], [share, np.interp(saved, x, y)], color=ink, linewidth=1.2, zorder=3.5)
            ax.plot(saved, share, marker="o", markersize=7, markeredgewidth=1.5, zorder=4, clip_on=False,
                    markerfacecolor=ink if curve.is_set else style.ground(ax),
                    markeredgecolor=style.ground(ax) if curve.is_set else ink)  # fmt: skip
    label_lines(ax, labels)
    for text in ax.texts:
        text.set_path_effects([])  # with a halo it would be outlines in an SVG; the page's style has one
    return style.finish(ax, title="", xlabel=x_label, ylabel=f"{noun} kept", grid=ax.yaxis, key=[], notes=[])
