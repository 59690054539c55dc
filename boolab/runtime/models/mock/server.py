"""`MockServer`: a server on this machine that answers like a provider, from a script."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from boolab.core.clock import WallClock
from boolab.core.types import Response
from boolab.errors import ModelError, ScriptExhausted, SettingError
from boolab.runtime.models.base import Request
from boolab.runtime.models.mock.streams import ChatStream, MessagesStream, Stream, Write, chat_completion, message
from boolab.runtime.models.scripted import ScriptedModel

MAX_BODY: Final = 64 * 2**20
"""The longest request, in bytes."""
_POLL_S: Final = 0.05  # how long `close` waits at most


class _Protocol(NamedTuple):
    stream: Callable[[Write], Stream]
    whole: Callable[[Response], dict[str, Any]]


_PROTOCOLS: Final[Mapping[str, _Protocol]] = {
    "/v1/chat/completions": _Protocol(ChatStream, chat_completion),
    "/v1/messages": _Protocol(MessagesStream, message),
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
    _begun = False

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
                self._reply(200, protocol.whole(asyncio.run(self.server.model.respond(_request(body)))))
        except ScriptExhausted as error:
            self._refuse(400, str(error))
        except ModelError as error:
            if error.status is not None and not self._begun:
                self._refuse(error.status, str(error))
            # Otherwise the connection ends here, without the end of the response.

    def _stream(self, stream: Stream, request: Request) -> None:
        def emit(kind: str, piece: str) -> None:
            if kind == "text":
                stream.text(piece)

        stream.end(asyncio.run(self.server.model.respond(request, emit)))

    def _write(self, event: bytes) -> None:
        if not self._begun:
            self._begun = True
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
    given = sum(isinstance(one, dict) and one.get("role") == "assistant" for one in body["messages"])
    return Request(index=given, messages=(), tools=(), clock=WallClock())
