"""One task of a sweep, wherever it runs: in the driver, in another process, on another machine; workers may die.

A task is one cell that is run, and those cells that follow from its run (see `boolab.sweeps.reuse`).
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

import cloudpickle

from boolab.core.events import FaultKind
from boolab.core.executors import Pool
from boolab.core.run import Run
from boolab.errors import BoolabError, SettingError, WorkerDied, WorldError, describe
from boolab.runtime.engine.loop import close, drive
from boolab.runtime.engine.plan import Score, TurnOptions
from boolab.runtime.engine.runner import turn_of
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import Model, traits_of
from boolab.runtime.tools.tool import ToolSpec
from boolab.sweeps.cells import Cell, Models, PlannedCell, Task, model_of_cell
from boolab.sweeps.progress import CellResult, result_of
from boolab.sweeps.reuse import derive_runs

if TYPE_CHECKING:
    from boolab.store.rows import RunRecord

AfterStep: TypeAlias = Callable[[PlannedCell, Turn], object]


NOT_RETURNED: Final[FaultKind] = "not_returned"
"""The code of the fault of a run that another process did not return."""
SENT_FAULT: Final = "it was sent to another process, which did not return it: its steps are not known"
"""The fault on record of a run that was begun in another process; the whole run replaces that record."""


class Done(NamedTuple):
    """The run of a cell, and the run that it was cut from, if any."""

    entry: PlannedCell
    run: Run
    base: Run | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What all cells of a sweep share."""

    model: Models | None
    tools: tuple[ToolSpec, ...]
    root: str | Path | None
    score: Score | None
    records_start: ClassVar[bool] = False
    """Whether a store gets a run in real time before its first step, so that it shows which runs were begun."""

    @property
    def never_waits(self) -> bool:
        """Whether nothing in a run can take real time: its models and all of its tools are simulated.

        Such runs gain nothing by running concurrently, and cost a fifth more, because more of them are in memory.
        """
        models = self.model.values() if isinstance(self.model, Mapping) else [self.model]
        model_traits = [traits_of(model) for model in models]
        return all(traits.virtual and traits.own_tools is not None for traits in model_traits)

    @property
    def concurrency(self) -> int | None:
        """How many runs should be active at once: the least of what its models state; None if none states it."""
        if self.never_waits:
            return 1
        models = self.model.values() if isinstance(self.model, Mapping) else [self.model]
        stated = [traits.concurrency for traits in map(traits_of, models) if traits.concurrency is not None]
        return min(stated, default=None)

    @property
    def parts(self) -> list[tuple[str, object]]:
        """What is sent to workers, with the names that an error may give."""
        models = self.model.items() if isinstance(self.model, Mapping) else [(None, self.model)]
        return [
            *((f"the tool {spec.name!r}", spec) for spec in self.tools),
            *(("model" if name is None else f"the model {name!r}", model) for name, model in models),
            ("score", self.score),
        ]

    def options_of(self, cell: Cell, run_id: str | None = None, model: Model | None = None) -> TurnOptions:
        """The options of a cell's run. `model` is the cell's, where it exists already."""
        return {
            "agent": cell.variant.agent,
            "model": model_of_cell(cell, self.model) if model is None else model,
            "tools": self.tools,
            "root": self.root,
            "policy": cell.policy,
            "score": self.score,
            "seed": cell.seed,
            "settings": dict(cell.settings),
            "model_name": cell.model_name,
            "run_id": run_id,
        }

    def turn(self, cell: Cell, run_id: str | None = None) -> Turn:
        """The prepared turn of a cell; `SettingError` if the cell is not accepted."""
        return turn_of(self.options_of(cell, run_id), cell.task)

    @asynccontextmanager
    async def begin_turn(self, cell: Cell, run_id: str) -> AsyncIterator[Turn]:
        """The turn of a cell, with all that it needs to begin, which is released once the turn has ended."""
        yield self.turn(cell, run_id)


async def run_task(job: Job, task: Task, after_step: AfterStep | None = None) -> AsyncGenerator[Done, None]:
    """Make the runs of a task; `after_step` is called in those that run in real time."""
    first, *other_cells = task.cells

    async def run(entry: PlannedCell, turn: Turn) -> Run:
        if after_step is None or turn.clock.virtual:
            return await drive(turn)
        if job.records_start:
            after_step(entry, turn)
        return await drive(turn, functools.partial(after_step, entry))

    base = task.base
    if base is not None:
        turn = job.turn(first.cell, first.run_id)
    else:
        try:
            async with job.begin_turn(first.cell, first.run_id) as turn:
                base = await run(first, turn)
        except WorldError as error:  # of this cell alone: the others may have their files
            turn, base = job.turn(first.cell, first.run_id), make_lost_run(job, first, BoolabError(str(error)))
        yield Done(first, base)
    async with aclosing(derive_runs(turn, base, other_cells, job.options_of)) as cuts:
        async for entry, cut_run in cuts:
            if cut_run is None:
                yield Done(entry, await run(entry, job.turn(entry.cell, entry.run_id)))
            else:
                yield Done(entry, cut_run, base)


