"""A Dask scheduler that dies, stops answering or comes back during a sweep: an error that says what is kept."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.core import executors
from boolab.core.executors import open_pool
from boolab.errors import SchedulerLost
from boolab.runtime.models.scripted import ScriptedModel
from boolab.sweeps.progress import Begun, CellResult
from tests.support.helpers import QUIET, TOOLS, distinct
from tests.support.sweeping import assert_equal, frames, swept

distributed = pytest.importorskip("distributed")
KEPT: Final = (
    r"the Dask scheduler at tcp://127\.0\.0\.1:\d+ (is gone|has not answered).*\. "
    r"\d+ of 100 runs are kept in .*runs\.db; the same call resumes, once there is a scheduler"
)


class FirstResult:
    """A watcher that calls a function with the first result."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call

    def begin(self, begun: Begun) -> None:
        """Nothing is shown."""

    def add(self, result: CellResult) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()

    def end(self, error: BaseException | None) -> None:
        """Nothing is shown."""


def cells() -> dict[str, Any]:
    agent = bl.Agent("a", tools=TOOLS, policy=QUIET)
    return {"agents": agent, "tasks": "go", "model": ScriptedModel(distinct(3)), "repeats": 100}


@pytest.mark.slow
@pytest.mark.parametrize("stored", [True, False])
def test_scheduler_that_does_not_answer_ends_a_sweep(
    stored: bool, dask_client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "PROBE_S", 0.01)
    answer = executors._ClientExecutor.threads
    silent: list[bool] = []

    def threads(client: executors._ClientExecutor) -> int:
        if silent:
            raise client._scheduler_error(TimeoutError())
        return answer(client)

    monkeypatch.setattr(executors._ClientExecutor, "threads", threads)

    store = tmp_path / "runs.db" if stored else None
    with pytest.raises(SchedulerLost) as caught:
        swept(**cells(), executor=dask_client, store=store, progress=FirstResult(lambda: silent.append(True)))
    assert "has not answered for 20 seconds" in str(caught.value)
    if store is None:
        assert f"The attribute `runs` of this error has the {len(caught.value.runs):,} that" in str(caught.value)  # type: ignore[attr-defined]
        return
    assert re.fullmatch(KEPT, str(caught.value))
    assert 0 < len(bl.stored_runs(store)) < 100


@pytest.mark.slow
def test_lost_scheduler_ends_unfinished_tasks(dask_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PROBE_S", 0.01)
    with open_pool(dask_client) as pool:
        assert pool.submit(divmod, 7, 2).result() == (3, 1)
        waits = pool.submit(time.sleep, 1)
        monkeypatch.setattr(dask_client.scheduler, "ncores", None, raising=False)
        with pytest.raises(SchedulerLost, match="is gone: the connection to it was lost"):
            waits.result()
        with pytest.raises(SchedulerLost):
            pool.submit(divmod, 7, 2)
    assert dask_client.status == "running"


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[tuple[Any, Callable[[], subprocess.Popen[bytes]], subprocess.Popen[bytes]]]:
    """A client of a scheduler with one worker, how to start that scheduler, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started: list[subprocess.Popen[bytes]] = []

    def dask(*args: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *args, "--no-dashboard", "--host", "127.0.0.1"]
        log = (tmp_path / "dask.log").open("ab")
        with log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)
        started.append(process)
        return process

    def scheduler() -> subprocess.Popen[bytes]:
        return dask("scheduler", "--port", str(port))

    first = scheduler()
    dask("worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--death-timeout", "60")
    client = distributed.Client(f"tcp://127.0.0.1:{port}", timeout=60, set_as_default=False)
    try:
        client.wait_for_workers(1, timeout=60)
        yield client, scheduler, first
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        client.close(timeout=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fate", ["dies", "stops", "comes back"])
def test_sweep_with_a_lost_scheduler_can_be_resumed(
    fate: str, own_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "SCHEDULER_TIMEOUT_S", 2.0)
    client, start, process = own_cluster

    def hit() -> None:
        os.killpg(process.pid, signal.SIGSTOP if fate == "stops" else signal.SIGKILL)
        if fate == "comes back":
            process.wait()
            start()

    store = tmp_path / "runs.db"
    with pytest.raises(SchedulerLost, match=KEPT):
        swept(**cells(), executor=client, store=store, progress=FirstResult(hit))
    assert 0 < len(bl.stored_runs(store)) < 100
    assert_equal(frames(swept(**cells(), store=store)), frames(swept(**cells())))
