"""A server on the loopback interface that answers byte for byte what a test says, and keeps what it was asked.

An answer is a sequence of acts: bytes to write as they are, a `Gate` to wait at, `RESET` or `CLOSE` for the connection,
`Forever` for a piece without end, `Latency` for a pause of milliseconds. `whole` and `stream` make the bytes of proper
HTTP answers; everything improper is written out by the test. The server lives in a thread of its own, so that it serves
any number of event loops and goes on where a client blocks its own.
"""

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias

PATIENCE_S: Final = 20
"""How long a test waits for what must come, on a machine with much else to do."""

_NO_LINGER: Final = struct.pack("ii", 1, 0)
_CHUNKED: Final = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}


class Gate:
    """Something that happens once. Any thread may let it happen, any thread and any event loop wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def is_open(self) -> bool:
        """Whether it has happened."""
        return self._open.is_set()

    def open(self) -> None:
        """Let it happen."""
        with self._lock:
            self._open.set()
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # whoever waited in there has left
                loop.call_soon_threadsafe(event.set)

    def wait(self) -> None:
        """Block until it has happened; an error if it does not."""
        if not self._open.wait(PATIENCE_S):
            msg = "what the test waits for did not happen"
            raise TimeoutError(msg)

    async def passed(self) -> None:
        """Wait in an event loop until it has happened."""
        event = asyncio.Event()
        with self._lock:
            if self._open.is_set():
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        await event.wait()


class End(Enum):
    """How a server may end a connection."""

    CLOSE = "close"
    RESET = "reset"


CLOSE: Final = End.CLOSE
"""Close the connection properly, whether or not the answer is whole."""
RESET: Final = End.RESET
"""Break the connection off: the client gets a reset."""


class Forever(NamedTuple):
    """The same bytes again and again, until the client has had enough: as fast as it reads, or with pauses between."""

    piece: bytes
    pause_s: float = 0


class Latency(NamedTuple):
    """A pause of the server's own: for latencies of milliseconds, where it is not the order of things that counts."""

    seconds: float


Act: TypeAlias = bytes | Gate | Forever | Latency | End
Answer: TypeAlias = Iterable[Act]


