"""Reads logs: finds the files, detects their formats, reads them, and records what was skipped and why."""

# ruff: noqa: A002, N802 - `format` is the name of users' option, and a reader's names are constants of a module
from __future__ import annotations

import os
import pkgutil
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatch
from functools import cache
from glob import has_magic
from hashlib import blake2b
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import boolab.logs.readers as package
from boolab.core.caller import warn
from boolab.core.gc_pause import without_collection
from boolab.core.text import count, first_of
from boolab.core.types import Run
from boolab.errors import ReadWarning, RunFormatError, SettingError, near
from boolab.io.checks import check_count, repr_of
from boolab.io.files import no_file, user_path
from boolab.io.json_input import Damage, Inconsistency, Warn
from boolab.io.packed import DamagedFile, is_packed, unpacked, unpacked_name
from boolab.logs.atif_format import is_own
from boolab.logs.checks import check_file, newer
from boolab.logs.conversations import read_conversations
from boolab.logs.copies import Copies, Found
from boolab.logs.fields import Head
from boolab.logs.from_table import TABLES
from boolab.logs.list_prices import needs_prices, prices_of
from boolab.logs.near_misses import UNREAD, is_companion, may_be_near_miss, near_miss_by_content, near_miss_by_name
from boolab.logs.outcomes.harbor import with_outcome
from boolab.logs.related_files import grouped, head_keys
from boolab.logs.shipped import atlas_files

if TYPE_CHECKING:
    import pandas as pd

Paths: TypeAlias = str | Path | Iterable[str | Path]

HEAD: Final = 65_536
"""How many bytes at the beginning of a file its format is detected from."""

LONG_HEAD: Final = 4 * 2**20
"""The same, if no reader recognises the file by fewer: its first record may be long."""

MAX_SIMILAR: Final = 2
"""So many formats are described in the error about a file of none."""

MAX_PATHS: Final = 3
"""So many of the paths that were given are named in an error."""

_OWN: Final = ("parquet", "store")
"""The formats that boolab alone writes."""
_OWN_MARK: Final = b'{"boolab":{"turn":'
_DIGESTED: Final = 2**20
"""How many bytes of a file are digested at once."""
_UNKNOWN: Final = "no reader recognises it"
_COMPANION: Final = "a file that is written beside logs, and holds no run: give the logs, or their folder"
_TABLE: Final = "a table and no log: bl.runs_from_table makes runs of it, if you name its columns"
_NEWER: Final = (
    "version {} wrote it, and the newest that the reader of {} was tested with is {}: what is new in it may not be "
    "read (further files are not named)"
)
_NOWHERE: Final = "a link that leads nowhere"
_LINK: Final = "a link to a folder, which is not followed: name that folder to read it"
_PARTS: Final = "NAME, SUFFIXES, PLACES, LOOKED_FOR, sniff(head) and read(path, damage)"
_STARS: Final = re.compile(r"\*\*+")
_VARIABLE: Final = re.compile(r"[*?~%]|\$\{?\w*\}?")
"""What stands for other text in a place."""
_QUIET: Final = 20_000_000
"""Fewer bytes than these are read before a progress bar could be seen."""


@runtime_checkable
class Reader(Protocol):
    """Reads one format: a module of `boolab.logs.readers`, or a module, a class or an object of your own.

    Pass your own as `format=` to `load_runs` or `read_logs`; see `docs/howto/add_a_reader.md`.

    Example:
        >>> isinstance(readers()["claude_code"], Reader), isinstance("claude_code", Reader)
        (True, False)
    """

    @property
    def NAME(self) -> str:
        """The format's name, which becomes `Run.source`."""

    @property
    def SUFFIXES(self) -> tuple[str, ...]:
        """The ends of its file names. In a folder, only these files are read."""

    @property
    def PLACES(self) -> tuple[str, ...]:
        """Globs of where its harness keeps logs on a machine; empty if there is no fixed place."""

    @property
    def LOOKED_FOR(self) -> str:
        """What `sniff` expects, in words, for the error message about an unknown file."""

    def sniff(self, head: Head) -> bool:
        """Whether the file looks like this format.

        Args:
            head: The beginning of the file: its name, its first bytes, and what they hold.

        Returns:
            True if `read` can be called.
        """

    def read(self, path: Path, damage: Damage) -> list[Run]:
        """The runs of one file.

        Args:
            path: The file.
            damage: Records what cannot be read, with its line, for the warnings.

        Returns:
            The runs, in the order of the file; none if nothing in it can be read.

        Raises:
            RunFormatError: if the file cannot be a log of this format.
        """


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


