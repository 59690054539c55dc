"""Reads logs, each run once, and records what was skipped and why. `boolab.logs.log_files` finds files and readers."""

# ruff: noqa: A002 - `format` is the name of users' option
from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from boolab.core.caller import warn
from boolab.core.gc_pause import pause_collection
from boolab.core.run import Run
from boolab.core.text import count, first_of
from boolab.errors import ReadWarning, RunFormatError, SettingError
from boolab.io.checks import check_count, repr_of
from boolab.io.files import user_path
from boolab.io.json_input import Damage, Inconsistency, Warn
from boolab.logs.atif_format import is_own
from boolab.logs.checks import check_file, newer_version
from boolab.logs.conversations import read_conversations
from boolab.logs.copies import Copies, FileRun
from boolab.logs.fields import Head, reward_of
from boolab.logs.list_prices import needs_prices, price_runs
from boolab.logs.log_files import (
    MAX_SIMILAR,
    UNKNOWN,
    LogCandidate,
    Reader,
    Unrecognised,
    choose_reader,
    content_digest,
    find_files,
    head_of,
    reader_of,
    unrecognised_error,
)
from boolab.logs.outcomes.harbor import with_outcome
from boolab.logs.outcomes.label_file import NAME as LABEL_FILE
from boolab.logs.outcomes.label_file import LabelFile, read_labels
from boolab.logs.outcomes.labels import JoinedLabels, LabelNote, UnitLines, check_trust
from boolab.logs.related_files import group_keys, head_keys

if TYPE_CHECKING:
    import pandas as pd

Paths: TypeAlias = str | Path | Iterable[str | Path]

MAX_PATHS: Final = 3
"""So many of the paths that were given are named in an error."""

_OWN_FORMATS: Final = ("parquet", "store")
"""The formats that boolab alone writes."""
_OWN_MARK: Final = b'{"boolab":{"turn":'
_NEWER: Final = (
    "version {} wrote it, and the newest that the reader of {} was tested with is {}: what is new in it may not be "
    "read (further files are not named)"
)
_QUIET: Final = 20_000_000
"""Fewer bytes than these are read before a progress bar could be seen."""


class FileRow(NamedTuple):
    """What happened to one file. `format` is None if it was not recognised, `skipped` is None if it was read."""

    path: str
    format: str | None
    runs: int
    bytes: int
    seconds: float
    skipped: str | None = None
    warnings: tuple[str, ...] = ()
    inconsistencies: tuple[Inconsistency, ...] = ()
    """What differs from what the log states about itself; among the warnings, too."""


LABELS: Final = "labels"
"""The format of a file of labels, which holds no run."""


def label_row(path: str | Path, notes: Iterable[LabelNote] = (), seconds: float = 0.0) -> FileRow:
    """The row of a file of labels, with what is to be known of them."""
    size = user_path(path).stat().st_size
    return FileRow(str(path), LABELS, 0, size, seconds, None, tuple(map(str, notes)))


@dataclass(frozen=True, slots=True)
class Reading:
    """The runs that were read, and what happened to each file.

    Attributes:
        runs: The runs, in the order of their files.
        files: A row for each file; `files_df` makes them a table.
        unit_lines: The lines in files of labels, with the unit that each is about.

    Example:
        >>> Reading((), ())
        <Reading: 0 runs of 0 files, 0 skipped, 0 warnings>
    """

    runs: tuple[Run, ...]
    files: tuple[FileRow, ...]
    unit_lines: tuple[UnitLines, ...] = ()

    def files_df(self) -> pd.DataFrame:
        """The files as a DataFrame: path, format, runs, bytes, seconds, skipped, warnings (joined by lines).

        Returns:
            A row for each file, in the order in which they were read; times in seconds.

        Example:
            >>> list(Reading((), ()).files_df().columns)
            ['path', 'format', 'runs', 'bytes', 'seconds', 'skipped', 'warnings']
        """
        import pandas as pd

        columns = FileRow._fields[:-1]
        kinds = ("string[python]", "string[python]", "Int64", "Int64", "Float64", "string[python]", "string[python]")
        rows = [(*row[: len(kinds) - 1], "\n".join(row.warnings)) for row in self.files]
        return pd.DataFrame(rows, columns=columns).astype(dict(zip(columns, kinds, strict=True)))

    def __repr__(self) -> str:
        skipped = sum(row.skipped is not None for row in self.files)
        warned = sum(len(row.warnings) for row in self.files)
        read = count(len(self.runs), "run")
        return f"<Reading: {read} of {count(len(self.files), 'file')}, {skipped} skipped, {count(warned, 'warning')}>"


