"""Qwen Code: `~/.qwen/projects/<project>/chats/<session>.jsonl`, a record a line.

See `packages/core/src/services/chatRecordingService.ts` in github.com/QwenLM/qwen-code. What `qwen --output-format
stream-json` prints has the form of Claude Code's, with these differences:

- It begins with a line that has `qwen_code_version`.
- The thoughts of a response are a message of their own without tokens, which the rest of it follows under another id.
- Input tokens are with those read from the cache.

Of a session on disk:

- A record names the one before it. The branch of the last record is the session; after a rewind another one was left.
- `assistant` records have parts in the form of Gemini's API: those of one `uuid` are one response, of which the largest
  usage counts. `usageMetadata` has the thoughts apart from the candidates, unless the total shows that it does not.
- `tool_result` records have the status of the call: a cancelled one was dropped. Without a status, a response with the
  key `error` failed, and any other is unknown.
- `user` records open turns, but for notifications. What the user typed is in `systemPayload`; hooks add to the parts.
- `system` records are the program's: `chat_compression` is a compaction, and an `api_error` in the telemetry a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import REDACTED, UNKNOWN_USAGE, StopReason, Usage
from boolab.io.json_input import Damage, items, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, LineLog, epoch_ms, name_or_none, one_line, read_followed, stem_of
from boolab.logs.images import images_of
from boolab.logs.readers._branches import follow_branches
from boolab.logs.readers._claude_stream import QWEN as STREAM_KEY
from boolab.logs.readers._gemini_parts import content_text, result_text
from boolab.logs.readers.claude_code import follow as follow_stream
from boolab.logs.step_builder import StepBuilder

NAME: Final = "qwen"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl",)
PLACES: Final = ("~/.qwen/projects/*/chats/*.jsonl",)
_KEYS: Final = ("uuid", "parentUuid")
"""Where a record has its id and that of the one before it."""
LOOKED_FOR: Final = (
    'lines with "uuid", "parentUuid" and "sessionId", whose "message" has "parts", or "qwen_code_version"'
)

_KINDS: Final = ("user", "assistant", "tool_result", "system")
_NOTICES: Final = ("cron", "notification")


def sniff(head: Head) -> bool:
    """Whether this is a session of Qwen Code."""
    return any(_is_record(value) or STREAM_KEY in mapping(value) for value in head.values)


def _is_record(value: object) -> bool:
    record = mapping(value)
    parts = mapping(record.get("message")).get("parts")
    return {"uuid", "parentUuid", "sessionId"} <= record.keys() and isinstance(parts, list)


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one session."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The records of a session, as they are written."""
    session, stream = follow_branches(path, damage, _Session, _KEYS), follow_stream(path, damage)
    version: str | None = None
    open_ids: dict[str, str] = {}

    def take(number: int, value: object) -> None:
        nonlocal version
        if STREAM_KEY in mapping(value):
            version = text(mapping(value)[STREAM_KEY])
        if version is None:
            session.take(number, value)
        else:
            stream.take(number, _as_claude_line(value, open_ids))

    def runs() -> list[Run]:
        if version is None:
            return session.runs()
        return [
            replace(
                run,
                source=NAME,
                agent=NAME if run.parent_run_id is None else run.agent,
                harness_version=name_or_none(version),
            )
            for run in stream.runs()
        ]

    return LineLog(damage, take, runs, lambda: session.again() if version is None else None)


def _as_claude_line(value: object, open_ids: dict[str, str]) -> object:
    """A line of the stream as Claude Code prints it.

    `open_ids`: by the call that started a subagent, or "", the id of the response whose last message had no tokens.
    """
    line, parent = mapping(value), text(mapping(value).get("parent_tool_use_id"))
    if line.get("type") == "user":
        open_ids.pop(parent, None)
    elif line.get("type") == "result":
        return {**line, "usage": _without_cached(mapping(line.get("usage")))}
    elif line.get("type") == "assistant":
        message = mapping(line.get("message"))
        usage = _without_cached(mapping(message.get("usage")))
        key = open_ids.pop(parent, None) or text(message.get("id"))
        if not whole(usage.get("input_tokens")) and not whole(usage.get("output_tokens")):
            open_ids[parent] = key
        return {**line, "message": {**message, "id": key, "usage": usage}}
    return value


def _without_cached(usage: Mapping[str, Any]) -> Mapping[str, Any]:
    """The usage with what was read from the cache apart from the input."""
    entered, cached = whole(usage.get("input_tokens")), whole(usage.get("cache_read_input_tokens"))
    return usage if entered is None or not cached else {**usage, "input_tokens": max(0, entered - cached)}


