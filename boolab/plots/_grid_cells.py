"""Two settings against a measure, as cells: what is drawn of an aggregate, and its texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.core.text import count
from boolab.display.numbers import span, whole_percent
from boolab.display.text import capitalize
from boolab.errors import SettingError, near
from boolab.io.checks import repr_of
from boolab.plots._frames import floats, shares
from boolab.plots._grid import (
    UNITS,
    Point,
    SuccessWords,
    grid_of,
    name_setting,
    point_of,
    row_at,
    sample_of,
    say_nothing_is_set,
    spent_and_saved,
    split_groups,
    words_of,
)
from boolab.plots.palette import STOP_LOOKS


class CellMeasure(NamedTuple):
    """What is drawn: its values, how they are called, and whether they are shares."""

    numbers: pd.Series[Any]
    name: str
    is_share: bool


class Square(NamedTuple):
    """The cells of two axes, by row and column."""

    rows: pd.DataFrame  # the rows of the aggregate that are drawn, one for each setting
    value: str  # the column that they show
    keep: float | None  # the share of successes that is to be kept; None for no such share
    measure: CellMeasure  # what they show
    across: list[Any]  # the values of the axis to the right, in order, off last
    up_values: list[Any]  # those of the axis upwards
    cells: Any  # the measure's values; NaN where there is none
    good: Any  # 1 where enough is kept on record; None without `keep`
    marked_row: Mapping[str, Any] | None  # the row of the recommended setting
    words: SuccessWords  # what the kept ones are called
    title: str  # what it shows
    notes: tuple[str, ...]  # what it is drawn from, and what is missing
    empty: str  # why there is nothing to draw, or nothing

    @property
    def limits(self) -> tuple[float, float]:
        """Where the scale begins and ends: 0 and 100% for what is kept or saved; else the least and the most."""
        low, high = float(np.nanmin(self.cells)), float(np.nanmax(self.cells))
        if self.measure.is_share:
            return 0, 1 if high > 0.5 else max(high, 0.01)  # noqa: PLR2004 - a half
        return low, high if high > low else low + 1


def square_of(
    table: pd.DataFrame,
    x: str,
    y: str,
    value: str,
    *,
    keep: float | None,
    at: Mapping[str, Any] | None,
    recommended: Point | None,
) -> Square:
    """The cells of two axes of an aggregate; arguments and errors are those of `plot_heatmap`."""
    if x == y:
        raise SettingError(f"x={x!r}, y={y!r}: expected two different axes")
    if keep is not None and (isinstance(keep, bool) or not 0 < keep <= 1):
        raise SettingError(f"keep={repr_of(keep)}: expected a share above 0 and up to 1, or None")
    if value not in table and value != "kept_lower" and (close := near(value, [*table.columns])):
        raise SettingError(f"value: the table has no column {value!r}{close}")
    point = point_of(recommended, [x, y], table)
    columns = [value, *(["successes", "kept_lower"] if keep is not None or value.startswith("kept_") else [])]
    fixed = {**{name: v for name, v in point.items() if name not in (x, y)}, **(at or {})}
    grid = grid_of(table, [x, y], columns, fixed)
    words = words_of(grid.rows)
    ((_, rows),) = split_groups(grid.rows, grid.groups, 1) if len(grid.rows) else [("", grid.rows)]
    target = {name: point[name] for name in (x, y) if name in point}
    marked_row = row_at(rows, target) if target and len(rows) else None
    measure = _measure(rows, value, words)
    across, up_values = (_values(rows, name) for name in (x, y))
    indices = [rows[name].map({v: i for i, v in enumerate(values)}).fillna(len(values) - 1).astype(int)
              for name, values in ((y, up_values), (x, across))]  # fmt: skip

    def fill_square(numbers: pd.Series[Any]) -> npt.NDArray[Any]:
        out = np.full((len(up_values), len(across)), np.nan)
        out[indices[0], indices[1]] = floats(numbers)
        return out

    cells = fill_square(measure.numbers)
    good = fill_square(_keeps_enough(rows, keep)) == 1 if keep is not None else None
    empty = _empty_reason(rows, measure, value, words, cells)
    finding = say_nothing_is_set(recommended)
    if not (empty or finding):
        finding = _title(rows, measure, good, keep, marked_row, value, words, (x, y))
    title = "" if empty else finding
    sample = sample_of(rows, [("", rows)], words) if "successes" in rows else ()
    notes = () if empty else (*sample, grid.note.strip(),
                              *_notes(cells, good, keep, marked_row, words))  # fmt: skip
    return Square(
        rows,
        value,
        keep,
        measure,
        across,
        up_values,
        cells,
        good,
        marked_row,
        words,
        title,
        tuple(filter(None, notes)),
        empty,
    )


def cell_text(value: float, measure: CellMeasure) -> str:
    """The number of a cell; nothing, where there is none. Shares are rounded down: 95% is at least that."""
    if np.isnan(value):
        return ""
    if measure.is_share:
        percent_value = math.floor(100 * value + 1e-9)
        return f"{percent_value}%" if percent_value or not value else "<1%"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits


def _values(rows: pd.DataFrame, name: str) -> list[Any]:
    """The values of an axis in order, off last."""
    values: list[Any] = sorted(rows[name].dropna().unique().tolist())
    return [*values, None] if rows[name].isna().any() else values


def _empty_reason(
    rows: pd.DataFrame, measure: CellMeasure, value: str, words: SuccessWords, cells: npt.NDArray[Any]
) -> str:
    if rows.empty:
        return "no settings"
    if not np.isnan(cells).all():
        return ""
    if measure.is_share and value.startswith("kept_") and (rows["successes"] == 0).all():
        return f"no {words.plural} to keep"
    return f"{measure.name.split(' (')[0]}: unknown in every setting"


def _measure(rows: pd.DataFrame, value: str, words: SuccessWords) -> CellMeasure:
    if not pd.api.types.is_numeric_dtype(rows[value]):
        raise SettingError(f"value={value!r}: expected a column of numbers")
    raw = rows[value].astype("Float64")
    spent_name = value.removeprefix("saved_")
    if value in ("kept_lower", "kept_upper"):
        bound_text = "" if value == "kept_lower" else " at most"
        return CellMeasure(
            shares(raw, rows["successes"]), f"{words.short}{bound_text} (share)".replace("\n", " "), is_share=True
        )
    if spent_name != value and spent_name in UNITS and spent_name in rows:
        return CellMeasure(shares(raw, rows[spent_name] + raw), f"{UNITS[spent_name][1]} saved (share)", is_share=True)
    if value == "success_share":
        return CellMeasure(raw, f"{words.unit}s that succeed (share)", is_share=True)
    if value.startswith("n_") and value != "n_runs" and "n_runs" in rows:
        return CellMeasure(
            shares(raw, rows["n_runs"]), f"{words.unit}s {_describe_end(value[2:])} (share)", is_share=True
        )
    unit = UNITS[value][1] if value in UNITS else value.replace("_", " ")
    return CellMeasure(raw, f"{unit} spent" if value in UNITS else unit, is_share=False)


def _describe_end(name: str) -> str:
    """What such runs or turns do, as in "runs that end by tool budget", "runs truncated"."""
    words = name.replace("_", " ")
    return f"that end by {words}" if name in STOP_LOOKS and name != "finished" else words


def _keeps_enough(rows: pd.DataFrame, keep: float) -> pd.Series[Any]:
    """Whether a setting keeps that share on record."""
    base = rows["successes"].astype("Float64")
    return ((rows["kept_lower"].astype("Float64") >= keep * base - 1e-9) & (base > 0)).astype("Float64")


def _notes(
    cells: npt.NDArray[Any],
    good: npt.NDArray[Any] | None,
    keep: float | None,
    marked_row: Mapping[str, Any] | None,
    words: SuccessWords,
) -> Iterable[str]:
    if good is not None and keep is not None and good.any() and not good.all():
        yield f"Line: up to where at least {whole_percent(keep, 1)} of {words.plural} are kept on record."
    if marked_row is not None:
        yield "Blue frame: recommended."
    unknown = int(np.isnan(cells).sum())
    if unknown:
        yield f"{count(unknown, 'setting')} unknown (grey)."
    yield "Counts on record."


def _title(
    rows: pd.DataFrame,
    measure: CellMeasure,
    good: npt.NDArray[Any] | None,
    keep: float | None,
    marked_row: Mapping[str, Any] | None,
    value: str,
    words: SuccessWords,
    axis_names: Sequence[str],
) -> str:
    if (
        marked_row is not None
        and "successes" in marked_row
        and not pd.isna(marked_row["successes"])
        and marked_row["successes"]
    ):
        position = name_setting(marked_row, axis_names)
        kept_text = (
            f"keeps {span(int(marked_row['kept_lower']), int(marked_row.get('kept_upper', marked_row['kept_lower'])))}"
        )
        parts = [f"{kept_text} of {words.number(int(marked_row['successes']))}"]
        parts += [spent_and_saved("steps", marked_row)] if {"steps", "saved_steps"} <= set(marked_row) else []
        return f"{capitalize(position)} {' and '.join(filter(None, parts))}"
    total = rows["successes"].max() if "successes" in rows else pd.NA
    if good is not None and keep is not None and not pd.isna(total) and total:
        enough_count = int(good.sum())
        share = "all" if keep == 1 else f"at least {whole_percent(keep, 1)} of"
        if value.startswith("saved_") and enough_count and measure.is_share:
            best = int(measure.numbers.where(_keeps_enough(rows, keep) == 1).fillna(-1).argmax())
            row = row_at(rows.iloc[best : best + 1], {})
            largest_amount = spent_and_saved(value.removeprefix("saved_"), row, "Up to").replace("Up to ", "", 1)
            return f"Up to {largest_amount} are saved while {share} {words.number(int(total))} are kept"
        verb = "keeps" if enough_count == 1 else "keep"
        known_count = int(rows["kept_lower"].notna().sum())
        subject = (
            "The one setting"
            if len(rows) == enough_count == 1
            else f"{enough_count:,} of {count(known_count, 'setting')}"
        )
        subject += " of known outcome" if known_count < len(rows) else ""
        return f"{subject} {verb} {share} {words.number(int(total))}"
    if not pd.isna(total) and not total and value.startswith("kept_"):
        return f"No {words.singular} to keep, whatever the setting"
    values = measure.numbers.dropna()
    low, high = (cell_text(float(v), measure) for v in (values.min(), values.max()))
    return f"{capitalize(measure.name.split(' (')[0])}: {low if low == high else f'{low} to {high}'}"
