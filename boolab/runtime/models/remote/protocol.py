"""What a provider's modules implement: a request becomes bytes, and server-sent events become a response. No I/O.

A `Wire` knows one protocol, but no hosts, keys or retries. A `Decoder` receives one event after another and never
raises: whatever a server sends is data. It counts the usage in an event before it reads the rest, so a response that
cannot be decoded is paid for in the record too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

from boolab.core.types import Response, ToolCall
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.models.remote.json_codec import Pieces


class Fault(NamedTuple):
    """What is wrong with a server's answer, and whether the same request may succeed later."""

    message: str
    retryable: bool = False
    status: int | None = None


class Decoder(ABC):
    """Decodes one response.

    Args:
        emit: Receives text and reasoning as they arrive, and each call when it is complete.
        prefix: The beginning of the ids of calls that the server sends without an id.

    Attributes:
        fault: The first fault. Further events are still read, because they may contain the usage.
        begun: Whether any output has arrived: text, reasoning or a call.
        ended: Whether the response is complete; what follows need not be read.
        cache_write_tokens: The input tokens that were written to the provider's cache, which may have another price;
            None if unknown.
    """

    def __init__(self, emit: Emit | None, prefix: str) -> None:
        self.fault: Fault | None = None
        self.begun = False
        self.ended = False
        self.cache_write_tokens: int | None = 0
        self._emit = emit
        self._prefix = prefix

    @abstractmethod
    def feed(self, event: str, data: str) -> None:
        """Read one server-sent event: its name (`message` by default), and its data."""

    @abstractmethod
    def feed_whole(self, body: bytes) -> None:
        """Read a JSON body that came instead of a stream: a whole response, or an error."""

    @abstractmethod
    def close(self) -> Response | Fault:
        """The complete response, or what is wrong with it."""

    @abstractmethod
    def partial(self) -> Response:
        """What has arrived so far, with its usage; the arguments of calls may be incomplete."""

    def _fail(self, fault: Fault) -> None:
        self.fault = self.fault or fault

    def _add(self, kind: str, pieces: Pieces, piece: str) -> None:
        """Add a piece of `text` or `reasoning`."""
        if piece:
            self.begun = True
            shown = pieces.add(piece)
            if shown and self._emit is not None:
                self._emit(kind, shown)

    def _emit_call(self, call: ToolCall) -> None:
        if self._emit is not None:
            self._emit("tool_call", f"{call.name} {call.arguments}")


class Wire(Protocol):
    """One protocol, with a model and its parameters."""

    @property
    def path(self) -> str:
        """The path of requests, below the base URL."""
        ...

    def body(self, request: Request) -> bytes:
        """The JSON body of a streaming request. Messages of the run's earlier requests are not serialised again."""
        ...

    def decoder(self, emit: Emit | None = None, prefix: str = "call") -> Decoder:
        """The decoder of the response to one request; `prefix` must be unique in the run."""
        ...

    def error_text(self, body: bytes) -> str:
        """The provider's message in the body of an error; "" if there is none."""
        ...
