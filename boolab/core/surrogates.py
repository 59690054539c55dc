r"""Removes lone surrogates from texts: half of a character beyond 16 bits, which no file, table or provider accepts.

JavaScript makes them when it cuts a text, and `\ud83d` in JSON is one. They are joined or replaced once, where text
comes in: responses of models, results of tools, messages of users, prompts of agents, and JSON of others
(`boolab.io.json_input.parse`). Texts inside boolab have none.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, Final

from boolab.core.messages import Message, Part, Reasoning, Sentinel, Text
from boolab.core.types import RESPONSE_WORDS, Response, ToolCall, ToolResult

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def whole_text(text: str) -> str:
    """A text whose pairs of surrogates are joined; a lone surrogate becomes U+FFFD."""
    if _is_whole(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_response(response: Response) -> Response:
    """A response whose texts have no lone surrogates: text, reasoning, calls and names."""
    words = (getattr(response, name) or "" for name in RESPONSE_WORDS)
    texts = (response.text, response.reasoning, response.opaque, response.model, response.id, *words)
    if all(map(_is_whole, chain(texts, *response.tool_calls))):
        return response
    changed: dict[str, Any] = {
        name: whole_text(word) for name in RESPONSE_WORDS if (word := getattr(response, name)) is not None
    }
    return response._replace(
        text=whole_text(response.text),
        tool_calls=tuple(map(_whole_call, response.tool_calls)),
        reasoning=whole_text(response.reasoning),
        opaque=whole_text(response.opaque),
        model=whole_text(response.model),
        id=whole_text(response.id),
        **changed,
    )


def whole_result(result: ToolResult) -> ToolResult:
    """A result whose texts have no lone surrogates."""
    if _is_whole(result.content) and _is_whole(result.call_id):
        return result
    return result._replace(call_id=whole_text(result.call_id), content=whole_text(result.content))


def whole_message(message: Message) -> Message:
    """A message whose parts have no lone surrogates."""
    parts = tuple(map(_whole_part, message.parts))
    return message if parts == message.parts else message._replace(parts=parts)


def _whole_part(part: Part) -> Part:
    if isinstance(part, ToolCall):
        return _whole_call(part)
    if isinstance(part, ToolResult):
        return whole_result(part)
    if isinstance(part, Text | Reasoning | Sentinel):
        return part._replace(text=whole_text(part.text))
    return part


def _whole_call(call: ToolCall) -> ToolCall:
    return call._replace(id=whole_text(call.id), name=whole_text(call.name), arguments=whole_text(call.arguments))


def _is_whole(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None
