"""Gemini's generateContent, whole or as a stream: https://ai.google.dev/api/generate-content."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from benchmarks.conformance.clis.scripts import Reply
from benchmarks.conformance.clis.server import Answer, Wire, events

USAGE: Final = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
"""What each response says that it used."""


def gemini_wire(name_call: Callable[[Any], tuple[str, dict[str, Any]]]) -> Wire:
    """The wire format.

    Args:
        name_call: From a call of the script to the harness's tool and its arguments.
    """
    numbers = count(1)

    def speak(path: str, _: Any, reply: Callable[[], Reply]) -> Answer | None:  # noqa: ANN401
        route = path.partition("?")[0]
        if route.endswith(":countTokens"):
            return Answer(json.dumps({"totalTokens": USAGE["promptTokenCount"]}).encode())
        if not route.endswith((":generateContent", ":streamGenerateContent")):
            return None
        said = reply()
        parts: list[dict[str, Any]] = [{"text": said.text}] if said.text else []
        for call in said.calls:
            tool, arguments = name_call(call)
            parts.append({"functionCall": {"name": tool, "args": arguments}})
        response = {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": USAGE,
            "modelVersion": route.rpartition("/")[2].partition(":")[0],
            "responseId": f"response-{next(numbers):04}",
        }
        if route.endswith(":streamGenerateContent"):
            return events([(None, response)])
        return Answer(json.dumps(response).encode())

    return speak
