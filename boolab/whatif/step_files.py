"""Tables with a row per step in files, Parquet or JSON Lines: whole, in batches of whole runs, or in partitions.

A partition can be read by itself, on another machine too. A file of JSON Lines is one partition. A Parquet file is
divided where its row groups begin, and a run that continues in the next partition belongs to the one it begins in.

pyarrow reads both formats; JSON Lines several times as fast as pandas does.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.core.run_tree import homes_of
from boolab.errors import RunFormatError, SettingError, install
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT
from boolab.frames.recording import LISTS, PARENT, SUBAGENTS, UNPLACED, recording_df
from boolab.frames.tables import RUN_COLUMNS, STEP_COLUMNS
from boolab.io.files import open_file, user_path
from boolab.io.json_input import Damage, json_lines
from boolab.logs.from_table import TABLES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

SUFFIXES: Final = (".parquet", ".jsonl")

_NO_RUNS: Final = (
    "there is no column run_id: expected a table such as bl.recording_df makes, with a row per step. If the file holds "
    "runs, read them with bl.load_runs; bl.runs_from_table makes runs of other columns"
)
_BLOCK: Final = 4 * 2**20
_ALL_ROWS: Final = 1 << 20
"""How many rows are read at a time where only a few columns are wanted."""
_END_ROWS: Final = 5_000
"""How many rows are read at a time to find the end of a run that continues beyond its partition."""
_FRACTION: Final = re.compile(r"to int64, couldn't parse:\d+\.\d")


def read_steps(path: str | Path) -> pd.DataFrame:
    """A table of steps, such as `steps_df` or `recording_df` makes, from a file or a folder of them.

    Args:
        path: A `.parquet` file, a `.jsonl` file with one row a line (`frame.to_json(path, orient="records",
            lines=True)`), or a folder of them.

    Returns:
        The rows, with the nullable types of boolab's frames; the types of other columns are inferred.

    Raises:
        SettingError: if there is nothing at `path`, or pyarrow is not installed.
        RunFormatError: if a file cannot be read.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> frame = pd.DataFrame({"run_id": ["a", "a"], "step": [1, 2], "ttft_ms": pd.array([None, 5], dtype="Int64")})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     frame.to_json(f"{folder}/steps.jsonl", orient="records", lines=True)
        ...     bl.read_steps(f"{folder}/steps.jsonl")["ttft_ms"].tolist()
        [<NA>, 5]
    """
    check_pyarrow()
    import pyarrow as pa
    from pyarrow import json, parquet

    nullable = {**_nullable_types(), pa.string(): pd.StringDtype("pyarrow")}
    frames: list[pd.DataFrame] = []
    for file in _files(path):
        with _faults(file):
            if file.suffix == ".jsonl":
                parse = json.ParseOptions(explicit_schema=_schema(_first_row(file)))
                table = json.read_json(file, json.ReadOptions(block_size=_BLOCK), parse)
            else:
                table = parquet.read_table(file)
            frames.append(table.to_pandas(types_mapper=nullable.get))
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def is_step_table(path: str | Path) -> bool:
    """Whether a path is a table of steps or a folder of them: Parquet, or JSON Lines with `run_id` and `step`."""
    file_path = user_path(path)
    try:
        file = next((file for file in _files(file_path)), file_path)
    except SettingError:
        return False
    if file.suffix != ".jsonl":
        return file.suffix == ".parquet"
    row = next((row for _, row in json_lines(file, Damage(file))), None)
    return isinstance(row, dict) and {"run_id", "step"} <= row.keys()


class Partition(NamedTuple):
    """The runs that begin in a file, or in some row groups of a Parquet file.

    `groups` are the first of these and the one after the last; None for the whole file. `size` is in bytes.
    """

    file: Path
    size: int
    groups: tuple[int, int] | None = None

    def frames(self, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """The frames of its runs, some at a time: see `frames_of`."""
        batches = (
            _batches(self.file, rows, columns)
            if self.groups is None
            else _runs_begun(self.file, range(*self.groups), rows, columns)
        )
        return _whole_runs(batches, self.file, set())


def partitions_of(path: str | Path, rows: int) -> list[Partition]:
    """The parts of a table, in order; of a Parquet file, each has at least `rows` rows, except the last."""
    return list(chain.from_iterable(_parts_of(file.absolute(), rows) for file in _files(path)))


def _parts_of(file: Path, rows: int) -> Iterator[Partition]:
    if file.suffix == ".jsonl":
        yield Partition(file, file.stat().st_size)
        return
    with _faults(file), _parquet_file(file) as parquet_file:
        start = n_rows = size = 0
        for group in range(parquet_file.num_row_groups):
            row_group = parquet_file.metadata.row_group(group)
            n_rows, size = n_rows + row_group.num_rows, size + row_group.total_byte_size
            if n_rows >= rows or group == parquet_file.num_row_groups - 1:
                yield Partition(file, size, (start, group + 1))
                start, n_rows, size = group + 1, 0, 0


def frames_of(path: str | Path, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The frames in a file or a folder of them: whole runs, which must be together, about `rows` rows at a time."""
    seen_ids: set[Any] = set()
    for file in _files(path):
        yield from _whole_runs(_batches(file, rows, columns), file, seen_ids)


