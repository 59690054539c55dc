"""Plays recordings: a `RecordedModel` of a path. Requests find their answers by order, or by what they ask."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from boolab.core.types import Message, Reasoning, Response, Text, ToolCall, ToolResult
from boolab.errors import ModelError, ScriptExhausted
from boolab.models.base import Emit, Request
from boolab.models.recorded.format import FIRST, Chain, Exchange, Offers, Recording, Said, linked

_EXCERPT: Final = 60
_BEFORE: Final = 15
"""How much of an excerpt stands before what differs."""


class Asked(NamedTuple):
    """What a request asks, as a recording has it."""

    after: str
    tools: str
    tool_choice: str
    temperature: float | None
    seed: int | None
    purpose: str


class _Replay:
    """What both ways have in common."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._chain = Chain()
        self._offers = Offers()
        self.name = recording.header.model
        self.context_window = recording.header.context_window
        self.summarises = recording.header.summarises
        self.compacts = recording.header.compacts

    def __repr__(self) -> str:
        return f"{self._recording.path}, {len(self._recording.exchanges)} requests"

    def _asked(self, request: Request) -> Asked:
        return Asked(
            self._chain(request.messages),
            self._offers(request.tools).id,
            request.tool_choice,
            request.temperature,
            request.seed,
            request.purpose,
        )

    def _exhausted(self, why: str) -> ScriptExhausted:
        return ScriptExhausted(f"{self._recording.path}: {why}")

    def _beyond(self, request: Request) -> str:
        """Where a request leaves all that is recorded: the longest known beginning, and what was expected next."""
        came = _links(request.messages)
        known = next((n for n, said in enumerate(came) if said.id not in self._recording.messages), len(came))
        last = came[known - 1].id if known else FIRST
        expected = next((said for said in self._recording.messages.values() if said.after == last), None)
        beginning = f"its first {known} messages are known" if known else "it begins with no known message"
        if known == len(came):
            return f"{beginning}, all it has, but nothing like it was asked after them"
        differs = Difference.between(known + 1, expected and expected.message, came[known].message)
        return f"{beginning}{'' if expected else ', and none follows them'}; {differs.in_words()}"


class ReplayByOrder(_Replay):
    """Each run gets a conversation, and its n-th request of a purpose the n-th answer."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        conversations: dict[int, _Conversation] = {}
        for exchange in recording.exchanges:
            number, beginning = exchange.conversation, exchange.after
            conversation = conversations.setdefault(number, _Conversation(number, beginning, defaultdict(list)))
            conversation.answers[exchange.purpose].append(exchange)
        self._by_beginning: defaultdict[str, list[_Conversation]] = defaultdict(list)
        for _, conversation in sorted(conversations.items()):
            self._by_beginning[conversation.beginning].append(conversation)
        self._given: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
        self._runs: dict[str, _Playing] = {}

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The next answer to this run's requests."""
        asked = self._asked(request)
        playing = self._runs.get(request.run_id) or self._begin(request, asked.after)
        if request.run_id:
            self._runs[request.run_id] = playing
        answers = playing.conversation.answers.get(request.purpose, ())
        place = playing.asked[request.purpose]
        playing.asked[request.purpose] += 1
        if place >= len(answers):
            number = playing.conversation.number
            count = f"{len(answers)} answer{'' if len(answers) == 1 else 's'} of purpose {request.purpose}"
            raise self._exhausted(f"conversation {number} holds {count}; one more was asked for")
        answer = answers[place]
        if not playing.departed and _asked_in(answer) != asked:
            playing.departed = True
            if request.note is not None:
                request.note("departed", **self._departure(answer, asked, request))
        if answer.cancelled:
            raise self._exhausted(f"request {answer.index + 1} of conversation {answer.conversation} was cancelled")
        return await _give(answer, request, emit)

    def _begin(self, request: Request, beginning: str) -> _Playing:
        """The next conversation that began alike; if all began in one other way, the run has departed from that."""
        known = list(self._by_beginning)
        if beginning not in self._by_beginning:
            if len(known) != 1:
                raise self._exhausted(f"no conversation begins with this request: {self._beyond(request)}")
            beginning = known[0]
        alike = self._by_beginning[beginning]
        return _Playing(alike[next(self._given[beginning]) % len(alike)])

    def _departure(self, answer: Exchange, asked: Asked, request: Request) -> dict[str, Any]:
        """What is first different in a request from the recorded one."""
        recorded = _asked_in(answer)
        if recorded.after == asked.after:
            names = [name for name, one, other in zip(Asked._fields, recorded, asked, strict=True) if one != other]
            return {"what": f"not recorded like this: {', '.join(names)}"}
        before, came = self._recording.conversation(answer.after), _links(request.messages)
        same = next((n for n, (a, b) in enumerate(zip(before, came, strict=False)) if a.id != b.id), None)
        place = min(len(before), len(came)) if same is None else same
        return Difference.between(place + 1, _message_at(before, place), _message_at(came, place))._asdict()


