"""Tables with a row per step in files, Parquet or JSON Lines: whole, or in batches of whole runs.

pyarrow reads both; JSON Lines several times as fast as pandas does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from boolab.errors import RunFormatError, SettingError
from boolab.families import homes_of
from boolab.frames import FLAG, FLOAT, INT, RUN_COLUMNS, STEP_COLUMNS, TEXT
from boolab.ledger import PARENT, SUBAGENTS, recording_df
from boolab.readers.lines import Damage, json_lines

SUFFIXES: Final = (".parquet", ".jsonl")

NO_RUNS: Final = (
    "there is no column run_id: expected a table such as bl.recording_df makes, with a row per step. If the file holds "
    "runs, read them with bl.load_runs"
)
_BLOCK: Final = 4 * 2**20
_FRACTION: Final = re.compile(r"to int64, couldn't parse:\d+\.\d")


def read_steps(path: str | Path) -> pd.DataFrame:
    """A table of steps, such as `steps_df` or `recording_df` makes, from a file or a folder of them.

    Args:
        path: A `.parquet` file, a `.jsonl` file with one row a line (`frame.to_json(path, orient="records",
            lines=True)`), or a folder of them.

    Returns:
        The rows, with the nullable types that boolab's frames have; columns that it does not know are typed by what is
        in them.

    Raises:
        SettingError: if there is nothing at `path`, or pyarrow is not installed.
        RunFormatError: if a file cannot be read.

    Example:
        >>> import tempfile
        >>> frame = pd.DataFrame({"run_id": ["a", "a"], "step": [1, 2], "ttft_ms": pd.array([None, 5], dtype="Int64")})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     frame.to_json(f"{folder}/steps.jsonl", orient="records", lines=True)
        ...     read_steps(f"{folder}/steps.jsonl")["ttft_ms"].tolist()
        [<NA>, 5]
    """
    check_pyarrow()
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    nullable = {**nullable_types(), pa.string(): pd.StringDtype("pyarrow")}
    frames: list[pd.DataFrame] = []
    for file in files_of(path):
        with faults(file):
            table = _json_table(file) if file.suffix == ".jsonl" else parquet.read_table(file)
            frames.append(table.to_pandas(types_mapper=nullable.get))
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def frames_of(path: str | Path, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The frames in a file or a folder of them, some at a time.

    Args:
        path: The `.parquet` or `.jsonl` file, or the folder. The rows of each run must be together, and in one file.
        rows: About how many rows to read at a time.
        columns: Which columns to read; those that a file lacks are left out.

    Yields:
        Frames of whole runs.

    Raises:
        SettingError: if there is nothing at `path`, pyarrow is not installed, or a run's rows are not together.
        RunFormatError: if a file cannot be read, or has no runs.
    """
    seen: set[Any] = set()
    for file in files_of(path):
        for frame in whole_runs(batches_of(file, rows, columns), file):
            take_ids(seen, frame["run_id"].unique(), file)
            yield frame


def homes_in(path: str | Path) -> dict[str, tuple[str, int]]:
    """The families of the runs in a file, or a folder of them: see `boolab.families.homes_of`."""
    files = files_of(path)
    if not any(PARENT in frame and frame[PARENT].notna().any() for file in files for frame in _all(file, [PARENT])):
        return {}
    links: list[tuple[str, str | None]] = []
    run_ids: set[str] = set()
    for file in files:
        for frame in _all(file, ["run_id", PARENT, SUBAGENTS]):
            ids = frame["run_id"].astype(str)
            run_ids.update(ids)
            for other in (name for name in (PARENT, SUBAGENTS) if name in frame):
                some = frame[other].notna()
                pairs = zip(ids[some], frame[other][some], strict=True)
                links += [(one, named) for one, named in pairs] if other == PARENT else [
                    (child, one) for one, named in pairs for child in named
                ]  # fmt: skip
    return homes_of(dict.fromkeys(links), run_ids)


