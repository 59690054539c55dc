"""Opens a store's file, to read or to write, and explains what is wrong with it."""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from boolab.errors import StoreError
from boolab.store.schema import APPLICATION_ID, VERSION, is_empty, is_store, migrate, version_of

PAGE_BYTES: Final = 8192
"""The size of a new file's pages. Results of 2 kB take 2.7 kB each in these and 4.2 kB in SQLite's usual 4,096."""

_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
_MARK: Final = slice(68, 72)
_STATEMENTS: Final = "SELECT name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
_NOT_A_TABLE: Final = """
    SELECT type, name FROM sqlite_master
    WHERE type IN ('view', 'trigger') OR (type = 'table' AND sql LIKE 'CREATE VIRTUAL%') LIMIT 1
"""
"""Objects that compute something when they are read or written, possibly without end; no store has any.

See "Defense Against The Dark Arts" in SQLite's documentation, on files from others.
"""
WAIT_S: Final = 2.0
"""How long to wait for another program that has locked the file, in seconds."""


def looks_like_store(head: bytes) -> bool:
    """Whether a file that begins like this is marked as a store."""
    return head.startswith(_MAGIC) and head[_MARK] == APPLICATION_ID.to_bytes(4, "big")


def begins_as_sqlite(path: str | Path) -> bool:
    """Whether a path is that of a SQLite file, so that it can be meant as a store and as nothing else."""
    place = path_of(path)
    if not place.is_file():
        return False
    with explained(place), place.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open a store, or make one, and bring its schema to the newest version. The caller holds the lock.

    Raises:
        StoreError: if it is no store, damaged or newer, or cannot be written.
    """
    with explained(path):
        _check_file(path)
        if path.exists() and not os.access(path, os.W_OK):
            msg = "the file is read-only: expected one that can be written"
            raise StoreError(msg, path=path)
        # SQLite gives the relative names file:x and :memory: a meaning of its own.
        connection = sqlite3.connect(path.absolute(), timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            _check_schema(connection, path, empty=True)
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new file; an old one keeps its own
            connection.execute("PRAGMA foreign_keys = ON")
            migrate(connection)  # before there is a log, so that the file itself has the mark of a store
            _check_statements(connection, path)
            _keep_log(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _keep_log(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(f"SQLite can keep no write-ahead log there (journal_mode {mode})", path=path)


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open an existing store to read. Nothing in it is changed, and its writer is not disturbed.

    Raises:
        StoreError: if there is none, it is no store, or it is damaged or of another version.
    """
    with explained(path):
        if not path.exists():
            msg = "there is no such file: expected a store, as sweep(..., store=...) or bl.Store(...) makes it"
            raise StoreError(msg, path=path)
        _check_file(path)
        try:
            connection = _connect_to_read(path, "mode=ro")
        except sqlite3.OperationalError as error:
            # No index of the log can be made in a folder that is read-only. Without a log, none is needed.
            if not _is_closed_to_us(error):
                raise
            if _has_log(path):
                msg = (
                    f"it cannot be read here ({error}): its writer was killed, and to read the log beside it SQLite "
                    f"needs a folder that it can write to: copy {path.name}, with all files that begin so, to one"
                )
                raise StoreError(msg, path=path) from error
            connection = _connect_to_read(path, "mode=ro&immutable=1")
        try:
            _check_schema(connection, path, empty=False)
            _check_statements(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to read a store. Its errors are `StoreError`s.

    Raises:
        StoreError: if there is none, or it cannot be read.
    """
    with explained(path), closing(open_to_read(path)) as connection:
        yield connection


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors of SQLite as `StoreError`s, with the path and their meaning."""
    try:
        yield
    except StoreError as error:
        if error.path is None:
            raise StoreError(error.message, path=path) from error.__cause__
        raise
    except sqlite3.Error as error:
        raise StoreError(_meaning(error), path=path) from error
    except UnicodeDecodeError as error:  # its message quotes the file, and need not be text
        msg = f"it is damaged (SQLite's own words about it are no text: {error.object!r:.80})"
        raise StoreError(msg, path=path) from error
    except MemoryError as error:  # SQLite believes the sizes that a file gives
        msg = "it asks for more memory than there is: it is damaged, or a value in it is too large"
        raise StoreError(msg, path=path) from error


def _connect_to_read(path: Path, how: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path.absolute()))}?{how}"  # a name need not be text
    connection = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def path_of(path: str | Path) -> Path:
    """The path of a store, with `~` expanded.

    Raises:
        StoreError: if no file can be called that.
    """
    try:
        place = Path(path).expanduser()
    except RuntimeError as error:  # there is no such user
        raise StoreError(str(error), path=path) from error
    if "\0" in str(place):
        msg = "a file's name holds no NUL character"
        raise StoreError(msg, path=repr(str(place)))
    return place


