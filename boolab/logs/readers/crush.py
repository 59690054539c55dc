"""Crush: its database `crush.db`, and `opencode.db` of opencode's first version in Go, from which Crush was made.

See `internal/db/migrations` and `internal/message/content.go` in github.com/charmbracelet/crush.

- A row of `messages` has a role, a model and a list of `parts`, each `{type, data}`. One of the role `assistant` is one
  response, unless it has only a `finish` part: then its request failed or was cancelled. One with `is_summary_message`,
  or that its session names as its summary, is a compaction.
- `tool_call` and `tool_result` are parts; a result is a message of the role `tool`. Whether it failed is its flag: a
  command's exit code is only in its text, and is no error. Calls that were cancelled were dropped.
- Each message of the user opens a turn. The reason in the last `finish` part is why the run ended.
- Times are seconds, those of commands in a result's `metadata` milliseconds. The tokens of a session's row are those of
  its last request, and no sum; its cost is that of the whole session, and 0 where no price was known.
- A subagent is a session with a `parent_session_id`, whose id ends with that of the call. A session whose id begins
  with `title-` is the request for a title.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import StopReason
from boolab.io.foreign_database import Database
from boolab.io.json_input import Damage, flag, items, json_object, mapping, micro, text
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, one_line, time_ms
from boolab.logs.images import images_of
from boolab.logs.readers._crush_projects import databases
from boolab.logs.readers._sqlite import build_each, json_of, read_sessions, tables_in
from boolab.logs.step_builder import StepBuilder, elapsed_ms

NAME: Final = "crush"
SCOPE: Final = "turn"
SUFFIXES: Final = (".db",)
PLACES: Final = ("~/.crush/crush.db", "~/.opencode/opencode.db", "~/.local/share/crush/crush.db")
LOOKED_FOR: Final = "a SQLite database with the tables sessions and messages, whose column parts has the content"

_SESSION: Final = ("id", "parent_session_id", "summary_message_id", "cost", "created_at")
_MESSAGE: Final = ("id", "role", "parts", "model", "created_at", "finished_at", "is_summary_message")
_CANCELLED: Final = ("Tool execution canceled by user", "Error: user cancelled assistant tool calling")
_SECONDS: Final = 0.001
_FIRST_MS: Final = 10**11
"""Smaller times are seconds: as milliseconds they were in 1973."""


def sniff(head: Head) -> bool:
    """Whether this is a database of Crush."""
    tables = tables_in(head)
    sessions, messages = tables.get("sessions", frozenset()), tables.get("messages", frozenset())
    return sessions.issuperset(("id", "parent_session_id")) and messages.issuperset(("session_id", "role", "parts"))


def listed(home: Path, variables: Mapping[str, str]) -> list[str]:
    """The databases of the projects that Crush knows."""
    return databases(home, variables)


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of all sessions, in the order in which they were created."""
    return read_sessions(path, damage, _read_sessions)


def _read_sessions(database: Database, damage: Damage) -> Iterator[Run]:
    damage.unrecognised = "" if database.has("messages", "parts") else f"a log of Crush is {LOOKED_FOR}"
    rows = [*database.rows("sessions", _SESSION, ("created_at", "id"))]
    children: dict[str, list[str]] = {}
    for row in rows:
        children.setdefault(text(row["parent_session_id"]), []).append(text(row["id"]))
    sessions = (row for row in rows if not text(row["id"]).startswith("title-"))
    yield from build_each(sessions, lambda row: _run(database, row, children, damage), damage)


def _run(
    database: Database, row: Mapping[str, Any], children: Mapping[str, Sequence[str]], damage: Damage
) -> Run | None:
    name = text(row["id"])
    session = _Session(row, children.get(name, ()), damage)
    for message in database.rows("messages", _MESSAGE, ("created_at", "rowid"), session_id=name):
        parts = json_of(message["parts"])
        if not isinstance(parts, list):
            damage.note(1, "the parts of a message in the database are no JSON list that can be read")
        session.take(message, [mapping(part) for part in items(parts)])
    return session.run()


def _run_id(session: str) -> str:
    """The id of a session's run: that of a subagent is `<message>$$<call>`, and facts keep no id with a dollar."""
    return session.replace("$$", "#")


def _time(value: object) -> int | None:
    return time_ms(value, 1.0 if isinstance(value, int) and value > _FIRST_MS else _SECONDS)


