"""The runs of a store as a sequence that reads them on access, and counts of what is in it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, overload

from boolab.core.run_tree import homes_of
from boolab.core.text import count
from boolab.core.types import Run
from boolab.errors import SettingError
from boolab.store.connection import is_locked, path_of, reading
from boolab.store.rows import restored
from boolab.store.schema import version_of
from boolab.store.select import (
    any_label_at,
    families_of_attempts,
    family_of_finished,
    parents_at,
    rows_in_order,
    runs_at,
    settings_at,
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
        self._found: array[int] | None = None

    @property
    def _rows(self) -> array[int]:
        if self._found is None:
            # Before the file is opened: a writer that opens it in between marks interrupted runs.
            deserted = not is_locked(self.path)
            with reading(self.path) as connection:
                self._found = rows_in_order(connection, self.states, self.sweep, deserted=deserted)
        return self._found

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> list[Run]: ...
    def __getitem__(self, place: int | slice) -> Run | list[Run]:
        rows = self._rows[place]
        if isinstance(rows, int):
            return self._read([rows])[0]
        return list(chain.from_iterable(map(self._read, _parts(rows))))

    def __iter__(self) -> Iterator[Run]:
        for some in self.batches():
            yield from some

    def batches(self, size: int = _AT_ONCE) -> Iterator[list[Run]]:
        """The runs in order, in batches.

        Args:
            size: How many runs a batch has.

        Yields:
            A list of runs; the last one may be shorter.

        Raises:
            StoreError: if the store cannot be read.
        """
        for some in _parts(self._rows, size):
            yield self._read(some)

    def families(self, size: int = _AT_ONCE) -> Iterator[list[Run]]:
        """The runs in batches, each family in one batch.

        Args:
            size: About how many runs a batch has.

        Yields:
            A list of runs.

        Raises:
            StoreError: if the store cannot be read.
        """
        with reading(self.path) as connection:
            batches = _parts(self._rows, _KEYS_AT_ONCE)
            links = list(chain.from_iterable(parents_at(connection, rows) for rows in batches))
        homes = homes_of(links, {run_id for run_id, _ in links})
        waiting: dict[str, list[Run]] = {}
        for batch in self.batches(size):
            whole: list[Run] = []
            for run in batch:
                home, members = homes.get(run.run_id, (run.run_id, 1))
                waiting.setdefault(home, []).append(run)
                if len(waiting[home]) == members:
                    whole += waiting.pop(home)
            if whole:
                yield whole
        if waiting:  # several attempts at a run have one id
            yield list(chain.from_iterable(waiting.values()))

    def settings(self) -> list[Mapping[str, Any]]:
        """The settings that the runs have, each combination once."""
        found: dict[str, Mapping[str, Any]] = {}
        with reading(self.path) as connection:
            for some in _parts(self._rows, _KEYS_AT_ONCE):
                found |= {repr(settings): settings for settings in settings_at(connection, some)}
        return list(found.values())

    def labelled(self) -> bool:
        """Whether any of the runs has a label."""
        with reading(self.path) as connection:
            return any(any_label_at(connection, some) for some in _parts(self._rows, _KEYS_AT_ONCE))

    def _read(self, rows: Sequence[int]) -> list[Run]:
        with reading(self.path) as connection:
            return runs_at(connection, rows)

    def __add__(self, other: Iterable[Run]) -> list[Run]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Run]) -> list[Run]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        """Whether the other one, a list too, has the same runs in the same order."""
        if not isinstance(other, StoredRuns | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(run == its for run, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return len(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the query only: after unpickling, the file is read again."""
        return StoredRuns, (self.path, self.sweep, self.states)

    def __repr__(self) -> str:
        which = "" if self.sweep is None else f" of sweep {self.sweep}"
        return f"<StoredRuns {self.path.name}: {count(len(self), 'run')}{which}>"


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
    wanted = (states,) if isinstance(states, str) else tuple(states)
    for state in wanted:
        if state not in STATES:
            msg = f"states: {state!r} is not one of {', '.join(STATES)}"
            raise SettingError(msg)
    place = path_of(path).absolute()
    found = StoredRuns(place, sweep, wanted)
    with reading(place):  # so that its errors are raised now, not on access
        return found


def finished_run(path: str | Path, run_id: str) -> list[Run]:
    """A finished run, then those of its subagents, as the store has them now.

    Returns the runs; none if the store has no finished run of this id.
    """
    with reading(path_of(path).absolute()) as connection:
        return runs_at(connection, family_of_finished(connection, run_id))


def attempts(path: str | Path, run_ids: Iterable[str]) -> Iterator[tuple[State, list[Run]]]:
    """All attempts at some runs: the finished ones, and those that were interrupted or were run again later.

    Yields:
        The state of an attempt; and its run, then those of its subagents.
    """
    wanted = iter(run_ids)
    while some := list(islice(wanted, _AT_ONCE)):
        with reading(path_of(path).absolute()) as connection:
            families = families_of_attempts(connection, some)
            found = [(state, runs_at(connection, rows)) for state, rows in families]
        yield from found


def _parts(rows: array[int], size: int = _AT_ONCE) -> Iterator[array[int]]:
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
    place = path_of(path)
    written = is_locked(place)
    with reading(place) as connection:
        sweeps = tuple(SweepRow._make((*row, json.loads(about))) for *row, about in connection.execute(_SWEEPS))
        states = dict(connection.execute("SELECT state, count(*) FROM runs GROUP BY state").fetchall())
        if not written and "running" in states:
            states["interrupted"] = states.get("interrupted", 0) + states.pop("running")
        (loose,) = connection.execute(_LOOSE).fetchone()
        return Overview(version_of(connection), place.stat().st_size, written, sweeps, states, loose)


def stop_reasons(path: str | Path, sweep: int) -> dict[str, int]:
    """How many finished runs of a sweep's cells have each stop reason, the most frequent first."""
    with reading(path_of(path)) as connection:
        return dict(connection.execute(_REASONS, (sweep,)).fetchall())


def runs_like(path: str | Path, beginning: str, most: int = 10) -> list[str]:
    """The ids, at most so many, that begin like this, of runs that were not replaced."""
    question = """
        SELECT DISTINCT run_id FROM runs
        WHERE substr(CAST(run_id AS BLOB), 1, ?) = ? AND state <> 'replaced' LIMIT ?
    """
    begins = beginning.encode("utf-8", "surrogatepass")
    with reading(path_of(path)) as connection:
        found = connection.execute(question, (len(begins), begins, most))
        return [restored(row, ("run_id",))[0] for row in found]


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
