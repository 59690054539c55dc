"""The one writer of a store."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Self

from boolab.core.run_tree import descendants, each_with_subagents
from boolab.core.types import Run, Step
from boolab.errors import StoreError
from boolab.store import sweep_plans
from boolab.store.connection import check_place, explained, open_to_write, path_of
from boolab.store.delete import Prunable, Unwanted, prunable, prune
from boolab.store.insert import End, Held, News, Placed, first_row, put_child, put_finished, put_news, settle
from boolab.store.lock import WAIT_S, lock
from boolab.store.message_rows import MessageRows
from boolab.store.rows import CALL, Record, as_json, head_of, holdable, records_of, step_rows
from boolab.store.select import INTERRUPTED, row_of_finished, runs_at

_BATCH_RUNS: Final = 500
_BATCH_STEPS: Final = 20_000
_BATCH_BYTES: Final = 32 * 2**20
_BATCH_S: Final = 1.0
_RESULT: Final = CALL.index("result")


class _UnderWay(NamedTuple):
    """What of a run that is committed step by step is in the store. `members` are the rows of its subagents' runs."""

    root: int
    messages: MessageRows
    begun: bool = False
    steps: tuple[Step, ...] = ()
    members: Mapping[str, int] = MappingProxyType({})

    def is_part_of(self, run: Run) -> bool:
        """Whether the run is what was seen, and more."""
        before = run.steps[: len(self.steps)]
        return len(before) == len(self.steps) and all(a is b for a, b in zip(self.steps, before, strict=True))


