"""Counts what is in a store: its sweeps with their progress, and its runs by state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.store.connection import path_of, reading
from boolab.store.lock import is_locked
from boolab.store.rows import restored
from boolab.store.schema import version_of


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
        return [run_id for row in found for run_id in restored(row, ("run_id",))]


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