class ReplayByRequest(_Replay):
    """Each request gets the answer to exactly this request; equal requests get their answers in turn."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self._answers: defaultdict[Hashable, list[Exchange]] = defaultdict(list)
        for exchange in recording.exchanges:
            if not exchange.cancelled:
                self._answers[_asked_in(exchange)].append(exchange)
        self._given: defaultdict[Hashable, Iterator[int]] = defaultdict(itertools.count)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The answer to this request."""
        asked = self._asked(request)
        answers = self._answers.get(asked)
        if answers is None:
            raise self._exhausted(f"this request is not in it: {self._why(request, asked)}")
        return await _give(answers[next(self._given[asked]) % len(answers)], request, emit)

    def _why(self, request: Request, asked: Asked) -> str:
        """Why it is not: of the requests after the same messages the first is named, if there is one."""
        alike = next((one for one in self._recording.exchanges if one.after == asked.after), None)
        if alike is None:
            return self._beyond(request)
        if alike.cancelled:
            return "it was cancelled"
        recorded = _asked_in(alike)
        differ = zip(Asked._fields, recorded, asked, strict=True)
        other = [(name, one, now) for name, one, now in differ if one != now]
        told = ", ".join("other tools" if name == "tools" else f"{name} {one}, not {now}" for name, one, now in other)
        return f"after the same messages it was asked with {told}"


class _Conversation(NamedTuple):
    """What one run asked first, and what came of all that it asked, by purpose and in order."""

    number: int
    beginning: str
    answers: defaultdict[str, list[Exchange]]


class _Playing:
    """Where a run stands in its conversation."""

    def __init__(self, conversation: _Conversation) -> None:
        self.conversation = conversation
        self.asked: defaultdict[str, int] = defaultdict(int)
        self.departed = False


class Difference(NamedTuple):
    """The first message that differs: its number, counted from 1, its role, and an excerpt of both."""

    message: int
    role: str
    recorded: str
    came: str

    @classmethod
    def between(cls, number: int, recorded: Message | None, came: Message | None) -> Difference:
        """The difference of two messages; None for one that is not there."""
        texts = [_plain(message) for message in (recorded, came)]
        differs = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
        first, second = (_excerpt(text, max(differs - _BEFORE, 0)) for text in texts)
        roles = list(dict.fromkeys(message.role for message in (recorded, came) if message is not None))
        return cls(number, " or ".join(roles), first, second)

    def in_words(self) -> str:
        """In one sentence."""
        return f"message {self.message} ({self.role}): recorded {self.recorded!r}, came {self.came!r}"


def _plain(message: Message | None) -> str:
    """A message as text to compare by eye."""
    said = []
    for part in () if message is None else message.parts:
        if isinstance(part, Text | Reasoning):
            said.append(part.text)
        elif isinstance(part, ToolCall):
            said.append(f"{part.name} {part.arguments}")
        elif isinstance(part, ToolResult):
            said.append(f"{'error: ' if part.is_error else ''}{part.content}")
    return " ".join(" ".join(said).split())


def _excerpt(text: str, start: int) -> str:
    end = start + _EXCERPT
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _message_at(messages: Sequence[Said], place: int) -> Message | None:
    return messages[place].message if place < len(messages) else None


def _links(messages: Sequence[Message]) -> list[Said]:
    """The messages of a request, each with its id."""
    links: list[Said] = []
    for message in messages:
        links.append(linked(links[-1].id if links else FIRST, message))
    return links


def _asked_in(exchange: Exchange) -> Asked:
    return Asked(
        exchange.after,
        exchange.tools,
        exchange.tool_choice,
        exchange.temperature,
        exchange.seed,
        exchange.purpose,
    )


async def _give(answer: Exchange, request: Request, emit: Emit | None) -> Response:
    """Let the recorded time pass, and say or raise what was said or raised."""
    await request.clock.sleep(answer.ms / 1000)
    failure = answer.failure
    heard = answer.response if failure is None else failure.partial
    if emit is not None and heard is not None:
        if heard.reasoning:
            emit("reasoning", heard.reasoning)
        if heard.text:
            emit("text", heard.text)
        for call in heard.tool_calls if failure is None else ():
            emit("tool_call", f"{call.name} {call.arguments}")
    if failure is not None:
        raise ModelError(
            failure.message,
            status=failure.status,
            retryable=failure.retryable,
            partial=failure.partial,
            recorded=failure.recorded,
        )
    assert answer.response is not None  # noqa: S101 - the file was checked
    return answer.response
