"""The setting that saves most steps among those that keep enough, and the sentence that names it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import pandas as pd

from boolab.display.numbers import span, whole_percent
from boolab.frames.dtypes import is_missing
from boolab.limits.table import LIMITS
from boolab.plots._frames import capital
from boolab.plots._grid import setting, spent_and_saved
from boolab.plots._grid_cells import Square


def best_of(square: Square) -> Mapping[Hashable, object] | None:
    """The row that saves most steps among those that keep enough, the loosest of equal ones; None if there is none."""
    rows = _known(square)
    if rows is None:
        return None
    base = rows["successes"].astype("Float64")
    enough = rows[rows["kept_lower"].astype("Float64") >= (square.keep or 0) * base - 1e-9]
    if enough.empty or not enough["saved_steps"].max() > 0:
        return None
    order = ["saved_steps", "kept_lower", *(name for name in LIMITS if name in enough)]
    best: dict[Hashable, object] = enough.sort_values(order, na_position="last", kind="stable").iloc[-1].to_dict()
    return best


def verdict_of(square: Square, best: Mapping[Hashable, object] | None, x: str, y: str) -> str:
    """What to set, in one sentence; "" where that is not known, or where a setting is recommended already."""
    rows = _known(square)
    if rows is None or square.marked_row is not None or square.keep is None:
        return ""
    share = f"{'all' if square.keep == 1 else f'at least {whole_percent(square.keep, 1)}'}"
    enough = 0 if square.good is None else int(square.good.sum())
    total = int(rows["successes"].max())
    successes = square.words.number(total)
    if not enough:
        most = rows.sort_values("kept_lower", kind="stable").iloc[-1]
        kept = f"{_named(most, x, y)} keeps the most, {int(most['kept_lower']):,}"
        return f"No setting here keeps {share} of {successes}: {kept}"
    if best is None:
        return f"No setting that keeps {share} of {successes} saves a step"
    facts = {str(name): value for name, value in best.items()}
    lower = int(facts["kept_lower"])  # type: ignore[call-overload]
    upper = facts.get("kept_upper", lower)
    kept = span(lower, lower if pd.isna(upper) else int(upper))  # type: ignore[call-overload]
    saves = spent_and_saved("steps", facts)
    return f"{capital(_named(facts, x, y))} keeps {kept} of {successes}, {saves}"


def _known(square: Square) -> pd.DataFrame | None:
    """The rows whose counts are known; None where the cells have none."""
    rows, needed = square.rows, ["successes", "kept_lower", "saved_steps", "steps"]
    if square.empty or square.keep is None or not set(needed) <= set(rows):
        return None
    known = rows.dropna(subset=needed)
    known = known[known["successes"] > 0]
    return None if known.empty else known


def _named(row: Mapping[str, object] | pd.Series, x: str, y: str) -> str:
    """The limits that a setting has: it is a title, which has one line in a cell of a notebook."""
    limits = [setting(name, row[name]) for name in (x, y) if not is_missing(row[name])]
    return " with ".join(limits) if len(limits) > 1 else f"{limits[0]} alone" if limits else "no limit"
