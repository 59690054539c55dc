"""What servers send: streams of events, as the decoders hear them; and whole answers, from a real server."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.messages import Message, Text, response_message
from boolab.core.types import Response
from boolab.runtime.models.base import Request, validate_response
from boolab.runtime.models.remote.anthropic_request import Messages
from boolab.runtime.models.remote.model import RemoteModel
from boolab.runtime.models.remote.openai_request import ChatCompletions
from boolab.runtime.models.remote.protocol import Fault, Wire
from boolab.runtime.models.remote.transport import _read_events
from tests.fuzz.contract import BrokenError
from tests.fuzz.mutation import events, http_answer
from tests.fuzz.target import Act, Target
from tests.support.model_server import CLOSE, Asked, ModelServer
from tests.support.project import ROOT

BODIES: Final = ROOT / "tests" / "runtime" / "models" / "remote" / "sse"
_HELLO: Final = Message("user", (Text("Hello."),))
_WAIT: Final = bl.models.Timeouts(connect=5, first_token=5, between=5, whole=5)


def wire_targets() -> Iterator[Target]:
    """The decoder of each protocol, and the client of both."""
    yield Target(
        "chat_stream", _decoding(ChatCompletions("m", {})), lambda: _bodies(("openai", "llama_cpp")), events, head=1
    )
    yield Target("anthropic_stream", _decoding(Messages("m", {})), lambda: _bodies(("anthropic",)), events, head=1)
    yield Target("http", _asking, _answers, http_answer, (b"\r\n\r\n", b"0\r\n\r\n", b"data: [DONE]\n\n"), head=1)


def _bodies(protocols: tuple[str, ...]) -> list[bytes]:
    """Bodies of streams, cut into pieces of several sizes."""
    found = [path.read_bytes() for path in sorted(BODIES.glob("*.txt")) if path.name.startswith(protocols)]
    return [bytes((n % 3,)) + body for n, body in enumerate(found)]


def _answers() -> list[bytes]:
    made = []
    for protocol in ("openai", "anthropic"):
        for body in _bodies((protocol,)):
            kind = b"application/json" if body[1:2] == b"{" else b"text/event-stream"
            head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind, len(body) - 1)
            made.append(bytes((protocol == "anthropic",)) + head + body[1:])
    error = b'{"error": {"message": "Too many.", "type": "rate_limit_error", "code": 429}}'
    made.append(b"\0HTTP/1.1 429 X\r\nRetry-After: 2\r\nContent-Length: %d\r\n\r\n%b" % (len(error), error))
    return made


def _decoding(wire: Wire) -> Callable[[Path], AbstractContextManager[Act]]:
    @contextmanager
    def opened(_folder: Path) -> Iterator[Act]:
        with asyncio.Runner() as runner:

            def act(data: bytes) -> None:
                runner.run(_decoded(wire, data[:1], data[1:]))

            yield act

    return opened


async def _decoded(wire: Wire, head: bytes, body: bytes) -> None:
    size = (len(body) or 1, 7, 64)[(head or b"\0")[0] % 3]

    async def pieces() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    said: list[tuple[str, str]] = []
    stream = wire.decoder(lambda of, delta: said.append((of, delta)))
    await _read_events(b"", pieces(), stream.feed)
    _check(wire, stream.close(), stream.partial_response())
    whole = wire.decoder()
    whole.feed_whole(body)
    _check(wire, whole.close(), whole.partial_response())
    wire.error_text(body).encode()


def _check(wire: Wire, closed: Response | Fault, partial: Response) -> None:
    if wrong := validate_response(partial):
        raise BrokenError(f"no proper response: {wrong}")
    if isinstance(closed, Response) and closed != partial:
        raise BrokenError("the response is not what had come")
    if isinstance(closed, Fault) and not closed.message:
        raise BrokenError("a fault without words")
    ids = [call.id for call in partial.tool_calls]
    if len(set(ids)) != len(ids):
        raise BrokenError("two calls have the same id")
    repr(closed)
    asked = Request(1, [_HELLO, response_message(1, None, partial)], (), VirtualClock())
    json.loads(wire.body(asked))


@contextmanager
def _asking(_folder: Path) -> Iterator[Act]:
    answer = b""

    def reply(_asked: Asked) -> list[object]:
        return [answer, CLOSE]

    with ModelServer(reply=reply) as server, asyncio.Runner() as runner:  # type: ignore[arg-type] # acts of two kinds
        common = {"base_url": server.url, "retry": bl.models.Retry(attempts=1), "timeouts": _WAIT, "prices": False}
        models = [
            bl.OpenAIModel("m", **common),  # type: ignore[arg-type] # each of its own type
            bl.AnthropicModel("m", **common),  # type: ignore[arg-type] # as above
        ]

        def act(data: bytes) -> None:
            nonlocal answer
            answer = data[1:]
            server.asked.clear()
            model = models[(data or b"\0")[0] % 2]
            response = runner.run(model.respond(Request(0, [_HELLO], (), VirtualClock())))
            if wrong := validate_response(response):
                raise BrokenError(f"no proper response: {wrong}")

        try:
            yield act
        finally:
            with suppress(RuntimeError):
                runner.run(_closed(models))


async def _closed(models: Sequence[RemoteModel]) -> None:
    for model in models:
        await model.aclose()
