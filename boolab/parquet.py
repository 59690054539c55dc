"""Frames in Parquet files, in batches that keep the rows of a run together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from boolab.errors import RunFormatError, SettingError


def frames_of(path: str | Path, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The frames in a Parquet file or a folder of them.

    Args:
        path: The file or folder. The rows of each run must be together, and in one file.
        rows: About how many rows to read at a time.
        columns: Which columns to read; those that a file lacks are left out.

    Yields:
        Frames of whole runs.

    Raises:
        SettingError: if there is nothing at `path`, pyarrow is not installed, or a run's rows are not together.
        RunFormatError: if a file is no Parquet, or has no runs.
    """
    seen: set[Any] = set()
    for file in files_of(path):
        for frame in _whole_runs(file, rows, columns):
            ids = set(frame["run_id"])
            if ids & seen:
                msg = f"{file}: the rows of run {min(ids & seen, key=str)!r} are not together: sort by run_id and step"
                raise SettingError(msg)
            seen |= ids
            yield frame


def has_labels(path: str | Path) -> bool:
    """Whether any row of a Parquet file, or of a folder of them, says whether its run was a success."""
    return any(
        bool(frame["success"].notna().any())
        for file in files_of(path)
        for frame in _batches(file, 1 << 20, ["success"])
        if "success" in frame
    )


def files_of(path: str | Path) -> list[Path]:
    """The Parquet files at a path, in order.

    Raises:
        SettingError: if there are none.
    """
    place = Path(path).expanduser()
    files = sorted(place.rglob("*.parquet")) if place.is_dir() else [place] if place.exists() else []
    if not files:
        what = "no .parquet file in it" if place.is_dir() else "it does not exist"
        msg = f"{place}: {what}: expected a Parquet file, or a folder of them"
        raise SettingError(msg)
    return files


def _whole_runs(file: Path, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    kept: pd.DataFrame | None = None
    for batch in _batches(file, rows, columns):
        if "run_id" not in batch:
            msg = "there is no column run_id: expected a frame such as bl.recording_df makes"
            raise RunFormatError(msg, path=file)
        frame = batch if kept is None else pd.concat([kept, batch], ignore_index=True)
        other = np.flatnonzero(frame["run_id"] != frame["run_id"].iloc[-1])
        start = int(other[-1]) + 1 if len(other) else 0
        if start:
            yield frame.iloc[:start].reset_index(drop=True)
        kept = frame.iloc[start:].reset_index(drop=True)
    if kept is not None:
        yield kept


def _batches(file: Path, rows: int, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The rows of one file, some at a time, without more of it in memory than that."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = "reading Parquet needs pyarrow: pip install 'boolab[parquet]'"
        raise SettingError(msg) from error
    try:
        with parquet.ParquetFile(file, pre_buffer=False) as opened:
            there = [name for name in opened.schema_arrow.names if name in columns]
            for batch in opened.iter_batches(batch_size=rows, columns=there, use_threads=False):
                if batch.num_rows:
                    yield batch.to_pandas()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = f"it cannot be read as Parquet: {error}"
        raise RunFormatError(msg, path=file) from error
