"""What a writer changes in a store, all in its transaction: it puts runs and plans of sweeps in, and removes runs."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from boolab.errors import StoreError
from boolab.store.message_rows import TABLES
from boolab.store.rows import HEAD_COLUMNS, Row, RunRecord, is_odd, make_storable
from boolab.store.schema import insert_into, placeholders, select_from, update_rows

End: TypeAlias = Literal["finished", "interrupted"]
Storable: TypeAlias = Callable[[Row], Row]
"""Makes a row that SQLite can store: `tuple`, or `make_storable` if that fails."""

POSITION: Final = ("id", "attempt", "state", "cell", "root", "member", "base")
"""The columns with the position of a run in the store."""

_LAST_ROW: Final = 2**62
"""Half of SQLite's row numbers."""

COUNTING: Final = ("finished", "interrupted")
"""The states that at most one attempt of each run has."""


class Placed(NamedTuple):
    """A record with the number of its row, that of its root, and its place in the family."""

    row: int
    root: int
    member: int
    record: RunRecord


def first_row(connection: sqlite3.Connection) -> int:
    """The first row number that no run ever had; a `StoreError` if the file's counter is damaged."""
    counter_row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'runs'").fetchone()
    latest = 0 if counter_row is None else counter_row[0]
    if not isinstance(latest, int) or not 0 <= latest < _LAST_ROW:
        raise StoreError(f"it is damaged: its latest row of runs is {latest!r:.80}")
    return latest + 1


def replace_others(
    connection: sqlite3.Connection, root: int, run_ids: Iterable[str], cell: str | None, states: Collection[str]
) -> list[int]:
    """Mark other runs of a cell in these states, outside the family, as replaced; returns the next attempts."""
    execute = connection.execute
    attempts: list[int] = []
    other_attempts: list[tuple[int, int, str]] = []
    for run_id in run_ids:
        rows = execute("SELECT id, root, state, attempt FROM runs WHERE run_id = ?", (run_id,)).fetchall()
        attempts.append(1 + max((attempt for *_, attempt in rows), default=0))
        other_attempts += [(row, its_root, state) for row, its_root, state, _ in rows]
    if cell is not None:
        other_attempts += execute("SELECT id, root, state FROM runs WHERE cell = ?", (cell,))
    for row, its_root, state in other_attempts:
        if state in states and its_root != root:
            column = "root" if row == its_root else "id"
            execute(update_rows("runs", ("state = 'replaced'",), f"{column} = ?"), (row,))
    return attempts


def settle(connection: sqlite3.Connection, root: int, run_ids: Sequence[str], cell: str | None, end: End) -> None:
    """End a family under way, root first: a finished one replaces all others, an interrupted one the unfinished."""
    execute = connection.execute
    question = "SELECT 1 FROM runs WHERE (run_id = ? OR cell = ?) AND state = 'finished' AND root <> ? LIMIT 1"
    if end == "interrupted" and execute(question, (run_ids[0], cell, root)).fetchone():
        state = "replaced"
    else:
        replace_others(connection, root, run_ids, cell, ("running", *COUNTING))
        state = end
    execute("UPDATE runs SET state = ? WHERE root = ?", (state, root))


def put_finished(
    connection: sqlite3.Connection, families: Sequence[tuple[str | None, Sequence[Placed]]], storable: Storable
) -> None:
    """Insert families of finished runs, each for its cell; a `StoreError` if a run's base is not there."""
    rows: dict[str, int] = {}
    runs: list[Row] = []
    for cell, family in families:
        (stored_cell,) = storable((cell,))
        run_ids = storable(tuple([placed.record.run_id for placed in family]))
        attempts = replace_others(connection, family[0].root, run_ids, stored_cell, COUNTING)
        for placed, attempt in zip(family, attempts, strict=True):
            shared = placed.record.base
            base = None if shared is None else rows.get(shared) or _row_with_steps(connection, shared, storable)
            rows[placed.record.run_id] = placed.row if base is None else base
            own_cell = None if placed.member else stored_cell
            position = (placed.row, attempt, "finished", own_cell, placed.root, placed.member, base)
            runs.append(_run_row(position, placed.record, storable))
    _put_rows(connection, runs, list(itertools.chain.from_iterable(family for _, family in families)), storable)


