"""HTTP: the one module that knows httpx and httpx-sse.

What a network does is data here: `Endpoint.post` gives an `Answer`, whatever happened, and raises nothing of httpx's.
An exception of httpx carries its request, and with it the key, into every traceback that shows local variables.
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

MOST_BYTES: Final = 64 * 2**20
"""The longest response that is read: a server that never ends must not fill the memory."""
REQUESTS_PER_CLIENT: Final = 32
"""How many requests a client has under way at most; see `_Clients`."""
_KEPT_S: Final = 60.0
"""How long a connection is kept for the next step: tools take their time."""
_LINGER_S: Final = 1.0
MOST_OF_AN_ERROR: Final = 64 * 2**10

_LAST_PORT: Final = 65_535

Hear = Callable[[str, str], None]
"""Receives one server-sent event: its name, and its data."""


class Answer(NamedTuple):
    """What became of a request.

    `body` is there where the answer was no stream of events. `broken` says what broke the connection, or is empty;
    `worth_retrying` whether another attempt may fare better.
    """

    status: int | None = None
    headers: Mapping[str, str] = {}
    body: bytes = b""
    streamed: bool = False
    broken: str = ""
    worth_retrying: bool = True


class Endpoint:
    """Where requests are posted, and the secrets that go there alone: redirects are not followed.

    Each event loop has clients of its own, because connections belong to a loop; they are closed when the loop is.

    Args:
        url: The whole URL.
        headers: Headers that hold no secrets.
        secrets: Headers that do.
        connect: How long to wait for a connection, in seconds.
        most_bytes: The longest response that is read.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        secrets: Mapping[str, SecretStr],
        connect: float,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.url = httpx.URL(url)
        own = {
            "user-agent": f"boolab/{version('boolab')}",
            "content-type": "application/json",
            "accept-encoding": "identity",  # what is compressed comes late, and may be a thousand times as long
        }
        self._headers = own | {name.lower(): value for name, value in headers.items()}
        self._auth = _Auth(self.url, secrets)
        self._timeout = httpx.Timeout(None, connect=None if math.isinf(connect) else connect)
        self._most_bytes = most_bytes
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = weakref.WeakKeyDictionary()

    async def post(self, body: bytes, hear: Hear, over: Callable[[], None] = lambda: None) -> Answer:
        """Post a body, and listen to the answer until it ends.

        Args:
            body: JSON.
            hear: Is told each event of an answer that is a stream of them.
            over: Is told when all of the answer has been read. What follows is the pool's own work, which closes other
                connections too and should not be cut short.

        Returns:
            What became of it.

        Raises:
            asyncio.CancelledError: if the task was cancelled; the connection is closed then.
        """
        status, headers, streamed = None, {}, False
        try:
            clients = await self._clients_here()
            async with (
                clients.room() as client,
                client.stream("POST", self.url, content=body, headers=self._headers, auth=self._auth) as answer,
            ):
                answer.stream = _Watched(cast("httpx.AsyncByteStream", answer.stream), over)
                status, headers = answer.status_code, {name.lower(): value for name, value in answer.headers.items()}
                if not answer.is_success:
                    told = await _beginning(_pieces(answer)) if _unpacks_within_bounds(headers) else b""
                    return Answer(status, headers, told)
                if not _unpacks_within_bounds(headers):
                    packed = f"the response is packed as {headers['content-encoding']!r:.80}, which was not asked for"
                    return Answer(status, headers, b"", streamed, packed, worth_retrying=False)
                async with aclosing(_counted(answer, self._most_bytes)) as pieces:
                    first = await _first_words(pieces)
                    streamed = _is_stream(headers, first)
                    if not streamed:
                        return Answer(status, headers, first + b"".join([piece async for piece in pieces]))
                    await _listen(first, pieces, hear)
        except _TooLongError:
            broken = f"the response is longer than {self._most_bytes:,} bytes"
            return Answer(status, headers, b"", streamed, broken, worth_retrying=False)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            return Answer(status, headers, b"", streamed, self._told(error), _may_pass(error))
        except BaseException as error:  # noqa: BLE001 - a cancellation, and what nobody expects
            raise error.with_traceback(None)  # noqa: B904 - where it comes from, the headers are local variables
        return Answer(status, headers, b"", streamed)

    def _told(self, error: Exception) -> str:
        """What broke a connection, in words."""
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        where = f"{self.url.scheme}://{self.url.netloc.decode('ascii')}"
        if "WRONG_VERSION_NUMBER" in what:
            return f"{where} does not speak https: is it http://...?"
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return f"cannot connect to {where}: is the server running there? ({what})"
        return f"the connection to {where} broke ({what})"

    async def _clients_here(self) -> _Clients:
        loop = asyncio.get_running_loop()
        known = self._clients.get(loop)
        if known is None:
            self._forget_closed_loops()
            clients = _Clients(self._timeout)
            closing = _close_with_the_loop(clients)
            # A model that is collected in a circle would take the open connections along: they are held from outside.
            held = weakref.finalize(self, _let_go, loop, closing)
            held.atexit = False
            known = self._clients[loop] = _Opened(clients, closing, held)
            await anext(closing)
        return known.clients

    def _forget_closed_loops(self) -> None:
        """A client's generator holds its loop, so that neither would ever be freed."""
        for loop in (known() for known in self._clients.keyrefs()):
            if loop is not None and loop.is_closed():
                self._clients.pop(loop).held.detach()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        known = self._clients.pop(asyncio.get_running_loop(), None)
        if known is not None:
            known.held.detach()
            await known.closing.aclose()


