"""Opens the file of a store to read or to write, locks it for its writer, and explains errors of SQLite."""

from __future__ import annotations

import functools
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Final
from urllib.parse import quote

from filelock import FileLock, Timeout

from boolab.errors import SettingError, StoreError
from boolab.io.files import open_file, read_file, user_path
from boolab.store.schema import APPLICATION_ID, VERSION, is_empty, is_store, migrate, version_of

PAGE_BYTES: Final = 8192
"""The size of a new file's pages. Results of 2 kB take 2.7 kB each; with SQLite's default, 4,096, 4.2 kB."""

_MAGIC: Final = b"SQLite format 3\x00"
_SIDE_FILES: Final = ("wal", "shm", "journal")
"""What SQLite has beside a file. To open a pipe there blocks."""
_HEADER_BYTES: Final = 100
_MARK: Final = slice(68, 72)
_STATEMENTS: Final = "SELECT name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
_NOT_A_TABLE: Final = """
    SELECT type, name FROM sqlite_master
    WHERE type IN ('view', 'trigger') OR (type = 'table' AND sql LIKE 'CREATE VIRTUAL%') LIMIT 1
"""
"""Objects that run code when they are read or written, possibly without end. No store has any.

See "Defense Against The Dark Arts" in SQLite's documentation.
"""
WAIT_S: Final = 2.0
"""How long to wait for another program that has locked the file, or for another writer, in seconds."""


def looks_like_store(head: bytes) -> bool:
    """Whether a file that begins like this is marked as a store."""
    return head.startswith(_MAGIC) and head[_MARK] == APPLICATION_ID.to_bytes(4, "big")


def begins_as_sqlite(path: str | Path) -> bool:
    """Whether a path is that of a SQLite file, which can only be a store."""
    store_path = path_of(path)
    if not store_path.is_file():
        return False
    with explain_errors(store_path), open_file(store_path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open or create a store, and migrate it to the newest version. The caller holds the lock."""
    with explain_errors(path):
        _check_file(path)
        if path.exists() and not os.access(path, os.W_OK):
            msg = "the file is read-only: expected one that can be written"
            raise StoreError(msg, path=path)
        # Absolute, because file:x and :memory: are special names in SQLite.
        connection = sqlite3.connect(path.absolute(), timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        with _close_on_error(connection):
            connection.execute("PRAGMA trusted_schema = OFF")
            _check_schema(connection, path, empty=True)
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new file; an old one keeps its own
            connection.execute("PRAGMA foreign_keys = ON")
            migrate(connection)  # before there is a log, so that the file itself is marked as a store
            _check_statements(connection, path)
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StoreError(f"SQLite can keep no write-ahead log there (journal_mode {mode})", path=path)
    return connection


@contextmanager
def _close_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open an existing store to read. Nothing in it is changed, and its writer is not blocked."""
    with explain_errors(path):
        if not path.exists():
            msg = "there is no such file: expected a store, as sweep(..., store=...) or bl.Store(...) makes it"
            raise StoreError(msg, path=path)
        _check_file(path)
        try:
            connection = _connect_to_read(path, "mode=ro")
        except sqlite3.OperationalError as error:
            # To read a log, SQLite has to create its index beside it, which a read-only folder prevents.
            if not _name_of(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):  # it may only be locked
                raise
            if _has_log(path):
                msg = (
                    f"it cannot be read here ({error}): its writer was killed, and to read the log beside it SQLite "
                    f"needs a folder that it can write to: copy {path.name}, with all files that begin so, to one"
                )
                raise StoreError(msg, path=path) from error
            connection = _connect_to_read(path, "mode=ro&immutable=1")
        with _close_on_error(connection):
            _check_schema(connection, path, empty=False)
            _check_statements(connection, path)
    return connection


@contextmanager
def open_reader(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to read a store. All errors are `StoreError`s."""
    with explain_errors(path), closing(open_to_read(path)) as connection:
        yield connection


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite as `StoreError`s with the path and an explanation."""
    try:
        yield
    except StoreError as error:
        if error.path is None:
            raise StoreError(error.message, path=path) from error.__cause__
        raise
    except sqlite3.Error as error:
        raise StoreError(_meaning(error), path=path) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes the file, and need not be text
        msg = f"it is damaged (SQLite's message about it is not text: {error.object!r:.80})"
        raise StoreError(msg, path=path) from error
    except MemoryError as error:  # SQLite allocates what a file declares
        msg = "it needs more memory than there is: it is damaged, or a value in it is too large"
        raise StoreError(msg, path=path) from error


def _connect_to_read(path: Path, options: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path.absolute()))}?{options}"  # a name need not be text
    connection = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
    with _close_on_error(connection):
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def path_of(path: str | Path) -> Path:
    """The path of a store, with `~` expanded; a `StoreError` if no file can have that name."""
    try:
        return user_path(path)
    except SettingError as error:
        raise StoreError(str(error)) from error


def check_location(path: Path) -> None:
    """Raise `StoreError` if there can be no file at that path."""
    if path.is_dir():
        msg = "it is a folder: expected a file such as runs.db"
        raise StoreError(msg, path=path)
    if path.exists() and not path.is_file():  # opening a pipe blocks until it has a writer
        msg = "a pipe or a device, not a file"
        raise StoreError(msg, path=path)
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder {path.parent}", path=path)


