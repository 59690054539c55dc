"""Reads lists of stops: a CSV with `run_id` and `stop_step`, so that anything that can read a recording can enter.

Each run has a row; an empty `stop_step` means that the run is not stopped. The stops of such a list are taken as those
of a rule that was fixed beforehand, and enter every track. Stops of something that was trained need a column `track`
(`within`, `model`, `set` or `none`), with a row for each run and track, and hold for those tracks alone.
"""

from __future__ import annotations

import csv
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.stoprulebench.entries import About, ListEntry
from benchmarks.stoprulebench.first_stops import NEVER
from benchmarks.stoprulebench.recordings import Recordings
from benchmarks.stoprulebench.tracks import TRACKS, Track
from boolab.core.text import count
from boolab.errors import FileError
from boolab.io.checks import repr_of
from boolab.io.files import read_file
from boolab.whatif.step_table import Ints

MAX_BYTES: Final = 256 * 2**20
_COLUMNS: Final = ("run_id", "stop_step")
_STEP_DIGITS: Final = 10
_ANY: Final = ""


def read_stops(path: str | Path) -> ListEntry:
    """Read a list of stops.

    Args:
        path: The CSV file.

    Returns:
        The entry. Whether it names all runs is checked when it is judged.

    Raises:
        FileError: if it cannot be read, a column is missing, or a value is not accepted; with the line.
    """
    try:
        data = read_file(path, MAX_BYTES)
        rows = list(csv.reader(data.decode("utf-8-sig").splitlines()))
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", path=path) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"not a CSV file: {error}", path=path) from error
    head = [name.strip() for name in rows[0]] if rows else []
    missing = [name for name in _COLUMNS if name not in head]
    if missing:
        msg = f"there is no column {missing[0]}: expected run_id, stop_step and, if need be, track"
        raise FileError(msg, path=path, line=1)
    found: dict[str, dict[str, int]] = {}
    for line, row in enumerate(rows[1:], 2):
        if not row:
            continue
        if len(row) != len(head):
            raise FileError(f"{count(len(row), 'value')} in a row of {len(head)} columns", path=path, line=line)
        values = dict(zip(head, row, strict=True))
        track, step = values.get("track", _ANY).strip(), values["stop_step"].strip()
        if track and track not in TRACKS:
            raise FileError(f"there is no track {track!r}; accepted: {', '.join(TRACKS)}", path=path, line=line)
        digits = step.isascii() and step.isdigit() and len(step.lstrip("0")) <= _STEP_DIGITS
        if step and not (digits and 1 <= int(step) < np.iinfo(np.int32).max):
            expected = "expected the number of a step, from 1, or nothing for a run that is not stopped"
            msg = f"stop_step {repr_of(step)}: {expected}"
            raise FileError(msg, path=path, line=line)
        of_track = found.setdefault(track, {})
        if values["run_id"] in of_track:
            raise FileError(f"run {values['run_id']!r} is listed a second time", path=path, line=line)
        of_track[values["run_id"]] = int(step) if step else NEVER
    about = About(name=Path(path).stem, definition=f"SHA-256 {sha256(data).hexdigest()}")
    return ListEntry(about=about, stops_of=lambda recordings: _stops_of(recordings, found, Path(path)))


def _stops_of(data: Recordings, found: dict[str, dict[str, int]], path: Path) -> dict[Track, Ints]:
    known = {run.run_id for run in data.runs}
    out: dict[Track, Ints] = {}
    for track, steps in found.items():
        where = f" for the track {track}" if track else ""
        missing = [run.run_id for run in data.runs if run.run_id not in steps]
        if missing:
            msg = f"{count(len(missing), 'run')} of {data.name} not listed{where}, such as {missing[0]!r}"
            raise FileError(
                f"{msg}: expected a row for each run, with an empty stop_step if it is not stopped", path=path
            )
        if not known.issuperset(steps):
            strange = next(run_id for run_id in steps if run_id not in known)
            if data.n_left_out == 0:
                raise FileError(f"there is no run {strange!r} in {data.name}", path=path)
        at = np.array([steps[run.run_id] for run in data.runs], dtype=np.int64)
        out |= {name: at for name in TRACKS if track in (_ANY, name)}
    if not out:
        msg = "there are no rows"
        raise FileError(msg, path=path)
    return out
