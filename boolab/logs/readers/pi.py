"""pi: `~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`; see `docs/session.md` in github.com/badlogic/pi-mono.

OpenClaw keeps the sessions of its agents in the same format, in `~/.openclaw/agents/<agent>/sessions`.

A header line (`type: session`), and one line for each entry: messages, changes of the model, compactions.

- A message of the role `assistant` is one response, with its calls, usage, cost and `stopReason`. A result is a message
  of the role `toolResult`, with `isError`. Input tokens are `input` and those written to and read from the cache. A
  message has the time when it began, its line the time when it was written.
- Sessions of versions 2 and 3 are trees: each entry names its parent, and a return to an earlier entry starts a branch.
  The run is the branch with the file's last entry; an event `rewind` counts the steps on the others. If a parent is not
  in the file, the line before is the parent. Sessions of version 1 have no ids and no branches.
- A response with the `stopReason` `aborted` or `error` was interrupted: its finish reason is unknown and its calls were
  not executed. Without content and tokens it is only an event (`abort`, `fault`).
- Messages of the roles `bashExecution` (a command that the user ran), `custom`, `branchSummary` and `compactionSummary`
  open no turn. OpenClaw's `delivery-mirror` and `gateway-injected` are not models, and their messages are left out.
- `parentSession` names the session that this one was forked from, which makes it no subagent. There are no labels and
  no limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, Image, StopReason, Usage
from boolab.io.json_input import Damage, flag, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    LineLog,
    blocks_of,
    content_text,
    epoch_ms,
    name_or_none,
    one_line,
    read_followed,
    stem_of,
    time_ms,
)
from boolab.logs.images import images_of
from boolab.logs.readers._branches import follow_branches
from boolab.logs.readers.sts import is_simple
from boolab.logs.step_builder import StepBuilder

NAME: Final = "pi"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl",)
TESTED: Final = "3"
PLACES: Final = (
    "$PI_CODING_AGENT_DIR/sessions/**/*.jsonl",
    "~/.pi/agent/sessions/**/*.jsonl",
    "~/.openclaw/agents/*/sessions/*.jsonl",
)
LOOKED_FOR: Final = 'JSON lines: {"type": "session", "id": ..., "cwd": ...}, then {"type": "message", "message": ...}'

_ROLES: Final = frozenset({"user", "assistant", "toolResult"})
_KINDS: Final = frozenset((
    "branch_summary", "compact", "compaction", "custom", "custom_message", "label", "message", "model_change",
    "session", "session_info", "thinking_level_change",
))  # fmt: skip
_INTERRUPTED: Final = ("aborted", "error")
_GATEWAYS: Final = frozenset({"delivery-mirror", "gateway-injected"})
_TOKENS: Final = ("input", "output", "cacheRead", "cacheWrite")


def sniff(head: Head) -> bool:
    """Whether this is a session of pi: its header, or a result in its words if the header is damaged."""
    if is_simple(head.values):
        return False
    return any(_is_header(value) or _is_result(value) for value in head.values)


def _is_header(value: object) -> bool:
    line = mapping(value)
    return line.get("type") == "session" and isinstance(line.get("id"), str) and "cwd" in line and "timestamp" in line


def _is_result(value: object) -> bool:
    line = mapping(value)
    message = mapping(line.get("message"))
    return line.get("type") == "message" and message.get("role") == "toolResult" and "toolCallId" in message


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one file; none if it is empty."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The entries of a session, as they are written."""
    return follow_branches(path, damage, _Session)


