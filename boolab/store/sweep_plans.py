"""Writes the plans of sweeps into a store, and finds what is done of them."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from boolab.store import statements

_AT_ONCE: Final = 10_000


def begin(connection: sqlite3.Connection, cells: Iterable[tuple[str, str]], about: str) -> int:
    """Insert a plan, or resume it: the same cells in the same order are the same sweep. Returns its number.

    `cells` are pairs of a cell and the id of its run, consumed one by one; `about` is JSON.
    """
    execute = connection.execute
    digest, count, now = hashlib.blake2b(digest_size=16), 0, _now()
    execute("INSERT INTO sweeps (digest, n_cells, about, begun_at) VALUES ('', 0, ?, ?)", (about, now))
    sweep = int(execute("SELECT last_insert_rowid()").fetchone()[0])
    numbered = enumerate(cells)
    while some := list(itertools.islice(numbered, _AT_ONCE)):
        digest.update("".join([f"{cell}\n" for _, (cell, _) in some]).encode())
        count += len(some)
        rows = [(sweep, place, cell, run_id) for place, (cell, run_id) in some]
        connection.executemany(statements.insert("cells", ("sweep", "place", "cell", "run_id")), rows)
    known = execute("SELECT id FROM sweeps WHERE digest = ?", (digest.hexdigest(),)).fetchone()
    if known is not None:
        execute("DELETE FROM cells WHERE sweep = ?", known)
        execute("UPDATE cells SET sweep = ? WHERE sweep = ?", (known[0], sweep))
        execute("DELETE FROM sweeps WHERE id = ?", (sweep,))
        sweep = int(known[0])
    execute(
        "UPDATE sweeps SET digest = ?, n_cells = ?, about = ?, begun_at = ?, ended_at = NULL WHERE id = ?",
        (digest.hexdigest(), count, about, now, sweep),
    )
    return sweep


def finished_after(
    connection: sqlite3.Connection, sweep: int, place: int, again: Collection[str]
) -> list[tuple[int, str]]:
    """Some places after this one whose run is finished, each with its stop reason, which is none of `again`."""
    question = statements.select(
        ("place", "stop_reason"),
        "cells JOIN runs USING (run_id)",
        f"sweep = ? AND place > ? AND state = 'finished' AND stop_reason NOT IN {statements.marks(len(again))}",
        f"place LIMIT {_AT_ONCE}",
    )
    return connection.execute(question, (sweep, place, *again)).fetchall()


def end(connection: sqlite3.Connection, sweep: int) -> None:
    """Record that a plan is done."""
    connection.execute("UPDATE sweeps SET ended_at = ? WHERE id = ?", (_now(), sweep))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
