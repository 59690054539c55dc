"""opencode: sessions in its storage folder, exports of them, and the lines of `opencode run --format json`.

Layouts (github.com/sst/opencode, `session/message-v2.ts`, `cli/cmd/export.ts` and `run.ts`)
-------------------------------------------------------------------------------------------
In `~/.local/share/opencode/storage` a session is many files: `session/<project>/<session>.json`, its messages
`message/<session>/*.json`, and their parts `part/<message>/*.json` (older: `part/<session>/<message>/*.json`, or all in
`part/`). The session's file is the log. The others are found by the ids in it, only in the storage folder and never
through links; alone they are refused. An export is `{info, messages: [{info, parts}]}`, the server's reply only that
list. A line of `run` is `{type, timestamp, sessionID, part}`, without the user's messages. Newer versions have sessions
in a SQLite database, which is not read; they can be exported.

Steps
-----
An assistant's message is one response or several: each `step-finish` ends one. A message without content, reason and
tokens is only an event. A message with `summary: true` is a compaction, and no step.

A `completed` call is an error if `metadata.exit` is not 0 (unknown if that is null), or if its tool is `invalid`, to
which opencode changes calls that it cannot read. A call with the status `error` is an error. `pending` and `running`
calls, and those with the text "Tool execution aborted", were dropped.

`tokens.input` excludes cached tokens, `tokens.output` excludes reasoning tokens; older versions count reasoning in
output, as `total` shows. Users' messages open turns, except those that are `synthetic` or only a compaction. An error
in the last message ended the run: `MessageAbortedError` is an abort. A child session is a run with its `parentID`.
There are no labels and no limits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, UNKNOWN_USAGE, StopReason, Usage
from boolab.errors import RunFormatError
from boolab.io.json_input import (
    Damage,
    items,
    json_document,
    json_lines,
    json_text,
    mapping,
    micro,
    parse,
    text,
    whole,
    whole_file,
)
from boolab.io.packed import open_unpacked
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, content_text, effort_of, name_or_none, one_line, stem_of, time_ms
from boolab.logs.step_builder import StepBuilder, elapsed_ms

NAME: Final = "opencode"
SCOPE: Final = "turn"
SUFFIXES: Final = (".json", ".jsonl")
PLACES: Final = (
    "$XDG_DATA_HOME/opencode/storage/session/*/*.json",
    "~/.local/share/opencode/storage/session/*/*.json",
)
LOOKED_FOR: Final = 'a session\'s file with "projectID" and "time", an export {"info", "messages"}, or lines of "run"'

_LINES: Final = ("step_start", "step_finish", "tool_use", "text", "reasoning", "error", "done")
_PARTS: Final = (
    "agent", "compaction", "file", "patch", "reasoning", "retry", "snapshot", "step-finish", "step-start", "subtask",
    "text", "tool",
)  # fmt: skip
_CONTENT: Final = ("reasoning", "text", "tool")
_NOTICES: Final = ("compaction", "retry")
_ABORTED: Final = "MessageAbortedError"
_DROPPED: Final = "Tool execution aborted"
_TASK: Final = "task"
_INVALID: Final = "invalid"
MAX_NAME: Final = 60  # characters: an id has 30, and a file's name at most 255 bytes


_Timed: TypeAlias = tuple[Mapping[str, Any], int | None]
"""A part of a message, and when its line was written."""
_Messages: TypeAlias = Iterator[tuple[Mapping[str, Any], Sequence[Any]]]
"""The facts of each message, and its parts."""


def sniff(head: Head) -> bool:
    """Whether this is a session of opencode, or a part of one (which `read` refuses)."""
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
    """The run of one session."""
    run = _read_events(path, damage) if _has_events(path) else _read_document(path, damage)
    return [] if run is None else [run]


def _has_events(path: Path) -> bool:
    with open_unpacked(path) as file:
        return any(map(_is_line, Head(file.read(65_536), path).values))


def _read_events(path: Path, damage: Damage) -> Run | None:
    session = _Session({}, damage)
    parts: list[_Timed] = []
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
        session = _Session(mapping(mapping(document[0]).get("info")) if document else {}, damage, "sessionID")
        messages: _Messages = _exported_messages(document, damage)
    elif isinstance(document, dict) and isinstance(document.get("messages"), list):
        session = _Session(mapping(document.get("info")), damage)
        messages = _exported_messages(document["messages"], damage)
    elif isinstance(document, dict) and _is_session(document):
        session = _Session(document, damage)
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
    if None not in map(_creation_time, messages):
        messages.sort(key=lambda info: _creation_time(info) or 0)
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


class _Session:
    """Builds the run of one session from its facts, in which `key` is the name of its id."""

    def __init__(self, info: Mapping[str, Any], damage: Damage, key: str = "id") -> None:
        self.info = info
        self.run_id = text(info.get(key))
        self.builder = RunBuilder(NAME, damage)
        self.builder.version = name_or_none(info.get("version"))
        self.builder.note_origin(cwd=info.get("directory"))
        self._agent = ""
        self._end: StopReason | None = None
        self._error: str | None = None
        self._cost_stated = self._cost_read = 0

    def take(self, info: Mapping[str, Any], parts: Sequence[Any]) -> None:
        pieces = [(mapping(part), None) for part in parts]
        if info.get("role") == "user":
            self._add_user(info, pieces)
        elif info.get("summary") is True:
            self.builder.add_event("compaction", _creation_time(info), reason="summary")
        else:
            self.add_responses(info, pieces)

    def _add_user(self, info: Mapping[str, Any], parts: Sequence[tuple[Mapping[str, Any], None]]) -> None:
        content: list[str] = []
        opens_turn = not parts
        time = _creation_time(info)
        for part, _ in parts:
            kind = text(part.get("type"))
            if kind == "compaction":
                self.builder.add_event("compaction", time, auto=part.get("auto") is True)
                continue
            words = text(part.get("text")) or text(part.get("prompt")) or text(part.get("filename"))
            content.append(words if kind in ("text", "subtask") else f"[{kind} {words}]".replace(" ]", "]"))
            if not (part.get("synthetic") is True or part.get("ignored") is True):
                opens_turn = True
                self.builder.task = self.builder.task or one_line(content[-1])
        self._end = self._error = None
        if content or opens_turn:
            self.builder.add_message("user", "\n".join(content), opens_turn=opens_turn, time=time)

    def add_responses(self, info: Mapping[str, Any], parts: Sequence[_Timed]) -> None:
        responses = _responses(parts)
        reason = finish_reason(info.get("finish"))
        completed = time_ms(mapping(info.get("time")).get("completed"))
        if not responses and (reason is not None or _total_usage(info).output_tokens):
            responses = [[]]
        self._agent = text(info.get("agent")) or text(info.get("mode")) or self._agent
        self._end = self._error = None
        error = mapping(info.get("error"))
        start = _creation_time(info)
        self.builder.effort = effort_of(info.get("variant"), mapping(info.get("model")).get("variant"))
        self.builder.note_origin(cwd=mapping(info.get("path")).get("cwd"))
        for number, response in enumerate(responses, 1):
            step = self._add_response(info, response, start)
            if number == len(responses):
                step.finish_reason = reason or step.finish_reason
                step.error = _name_of(error)
                step.extend_to(completed)
            if len(responses) == 1 and step.usage == UNKNOWN_USAGE:
                step.usage = _total_usage(info)
            start = step.ended
        self._add_cost(info, len(responses))
        self.builder.note_time(completed)
        for part, _ in parts:
            if part.get("type") in _NOTICES:
                self._notice(part)
        if error:
            self.fail(error, completed)

    def _add_response(self, info: Mapping[str, Any], parts: Sequence[_Timed], start: int | None) -> StepBuilder:
        times = [time for part, line_time in parts if (time := _part_time(part, line_time)) is not None]
        if start is None:
            start = next((line_time for part, line_time in parts if part.get("type") == "step-start"), None)
        model = text(info.get("modelID")) or text(mapping(info.get("model")).get("modelID"))
        step = self.builder.add_response(max(times, default=start), start, model)
        for part, _ in parts:
            kind = part.get("type")
            if kind == "text":
                step.add_text(text(part.get("text")))
            elif kind == "reasoning":
                step.add_reasoning(text(part.get("text")))
            elif kind == "tool":
                self._add_call(step, part)
            elif kind == "step-finish":
                step.finish_reason = finish_reason(part.get("reason"))
                step.usage = _usage(mapping(part.get("tokens")), part.get("cost"))
        return step

    def _add_call(self, step: StepBuilder, part: Mapping[str, Any]) -> None:
        state = mapping(part.get("state"))
        status, raw, times = text(state.get("status")), text(state.get("raw")), mapping(state.get("time"))
        start, end = time_ms(times.get("start")), time_ms(times.get("end"))
        arguments = raw if raw and not state.get("input") else state.get("input", REDACTED)
        name = text(part.get("tool"))
        index = len(step.calls)
        self.builder.add_call(step, text(part.get("callID")), name, arguments)
        child = text(mapping(state.get("metadata")).get("sessionId")) if name == _TASK else ""
        if child:
            agent = text(mapping(state.get("input")).get("subagent_type"))
            self.builder.add_subagent(step, text(part.get("callID")), child, agent, start)
        error = content_text(state.get("error"))
        if status not in ("completed", "error") or (status == "error" and error == _DROPPED):
            return
        duration = elapsed_ms(start, end)
        failed = True if status == "error" or name == _INVALID else _exit_failed(mapping(state.get("metadata")))
        content = error if status == "error" else content_text(state.get("output"))
        self.builder.set_result(step, index, content, is_error=failed, time=end, duration_ms=duration)

    def _add_cost(self, info: Mapping[str, Any], responses: int) -> None:
        """Add the cost that a message states, and that of its responses, if both are known."""
        costs = [step.usage.cost for step in self.builder.steps[-responses:]] if responses else []
        stated = micro(info.get("cost"))
        if costs and stated is not None and None not in costs:
            self._cost_stated += stated
            self._cost_read += sum(cost or 0 for cost in costs)

    def _notice(self, part: Mapping[str, Any]) -> None:
        if part.get("type") == "compaction":
            self.builder.add_event("compaction", auto=part.get("auto") is True)
        elif part.get("type") == "retry":
            self.builder.add_event("retry", _creation_time(part), error=_name_of(mapping(part.get("error"))))

    def fail(self, error: Mapping[str, Any], time: int | None) -> None:
        name = _name_of(error)
        aborted = error.get("name") == _ABORTED
        self.builder.add_event("abort" if aborted else "fault", time, error=name)
        self._end = "aborted" if aborted else "error"
        self._error = None if aborted else name

    def run(self) -> Run | None:
        if self.builder.is_empty:
            return None
        if not self.builder.steps:
            self.builder.note_time(_creation_time(self.info))
        self.builder.totals.compare("cost of its messages", "cost", self._cost_stated, self._cost_read)
        return self.builder.build(
            self.run_id or "session",
            self._end,
            agent=self._agent,
            parent_run_id=text(self.info.get("parentID")) or None,
            log_id=self.run_id,
            error=self._error,
        )


def _responses(
    parts: Sequence[_Timed],
) -> list[list[_Timed]]:
    """The parts of each response of a message: a `step-finish` ends one, and so does the second `step-start` in it."""
    responses: list[list[_Timed]] = []
    is_open = has_start = False
    for part, line_time in parts:
        kind = part.get("type")
        if kind not in _CONTENT and kind not in ("step-start", "step-finish"):
            continue
        if not is_open or (kind == "step-start" and has_start):
            responses.append([])
            has_start = False
        is_open = kind != "step-finish"
        has_start = has_start or kind == "step-start"
        responses[-1].append((part, line_time))
    return responses


def _creation_time(info: Mapping[str, Any]) -> int | None:
    return time_ms(mapping(info.get("time")).get("created"))


def _part_time(part: Mapping[str, Any], line_time: int | None) -> int | None:
    if part.get("type") == "tool":
        return time_ms(mapping(mapping(part.get("state")).get("time")).get("start"))
    if part.get("type") not in _CONTENT:
        return None
    times = mapping(part.get("time"))
    return time_ms(times.get("end")) or time_ms(times.get("start")) or line_time


def _exit_failed(metadata: Mapping[str, Any]) -> bool | None:
    """Whether a completed call failed. A command that was killed has no exit code."""
    if "exit" not in metadata:
        return False
    return None if metadata["exit"] is None else metadata["exit"] != 0


def _name_of(error: Mapping[str, Any]) -> str:
    message = text(mapping(error.get("data")).get("message")) or text(error.get("message"))
    name = text(error.get("name"))
    if not error:
        return ""
    return f"{name}: {message}" if name and message else name or message or json_text(error)[:200]


def _total_usage(info: Mapping[str, Any]) -> Usage:
    """The usage of all responses of a message. Zeros are unknown: an interrupted message has them."""
    usage = _usage(mapping(info.get("tokens")), info.get("cost"))
    return usage if usage.input_tokens or usage.output_tokens else UNKNOWN_USAGE


def _usage(tokens: Mapping[str, Any], cost: object) -> Usage:
    """The usage of a response. Output excludes reasoning, unless the total shows that it does not."""
    entered, output, reasoning = (whole(tokens.get(name)) for name in ("input", "output", "reasoning"))
    cache = mapping(tokens.get("cache"))
    cached, cache_write = whole(cache.get("read")), whole(cache.get("write"))
    if entered is not None:
        entered += (cached or 0) + (cache_write or 0)
    if output is not None and reasoning and whole(tokens.get("total")) != (entered or 0) + output:
        output += reasoning
    return Usage(entered, output, cached, reasoning, micro(cost), cache_write)
