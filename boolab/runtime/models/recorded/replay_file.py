"""Replays recordings: a `RecordedModel` of a path finds responses by the order of requests, or by their content."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from boolab.core.text import count
from boolab.core.types import Message, Reasoning, Response, Text, ToolCall, ToolResult
from boolab.errors import ModelError, ScriptExhausted
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.models.recorded.format import FIRST, Chain, Exchange, Link, Offers, Recording, linked

_EXCERPT_CHARS: Final = 60
_BEFORE_CHARS: Final = 15
"""The part of an excerpt before the difference."""
_KEY_FIELDS: Final = ("after", "tools", "tool_choice", "temperature", "seed", "purpose")
"""The fields of an exchange that identify its request."""
_key_of: Final = attrgetter(*_KEY_FIELDS)


class _Replay:
    """The common part of both kinds of replay."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._chain = Chain()
        self._offers = Offers()
        self._given: defaultdict[Hashable, Iterator[int]] = defaultdict(itertools.count)
        self.name = recording.header.model
        self.context_window = recording.header.context_window
        self.summarises = recording.header.summarises
        self.compacts = recording.header.compacts

    def __repr__(self) -> str:
        return f"{self._recording.path}, {len(self._recording.exchanges)} requests"

    def _key(self, request: Request) -> tuple[Any, ...]:
        after, tools = self._chain(request.messages), self._offers(request.tools).id
        return after, tools, request.tool_choice, request.temperature, request.seed_of_run, request.purpose

    def _exhausted(self, why: str) -> ScriptExhausted:
        return ScriptExhausted(f"{self._recording.path}: {why}")

    def _unknown_from(self, request: Request) -> str:
        """How many messages of a request the recording has, and what it expected next."""
        links = _links(request.messages)
        known = next((n for n, link in enumerate(links) if link.id not in self._recording.messages), len(links))
        last = links[known - 1].id if known else FIRST
        expected = next((link for link in self._recording.messages.values() if link.after == last), None)
        beginning = (
            f"its first {known} messages are known"
            if known > 1
            else f"its first message is {'' if known else 'not '}known"
        )
        if known == len(links):
            return f"each of its {count(known, 'message')} is known, but the recording has no request after them"
        difference = Difference.between(known + 1, expected and expected.message, links[known].message)
        return f"{beginning}{'' if expected else ', and none follows them'}; {difference}"


class ReplayByOrder(_Replay):
    """Each run gets a conversation, and its n-th request of a purpose the n-th response."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        conversations: dict[int, _Conversation] = {}
        for exchange in recording.exchanges:
            number, beginning = exchange.conversation, exchange.after
            conversation = conversations.setdefault(number, _Conversation(number, beginning, defaultdict(list)))
            conversation.exchanges[exchange.purpose].append(exchange)
        self._by_beginning: defaultdict[str, list[_Conversation]] = defaultdict(list)
        for _, conversation in sorted(conversations.items()):
            self._by_beginning[conversation.beginning].append(conversation)
        self._runs: dict[str, _Position] = {}

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The next response to this run's requests."""
        key = self._key(request)
        position = self._runs.get(request.run_id) or self._begin(request, key[0])
        if request.run_id:
            self._runs[request.run_id] = position
        exchanges = position.conversation.exchanges.get(request.purpose, ())
        place = position.requests[request.purpose]
        position.requests[request.purpose] += 1
        if place >= len(exchanges):
            number = position.conversation.number
            count = f"{len(exchanges)} response{'' if len(exchanges) == 1 else 's'} of purpose {request.purpose}"
            raise self._exhausted(f"conversation {number} has {count}; one more was requested")
        exchange = exchanges[place]
        if not position.departed and _key_of(exchange) != key:
            position.departed = True
            if request.note is not None:
                request.note("departed", **self._departure(exchange, key, request))
        if exchange.cancelled:
            raise self._exhausted(f"request {exchange.index + 1} of conversation {exchange.conversation} was cancelled")
        return await _give(exchange, request, emit)

    def _begin(self, request: Request, beginning: str) -> _Position:
        """The next conversation with the same beginning, or with the only recorded beginning."""
        known = list(self._by_beginning)
        if beginning not in self._by_beginning:
            if len(known) != 1:
                raise self._exhausted(f"no conversation begins with this request: {self._unknown_from(request)}")
            beginning = known[0]
        conversations = self._by_beginning[beginning]
        return _Position(conversations[next(self._given[beginning]) % len(conversations)])

    def _departure(self, exchange: Exchange, key: tuple[Any, ...], request: Request) -> dict[str, Any]:
        """The first difference between a request and the recorded one."""
        recorded = _key_of(exchange)
        if recorded[0] == key[0]:
            names = [name for name, one, other in zip(_KEY_FIELDS, recorded, key, strict=True) if one != other]
            return {"what": f"differs from the recording: {', '.join(names)}"}
        before, came = self._recording.conversation(exchange.after), _links(request.messages)
        same = next((n for n, (a, b) in enumerate(zip(before, came, strict=False)) if a.id != b.id), None)
        place = min(len(before), len(came)) if same is None else same
        first, second = (links[place].message if place < len(links) else None for links in (before, came))
        return Difference.between(place + 1, first, second)._asdict()


