"""What readers of SQLite databases share: whether a file is one, its tables, and the runs of its sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from boolab.core.run import Run
from boolab.io.foreign_database import MAGIC, Database, read_database, tables_of
from boolab.io.json_input import JSON, Damage, parse
from boolab.logs.fields import Head
from boolab.store.connection import looks_like_store

_Session = TypeVar("_Session")


def tables_in(head: Head) -> Mapping[str, frozenset[str]]:
    """The tables of a database of another program, each with its columns; none if it is another file."""
    return head.compute_once(_tables_in)


def _tables_in(head: Head) -> Mapping[str, frozenset[str]]:
    return tables_of(head.path) if is_foreign(head.data) else {}


def is_foreign(data: bytes) -> bool:
    """Whether a file that begins like this is a SQLite database that is no store of boolab's."""
    return data.startswith(MAGIC) and not looks_like_store(data)


def read_sessions(path: Path, damage: Damage, read: Callable[[Database, Damage], Iterable[Run]]) -> list[Run]:
    """The runs of a database; `read` is called again, with no damage so far, if it changed while it was read."""

    def read_again(database: Database) -> tuple[list[Run], Damage]:
        new_damage = Damage(path)
        return [*read(database, new_damage)], new_damage

    runs, new_damage = read_database(path, read_again)
    vars(damage).update(vars(new_damage))
    return runs


def build_each(sessions: Iterable[_Session], build: Callable[[_Session], Run | None], damage: Damage) -> Iterator[Run]:
    """The runs of sessions. Where the database is damaged, a session is left out, and the others are read."""
    for session in sessions:
        try:
            run = build(session)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            damage.note(1, f"a session that cannot be read: the database is damaged ({error})")
            continue
        if run is not None:
            yield run


def json_of(value: object) -> JSON:
    """The value of a JSON text in a column; None if it is none."""
    try:
        return parse(value.encode()) if isinstance(value, str) else None
    except ValueError:
        return None
