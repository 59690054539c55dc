"""The driver of a sweep: it plans, sends tasks, collects results, and is the only writer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, overload

from boolab.core.caller import warn
from boolab.core.executors import Executor, open_pool
from boolab.core.run import Run
from boolab.core.types import StopReason
from boolab.errors import SchedulerLost, SettingError, SweepWarning
from boolab.io.checks import MAX_COUNT, is_whole, repr_of
from boolab.runtime.engine.loop import YIELD_EVERY_S, check_event_loop
from boolab.runtime.engine.plan import Score
from boolab.runtime.engine.runner import turn_of
from boolab.runtime.tools.tool import ToolSpec, as_tools
from boolab.sweeps.cells import (
    Agents,
    Cell,
    Identities,
    Models,
    Plan,
    PlannedCell,
    Task,
    is_model_function,
    model_of_cell,
)
from boolab.sweeps.fingerprints import fingerprint
from boolab.sweeps.progress import Begun, CellResult, SweepProgress, Watcher, check_watcher, describe_kept, result_of
from boolab.sweeps.reuse import group_cells
from boolab.sweeps.sinks import CellNames, EarlierResults, KeptRuns, Sink, WrittenRuns
from boolab.sweeps.task import Dispatcher, Job, run_task

if TYPE_CHECKING:
    from boolab.store.rows import RunRecord
    from boolab.store.stored_runs import StoredRuns
    from boolab.store.writer import Store

DEFAULT_CONCURRENCY: Final = 16
"""How many runs are active at once in one event loop, by default."""
_CHUNK: Final = 32
_CHUNKS_PER_WORKER: Final = 2


@overload
async def sweep(
    agents: Agents,
    tasks: str | Sequence[str],
    model: Models | None = None,
    *,
    grid: Mapping[str, Iterable[Any]] | None = None,
    repeats: int = 1,
    tools: Sequence[ToolSpec | Callable[..., Any]] | None = None,
    root: str | Path | None = None,
    score: Score | None = None,
    concurrency: int | None = None,
    store: None = None,
    executor: Executor | None = None,
    reuse_prefixes: bool = False,
    again: Collection[str] = (),
    progress: bool | Watcher = True,
) -> list[Run]: ...
@overload
async def sweep(
    agents: Agents,
    tasks: str | Sequence[str],
    model: Models | None = None,
    *,
    grid: Mapping[str, Iterable[Any]] | None = None,
    repeats: int = 1,
    tools: Sequence[ToolSpec | Callable[..., Any]] | None = None,
    root: str | Path | None = None,
    score: Score | None = None,
    concurrency: int | None = None,
    store: str | Path,
    executor: Executor | None = None,
    reuse_prefixes: bool = False,
    again: Collection[str] = (),
    progress: bool | Watcher = True,
) -> StoredRuns: ...
async def sweep(
    agents: Agents,
    tasks: str | Sequence[str],
    model: Models | None = None,
    *,
    grid: Mapping[str, Iterable[Any]] | None = None,
    repeats: int = 1,
    tools: Sequence[ToolSpec | Callable[..., Any]] | None = None,
    root: str | Path | None = None,
    score: Score | None = None,
    concurrency: int | None = None,
    store: str | Path | None = None,
    executor: Executor | None = None,
    reuse_prefixes: bool = False,
    again: Collection[str] = (),
    progress: bool | Watcher = True,
) -> list[Run] | StoredRuns:
    """Run every agent on every task, with every model, under every setting.

    All cells are checked before the first one runs. A setting that a cell's policy does not have is None there, and
    cells that thereby become equal run once. A run that fails is a row with stop reason `error`, not the end.

    A cell gives the same run wherever and in whatever order it is executed. Its seed depends on the agent, the task,
    the model and the repeat, not on the settings: differences between two settings are due to the settings.

    With a `store` no finished run is lost: it survives an interrupt from the keyboard, a cancelled task or a crash, and
    the same call resumes. Runs of real models are written step by step, others in batches. A cell that was changed
    since (its agent, policy, model, tools, score or root, as `boolab.sweeps.fingerprints` sees them) runs again, and
    its new run replaces the old one.

    Args:
        agents: An agent, agents, or the result of `load_agents`.
        tasks: The tasks.
        model: A model, models by name, or a function from a `Cell` to a model (called once to check the cell and once
            in the process that runs it); by default the agents' own.
        grid: Values by axis: `max_steps`, `tool_budget`, `doom_loop`, `policy`, `temperature`.
        repeats: How often each cell runs, each time with another seed.
        tools: As for `run`.
        root: As for `run`.
        score: As for `run`; a simulated model has its own if its profile has `success`.
        concurrency: How many runs are active at once: 16 by default, but one of simulated models, which never wait, and
            as many as a model states that it can answer at once (`LocalModel`: its slots). With an executor: how many
            chunks of tasks are sent at once, by default two for each worker or as many as the model states.
        store: The file that holds the runs; it is created if it does not exist.
        executor: Where to run: `"processes"` (one for each core), any `concurrent.futures` executor, or the client of a
            Dask cluster; by default in this event loop. Results come back here, and only whole runs do.
        reuse_prefixes: Run only the loosest setting of max_steps, tool budget and doom loop under those policies that
            never inform the model of them, and cut the others' runs from it. The runs are the same if a model's answers
            depend on nothing but its requests. A real model gets one request instead of many.
        again: Stop reasons, such as `("error",)`: cells whose run in the store ended so are run again.
        progress: Whether to show a progress bar; or an object that shows it instead, such as a `SweepView`, with the
            methods of `boolab.sweeps.progress.Watcher`.

    Warns:
        SweepWarning: if a limit that the grid does not have stopped runs, or no tool of an agent was ever called.

    Returns:
        The runs in the order of the cells, each followed by those of its subagents; `Run.settings` holds the axes. With
        a store, they are read from it when they are used.

    Raises:
        SettingError: if a cell is not accepted; then nothing was run.
        StoreError: if the store cannot be read or written; what was committed stays.
        WorkerDied: if the workers of the user's own executor are gone for good.
        SchedulerLost: if the scheduler of a Dask cluster is gone, or does not answer. The message names what is kept.

    Example:
        >>> import boolab as bl
        >>> stuck = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}])
        >>> runs = asyncio.run(bl.sweep(bl.Agent("a"), "go", stuck, grid={"doom_loop": [2, 5, None]}, progress=False))
        >>> [run.n_steps for run in runs]
        [2, 5, 50]
    """
    plan = Plan(agents, tasks, model, grid, repeats)
    job = Job(model, tuple(as_tools(tools or ())), root, score)
    if isinstance(again, str):
        msg = f"again={again!r}: expected stop reasons, such as again=({again!r},)"
        raise SettingError(msg)
    for reason in again:
        if reason not in get_args(StopReason):
            msg = f"again: {reason!r} is not a stop reason; expected some of {', '.join(get_args(StopReason))}"
            raise SettingError(msg)
    check_concurrency(concurrency)
    watcher = check_watcher(progress)
    names = _PackedNames.from_plan(plan, job)
    tasks_left = partial(_unfinished_tasks, plan, names, job, reuse_prefixes=reuse_prefixes)
    return await run_work(
        Work(job, names, plan.about, tasks_left), store=store, executor=executor, concurrency=concurrency, again=again,
        watcher=watcher,
    )  # fmt: skip


def check_concurrency(concurrency: object) -> None:
    """Raise `SettingError` unless a value of `concurrency=` is None or an integer of at least 1."""
    if concurrency is not None and (not is_whole(concurrency) or not 1 <= concurrency <= MAX_COUNT):
        msg = f"concurrency={repr_of(concurrency)}: expected an integer >= 1"
        raise SettingError(msg)


class Work(NamedTuple):
    """What a driver works through."""

    job: Job  # what all cells share
    names: CellNames  # the key of each cell in order, and the id of its run
    about: Mapping[str, Any]  # the facts of the sweep, as JSON values
    # the tasks, from which of the cells are finished (None: none of them) and the store that has their runs. It is
    # iterated as workers become free. Where it gives None, the next one may not start before another has ended
    unfinished: Callable[[Sequence[int] | None, Store | None], Iterator[Task | None]]


async def run_work(
    work: Work,
    *,
    store: str | Path | None,
    executor: Executor | None,
    concurrency: int | None,
    again: Collection[str],
    watcher: bool | Watcher,
) -> list[Run] | StoredRuns:
    """Run all unfinished cells, and return the runs of all; the options are those of `sweep`."""
    check_event_loop()
    job, names, plan_facts, unfinished = work
    if store is None:
        memory_sink = KeptRuns(len(names))
        with SweepProgress(Begun(len(names), plan_facts, find=memory_sink.find), watcher) as bar:
            try:
                with _with_advice(lambda: _describe_runs_in_memory(len(memory_sink.runs))):
                    await _work_through(unfinished(None, None), job, memory_sink, bar, executor, concurrency)
            except BaseException as interruption:  # for the code that catches it
                interruption.runs = memory_sink.runs  # type: ignore[attr-defined]
                interruption.interrupted = memory_sink.unfinished  # type: ignore[attr-defined]
                raise
        _warn_of_notes(bar)
        return memory_sink.runs
    from boolab.store.stored_runs import finished_run, stored_runs

    with await _open_to_write(store) as store_writer:
        number = store_writer.begin_sweep(names, plan_facts)
        finished_cells = bytearray(len(names))
        reasons: Counter[str] = Counter()
        for index, reason in store_writer.finished(number, again):
            finished_cells[index] = 1
            reasons[reason] += 1
        sink = WrittenRuns(store_writer, names, job)
        earlier = EarlierResults(store, number, names, finished_cells)
        beginning = Begun(len(names), plan_facts, reasons, earlier, Path(store), partial(finished_run, store))
        with SweepProgress(beginning, watcher) as bar:
            with _with_advice(lambda: f"{describe_kept(bar.done, beginning)}, once there is a scheduler"):
                await _work_through(unfinished(finished_cells, store_writer), job, sink, bar, executor, concurrency)
            store_writer.end_sweep(number)  # before the bar ends: all runs can be read then
    _warn_of_notes(bar)
    return stored_runs(store, sweep=number)


def _warn_of_notes(bar: SweepProgress) -> None:
    for sentence in bar.notes.sentences():
        warn(sentence, SweepWarning)


@contextmanager
def _with_advice(advice: Callable[[], str]) -> Iterator[None]:
    """Say what is kept, and how to continue, where the scheduler of a cluster is lost."""
    try:
        yield
    except SchedulerLost as error:
        raise SchedulerLost(f"{error}. {advice()}") from error.__cause__


def _describe_runs_in_memory(n_finished: int) -> str:
    finished = f"The attribute `runs` of this error has the {n_finished:,} that were finished"
    return f"{finished if n_finished else 'No run was finished'}: with store=... the same call would resume"


async def _open_to_write(path: str | Path) -> Store:
    """Open a store without blocking the event loop while another writer has it."""
    from boolab.store.connection import POLL_S, WAIT_S, check_location, is_locked, path_of
    from boolab.store.writer import Store

    store_path = path_of(path)
    check_location(store_path)
    deadline = time.monotonic() + WAIT_S
    while is_locked(store_path):
        if time.monotonic() >= deadline:
            return Store(path, wait_s=0)
        await asyncio.sleep(POLL_S)
    return Store(path)


class _PackedNames:
    """The keys of all cells and the ids of their runs, packed: 32 bytes for each cell."""

    def __init__(self) -> None:
        self._packed = bytearray()

    @classmethod
    def from_plan(cls, plan: Plan, job: Job) -> _PackedNames:
        """Check all cells, and name them; `SettingError` if one is not accepted."""
        names = cls()
        identities = Identities((job.tools, job.score, str(job.root)), job.model)
        has_function = is_model_function(job.model)
        checked: set[object] = set()
        for cell in plan:
            model = model_of_cell(cell, job.model)
            group = (cell.agent.name, cell.model_name, cell.policy.name)
            try:
                if has_function or group not in checked:
                    turn_of(job.options_of(cell, model=model), cell.task)
            except SettingError as error:
                msg = f"{cell}: {error}"
                raise SettingError(msg) from error
            checked.add(group)
            key = cell.key(model)
            names._packed += bytes.fromhex(key + identities.run_id(cell, key, model))
        return names

    def __len__(self) -> int:
        return len(self._packed) // 32

    def __getitem__(self, index: int) -> tuple[str, str]:
        """A cell's key, and the id of its run."""
        key = self._packed[32 * index : 32 * index + 16].hex()
        return key, self._packed[32 * index + 16 : 32 * index + 32].hex()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return map(self.__getitem__, range(len(self)))