def check_place(path: Path) -> None:
    """Raise `StoreError` if there can be no file of that name."""
    if path.is_dir():
        msg = "it is a folder: expected a file such as runs.db"
        raise StoreError(msg, path=path)
    if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
        msg = "a pipe or a device, not a file"
        raise StoreError(msg, path=path)
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder {path.parent}", path=path)


def _check_file(path: Path) -> None:
    """Raise `StoreError` if the file cannot be a whole store, from its first bytes and its size."""
    check_place(path)
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
    except OSError as error:
        raise StoreError(f"it cannot be read: {error.strerror}", path=path) from error
    if not head:
        return
    if not head.startswith(_MAGIC):
        msg = "it is no store: not a SQLite file"
        raise StoreError(msg, path=path)
    page = int.from_bytes(head[16:18], "big")
    pages = int.from_bytes(head[28:32], "big")
    wanted, there = pages * (65536 if page == 1 else page), path.stat().st_size
    # What a writer moves from its log into the file may have come in between, and the log be gone since.
    if there < wanted and not _has_log(path) and path.stat().st_size < wanted:
        raise StoreError(f"it is damaged: {there:,} bytes of {wanted:,}, the rest was cut off", path=path)


def _check_schema(connection: sqlite3.Connection, path: Path, *, empty: bool) -> None:
    if is_empty(connection):
        if empty:
            return
        msg = "it is no store: there is nothing in it"
        raise StoreError(msg, path=path)
    if not is_store(connection):
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 5")]
        raise StoreError(
            f"it is no store: a SQLite file of something else (tables: {', '.join(tables) or 'none'})", path=path
        )
    strange = connection.execute(_NOT_A_TABLE).fetchone()
    if strange is not None:
        raise StoreError(f"it is no store of boolab's making: it holds the {strange[0]} {strange[1]!r}", path=path)
    version = version_of(connection)
    if version < 0:
        raise StoreError(f"its schema is version {version}: expected one from 1 on", path=path)
    if version > VERSION:
        msg = f"its schema is version {version}; this boolab knows {VERSION}: a newer boolab made it, and can read it"
        raise StoreError(msg, path=path)
    if version < VERSION and not empty:
        msg = f"its schema is version {version}, older than {VERSION}: open it to write once: bl.Store(path).close()"
        raise StoreError(msg, path=path)


def _check_statements(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreError` unless boolab's tables, and the indices on them, are made by its own statements.

    Other statements may have checks, computed columns or indices of expressions, which run when a row is written: a
    hidden column can take gigabytes for each row. Tables of other programs beside them do nothing.
    """
    made = _made()
    tables = {table for _, table in made}
    found = {(name, table): statement for name, table, statement in connection.execute(_STATEMENTS) if table in tables}
    for name, table in [*made, *found]:
        if made.get((name, table)) != found.get((name, table)):
            what = "table" if name == table else "index"
            raise StoreError(f"its {what} {name!r:.80} is not as boolab makes it", path=path)


@functools.cache
def _made() -> dict[tuple[str, str], str]:
    """The statements that make a new store, by what they make and the table that it belongs to."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        migrate(memory)
        return {(name, table): statement for name, table, statement in memory.execute(_STATEMENTS)}


def _meaning(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    said = str(error)
    if name.startswith("SQLITE_NOTADB"):
        return f"it is no store: not a SQLite file ({said})"
    if name.startswith("SQLITE_CORRUPT"):
        return f"it is damaged ({said}); what can be saved of it: sqlite3 FILE .recover"
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return f"it cannot be written or read ({said}: {name}); what was committed before is intact"
    return f"SQLite: {said}"


def _is_closed_to_us(error: sqlite3.Error) -> bool:
    """Whether a file cannot be made or written there, and not only locked by another program."""
    return (getattr(error, "sqlite_errorname", "") or "").startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))


def _has_log(path: Path) -> bool:
    """Whether a log is beside the file, with what the file lacks: its writer was killed, or is at work."""
    real = os.path.realpath(path)  # a link has no log of its own
    return any(_size(Path(f"{real}-{kind}")) for kind in ("wal", "journal"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
