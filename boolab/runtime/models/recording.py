"""The format of recordings: the requests to a model and their responses, as JSON Lines; docs/recordings.md explains it.

`recorder` writes recordings, `recorded` replays them. A recording contains requests, responses and failures; keys
and headers are never part of it. Each line is an object with a `kind`; fields with their default are left out:

| kind        | content                                                                                             |
|-------------|-----------------------------------------------------------------------------------------------------|
| `recording` | the first line: `version` of this format, `boolab`, the `model` and its attributes                  |
| `message`   | a message and its `id`, a hash of it and of the id of the message before it (`after`)               |
| `tools`     | the tools of a request, and their `id`                                                              |
| `exchange`  | a request (with the id of its last message, which identifies all), and its response or failure      |

A message is written once, however many requests and runs begin with it, so a recording grows linearly. Each line is
written at once: if the process dies, at most the last line is incomplete. Messages have no times, since a model does
not see them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from boolab.core.caller import warn
from boolab.core.codec import decode, dumps, encode
from boolab.core.context import Growing
from boolab.core.messages import Message, StepStart
from boolab.core.types import Response, ToolResult
from boolab.errors import ReadWarning, RunFormatError
from boolab.io.files import read_file, user_path
from boolab.runtime.tools.tool import ToolSpec

VERSION: Final = 1
"""The version of new recordings, and the newest that can be read."""
MAX_BYTES: Final = 4 * 2**30
"""The largest recording that is read: in memory it is several times as large."""
MAX_MS: Final = 2**53
"""The longest time of a request: seconds are exact up to it, and sums fit a column of integers."""
FIRST: Final = ""
"""The `after` of the first message."""


class Header(NamedTuple):
    """The first line: the version of boolab, and the model's attributes."""

    version: int
    boolab: str
    model: str
    context_window: int | None = None
    summarises: bool = True
    compacts: bool = True


class Link(NamedTuple):
    """A message in its conversation."""

    id: str
    message: Message
    after: str = FIRST


class RecordedTool(NamedTuple):
    """A tool, as in a request."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Offer(NamedTuple):
    """The tools of a request."""

    id: str
    tools: tuple[RecordedTool, ...]


class Failure(NamedTuple):
    """A `ModelError`; `recorded` is its text in the record of a run."""

    message: str
    recorded: str
    status: int | None = None
    retryable: bool = False
    partial: Response | None = None


class Exchange(NamedTuple):
    """A request and its result, which came `ms` milliseconds later on the run's clock.

    `conversation` is the number of the run, in the order of their beginnings. `after` is the id of the last message.
    The `response` of a `cancelled` request is what had arrived, if that is known.
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


LINES: Final[dict[str, type[Link | Offer | Exchange]]] = {"message": Link, "tools": Offer, "exchange": Exchange}
"""The lines after the first, by their kind."""


class Chain:
    """Identifies conversations: the id of a message is a hash of it and of the id of the message before it."""

    def __init__(self, on_link: Callable[[Link], object] | None = None) -> None:
        self._on_link = on_link
        self._growing: Growing[list[str]] = Growing(lambda: [FIRST], self._add)

    def __call__(self, messages: Sequence[Message]) -> str:
        """The id of the last message; equal ids mean that all messages are equal."""
        state, tail = self._growing(messages)
        last = state[0]
        for message in tail:
            last = self._follow(last, message)
        return last

    def _add(self, state: list[str], message: Message) -> None:
        state[0] = self._follow(state[0], message)

    def _follow(self, after: str, message: Message) -> str:
        link = link_message(after, message)
        if self._on_link is not None:
            self._on_link(link)
        return link.id


def link_message(after: str, message: Message) -> Link:
    """A message as a model sees it, with its id and the id of the message before it."""
    parts = tuple(
        part._replace(duration_ms=None) if isinstance(part, ToolResult) else part
        for part in message.parts
        if not isinstance(part, StepStart)
    )
    message_as_sent = Message(message.role, parts)
    digest = blake2b(after.encode() + dumps(encode(message_as_sent, "a message")), digest_size=16)
    return Link(digest.hexdigest(), message_as_sent, after)