@dataclass(frozen=True, slots=True)
class Reading:
    """The runs that were read, and what happened to each file.

    Attributes:
        runs: The runs, in the order of their files.
        files: A row for each file; `files_df` makes them a table.

    Example:
        >>> Reading((), ())
        <Reading: 0 runs of 0 files, 0 skipped, 0 warnings>
    """

    runs: tuple[Run, ...]
    files: tuple[FileRow, ...]

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
    paths: Paths | Mapping[str, Any] | Iterable[object], format: str | Reader | None = None, *, prices: bool = True
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

    Returns:
        The runs. What cannot be read is a `ReadWarning` with path and line; `read_logs` gives a table of it.

    Raises:
        RunFormatError: if nothing is there, or the one file that was named is damaged or of no known format.
        SettingError: if no format has that name, `format` is no reader, or something in memory is no conversation.
        TypeError: if it is a table, for which there is `runs_from_table`, or something else.

    Example:
        >>> import boolab as bl
        >>> chat = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
        >>> [(run.task, run.success) for run in bl.load_runs([{"messages": chat, "success": True}])]
        [('Hello', True)]
        >>> bl.save_runs(bl.load_runs(chat), "chat.jsonl")  # doctest: +SKIP
        >>> bl.load_runs("chat.jsonl")  # doctest: +SKIP
    """
    given = _given(paths)
    if any(not isinstance(item, str | Path) for item in given):
        form = format if format is None or isinstance(format, str) else format.NAME
        return read_conversations(given, _warn, form)
    paths = cast("list[str | Path]", given)
    reading = read_logs(paths, format=format, prices=prices)
    if not reading.runs and not any(row.warnings for row in reading.files):
        _warn(why_no_log(paths, rows=reading.files))
    return list(reading.runs)


def _given(paths: object) -> list[object]:
    """The paths, or the conversations in memory, that were given, as a list."""
    if isinstance(paths, str | Path | Mapping | Run):
        return [paths]
    if hasattr(paths, "columns"):
        msg = f"a {type(paths).__name__} is a table and no log: bl.runs_from_table makes runs of it"
        raise TypeError(msg)
    if isinstance(paths, bytes) or not isinstance(paths, Iterable):
        msg = f"expected a path, paths or messages, not {type(paths).__name__}"
        raise TypeError(msg)
    return list(paths)


def read_logs(
    paths: Paths,
    *,
    format: str | Reader | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    progress: bool = True,
    prices: bool = True,
) -> Reading:
    """Read logs, and record what happened to each file.

    Args:
        paths: A file, a folder, a glob, or a list of these; see `load_runs`.
        format: The name of the format, or your own reader; see `load_runs`.
        since: Only files that were changed at this time or later.
        limit: At most so many logs, the newest first.
        progress: Show a progress bar on a terminal if it takes longer than two seconds.
        prices: Whether costs that logs lack are computed at list prices; see `load_runs`.

    Returns:
        The runs and a row for each file, in the order of their paths; the newest first if there is a `limit`.

    Raises:
        RunFormatError: if nothing is there, or the one file that was named is damaged or of no known format.
        SettingError: if no format has that name, or `format` is no reader.

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
    read = sorted(_read(paths, format, since, limit, progress=progress, prices=prices), key=lambda one: one[0])
    return Reading(tuple(run for _, _, new in read for run in new), tuple(row for _, row, _ in read))


def each_log(
    paths: Paths,
    *,
    format: str | Reader | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    progress: bool = True,
    prices: bool = True,
) -> Iterator[tuple[FileRow, list[Run]]]:
    """The same as `read_logs`, one file after the other: its row, and its runs.

    Files that may hold the same runs come one after the other, and those that boolab wrote come last, because what they
    are copies of is read first.
    """
    for _, row, runs in _read(paths, format, since, limit, progress=progress, prices=prices):
        yield row, runs


