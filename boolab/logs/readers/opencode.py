"""opencode: its database, sessions in its storage folder, exports, and the lines of `opencode run --format json`.

Layouts (github.com/sst/opencode, `session/message-v2.ts`, `cli/cmd/export.ts` and `run.ts`)
-------------------------------------------------------------------------------------------
In `~/.local/share/opencode/storage` a session is many files: `session/<project>/<session>.json`, its messages
`message/<session>/*.json`, and their parts `part/<message>/*.json` (older: `part/<session>/<message>/*.json`, or all in
`part/`). The session's file is the log. The others are found by the ids in it, only in the storage folder and never
through links; alone they are refused. An export is `{info, messages: [{info, parts}]}`, the server's reply only that
list. A line of `run` is `{type, timestamp, sessionID, part}`, without the user's messages. Since February 2026 all
sessions are in one SQLite database: see `_opencode_database`. How responses are counted: see `_opencode_session`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias

from boolab.core.run import Run
from boolab.errors import RunFormatError
from boolab.io.foreign_database import Database
from boolab.io.json_input import Damage, items, json_document, json_lines, mapping, parse, text, whole_file
from boolab.io.packed import open_unpacked
from boolab.logs.fields import Head, stem_of, time_ms
from boolab.logs.readers._opencode_database import StoredSession, is_opencode, stored_sessions
from boolab.logs.readers._opencode_session import SOURCE, Session, Timed, creation_time
from boolab.logs.readers._sqlite import build_each, is_foreign, read_sessions, tables_in

NAME: Final = SOURCE
SCOPE: Final = "turn"
SUFFIXES: Final = (".json", ".jsonl", ".db")
PLACES: Final = (
    "$XDG_DATA_HOME/opencode/opencode.db",
    "$XDG_DATA_HOME/opencode/opencode-*.db",
    "~/.local/share/opencode/opencode.db",
    "~/.local/share/opencode/opencode-*.db",
    "$XDG_DATA_HOME/opencode/storage/session/*/*.json",
    "~/.local/share/opencode/storage/session/*/*.json",
)
LOOKED_FOR: Final = (
    'a session\'s file with "projectID" and "time", an export {"info", "messages"}, lines of "run", or a SQLite '
    "database with the tables session, message and part, or session_v2 and session_message"
)

_LINES: Final = ("step_start", "step_finish", "tool_use", "text", "reasoning", "error", "done")
_PARTS: Final = (
    "agent", "compaction", "file", "patch", "reasoning", "retry", "snapshot", "step-finish", "step-start", "subtask",
    "text", "tool",
)  # fmt: skip
MAX_NAME: Final = 60  # characters: an id has 30, and a file's name at most 255 bytes


_Messages: TypeAlias = Iterator[tuple[Mapping[str, Any], Sequence[Any]]]
"""The facts of each message, and its parts."""


def sniff(head: Head) -> bool:
    """Whether this is a session of opencode, or a part of one (which `read` refuses)."""
    if is_foreign(head.data):
        return is_opencode(tables_in(head))
    first = head.values[0] if head.values else None
    if isinstance(first, list):
        return bool(first) and _is_message(first[0])
    entry = mapping(first)
    return (
        _is_session(entry)
        or _is_export(entry)
        or bool(_piece_kind(entry, head.path))
        or any(map(_is_line, head.values))
    )


def _is_session(entry: Mapping[str, Any]) -> bool:
    return {"id", "time", "title"} <= entry.keys() and not {"projectID", "directory"}.isdisjoint(entry)


def _is_export(entry: Mapping[str, Any]) -> bool:
    messages = entry.get("messages")
    if not isinstance(messages, list) or "time" not in mapping(entry.get("info")):
        return False
    return not messages or _is_message(messages[0]) or messages == [{}]


def _is_message(entry: object) -> bool:
    info = mapping(mapping(entry).get("info"))
    return text(info.get("role")) in ("user", "assistant") and {"id", "time"} <= info.keys()


def _is_line(entry: object) -> bool:
    line = mapping(entry)
    if text(line.get("type")) not in _LINES or "sessionID" not in line:
        return False
    return "messageID" in mapping(line.get("part")) or "error" in line or "reason" in line


def _piece_kind(entry: Mapping[str, Any], path: Path) -> str:
    """`message` or `part` if a file of the storage holds one; empty if neither."""
    if {"id", "sessionID", "role", "time"} <= entry.keys():
        return "message"
    if "id" not in entry or text(entry.get("type")) not in _PARTS:
        return ""
    return "part" if "messageID" in entry or "part" in (path.parent.name, path.parent.parent.name) else ""


def inner(folders: Sequence[str]) -> set[str]:
    """Which of these sibling folders hold pieces of sessions: those of the storage folder."""
    if "message" in folders and ("session" in folders or "info" in folders):
        return {"message", "part", "session_diff"} & set(folders)
    return set()


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one session, or those of a database."""
    with open_unpacked(path) as file:
        head = Head(file.read(65_536), path)
    if is_foreign(head.data):
        return read_sessions(path, damage, _read_database)
    run = _read_events(path, damage) if any(map(_is_line, head.values)) else _read_document(path, damage)
    return [] if run is None else [run]


def _read_database(database: Database, damage: Damage) -> Iterator[Run]:
    def build_longest(states: Sequence[StoredSession]) -> Run | None:
        runs = [run for state in states if (run := _stored_run(state, damage)) is not None]
        return max(runs, key=lambda run: run.n_steps, default=None)

    damage.unrecognised = "" if is_opencode(database.tables) else f"a log of opencode is {LOOKED_FOR}"
    yield from build_each(stored_sessions(database, damage), build_longest, damage)


