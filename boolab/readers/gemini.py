"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json` and, since version 0.40, `*.jsonl`.

See `packages/core/src/services/chatRecordingService.ts` in github.com/google-gemini/gemini-cli.

A session is one object with its `messages`; or, as JSON Lines, a header, messages, and records that change what was
written before: a message with an id that is known replaces that message, `{"$rewindTo": id}` takes a message and all
after it away (event `rewind`), `{"$set": {...}}` sets fields of the header. `$set` may bring a new list of `messages`:
what it holds replaces messages of the same ids. If all of it was known, what it leaves out was rewound; if some of it
was not, the history was compacted (event `compaction`), and what it leaves out had happened all the same and stays.
Messages that only come from such a list are no responses, and open no turn.

A message of the type `gemini` is a response, with all its calls and their results. An empty one is none. `user`
messages open turns, except those that hold nothing but results. `info`, `warning` and `error` messages are the
program's own: an error is a fault, and ends the run if nothing follows.

Calls with the status `success` or `error` have a result. A `cancelled` one never ran, and one that was left at any
other status has no result either: both were dropped. A shell command that exits with another code than 0 is a success
of its tool all the same. `tokens` are those of one response: `tool` is input beside `input`, `thoughts` output beside
`output`, `cached` is inside `input`.

A subagent's session has the `kind` `subagent` and lies in a folder that is named after its parent's session.

There are no finish reasons, costs, labels or limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.errors import RunFormatError
from boolab.readers.lines import (
    Damage,
    Head,
    Warn,
    epoch_ms,
    items,
    json_text,
    json_values,
    mapping,
    one_line,
    text,
    warn_reader,
    whole,
)
from boolab.readers.talk import Talk
from boolab.types import UNKNOWN_USAGE, Run, StopReason, Usage

NAME: Final = "gemini"
SCOPE: Final = "turn"
SUFFIXES: Final = (".json", ".jsonl")
PLACES: Final = ("~/.gemini/tmp/*/chats/**/*.json", "~/.gemini/tmp/*/chats/**/*.jsonl")
LOOKED_FOR: Final = (
    'an object with "sessionId", "projectHash" and "messages", or JSON lines that begin with such a header'
)

_EVENTS: Final = ("rewind", "compaction")
_HIDDEN: Final = frozenset({"functionCall", "functionResponse"})


def sniff(head: Head) -> bool:
    """Whether this is a session of Gemini CLI."""
    return _is_header(head.first)


def _is_header(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("sessionId"), str) and isinstance(record.get("projectHash"), str)


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The run of one session; none if nothing was said in it.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    session = _Session()
    for number, record in json_values(path, damage):
        if not isinstance(record, dict):
            damage.note(number, f"a {type(record).__name__} where an object was looked for")
        elif not session.take(record):
            damage.note(number, "neither a header nor a message with an id")
    runs = session.runs(path, cut=damage.cut)
    damage.tell(warn, readable=bool(runs))
    if not session.header and not runs:
        raise RunFormatError(f"a session of Gemini CLI is {LOOKED_FOR}", path=path, line=1)
    return runs


class _Call(NamedTuple):
    """One call of a response, with its result if it ended."""

    call_id: str
    name: str
    arguments: object
    ended: bool
    failed: bool | None
    result: str
    time: int | None


