"""The writer of a store."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Self

from boolab.core.run import Run
from boolab.core.run_tree import descendants, iterate_with_subagents
from boolab.core.text import count
from boolab.core.types import Step
from boolab.errors import SettingError, StoreError
from boolab.io.checks import is_amount, repr_of
from boolab.store.changes import (
    End,
    Placed,
    Prunable,
    RunChanges,
    Storable,
    Unwanted,
    begin_plan,
    count_prunable,
    end_plan,
    first_row,
    list_finished,
    prune,
    put_changes,
    put_child,
    put_finished,
    settle,
)
from boolab.store.connection import WAIT_S, check_location, explain_errors, lock, open_to_write, path_of
from boolab.store.message_rows import MessageRows
from boolab.store.rows import CALL_COLUMNS, RunRecord, as_json, head_of, make_storable, records_of, step_rows
from boolab.store.select import INTERRUPTED, read_runs, row_of_finished

_BATCH_RUNS: Final = 500
_BATCH_STEPS: Final = 20_000
_BATCH_BYTES: Final = 32 * 2**20
_BATCH_S: Final = 1.0
_RESULT: Final = CALL_COLUMNS.index("result")


class _UnderWay(NamedTuple):
    """What the store has of a run that is committed step by step. `members` are the rows of its subagents' runs."""

    root: int
    messages: MessageRows
    has_row: bool = False
    steps: tuple[Step, ...] = ()
    members: Mapping[str, int] = MappingProxyType({})

    def is_part_of(self, run: Run) -> bool:
        """Whether the run continues what is in the store."""
        first_steps = run.steps[: len(self.steps)]
        return len(first_steps) == len(self.steps) and all(a is b for a, b in zip(self.steps, first_steps, strict=True))


