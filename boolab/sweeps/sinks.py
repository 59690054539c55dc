"""Where the runs of a sweep go: into memory, or into a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from boolab.core.run import Run
from boolab.frames.runs import with_subagents
from boolab.runtime.engine.loop import run_of
from boolab.runtime.engine.turn import Turn
from boolab.sweeps.cells import PlannedCell, Task
from boolab.sweeps.progress import CellResult, result_of
from boolab.sweeps.task import NOT_RETURNED, SENT_FAULT, Done, Job

if TYPE_CHECKING:
    from boolab.store.rows import RunRecord
    from boolab.store.stored_runs import State
    from boolab.store.writer import Store


class CellNames(Protocol):
    """The key of each cell in order, and the id of its run."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> tuple[str, str]: ...
    def __iter__(self) -> Iterator[tuple[str, str]]: ...


class Sink:
    """Where runs go; nothing is kept of unfinished ones."""

    rows = False
    """Whether it takes those of other processes as rows."""

    def note_sending(self, tasks: Sequence[Task]) -> None:
        """Tasks are about to be sent to another process."""

    def step(self, entry: PlannedCell, turn: Turn) -> None:
        """A run in real time has made a step."""

    def add_done(self, done_run: Done) -> None:
        """A run is finished."""
        raise NotImplementedError

    def add_received(self, index: int, run: Run | Sequence[RunRecord]) -> None:
        """A run from another process is finished."""
        raise NotImplementedError

    def add_interrupted(self, entry: PlannedCell, run: Run) -> None:
        """A run was interrupted."""

    def flush(self) -> None:
        """Keep the finished runs even if the process does nothing more."""


class KeptRuns(Sink):
    """Keeps the runs in memory."""

    def __init__(self, total: int) -> None:
        self._runs: list[Run | None] = [None] * total
        self._indexes: dict[str, int] = {}
        self.unfinished: list[Run] = []

    @property
    def runs(self) -> list[Run]:
        """The finished runs, in the order of the cells, each with those of its subagents."""
        return with_subagents(run for run in self._runs if run is not None)

    def find(self, run_id: str) -> list[Run]:
        """The finished run of this id, if there is one; it holds its subagents' runs."""
        index = self._indexes.get(run_id)
        return [] if index is None else [cast("Run", self._runs[index])]

    def add_done(self, done_run: Done) -> None:
        self._keep(done_run.entry.position, done_run.run)

    def add_received(self, index: int, run: Run | Sequence[RunRecord]) -> None:
        self._keep(index, cast("Run", run))

    def add_interrupted(self, entry: PlannedCell, run: Run) -> None:  # noqa: ARG002 - a store has the cell too
        self.unfinished.append(run)

    def _keep(self, index: int, run: Run) -> None:
        self._runs[index] = run
        self._indexes[run.run_id] = index


class WrittenRuns(Sink):
    """Writes the runs into a store."""

    def __init__(self, store: Store, names: CellNames, job: Job) -> None:
        from boolab.store.rows import records_of

        self._store = store
        self._names = names
        self._job = job
        self._records_start = job.records_start and not job.never_waits
        self.rows = not self._records_start
        self._records_of = records_of
        self._started_ids: set[str] = set()  # the runs that are written step by step

    def note_sending(self, tasks: Sequence[Task]) -> None:
        for entry in chain.from_iterable(task.cells for task in tasks) if self._records_start else ():
            turn = self._job.turn(entry.cell, entry.run_id)
            turn.record.fault(NOT_RETURNED, SENT_FAULT)
            self.step(entry, turn)

    def step(self, entry: PlannedCell, turn: Turn) -> None:
        self._started_ids.add(entry.run_id)
        self._store.step(run_of(turn, turn.end("aborted")), self._names[entry.position][0])

    def add_done(self, done_run: Done) -> None:
        key = self._names[done_run.entry.position][0]
        if done_run.base is None and (done_run.run.started_at is not None or done_run.run.run_id in self._started_ids):
            self._store.finish(done_run.run, key)
        else:
            self._store.put(self._records_of(done_run.run, done_run.base), key)

    def add_received(self, index: int, run: Run | Sequence[RunRecord]) -> None:
        if isinstance(run, Run) and run.run_id in self._started_ids:
            self._store.finish(run, self._names[index][0])
            return
        records = self._records_of(run) if isinstance(run, Run) else run
        self._store.put(records, self._names[index][0])

    def add_interrupted(self, entry: PlannedCell, run: Run) -> None:
        if run.started_at is not None or run.run_id in self._started_ids:
            self._store.finish(run, self._names[entry.position][0], state="interrupted")

    def flush(self) -> None:
        self._store.flush()


class EarlierResults:
    """The results of the cells that were finished before, read from the store when they are iterated."""

    def __init__(self, store: str | Path, sweep: int, names: CellNames, finished_cells: Sequence[int]) -> None:
        self._store = store
        self._sweep = sweep
        self._names = names
        self._finished_cells = finished_cells

    def __iter__(self) -> Iterator[CellResult]:
        from boolab.store.stored_runs import stored_runs

        # A changed cell's old run is in the store as well, under another id.
        run_ids = {self._names[index][1] for index, is_finished in enumerate(self._finished_cells) if is_finished}
        if not run_ids:
            return iter(())
        finished: tuple[State, ...] = ("finished",)
        runs = stored_runs(self._store, sweep=self._sweep, states=finished)
        return (result_of(run) for run in runs if run.run_id in run_ids)
