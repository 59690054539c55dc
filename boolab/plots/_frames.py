"""What is drawn: a frame, checked, its rows grouped and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.core.text import count, shorten
from boolab.core.types import StopReason
from boolab.display.text import NO_NAME
from boolab.errors import SettingError
from boolab.frames.data_set import SET, set_of
from boolab.frames.dtypes import NO_LIMIT, Cells, replace_surrogates
from boolab.frames.runs import Runs, no_group_column
from boolab.frames.tables import runs_df
from boolab.io.checks import is_whole, repr_of
from boolab.limits.table import LIMITS
from boolab.plots.palette import STOP_LOOKS, UNKNOWN, Look
from boolab.stats.finding import Finding


def sample(runs: pd.DataFrame, keys: Sequence[str] = (), unit: str = "run") -> str:
    """For a note: the runs, or the turns, that a figure is drawn from.

    An agent without a name is one too, beside others. Agents of one name are several, where `keys` keeps sources apart.
    """
    parts = [count(len(runs), unit)]
    for name in ("agent", "task"):
        if name in runs:
            named_runs = runs[runs[name].fillna("") != ""]
            columns = ["source", name] if name == "agent" and "source" in keys else [name]
            counted_runs = runs if name == "agent" and len(named_runs) else named_runs
            n = len(counted_runs[columns].fillna("").drop_duplicates())
            parts += [count(n, name)] if n else []
    return add_set_name(runs, f"{', '.join(parts)}.")


def add_set_name(frame: pd.DataFrame, text: str) -> str:
    """For a note: a text about the sample, after the name of the data set, if the frame is of one."""
    name = str(frame.attrs.get(SET, "")) or set_of(frame)
    return f"{shorten(name)}, {text}" if name else text


def format_missing(n: int, noun: str, description: str) -> str:
    """For a note: how many have this property; nothing, where there are none."""
    return f"{count(n, noun)} {description}." if n else ""


Data: TypeAlias = Runs | pd.DataFrame

MAX_GROUPS = 200  # rows; the note counts the others


def table_of(
    data: Data, make: Callable[[Runs], pd.DataFrame], columns: Sequence[str], keys: Sequence[str] = ()
) -> pd.DataFrame:
    """The frame that was given, or the one that `make` makes of runs; checked, and with an index of its own."""
    frame = data if isinstance(data, pd.DataFrame) else make(data)
    if make is runs_df and is_of_steps(frame):
        frame = _rows_of_runs(frame)
    hint = "; bl.runs_from_table(frame, run=..., step=..., tool=...) makes runs of other tables"
    check_columns(frame, columns, f"{make.__name__} makes, or runs{hint}")
    for name in keys:
        if name not in frame and len(frame):
            raise no_group_column(name, frame.columns)
    return frame.reset_index(drop=True)


def is_of_steps(frame: pd.DataFrame) -> bool:
    """Whether a frame has a row for each step, as `recording_df` makes it."""
    return {"run_id", "step"} <= {*frame} and "n_steps" not in frame


def _rows_of_runs(steps: pd.DataFrame) -> pd.DataFrame:
    """A row for each run of a frame with a row for each step: its first, and the number of its steps."""
    first = steps.drop_duplicates("run_id").drop(columns="step")
    text_columns = {name: first[name].replace("", pd.NA) for name in ("agent", "model", "task") if name in first}
    return first.assign(n_steps=first["run_id"].map(steps.groupby("run_id")["step"].count()), **text_columns)


def check_columns(frame: pd.DataFrame, columns: Iterable[str], example: str) -> None:
    """Raise `SettingError` if a column is missing."""
    for name in columns:
        if name not in frame:
            raise SettingError(f"the frame has no column {name!r}: expected one like {example}")


def check_top(top: object) -> None:
    """Raise `SettingError` if this is not a number of rows."""
    if not is_whole(top) or top < 1:
        raise SettingError(f"top={repr_of(top)}: expected an integer >= 1")


def columns_of(names: str | Sequence[str]) -> list[str]:
    """The columns that groups are made by, each once."""
    columns = [names] if isinstance(names, str) else list(dict.fromkeys(names))
    if not columns:
        msg = "by=[]: expected the name of a column, or several"
        raise SettingError(msg)
    return columns


def frame_of(data: Finding | Data, make: Callable[[Any], Finding], columns: Sequence[str], maker: str) -> pd.DataFrame:
    """The frame of a finding, or that was given, or of the finding that `make` makes of runs; checked."""
    result = data if isinstance(data, pd.DataFrame) or hasattr(data, "frame") else make(data)
    frame = result if isinstance(result, pd.DataFrame) else getattr(result, "frame", None)
    if not isinstance(frame, pd.DataFrame):
        raise SettingError(f"expected what {maker} returns, or its frame, not {type(data).__name__}")
    check_columns(frame, columns, f"{maker} makes")
    return frame.reset_index(drop=True)


def stop_reasons(runs: pd.DataFrame, looks: Mapping[str, Look] = STOP_LOOKS) -> pd.Series[str]:
    """The stop reason of each run, `UNKNOWN` where there is none."""
    reasons = runs["stop_reason"].astype("string").fillna(UNKNOWN)
    strange = sorted(set(reasons) - set(looks))
    if strange:
        msg = f"stop_reason {strange[0]!r} is not one that boolab knows: expected {', '.join(get_args(StopReason))}"
        raise SettingError(msg)
    return reasons


def unknown_reasons(reasons: pd.Series[str], unit: str = "run") -> str:
    """For a note: of how many runs, or turns, the stop reason is unknown."""
    return format_missing(int((reasons == UNKNOWN).sum()), unit, "of unknown stop reason")


class Groups(NamedTuple):
    """Rows of a plot: the row of each run (NaN: not shown), the rows' labels and sizes, and a note about them."""

    rows: pd.Series[Any]
    labels: list[str]
    sizes: list[int]
    note: str


