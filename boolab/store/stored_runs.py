"""The runs of a store as a sequence that reads them on access, and counts of what is in it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, overload

from boolab.core.run import Run
from boolab.core.run_tree import homes_of
from boolab.core.text import count
from boolab.errors import SettingError
from boolab.store.connection import is_locked, open_reader, path_of
from boolab.store.rows import restore_row
from boolab.store.schema import version_of
from boolab.store.select import (
    families_of_attempts,
    family_of_finished,
    find_rows,
    has_label,
    read_parents,
    read_runs,
    read_settings,
)

State: TypeAlias = Literal["finished", "interrupted", "running", "replaced"]

STATES: Final = ("finished", "interrupted", "running", "replaced")
_AT_ONCE: Final = 500
_KEYS_AT_ONCE: Final = 10_000


class StoredRuns(Sequence[Run]):
    """The runs of a store as a sequence, which `stored_runs` returns: listed once, on first use, and read in batches.

    Runs that are written later are not in it. Adding a list of runs gives a list.

    Args:
        path: The store.
        sweep: The number of a sweep, for its runs only; None for all.
        states: The states that the runs may be in: `finished`, `running`, `interrupted`, ...

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with bl.Store(f"{folder}/runs.db") as store:
        ...         store.add(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])))
        ...     runs = bl.stored_runs(f"{folder}/runs.db")
        ...     len(runs), runs[0].text, runs.labelled()
        (1, 'Hi.', False)
    """

    def __init__(self, path: Path, sweep: int | None, states: Sequence[str]) -> None:
        self.path = path
        self.sweep = sweep
        self.states = tuple(states)
        self._row_numbers: array[int] | None = None

    @property
    def _rows(self) -> array[int]:
        if self._row_numbers is None:
            # Before the file is opened: a writer that opens it in between marks interrupted runs.
            deserted = not is_locked(self.path)
            with open_reader(self.path) as connection:
                self._row_numbers = find_rows(connection, self.states, self.sweep, deserted=deserted)
        return self._row_numbers

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> list[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | list[Run]:
        rows = self._rows[index]
        if isinstance(rows, int):
            return self._read([rows])[0]
        return list(chain.from_iterable(map(self._read, _split_rows(rows))))

    def __iter__(self) -> Iterator[Run]:
        for batch in self.batches():
            yield from batch

    def batches(self, size: int = _AT_ONCE) -> Iterator[list[Run]]:
        """The runs in order, in batches.

        Args:
            size: How many runs a batch has.

        Yields:
            A list of runs; the last one may be shorter.

        Raises:
            StoreError: if the store cannot be read.
        """
        for rows in _split_rows(self._rows, size):
            yield self._read(rows)

    def families(self, size: int = _AT_ONCE) -> Iterator[list[Run]]:
        """The runs in batches, each family in one batch.

        Args:
            size: About how many runs a batch has.

        Yields:
            A list of runs.

        Raises:
            StoreError: if the store cannot be read.
        """
        with open_reader(self.path) as connection:
            batches = _split_rows(self._rows, _KEYS_AT_ONCE)
            links = list(chain.from_iterable(read_parents(connection, rows) for rows in batches))
        homes = homes_of(links, {run_id for run_id, _ in links})
        waiting: dict[str, list[Run]] = {}
        for batch in self.batches(size):
            complete_families: list[Run] = []
            for run in batch:
                home, members = homes.get(run.run_id, (run.run_id, 1))
                waiting.setdefault(home, []).append(run)
                if len(waiting[home]) == members:
                    complete_families += waiting.pop(home)
            if complete_families:
                yield complete_families
        if waiting:  # several attempts at a run have one id
            yield list(chain.from_iterable(waiting.values()))

    def settings(self) -> list[Mapping[str, Any]]:
        """The settings that the runs have, each combination once."""
        settings_by_text: dict[str, Mapping[str, Any]] = {}
        with open_reader(self.path) as connection:
            for rows in _split_rows(self._rows, _KEYS_AT_ONCE):
                settings_by_text |= {repr(settings): settings for settings in read_settings(connection, rows)}
        return list(settings_by_text.values())

    def labelled(self) -> bool:
        """Whether any of the runs has a label."""
        with open_reader(self.path) as connection:
            return any(has_label(connection, rows) for rows in _split_rows(self._rows, _KEYS_AT_ONCE))

    def _read(self, rows: Sequence[int]) -> list[Run]:
        with open_reader(self.path) as connection:
            return read_runs(connection, rows)

    def __add__(self, other: Iterable[Run]) -> list[Run]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Run]) -> list[Run]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        """Whether the other one, a list too, has the same runs in the same order."""
        if not isinstance(other, StoredRuns | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(run == other_run for run, other_run in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return len(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the query only: after unpickling, the file is read again."""
        return StoredRuns, (self.path, self.sweep, self.states)

    def __repr__(self) -> str:
        sweep_text = "" if self.sweep is None else f" of sweep {self.sweep}"
        return f"<StoredRuns {self.path.name}: {count(len(self), 'run')}{sweep_text}>"


