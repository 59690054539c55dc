"""Reads SQLite databases of other programs, which may be at work on them: nothing is written and nothing is locked.

SQLite's own read-only mode is not enough. It makes the files `-wal` and `-shm` beside a database, a reader of one
without a write-ahead log blocks its writer, and in a folder that cannot be written it refuses one with a log. So:

- With a log and its index beside it, which is how a program at work leaves them, the log is read, and the index is not
  written (`readonly_shm`). A transaction sees one state, whatever is written meanwhile.
- With a log or a journal alone, which is how a killed program or a copy of the files leaves them, both are copied to a
  temporary folder and read there.
- Else the file alone is read, as one that does not change (`immutable`). If it did change meanwhile, it is read again.

A database is untrusted. Views, virtual tables and computed columns run code when they are read, so they are not read;
and what is read is bounded by the size of the file, because its pages may refer to each other in circles.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from boolab.core.text import clean
from boolab.errors import RunFormatError
from boolab.io.files import open_file
from boolab.io.json_input import MAX_LINE

_Result = TypeVar("_Result")

MAGIC: Final = b"SQLite format 3\x00"
MAX_COPY: Final = 16 * 2**30
"""The largest database that is copied, in bytes."""
_ATTEMPTS: Final = 3
_WAIT_S: Final = 2.0
_TICK: Final = 100_000
"""So many of SQLite's instructions are executed between two checks of how many they may be."""
_FREE_INSTRUCTIONS: Final = 20_000_000
_INSTRUCTIONS_A_BYTE: Final = 20
_FREE_BYTES: Final = 16 * 2**20
_READS_A_BYTE: Final = 4
_PRAGMAS: Final = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "query_only = ON")
_ORDINARY: Final = 0
"""What SQLite has as `hidden` of a column that is stored, and not computed."""


class _Stamp(NamedTuple):
    """What changes when a database is written."""

    size: int
    modified_ns: int
    log: int
    journal: int


