"""Further lines beside a front: what other rules keep and save, such as learned ones on held-out tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from boolab.display.numbers import level, percent
from boolab.errors import SettingError
from boolab.plots import style
from boolab.plots._frames import check_columns, floats
from boolab.plots._labels import Line, label_lines

_DASHES: Final = ("-", (0, (5, 1.5)), (0, (1.5, 1)))
MAX_LINES: Final = len(_DASHES)


def lines_beside(beside: Mapping[str, pd.DataFrame]) -> list[Line]:
    """The lines, each from no limit on, which saves nothing and keeps all."""
    if len(beside) > MAX_LINES:
        msg = f"beside has {len(beside)} lines: expected {MAX_LINES} at most"
        raise SettingError(msg)
    lines = []
    for name, frame in beside.items():
        check_columns(frame, ("saved_share", "kept_share"), "crossval makes")
        known = frame[["saved_share", "kept_share"]].dropna().sort_values(["saved_share", "kept_share"])
        x, y = floats(known["saved_share"]), floats(known["kept_share"])
        lines.append(Line(np.append(0.0, x), np.append(1.0, y), name))
    return lines


def saved_at(line: Line, keep: float) -> float | None:
    """The share of steps at which a line falls below a share of successes; None if it stays above."""
    below = np.flatnonzero(line.y < keep)
    if not len(below):
        return None
    at = int(below[0])
    (x0, x1), (y0, y1) = line.x[at - 1 : at + 1], line.y[at - 1 : at + 1]
    return float(x0 + (y0 - keep) / (y0 - y1) * (x1 - x0))


def draw_beside(ax: Axes, lines: Sequence[Line], front: Line, best: Line | None, keep: float | None) -> None:
    """Draw the lines with their names, and where each crosses the share that is to be kept."""
    labelled: list[Line] = []
    drops = [] if best is None or keep is None else [(float(best.x[0]), float(best.y[0]), best.color)]
    for line, dash, strength in zip(lines, _DASHES, (1.0, 0.6, 0.6), strict=False):
        ink = style.fade(ax, strength)
        ax.plot(line.x, line.y, color=ink, linestyle=dash, linewidth=2.2, zorder=3.5, label="beside")
        labelled.append(line._replace(color=ink))
        saved = None if keep is None else saved_at(line, keep)
        if saved is not None and keep is not None:
            drops.append((saved, keep, ink))
    _drop(ax, sorted(drops, key=lambda drop: drop[0]))
    low = ax.get_ylim()[0]
    shown = [line._replace(x=line.x[line.y >= low], y=line.y[line.y >= low]) for line in [front, *labelled]]
    label_lines(ax, shown, best)


def _drop(ax: Axes, drops: Sequence[tuple[float, float, Any]]) -> None:
    """Lines down to the axis, with what is saved there, above one another where they are close."""
    low, size = ax.get_ylim()[0], style.sizes(ax).note
    end, row = 0.0, 0
    for saved, kept, ink in drops:
        ax.plot([saved, saved], [low, kept], color=ink, linestyle=(0, (1.5, 1.5)), linewidth=1.2, zorder=2.5,
                label="saved")  # fmt: skip
        x = (saved - ax.get_xlim()[0]) / (ax.get_xlim()[1] - ax.get_xlim()[0]) * style.room(ax)
        row = row + 1 if x < end else 0
        text = percent(saved)
        end = x + style.text_width(text, size) + 8
        style.annotate(ax, text, (saved, low), (3, 3 + 1.3 * size * row), color=ink, weight="bold", gid="saved")


def title_beside(lines: Sequence[Line], best: tuple[str, float] | None, keep: float) -> str:
    """What each saves that keeps as much as is to be kept."""
    found = [(line.text, saved_at(line, keep)) for line in lines]
    pairs = [*((name, saved) for name, saved in found if saved is not None), *([best] if best is not None else [])]
    (name, saved), *rest = sorted(pairs, key=lambda pair: -pair[1])
    parts = [f"{name} saves {percent(saved)} of steps", *(f"{name} {percent(saved)}" for name, saved in rest)]
    return f"At {level(keep)} of successes kept, {', '.join(parts)}"


def notes_beside(lines: Sequence[Line]) -> Iterator[str]:
    """What the lines are."""
    if lines:
        yield f"Other lines ({', '.join(line.text for line in lines)}): straight between the points that are given."
