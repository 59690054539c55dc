"""Handing pieces of a sweep to workers, and taking in what they made; workers may die over it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from boolab.core.types import Run
from boolab.errors import WorkerDied
from boolab.parallel.executors import Pool
from boolab.sweeps.cells import Task
from boolab.sweeps.progress import CellResult, result_of
from boolab.sweeps.task import Job, lost, packed, work

if TYPE_CHECKING:
    from boolab.store.rows import Record

Came: TypeAlias = "Callable[[int, Run | Sequence[Record], CellResult], None]"
"""Takes in what a worker made: the cell's place, its run or its rows, and what became of it in few values."""

Results: TypeAlias = "list[tuple[int, Run | Sequence[Record], CellResult]]"

_CELLS: Final = 500
"""How many cells there are in a chunk, more or less, at most."""
_DEATHS: Final = 3
"""How many workers a cell may take along before it is given up."""


class Handing:
    """Hands chunks of pieces to workers.

    The pieces of a worker that died are done again, one at a time and nothing beside them: so that the one that kills
    its worker is found out, and no other pays for it. A cell that kills three is an `error`. Where there are no workers
    any more, as in a user's own pool that broke, that is the end: `WorkerDied`.

    Args:
        job: What all cells have in common.
        pool: The workers.
        came: Takes in what they made.
        rows: Whether runs are wanted as rows for a store.
        chunk: How many pieces are handed out together, at most; fewer, where many cells follow from each.
        ahead: How many chunks are handed out at once.
    """

    def __init__(self, job: Job, pool: Pool, came: Came, *, rows: bool, chunk: int, ahead: int) -> None:
        self._job = job
        self._load = packed(job)
        self._pool = pool
        self._came = came
        self._rows = rows
        self._chunk = chunk
        self._ahead = ahead

    async def all(self, pieces: Iterator[Task]) -> None:
        """Have all pieces done."""
        under_way: dict[asyncio.Future[Results], Sequence[Task]] = {}
        suspects: list[Task] = []
        try:
            while True:
                while len(under_way) < self._ahead and not suspects:
                    chunk = list(self._some(pieces))
                    if not chunk:
                        break
                    under_way[self._handed(chunk)] = chunk
                if not under_way:
                    break
                done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for future in done:
                    chunk = list(under_way.pop(future))
                    try:
                        self._take(future.result())
                    except WorkerDied:
                        suspects += chunk
                if not under_way:
                    for piece in suspects:
                        await self._alone(piece)
                    suspects = []
        finally:
            for future in under_way:
                future.cancel()

    def _some(self, pieces: Iterator[Task]) -> Iterator[Task]:
        """The next pieces, so few that what is lost by an interrupt is soon made again."""
        cells = 0
        for piece in itertools.islice(pieces, self._chunk):
            yield piece
            cells += len(piece.cells)
            if cells >= _CELLS:
                return

    def _handed(self, chunk: Sequence[Task]) -> asyncio.Future[Results]:
        return asyncio.wrap_future(self._pool.submit(work, self._load, packed(self._job, chunk), self._rows))

    def _take(self, results: Results) -> None:
        for place, what, result in results:
            self._came(place, what, result)

    async def _alone(self, piece: Task) -> None:
        for _ in range(_DEATHS):
            handed = self._handed([piece])
            try:
                self._take(await handed)
            except WorkerDied as error:
                why = error
            else:
                return
        for planned in piece.cells if piece.base is None else piece.cells[1:]:
            run = lost(self._job, planned, why)
            self._came(planned.place, run, result_of(run))
