"""Where work is done that is cut into pieces: in processes, by any executor, or on the many machines of a Dask cluster.

A piece is a function of boolab's, which workers know by its name, and arguments that can be pickled. Its result comes
back to the driver. A worker may die at any time: its pieces then raise `WorkerDied`, and the driver may have them done
again.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from concurrent.futures import Executor as FuturesExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from boolab.errors import SettingError, WorkerDied
from boolab.parallel.process_pool import ProcessPool

if TYPE_CHECKING:
    import distributed

T = TypeVar("T")

Executor: TypeAlias = "Literal['processes'] | FuturesExecutor | distributed.Client"
"""`"processes"`: processes of this machine, one for each core. Any `concurrent.futures.Executor`. Or a client of a Dask
cluster."""

ATTEMPTS: Final = 4
"""How often a piece is begun before it is given up: one that takes its worker along would do so for ever."""

_EXPECTED: Final = "expected 'processes', a concurrent.futures executor, or a distributed.Client"


class Pool(Protocol):
    """Workers that take pieces of work."""

    @property
    def size(self) -> int:
        """How many pieces are worked on at once. Clusters grow and shrink, so it is read each time."""
        ...

    def submit(self, function: Callable[..., T], *args: object) -> Future[T]:
        """Have a function called by a worker.

        Args:
            function: A function that workers can import.
            *args: What it is called with.

        Returns:
            A future of what it returns or raises. It raises `WorkerDied` if the worker vanished before.

        Raises:
            WorkerDied: if there are no workers any more, and will be none.
        """
        ...


@contextmanager
def open_pool(executor: Executor) -> Iterator[Pool]:
    """The workers of an executor. Whatever they have not done at the end of the block is given up.

    Args:
        executor: `"processes"`, whose processes end with the block; or the user's own executor or client, which stays
            open.

    Yields:
        The workers.

    Raises:
        SettingError: if it is none of these, or a client that cannot be waited for.

    Example:
        >>> with open_pool("processes") as pool:
        ...     pool.submit(divmod, 7, 2).result()
        (3, 1)
    """
    given: object = executor
    if given == "processes":
        processes = ProcessPool()
        try:
            yield processes
        finally:
            processes.close()
        return
    pool = _UsersPool(_client_executor(given), _size_of(given))
    try:
        yield pool
    finally:
        pool.give_up()


def in_order(pool: Pool, function: Callable[..., T], pieces: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """What a function returns for each piece, in order. Pieces of workers that died are done again.

    Only a few pieces more than there are workers are under way at once, so that there may be more of them, and of their
    results, than fit into memory.

    Args:
        pool: The workers.
        function: A function that workers can import.
        pieces: Its arguments, for each piece.

    Yields:
        What it returned.

    Raises:
        WorkerDied: if the worker of a piece died four times in a row.

    Example:
        >>> with open_pool("processes") as pool:
        ...     list(in_order(pool, divmod, [(n, 2) for n in range(3)]))
        [(0, 0), (0, 1), (1, 0)]
    """
    waiting = iter(pieces)
    ahead: deque[tuple[tuple[Any, ...], Future[T]]] = deque()
    while True:
        for piece in itertools.islice(waiting, max(0, 2 * pool.size - len(ahead))):
            ahead.append((piece, pool.submit(function, *piece)))
        if not ahead:
            return
        yield _done(pool, function, *ahead.popleft())


def _done(pool: Pool, function: Callable[..., T], piece: tuple[Any, ...], future: Future[T]) -> T:
    for _ in range(1, ATTEMPTS):
        try:
            return future.result()
        except WorkerDied:
            future = pool.submit(function, *piece)
    return future.result()


class _UsersPool:
    """Workers of the user's own executor."""

    def __init__(self, executor: FuturesExecutor, size: Callable[[], int]) -> None:
        self._executor = executor
        self._size = size
        self._under_way: set[Future[Any]] = set()

    @property
    def size(self) -> int:
        return max(1, self._size())

    def submit(self, function: Callable[..., T], *args: object) -> Future[T]:
        try:
            done = self._executor.submit(function, *args)
        except BrokenExecutor as error:
            why = f"{type(error).__name__}: {error}"
            raise WorkerDied(f"the executor's pool broke when a worker died, and takes no more work ({why})") from error
        outcome: Future[T] = Future()
        self._under_way.add(outcome)
        outcome.add_done_callback(self._under_way.discard)
        outcome.add_done_callback(lambda _: done.cancel())  # no effect if it is done already
        done.add_done_callback(lambda _: _copy_outcome(done, outcome))
        return outcome

    def give_up(self) -> None:
        for future in list(self._under_way):
            future.cancel()


