"""Frames in Parquet files, in batches that keep the rows of a run together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from boolab.errors import RunFormatError, SettingError


def frames_of(path: str | Path, rows: int) -> Iterator[pd.DataFrame]:
    """The frames in a Parquet file or a folder of them.

    Args:
        path: The file or folder. The rows of each run must be together.
        rows: About how many rows to read at a time.

    Yields:
        Frames of whole runs.

    Raises:
        SettingError: if there is nothing at `path`, or pyarrow is not installed.
        RunFormatError: if it is no Parquet.
    """
    place = Path(path).expanduser()
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import dataset  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = "reading Parquet needs pyarrow: pip install 'boolab[parquet]'"
        raise SettingError(msg) from error
    if not place.exists():
        msg = f"{place} does not exist: expected a Parquet file, or a folder of them"
        raise SettingError(msg)
    kept: pd.DataFrame | None = None
    try:
        for batch in dataset.dataset(place, format="parquet").to_batches(batch_size=rows, batch_readahead=1):
            if not batch.num_rows:
                continue
            frame = batch.to_pandas()
            if "run_id" not in frame:
                msg = f"there is no column run_id, only {', '.join(frame.columns)}: expected such as recording_df makes"
                raise RunFormatError(msg, path=place)
            frame = frame if kept is None else pd.concat([kept, frame], ignore_index=True)
            other = np.flatnonzero(frame["run_id"] != frame["run_id"].iloc[-1])
            start = int(other[-1]) + 1 if len(other) else 0
            if start:
                yield frame.iloc[:start].reset_index(drop=True)
            kept = frame.iloc[start:].reset_index(drop=True)
    except pa.ArrowInvalid as error:
        msg = f"it is no Parquet: {error}"
        raise RunFormatError(msg, path=place) from error
    if kept is not None:
        yield kept