def _unfinished_tasks(
    plan: Plan,
    names: _PackedNames,
    job: Job,
    finished_cells: Sequence[int] | None,
    store: Store | None,
    *,
    reuse_prefixes: bool,
) -> Iterator[Task]:
    """The unfinished tasks of a plan."""
    is_incomplete = finished_cells is None or not all(finished_cells)
    index = 0
    for block in plan.blocks() if is_incomplete else ():
        cells = [PlannedCell(index + n, cell, names[index + n][1]) for n, cell in enumerate(block)]
        index += len(cells)
        for group in group_cells(cells, _models_by_cell(job)) if reuse_prefixes else ([entry] for entry in cells):
            first, *other_cells = group
            todo = [entry for entry in other_cells if finished_cells is None or not finished_cells[entry.position]]
            if finished_cells is None or not finished_cells[first.position]:
                yield Task((first, *todo))
            elif todo and store is not None:
                yield Task((first, *todo), store.run(first.run_id))


def _models_by_cell(job: Job) -> Callable[[Cell], object]:
    """What distinguishes the models of cells: a function of the cell may make another one for each setting."""
    if not is_model_function(job.model):
        return lambda _cell: None
    return lambda cell: fingerprint(model_of_cell(cell, job.model))


async def _work_through(
    tasks: Iterator[Task | None],
    job: Job,
    sink: Sink,
    bar: SweepProgress,
    executor: Executor | None,
    concurrency: int | None,
) -> None:
    """Run all tasks, and pass their runs to the sink."""
    if executor is None:
        await _run_here(tasks, job, sink, bar, concurrency or job.concurrency or DEFAULT_CONCURRENCY)
        return

    def receive_run(index: int, run: Run | Sequence[RunRecord], result: CellResult) -> None:
        sink.add_received(index, run)
        bar.add(result)

    with open_pool(executor) as pool:
        stated = None if job.never_waits else job.concurrency
        n_chunks = concurrency or stated or _CHUNKS_PER_WORKER * pool.size
        chunk = (
            1
            if job.records_start and not job.never_waits
            else max(1, min(_CHUNK, (bar.total - bar.done) // (2 * n_chunks)))
        )
        dispatcher = Dispatcher(
            job, pool, receive_run, sending=sink.note_sending, rows=sink.rows, chunk=chunk, n_chunks=n_chunks
        )  # fmt: skip
        await dispatcher.run_all(tasks)


@contextmanager
def _flush_on_interrupt(sink: Sink) -> Iterator[None]:
    """Keep the finished runs where an interrupt ends the event loop.

    One more interrupt ends asyncio's clean-up of the tasks as well, before the store is closed.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        sink.flush()
        raise


async def _run_here(tasks: Iterator[Task | None], job: Job, sink: Sink, bar: SweepProgress, concurrency: int) -> None:
    """Run the tasks in this event loop."""
    yielded_at = time.perf_counter()
    run_ended = asyncio.Event()

    async def do_some() -> None:
        nonlocal yielded_at
        with _flush_on_interrupt(sink):
            for task in tasks:
                if task is None:
                    run_ended.clear()
                    await run_ended.wait()
                    continue
                try:
                    async with aclosing(run_task(job, task, sink.step)) as done_runs:
                        async for done_run in done_runs:
                            sink.add_done(done_run)
                            bar.add(result_of(done_run.run))
                            run_ended.set()
                            # Runs in virtual time may be too short to yield themselves, however many there are.
                            if time.perf_counter() - yielded_at > YIELD_EVERY_S:
                                await asyncio.sleep(0)
                                yielded_at = time.perf_counter()
                except asyncio.CancelledError as interruption:
                    run = getattr(interruption, "run", None)
                    if isinstance(run, Run):
                        sink.add_interrupted(next(entry for entry in task.cells if entry.run_id == run.run_id), run)
                    raise

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, bar.total - bar.done)):
                group.create_task(do_some())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
