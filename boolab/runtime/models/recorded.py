"""`RecordedModel`: replays the responses of a model from a run, in order, or from a recording.

In a recording it finds responses by the order of requests, or by their content.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from boolab.core.codec import dumps, run_fields
from boolab.core.messages import Message, Reasoning, Text
from boolab.core.run import Compacted, Run
from boolab.core.run_tree import tool_calls
from boolab.core.text import count
from boolab.core.types import Response, ToolCall, ToolResult
from boolab.errors import ModelError, ScriptExhausted, SettingError
from boolab.io.checks import repr_of
from boolab.io.files import read_file, user_path
from boolab.runtime.models.base import Emit, OfflineModel, Request
from boolab.runtime.models.recording import (
    FIRST,
    MAX_BYTES,
    Chain,
    Exchange,
    Link,
    Offers,
    Recording,
    link_message,
    read_recording,
)
from boolab.runtime.tools.execution import FailedReply
from boolab.runtime.tools.tool import ToolContext


class RunReplay:
    """The responses and results of a recorded run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.name = run.model
        self.context_window = run.context_window
        continued = [event.payload.get("after_step") for event in run.events if event.kind == "continued"]
        self._wrap_ups = dict(zip(continued, run.earlier_wrap_ups, strict=False))
        if run.wrap_up is not None:
            self._wrap_ups[run.n_steps] = run.wrap_up
        self._compactions = {compacted.before - 1: compacted for compacted in run.compactions if compacted.asked}

    def __repr__(self) -> str:
        return repr(self._run)

    @property
    def summarises(self) -> bool:
        """Whether the recorded run asked its model for a summary."""
        return any(wrap_up.asked for wrap_up in self._wrap_ups.values())

    @property
    def compacts(self) -> bool:
        """Whether the recorded run asked its model for a compaction."""
        return bool(self._compactions)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The recorded response to this request."""
        if request.purpose != "step":
            return await self._respond_aside(request)
        if request.index >= self._run.n_steps:
            msg = f"the recording ends after {count(self._run.n_steps, 'response')} ({self._run.stop_reason})"
            raise ScriptExhausted(msg)
        step = self._run.steps[request.index]
        await request.clock.sleep((step.model_ms or 0) / 1000)
        if step.broke_off:
            if self._run.stop_reason == "aborted":
                msg = f"the recording was aborted in response {step.index}"
                raise ScriptExhausted(msg)
            continued = request.index + 1 < self._run.n_steps or step.error != self._run.error
            raise ModelError(step.error, retryable=continued, partial=step.response, recorded=step.error)
        if emit is not None:
            if step.response.reasoning:
                emit("reasoning", step.response.reasoning)
            if step.response.text:
                emit("text", step.response.text)
        return step.response

    async def _respond_aside(self, request: Request) -> Response:
        """The response to a request outside the steps; raises its failure."""
        compacted, wrap_up = self._compactions.get(request.index), self._wrap_ups.get(request.index)
        exchange = compacted if request.purpose == "compaction" else wrap_up
        if exchange is None or not exchange.asked:
            msg = f"the recording has no {request.purpose} after {count(request.index, 'response')}"
            raise ScriptExhausted(msg)
        pause_ms = exchange.duration_ms or 0 if isinstance(exchange, Compacted) else self._pause_ms(request.index)
        await request.clock.sleep(pause_ms / 1000)
        if exchange.broken or exchange.response is None:
            raise ModelError(exchange.fault, partial=exchange.response, recorded=exchange.fault)
        return exchange.response

    def _pause_ms(self, after: int) -> int:
        """The recorded time between a step and the next step, or the end, without a compaction."""
        run, steps = self._run, self._run.steps
        end = (steps[after - 1].start_ms or 0) + (steps[after - 1].duration_ms or 0) if after else 0
        next_start = run.duration_ms if after == len(steps) else steps[after].start_ms
        compacted = self._compactions.get(after)
        return (end if next_start is None else next_start) - end - ((compacted and compacted.duration_ms) or 0)

    def has_result_of(self, tool: str) -> bool:
        """Whether a call of that tool has a result in the recording."""
        results = chain.from_iterable(step.results for step in self._run.steps)
        calls = tool_calls(self._run)
        return any(call.name == tool and result is not None for call, result in zip(calls, results, strict=True))

    async def reply(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """The recorded result of a call, found by its place, since ids repeat in real logs."""
        step = self._run.steps[context.step - 1]
        result = step.results[context.call - 1] if context.call <= len(step.results) else None
        if result is None:
            return ToolResult(call.id, "This call has no result in the recording.", is_error=True, duration_ms=0)
        if step.error and result.is_error and step.error.endswith(result.content) and self._run.stop_reason == "error":
            raise FailedReply(result, step.error)
        # One call takes the time of all, whether they run in sequence or in parallel: the next boundary sees the sum.
        if context.call == _longest_call(step.results):
            await context.sleep(((step.duration_ms or 0) - (step.model_ms or 0)) / 1000)
        return result


def _longest_call(results: Sequence[ToolResult | None]) -> int:
    """The number of the first call that took longest; unknown times count as the shortest."""
    times = [-2 if result is None else -1 if result.duration_ms is None else result.duration_ms for result in results]
    return times.index(max(times)) + 1


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

    def _exhausted_error(self, reason: str) -> ScriptExhausted:
        return ScriptExhausted(f"{self._recording.path}: {reason}")

    def _describe_unknown(self, request: Request) -> str:
        """How many messages of a request the recording has, and what it expected next."""
        links = _links(request.messages)
        n_known = next((n for n, link in enumerate(links) if link.id not in self._recording.messages), len(links))
        last = links[n_known - 1].id if n_known else FIRST
        expected = next((link for link in self._recording.messages.values() if link.after == last), None)
        beginning = (
            f"its first {n_known} messages are known"
            if n_known > 1
            else f"its first message is {'' if n_known else 'not '}known"
        )
        if n_known == len(links):
            return f"each of its {count(n_known, 'message')} is known, but the recording has no request after them"
        difference = Difference.from_messages(n_known + 1, expected and expected.message, links[n_known].message)
        return f"{beginning}{'' if expected else ', and none follows them'}; {difference}"


class ReplayByOrder(_Replay):
    """Each run gets a conversation, and its n-th request of a purpose the n-th response."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        conversations: dict[int, _RecordedConversation] = {}
        for exchange in recording.exchanges:
            number, beginning = exchange.conversation, exchange.after
            conversation = conversations.setdefault(number, _RecordedConversation(number, beginning, defaultdict(list)))
            conversation.exchanges[exchange.purpose].append(exchange)
        self._by_beginning: defaultdict[str, list[_RecordedConversation]] = defaultdict(list)
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
        index = position.requests[request.purpose]
        position.requests[request.purpose] += 1
        if index >= len(exchanges):
            number = position.conversation.number
            count = f"{len(exchanges)} response{'' if len(exchanges) == 1 else 's'} of purpose {request.purpose}"
            raise self._exhausted_error(f"conversation {number} has {count}; one more was requested")
        exchange = exchanges[index]
        if not position.departed and _key_of(exchange) != key:
            position.departed = True
            if request.note is not None:
                request.note("departed", **self._departure(exchange, key, request))
        if exchange.cancelled:
            raise self._exhausted_error(
                f"request {exchange.index + 1} of conversation {exchange.conversation} was cancelled"
            )
        return await _give_response(exchange, request, emit)

    def _begin(self, request: Request, beginning: str) -> _Position:
        """The next conversation with the same beginning, or with the only recorded beginning."""
        beginnings = list(self._by_beginning)
        if beginning not in self._by_beginning:
            if len(beginnings) != 1:
                raise self._exhausted_error(
                    f"no conversation begins with this request: {self._describe_unknown(request)}"
                )
            beginning = beginnings[0]
        conversations = self._by_beginning[beginning]
        return _Position(conversations[next(self._given[beginning]) % len(conversations)])

    def _departure(self, exchange: Exchange, key: tuple[Any, ...], request: Request) -> dict[str, Any]:
        """The first difference between a request and the recorded one."""
        recorded = _key_of(exchange)
        if recorded[0] == key[0]:
            pairs = zip(_KEY_FIELDS, recorded, key, strict=True)
            names = [name for name, recorded_value, value in pairs if recorded_value != value]
            return {"what": f"differs from the recording: {', '.join(names)}"}
        recorded_links, sent_links = self._recording.conversation(exchange.after), _links(request.messages)
        difference = next(
            (n for n, (a, b) in enumerate(zip(recorded_links, sent_links, strict=False)) if a.id != b.id), None
        )
        index = min(len(recorded_links), len(sent_links)) if difference is None else difference
        recorded_message, sent_message = (
            links[index].message if index < len(links) else None for links in (recorded_links, sent_links)
        )
        return Difference.from_messages(index + 1, recorded_message, sent_message)._asdict()


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
            raise self._exhausted_error(f"this request is not in it: {self._describe_difference(request, key)}")
        return await _give_response(exchanges[next(self._given[key]) % len(exchanges)], request, emit)

    def _describe_difference(self, request: Request, key: tuple[Any, ...]) -> str:
        """Why a request is not in the recording; compared with the first request after the same messages, if any."""
        similar = next((exchange for exchange in self._recording.exchanges if exchange.after == key[0]), None)
        if similar is None:
            return self._describe_unknown(request)
        if similar.cancelled:
            return "it was cancelled"
        pairs = zip(_KEY_FIELDS, _key_of(similar), key, strict=True)
        changed = [(name, recorded_value, value) for name, recorded_value, value in pairs if recorded_value != value]
        differences = ", ".join(
            "other tools" if name == "tools" else f"{name} {recorded_value}, not {value}"
            for name, recorded_value, value in changed
        )
        return f"after the same messages the recorded request has {differences}"


