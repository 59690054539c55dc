"""The values of a limit as rows: what each keeps, stops and saves, and which of them are worth showing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd

from boolab.frames.dtypes import is_missing
from boolab.limits.table import MEASURES

COLUMNS: Final = tuple(measure.column for measure in MEASURES.values())
MAX_ROWS: Final = 12  # of a table
_FEW_VALUES: Final = 5  # so few values are all shown, even if most change nothing
_ROUND: Final = (*range(1, 7), 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 100, 125, 150, 200, 250, 300, 400, 500, 750)


class LimitRow(NamedTuple):
    """One value of an axis, the others off: what it keeps, stops and saves."""

    value: float | None
    kept: tuple[int, int]
    successes: int
    stopped: int
    undecided: int
    n: int
    saved: Mapping[str, tuple[float, float] | None]
    mark: Literal["recommended", "tightest", ""]

    @property
    def n_cut(self) -> int:
        """How many successes are stopped before they were done."""
        return self.successes - self.kept[0]


def informative_rows(part: pd.DataFrame, axis: str, best: float | None) -> list[LimitRow]:
    """A dozen informative rows of an axis, and that of the best value, from tight to loose, off last."""
    ordered = part.assign(_off=part[axis].isna()).sort_values(["_off", axis], kind="stable")
    rows = [_row(entry, axis) for entry in ordered.to_dict("records")]
    on_rows = [row for row in rows if row.value is not None]
    tight = _tightest_value(on_rows)
    values = _informative_values([row.value for row in on_rows if row.value is not None], on_rows, [best, tight])
    out = [row._replace(mark=_mark(row.value, best, tight)) for row in on_rows if row.value in values]
    return [*out, *(row for row in rows if row.value is None)]


def _row(entry: Mapping[Any, Any], column: str) -> LimitRow:
    value = entry[column]
    return LimitRow(
        None if is_missing(value) else value,
        (int(entry["kept_lower"]), int(entry["kept_upper"])),
        int(entry["successes"]),
        int(entry["n_truncated"]) + int(entry["n_not_identified"]),
        int(entry["n_unknown"]),
        int(entry["n_runs"]),
        {name: _saved_and_total(entry, name) for name in COLUMNS},
        "",
    )


def _saved_and_total(entry: Mapping[Any, Any], name: str) -> tuple[float, float] | None:
    saved, amount = entry[f"saved_{name}"], entry[name]
    return None if is_missing(saved) or is_missing(amount) else (saved, saved + amount)


def _tightest_value(rows: Sequence[LimitRow]) -> float | None:
    """The least value from which on no success is lost."""
    value = None
    for row in reversed(rows):
        if row.n_cut > 0 or row.undecided or not row.successes:
            break
        value = row.value
    return value


def _mark(value: float | None, best: object, tight: object) -> Literal["recommended", "tightest", ""]:
    return "" if value is None else "recommended" if value == best else "tightest" if value == tight else ""


def _informative_values(values: Sequence[float], rows: Sequence[LimitRow], always: Sequence[Any]) -> set[float]:
    """The values to show: all of a few; else those marked, the first that changes nothing, and round ones."""
    if len(values) <= _FEW_VALUES:
        return set(values)
    idle = next((row.value for row in rows if not (row.stopped or row.undecided)), None)
    end = values[-1] if idle is None else idle
    must = {value for value in (*always, values[0], end) if value is not None and value in values}
    candidates = [value for value in values if value < end and value not in must]
    if len(candidates) + len(must) <= MAX_ROWS:
        return must | set(candidates)
    nice = [value for value in candidates if value in _ROUND] or candidates
    room = max(MAX_ROWS - len(must), 0)
    picked: Any = np.unique(np.linspace(0, len(nice) - 1, room).round().astype(int)) if nice and room else []
    return must | {nice[index] for index in picked}
