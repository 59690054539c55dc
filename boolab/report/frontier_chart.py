"""What limits keep against what they save, for all agents in one chart: SVG, whose text stays text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any, Final, NamedTuple, TypeAlias

from markupsafe import Markup

from boolab.core.text import count, level, percent, rounded_down
from boolab.frames.dtypes import is_missing
from boolab.limits.table import LIMITS
from boolab.report.study import MAX_GROUPS, UNITS, Study
from boolab.report.summary import SummaryRow
from boolab.report.text import kept_name
from boolab.stats.trade import BETTER_OFF
from boolab.stats.units import short_names

MAX_CURVES: Final = 12
MAX_LABELS: Final = 8
MIN_SUCCESSES: Final = 20
"""With fewer, a line is a few steps of five percent and more: it shows no trade-off."""
_WIDTH: Final = 440
_HEIGHT: Final = 340
_LEFT, _TOP, _RIGHT, _BOTTOM = 42, 26, 14, 44
_CHAR: Final = 6.4
"""The width of a character of a label, at most, in pixels."""
_LINE: Final = 14
_TICKS: Final = {
    0.02: 0.005, 0.05: 0.01, 0.1: 0.02, 0.2: 0.05, 0.3: 0.1, 0.4: 0.1, 0.5: 0.1, 0.6: 0.1, 0.8: 0.2, 1.0: 0.2
}  # fmt: skip
"""How far the axis of what is saved may go, and from tick to tick."""

_Points: TypeAlias = list[tuple[float, float]]


_PLACES: Final = sorted(
    product((9, 40, 80, 120, 160), ("start", "end"), range(-38, 200, 8)),
    key=lambda place: (place[0] + abs(place[2] - 4), place[1] == "end"),
)
"""Where a label may stand, the nearest first: how far beside it, where its text begins or ends, how far below it."""


class Curve(NamedTuple):
    """What the values of one limit make of the runs of an agent: points of what is saved and what is kept."""

    name: str
    points: list[tuple[float, float]]
    """(share saved, share kept), from the loosest value to the tightest."""
    values: list[Any]
    chosen: tuple[float, float] | None
    """The recommended setting, which may have other limits too."""
    poor: bool = False
    """Whether that is better left off."""


class Chart(NamedTuple):
    """A chart, and its finding."""

    title: str
    svg: Markup
    note: str
    """What its lines and dots are."""


def frontier_chart(study: Study, rows: Sequence[SummaryRow]) -> Chart | None:
    """The chart of a study; None where nothing is to keep or to save."""
    axis = "max_steps" if "max_steps" in study.margins else next(iter(study.margins))
    curves = curves_of(study, axis, rows)
    if not curves:
        return None
    left = [curve for curve in curves if not curve.chosen] if len(curves) > MAX_GROUPS else []
    curves = [curve for curve in curves if curve not in left] or curves
    keep = study.question.keep
    what = f"{_unit(study)} saved, by tightening the {LIMITS[axis].label}"
    kept = kept_name(study).partition(" (")[0]
    label = LIMITS[axis].label
    note = f"Line: the {label} by itself. " + (
        "Dot: the limits of the table together." if any(curve.chosen for curve in curves) else ""
    )
    title = recommended_title(rows, _unit(study), kept) or title_of(curves, keep, label, _unit(study), kept)
    if any(curve.chosen and curve.poor for curve in curves):
        note += f" Hollow: {BETTER_OFF}."
    if left and left != curves:
        note += f" Not drawn: {count(len(left), 'group')} without a limit."
    return Chart(title, _svg(curves, keep, what, kept), note.strip())


def curves_of(study: Study, axis: str, rows: Sequence[SummaryRow]) -> list[Curve]:
    """A curve for each agent with successes and a measure of what is saved."""
    found = []
    recommended = {row.key: row for row in rows if row.recommended}
    short = short_names(study.question.by, [row.names for row in recommended.values()])
    names = dict(zip(recommended, [row.name for row in rows] if not study.question.by else short, strict=False))
    for key, part, _ in study.groups(axis):
        row = recommended.get(key)
        places = list(_places(part, axis, study.measure))
        if row is None or row.successes < MIN_SUCCESSES or len(places) < 2:  # noqa: PLR2004 - a line has two points
            continue
        share = row.saved_share
        chosen = None if share is None or not row.is_on else (share, row.kept[0] / row.successes)
        found.append(
            Curve(names[key], [(x, y) for x, y, _ in places], [value for *_, value in places], chosen, row.is_poor)
        )

    return found[:MAX_CURVES]


def _places(part: Any, axis: str, measure: str) -> Iterator[tuple[float, float, Any]]:  # noqa: ANN401 - a frame
    ordered = part.assign(_off=part[axis].isna()).sort_values(["_off", axis], ascending=[False, False])
    for row in ordered.to_dict("records"):
        saved, spent = row[f"saved_{measure}"], row[measure]
        if is_missing(saved) or is_missing(spent) or not saved + spent or not row["successes"]:
            continue
        yield float(saved) / float(saved + spent), int(row["kept_lower"]) / int(row["successes"]), row[axis]


def best_at(curve: Curve, keep: float) -> tuple[Any, float] | None:
    """The value of the limit that saves most of those that keep so many successes on record, and the share it saves."""
    good = [(x, value) for (x, y), value in zip(curve.points, curve.values, strict=True) if y >= keep]
    x, value = max(good, key=lambda one: one[0], default=(0.0, None))
    return None if is_missing(value) else (value, x)


def recommended_title(rows: Sequence[SummaryRow], unit: str, kept: str = "successes") -> str:
    """What the recommended limits save and keep, as the table has it; "" where it has none.

    Where all are better left off, that is of those.

    Example:
        >>> row = SummaryRow("", "a", {"max_steps": 7}, 99, 50, (48, 49), (30, 100), None)
        >>> recommended_title([row], "steps")
        'The recommended limits save 30% of the steps and keep 96.0% of the successes'
        >>> recommended_title([row._replace(limits={})], "steps")
        ''
    """
    known = [row for row in rows if row.recommended and row.is_on and row.saved_share is not None]
    on = [row for row in known if not row.is_poor] or known
    if not on:
        return ""
    which = "tightest limits that are safe" if on[0].is_poor else "recommended limits"
    saved = _between(percent, [row.saved_share or 0 for row in on])
    keep = _between(rounded_down, [row.kept[0] / row.successes for row in on])
    of = "the cost" if unit == "cost" else f"the {unit}"
    return f"The {which} save {saved} of {of} and keep {keep} of the {kept}"


def _between(words: Callable[[float], str], shares: Sequence[float]) -> str:
    low, high = words(min(shares)), words(max(shares))
    return low if low == high else f"{low} to {high}"


def title_of(curves: Sequence[Curve], keep: float, label: str, unit: str, kept: str = "successes") -> str:
    """What the limit saves by itself if the share `keep` of the successes on record is kept.

    Example:
        >>> curve = Curve("a", [(0, 1), (0.02, 0.96), (0.3, 0.8)], [None, 68, 20], None)
        >>> title_of([curve], 0.95, "step cap", "steps")
        'With 95% of successes kept on record, a step cap of 68 saves 2.0% of the steps'
    """
    best = [found for curve in curves if (found := best_at(curve, keep)) is not None]
    least = f"With {level(keep)} of {kept} kept on record"
    of = "the cost" if unit == "cost" else f"the {unit}"
    if not best:
        return f"{least}, a {label} saves none of {of}"
    if len(curves) == 1:
        return f"{least}, a {label} of {int(best[0][0])} saves {percent(best[0][1])} of {of}"
    between = _between(percent, [share for _, share in best] + [0.0] * (len(curves) - len(best)))
    return f"{least}, a {label} saves {between} of {of} of {count(len(curves), 'group')}"


def _unit(study: Study) -> str:
    return UNITS[study.measure]


# --- Drawing ----------------------------------------------------------------------------------------------------------


class _Scale(NamedTuple):
    most: float
    least: float

    def x(self, share: float) -> float:
        return _LEFT + share / self.most * (_WIDTH - _LEFT - _RIGHT)

    def y(self, share: float) -> float:
        return _TOP + (1 - share) / (1 - self.least) * (_HEIGHT - _TOP - _BOTTOM)


def _svg(curves: Sequence[Curve], keep: float, what: str, kept: str) -> Markup:
    most = _reach(curves, keep)
    lowest = min(y for curve in curves for x, y in curve.points if x <= most)
    scale = _Scale(most, max(0.0, round(1 - (2 if lowest >= 1 - 2 * (1 - keep) else 5) * (1 - keep), 6)))
    lines = [point for curve in curves for point in _along(_drawn(curve, scale))]
    marks = [*_axes(scale, keep, what, kept), _even(scale)]
    for curve in curves:
        marks += _curve(curve, scale)
    marks += _labels(curves, scale, lines, kept)
    names = ", ".join(curve.name for curve in curves)
    return Markup('<svg viewBox="0 0 {w} {h}" role="img" aria-label="{name}">{marks}</svg>').format(
        w=_WIDTH, h=_HEIGHT, name=f"{kept.capitalize()} kept against {what}: {names}", marks=Markup("").join(marks)
    )


def _reach(curves: Sequence[Curve], keep: float) -> float:
    """How far the axis of what is saved goes: a bit beyond what a limit saves that keeps enough."""
    most = max([best[1] for curve in curves if (best := best_at(curve, keep))]
               + [curve.chosen[0] for curve in curves if curve.chosen], default=0.0)  # fmt: skip
    return next((nice for nice in _TICKS if nice >= 1.4 * most), 1.0)


def _axes(scale: _Scale, keep: float, what: str, kept: str) -> Iterator[Markup]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for place in range(6):
        share = 1 - place * (1 - scale.least) / 5
        yield Markup('<path class="grid" d="M{} {y}H{}"/>').format(_LEFT, right, y=f"{scale.y(share):.1f}")
        shown = "" if abs(share - keep) < 1e-9 else _tick(share)  # noqa: PLR2004 - rounding
        yield _text(_LEFT - 6, scale.y(share) + 4, shown, "end")
    for place in range(1 + round(scale.most / _TICKS[scale.most])):
        x = place * _TICKS[scale.most]
        yield _text(scale.x(x), bottom + 16, _tick(x), "middle")
    y = scale.y(keep)
    yield Markup('<path class="keep" d="M{} {y}H{}"/>').format(_LEFT, right, y=f"{y:.1f}")
    yield _text(_LEFT - 6, y + 4, level(keep), "end", "keep-text")
    yield _text(_LEFT, 12, f"{kept} kept", "start", "keep-text")
    yield _text(right, _HEIGHT - 8, f"{what} →", "end")


def _tick(share: float) -> str:
    return f"{100 * share:.3g}%"


def _even(scale: _Scale) -> Markup:
    """The line on which the share of successes that is lost is the share that is saved."""
    end = min(scale.most, 1 - scale.least)
    return Markup('<path class="even" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"><title>{}</title></path>').format(
        scale.x(0),
        scale.y(1),
        scale.x(end),
        scale.y(1 - end),
        "even trade: 1% of the successes for 1% of what is saved",
    )


def _curve(curve: Curve, scale: _Scale) -> Iterator[Markup]:
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in _drawn(curve, scale))
    look = "curve" if curve.chosen and not curve.poor else "curve faint"
    yield Markup('<path class="{}" d="M{}"><title>{}</title></path>').format(look, line, curve.name)
    if curve.chosen:
        x, y = curve.chosen
        what = "the tightest that is safe" if curve.poor else "recommended"
        name = f"{curve.name}, {what}: keeps {rounded_down(y)} of the successes, saves {percent(x)}"
        yield Markup('<circle class="chosen{}" cx="{:.1f}" cy="{:.1f}" r="4.5"><title>{}</title></circle>').format(
            " poor" if curve.poor else "", scale.x(x), scale.y(max(y, scale.least)), name
        )


def _drawn(curve: Curve, scale: _Scale) -> _Points:
    """The corners of a curve in pixels, as far as the edges of the chart."""
    inside = [(x, y) for x, y in curve.points if x <= scale.most]
    beyond = next(((x, y) for x, y in curve.points if x > scale.most), None)
    if beyond and inside:  # as far as the edge
        (x0, y0), (x1, y1) = inside[-1], beyond
        inside.append((scale.most, y0 + (y1 - y0) * (scale.most - x0) / (x1 - x0)))
    shown: _Points = []
    for x, y in inside:
        if y < scale.least:
            if shown and shown[-1][1] > y:
                (x0, y0) = shown[-1]
                shown.append((x0 + (x - x0) * (y0 - scale.least) / (y0 - y), scale.least))
            break
        shown.append((x, y))
    return [(scale.x(x), scale.y(y)) for x, y in shown]


def _along(corners: _Points) -> Iterator[tuple[float, float]]:
    """Points on a line, at most three pixels from one to the next."""
    for (x0, y0), (x1, y1) in pairwise(corners):
        n = 1 + int(max(abs(x1 - x0), abs(y1 - y0)) / 3)
        yield from ((x0 + (x1 - x0) * k / n, y0 + (y1 - y0) * k / n) for k in range(n + 1))


# --- Labels -----------------------------------------------------------------------------------------------------------


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (self.left < other.right and other.left < self.right
                and self.top < other.bottom and other.top < self.bottom)  # fmt: skip

    def covers(self, points: Iterable[tuple[float, float]]) -> bool:
        return any(self.left < x < self.right and self.top < y < self.bottom for x, y in points)


def _box_at(x: float, y: float, text: str, end: str) -> _Box:
    """What a text takes whose base line begins or ends there."""
    width = _CHAR * len(text)
    left = x - (width if end == "end" else 0)
    return _Box(left, y - _LINE + 2, left + width, y + 4)


def _labels(curves: Sequence[Curve], scale: _Scale, lines: _Points, kept: str) -> Iterator[Markup]:
    """The names of the agents and of the even trade near what they name: none over another, nor a curve if possible."""
    anchors = {curve.name: _anchor(curve, scale) for curve in curves}
    taken = [_Box(x - 5, y - 5, x + 5, y + 5) for x, y in anchors.values()]
    taken.append(_Box(0, 0, _LEFT + _CHAR * len(f"{kept} kept") + 6, 16))
    for curve in sorted(curves, key=lambda one: (one.chosen is None, -anchors[one.name][0]))[:MAX_LABELS]:
        name = curve.name if len(curve.name) <= 24 else f"{curve.name[:23]}…"  # noqa: PLR2004 - as much as fits
        yield from _label(
            anchors[curve.name], name, "name" if curve.chosen and not curve.poor else "name faint", taken, lines
        )
    end = 0.7 * min(scale.most, 1 - scale.least)
    yield from _label((scale.x(end), scale.y(1 - end)), "even trade", "tick halo", taken, lines)


def _label(
    anchor: tuple[float, float], text: str, look: str, taken: list[_Box], lines: _Points
) -> Iterator[Markup]:  # fmt: skip
    """A text at the nearest place that is free, which is then taken; nothing if no place is."""
    x, y = anchor
    free = []
    for away, end, dy in _PLACES:
        at = (x + away if end == "start" else x - away, y + dy)
        box = _box_at(*at, text, end)
        inside = box.left >= _LEFT and box.right <= _WIDTH and box.top >= 0 and box.bottom <= _HEIGHT - _BOTTOM
        if inside and not any(box.meets(other) for other in taken):
            free.append((at, end, box))
    if not free:
        return
    at, end, box = next((one for one in free if not one[2].covers(lines)), free[0])
    taken.append(box)
    if abs(at[0] - x) > _PLACES[0][0] or abs(at[1] - y) > 2 * _LINE:
        nearest = at[0] - 2 if end == "start" else at[0] + 2
        yield Markup('<path class="leader" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>').format(x, y, nearest, at[1] - 4)
    yield _text(*at, text, end, look)


def _anchor(curve: Curve, scale: _Scale) -> tuple[float, float]:
    """Where the name of a curve stands: at its recommendation, or where it leaves the middle of the chart."""
    if curve.chosen:
        return scale.x(curve.chosen[0]), scale.y(max(curve.chosen[1], scale.least))
    inside = [(x, y) for x, y in curve.points if x <= scale.most and y >= (1 + scale.least) / 2]
    x, y = inside[-1]
    return scale.x(x), scale.y(y)


def _text(x: float, y: float, text: str, anchor: str, look: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(look, x, y, anchor, text)