def _read(
    paths: Paths,
    format: str | Reader | None,
    since: datetime | None,
    limit: int | None,
    *,
    progress: bool,
    prices: bool,
) -> Iterator[tuple[int, FileRow, list[Run]]]:
    """The place of each file among those that were found, its row, and its runs without copies."""
    known, wanted = _choose(format)
    check_count(limit, "limit")
    if since is not None and not isinstance(since, datetime):
        raise SettingError(f"since={repr_of(since)}: expected a datetime, such as datetime(2026, 11, 1, tzinfo=UTC)")
    given = _listed(paths)
    found = _find(given, since, known, near=wanted is None)
    if limit is not None:
        found.sort(key=lambda file: (-file.stat.st_mtime, file.path))
    strict = len(given) == 1 and len(found) == 1 and found[0].named
    copies = Copies(_content_digest())
    newer_formats: set[str] = set()
    looks = (_look(place, file, known, wanted, alone=len(found) == 1) for place, file in enumerate(found))
    n_read = 0
    with _progress(found, show=progress) as advance:
        while looked := _next_logs(looks, None if limit is None else limit - n_read):
            for group in _groups(looked):
                taken = []
                for one in group:
                    row, new = _take(one, newer_formats, strict=strict)
                    if row is not None:
                        taken.append((one, row, new))
                        n_read += row.skipped is None
                    advance(one.file.stat.st_size)
                for one, row, new in _without_copies(copies, taken, last=len(found) == 1):
                    yield one.place, *(_with_prices(row, new) if prices else (row, new))


def _listed(paths: object) -> list[str | Path]:
    """The paths that were given; a `TypeError` if something else is among them."""
    given = _given(paths)
    for item in given:
        if not isinstance(item, str | Path):
            msg = f"expected a path or paths, not {type(item).__name__}; bl.load_runs takes messages in memory"
            raise TypeError(msg)
    return cast("list[str | Path]", given)


def _next_logs(looks: Iterator[_Looked], limit: int | None) -> list[_Looked]:
    """The next files, of which at most so many have a reader; by default all."""
    looked: list[_Looked] = []
    n_logs = 0
    while limit is None or n_logs < limit:
        one = next(looks, None)
        if one is None:
            break
        looked.append(one)
        n_logs += one.reader is not None
    return looked


def _groups(looked: Sequence[_Looked]) -> Iterator[list[_Looked]]:
    """The files in groups that may hold the same runs; last those that boolab wrote, the latest first."""
    logs = [one for one in looked if not one.written]
    for group in grouped([one.keys for one in logs]):
        yield [logs[place] for place in group]
    written = [one for one in looked if one.written]
    yield from ([one] for one in sorted(written, key=lambda one: (-one.file.stat.st_mtime_ns, one.place)))


def _without_copies(
    copies: Copies, taken: Sequence[tuple[_Looked, FileRow, Sequence[Run]]], *, last: bool
) -> Iterator[tuple[_Looked, FileRow, list[Run]]]:
    """The rows and the runs of a group of files, each run once, with warnings about copies."""
    every = [Found(run, row.path, one.written) for one, row, new in taken for run in new]
    try:
        settled, notes = copies.settle(every, last=last)
    except Exception as error:  # noqa: BLE001 - logs are untrusted: none of these runs is lost, and others follow
        for one, row, new in taken:
            why = _warn(f"{row.path}: copies of its runs cannot be looked for ({type(error).__name__}: {error})")
            yield one, row._replace(warnings=(*row.warnings, why)), [*new]
        return
    rest = iter(settled)
    texts: dict[str, list[str]] = {}
    for note in notes:
        texts.setdefault(note.path, []).append(note.text)
    for one, row, new in taken:
        kept = [run for _ in new for run in next(rest)]
        warned = [_warn(f"{row.path}: {text}") for text in texts.get(row.path, ())]
        yield one, row._replace(runs=len(kept), warnings=(*row.warnings, *warned)), kept


def _with_prices(row: FileRow, runs: list[Run]) -> tuple[FileRow, list[Run]]:
    """The runs with costs that their log lacks, at list prices."""
    try:
        return row, prices_of(runs).runs if needs_prices(runs) else runs
    except Exception as error:  # noqa: BLE001 - as above
        why = _warn(f"{row.path}: list prices cannot be computed ({type(error).__name__}: {error})")
        return row._replace(warnings=(*row.warnings, why)), runs


def _content_digest() -> Callable[[str], object]:
    """What digests the bytes of files, unpacked, each once; a file that cannot be read has a digest of its own."""

    @cache
    def digest(path: str) -> object:
        content = blake2b()
        try:
            with unpacked(Path(path)) as file:
                while data := file.read(_DIGESTED):
                    content.update(data)
        except (OSError, RunFormatError):
            return path
        return content.digest()

    return digest


