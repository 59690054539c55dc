"""Wire formats: how a request becomes bytes, and how what a server sends becomes a response. There is no I/O here.

A `Wire` knows one protocol and nothing of hosts, keys or retries. A `Decoder` is fed one server-sent event after
another and never raises: what servers send is data. It accounts for the usage in an event before it looks at anything
else there, so that a response which cannot be understood is still paid for in the record.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from boolab.core.types import Response
from boolab.models.base import Emit, Request


class Fault(NamedTuple):
    """What is wrong with what a server sent: for a person, and whether the same request may succeed later."""

    message: str
    retryable: bool = False
    status: int | None = None


class Decoder(Protocol):
    """A response in the making.

    Attributes:
        fault: What is wrong, once something is. Feeding goes on all the same, for the sake of the usage.
        begun: Whether any output has come: text, reasoning or a call.
        ended: Whether the provider has said all; what follows need not be read.
        cache_write_tokens: How many input tokens were written to the provider's cache, for which it may charge more;
            None where it is not known.
    """

    fault: Fault | None
    begun: bool
    ended: bool

    @property
    def cache_write_tokens(self) -> int | None: ...

    def feed(self, event: str, data: str) -> None:
        """Take in one server-sent event: its name (`message` where none was given), and its data."""
        ...

    def feed_whole(self, body: bytes) -> None:
        """Take in a JSON body that came in place of a stream: a whole response, or an error."""
        ...

    def close(self) -> Response | Fault:
        """The response, now that nothing more comes; or why it is none."""
        ...

    def partial(self) -> Response:
        """All that has come so far, with its usage. Arguments of calls are as they stand."""
        ...


class Wire(Protocol):
    """One protocol, with a model and its parameters."""

    @property
    def path(self) -> str:
        """Where requests go, under the base URL."""
        ...

    def body(self, request: Request) -> bytes:
        """The JSON body of a request for a stream. What an earlier request of the run held is not serialised again."""
        ...

    def decoder(self, emit: Emit | None = None, prefix: str = "call") -> Decoder:
        """What takes in the response to one request, and tells `emit` as it grows.

        Args:
            emit: Told of the response as it grows.
            prefix: How the ids begin of calls that the server sends without one; one for each request of a run.
        """
        ...

    def error_text(self, body: bytes) -> str:
        """The provider's own words in the body of an error; "" if there are none."""
        ...