class Store:
    """The writer of a store, which is created if there is none. There is one at a time; readers need none.

    `put` takes finished runs and commits them in batches. `step` and `finish` take runs under way; each call is one
    transaction, which is on the disk when it returns. What was committed survives a crash at any moment. Opening marks
    the runs that were under way as interrupted. One thread may use it at a time, and no process that was forked.

    Args:
        path: The file, such as `runs.db`; `~` is expanded. SQLite's `-wal` and `-shm` and a `.lock` are beside it.
        wait_s: How long to wait for another writer, in seconds.

    Raises:
        StoreError: if it is no store, is damaged, was made by a newer boolab, has another writer (after waiting for
            `wait_s`), or cannot be written. So does the next commit after the file was renamed, replaced or deleted.
        SettingError: if `wait_s` is no number of seconds.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with bl.Store(f"{folder}/runs.db") as store:
        ...         store.add(run)
        ...     list(bl.stored_runs(f"{folder}/runs.db")) == [run]
        True
    """

    def __init__(self, path: str | Path, *, wait_s: float = WAIT_S) -> None:
        if not is_amount(wait_s):
            raise SettingError(f"wait_s={repr_of(wait_s)}: expected seconds, such as {WAIT_S}")
        self.path = path_of(path)
        self._process = os.getpid()
        self._durable = ""
        self._under_way: dict[str, _UnderWay] = {}
        self._new_batch()
        check_location(self.path)
        self._lock = lock(self.path, wait_s)
        try:
            self._opened = open_to_write(self.path)
        except BaseException:
            self._lock.release()
            raise
        try:
            self._absolute_path = self.path.absolute()  # also after the process has changed its folder
            self._file = _file_at(self._absolute_path)
            self._mark_interrupted()
            with explain_errors(self.path):
                self._next_row = first_row(self._connection)
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}>"

    @property
    def _connection(self) -> sqlite3.Connection:
        self._check_process()
        return self._opened

    def _check_process(self) -> None:
        """Raise `StoreError` in a process that was forked: what SQLite knows of the file holds in its own alone."""
        if os.getpid() != self._process:
            msg = (
                f"this writer is that of process {self._process}, from which this one was forked, and nothing was "
                "written here: return the runs to that process, or open a bl.Store on another file in this one"
            )
            raise StoreError(msg, path=self.path)

    # --- Sweeps -------------------------------------------------------------------------------------------------------

    def begin_sweep(self, cells: Iterable[tuple[str, str]], about: Mapping[str, Any]) -> int:
        """Insert a sweep's plan, or resume it.

        Args:
            cells: The cells of the plan in order, each with the id of its run. They are consumed one by one, and need
                not fit into memory.
            about: The facts of the sweep, as JSON values.

        Returns:
            The sweep's number. The same cells in the same order are the same sweep, also with other ids of runs.

        Raises:
            StoreError: if it could not be committed.
        """
        facts = as_json(about, "what is known of the sweep")
        self.flush()
        with self._transaction("NORMAL"):
            return begin_plan(self._connection, cells, facts)

    def finished(self, sweep: int, again: Collection[str] = ()) -> Iterator[tuple[int, str]]:
        """The places of a sweep's cells whose run is finished, and its stop reason.

        Args:
            sweep: The sweep's number.
            again: Stop reasons of runs that do not count as finished.

        Yields:
            A place and a stop reason, in order.
        """
        self.flush()
        last = -1
        while True:
            with explain_errors(self.path):
                finished_cells = list_finished(self._connection, sweep, last, again)
            if not finished_cells:
                return
            yield from finished_cells
            last = finished_cells[-1][0]

    def run(self, run_id: str) -> Run:
        """A finished run.

        Args:
            run_id: Its id.

        Returns:
            The run.

        Raises:
            StoreError: if it is not there, or cannot be read.
        """
        self.flush()
        with explain_errors(self.path):
            row = row_of_finished(self._connection, run_id)
            if row is None:
                raise StoreError(f"there is no finished run {run_id} in it")
            return read_runs(self._connection, [row])[0]

    def end_sweep(self, sweep: int) -> None:
        """Record that all cells of a sweep have their runs.

        Args:
            sweep: The sweep's number.

        Raises:
            StoreError: if it could not be committed.
        """
        self.flush()
        with self._transaction("NORMAL"):
            end_plan(self._connection, sweep)

    # --- Finished runs, in batches ------------------------------------------------------------------------------------

    def put(self, records: Sequence[RunRecord], cell: str | None = None) -> None:
        """Add a finished run, and its subagents' runs, to the current batch.

        A batch is committed when it has 500 runs, 20,000 steps or 32 MiB of texts, when a run is added a second after
        the first one, and by `flush` and `close`. A run replaces earlier attempts at it and earlier runs of its cell.

        Args:
            records: The result of `records_of` for the run.
            cell: The cell of the run.

        Raises:
            StoreError: if the batch could not be committed; then none of it is in the store.
        """
        self._check_process()
        names = {*(record.run_id for record in records), *(() if cell is None else (cell,))}
        if not names.isdisjoint(self._waiting_names):
            self.flush()
        if not self._waiting:
            self._since = time.monotonic()
        root = self._take_rows(len(records))
        self._waiting.append((cell, [Placed(root + n, root, n, record) for n, record in enumerate(records)]))
        self._waiting_names |= names
        for record in records:
            self._waiting_steps += len(record.steps)
            self._waiting_bytes += len(record.texts) + sum([len(row[_RESULT]) for row in record.calls if row[_RESULT]])
        if (
            len(self._waiting) >= _BATCH_RUNS
            or self._waiting_steps >= _BATCH_STEPS
            or self._waiting_bytes >= _BATCH_BYTES
            or time.monotonic() - self._since >= _BATCH_S
        ):
            self.flush()

    def add(self, runs: Run | Iterable[Run]) -> None:
        """Insert runs, such as imported logs; those of subagents follow their parents'.

        Args:
            runs: A run, or runs; those of a generator are written one by one.

        Raises:
            SettingError: if a setting or an event holds what JSON cannot.
            StoreError: if they could not be committed.
        """
        for run in iterate_with_subagents([runs] if isinstance(runs, Run) else runs):
            self.put(records_of(replace(run, subagents=())))
        self.flush()

    def flush(self) -> None:
        """Commit the current batch.

        Raises:
            StoreError: if that failed; the batch is then lost, and what was committed before is not changed.
        """
        self._check_process()
        if not self._waiting:
            return
        try:
            self._commit(lambda storable: put_finished(self._connection, self._waiting, storable), "NORMAL")
        except StoreError as error:
            n_lost = len(self._waiting)
            self._new_batch()
            msg = f"{error.message}. {count(n_lost, 'run')} that waited {'was' if n_lost == 1 else 'were'} not written"
            raise StoreError(msg, path=self.path) from error
        except Exception:  # not a keyboard interrupt: then the runs stay in the batch
            self._new_batch()
            raise
        self._new_batch()

    def _new_batch(self) -> None:
        self._waiting: list[tuple[str | None, list[Placed]]] = []
        self._waiting_names: set[str] = set()
        self._waiting_steps = self._waiting_bytes = 0
        self._since = 0.0

    # --- Runs under way, step by step ---------------------------------------------------------------------------------

    def step(self, run: Run, cell: str | None = None) -> None:
        """Commit the changes of a run that is under way.

        Args:
            run: The run as it is now. Its steps, inputs and finished subagents begin with those of the last call.
            cell: The cell of the run.

        Raises:
            StoreError: if it could not be committed.
        """
        self._advance(run, cell, None)

    def finish(self, run: Run, cell: str | None = None, *, state: End = "finished") -> None:
        """Commit the end of a run, or all of a run that `step` did not commit.

        A finished run replaces earlier attempts at it and earlier runs of its cell.

        Args:
            run: The run.
            cell: The cell of the run.
            state: `interrupted` if it will be run again.

        Raises:
            StoreError: if it could not be committed.
        """
        self._advance(run, cell, state)

    def _advance(self, run: Run, cell: str | None, end: End | None) -> None:
        self.flush()
        under_way = self._under_way.pop(run.run_id, None)  # put back once it is committed
        if under_way is None or not under_way.is_part_of(run):
            under_way = _UnderWay(self._take_rows(1), MessageRows())
        root = under_way.root
        texts = under_way.messages.new_rows(run, last=end is not None)
        changes = RunChanges(head_of(run), *step_rows(run.steps[len(under_way.steps) :]), *texts)
        children = [*descendants(run)]
        fresh = [placed_run for placed_run in enumerate(children, 1) if placed_run[1].run_id not in under_way.members]
        first = self._take_rows(len(fresh))
        new_children = [
            Placed(row, root, member, records_of(replace(child, subagents=()))[0])
            for row, (member, child) in enumerate(fresh, first)
        ]
        members = {**under_way.members, **{placed_run.record.run_id: placed_run.row for placed_run in new_children}}

        def write(storable: Storable) -> None:
            put_changes(self._connection, root, cell, changes, storable, new=not under_way.has_row)
            for placed_child in new_children:
                put_child(self._connection, placed_child, storable)
            if end is not None:
                member_rows = [(member, members[child.run_id]) for member, child in enumerate(children, 1)]
                self._connection.executemany("UPDATE runs SET member = ? WHERE id = ?", member_rows)
                run_ids = storable((run.run_id, *(child.run_id for child in children)))
                settle(self._connection, root, run_ids, storable((cell,))[0], end)

        self._commit(write, "FULL")
        if end is None:
            self._under_way[run.run_id] = under_way._replace(has_row=True, steps=run.steps, members=members)

    def _mark_interrupted(self) -> None:
        """Mark the runs under way, whose process has ended or ends, as interrupted."""
        execute = self._connection.execute
        with self._transaction("NORMAL"):
            running = "SELECT id, cell FROM runs WHERE state = 'running' AND id = root"
            for root, cell in execute(running).fetchall():
                execute("UPDATE runs SET error = ? WHERE id = ?", (INTERRUPTED, root))
                run_ids = execute("SELECT run_id FROM runs WHERE root = ? ORDER BY id", (root,)).fetchall()
                settle(self._connection, root, [run_id for (run_id,) in run_ids], cell, "interrupted")

    # --- Removing runs ------------------------------------------------------------------------------------------------

    def prunable(self, unwanted: Unwanted) -> Prunable:
        """What `prune` would remove.

        Args:
            unwanted: Which runs to remove.

        Returns:
            How many runs and steps would be removed, and how many runs would stay because others share their steps.

        Raises:
            StoreError: if the store cannot be read.
        """
        self.flush()
        with explain_errors(self.path):
            return count_prunable(self._connection, unwanted)

    def prune(self, unwanted: Unwanted) -> None:
        """Remove runs, and return their space to the file system.

        Args:
            unwanted: Which runs. Those stay whose steps are shared by runs that stay.

        Raises:
            StoreError: if that failed; what was not removed is not changed.
        """
        self.flush()
        with self._transaction("FULL"):
            prune(self._connection, unwanted)
        with explain_errors(self.path):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- Transactions -------------------------------------------------------------------------------------------------

    def _commit(self, write: Callable[[Storable], None], durable: Literal["NORMAL", "FULL"]) -> None:
        """Write values as they are; if SQLite cannot store some, with BLOBs in their place."""
        try:
            with self._transaction(durable):
                write(tuple)
        except (UnicodeEncodeError, OverflowError):
            with self._transaction(durable):
                write(make_storable)

    @contextmanager
    def _transaction(self, durable: Literal["NORMAL", "FULL"]) -> Iterator[None]:
        """A transaction. FULL: on the disk when it ends; NORMAL: a loss of power may undo the latest ones."""
        execute = self._connection.execute
        with explain_errors(self.path):
            self._check_file()
            if durable != self._durable:
                execute(f"PRAGMA synchronous = {durable}")
                self._durable = durable
            execute("BEGIN IMMEDIATE")
            try:
                yield
                execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):  # the first error is the one to report
                        execute("ROLLBACK")
                raise

    def _check_file(self) -> None:
        """Raise `StoreError` if the file was moved: SQLite would write to the moved one."""
        if _file_at(self._absolute_path) != self._file:
            with suppress(sqlite3.Error):  # moves the log into the file, wherever it is now
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            msg = (
                "the file was renamed, replaced or deleted while it was being written; what was committed before is in "
                "the file that was there"
            )
            raise StoreError(msg)

    def _take_rows(self, n: int) -> int:
        """Reserve n row numbers of runs. Returns the first."""
        first = self._next_row
        self._next_row += n
        return first

    def close(self) -> None:
        """Commit the current batch, mark the runs under way as interrupted, and release the lock.

        In a process that was forked it does nothing: the store belongs to the one that opened it.

        Raises:
            StoreError: if that could not be committed; the store is closed nevertheless.
        """
        if os.getpid() != self._process or not self._lock.is_locked:
            return
        try:
            self.flush()
            if self._under_way:
                self._mark_interrupted()
        finally:
            self._release()

    def _release(self) -> None:
        self._opened.close()
        self._lock.release()


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