def load_runs(
    paths: Paths | Mapping[str, Any] | Iterable[object],
    format: str | Reader | None = None,
    *,
    prices: bool = True,
    trust: Sequence[str] = (),
    success_threshold: float | None = None,
) -> list[Run]:
    """Read logs of agents, of any of the formats in `docs/formats.md`, what `save_runs` wrote, or messages in memory.

    Args:
        paths: A file, a folder (searched with all its folders), a glob (`**` for any folders), or a list of these.
            `~` is expanded. Where there is no such path, `atlas` or `atlas/SET` are the runs that come with boolab; see
            `load_dataset`. Or messages in memory, in OpenAI's or Anthropic's form: a list of messages is one
            conversation, and there may be a list of conversations, or of objects that have `messages` and beside them
            what is known of the run, such as `id`, `model` and `success` (True, False, 1, 0, yes, no, pass, fail).
        format: The name of the format, or your own reader; by default the format is detected. Only this reader is then
            tried, and in a folder only files with its `SUFFIXES` are read.
        prices: Whether costs that logs of Claude Code and Codex lack are computed from tokens at list prices, if
            `boolab[prices]` is installed; see `priced`.
        trust: Sources of evidence that count as labels in a file of labels, `boolab-labels.jsonl`, beside the logs or
            in their folder; see `label`.
        success_threshold: From which reward on a Harbor trial is a success, such as 0.5; by default 1 is one, 0 is
            none, and a reward between is no label.

    Returns:
        The runs. What cannot be read is a `ReadWarning` with path and line; `read_logs` gives a table of it.

    Raises:
        RunFormatError: if nothing is there, or the one file that was named is damaged or of no known format.
        SettingError: if no format has that name, `format` is no reader, `success_threshold` is no number, or something
            in memory is no conversation.
        TypeError: if it is a table, for which there is `runs_from_table`, or something else.

    Example:
        >>> import boolab as bl
        >>> chat = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
        >>> [(run.task, run.success) for run in bl.load_runs([{"messages": chat, "success": True}])]
        [('Hello', True)]
        >>> bl.save_runs(bl.load_runs(chat), "chat.jsonl")  # doctest: +SKIP
        >>> bl.load_runs("chat.jsonl")  # doctest: +SKIP
    """
    values = _as_list(paths)
    if any(not isinstance(item, str | Path) for item in values):
        form = format if format is None or isinstance(format, str) else format.NAME
        return read_conversations(values, _warn, form)
    paths = cast("list[str | Path]", values)
    reading = read_logs(paths, format=format, prices=prices, trust=trust, success_threshold=success_threshold)
    if not reading.runs and not any(row.warnings for row in reading.files):
        _warn(no_log_message(paths, rows=reading.files))
    return list(reading.runs)


def _as_list(paths: object) -> list[object]:
    """The paths, or the conversations in memory, that were given, as a list."""
    if isinstance(paths, str | Path | Mapping | Run):
        return [paths]
    if hasattr(paths, "columns"):
        raise TypeError(f"a {type(paths).__name__} is a table and no log: bl.runs_from_table makes runs of it")
    if isinstance(paths, bytes) or not isinstance(paths, Iterable):
        raise TypeError(f"expected a path, paths or messages, not {type(paths).__name__}")
    return list(paths)


