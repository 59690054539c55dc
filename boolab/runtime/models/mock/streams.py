"""Responses as a server sends them: chat completions and Anthropic's messages, as a stream of events or as one object.

Chat completions: platform.openai.com/docs/api-reference/chat-streaming. Messages:
docs.claude.com/en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from boolab.core.types import MICRO, Response, ToolCall
from boolab.runtime.models.remote.json_codec import parsed_object

Write: TypeAlias = Callable[[bytes], None]
"""Sends bytes to the client."""
_STOP_REASONS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""Anthropic's stop reasons, by boolab's finish reasons."""


class Stream(Protocol):
    """A response on its way to the client, in one protocol."""

    def text(self, piece: str) -> None:
        """Send a piece of the text."""
        ...

    def end(self, response: Response) -> None:
        """Send what is left of the response: its calls, why it ended, and its usage."""
        ...


class ChatStream:
    """A stream of chat completions."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def text(self, piece: str) -> None:
        self._choice({"role": "assistant", "content": piece})

    def end(self, response: Response) -> None:
        for index, call in enumerate(response.tool_calls):
            self._choice({"role": "assistant", "tool_calls": [{"index": index, **_chat_call(call)}]})
        self._choice({}, finish_reason=response.finish_reason)
        self._chunk([], usage=_chat_usage(response))
        self._write(b"data: [DONE]\n\n")

    def _choice(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> None:
        self._chunk([{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    def _chunk(self, choices: list[Any], **more: object) -> None:
        chunk = {"id": "mock", "object": "chat.completion.chunk", "model": "mock", "choices": choices, **more}
        self._write(f"data: {json.dumps(chunk)}\n\n".encode())


def chat_completion(response: Response) -> dict[str, Any]:
    """A response as one object of chat completions."""
    message: dict[str, Any] = {"role": "assistant", "content": response.text or None}
    if response.tool_calls:
        message["tool_calls"] = [_chat_call(call) for call in response.tool_calls]
    choice = {"index": 0, "message": message, "finish_reason": response.finish_reason}
    about = {"id": "mock", "object": "chat.completion", "model": "mock"}
    return {**about, "choices": [choice], "usage": _chat_usage(response)}


def _chat_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _chat_usage(response: Response) -> dict[str, Any] | None:
    usage = response.usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    cost = {} if usage.cost is None else {"cost": usage.cost / MICRO}  # in dollars, as OpenRouter reports it
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, **cost}


class MessagesStream:
    """A stream of Anthropic's messages."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._blocks = 0
        self._in_text = False

    def text(self, piece: str) -> None:
        if not self._in_text:
            self._start({"type": "text", "text": ""})
            self._in_text = True
        self._delta({"type": "text_delta", "text": piece})

    def end(self, response: Response) -> None:
        if self._in_text:
            self._stop()
        for call in response.tool_calls:
            self._start({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
            self._delta({"type": "input_json_delta", "partial_json": call.arguments})
            self._stop()
        if not self._blocks:
            self._open()
        delta = {"stop_reason": _stop_reason(response), "stop_sequence": None}
        self._event("message_delta", delta=delta, usage=_messages_usage(response))
        self._event("message_stop")

    def _open(self) -> None:
        message = {"id": "mock", "type": "message", "role": "assistant", "model": "mock", "content": [], "usage": {}}
        self._event("message_start", message=message)

    def _start(self, block: Mapping[str, Any]) -> None:
        if not self._blocks:
            self._open()
        self._event("content_block_start", index=self._blocks, content_block=block)

    def _delta(self, delta: Mapping[str, Any]) -> None:
        self._event("content_block_delta", index=self._blocks, delta=delta)

    def _stop(self) -> None:
        self._event("content_block_stop", index=self._blocks)
        self._blocks += 1

    def _event(self, kind: str, **more: object) -> None:
        self._write(f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode())


def message(response: Response) -> dict[str, Any]:
    """A response as one of Anthropic's messages."""
    texts = [{"type": "text", "text": response.text}] if response.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": parsed_object(call.arguments) or {}}
        for call in response.tool_calls
    ]
    about = {"id": "mock", "type": "message", "role": "assistant", "model": "mock", "content": [*texts, *calls]}
    return {**about, "stop_reason": _stop_reason(response), "usage": _messages_usage(response)}


def _stop_reason(response: Response) -> str:
    reason = response.finish_reason or "stop"
    return _STOP_REASONS.get(reason, reason)


def _messages_usage(response: Response) -> dict[str, int]:
    known = zip(("input_tokens", "output_tokens"), response.usage[:2], strict=True)
    return {name: tokens for name, tokens in known if tokens is not None}