def pack(job: Job, tasks: Sequence[Task] | None = None) -> bytes:
    """A job, or tasks of it, for another process, with definitions that cannot be imported there."""
    try:
        return bytes(cloudpickle.dumps(job if tasks is None else tuple(tasks)))
    except BoolabError:
        raise
    except Exception as error:
        part = _find_unsendable(job, tasks or ())
        msg = (
            f"{part} cannot be sent to a worker ({describe(error)}): leave out executor=, or create "
            "it there: a model by model= as a function, the resources of a tool or a score inside it"
        )
        raise SettingError(msg) from error


def _find_unsendable(job: Job, tasks: Sequence[Task]) -> str:
    """The part of a job that cannot be pickled."""
    cells = itertools.chain.from_iterable(task.cells for task in tasks)
    agents = {entry.cell.agent.name: entry.cell.agent for entry in cells}
    parts = [*job.parts, *((f"the agent {name!r}", agent) for name, agent in agents.items())]
    for name, part in parts:
        try:
            cloudpickle.dumps(part)
        except Exception:  # noqa: BLE001 - pickling runs code of the object
            return name
    return "a part of it"


def run_packed_tasks(job_load: bytes, load: bytes, rows: bool) -> Results:
    """Make the runs of packed tasks: for each cell its place, its run or its rows for a store, and its result."""
    job, tasks = _unpack_job(job_load, threading.get_ident()), cloudpickle.loads(load)
    return asyncio.run(_run_all(job, tasks, _rows if rows else lambda done_run: done_run.run))


@functools.lru_cache(maxsize=8)
def _unpack_job(job_load: bytes, _thread: int) -> Job:
    """The job, unpacked once by each thread of a worker: preparing a model may take as long as some of its runs."""
    job: Job = cloudpickle.loads(job_load)
    return job


async def _run_all(job: Job, tasks: Sequence[Task], convert: Callable[[Done], Run | Sequence[RunRecord]]) -> Results:
    async def run(task: Task) -> Results:
        return [
            (done_run.entry.position, convert(done_run), result_of(done_run.run))
            async for done_run in run_task(job, task)
        ]

    one_by_one = job.concurrency == 1
    results = [await run(task) for task in tasks] if one_by_one else await asyncio.gather(*map(run, tasks))
    return list(itertools.chain.from_iterable(results))


def _rows(done_run: Done) -> Sequence[RunRecord]:
    from boolab.store.rows import records_of

    return records_of(done_run.run, done_run.base)


def make_lost_run(job: Job, entry: PlannedCell, error: Exception, *, dispatched: bool = False) -> Run:
    """The record of a cell that could not be run: it ends with that error, before any step that is known."""
    turn = replace(job, score=lambda _run: None).turn(entry.cell, entry.run_id)
    if dispatched and job.records_start:
        turn.record.fault(NOT_RETURNED, SENT_FAULT)
    run = close(turn, turn.fail(error))
    return replace(run, duration_ms=None, success=None)


Received: TypeAlias = "Callable[[int, Run | Sequence[RunRecord], CellResult], None]"
"""Called with the cell's place, its run or its rows, and its result."""

Results: TypeAlias = "list[tuple[int, Run | Sequence[RunRecord], CellResult]]"

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
        n_chunks: int,
    ) -> None:
        self._job = job
        self._load = pack(job)
        self._pool = pool
        self._received = received
        self._sending = sending
        self._rows = rows
        self._chunk = chunk
        self._n_chunks = n_chunks

    async def run_all(self, tasks: Iterator[Task | None]) -> None:
        """Run all tasks; where None comes, the next one may not start before another has ended."""
        running: dict[asyncio.Future[Results], Sequence[Task]] = {}
        suspects: list[Task] = []
        try:
            while True:
                while len(running) < self._n_chunks and not suspects:
                    chunk = list(self._next_tasks(tasks))
                    if not chunk:
                        break
                    running[self._submit(chunk)] = chunk
                if not running:
                    break
                done_futures, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for future in done_futures:
                    chunk = list(running.pop(future))
                    try:
                        self._take(future.result())
                    except WorkerDied:
                        suspects += chunk
                if not running:
                    for task in suspects:
                        await self._run_single(task)
                    suspects = []
        finally:
            for future in running:
                future.cancel()

    def _next_tasks(self, tasks: Iterator[Task | None]) -> Iterator[Task]:
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
        load = pack(self._job, chunk)
        self._sending(chunk)
        return asyncio.wrap_future(self._pool.submit(run_packed_tasks, self._load, load, self._rows))

    def _take(self, results: Results) -> None:
        for index, run, result in results:
            self._received(index, run, result)

    async def _run_single(self, task: Task) -> None:
        for _ in range(_MAX_DEATHS):
            future = self._submit([task])
            try:
                self._take(await future)
            except WorkerDied as error:
                last_error = error
            else:
                return
        for entry in task.cells if task.base is None else task.cells[1:]:
            run = make_lost_run(self._job, entry, last_error, dispatched=True)
            self._received(entry.position, run, result_of(run))