class _Entry(NamedTuple):
    """A message, or what happened in its place (`rewind`, `compaction`), as small as it goes: sessions are long."""

    kind: str
    time: int | None
    said: str = ""
    full: bool = False
    """Whether it has any content or thoughts."""
    put_in: bool = False
    """Whether it only came with a list of `$set`."""
    model: str = ""
    thoughts: tuple[str, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    calls: tuple[_Call, ...] = ()
    left: int | None = None
    """How many steps a rewind left behind."""

    @property
    def is_response(self) -> bool:
        """Whether the model said or asked for something."""
        if self.kind != "gemini":
            return False
        return self.usage is not UNKNOWN_USAGE or bool(self.calls) or (self.full and not self.put_in)


class _Session:
    """The records of one file, folded."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self._entries: dict[str | int, _Entry] = {}
        self._made = 0
        self._events = 0

    def take(self, record: Mapping[str, Any]) -> bool:
        """Take one record; whether it was one."""
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
        given = fields.get("messages")
        if not isinstance(given, list):
            return
        messages = {self._name(message): _entry(message) for message in given if isinstance(message, dict)}
        if self._entries:
            self._replace(messages)
        else:
            self._entries = messages

    def _name(self, message: Mapping[str, Any]) -> str | int:
        """The id of a message, or a number in its place."""
        name = message.get("id")
        self._made += 1
        return name if isinstance(name, str) else self._made

    def _replace(self, messages: Mapping[str | int, _Entry]) -> None:
        """Take a new list of messages in the place of the old one."""
        fresh = [name for name in messages if name not in self._entries]
        if not fresh:
            gone = [name for name, entry in self._entries.items() if name not in messages and entry.kind not in _EVENTS]
            self._leave([self._entries.pop(name) for name in gone])
        elif len(messages) - len(fresh) < len(self._entries) - self._events:
            self._happened(_Entry("compaction", messages[fresh[0]].time))
        for name, message in messages.items():
            before = self._entries.get(name)
            self._entries[name] = message._replace(put_in=before is None or before.put_in)

    def _rewind(self, name: str) -> None:
        known = name in self._entries
        gone: list[_Entry] = []
        while self._entries:
            last, entry = self._entries.popitem()
            gone.append(entry)
            if known and last == name:
                break
        self._leave(gone[::-1])

    def _leave(self, gone: Sequence[_Entry]) -> None:
        self._events -= sum(entry.kind in _EVENTS for entry in gone)
        if gone:
            self._happened(_Entry("rewind", gone[0].time, left=sum(entry.is_response for entry in gone)))

    def _happened(self, event: _Entry) -> None:
        self._events += 1
        self._entries[self._name({})] = event

    def runs(self, path: Path, *, cut: bool) -> list[Run]:
        """The session's run, if anything was said in it."""
        told = _Told()
        entries = list(self._entries.values())[::-1]
        self._entries.clear()
        while entries:
            told.take(entries.pop())
        if told.talk.empty:
            return []
        run_id = text(self.header.get("sessionId")) or path.stem
        subagent = self.header.get("kind") == "subagent"
        folder = path.absolute().parent.name
        stop: StopReason | None = "error" if told.error is not None else None
        return [
            told.talk.run(
                run_id,
                "aborted" if cut else stop,
                agent="subagent" if subagent else NAME,
                parent_run_id=folder if subagent and folder not in ("", "chats", run_id) else None,
                error=None if cut else told.error,
            )
        ]


class _Told:
    """One session, told from its start."""

    def __init__(self) -> None:
        self.talk = Talk(NAME)
        self.error: str | None = None
        """What went wrong after the last response."""

    def take(self, entry: _Entry) -> None:
        """Tell of a message, or of what happened."""
        if entry.is_response:
            self._reply(entry)
        elif entry.kind in _EVENTS:
            self.talk.happened(entry.kind, entry.time, **({} if entry.left is None else {"steps": entry.left}))
        elif entry.kind == "user":
            if entry.said:
                self.talk.says("user", entry.said, opens=not entry.put_in, time=entry.time)
        elif entry.kind in ("info", "warning", "error"):
            self.talk.says("system", entry.said, opens=False, time=entry.time)
            if entry.kind == "error":
                self.error = one_line(entry.said)
                self.talk.happened("fault", entry.time, what=self.error)

    def _reply(self, entry: _Entry) -> None:
        self.error = None
        draft = self.talk.replies(entry.time, model=entry.model)
        draft.usage = entry.usage
        draft.text += [entry.said] if entry.said else []
        draft.reasoning += entry.thoughts
        for place, call in enumerate(entry.calls):
            self.talk.asks(draft, call.call_id, call.name, call.arguments)
            if call.ended:
                self.talk.settle(draft, place, call.result, is_error=call.failed, time=call.time)


def _entry(message: Mapping[str, Any]) -> _Entry:
    """What a message says."""
    kind, time, content = text(message.get("type")), epoch_ms(message.get("timestamp")), message.get("content")
    if kind in _EVENTS:
        kind = ""
    thoughts = [mapping(thought) for thought in items(message.get("thoughts"))]
    return _Entry(
        kind,
        time,
        _said(content),
        bool(content or thoughts),
        model=text(message.get("model")),
        thoughts=tuple(f"{text(thought.get('subject'))}: {text(thought.get('description'))}" for thought in thoughts),
        usage=_usage(mapping(message.get("tokens"))),
        calls=tuple(_call(mapping(call)) for call in items(message.get("toolCalls"))),
    )


def _call(call: Mapping[str, Any]) -> _Call:
    status, result = call.get("status"), call.get("result")
    ended = status in ("success", "error") or (status is None and result is not None)
    return _Call(
        text(call.get("id")),
        text(call.get("name")),
        call.get("args"),
        ended,
        None if status is None else status == "error",
        _result(result) if ended else "",
        epoch_ms(call.get("timestamp")),
    )


def _parts(content: object) -> Sequence[Any]:
    return content if isinstance(content, list) else [] if content is None else [content]


def _said(content: object) -> str:
    """The text of a message: of its parts without calls, results and thoughts."""
    said = []
    for part in _parts(content):
        if isinstance(part, str):
            said.append(part)
        elif isinstance(part, dict) and part and not part.get("thought") and not _HIDDEN & part.keys():
            said.append(text(part.get("text")) if "text" in part else f"[{next(iter(part))}]")
    return "\n".join(line for line in said if line)


def _result(result: object) -> str:
    """The text of a call's result."""
    told = []
    for part in _parts(result):
        response = mapping(mapping(part).get("functionResponse")).get("response")
        if response is None:
            told.append(_said(part))
            continue
        given = next(
            (value for name in ("output", "error") if isinstance(value := mapping(response).get(name), str)), None
        )
        told.append(json_text(response) if given is None else given)
    return "\n".join(line for line in told if line)


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
