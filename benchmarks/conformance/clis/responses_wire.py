"""OpenAI's Responses as a stream: https://platform.openai.com/docs/api-reference/responses-streaming."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from benchmarks.conformance.clis.scripts import Reply
from benchmarks.conformance.clis.server import Answer, Wire, events

USAGE: Final = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 120,
}
"""What each response says that it used."""


def responses_wire(name_call: Callable[[Any], tuple[str, dict[str, Any]]]) -> Wire:
    """The wire format.

    Args:
        name_call: From a call of the script to the harness's tool and its arguments.
    """
    numbers = count(1)

    def speak(path: str, body: Any, reply: Callable[[], Reply]) -> Answer | None:  # noqa: ANN401
        if not path.partition("?")[0].endswith("/responses"):
            return None
        said = reply()
        number = next(numbers)
        output: list[dict[str, Any]] = []
        if said.text:
            content = [{"type": "output_text", "text": said.text, "annotations": []}]
            output.append({"type": "message", "role": "assistant", "id": f"msg_{number:04}", "content": content})
        for index, call in enumerate(said.calls):
            tool, arguments = name_call(call)
            name = f"{number:04}{index}"
            output.append(
                {
                    "type": "function_call",
                    "id": f"fc_{name}",
                    "call_id": f"call_{name}",
                    "name": tool,
                    "arguments": json.dumps(arguments),
                }
            )
        response = {
            "id": f"resp_{number:04}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": body.get("model"),
            "output": output,
            "usage": USAGE,
        }
        if not body.get("stream"):
            return Answer(json.dumps(response).encode())
        begun = response | {"status": "in_progress", "output": [], "usage": None}
        pieces: list[tuple[str | None, dict[str, Any]]] = [("response.created", {"response": begun})]
        for index, item in enumerate(output):
            pieces.append(("response.output_item.added", {"output_index": index, "item": item}))
            pieces.append(("response.output_item.done", {"output_index": index, "item": item}))
        pieces.append(("response.completed", {"response": response}))
        return events([(name, {"type": name, "sequence_number": n} | data) for n, (name, data) in enumerate(pieces)])

    return speak