class _Session:
    """Builds the run of one session."""

    def __init__(self, damage: Damage) -> None:
        self.builder = RunBuilder(NAME, damage)
        self._damage = damage
        self.id = ""
        self.branched_from = ""
        """The id of the session that this one was forked from: the header has its file, `<time>_<id>.jsonl`, or it."""
        self.known = False
        """Whether any line was one of a session."""
        self._left = 0
        self._ending: StopReason | None = None
        self._error: str | None = None

    def take_non_entry(self, line: Mapping[str, Any]) -> bool:
        kind = text(line.get("type"))
        self._damage.note_kind(kind, _KINDS)
        if kind != "session":
            return False
        self.known = True
        if (version := whole(line.get("version"))) is not None:
            self._damage.versions.add(str(version))
        self.builder.note_origin(cwd=line.get("cwd"))
        self.builder.effort = self.builder.effort or name_or_none(line.get("thinkingLevel"))
        if not self.id:
            self.id = text(line.get("id"))
            origin = text(line.get("parentSession")).replace("\\", "/").rpartition("/")[2]
            self.branched_from = origin.removesuffix(".jsonl").rpartition("_")[2]
        return True

    def leave(self, line: Mapping[str, Any]) -> None:
        message = mapping(line.get("message"))
        self._left += message.get("role") == "assistant" and not _is_empty(message) and not _is_of_gateway(message)

    def take(self, line: Mapping[str, Any]) -> None:
        kind, time = line.get("type"), epoch_ms(line.get("timestamp"))
        if kind == "message":
            self.known = True
            self._go_back(time)
            self._message(mapping(line.get("message")), time)
        elif kind == "compaction":
            self.builder.add_event("compaction", time, tokens=whole(line.get("tokensBefore")))
            self._add(text(line.get("summary")), time)
        elif kind == "branch_summary":
            self._go_back(time)
            self._add(text(line.get("summary")), time)
        elif kind == "thinking_level_change":
            self.builder.effort = name_or_none(line.get("thinkingLevel"))
        elif kind == "custom_message":
            self._add(content_text(line.get("content")), time, images_of(line.get("content")))

    def _go_back(self, time: int | None) -> None:
        if self._left:
            self.builder.add_event("rewind", time, steps=self._left)
            self._left = 0

    def _add(self, content: str, time: int | None, images: tuple[Image, ...] = ()) -> None:
        if content:
            self.builder.add_message("user", content, opens_turn=False, time=time, images=images)

    def _message(self, message: Mapping[str, Any], time: int | None) -> None:
        role = message.get("role")
        content = "" if role == "assistant" else content_text(message.get("content"))
        images = images_of(message.get("content"))
        start = time_ms(message.get("timestamp")) if time is None or role == "assistant" else None
        entry_time = start if time is None else time
        if role == "assistant":
            self._reply(message, entry_time, start)
        elif role == "toolResult":
            call_id, failed = text(message.get("toolCallId")), flag(message.get("isError"))
            self.builder.add_result(call_id, content, is_error=failed, time=entry_time, images=images)
        elif role in ("user", "system"):
            self.builder.add_message(role, content, opens_turn=role == "user", time=entry_time, images=images)
        elif role == "bashExecution":
            self._add(f"$ {text(message.get('command'))}\n{text(message.get('output'))}", entry_time)
        else:
            self._add(text(message.get("summary")) or content, entry_time, images)

    def _reply(self, message: Mapping[str, Any], time: int | None, start: int | None) -> None:
        if _is_of_gateway(message):
            return
        stopped = text(message.get("stopReason"))
        reason = one_line(text(message.get("errorMessage"))) or stopped
        self._ending, self._error = None, None
        if stopped in _INTERRUPTED:
            self._ending = "error" if stopped == "error" else "aborted"
            self._error = reason if stopped == "error" else None
        if _is_empty(message):
            self.builder.add_event("fault" if stopped == "error" else "abort", time, what=reason)
            return
        step = self.builder.add_response(time, start, text(message.get("model")))
        step.id = text(message.get("responseId"))
        step.usage = _usage(mapping(message.get("usage")))
        step.state("usage.totalTokens", tokens=whole(mapping(message.get("usage")).get("totalTokens")))
        if stopped in _INTERRUPTED:
            step.error = reason
        else:
            step.finish_reason = finish_reason(stopped)
        for block in blocks_of(message.get("content")):
            self._block(step, block)

    def _block(self, step: StepBuilder, block: object) -> None:
        part = mapping(block)
        kind = part.get("type")
        if isinstance(block, str) or kind == "text":
            content = block if isinstance(block, str) else text(part.get("text"))
            step.text += [content] if content.strip() else []
        elif kind == "thinking":
            reasoning = text(part.get("thinking"))
            step.reasoning += [reasoning] if reasoning.strip() else []
        elif kind == "toolCall":
            self.builder.add_call(step, text(part.get("id")), text(part.get("name")), part.get("arguments", REDACTED))

    def runs(self, path: Path) -> list[Run]:
        self._damage.unrecognised = "" if self.known else f"a session of pi is {LOOKED_FOR}"
        if self.builder.is_empty:
            return []
        stop, error = (None, None) if self.builder.truncated else (self._ending, self._error)
        run_id = self.id or stem_of(path)
        return [
            self.builder.build(run_id, stop, agent=NAME, error=error, log_id=self.id, branched_from=self.branched_from)
        ]


def _is_of_gateway(message: Mapping[str, Any]) -> bool:
    """Whether a gateway, not a model, wrote the message."""
    return text(message.get("model")) in _GATEWAYS


def _is_empty(message: Mapping[str, Any]) -> bool:
    """Whether it was interrupted before it had content."""
    if message.get("content") or message.get("stopReason") not in _INTERRUPTED:
        return False
    usage = mapping(message.get("usage"))
    return not any(whole(usage.get(name)) for name in _TOKENS)


def _usage(usage: Mapping[str, Any]) -> Usage:
    entered, cached, cache_write = (whole(usage.get(name)) for name in ("input", "cacheRead", "cacheWrite"))
    if entered is not None:
        entered += (cached or 0) + (cache_write or 0)
    cost = micro(mapping(usage.get("cost")).get("total"))
    return Usage(entered, whole(usage.get("output")), cached, None, cost, cache_write)
