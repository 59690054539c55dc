"""Removes runs from a store."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from boolab.store import statements


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


def prunable(connection: sqlite3.Connection, unwanted: Unwanted) -> Prunable:
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
_COUNT_DOOMED: Final = _DOOMED + statements.select(("count(*)",), "doomed")
_COUNT_GOING: Final = _DOOMED + statements.select(("count(*)", _OWN_STEPS), "runs", f"id IN {_GOING}")
_REMOVE: Final = f"{_DOOMED} DELETE FROM runs WHERE id IN {_GOING}"  # noqa: S608 - no value is in it
