"""What settings keep against what they save, and the front of those that no other beats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from boolab.core.text import count, shorten
from boolab.display.numbers import count_span, level, percent
from boolab.errors import SettingError
from boolab.plots import palette, style
from boolab.plots._frames import add_set_name, check_columns, floats, format_missing, frame_of
from boolab.plots._grid import split_groups
from boolab.plots._labels import NAME_CHARS, FrontNames, Line, label_lines
from boolab.plots.style import MAX_PANELS, draw_panels
from boolab.stats.compare_rules.frontiers import Frontier, first_on_front
from boolab.stats.compare_rules.settings import NO_LIMIT
from boolab.stats.intervals import check_confidence

_COLUMNS: Final = ("rule", "n_runs", "n_tasks", "successes", "kept_lower", "kept_share", "saved_steps", "saved_share",
                  "on_front")  # fmt: skip
_BAND: Final = ("saved_share", "kept_share", "kept_low", "kept_high")
_DASHES: Final = ("-", (0, (5, 1.5)), (0, (1.5, 1)))
MAX_LINES: Final = len(_DASHES)
_JOINED_RULES: Final = "several joined"
_ROUNDING: Final = 1e-9
_EVEN: Final = "even trade: 1% of successes for 1% of steps"


class _FrontGroup(NamedTuple):
    """A group: its settings; those on the front, from what saves least on; its band; the ends of both axes."""

    name: str
    rows: pd.DataFrame
    front: pd.DataFrame
    band: pd.DataFrame
    min_share: float
    reach: float


def plot_frontier(
    data: Frontier | pd.DataFrame,
    *,
    keep: float | None = 0.95,
    least: float = 0.5,
    beside: Mapping[str, pd.DataFrame] | None = None,
    title: str | None = style.AUTO,
    ax: Axes | None = None,
) -> Axes:
    """The share of successes that settings keep against the share of steps that they save.

    The line is the front: the most that a setting keeps which saves so much. The band is the interval of the front at
    each share of steps saved. Marks are the settings on the front, with the names of some of them; small dots are
    settings that another beats. A ring is around the setting that saves most of those that keep `keep`. The dashed line
    is the even trade, 1% of successes for 1% of steps: a setting below it gives up a larger share of its successes
    than of its steps. Several groups
    have a panel each, in a figure of their own.

    Args:
        data: What `bl.stats.frontier` returns; or its frame, which has no band.
        keep: The share of successes at which a line is drawn; None for no line.
        least: The share of successes at which the axis begins, below 1: settings that keep less are not shown.
        beside: Further lines by name, three at most, for a single group: frames with `kept_share` and `saved_share`, a
            row for each threshold. They may be of rules on held-out tasks, from `bl.stats.crossval` or the `report` of
            `bl.learn_stop`.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw one group in; a new figure by default.

    Returns:
        The Axes; of panels, the first.

    Raises:
        SettingError: if a frame lacks a column, or has too many groups: more than 30, or more than one for the Axes
            that were given, or where there are lines beside it; or `keep` or `least` is no such share.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> from matplotlib.figure import Figure
        >>> frame = pd.DataFrame({
        ...     "rule": ["max_steps(5)", "max_steps(9)"], "n_runs": 50, "n_tasks": 50, "successes": 20,
        ...     "kept_lower": [12, 19], "kept_share": [0.6, 0.95], "saved_steps": [300, 100],
        ...     "saved_share": [0.6, 0.2], "on_front": True})
        >>> bl.plots.plot_frontier(frame, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        'max_steps(9) saves 20% of steps and keeps 19 of 20 successes'
    """
    if keep is not None:
        check_confidence(keep, "keep")
    if least:
        check_confidence(least, "least")
    frame = frame_of(data, lambda other: other, _COLUMNS, "frontier")
    if frame.empty or not frame["on_front"].fillna(value=False).any():
        return style.empty_axes(ax, "no successes, so no front" if len(frame) else "no runs")
    band = getattr(data, "band", pd.DataFrame(columns=list(_BAND)))
    check_columns(band, _BAND, "frontier makes")
    keys = _group_columns(frame)
    lines = _lines_beside(beside or {})
    groups = split_groups(frame, keys, MAX_PANELS if ax is None and not lines else 1)
    shown_rows = frame[frame["on_front"].fillna(value=False) & (frame["kept_share"] >= least)]
    reach = max(0.05, min(1.0, 1.06 * float(floats(shown_rows["saved_share"]).max(initial=0))))
    parts = [
        _FrontGroup(name, rows.drop(columns=keys), first_on_front(rows), _band_of(band, keys, rows), least, reach)
        for name, rows in groups
    ]
    looks = _looks(parts)
    if len(parts) == 1:
        return _draw_front(parts[0], looks, keep, title, ax, lines)
    named_parts = [(f"{part.name} ({_successes(part):,})", part) for part in parts]

    def draw_panel(part: _FrontGroup, panel: Axes) -> Axes:
        return _draw_front(part, looks, keep, None, panel)

    heading = style.choose_title(title, _title_of_panels(parts, keep))
    return draw_panels(named_parts, draw_panel, title=heading, notes=_notes_of_panels(parts, keep, looks))


def _group_columns(frame: pd.DataFrame) -> list[str]:
    from boolab.limits.table import LIMITS

    names = [str(name) for name in frame.columns]
    return [name for name in names[: names.index("rule")] if name not in LIMITS]


def _band_of(band: pd.DataFrame, keys: Sequence[str], rows: pd.DataFrame) -> pd.DataFrame:
    for name in keys:
        value = rows[name].iloc[0]
        if name not in band:
            return band.iloc[:0]
        band = band[band[name].isna() if pd.isna(value) else band[name] == value]
    return band


def _family(rule: str) -> str:
    """The kind of a rule: the function that made it."""
    return _JOINED_RULES if " | " in rule or " & " in rule else rule.partition("(")[0]


def _looks(parts: Sequence[_FrontGroup]) -> dict[str, tuple[str, str]]:
    """The colour and marker of each kind of rule on a front, the most frequent first; the last is for all others."""
    kinds = pd.concat([part.front["rule"].astype(str).map(_family) for part in parts])
    names = [str(name) for name in kinds[kinds != NO_LIMIT].value_counts().index]
    looks = {name: (color, marker) for name, (color, _, marker) in zip(names, palette.GROUP_LOOKS, strict=False)}
    return looks | dict.fromkeys(names[len(palette.GROUP_LOOKS) :], palette.GROUP_LOOKS[-1][::2])


def _best_index(part: _FrontGroup, keep: float | None) -> int | None:
    """The place in the front of the setting that saves most of those that keep enough; None if none does."""
    if keep is None:
        return None
    fine = np.flatnonzero(part.front["kept_lower"].to_numpy() >= keep * _successes(part) - _ROUNDING)
    return int(fine[-1]) if len(fine) else None


def _successes(part: _FrontGroup) -> int:
    return int(part.rows["successes"].iloc[0])


def _draw_front(
    part: _FrontGroup,
    looks: dict[str, tuple[str, str]],
    keep: float | None,
    title: str | None,
    ax: Axes | None,
    lines: Sequence[Line] = (),
) -> Axes:
    """One front, in Axes of its own or in a panel."""
    ax = style.axes_for(ax, 4.8)
    small = style.is_small(ax)
    front, ink = part.front, style.tint(ax, palette.KEPT)
    _frame_axes(ax, part)
    if len(part.band):
        low, high = floats(part.band["kept_low"]), floats(part.band["kept_high"])
        ax.fill_between(floats(part.band["saved_share"]), low, high, step="pre", color=ink, alpha=0.18, linewidth=0,
                        label="band")  # fmt: skip
    x, y = np.append(0.0, floats(front["saved_share"])), np.append(1.0, floats(front["kept_share"]))
    ax.step(x, y, where="pre", color=ink, linewidth=1.4 if small else 1.8, label="front", zorder=3)
    beaten = part.rows[~part.rows["on_front"].fillna(value=False)]
    dot: dict[str, Any] = {
        "marker": "o",
        "markersize": 1.5 if small else 2.6,
        "color": style.fade(ax, 0.35),
        "markeredgewidth": 0,
    }
    ax.plot(floats(beaten["saved_share"]), floats(beaten["kept_share"]), linestyle="", label="beaten", zorder=2, **dot)
    kinds = front["rule"].astype(str).map(_family)
    for kind, (color, marker) in looks.items():
        kind_rows = front[(kinds == kind) & (front["kept_share"] >= part.min_share)]
        if kind_rows.empty:
            continue
        ax.plot(floats(kind_rows["saved_share"]), floats(kind_rows["kept_share"]), linestyle="", marker=marker,
                markersize=_mark_size(front, small=small), color=style.tint(ax, color), markeredgewidth=0, label=kind,
                zorder=4, clip_on=False)  # fmt: skip
    best = _best_index(part, keep)
    _draw_even_trade(ax)
    if keep is not None:
        ax.axhline(keep, color=ink, linewidth=1.2, linestyle=(0, (1, 1.5)), zorder=1, label="keep")
        if not small:
            style.annotate(ax, f"{level(keep)} kept", (1, keep), (0, 3), color=ink, xycoords=ax.get_yaxis_transform(),
                           ha="right", gid="keep").set_in_layout(False)  # fmt: skip
    FrontNames(ax, front, part.min_share, best, with_names=not lines).write()
    if lines:
        mark = None
        if best is not None:
            row = front.iloc[best]
            mark = Line([row["saved_share"]], [row["kept_share"]], shorten(str(row["rule"]), NAME_CHARS), ink)
        _draw_beside(ax, lines, Line(np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]), mark, keep)
    return style.finish(
        ax,
        title=style.choose_title(title, _title(part, keep, best, lines)),
        xlabel="steps saved",
        ylabel="successes kept",
        grid=ax.yaxis,
        key=[] if small else _key(ax, looks, part),
        notes=[*_notes([part], keep), *_notes_beside(lines)],
        subject="Settings, by what they keep and save",
    )


def _draw_even_trade(ax: Axes) -> None:
    """Where a share of successes is given up for the same share of steps: below it, a setting gives up more."""
    (_, right), (low, _) = ax.get_xlim(), ax.get_ylim()
    end = min(right, 1 - low)
    ax.plot([0, end], [1, 1 - end], color=style.fade(ax, 0.45), linewidth=1, linestyle=(0, (6, 4)), zorder=1.5,
            label="even trade", scalex=False, scaley=False)  # fmt: skip
    if style.is_small(ax):
        return
    middle = 0.66 * end
    ax.text(middle, 1 - middle, f"\n{_EVEN}", ha="center", va="center", rotation=-45, transform_rotates_text=True,
            rotation_mode="anchor", size=style.sizes(ax).note, color=style.fade(ax, 0.7), linespacing=1.6,
            gid="even trade").set_in_layout(False)  # fmt: skip


def _mark_size(front: pd.DataFrame, *, small: bool) -> float:
    """Smaller where there are many, so that they do not become a line of their own."""
    full_size, crowd = (3.2, 40) if small else (6.0, 60)
    return full_size * min(1.0, max(0.45, crowd / max(len(front), 1) / 2))


def _frame_axes(ax: Axes, part: _FrontGroup) -> None:
    ax.set_xlim(0, part.reach)
    ax.set_ylim(part.min_share, 1 + 0.07 * (1 - part.min_share))
    for axis in (ax.yaxis, ax.xaxis):
        style.share_ticks(ax, axis)
        axis.set_major_locator(MaxNLocator(3 if style.is_small(ax) else 6, steps=[1, 2, 2.5, 5, 10]))


def _key(ax: Axes, looks: dict[str, tuple[str, str]], part: _FrontGroup) -> list[Artist]:
    shown_rows = part.front[part.front["kept_share"] >= part.min_share]
    kinds = shown_rows["rule"].astype(str).map(_family).value_counts()
    marks: list[Artist] = [
        Line2D([], [], linestyle="", marker=marker, color=style.tint(ax, color), markersize=5, markeredgewidth=0,
               label=f"{kind} {kinds[kind]:,}")
        for kind, (color, marker) in looks.items() if kind in kinds
    ]  # fmt: skip
    ink = style.tint(ax, palette.KEPT)
    front: list[Artist] = [Line2D([], [], color=ink, linewidth=1.8, label="front")]
    band: list[Artist] = [Patch(color=ink, alpha=0.18, linewidth=0, label="its band")] if len(part.band) else []
    n = int((~part.rows["on_front"].fillna(value=False)).sum())
    dots: list[Artist] = [
        Line2D([], [], linestyle="", marker="o", markersize=2.6, color=style.fade(ax, 0.35), markeredgewidth=0,
               label=f"beaten by another {n:,}")
    ] if n else []  # fmt: skip
    return [*front, *band, *marks, *dots]


def _title(part: _FrontGroup, keep: float | None, best: int | None, lines: Sequence[Line]) -> str:
    n = _successes(part)
    if keep is not None and any(_saved_at(line, keep) is not None for line in lines):
        row = None if best is None else part.front.iloc[best]
        return _title_beside(lines, None if row is None else (str(row["rule"]), float(row["saved_share"])), keep)
    if best is None:
        if keep is None:
            return f"{len(part.front):,} of {count(len(part.rows), 'setting')} are on the front"
        return f"None of {count(len(part.rows), 'setting')} keeps {level(keep)} of {count(n, 'success', 'successes')}"
    row = part.front.iloc[best]
    saved, kept_text = (
        percent(float(row["saved_share"])),
        f"{int(row['kept_lower']):,} of {count(n, 'success', 'successes')}",
    )
    return f"{shorten(str(row['rule']), NAME_CHARS)} saves {saved} of steps and keeps {kept_text}"


def _title_of_panels(parts: Sequence[_FrontGroup], keep: float | None) -> str:
    saved = []
    for part in parts:
        best = _best_index(part, keep)
        if best is not None:
            saved.append((float(part.front["saved_share"].iloc[best]), part.name))
    if keep is None or not saved:
        return f"What settings keep and save in {count(len(parts), 'group')}"
    (low, first), (high, last) = min(saved), max(saved)
    ends = f"{percent(low)} ({shorten(first, 20)}) to {percent(high)} ({shorten(last, 20)})"
    return f"Keeping {level(keep)} of successes, the best setting saves {ends} of the steps"


def _notes(parts: Sequence[_FrontGroup], keep: float | None) -> Iterable[str]:
    runs = [int(part.rows["n_runs"].iloc[0]) for part in parts]
    tasks = [int(part.rows["n_tasks"].iloc[0]) for part in parts]
    suffix = " each" if len(parts) > 1 else ""
    sample = f"{count_span(min(runs), max(runs), 'run')} of {count_span(min(tasks), max(tasks), 'task')}{suffix}."
    yield add_set_name(parts[0].rows, sample)
    levels = {float(value) for value in _values(parts, "confidence")}
    if any(len(part.band) for part in parts):
        share_text = f"{level(levels.pop())} of" if len(levels) == 1 else "most of"
        yield f"Band: {share_text} the fronts of resampled tasks, at each share of steps saved."
    if keep is not None:
        yield f"Ring: the setting that saves most of those that keep {level(keep)}."
    yield "Dashed: 1% of successes for 1% of steps." if len(parts) > 1 else ""
    yield f"Settings that keep less than {level(parts[0].min_share)} are not shown." if parts[0].min_share else ""
    yield "The front is chosen with hindsight: on other tasks its settings keep less on average."
    success_kinds = {str(value) for value in _values(parts, "success_by")}
    yield f"Success by {', '.join(sorted(success_kinds))}." if success_kinds - {"label"} else ""
    unknown = sum(int(part.rows["n_unknown"].max()) for part in parts if "n_unknown" in part.rows)
    yield format_missing(unknown, "run", "in which a counter that a rule needs is unknown")


def _values(parts: Sequence[_FrontGroup], column: str) -> Iterator[Any]:
    """The values of a column that some of the parts may lack."""
    return chain.from_iterable(part.rows[column].dropna().unique() for part in parts if column in part.rows)


def _notes_of_panels(
    parts: Sequence[_FrontGroup], keep: float | None, looks: dict[str, tuple[str, str]]
) -> Iterable[str]:
    yield "In brackets: successes."
    if len(looks) > 1:
        shapes = {"o": "circle", "s": "square", "^": "triangle", "D": "diamond", "v": "triangle down", "P": "plus"}
        yield f"Marks: {', '.join(f'{shapes[marker]} {kind}' for kind, (_, marker) in looks.items())}."
    yield from _notes(parts, keep)


# --- Lines beside the front, such as those of learned rules on held-out tasks -----------------------------------------


def _lines_beside(frames: Mapping[str, pd.DataFrame]) -> list[Line]:
    """The lines, each from no limit on, which saves nothing and keeps all."""
    if len(frames) > MAX_LINES:
        raise SettingError(f"beside has {len(frames)} lines: expected {MAX_LINES} at most")
    lines = []
    for name, frame in frames.items():
        check_columns(frame, ("saved_share", "kept_share"), "crossval makes")
        known_rows = frame[["saved_share", "kept_share"]].dropna().sort_values(["saved_share", "kept_share"])
        x, y = floats(known_rows["saved_share"]), floats(known_rows["kept_share"])
        lines.append(Line(np.append(0.0, x), np.append(1.0, y), name))
    return lines


def _saved_at(line: Line, keep: float) -> float | None:
    """The share of steps at which a line falls below a share of successes; None if it stays above."""
    indices = np.flatnonzero(line.y < keep)
    if not len(indices):
        return None
    index = int(indices[0])
    (x0, x1), (y0, y1) = line.x[index - 1 : index + 1], line.y[index - 1 : index + 1]
    return float(x0 + (y0 - keep) / (y0 - y1) * (x1 - x0))


def _draw_beside(ax: Axes, lines: Sequence[Line], front: Line, best: Line | None, keep: float | None) -> None:
    """Draw the lines with their names, and where each crosses the share that is to be kept."""
    labelled: list[Line] = []
    drops = [] if best is None or keep is None else [(float(best.x[0]), float(best.y[0]), best.color)]
    for line, dash, strength in zip(lines, _DASHES, (1.0, 0.6, 0.6), strict=False):
        ink = style.fade(ax, strength)
        ax.plot(line.x, line.y, color=ink, linestyle=dash, linewidth=2.2, zorder=3.5, label="beside")
        labelled.append(line._replace(color=ink))
        saved = None if keep is None else _saved_at(line, keep)
        if saved is not None and keep is not None:
            drops.append((saved, keep, ink))
    _drop(ax, sorted(drops, key=lambda drop: drop[0]))
    low = ax.get_ylim()[0]
    visible_lines = [line._replace(x=line.x[line.y >= low], y=line.y[line.y >= low]) for line in [front, *labelled]]
    label_lines(ax, visible_lines, best)


def _drop(ax: Axes, drops: Sequence[tuple[float, float, Any]]) -> None:
    """Lines down to the axis, with what is saved there, above one another where they are close."""
    low, size = ax.get_ylim()[0], style.sizes(ax).note
    end, row = 0.0, 0
    for saved, kept_share, ink in drops:
        ax.plot([saved, saved], [low, kept_share], color=ink, linestyle=(0, (1.5, 1.5)), linewidth=1.2, zorder=2.5,
                label="saved")  # fmt: skip
        x = (saved - ax.get_xlim()[0]) / (ax.get_xlim()[1] - ax.get_xlim()[0]) * style.room(ax)
        row = row + 1 if x < end else 0
        text = percent(saved)
        end = x + style.text_width(text, size) + 8
        style.annotate(ax, text, (saved, low), (3, 3 + 1.3 * size * row), color=ink, weight="bold", gid="saved")


def _title_beside(lines: Sequence[Line], best: tuple[str, float] | None, keep: float) -> str:
    """What each saves that keeps as much as is to be kept."""
    crossings = [(line.text, _saved_at(line, keep)) for line in lines]
    pairs = [*((name, saved) for name, saved in crossings if saved is not None), *([best] if best is not None else [])]
    (name, saved), *rest = sorted(pairs, key=lambda pair: -pair[1])
    parts = [f"{name} saves {percent(saved)} of steps", *(f"{name} {percent(saved)}" for name, saved in rest)]
    return f"At {level(keep)} of successes kept, {', '.join(parts)}"


def _notes_beside(lines: Sequence[Line]) -> Iterator[str]:
    """What the lines are."""
    if lines:
        yield f"Other lines ({', '.join(line.text for line in lines)}): straight between the points that are given."
