"""Decodes responses of Anthropic's messages API: server-sent events, or a whole message.

The order of events is `message_start`; for each block of content a start, deltas and a stop; `message_delta` with the
stop reason and the usage; `message_stop`. Blocks have an index. Unknown types of events, blocks and deltas are ignored,
as the API requests of its clients, because it adds new ones.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming and the types of the package `anthropic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.surrogates import whole_text
from boolab.core.types import Response, ToolCall, Usage
from boolab.runtime.models.base import RETRYABLE, Emit
from boolab.runtime.models.remote.protocol import (
    Decoder,
    Fault,
    Pieces,
    as_count,
    assign_ids,
    dump_json,
    micro_dollars,
    parse_object,
)

_HTTP_ERRORS: Final = range(400, 600)
_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each type of error (https://docs.anthropic.com/en/api/errors), which a stream does not name."""
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_KINDS: Final = {"text": "text", "thinking": "reasoning"}
_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""For each type of delta: the type of its block, and the name of its text."""
_EXCERPT_CHARS: Final = 80


class _Block:
    """One block of content: text, reasoning, a call, or something else."""

    __slots__ = ("done", "input_text", "kind", "name", "pieces", "raw", "signature")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.kind = _word(raw.get("type"))
        self.raw = raw
        self.pieces = Pieces()
        self.signature = _word(raw.get("signature"))
        is_call = self.kind == "tool_use"
        self.name = _word(raw.get("name")) if is_call else ""
        self.input_text = _input_text(raw.get("input")) if is_call else ""
        self.done = False

    def call(self) -> ToolCall:
        """The call; without arguments they are `{}`, once the block is done."""
        arguments = self.pieces.text() or self.input_text or ("{}" if self.done else "")
        return ToolCall(_word(self.raw.get("id")), self.name, arguments)

    @property
    def opaque_content(self) -> Mapping[str, Any] | None:
        """Signed or encrypted reasoning, which the provider needs in the next request."""
        if self.kind == "redacted_thinking":
            return self.raw
        if self.kind == "thinking" and self.signature:
            return {**self.raw, "thinking": self.pieces.text(), "signature": self.signature}
        return None


class MessageDecoder(Decoder):
    r"""Decodes a response of the messages API.

    Signed reasoning is kept in `Response.opaque`, as `{"messages": [blocks]}`. Calls of tools that run on the
    provider's side are ignored.
    """

    def __init__(self, emit: Emit | None = None, prefix: str = "call") -> None:
        super().__init__(emit, prefix)
        self._arrived = False
        self._blocks: list[tuple[int, _Block]] = []
        self._open: dict[int, _Block] = {}
        self._native: str | None = None
        self._input: dict[str, int | None] = {}
        self._output: int | None = None
        self._reasoning: int | None = None
        self._cost: int | None = None

    def feed(self, event: str, data: str) -> None:
        if self.ended:
            return
        payload = parse_object(data)
        if payload is not None:
            self._account(payload)
            self._take(_word(payload.get("type")) or event, payload)
        elif (data := data.strip()) == "[DONE]":  # some proxies end this protocol with the end of the other one
            self.ended = True
        elif data:
            self._arrived = True
            self._fail(Fault(f"an event is no JSON object: {_quote(data)}"))

    def feed_whole(self, body: bytes) -> None:
        payload = parse_object(body)
        content = None if payload is None else payload.get("content")
        if payload is None or (not isinstance(content, list) and "error" not in payload):
            self._arrived = self._arrived or bool(body.strip())
            if self._arrived:
                self._fail(Fault(f"expected a stream or a message, got {_quote(body.decode(errors='replace'))}"))
            return
        self._arrived = True
        self._account({"usage": payload.get("usage")})
        if not isinstance(content, list):
            self._fail(fault_of(payload))
            return
        for index, block in enumerate(content):
            if isinstance(block, dict):
                self._start(index, block)
                self._stop(index)
        self._take_stop_reason(payload)
        self.ended = True

    def close(self) -> Response | Fault:
        if self.fault is not None:
            return self.fault
        if not self._arrived:
            return Fault("the stream was empty", retryable=True)
        if self._native is None and not (self.ended and self._blocks):
            return Fault("the stream was cut before a stop reason came", retryable=True)
        if any(block.kind == "tool_use" and not block.name for _, block in self._blocks):
            return Fault("a call has no name of a tool")
        # Some servers omit the stops of blocks. But a call that the token limit cut off stays incomplete.
        if finish_reason(self._native) != "length":
            for index in list(self._open):
                self._stop(index)
        return self.partial_response()

    def partial_response(self) -> Response:
        blocks = [block for _, block in sorted(self._blocks, key=lambda entry: entry[0])]
        calls = [block for block in blocks if block.name]
        opaque = [block.opaque_content for block in blocks if block.opaque_content is not None]
        return Response(
            "".join(block.pieces.text() for block in blocks if block.kind == "text"),
            assign_ids([block.call() for block in calls], self._call_id_prefix),
            finish_reason(self._native),
            self._usage(),
            "".join(block.pieces.text() for block in blocks if block.kind == "thinking"),
            None,
            self._native,
            dump_json({"messages": opaque}).decode() if opaque else "",
        )

    def _take(self, kind: str, payload: dict[str, Any]) -> None:
        """Read one event, except its usage."""
        if kind == "content_block_delta":
            self._grow(payload)
        elif kind == "content_block_start":
            block = payload.get("content_block")
            if isinstance(block, dict):
                self._start(self._index(payload), block)
        elif kind == "content_block_stop":
            self._stop(self._index(payload))
        elif kind == "message_delta":
            delta = payload.get("delta")
            self._take_stop_reason(delta if isinstance(delta, dict) else {})
        elif kind == "message_stop":
            self.ended = True
        elif kind == "error" or (kind != "message_start" and isinstance(payload.get("error"), dict | str)):
            self._fail(fault_of(payload))
        self._arrived = self._arrived or kind != "ping"

    def _index(self, payload: dict[str, Any]) -> int:
        """The index of an event's block; by default that of the latest block."""
        index = payload.get("index")
        if type(index) is int:
            return index
        return self._blocks[-1][0] if self._blocks else 0

    def _start(self, index: int, raw: dict[str, Any]) -> None:
        self._stop(index)  # a repeated index begins another block
        block = _Block(raw)
        self._blocks.append((index, block))
        self._open[index] = block
        if block.name or block.kind == "redacted_thinking":
            self.has_output = True
        if block.kind in _KINDS:
            self._grow_block(block, raw.get(block.kind))

    def _grow(self, payload: dict[str, Any]) -> None:
        delta = payload.get("delta")
        if not isinstance(delta, dict):
            return
        index, kind = self._index(payload), _word(delta.get("type"))
        if kind == "signature_delta":
            if index in self._open:
                self._open[index].signature += _word(delta.get("signature"))
            return
        belongs, name = _DELTAS.get(kind, ("", ""))
        if belongs in _KINDS and index not in self._open:
            self._start(index, {"type": belongs})
        block = self._open.get(index)
        if block is not None and block.kind == belongs:
            self._grow_block(block, delta.get(name))

    def _grow_block(self, block: _Block, piece: object) -> None:
        if not isinstance(piece, str):
            return
        if block.kind in _KINDS:
            self._add(_KINDS[block.kind], block.pieces, piece)
        else:
            block.pieces.add(piece)

    def _stop(self, index: int) -> None:
        block = self._open.pop(index, None)
        if block is not None:
            block.done = True
            if block.name:
                self._emit_call(block.call())

    def _take_stop_reason(self, source: Mapping[str, Any]) -> None:
        self._native = _word(source.get("stop_reason")) or self._native

    def _account(self, payload: Mapping[str, Any]) -> None:
        """Read the usage in an event. That of `message_start` is preliminary: its output is ignored."""
        message, usage = payload.get("message"), payload.get("usage")
        if isinstance(message, dict) and isinstance(message.get("usage"), dict):
            self._account_for_input(message["usage"])
        if isinstance(usage, dict):
            self._account_for_input(usage)
            self._output = _update_count(usage.get("output_tokens"), self._output)
            details = usage.get("output_tokens_details")
            if isinstance(details, dict):
                self._reasoning = _update_count(details.get("thinking_tokens"), self._reasoning)
            cost = micro_dollars(usage.get("cost"))
            self._cost = self._cost if cost is None else cost

    def _account_for_input(self, usage: dict[str, Any]) -> None:
        for name in _INPUT:
            if usage.get(name) is not None:
                self._input[name] = _update_count(usage[name], self._input.get(name))
        self.cache_write_tokens = self._input.get("cache_creation_input_tokens", 0)

    def _usage(self) -> Usage:
        counts = [self._input.get("input_tokens"), *self._input.values()]
        total = None if None in counts else as_count(sum(n for n in self._input.values() if n is not None))
        return Usage(total, self._output, self._input.get("cache_read_input_tokens"), self._reasoning, self._cost)