def stored_runs(
    path: str | Path, *, sweep: int | None = None, states: Collection[State] = ("finished", "interrupted")
) -> StoredRuns:
    """The runs of a store, also while a sweep writes into it.

    They are in the order of the latest sweep that has their cell, subagents after their callers. Runs of no sweep
    follow in the order in which they were written. A run that was interrupted ends with stop reason `aborted` and an
    error that contains "interrupted".

    Args:
        path: The store; `~` is expanded.
        sweep: The number of a sweep, for its runs only.
        states: The states of the runs. A `running` run is under way now; a `replaced` one was run again later.

    Returns:
        The runs, read on access: a sequence for every function that takes runs.

    Raises:
        StoreError: if there is none, it is no store, is damaged or of another version.
        SettingError: if there is no such state.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with bl.Store(f"{folder}/runs.db") as store:
        ...         store.add(run)
        ...     bl.stored_runs(f"{folder}/runs.db")
        <StoredRuns runs.db: 1 run>
    """
    state_list = (states,) if isinstance(states, str) else tuple(states)
    for state in state_list:
        if state not in STATES:
            raise SettingError(f"states: {state!r} is not one of {', '.join(STATES)}")
    absolute_path = path_of(path).absolute()
    runs = StoredRuns(absolute_path, sweep, state_list)
    with open_reader(absolute_path):  # so that its errors are raised now, not on access
        return runs


def finished_run(path: str | Path, run_id: str) -> list[Run]:
    """A finished run, then those of its subagents, as the store has them now; none if there is none of this id."""
    with open_reader(path_of(path).absolute()) as connection:
        return read_runs(connection, family_of_finished(connection, run_id))


def attempts(path: str | Path, run_ids: Iterable[str]) -> Iterator[tuple[State, list[Run]]]:
    """All attempts at some runs: each with its state, its run, then those of its subagents."""
    ids_left = iter(run_ids)
    while batch := list(islice(ids_left, _AT_ONCE)):
        with open_reader(path_of(path).absolute()) as connection:
            families = families_of_attempts(connection, batch)
            attempts_read = [(state, read_runs(connection, rows)) for state, rows in families]
        yield from attempts_read


def _split_rows(rows: array[int], size: int = _AT_ONCE) -> Iterator[array[int]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


class SweepRow(NamedTuple):
    """A sweep: how many cells it has, how many of these have a finished run, and when it ran (ISO 8601, in UTC)."""

    sweep: int
    n_cells: int
    finished: int
    begun_at: str
    ended_at: str | None
    about: Mapping[str, Any]


class Overview(NamedTuple):
    """What is in a store. `states` counts runs by state, subagents included; `loose` counts runs of no sweep."""

    version: int
    bytes: int
    being_written: bool
    sweeps: tuple[SweepRow, ...]
    states: Mapping[str, int]
    loose: int


def overview(path: str | Path) -> Overview:
    """What is in a store; a `StoreError` if it cannot be read."""
    store_path = path_of(path)
    has_writer = is_locked(store_path)
    with open_reader(store_path) as connection:
        sweeps = tuple(
            SweepRow._make((*row, json.loads(plan_facts))) for *row, plan_facts in connection.execute(_SWEEPS)
        )
        states = dict(connection.execute("SELECT state, count(*) FROM runs GROUP BY state").fetchall())
        if not has_writer and "running" in states:
            states["interrupted"] = states.get("interrupted", 0) + states.pop("running")
        (loose,) = connection.execute(_LOOSE).fetchone()
        return Overview(version_of(connection), store_path.stat().st_size, has_writer, sweeps, states, loose)


def stop_reasons(path: str | Path, sweep: int) -> dict[str, int]:
    """How many finished runs of a sweep's cells have each stop reason, the most frequent first."""
    with open_reader(path_of(path)) as connection:
        return dict(connection.execute(_REASONS, (sweep,)).fetchall())


def runs_like(path: str | Path, beginning: str, limit: int = 10) -> list[str]:
    """The ids, at most so many, that begin like this, of runs that were not replaced."""
    question = """
        SELECT DISTINCT run_id FROM runs
        WHERE substr(CAST(run_id AS BLOB), 1, ?) = ? AND state <> 'replaced' LIMIT ?
    """
    begins = beginning.encode("utf-8", "surrogatepass")
    with open_reader(path_of(path)) as connection:
        rows = connection.execute(question, (len(begins), begins, limit))
        return [restore_row(row, ("run_id",))[0] for row in rows]


_SWEEPS: Final = """
    SELECT id, n_cells, (
        SELECT count(*) FROM cells JOIN runs USING (run_id)
        WHERE cells.sweep = sweeps.id AND runs.state = 'finished' AND runs.member = 0
    ), begun_at, ended_at, about FROM sweeps ORDER BY id
"""
_LOOSE: Final = """
    SELECT count(*) FROM runs JOIN runs AS roots ON roots.id = runs.root
    WHERE NOT EXISTS (SELECT 1 FROM cells WHERE cells.cell = roots.cell) AND runs.state <> 'replaced'
"""
_REASONS: Final = """
    SELECT stop_reason, count(*) FROM cells JOIN runs USING (run_id)
    WHERE cells.sweep = ? AND runs.state = 'finished' AND runs.member = 0
    GROUP BY stop_reason ORDER BY count(*) DESC, stop_reason
"""
