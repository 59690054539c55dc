"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json` and, since version 0.40, `*.jsonl`.

See `packages/core/src/services/chatRecordingService.ts` in github.com/google-gemini/gemini-cli.

A session is one object with its `messages`, or JSON Lines: a header, messages, and records that change earlier ones.

- A message with a known id replaces that message. `{"$rewindTo": id}` removes a message and all after it (event
  `rewind`). `{"$set": {...}}` sets fields of the header.
- `$set` may have a list of `messages`, which replace messages of the same ids. If all of their ids are known, the
  messages that are not in the list were rewound. If some are not, the history was compacted (event `compaction`), and
  all old messages stay in the run. Messages that are only in such a list are no responses and open no turn.
- A message of the type `gemini` is a response with its calls and their results, unless it is empty. `user` messages
  open turns, unless they hold only results. `info`, `warning` and `error` messages are the program's: an error is a
  fault, and ends the run if nothing follows.
- Calls with the status `success` or `error` have a result. All others (`cancelled` and unfinished ones) were dropped. A
  shell command with an exit code other than 0 is still a success of its tool.
- `tokens` are those of one response: `tool` adds to `input`, `thoughts` adds to `output`, `cached` is part of `input`.
- A subagent's session has the `kind` `subagent`, in a folder with the name of its parent's session.

What `--output-format stream-json` prints is read too: see `_gemini_stream`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.core.run import Run
from boolab.core.types import REDACTED, UNKNOWN_USAGE, Image, Usage
from boolab.io.json_input import Damage, filter_objects, items, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, LineLog, epoch_ms, one_line, read_followed, stem_of
from boolab.logs.images import images_of
from boolab.logs.readers._gemini_parts import content_text, result_text
from boolab.logs.readers._gemini_stream import Stream, is_stream_line

NAME: Final = "gemini"
SCOPE: Final = "turn"
SUFFIXES: Final = (".json", ".jsonl")
PLACES: Final = ("~/.gemini/tmp/*/chats/**/*.json", "~/.gemini/tmp/*/chats/**/*.jsonl")
LOOKED_FOR: Final = (
    'an object with "sessionId", "projectHash" and "messages", JSON lines that begin with such a header, '
    'or with "type": "init", "session_id" and "model"'
)

_EVENTS: Final = ("rewind", "compaction")


def sniff(head: Head) -> bool:
    """Whether this is a session of Gemini CLI."""
    return _is_header(head.first) or any(is_stream_line(mapping(value)) for value in head.values)


def _is_header(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("sessionId"), str) and isinstance(record.get("projectHash"), str)


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one session; none if it is empty."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The records of a session, as they are written."""
    session, stream = _Session(damage), Stream(NAME, damage)
    is_stream = False

    def take(number: int, value: object) -> None:
        nonlocal is_stream
        for _, record in filter_objects([(number, value)], damage):
            is_stream = is_stream or (not session.header and is_stream_line(record))
            if is_stream:
                stream.take(record)
            elif not session.take(record) and record.get("type") != "message":  # one before the stream is no part of it
                damage.note(number, "neither a header nor a message with an id")

    def runs() -> list[Run]:
        if is_stream:
            return stream.runs()
        damage.unrecognised = "" if session.header else f"a session of Gemini CLI is {LOOKED_FOR}"
        return session.runs(path)

    return LineLog(damage, take, runs)


class _Call(NamedTuple):
    """One call of a response, with its result if it ended."""

    call_id: str
    name: str
    arguments: object
    ended: bool
    failed: bool | None
    result: str
    time: int | None
    images: tuple[Image, ...]