class _Session:
    """Builds the run of one session, whose subagents have these ids."""

    def __init__(self, row: Mapping[str, Any], children: Sequence[str], damage: Damage) -> None:
        self._id = text(row["id"])
        self._parent = text(row["parent_session_id"])
        self._summary = text(row["summary_message_id"])
        self._cost = micro(row["cost"])
        self._children = children
        self.builder = RunBuilder(NAME, damage)
        self._end: StopReason | None = None
        self._error: str | None = None

    def take(self, message: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
        role, time = message["role"], _time(message["created_at"])
        if role == "tool":
            for part in parts:
                if part.get("type") == "tool_result":
                    self._add_result(mapping(part.get("data")), time)
        elif role == "assistant" and (message["is_summary_message"] or message["id"] == self._summary):
            self.builder.add_event("compaction", time)
        elif role == "assistant":
            self._add_response(message, parts, time)
        elif role in ("user", "system"):
            self._end = self._error = None
            words = "\n".join(filter(None, map(_words, parts)))
            images = images_of([part.get("data") for part in parts if part.get("type") == "binary"])
            self.builder.add_message(role, words, opens_turn=role == "user", time=time, images=images)

    def _add_response(self, message: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], start: int | None) -> None:
        self._end = self._error = None
        finish: Mapping[str, Any] | None = None
        step: StepBuilder | None = None
        end = _time(message["finished_at"])
        for part in parts:
            kind, data = part.get("type"), mapping(part.get("data"))
            if kind == "finish":
                finish = data
                end = end or _time(data.get("time"))
                continue
            step = step or self.builder.add_response(end, start, text(message["model"]), text(message["id"]))
            if kind == "reasoning":
                step.add_reasoning(text(data.get("thinking")))
            elif kind == "tool_call":
                self._add_call(step, data, end)
            else:
                step.add_text(_words(part))
        self.builder.note_time(end)
        if finish is None:
            self._end = "aborted"
            return
        reason = finish_reason(finish.get("reason"))
        if step is not None:
            step.finish_reason = None if reason in ("canceled", "unknown") else reason
        if reason in ("canceled", "error"):
            self._fail(finish, step, end, aborted=reason == "canceled")

    def _add_call(self, step: StepBuilder, data: Mapping[str, Any], time: int | None) -> None:
        call_id = text(data.get("id"))
        self.builder.add_call(step, call_id, text(data.get("name")), data.get("input", ""))
        for child in self._children if call_id else ():
            if child == call_id or child.endswith(f"$${call_id}"):
                self.builder.add_subagent(step, call_id, _run_id(child), "subagent", time)

    def _add_result(self, data: Mapping[str, Any], time: int | None) -> None:
        content = text(data.get("content"))
        if data.get("is_error") is True and content.startswith(_CANCELLED):
            return
        times = json_object(text(data.get("metadata")))
        self.builder.add_result(
            text(data.get("tool_call_id")),
            content,
            is_error=flag(data.get("is_error")),
            time=time,
            duration_ms=elapsed_ms(time_ms(times.get("start_time")), time_ms(times.get("end_time"))),
            images=images_of(data),
        )

    def _fail(self, finish: Mapping[str, Any], step: StepBuilder | None, time: int | None, *, aborted: bool) -> None:
        words = one_line(": ".join(filter(None, (text(finish.get("message")), text(finish.get("details"))))))
        words = words or text(finish.get("reason"))
        self.builder.add_event("abort" if aborted else "fault", time, error=words)
        self._end = "aborted" if aborted else "error"
        self._error = None if aborted else words
        if step is not None:
            step.error = words

    def run(self) -> Run | None:
        if self.builder.is_empty:
            return None
        self.builder.add_totals(cost=self._cost)
        return self.builder.build(
            _run_id(self._id),
            self._end,
            agent="subagent" if self._parent else NAME,
            parent_run_id=_run_id(self._parent) or None,
            log_id=self._id,
            error=self._error,
        )


def _words(part: Mapping[str, Any]) -> str:
    """The text of a part of a message, or its kind in brackets."""
    kind, data = text(part.get("type")), mapping(part.get("data"))
    if kind == "shell_command":
        return f"$ {text(data.get('command'))}\n{text(data.get('output'))}"
    return text(data.get("text")) if kind == "text" else "" if kind == "finish" else f"[{kind}]"
