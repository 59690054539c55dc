"""Databases of other programs are read as they are at one moment, and neither written nor locked."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import boolab.io.foreign_database as module
from boolab.errors import RunFormatError
from boolab.io.foreign_database import Database, read_database, tables_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "owner"
    folder.mkdir()
    return folder / "a.db"


_OWNER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
for line in sys.stdin:
    connection.execute(line).fetchall()
    print("done", flush=True)
"""


class Owner:
    """A program that writes a database: another process, because those of one share what they have locked."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _OWNER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def execute(self, statement: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n", statement

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def owner(path: Path) -> Iterator[Owner]:
    """The program that writes the database, with a write-ahead log that is never moved into the file."""
    with closing(Owner(path)) as program:
        program.execute("PRAGMA journal_mode = WAL")
        program.execute("PRAGMA wal_autocheckpoint = 0")
        program.execute("CREATE TABLE t (n INTEGER, words TEXT)")
        program.execute("INSERT INTO t VALUES (1, 'a')")
        yield program


def numbers(database: Database) -> list[object]:
    return [row["n"] for row in database.rows("t", ("n",), ("n",))]


def files(path: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in path.parent.iterdir()}


def test_rows_in_the_log_of_a_writer_at_work_are_read(path: Path, owner: Owner) -> None:
    before = files(path)
    assert before.keys() == {"a.db", "a.db-wal", "a.db-shm"}
    assert read_database(path, numbers) == [1]
    owner.execute("INSERT INTO t VALUES (2, 'b')")
    before = files(path)
    assert read_database(path, numbers) == [1, 2]
    assert files(path) == before


def test_a_writer_is_not_locked_while_it_is_read(path: Path, owner: Owner) -> None:
    owner.execute("INSERT INTO t VALUES (2, 'b')")

    def read(database: Database) -> list[object]:
        rows = database.rows("t", ("n",), ("n",))
        first = next(rows)["n"]
        for number in range(3, 60):
            owner.execute(f"INSERT INTO t VALUES ({number}, hex(zeroblob(250)))")  # noqa: S608 - a number
        owner.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return [first, *(row["n"] for row in rows)]

    assert read_database(path, read) == [1, 2]
    assert len(read_database(path, numbers)) == 59


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_database_that_changes_while_it_is_read_is_read_again(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("CREATE TABLE t (n INTEGER)")
        attempts: list[int] = []

        def read(database: Database) -> list[object]:
            attempts.append(len(attempts))
            found = numbers(database)
            if len(attempts) == 1:
                connection.execute(f"PRAGMA journal_mode = {mode}")
                connection.execute("INSERT INTO t VALUES (1)")
            return found

        assert read_database(path, read) == [1]
        assert len(attempts) == 2


def test_a_database_that_never_holds_still_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")

        def read(_: Database) -> None:
            connection.execute("INSERT INTO t VALUES (1)")
            os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))

        with pytest.raises(RunFormatError, match="changed each time while it was read: try again"):
            read_database(path, read)


@pytest.mark.parametrize("kept", [("-wal",), ("-wal", "-shm"), ()])
def test_what_a_killed_writer_left_is_read(path: Path, owner: Owner, tmp_path: Path, kept: tuple[str, ...]) -> None:
    owner.execute("INSERT INTO t VALUES (2, 'b')")
    owner.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    owner.execute("INSERT INTO t VALUES (3, 'c')")
    left = tmp_path / "left" / "a.db"
    left.parent.mkdir()
    for ending in ("", *kept):
        shutil.copyfile(f"{path}{ending}", f"{left}{ending}")
    before = files(left)
    assert read_database(left, numbers) == ([1, 2, 3] if kept else [1, 2])
    assert files(left) == before


def test_the_journal_of_a_killed_writer_is_rolled_back_in_a_copy(path: Path, tmp_path: Path) -> None:
    left = tmp_path / "left" / "a.db"
    left.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER, words TEXT)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("PRAGMA cache_spill = 1")
        connection.execute("BEGIN")
        for number in range(2, 400):
            connection.execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 900))
        for ending in ("", "-journal"):
            shutil.copyfile(f"{path}{ending}", f"{left}{ending}")
        connection.execute("ROLLBACK")
    before = files(left)
    assert len(before["a.db-journal"])
    assert read_database(left, numbers) == [1]
    assert files(left) == before


def test_a_folder_that_cannot_be_written_is_read(path: Path, owner: Owner) -> None:
    owner.execute("INSERT INTO t VALUES (2, 'b')")
    path.parent.chmod(0o500)
    try:
        assert read_database(path, numbers) == [1, 2]
    finally:
        path.parent.chmod(0o700)


@pytest.mark.usefixtures("owner")
def test_a_copy_without_room_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "left.db"
    for ending in ("", "-wal"):
        shutil.copyfile(f"{path}{ending}", f"{left}{ending}")
    monkeypatch.setattr(module, "MAX_COPY", 10)
    with pytest.raises(RunFormatError, match=r"a copy of both, of [\d,]+ bytes, has no room"):
        read_database(left, numbers)


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_pipe_beside_a_database_is_not_opened(path: Path, ending: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
    os.mkfifo(f"{path}{ending}")
    with pytest.raises(RunFormatError, match="beside it is no file"):
        read_database(path, numbers)


HOSTILE = {
    "a view": "CREATE VIEW t AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
    "a virtual table": "CREATE VIRTUAL TABLE t USING fts4(n)",
    "a computed column": "CREATE TABLE t (m INTEGER, n AS (zeroblob(60000000)))",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_runs_code_is_not_read(path: Path, kind: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(HOSTILE[kind])
        if "column" in kind:
            connection.execute("INSERT INTO t (m) VALUES (1)")
    assert read_database(path, numbers) in ([], [None])
    assert "n" not in tables_of(path).get("t", ())


def test_rows_that_hold_more_than_the_file_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (words TEXT)")
        connection.execute("INSERT INTO t VALUES (?)", ("x" * 20_000,))
    monkeypatch.setattr(module, "_FREE_BYTES", 0)

    def read_often(database: Database) -> None:
        for _ in range(20):
            list(database.rows("t", ("words",)))

    with pytest.raises(RunFormatError, match="its rows hold more than the file"):
        read_database(path, read_often)


def test_reading_that_takes_too_long_is_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(100)])
        connection.execute("COMMIT")
    monkeypatch.setattr(module, "_TICK", 1)
    monkeypatch.setattr(module, "_FREE_INSTRUCTIONS", -1_000_000_000)
    with pytest.raises(RunFormatError, match="far longer to read than its size allows"):
        read_database(path, numbers)


@pytest.mark.parametrize("content", [b"SQLite format 3\x00", b"SQLite format 3\x00" + b"\xff" * 5000, b"x", b""])
def test_a_file_that_is_damaged_has_no_tables(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    assert tables_of(path) == {}


@pytest.mark.usefixtures("owner")
def test_a_missing_column_is_unknown(path: Path) -> None:
    def read(database: Database) -> list[object]:
        assert database.has("t", "n")
        assert not database.has("t", "other")
        return [*database.rows("t", ("n", "other")), *database.rows("t", ("n",), other=1), *database.rows("u", ("n",))]

    assert read_database(path, read) == [{"n": 1, "other": None}]