class _Entry(NamedTuple):
    """A message, or an event in its place (`rewind`, `compaction`). It is small, because sessions are long."""

    kind: str
    time: int | None
    content: str = ""
    images: tuple[Image, ...] = ()
    full: bool = False
    """Whether it has any content or thoughts."""
    only_set: bool = False
    """Whether it is only in a list of `$set`."""
    model: str = ""
    thoughts: tuple[str, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    total: int | None = None
    """All tokens of the response, as the log adds them up."""
    calls: tuple[_Call, ...] = ()
    removed: int | None = None
    """How many steps a rewind removed."""

    @property
    def is_response(self) -> bool:
        if self.kind != "gemini":
            return False
        return self.usage is not UNKNOWN_USAGE or bool(self.calls) or (self.full and not self.only_set)


class _Session:
    """The records of one file, applied one after the other."""

    def __init__(self, damage: Damage) -> None:
        self._damage = damage
        self.header: dict[str, Any] = {}
        self._entries: dict[str | int, _Entry] = {}
        self._numbered = 0
        self._events = 0

    def take(self, record: Mapping[str, Any]) -> bool:
        """Apply one record. Returns whether it is one."""
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(record["$rewindTo"])
        elif isinstance(record.get("$set"), dict):
            self._set(record["$set"])
        elif _is_header(record):
            self._set(record)
        elif isinstance(record.get("id"), str):
            self._entries[record["id"]] = _entry(record)
        else:
            return False
        return True

    def _set(self, fields: Mapping[str, Any]) -> None:
        self.header |= {name: value for name, value in fields.items() if name != "messages"}
        entries = fields.get("messages")
        if not isinstance(entries, list):
            return
        messages = {self._name(message): _entry(message) for message in entries if isinstance(message, dict)}
        if self._entries:
            self._replace(messages)
        else:
            self._entries = messages

    def _name(self, message: Mapping[str, Any]) -> str | int:
        """The id of a message, or a number instead."""
        name = message.get("id")
        self._numbered += 1
        return name if isinstance(name, str) else self._numbered

    def _replace(self, messages: Mapping[str | int, _Entry]) -> None:
        fresh = [name for name in messages if name not in self._entries]
        if not fresh:
            ids = [name for name, entry in self._entries.items() if name not in messages and entry.kind not in _EVENTS]
            self._remove([self._entries.pop(name) for name in ids])
        elif len(messages) - len(fresh) < len(self._entries) - self._events:
            self._add_event(_Entry("compaction", messages[fresh[0]].time))
        for name, message in messages.items():
            previous = self._entries.get(name)
            self._entries[name] = message._replace(only_set=previous is None or previous.only_set)

    def _rewind(self, name: str) -> None:
        exists = name in self._entries
        entries: list[_Entry] = []
        while self._entries:
            last, entry = self._entries.popitem()
            entries.append(entry)
            if exists and last == name:
                break
        self._remove(entries[::-1])

    def _remove(self, entries: Sequence[_Entry]) -> None:
        self._events -= sum(entry.kind in _EVENTS for entry in entries)
        if entries:
            self._add_event(_Entry("rewind", entries[0].time, removed=sum(entry.is_response for entry in entries)))

    def _add_event(self, event: _Entry) -> None:
        self._events += 1
        self._entries[self._name({})] = event

    def runs(self, path: Path) -> list[Run]:
        builder = RunBuilder(NAME, self._damage)
        error: str | None = None  # the last one after the last response
        for entry in self._entries.values():
            if entry.is_response:
                error = None
                _add_response(builder, entry)
            elif entry.kind in _EVENTS:
                builder.add_event(entry.kind, entry.time, **({} if entry.removed is None else {"steps": entry.removed}))
            elif entry.kind == "user" and entry.content:
                opens_turn = not entry.only_set
                builder.add_message("user", entry.content, opens_turn=opens_turn, time=entry.time, images=entry.images)
            elif entry.kind in ("info", "warning", "error"):
                builder.add_message("system", entry.content, opens_turn=False, time=entry.time)
                if entry.kind == "error":
                    error = one_line(entry.content)
                    builder.add_event("fault", entry.time, what=error)
        if builder.is_empty:
            return []
        log_id = text(self.header.get("sessionId"))
        run_id = log_id or stem_of(path)
        subagent = self.header.get("kind") == "subagent"
        folder = path.absolute().parent.name
        parent = folder if subagent and folder not in ("", "chats", run_id) else None
        agent = "subagent" if subagent else NAME
        if error is None or builder.truncated:
            return [builder.build(run_id, agent=agent, parent_run_id=parent, log_id=log_id)]
        return [builder.build(run_id, "error", agent=agent, parent_run_id=parent, error=error, log_id=log_id)]


def _add_response(builder: RunBuilder, entry: _Entry) -> None:
    step = builder.add_response(entry.time, model=entry.model)
    step.usage = entry.usage
    step.state("tokens.total", tokens=entry.total)
    step.add_text(entry.content)
    step.reasoning += entry.thoughts
    for index, call in enumerate(entry.calls):
        builder.add_call(step, call.call_id, call.name, call.arguments)
        if call.ended:
            builder.set_result(step, index, call.result, is_error=call.failed, time=call.time, images=call.images)


def _entry(message: Mapping[str, Any]) -> _Entry:
    kind, time, content = text(message.get("type")), epoch_ms(message.get("timestamp")), message.get("content")
    if kind in _EVENTS:
        kind = ""
    thoughts = [mapping(part) for part in items(message.get("thoughts"))]
    return _Entry(
        kind,
        time,
        content_text(content),
        images_of(content),
        bool(content or thoughts),
        model=text(message.get("model")),
        thoughts=tuple(f"{text(part.get('subject'))}: {text(part.get('description'))}" for part in thoughts),
        usage=_usage(mapping(message.get("tokens"))),
        total=whole(mapping(message.get("tokens")).get("total")),
        calls=tuple(_call(mapping(call)) for call in items(message.get("toolCalls"))),
    )


def _call(call: Mapping[str, Any]) -> _Call:
    status, result = call.get("status"), call.get("result")
    ended = status in ("success", "error") or (status is None and result is not None)
    return _Call(
        text(call.get("id")),
        text(call.get("name")),
        call.get("args", REDACTED),
        ended,
        None if status is None else status == "error",
        result_text(result) if ended else "",
        epoch_ms(call.get("timestamp")),
        images_of(result) if ended else (),
    )


def _usage(tokens: Mapping[str, Any]) -> Usage:
    if not tokens:
        return UNKNOWN_USAGE
    entered, output = whole(tokens.get("input")), whole(tokens.get("output"))
    thoughts = whole(tokens.get("thoughts"))
    return Usage(
        None if entered is None else entered + (whole(tokens.get("tool")) or 0),
        None if output is None else output + (thoughts or 0),
        whole(tokens.get("cached")),
        thoughts,
    )
