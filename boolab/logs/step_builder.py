"""Builds steps from the records of a log: responses, their calls, and the results that answer these. See `builder`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from boolab.core.endings import FINISHING
from boolab.core.rejections import is_rejection
from boolab.core.types import REDACTED, UNKNOWN_USAGE, Response, Step, ToolCall, ToolResult, Usage
from boolab.io.json_input import Damage, json_object, json_text, parse
from boolab.logs.identity import is_unique

_WITHHELD: Final = re.compile(r"\s*[<\[(*]+\s*redacted\s*[>\])*]+\s*", re.IGNORECASE)


class RejectedResult(ToolResult):
    """The answer to a call that was rejected: the call was never executed, so the step has no result for it."""

    __slots__ = ()


class StepBuilder:
    """One response of the model and the results of its calls. Times are milliseconds on any one clock."""

    # Defaults of the class, because most of these are set on few of the millions of responses of a log.
    turn: int = 1
    responded: int | None = None
    """When the last part of the response was written."""
    ended: int | None = None
    """When the last part of the response, or the last result, was written."""
    finish_reason: str | None = None
    usage: Usage = UNKNOWN_USAGE
    error: str = ""
    model: str = ""
    """The model that responded, "" if unknown."""
    id: str = ""
    """What the provider or the harness calls the response, "" if unknown."""
    dated: bool = True
    """Whether its record has a time: else its start is that of the record before."""
    stated: Mapping[tuple[str, str], int] = MappingProxyType({})
    """Figures that the log states as totals of this response, by place and name: see `boolab.logs.checks`."""
    version: str | None = None
    """The version of the harness that requested it."""
    effort: str | None = None
    speed: str | None = None
    service_tier: str | None = None
    goes_back: bool = False
    """Whether it was written earlier than what came before it in the log."""
    follows_at_once: bool = False
    """Whether no message came between the response before and this one."""
    rejects: bool = False
    """Whether one of its calls was rejected."""
    _earlier_texts: frozenset[str] = frozenset()

    def __init__(self, start: int | None = None) -> None:
        self.start = start
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[ToolCall] = []
        self.results: list[ToolResult | None] = []

    @property
    def complete(self) -> bool:
        """Whether it has calls, and each of them has a result."""
        if not self._repeats_calls():
            return bool(self.calls) and None not in self.results
        return all(result is not None for _, result in self.distinct_calls())

    def distinct_calls(self) -> list[tuple[ToolCall, ToolResult | None]]:
        """The calls with their results, each once: one that was written again under its id has the same result or none.

        Real logs also have ids that repeat within a response, with results that differ: these are calls of their own.
        """
        pairs = list(zip(self.calls, self.results, strict=True))
        if not self._repeats_calls():
            return pairs
        unique_pairs: list[tuple[ToolCall, ToolResult | None]] = []
        for call, result in pairs:
            twins = [
                index
                for index, (other, _) in enumerate(unique_pairs)
                if call.id and other == call and call.arguments != REDACTED
            ]
            results = [unique_pairs[index][1] for index in twins]
            if twins and (result is None or any(old is not None and old.content == result.content for old in results)):
                continue
            if None in results:
                unique_pairs[twins[results.index(None)]] = (call, result)
            else:
                unique_pairs.append((call, result))
        return unique_pairs

    def _repeats_calls(self) -> bool:
        return len(self.calls) > 1 and len({call.id for call in self.calls}) < len(self.calls)

    def begin_record(self) -> None:
        """Note that another record of the log is about this response: what it has already is not added again."""
        self._earlier_texts = frozenset((*self.text, *self.reasoning))

    @property
    def ends_run(self) -> bool:
        """Whether it calls a tool that ends a run, and the call did not fail."""
        answered = zip(self.calls, self.results, strict=True)
        return any(
            call.name in FINISHING and (result is None or result.is_error is not True) for call, result in answered
        )

    def add_text(self, text: str) -> None:
        """Add a part of the text, unless it is empty or was added from an earlier record."""
        if text and text not in self._earlier_texts:
            self.text.append(text)

    def add_reasoning(self, text: str) -> None:
        """Add a part of the reasoning, unless it is empty or was added from an earlier record."""
        if text and text not in self._earlier_texts:
            self.reasoning.append(text)

    def state(self, location: str, **figures: int | None) -> None:
        """Note figures that the log states as totals of this response."""
        new_figures = {(location, name): figure for name, figure in figures.items() if figure is not None}
        self.stated = {**self.stated, **new_figures}

    @property
    def time(self) -> int | None:
        """When it was complete, else when it began; None if neither is known, or its record has no time of its own."""
        if not self.dated:
            return None
        return self.start if self.responded is None else self.responded

    def repeats(self, other: StepBuilder) -> bool:
        """Whether it has the time, the content, the usage and the results of another, and no id that differs."""
        if (self.id and other.id and self.id != other.id) or len(self.calls) != len(other.calls):
            return False
        if self.text != other.text or self.time is None or self.time != other.time:
            return False
        if self.usage != other.usage and UNKNOWN_USAGE not in (self.usage, other.usage):
            return False
        calls = zip(self.calls, other.calls, self.results, other.results, strict=True)
        return all(
            same_call(call, earlier) and (result is None or previous is None or result.content == previous.content)
            for call, earlier, result, previous in calls
        )

    def set_result(self, source: str, position: int, result: ToolResult, *, rejected: bool = False) -> None:
        """Set the result of the call at a position; `rejected` is whether the log marks the call as rejected."""
        if rejected or is_rejection(source, result.content, is_error=result.is_error):
            result = RejectedResult(*result)
            self.rejects = True
        self.results[position] = result

    def extend_to(self, time: int | None) -> None:
        if time is not None:
            self.ended = time if self.ended is None else max(self.ended, time)

    def build(self, index: int, origin: int | None, model: str = "") -> Step:
        """The step of a run of this model. Its times count from `origin`."""
        start, calls, results = self.start, tuple(self.calls), tuple(self.results)
        if calls[1:] and self._repeats_calls():
            calls, results = zip(*self.distinct_calls(), strict=True)
        if self.rejects:
            results = tuple(None if isinstance(result, RejectedResult) else result for result in results)
        response = Response(
            "\n".join(self.text),
            calls,
            self.finish_reason,
            drop_zero_cost(self.usage) if self.usage.cost == 0 else self.usage,
            "\n".join(self.reasoning),
            model="" if self.model == model else self.model,
            id=self.id,
            effort=self.effort,
            speed=self.speed,
            service_tier=self.service_tier,
        )
        return Step(
            index,
            self.turn,
            None if start is None else elapsed_ms(origin, start),
            None if start is None else elapsed_ms(start, self.ended),
            None if start is None else elapsed_ms(start, self.responded),
            response,
            results,
            self.error,
        )


def drop_zero_cost(usage: Usage) -> Usage:
    """The usage; its cost is unknown if it is 0 for tokens, which harnesses write where they know no price.

    Example:
        >>> [drop_zero_cost(usage).cost for usage in (Usage(9, 1, cost=0), Usage(0, 0, cost=0), Usage(9, 1, cost=5))]
        [None, 0, 5]
    """
    return usage._replace(cost=None) if usage.cost == 0 and usage[:2] != (0, 0) else usage


PutResult: TypeAlias = Callable[[StepBuilder, int], object]
"""Given the step and the position of a call, sets its result."""


class _EarlyResult(NamedTuple):
    """A result that was written before its call, and the line that it is in."""

    content: str
    put: PutResult
    line: int | None


class OpenCalls:
    """The calls of a run that have no result yet, by id and by position: in real logs ids repeat within a run."""

    def __init__(self, damage: Damage | None = None) -> None:
        self._damage = damage
        self._open: dict[str, tuple[StepBuilder, int] | dict[StepBuilder, list[int]]] = {}
        """By id the one call, as nearly always; or the positions of several by step."""
        self._answered: dict[str, tuple[StepBuilder, int]] = {}
        """The last call with each id that was answered."""
        self._early: dict[str, list[_EarlyResult]] = {}
        """The results without a call so far: parallel writers may write one before its call."""
        self._joined: dict[str, tuple[StepBuilder, int, int | None]] = {}
        """The last call with each id that an early result answers, and the line of that result."""

    def add(self, step: StepBuilder, call: ToolCall) -> None:
        """Add a call to a step. If its result was written before it, it has it."""
        position = len(step.calls)
        step.calls.append(call)
        step.results.append(None)
        if not self._early or call.id not in self._early:
            waiting = self._open.setdefault(call.id, (step, position))
            if waiting != (step, position):
                if isinstance(waiting, tuple):
                    waiting = self._open[call.id] = {waiting[0]: [waiting[1]]}
                waiting.setdefault(step, []).append(position)
            return
        early = self._early[call.id].pop(0)
        if not self._early[call.id]:
            del self._early[call.id]
        self._answered[call.id] = step, position
        self._joined[call.id] = step, position, early.line
        if self._damage is not None:
            self._damage.answers_later_call(early.line)
        early.put(step, position)

    def is_early(self, call_id: str) -> bool:
        """Whether a result of a call with this id was written, and the call was not."""
        return call_id in self._early

    def forget_early(self) -> None:
        """Let no call that follows have a result that was written so far."""
        self._early.clear()

    def hold(self, call_id: str, content: str, apply: PutResult) -> None:
        """Keep a result that answers no call so far: `apply` is called when its call is added. Until then it is damage.

        One with the content of the result that answered the last call with this id, or of another early one, is a copy.
        """
        early = self._early.get(call_id, [])
        if self._is_copy(call_id, content) or any(other.content == content for other in early):
            return
        line = None if self._damage is None else self._damage.answers_no_call()
        if call_id:
            self._early.setdefault(call_id, []).append(_EarlyResult(content, apply, line))

    def take(self, call_id: str, content: str | None = None) -> tuple[StepBuilder, int] | None:
        """The step and the position of the call that a result with this id answers; None if none does so far."""
        waiting = self._open.get(call_id)
        if not waiting:
            if call_id not in self._joined or self._is_copy(call_id, content):
                return None
            step, position, line = self._joined.pop(call_id)
            if self._damage is not None:
                self._damage.answers_no_call(line)
            return step, position
        if isinstance(waiting, tuple):
            open_call = waiting
            del self._open[call_id]
        else:
            latest, positions = waiting.popitem()
            open_call = latest, positions.pop(0)
            if positions:
                waiting[latest] = positions
            elif not waiting:
                del self._open[call_id]
        if call_id:
            self._answered[call_id] = open_call
        return open_call

    def _is_copy(self, call_id: str, content: str | None) -> bool:
        """Whether a result has the content of the one that answered the last call with this id."""
        answered = self._answered.get(call_id)
        if answered is None or content is None:
            return False
        result = answered[0].results[answered[1]]
        return result is not None and result.content == content


def distinct_steps(steps: Sequence[StepBuilder]) -> list[StepBuilder]:
    """The responses, each once: without those that a resumed session holds again.

    A copy without an id of its own has the time and the content of an earlier response. The log goes back in time with
    it, or it follows at once and its time is known to the millisecond: two responses of one second may say the same.
    """
    ids = {step.id for step in steps}
    if len(ids) == len(steps) and "" not in ids:  # most logs: a watched one asks for each line, so this has to be quick
        return list(steps)
    times = [step.time for step in steps]
    if len(set(times)) == len(times) or times.count(None) == len(times):
        return list(steps)
    by_time: dict[int, list[StepBuilder]] = {}
    originals: list[StepBuilder] = []
    for step, time in zip(steps, times, strict=True):
        if time is None:
            originals.append(step)
            continue
        earlier = by_time.setdefault(time, [])
        if step.goes_back:
            copied = any(step.repeats(other) for other in earlier)
        else:
            copied = time % 1000 > 0 and step.follows_at_once and bool(originals) and step.repeats(originals[-1])
        if not copied:
            earlier.append(step)
            originals.append(step)
    return originals


def goes_back(time: int, latest: int | None, last: int | None) -> bool:
    """Whether a log goes back to a time: it is before the last one so far, or no later, and the latest record was."""
    return last is not None and (time < last or (time == last and latest is not None and latest < last))


def same_call(call: ToolCall, other: ToolCall) -> bool:
    """Whether two calls may be one: equal names and arguments, and no ids that were made to differ."""
    if (call.name, call.arguments) != (other.name, other.arguments):
        return False
    return call.id == other.id or not (is_unique(call.id) and is_unique(other.id))


def is_unreadable(arguments: str) -> bool:
    """Whether a call's raw arguments are not a JSON object. Those that are not on record are not known to be none."""
    if arguments == REDACTED:
        return False
    try:
        return not isinstance(parse(arguments.encode("utf-8", "surrogatepass")), dict)
    except ValueError:
        return True