class Database:
    """An open database: its tables, and their rows."""

    def __init__(self, connection: sqlite3.Connection, size: int) -> None:
        self._connection = connection
        self._bytes_left = _FREE_BYTES + _READS_A_BYTE * size
        self._ticks_left = (_FREE_INSTRUCTIONS + _INSTRUCTIONS_A_BYTE * size) // _TICK
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE)
        connection.set_progress_handler(self._is_exhausted, _TICK)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        self.tables = {name: self._columns(name) for name in self._table_names()}
        """The tables, each with its columns: only what is stored, and nothing that is computed."""

    def _is_exhausted(self) -> bool:
        self._ticks_left -= 1
        return self._ticks_left < 0

    def _table_names(self) -> list[str]:
        names = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        return [name for (name,) in names if isinstance(name, str) and not name.startswith("sqlite_")]

    def _columns(self, table: str) -> frozenset[str]:
        columns = self._connection.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,))
        return frozenset(name for name, kind in columns if kind == _ORDINARY)

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is a table of this name with these columns."""
        return set(columns) <= self.tables.get(table, frozenset())

    def rows(
        self, table: str, columns: Sequence[str], order: Sequence[str] = (), **where: object
    ) -> Iterator[Mapping[str, Any]]:
        """The rows of a table, of which these columns have these values; None for a column that it does not have."""
        table_columns = self.tables.get(table)
        if table_columns is None or not table_columns.issuperset(where):
            return
        names = [column for column in columns if column in table_columns]
        query = f"SELECT {', '.join(map(_quoted, names)) or 'NULL'} FROM {_quoted(table)}"  # noqa: S608 - names of ours
        if where:
            query += " WHERE " + " AND ".join(f"{_quoted(column)} = ?" for column in where)
        if sorting := [column for column in order if column in table_columns or column == "rowid"]:
            query += " ORDER BY " + ", ".join(map(_quoted, sorting))
        empty = dict.fromkeys(columns)
        for row in self._connection.execute(query, [*where.values()]):
            self._bytes_left -= sum(len(value) for value in row if isinstance(value, str | bytes))
            if self._bytes_left < 0:
                msg = "its rows hold more than the file"
                raise sqlite3.DatabaseError(msg)
            yield {**empty, **dict(zip(names, row, strict=False))}


def _quoted(name: str) -> str:
    return name if name == "rowid" else '"' + name.replace('"', '""') + '"'


def read_database(path: Path, read: Callable[[Database], _Result]) -> _Result:
    """What a function reads of a database. It may be called again, because the database changed meanwhile.

    Raises:
        RunFormatError: if it cannot be opened, is damaged, or never holds still.
    """
    real = Path(os.path.realpath(path))
    for _ in range(_ATTEMPTS):
        try:
            stamp = _stamp(real)
            open_file(real).close()  # SQLite would wait for a pipe that was put in its place
            with ExitStack() as stack:
                connection, is_snapshot = _open(real, stamp, stack)
                result = read(Database(connection, stamp.size + stamp.log))
            if is_snapshot or _stamp(real) == stamp:
                return result
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) or _stamp(real) == stamp:
                raise RunFormatError(_reason(error), path=path, line=1) from error
    msg = "a SQLite database that changed each time while it was read: try again"
    raise RunFormatError(msg, path=path, line=1)


def tables_of(path: Path) -> Mapping[str, frozenset[str]]:
    """The tables of a SQLite database with their columns; none if it cannot be read."""
    try:
        return read_database(path, lambda database: database.tables)
    except (RunFormatError, OSError, ValueError):
        return {}


def _stamp(path: Path) -> _Stamp:
    stat = path.stat()
    return _Stamp(stat.st_size, stat.st_mtime_ns, _size_beside(path, "-wal"), _size_beside(path, "-journal"))


def _size_beside(path: Path, ending: str) -> int:
    """The size of a file that SQLite has beside a database; 0 if there is none."""
    try:
        stat = os.lstat(f"{path}{ending}")
    except FileNotFoundError:
        return 0
    if not S_ISREG(stat.st_mode):  # to open a pipe blocks, and a link has another database's log
        raise RunFormatError(f"{path.name}{ending} beside it is no file: expected SQLite's, or none", path=path, line=1)
    return stat.st_size


def _open(path: Path, stamp: _Stamp, stack: ExitStack) -> tuple[sqlite3.Connection, bool]:
    """A connection to read a database, and whether it reads one state, whatever is written meanwhile."""
    if not stamp.log and not stamp.journal:
        return _connect(path, "mode=ro&immutable=1", stack), False
    if stamp.log and _size_beside(path, "-shm"):
        try:
            return _connect(path, "mode=ro&readonly_shm=1", stack), True
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                raise
    return _connect(_copy(path, stamp, stack), "mode=rw", stack), False


def _connect(path: Path, options: str, stack: ExitStack) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path))}?{options}"  # a name need not be text
    connection = sqlite3.connect(uri, uri=True, timeout=_WAIT_S, isolation_level=None)
    stack.enter_context(closing(connection))
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _copy(path: Path, stamp: _Stamp, stack: ExitStack) -> Path:
    """A copy of a database and of the log beside it, in a folder that is removed at the end."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="boolab-")))
    size = stamp.size + stamp.log + stamp.journal
    if size > min(MAX_COPY, shutil.disk_usage(folder).free // 2):
        msg = f"its writer left a log beside it, and a copy of both, of {size:,} bytes, has no room in {folder.parent}"
        raise RunFormatError(msg, path=path, line=1)
    for ending in ("", "-wal", "-journal"):
        if not ending or _size_beside(path, ending):
            shutil.copyfile(f"{path}{ending}", folder / f"copy.db{ending}", follow_symlinks=False)
    return folder / "copy.db"


def _reason(error: Exception) -> str:
    """Why a database cannot be read, in words."""
    if isinstance(error, OSError):
        return f"a SQLite database that cannot be read: {error.strerror}"
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY"):
        return "a SQLite database that another program has locked: try again"
    if name.startswith("SQLITE_INTERRUPT"):
        return "a SQLite database that takes far longer to read than its size allows: it is damaged"
    return f"a SQLite database that is damaged ({clean(str(error))})"
