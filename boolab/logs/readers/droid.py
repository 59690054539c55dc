"""Factory's Droid: `~/.factory/sessions/**/<session>.jsonl`, and what `droid exec --output-format stream-json` prints.

No source of either is public: this is by samples of the two, and by what users wrote of their sessions.

- A session begins with `session_start`; that of a subagent names the session that started it, in `callingSessionId`.
- A `message` holds one in the form of Anthropic's API; one of the assistant is one response, with its model in
  `modelId`. Its branch is that of the last message. What the program adds for the model alone has the `visibility`
  `llm_only`.
- The model of the last response, the effort and the tokens of the whole session are in `<session>.settings.json`
  beside it.
- A result without a flag is an error if it begins with `Error:`, as Droid writes of a command that failed.
- In the stream, `message` and `tool_call` are of one response until a result follows. `completion` has the last text,
  if no message had it, and the tokens of the run.
- Tokens are those of the whole run only: an event `totals`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import REDACTED, StopReason
from boolab.io.json_input import Damage, flag, json_text, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    LineLog,
    blocks_of,
    content_text,
    effort_of,
    name_or_none,
    one_line,
    read_followed,
    sidecar,
    stem_of,
    time_ms,
)
from boolab.logs.images import images_of
from boolab.logs.readers._branches import follow_branches
from boolab.logs.readers._chat import add_reply, add_user
from boolab.logs.step_builder import StepBuilder

NAME: Final = "droid"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl",)
PLACES: Final = ("~/.factory/sessions/**/*.jsonl",)
LOOKED_FOR: Final = (
    'lines that begin with "type": "session_start" and "title", or "tool_call" and "completion" with a session'
)

_STORED: Final = (
    "session_start", "message", "todo_state", "compaction_state", "agent_turn_outcome", "session_end",
)  # fmt: skip
_HIDDEN: Final = "llm_only"
_FAILED: Final = "Error:"
_REMINDER: Final = "<system-reminder>"
_REMINDER_END: Final = "</system-reminder>"


def sniff(head: Head) -> bool:
    """Whether this is a session of Droid, or what it printed of one."""
    return any(_is_start(mapping(value)) or _is_stream_line(mapping(value)) for value in head.values)


def _is_start(line: Mapping[str, Any]) -> bool:
    return line.get("type") == "session_start" and {"id", "title"} <= line.keys()


def _session_of(line: Mapping[str, Any]) -> str:
    return text(line.get("session_id")) or text(line.get("sessionId"))


def _is_stream_line(line: Mapping[str, Any]) -> bool:
    kind = line.get("type")
    is_call = kind == "tool_call" and {"toolName", "parameters"} <= line.keys()
    return bool(_session_of(line)) and (is_call or (kind == "completion" and "finalText" in line))


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one session."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The lines of a session, as they are written."""
    return follow_branches(path, damage, partial(_Session, path))


