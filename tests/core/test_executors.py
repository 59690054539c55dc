"""Executors: pieces come back whole from wherever they were worked on, and a worker that dies is told, and alone."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.executors import ATTEMPTS, Pool, map_in_order, open_pool
from boolab.core.process_pool import ProcessPool
from tests.support import pieces
from tests.support.processes import has_ended
from tests.support.project import ROOT

SCRIPT = """
import sys
from boolab.core.executors import open_pool
from tests.support.pieces import wait, worker

with open_pool("processes") as pool:
    print(pool.submit(worker).result(), flush=True)
    if "stay" in sys.argv:
        pool.submit(wait).result()
"""
"""Without a guard against running twice, on purpose."""


@pytest.fixture(scope="module")
def processes() -> Any:
    with open_pool("processes") as pool:
        yield pool


def test_a_process_that_dies_fails_its_own_piece_alone() -> None:
    with contextlib.closing(ProcessPool(1)) as pool:
        died, *others = [pool.submit(pieces.die), pool.submit(pieces.worker), pool.submit(pieces.worker)]
        with pytest.raises(
            bl.errors.WorkerDied, match=r"worker process \d+ was killed by SIGKILL \(.*memory runs out\)"
        ):
            died.result()
        assert len({other.result() for other in others}) == 1
        with pytest.raises(bl.errors.WorkerDied, match="ended with exit code 3"):
            pool.submit(pieces.leave).result()
        killed = pool.submit(pieces.worker).result()
        os.kill(killed, signal.SIGKILL)
        assert has_ended(killed)
        assert pool.submit(pieces.worker).result() != killed


def test_pool_starts_processes_on_demand_up_to_its_limit() -> None:
    with contextlib.closing(ProcessPool(2)) as pool:
        one = pool.submit(pieces.worker).result()
        assert pool.submit(pieces.worker).result() == one
        waiting = pool.submit(pieces.wait)
        found = {future.result() for future in [pool.submit(pieces.worker) for _ in range(9)]}
        assert len(found) == 1
        assert not waiting.done()
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("boolab-")]
    assert len(threads) == 2


def test_closing_the_pool_cancels_open_work_and_ends_processes() -> None:
    with open_pool("processes") as pool:
        busy = pool.submit(pieces.worker).result()
        left = [pool.submit(pieces.wait) for _ in range(2 * pool.size)]
    assert has_ended(busy)
    for future in left:
        assert future.cancelled() or isinstance(future.exception(), bl.errors.WorkerDied)
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(pieces.worker)


def test_processes_end_with_a_driver_that_is_killed_even_at_work() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, "stay"], stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        worker = int(driver.stdout.readline())
        driver.kill()
    assert has_ended(worker)


def test_script_needs_no_main_guard_for_its_processes(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, env=env)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_input_and_output_of_a_piece_stay_out_of_the_results(
    processes: Pool, capfd: pytest.CaptureFixture[str]
) -> None:
    with open_pool("processes") as pool:
        assert pool.submit(pieces.read_and_print).result() == ""
    assert capfd.readouterr() == ("", "seen\n")


def test_an_interrupt_from_the_keyboard_is_the_drivers_alone(processes: Pool) -> None:
    assert processes.submit(pieces.interrupt).result() == "done"


def test_an_error_comes_back_as_it_was_with_where_it_was_raised(processes: Pool) -> None:
    error = processes.submit(divmod, 1, 0).exception()
    assert isinstance(error, ZeroDivisionError)
    assert "In worker process" in error.__notes__[0]
    found = processes.submit(bl.load_runs, "nowhere.jsonl").exception()
    assert isinstance(found, bl.errors.RunFormatError)
    assert (found.path, str(found)) == ("nowhere.jsonl", "nowhere.jsonl: no such file or folder")


def test_what_cannot_be_sent_is_said_and_the_worker_goes_on(processes: Pool) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        processes.submit(pieces.lock).result()
    with pytest.raises(bl.BoolabError, match="in a worker process: MoodError: sulky!"):
        processes.submit(pieces.sulk).result()
    with pytest.raises(TypeError, match="cannot pickle"):
        processes.submit(str, threading.Lock())
    assert processes.submit(divmod, 7, 2).result() == (3, 1)


def test_functions_and_classes_of_a_notebook_go_along(processes: Pool) -> None:
    own: dict[str, Any] = {"__name__": "__main__"}
    exec("class Own:\n    n = 2\ndef double(x): return x * Own.n", own)  # noqa: S102 - as a notebook does it
    assert processes.submit(own["double"], 4).result() == 8


def test_a_piece_that_was_cancelled_before_it_began_is_not_begun(tmp_path: Path) -> None:
    with contextlib.closing(ProcessPool(1)) as pool:
        pool.submit(pieces.wait)
        later = pool.submit(pieces.die_once, tmp_path / "trace")
        assert later.cancel()
    assert not (tmp_path / "trace").exists()


def test_results_are_in_order_and_pieces_of_dead_workers_repeat(processes: Pool, tmp_path: Path) -> None:
    traces = [(tmp_path / str(n),) for n in range(3)]
    assert list(map_in_order(processes, pieces.die_once, traces)) == ["done"] * 3
    assert list(map_in_order(processes, divmod, ((n, 3) for n in range(50)))) == [divmod(n, 3) for n in range(50)]
    assert list(map_in_order(processes, divmod, [])) == []


class Counting:
    """A pool of one thread that knows how many of its results were not asked for yet."""

    size = 1

    def __init__(self) -> None:
        self.begun = 0
        self.dying = 0

    def submit(self, function: Any, *args: Any) -> Future[Any]:
        self.begun += 1
        future: Future[Any] = Future()
        if self.dying:
            self.dying -= 1
            future.set_exception(bl.errors.WorkerDied("gone"))
        else:
            future.set_result(function(*args))
        return future


def test_piece_that_kills_its_worker_each_time_is_given_up() -> None:
    pool = Counting()
    pool.dying = ATTEMPTS - 1
    assert list(map_in_order(pool, divmod, [(1, 2)])) == [(0, 1)]
    pool.dying = ATTEMPTS
    with pytest.raises(bl.errors.WorkerDied, match="gone"):
        list(map_in_order(pool, divmod, [(1, 2)]))
    assert pool.begun == 2 * ATTEMPTS


def test_only_a_few_pieces_are_under_way_at_once() -> None:
    pool = Counting()
    asked = (pool.begun for _ in range(100))
    ahead = [begun - done for done, (begun, _) in enumerate(map_in_order(pool, divmod, ((n, 10**9) for n in asked)))]
    assert max(ahead) <= 2


# --- Executors of the user's ------------------------------------------------------------------------------------------


def test_any_executor_will_do_and_stays_open() -> None:
    with ThreadPoolExecutor(3) as threads:
        with open_pool(threads) as pool:
            assert pool.size == 3
            assert pool.submit(divmod, 7, 2).result() == (3, 1)
            with pytest.raises(ZeroDivisionError):
                pool.submit(divmod, 7, 0).result()
            gate = threading.Event()
            begun = [pool.submit(gate.wait) for _ in range(3)]
            waiting = pool.submit(divmod, 7, 2)
        gate.set()
        assert waiting.cancelled()
        assert all(future.done() for future in begun)
        assert threads.submit(divmod, 7, 2).result() == (3, 1)
    with open_pool(Executor()) as other:
        assert other.size == os.cpu_count()


def test_an_executor_that_breaks_says_so_as_all_do() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as broken, open_pool(broken) as pool:
        with pytest.raises(bl.errors.WorkerDied, match="BrokenProcessPool"):
            pool.submit(pieces.die).result()
        with pytest.raises(bl.errors.WorkerDied, match="BrokenProcessPool"):
            pool.submit(pieces.worker).result()


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("threads", "executor='threads': expected 'processes', a concurrent.futures executor, or a distributed.Client"),
        (4, r"executor=4: expected 'processes', .*pip install 'boolab\[engine\]'"),
        ("tcp://10.0.0.1:8786", r"distributed\.Client\('tcp://10\.0\.0\.1:8786'\) \(pip install 'boolab\[engine\]'\)"),
    ],
)
def test_what_is_no_executor_is_refused_with_what_would_be(executor: Any, message: str) -> None:
    with pytest.raises(bl.SettingError, match=message), open_pool(executor):
        pass


# --- Dask -------------------------------------------------------------------------------------------------------------


def test_a_cluster_works_on_pieces_and_passes_on_what_they_raise(dask_client: Any) -> None:
    with open_pool(dask_client) as pool:
        assert pool.size == 2
        assert list(map_in_order(pool, divmod, ((n, 3) for n in range(20)))) == [divmod(n, 3) for n in range(20)]
        error = pool.submit(bl.load_runs, "nowhere.jsonl").exception()
        assert isinstance(error, bl.errors.RunFormatError)
        assert error.path == "nowhere.jsonl"
    assert dask_client.submit(divmod, 7, 2).result() == (3, 1)


def test_a_cluster_can_be_waited_for_in_an_event_loop(dask_client: Any) -> None:
    async def wait() -> list[Any]:
        with open_pool(dask_client) as pool:
            return await asyncio.gather(*(asyncio.wrap_future(pool.submit(divmod, n, 3)) for n in range(20)))

    assert asyncio.run(wait()) == [divmod(n, 3) for n in range(20)]


def test_the_same_piece_twice_is_done_twice(dask_client: Any, tmp_path: Path) -> None:
    with open_pool(dask_client) as pool:
        pool.submit(Path.mkdir, tmp_path / "once").result()
        with pytest.raises(FileExistsError):
            pool.submit(Path.mkdir, tmp_path / "once").result()


@pytest.mark.slow
def test_dead_cluster_worker_is_replaced_and_its_piece_repeated(dask_client: Any, tmp_path: Path) -> None:
    with open_pool(dask_client) as pool:
        assert pool.submit(pieces.die_once, tmp_path / "trace").result() == "done"


@pytest.mark.slow
def test_piece_given_up_by_a_cluster_reports_a_dead_worker(dask_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_client.cluster.scheduler, "allowed_failures", 0)
    with (
        open_pool(dask_client) as pool,
        pytest.raises(bl.errors.WorkerDied, match=r"KilledWorker: Attempted to run task"),
    ):
        pool.submit(pieces.die).result()


@pytest.mark.slow
def test_open_cluster_work_is_cancelled_and_client_stays_open(dask_client: Any, tmp_path: Path) -> None:
    with open_pool(dask_client) as pool:
        left = pool.submit(divmod, 1, pool.submit(divmod, 7, 2).result()[0])
    assert left.done()
    assert dask_client.status == "running"


def test_unusable_clients_are_refused_with_what_works(dask_client: Any) -> None:
    import distributed

    async def ask() -> None:
        address = dask_client.scheduler.address
        async with distributed.Client(address, asynchronous=True) as client:
            with pytest.raises(bl.SettingError, match="make it without asynchronous=True"), open_pool(client):
                pass

    asyncio.run(ask())
    with distributed.Client(dask_client.scheduler.address, set_as_default=False) as closed:
        pass
    with pytest.raises(bl.SettingError, match="this client is closed"), open_pool(closed):
        pass
    with pytest.raises(bl.SettingError, match=r"cluster\.get_client\(\)"), open_pool(dask_client.cluster):
        pass
