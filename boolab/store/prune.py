"""The statements that remove runs from a store."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple


class Unwanted(NamedTuple):
    """What is to go: runs that were replaced, runs that were interrupted, a sweep with the runs of its cells alone."""

    replaced: bool = False
    interrupted: bool = False
    sweep: int | None = None

    def __bool__(self) -> bool:
        return self.replaced or self.interrupted or self.sweep is not None


class Prunable(NamedTuple):
    """How many runs would go, with how many steps; `held` stay because other runs share their steps."""

    runs: int
    steps: int
    held: int


def prunable(connection: sqlite3.Connection, unwanted: Unwanted) -> Prunable:
    """What would go."""
    values = unwanted._asdict()
    runs, steps = connection.execute(_COUNT_GOING, values).fetchone()
    (doomed,) = connection.execute(_COUNT_DOOMED, values).fetchone()
    return Prunable(runs, steps, doomed - runs)


def prune(connection: sqlite3.Connection, unwanted: Unwanted) -> None:
    """Remove it; a transaction was begun."""
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
_COUNT_DOOMED: Final = f"{_DOOMED} SELECT count(*) FROM doomed"  # noqa: S608 - nothing of anybody else's is in these
_COUNT_GOING: Final = f"""{_DOOMED}
    SELECT count(*), coalesce(sum(CASE WHEN base IS NULL THEN n_steps ELSE 0 END), 0) FROM runs WHERE id IN {_GOING}
"""  # noqa: S608 - as above
_REMOVE: Final = f"{_DOOMED} DELETE FROM runs WHERE id IN {_GOING}"  # noqa: S608 - as above
