"""Executors: tasks run in processes, by any executor, or on the machines of a Dask cluster.

A task is a function of boolab's, which workers import by its name, and arguments that can be pickled. Its result comes
back to the driver. A worker may die at any time: its tasks then raise `WorkerDied`, and the driver may submit them
again.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, InvalidStateError
from concurrent.futures import Executor as FuturesExecutor
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from boolab.core.process_pool import ProcessPool
from boolab.errors import SchedulerLost, SettingError, WorkerDied, install

if TYPE_CHECKING:
    import distributed

T = TypeVar("T")

Executor: TypeAlias = "Literal['processes'] | FuturesExecutor | distributed.Client"
"""`"processes"`: processes of this machine, one for each core. Any `concurrent.futures.Executor`. Or a client of a Dask
cluster."""

SCHEDULER_TIMEOUT_S: Final = 20.0
"""How long the scheduler of a Dask cluster may take to answer before it counts as lost."""
PROBE_S: Final = 2.0
"""How often it is asked."""
ATTEMPTS: Final = 4
"""How often a task is started: one that kills its worker would do so each time."""


class Pool(Protocol):
    """Workers that run tasks."""

    @property
    def size(self) -> int:
        """The number of tasks that run at once. Clusters grow and shrink, so it is read each time."""
        ...

    def submit(self, function: Callable[..., T], *args: object) -> Future[T]:
        """Call a function that workers can import; `WorkerDied`, now or in the future, if there is no worker for it."""
        ...


@contextmanager
def open_pool(executor: Executor) -> Iterator[Pool]:
    """The workers of an executor. Unfinished tasks are cancelled at the end of the block.

    The processes of `"processes"` end with the block; the user's own executor or client stays open. Where the scheduler
    of a client is lost, all unfinished tasks raise `SchedulerLost`.
    """
    argument: object = executor
    if argument == "processes":
        processes = ProcessPool()
        try:
            yield processes
        finally:
            processes.close()
        return
    users = _executor_of(argument)
    pool = _UsersPool(users, _size_of(users))
    with _watch_scheduler(users, pool) if isinstance(users, _ClientExecutor) else nullcontext():
        try:
            yield pool
        finally:
            pool.cancel_all()


@contextmanager
def _watch_scheduler(executor: _ClientExecutor, pool: _UsersPool) -> Iterator[None]:
    """While in it, a scheduler that is gone ends the unfinished tasks: a client may wait for one without end."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(PROBE_S):
            try:
                executor.threads()
            except SchedulerLost as error:
                if not ended.is_set():
                    executor.lost = error
                    pool.fail_all(error)
                return

    thread = threading.Thread(target=watch, name="boolab scheduler", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()  # it is not waited for: it may wait for the scheduler


def map_in_order(pool: Pool, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """The results of a function for each tuple of arguments, in order. Tasks of workers that died are run again.

    Only a few tasks more than there are workers are submitted at once, so that neither all tasks nor all results have
    to fit into memory. It raises `WorkerDied` if the worker of a task died four times in a row.
    """
    waiting = iter(tasks)
    pending_futures: deque[tuple[tuple[Any, ...], Future[T]]] = deque()
    while True:
        for args in itertools.islice(waiting, max(0, 2 * pool.size - len(pending_futures))):
            pending_futures.append((args, pool.submit(function, *args)))
        if not pending_futures:
            return
        yield _await_result(pool, function, *pending_futures.popleft())


def _await_result(pool: Pool, function: Callable[..., T], args: tuple[Any, ...], future: Future[T]) -> T:
    for _ in range(1, ATTEMPTS):
        try:
            return future.result()
        except WorkerDied:
            future = pool.submit(function, *args)
    return future.result()


class _UsersPool:
    """Workers of the user's own executor."""

    def __init__(self, executor: FuturesExecutor, size: Callable[[], int]) -> None:
        self._executor = executor
        self._size = size
        self._running: set[Future[Any]] = set()

    @property
    def size(self) -> int:
        return max(1, self._size())

    def submit(self, function: Callable[..., T], *args: object) -> Future[T]:
        try:
            task = self._executor.submit(function, *args)
        except BrokenExecutor as error:
            reason = f"{type(error).__name__}: {error}"
            raise WorkerDied(
                f"the executor's pool broke when a worker died, and accepts no more work ({reason})"
            ) from error
        outcome: Future[T] = Future()
        self._running.add(outcome)
        outcome.add_done_callback(self._running.discard)
        outcome.add_done_callback(lambda _: task.cancel())  # no effect if it is done already
        task.add_done_callback(lambda _: _copy_outcome(task, outcome))
        return outcome

    def cancel_all(self) -> None:
        for future in list(self._running):
            future.cancel()

    def fail_all(self, error: BaseException) -> None:
        for future in list(self._running):
            with suppress(InvalidStateError):  # it ends just now
                future.set_exception(error)


class _ClientExecutor(FuturesExecutor):
    """A Dask client as an executor.

    Its own, `client.get_executor()`, never completes the future of a task whose result was lost with its worker and
    that then kills others: `distributed.cfexecutor._cascade_future` raises, and the future gets no exception.
    """

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        self.lost: SchedulerLost | None = None

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        if self.lost is not None:
            raise self.lost
        outcome: Future[T] = Future()
        try:
            # A task is not a pure function: submitted twice with the same arguments, it has to run twice.
            task = self._client.submit(fn, *args, **kwargs, pure=False)
        except OSError as error:  # CommClosedError is one
            raise self._scheduler_error(error) from error
        outcome.add_done_callback(lambda _: task.cancel() if outcome.cancelled() and self._is_connected() else None)
        task.add_done_callback(lambda _: self._fetch(task, outcome))
        return outcome

    def threads(self) -> int:
        """How many tasks the workers run at once."""
        if not self._is_connected():
            raise self.lost or self._scheduler_error(None)
        scheduler: Any = self._client.scheduler  # None once the connection is lost
        try:
            thread_counts = self._client.sync(scheduler.ncores, callback_timeout=SCHEDULER_TIMEOUT_S)
        except Exception as error:
            raise self._scheduler_error(error) from error
        return sum(thread_counts.values())

    def _is_connected(self) -> bool:
        return self.lost is None and self._client.status == "running"

    def _scheduler_error(self, error: BaseException | None) -> SchedulerLost:
        address = getattr(self._client.scheduler, "address", "") or "the cluster"
        if isinstance(error, TimeoutError):
            reason = f"has not answered for {SCHEDULER_TIMEOUT_S:g} seconds"
        else:
            reason = "is gone: the connection to it was lost"
        return SchedulerLost(f"the Dask scheduler at {address} {reason}")

    def _fetch(self, task: distributed.Future[T], outcome: Future[T]) -> None:
        """Copy the outcome of a task; its result is fetched from its worker now."""
        try:
            if outcome.done() or not outcome.set_running_or_notify_cancel():
                return
            outcome.set_result(task.result())
        except InvalidStateError:  # the scheduler was lost meanwhile
            return
        except BaseException as error:  # noqa: BLE001 - the future carries it
            with suppress(InvalidStateError):
                outcome.set_exception(self._meaning(error))
        finally:
            task.release()  # or the cluster would compute its result again if the worker that has it dies

    def _meaning(self, error: BaseException) -> BaseException:
        if not self._is_connected() or _is_closed(error):
            return self.lost or self._scheduler_error(error)
        if isinstance(error, CancelledError):
            return WorkerDied("the task was cancelled: is the cluster still running?")
        return error


def _is_closed(error: BaseException) -> bool:
    """Whether an error is that of a connection that was closed."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(error, distributed.comm.CommClosedError)


def _copy_outcome(task: Future[T], outcome: Future[T]) -> None:
    """Copy the outcome of a task."""
    with suppress(InvalidStateError):  # the scheduler was lost meanwhile
        if not outcome.done():
            _copy(task, outcome)


def _copy(task: Future[T], outcome: Future[T]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    if task.cancelled():
        outcome.set_exception(WorkerDied("the task was cancelled: is the cluster still running?"))
        return
    error = task.exception()
    if error is None:
        outcome.set_result(task.result())
        return
    distributed = sys.modules.get("distributed")
    if isinstance(error, BrokenExecutor if distributed is None else (BrokenExecutor, distributed.KilledWorker)):
        error = WorkerDied(f"a worker died before its task was finished ({type(error).__name__}: {error})")
    outcome.set_exception(error)


def _executor_of(value: object) -> FuturesExecutor:
    """The executor itself, or that of a client."""
    if isinstance(value, FuturesExecutor):
        return value
    distributed = sys.modules.get("distributed")
    if distributed is None or not isinstance(value, distributed.Client):
        expected = "expected 'processes', a concurrent.futures executor, or a distributed.Client"
        raise SettingError(f"executor={value!r}: {expected}{_hint(value)}")
    if value.asynchronous:
        msg = (
            f"executor={value!r}: this client is asynchronous, and waits in the event loop that it would block: "
            "make it without asynchronous=True"
        )
        raise SettingError(msg)
    if value.status != "running":
        raise SettingError(f"executor={value!r}: this client is {value.status}: expected one that is connected")
    return _ClientExecutor(value)


def _hint(value: object) -> str:
    if isinstance(value, str) and "://" in value:
        return f": distributed.Client({value!r}) ({install('boolab[engine]')})"
    if hasattr(value, "get_client"):
        return ": cluster.get_client()"
    return f" (of Dask: {install('boolab[engine]')})"


def _size_of(executor: FuturesExecutor) -> Callable[[], int]:
    if isinstance(executor, _ClientExecutor):
        return executor.threads
    # Those of the standard library, loky's and mpi4py's all have it; there is no public attribute.
    return lambda: getattr(executor, "_max_workers", None) or os.cpu_count() or 1
