"""What Anthropic's messages API sends, becoming a response: its server-sent events, one after another.

The order is `message_start`, then for each block of content a start, deltas and a stop, then `message_delta` with the
stop reason and the usage, then `message_stop`. Blocks are told apart by their index. Events, blocks and deltas of
other types are passed over, as the API asks of its clients: it adds some from time to time.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming and the types of the package `anthropic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.types import Response, ToolCall, Usage
from boolab.models.base import RETRYABLE, Emit
from boolab.models.remote.json_codec import Pieces, dumped, figure, micro_dollars, parsed_object, with_ids
from boolab.models.remote.protocol import Fault

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
"""The HTTP status of each type of error (https://docs.anthropic.com/en/api/errors); within a stream it is not told."""
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_SHOWN: Final = {"text": "text", "thinking": "reasoning"}
_GROWS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""For each type of delta: the type of the blocks that it belongs to, and the name of its text."""
_QUOTED = 80  # how many characters of something that cannot be read a fault shows


class _Block:
    """One block of content: a text, reasoning, a call, or something of no use here."""

    __slots__ = ("done", "given", "kind", "pieces", "raw", "signature")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.kind = _word(raw.get("type"))
        self.raw = raw
        self.pieces = Pieces()
        self.signature = _word(raw.get("signature"))
        self.given = _given(raw.get("input")) if self.kind == "tool_use" else ""
        self.done = False

    @property
    def name(self) -> str:
        """The name of the tool, if this is a call whose name is known."""
        return _word(self.raw.get("name")) if self.kind == "tool_use" else ""

    def call(self) -> ToolCall:
        """The call. A model that gives no arguments means none; before it is done, they are as they stand."""
        arguments = self.pieces.text() or self.given or ("{}" if self.done else "")
        return ToolCall(_word(self.raw.get("id")), self.name, arguments)

    @property
    def opaque(self) -> Mapping[str, Any] | None:
        """What the provider wants to see again: reasoning that it signed, or that it encrypted."""
        if self.kind == "redacted_thinking":
            return self.raw
        if self.kind == "thinking" and self.signature:
            return {**self.raw, "thinking": self.pieces.text(), "signature": self.signature}
        return None


class MessageDecoder:
    r"""A response of the messages API in the making: see `boolab.models.remote.protocol.Decoder`.

    Reasoning that the provider signed is kept in `Response.opaque`, as `{"messages": [blocks]}`. The calls of tools
    that run on the provider's side are none of ours: their blocks are passed over.

    Args:
        emit: Receives text and reasoning as they come, and each call once it is complete.
        prefix: How the ids begin of calls that come without one, as they may from servers that imitate the API.

    Attributes:
        cache_write_tokens: How many of the input tokens were written to the provider's cache: they cost more.

    Example:
        >>> decoder = MessageDecoder()
        >>> decoder.feed_whole(b'{"type": "message", "content": [{"type": "text", "text": "Hi."}],'
        ...                    b' "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2}}')
        >>> decoder.close().text, decoder.close().finish_reason, decoder.close().usage[:2]
        ('Hi.', 'stop', (3, 2))
    """

    def __init__(self, emit: Emit | None = None, prefix: str = "call") -> None:
        self.fault: Fault | None = None
        self.begun = False
        self.ended = False
        self._emit = emit
        self._prefix = prefix
        self._heard = False
        self._blocks: list[tuple[int, _Block]] = []
        self._open: dict[int, _Block] = {}
        self._native: str | None = None
        self._input: dict[str, int | None] = {}
        self._output: int | None = None
        self._reasoning: int | None = None
        self._cost: int | None = None

    @property
    def cache_write_tokens(self) -> int | None:
        """How many of the input tokens were written to the provider's cache."""
        return self._input.get("cache_creation_input_tokens", 0)

    def feed(self, event: str, data: str) -> None:
        """Take in one server-sent event."""
        if self.ended:
            return
        payload = parsed_object(data)
        if payload is None:
            self._take_no_object(data)
            return
        self._account(payload)
        self._take(_word(payload.get("type")) or event, payload)

    def feed_whole(self, body: bytes) -> None:
        """Take in a JSON body that came in place of a stream: a message, or an error."""
        payload = parsed_object(body)
        content = None if payload is None else payload.get("content")
        if payload is None or (not isinstance(content, list) and "error" not in payload):
            self._heard = self._heard or bool(body.strip())
            if self._heard:
                self._fail(Fault(f"expected a stream or a message, got {_quoted(body.decode(errors='replace'))}"))
            return
        self._heard = True
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
        """The response, now that nothing more comes; or why it is none."""
        if self.fault is not None:
            return self.fault
        if not self._heard:
            return Fault("the stream was empty", retryable=True)
        if self._native is None and not (self.ended and self._blocks):
            return Fault("the stream was cut before a stop reason came", retryable=True)
        if any(block.kind == "tool_use" and not block.name for _, block in self._blocks):
            return Fault("a call came without the name of its tool")
        # Some servers leave the stops of blocks out. A call that the limit on tokens cut is not complete all the same.
        if finish_reason(self._native) != "length":
            for index in list(self._open):
                self._stop(index)
        return self.partial()

    def partial(self) -> Response:
        """All that has come so far, with its usage."""
        blocks = [block for _, block in sorted(self._blocks, key=lambda entry: entry[0])]
        calls = [block for block in blocks if block.name]
        opaque = [block.opaque for block in blocks if block.opaque is not None]
        return Response(
            "".join(block.pieces.text() for block in blocks if block.kind == "text"),
            with_ids([block.call() for block in calls], self._prefix),
            finish_reason(self._native),
            self._usage(),
            "".join(block.pieces.text() for block in blocks if block.kind == "thinking"),
            None,
            self._native,
            dumped({"messages": opaque}).decode() if opaque else "",
        )

    def _take(self, kind: str, payload: dict[str, Any]) -> None:
        """Take in one event, whose usage is accounted for."""
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
        self._heard = self._heard or kind != "ping"

    def _take_no_object(self, data: str) -> None:
        data = data.strip()
        if data == "[DONE]":  # some proxies close this protocol with the other one's last word
            self.ended = True
        elif data:
            self._heard = True
            self._fail(Fault(f"an event is no JSON object: {_quoted(data)}"))

    def _index(self, payload: dict[str, Any]) -> int:
        """The index of the block that an event is about; that of the latest where it does not say."""
        index = payload.get("index")
        if type(index) is int:
            return index
        return self._blocks[-1][0] if self._blocks else 0

    def _start(self, index: int, raw: dict[str, Any]) -> None:
        self._stop(index)  # an index that comes again opens another block
        block = _Block(raw)
        self._blocks.append((index, block))
        self._open[index] = block
        if block.name or block.kind == "redacted_thinking":
            self.begun = True
        if block.kind in _SHOWN:
            self._add(block, raw.get(block.kind))

    def _grow(self, payload: dict[str, Any]) -> None:
        delta = payload.get("delta")
        if not isinstance(delta, dict):
            return
        index, kind = self._index(payload), _word(delta.get("type"))
        if kind == "signature_delta":
            if index in self._open:
                self._open[index].signature += _word(delta.get("signature"))
            return
        belongs, name = _GROWS.get(kind, ("", ""))
        if belongs in _SHOWN and index not in self._open:
            self._start(index, {"type": belongs})
        block = self._open.get(index)
        if block is not None and block.kind == belongs:
            self._add(block, delta.get(name))

    def _add(self, block: _Block, piece: object) -> None:
        if not isinstance(piece, str) or not piece:
            return
        shown = block.pieces.add(piece)
        if block.kind in _SHOWN:
            self.begun = True
            if self._emit is not None and shown:
                self._emit(_SHOWN[block.kind], shown)

    def _stop(self, index: int) -> None:
        block = self._open.pop(index, None)
        if block is None:
            return
        block.done = True
        if self._emit is not None and block.name:
            call = block.call()
            self._emit("tool_call", f"{call.name} {call.arguments}")

    def _take_stop_reason(self, told: Mapping[str, Any]) -> None:
        self._native = _word(told.get("stop_reason")) or self._native

    def _fail(self, fault: Fault) -> None:
        self.fault = self.fault or fault

    def _account(self, payload: Mapping[str, Any]) -> None:
        """Take the figures of usage from an event.

        Those of `message_start` are preliminary for the output, and stand for the input until something later tells.
        """
        message, usage = payload.get("message"), payload.get("usage")
        if isinstance(message, dict) and isinstance(message.get("usage"), dict):
            self._account_for_input(message["usage"])
        if isinstance(usage, dict):
            self._account_for_input(usage)
            self._output = _latest(usage.get("output_tokens"), self._output)
            details = usage.get("output_tokens_details")
            if isinstance(details, dict):
                self._reasoning = _latest(details.get("thinking_tokens"), self._reasoning)
            cost = micro_dollars(usage.get("cost"))
            self._cost = self._cost if cost is None else cost

    def _account_for_input(self, usage: dict[str, Any]) -> None:
        for name in _INPUT:
            if usage.get(name) is not None:
                self._input[name] = _latest(usage[name], self._input.get(name))

    def _usage(self) -> Usage:
        known = [self._input.get("input_tokens"), *self._input.values()]
        total = None if None in known else figure(sum(n for n in self._input.values() if n is not None))
        return Usage(total, self._output, self._input.get("cache_read_input_tokens"), self._reasoning, self._cost)


def fault_of(payload: Mapping[str, Any]) -> Fault:
    """The fault that an error of the API is, whether it came as an event or as a body.

    Example:
        >>> fault_of({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
        Fault(message='overloaded_error: Overloaded', retryable=True, status=529)
    """
    error = payload.get("error")
    told = error if isinstance(error, dict) else {}
    status, code = _STATUS.get(_word(told.get("type"))), told.get("code")
    if status is None and type(code) is int and code in _HTTP_ERRORS:
        status = code
    return Fault(error_words(payload) or "an error that says nothing", status in RETRYABLE, status)


def error_words(payload: Mapping[str, Any]) -> str:
    """The words of an error in any of the forms that servers of this API use; "" if there are none.

    Example:
        >>> error_words({"error": {"type": "api_error", "message": "Oops"}}), error_words({"error": "Oops"})
        ('api_error: Oops', 'Oops')
    """
    error = payload.get("error")
    if not isinstance(error, dict):
        return _word(error) or _word(payload.get("message")) or _word(payload.get("detail"))
    return ": ".join(filter(None, (_word(error.get("type")), _word(error.get("message")))))


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _latest(value: object, before: int | None) -> int | None:
    """A cumulative figure: the latest that is one."""
    number = figure(value)
    return before if number is None else number


def _given(value: object) -> str:
    """The arguments that came with the start of a call, as text."""
    if isinstance(value, str) or not value:
        return _word(value)
    try:
        return dumped(value).decode()
    except (ValueError, RecursionError):
        return ""


def _quoted(text: str) -> str:
    return repr(text[:_QUOTED] + ("…" if len(text) > _QUOTED else ""))
