"""`MockServer`: a server on this machine that answers like a provider, from a script.

Chat completions: platform.openai.com/docs/api-reference/chat-streaming. Messages:
docs.claude.com/en/docs/build-with-claude/streaming. Each as a stream of events or as one object.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias

from boolab.core.clock import WallClock
from boolab.core.types import MICRO, Response, ToolCall
from boolab.errors import ModelError, ScriptExhausted, SettingError
from boolab.runtime.models.base import Request
from boolab.runtime.models.remote.protocol import parse_object
from boolab.runtime.models.scripted import ScriptedModel

Write: TypeAlias = Callable[[bytes], None]
"""Sends bytes to the client."""
_STOP_REASONS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""Anthropic's stop reasons, by boolab's finish reasons."""


class ResponseWriter(Protocol):
    """A response on its way to the client, in one protocol."""

    def text(self, piece: str) -> None:
        """Send a piece of the text."""
        ...

    def end(self, response: Response) -> None:
        """Send what is left of the response: its calls, why it ended, and its usage."""
        ...


class ChatWriter:
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

    def _chunk(self, choices: list[Any], **fields: object) -> None:
        chunk = {"id": "mock", "object": "chat.completion.chunk", "model": "mock", "choices": choices, **fields}
        self._write(f"data: {json.dumps(chunk)}\n\n".encode())


def chat_completion(response: Response) -> dict[str, Any]:
    """A response as one object of chat completions."""
    message: dict[str, Any] = {"role": "assistant", "content": response.text or None}
    if response.tool_calls:
        message["tool_calls"] = [_chat_call(call) for call in response.tool_calls]
    choice = {"index": 0, "message": message, "finish_reason": response.finish_reason}
    head = {"id": "mock", "object": "chat.completion", "model": "mock"}
    return {**head, "choices": [choice], "usage": _chat_usage(response)}


def _chat_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _chat_usage(response: Response) -> dict[str, Any] | None:
    usage = response.usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    cost = {} if usage.cost is None else {"cost": usage.cost / MICRO}  # in dollars, as OpenRouter reports it
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, **cost}


class MessagesWriter:
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

    def _event(self, kind: str, **fields: object) -> None:
        self._write(f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode())


def message(response: Response) -> dict[str, Any]:
    """A response as one of Anthropic's messages."""
    texts = [{"type": "text", "text": response.text}] if response.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": parse_object(call.arguments) or {}}
        for call in response.tool_calls
    ]
    head = {"id": "mock", "type": "message", "role": "assistant", "model": "mock", "content": [*texts, *calls]}
    return {**head, "stop_reason": _stop_reason(response), "usage": _messages_usage(response)}


def _stop_reason(response: Response) -> str:
    reason = response.finish_reason or "stop"
    return _STOP_REASONS.get(reason, reason)


def _messages_usage(response: Response) -> dict[str, int]:
    counts = zip(("input_tokens", "output_tokens"), response.usage[:2], strict=True)
    return {name: tokens for name, tokens in counts if tokens is not None}


MAX_BODY: Final = 64 * 2**20
"""The longest request, in bytes."""
_POLL_S: Final = 0.05  # how long `close` waits at most


class _Protocol(NamedTuple):
    stream: Callable[[Write], ResponseWriter]
    complete: Callable[[Response], dict[str, Any]]


_PROTOCOLS: Final[Mapping[str, _Protocol]] = {
    "/v1/chat/completions": _Protocol(ChatWriter, chat_completion),
    "/v1/messages": _Protocol(MessagesWriter, message),
}


class MockServer:
    """A server that answers like a provider, from a script: for tests and demos without a key.

    It listens on the loopback interface of this machine, and understands chat completions and Anthropic's messages,
    as a stream or not. The number of the model's messages in a request decides which item of the script answers it, so
    one server serves any number of runs, and a run that continues from a record. Latencies pass in real time. An item
    with an `error` gives that HTTP status, or breaks the connection off.

    Args:
        items: The responses in order, as in `ScriptedModel`; without `when`.

    Raises:
        ScriptError: if an item is not valid.
        SettingError: if an item has a condition, `when`.

    Example:
        >>> import boolab as bl
        >>> script = [{"tool_calls": [{"name": "ls"}]}, "There is one file."]
        >>> with bl.models.MockServer(script) as server:
        ...     model = bl.OpenAIModel("mock", base_url=server.url)
        ...     ls = bl.tool(name="ls", read_only=True)(lambda: "a.py")
        ...     bl.run_sync(None, "Which files are there?", model=model, tools=[ls]).text
        'There is one file.'
    """

    def __init__(self, items: Sequence[Any]) -> None:
        model = ScriptedModel(items, realtime=True, name="mock")
        if any(isinstance(item, Mapping) and item.get("when") for item in items):
            msg = "a mock server does not read results, so an item must not have a condition: `when`"
            raise SettingError(msg)
        self._server = _Server(model)
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_POLL_S,), name="mock server", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The `base_url` of a model: the same for both protocols."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __repr__(self) -> str:
        return f"<MockServer {self.url}>"

    def close(self) -> None:
        """Stop listening. The server ends with the process in any case."""
        if self._thread.is_alive():  # in a process that was forked it is not, and would be waited for without end
            self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    """One request, and its answer from the server's script."""

    server: _Server
    _head_was_sent = False

    def do_POST(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client is gone
            self._answer()

    def log_message(self, *_: object) -> None:
        """Write nothing to the terminal."""

    def _answer(self) -> None:
        protocol = _PROTOCOLS.get(self.path)
        if protocol is None:
            self._refuse(404, f"expected one of {', '.join(_PROTOCOLS)}, got {self.path[:200]}")
            return
        body = _body_of(self)
        if body is None:
            self._refuse(400, "expected a JSON object with a list of messages")
            return
        try:
            if body.get("stream"):
                self._stream(protocol.stream(self._write), _request(body))
            else:
                self._reply(200, protocol.complete(asyncio.run(self.server.model.respond(_request(body)))))
        except ScriptExhausted as error:
            self._refuse(400, str(error))
        except ModelError as error:
            if error.status is not None and not self._head_was_sent:
                self._refuse(error.status, str(error))
            # Otherwise the connection ends here, without the end of the response.

    def _stream(self, stream: ResponseWriter, request: Request) -> None:
        def emit(kind: str, piece: str) -> None:
            if kind == "text":
                stream.text(piece)

        stream.end(asyncio.run(self.server.model.respond(request, emit)))

    def _write(self, event: bytes) -> None:
        if not self._head_was_sent:
            self._head_was_sent = True
            self._head(200, "text/event-stream")
        self.wfile.write(event)

    def _refuse(self, status: int, reason: str) -> None:
        self._reply(status, {"type": "error", "error": {"type": "mock_error", "message": reason}})

    def _reply(self, status: int, content: Mapping[str, Any]) -> None:
        self._head(status, "application/json")
        self.wfile.write(json.dumps(content).encode())

    def _head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()


def _body_of(handler: BaseHTTPRequestHandler) -> dict[str, Any] | None:
    """The JSON object of a request; None if it is none with messages."""
    length = handler.headers.get("Content-Length", "")
    if not length.isdecimal() or int(length) > MAX_BODY:
        return None
    try:
        body = json.loads(handler.rfile.read(int(length)))
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) and isinstance(body.get("messages"), list) else None


def _request(body: Mapping[str, Any]) -> Request:
    """The request to the script: as many responses are given as messages are of the model."""
    n_responses = sum(isinstance(message, dict) and message.get("role") == "assistant" for message in body["messages"])
    return Request(index=n_responses, messages=(), tools=(), clock=WallClock())
