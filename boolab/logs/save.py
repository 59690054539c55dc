"""Writes runs to files, which are read back exactly: ATIF as JSON Lines for any tool, or Parquet for millions of steps.

`.jsonl.bz2` is the same JSON Lines, compressed with bzip2, whose output depends on nothing but its input.

A Parquet file has one row for each step: the columns of `recording_df`, which `counterfactual` reads in batches without
the rest, then two columns of JSON: `run_record`, in the first row of each run the run without its steps, and
`step_record`, the step. A run without steps has one row, whose `step` is null.
"""

from __future__ import annotations

import bz2
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeAlias, get_args

from boolab.core.codec import dumps, encode, run_fields
from boolab.core.run import Run
from boolab.core.run_tree import iterate_with_subagents
from boolab.errors import RunFormatError, SettingError, install, program
from boolab.frames.dtypes import TEXT, Column, replace_surrogates
from boolab.frames.runs import Runs, iterate_runs
from boolab.io.files import open_file, replace_file, size_of, user_path
from boolab.io.packed import PACKED, most_unpacked, open_unpacked
from boolab.logs.atif_format import trajectory
from boolab.logs.facts import facts_of

if TYPE_CHECKING:
    import pandas as pd

Records: TypeAlias = tuple[str, list[str]]
"""A run without its steps, and its steps, each as JSON."""

Contents: TypeAlias = Literal["everything", "facts"]
"""What of the runs is written."""

ArrowObject: TypeAlias = Any
"""An object of pyarrow, which has no types."""
_MARK: Final = b'{"boolab":{'
"""What every trajectory of boolab holds; within a text its quotes have backslashes."""
_HEAD: Final = 4 * 2**20
_GROUP_ROWS: Final = 50_000
_GROUP_BYTES: Final = 64 * 2**20


def save_runs(runs: Runs, path: str | Path, contents: Contents = "everything") -> None:
    """Write runs to a file, which `load_runs` reads back exactly. An old file of runs of that name is replaced.

    The runs of subagents follow their parents', each once, linked by `parent_run_id`.

    Args:
        runs: A run, runs, or the path of a store; from a generator or a store they are written as they come, and need
            not fit into memory. A table has no columns for the settings of a generator's runs, because these are
            unknown before its end. No runs make an empty `.jsonl`, which `load_runs` reads with `format="atif"`.
        path: The file; `~` is expanded. `.jsonl` is ATIF, one trajectory a line, for any tool; `.jsonl.bz2` the same,
            compressed; `.parquet` (which needs pyarrow) has one row a step, which `counterfactual` reads in batches.
        contents: `everything`, or `facts`: a placeholder with a number and a length in place of every text, from which
            boolab answers the same. See `docs/howto/share_my_logs.md`.

    Raises:
        SettingError: if the suffix is not one of these, a file is there that `save_runs` did not write, `contents` is
            neither, a setting or an event holds what JSON cannot, pyarrow is not installed, (Parquet) two runs have
            the same id, or (bzip2) the file would be so small for what it holds that it could not be read.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bl.save_runs(run, f"{folder}/runs.jsonl")
        ...     bl.load_runs(f"{folder}/runs.jsonl") == [run]
        True
    """
    path = user_path(path)
    check_suffix(path)
    if contents not in get_args(Contents):
        raise SettingError(f"contents={contents!r} is not known; accepted: {', '.join(get_args(Contents))}")
    output_runs = iterate_runs(runs)
    if contents == "facts":
        output_runs = facts_of(output_runs) if isinstance(output_runs, Iterator) else _RunFacts(output_runs)
    check_replaceable(path)
    with replace_file(path) as file:
        _WRITERS[_suffix(path)](output_runs, file)