def read_logs(
    paths: Paths,
    *,
    format: str | Reader | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    progress: bool = True,
    prices: bool = True,
    trust: Sequence[str] = (),
    success_threshold: float | None = None,
) -> Reading:
    """Read logs, and record what happened to each file.

    Args:
        paths: A file, a folder, a glob, or a list of these; see `load_runs`.
        format: The name of the format, or your own reader; see `load_runs`.
        since: Only files that were changed at this time or later.
        limit: At most so many logs, the newest first.
        progress: Show a progress bar on a terminal if it takes longer than two seconds.
        prices: Whether costs that logs lack are computed at list prices; see `load_runs`.
        trust: Sources of evidence that count as labels; see `load_runs`.
        success_threshold: From which reward on a Harbor trial is a success; see `load_runs`.

    Returns:
        The runs and a row for each file, in the order of their paths; the newest first if there is a `limit`. Files of
        labels come last: their format is `labels`.

    Raises:
        RunFormatError: if nothing is there, or the one file that was named is damaged or of no known format.
        SettingError: if no format has that name, `format` is no reader, or an option is not accepted.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> line = '{"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = Path(f"{folder}/chat.jsonl").write_text(line)
        ...     reading = bl.read_logs(folder)
        >>> reading, reading.files[0].format
        (<Reading: 1 run of 1 file, 0 skipped, 0 warnings>, 'openai_chat')
    """
    check_trust(trust)
    folders: list[Path] = []
    options: dict[str, Any] = {"progress": progress, "prices": prices, "success_threshold": success_threshold}
    logs = _read(paths, format, since, limit, **options, holds_runs=True, folders=folders)
    read = sorted(logs, key=lambda log: log[0])
    start = time.perf_counter()
    labels = _labels_beside(folders, trust)
    runs = labels.apply([*chain.from_iterable(new for *_, new in read)])
    rows = (*(row for _, row, _ in read), *_label_rows(labels, time.perf_counter() - start))
    return Reading(tuple(runs), rows, tuple(labels.unit_lines))


def iterate_logs(
    paths: Paths,
    *,
    format: str | Reader | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    progress: bool = True,
    prices: bool = True,
    trust: Sequence[str] = (),
    success_threshold: float | None = None,
) -> Iterator[tuple[FileRow, list[Run]]]:
    """The same as `read_logs`, one file after the other: its row, and its runs.

    Files that may hold the same runs come one after the other, and those that boolab wrote come last, because what they
    are copies of is read first.
    """
    folders: list[Path] = []
    labels: JoinedLabels | None = None
    options: dict[str, Any] = {"progress": progress, "prices": prices, "success_threshold": success_threshold}
    for _, row, runs in _read(paths, format, since, limit, **options, folders=folders):
        labels = _labels_beside(folders, trust) if labels is None else labels
        yield row, labels.apply(runs)
    if labels is not None:
        yield from ((row, []) for row in _label_rows(labels))


def _labels_beside(folders: Iterable[Path], trust: Sequence[str] = ()) -> JoinedLabels:
    """The files of labels in the folders that were given or have logs; one that is broken is a warning."""
    files: list[LabelFile] = []
    for folder in dict.fromkeys(folders):
        path = folder / LABEL_FILE
        if path.is_file():
            try:
                files.append(read_labels(path))
            except SettingError as error:
                _warn(f"{error}; the file was skipped")
                files.append(LabelFile(path, fault=str(error)))
    return JoinedLabels(files, trust)


def _label_rows(labels: JoinedLabels, seconds: float = 0.0) -> Iterator[FileRow]:
    """A row for each file of labels; the last one has what is to be known of them all."""
    for file in labels.files:
        notes = [*labels.notes()] if file is labels.files[-1] else []
        for note in notes:
            if note.is_problem:
                _warn(f"{file.path}: {note}")
        row = label_row(file.path, notes, seconds)
        skipped = file.fault or None
        yield row._replace(format=None if skipped else LABELS, skipped=skipped)


