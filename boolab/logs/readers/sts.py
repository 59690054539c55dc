"""The Session Trace Simple Format of the Hugging Face Hub: a header, then a message a line, of a harness of one's own.

See huggingface.co/docs/hub/session-traces-format. `toolCalls` are calls in OpenAI's form, `toolCallId` names the one
that a message of the role `tool` answers. Each message of the assistant is a response. The format has no errors, no
tokens and no end of a session; `usage` and `finish_reason` are read where a writer added them. A session of pi may name
its harness, too: its messages have ids, and its own reader reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.io.json_input import Damage, mapping, text
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    LineLog,
    content_text,
    follow_objects,
    name_or_none,
    read_followed,
    stem_of,
    time_ms,
)
from boolab.logs.images import images_of
from boolab.logs.readers._chat import add_reply

NAME: Final = "sts"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl",)
PLACES: Final = ()
LOOKED_FOR: Final = 'a first line with "type": "session", "harness" and "id", then lines with a "message" each'

_KINDS: Final = ("session", "message")


def sniff(head: Head) -> bool:
    """Whether this is a session in this format."""
    return is_simple(head.values)


def is_simple(values: Sequence[Any]) -> bool:
    """Whether lines begin with the header of this format, and no message has an id, as those of pi have."""
    lines = [mapping(value) for value in values]
    header = any(line.get("type") == "session" and {"harness", "id"} <= line.keys() for line in lines)
    messages = [line for line in lines if line.get("type") == "message"]
    return header and bool(messages) and not any("id" in line for line in messages)


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one session."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The lines of a session, as they are written."""
    builder = RunBuilder(NAME, damage)
    header: dict[str, Any] = {}

    def take(line: dict[str, Any]) -> None:
        damage.note_kind(text(line.get("type")), _KINDS)
        if line.get("type") == "session":
            header.update(line)
            builder.note_origin(cwd=line.get("cwd"))
        elif line.get("type") == "message":
            _add_message(builder, mapping(line.get("message")))

    def runs() -> list[Run]:
        damage.unrecognised = "" if "harness" in header else f"a session trace of the Hub is {LOOKED_FOR}"
        session, agent = text(header.get("id")), name_or_none(header.get("harness")) or NAME
        if builder.is_empty:
            return []
        return [builder.build(session or stem_of(path), agent=agent, log_id=session)]

    return follow_objects(damage, take, runs)


def _add_message(builder: RunBuilder, message: Mapping[str, Any]) -> None:
    role, time, content = message.get("role"), time_ms(message.get("timestamp")), content_text(message.get("content"))
    images = images_of(message.get("content"))
    if role == "assistant":
        calls, reasoning = message.get("toolCalls"), message.get("reasoningContent")
        add_reply(builder, {**message, "tool_calls": calls, "reasoning_content": reasoning}, time)
    elif role == "tool":
        builder.add_result(text(message.get("toolCallId")), content, is_error=None, time=time, images=images)
    elif role in ("user", "system"):
        builder.add_message(role, content, opens_turn=role == "user", time=time, images=images)
