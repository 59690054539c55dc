"""Stores that are damaged: bytes of the file, values in its tables, its schema, and the log beside it."""

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import boolab as bl
from tests.fuzz.log_targets import own_runs
from tests.fuzz.mutation import sqlite_file
from tests.fuzz.target import Act, Target
from tests.fuzz.usable import use
from tests.support.helpers import TOOLS, distinct

_PAGE: Final = 512
"""Small pages make small files, of which more of the bytes mean something."""


def store_targets() -> Iterator[Target]:
    """A store that is read, one that is written, and the log of one that is read."""
    yield Target("store_read", _opening(_read, "runs.db"), _stores, sqlite_file)
    yield Target("store_write", _opening(_write, "runs.db"), _stores, sqlite_file)
    yield Target("store_log", _opening(_read, "runs.db-wal"), lambda: [_logged()[1]], _pages)


@cache
def _stores() -> list[bytes]:
    """Small stores: one of runs alone, one of a sweep."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with bl.Store(folder / "runs.db") as store:
            for run in own_runs():
                store.add(run)
        agent = bl.Agent("a", tools=TOOLS, policy="boocode")
        model = bl.ScriptedModel(distinct(2), name="m")
        grid = {"max_steps": [1, 3]}
        asyncio.run(
            bl.sweep(agent, "go", model, grid=grid, store=folder / "sweep.db", reuse_prefixes=True, progress=False)
        )
        for path in (folder / "runs.db", folder / "sweep.db"):
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute(f"PRAGMA page_size = {_PAGE}")
                connection.execute("VACUUM")
            found.append(path.read_bytes())
    return found


@cache
def _logged() -> tuple[bytes, bytes]:
    """A store whose last runs are in its log, as a writer that was killed leaves it, and that log."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "runs.db").write_bytes(_stores()[1])
        with bl.Store(folder / "runs.db") as store:
            for run in own_runs():
                store.add(run)
            store.flush()
            return (folder / "runs.db").read_bytes(), (folder / "runs.db-wal").read_bytes()


def _pages(data: bytes, chance: Random) -> bytes:
    """Move the frames of a log about: they are 24 bytes and a page each, after 32 of a header."""
    size = 24 + _PAGE
    frames = [data[start : start + size] for start in range(32, len(data), size)]
    if not frames:
        raise ValueError("no frames")
    n = chance.randrange(len(frames))
    how = chance.randrange(4)
    if how == 0:
        del frames[n:]
    elif how == 1:
        del frames[n]
    elif how == 2:
        frames.insert(chance.randrange(len(frames)), frames[n])
    else:
        frames[n] = frames[n][:24] + bytes(_PAGE)
    return data[:32] + b"".join(frames)


def _opening(act_on: Callable[[Path, bytes, Path], None], name: str) -> Callable[[Path], AbstractContextManager[Act]]:
    @contextmanager
    def opened(folder: Path) -> Iterator[Act]:
        place, aside = folder / "store", folder / "aside"
        aside.mkdir()
        whole = _logged()[0] if name.endswith("-wal") else b""

        def act(data: bytes) -> None:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            (place / "runs.db").write_bytes(whole)
            (place / name).write_bytes(data)
            act_on(place / "runs.db", data, aside)

        yield act

    return opened


def _read(path: Path, data: bytes, aside: Path) -> None:
    stored = bl.stored_runs(path)
    stored.settings()
    stored.labelled()
    use(list(stored), data, aside)


def _write(path: Path, data: bytes, aside: Path) -> None:
    with bl.Store(path) as store:
        for run in own_runs():
            store.add(run)
    bl.runs_df(path)
