"""Finds the rows of runs in their order, and reads the runs."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from boolab.core.gc_pause import pause_collection
from boolab.core.messages import Input, Message
from boolab.core.run import Run
from boolab.core.types import Step
from boolab.errors import StoreError
from boolab.store.message_rows import TABLES, texts_of_rows
from boolab.store.rows import (
    HEAD_COLUMNS,
    Row,
    decode_settings,
    make_storable,
    restore_row,
    run_of_head,
    steps_of,
    texts_of,
)
from boolab.store.schema import integer_list, placeholders, select_from

INTERRUPTED: Final = "interrupted: the process that made it ended"
"""The error of a run whose process ended before it did."""

_N_STEPS: Final = HEAD_COLUMNS.index("n_steps")
_ERROR: Final = HEAD_COLUMNS.index("error")
_ORDERS: Final = {
    "steps": "run, step",
    "calls": "run, step, call",
    "messages": "run, seq",
    "parts": "run, message, seq",
}
"""The primary key of each table."""
_STATE_ORDER: Final = "CASE state WHEN 'finished' THEN 0 WHEN 'interrupted' THEN 1 WHEN 'running' THEN 2 ELSE 3 END"


def row_of_finished(connection: sqlite3.Connection, run_id: str) -> int | None:
    """The row of a finished run."""
    query = "SELECT id FROM runs WHERE run_id = ? AND state = 'finished'"
    row = connection.execute(query, make_storable((run_id,))).fetchone()
    return None if row is None else int(row[0])


def family_of_finished(connection: sqlite3.Connection, run_id: str) -> list[int]:
    """The rows of a finished run and of its subagents' runs; none if there is no such run."""
    row = row_of_finished(connection, run_id)
    if row is None:
        return []
    members = connection.execute(select_from(("id",), "runs", "root = ?", "member"), (row,))
    return [row, *(member for (member,) in members if member != row)]


def families_of_attempts(connection: sqlite3.Connection, run_ids: Sequence[str]) -> list[tuple[Any, list[int]]]:
    """The state of each attempt at these runs, with its row and those of its subagents' runs."""
    roots = select_from(("id",), "runs", f"id = root AND run_id IN {placeholders(len(run_ids))}")
    query = select_from(("root", "state", "id"), "runs", f"root IN ({roots})", "root, member, id")
    families: dict[int, tuple[Any, list[int]]] = {}
    for root, state, row in connection.execute(query, make_storable(tuple(run_ids))):
        families.setdefault(root, (state, []))[1].append(row)
    return list(families.values())


def row_of(connection: sqlite3.Connection, run_id: str) -> int:
    """The row of a run: of its attempt that counts, else of the one under way; a `StoreError` if there is none."""
    query = select_from(("id",), "runs", "run_id = ?", f"{_STATE_ORDER}, attempt DESC LIMIT 1")
    row = connection.execute(query, make_storable((run_id,))).fetchone()
    if row is None:
        raise StoreError(f"there is no run {run_id} in it")
    return int(row[0])


def find_rows(
    connection: sqlite3.Connection, states: Collection[str], sweep: int | None = None, *, deserted: bool = False
) -> array[int]:
    """The rows of the runs in these states, or only those of a sweep.

    Families are in the order of the latest sweep that has their cell, subagents after their callers. Runs of no sweep
    follow in the order of their rows. A `deserted` store has no writer, so that runs under way were interrupted.
    """
    state_list = [*states]
    condition = f"runs.state IN {placeholders(len(state_list))}"
    if deserted and "interrupted" in states:
        condition = f"({condition} OR runs.state = 'running' AND NOT EXISTS ({_FINISHED}))"
    plan_join = _PLAN_JOIN if sweep is not None else f"LEFT {_PLAN_JOIN}"
    tables = f"runs JOIN runs AS roots ON roots.id = runs.root {plan_join}"
    query = select_from(("runs.id",), tables, condition, _PLAN)
    return array("q", (row for (row,) in connection.execute(query, (sweep, *state_list))))


_PLAN_JOIN: Final = """
    JOIN (
        SELECT cell, max(sweep) AS sweep, min(place) AS place FROM cells
        WHERE sweep = coalesce(?, (SELECT max(sweep) FROM cells AS others WHERE others.cell = cells.cell))
        GROUP BY cell
    ) AS planned ON planned.cell = roots.cell
"""
"""The place of each cell in a sweep: in the latest that has it, if none is named."""
_PLAN: Final = "planned.sweep IS NULL, planned.sweep, planned.place, roots.id, runs.member, runs.id"
_FINISHED: Final = """
    SELECT 1 FROM runs AS others JOIN runs AS own ON own.id = runs.root
    WHERE (others.run_id = own.run_id OR others.cell = own.cell) AND others.state = 'finished'
"""


def read_settings(connection: sqlite3.Connection, rows: Sequence[int]) -> list[Mapping[str, Any]]:
    """The settings of the runs in these rows, each combination once; a `StoreError` if they are damaged."""
    query = select_from(("DISTINCT settings",), "runs", _is_one_of(rows))
    texts = [text for (text,) in connection.execute(query)]
    try:
        return [{} if text is None else decode_settings(text) for text in texts]
    except ValueError as error:
        raise StoreError(f"it is damaged: the settings of a run cannot be read ({error})") from error


def read_parents(connection: sqlite3.Connection, rows: Sequence[int]) -> list[tuple[str, str | None]]:
    """The ids of the runs in these rows, each with its parent's if it has one; a `StoreError` if they are damaged."""
    query = select_from(("run_id", "parent_run_id"), "runs", _is_one_of(rows))
    try:
        ids = [restore_row(row, ("run_id", "parent_run_id")) for row in connection.execute(query)]
    except ValueError as error:
        raise StoreError(f"it is damaged: the id of a run cannot be read ({error})") from error
    return [(str(run_id), None if parent is None else str(parent)) for run_id, parent in ids]