class Store:
    """The writer of a store, which is made if it is not there. There is one at a time; readers need none.

    Finished runs come with `put`, and are committed in batches; runs under way with `step` and `finish`, each call of
    which is one transaction that is on the disk when it returns. Whatever is killed at any moment: what was committed
    is there, and whole. Opening marks the runs that were under way as interrupted. It is used by one thread at a time.

    Args:
        path: The file, such as `runs.db`; `~` is expanded. Beside it stand SQLite's own `-wal` and `-shm`, and `.lock`.
        wait_s: How long to wait for another writer, in seconds.

    Raises:
        StoreError: if it is no store, is damaged, was made by a newer boolab, has another writer (after waiting for
            `wait_s`), or cannot be written. Later, if the file was renamed, replaced or deleted meanwhile: the next
            commit tells.

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
        self.path = path_of(path)
        self._durable = ""
        self._under_way: dict[str, _UnderWay] = {}
        self._forget_waiting()
        check_place(self.path)
        self._lock = lock(self.path, wait_s)
        try:
            self._connection = open_to_write(self.path)
        except BaseException:
            self._lock.release()
            raise
        try:
            self._place = self.path.absolute()  # as SQLite holds it, whatever folder the process goes to
            self._file = _file_at(self._place)
            self._mark_interrupted()
            with explained(self.path):
                self._next_row = first_row(self._connection)
        except BaseException:
            self._let_go()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}>"

    # --- Sweeps -------------------------------------------------------------------------------------------------------

    def begin_sweep(self, cells: Iterable[tuple[str, str]], about: Mapping[str, Any]) -> int:
        """Put a sweep's plan into the store, or resume it.

        Args:
            cells: For each place of the plan the cell and the id of the run that it is to have. It is consumed as it
                comes, and need not fit into memory.
            about: What is to be known of the sweep; anything that JSON knows.

        Returns:
            The sweep's number. The same cells in the same order are the same sweep; their runs' ids may be others.

        Raises:
            StoreError: if it could not be committed.
        """
        told = as_json(about, "what is known of the sweep")
        self.flush()
        with self._transaction("NORMAL"):
            return sweep_plans.begin(self._connection, cells, told)

    def finished(self, sweep: int, again: Collection[str] = ()) -> Iterator[tuple[int, str]]:
        """The places of the cells whose run, by the id that it has now, is finished, and how it ended.

        Args:
            sweep: The sweep's number.
            again: Stop reasons of runs that do not count as finished.

        Yields:
            The place and the stop reason, in order.
        """
        self.flush()
        last = -1
        while True:
            with explained(self.path):
                found = sweep_plans.finished_after(self._connection, sweep, last, again)
            if not found:
                return
            yield from found
            last = found[-1][0]

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
        with explained(self.path):
            row = row_of_finished(self._connection, run_id)
            if row is None:
                raise StoreError(f"there is no finished run {run_id} in it")
            return runs_at(self._connection, [row])[0]

    def end_sweep(self, sweep: int) -> None:
        """Record that all cells of a sweep have their runs.

        Args:
            sweep: The number that `begin_sweep` gave.

        Raises:
            StoreError: if it could not be committed.
        """
        self.flush()
        with self._transaction("NORMAL"):
            sweep_plans.end(self._connection, sweep)

    # --- Finished runs, in batches ------------------------------------------------------------------------------------

    def put(self, records: Sequence[Record], cell: str | None = None) -> None:
        """Add a finished run, and its subagents' runs, to the current batch.

        A batch is committed when it has 500 runs, 20,000 steps or 32 MiB of texts, when the first of it has waited for
        a second and another comes, and by `flush` and `close`. A run takes the place of an earlier attempt at it, and
        of the cell's earlier run.

        Args:
            records: What `records_of` makes of the run.
            cell: The cell that it is for.

        Raises:
            StoreError: if the batch could not be committed; none of it is then in the store.
        """
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
        """Put any runs into the store, such as imported logs; those of subagents follow their parents'.

        Args:
            runs: A run, or runs; from a generator they are written as they come.

        Raises:
            SettingError: if a setting or an event holds what JSON cannot.
            StoreError: if they could not be committed.
        """
        for run in each_with_subagents([runs] if isinstance(runs, Run) else runs):
            self.put(records_of(replace(run, subagents=())))
        self.flush()

    def flush(self) -> None:
        """Commit what waits.

        Raises:
            StoreError: if that failed; what waited is then given up, and what was committed before is as it was.
        """
        if not self._waiting:
            return
        try:
            self._commit(lambda held: put_finished(self._connection, self._waiting, held), "NORMAL")
        except StoreError as error:
            lost = len(self._waiting)
            self._forget_waiting()
            raise StoreError(f"{error.message}. {lost} runs that waited were not written", path=self.path) from error
        except Exception:  # not a keyboard interrupt: then the runs stay in the batch
            self._forget_waiting()
            raise
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        self._waiting: list[tuple[str | None, list[Placed]]] = []
        self._waiting_names: set[str] = set()
        self._waiting_steps = self._waiting_bytes = 0
        self._since = 0.0

    # --- Runs under way, step by step ---------------------------------------------------------------------------------

    def step(self, run: Run, cell: str | None = None) -> None:
        """Commit what is new of a run that is under way.

        Args:
            run: The run as it stands. Its steps, inputs and finished subagents are those of the last call, and more.
            cell: The cell that it is for.

        Raises:
            StoreError: if it could not be committed.
        """
        self._advance(run, cell, None)

    def finish(self, run: Run, cell: str | None = None, *, state: End = "finished") -> None:
        """Commit a run's last word. Of a run that was not seen by `step` all is committed.

        A finished run takes the place of earlier attempts at it, and of the cell's earlier run.

        Args:
            run: The run.
            cell: The cell that it is for.
            state: `interrupted` if it is to be run again.

        Raises:
            StoreError: if it could not be committed.
        """
        self._advance(run, cell, state)

    def _advance(self, run: Run, cell: str | None, end: End | None) -> None:
        self.flush()
        seen = self._under_way.pop(run.run_id, None)  # and back once it is committed: what failed is no basis
        if seen is None or not seen.is_part_of(run):
            seen = _UnderWay(self._take_rows(1), MessageRows())
        root = seen.root
        texts = seen.messages.new(run, last=end is not None)
        news = News(head_of(run), *step_rows(run.steps[len(seen.steps) :]), *texts)
        children = [*descendants(run)]
        fresh = [one for one in enumerate(children, 1) if one[1].run_id not in seen.members]
        first = self._take_rows(len(fresh))
        placed = [
            Placed(row, root, member, records_of(replace(child, subagents=()))[0])
            for row, (member, child) in enumerate(fresh, first)
        ]
        members = {**seen.members, **{one.record.run_id: one.row for one in placed}}

        def write(held: Held) -> None:
            put_news(self._connection, root, cell, news, held, new=not seen.begun)
            for one in placed:
                put_child(self._connection, one, held)
            if end is not None:
                places = [(member, members[child.run_id]) for member, child in enumerate(children, 1)]
                self._connection.executemany("UPDATE runs SET member = ? WHERE id = ?", places)
                run_ids = held((run.run_id, *(child.run_id for child in children)))
                settle(self._connection, root, run_ids, held((cell,))[0], end)

        self._commit(write, "FULL")
        if end is None:
            self._under_way[run.run_id] = seen._replace(begun=True, steps=run.steps, members=members)

    def _mark_interrupted(self) -> None:
        """End the runs that are under way, and whose process has ended or ends."""
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
            unwanted: Which runs are not wanted any more.

        Returns:
            How many runs and steps would go, and how many runs would stay because others share their steps.

        Raises:
            StoreError: if the store cannot be read.
        """
        self.flush()
        with explained(self.path):
            return prunable(self._connection, unwanted)

    def prune(self, unwanted: Unwanted) -> None:
        """Remove runs, and give the space that they took back to the file system.

        Args:
            unwanted: Which. Those stay whose steps other runs share that are to stay.

        Raises:
            StoreError: if that failed; what was not removed is then as it was.
        """
        self.flush()
        with self._transaction("FULL"):
            prune(self._connection, unwanted)
        with explained(self.path):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- What both ways share -----------------------------------------------------------------------------------------

    def _commit(self, write: Callable[[Held], None], durable: Literal["NORMAL", "FULL"]) -> None:
        """Write values as they are; where SQLite cannot hold some, with BLOBs in their place."""
        try:
            with self._transaction(durable):
                write(tuple)
        except (UnicodeEncodeError, OverflowError):
            with self._transaction(durable):
                write(holdable)

    @contextmanager
    def _transaction(self, durable: Literal["NORMAL", "FULL"]) -> Iterator[None]:
        """All of it or nothing. FULL: on the disk when it is done; NORMAL: a loss of power may undo the latest ones."""
        execute = self._connection.execute
        with explained(self.path):
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
        """Raise `StoreError` if the file was moved: rows would go into a file without a name."""
        if _file_at(self._place) != self._file:
            with suppress(sqlite3.Error):  # what is still in the log goes into the file, wherever it is now
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            msg = (
                "the file was renamed, replaced or deleted while it was being written; what was committed before is in "
                "the file that was there"
            )
            raise StoreError(msg)

    def _take_rows(self, n: int) -> int:
        """Reserve n rows of runs. Returns the first."""
        first = self._next_row
        self._next_row += n
        return first

    def close(self) -> None:
        """Commit what waits, mark the runs that are under way as interrupted, and let others write.

        Raises:
            StoreError: if that could not be committed; the store is closed all the same.
        """
        if not self._lock.is_locked:
            return
        try:
            self.flush()
            if self._under_way:
                self._mark_interrupted()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._connection.close()
        self._lock.release()


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file stands at a path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
