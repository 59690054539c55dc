"""What is open in a process that forks: the child refuses or leaves it alone, and the parent's is unharmed."""

import multiprocessing
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import boolab as bl
from boolab.core.process_pool import ProcessPool
from boolab.errors import BoolabError, StoreError
from boolab.store.changes import Unwanted
from boolab.store.rows import records_of
from tests.support.helpers import play

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
HELLO = bl.ScriptedModel(["Hi."])
_STORES: list[bl.Store] = []
"""What a pool's workers inherit."""


def in_child(function: Callable[[], object]) -> str:
    """The error of a function in a forked process, and "ended" if there is none."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        told = "ended"
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - the parent has it
            told = f"{type(error).__name__}: {error}"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        told = file.read().decode()
    os.waitpid(child, 0)
    return told


def run(task: str) -> bl.Run:
    return bl.run_sync(None, task, model=HELLO)


def tasks(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return [stored.task for stored in bl.stored_runs(path)]


USES: dict[str, Callable[[bl.Store], object]] = {
    "add": lambda store: store.add(run("child")),
    "step": lambda store: store.step(run("child")),
    "finish": lambda store: store.finish(run("child")),
    "flush": lambda store: store.flush(),
    "begin_sweep": lambda store: store.begin_sweep([("cell", "run")], {}),
    "finished": lambda store: list(store.finished(1)),
    "run": lambda store: store.run("x"),
    "prune": lambda store: store.prune(Unwanted()),
    "prunable": lambda store: store.prunable(Unwanted()),
}


@pytest.mark.parametrize("use", USES)
def test_store_refuses_in_a_forked_process(use: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with bl.Store(path) as store:
        store.add(run("1"))
        told = in_child(lambda: USES[use](store))
        assert told.startswith(f"StoreError: {path}: this writer is that of process {os.getpid()}"), told
        store.add(run("2"))
    assert tasks(path) == ["1", "2"]


def test_forked_process_that_closes_a_store_harms_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with bl.Store(path) as store:
        store.add(run("1"))
        store.step(run("under way"))

        def close() -> None:
            with store:
                pass
            del store._opened

        assert in_child(close) == "ended"
        with pytest.raises(StoreError, match="it is being written by this very process"):
            bl.Store(path, wait_s=0)
        store.add(run("2"))
    assert sorted(tasks(path)) == ["1", "2", "under way"]


def test_store_refuses_after_a_fork_in_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with bl.Store(path) as store, ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda number: in_child(lambda: store.add(run(f"child {number}"))), range(4)))
        assert all(error.startswith("StoreError") for error in told), told
        store.add(run("parent"))
    assert tasks(path) == ["parent"]


def add_in_worker(task: str) -> str:
    try:
        _STORES[0].add(run(task))
    except BoolabError as error:
        return type(error).__name__
    return "added"


def test_store_refuses_in_the_workers_of_a_fork_pool(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with bl.Store(path) as store:
        _STORES[:] = [store]
        try:
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(add_in_worker, "abcd") == ["StoreError"] * 4
        finally:
            _STORES.clear()
        store.add(run("parent"))
    assert tasks(path) == ["parent"]


def test_waiting_runs_of_a_batch_are_written_once_after_a_fork(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with bl.Store(path) as store:
        store.put(records_of(run("waits")))
        assert in_child(store.flush).startswith("StoreError")
        assert in_child(store.close) == "ended"
    assert tasks(path) == ["waits"]


def test_recorder_refuses_in_a_forked_process(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    model = bl.record(HELLO, path)
    play(model)
    before = path.read_bytes()
    told: list[str] = []

    def answer() -> None:
        raise ValueError(play(model).error)

    told.append(in_child(answer))
    assert f"{path} is written by process {os.getpid()}" in told[0], told
    assert path.read_bytes() == before
    assert play(model).text == "Hi."


def test_forked_process_leaves_a_mock_server_and_a_pool_alone() -> None:
    with bl.models.MockServer(["Hi.", "Hi."]) as server:
        assert in_child(server.close) == "ended"
        assert play(bl.OpenAIModel("mock", base_url=server.url)).text == "Hi."
    pool = ProcessPool(1)
    try:
        assert pool.submit(divmod, 7, 2).result() == (3, 1)
        assert in_child(pool.close) == "ended"
        assert pool.submit(divmod, 7, 2).result() == (3, 1)
    finally:
        pool.close()


def test_forked_process_may_open_a_store_of_its_own(tmp_path: Path) -> None:
    def write() -> None:
        with bl.Store(tmp_path / "child.db") as own:
            own.add(run("child"))

    with bl.Store(tmp_path / "parent.db") as store:
        assert in_child(write) == "ended"
        assert "is being written by" in in_child(lambda: bl.Store(tmp_path / "parent.db", wait_s=0))
        store.add(run("parent"))
    assert (tasks(tmp_path / "child.db"), tasks(tmp_path / "parent.db")) == (["child"], ["parent"])