class _Session:
    """Builds the run of one session."""

    def __init__(self, damage: Damage) -> None:
        self.builder = RunBuilder(NAME, damage)
        self._damage = damage
        self.id = ""
        self._left: set[str] = set()
        """The ids of the responses on a branch that was left, since the last record of the session."""
        self._error: str | None = None

    def take_non_entry(self, record: Mapping[str, Any]) -> bool:
        """There is no header: each record is an entry."""
        self._damage.note_kind(text(record.get("type")), _KINDS)
        return False

    def leave(self, record: Mapping[str, Any]) -> None:
        """Note a record on a branch that was left."""
        self.id = self.id or text(record.get("sessionId"))
        if record.get("type") == "assistant":
            self._left.add(text(record.get("uuid")))

    def take(self, record: Mapping[str, Any]) -> None:
        """Take the next record of the session."""
        kind, time = record.get("type"), epoch_ms(record.get("timestamp"))
        self.id = self.id or text(record.get("sessionId"))
        self.builder.version = name_or_none(record.get("version")) or self.builder.version
        self.builder.note_origin(cwd=record.get("cwd"), git_branch=record.get("gitBranch"))
        if self._left:
            self.builder.add_event("rewind", time, steps=len(self._left))
            self._left = set()
        parts = mapping(record.get("message")).get("parts")
        if kind == "assistant":
            self._add_response(record, items(parts), time)
        elif kind == "tool_result" or (kind == "user" and _is_result(items(parts))):
            self._add_results(record, items(parts), time)
        elif kind == "user":
            self._error = None
            typed = text(mapping(record.get("systemPayload")).get("displayText"))
            notice = record.get("subtype") in _NOTICES
            content = typed or content_text(parts)
            self.builder.add_message("user", content, opens_turn=not notice, time=time, images=images_of(parts))
        elif kind == "system":
            self._note(text(record.get("subtype")), mapping(record.get("systemPayload")), time)

    def _note(self, subtype: str, payload: Mapping[str, Any], time: int | None) -> None:
        event = mapping(payload.get("uiEvent"))
        if subtype == "chat_compression":
            tokens = whole(mapping(payload.get("info")).get("originalTokenCount"))
            self.builder.add_event("compaction", time, tokens=tokens)
        elif subtype == "ui_telemetry" and text(event.get("event.name")).endswith("api_error"):
            self._error = one_line(text(event.get("error_message"))) or text(event.get("error_type")) or "error"
            self.builder.add_event("fault", time, what=self._error)

    def _add_response(self, record: Mapping[str, Any], parts: Sequence[Any], time: int | None) -> None:
        self._error = None
        key, model = text(record.get("uuid")), text(record.get("model"))
        step = self.builder.response(key) if key else None
        if step is None:
            step = self.builder.add_response(time, model=model, key=key)
        else:
            self.builder.extend_response(step, time)
            if model and not step.model:
                step.model = model
                self.builder.models[model] += 1
        for part in map(mapping, parts):
            call = mapping(part.get("functionCall"))
            if call:
                arguments = call.get("args", REDACTED)
                self.builder.add_call(step, text(call.get("id")), text(call.get("name")), arguments)
            elif part.get("thought") is True:
                step.add_reasoning(text(part.get("text")))
            else:
                step.add_text(content_text(part))
        self._add_usage(step, mapping(record.get("usageMetadata")))

    def _add_usage(self, step: StepBuilder, usage: Mapping[str, Any]) -> None:
        new = _usage(usage)
        if (
            sum(figure or 0 for figure in new[:2]) >= sum(figure or 0 for figure in step.usage[:2])
            and new != UNKNOWN_USAGE
        ):
            step.usage = new
            step.state("usageMetadata.totalTokenCount", tokens=whole(usage.get("totalTokenCount")))

    def _add_results(self, record: Mapping[str, Any], parts: Sequence[Any], time: int | None) -> None:
        outcome = mapping(record.get("toolCallResult"))
        status = outcome.get("status")
        for part in map(mapping, parts):
            response = mapping(part.get("functionResponse"))
            if not response or status == "cancelled":
                continue
            failed = status == "error" if status in ("error", "success") else None
            if failed is None and "error" in mapping(response.get("response")):
                failed = True
            call_id = text(response.get("id")) or text(outcome.get("callId"))
            images = images_of(response.get("parts"))
            self.builder.add_result(call_id, result_text(part), is_error=failed, time=time, images=images)

    def runs(self, path: Path) -> list[Run]:
        """The run by the records so far; none if there is neither a prompt nor a response."""
        self._damage.unrecognised = "" if self.id else f"a log of Qwen Code is {LOOKED_FOR}"
        if self.builder.is_empty:
            return []
        error = None if self.builder.truncated else self._error
        stop: StopReason | None = "error" if error else None
        return [self.builder.build(self.id or stem_of(path), stop, agent=NAME, error=error, log_id=self.id)]


def _is_result(parts: Sequence[Any]) -> bool:
    return bool(parts) and all("functionResponse" in mapping(part) for part in parts)


def _usage(usage: Mapping[str, Any]) -> Usage:
    entered, output = whole(usage.get("promptTokenCount")), whole(usage.get("candidatesTokenCount"))
    thoughts = whole(usage.get("thoughtsTokenCount"))
    if entered is not None:
        entered += whole(usage.get("toolUsePromptTokenCount")) or 0
    if output is not None and thoughts and whole(usage.get("totalTokenCount")) != (entered or 0) + output:
        output += thoughts
    return Usage(entered, output, whole(usage.get("cachedContentTokenCount")), thoughts)
