"""Finds the files of logs in folders and by globs, and the reader of each by its beginning."""

# ruff: noqa: A002, N802 - `format` is the name of users' option, and a reader's names are constants of a module
from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatch
from functools import cache, partial
from glob import has_magic
from hashlib import blake2b
from importlib import import_module
from io import BufferedReader
from itertools import chain
from pathlib import Path
from stat import S_ISDIR
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import boolab.logs.readers as package
from boolab.core.run import Run
from boolab.errors import RunFormatError, SettingError, near, program
from boolab.io.files import describe_non_file, user_path
from boolab.io.folders import match_paths, note_unsearched
from boolab.io.json_input import Damage
from boolab.io.packed import DamagedFile, is_packed, open_unpacked, unpacked_name
from boolab.logs.fields import Head
from boolab.logs.from_table import TABLES
from boolab.logs.near_misses import UNREAD, is_companion, may_be_near_miss, near_miss_by_content, near_miss_by_name
from boolab.logs.readers import SIGNS
from boolab.logs.shipped import atlas_files

SourceScope: TypeAlias = Literal["turn", "run"]
"""The scope in which the harness of a source counts its limits, the `SCOPE` of its reader.

Steps and calls count anew from each message of the user on (`turn`, as `--max-turns` in an interactive agent), or
through the whole run (`run`, as in benchmarks, where a simulated user's messages are part of one task).
"""

DEFAULT_SCOPE: Final[SourceScope] = "turn"
"""The scope of boolab's own runs, and of sources whose harness is not known."""

HEAD: Final = 65_536
"""How many bytes at the beginning of a file its format is detected from."""

LONG_HEAD: Final = 4 * 2**20
"""The same, if no reader recognises the file by fewer: its first record may be long."""

MAX_SIMILAR: Final = 2
"""So many formats are described in the error about a file of none."""


_DIGESTED: Final = 2**20
"""How many bytes of a file are digested at once."""
UNKNOWN: Final = "no reader recognises it"
_COMPANION: Final = "a file that is written beside logs, and holds no run: give the logs, or their folder"
_TABLE: Final = "a table and no log: bl.runs_from_table makes runs of it, if you name its columns"
_NOWHERE: Final = "a link that leads nowhere"
_LINK: Final = "a link to a folder, which is not followed: name that folder to read it"
_PARTS: Final = "NAME, SUFFIXES, PLACES, LOOKED_FOR, sniff(head) and read(path, damage)"
_VARIABLE: Final = re.compile(r"[*?~%]|\$\{?\w*\}?")
"""What stands for other text in a place."""


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


@cache
def readers() -> Mapping[str, Reader]:
    """The readers by the names of their formats: every module of `boolab.logs.readers` that can `sniff`."""
    modules = [module for name in _module_names() if (module := _reader(name)) is not None]
    return {module.NAME: module for module in sorted(modules, key=lambda module: module.NAME)}


@cache
def _module_names() -> tuple[str, ...]:
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in names if not name.startswith("_")))


@cache
def _reader(name: str) -> Reader | None:
    """The reader in a module of this name; None if it is one that readers share."""
    module = import_module(f"{package.__name__}.{name}")
    return cast("Reader", module) if hasattr(module, "sniff") else None


def scope_of(source: str | None) -> SourceScope:
    """`run` if the limits of a source's harness hold for the whole run, `turn` if they start anew in each turn."""
    reader = readers().get(source) if isinstance(source, str) else None
    return cast("SourceScope", getattr(reader, "SCOPE", DEFAULT_SCOPE))


@cache
def log_suffixes() -> tuple[str, ...]:
    """The ends of the names of files that may be logs."""
    return tuple({*chain.from_iterable(reader.SUFFIXES for reader in readers().values())})


def log_names(folder: Path, unread: dict[str, str]) -> Iterator[str]:
    """The files of a folder, and of those in it, that may still grow; `unread` gets what is not searched."""
    return (name for name in _walk_logs(folder, None, unread) if not is_packed(name))


def reader_for(path: Path, format: str | Reader | None = None) -> Reader | None:
    """The reader of a file by its content and its name; None if none fits, or it has no content yet."""
    chosen_reader = choose_reader(format)
    try:
        return reader_of(LogCandidate(path, path.stat(), named=False, foldered=True), chosen_reader)[1]
    except (RunFormatError, DamagedFile):
        return None


def choose_reader(format: str | Reader | None) -> Reader | None:
    """The one reader to try, by its name or as it is; None if all are tried."""
    if format is None:
        return None
    if isinstance(format, str) and format in readers():
        return readers()[format]
    if isinstance(format, Reader):
        return format
    hint = near(format, readers(), "accepted", every=True)
    raise SettingError(f"format {format!r} is not known{hint}, or a reader: an object with {_PARTS}")


