"""The format of recordings: what a model was asked and what it said, as JSON Lines.

`boolab.models.recorded.recorder` writes them, `boolab.models.recorded.replay_file` plays them.

A recording is made where boolab meets a model (requests, responses, failures), so that no key and no header can get
into it. Each line is an object whose `kind` says what it is; fields that have their default are left out:

| kind        | what it holds                                                                                       |
|-------------|-----------------------------------------------------------------------------------------------------|
| `recording` | the first line: `version` of this format, `boolab`, the `model` and what it said of itself          |
| `message`   | a message and its `id`, which hashes it with the message `after` which it came: like a commit       |
| `tools`     | tools that were offered, and the `id` under which requests name them                                |
| `exchange`  | a request (which names its last message, and so all of them), and its response, failure or end      |

A message is written once, whatever number of requests and runs begin with it, so that a recording grows with what is
said and not with its square. A line is written whole and at once: whenever the process dies, at most the last is cut.
Times at which messages were made are no part of them here, since no model is told.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from boolab.core.codec import decode, dumps, encode
from boolab.core.types import Message, Response, StepStart, ToolResult
from boolab.errors import ReadWarning, RunFormatError
from boolab.io.files import read_file
from boolab.models.incremental import Growing
from boolab.tools.tool import ToolSpec

VERSION: Final = 1
"""The version of the format that is written, and the newest that is read."""

MAX_BYTES: Final = 4 * 2**30
"""The largest recording that is read: all of it is held in memory, several times as large."""

_LONGEST: Final = 2**53
"""The most milliseconds that a request can have taken: so that seconds are exact, and sums fit a column of integers."""

FIRST: Final = ""
"""The id of what stands before the first message."""


class Header(NamedTuple):
    """The first line: what wrote the recording, and what the model said of itself."""

    version: int
    boolab: str
    model: str
    context_window: int | None = None
    summarises: bool = True
    compacts: bool = True


class Said(NamedTuple):
    """A message, in the conversation that it continues."""

    id: str
    message: Message
    after: str = FIRST


class Tool(NamedTuple):
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Offer(NamedTuple):
    """The tools that were offered together."""

    id: str
    tools: tuple[Tool, ...]


class Failure(NamedTuple):
    """How a model failed to respond; `recorded` is how the record of a run has it. See `ModelError`."""

    message: str
    recorded: str
    status: int | None = None
    retryable: bool = False
    partial: Response | None = None


class Exchange(NamedTuple):
    """A request and what came of it, `ms` milliseconds later on the run's clock.

    `conversation` numbers the runs in the order in which they began. `after` is the id of the last message. If the
    request was `cancelled`, `response` is what had arrived, as far as anybody knows.
    """

    conversation: int
    index: int  # type: ignore[assignment] # as in Request
    after: str
    ms: int
    tools: str = ""
    purpose: Literal["step", "summary", "compaction"] = "step"
    tool_choice: Literal["auto", "none"] = "auto"
    temperature: float | None = None
    seed: int | None = None
    response: Response | None = None
    failure: Failure | None = None
    cancelled: bool = False


LINES: Final[dict[str, type[Said | Offer | Exchange]]] = {"message": Said, "tools": Offer, "exchange": Exchange}
"""What the lines after the first hold, by their kind."""


class _Link:
    """The end of a conversation that grows."""

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id = FIRST


class Chain:
    """Names conversations: the id of a message hashes it together with the id of the one before.

    Args:
        told: Called with each message that is hashed: each of a run's own list once.

    Example:
        >>> from boolab.core.types import Text
        >>> hello, bye = (Message("user", (Text(text),)) for text in ("Hello.", "Bye."))
        >>> chain = Chain()
        >>> chain([hello, bye]) == chain([bye, hello])
        False
    """

    def __init__(self, told: Callable[[Said], object] | None = None) -> None:
        self._told = told
        self._growing = Growing(_Link, self._add)

    def __call__(self, messages: Sequence[Message]) -> str:
        """The id of the last message: equal if and only if all messages are."""
        state, tail = self._growing(messages)
        last = state.id
        for message in tail:
            last = self._follow(last, message)
        return last

    def _add(self, state: _Link, message: Message) -> None:
        state.id = self._follow(state.id, message)

    def _follow(self, after: str, message: Message) -> str:
        said = linked(after, message)
        if self._told is not None:
            self._told(said)
        return said.id


def linked(after: str, message: Message) -> Said:
    """A message as a model is told of it, and its id.

    Args:
        after: The id of the message before it.
        message: The message.
    """
    parts = tuple(
        part._replace(duration_ms=None) if isinstance(part, ToolResult) else part
        for part in message.parts
        if not isinstance(part, StepStart)
    )
    told = Message(message.role, parts)
    digest = blake2b(after.encode() + dumps(encode(told, "a message")), digest_size=16)
    return Said(digest.hexdigest(), told, after)


def offer_of(tools: Sequence[ToolSpec]) -> Offer:
    """The tools of a request, and their id."""
    told = tuple(Tool(tool.name, tool.description, tool.parameters) for tool in tools)
    digest = blake2b(dumps(encode(told, "a tool")), digest_size=16)
    return Offer(digest.hexdigest() if told else "", told)


class Offers:
    """The ids of the tools of requests. A run offers the same tuple again and again, so the latest is remembered."""

    def __init__(self) -> None:
        self._latest: tuple[Sequence[ToolSpec], Offer] = ((), offer_of(()))

    def __call__(self, tools: Sequence[ToolSpec]) -> Offer:
        """The tools, and their id."""
        latest, offer = self._latest
        if tools is not latest:
            offer = offer_of(tools)
            self._latest = (tools, offer)
        return offer


class Recording(NamedTuple):
    """A recording that was read.

    Attributes:
        path: Its file.
        header: What its first line says.
        messages: Its messages by id.
        offers: What tools were offered, by id.
        exchanges: Requests and what came of them, in the order in which they ended.
    """

    path: Path
    header: Header
    messages: dict[str, Said]
    offers: dict[str, Offer]
    exchanges: list[Exchange]

    def conversation(self, last: str) -> list[Said]:
        """All messages up to the one with that id."""
        found = []
        while last != FIRST:
            found.append(self.messages[last])
            last = found[-1].after
        return found[::-1]


def read_recording(path: str | Path) -> Recording:
    """Read a recording. A last line that is cut is left out with a `ReadWarning`.

    Args:
        path: The file; `~` is expanded.

    Raises:
        RunFormatError: if it cannot be read, is no recording, of a newer version, or damaged.
    """
    path = Path(path).expanduser()
    try:
        data = read_file(path, MAX_BYTES)
    except OSError as error:
        msg = f"cannot be read: {error.strerror}"
        raise RunFormatError(msg, path=path) from error
    lines = _rows(path, data)
    recording = Recording(path, _header(path, next(lines, None)), {}, {}, [])
    for number, row in lines:
        try:
            _take(recording, row)
        except ValueError as error:
            raise RunFormatError(str(error), path=path, line=number) from None
    return recording


def _rows(path: Path, data: bytes) -> Iterator[tuple[int, Any]]:
    """The number and the value of each line."""
    number, start = 0, 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        number += 1
        try:
            yield number, json.loads(data[start:end])
        except (ValueError, RecursionError) as error:
            if number == 1 or data[end - 1 : end] == b"\n":
                msg = "no recording: its first line is no JSON" if number == 1 else f"not JSON: {error}"
                raise RunFormatError(msg, path=path, line=number) from None
            msg = f"{path}:{number}: the last line is cut; the rest is played"
            warnings.warn(msg, ReadWarning, stacklevel=2)
        start = end


def _header(path: Path, first: tuple[int, Any] | None) -> Header:
    row = {} if first is None else first[1]
    if not isinstance(row, dict) or row.get("kind") != "recording":
        msg = "no recording: its first line is not the one that bl.record writes"
        raise RunFormatError(msg, path=path, line=1)
    told = row.get("version")
    if type(told) is not int or not 1 <= told <= VERSION:
        msg = f"a recording of version {told!r}, by boolab {row.get('boolab')}; versions up to {VERSION} can be read"
        raise RunFormatError(msg, path=path, line=1)
    try:
        return decode(Header, {name: value for name, value in row.items() if name != "kind"})
    except ValueError as error:
        raise RunFormatError(str(error), path=path, line=1) from None


def _take(recording: Recording, row: object) -> None:
    """Put a line into its place."""
    kind = row.get("kind") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(kind, str) or kind not in LINES:
        msg = f"kind {kind!r:.80} is not one of {', '.join(LINES)}"
        raise ValueError(msg)
    line = decode(LINES[kind], {name: value for name, value in row.items() if name != "kind"})
    if isinstance(line, Offer):
        recording.offers[line.id] = line
        return
    if line.after != FIRST and line.after not in recording.messages:
        msg = f"the {kind} follows message {line.after!r:.80}, which is not there"
        raise ValueError(msg)
    if isinstance(line, Said):
        if recording.messages.setdefault(line.id, line) is not line or line.id == FIRST:
            msg = f"message {line.id!r:.80} is there already"  # and could come after itself
            raise ValueError(msg)
        return
    if line.tools and line.tools not in recording.offers:
        msg = f"the tools {line.tools!r:.80} are not there"
        raise ValueError(msg)
    if not 0 <= line.ms <= _LONGEST:
        msg = f"ms: {line.ms!r:.80} is no time of a request in milliseconds"
        raise ValueError(msg)
    if line.response is None and line.failure is None and not line.cancelled:
        msg = "an exchange without response, failure or cancellation"
        raise ValueError(msg)
    recording.exchanges.append(line)