def _stored_run(stored: StoredSession, damage: Damage) -> Run | None:
    session = Session(stored.info, damage)
    for info, parts in stored.messages:
        session.take(info, parts)
    session.state_totals(stored.row)
    return session.run(branched_from=stored.forked_from)


def _read_events(path: Path, damage: Damage) -> Run | None:
    session = Session({}, damage)
    parts: list[Timed] = []
    message = ""
    for number, value in json_lines(path, damage):
        line = mapping(value)
        part, time = mapping(line.get("part")), time_ms(line.get("timestamp"))
        if not _is_line(line):
            damage.note(number, "a line that is no event of a session")
            continue
        session.run_id = session.run_id or text(line.get("sessionID"))
        if "error" in line or (part and text(part.get("messageID")) != message):
            session.add_responses({}, parts)
            parts = []
        if "error" in line:
            session.fail(mapping(line["error"]), time)
        elif part:
            message = text(part.get("messageID"))
            parts.append((part, time))
    if parts:
        session.add_responses({}, parts)
    return session.run()


def _read_document(path: Path, damage: Damage) -> Run | None:
    """The run of a session's file and the files of its messages, or of an export."""
    document = json_document(path, damage)
    if isinstance(document, list):
        session = Session(mapping(mapping(document[0]).get("info")) if document else {}, damage, "sessionID")
        messages: _Messages = _exported_messages(document, damage)
    elif isinstance(document, dict) and isinstance(document.get("messages"), list):
        session = Session(mapping(document.get("info")), damage)
        messages = _exported_messages(document["messages"], damage)
    elif isinstance(document, dict) and _is_session(document):
        session = Session(document, damage)
        messages = _stored_messages(path, document, damage)
    else:
        piece = _piece_kind(mapping(document), path)
        if piece:
            file = f"session/<project>/{text(mapping(document).get('sessionID')) or '<session>'}.json"
            msg = f"a {piece} of a session only; give the session's file, {file} in the storage folder"
            raise RunFormatError(msg, path=path, line=1)
        raise RunFormatError(f"a log of opencode is {LOOKED_FOR}", path=path, line=1)
    for info, parts in messages:
        session.take(info, parts)
    return session.run()


def _exported_messages(messages: Sequence[Any], damage: Damage) -> _Messages:
    for number, message in enumerate(messages, 1):
        info = mapping(mapping(message).get("info"))
        if text(info.get("role")) in ("user", "assistant"):
            yield info, items(message.get("parts"))
        else:
            damage.note(1, f"message {number} has no info with a role")


def _stored_messages(path: Path, session: Mapping[str, Any], damage: Damage) -> _Messages:
    """The messages of a session in the storage folder, in their order, with their parts."""
    store = _Store(path, damage)
    ids = [text(session.get("id")), stem_of(path)]
    folder = next((candidate for name in ids if (candidate := store.folder("message", name)) is not None), None)
    if folder is None:
        if store.folder("message") is None:
            damage.note(1, "the folder message/ that belongs beside session/ is not there")
        return  # the session has no message yet
    messages = [info for info in store.values(folder) if text(info.get("role")) in ("user", "assistant")]
    if None not in map(creation_time, messages):
        messages.sort(key=lambda info: creation_time(info) or 0)
    for info in messages:
        yield info, store.parts(folder.name, text(info.get("id")))


class _Store:
    """The files of the storage folder of a session's file: only those in it, and no links."""

    def __init__(self, path: Path, damage: Damage) -> None:
        home = path.absolute().parent.parent.parent
        self._homes = (home, home / "session")
        self._damage = damage
        self._loose: dict[str, list[Mapping[str, Any]]] | None = None

    def folder(self, *names: str) -> Path | None:
        """The folder of these names, if it is there and each is a valid name."""
        if not all(map(_is_name, names)):
            return None
        for home in self._homes:
            steps = [*accumulate((str(home), *names), os.path.join)]
            if os.path.isdir(steps[-1]) and not any(map(os.path.islink, steps[1:])):  # noqa: PTH112 - as below
                return Path(steps[-1])
        return None

    def values(self, folder: Path) -> Iterator[Mapping[str, Any]]:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name for entry in entries if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False)
            )
        for name in names:
            try:
                value = parse(whole_file(os.path.join(folder, name)))  # noqa: PTH118 - thousands of them
            except (OSError, ValueError):
                value = None
            if isinstance(value, dict):
                yield value
            else:
                self._damage.note(1, f"{folder.parent.name}/{folder.name}/{name} holds no JSON object that can be read")

    def parts(self, session: str, message: str) -> Sequence[Mapping[str, Any]]:
        """The parts of a message, from any of the three layouts."""
        folder = self.folder("part", message) or self.folder("part", session, message)
        if folder is not None:
            return list(self.values(folder))
        if self._loose is None:
            self._loose = {}
            folder = self.folder("part")
            for part in () if folder is None else self.values(folder):
                self._loose.setdefault(text(part.get("messageID")), []).append(part)
        return self._loose.get(message, ())


def _is_name(name: str) -> bool:
    """Whether an id is a valid name of a folder, and no path."""
    return 0 < len(name) <= MAX_NAME and name.isprintable() and name not in (".", "..") and not set(name) & set("/\\:")
