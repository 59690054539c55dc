"""A heat map as plain data: cells with their colours, numbers and bases, and the runs of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd

from boolab.core.run import Run
from boolab.core.text import clean, count, shorten
from boolab.display.numbers import span
from boolab.display.text import align_columns
from boolab.frames.dtypes import axis_value
from boolab.limits.table import LIMITS
from boolab.plots._grid import UNITS, SuccessWords, setting, spent_and_saved
from boolab.plots._grid_cells import Square
from boolab.widgets.heatmap.layers import frontier_layer, layer_of
from boolab.widgets.heatmap.sources import CUT, MAY_BE_KEPT, NOT_STOPPED, SHARE, STOPPED

MAX_LISTED: Final = 100
"""Runs of one cell that are listed."""
MAX_ROWS: Final = 60_000
MIN_LISTED: Final = 10
_NAME: Final = 70
_LISTED: Final = ("run_id", "steps", "rank", "outcome", "stop_reason", "success")


def heatmap_data(
    squares: Sequence[Square], x: str, y: str, rows: Iterable[pd.DataFrame] | None, runs: Mapping[str, Run] | None
) -> dict[str, Any]:
    """What heatmap.js draws, as plain data; without `rows` (see `sources`), the runs of cells are not known."""
    square = squares[0]
    base: dict[str, Any] = {
        "title": square.title or f"Nothing to draw: {square.empty}.",
        "notes": list(square.notes),
        "layers": [],
        "x": _side(x, square.across),
        "y": _side(y, square.up_values),
        "rows": [],
        "runs": [],
        "whys": [],
        "can_list": rows is not None,
        "can_open": runs is not None,
    }
    if square.empty:
        return base
    most = max(MIN_LISTED, min(MAX_LISTED, MAX_ROWS // square.cells.size))
    listed = _listed(rows, most) if rows is not None else {}
    ids = list(dict.fromkeys(run_id for some in listed.values() for run_id in some["run_id"]))
    number = {run_id: place for place, run_id in enumerate(ids)}
    whys: dict[tuple[Any, ...], int] = {}
    facts = {_at(square, x, y, row): row for row in square.rows.to_dict("records")}
    places = [_at(square, x, y, row) for row in square.rows.to_dict("records")]
    layers = [layer_of(one, places) for one in squares if not one.empty]
    layers += filter(None, [frontier_layer(one, places) for one in squares])
    marked = None if square.marked_row is None else _at(square, x, y, square.marked_row)
    for up in reversed(range(len(square.up_values))):
        line = []
        for across in range(len(square.across)):
            row = facts.get((up, across))
            cell = {
                **layers[0]["cells"][len(square.up_values) - 1 - up][across],
                "edges": _edges(square.good, up, across),
                "good": bool(square.good is not None and square.good[up, across]),
                "recommended": (up, across) == marked,
                "name": f"{setting(x, square.across[across])}, {setting(y, square.up_values[up])}",
                "facts": [] if row is None else list(_facts(row, square.words)),
                "listed": _as_lists(listed.get((up, across)), number, whys),
            }
            line.append(cell)
        base["rows"].append(line)
    known = runs or {}
    return base | {
        **{name: layers[0][name] for name in ("title", "notes", "measure", "scale", "keep")},
        "layers": layers,
        "runs": [_run(run_id, known.get(run_id)) for run_id in ids],
        "whys": [_why(*why) for why in whys],
    }


def heatmap_text(data: Mapping[str, Any]) -> str:
    """The cells as plain text: the title, a line for each row of cells, the notes."""
    lines = [data["title"], ""]
    if data["rows"]:
        lines.append(f"{data['measure']}; {data['x']['name']}, in {data['x']['unit']}, to the right")
        head = [data["y"]["name"], *data["x"]["ticks"]]
        cells = [[f"{cell['text']}{'*' if cell['good'] else ' '}" for cell in row] for row in data["rows"]]
        ticks = reversed(data["y"]["ticks"])
        lines += align_columns([head, *([tick, *row] for tick, row in zip(ticks, cells, strict=True))])
        if data["keep"]:
            lines.append(f"*: {data['keep']}")
        lines += [f"recommended: {cell['name']}" for row in data["rows"] for cell in row if cell["recommended"]]
    return "\n".join([*lines, *data["notes"]])


# --- Cells ------------------------------------------------------------------------------------------------------------


def _side(name: str, values: Sequence[Any]) -> dict[str, Any]:
    return {
        "axis": name,
        "name": LIMITS[name].label,
        "unit": LIMITS[name].unit,
        "values": [None if value is None else float(value) if value != int(value) else int(value) for value in values],
        "ticks": [axis_value(name, value) for value in values],
    }


def _at(square: Square, x: str, y: str, row: Mapping[Any, Any]) -> tuple[int, int]:
    up, across = (
        len(values) - 1 if pd.isna(row[name]) else values.index(row[name])
        for name, values in ((y, square.up_values), (x, square.across))
    )
    return up, across


def _edges(good: np.ndarray[Any, Any] | None, up: int, across: int) -> str:
    """The sides (t, r, b, l) on which a cell that keeps enough meets one that does not."""
    if good is None or not good[up, across]:
        return ""
    sides = {"t": (up + 1, across), "r": (up, across + 1), "b": (up - 1, across), "l": (up, across - 1)}
    inside = {side: (i, j) for side, (i, j) in sides.items() if 0 <= i < good.shape[0] and 0 <= j < good.shape[1]}
    return "".join(side for side, at in inside.items() if not good[at])


def _facts(row: Mapping[Any, Any], words: SuccessWords) -> Iterator[str]:
    """The counts behind the numbers of a cell."""
    known = {name: value for name, value in row.items() if not pd.isna(value)}
    if "kept_lower" in known and known.get("successes"):
        lower = int(known["kept_lower"])
        upper = int(known.get("kept_upper", lower))
        yield f"keeps {span(lower, upper)} of {words.number(int(known['successes']))}"
    saved = [spent_and_saved(name, row, "") for name in UNITS if name in known and f"saved_{name}" in known]
    if saved:
        yield f"saves{','.join(saved)}"
    if SHARE in row and known.get("n_labelled"):
        yield f"{int(known['n_succeeded']):,} of {count(int(known['n_labelled']), 'run')} succeed"
    for name in UNITS:
        if f"mean_{name}" in known:
            mean = known[f"mean_{name}"]
            yield f"${mean:,.4f} at the mean" if name == "cost_usd" else f"{mean:,.1f} {UNITS[name][1]} at the mean"
    stopped = sum(int(known.get(f"n_{name}", 0)) for name in ("truncated", "not_identified", "unknown"))
    if "n_truncated" in known and "n_runs" in known:
        yield f"stops {stopped:,} of {count(int(known['n_runs']), 'run')}"
    elif "n_runs" in known:
        yield count(int(known["n_runs"]), "run")
    if known.get("n_censored"):
        yield count(int(known["n_censored"]), "run ends with its recording", "runs end with their recording")


# --- Their runs -------------------------------------------------------------------------------------------------------


def _listed(frames: Iterable[pd.DataFrame], most: int) -> dict[tuple[int, int], dict[str, Any]]:
    """The first runs of each cell that it stops, lost successes first, or all; and how many of each rank there are."""
    kept: list[pd.DataFrame] = []
    counts: Counter[tuple[int, int, int]] = Counter()
    for frame in frames:
        kept.append(_first_of_each(frame, most))
        y, x, rank = (frame[name].to_numpy(dtype=np.int64) for name in ("y", "x", "rank"))
        numbers, times = np.unique((y << 34) | (x << 4) | rank, return_counts=True)
        for number, n in zip(numbers.tolist(), times.tolist(), strict=True):
            counts[number >> 34, (number >> 4) & 0x3FFFFFFF, number & 15] += n
    if not kept:
        return {}
    first = _first_of_each(pd.concat(kept, ignore_index=True), most)
    # Lists, and no frame for each of what may be thousands of cells: making one takes a millisecond.
    columns = {name: first[name].tolist() for name in _LISTED}
    cells = list(zip(first["y"].tolist(), first["x"].tolist(), strict=True))
    starts = [place for place, cell in enumerate(cells) if not place or cell != cells[place - 1]]
    out: dict[tuple[int, int], dict[str, Any]] = {}
    for start, end in pairwise((*starts, len(cells))):
        # A setting of a sweep has made its runs; another one leaves those alone that it does not stop.
        made = columns["outcome"][start] == "made"
        stop = end if made else start + sum(rank <= STOPPED for rank in columns["rank"][start:end])
        ranks = {rank: counts[*cells[start], rank] for rank in (CUT, MAY_BE_KEPT, STOPPED, NOT_STOPPED)}
        out[cells[start]] = {name: values[start:stop] for name, values in columns.items()} | {
            "ranks": ranks,
            "made": made,
        }
    return out


def _first_of_each(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """The first rows of each cell, by rank and step."""
    y, x, rank, steps = (frame[name].to_numpy(dtype=np.int64) for name in ("y", "x", "rank", "steps"))
    order = np.lexsort((steps, rank, x, y))
    cells = ((y << 32) | x)[order]
    starts = np.flatnonzero(np.append([True], cells[1:] != cells[:-1]))[: len(cells)]
    place = np.arange(len(cells)) - np.repeat(starts, np.diff(np.append(starts, len(cells))))
    return frame.iloc[order[place < most]]


def _as_lists(
    some: Mapping[str, Any] | None, number: Mapping[str, int], whys: dict[tuple[Any, ...], int]
) -> dict[str, Any]:
    if some is None:
        return {"run": [], "step": [], "why": [], "all": 0, "cut": 0, "undecided": 0, "stopped": 0, "made": False}
    ranks = some["ranks"]
    success = [None if pd.isna(value) else bool(value) for value in some["success"]]
    reasons = [None if pd.isna(value) else str(value) for value in some["stop_reason"]]
    keys = zip(some["rank"], some["outcome"], reasons, success, strict=True)
    return {
        "run": [number[run_id] for run_id in some["run_id"]],
        "step": [max(1, int(step)) for step in some["steps"]],
        "why": [whys.setdefault(key, len(whys)) for key in keys],
        "all": sum(ranks.values()),
        "cut": ranks.get(CUT, 0),
        "undecided": ranks.get(MAY_BE_KEPT, 0),
        "made": some["made"],
        "stopped": sum(n for rank, n in ranks.items() if rank <= STOPPED),
    }


def _why(rank: int, outcome: str, reason: str | None, success: bool | None) -> dict[str, Any]:
    """What a setting does to a run."""
    label = {True: "success", False: "failure", None: "no label"}[success]
    words = {
        "unchanged": f"{label}, not stopped",
        "censored": f"{label}, its recording ends first",
        "not_identified": f"{label}, what follows is not identified",
        "unknown": f"{label}, undecided: the source lacks the counter",
        "made": label,
    }.get(outcome, f"{label}, stopped")
    if outcome == "truncated" and rank in (CUT, MAY_BE_KEPT):
        words = "success, lost" if rank == CUT else "success, may be kept: no call follows"
    return {"text": words, "reason": reason, "cut": rank == CUT, "stopped": rank <= STOPPED}


def _run(run_id: str, run: Run | None) -> dict[str, Any]:
    if run is None:
        return {"id": run_id, "task": "", "steps": None, "opens": False}
    lines = run.task.strip().splitlines()
    return {
        "id": run_id,
        "task": shorten(clean(lines[0][: 4 * _NAME]) if lines else "", _NAME),
        "steps": len(run.steps),
        "opens": True,
    }
