"""HTTP: the only module that uses httpx and httpx-sse.

`Endpoint.post` returns an `Answer`, whatever happened, and raises no exception of httpx: such an exception refers to
its request, which would show the key in every traceback with local variables.
"""

from __future__ import annotations

import asyncio
import functools
import math
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, NamedTuple, cast

import anyio
import httpx
from httpx_sse import EventSource
from pydantic import SecretStr

from boolab.errors import SettingError

MAX_BYTES: Final = 64 * 2**20
"""The longest response that is read, so that an endless one does not fill the memory."""
MAX_ERROR_BYTES: Final = 64 * 2**10
MAX_REQUESTS_PER_CLIENT: Final = 32
"""See `_Clients`."""
MAX_PORT: Final = 65_535
_KEEP_ALIVE_S: Final = 60.0
"""The time for which an idle connection is kept: tools run between two requests."""
_DROP_DELAY_S: Final = 1.0

Receive = Callable[[str, str], None]
"""Receives one server-sent event: its name, and its data."""


class Answer(NamedTuple):
    """The result of a request.

    `body` is set if the answer was not a stream of events. `fault` is the reason why the connection broke, or empty;
    `retryable` is whether another attempt may succeed.
    """

    status: int | None = None
    headers: Mapping[str, str] = {}
    body: bytes = b""
    streamed: bool = False
    fault: str = ""
    retryable: bool = True


class Endpoint:
    """The URL of requests, and the secrets that are sent only there: redirects are not followed.

    Each event loop has its own clients, because connections belong to a loop; they are closed with the loop. `connect`
    is the timeout for a connection, in seconds.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        secrets: Mapping[str, SecretStr],
        connect: float,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.url = httpx.URL(url)
        default_headers = {
            "user-agent": f"boolab/{version('boolab')}",
            "content-type": "application/json",
            "accept-encoding": "identity",  # compressed data arrives late, and may expand a thousand times
        }
        self._headers = default_headers | {name.lower(): value for name, value in headers.items()}
        self._auth = _Auth(self.url, secrets)
        self._timeout = httpx.Timeout(None, connect=None if math.isinf(connect) else connect)
        self._max_bytes = max_bytes
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = weakref.WeakKeyDictionary()

    async def post(self, body: bytes, receive: Receive, on_end: Callable[[], None] = lambda: None) -> Answer:
        """Post a JSON body, and read the answer to its end; a cancellation closes the connection.

        `on_end`: called when the whole answer is read. The pool's work that follows closes other connections too, and
        should not be interrupted.
        """
        status, headers, streamed = None, {}, False
        try:
            clients = await self._clients_of_loop()
            async with (
                clients.room() as client,
                client.stream("POST", self.url, content=body, headers=self._headers, auth=self._auth) as answer,
            ):
                answer.stream = _Watched(cast("httpx.AsyncByteStream", answer.stream), on_end)
                status, headers = answer.status_code, {name.lower(): value for name, value in answer.headers.items()}
                if not answer.is_success:
                    error_body = await _read_beginning(_iterate_bytes(answer)) if _is_safe_to_unpack(headers) else b""
                    return Answer(status, headers, error_body)
                if not _is_safe_to_unpack(headers):
                    packed = f"the response is packed as {headers['content-encoding']!r:.80}, which was not requested"
                    return Answer(status, headers, b"", streamed, packed, retryable=False)
                async with aclosing(_limit_bytes(answer, self._max_bytes)) as pieces:
                    first = await _first_text(pieces)
                    streamed = _is_stream(headers, first)
                    if not streamed:
                        return Answer(status, headers, first + b"".join([piece async for piece in pieces]))
                    await _read_events(first, pieces, receive)
        except _TooLongError:
            fault = f"the response is longer than {self._max_bytes:,} bytes"
            return Answer(status, headers, b"", streamed, fault, retryable=False)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            return Answer(status, headers, b"", streamed, self._describe(error), _is_temporary(error))
        except BaseException as error:  # noqa: BLE001 - a cancellation, or an unexpected error
            raise error.with_traceback(None)  # noqa: B904 - the headers are local variables of its traceback
        return Answer(status, headers, b"", streamed)

    def _describe(self, error: Exception) -> str:
        """Why a connection broke."""
        message = f"{type(error).__name__}: {error}".removesuffix(": ")
        origin = f"{self.url.scheme}://{self.url.netloc.decode('ascii')}"
        if "WRONG_VERSION_NUMBER" in message:
            return f"{origin} is not an https server: is it http://...?"
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return f"cannot connect to {origin}: is the server running there? ({message})"
        return f"the connection to {origin} broke ({message})"

    async def _clients_of_loop(self) -> _Clients:
        loop = asyncio.get_running_loop()
        opened = self._clients.get(loop)
        if opened is None:
            self._forget_closed_loops()
            clients = _Clients(self._timeout)
            closing = _close_with_the_loop(clients)
            # If the model is collected in a reference cycle, its open connections would be lost without this reference.
            finalizer = weakref.finalize(self, _drop_later, loop, closing)
            finalizer.atexit = False
            opened = self._clients[loop] = _Opened(clients, closing, finalizer)
            await anext(closing)
        return opened.clients

    def _forget_closed_loops(self) -> None:
        """A client's generator refers to its loop: neither would ever be freed."""
        for loop in (reference() for reference in self._clients.keyrefs()):
            if loop is not None and loop.is_closed():
                self._clients.pop(loop).finalizer.detach()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        opened = self._clients.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            opened.finalizer.detach()
            await opened.closing.aclose()


