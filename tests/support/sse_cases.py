"""Streams of server-sent events for tests: how a body is cut into chunks, and what a decoder makes of them."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import httpx
from httpx_sse import EventSource

from boolab.runtime.models.remote.protocol import Decoder
from tests.support.project import ROOT

BODIES = ROOT / "tests" / "runtime" / "models" / "remote" / "sse"
D = TypeVar("D", bound=Decoder)


def body(name: str) -> bytes:
    """A body of tests/runtime/models/remote/sse, byte for byte."""
    return (BODIES / name).read_bytes()


def heard(decoder: D, chunks: Iterable[bytes]) -> D:
    """Feed a decoder with what httpx and httpx-sse make of a stream that comes in these chunks."""
    answer = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=iter(chunks))
    for event in EventSource(answer).iter_sse():
        if event.data:
            decoder.feed(event.event, event.data)
    return decoder


def with_crlf(stream: bytes) -> bytes:
    """The same stream with the line ends of HTTP."""
    return stream.replace(b"\n", b"\r\n")


def in_bytes(stream: bytes) -> list[bytes]:
    """A stream in chunks of one byte."""
    return [stream[i : i + 1] for i in range(len(stream))]


def cut_everywhere(stream: bytes) -> Iterator[tuple[bytes, bytes]]:
    """A stream in two chunks, for each place where it can be cut."""
    return ((stream[:i], stream[i:]) for i in range(1, len(stream)))


def sse(events: Iterable[Any], *, named: Callable[[Any], str] | None = None) -> bytes:
    """A stream of JSON events, each with a name if `named` gives it one; text is escaped."""
    lines = []
    for event in events:
        if named is not None:
            lines.append(f"event: {named(event)}")
        lines += [f"data: {json.dumps(event)}", ""]
    return "\n".join([*lines, ""]).encode()