@cache
def readers() -> Mapping[str, Reader]:
    """The readers by the names of their formats: every module of `boolab.logs.readers` that can `sniff`.

    Example:
        >>> "claude_code" in readers()
        True
    """
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [import_module(f"{package.__name__}.{name}") for name in names]
    return {module.NAME: cast("Reader", module) for module in modules if hasattr(module, "sniff")}


def read_file(reader: Reader, path: Path, warn: Warn, damage: Damage | None = None) -> list[Run]:
    """The runs of one file. `warn` is called with each warning; if nothing can be read, that is a `RunFormatError`."""
    damage = Damage(path) if damage is None else damage
    runs = reader.read(path, damage)
    damage.inconsistencies += check_file(runs, damage)
    damage.report(warn, readable=bool(runs))
    return runs


def why_no_log(paths: Paths, since: datetime | None = None, rows: Iterable[FileRow] = ()) -> str:
    """The error where paths lead to no log; `rows` are the files that were skipped.

    Example:
        >>> why_no_log("logs/", rows=[FileRow("logs/a.jsonl.zst", None, 0, 9, 0.0, "packed with Zstandard")])
        'logs/: no log was found: docs/formats.md lists the formats that are read; skipped: packed with Zstandard (1)'
    """
    recent = "" if since is None else " (is --since too recent?)"
    reasons = Counter(row.skipped for row in rows if row.skipped is not None).most_common(MAX_SIMILAR)
    skipped = f"; skipped: {', '.join(f'{why} ({n:,})' for why, n in reasons)}" if reasons else ""
    return f"{path_names(paths)}: no log was found: docs/formats.md lists the formats that are read{recent}{skipped}"


def path_names(paths: Paths) -> str:
    """The paths that were given, in a line: the first of many."""
    given = [paths] if isinstance(paths, str | Path) else paths
    return first_of([str(path) for path in given], MAX_PATHS) or "an empty list of paths"


@cache
def log_suffixes() -> tuple[str, ...]:
    """The ends of the names of files that may be logs."""
    return tuple({suffix for reader in readers().values() for suffix in reader.SUFFIXES})


def log_names(folder: Path, unread: dict[str, str]) -> Iterator[str]:
    """The files of a folder, and of those in it, that may be logs that still grow, by their names.

    `unread` receives the folders that are not searched, each with the reason.
    """
    return (name for name in _under(folder, readers(), unread) if not is_packed(name))


def reader_for(path: Path, format: str | Reader | None = None) -> Reader | None:
    """The reader of a file by its content and its name, as for a file in a folder; None if none fits.

    Returns the reader; None if no reader recognises the file, or it has no content yet.
    """
    known, wanted = _choose(format)
    try:
        return _reader_of(_File(path, path.stat(), named=False, foldered=True), known, wanted)[1]
    except (RunFormatError, DamagedFile):
        return None


def _choose(format: str | Reader | None) -> tuple[Mapping[str, Reader], str | None]:
    """The readers to try, and the name of the format if one was given."""
    known = readers()
    if format is None or (isinstance(format, str) and format in known):
        return known, format
    if isinstance(format, Reader):
        return {format.NAME: format}, format.NAME
    hint = near(format, known, "accepted", every=True)
    msg = f"format {format!r} is not known{hint}, or a reader: an object with {_PARTS}"
    raise SettingError(msg)


class _File(NamedTuple):
    path: Path
    stat: os.stat_result
    named: bool
    foldered: bool
    unread: str = ""
    """Why it is not opened: a folder that cannot be searched, a link, a pipe; empty if it is."""


def _find(
    given: Sequence[str | Path], since: datetime | None, known: Mapping[str, Reader], *, near: bool
) -> list[_File]:
    """The files to read, each once, in order; with `near` also those in folders that only look like logs."""
    after = None if since is None else since.timestamp()
    listed: list[_File] = []
    for item in given:
        for path, named, foldered, unread in _matches(item, known, near=near):
            try:
                stat = path.lstat() if unread else path.stat()
                why = unread or no_file(stat)
            except OSError as error:
                if named:
                    raise RunFormatError(f"cannot be read: {error.strerror}", path=path) from error
                try:
                    stat = path.lstat()
                except OSError:
                    continue  # it was removed meanwhile
                why = _NOWHERE if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
            if why and named:
                raise RunFormatError(why, path=path)
            is_folder = S_ISDIR(stat.st_mode) and not unread  # a glob matches folders, too
            if not is_folder and (why or after is None or stat.st_mtime >= after):
                listed.append(_File(path, stat, named, foldered, why))
    if not listed[1:]:
        return listed
    found: dict[str, _File] = {}
    real = _real_paths()
    for file in listed:
        found.setdefault(str(file.path) if file.unread else real(file.path), file)
    return list(found.values())


