"""HTTP: the one module that knows httpx and httpx-sse.

What a network does is data here: `Endpoint.post` gives an `Answer`, whatever happened, and raises nothing of httpx's.
An exception of httpx carries its request, and with it the key, into every traceback that shows local variables.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import aclosing
from importlib.metadata import version
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import httpx
from httpx_sse import EventSource
from pydantic import SecretStr

from boolab.errors import SettingError

MOST_BYTES: Final = 64 * 2**20
"""The longest response that is read: a server that never ends must not fill the memory."""
MOST_OF_AN_ERROR: Final = 64 * 2**10

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
    """Where requests are posted, and the secrets that go along: to this place and, since redirects are not followed,
    to no other.

    One client serves each event loop, because connections belong to a loop; it is closed when the loop is.

    Args:
        url: The whole URL.
        headers: Headers that hold no secrets.
        secrets: Headers that do.
        connect: How long to wait for a connection, in seconds.
        most_bytes: The longest response that is read.
    """  # noqa: D205 - one sentence

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        secrets: Mapping[str, SecretStr],
        connect: float,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.url = httpx.URL(url)
        self._headers = {"user-agent": f"boolab/{version('boolab')}", "content-type": "application/json", **headers}
        self._auth = _Auth(self.url, secrets)
        self._timeout = httpx.Timeout(None, connect=connect)
        self._most_bytes = most_bytes
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Client] = WeakKeyDictionary()

    async def post(self, body: bytes, hear: Hear) -> Answer:
        """Post a body, and listen to the answer until it ends.

        Args:
            body: JSON.
            hear: Is told each event of an answer that is a stream of them.

        Returns:
            What became of it.

        Raises:
            asyncio.CancelledError: if the task was cancelled; the connection is closed then.
        """
        status, headers, streamed = None, {}, False
        try:
            client = await self._client()
            async with client.stream("POST", self.url, content=body, headers=self._headers, auth=self._auth) as answer:
                status, headers = answer.status_code, {name.lower(): value for name, value in answer.headers.items()}
                kind = headers.get("content-type", "").partition(";")[0].strip().lower()
                streamed = answer.is_success and kind in ("text/event-stream", "")
                if not streamed:
                    most = self._most_bytes if answer.is_success else MOST_OF_AN_ERROR
                    return Answer(status, headers, await _read(answer, most))
                await _listen(answer, hear, self._most_bytes)
        except _TooLongError:
            broken = f"the response is longer than {self._most_bytes:,} bytes"
            return Answer(status, headers, b"", streamed, broken, worth_retrying=False)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            return Answer(status, headers, b"", streamed, self._told(error), _may_pass(error))
        return Answer(status, headers, b"", streamed)

    def _told(self, error: Exception) -> str:
        """What broke a connection, in words."""
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        where = f"{self.url.scheme}://{self.url.netloc.decode('ascii')}"
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return f"cannot connect to {where} ({what})"
        return f"the connection to {where} broke ({what})"

    async def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        known = self._clients.get(loop)
        if known is None:
            client = httpx.AsyncClient(
                verify=_tls(),
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            )
            closing = _close_with_the_loop(client)
            known = self._clients[loop] = _Client(client, closing)
            await anext(closing)
        return known.client

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        known = self._clients.pop(asyncio.get_running_loop(), None)
        if known is not None:
            await known.closing.aclose()


class _Client(NamedTuple):
    client: httpx.AsyncClient
    closing: AsyncGenerator[None, None]


async def _close_with_the_loop(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Close a client when its event loop shuts down: a loop closes the generators that were begun in it."""
    try:
        yield
    finally:
        await client.aclose()


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


class _TooLongError(Exception):
    """A response is longer than what is read."""


class _Counted(httpx.AsyncByteStream):
    """The bytes of a response, up to a length."""

    def __init__(self, stream: httpx.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise _TooLongError
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _listen(answer: httpx.Response, hear: Hear, most: int) -> None:
    answer.encoding = "utf-8"  # the standard knows no other for streams of events, whatever the header says
    answer.headers["content-type"] = "text/event-stream"  # it may be missing, which httpx-sse does not forgive
    answer.stream = _Counted(_stream(answer), most)
    async with aclosing(EventSource(answer).aiter_sse()) as events:
        async for event in events:
            if event.data:  # without any, it is an id or a retry
                hear(event.event, event.data)


async def _read(answer: httpx.Response, most: int) -> bytes:
    """A body; of an error's, the beginning."""
    pieces, size = [], 0
    async with aclosing(_pieces(answer)) as body:
        async for piece in body:
            pieces.append(piece)
            size += len(piece)
            if size > most:
                if answer.is_success:
                    raise _TooLongError
                break
    return b"".join(pieces)[:most]


def _pieces(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    pieces: Any = answer.aiter_bytes()  # a generator, though its type does not say so
    return pieces  # type: ignore[no-any-return]


def _stream(answer: httpx.Response) -> httpx.AsyncByteStream:
    assert isinstance(answer.stream, httpx.AsyncByteStream)  # noqa: S101 - of an asynchronous client
    return answer.stream


def _may_pass(error: Exception) -> bool:
    """Whether what broke a connection may be gone at the next attempt."""
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return False
    return isinstance(error, httpx.TransportError) and "CERTIFICATE_VERIFY_FAILED" not in str(error)


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
    except httpx.InvalidURL as error:
        msg = f"base_url: {error}; {expected}"
        raise SettingError(msg) from None
    if url.userinfo or url.query or url.fragment:
        msg = f"base_url holds a user, a query or a fragment; {expected}, with the key in api_key="
        raise SettingError(msg)
    if url.scheme not in ("http", "https") or not url.host:
        msg = f"base_url={base_url!r}: {expected}"
        raise SettingError(msg)
    return url