def groups_of(frame: pd.DataFrame, keys: Sequence[str], unit: str = "run") -> Groups:
    """Numbers ascend, names stand as they first appear, and what has no value comes last: see `no_value`.

    Groups by several columns stand in the order of the first, then of the next. Of more groups than a figure can hold,
    those with most runs are kept.
    """
    if len(keys) != 1:
        return _pairs(frame, [_codes(frame[name]) for name in keys], unit)
    codes, texts = _codes(frame[keys[0]])
    return _groups(codes, texts, unit)


def _pairs(frame: pd.DataFrame, columns: Sequence[tuple[pd.Series[int], list[str]]], unit: str) -> Groups:
    """The groups by several columns."""
    rows = [*zip(*(codes for codes, _ in columns), strict=True)] if columns else [()] * len(frame)
    keys = sorted(set(rows))
    numbers = {key: number for number, key in enumerate(keys)}
    texts = [", ".join(column[1][code] for column, code in zip(columns, key, strict=True)) or "all" for key in keys]
    return _groups(pd.Series([numbers[row] for row in rows], dtype="int64"), texts, unit)


def no_value(column: pd.Series[Any]) -> str:
    """What a value that a column lacks is called: "no limit" for a setting, "no name" for a text, else "not known"."""
    if column.name in LIMITS:
        return NO_LIMIT.lower()
    return "not known" if pd.api.types.is_numeric_dtype(column) else NO_NAME


def _codes(values: pd.Series[Any]) -> tuple[pd.Series[int], list[str]]:
    """The place of each value among the distinct ones, and what these are called."""
    numeric = pd.api.types.is_numeric_dtype(values)
    if not numeric:
        values = values.map(lambda value: replace_surrogates(str(value)), na_action="ignore").astype("string")
        values = values.mask(values == "")
    codes, names = pd.factorize(values, sort=numeric)
    texts = [f"{name:g}" if isinstance(name, float) else str(name) for name in names] + [no_value(values)]
    return pd.Series(codes).replace(-1, len(names)), texts


def _groups(code: pd.Series[int], texts: Sequence[str], unit: str) -> Groups:
    sizes = code.value_counts()
    shown_codes = sorted(sizes.nlargest(MAX_GROUPS).index)
    rows = code.map({group_code: row for row, group_code in enumerate(shown_codes)})
    hidden_count = count(int(rows.isna().sum()), unit)
    note = format_missing(len(sizes) - len(shown_codes), "further group", f"not shown, with {hidden_count}")
    return Groups(
        rows,
        [shorten(texts[group_code]) for group_code in shown_codes],
        [int(sizes[group_code]) for group_code in shown_codes],
        note,
    )


def floats(column: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """The numbers of a column; NaN where there is none."""
    return np.asarray(column.astype("Float64").to_numpy(dtype=float, na_value=np.nan), dtype=np.float64)


def shares(part: pd.Series[Any], base: pd.Series[Any]) -> pd.Series[Any]:
    """Each part of its base; NA where there is no base."""
    bases = base.astype("Float64")
    return part.astype("Float64") / bases.mask(bases == 0)


def cross(rows: Cells, columns: pd.Series[str], looks: Mapping[str, Look]) -> pd.DataFrame:
    """How often each pair occurs, with a column for each look, in their order."""
    return pd.crosstab(rows, columns).reindex(columns=list(looks), fill_value=0)


def stack_counts(counts: pd.DataFrame) -> Iterator[tuple[str, Any, Any, Any]]:
    """For each column that holds something: its name, which rows have it, and where its parts start and end."""
    ends = counts.cumsum(axis=1)
    for name in counts.columns[counts.any()]:
        rows, end = counts[name].to_numpy() > 0, ends[name].to_numpy()
        yield name, rows, (end - counts[name].to_numpy())[rows], end[rows]