def _read(
    paths: Paths,
    format: str | Reader | None,
    since: datetime | None,
    limit: int | None,
    *,
    progress: bool,
    prices: bool,
    success_threshold: float | None,
    folders: list[Path],
    holds_runs: bool = False,
) -> Iterator[tuple[int, FileRow, list[Run]]]:
    """The place of each file among those that were found, its row, and its runs without copies.

    `folders` gets the folders that were given or hold files.
    """
    reader = choose_reader(format)
    if limit is not None:
        check_count(limit, "limit")
    if since is not None and not isinstance(since, datetime):
        raise SettingError(f"since={repr_of(since)}: expected a datetime, such as datetime(2026, 11, 1, tzinfo=UTC)")
    if success_threshold is not None and reward_of(success_threshold) is None:
        raise SettingError(f"success_threshold={repr_of(success_threshold)}: expected a number, such as 0.5, or None")
    path_list = _check_paths(paths)
    files = find_files(path_list, since, reader if reader is format else None, near=reader is None)
    folders += [path for path in map(user_path, path_list) if path.is_dir()]
    folders += [file.path.parent for file in files]
    if limit is not None:
        files.sort(key=lambda file: (-file.stat.st_mtime, file.path))
    strict = len(path_list) == 1 and len(files) == 1 and files[0].named
    copies = Copies(content_digest(), holds_runs)
    named: set[str] = set()
    looks = (_look(index, file, reader, single=len(files) == 1) for index, file in enumerate(files))
    n_read = 0
    with _progress(files, show=progress) as advance:
        while looked := _next_logs(looks, None if limit is None else limit - n_read):
            for group in _groups(looked):
                results = []
                for look in group:
                    row, new = _take(look, named, success_threshold, strict=strict)
                    if row is not None:
                        results.append((look, row, new))
                        n_read += row.skipped is None
                    advance(look.file.stat.st_size)
                for look, row, new in _drop_copies(copies, results, last=len(files) == 1):
                    yield look.place, *(_add_prices(row, new) if prices else (row, new))


def _check_paths(paths: object) -> list[str | Path]:
    """The paths that were given; a `TypeError` if something else is among them."""
    path_list = _as_list(paths)
    for item in path_list:
        if not isinstance(item, str | Path):
            msg = f"expected a path or paths, not {type(item).__name__}; bl.load_runs takes messages in memory"
            raise TypeError(msg)
    return cast("list[str | Path]", path_list)


def _next_logs(looks: Iterator[_Looked], limit: int | None) -> list[_Looked]:
    """The next files, of which at most so many have a reader; by default all."""
    looked: list[_Looked] = []
    n_logs = 0
    while limit is None or n_logs < limit:
        look = next(looks, None)
        if look is None:
            break
        looked.append(look)
        n_logs += look.reader is not None
    return looked


def _groups(looked: Sequence[_Looked]) -> Iterator[list[_Looked]]:
    """The files in groups that may hold the same runs; last those that boolab wrote, the latest first."""
    logs = [look for look in looked if not look.written]
    for group in group_keys([look.keys for look in logs]) if logs[1:] else [[0]] * len(logs):
        yield [logs[index] for index in group]
    own_files = [look for look in looked if look.written]
    yield from ([look] for look in sorted(own_files, key=lambda look: (-look.file.stat.st_mtime_ns, look.place)))


def _drop_copies(
    copies: Copies, results: Sequence[tuple[_Looked, FileRow, Sequence[Run]]], *, last: bool
) -> Iterator[tuple[_Looked, FileRow, list[Run]]]:
    """The rows and the runs of a group of files, each run once, with warnings about copies."""
    log_runs = [FileRun(run, row.path, look.written) for look, row, new in results for run in new]
    if last and not log_runs[1:]:
        yield from ((look, row, [*new]) for look, row, new in results)
        return
    try:
        settled, notes = copies.settle(log_runs, last=last)
    except Exception as error:  # noqa: BLE001 - logs are untrusted: none of these runs is lost, and others follow
        for look, row, new in results:
            warning = _warn(f"{row.path}: copies of its runs cannot be looked for ({type(error).__name__}: {error})")
            yield look, row._replace(warnings=(*row.warnings, warning)), [*new]
        return
    rest = iter(settled)
    texts: dict[str, list[str]] = {}
    for note in notes:
        texts.setdefault(note.path, []).append(note.text)
    for look, row, new in results:
        runs = [*chain.from_iterable(next(rest) for _ in new)]
        warned = [_warn(f"{row.path}: {text}") for text in texts.get(row.path, ())]
        yield look, row._replace(runs=len(runs), warnings=(*row.warnings, *warned)), runs