class ReplayByRequest(_Replay):
    """Each request gets the response to exactly this request; equal requests get their responses in turn."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self._exchanges: defaultdict[Hashable, list[Exchange]] = defaultdict(list)
        for exchange in recording.exchanges:
            if not exchange.cancelled:
                self._exchanges[_key_of(exchange)].append(exchange)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The response to this request."""
        key = self._key(request)
        exchanges = self._exchanges.get(key)
        if exchanges is None:
            raise self._exhausted(f"this request is not in it: {self._why(request, key)}")
        return await _give(exchanges[next(self._given[key]) % len(exchanges)], request, emit)

    def _why(self, request: Request, key: tuple[Any, ...]) -> str:
        """Why a request is not in the recording; compared with the first request after the same messages, if any."""
        similar = next((one for one in self._recording.exchanges if one.after == key[0]), None)
        if similar is None:
            return self._unknown_from(request)
        if similar.cancelled:
            return "it was cancelled"
        pairs = zip(_KEY_FIELDS, _key_of(similar), key, strict=True)
        changed = [(name, one, now) for name, one, now in pairs if one != now]
        what = ", ".join("other tools" if name == "tools" else f"{name} {one}, not {now}" for name, one, now in changed)
        return f"after the same messages the recorded request has {what}"


class _Conversation(NamedTuple):
    """The requests of one run, by purpose and in order."""

    number: int
    beginning: str
    exchanges: defaultdict[str, list[Exchange]]


class _Position:
    """A run's position in its conversation."""

    def __init__(self, conversation: _Conversation) -> None:
        self.conversation = conversation
        self.requests: Counter[str] = Counter()
        self.departed = False


class Difference(NamedTuple):
    """The first message that differs: its number, counted from 1, its role, and an excerpt of both."""

    message: int
    role: str
    recorded: str
    came: str

    @classmethod
    def between(cls, number: int, recorded: Message | None, came: Message | None) -> Difference:
        """The difference of two messages, either of which may be missing."""
        texts = [_plain(message) for message in (recorded, came)]
        differs = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
        first, second = (_excerpt(text, max(differs - _BEFORE_CHARS, 0)) for text in texts)
        roles = list(dict.fromkeys(message.role for message in (recorded, came) if message is not None))
        return cls(number, " or ".join(roles), first, second)

    def __str__(self) -> str:
        return f"message {self.message} ({self.role}): recorded {self.recorded!r}, came {self.came!r}"


def _plain(message: Message | None) -> str:
    """A message as text in one line."""
    texts = []
    for part in () if message is None else message.parts:
        if isinstance(part, Text | Reasoning):
            texts.append(part.text)
        elif isinstance(part, ToolCall):
            texts.append(f"{part.name} {part.arguments}")
        elif isinstance(part, ToolResult):
            texts.append(f"{'error: ' if part.is_error else ''}{part.content}")
    return " ".join(" ".join(texts).split())


def _excerpt(text: str, start: int) -> str:
    end = start + _EXCERPT_CHARS
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _links(messages: Sequence[Message]) -> list[Link]:
    """The messages of a request with their ids."""
    links: list[Link] = []
    for message in messages:
        links.append(linked(links[-1].id if links else FIRST, message))
    return links


async def _give(exchange: Exchange, request: Request, emit: Emit | None) -> Response:
    """Let the recorded time pass; emit and return the response, or raise the failure."""
    await request.clock.sleep(exchange.ms / 1000)
    failure = exchange.failure
    arrived = exchange.response if failure is None else failure.partial
    if emit is not None and arrived is not None:
        if arrived.reasoning:
            emit("reasoning", arrived.reasoning)
        if arrived.text:
            emit("text", arrived.text)
        for call in arrived.tool_calls if failure is None else ():
            emit("tool_call", f"{call.name} {call.arguments}")
    if failure is not None:
        message, recorded, status, retryable, partial = failure
        raise ModelError(message, status=status, retryable=retryable, partial=partial, recorded=recorded)
    assert exchange.response is not None  # noqa: S101 - the file was checked
    return exchange.response