def openai_arguments(arguments: object) -> object:
    """Arguments in OpenAI's form, a text of JSON; models write an empty one for a function without parameters."""
    if not isinstance(arguments, str) or arguments.startswith("{"):
        return arguments
    return {} if arguments.strip() in {"", "null"} else arguments


def arguments_text(arguments: object) -> str:
    """The raw text of a call's arguments; `REDACTED` if the log withholds them all. Null is a call without arguments.

    An empty text is none that a call has: it is in the place of arguments that are not on record.
    """
    raw = arguments if isinstance(arguments, str) else json_text({} if arguments is None else arguments)
    if not raw or raw.isspace():
        return REDACTED
    return REDACTED if "redacted" in raw.lower() and is_withheld(json_object(raw) or raw) else raw


def is_withheld(arguments: object) -> bool:
    """Whether a log withholds all arguments of a call: they are `<redacted>`, `[REDACTED]` or the like."""
    if isinstance(arguments, dict):
        return bool(arguments) and all(map(is_withheld, arguments.values()))
    return isinstance(arguments, str) and _WITHHELD.fullmatch(arguments) is not None


def elapsed_ms(start: int | None, end: int | None) -> int | None:
    """The time from start to end, at least 0; None if either is unknown."""
    return None if start is None or end is None else max(0, end - start)