class LogCandidate(NamedTuple):
    """A file that may be a log: whether it was named itself, or is in a folder."""

    path: Path
    stat: os.stat_result
    named: bool
    foldered: bool
    unread: str = ""
    """Why it is not opened: a folder that cannot be searched, a link, a pipe; empty if it is."""


def find_files(
    paths: Sequence[str | Path], since: datetime | None, reader: Reader | None = None, *, near: bool
) -> list[LogCandidate]:
    """The files to read, each once, in order; with `near` also those in folders that only look like logs."""
    after = None if since is None else since.timestamp()
    files: list[LogCandidate] = []
    for item in paths:
        for path, is_named, foldered, unread in _matches(item, reader, near=near):
            try:
                stat = path.lstat() if unread else path.stat()
                reason = unread or describe_non_file(stat)
            except OSError as error:
                if is_named:
                    raise RunFormatError(f"cannot be read: {error.strerror}", path=path) from error
                try:
                    stat = path.lstat()
                except OSError:
                    continue  # it was removed meanwhile
                reason = _NOWHERE if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
            if reason and is_named:
                raise RunFormatError(reason, path=path)
            is_folder = S_ISDIR(stat.st_mode) and not unread  # a glob matches folders, too
            if not is_folder and (reason or after is None or stat.st_mtime >= after):
                files.append(LogCandidate(path, stat, is_named, foldered, reason))
    if not files[1:]:
        return files
    by_path: dict[str, LogCandidate] = {}
    real = _real_paths()
    for file in files:
        by_path.setdefault(str(file.path) if file.unread else real(file.path), file)
    return list(by_path.values())


def _real_paths() -> Callable[[Path], str]:
    """What follows the links of paths, those of their folders once for each folder."""
    real_folder = cache(os.path.realpath)

    def resolve(path: Path) -> str:
        folder, name = os.path.split(path)
        return os.path.realpath(path) if path.is_symlink() else os.path.join(real_folder(folder), name)  # noqa: PTH118

    return resolve


def _matches(item: str | Path, reader: Reader | None, *, near: bool) -> Iterator[tuple[Path, bool, bool, str]]:
    """The files of a path, a folder, a glob or the atlas: each with whether it was named itself."""
    path = user_path(item)
    if path.is_dir():
        unread: dict[str, str] = {}
        for name in _walk_logs(path, reader, unread, near=near):
            yield Path(name), False, True, ""
        for name, reason in unread.items():
            yield Path(name), False, True, reason
    elif path.exists():
        yield path, True, False, ""
    elif shipped := atlas_files(str(item)):
        for file in shipped:
            yield file, True, False, ""
    elif not has_magic(str(path)):
        raise RunFormatError(f"no such file or folder{see_doctor(path)}", path=path)
    else:
        yield from _expand_glob(path)


def _expand_glob(path: Path) -> Iterator[tuple[Path, bool, bool, str]]:
    unread: dict[str, str] = {}
    files = sorted(match_paths(path, unread))
    if not files and not unread:
        raise RunFormatError(f"no file matches this pattern{see_doctor(path)}", path=path)
    for file in files:
        yield file, False, False, ""
    for folder, reason in unread.items():
        yield Path(folder), False, False, reason


def see_doctor(path: Path) -> str:
    """What to do if a path is where a harness would keep its logs; empty if it is not."""
    roots = (glob.partition("*")[0] for glob in chain.from_iterable(all_places().values()))
    is_inside = any(
        os.path.commonpath([root, path.absolute()]) in (root.rstrip("/"), str(path.absolute()))
        for root in (os.path.expanduser(os.path.expandvars(root)) for root in roots)  # noqa: PTH111 - texts
        if root.startswith("/") and path.absolute() not in (Path.home(), *Path.home().parents)
    )
    return f": {program()} doctor lists the logs of this machine" if is_inside else ""


def all_places() -> Mapping[str, tuple[str, ...]]:
    """Globs of where each known harness keeps its logs, by format; also of those that are not read."""
    return {**UNREAD, **{name: reader.PLACES for name, reader in readers().items() if reader.PLACES}}


def _walk_logs(folder: Path, reader: Reader | None, unread: dict[str, str], *, near: bool = False) -> Iterator[str]:
    """The files of a folder, and of those in it, that may be logs by name; `unread` gets what is not searched."""
    root = os.path.realpath(folder)
    suffixes = log_suffixes() if reader is None else tuple(reader.SUFFIXES)
    inner = [item.inner for item in (readers().values() if reader is None else [reader]) if hasattr(item, "inner")]
    for directory, folders, names in os.walk(folder, onerror=partial(note_unsearched, unread)):
        parts = {*chain.from_iterable(parts_of(folders) for parts_of in inner)}
        folders[:] = sorted(set(folders) - parts)
        for path in [os.path.join(directory, name) for name in folders]:  # noqa: PTH118 - as below
            if os.path.islink(path) and os.path.commonpath([root, os.path.realpath(path)]) != root:  # noqa: PTH114
                unread[path] = _LINK
        for name in sorted(names):
            if unpacked_name(name).endswith(suffixes) or (near and may_be_near_miss(name)):
                yield os.path.join(directory, name)  # noqa: PTH118 - thousands of them