def homes_in(path: str | Path) -> dict[str, tuple[str, int]]:
    """The families of the runs in a file, or a folder of them: see `boolab.core.run_tree.homes_of`."""
    files = _files(path)
    if not _has_values(files, PARENT):
        return {}
    links: list[tuple[str, str | None]] = []
    run_ids: set[str] = set()
    for file in files:
        for frame in _batches(file, _ALL_ROWS, ["run_id", PARENT, SUBAGENTS, UNPLACED]):
            ids = frame["run_id"].astype(str)
            run_ids.update(ids)
            for other in (name for name in (PARENT, SUBAGENTS, UNPLACED) if name in frame):
                has_link = frame[other].notna()
                for run_id, value in zip(ids[has_link], frame[other][has_link], strict=True):
                    links += [(run_id, value)] if other == PARENT else [(child, run_id) for child in value]
    return homes_of(dict.fromkeys(links), run_ids)


def merge_families(frames: Iterable[pd.DataFrame], homes: Mapping[str, tuple[str, int]]) -> Iterator[pd.DataFrame]:
    """Frames of whole runs as frames of whole families: a family waits until all its runs have arrived."""
    waiting: dict[str, list[pd.DataFrame]] = {}
    for frame in frames:
        ids = frame["run_id"].astype(str)
        kin = ids.isin(homes).to_numpy() if homes else np.zeros(len(frame), dtype=bool)
        complete = [] if kin.all() else [frame[~kin]]
        for run_id, rows in frame[kin].groupby("run_id", sort=False) if kin.any() else ():
            home, size = homes[str(run_id)]
            waiting.setdefault(home, []).append(rows)
            if len(waiting[home]) == size:
                complete += waiting.pop(home)
        if complete:
            yield pd.concat(complete, ignore_index=True) if len(complete) > 1 else complete[0].reset_index(drop=True)
    if waiting:
        raise SettingError(
            f"the runs of the family of {next(iter(waiting))!r} are in several parts of the data, and no worker has "
            "all of them: leave client out"
        )


def take_ids(seen_ids: set[Any], ids: Iterable[Any], file: Path) -> None:
    """Add the ids of further runs; `SettingError` if one is there already."""
    new = set(ids)
    if new & seen_ids:
        msg = f"{file}: the rows of run {min(new & seen_ids, key=str)!r} are not together: sort by run_id and step"
        raise SettingError(msg)
    seen_ids |= new


def has_labels(path: str | Path) -> bool:
    """Whether any row of a file, or of a folder of them, has a success label."""
    return _has_values(_files(path), "success")


def _has_values(files: Iterable[Path], name: str) -> bool:
    """Whether a column has a value in any row of some files."""
    frames = chain.from_iterable(_batches(file, _ALL_ROWS, [name]) for file in files)
    return any(name in frame and bool(frame[name].notna().any()) for frame in frames)