class _RunFacts:
    """The facts of runs, made again each time they are read: a table is written after its columns are known."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = runs

    def __iter__(self) -> Iterator[Run]:
        return facts_of(self._runs)


def check_suffix(path: Path) -> None:
    """Raise `SettingError` unless runs can be saved to a file of that name."""
    suffix = _suffix(path)
    if suffix not in _WRITERS:
        raise SettingError(
            f"{path.name!r}: runs are saved as .jsonl (ATIF), .jsonl.bz2 or .parquet; {suffix or 'no suffix'} is not "
            "accepted"
        )


def check_replaceable(path: Path) -> None:
    """Raise `SettingError` if a file is there that `save_runs` did not write: a log would be lost, and is no copy."""
    if path.exists() and not is_saved(path):
        raise SettingError(f"{path}: boolab did not write this file, and it would be lost: name another file to write")


def is_saved(path: Path) -> bool:
    """Whether `save_runs` wrote a file, or it is empty."""
    try:
        with open_unpacked(path) as file:
            head = file.read(_HEAD)
        if not head.startswith(b"PAR1"):
            return not head.strip() or _MARK in head
        with open_file(path) as table:
            table.seek(max(0, size_of(table) - _HEAD))
            return b"run_record" in table.read()
    except RunFormatError:
        return False


def _suffix(path: Path) -> str:
    """The end of a file's name, by which its format is chosen."""
    return PACKED if path.name.endswith(PACKED) else path.suffix


def _lines(runs: Iterable[Run]) -> Iterator[bytes]:
    return (dumps(trajectory(run)) + b"\n" for run in iterate_with_subagents(runs))


def _write_packed_lines(runs: Iterable[Run], file: BinaryIO) -> None:
    with bz2.BZ2File(file, "wb") as packed:
        unpacked_size = sum(packed.write(line) for line in _lines(runs))
    file.flush()
    size = os.fstat(file.fileno()).st_size
    if unpacked_size > most_unpacked(size):
        raise SettingError(
            f"the runs repeat so much that {unpacked_size:,} bytes become {size:,}, and no more than "
            f"{most_unpacked(size):,} are read of a file of that size: save them as .jsonl or .parquet"
        )


def _write_table(runs: Iterable[Run], file: BinaryIO) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise SettingError(f"writing Parquet needs pyarrow: {install('boolab[parquet]')}") from error
    from boolab.frames.recording import recorded_settings

    settings = recorded_settings(() if isinstance(runs, Iterator) else iterate_with_subagents(runs))
    schema = _schema(pa, settings)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(_unique_runs(iterate_with_subagents(runs))):
            writer.write_table(pa.Table.from_pandas(_table(group, settings), schema=schema, preserve_index=False))


def _schema(pa: ArrowObject, settings: Sequence[Column]) -> ArrowObject:
    types = {"Int64": pa.int64(), "Float64": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
    from boolab.frames.recording import LISTS

    lists = {name: pa.list_(pa.type_for_alias(kind)) for name, kind in LISTS.items()}
    kinds = _table([], settings).dtypes
    return pa.schema([(name, lists.get(str(name)) or types[str(kind)]) for name, kind in kinds.items()])


def _table(group: Sequence[tuple[Run, Records]], settings: Sequence[Column]) -> pd.DataFrame:
    import pandas as pd

    from boolab.frames.recording import recording_table

    frame = recording_table([run for run, _ in group], "canonical", settings)
    rows = [
        (head if index == 0 else None, step)
        for _, (head, of_run) in group
        for index, step in enumerate(of_run or [None])
    ]
    frame["run_record"] = pd.array([head for head, _ in rows], dtype=TEXT)
    frame["step_record"] = pd.array([step for _, step in rows], dtype=TEXT)
    for name in frame.columns[frame.dtypes == "string"]:
        frame[name] = frame[name].map(replace_surrogates, na_action="ignore")
    return frame


def _unique_runs(runs: Iterable[Run]) -> Iterator[Run]:
    run_ids = set()
    for run in runs:
        if run.run_id in run_ids:
            raise SettingError(
                f"run id {run.run_id!r} occurs more than once: a table cannot distinguish the two. Give one another "
                f"id (dataclasses.replace(run, run_id=...)), or use {program()} import, which does so"
            )
        run_ids.add(run.run_id)
        yield run


def _groups(runs: Iterable[Run]) -> Iterator[list[tuple[Run, Records]]]:
    """Runs with their records, in groups that become row groups of the file."""
    group: list[tuple[Run, Records]] = []
    rows = size = 0
    for run in runs:
        head = dumps(run_fields(run, leave_out=("steps",))).decode()
        steps = [dumps(encode(step, f"step {step.index} of run {run.run_id}")).decode() for step in run.steps]
        group.append((run, (head, steps)))
        rows += len(steps) or 1
        size += len(head) + sum(map(len, steps))
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


_WRITERS: Final[Mapping[str, Callable[[Iterable[Run], BinaryIO], None]]] = {
    ".jsonl": lambda runs, file: file.writelines(_lines(runs)),
    PACKED: _write_packed_lines,
    ".parquet": _write_table,
}
