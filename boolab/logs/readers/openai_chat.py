"""Chat JSON Lines in OpenAI's form: `{"messages": [{role, content, tool_calls?}]}`, one conversation a line.

Also one message a line, one document, a bare list of messages, and whole responses (`choices`); see
platform.openai.com/docs/api-reference/chat. `boolab.logs.readers._chat` reads the messages.

- Each assistant message is a step; each `user` message opens a turn, and `system` and `developer` messages do not.
- The arguments in `tool_calls` are a text or, unlike in the API, an object. The older `function_call` has no id; the
  next message of the role `function` is its result. A result without a `tool_call_id` answers the first open call.
- The format has no errors, so they are unknown. `usage` and `finish_reason` are read if a message or response has them.
- If the last text is one that LangGraph or LangChain writes in place of the model when a limit stops the run, the limit
  stopped it: see `boolab.logs.limit_answers`.
- Labels and times are as in `boolab.logs.readers.anthropic_messages`.

Other formats also have `messages`, with other keys beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, json_values, mapping
from boolab.io.packed import DamagedFile, open_unpacked
from boolab.logs.fields import Head, LineLog, read_followed
from boolab.logs.readers._chat import dialect, follow_chats

NAME: Final = "openai_chat"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl", ".json")
PLACES: Final = ()
LOOKED_FOR: Final = 'JSON or JSON lines with "messages", or of messages with a "role" and a "content"'

_REQUEST: Final = frozenset({"call_type", "kwargs", "litellm_call_id", "litellm_params", "spend"})
_BEGINNING: Final = 65_536


def sniff(head: Head) -> bool:
    """Whether this holds conversations in OpenAI's form, and no other format's."""
    return dialect(head) == "openai" or _is_request(head.values)


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file."""
    return read_followed(path, damage, follow, _lines)


def follow(path: Path, damage: Damage) -> LineLog:
    """The conversations or messages of a file, as they are written."""
    _refuse_request_by_head(path)
    return follow_chats(path, damage, NAME)


def _lines(path: Path, damage: Damage) -> Iterator[tuple[int, Any]]:
    """The values of a file, of which the first is no request: it may be longer than what is read of it before."""
    for place, (number, value) in enumerate(json_values(path, damage)):
        if not place:
            _refuse_request([value], path)
        yield number, value


def _refuse_request_by_head(path: Path) -> None:
    """Refuse a request before it is read whole, if the beginning shows it."""
    with open_unpacked(path) as file, suppress(DamagedFile):
        data = file.read(_BEGINNING)
        if any(f'"{name}"'.encode() in data for name in _REQUEST):
            _refuse_request(Head(data, path).values, path)


def _refuse_request(values: Sequence[Any], path: Path) -> None:
    if _is_request(values):
        msg = (
            "one request of a model, as OpenHands' SDK and LiteLLM log them: it repeats the messages of the "
            "requests before it, so that a folder of them would count each step many times; the events of the "
            "conversation hold the run"
        )
        raise RunFormatError(msg, path=path, line=1)


def _is_request(values: Sequence[Any]) -> bool:
    first = mapping(values[0]) if values else {}
    return "messages" in first and not _REQUEST.isdisjoint(first)
