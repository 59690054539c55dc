"""OpenAI's chat completions, whole or as a stream: https://platform.openai.com/docs/api-reference/chat-streaming."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from benchmarks.conformance.clis.scripts import Reply
from benchmarks.conformance.clis.server import Answer, Wire, events

USAGE: Final = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
"""What each response says that it used."""

MODEL: Final = "scripted"
"""The model that each response says that it is from."""


def chat_wire(name_call: Callable[[Any], tuple[str, dict[str, Any]]]) -> Wire:
    """The wire format.

    Args:
        name_call: From a call of the script to the harness's tool and its arguments.
    """
    numbers = count(1)

    def speak(path: str, body: Any, reply: Callable[[], Reply]) -> Answer | None:  # noqa: ANN401
        if not path.partition("?")[0].endswith("/chat/completions"):
            return None
        said = reply()
        number = next(numbers)
        calls = []
        for index, call in enumerate(said.calls):
            tool, arguments = name_call(call)
            function = {"name": tool, "arguments": json.dumps(arguments)}
            calls.append({"index": index, "id": f"call_{number:04}{index}", "type": "function", "function": function})
        message = {"role": "assistant", "content": said.text or None} | ({"tool_calls": calls} if calls else {})
        reason = "tool_calls" if calls else "stop"
        head = {"id": f"chatcmpl-{number:04}", "created": 0, "model": MODEL}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            whole = head | {"object": "chat.completion", "choices": [choice], "usage": USAGE}
            return Answer(json.dumps(whole).encode())
        head["object"] = "chat.completion.chunk"
        first = {"index": 0, "delta": message, "finish_reason": None}
        last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reason}
        return events(
            [
                (None, head | {"choices": [first]}),
                (None, head | {"choices": [last]}),
                (None, head | {"choices": [], "usage": USAGE}),
                (None, "[DONE]"),
            ]
        )

    return speak