def offer_of(tools: Sequence[ToolSpec]) -> Offer:
    """The tools of a request, and their id."""
    recorded_tools = tuple(RecordedTool(tool.name, tool.description, tool.parameters) for tool in tools)
    digest = blake2b(dumps(encode(recorded_tools, "a tool")), digest_size=16)
    return Offer(digest.hexdigest() if recorded_tools else "", recorded_tools)


class Offers:
    """The tools of requests, with their ids. It keeps the latest, since the requests of a run have the same tuple."""

    def __init__(self) -> None:
        self._latest: tuple[Sequence[ToolSpec], Offer] = ((), offer_of(()))

    def __call__(self, tools: Sequence[ToolSpec]) -> Offer:
        latest, offer = self._latest
        if tools is not latest:
            offer = offer_of(tools)
            self._latest = (tools, offer)
        return offer


class Recording(NamedTuple):
    """A recording: its messages and tools by id, and its exchanges in the order of their ends."""

    path: Path
    header: Header
    messages: dict[str, Link]
    offers: dict[str, Offer]
    exchanges: list[Exchange]

    def conversation(self, last: str) -> list[Link]:
        """All messages up to the one with that id."""
        links = []
        while last != FIRST:
            links.append(self.messages[last])
            last = links[-1].after
        return links[::-1]


def read_recording(path: str | Path) -> Recording:
    """Read a recording; an incomplete last line is left out with a `ReadWarning`."""
    path = user_path(path)
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
            msg = f"{path}:{number}: the last line is incomplete; the rest is replayed"
            warn(msg, ReadWarning)
        start = end


def _header(path: Path, first: tuple[int, Any] | None) -> Header:
    row = {} if first is None else first[1]
    if not isinstance(row, dict) or row.get("kind") != "recording":
        msg = "no recording: its first line is not the one that bl.record writes"
        raise RunFormatError(msg, path=path, line=1)
    file_version = row.get("version")
    if type(file_version) is not int or not 1 <= file_version <= VERSION:
        source = f"a recording of version {file_version!r}, by boolab {row.get('boolab')}"
        msg = f"{source}; versions up to {VERSION} can be read"
        raise RunFormatError(msg, path=path, line=1)
    try:
        return decode(Header, {name: value for name, value in row.items() if name != "kind"})
    except ValueError as error:
        raise RunFormatError(str(error), path=path, line=1) from None


def _take(recording: Recording, row: object) -> None:
    """Add a line to the recording."""
    kind = row.get("kind") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(kind, str) or kind not in LINES:
        msg = f"kind {kind!r:.80} is not one of {', '.join(LINES)}"
        raise ValueError(msg)
    line = decode(LINES[kind], {name: value for name, value in row.items() if name != "kind"})
    if isinstance(line, Offer):
        recording.offers[line.id] = line
        return
    if line.after != FIRST and line.after not in recording.messages:
        msg = f"the {kind} follows message {line.after!r:.80}, which is missing"
        raise ValueError(msg)
    if isinstance(line, Link):
        if recording.messages.setdefault(line.id, line) is not line or line.id == FIRST:
            msg = f"message {line.id!r:.80} exists already"  # and could follow itself
            raise ValueError(msg)
        return
    if line.tools and line.tools not in recording.offers:
        msg = f"the tools {line.tools!r:.80} are missing"
        raise ValueError(msg)
    if not 0 <= line.ms <= MAX_MS:
        msg = f"ms: {line.ms!r:.80} is no time of a request in milliseconds"
        raise ValueError(msg)
    if line.response is None and line.failure is None and not line.cancelled:
        msg = "an exchange without response, failure or cancellation"
        raise ValueError(msg)
    recording.exchanges.append(line)
