r"""Removes lone surrogates from texts: half of a character beyond 16 bits, which no file, table or provider accepts.

JavaScript makes them when it cuts a text, and `\ud83d` in JSON is one. They are joined or replaced once, where text
comes in: responses of models, results of tools, messages of users, prompts of agents, and JSON of others
(`boolab.io.json_input.parse`). Texts inside boolab have none.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, Final

from boolab.core.types import RESPONSE_WORDS, Message, Part, Reasoning, Response, Sentinel, Text, ToolCall, ToolResult

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def whole_text(text: str) -> str:
    r"""A text whose pairs of surrogates are joined; a lone surrogate becomes U+FFFD.

    Example:
        >>> whole_text("\ud83d" + "\ude00") == "\U0001f600", whole_text("a\ud83d") == "a\ufffd"
        (True, True)
    """
    if _is_whole(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_response(response: Response) -> Response:
    r"""A response whose texts have no lone surrogates: text, reasoning, calls and names.

    Example:
        >>> import boolab as bl
        >>> whole_response(bl.models.Response("a\ud83d")).text == "a\ufffd"
        True
    """
    text, calls, reason, _, reasoning, _, native, opaque, model, response_id, *request = response
    words = (text, reasoning, reason, native, opaque, model, response_id, *request)
    texts = filter(None, (*words, *chain.from_iterable(calls)))
    if _is_whole("".join(texts)):
        return response
    changed: dict[str, Any] = {
        name: whole_text(word) for name in RESPONSE_WORDS if (word := getattr(response, name)) is not None
    }
    return response._replace(
        text=whole_text(text),
        tool_calls=tuple(ToolCall(*map(whole_text, call)) for call in calls),
        reasoning=whole_text(reasoning),
        opaque=whole_text(opaque),
        model=whole_text(model),
        id=whole_text(response_id),
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
        return ToolCall(*map(whole_text, part))
    if isinstance(part, ToolResult):
        return whole_result(part)
    if isinstance(part, Text | Reasoning | Sentinel):
        return part._replace(text=whole_text(part.text))
    return part


def _is_whole(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None