def head(status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """A status line and headers."""
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join([*lines, "", ""]).encode()


def whole(body: bytes | object, status: int = 200, headers: Mapping[str, str] | None = None) -> list[Act]:
    """A whole answer with its length; what is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    return [head(status, told | dict(headers or {})) + data]


def chunk(piece: bytes) -> bytes:
    """A piece of a body as one chunk of the transfer encoding."""
    return f"{len(piece):x}\r\n".encode() + piece + b"\r\n"


END: Final = b"0\r\n\r\n"
"""The chunk that ends a body."""


def stream(*acts: Act, headers: Mapping[str, str] | None = None, end: Iterable[Act] = (END,)) -> list[Act]:
    """A stream of server-sent events: each piece of bytes is one chunk, other acts are done in between."""
    body = [chunk(act) if isinstance(act, bytes) else _chunked(act) for act in acts]
    return [head(200, _CHUNKED | dict(headers or {})), *body, *end]


def _chunked(act: Act) -> Act:
    return act._replace(piece=chunk(act.piece)) if isinstance(act, Forever) else act


@dataclass
class Asked:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    at: int | None
    gone: Gate = field(default_factory=Gate)
    """Happens if the client goes while it is being answered."""

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


Reply: TypeAlias = Callable[[Asked], Answer]


class ModelServer:
    """The server: `with ModelServer(answer, answer) as server: ... server.url ...`."""

    def __init__(self, *answers: Answer, reply: Reply | None = None, now: Callable[[], int] | None = None) -> None:
        self._answers = iter(answers)
        self._reply = reply or self._next_answer
        self.now = now
        self.asked: list[Asked] = []
        self.connections = 0
        self.under_way = 0
        self.most_under_way = 0
        self.failure: BaseException | None = None
        self._came = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._open: set[_Connection] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model server", daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()
        if self.failure is not None and error is None:
            raise self.failure

    def wait_for(self, n: int) -> Asked:
        """Block until that many requests have come; the last of them."""
        with self._came:
            if not self._came.wait_for(lambda: len(self.asked) >= n, PATIENCE_S):
                msg = f"{len(self.asked)} requests came, not {n}"
                raise TimeoutError(msg)
        return self.asked[n - 1]

    def wait_until_left(self) -> None:
        """Block until no client has a connection open; an error if one keeps it."""

        async def everybody() -> None:
            async with asyncio.timeout(PATIENCE_S):
                for connection in list(self._open):
                    await connection.lost.wait()

        asyncio.run_coroutine_threadsafe(everybody(), self._loop).result()

    async def _listen(self) -> None:
        # 1,000 clients may come at once.
        self._server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=2000)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _hang_up(self) -> None:
        self._server.close()
        connections = list(self._open)
        tasks = [connection.task for connection in connections if connection.task is not None]
        for connection in connections:
            connection.end(RESET)
        await asyncio.gather(*tasks, *(connection.lost.wait() for connection in connections), return_exceptions=True)
        await self._server.wait_closed()

    def _next_answer(self, asked: Asked) -> Answer:
        answer = next(self._answers, None)
        if answer is None:
            msg = f"request {len(self.asked)} came, and the test has no answer to it: {asked.body[:500]!r}"
            raise AssertionError(msg)
        return answer

    def _come(self, asked: Asked) -> Answer:
        with self._came:
            self.asked.append(asked)
            self._came.notify_all()
        return self._reply(asked)


class _Connection(asyncio.Protocol):
    """One connection: requests are read and answered, one after another."""

    transport: asyncio.Transport

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.task: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()
        self._asked: Asked | None = None
        self._came = b""
        self._ended = False
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections += 1
        self.number = self.server.connections
        self.server._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server._open.discard(self)
        self.lost.set()
        if self._asked is not None and not self._ended:
            self._asked.gone.open()
        if self.task is not None:
            self.task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._came += data
        self._look()

    def end(self, how: End) -> None:
        """Close the connection, or break it off."""
        self._ended = True
        if how is CLOSE:
            self.transport.close()
            return
        plain = self.transport.get_extra_info("socket")
        if plain is not None and plain.fileno() >= 0:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _look(self) -> None:
        """Take up the next request if it is there and the one before was answered."""
        if self._asked is not None:
            return
        first, found, rest = self._came.partition(b"\r\n\r\n")
        if not found:
            return
        line, *lines = first.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._came = rest[length:]
        method, target, _ = line.split(" ")
        at = None if self.server.now is None else self.server.now()
        self._asked = Asked(method, target, headers, rest[:length], self.number, at)
        self.task = self.server._loop.create_task(self._answer(self._asked))

    async def _answer(self, asked: Asked) -> None:
        server = self.server
        server.under_way += 1
        server.most_under_way = max(server.most_under_way, server.under_way)
        try:
            for act in server._come(asked):
                if isinstance(act, End):
                    self.end(act)
                    return
                await self._do(act)
        except (AssertionError, Exception) as failure:  # noqa: BLE001 - raised again where the test ends
            server.failure = server.failure or failure
            self.end(RESET)
        finally:
            server.under_way -= 1
            self.task = None
        self._asked = None
        self._look()

    async def _do(self, act: Act) -> None:
        if isinstance(act, bytes):
            await self._write(act)
        elif isinstance(act, Gate):
            await act.passed()
        elif isinstance(act, Latency):
            await asyncio.sleep(act.seconds)
        elif isinstance(act, Forever):
            while True:
                await self._write(act.piece)
                await asyncio.sleep(act.pause_s)

    async def _write(self, data: bytes) -> None:
        await self._writable.wait()
        if not self.transport.is_closing():
            self.transport.write(data)


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port of the loopback interface that refuses connections: it is taken, and nobody listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """A port that neither accepts nor refuses connections: its queue is full, and nobody takes anyone from it."""
    with contextlib.ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listening.getsockname())
        yield listening.getsockname()[1]