class _ClientExecutor(FuturesExecutor):
    """A Dask client as an executor.

    Its own, `client.get_executor()`, never completes the future of a task whose result was lost with its worker
    and that then kills others: `distributed.cfexecutor._cascade_future` raises, and the future gets no exception.
    """

    def __init__(self, client: distributed.Client) -> None:
        self._client = client

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        outcome: Future[T] = Future()
        # A piece is not a pure function: submitted twice with the same arguments, it has to run twice.
        task = self._client.submit(fn, *args, **kwargs, pure=False)
        outcome.add_done_callback(lambda _: task.cancel() if outcome.cancelled() else None)
        task.add_done_callback(lambda _: _fetch(task, outcome))
        return outcome


def _fetch(task: distributed.Future[T], outcome: Future[T]) -> None:
    """Copy the outcome of a task; its result is fetched from its worker now."""
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        outcome.set_result(task.result())
    except CancelledError:
        outcome.set_exception(WorkerDied("the piece of work was cancelled: is the cluster still running?"))
    except BaseException as error:  # noqa: BLE001 - the future carries it
        outcome.set_exception(error)
    finally:
        task.release()  # or the cluster would make its result again if the worker that has it dies


def _copy_outcome(done: Future[T], outcome: Future[T]) -> None:
    """Copy the outcome of a piece."""
    if not outcome.set_running_or_notify_cancel():
        return
    if done.cancelled():
        outcome.set_exception(WorkerDied("the piece of work was cancelled: is the cluster still running?"))
        return
    error = done.exception()
    if error is None:
        outcome.set_result(done.result())
    else:
        outcome.set_exception(_death(error) if _is_death(error) else error)


def _is_death(error: BaseException) -> bool:
    """Whether an error means that a worker died."""
    distributed = sys.modules.get("distributed")
    return isinstance(error, BrokenExecutor if distributed is None else (BrokenExecutor, distributed.KilledWorker))


def _death(error: BaseException) -> WorkerDied:
    return WorkerDied(f"a worker died before its piece of work was done ({type(error).__name__}: {error})")


def _client_executor(given: object) -> FuturesExecutor:
    """The executor itself, or that of a client."""
    if isinstance(given, FuturesExecutor):
        return given
    distributed = sys.modules.get("distributed")
    if distributed is None or not isinstance(given, distributed.Client):
        raise SettingError(f"executor={given!r}: {_EXPECTED}{_hint(given)}")
    if given.asynchronous:
        msg = (
            f"executor={given!r}: this client is asynchronous, and waits in the event loop that it should not hold up: "
            "make it without asynchronous=True"
        )
        raise SettingError(msg)
    if given.status != "running":
        raise SettingError(f"executor={given!r}: this client is {given.status}: expected one that is connected")
    return _ClientExecutor(given)


def _hint(given: object) -> str:
    if isinstance(given, str) and "://" in given:
        return f": distributed.Client({given!r}) (pip install 'boolab[engine]')"
    if hasattr(given, "get_client"):
        return ": cluster.get_client()"
    return " (of Dask: pip install 'boolab[engine]')"


def _size_of(given: Any) -> Callable[[], int]:  # noqa: ANN401 - one of the executors
    if hasattr(given, "nthreads"):
        return lambda: sum(given.nthreads().values())
    # Those of the standard library, loky's and mpi4py's all have it; there is no public way to ask.
    return lambda: getattr(given, "_max_workers", None) or os.cpu_count() or 1