def _check_file(path: Path) -> None:
    """Raise `StoreError` if the file cannot be a whole store, from its first bytes and its size."""
    check_location(path)
    real = os.path.realpath(path)  # a link has no log of its own
    for kind in _SIDE_FILES:
        with suppress(FileNotFoundError):
            if not S_ISREG(os.lstat(f"{real}-{kind}").st_mode):
                raise StoreError(f"{path.name}-{kind} beside it is no file: expected SQLite's, or none", path=path)
    if not path.exists():
        return
    try:
        with open_file(path) as file:
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
    stated_size, size = pages * (65536 if page == 1 else page), path.stat().st_size
    # The size is read again, because meanwhile a writer may have moved its log into the file and removed the log.
    if size < stated_size and not _has_log(path) and path.stat().st_size < stated_size:
        raise StoreError(f"it is damaged: {size:,} bytes of {stated_size:,}, the rest was cut off", path=path)


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
    foreign = connection.execute(_NOT_A_TABLE).fetchone()
    if foreign is not None:
        raise StoreError(f"it is no store of boolab's making: it holds the {foreign[0]} {foreign[1]!r}", path=path)
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
    """Raise `StoreError` unless boolab's tables and indices were made by its own statements.

    Others may have checks, computed columns or indices of expressions, which run when a row is written and may take
    gigabytes. Tables of other programs do no harm.
    """
    own_statements = _new_statements()
    tables = {table for _, table in own_statements}
    file_statements = {
        (name, table): statement for name, table, statement in connection.execute(_STATEMENTS) if table in tables
    }
    for name, table in [*own_statements, *file_statements]:
        if own_statements.get((name, table)) != file_statements.get((name, table)):
            kind = "table" if name == table else "index"
            raise StoreError(f"its {kind} {name!r:.80} is not as boolab makes it", path=path)


@functools.cache
def _new_statements() -> dict[tuple[str, str], str]:
    """The statements of a new store, by the name of what they make and its table."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        migrate(memory)
        return {(name, table): statement for name, table, statement in memory.execute(_STATEMENTS)}


def _meaning(error: sqlite3.Error) -> str:
    name = _name_of(error)
    if name.startswith("SQLITE_NOTADB"):
        return f"it is no store: not a SQLite file ({error})"
    if name.startswith("SQLITE_CORRUPT"):
        return f"it is damaged ({error}); what can be saved of it: sqlite3 FILE .recover"
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return f"it cannot be written or read ({error}: {name}); what was committed before is intact"
    return f"SQLite: {error}"


def _name_of(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "") or ""


def _has_log(path: Path) -> bool:
    """Whether a log is beside the file, with what the file lacks: its writer was killed, or is at work."""
    real = os.path.realpath(path)  # a link has no log of its own
    for kind in ("wal", "journal"):
        with suppress(OSError):
            if Path(f"{real}-{kind}").stat().st_size:
                return True
    return False


POLL_S: Final = 0.05
"""How long to wait between two tries, in seconds."""
_MAX_BYTES: Final = 4096
_LOCK: Final = re.compile(rb"\s*|\d{1,10}(\s.{0,1000})?", re.DOTALL)
"""A lock file holds the writer's process id, or nothing. A lock of `filelock` without `flock` has lines after it."""


def lock_path(path: Path) -> Path:
    """The lock file of a store: the same for all links to it."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.lock")


def lock(path: Path, wait_s: float = WAIT_S, kind: str = "a store") -> FileLock:
    """Become the writer of a store, or of another `kind` of file: returns the lock, after waiting up to `wait_s`."""
    lock_file = lock_path(path)
    _check_lock(lock_file, path)
    file_lock = FileLock(lock_file, thread_local=False)
    try:
        file_lock.acquire(timeout=wait_s, poll_interval=POLL_S)
    except Timeout:
        msg = (
            f"it is being written by {_holder(lock_file)}; {kind} has one writer at a time (and any number of readers)"
        )
        raise StoreError(msg, path=path) from None
    except OSError as error:
        msg = f"it cannot be written: no lock file {lock_file.name} can be made beside it ({error.strerror})"
        raise StoreError(msg, path=path) from error
    with suppress(OSError):  # only for the message of another process
        lock_file.write_text(f"{os.getpid()}\n", encoding="utf-8")
    return file_lock


def _check_lock(lock_file: Path, path: Path) -> None:
    """Raise `StoreError` if what is at the lock file's place is none: to open it may block, to write it may destroy."""
    try:
        mode = lock_file.lstat().st_mode
        content = read_file(lock_file, _MAX_BYTES) if S_ISREG(mode) else b""
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"its lock file {lock_file.name} cannot be read: {error.strerror}", path=path) from error
    if not S_ISREG(mode):
        raise StoreError(
            f"{lock_file.name} beside it is no file: expected none, or a store's lock; remove it", path=path
        )
    if not _LOCK.fullmatch(content):
        raise StoreError(f"{lock_file.name} beside it is no store's lock, and would be overwritten: move it", path=path)


def is_locked(path: Path) -> bool:
    """Whether a store has a writer now. No file is created or changed."""
    lock_file = lock_path(path)
    try:
        import fcntl
    except ModuleNotFoundError:
        return _cannot_be_locked(lock_file)
    try:
        with open_file(lock_file) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _cannot_be_locked(lock_file: Path) -> bool:
    """Whether the lock is held, on systems where a file can only be locked to write."""
    if not lock_file.is_file():
        return False
    probe = FileLock(lock_file, thread_local=False)
    try:
        probe.acquire(blocking=False)
    except (Timeout, OSError):
        return True
    probe.release()
    return False


def _holder(lock_file: Path) -> str:
    try:
        pid = read_file(lock_file, _MAX_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError):
        pid = ""
    if pid == str(os.getpid()):
        return f"this very process (pid {pid})"
    return f"the process {pid}" if pid.isdecimal() else "another process"