def _add_prices(row: FileRow, runs: list[Run]) -> tuple[FileRow, list[Run]]:
    """The runs with costs that their log lacks, at list prices."""
    try:
        return row, price_runs(runs).runs if needs_prices(runs) else runs
    except Exception as error:  # noqa: BLE001 - as above
        warning = _warn(f"{row.path}: list prices cannot be computed ({type(error).__name__}: {error})")
        return row._replace(warnings=(*row.warnings, warning)), runs


def read_file(reader: Reader, path: Path, warn: Warn, damage: Damage | None = None) -> list[Run]:
    """The runs of one file. `warn` is called with each warning; if nothing can be read, that is a `RunFormatError`."""
    damage = Damage(path) if damage is None else damage
    runs = reader.read(path, damage)
    damage.inconsistencies += check_file(runs, damage)
    damage.report(warn, readable=bool(runs))
    return runs


def no_log_message(paths: Paths, since: datetime | None = None, rows: Iterable[FileRow] = ()) -> str:
    """The error where paths lead to no log; `rows` are the files that were skipped."""
    recent = "" if since is None else " (is --since too recent?)"
    reasons = Counter(row.skipped for row in rows if row.skipped is not None).most_common(MAX_SIMILAR)
    skipped = f"; skipped: {', '.join(f'{reason} ({n:,})' for reason, n in reasons)}" if reasons else ""
    return f"{path_names(paths)}: no log was found: docs/formats.md lists the formats that are read{recent}{skipped}"


def path_names(paths: Paths) -> str:
    """The paths that were given, in a line: the first of many."""
    path_list = [paths] if isinstance(paths, str | Path) else paths
    return first_of([str(path) for path in path_list], MAX_PATHS) or "an empty list of paths"


class _Looked(NamedTuple):
    """A file after a look at its beginning: its reader, or why it has none; ids and times; whether boolab wrote it."""

    place: int
    file: LogCandidate
    reader: Reader | None
    error: Exception | None
    keys: Collection[int]
    written: bool
    seconds: float

    def require_reader(self) -> Reader:
        """The reader; an error if there is none."""
        if self.reader is None:
            raise self.error or RunFormatError(UNKNOWN, path=self.file.path)
        return self.reader


def _look(index: int, file: LogCandidate, chosen_reader: Reader | None, *, single: bool) -> _Looked:
    """Look at the beginning of a file. If it is `single`, no ids are needed."""
    if file.unread:
        # What a folder holds that is not searched may be logs, so it is a warning; a file that is no log is a row.
        is_folder = file.path.is_dir()
        error = RunFormatError(file.unread, path=file.path) if is_folder else unrecognised_error(file.unread, file.path)
        return _Looked(index, file, None, error, (), written=False, seconds=0.0)
    start = time.perf_counter()
    head: Head | None = None
    reader: Reader | None = None
    fault: Exception | None = None
    try:
        if chosen_reader is not None and not file.foldered:
            reader = chosen_reader
            head = None if single else head_of(file.path)
        else:
            head, reader = reader_of(file, chosen_reader)
    except Exception as error:  # noqa: BLE001 - logs are untrusted; `_take` reports it
        fault = error if reader is None else None
    keys: Collection[int] = ()
    from_boolab = reader is not None and reader.NAME in _OWN_FORMATS
    try:
        from_boolab = from_boolab or (reader is not None and head is not None and _is_own(head))
        keys = () if single or head is None or reader is None else head_keys(head)
    except Exception as error:  # noqa: BLE001 - as above: it is read, and compared with no other
        _warn(f"{file.path}: ids of runs cannot be looked for ({type(error).__name__}: {error})")
    return _Looked(index, file, reader, fault, keys, from_boolab, time.perf_counter() - start)


