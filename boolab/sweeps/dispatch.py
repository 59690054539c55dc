"""Sends the tasks of a sweep to workers and receives their results; workers may die."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from boolab.core.parallel.executors import Pool
from boolab.core.types import Run
from boolab.errors import WorkerDied
from boolab.sweeps.cells import Task
from boolab.sweeps.progress import CellResult, result_of
from boolab.sweeps.task import Job, lost, packed, work

if TYPE_CHECKING:
    from boolab.store.rows import Record

Received: TypeAlias = "Callable[[int, Run | Sequence[Record], CellResult], None]"
"""Called with the cell's place, its run or its rows, and its result."""

Results: TypeAlias = "list[tuple[int, Run | Sequence[Record], CellResult]]"

_MAX_CELLS: Final = 500
"""About the largest number of cells in a chunk."""
_MAX_DEATHS: Final = 3
"""How many workers may die of a cell before it is an error."""


class Dispatcher:
    """Sends chunks of tasks to workers: at most `chunk` tasks together, and `ahead` chunks at once.

    The tasks of a worker that died are run again, one at a time and with nothing beside them: so the cell that kills
    its worker is found, and no other suffers. A cell that kills three workers is an `error`. Where all workers are
    gone, as in a user's own pool that broke, the sweep ends with `WorkerDied`. With `rows`, runs come back as rows for
    a store. `sending` is called before tasks are sent.
    """

    def __init__(
        self,
        job: Job,
        pool: Pool,
        received: Received,
        *,
        sending: Callable[[Sequence[Task]], object],
        rows: bool,
        chunk: int,
        ahead: int,
    ) -> None:
        self._job = job
        self._load = packed(job)
        self._pool = pool
        self._received = received
        self._sending = sending
        self._rows = rows
        self._chunk = chunk
        self._ahead = ahead

    async def run_all(self, tasks: Iterator[Task | None]) -> None:
        """Run all tasks; where None comes, the next one may not start before another has ended."""
        running: dict[asyncio.Future[Results], Sequence[Task]] = {}
        suspects: list[Task] = []
        try:
            while True:
                while len(running) < self._ahead and not suspects:
                    chunk = list(self._some(tasks))
                    if not chunk:
                        break
                    running[self._submit(chunk)] = chunk
                if not running:
                    break
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for future in done:
                    chunk = list(running.pop(future))
                    try:
                        self._take(future.result())
                    except WorkerDied:
                        suspects += chunk
                if not running:
                    for task in suspects:
                        await self._alone(task)
                    suspects = []
        finally:
            for future in running:
                future.cancel()

    def _some(self, tasks: Iterator[Task | None]) -> Iterator[Task]:
        """The next tasks, few enough that results lost by an interrupt are soon made again."""
        cells = 0
        for task in itertools.islice(tasks, self._chunk):
            if task is None:
                return
            yield task
            cells += len(task.cells)
            if cells >= _MAX_CELLS:
                return

    def _submit(self, chunk: Sequence[Task]) -> asyncio.Future[Results]:
        load = packed(self._job, chunk)
        self._sending(chunk)
        return asyncio.wrap_future(self._pool.submit(work, self._load, load, self._rows))

    def _take(self, results: Results) -> None:
        for place, what, result in results:
            self._received(place, what, result)

    async def _alone(self, task: Task) -> None:
        for _ in range(_MAX_DEATHS):
            sent = self._submit([task])
            try:
                self._take(await sent)
            except WorkerDied as error:
                why = error
            else:
                return
        for planned in task.cells if task.base is None else task.cells[1:]:
            run = lost(self._job, planned, why, sent=True)
            self._received(planned.place, run, result_of(run))
