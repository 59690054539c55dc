r"""What both protocols share: JSON in both directions, numbers of usage, call ids, and texts that arrive in pieces.

Servers may split a text anywhere, even between two surrogates (`\ud83d` and its second half). Pairs are joined here; a
lone surrogate becomes U+FFFD, because UTF-8 has no form for it and providers refuse it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pydantic_core import from_json, to_json

from boolab.core.surrogates import whole_text
from boolab.core.types import JSON, MICRO, Response, ToolCall
from boolab.errors import SettingError
from boolab.io.checks import MAX_COUNT
from boolab.runtime.models.base import Emit, Request


def dump_json(value: JSON) -> bytes:
    """The JSON of a value in UTF-8; a `ValueError` for what is no JSON value."""
    try:
        return to_json(value, inf_nan_mode="null")
    except ValueError:  # a lone surrogate, or no JSON value
        return whole_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_refuse)).encode()


def _refuse(value: object) -> object:
    msg = f"{value!r} is no JSON value"
    raise ValueError(msg)


MIN_OUTPUT: Final = 1024
"""The shortest limit on a response that is set below the user's own: less seldom holds a call with its arguments."""


def output_range_of(longest: object, reasoning: int = 0) -> tuple[int, int] | None:
    """The range of limits on a response, from the user's limit; `reasoning`: the part that the model may think."""
    if type(longest) is not int or longest < 1:
        return None
    return min(longest, reasoning + MIN_OUTPUT), longest


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in a text, or None; lone surrogates are kept."""
    try:
        value = from_json(text)
    except (ValueError, TypeError):  # perhaps a lone surrogate, which Python's own parser accepts
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def as_count(value: object) -> int | None:
    """A number of usage: an integer >= 0 that a table can hold; None for anything else."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def micro_dollars(value: object) -> int | None:
    """A cost in dollars as integer micro-dollars; None if it is no valid cost."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * MICRO) if 0 <= value <= MAX_COUNT // MICRO else None


def check_parameters(parameters: Mapping[str, Any], refused: Collection[str]) -> None:
    """Raise `SettingError` for a parameter that boolab sets itself (`refused`), or that is no JSON."""
    for name, value in parameters.items():
        if name in refused:
            msg = f"parameter {name!r}: boolab sets it for each request, so it cannot be one of the parameters"
            raise SettingError(msg)
        try:
            json.dumps(value, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"parameter {name!r}: expected a JSON value, got {value!r} ({error})"
            raise SettingError(msg) from None


def assign_ids(calls: Sequence[ToolCall], prefix: str) -> tuple[ToolCall, ...]:
    """The calls of one response with unique ids, which results need to name their call."""
    used_ids: set[str] = set()
    calls_with_ids = []
    for number, call in enumerate(calls, 1):
        unique = call.id or f"{prefix}_{number}"
        while unique in used_ids:
            unique += f"_{number}"
        used_ids.add(unique)
        calls_with_ids.append(call if unique == call.id else call._replace(id=unique))
    return tuple(calls_with_ids)


class Pieces:
    """A text that arrives in pieces."""

    __slots__ = ("_half", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        """Add one piece; return what can be shown now, without a first surrogate that waits for its second."""
        if not piece.isascii() or self._half:
            piece, self._half = self._half + piece, ""
            if "\ud800" <= piece[-1:] <= "\udbff":
                piece, self._half = piece[:-1], piece[-1]
            piece = whole_text(piece)
        if piece:
            self._pieces.append(piece)
        return piece

    def text(self) -> str:
        """The whole text."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return "".join(self._pieces) + whole_text(self._half)


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
        has_output: Whether any output has arrived: text, reasoning or a call.
        ended: Whether the response is complete; what follows need not be read.
        cache_write_tokens: The input tokens that were written to the provider's cache, which may have another price;
            None if unknown.
    """

    def __init__(self, emit: Emit | None, prefix: str) -> None:
        self.fault: Fault | None = None
        self.has_output = False
        self.ended = False
        self.cache_write_tokens: int | None = 0
        self._emit = emit
        self._call_id_prefix = prefix

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
    def partial_response(self) -> Response:
        """What has arrived so far, with its usage; the arguments of calls may be incomplete."""

    def _fail(self, fault: Fault) -> None:
        self.fault = self.fault or fault

    def _add(self, kind: str, pieces: Pieces, piece: str) -> None:
        """Add a piece of `text` or `reasoning`."""
        if piece:
            self.has_output = True
            text = pieces.add(piece)
            if text and self._emit is not None:
                self._emit(kind, text)

    def _emit_call(self, call: ToolCall) -> None:
        if self._emit is not None:
            self._emit("tool_call", f"{call.name} {call.arguments}")


class Wire(Protocol):
    """One protocol, with a model and its parameters."""

    @property
    def path(self) -> str:
        """The path of requests, below the base URL."""
        ...

    @property
    def output_range(self) -> tuple[int, int] | None:
        """The fewest tokens to which a response may be limited, and the limit by the parameters; None without one."""
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

    def ignored_parameter(self, request: Request, response: Response) -> str:
        """The parameter of a request that a server seems to have ignored, by its response; "" if there is none."""
        ...