def _real_paths() -> Callable[[Path], str]:
    """What follows the links of paths, those of their folders once for each folder."""
    real_folder = cache(os.path.realpath)

    def real(path: Path) -> str:
        folder, name = os.path.split(path)
        return os.path.realpath(path) if path.is_symlink() else os.path.join(real_folder(folder), name)  # noqa: PTH118

    return real


def _matches(item: str | Path, known: Mapping[str, Reader], *, near: bool) -> Iterator[tuple[Path, bool, bool, str]]:
    """The files of a path, a folder, a glob or the atlas: each with whether it was named itself, or is in a folder.

    Folders that are not searched are among them, each with the reason.
    """
    path = user_path(item)
    if path.is_dir():
        unread: dict[str, str] = {}
        for name in _under(path, known, unread, near=near):
            yield Path(name), False, True, ""
        for name, why in unread.items():
            yield Path(name), False, True, why
    elif path.exists():
        yield path, True, False, ""
    elif shipped := atlas_files(str(item)):
        for file in shipped:
            yield file, True, False, ""
    elif not has_magic(str(path)):
        raise RunFormatError(f"no such file or folder{see_doctor(path)}", path=path)
    else:
        found = sorted(matching(path))
        if not found:
            raise RunFormatError(f"no file matches this pattern{see_doctor(path)}", path=path)
        for file in found:
            yield file, False, False, ""


def see_doctor(path: Path) -> str:
    """What to do if a path is where a harness would keep its logs; empty if it is not."""
    roots = (place.partition("*")[0] for places in all_places().values() for place in places)
    inside = any(
        os.path.commonpath([root, path.absolute()]) in (root.rstrip("/"), str(path.absolute()))
        for root in (os.path.expanduser(os.path.expandvars(root)) for root in roots)  # noqa: PTH111 - texts
        if root.startswith("/") and path.absolute() not in (Path.home(), *Path.home().parents)
    )
    return ": boolab doctor lists the logs of this machine" if inside else ""


def all_places() -> Mapping[str, tuple[str, ...]]:
    """Globs of where each known harness keeps its logs, by format; also of those that are not read."""
    return {**UNREAD, **{name: reader.PLACES for name, reader in readers().items() if reader.PLACES}}


def matching(pattern: str | Path) -> Iterator[Path]:
    """What a glob matches, hidden or not. `**` follows no links, because they may form a circle."""
    path = Path(pattern)
    parts = [part if part == "**" else _STARS.sub("*", part) for part in path.parts]
    if parts[-1] == "**":
        parts.append("*")
    start = 1 if path.anchor else 0
    return Path(path.anchor).glob("/".join(parts[start:]))


def _under(folder: Path, known: Mapping[str, Reader], unread: dict[str, str], *, near: bool = False) -> Iterator[str]:
    """The files of a folder, and of those in it, that may be logs by their names.

    `unread` receives the folders that are not searched, each with the reason. A link to a folder that is searched
    anyway is none of them.
    """

    def note(error: OSError) -> None:
        unread[str(error.filename)] = f"the folder cannot be searched: {error.strerror}"

    root = os.path.realpath(folder)
    suffixes = tuple({suffix for reader in known.values() for suffix in reader.SUFFIXES})
    inner = [reader.inner for reader in known.values() if hasattr(reader, "inner")]
    for place, folders, names in os.walk(folder, onerror=note):
        parts = {part for parts_of in inner for part in parts_of(folders)}
        folders[:] = sorted(set(folders) - parts)
        for path in [os.path.join(place, name) for name in folders]:  # noqa: PTH118 - as below
            if os.path.islink(path) and os.path.commonpath([root, os.path.realpath(path)]) != root:  # noqa: PTH114
                unread[path] = _LINK
        for name in sorted(names):
            if unpacked_name(name).endswith(suffixes) or (near and may_be_near_miss(name)):
                yield os.path.join(place, name)  # noqa: PTH118 - thousands of them