def fault_of(payload: Mapping[str, Any]) -> Fault:
    """The fault in an error of the API, an event or a body."""
    error = payload.get("error")
    facts = error if isinstance(error, dict) else {}
    status, code = _STATUS.get(_word(facts.get("type"))), facts.get("code")
    if status is None and type(code) is int and code in _HTTP_ERRORS:
        status = code
    return Fault(error_message(payload) or "an error without a message", status in RETRYABLE, status)


def error_message(payload: Mapping[str, Any]) -> str:
    """The message of an error in any of the forms that servers use; "" if there is none."""
    error = payload.get("error")
    if not isinstance(error, dict):
        return whole_text(_word(error) or _word(payload.get("message")) or _word(payload.get("detail")))
    return whole_text(": ".join(filter(None, (_word(error.get("type")), _word(error.get("message"))))))


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _update_count(value: object, earlier: int | None) -> int | None:
    """The latest valid value of a cumulative count."""
    number = as_count(value)
    return earlier if number is None else number


def _input_text(value: object) -> str:
    """The arguments in the start of a call, as text."""
    if isinstance(value, str) or not value:
        return _word(value)
    try:
        return dump_json(value).decode()
    except (ValueError, RecursionError):
        return ""


def _quote(text: str) -> str:
    return repr(text[:_EXCERPT_CHARS] + ("…" if len(text) > _EXCERPT_CHARS else ""))