def put_child(connection: sqlite3.Connection, placed: Placed, storable: Storable) -> None:
    """Insert the run of a subagent, whose root is under way."""
    (attempt,) = replace_others(connection, placed.root, storable((placed.record.run_id,)), None, ())
    position = (placed.row, attempt, "running", None, placed.root, placed.member, None)
    _put_rows(connection, [_run_row(position, placed.record, storable)], [placed], storable)


class RunChanges(NamedTuple):
    """The changes of a run: its columns as they are now, and the new rows of its tables."""

    head: Row
    steps: Sequence[Row]
    calls: Sequence[Row]
    messages: Sequence[Row]
    parts: Sequence[Row]


def put_changes(
    connection: sqlite3.Connection, root: int, cell: str | None, changes: RunChanges, storable: Storable, *, new: bool
) -> None:
    """Insert the changes of a run that is under way. A `new` one replaces those that were interrupted."""
    head, (stored_cell,) = storable(changes.head), storable((cell,))
    tables = [[storable(row) for row in rows] for rows in changes[1:]]
    odd = any(map(is_odd, itertools.chain([head], *tables)))
    if new:
        (attempt,) = replace_others(connection, root, [head[0]], stored_cell, ("running", "interrupted"))
        row = (root, attempt, "running", stored_cell, root, 0, None, *head, None, odd)
        connection.execute(insert_into("runs", _RUN), row)
    else:
        assignments = (*(f"{name} = ?" for name in HEAD_COLUMNS), "odd = max(odd, ?)")
        connection.execute(update_rows("runs", assignments, "id = ?"), (*head, odd, root))
    for (table, columns), rows in zip(TABLES.items(), tables, strict=True):
        connection.executemany(insert_into(table, ("run", *columns)), [(root, *row) for row in rows])


_RUN: Final = (*POSITION, *HEAD_COLUMNS, "texts", "odd")


def _run_row(position: Row, record: RunRecord, storable: Storable) -> Row:
    head = storable(record.head)
    odd = storable is make_storable and any(map(is_odd, map(storable, (record.head, *record.steps, *record.calls))))
    return (*position, *head, record.texts, odd)


def _put_rows(
    connection: sqlite3.Connection, runs: Sequence[Row], records: Sequence[Placed], storable: Storable
) -> None:
    connection.executemany(insert_into("runs", _RUN), runs)
    for table in _OWN_TABLES:
        rows: list[Row] = []
        for number, _, _, record in records:
            values = map(storable, getattr(record, table))
            rows += [(number, *[_NULL if value is None else value for value in row]) for row in values]
        connection.executemany(insert_into(table, ("run", *TABLES[table])), rows)


_OWN_TABLES: Final = ("steps", "calls")
_NULL: Final = float("nan")
"""Bound in place of None. SQLite stores it as NULL (`sqlite3VdbeMemSetDouble`), and Python looks for no adapter, as it
does for each None (`need_adapt` in CPython's `_sqlite/statement.c`): a step, half of whose columns are NULL, takes 8 us
in place of 14."""


def _row_with_steps(connection: sqlite3.Connection, run_id: str, storable: Storable) -> int:
    question = "SELECT coalesce(base, id) FROM runs WHERE run_id = ? AND state = 'finished'"
    row = connection.execute(question, storable((run_id,))).fetchone()
    if row is None:
        msg = f"a run shares the steps of run {run_id}, of which the store has no finished one: put that one first"
        raise StoreError(msg)
    return int(row[0])


class Unwanted(NamedTuple):
    """What to remove: replaced runs, interrupted runs, or a sweep with the runs that are only in its cells."""

    replaced: bool = False
    interrupted: bool = False
    sweep: int | None = None

    def __bool__(self) -> bool:
        return self.replaced or self.interrupted or self.sweep is not None


class Prunable(NamedTuple):
    """How many runs and steps would be removed; `held` runs stay because other runs share their steps."""

    runs: int
    steps: int
    held: int