class _Looked(NamedTuple):
    """A file after a look at its beginning: its reader, or why it has none; ids and times; whether boolab wrote it."""

    place: int
    file: _File
    reader: Reader | None
    error: Exception | None
    keys: Collection[int]
    written: bool
    seconds: float

    def found(self) -> Reader:
        """The reader; an error if there is none."""
        if self.reader is None:
            raise self.error or RunFormatError(_UNKNOWN, path=self.file.path)
        return self.reader


def _look(place: int, file: _File, known: Mapping[str, Reader], wanted: str | None, *, alone: bool) -> _Looked:
    """Look at the beginning of a file. If it is `alone`, no ids are needed."""
    if file.unread:
        # What a folder holds that is not searched may be logs, so it is a warning; a file that is no log is a row.
        is_folder = file.path.is_dir()
        error = RunFormatError(file.unread, path=file.path) if is_folder else _unrecognised(file.unread, file.path)
        return _Looked(place, file, None, error, (), written=False, seconds=0.0)
    start = time.perf_counter()
    head: Head | None = None
    reader: Reader | None = None
    fault: Exception | None = None
    try:
        if wanted is not None and not file.foldered:
            reader = known[wanted]
            head = None if alone else _sniff(file.path, (), HEAD)[0]
        else:
            head, reader = _reader_of(file, known, wanted)
    except Exception as error:  # noqa: BLE001 - logs are untrusted; `_take` reports it
        fault = error if reader is None else None
    keys: Collection[int] = ()
    written = reader is not None and reader.NAME in _OWN
    try:
        written = written or (reader is not None and head is not None and _is_own(head))
        keys = () if alone or head is None or reader is None else head_keys(head)
    except Exception as error:  # noqa: BLE001 - as above: it is read, and compared with no other
        _warn(f"{file.path}: ids of runs cannot be looked for ({type(error).__name__}: {error})")
    return _Looked(place, file, reader, fault, keys, written, time.perf_counter() - start)


def _is_own(head: Head) -> bool:
    """Whether a file begins with a trajectory that boolab wrote; the end of a long one is not in its head."""
    return is_own(head.first) or _OWN_MARK in head.data


def _take(looked: _Looked, newer_formats: set[str], *, strict: bool) -> tuple[FileRow | None, list[Run]]:
    """Read one file. A fault of it is raised if it is `strict`, else it is a warning. No row if it only goes with logs.

    `newer_formats` are those of which a version newer than the tested one was named already.
    """
    file = looked.file
    path, start = file.path, time.perf_counter()
    damage = Damage(path)
    notes: list[str] = []
    runs: list[Run] = []
    name = skipped = None
    try:
        reader = looked.found()
        name = reader.NAME
        with without_collection():
            runs = read_file(reader, path, lambda message: notes.append(_warn(message)), damage)
        tested = getattr(reader, "TESTED", "")
        version = newer(damage.versions, tested) if name not in newer_formats else ""
        if version:
            newer_formats.add(name)
            damage.inconsistencies.append(Inconsistency("", _NEWER.format(version, name, tested)))
            notes.append(_warn(f"{path}: {damage.inconsistencies[-1]}"))
        runs = [run if run.path == str(path) else replace(run, path=str(path)) for run in runs]
        try:
            runs, undecided = with_outcome(runs, path)
        except Exception as error:  # noqa: BLE001 - as below: the runs are read all the same
            undecided = f"{path}: labels beside it cannot be read ({type(error).__name__}: {error})"
        notes += [_warn(undecided)] if undecided else []
        if not runs and strict:
            notes.append(_warn(f"{path}: no run in it"))
    except _Unrecognised as error:
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
    found = tuple(damage.inconsistencies) if skipped is None else ()
    return FileRow(str(path), name, len(runs), file.stat.st_size, seconds, skipped, tuple(notes), found), runs


def _fault(error: Exception, path: Path, name: str | None) -> RunFormatError:
    if isinstance(error, RunFormatError):
        return error
    why = f"the reader of {name or 'some format'} failed ({type(error).__name__}: {error})"
    if isinstance(error, OSError):
        why = f"cannot be read: {error.strerror}"
    elif isinstance(error, SettingError):
        why = str(error)
    return RunFormatError(why, path=path)


class _Unrecognised(RunFormatError):
    """A file that no reader recognises: why it is skipped, and whether it only goes with logs."""

    why = _UNKNOWN
    companion = False