class _RecordedConversation(NamedTuple):
    """The requests of one run, by purpose and in order."""

    number: int
    beginning: str
    exchanges: defaultdict[str, list[Exchange]]


class _Position:
    """A run's position in its conversation."""

    def __init__(self, conversation: _RecordedConversation) -> None:
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
    def from_messages(cls, number: int, recorded: Message | None, came: Message | None) -> Difference:
        """The difference of two messages, either of which may be missing."""
        texts = [_message_text(message) for message in (recorded, came)]
        differs = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
        first, second = (_excerpt(text, max(differs - _BEFORE_CHARS, 0)) for text in texts)
        roles = list(dict.fromkeys(message.role for message in (recorded, came) if message is not None))
        return cls(number, " or ".join(roles), first, second)

    def __str__(self) -> str:
        return f"message {self.message} ({self.role}): recorded {self.recorded!r}, came {self.came!r}"


def _message_text(message: Message | None) -> str:
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
        links.append(link_message(links[-1].id if links else FIRST, message))
    return links


async def _give_response(exchange: Exchange, request: Request, emit: Emit | None) -> Response:
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


class RecordedModel(OfflineModel):
    """A model that replays recorded responses, from a run or from a recording of `bl.record`. It needs no network.

    Of a *run*: tools are not executed, because the results are recorded too; so are summaries and compactions. Under
    the same rules it gives the same run. Under looser rules it ends with `ScriptExhausted`, because a run has no more
    responses. A run that was paused and resumed, or that continued after its cap, pauses there again and needs a new
    answer of the user.

    Of a *recording*: the responses of any number of runs; tools are executed. A run gets the next conversation that
    began with the same messages, in recorded order, and after the last one the first again. Its n-th request of a
    purpose gets the n-th response; the first request that differs from the recorded one has an event `departed`. With
    `match="request"`, a request gets the response to exactly this request (messages, tools, tool choice, temperature,
    seed and purpose), equal requests get their responses in turn, and any other request fails. Failures of the model
    are raised again.

    Times, on a virtual clock, and the size of the context window are those of the recording.

    Args:
        recording: The recorded run, or the path of a recording; `~` is expanded.
        match: How requests find their responses in a recording: by `order`, or by `request`.

    Raises:
        RunFormatError: if the file is no recording, is damaged, or has a newer version.
        SettingError: if `match` is not valid, or is `request` for a run.

    Example:
        >>> import boolab as bl
        >>> first = bl.run_sync(None, "Say hello", model=bl.ScriptedModel(["Hello."]))
        >>> bl.run_sync(None, "Say hello", model=bl.RecordedModel(first)).text
        'Hello.'
    """

    virtual = True

    def __init__(self, recording: Run | str | Path, *, match: Literal["order", "request"] = "order") -> None:
        self._recording = recording
        self._replay = _replay_of(recording, match)
        self.name: str = self._replay.name
        self.context_window: int | None = self._replay.context_window
        self.summarises: bool = self._replay.summarises
        """Of a run: whether the model wrote a summary. Of a recording: whether it could."""
        self.compacts: bool = self._replay.compacts
        """Likewise for compactions."""
        self.reply: Callable[[ToolCall, ToolContext], Awaitable[ToolResult]] | None = (
            self._replay.reply if isinstance(self._replay, RunReplay) else None
        )

    def __repr__(self) -> str:
        return f"<RecordedModel of {self._replay!r}>"

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """The content of the recording: models with equal fingerprints give equal responses."""
        source = self._recording
        data = dumps(run_fields(source)) if isinstance(source, Run) else read_file(user_path(source), MAX_BYTES)
        return (type(self._replay).__name__, blake2b(data, digest_size=16).digest())

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        return await self._replay.respond(request, emit)

    def replies_to(self, tool: str) -> bool:
        return self.reply is not None

    def has_result_of(self, tool: str) -> bool:
        return isinstance(self._replay, RunReplay) and self._replay.has_result_of(tool)


def _replay_of(recording: object, match: object) -> RunReplay | ReplayByOrder | ReplayByRequest:
    if match not in ("order", "request"):
        msg = f"match={match!r} is not accepted: expected 'order' or 'request'"
        raise SettingError(msg)
    if isinstance(recording, Run):
        if match == "request":
            msg = "match='request' needs a recording (bl.record): a run is replayed in order"
            raise SettingError(msg)
        return RunReplay(recording)
    if not isinstance(recording, str | Path):
        msg = f"{repr_of(recording)} is neither a Run nor the path of a recording"
        raise SettingError(msg)
    read = read_recording(recording)
    return ReplayByOrder(read) if match == "order" else ReplayByRequest(read)
