"""Hidden sets: a folder of runs that are not published, which entries are judged on and never chosen or fitted on.

The folder has a folder for each kind (see `kinds`), and in it a file or a folder for each set:

    hidden/games/set1.parquet
    hidden/coding/set2/...           logs of any format that boolab reads

The name of that file or folder is the set of its runs. Outcomes are in the runs, or in a file with labels.
"""

# ruff: noqa: A002 - `format` is the name of users' option
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.stoprulebench.kinds import KINDS
from benchmarks.stoprulebench.recordings import SET, DataFile, hashed
from boolab.core.run import Run
from boolab.core.text import count
from boolab.errors import SettingError
from boolab.io.files import user_path
from boolab.logs.load import iterate_logs
from boolab.logs.outcomes.labels import label_by_file

_DEPTH: Final = 2  # KIND/SET


class HiddenSets(NamedTuple):
    """The runs of hidden sets.

    Attributes:
        runs: The runs, each with its set.
        kinds: The kind of each set, by its name.
        files: For each set, KIND/SET and a digest of its files: their names may tell what they are.
    """

    runs: list[Run]
    kinds: Mapping[str, str]
    files: list[DataFile]


def read_hidden(
    folder: str,
    *,
    format: str | None = None,
    labels: str | None = None,
    trust: Sequence[str] = (),
    progress: bool = True,
) -> HiddenSets:
    """Read the hidden sets of a folder.

    Args:
        folder: The folder.
        format: The format of the files.
        labels: A file with labels.
        trust: Sources of evidence that count as labels.
        progress: Show a progress bar on a terminal.

    Raises:
        RunFormatError: if nothing is there, or it cannot be read.
        SettingError: if a run is in no folder of a kind, a set is of two kinds, or no run is a success.
    """
    root = user_path(folder).resolve()
    runs: list[Run] = []
    kinds: dict[str, str] = {}
    paths: dict[str, list[Path]] = {}
    for row, read in iterate_logs([folder], format=format, trust=trust, progress=progress):
        if not read:
            continue
        path = Path(row.path).resolve()
        kind, name = _place(path, root)
        if kinds.setdefault(name, kind) != kind:
            raise SettingError(f"{folder}: the set {name!r} is of two kinds, {kinds[name]} and {kind}")
        paths.setdefault(name, []).append(path)
        runs += [replace(run, settings={**run.settings, SET: name}) for run in read]
    if labels is not None:
        runs = label_by_file(runs, labels, trust).runs
    if not any(run.success for run in runs):
        raise SettingError(f"{folder}: there is no successful run among {count(len(runs), 'run')} (see --labels)")
    files = [DataFile(f"{kinds[name]}/{name}", _digest(of_set)) for name, of_set in paths.items()]
    return HiddenSets(runs, kinds, files)


def _place(path: Path, root: Path) -> tuple[str, str]:
    """The kind and the set of a file."""
    parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
    if len(parts) < _DEPTH or parts[0] not in KINDS:
        raise SettingError(f"{path} is not in a folder {root}/KIND: expected as KIND one of {', '.join(KINDS)}")
    return parts[0], parts[1].partition(".")[0]


def _digest(paths: list[Path]) -> str:
    return sha256("".join(sorted(file.sha256 for file in hashed(paths))).encode()).hexdigest()
