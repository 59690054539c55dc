"""A pool of processes on this machine in which a process may die.

`concurrent.futures.ProcessPoolExecutor` does not serve, for three reasons. When one of its processes dies, all tasks
fail, also those that were not started. When the driver is killed, its processes stay behind, waiting. And each process
runs the user's script again, so that a script without `if __name__ == "__main__"` starts itself. Here a process runs
one task at a time, dies alone, ends with its driver, and imports boolab and nothing else of the driver's.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from boolab.core.worker import dump_value, get_frame, load_outcome, put_frame
from boolab.errors import WorkerDied

T = TypeVar("T")

_START: Final = "import sys; sys.path[:] = sys.argv[1:]; from boolab.core.worker import serve; serve()"
_SHUTDOWN_TIMEOUT_S: Final = 5
"""How long a process that has closed its pipe may take to end."""
_CLOSED: Final = "the pool was closed before the task was finished"


class _Task(NamedTuple):
    frame: bytes
    future: Future[Any]


class ProcessPool:
    """Processes that are started as they are needed, at most `size` (by default one for each core that may be used)."""

    def __init__(self, size: int | None = None) -> None:
        self.size = cores() if size is None else size
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._free = 0
        """How many threads wait for a task, minus the tasks that wait for a thread."""
        self._closed = False
        self._driver = os.getpid()
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., T], *args: object) -> Future[T]:
        """Call a function in one of the processes; see `boolab.core.executors.Pool.submit`."""
        task = _Task(dump_value((function, args)), Future())
        with self._lock:
            if self._closed:
                raise RuntimeError(_CLOSED)
            self._tasks.put(task)
            self._free -= 1
            if self._free < 0 and len(self._threads) < self.size:
                thread = threading.Thread(target=self._work, name=f"boolab-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                self._free += 1
                thread.start()
        return task.future

    def close(self) -> None:
        """End all processes, also busy ones. A process that was forked leaves them to the one that started them."""
        if os.getpid() != self._driver:
            return
        with self._lock:
            self._closed = True
            with contextlib.suppress(queue.Empty):
                while (task := self._tasks.get_nowait()) is not None:
                    task.future.cancel()
            for process in self._processes:
                process.kill()
            for _ in self._threads:
                self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        """Run one task after the other in one process, and start a new process where it died."""
        process = None
        while (task := self._tasks.get()) is not None:
            if task.future.set_running_or_notify_cancel():
                try:
                    if process is None or process.poll() is not None:
                        self._end(process)
                        process = self._start()
                    returned, value = _run_task(process, task.frame)
                except Exception as error:  # noqa: BLE001 - it is raised where the result is waited for
                    task.future.set_exception(error)
                else:
                    task.future.set_result(value) if returned else task.future.set_exception(value)
            with self._lock:
                self._free += 1
        self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise WorkerDied(_CLOSED)
            process = subprocess.Popen(  # noqa: S603 - this very Python
                [sys.executable, "-c", _START, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._processes.add(process)
            return process

    def _end(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is None:
            return
        with self._lock:
            self._processes.discard(process)
            process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None  # noqa: S101 - it was started with pipes
            with contextlib.suppress(OSError):  # what could not be written any more
                pipe.close()
        process.wait()


def _run_task(process: subprocess.Popen[bytes], frame: bytes) -> tuple[bool, Any]:
    """Run a task in a process; `WorkerDied` if the process ended meanwhile."""
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - it was started with pipes
    answer = None
    with contextlib.suppress(BrokenPipeError):
        put_frame(process.stdin, frame)
        answer = get_frame(process.stdout)
    if answer is None:
        raise WorkerDied(f"worker process {process.pid} {_ending(process)} before its task was finished")
    return load_outcome(answer)


def _ending(process: subprocess.Popen[bytes]) -> str:
    """How a process ended that writes no more."""
    try:
        code = process.wait(_SHUTDOWN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"was killed by {name}{' (the system does so when memory runs out)' if name == 'SIGKILL' else ''}"


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
