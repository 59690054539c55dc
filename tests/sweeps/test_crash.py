"""Sweeps that are killed at any moment and run again: nothing is lost, nothing is doubled, nothing is half-written.

`pytest --crash 400` (or `make crash`) kills more often than the 20 times of every run.

A sweep runs in a process of its own, which ends without warning in one of three ways: at the n-th call or request,
whatever n is (SIGKILL from within), in the middle of a write, when a file would outgrow a size (SIGXFSZ, by setrlimit),
or after a time (SIGKILL from outside). The processes are forked from one that has imported everything already.
"""

import random
import resource
import signal
import sqlite3
import time
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import psutil
import pytest

import boolab as bl
from boolab.store import writer
from tests.support.helpers import QUIET, TOOLS, call
from tests.support.sweeping import (
    SIMULATED,
    Frames,
    Instant,
    assert_equal,
    die_at,
    entries,
    forks,
    frames,
    note,
    size,
    swept,
    without_times,
)

Mode: TypeAlias = Literal["batches", "steps"]
MODES: Final[tuple[Mode, ...]] = ("batches", "steps")
KILLS: Final = 10
STEPS: Final = {"max_steps": [2, 7]}


def cells(mode: Mode, book: Path) -> dict[str, Any]:
    """A sweep of which a part is committed when the rest is not."""
    if mode == "steps":
        agent = bl.Agent("a", prompt="You look.", tools=TOOLS, policy=QUIET)
        return {
            "agents": agent,
            "tasks": ["x", "y"],
            "model": Instant(str(book)),
            "grid": STEPS,
            "repeats": 8,
        }
    noting = bl.ScriptedModel(
        [{"tool_calls": [call("note", book=str(book), what="a"), call("fail", what="b \ud83d")]}, "done"], name="noting"
    )
    agent = bl.Agent("a", prompt="You look.", tools=(*TOOLS, note), policy=QUIET)
    models = {"noting": noting, "simulated": SIMULATED}
    return {"agents": agent, "tasks": ["x"], "model": models, "grid": STEPS, "repeats": 50}


def sweep_here(mode: Mode, book: Path, store: Path, options: Mapping[str, Any], most: int | None) -> None:
    """What a child does: sweep, perhaps with files that can grow so far only, so that it dies in mid-write."""
    writer._BATCH_RUNS = 30  # type: ignore[misc] # so that a short sweep commits several batches
    if most is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    swept(**cells(mode, book), store=store, **options)


def child(mode: Mode, book: Path, store: Path, most: int | None = None, **options: Any) -> ForkServerProcess:
    """A process that sweeps."""
    process = forks.Process(target=sweep_here, args=(mode, book, store, options, most))
    process.start()
    return process