class Unrecognised(RunFormatError):
    """A file that no reader recognises: why it is skipped, and whether it only goes with logs."""

    why = UNKNOWN
    companion = False


def reader_of(file: LogCandidate, chosen_reader: Reader | None) -> tuple[Head, Reader]:
    """The beginning of a file, and its reader by its content, then by its name."""
    head = head_of(file.path)
    fitting = recognise(head, chosen_reader)
    if not fitting and len(head.data) == HEAD:
        head = head_of(file.path, LONG_HEAD)
        fitting = recognise(head, chosen_reader)
    if not head.data:
        msg = "the file is empty"
        raise unrecognised_error(msg, file.path)
    if len(fitting) == 1:
        return head, fitting[0]
    choice = [*readers().values()] if chosen_reader is None else [chosen_reader]
    name = os.path.normcase(file.path.with_name(unpacked_name(file.path.name)).absolute())
    home_readers = [reader for reader in fitting or choice if _is_at_home(name, reader)]
    if len(home_readers) == 1 and head.data.strip():
        return head, home_readers[0]
    if fitting:
        names = " and ".join(reader.NAME for reader in fitting)
        raise RunFormatError(f"it looks like {names}; choose one with format=", path=file.path, line=1)
    if chosen_reader is None and is_companion(str(file.path), head):
        raise unrecognised_error(_COMPANION, file.path, companion=True)
    if chosen_reader is None and (reason := near_miss_by_name(str(file.path)) or near_miss_by_content(head)):
        raise unrecognised_error(reason, file.path)
    if file.path.name.lower().endswith(TABLES):
        raise unrecognised_error(_TABLE, file.path)
    msg = f"not a log of a known format ({', '.join(reader.NAME for reader in choice)}){_similar_formats(head, choice)}"
    raise Unrecognised(msg, path=file.path, line=1)


def unrecognised_error(reason: str, path: Path, *, companion: bool = False) -> Unrecognised:
    """The error about a file that is skipped for this reason."""
    error = Unrecognised(reason, path=path, line=1)
    error.why, error.companion = reason, companion
    return error


def head_of(path: Path, size: int = HEAD) -> Head:
    """The beginning of a file, of so many bytes."""
    with open_unpacked(path) as file:
        return Head(_first_bytes(file, size), path)


def recognise(head: Head, chosen_reader: Reader | None = None) -> list[Reader]:
    """The readers that recognise a file. Only those are loaded that its signs do not rule out."""
    if not head.data:
        return []
    if chosen_reader is not None:
        return [chosen_reader] if chosen_reader.sniff(head) else []
    names = [name for name in _module_names() if name not in SIGNS or not head.signs.isdisjoint(SIGNS[name])]
    return [reader for name in names if (reader := _reader(name)) is not None and reader.sniff(head)]


def content_digest() -> Callable[[str], object]:
    """What digests the bytes of files, unpacked, each once; a file that cannot be read has a digest of its own."""

    @cache
    def digest(path: str) -> object:
        content = blake2b()
        try:
            with open_unpacked(Path(path)) as file:
                while data := file.read(_DIGESTED):
                    content.update(data)
        except (OSError, RunFormatError):
            return path
        return content.digest()

    return digest


def _similar_formats(head: Head, choice: Sequence[Reader]) -> str:
    """What the formats look like that name keys of the file's first object, those with most of them first."""
    keys = [f'"{key}"' for key in head.first]
    shared = {reader.NAME: sum(key in reader.LOOKED_FOR for key in keys) for reader in choice}
    best = sorted((reader for reader in choice if shared[reader.NAME]), key=lambda reader: -shared[reader.NAME])
    descriptions = [f"{reader.NAME} is {reader.LOOKED_FOR}" for reader in best[:MAX_SIMILAR]]
    return f"; similar: {'; '.join(descriptions)}" if descriptions else ""


def _first_bytes(file: BufferedReader, size: int) -> bytes:
    """The first bytes of a file; of a damaged one those before the damage, if there are any."""
    data = b""
    try:
        while len(data) < size and (chunk := file.read1(size - len(data))):
            data += chunk
    except DamagedFile:
        if not data:
            raise
    return data


def _is_at_home(name: str, reader: Reader) -> bool:
    return any(
        part in name and fnmatch(name, os.path.expandvars(glob).replace("~", "*", 1))
        for part, glob in _parts_of(tuple(reader.PLACES))
    )


@cache
def _parts_of(globs: tuple[str, ...]) -> list[tuple[str, str]]:
    """For each place a part of the path of all that is there, by which most places are quickly excluded."""
    return [(os.path.normcase(max(_VARIABLE.split(glob.partition("[")[0]), key=len)), glob) for glob in globs]
