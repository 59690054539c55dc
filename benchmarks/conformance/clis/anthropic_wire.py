"""Anthropic's Messages, whole or as a stream: https://docs.claude.com/en/api/messages-streaming."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from benchmarks.conformance.clis.scripts import Reply
from benchmarks.conformance.clis.server import Answer, Wire, events

USAGE: Final = {
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}
"""What each response says that it used."""


def anthropic_wire(name_call: Callable[[Any], tuple[str, dict[str, Any]]]) -> Wire:
    """The wire format.

    Args:
        name_call: From a call of the script to the harness's tool and its arguments.
    """
    numbers = count(1)

    def speak(path: str, body: Any, reply: Callable[[], Reply]) -> Answer | None:  # noqa: ANN401
        route = path.partition("?")[0]
        if route.endswith("/count_tokens"):
            return Answer(json.dumps({"input_tokens": USAGE["input_tokens"]}).encode())
        if not route.endswith("/v1/messages"):
            return None
        said = reply()
        number = next(numbers)
        blocks: list[dict[str, Any]] = [{"type": "text", "text": said.text}] if said.text else []
        for index, call in enumerate(said.calls):
            tool, arguments = name_call(call)
            blocks.append({"type": "tool_use", "id": f"toolu_{number:04}{index}", "name": tool, "input": arguments})
        message = {
            "id": f"msg_{number:04}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": blocks,
            "stop_reason": "tool_use" if said.calls else "end_turn",
            "stop_sequence": None,
            "usage": USAGE,
        }
        if not body.get("stream"):
            return Answer(json.dumps(message).encode())
        start = message | {"content": [], "stop_reason": None, "usage": USAGE | {"output_tokens": 1}}
        pieces: list[tuple[str | None, object]] = [("message_start", {"type": "message_start", "message": start})]
        for index, block in enumerate(blocks):
            pieces += _block(index, block)
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        pieces.append(("message_delta", {"type": "message_delta", "delta": end, "usage": USAGE}))
        pieces.append(("message_stop", {"type": "message_stop"}))
        return events(pieces)

    return speak


def _block(index: int, block: dict[str, Any]) -> list[tuple[str | None, object]]:
    if block["type"] == "text":
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        ("content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}),
        ("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}),
        ("content_block_stop", {"type": "content_block_stop", "index": index}),
    ]
