"""What a heat map shows of its cells, one metric at a time: texts and colours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.colors import Colormap, Normalize, to_hex, to_rgb

from boolab.display.colours import DARK
from boolab.plots._grid_cells import Square, cell_text
from boolab.plots.heatmap import scale_of

METRICS: Final = {
    "kept_lower": "successes kept",
    "saved_cost_usd": "cost saved",
    "saved_steps": "steps saved",
    "n_truncated": "runs stopped",
    "success_share": "runs that succeed",
    "mean_steps": "mean steps",
    "mean_cost_usd": "mean cost",
}
"""The columns that can be chosen, and what they are called."""
FRONTIER: Final = "frontier"
_COUNTED: Final = {
    "kept_lower": ("kept_lower", "successes"),
    "kept_upper": ("kept_upper", "successes"),
    "n_truncated": ("n_truncated", "n_runs"),
    "success_share": ("n_succeeded", "n_labelled"),
}
_STOPS_OF_SCALE: Final = 24
_LINE: Final = "Line: up to where "
"""How the note of the plot begins that the legend of the widget contains."""
_SRGB_LINEAR: Final = 0.04045
"""The values of sRGB up to this are linear in light."""


def layer_of(square: Square, places: list[tuple[int, int]]) -> dict[str, Any]:
    """One metric: its title, scale and cells, the rows from the top."""
    looks = scale_of(square)
    in_dark = scale_of(square, to_rgb(DARK["bg"]), dark=True)
    facts = dict(zip(places, square.rows.to_dict("records"), strict=True))
    return {
        "value": square.value,
        "name": METRICS.get(square.value, square.measure.name.removesuffix(" (share)")),
        "title": square.title,
        "notes": [note for note in square.notes if not note.startswith(_LINE)],
        "measure": square.measure.name,
        "scale": _scale(square, looks, in_dark),
        "keep": _keep_words(square),
        "cells": [
            [
                _cell(float(square.cells[up, across]), square, looks, in_dark)
                | {"count": _count(square.value, facts.get((up, across), {}))}
                for across in range(len(square.across))
            ]
            for up in reversed(range(len(square.up_values)))
        ],
    }


def frontier_layer(square: Square, places: list[tuple[int, int]]) -> dict[str, Any] | None:
    """What is kept, in colour only on the frontier of successes kept and steps saved; None if that is not known."""
    if not {"kept_lower", "saved_steps"} <= set(square.rows) or square.value != "kept_lower":
        return None
    rows = square.rows[["kept_lower", "saved_steps"]].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    best = _loosest(on_frontier(rows[:, 0], rows[:, 1]), rows, places)
    at = dict(zip(places, best.tolist(), strict=True))
    layer = layer_of(square, places)
    for line, cells in enumerate(layer["cells"]):
        for across, cell in enumerate(cells):
            if not at.get((len(layer["cells"]) - 1 - line, across)) and cell["fill"]:
                cell.update(fill=None, faint=True)
    known = int((~np.isnan(rows).any(axis=1)).sum())
    which = "this one" if best.sum() == 1 else f"these {best.sum():,}"
    return layer | {
        "value": FRONTIER,
        "name": FRONTIER,
        "title": f"No setting is better than {which} of {known:,} in both successes kept and steps saved",
        "notes": [
            "In colour: each other setting keeps fewer successes or saves fewer steps.",
            "Of settings with the same numbers, the loosest is in colour.",
            *layer["notes"],
        ],
    }


def _loosest(
    best: npt.NDArray[np.bool_], rows: npt.NDArray[Any], places: list[tuple[int, int]]
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Of settings with the same two numbers, the one that stands highest and furthest to the right."""
    last: dict[tuple[float, ...], int] = {}
    for place in sorted(np.flatnonzero(best).tolist(), key=lambda place: places[place]):
        last[tuple(rows[place])] = place
    out = np.zeros_like(best)
    out[list(last.values())] = True
    return out


def on_frontier(kept: npt.ArrayLike, saved: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Where no other setting is at least as good in both, and better in one; never where a number is unknown."""
    k, s = np.asarray(kept, dtype=float), np.asarray(saved, dtype=float)
    beaten = [bool((((k >= a) & (s > b)) | ((k > a) & (s >= b))).any()) for a, b in zip(k, s, strict=True)]
    return np.asarray(~np.array(beaten, dtype=bool) & ~np.isnan(k) & ~np.isnan(s))


def metrics_in(table: pd.DataFrame, first: str) -> Iterator[str]:
    """The columns of an aggregate that can be chosen: the given one, then those that are known in some row."""
    yield first
    for name in METRICS:
        # A share of what is spent needs something that was spent.
        spent = table.get(name.removeprefix("saved_"))
        if name != first and name in table and spent is not None and (spent.fillna(0) > 0).any():
            yield name


def ink_on(fill: str) -> str:
    """Black or white, whichever is easier to read on a colour: at least 4.58 to 1, whatever the colour.

    Source: the contrast ratio of WCAG 2.2, which requires 4.5.
    """
    luminance = luminance_of(fill)
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def luminance_of(colour: str) -> float:
    """The relative luminance of WCAG 2.2, from 0 (black) to 1 (white)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= _SRGB_LINEAR else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


_Looks: TypeAlias = tuple[Colormap, Normalize]


def _cell(value: float, square: Square, looks: _Looks, in_dark: _Looks) -> dict[str, Any]:
    """The text of a cell, and its colours: of the area and of the text, on a light page and on a dark one."""
    areas = [] if np.isnan(value) else [to_hex(colours(scale(value))) for colours, scale in (looks, in_dark)]
    fill = [colour for area in areas for colour in (area, ink_on(area))]
    return {"text": cell_text(value, square.measure) or "?", "fill": fill or None}


def _count(value: str, row: dict[Any, Any]) -> str:
    """The count behind a share, as in "92/95"; nothing where it is none of runs."""
    part, whole = (row.get(name) for name in _COUNTED.get(value, ("", "")))
    if part is None or whole is None or pd.isna(part) or pd.isna(whole):
        return ""
    return f"{int(part):,}/{int(whole):,}"


def _scale(square: Square, looks: _Looks, in_dark: _Looks) -> dict[str, Any]:
    """The colours from one end to the other, on light and on dark, and what stands at both ends and in the middle."""
    places = np.linspace(0, 1, _STOPS_OF_SCALE)
    _, scale = looks
    ticks = [(at, float(scale.inverse(at))) for at in (0.0, 0.5, 1.0)]
    return {
        "colours": [[to_hex(colours(place)) for place in places] for colours, _ in (looks, in_dark)],
        "ticks": [{"at": at, "text": cell_text(round(value, 9), square.measure) or "0"} for at, value in ticks],
        "from_lowest": square.measure.is_share and ticks[0][1] > 0,
    }


def _keep_words(square: Square) -> str:
    found = next((note for note in square.notes if note.startswith(_LINE)), "")
    return found.removeprefix(_LINE).removesuffix(".")