@dataclass(eq=False)
class _Client:
    """A client, how many requests it has under way, and whether it is to get no more."""

    httpx: httpx.AsyncClient
    under_way: int = 0
    retired: bool = False


class _Clients:
    """The clients of one event loop.

    The pool of a client looks at all of its connections whenever a request begins or ends: with a thousand at once that
    would be most of the work. So each client has few requests under way, and there are more clients where need be.

    A pool that a cancellation meets between connecting and sending keeps the connection open, and never uses or closes
    it (httpcore 1.0.9; see the discussion of its pull request 1099). So a client that had a request cancelled gets no
    more of them, and is closed with all that it holds when the last one ends.
    """

    def __init__(self, timeout: httpx.Timeout) -> None:
        self._timeout = timeout
        self._clients: list[_Client] = []

    @asynccontextmanager
    async def room(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client for one request: the first that has room."""
        having = (one for one in self._clients if one.under_way < REQUESTS_PER_CLIENT and not one.retired)
        client = next(having, None) or self._another()
        client.under_way += 1
        try:
            yield client.httpx
        except asyncio.CancelledError:
            client.retired = True
            raise
        finally:
            client.under_way -= 1
            if client.retired and not client.under_way and client in self._clients:
                self._clients.remove(client)
                await _to_its_end(client.httpx.aclose())

    def _another(self) -> _Client:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEPT_S)
        client = _Client(httpx.AsyncClient(verify=_tls(), timeout=self._timeout, limits=limits))
        self._clients.append(client)
        return client

    async def aclose(self) -> None:
        """Close all connections."""
        while self._clients:
            await self._clients.pop().httpx.aclose()


async def _to_its_end(closing: Coroutine[Any, Any, None]) -> None:
    """Await what takes no longer than some turns of the event loop, and must not be cut short by a cancellation.

    Raises:
        asyncio.CancelledError: if one came meanwhile.
    """
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
    held: weakref.finalize[..., Any]


def _let_go(loop: asyncio.AbstractEventLoop, closing: AsyncGenerator[None, None]) -> None:
    """Drop a generator, but not at once.

    A loop that ends closes the generators that are left, and waits for it. A loop that goes on closes those that nobody
    holds, and does not wait: if it ended meanwhile, connections would be left open.
    """
    with suppress(RuntimeError):  # the loop is closed, and has closed them
        loop.call_soon_threadsafe(loop.call_later, _LINGER_S, _drop, closing)


def _drop(_closing: AsyncGenerator[None, None]) -> None:
    """Nothing: whoever calls this held it."""


async def _close_with_the_loop(clients: _Clients) -> AsyncGenerator[None, None]:
    """Close clients when their event loop shuts down: a loop closes the generators that were begun in it."""
    try:
        yield
    finally:
        await clients.aclose()


@functools.cache
def _tls() -> ssl.SSLContext:
    """What all clients trust; it takes some 40 ms to make."""
    return httpx.create_ssl_context()


class _Auth(httpx.Auth):
    """Puts the secrets on a request, just before it is sent, if it goes where they belong."""

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
    """The stream of a response, which tells when it is read to its end."""

    def __init__(self, stream: httpx.AsyncByteStream, over: Callable[[], None]) -> None:
        self._stream = stream
        self._over = over

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece
        self._over()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _TooLongError(Exception):
    """A response is longer than what is read."""


async def _counted(answer: httpx.Response, most: int) -> AsyncGenerator[bytes, None]:
    """The bytes of a response, up to a length, as they are once they are unpacked."""
    async with aclosing(_pieces(answer)) as pieces:
        async for piece in pieces:
            most -= len(piece)
            if most < 0:
                raise _TooLongError
            yield piece


async def _first_words(pieces: AsyncGenerator[bytes, None]) -> bytes:
    """The bytes up to the first that are more than space."""
    first = bytearray()  # not bytes: a server may send megabytes of spaces, in thousands of pieces
    async for piece in pieces:
        first += piece
        if not piece.isspace():
            break
    return bytes(first)


def _unpacks_within_bounds(headers: Mapping[str, str]) -> bool:
    """Whether a piece of the body is at most a thousand times as long when unpacked, as deflate's are.

    Packed twice, it may be a million times as long, and Zstandard alone makes gigabytes of a piece: in memory before
    anything can be counted.
    """
    return headers.get("content-encoding", "").strip().lower() in ("", "identity", "gzip", "deflate")


def _is_stream(headers: Mapping[str, str], first: bytes) -> bool:
    """Whether an answer is a stream of events: by its type, unless it begins as no stream does, but JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("text/event-stream", "") and first.lstrip()[:1] not in (b"{", b"[")


class _Body(httpx.AsyncByteStream):
    """A stream of which the beginning was read already."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        self._first = first
        self._rest = rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._first
        async for piece in self._rest:
            yield piece


async def _listen(first: bytes, rest: AsyncGenerator[bytes, None], hear: Hear) -> None:
    # The server's type may be missing or name a charset. The standard knows UTF-8 alone, which may begin with a mark.
    body = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(first, rest))
    body.encoding = "utf-8-sig"
    async with aclosing(EventSource(body).aiter_sse()) as events:
        async for event in events:
            if event.data:  # without any, it is an id or a retry
                hear(event.event, event.data)


async def _beginning(body: AsyncGenerator[bytes, None]) -> bytes:
    """As much of an error as is read."""
    read = b""
    async with aclosing(body) as pieces:
        async for piece in pieces:
            read += piece
            if len(read) > MOST_OF_AN_ERROR:
                break
    return read[:MOST_OF_AN_ERROR]


def _pieces(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    pieces: Any = answer.aiter_bytes()  # a generator, though its type does not say so
    return pieces  # type: ignore[no-any-return]


def _may_pass(error: Exception) -> bool:
    """Whether what broke a connection may be gone at the next attempt."""
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return False
    hopeless = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER")
    return isinstance(error, httpx.TransportError) and not any(word in str(error) for word in hopeless)


def checked_base_url(base_url: object) -> httpx.URL:
    """The base URL of an API.

    Raises:
        SettingError: if it is none, or holds what belongs into `api_key` or `headers`.

    Example:
        >>> checked_base_url("http://127.0.0.1:8000/v1").host
        '127.0.0.1'
    """
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
        msg = f"base_url holds a user, a query or a fragment; {expected}, with the key in api_key="
        raise SettingError(msg)
    if url.scheme not in ("http", "https") or not host or (url.port or 0) > _LAST_PORT:
        msg = f"base_url={base_url!r}: {expected}"
        raise SettingError(msg)
    return url