def has_label(connection: sqlite3.Connection, rows: Sequence[int]) -> bool:
    """Whether any run in these rows has a label."""
    query = select_from(("1",), "runs", f"success NOT NULL AND {_is_one_of(rows)} LIMIT 1")
    return connection.execute(query).fetchone() is not None


def read_runs(connection: sqlite3.Connection, rows: Sequence[int]) -> list[Run]:
    """The runs in these rows, in this order, from one snapshot; a `StoreError` if one was removed or is damaged."""
    connection.execute("BEGIN")
    try:
        table_rows = _read_rows(connection, rows)
    except ValueError as error:
        raise StoreError(f"it is damaged: a run in it cannot be read ({error})") from error
    finally:
        connection.execute("COMMIT")
    missing = sum(row not in table_rows.heads for row in rows)
    if missing:
        msg = f"{missing} of these runs were removed from it after they were looked up: call stored_runs again"
        raise StoreError(msg)
    try:
        return _build_runs(rows, table_rows)
    except Exception as error:  # a damaged file may hold anything anywhere
        raise StoreError(f"it is damaged: a run in it cannot be read ({type(error).__name__}: {error})") from error


class _Head(NamedTuple):
    """A row of runs: `base` is the row that has its steps, if that is another one; `columns` are `HEAD_COLUMNS`."""

    base: int | None
    texts: str | None
    odd: bool
    columns: Row


class _TableRows(NamedTuple):
    """What was read. `step_rows` are the rows that have steps; the tables are by name and by row."""

    heads: dict[int, _Head]
    step_rows: set[int]
    tables: Mapping[str, Mapping[int, Sequence[Row]]]


def _read_rows(connection: sqlite3.Connection, rows: Sequence[int]) -> _TableRows:
    """What the tables hold of these rows; a `ValueError` if that is damaged."""
    heads = _heads(connection, rows)
    step_rows = {row if head.base is None else head.base for row, head in heads.items()}
    heads |= _heads(connection, [row for row in step_rows if row not in heads])
    if not step_rows <= heads.keys():
        msg = "its steps are those of a run that is not there"
        raise ValueError(msg)
    tables = {name: _rows_of(connection, name, step_rows, heads) for name in ("steps", "calls")}
    growing_rows = [row for row in step_rows if heads[row].texts is None]
    tables |= {name: _rows_of(connection, name, growing_rows, heads) for name in ("messages", "parts")}
    return _TableRows(heads, step_rows, tables)


def _heads(connection: sqlite3.Connection, rows: Iterable[int]) -> dict[int, _Head]:
    query = select_from(("id", "base", "texts", "odd", "state", "root", *HEAD_COLUMNS), "runs", _is_one_of(rows))
    heads = {}
    for row, base, texts, odd, state, root, *head in connection.execute(query):
        if state == "running" and row == root:
            head[_ERROR] = INTERRUPTED
        if base is not None and type(base) is not int:  # it becomes part of a statement
            raise ValueError(f"{base!r:.80} is no row of another run")
        heads[row] = _Head(base, texts, bool(odd), restore_row(head, HEAD_COLUMNS) if odd else tuple(head))
    return heads


def _rows_of(
    connection: sqlite3.Connection, table: str, rows: Iterable[int], heads: Mapping[int, _Head]
) -> dict[int, list[Row]]:
    columns = TABLES[table]
    query = select_from(("run", *columns), table, _is_one_of(rows, "run"), _ORDERS[table])
    rows_by_run: dict[int, list[Row]] = {}
    for run, *values in connection.execute(query):
        if run not in heads:  # a damaged index leads to other rows
            raise ValueError(f"a row of {table} is of run {run!r:.80}, which was not requested")
        rows_by_run.setdefault(run, []).append(values)
    for run, run_rows in rows_by_run.items():
        if heads[run].odd:
            rows_by_run[run] = [restore_row(row, columns) for row in run_rows]
    return rows_by_run


def _is_one_of(rows: Iterable[int], column: str = "id") -> str:
    return f"{column} IN {integer_list(rows)}"


class _Content(NamedTuple):
    """What a run has besides its columns."""

    steps: tuple[Step, ...]
    prompt: tuple[Message, ...]
    inputs: tuple[Input, ...]


def _content(row: int, table_rows: _TableRows) -> _Content:
    steps, calls, messages, parts = (table_rows.tables[name].get(row, ()) for name in TABLES)
    head = table_rows.heads[row]
    if head.texts is None:
        prompt, inputs, texts = texts_of_rows(messages, parts, head.columns[_N_STEPS])
        return _Content(steps_of(steps, calls, texts), prompt, inputs)
    own_prompt, inputs, words = texts_of(head.texts)
    return _Content(steps_of(steps, calls, words), own_prompt or (), inputs)


def _build_runs(rows: Sequence[int], table_rows: _TableRows) -> list[Run]:
    with pause_collection():
        contents = {row: _content(row, table_rows) for row in table_rows.step_rows}
        return [_run(head := table_rows.heads[row], contents[row if head.base is None else head.base]) for row in rows]


def _run(head: _Head, content: _Content) -> Run:
    if head.base is None:
        return run_of_head(head.columns, *content)
    prompt, inputs, _ = texts_of(head.texts or "{}")
    steps = content.steps[: head.columns[_N_STEPS]]
    return run_of_head(head.columns, steps, content.prompt if prompt is None else prompt, inputs)
