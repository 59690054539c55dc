"""The database of opencode, `opencode.db`: sessions, their messages, and the parts of these, as in its storage folder.

Two generations of tables (github.com/anomalyco/opencode, `packages/core/src/session/sql.ts`), often both in one file:

- `session`, `message`, `part` (since February 2026): `data` holds the objects of the storage folder without their ids.
- `session_v2` and `session_message` (2.x): a row is a message with its content, in the order of `seq`. Its `type` is
  `user`, `assistant` (one response), `compaction`, `idle` (the end of a turn, with its outcome) or another that is no
  response. Versions between have the rows of `session_message` with `session`, as a projection that may lack most.

A migrated session is in both: the one with more responses counts, of equal ones the newer. The messages of 2.x are
turned into those of the older form here, so that both are counted in one way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from boolab.io.foreign_database import Database
from boolab.io.json_input import Damage, items, mapping, text
from boolab.logs.fields import content_text, time_ms
from boolab.logs.readers._sqlite import json_of

_Object: TypeAlias = Mapping[str, Any]
Messages: TypeAlias = Iterator[tuple[_Object, Sequence[Any]]]

_SESSION: Final = (
    "id", "project_id", "parent_id", "fork_session_id", "directory", "title", "version", "time_created", "cost",
    "tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read", "tokens_cache_write",
)  # fmt: skip
_ROW: Final = ("id", "type", "data", "time_created")
_NOTES: Final = ("synthetic", "system", "skill", "shell")
"""Types of messages that are for the model, and that no user wrote."""
_SWITCHES: Final = ("agent-switched", "model-switched", "location-switched")
_KINDS: Final = ("user", "assistant", "compaction", "idle", *_NOTES, *_SWITCHES)


class StoredSession(NamedTuple):
    """A session: its facts, as its file in the storage folder has them, its messages, and the totals of its row."""

    info: _Object
    messages: Messages
    forked_from: str
    row: _Object


def is_opencode(tables: Mapping[str, frozenset[str]]) -> bool:
    """Whether these are the tables of opencode."""
    columns = {name: tables.get(name, frozenset()) for name in ("message", "part", "session_message")}
    has_v1 = columns["message"].issuperset(("id", "session_id", "data")) and "message_id" in columns["part"]
    has_v2 = columns["session_message"].issuperset(("session_id", "type", "data"))
    sessions = tables.get("session", frozenset()) | tables.get("session_v2", frozenset())
    return (has_v1 or has_v2) and sessions.issuperset(("id", "directory"))


def stored_sessions(database: Database, damage: Damage) -> Iterator[list[StoredSession]]:
    """The sessions of a database in the order in which they were created, each as one or both generations have it."""
    rows: dict[str, dict[str, _Object]] = {}
    for table in ("session_v2", "session"):
        for row in database.rows(table, _SESSION, ("time_created", "id")):
            rows.setdefault(text(row["id"]), {})[table] = row
    for name, generations in sorted(rows.items(), key=lambda item: _created(item[1])):
        states = []  # the newer one first: of equal ones it counts
        newest = next(iter(generations.values()))
        if "session_v2" in generations or not _has_messages(database, name):
            states.append(_session(newest, _new_messages(database, name, damage)))
        if "session" in generations:
            states.append(_session(generations["session"], _old_messages(database, name, damage)))
        yield states


def _created(generations: Mapping[str, _Object]) -> tuple[int, str]:
    row = next(iter(generations.values()))
    return time_ms(row["time_created"]) or 0, text(row["id"])


def _has_messages(database: Database, session: str) -> bool:
    try:
        return any(True for _ in database.rows("message", ("id",), session_id=session))
    except sqlite3.Error:
        return True  # and the error is reported where they are read


def _session(row: _Object, messages: Messages) -> StoredSession:
    info = {
        "id": row["id"],
        "parentID": row["parent_id"],
        "directory": row["directory"],
        "version": row["version"],
        "time": {"created": row["time_created"]},
    }
    return StoredSession(info, messages, text(row["fork_session_id"]), row)


def _old_messages(database: Database, session: str, damage: Damage) -> Messages:
    parts: dict[object, list[Any]] = {}
    part_rows = database.rows("part", ("message_id", "data"), ("message_id", "id"), session_id=session)
    for message, rows in groupby(part_rows, key=lambda row: row["message_id"]):
        parts.setdefault(message, []).extend(_object(row["data"], damage, "a part of a message") for row in rows)
    for row in database.rows("message", ("id", "data"), ("time_created", "id"), session_id=session):
        info = _object(row["data"], damage, "a message")
        if text(info.get("role")) in ("user", "assistant"):
            yield {"id": row["id"], **info}, parts.get(row["id"], ())


def _object(data: object, damage: Damage, what: str) -> _Object:
    value = json_of(data)
    if not isinstance(value, dict):
        damage.note(1, f"{what} in the database is no JSON object that can be read")
    return mapping(value)


def _new_messages(database: Database, session: str, damage: Damage) -> Messages:
    for row in database.rows("session_message", _ROW, ("seq", "time_created", "id"), session_id=session):
        kind = text(row["type"])
        damage.note_kind(kind, _KINDS)
        data = _object(row["data"], damage, "a message")
        message = {"id": row["id"], "time": {"created": row["time_created"]}, **data}
        if kind == "assistant":
            yield _response(message)
        elif kind == "user":
            yield {**message, "role": "user"}, [*_text_parts(message), *map(_file_part, items(message.get("files")))]
        elif kind == "compaction" and message.get("status") not in ("running", "failed"):
            yield {**message, "role": "assistant", "summary": True}, ()
        elif kind == "idle":
            yield {**message, "role": "idle"}, ()
        elif kind in _NOTES and (parts := _text_parts(message)):
            yield {**message, "role": "user"}, [{**part, "synthetic": True} for part in parts]


def _text_parts(message: _Object) -> list[_Object]:
    words = text(message.get("text"))
    if text(message.get("command")):  # a command of the user's own, with `!`
        output = message.get("output")
        output = output if isinstance(output, str) else text(mapping(output).get("output"))
        words = f"$ {text(message.get('command'))}\n{output}"
    return [{"type": "text", "text": words}] if words else []


def _file_part(file: object) -> _Object:
    name = mapping(file).get("name") or mapping(file).get("filename") or mapping(file).get("uri")
    return {"type": "file", "filename": text(name)}


def _response(message: _Object) -> tuple[_Object, Sequence[Any]]:
    """A response of 2.x with its content, as a message and its parts."""
    times, model = mapping(message.get("time")), mapping(message.get("model"))
    content = [mapping(part) for part in items(message.get("content"))]
    first_call = next(
        (mapping(part.get("time")).get("created") for part in content if part.get("type") == "tool"), None
    )
    streamed = times.get("streamed") or first_call or times.get("completed")
    parts: list[_Object] = []
    if retry := mapping(message.get("retry")):
        parts.append(
            {"type": "retry", "time": {"created": retry.get("at")}, "error": _error(mapping(retry.get("error")))}
        )
    parts += [_call(part) if part.get("type") == "tool" else {**part, "time": {"end": streamed}} for part in content]
    info = {
        **message,
        "role": "assistant",
        "modelID": model.get("id"),
        "variant": model.get("variant"),
        "error": _error(mapping(message.get("error"))),
    }
    return info, parts


def _call(part: _Object) -> _Object:
    state, times = mapping(part.get("state")), mapping(part.get("time"))
    start, arguments = times.get("ran") or times.get("created"), state.get("input")
    # While it is written, the input is the text so far.
    fields = {"raw": arguments} if isinstance(arguments, str) else {"input": arguments} if "input" in state else {}
    return {
        "type": "tool",
        "tool": part.get("name"),
        "callID": part.get("id"),
        "state": {
            "status": state.get("status"),
            "output": content_text(state.get("content")),
            "attachments": state.get("content"),
            "error": text(mapping(state.get("error")).get("message")),
            "metadata": {**mapping(state.get("structured")), **mapping(state.get("metadata"))},
            "time": {"start": start, "end": times.get("completed")},
            **fields,
        },
    }


def _error(error: _Object) -> _Object:
    """An error of 2.x, which has a type instead of a name."""
    return {"name": error.get("type"), "data": {"message": error.get("message")}} if error else {}