def kill_somewhere(mode: Mode, book: Path, store: Path, draw: random.Random, whole: tuple[int, int, float]) -> bool:
    """Let a child sweep until it is killed, in one of three ways; False if it came to its end before."""
    lines, bytes_, seconds = whole
    way = draw.choice(["call", "write", "time"])
    die_at(book, size(book) // 40 + draw.randint(1, lines) if way == "call" else 0)
    grown = max(size(store), size(Path(f"{store}-wal")), size(book))
    most = grown + draw.randrange(bytes_ * 2 // 3) if way == "write" else None
    process = child(mode, book, store, most)
    process.join(draw.uniform(0, seconds / 2) if way == "time" else None)
    process.kill()
    process.join()
    die_at(book, 0)
    assert process.exitcode in (0, -signal.SIGKILL, -signal.SIGXFSZ), "it failed rather than being killed"
    return process.exitcode != 0


def seen(mode: Mode, run: bl.Run) -> bl.Run:
    """A run as far as it must be the same each time: what a real clock changes is left out."""
    return without_times(run) if mode == "steps" else run


def left(store: Path) -> tuple[dict[str, bl.Run], dict[str, bl.Run]]:
    """What a store holds: the runs that are finished, and those that were interrupted, by id."""
    runs = list(bl.stored_runs(store))
    interrupted = {run.run_id: run for run in runs if (run.error or "").startswith("interrupted")}
    finished = {run.run_id: run for run in runs if run.run_id not in interrupted}
    assert len(finished) + len(interrupted) == len(runs), "a run is there twice"
    return finished, interrupted


def assert_whole(store: Path) -> None:
    """Fail unless SQLite itself finds the file sound."""
    connection = sqlite3.connect(store)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        connection.close()


def crash(mode: Mode, folder: Path, seed: int, kills: int) -> None:
    """Sweep a store to its end again and again, killed so many times on the way, and look at it after each kill."""
    draw = random.Random(f"{mode} {seed}")  # noqa: S311 - moments, no secret
    book = folder / "book"
    began = time.perf_counter()
    expected = [seen(mode, run) for run in swept(**cells(mode, book), store=folder / "whole.db")]
    whole = (len(entries(book)), size(folder / "whole.db"), time.perf_counter() - began)
    undisturbed = frames(expected)
    truth = {run.run_id: run for run in expected}
    done = 0
    while done < kills:
        store = folder / f"{done}.db"
        finished: dict[str, bl.Run] = {}
        while done < kills:
            start = size(book)
            killed = kill_somewhere(mode, book, store, draw, whole)
            finished = check(mode, store, truth, finished, entries(book, start))
            if not killed:
                break
            done += 1
        start = size(book)
        last = swept(**cells(mode, book), store=store)
        assert not finished.keys() & {run_id for run_id, _ in entries(book, start)}, "finished runs were run again"
        assert_equal(frames([seen(mode, run) for run in last]), undisturbed)
        assert left(store) == ({run.run_id: run for run in last}, {}), "the store says something else than the sweep"


def check(
    mode: Mode, store: Path, truth: Mapping[str, bl.Run], before: Mapping[str, bl.Run], asked: list[tuple[str, int]]
) -> dict[str, bl.Run]:
    """Look at a store whose writer was killed; the runs that are finished in it."""
    try:
        finished, interrupted = left(store)
    except (bl.errors.StoreError, FileNotFoundError):
        assert not before, "a store that was killed cannot be read"
        assert not asked, "a store that was killed cannot be read"
        return {}
    assert_whole(store)
    assert before.keys() <= finished.keys(), "a finished run was lost"
    for run_id, run in finished.items():
        if run_id in before:
            assert run == before[run_id], "a finished run was changed"
        else:
            assert seen(mode, run) == truth[run_id], "a finished run is another one than it would have been"
    assert not before.keys() & {run_id for run_id, _ in asked}, "finished runs were run again"
    if mode == "batches":
        assert not interrupted, "a batch was torn"
        return finished
    for run in interrupted.values():
        assert run.stop_reason == "aborted"
        assert seen(mode, run).steps == truth[run.run_id].steps[: run.n_steps], "an interrupted run is no prefix"
    for run_id, index in asked:
        held = finished.get(run_id) or interrupted.get(run_id)
        assert index == 0 or (held is not None and held.n_steps >= index), "a step that was committed is lost"
    return finished


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Half of the kills in each mode, ten in a test."""
    if "kills" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--crash") // 2
        shares = [min(KILLS, wanted - place) for place in range(0, wanted, KILLS)]
        metafunc.parametrize(("seed", "kills"), list(enumerate(shares)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_killed_sweep_resumes_to_the_same_frames(tmp_path: Path, mode: Mode, seed: int, kills: int) -> None:
    crash(mode, tmp_path, seed, kills)


@pytest.mark.parametrize("mode", MODES)
def test_a_sweep_can_be_killed_before_its_first_run(tmp_path: Path, mode: Mode) -> None:
    """At the very first call, and at the first bytes of the file: opening it again makes it whole."""
    book, store = tmp_path / "book", tmp_path / "runs.db"
    for most in (None, 1, 5_000, 20_000):
        die_at(book, size(book) // 40 + 1)
        process = child(mode, book, store, most)
        process.join()
        assert process.exitcode in (-signal.SIGKILL, -signal.SIGXFSZ)
        check(mode, store, {}, {}, [])
    with bl.Store(store):
        pass
    assert len(bl.runs_df(store)) == 0 or mode == "steps"


def states(store: Path) -> dict[str, int]:
    connection = sqlite3.connect(store)
    try:
        return dict(connection.execute("SELECT state, count(*) FROM runs GROUP BY state"))
    finally:
        connection.close()


def test_store_marks_runs_of_a_killed_writer(tmp_path: Path) -> None:
    """A reader says so at once, the file from the next writer on; run again they are finished, and counted once."""
    book, store = tmp_path / "book", tmp_path / "runs.db"
    die_at(book, 40)
    process = child("steps", book, store)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert states(store)["running"] > 0
    frame = bl.runs_df(store)
    under_way = frame[frame["stop_reason"] == "aborted"]
    assert len(under_way) == states(store)["running"]
    assert (under_way["error"] == "interrupted: the process that made it ended").all()
    assert under_way["n_steps"].sum() > 0
    with bl.Store(store):
        assert "running" not in states(store)
        assert states(store)["interrupted"] == len(under_way)
    assert frames(store).runs.equals(frame)
    die_at(book, 0)
    runs = swept(**cells("steps", book), store=store)
    frame = bl.runs_df(runs)
    assert len(frame) == 32
    assert "aborted" not in set(frame["stop_reason"])
    assert states(store)["finished"] == 32
    assert "interrupted" not in states(store)


@pytest.mark.slow
def test_workers_of_a_killed_sweep_end(tmp_path: Path) -> None:
    """The driver alone is killed: nobody is left behind who computes for nobody, or who holds the store."""
    book, store = tmp_path / "book", tmp_path / "runs.db"
    process = child("batches", book, store, executor="processes")
    workers: list[psutil.Process] = []
    while not entries(book) and process.is_alive():
        process.join(0.01)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.join()
    assert workers, "it ran in no other process"
    _, alive = psutil.wait_procs(workers, timeout=10)
    for worker in alive:
        worker.kill()
    assert alive == [], "workers outlived the sweep"
    undisturbed: Callable[[], Frames] = lambda: frames(swept(**cells("batches", book)))  # noqa: E731
    assert_equal(frames(swept(**cells("batches", book), store=store)), undisturbed())
