"""Writes runs into a store, and marks those that they replace, all in the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from boolab.errors import StoreError
from boolab.store import statements
from boolab.store.message_rows import TABLES
from boolab.store.rows import HEAD, Record, Row, holdable, is_odd

End: TypeAlias = Literal["finished", "interrupted"]
Storable: TypeAlias = Callable[[Row], Row]
"""Makes a row that SQLite can store: `tuple`, or `holdable` if that fails."""

PLACE: Final = ("id", "attempt", "state", "cell", "root", "member", "base")
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
    record: Record


def first_row(connection: sqlite3.Connection) -> int:
    """The first row number that no run ever had; a `StoreError` if the file's counter is damaged."""
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'runs'").fetchone()
    latest = 0 if found is None else found[0]
    if not isinstance(latest, int) or not 0 <= latest < _LAST_ROW:
        raise StoreError(f"it is damaged: its latest row of runs is {latest!r:.80}")
    return latest + 1


def replace_others(
    connection: sqlite3.Connection, root: int, run_ids: Iterable[str], cell: str | None, states: Collection[str]
) -> list[int]:
    """Mark other attempts at these runs, and other runs of their cell, as replaced if they are in one of these states.

    The runs of the family `root` stay. Returns for each run the number of its next attempt.
    """
    execute = connection.execute
    attempts: list[int] = []
    others: list[tuple[int, int, str]] = []
    for run_id in run_ids:
        found = execute("SELECT id, root, state, attempt FROM runs WHERE run_id = ?", (run_id,)).fetchall()
        attempts.append(1 + max((attempt for *_, attempt in found), default=0))
        others += [(row, its_root, state) for row, its_root, state, _ in found]
    if cell is not None:
        others += execute("SELECT id, root, state FROM runs WHERE cell = ?", (cell,))
    for row, its_root, state in others:
        if state in states and its_root != root:
            which = "root" if row == its_root else "id"
            execute(statements.update("runs", ("state = 'replaced'",), f"{which} = ?"), (row,))
    return attempts


def settle(connection: sqlite3.Connection, root: int, run_ids: Sequence[str], cell: str | None, end: End) -> None:
    """End a family under way, whose `run_ids` begin with the root's.

    A finished family replaces all others, an interrupted one only those that did not finish.
    """
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
        (at,) = storable((cell,))
        run_ids = storable(tuple([one.record.run_id for one in family]))
        attempts = replace_others(connection, family[0].root, run_ids, at, COUNTING)
        for one, attempt in zip(family, attempts, strict=True):
            shared = one.record.base
            base = None if shared is None else rows.get(shared) or _row_with_steps(connection, shared, storable)
            rows[one.record.run_id] = one.row if base is None else base
            place = (one.row, attempt, "finished", None if one.member else at, one.root, one.member, base)
            runs.append(_run_row(place, one.record, storable))
    _put_rows(connection, runs, [one for _, family in families for one in family], storable)


def put_child(connection: sqlite3.Connection, one: Placed, storable: Storable) -> None:
    """Insert the run of a subagent, whose root is under way."""
    (attempt,) = replace_others(connection, one.root, storable((one.record.run_id,)), None, ())
    place = (one.row, attempt, "running", None, one.root, one.member, None)
    _put_rows(connection, [_run_row(place, one.record, storable)], [one], storable)


class Changes(NamedTuple):
    """The changes of a run: its columns as they are now, and the new rows of its tables."""

    head: Row
    steps: Sequence[Row]
    calls: Sequence[Row]
    messages: Sequence[Row]
    parts: Sequence[Row]


def put_changes(
    connection: sqlite3.Connection, root: int, cell: str | None, changes: Changes, storable: Storable, *, new: bool
) -> None:
    """Insert the changes of a run that is under way. A `new` one replaces those that were interrupted."""
    head, (at,) = storable(changes.head), storable((cell,))
    tables = [[storable(row) for row in rows] for rows in changes[1:]]
    odd = is_odd(head) or any(is_odd(row) for rows in tables for row in rows)
    if new:
        (attempt,) = replace_others(connection, root, [head[0]], at, ("running", "interrupted"))
        row = (root, attempt, "running", at, root, 0, None, *head, None, odd)
        connection.execute(statements.insert("runs", _RUN), row)
    else:
        assignments = (*(f"{name} = ?" for name in HEAD), "odd = max(odd, ?)")
        connection.execute(statements.update("runs", assignments, "id = ?"), (*head, odd, root))
    for (table, columns), rows in zip(TABLES.items(), tables, strict=True):
        connection.executemany(statements.insert(table, ("run", *columns)), [(root, *row) for row in rows])


_RUN: Final = (*PLACE, *HEAD, "texts", "odd")


def _run_row(place: Row, record: Record, storable: Storable) -> Row:
    head = storable(record.head)
    odd = storable is holdable and any(map(is_odd, map(storable, (record.head, *record.steps, *record.calls))))
    return (*place, *head, record.texts, odd)


def _put_rows(
    connection: sqlite3.Connection, runs: Sequence[Row], placed: Sequence[Placed], storable: Storable
) -> None:
    connection.executemany(statements.insert("runs", _RUN), runs)
    for table in _OWN_TABLES:
        rows = [
            (row, *[_NULL if value is None else value for value in values])
            for row, _, _, record in placed
            for values in map(storable, getattr(record, table))
        ]
        connection.executemany(statements.insert(table, ("run", *TABLES[table])), rows)


_OWN_TABLES: Final = ("steps", "calls")
_NULL: Final = float("nan")
"""Bound in place of None. SQLite stores it as NULL (`sqlite3VdbeMemSetDouble`), and Python looks for no adapter, as it
does for each None (`need_adapt` in CPython's `_sqlite/statement.c`): a step, half of whose columns are NULL, takes 8 us
in place of 14."""


def _row_with_steps(connection: sqlite3.Connection, run_id: str, storable: Storable) -> int:
    question = "SELECT coalesce(base, id) FROM runs WHERE run_id = ? AND state = 'finished'"
    found = connection.execute(question, storable((run_id,))).fetchone()
    if found is None:
        msg = f"a run shares the steps of run {run_id}, of which the store has no finished one: put that one first"
        raise StoreError(msg)
    return int(found[0])