def _is_own(head: Head) -> bool:
    """Whether a file begins with a trajectory that boolab wrote; the end of a long one is not in its head."""
    return ("extra" in head.first and is_own(head.first)) or _OWN_MARK in head.data


def _take(
    looked: _Looked, named: set[str], success_threshold: float | None, *, strict: bool
) -> tuple[FileRow | None, list[Run]]:
    """Read one file; a fault is raised if it is `strict`, else it is a warning. No row if it only goes with logs.

    `named` has what was named in a warning, and is not named for further files.
    """
    file = looked.file
    path, start = file.path, time.perf_counter()
    damage = Damage(path)
    notes: list[str] = []
    runs: list[Run] = []
    name = skipped = None
    try:
        reader = looked.require_reader()
        name = reader.NAME
        with pause_collection():
            runs = read_file(reader, path, lambda message: notes.append(_warn(message)), damage)
        tested = getattr(reader, "TESTED", "")
        version = newer_version(damage.versions, tested) if name not in named else ""
        if version:
            named.add(name)
            damage.inconsistencies.append(Inconsistency("", _NEWER.format(version, name, tested)))
            notes.append(_warn(f"{path}: {damage.inconsistencies[-1]}"))
        runs = [run if run.path == str(path) else replace(run, path=str(path)) for run in runs]
        try:
            runs, undecided = with_outcome(runs, path, success_threshold)
        except Exception as error:  # noqa: BLE001 - as below: the runs are read all the same
            notes.append(_warn(f"{path}: labels beside it cannot be read ({type(error).__name__}: {error})"))
        else:
            if undecided is not None and undecided.kind not in named:
                named |= {undecided.kind} - {""}
                notes.append(_warn(undecided.text))
        if not runs and strict:
            notes.append(_warn(f"{path}: no run in it"))
    except Unrecognised as error:
        if error.companion and not strict:
            return None, []
        skipped = error.why
        if strict or not file.foldered:
            _refuse(error, strict=strict)
            notes.append(str(error))
    except Exception as error:  # noqa: BLE001 - logs are untrusted, and one of them must not stop the others
        fault = _fault(error, path, name)
        _refuse(fault, strict=strict)
        skipped = fault.message
        notes.append(str(fault))
    seconds = looked.seconds + time.perf_counter() - start
    inconsistencies = tuple(damage.inconsistencies) if skipped is None else ()
    return FileRow(str(path), name, len(runs), file.stat.st_size, seconds, skipped, tuple(notes), inconsistencies), runs


def _fault(error: Exception, path: Path, name: str | None) -> RunFormatError:
    if isinstance(error, RunFormatError):
        return error
    reason = f"the reader of {name or 'some format'} failed ({type(error).__name__}: {error})"
    if isinstance(error, OSError):
        reason = f"cannot be read: {error.strerror}"
    elif isinstance(error, SettingError):
        reason = str(error)
    return RunFormatError(reason, path=path)


def _refuse(error: RunFormatError, *, strict: bool) -> None:
    if strict:
        raise RunFormatError(error.message, path=error.path, line=error.line)
    _warn(f"{error}; the file was skipped")


def _warn(message: str) -> str:
    warn(message, ReadWarning)
    return message


@contextmanager
def _progress(files: Sequence[LogCandidate], *, show: bool) -> Iterator[Callable[[int], object]]:
    """A progress bar over bytes, shown only for large inputs and on a terminal: yields what moves it on."""
    total = sum(file.stat.st_size for file in files)
    if not show or total <= _QUIET:
        yield lambda _: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, unit="B", unit_scale=True, desc="reading", delay=2, disable=None) as bar:
        yield bar.update
