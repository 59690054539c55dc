"""Partitions of a table in files, Parquet or JSON Lines: parts that can be read apart, on other machines too.

A file of JSON Lines is one part. A Parquet file is cut where its row groups begin, and a run whose rows go on beyond a
cut belongs to the part that it begins in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd

from boolab.errors import RunFormatError
from boolab.tables import NO_RUNS, batches_of, check_pyarrow, faults, files_of, nullable_types, take_ids, whole_runs

_END_ROWS: Final = 5_000
"""How many rows are read at a time to find where a run ends that goes on beyond its partition."""


class Partition(NamedTuple):
    """The runs that begin in a file, or in some row groups of a Parquet file.

    `groups` are the first of these and the one after the last; None for the whole file. `size` is in bytes.
    """

    file: Path
    size: int
    groups: tuple[int, int] | None = None

    def frames(self, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """The frames of its runs, some at a time: see `boolab.tables.frames_of`."""
        found = batches_of(self.file, rows, columns) if self.groups is None else _begun(self, rows, columns)
        seen: set[Any] = set()
        for frame in whole_runs(found, self.file):
            take_ids(seen, frame["run_id"].unique(), self.file)
            yield frame


def partitions_of(path: str | Path, rows: int) -> list[Partition]:
    """The parts of a table, in order.

    Args:
        path: The `.parquet` or `.jsonl` file, or a folder of them.
        rows: How many rows a part of a Parquet file has at least, if the file does not end before.

    Raises:
        SettingError: if there is nothing at `path`, or pyarrow is not installed.
        RunFormatError: if a file cannot be read.

    Example:
        >>> import tempfile
        >>> frame = pd.DataFrame({"run_id": ["a", "b", "b", "c"]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     frame.to_parquet(f"{folder}/steps.parquet", row_group_size=2)
        ...     parts = partitions_of(folder, 1)
        ...     [frame["run_id"].tolist() for part in parts for frame in part.frames(2, ["run_id"])]
        [['a'], ['b', 'b'], ['c']]
    """
    return [part for file in files_of(path) for part in _parts_of(file.absolute(), rows)]


def _parts_of(file: Path, rows: int) -> Iterator[Partition]:
    check_pyarrow()
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    if file.suffix == ".jsonl":
        yield Partition(file, file.stat().st_size)
        return
    with faults(file), parquet.ParquetFile(file) as opened:
        start = there = size = 0
        for group in range(opened.num_row_groups):
            about = opened.metadata.row_group(group)
            there, size = there + about.num_rows, size + about.total_byte_size
            if there >= rows or group == opened.num_row_groups - 1:
                yield Partition(file, size, (start, group + 1))
                start, there, size = group + 1, 0, 0


def _begun(part: Partition, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The rows of the runs that begin in some row groups."""
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    assert part.groups is not None  # noqa: S101 - else it is the whole file
    start, stop = part.groups
    nullable = nullable_types()
    with faults(part.file), parquet.ParquetFile(part.file, pre_buffer=False) as opened:
        there = [name for name in opened.schema_arrow.names if name in columns]
        if "run_id" not in there:
            raise RunFormatError(NO_RUNS, path=part.file)

        def read(groups: range, size: int) -> Iterator[pd.DataFrame]:
            for batch in opened.iter_batches(size, row_groups=list(groups), columns=there, use_threads=False):
                if batch.num_rows:
                    yield batch.to_pandas(types_mapper=nullable.get)

        last = None
        for frame in _after(read(range(start, stop), rows), _last_run(opened, start)):
            last = frame["run_id"].iloc[-1]
            yield frame
        if last is not None:
            yield from _until(read(range(stop, opened.num_row_groups), _END_ROWS), last)


def _last_run(opened: Any, stop: int) -> object:  # noqa: ANN401 - pyarrow has no types
    """The run of the last row before a row group; None if there is none."""
    for group in reversed(range(stop)):
        if opened.metadata.row_group(group).num_rows:
            return opened.read_row_group(group, columns=["run_id"]).column(0)[-1].as_py()
    return None


def _after(frames: Iterable[pd.DataFrame], run_id: object) -> Iterator[pd.DataFrame]:
    """What follows the rows of a run that an earlier partition has."""
    begun = False
    for frame in frames:
        own = 0 if begun else _first_other(frame, run_id)
        if own < len(frame):
            begun = True
            yield frame.iloc[own:].reset_index(drop=True)


def _until(frames: Iterable[pd.DataFrame], run_id: object) -> Iterator[pd.DataFrame]:
    """What is left of a run."""
    for frame in frames:
        own = _first_other(frame, run_id)
        if own:
            yield frame.iloc[:own]
        if own < len(frame):
            return


def _first_other(frame: pd.DataFrame, run_id: object) -> int:
    """The first row of another run than this one; the number of rows if there is none."""
    other = (frame["run_id"] != run_id).to_numpy(dtype=bool, na_value=True)
    return int(other.argmax()) if other.any() else len(frame)
