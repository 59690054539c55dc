"""The tables of a store, the migrations from one version of them to the next, and how statements on them are built.

`PRAGMA application_id` marks a file as a store, `PRAGMA user_version` is the version of its schema. A new file has
version 0 and gets its tables by the same migrations.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

APPLICATION_ID: Final = 0x626F6F6C
"""What marks a SQLite file as a store: "bool" in ASCII."""

Migration: TypeAlias = str | Callable[[sqlite3.Connection], None]
"""From one version to the next: statements separated by semicolons at the ends of lines, or a function."""

_FIRST: Final = """
CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,       -- of its cells, in order
    n_cells INTEGER NOT NULL,
    about TEXT NOT NULL,               -- JSON
    begun_at TEXT NOT NULL,            -- ISO 8601, UTC; of the latest beginning
    ended_at TEXT
);
CREATE TABLE cells (
    sweep INTEGER NOT NULL REFERENCES sweeps ON DELETE CASCADE,
    place INTEGER NOT NULL,
    cell TEXT NOT NULL,
    run_id TEXT NOT NULL,              -- what the cell's run is called, as its parts are now
    PRIMARY KEY (sweep, place)
) WITHOUT ROWID;
CREATE INDEX cells_by_cell ON cells (cell);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- no row is ever another run's: readers keep them while others are pruned
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted', 'replaced')),
    cell TEXT,                         -- of a sweep
    root INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,  -- its caller's caller's ...; itself if it has none
    member INTEGER NOT NULL,           -- its place in the family: 0 for the root
    base INTEGER REFERENCES runs,      -- the run whose first n_steps steps are its own
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    policy TEXT NOT NULL,
    task TEXT NOT NULL,
    source TEXT NOT NULL,
    parent_run_id TEXT,
    seed INTEGER,
    started_at TEXT,                   -- ISO 8601
    duration_ms INTEGER,
    identity TEXT NOT NULL,
    context_window INTEGER,
    stop_reason TEXT NOT NULL,
    stop_step INTEGER NOT NULL,
    stop_rule TEXT,
    stop_threshold INTEGER,
    stop_value INTEGER,
    also_fired TEXT,                    -- JSON; NULL for none
    n_steps INTEGER NOT NULL,
    success INTEGER,                   -- 0, 1, or NULL for unknown
    error TEXT,
    harness_version TEXT,
    limits TEXT,                       -- JSON; NULL for none
    settings TEXT,                     -- JSON; NULL for none
    rest TEXT,                         -- JSON: events, compactions, wrap-ups, git_branch, ...; NULL for none
    texts TEXT,                        -- JSON: prompt, inputs, responses; NULL where they are rows of messages, parts
    odd INTEGER NOT NULL DEFAULT 0,    -- whether some of its values are BLOBs, because SQLite cannot hold them
    UNIQUE (run_id, attempt)
);
CREATE UNIQUE INDEX runs_that_count ON runs (run_id) WHERE state IN ('finished', 'interrupted');
CREATE INDEX runs_by_cell ON runs (cell) WHERE cell IS NOT NULL;
CREATE INDEX runs_by_root ON runs (root);
CREATE INDEX runs_by_base ON runs (base) WHERE base IS NOT NULL;
CREATE INDEX runs_under_way ON runs (state) WHERE state = 'running';
CREATE TABLE steps (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    step INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    start_ms INTEGER,
    duration_ms INTEGER,
    model_ms INTEGER,
    ttft_ms INTEGER,
    finish_reason TEXT,
    native_finish_reason TEXT,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    reasoning_tokens INTEGER,
    cost INTEGER,                      -- millionths of a dollar
    cache_write_tokens INTEGER,
    cache_write_1h_tokens INTEGER,
    answered_by TEXT,                  -- the model, where it is another one than the run's; NULL else
    response_id TEXT,                  -- what the provider or the harness calls the response; NULL if unknown
    effort TEXT,                       -- of the reasoning, as the harness asked for it
    speed TEXT,
    service_tier TEXT,
    error TEXT,                        -- NULL for none
    shadow_stops TEXT,                 -- JSON; NULL for none
    counted INTEGER NOT NULL,          -- 0 if a limit had already stopped the run, which was continued later
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE calls (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    step INTEGER NOT NULL,
    call INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    result TEXT,                       -- NULL for a call that was dropped
    is_error INTEGER,                  -- 0, 1, or NULL for unknown
    parse_error INTEGER,
    duration_ms INTEGER,
    answers TEXT,                      -- the call that the result names, where it is another one
    images TEXT,                       -- JSON: the sizes of the result's images; NULL for none
    PRIMARY KEY (run, step, call)
);
CREATE TABLE messages (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool', 'sentinel')),
    origin TEXT NOT NULL CHECK (origin IN ('prompt', 'input', 'response', 'results', 'end')),
    step INTEGER,                      -- the step that it is of, or (an input) stands before
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE parts (
    run INTEGER NOT NULL,
    message INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL
        CHECK (kind IN ('step_start', 'text', 'reasoning', 'tool_call', 'tool_result', 'sentinel', 'image')),
    text TEXT,                         -- of a text, a reasoning, a sentinel
    about TEXT,                        -- the kind of a sentinel; what a provider wants to see again with a reasoning
    call INTEGER,                      -- of the same step: where the call or the result stands
    record TEXT,                       -- JSON: what it is, where no step has it
    PRIMARY KEY (run, message, seq),
    FOREIGN KEY (run, message) REFERENCES messages (run, seq) ON DELETE CASCADE
);
"""

MIGRATIONS: Final[Sequence[Migration]] = (_FIRST,)
"""The migration from version n to n + 1, by n. A migration that was released is never changed."""

VERSION: Final = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring a store or an empty file to the newest version, each step in one transaction."""
    for version in range(version_of(connection), len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            step = migrations[version]
            if callable(step):
                step(connection)
            else:
                for statement in _statements(step):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version + 1}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a file's schema; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_store(connection: sqlite3.Connection) -> bool:
    """Whether the file is marked as a store."""
    return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no table and no mark: it may be a new store that was not finished."""
    marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    return not any(marks) and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _statements(text: str) -> list[str]:
    """The statements of a script. `executescript` would commit the transaction that they are part of."""
    statements, statement = [], ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            statements.append(statement)
            statement = ""
    return statements


def select_from(columns: Sequence[str], table: str, condition: str = "TRUE", order_by: str = "") -> str:
    """A query for some columns of a table."""
    parts = ["SELECT", ", ".join(columns), "FROM", table, "WHERE", condition]
    return " ".join([*parts, "ORDER BY", order_by] if order_by else parts)


def insert_into(table: str, columns: Sequence[str]) -> str:
    """Insert a row into a table."""
    return " ".join(["INSERT INTO", table, f"({', '.join(columns)})", "VALUES", placeholders(len(columns))])


def update_rows(table: str, assignments: Iterable[str], condition: str) -> str:
    """Change rows of a table."""
    return " ".join(["UPDATE", table, "SET", ", ".join(assignments), "WHERE", condition])


def placeholders(count: int) -> str:
    """A list of question marks, for so many values."""
    return f"({','.join('?' * count)})"


def integer_list(rows: Iterable[int]) -> str:
    """A list of whole numbers, which may be more than SQLite can bind."""
    return f"({','.join(map(str, rows))})"