def _all(file: Path, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    return batches_of(file, 1 << 20, columns)


def together(frames: Iterable[pd.DataFrame], homes: Mapping[str, tuple[str, int]]) -> Iterator[pd.DataFrame]:
    """Frames of whole runs as frames of whole families: those that lack a run are held back until it comes.

    Raises:
        SettingError: if there are some at the end.
    """
    waiting: dict[str, list[pd.DataFrame]] = {}
    for frame in frames:
        ids = frame["run_id"].astype(str)
        kin = ids.isin(homes).to_numpy() if homes else np.zeros(len(frame), dtype=bool)
        whole = [] if kin.all() else [frame[~kin]]
        for run_id, rows in frame[kin].groupby("run_id", sort=False) if kin.any() else ():
            home, size = homes[str(run_id)]
            waiting.setdefault(home, []).append(rows)
            if len(waiting[home]) == size:
                whole += waiting.pop(home)
        if whole:
            yield pd.concat(whole, ignore_index=True) if len(whole) > 1 else whole[0].reset_index(drop=True)
    if waiting:
        msg = (
            f"the runs of the family of {next(iter(waiting))!r} are in several parts of the data, and no worker has "
            "all of them: leave client out"
        )
        raise SettingError(msg)


def take_ids(seen: set[Any], ids: Iterable[Any], file: Path) -> None:
    """Take in the ids of further runs.

    Raises:
        SettingError: if one is there already.
    """
    new = set(ids)
    if new & seen:
        msg = f"{file}: the rows of run {min(new & seen, key=str)!r} are not together: sort by run_id and step"
        raise SettingError(msg)
    seen |= new


def has_labels(path: str | Path) -> bool:
    """Whether any row of a file, or of a folder of them, says whether its run was a success."""
    return any(
        bool(frame["success"].notna().any())
        for file in files_of(path)
        for frame in batches_of(file, 1 << 20, ["success"])
        if "success" in frame
    )


def files_of(path: str | Path) -> list[Path]:
    """The files with tables at a path, in order.

    Raises:
        SettingError: if there are none.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        files = sorted(file for file in place.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    else:
        files = [place] if place.exists() else []
    if not files:
        what = "no .parquet or .jsonl file in it" if place.is_dir() else "it does not exist"
        msg = f"{place}: {what}: expected a file with a row per step, or a folder of them"
        raise SettingError(msg)
    return files


def whole_runs(batches: Iterable[pd.DataFrame], file: Path) -> Iterator[pd.DataFrame]:
    """The rows of one file, so that those of each run are in one frame, if they are together."""
    kept: pd.DataFrame | None = None
    for batch in batches:
        if "run_id" not in batch:
            raise RunFormatError(NO_RUNS, path=file)
        frame = batch if kept is None else pd.concat([kept, batch], ignore_index=True)
        other = np.flatnonzero(frame["run_id"] != frame["run_id"].iloc[-1])
        start = int(other[-1]) + 1 if len(other) else 0
        if start:
            yield frame.iloc[:start].reset_index(drop=True)
        kept = frame.iloc[start:].reset_index(drop=True)
    if kept is not None:
        yield kept


def batches_of(file: Path, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The rows of one file, some at a time, without more of it in memory than that."""
    check_pyarrow()
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    nullable = nullable_types()
    with faults(file):
        if file.suffix == ".jsonl":
            for batch in _json_batches(file, columns):
                yield batch.to_pandas(types_mapper=nullable.get)
            return
        with parquet.ParquetFile(file, pre_buffer=False) as opened:
            there = [name for name in opened.schema_arrow.names if name in columns]
            _check_columns(opened.schema_arrow, there, file)
            for batch in opened.iter_batches(batch_size=rows, columns=there, use_threads=False):
                batch.validate(full=True)  # else texts that are no UTF-8 are found by whoever looks at one
                if batch.num_rows:
                    yield batch.to_pandas(types_mapper=nullable.get)


def _check_columns(schema: Any, names: Sequence[str], file: Path) -> None:  # noqa: ANN401 - pyarrow has no types
    """Raise `RunFormatError` if a column is there twice, or holds what no such column holds."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    kinds = _kinds()
    for name in names:
        if names.count(name) > 1:
            raise RunFormatError(f"there are {names.count(name)} columns {name}: expected one", path=file)
        kind = schema.field(name).type
        if pa.types.is_nested(kind) and not (name in kinds and pa.types.is_nested(kinds[name])):
            raise RunFormatError(f"column {name} is of {kind!s:.80}: expected plain values", path=file)


def _json_table(file: Path) -> Any:  # noqa: ANN401 - pyarrow has no types
    from pyarrow import json  # noqa: PLC0415 - an extra

    parse = json.ParseOptions(explicit_schema=_schema(_first_row(file)))
    return json.read_json(file, json.ReadOptions(block_size=_BLOCK), parse)


def _json_batches(file: Path, columns: Sequence[str]) -> Iterator[Any]:
    from pyarrow import json  # noqa: PLC0415 - an extra

    first = _first_row(file)
    if "run_id" not in first:
        raise RunFormatError(NO_RUNS, path=file)
    kinds = _kinds()
    strange = any(name in first and name not in kinds for name in columns)
    parse = json.ParseOptions(
        explicit_schema=_schema([name for name in columns if name in kinds]),
        unexpected_field_behavior="infer" if strange else "ignore",
    )
    for batch in json.open_json(file, json.ReadOptions(block_size=_BLOCK), parse):
        valued = {name for name in batch.schema.names if batch.column(name).null_count < batch.num_rows}
        yield batch.select([name for name in batch.schema.names if name in columns and name in valued | first.keys()])


def _first_row(file: Path) -> Mapping[str, Any]:
    row = next((row for _, row in json_lines(file, Damage(file))), None)
    if not isinstance(row, dict):
        msg = "it has no row: expected JSON Lines, a step a line"
        raise RunFormatError(msg, path=file, line=1)
    return row


def _schema(columns: Iterable[str]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """The types of the columns that are known: they do not depend on what happens to stand in the first rows."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    kinds = _kinds()
    return pa.schema([(name, kinds[name]) for name in columns if name in kinds])


def nullable_types() -> dict[Any, Any]:
    """The types of columns that may lack a value: a whole number beside one that is missing stays a whole number."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    return {pa.int64(): pd.Int64Dtype(), pa.float64(): pd.Float64Dtype(), pa.bool_(): pd.BooleanDtype()}


def _kinds() -> dict[str, Any]:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    types = {INT: pa.int64(), FLOAT: pa.float64(), FLAG: pa.bool_(), TEXT: pa.string()}
    kinds = {column.name: types[column.dtype] for column in (*RUN_COLUMNS, *STEP_COLUMNS) if column.dtype in types}
    more = {str(name): types.get(str(kind)) for name, kind in recording_df([]).dtypes.items()}
    numbers = {"call_keys": pa.list_(pa.int64()), "call_errors": pa.list_(pa.int8())}
    lists = numbers | dict.fromkeys(("call_tools", "subagents"), pa.list_(pa.string()))
    return kinds | {name: kind for name, kind in more.items() if kind is not None} | lists


@contextmanager
def faults(file: Path) -> Iterator[None]:
    """What pyarrow finds wrong with a file is said with its path."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        what = "JSON Lines" if file.suffix == ".jsonl" else "Parquet"
        msg = f"it cannot be read as {what}: {error}"
        if _FRACTION.search(msg):
            msg += " (an integer must be written as one: before to_json, take frame.convert_dtypes())"
        raise RunFormatError(msg, path=file) from error


def check_pyarrow() -> None:
    """Raise `SettingError` if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401, ICN001, PLC0415 - an extra
    except ImportError as error:
        msg = "Parquet and tables in JSON Lines need pyarrow: pip install 'boolab[parquet]'"
        raise SettingError(msg) from error
