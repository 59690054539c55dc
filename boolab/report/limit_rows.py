"""The values of a limit as rows: what each keeps, stops and saves, and which of them are worth showing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from boolab.frames.dtypes import is_missing
from boolab.limits.table import MEASURES

COLUMNS: Final = tuple(measure.column for measure in MEASURES.values())
MAX_ROWS: Final = 12  # of a table
_FEW_VALUES: Final = 5  # so few values are all shown, even if most change nothing
_ROUND: Final = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000)
_SMALL: Final = 5
"""Below it are values that are shown only where there is room for all."""
Mark: TypeAlias = Literal["set", "left", "tightest", ""]
MARKS: Final[Mapping[Mark, str]] = {
    "set": "to set",
    "left": "left off",
    "tightest": "tightest that loses none",
    "": "",
}
"""The remark beside a value."""


class LimitRow(NamedTuple):
    """One value of an axis, the others off: what it keeps, stops and saves."""

    value: float | None
    kept: tuple[int, int]
    successes: int
    stopped: int
    undecided: int
    n: int
    saved: Mapping[str, tuple[float, float] | None]
    mark: Mark

    @property
    def n_cut(self) -> int:
        """How many successes are stopped before they were done."""
        return self.successes - self.kept[0]


def informative_rows(
    part: pd.DataFrame, axis: str, marks: Mapping[float | None, Mark] | None = None, also: Sequence[float] = ()
) -> list[LimitRow]:
    """A dozen informative rows of an axis, from tight to loose, off last.

    They are round values as far as the data reach, those of `marks`, which are marked so, and those of `also`.
    """
    every_mark: dict[float | None, Mark] = {}
    ordered = part.assign(_off=part[axis].isna()).sort_values(["_off", axis], kind="stable")
    rows = [_row(entry, axis) for entry in ordered.to_dict("records")]
    on_rows = [row for row in rows if row.value is not None]
    tight = _tightest_value(on_rows)
    always = [*(marks or {}), *also, tight]
    values = _informative_values([row.value for row in on_rows if row.value is not None], on_rows, always)
    if tight is not None:
        every_mark[tight] = "tightest"
    every_mark.update(marks or {})
    out = [row._replace(mark=every_mark.get(row.value, "")) for row in on_rows if row.value in values]
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
    """The least value from which on no success is lost; None if it stops nothing."""
    tight = None
    for row in reversed(rows):
        if row.n_cut > 0 or row.undecided or not row.successes:
            break
        tight = row
    return tight.value if tight is not None and tight.stopped else None


def _informative_values(values: Sequence[float], rows: Sequence[LimitRow], always: Sequence[Any]) -> set[float]:
    """The values to show: all of a few; else those marked, the first that changes nothing, and round ones."""
    if len(values) <= _FEW_VALUES:
        return set(values)
    idle = next((row.value for row in rows if not (row.stopped or row.undecided)), None)
    end = values[-1] if idle is None else idle
    must = {value for value in (*always, end) if value is not None and value in values}
    candidates = [value for value in values if value < end and value not in must]
    if len(candidates) + len(must) <= MAX_ROWS:
        return must | set(candidates)
    nice = [value for value in candidates if value in _ROUND] or candidates
    room = max(MAX_ROWS - len(must), 0)
    if len(nice) > room:
        nice = [value for value in nice if value >= _SMALL] or nice
    picked: Any = np.unique(np.linspace(0, len(nice) - 1, room).round().astype(int)) if nice and room else []
    return must | {nice[index] for index in picked}