def count_prunable(connection: sqlite3.Connection, unwanted: Unwanted) -> Prunable:
    """Count what `prune` would remove."""
    values = unwanted._asdict()
    runs, steps = connection.execute(_COUNT_GOING, values).fetchone()
    (doomed,) = connection.execute(_COUNT_DOOMED, values).fetchone()
    return Prunable(runs, steps, doomed - runs)


def prune(connection: sqlite3.Connection, unwanted: Unwanted) -> None:
    """Remove runs, in the caller's transaction."""
    connection.execute(_REMOVE, unwanted._asdict())
    connection.execute("DELETE FROM sweeps WHERE id = ?", (unwanted.sweep,))


_DOOMED: Final = """
    WITH doomed (id) AS (
        SELECT id FROM runs WHERE (:replaced AND state = 'replaced') OR (:interrupted AND state = 'interrupted')
        OR root IN (
            SELECT id FROM runs WHERE cell IN (
                SELECT cell FROM cells WHERE sweep = :sweep EXCEPT SELECT cell FROM cells WHERE sweep <> :sweep
            )
        )
    )
"""
_GOING: Final = """(
    SELECT id FROM doomed EXCEPT
    SELECT base FROM runs WHERE base NOT NULL AND id NOT IN (SELECT id FROM doomed)
)"""
_OWN_STEPS: Final = "coalesce(sum(CASE WHEN base IS NULL THEN n_steps ELSE 0 END), 0)"
_COUNT_DOOMED: Final = _DOOMED + select_from(("count(*)",), "doomed")
_COUNT_GOING: Final = _DOOMED + select_from(("count(*)", _OWN_STEPS), "runs", f"id IN {_GOING}")
_REMOVE: Final = f"{_DOOMED} DELETE FROM runs WHERE id IN {_GOING}"  # noqa: S608 - no value is in it


_CELLS_AT_ONCE: Final = 10_000


def begin_plan(connection: sqlite3.Connection, cells: Iterable[tuple[str, str]], plan_facts: str) -> int:
    """Insert a plan, or resume it: the same cells in the same order are the same sweep. Returns its number."""
    execute = connection.execute
    digest, count, time = hashlib.blake2b(digest_size=16), 0, _now()
    execute("INSERT INTO sweeps (digest, n_cells, about, begun_at) VALUES ('', 0, ?, ?)", (plan_facts, time))
    sweep = int(execute("SELECT last_insert_rowid()").fetchone()[0])
    numbered = enumerate(cells)
    while batch := list(itertools.islice(numbered, _CELLS_AT_ONCE)):
        digest.update("".join([f"{cell}\n" for _, (cell, _) in batch]).encode())
        count += len(batch)
        rows = [(sweep, index, cell, run_id) for index, (cell, run_id) in batch]
        connection.executemany(insert_into("cells", ("sweep", "place", "cell", "run_id")), rows)
    existing = execute("SELECT id FROM sweeps WHERE digest = ?", (digest.hexdigest(),)).fetchone()
    if existing is not None:
        execute("DELETE FROM cells WHERE sweep = ?", existing)
        execute("UPDATE cells SET sweep = ? WHERE sweep = ?", (existing[0], sweep))
        execute("DELETE FROM sweeps WHERE id = ?", (sweep,))
        sweep = int(existing[0])
    execute(
        "UPDATE sweeps SET digest = ?, n_cells = ?, about = ?, begun_at = ?, ended_at = NULL WHERE id = ?",
        (digest.hexdigest(), count, plan_facts, time, sweep),
    )
    return sweep


def list_finished(
    connection: sqlite3.Connection, sweep: int, index: int, excluded: Collection[str]
) -> list[tuple[int, str]]:
    """Some places after this one whose run is finished, each with its stop reason, which is none of `excluded`."""
    question = select_from(
        ("place", "stop_reason"),
        "cells JOIN runs USING (run_id)",
        f"sweep = ? AND place > ? AND state = 'finished' AND stop_reason NOT IN {placeholders(len(excluded))}",
        f"place LIMIT {_CELLS_AT_ONCE}",
    )
    return connection.execute(question, (sweep, index, *excluded)).fetchall()


def end_plan(connection: sqlite3.Connection, sweep: int) -> None:
    """Record that a plan is done."""
    connection.execute("UPDATE sweeps SET ended_at = ? WHERE id = ?", (_now(), sweep))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