def _files(path: str | Path) -> list[Path]:
    """The files with tables at a path, in order; `SettingError` if there are none."""
    file_path = user_path(path)
    if file_path.is_dir():
        files = sorted(file for file in file_path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    else:
        files = [file_path] if file_path.exists() else []
        if files and file_path.name.lower().endswith(TABLES):
            msg = "expected a table of steps in Parquet or JSON Lines; bl.runs_from_table makes runs of other tables"
            raise RunFormatError(msg, path=file_path)
    if not files:
        problem = "no .parquet or .jsonl file in it" if file_path.is_dir() else "it does not exist"
        raise SettingError(f"{file_path}: {problem}: expected a file with a row per step, or a folder of them")
    return files


def _whole_runs(batches: Iterable[pd.DataFrame], file: Path, seen_ids: set[Any]) -> Iterator[pd.DataFrame]:
    """The rows of one file, so that those of each run are in one frame; `seen_ids` are the ids of earlier runs."""
    unfinished: pd.DataFrame | None = None
    for batch in batches:
        if "run_id" not in batch:
            raise RunFormatError(_NO_RUNS, path=file)
        frame = batch if unfinished is None else pd.concat([unfinished, batch], ignore_index=True)
        other = np.flatnonzero(frame["run_id"] != frame["run_id"].iloc[-1])
        start = int(other[-1]) + 1 if len(other) else 0
        if start:
            take_ids(seen_ids, frame["run_id"].iloc[:start].unique(), file)
            yield frame.iloc[:start].reset_index(drop=True)
        unfinished = frame.iloc[start:].reset_index(drop=True)
    if unfinished is not None:
        take_ids(seen_ids, unfinished["run_id"].unique(), file)
        yield unfinished


def _batches(file: Path, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The rows of one file in batches, which bounds the memory."""
    with _faults(file):
        if file.suffix == ".jsonl":
            nullable = _nullable_types()
            for batch in _json_batches(file, columns):
                yield batch.to_pandas(types_mapper=nullable.get)
            return
        with _parquet_file(file) as parquet_file:
            yield from _parquet_batches(parquet_file, file, rows, columns)


def _runs_begun(file: Path, groups: range, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The rows of the runs that begin in some row groups."""
    with _faults(file), _parquet_file(file) as parquet_file:
        if "run_id" not in parquet_file.schema_arrow.names:
            raise RunFormatError(_NO_RUNS, path=file)
        last = None
        frames = _parquet_batches(parquet_file, file, rows, columns, groups)
        for frame in _rows_after(frames, _last_run(parquet_file, groups.start)):
            last = frame["run_id"].iloc[-1]
            yield frame
        if last is not None:
            following = range(groups.stop, parquet_file.num_row_groups)
            yield from _rows_until(_parquet_batches(parquet_file, file, _END_ROWS, columns, following), last)


@contextmanager
def _parquet_file(file: Path) -> Iterator[parquet.ParquetFile]:
    from pyarrow import parquet

    with open_file(file) as stream, parquet.ParquetFile(stream, pre_buffer=False) as read:
        yield read


def _parquet_batches(
    parquet_file: parquet.ParquetFile,
    file: Path,
    rows: int,
    columns: Sequence[str],
    groups: Iterable[int] | None = None,
) -> Iterator[pd.DataFrame]:
    """The rows of some row groups, or of all, in batches."""
    nullable = _nullable_types()
    present_columns = [name for name in parquet_file.schema_arrow.names if name in columns]
    _check_columns(parquet_file.schema_arrow, present_columns, file)
    row_groups = None if groups is None else list(groups)
    for batch in parquet_file.iter_batches(
        batch_size=rows, row_groups=row_groups, columns=present_columns, use_threads=False
    ):
        batch.validate(full=True)  # finds texts that are not UTF-8 now, not when one is used
        if batch.num_rows:
            yield batch.to_pandas(types_mapper=nullable.get)


def _last_run(parquet_file: parquet.ParquetFile, stop: int) -> object:
    """The run of the last row before a row group; None if there is none."""
    for group in reversed(range(stop)):
        if parquet_file.metadata.row_group(group).num_rows:
            return parquet_file.read_row_group(group, columns=["run_id"]).column(0)[-1].as_py()
    return None


def _rows_after(frames: Iterable[pd.DataFrame], run_id: object) -> Iterator[pd.DataFrame]:
    """The rows after those of a run that an earlier partition has."""
    has_begun = False
    for frame in frames:
        rows_of_run = 0 if has_begun else _first_other(frame, run_id)
        if rows_of_run < len(frame):
            has_begun = True
            yield frame.iloc[rows_of_run:].reset_index(drop=True)


def _rows_until(frames: Iterable[pd.DataFrame], run_id: object) -> Iterator[pd.DataFrame]:
    """The rest of a run."""
    for frame in frames:
        rows_of_run = _first_other(frame, run_id)
        if rows_of_run:
            yield frame.iloc[:rows_of_run]
        if rows_of_run < len(frame):
            return


def _first_other(frame: pd.DataFrame, run_id: object) -> int:
    """The first row of another run than this one; the number of rows if there is none."""
    other = (frame["run_id"] != run_id).to_numpy(dtype=bool, na_value=True)
    return int(other.argmax()) if other.any() else len(frame)


def _check_columns(schema: pa.Schema, names: Sequence[str], file: Path) -> None:
    """Raise `RunFormatError` if a column occurs twice, or is nested where it should not be."""
    import pyarrow as pa

    kinds = _kinds()
    for name in names:
        if names.count(name) > 1:
            raise RunFormatError(f"there are {names.count(name)} columns {name}: expected one", path=file)
        kind = schema.field(name).type
        if pa.types.is_nested(kind) and not (name in kinds and pa.types.is_nested(kinds[name])):
            raise RunFormatError(f"column {name} is of {kind!s:.80}: expected plain values", path=file)


def _json_batches(file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from pyarrow import json

    first = _first_row(file)
    if "run_id" not in first:
        raise RunFormatError(_NO_RUNS, path=file)
    kinds = _kinds()
    strange = any(name in first and name not in kinds for name in columns)
    parse = json.ParseOptions(
        explicit_schema=_schema([name for name in columns if name in kinds]),
        unexpected_field_behavior="infer" if strange else "ignore",
    )
    with open_file(file) as stream:
        for batch in json.open_json(stream, json.ReadOptions(block_size=_BLOCK), parse):
            names = batch.schema.names
            valued = {name for name in names if batch.column(name).null_count < batch.num_rows}
            yield batch.select([name for name in names if name in columns and name in valued | first.keys()])


def _first_row(file: Path) -> Mapping[str, Any]:
    row = next((row for _, row in json_lines(file, Damage(file))), None)
    if not isinstance(row, dict):
        msg = "it has no row: expected JSON Lines, a step a line"
        raise RunFormatError(msg, path=file, line=1)
    return row


def _schema(columns: Iterable[str]) -> pa.Schema:
    """The types of known columns: they must not depend on the first rows."""
    import pyarrow as pa

    kinds = _kinds()
    return pa.schema([(name, kinds[name]) for name in columns if name in kinds])


def _nullable_types() -> dict[Any, Any]:
    """Nullable types: whole numbers stay whole numbers where a value is missing."""
    import pyarrow as pa

    return {pa.int64(): pd.Int64Dtype(), pa.float64(): pd.Float64Dtype(), pa.bool_(): pd.BooleanDtype()}


def _kinds() -> dict[str, Any]:
    import pyarrow as pa

    types = {INT: pa.int64(), FLOAT: pa.float64(), FLAG: pa.bool_(), TEXT: pa.string()}
    names = {column.name: column.dtype for column in (*RUN_COLUMNS, *STEP_COLUMNS)}
    names |= {str(name): str(kind) for name, kind in recording_df([]).dtypes.items() if str(kind) in types}
    lists = {name: pa.list_(pa.type_for_alias(kind)) for name, kind in LISTS.items()}
    return {name: types[kind] for name, kind in names.items() if kind in types} | lists


@contextmanager
def _faults(file: Path) -> Iterator[None]:
    """Raise what pyarrow finds wrong with a file as a `RunFormatError` with its path."""
    check_pyarrow()
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        file_format = "JSON Lines" if file.suffix == ".jsonl" else "Parquet"
        msg = f"it cannot be read as {file_format}: {getattr(error, 'strerror', None) or error}"
        if _FRACTION.search(msg):
            msg += " (an integer must be written as one: before to_json, take frame.convert_dtypes())"
        raise RunFormatError(msg, path=file) from error


def check_pyarrow() -> None:
    """Raise `SettingError` if pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SettingError(f"Parquet and tables in JSON Lines need pyarrow: {install('boolab[parquet]')}")