def _refuse(error: RunFormatError, *, strict: bool) -> None:
    if strict:
        raise RunFormatError(error.message, path=error.path, line=error.line)
    _warn(f"{error}; the file was skipped")


def _warn(message: str) -> str:
    warn(message, ReadWarning)
    return message


def _reader_of(file: _File, known: Mapping[str, Reader], wanted: str | None) -> tuple[Head, Reader]:
    """The beginning of a file, and its reader by its content, then by its name."""
    choice = [known[wanted]] if wanted is not None else list(known.values())
    head, fitting = _sniff(file.path, choice, HEAD)
    if not fitting and len(head.data) == HEAD:
        head, fitting = _sniff(file.path, choice, LONG_HEAD)
    if not head.data:
        msg = "the file is empty"
        raise _unrecognised(msg, file.path)
    if len(fitting) != 1:
        name = os.path.normcase(file.path.with_name(unpacked_name(file.path.name)).absolute())
        named = [reader for reader in fitting or choice if _at_home(name, reader)]
        fitting = named if len(named) == 1 and head.data.strip() else fitting
    if len(fitting) == 1:
        return head, fitting[0]
    if fitting:
        names = " and ".join(reader.NAME for reader in fitting)
        raise RunFormatError(f"it looks like {names}; choose one with format=", path=file.path, line=1)
    if wanted is None and is_companion(str(file.path), head):
        raise _unrecognised(_COMPANION, file.path, companion=True)
    if wanted is None and (why := near_miss_by_name(str(file.path)) or near_miss_by_content(head)):
        raise _unrecognised(why, file.path)
    if file.path.name.lower().endswith(TABLES):
        raise _unrecognised(_TABLE, file.path)
    msg = f"not a log of a known format ({', '.join(reader.NAME for reader in choice)}){_similar(head, choice)}"
    raise _Unrecognised(msg, path=file.path, line=1)


def _unrecognised(why: str, path: Path, *, companion: bool = False) -> _Unrecognised:
    error = _Unrecognised(why, path=path, line=1)
    error.why, error.companion = why, companion
    return error


def _sniff(path: Path, choice: Sequence[Reader], size: int) -> tuple[Head, list[Reader]]:
    """The beginning of a file, of so many bytes, and the readers that recognise it."""
    with unpacked(path) as opened:
        head = Head(_first_bytes(opened, size), path)
    return head, [reader for reader in choice if head.data and reader.sniff(head)]


def _similar(head: Head, choice: Sequence[Reader]) -> str:
    """What the formats look like that name keys of the file's first object, those with most of them first."""
    keys = [f'"{key}"' for key in head.first]
    shared = {reader.NAME: sum(key in reader.LOOKED_FOR for key in keys) for reader in choice}
    best = sorted((reader for reader in choice if shared[reader.NAME]), key=lambda reader: -shared[reader.NAME])
    shown = [f"{reader.NAME} is {reader.LOOKED_FOR}" for reader in best[:MAX_SIMILAR]]
    return f"; similar: {'; '.join(shown)}" if shown else ""


def _first_bytes(file: BufferedReader, size: int) -> bytes:
    """The first bytes of a file; of a damaged one those before the damage, if there are any."""
    data = b""
    try:
        while len(data) < size and (more := file.read1(size - len(data))):
            data += more
    except DamagedFile:
        if not data:
            raise
    return data


def _at_home(name: str, reader: Reader) -> bool:
    return any(
        part in name and fnmatch(name, os.path.expandvars(place).replace("~", "*", 1))
        for part, place in _parts_of(tuple(reader.PLACES))
    )


@cache
def _parts_of(places: tuple[str, ...]) -> list[tuple[str, str]]:
    """For each place a part of the path of all that is there, by which most places are quickly excluded."""
    return [(os.path.normcase(max(_VARIABLE.split(place.partition("[")[0]), key=len)), place) for place in places]


@contextmanager
def _progress(files: Sequence[_File], *, show: bool) -> Iterator[Callable[[int], object]]:
    """A progress bar over bytes, shown only for large inputs and on a terminal: yields what moves it on."""
    total = sum(file.stat.st_size for file in files)
    if not show or total <= _QUIET:
        yield lambda _: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, unit="B", unit_scale=True, desc="reading", delay=2, disable=None) as bar:
        yield bar.update
