"""boolab's own runs in Parquet: what `save_runs` wrote. One row a step; see `boolab.logs.save`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from boolab.core.codec import decode, run_of
from boolab.core.run import Run
from boolab.core.types import Step
from boolab.errors import RunFormatError, SettingError, install
from boolab.io.files import open_file, size_of
from boolab.io.json_input import JSON, Damage, mapping, parse_exactly
from boolab.io.packed import Unpacked
from boolab.logs.fields import Head

NAME: Final = "parquet"
SUFFIXES: Final = (".parquet",)
PLACES: Final = ()
LOOKED_FOR: Final = "a Parquet file with the columns run_record and step_record, as save_runs writes"

ArrowObject: TypeAlias = Any
"""An object of pyarrow, which has no types."""
_MAGIC: Final = b"PAR1"
_COLUMNS: Final = ("run_record", "step_record")
_MIN_ROW_BYTES: Final = 16
"""How many bytes a row counts at least: a billion empty rows fit into a kilobyte."""
_MAX_BATCH_BYTES: Final = 256 * 2**20
"""The largest batch, in bytes, if each row has the longest possible text."""
_MAX_BATCH_ROWS: Final = 500
"""The rows of a batch: steps may be large, and larger batches are not faster."""


def sniff(head: Head) -> bool:
    """Whether this is a Parquet file."""
    return head.data.startswith(_MAGIC)


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file."""
    runs: dict[str, Run] = {}
    for row, head, steps in _records(_rows(path, damage)):
        try:
            run_steps = tuple([decode(Step, _parse_record(step)) for step in steps])
            run = run_of(mapping(_parse_record(head)), steps=run_steps)
        except ValueError as error:
            damage.note(row, str(error))
            continue
        if run.run_id in runs:
            damage.note(row, f"run {run.run_id} is there already")
        else:
            runs[run.run_id] = run
    return list(runs.values())


def _records(rows: Iterable[tuple[Any, Any]]) -> Iterator[tuple[int, Any, list[Any]]]:
    """The first row, the record and the records of the steps of each run."""
    first, head = 0, None
    steps: list[Any] = []
    for number, (next_head, step) in enumerate(rows, 1):
        if next_head is not None:
            if head is not None:
                yield first, head, steps
            first, head, steps = number, next_head, []
        if step is not None:
            steps.append(step)
    if head is not None:
        yield first, head, steps


def _parse_record(record: object) -> JSON:
    if not isinstance(record, str):  # another table may have columns of that name
        raise ValueError(f"{record!r:.80} is no record: expected JSON as text")  # noqa: TRY004 - the file is wrong
    return parse_exactly(record.encode("utf-8", "surrogatepass"))


def _rows_at_once(metadata: ArrowObject, path: Path, size: int) -> int:
    """How many rows to read at a time; a `RunFormatError` before unpacking if the declared sizes are too large.

    All rows may refer to one text in a group's dictionary, which may be as long as the group. The sizes are those of
    groups, not of columns: for wrong sizes of a column pyarrow ends the process (`RowGroupMetaData.column` calls C++
    that throws, and is not declared to).
    """
    groups: list[int] = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    Unpacked(path, size).take(max(sum(groups), _MIN_ROW_BYTES * metadata.num_rows))
    return max(1, min(_MAX_BATCH_ROWS, _MAX_BATCH_BYTES // max([1, *groups])))


def _rows(path: Path, damage: Damage) -> Iterator[tuple[Any, Any]]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise SettingError(f"reading Parquet needs pyarrow: {install('boolab[parquet]')}") from error
    try:
        with open_file(path) as stream, parquet.ParquetFile(stream) as file:
            if not set(_COLUMNS) <= set(file.schema_arrow.names):
                msg = (
                    f"a table without the columns {' and '.join(_COLUMNS)}: only what save_runs wrote holds the runs "
                    "themselves; bl.runs_from_table makes runs of other tables"
                )
                raise RunFormatError(msg, path=path)
            unpacked = Unpacked(path, size_of(stream))
            rows = _rows_at_once(file.metadata, path, size_of(stream))
            for batch in file.iter_batches(batch_size=rows, columns=list(_COLUMNS), use_threads=False):
                columns = [batch.column(name).to_pylist() for name in _COLUMNS]
                length = sum(len(text) for column in columns for text in column if isinstance(text, str))
                unpacked.take(length + _MIN_ROW_BYTES * batch.num_rows)
                yield from zip(*columns, strict=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        damage.truncated = True
        damage.note(1, f"it cannot be read as Parquet: {error}")
