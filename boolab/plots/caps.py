"""What one setting keeps and saves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from boolab.core.text import count
from boolab.display.numbers import span
from boolab.display.text import capitalize
from boolab.errors import SettingError
from boolab.frames.dtypes import axis_value, is_missing
from boolab.limits.table import LIMITS, MeasureColumn
from boolab.plots import palette, style
from boolab.plots._frames import floats, shares
from boolab.plots._grid import (
    UNITS,
    Point,
    SuccessWords,
    grid_of,
    measured_by,
    name_setting,
    omission_note,
    point_of,
    row_at,
    sample_of,
    say_nothing_is_set,
    setting,
    spent_and_saved,
    split_groups,
    words_of,
)
from boolab.plots._labels import Line, label_lines, stairs
from boolab.plots.style import MAX_PANELS, draw_panels

MAX_MARKED = 25  # settings on the axis: with more, they have no marks
_LOG = 0.1  # an axis is logarithmic if the lower half of its values takes a smaller share of it


class _CapCurve(NamedTuple):
    """One group: its rows with the axis on, ascending, and as shares what is kept at least, at most, and saved."""

    name: str
    rows: pd.DataFrame
    x: Any
    lower: Any
    upper: Any
    saved: Any
    off_row: Mapping[str, Any] | None


def plot_caps(
    table: pd.DataFrame,
    *,
    axis: str | None = None,
    saved: MeasureColumn | None = None,
    at: Mapping[str, Any] | None = None,
    recommended: Point | None = None,
    title: str | None = style.AUTO,
    ax: Axes | None = None,
) -> Axes:
    """What a cap, a budget or a threshold would have kept and saved, for each of its values.

    The line of what is kept counts successes that the setting does not stop. The band reaches up to those that it may
    also have kept, because all their tool calls were done. Lines are stairs: a cap is a whole number. Where the table
    has groups, each group has its own colour, and what it saves is the thin line; more than six groups have a panel
    each, in a figure of their own.

    Args:
        table: The aggregate that `counterfactual(..., aggregate=True)` returns.
        axis: The axis to draw; by default the first that the table has.
        saved: What is saved: steps, tool calls, tokens or cost. By default what the decision saves, if `recommended` is
            one; else steps.
        at: Values of the other axes, such as `{"doom_loop": 3}`; None is off. By default each is off, or, where the
            table has no such row, at its loosest.
        recommended: A value of the axis to mark; or values by axis, or what `recommend` returns, which fix the other
            axes too. Where no limit is to be set, none is marked, and the title is its answer.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes; of panels, the first.

    Raises:
        SettingError: if the frame lacks a column, an axis or a value that is required, or has too many groups: more
            than 30, or more than six for the Axes that were given.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> table = pd.DataFrame({
        ...     "max_steps": [5, 10], "n_runs": 8, "success_by": "label", "successes": 6, "kept_lower": [4, 6],
        ...     "kept_upper": 6, "steps": [30, 50], "saved_steps": [25, 5]})
        >>> bl.plots.plot_caps(table, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        'Step cap 10 keeps all 6 successes and saves 5 of 55 steps'
    """
    saved = saved or measured_by(recommended)
    if saved not in UNITS:
        raise SettingError(f"saved={saved!r}: expected {', '.join(UNITS)}")
    first = axis or _first_axis(table)
    point = point_of(recommended, [first], table)
    fixed_values = {name: value for name, value in point.items() if name != first}
    columns = ["successes", "kept_lower", "kept_upper", saved, f"saved_{saved}"]
    grid = grid_of(table, [axis], columns, {**fixed_values, **(at or {})})
    (name,) = grid.axes
    words = words_of(grid.rows)
    parts = split_groups(grid.rows, grid.groups, len(palette.GROUP_LOOKS) if ax is not None else MAX_PANELS)
    curves = [_curve(group, part, name, saved) for group, part in parts]
    drawn_curves = [(curve, part) for curve, (_, part) in zip(curves, parts, strict=True) if len(curve.x)]
    curves, parts = [curve for curve, _ in drawn_curves], [(curve.name, part) for curve, part in drawn_curves]
    if not curves:
        return style.empty_axes(ax, f"no settings with a {LIMITS[name].label}")
    if all(np.isnan([*curve.lower, *curve.saved]).all() for curve in curves):
        return style.empty_axes(ax, f"no known {words.plural} to keep, no known {UNITS[saved][1]} to save")
    target = {name: point[name]} if name in point else {}
    marked_rows = [row_at(curve.rows if target and not is_missing(target[name]) else part, target) if target else None
              for curve, (_, part) in zip(curves, parts, strict=True)]  # fmt: skip
    heading = style.choose_title(
        title, say_nothing_is_set(recommended) or _title(name, curves, marked_rows, words, saved)
    )
    notes = [*sample_of(table, parts, words), grid.note.strip(), *_notes(curves, words, saved, name)]
    if len(curves) > len(palette.GROUP_LOOKS):

        def draw_panel(part: pd.DataFrame, panel: Axes) -> Axes:
            plain = part.drop(columns=grid.groups)
            return plot_caps(plain, axis=name, saved=saved, recommended=target or None, ax=panel)

        return draw_panels(parts, draw_panel, title=heading, notes=notes)
    ax = style.axes_for(ax)
    _scale(ax, curves, name)
    lines = _draw(ax, curves, words, saved)
    mark = None
    if target and not is_missing(target[name]):
        mark = _mark(ax, setting(name, target[name]), target[name], curves, marked_rows, saved)
    label_lines(ax, lines, mark)
    xlabel, ylabel = f"{LIMITS[name].label} ({LIMITS[name].unit})", _ylabel(ax, curves, words, saved)
    subject = f"{capitalize(words.short)} and {UNITS[saved][1]} saved, by {LIMITS[name].label}".replace("\n", " ")
    return style.finish(
        ax, title=heading, xlabel=xlabel, ylabel=ylabel, grid=ax.yaxis, key=[], notes=notes, subject=subject
    )


def _first_axis(table: pd.DataFrame) -> str:
    present = [name for name in LIMITS if name in table]
    return next((name for name in present if table[name].notna().any()), present[0] if present else "max_steps")


def _ylabel(ax: Axes, curves: Sequence[_CapCurve], words: SuccessWords, saved: str) -> str:
    """What the shares are of, where there is one base of each and room for it."""
    total = curves[0].rows["successes"].iloc[0]
    if style.is_small(ax) or len(curves) > 1 or pd.isna(total) or not total or words.proxy:
        return "share"
    has_saved = not np.isnan(curves[0].saved).all()
    return f"share of {words.number(int(total))}{f', of {UNITS[saved][1]}' if has_saved else ''}"


def _curve(group: str, part: pd.DataFrame, name: str, saved: str) -> _CapCurve:
    on_rows = part[part[name].notna()].sort_values(name)
    off_rows = part[part[name].isna()]
    lower, upper = (floats(shares(on_rows[column], on_rows["successes"])) for column in ("kept_lower", "kept_upper"))
    spare = floats(shares(on_rows[f"saved_{saved}"], on_rows[saved] + on_rows[f"saved_{saved}"]))
    last = {str(key): value for key, value in off_rows.iloc[0].items()} if len(off_rows) else None
    return _CapCurve(group, on_rows, on_rows[name].to_numpy(dtype=float), lower, upper, spare, last)


def _scale(ax: Axes, curves: Sequence[_CapCurve], name: str) -> None:
    """Limits and ticks; logarithmic where values are."""
    x = np.unique(np.concatenate([curve.x for curve in curves]))
    low, high = float(x[0]), float(x[-1])
    ax.set_ylim(0, 1.03)
    style.share_ticks(ax, ax.yaxis)
    if low > 0 and len(x) > 2 and high > low and (np.median(x) - low) / (high - low) < _LOG:  # noqa: PLR2004 - a middle value
        ax.set_xscale("log")
        ax.set_xlim(low, _end(curves))
        ax.xaxis.set_tick_params(which="both", labelsize=style.sizes(ax).text)
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        ax.xaxis.set_minor_formatter("")
        return
    ax.set_xlim(low - (0 if high > low else 1), _end(curves))
    style.count_ticks(ax, ax.xaxis)
    if 1 < len(x) <= (4 if style.is_small(ax) else 8):
        ax.set_xticks(x, [axis_value(name, value) for value in x], **style.PLAIN)
    elif LIMITS[name].fractions:
        ax.xaxis.set_major_locator(MaxNLocator(4 if style.is_small(ax) else 8))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _end(curves: Sequence[_CapCurve]) -> float:
    """Where the stairs end: a little beyond the last value."""
    x = np.unique(np.concatenate([curve.x for curve in curves]))
    reach = float(x[-1] - x[0])
    return float(x[-1]) + (min(float(np.diff(x).min()), 0.04 * reach) if reach else 1.0)


def _draw(ax: Axes, curves: Sequence[_CapCurve], words: SuccessWords, saved: str) -> list[Line]:
    """Bands and stairs; what there is to label."""
    lines: list[Line] = []
    end, has_groups = _end(curves), len(curves) > 1
    values = np.unique(np.concatenate([curve.x for curve in curves]))
    sparse = len(values) <= MAX_MARKED and bool((np.diff(values) > 1).any() or len(values) == 1)
    for curve, (color, dash, marker) in zip(curves, palette.GROUP_LOOKS, strict=False):
        kept_color, spare = (
            style.tint(ax, c) for c in ((color, color) if has_groups else (palette.KEPT, palette.SAVED))
        )
        marks: dict[str, Any] = (
            {"marker": marker if has_groups else "o", "markersize": 4, "markevery": slice(0, None, 2)} if sparse else {}
        )
        x, lower = stairs(curve.x, curve.lower, end)
        _, upper = stairs(curve.x, curve.upper, end)
        _, rest = stairs(curve.x, curve.saved, end)
        ax.fill_between(x, lower, upper, color=kept_color, alpha=0.1 if has_groups else 0.18, linewidth=0, label="band")
        ax.plot(x, rest, color=spare, linewidth=1.1 if has_groups else 1.8, linestyle=dash,
                label=f"saved {curve.name}".strip(), zorder=3)  # fmt: skip
        ax.plot(
            x,
            lower,
            color=kept_color,
            linewidth=2,
            linestyle=dash,
            label=f"kept {curve.name}".strip(),
            zorder=4,
            **marks,
        )
        lines.append(Line(x, lower, curve.name or words.short, kept_color))
        lines.append(Line(x, rest, "" if has_groups else f"{UNITS[saved][1]} saved", spare))
        lines.append(Line(x, upper))
    return lines


def _mark(
    ax: Axes,
    name: str,
    value: float,
    curves: Sequence[_CapCurve],
    marked_rows: Sequence[Mapping[str, Any] | None],
    saved: str,
) -> Line:
    """A dashed line at the recommended value, and what it keeps and saves."""
    ax.axvline(value, color=style.fade(ax, 0.7), linewidth=1.1, linestyle=(0, (4, 3)), zorder=2.5, label="recommended")
    texts = [name]
    if style.is_small(ax):
        marked_rows = [None] * len(curves)  # the title has it
    for curve, row in zip(curves, marked_rows, strict=True):
        if row is not None:
            parts = [f"keeps {_format_kept(row)}", spent_and_saved(saved, row)]
            texts += [f"{curve.name}: {', '.join(filter(None, parts))}"] if curve.name else list(filter(None, parts))
    return Line([value] * 2, [0.04, 0.9], "\n".join(texts), style.fade(ax, 0.9))


def _format_kept(row: Mapping[str, Any]) -> str:
    """How many are kept, as in "17-18 of 21"."""
    if pd.isna(row["successes"]) or pd.isna(row["kept_lower"]) or pd.isna(row["kept_upper"]):
        return "an unknown number"
    return f"{span(int(row['kept_lower']), int(row['kept_upper']))} of {int(row['successes']):,}"


def _title(
    name: str,
    curves: Sequence[_CapCurve],
    marked_rows: Sequence[Mapping[str, Any] | None],
    words: SuccessWords,
    saved: str,
) -> str:
    row = marked_rows[0]
    if len(curves) > 1:
        return _groups_title(name, curves, words)
    total = curves[0].rows["successes"].iloc[0]
    if row is not None:
        kept_text = f"keeps {_format_kept(row)} {words.plural}" if not pd.isna(total) and total else ""
        result = " and ".join(filter(None, [kept_text, spent_and_saved(saved, row)]))
        return capitalize(f"{name_setting(row, [name])} {result or 'is recommended'}")
    if pd.isna(total):
        return f"How many {words.plural} a {LIMITS[name].label} keeps is not known"
    if not total:
        return f"No {words.singular} to keep, whatever the {LIMITS[name].label}"
    tight = _tightest_row(curves[0])
    if tight is None:
        last = row_at(curves[0].rows.iloc[-1:], {})
        return f"Even {setting(name, last[name])} keeps only {_format_kept(last)} {words.plural}"
    result = " and ".join(filter(None, [f"keeps {_format_all(int(total), words)}", spent_and_saved(saved, tight)]))
    return capitalize(f"{setting(name, tight[name])} {result}")


def _groups_title(name: str, curves: Sequence[_CapCurve], words: SuccessWords) -> str:
    """From which value each group loses nothing."""
    having = [curve for curve in curves if (curve.rows["successes"].fillna(1) > 0).any()]
    if not having:
        return f"No group has {words.plural} to keep"
    tight = [(row[name], curve.name) for curve in having if (row := _tightest_row(curve)) is not None]
    with_some = "" if len(having) == len(curves) else " that have some"
    if len(tight) < len(having):
        lossy_count = len(having) - len(tight)
        groups = f"{lossy_count} of {count(len(having), 'group')}{with_some}"
        return f"In {groups} no {LIMITS[name].label} keeps all {words.plural}"
    (low, first), (high, last) = min(tight), max(tight)
    if low == high:
        groups_text = f"all {len(having)} groups" if len(having) > 1 else "the one group"
        condition = with_some if len(having) > 1 else with_some.replace("have", "has")
        return f"{capitalize(setting(name, low))} keeps all {words.plural} of {groups_text}{condition}"
    return f"All {words.plural} are kept from {setting(name, low)} ({first}) to {high:,g} ({last})"


def _format_all(n: int, words: SuccessWords) -> str:
    if n > 2:  # noqa: PLR2004 - "the one", "both"
        return f"all {n:,} {words.plural}"
    return f"the one {words.singular}" if n == 1 else f"both {words.plural}"


def _tightest_row(curve: _CapCurve) -> Mapping[str, Any] | None:
    """The row of the least value from which on all is kept on record."""
    rows = curve.rows
    loses_some = (rows["kept_lower"] < rows["successes"]).fillna(value=True) | (rows["successes"].fillna(0) == 0)
    good = rows[~loses_some[::-1].cummax()[::-1].astype(bool)]
    return {str(key): value for key, value in good.iloc[0].items()} if len(good) else None


def _notes(curves: Sequence[_CapCurve], words: SuccessWords, saved: str, name: str) -> Iterable[str]:
    has_groups = len(curves) > 1
    if any(np.nanmax(curve.upper - curve.lower, initial=0) > 0 for curve in curves):
        yield "Band: from the least to the most that are kept, where that is not on record."
    if has_groups:
        yield f"Thick: {words.short}. Thin: {UNITS[saved][1]} saved.".replace("\n", " ")
    if all(np.isnan(curve.saved).all() for curve in curves):
        yield f"Not drawn: {UNITS[saved][1]} saved, which the source does not report."
    elif not has_groups:
        yield omission_note(curves[0].rows, saved, words.unit)
    off_row = curves[0].off_row
    if off_row is not None and not has_groups and not pd.isna(off_row["successes"]):
        parts = [f"keeps {_format_kept(off_row)}", spent_and_saved(saved, off_row)]
        yield f"{capitalize(setting(name, None))}: {', '.join(filter(None, parts))}."
    yield "Counts on record."
