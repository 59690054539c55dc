"""A model server on the loopback interface that plays a script in the wire format of whoever asks.

It is the proxy of the harness as well: a request for any other host is written down and refused, so that a run reaches
nothing but this machine.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias

from benchmarks.conformance.clis.scripts import Loop, Reply, Script

BODY: Final = 64 * 1024**2
"""No request is longer, in bytes."""

POLL_S: Final = 0.02
"""How soon the server notices that it is to end."""


class Asked(NamedTuple):
    """One request.

    Attributes:
        method: The method of HTTP.
        path: The path, with what follows it.
        body: The body as JSON; None if there is none.
        loop: Whose request for a response it is; None for any other request.
    """

    method: str
    path: str
    body: Any
    loop: Loop | None


class Answer(NamedTuple):
    """One answer: a whole body, or the pieces of a stream of events."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


Wire: TypeAlias = Callable[[str, Any, Callable[[], Reply]], Answer | None]
"""A wire format: from the path, the body and the next reply to the bytes; None where it does not know the path."""

Sorter: TypeAlias = Callable[[str, Any], Loop | None]
"""From a request's path and body to whose request it is; None for a side request (a title, a count of tokens)."""


class ModelServer:
    """The server: `with ModelServer(script, wire, sorter) as server: ... server.url ...`."""

    def __init__(self, script: Script, wire: Wire, sorter: Sorter) -> None:
        self.asked: list[Asked] = []
        self.refused: list[str] = []
        self._script, self._wire, self._sorter = script, wire, sorter
        self._lock = threading.Lock()
        self._count: Counter[Loop] = Counter()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(POLL_S,), name="scripted model", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()

    def requests_of(self, loop: Loop) -> int:
        """How often that loop has asked the model."""
        return self._count[loop]

    def answer(self, method: str, path: str, body: Any) -> Answer:  # noqa: ANN401 - whatever a harness sends
        """What to answer to a request."""
        with self._lock:
            loop = self._sorter(path, body) if method == "POST" else None
            self.asked.append(Asked(method, path, body, loop))
            replied = False

            def reply() -> Reply:
                nonlocal replied
                replied = True
                return Reply(text="Title") if loop is None else self._script(loop, self._count[loop])

            answer = self._wire(path, body, reply) if method == "POST" else None
            if replied and loop is not None:
                self._count[loop] += 1
        return answer or Answer(b"{}")

    def refuse(self, host: str) -> None:
        """Note that a connection to another host was asked for."""
        with self._lock:
            self.refused.append(host)


def events(pieces: Sequence[tuple[str | None, object]]) -> Answer:
    """A stream of server-sent events: each a name or None, and what is sent as JSON; text is sent as it is."""
    lines = []
    for name, data in pieces:
        lines += [f"event: {name}"] if name else []
        lines += [f"data: {data if isinstance(data, str) else json.dumps(data)}", ""]
    return Answer(("\n".join(lines) + "\n").encode(), "text/event-stream")


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # who was killed, or needs no more
                super().handle()

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the name is the base class's
            pass

        def _answer(self) -> None:
            if self.path.startswith(("http://", "https://")):
                self._refuse()
                return
            raw = self.rfile.read(min(int(self.headers.get("content-length") or 0), BODY))
            try:
                body = json.loads(raw) if raw else None
            except ValueError:
                body = None
            answer = server.answer(self.command, self.path, body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def _refuse(self) -> None:
            server.refuse(self.path)
            self.close_connection = True
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        # The base class looks its methods up by these names.
        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _answer  # noqa: N815
        do_CONNECT = _refuse  # noqa: N815

    return Handler