class _Session:
    """Builds the run of one session."""

    def __init__(self, path: Path, damage: Damage) -> None:
        self._path = path
        self._damage = damage
        self.builder = RunBuilder(NAME, damage)
        self._id = ""
        self._parent = ""
        """The id of the session that started this one as a subagent."""
        self._model = ""
        self._known = False
        self._left: set[str] = set()
        """The ids of the responses on a branch that was left, since the last message of the session."""
        self._step: StepBuilder | None = None
        """The response of the stream whose lines are being read; None once a result followed it."""
        self._end: StopReason | None = None
        self._error: str | None = None

    def take_non_entry(self, line: Mapping[str, Any]) -> bool:
        """Take the header, a line of a stream or a state of the program: they are on each branch."""
        if "parentId" in line:
            return False
        self.take(line)
        return True

    def leave(self, line: Mapping[str, Any]) -> None:
        """Note a message on a branch that was left. Other lines are on each branch."""
        if line.get("type") != "message":
            self.take(line)
        elif mapping(line.get("message")).get("role") == "assistant":
            self._left.add(text(line.get("id")))

    def take(self, line: Mapping[str, Any]) -> None:
        """Take the next line."""
        kind, time = text(line.get("type")), time_ms(line.get("timestamp"))
        self._id = self._id or _session_of(line)
        if kind == "session_start":
            self._start(line)
        elif kind == "message" and isinstance(line.get("message"), dict):
            self._known = True
            if self._left:
                self.builder.add_event("rewind", time, steps=len(self._left))
                self._left = set()
            self._add_message({"visibility": line.get("visibility"), **line["message"]}, text(line.get("id")), time)
        elif _session_of(line):
            self._known = True
            self._take_stream(kind, line, time)
        else:
            self._damage.note_kind(kind, _STORED)
            if kind == "compaction_state":
                self.builder.add_event("compaction", time, tokens=None)

    def _start(self, line: Mapping[str, Any]) -> None:
        self._known = True
        self._id = self._id or text(line.get("id"))
        self._parent = text(line.get("callingSessionId"))
        version = line.get("version")
        self.builder.version = name_or_none(version)
        self.builder.note_origin(cwd=line.get("cwd"))
        settings = mapping(sidecar(self._path.with_name(f"{stem_of(self._path)}.settings.json")))
        self._model = text(settings.get("model"))
        self.builder.effort = effort_of(settings.get("reasoningEffort"))
        usage = mapping(settings.get("tokenUsage"))
        self._add_totals(usage, "inputTokens", "cacheReadTokens", "cacheCreationTokens", "outputTokens")

    def _add_message(self, message: Mapping[str, Any], name: str, time: int | None) -> None:
        self._end = self._error = None
        if message.get("role") == "assistant":
            effort = message.get("reasoningEffort")
            model = text(message.get("modelId")) or self._model
            add_reply(self.builder, {"id": name, "reasoning_effort": effort, **message}, time, model)
        elif message.get("role") == "user" and _is_hidden(message):
            content = message.get("content")
            images = images_of(content)
            self.builder.add_message("user", content_text(content), opens_turn=False, time=time, images=images)
        elif message.get("role") == "user":
            add_user(self.builder, _without_reminders(message.get("content")), time, failed=_FAILED)

    def _take_stream(self, kind: str, line: Mapping[str, Any], time: int | None) -> None:
        if kind == "system":
            self._model = text(line.get("model")) or self._model
            self.builder.effort = effort_of(line.get("reasoning_effort"))
            self.builder.note_origin(cwd=line.get("cwd"))
            self.builder.note_time(time)
        elif kind == "message" and line.get("role") == "user":
            self._step = None
            self._end = self._error = None
            add_user(self.builder, _without_reminders(line.get("text")), time)
        elif kind == "message":
            self._response(time).add_text(text(line.get("text")))
        elif kind == "tool_call":
            call_id, arguments = text(line.get("toolCallId")) or text(line.get("id")), line.get("parameters", REDACTED)
            self.builder.add_call(self._response(time), call_id, text(line.get("toolName")), arguments)
        elif kind == "tool_result":
            self._step = None
            self._add_result(line, time)
        elif kind == "completion":
            self._finish(line, time)
        elif kind == "error":
            self._error = one_line(text(line.get("message"))) or "error"
            self._end = "error"
            self.builder.add_event("fault", time, what=self._error)

    def _response(self, time: int | None) -> StepBuilder:
        self._end = self._error = None
        if self._step is None:
            self._step = self.builder.add_response(time, model=self._model)
        else:
            self.builder.extend_response(self._step, time)
        return self._step

    def _add_result(self, line: Mapping[str, Any], time: int | None) -> None:
        value, failed = line.get("value"), flag(line.get("isError"))
        code = mapping(value).get("exitCode")
        if failed is None and isinstance(code, int):
            failed = code != 0
        output = mapping(value).get("stdout")
        content = value if isinstance(value, str) else output if isinstance(output, str) else json_text(value)
        call_id = text(line.get("toolCallId")) or text(line.get("id"))
        self.builder.add_result(call_id, content_text(content), is_error=failed, time=time)

    def _finish(self, line: Mapping[str, Any], time: int | None) -> None:
        final = text(line.get("finalText"))
        last = self.builder.steps[-1] if self.builder.steps else None
        if final and (last is None or last.calls or final not in ("\n".join(last.text), *last.text)):
            self._step = None
            self._response(time).add_text(final)
        self._step = None
        self.builder.note_time(time)
        usage = mapping(line.get("usage"))
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        self._add_totals(usage, *names)

    def _add_totals(self, usage: Mapping[str, Any], entered: str, read: str, write: str, output: str) -> None:
        """Add the tokens of the whole run. The input is apart from what was cached."""
        parts = [whole(usage.get(name)) for name in (entered, read, write)]
        total = None if parts[0] is None else sum(part or 0 for part in parts)
        self.builder.add_totals(input_tokens=total, output_tokens=whole(usage.get(output)))

    def runs(self, path: Path) -> list[Run]:
        """The run by the lines so far; none if there is neither a prompt nor a response."""
        self._damage.unrecognised = "" if self._known else f"a log of Droid is {LOOKED_FOR}"
        if self.builder.is_empty:
            return []
        end = None if self.builder.truncated else self._end
        error = None if end is None else self._error
        return [
            self.builder.build(
                self._id or stem_of(path),
                end,
                agent="subagent" if self._parent else NAME,
                parent_run_id=self._parent or None,
                error=error,
                log_id=self._id,
            )
        ]


def _is_hidden(message: Mapping[str, Any]) -> bool:
    """Whether a message is the program's, and holds no result."""
    blocks = map(mapping, blocks_of(message.get("content")))
    return message.get("visibility") == _HIDDEN and all(block.get("type") != "tool_result" for block in blocks)


def _without_reminders(content: object) -> object:
    """A user's message whose texts begin with what the user wrote."""
    if isinstance(content, list):
        return [
            {**block, "text": _without_reminders(block["text"])} if "text" in mapping(block) else block
            for block in content
        ]
    if not isinstance(content, str):
        return content
    while content.lstrip().startswith(_REMINDER) and (rest := content.partition(_REMINDER_END)[2].strip()):
        content = rest
    return content
