"""Stores that cannot be read or written: a StoreError with the path and words, and what was finished is intact."""

import contextlib
import ctypes
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest

import boolab as bl
from boolab.store.connection import explain_errors
from boolab.store.rows import records_of
from boolab.store.select import _rows_of
from tests.support.cases import first
from tests.support.helpers import QUIET, TOOLS, call
from tests.support.sweeping import Frames, Instant, assert_equal, forks, frames, swept, without_times

TALKING = bl.ScriptedModel(
    [{"text": "word " * 50, "tool_calls": [call("look", what="x" * 200), call("fail", what="ä \ud83d")]}, "done"],
    name="talking",
)


def cells(repeats: int = 40) -> dict[str, Any]:
    agent = bl.Agent("a", prompt="You look.", tools=TOOLS, policy=QUIET)
    return {"agents": agent, "tasks": ["x", "y"], "model": TALKING, "repeats": repeats}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is closed and sound; never changed."""
    path = tmp_path_factory.mktemp("sound") / "runs.db"
    swept(**cells(), store=path)
    return path


def read(path: Path) -> object:
    return bl.runs_df(bl.stored_runs(path))


def write(path: Path) -> object:
    with bl.Store(path):
        return None


def resume(path: Path) -> object:
    return swept(**cells(1), store=path)


USES = pytest.mark.parametrize("use", [read, write, resume])


def refused(use: Callable[[Path], object], path: Path, *words: str) -> str:
    """What the StoreError says: the path, and these words."""
    with pytest.raises(bl.errors.StoreError) as caught:
        use(path)
    said = str(caught.value)
    assert str(path) in said
    assert caught.value.path == str(path)
    for word in words:
        assert re.search(word, said, re.IGNORECASE), f"{word!r} is not in {said!r}"
    return said


@USES
@pytest.mark.parametrize(
    "content",
    [b"just a text\n" * 500, b"\x89PNG\r\n\x1a\n" + bytes(4000), b"\0" * 4096, b"x"],
    ids=["text", "png", "zeros", "x"],
)
def test_a_file_that_is_no_store_is_refused_and_stays_as_it_is(
    tmp_path: Path, use: Callable[[Path], object], content: bytes
) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(content)
    refused(use, path, "store")
    assert path.read_bytes() == content


@USES
def test_store_refuses_the_database_of_another_program(tmp_path: Path, use: Callable[[Path], object]) -> None:
    """One that names itself, and one that has tables of the same names without doing so."""
    named = "PRAGMA application_id = 252006675; CREATE TABLE runs (run_id)"
    for n, statements in enumerate([named, "CREATE TABLE runs (run_id); CREATE TABLE steps (n)"]):
        path = tmp_path / f"{n}.db"
        connection = sqlite3.connect(path)
        connection.executescript(statements)
        connection.close()
        content = path.read_bytes()
        refused(use, path, "store")
        assert path.read_bytes() == content


def marked(sound: Path, path: Path, version: int) -> int:
    """Copy a store and mark it as of another version; the one that it was of."""
    shutil.copy(sound, path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (before,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    return int(before)


@USES
def test_a_newer_schema_and_one_below_the_first_are_refused(
    tmp_path: Path, sound: Path, use: Callable[[Path], object]
) -> None:
    path = tmp_path / "runs.db"
    version = marked(sound, path, 87)
    assert version >= 1
    refused(use, path, r"\b87\b", rf"\b{version}\b")
    marked(sound, path, -87)
    refused(use, path, r"version -87")


def test_memory_that_sqlite_does_not_get_is_told_with_the_path(tmp_path: Path) -> None:
    with (
        pytest.raises(bl.errors.StoreError, match=r"runs\.db: it needs more memory than there is"),
        explain_errors(tmp_path / "runs.db"),
    ):
        raise MemoryError


@USES
def test_a_directory_is_refused(tmp_path: Path, use: Callable[[Path], object]) -> None:
    path = tmp_path / "runs.db"
    path.mkdir()
    refused(use, path, "directory|folder")
    assert list(path.iterdir()) == []


def test_reading_what_is_not_there_says_so_and_makes_no_file(tmp_path: Path) -> None:
    refused(read, tmp_path / "typo.db", "no such file|not there|does not exist|there is no")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("use", [write, resume])
def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path: Path, use: Callable[[Path], object]) -> None:
    refused(use, tmp_path / "missing" / "runs.db", "folder|directory")
    assert list(tmp_path.iterdir()) == []


def test_store_accepts_an_empty_file_only_to_write(tmp_path: Path) -> None:
    """It is what is left of a writer that was killed at its very first breath."""
    path = tmp_path / "runs.db"
    path.touch()
    refused(read, path, "empty|store")
    assert path.read_bytes() == b""
    assert len(swept(**cells(1), store=path)) == 2


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9])
def test_a_truncated_store_is_refused(tmp_path: Path, sound: Path, share: float) -> None:
    path = tmp_path / "runs.db"
    content = sound.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    refused(everything, path, "malformed|corrupt|damaged|disk image|truncated")


def everything(path: Path) -> Frames:
    return Frames(bl.runs_df(path), bl.steps_df(path), bl.calls_df(path), bl.events_df(path))


@pytest.mark.parametrize("number", first(1, [24, 60]))
def test_store_reports_random_damage_as_a_store_error(tmp_path: Path, sound: Path, number: int) -> None:
    """Bytes are flipped, pages overwritten, cut out, or swapped: reading, writing and resuming never fall over.

    A flipped byte in the middle of a text cannot be seen (SQLite keeps no checksums), so that some damage reads.
    """
    draw = random.Random(11)  # noqa: S311 - damage, no secret
    content = sound.read_bytes()
    pages = len(content) // 4096
    refusals = 0
    for n in range(number):
        damaged = bytearray(content)
        kind = n % 4
        if kind == 0:
            for _ in range(draw.choice([1, 10, 200])):
                damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        elif kind == 1:
            page = draw.randrange(pages) * 4096
            damaged[page : page + 4096] = draw.randbytes(4096)
        elif kind == 2:
            page = draw.randrange(1, pages) * 4096
            del damaged[page : page + 4096]
        else:
            one, other = (draw.randrange(1, pages) * 4096 for _ in range(2))
            damaged[one : one + 4096], damaged[other : other + 4096] = (
                damaged[other : other + 4096],
                damaged[one : one + 4096],
            )
        for use in (everything, resume):
            path = tmp_path / f"{n}{use.__name__}.db"
            path.write_bytes(damaged)
            try:
                use(path)
            except bl.errors.StoreError as error:
                refusals += 1
                assert str(path) in str(error)  # noqa: PT017
    assert refusals > number / 2


def test_what_is_json_in_a_store_is_refused_if_it_is_damaged(tmp_path: Path, sound: Path) -> None:
    """A text that SQLite holds without complaint, but that is no record."""
    connection = sqlite3.connect(sound)
    columns = [(row[1], row[2]) for row in connection.execute("PRAGMA table_info(runs)")]
    connection.close()
    holding = 0
    for name, _ in columns:
        path = tmp_path / f"{name}.db"
        shutil.copy(sound, path)
        connection = sqlite3.connect(path)
        try:
            connection.execute(f"UPDATE runs SET {name} = '{{broken' WHERE rowid = 2")  # noqa: S608
            connection.commit()
        except sqlite3.Error:
            continue  # a CHECK or a key forbids it
        finally:
            connection.close()
        with contextlib.suppress(bl.errors.StoreError):
            everything(path)
            holding += 1
    assert holding < len(columns), "not one column's damage was noticed"


@pytest.mark.parametrize("use", [read, write])
def test_store_reports_damage_in_a_message_that_is_no_text(
    tmp_path: Path, sound: Path, use: Callable[[Path], object]
) -> None:
    """Found by fuzzing: SQLite quotes the schema, whatever bytes stand there."""
    path = tmp_path / "runs.db"
    path.write_bytes(sound.read_bytes().replace(b"CREATE TABLE steps (", b"CREATE TABLE steps \xff"))
    with pytest.raises(
        bl.errors.StoreError, match=r"it is damaged \(SQLite's message about it is not text: b'malformed"
    ):
        use(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("settings = '{broken'", "the settings of a run cannot be read"),
        ("settings = x'00'", "the settings of a run cannot be read (b'\\x00' is no JSON)"),
        ("base = 99", "its steps are those of a run that is not there"),
        ("base = '1) UNION SELECT (1'", "is no row of another run"),
        ("odd = 1, seed = x'ff'", "a run in it cannot be read"),
        ("duration_ms = x'3938', odd = 1", ""),
        ("odd = 1, duration_ms = x'393939393939393939393939393939393939393939'", "is not a whole number of 64 bits"),
    ],
)
def test_a_row_that_is_damaged_is_a_store_error(tmp_path: Path, sound: Path, change: str, message: str) -> None:
    """Found by fuzzing: SQLite holds anything anywhere, and what is a row's number becomes part of a statement."""
    path = tmp_path / "runs.db"
    shutil.copy(sound, path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE runs SET {change} WHERE id = 2")  # noqa: S608 - above
    if not message:
        assert 98 in [run.duration_ms for run in bl.stored_runs(path)]
        return
    with pytest.raises(bl.errors.StoreError, match=re.escape(message)):
        [bl.stored_runs(path).settings(), *bl.stored_runs(path)]


@pytest.mark.parametrize("latest", ["NULL", "'x'", "-1", "9223372036854775807", "x'00'"])
def test_store_refuses_a_damaged_row_counter(tmp_path: Path, sound: Path, latest: str) -> None:
    """Found by fuzzing: the rows that were ever taken are numbered in a table of SQLite's own."""
    path = tmp_path / "runs.db"
    shutil.copy(sound, path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE sqlite_sequence SET seq = {latest}")  # noqa: S608 - above
    with pytest.raises(bl.errors.StoreError, match="it is damaged: its latest row of runs is"):
        write(path)


def hold(path: str, pipe: Connection) -> None:
    """What a child does that holds a store."""
    with bl.Store(Path(path)):
        pipe.send(os.getpid())
        pipe.recv()


def test_the_lock_of_a_writer_that_was_killed_is_free(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    here, there = forks.Pipe()
    process = forks.Process(target=hold, args=(str(path), there))
    process.start()
    here.recv()
    process.kill()
    process.join()
    assert len(swept(**cells(1), store=path)) == 2


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replaced(path: Path) -> None:
    moved(path)
    path.touch()


@pytest.mark.parametrize("what", [moved, replaced, Path.unlink])
@pytest.mark.parametrize("way", ["add", "put", "step"])
def test_store_notices_a_moved_file_at_the_next_commit(
    tmp_path: Path, what: Callable[[Path], object], way: str
) -> None:
    path = tmp_path / "runs.db"
    run = bl.run_sync(None, "go", model=bl.ScriptedModel(["x"]))
    store = bl.Store(path)
    store.add(replace(run, run_id="before"))
    what(path)
    message = "runs.db: the file was renamed, replaced or deleted while it was being written"
    with pytest.raises(bl.errors.StoreError, match=message) as raised:
        if way == "put":
            store.put(records_of(run))
            store.close()
        elif way == "add":
            store.add(run)
        else:
            store.step(run)
    assert ("1 run that waited was not written" in str(raised.value)) == (way != "step")
    store.close()
    if what is not Path.unlink:
        assert [one.run_id for one in bl.stored_runs(path.with_name("elsewhere.db"))] == ["before"]


def test_a_store_is_the_same_wherever_the_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    with bl.Store("runs.db") as store:
        monkeypatch.chdir(tmp_path / "below")
        store.add(bl.run_sync(None, "go", model=bl.ScriptedModel(["x"])))
    assert len(bl.stored_runs(tmp_path / "runs.db")) == 1


@pytest.mark.slow
def test_a_store_that_another_program_has_locked_is_refused(tmp_path: Path, sound: Path) -> None:
    """Such as a database browser in the middle of an edit."""
    path = tmp_path / "runs.db"
    shutil.copy(sound, path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    refused(lambda path: swept(**cells(41), store=path), path, "locked|busy")
    connection.execute("ROLLBACK")
    connection.close()
    assert len(swept(**cells(41), store=path)) == 82


def in_child(work: Callable[..., Any], *args: Any) -> Any:
    """What a function gives in a process of its own, whose limits and rights it may lower."""
    here, there = forks.Pipe(duplex=False)
    process = forks.Process(target=_work, args=(there, work, args))
    process.start()
    there.close()
    try:
        worked, given = here.recv()
    finally:
        process.join()
    if isinstance(given, str) and given.startswith("skip: "):
        pytest.skip(given.removeprefix("skip: "))
    assert worked, given
    return given


def _work(pipe: Connection, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        pipe.send((True, work(*args)))
    except BaseException:  # noqa: BLE001 - told to the parent
        pipe.send((False, traceback.format_exc()))


def many(book: Path, real: bool) -> dict[str, Any]:
    """A sweep that needs more room than there is; with a real model it is committed step by step."""
    if not real:
        return cells(400)
    agent = bl.Agent("a", prompt="word " * 200, tools=TOOLS, policy=QUIET)
    return {"agents": agent, "tasks": ["x", "y"], "model": Instant(str(book)), "repeats": 60, "concurrency": 2}


def sweep_until_full(path: Path, book: Path, real: bool) -> str:
    """Sweep until no file may grow any more, and say what the error said."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000 if real else 400_000, resource.RLIM_INFINITY))
    with pytest.raises(bl.errors.StoreError) as caught:
        swept(**many(book, real), store=path)
    return str(caught.value)


def left(path: Path, real: bool, expected: Frames) -> int:
    """How many runs of a store are finished; fails unless they are those that were to be expected."""
    kept = [run for run in bl.stored_runs(path) if run.stop_reason != "aborted"]
    wanted = expected.runs[expected.runs["run_id"].isin([run.run_id for run in kept])].reset_index(drop=True)
    pd.testing.assert_frame_equal(bl.runs_df(seen(kept, real)), wanted)
    return len(kept)


def seen(runs: Any, real: bool) -> list[bl.Run]:
    """Runs as far as they must be the same each time: what a real clock changes is left out."""
    return [without_times(run) if real else run for run in runs]


@pytest.mark.parametrize("real", first(1, [True, False]), ids=["steps", "batches"])
def test_sweep_ends_with_a_message_if_the_file_cannot_grow(tmp_path: Path, real: bool) -> None:
    """EFBIG, as from a quota: wherever it strikes, a later sweep goes on from what was committed."""
    path, book = tmp_path / "runs.db", tmp_path / "book"
    expected = frames(seen(swept(**many(book, real)), real))
    said = in_child(sweep_until_full, path, book, real)
    assert str(path) in said
    assert re.search("I/O|full|space|room|large", said)
    assert left(path, real, expected) > 2 or not real
    assert_equal(frames(seen(swept(**many(book, real), store=path), real)), expected)


def mount_small(folder: Path) -> str:
    """A file system of 2 MiB for this process alone; "" or why there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, new_user = 0x20000, 0x10000000
    if not hasattr(libc, "unshare") or libc.unshare(new_namespace | (0 if os.geteuid() == 0 else new_user)):
        return "skip: this system gives processes no file systems of their own"
    slave = 1 << 19 | 1 << 14
    libc.mount(b"none", b"/", None, slave, None)
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=2m"):
        return "skip: this system lets processes mount nothing"
    return ""


def sweep_on_a_full_disk(folder: Path, real: bool) -> Any:
    """Sweep on a disk that is soon full, read, and sweep again; in one process, because nobody else sees the disk."""
    if why := mount_small(folder):
        return why
    path, book = folder / "runs.db", folder.parent / "book"
    filler = folder / "somebody's film"
    filler.write_bytes(bytes(0 if real else 1_500_000))
    expected = frames(seen(swept(**many(book, real)), real))
    with pytest.raises(bl.errors.StoreError) as caught:
        swept(**many(book, real), store=path)
    kept = left(path, real, expected)
    with pytest.raises(bl.errors.StoreError) as again:
        swept(**many(book, real), store=path)
    assert left(path, real, expected) >= kept
    return str(caught.value), str(again.value), kept


@pytest.mark.parametrize("real", first(1, [True, False]), ids=["steps", "batches"])
def test_sweep_ends_with_a_message_if_the_disk_is_full(tmp_path: Path, real: bool) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    said, again, kept = in_child(sweep_on_a_full_disk, folder, real)
    for text in (said, again):
        assert str(folder / "runs.db") in text
        assert "full" in text
    assert kept > 2 or not real


@contextlib.contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def as_nobody(work: Callable[..., Any], *args: Any) -> Any:
    """Do something without the rights of root, who may write everywhere."""
    rehearse()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    return work(*args)


def rehearse() -> None:
    """Import all that the work needs: where Python and this checkout lie, nobody may not be let in."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.db")
        resume(path)
        assert_equal(everything(path), everything(path))
        (missing := path.with_name("missing")).touch()
        refused(read, missing)


def use_without_rights(path: Path, expected: Frames) -> list[str]:
    """Read a store, then try to write it; what the errors said."""
    assert_equal(everything(path), expected)
    said = []
    for use in (write, resume):
        with pytest.raises(bl.errors.StoreError) as caught:
            use(path)
        said.append(str(caught.value))
    return said


@pytest.mark.parametrize("what", ["folder", "file"])
def test_store_reads_a_read_only_file_and_refuses_to_write(sound: Path, what: str) -> None:
    with public_folder() as folder:
        path = folder / "runs.db"
        shutil.copy(sound, path)
        path.chmod(0o444)
        folder.chmod(0o555 if what == "folder" else 0o777)
        expected = everything(sound)
        for said in in_child(as_nobody, use_without_rights, path, expected):
            assert str(path) in said
            assert re.search("read-only|permission|cannot be written|write", said)
        folder.chmod(0o755)
        beside = {"runs.db.lock", "runs.db-shm", "runs.db-wal"} if what == "file" else set()
        assert {one.name for one in folder.iterdir()} <= {"runs.db"} | beside
        assert path.read_bytes() == sound.read_bytes()


def begin_without_rights(path: Path) -> str:
    with pytest.raises(bl.errors.StoreError) as caught:
        swept(**cells(1), store=path)
    return str(caught.value)


def test_no_store_is_begun_in_a_read_only_folder() -> None:
    with public_folder() as folder:
        folder.chmod(0o555)
        said = in_child(as_nobody, begin_without_rights, folder / "runs.db")
        assert str(folder / "runs.db") in said
        assert re.search("read-only|permission|cannot be written|write", said)
        assert list(folder.iterdir()) == []


def test_store_refuses_rows_of_a_damaged_index() -> None:
    class Damaged:
        def execute(self, _question: str) -> list[tuple[None, int]]:
            return [(None, 1)]

    with pytest.raises(ValueError, match="a row of steps is of run None, which was not requested"):
        _rows_of(cast("sqlite3.Connection", Damaged()), "steps", [1], {})


@pytest.mark.parametrize("beside", [".lock", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("what", ["a pipe", "a link", "a folder"])
def test_what_is_no_file_beside_a_store_is_refused(what: str, beside: str, sound: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(sound, tmp_path / "runs.db"))
    place, other = Path(f"{path}{beside}"), tmp_path / "notes.txt"
    other.write_text("mine")
    {"a pipe": os.mkfifo, "a link": lambda name: name.symlink_to(other), "a folder": Path.mkdir}[what](place)
    uses = (write, resume) if beside == ".lock" else (write, read, resume)
    for use in uses:
        with pytest.raises(bl.errors.StoreError, match=re.escape(f"{place.name} beside it is no file")):
            use(path)
    assert len(bl.runs_df(path)) == 80 if beside == ".lock" else True
    assert other.read_text() == "mine"


def test_store_does_not_overwrite_another_lock_file(sound: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(sound, tmp_path / "runs.db"))
    notes = tmp_path / "runs.db.lock"
    notes.write_text("my notes")
    with pytest.raises(bl.errors.StoreError, match=r"runs\.db\.lock beside it is no store's lock.*: move it"):
        write(path)
    assert notes.read_text() == "my notes"
    notes.write_text("")
    write(path)
    write(path)
