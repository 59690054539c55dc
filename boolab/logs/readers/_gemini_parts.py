"""The parts of messages in the form of Gemini's API, which Gemini CLI and Qwen Code have in their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from boolab.io.json_input import json_text, mapping, text

_CALL_PARTS: Final = frozenset({"functionCall", "functionResponse"})


def _parts(content: object) -> Sequence[Any]:
    return content if isinstance(content, list) else [] if content is None else [content]


def content_text(content: object) -> str:
    """The text of a message: of its parts without calls, results and thoughts."""
    body = []
    for part in _parts(content):
        if isinstance(part, str):
            body.append(part)
        elif isinstance(part, dict) and part and not part.get("thought") and not _CALL_PARTS & part.keys():
            body.append(text(part.get("text")) if "text" in part else f"[{next(iter(part))}]")
    return "\n".join(filter(None, body))


def result_text(result: object) -> str:
    """The text of a result: of its response, the output or the error, else all of it."""
    lines = []
    for part in _parts(result):
        response = mapping(mapping(part).get("functionResponse")).get("response")
        if response is None:
            lines.append(content_text(part))
            continue
        output = next(
            (value for name in ("output", "error") if isinstance(value := mapping(response).get(name), str)), None
        )
        lines.append(json_text(response) if output is None else output)
    return "\n".join(line for line in lines if line)