@dataclass(eq=False)
class _Client:
    """A client, its number of active requests, and whether it gets no more requests."""

    httpx: httpx.AsyncClient
    active: int = 0
    retired: bool = False


class _Clients:
    """The clients of one event loop.

    A client's pool inspects all of its connections whenever a request begins or ends. With a thousand requests that
    would be most of the work, so each client has few active requests, and there are more clients if necessary.

    If a request is cancelled between connecting and sending, the pool neither uses nor closes its connection (httpcore
    1.0.9; see the discussion of its pull request 1099). So a client with a cancelled request gets no more requests, and
    is closed with all its connections when its last one ends.
    """

    def __init__(self, timeout: httpx.Timeout) -> None:
        self._timeout = timeout
        self._clients: list[_Client] = []

    @asynccontextmanager
    async def room(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client for one request: the first that has room."""
        usable = (each for each in self._clients if each.active < MAX_REQUESTS_PER_CLIENT and not each.retired)
        client = next(usable, None) or self._add_client()
        client.active += 1
        try:
            yield client.httpx
        except asyncio.CancelledError:
            client.retired = True
            raise
        finally:
            client.active -= 1
            if client.retired and not client.active and client in self._clients:
                self._clients.remove(client)
                await _await_shielded(client.httpx.aclose())

    def _add_client(self) -> _Client:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEEP_ALIVE_S)
        client = _Client(httpx.AsyncClient(verify=_tls(), timeout=self._timeout, limits=limits))
        self._clients.append(client)
        return client

    async def aclose(self) -> None:
        """Close all connections."""
        while self._clients:
            await self._clients.pop().httpx.aclose()


async def _await_shielded(closing: Coroutine[Any, Any, None]) -> None:
    """Await a short task that a cancellation must not interrupt; a cancellation meanwhile is raised at its end."""
    work, interruption = asyncio.ensure_future(closing), None
    with anyio.CancelScope(shield=True):
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError as error:
                interruption = error
    work.result()
    if interruption is not None:
        raise interruption


class _Opened(NamedTuple):
    clients: _Clients
    closing: AsyncGenerator[None, None]
    finalizer: weakref.finalize[..., Any]


def _drop_later(loop: asyncio.AbstractEventLoop, closing: AsyncGenerator[None, None]) -> None:
    """Drop the reference to a generator after a delay.

    A loop that ends closes its remaining generators and waits for them. A loop that continues closes unreferenced
    generators without waiting: if it ended meanwhile, connections would stay open.
    """
    with suppress(RuntimeError):  # the loop is closed, and has closed its generators
        loop.call_soon_threadsafe(loop.call_later, _DROP_DELAY_S, lambda _: None, closing)


async def _close_with_the_loop(clients: _Clients) -> AsyncGenerator[None, None]:
    """Close clients when their event loop shuts down, since a loop then closes its generators."""
    try:
        yield
    finally:
        await clients.aclose()


@functools.cache
def _tls() -> ssl.SSLContext:
    """The TLS settings of all clients, cached because making them takes about 40 ms."""
    return httpx.create_ssl_context()


class _Auth(httpx.Auth):
    """Adds the secrets to a request to their own origin, just before it is sent."""

    def __init__(self, url: httpx.URL, secrets: Mapping[str, SecretStr]) -> None:
        self._origin = _origin(url)
        self._secrets = dict(secrets)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if _origin(request.url) == self._origin:
            for name, secret in self._secrets.items():
                request.headers[name] = secret.get_secret_value()
        yield request


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class _Watched(httpx.AsyncByteStream):
    """The stream of a response, with a callback at its end."""

    def __init__(self, stream: httpx.AsyncByteStream, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece
        self._on_end()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _TooLongError(Exception):
    """A response is too long."""


async def _limit_bytes(answer: httpx.Response, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """The unpacked bytes of a response, up to a length."""
    bytes_left = max_bytes
    async with aclosing(_iterate_bytes(answer)) as pieces:
        async for piece in pieces:
            bytes_left -= len(piece)
            if bytes_left < 0:
                raise _TooLongError
            yield piece


async def _first_text(pieces: AsyncGenerator[bytes, None]) -> bytes:
    """The bytes up to the first piece that is not blank."""
    first = bytearray()  # not bytes: a server may send megabytes of spaces in thousands of pieces
    async for piece in pieces:
        first += piece
        if not piece.isspace():
            break
    return bytes(first)


def _is_safe_to_unpack(headers: Mapping[str, str]) -> bool:
    """Whether a piece of the body expands at most a thousand times, as with deflate.

    Packed twice it may expand a million times, and Zstandard makes gigabytes of a piece, in memory before they can be
    counted.
    """
    return headers.get("content-encoding", "").strip().lower() in ("", "identity", "gzip", "deflate")


def _is_stream(headers: Mapping[str, str], first_piece: bytes) -> bool:
    """Whether an answer is a stream of events: by its type, unless it begins like JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("text/event-stream", "") and first_piece.lstrip()[:1] not in (b"{", b"[")


class _Body(httpx.AsyncByteStream):
    """A stream whose first piece was already read."""

    def __init__(self, first_piece: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        self._first_piece = first_piece
        self._rest = rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._first_piece
        async for piece in self._rest:
            yield piece


async def _read_events(first_piece: bytes, rest: AsyncGenerator[bytes, None], receive: Receive) -> None:
    # The server's type may be missing or name a charset. The standard has only UTF-8, perhaps with a byte order mark.
    body = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(first_piece, rest))
    body.encoding = "utf-8-sig"
    async with aclosing(EventSource(body).aiter_sse()) as events:
        async for event in events:
            if event.data:  # otherwise it is an id or a retry
                receive(event.event, event.data)


async def _read_beginning(body: AsyncGenerator[bytes, None]) -> bytes:
    """The beginning of an error's body."""
    read = b""
    async with aclosing(body) as pieces:
        async for piece in pieces:
            read += piece
            if len(read) > MAX_ERROR_BYTES:
                break
    return read[:MAX_ERROR_BYTES]


def _iterate_bytes(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    pieces: Any = answer.aiter_bytes()  # a generator, although its type does not show it
    return pieces  # type: ignore[no-any-return]


def _is_temporary(error: Exception) -> bool:
    """Whether the next attempt may succeed."""
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return False
    permanent = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER")
    return isinstance(error, httpx.TransportError) and not any(word in str(error) for word in permanent)


def check_base_url(base_url: object) -> httpx.URL:
    """The base URL of an API; a `SettingError` if it is not valid, or has what belongs into `api_key` or `headers`."""
    expected = "expected the address of an API, such as http://127.0.0.1:8000/v1"
    if not isinstance(base_url, str):
        msg = f"base_url={base_url!r}: {expected}"
        raise SettingError(msg)
    try:
        url = httpx.URL(base_url)
        host = url.host
    except (httpx.InvalidURL, UnicodeError) as error:
        msg = f"base_url: {error}; {expected}"
        raise SettingError(msg) from None
    if url.userinfo or url.query or url.fragment:
        msg = f"base_url has a user, a query or a fragment; {expected}, with the key in api_key="
        raise SettingError(msg)
    if url.scheme not in ("http", "https") or not host or (url.port or 0) > MAX_PORT:
        msg = f"base_url={base_url!r}: {expected}"
        raise SettingError(msg)
    return url
