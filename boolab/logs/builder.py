"""Builds runs from the records of a log. Every reader uses it.

A reader calls the methods of `RunBuilder` in the order of the log: `add_message` for messages, `add_response` for each
response of the model, `add_call` for each of its calls, `add_result` for each result, and `add_event` for everything
else. `build` returns the run. Times are milliseconds since 1970, or None if unknown. A response starts when the record
before it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

from boolab.core.endings import FINISHING
from boolab.core.rejections import is_rejection
from boolab.core.types import (
    MIXED,
    REDACTED,
    UNKNOWN_USAGE,
    Event,
    Input,
    Message,
    Response,
    Role,
    Run,
    Score,
    Step,
    Stop,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from boolab.io.json_input import Damage, items, json_object, json_text, mapping, parse, text
from boolab.logs.checks import Figure, Totals, implausible
from boolab.logs.fields import named, one_line
from boolab.logs.identity import is_unique

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WITHHELD: Final = re.compile(r"\s*[<\[(*]+\s*redacted\s*[>\])*]+\s*", re.IGNORECASE)


class RejectedResult(ToolResult):
    """The answer to a call that was rejected: the call was never executed, so the step has no result for it."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class StepBuilder:
    """One response of the model and the results of its calls. Times are milliseconds on any one clock."""

    turn: int = 1
    start: int | None = None
    responded: int | None = None
    """When the last part of the response was written."""
    ended: int | None = None
    """When the last part of the response, or the last result, was written."""
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult | None] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Usage = UNKNOWN_USAGE
    error: str = ""
    model: str = ""
    """The model that responded, "" if unknown."""
    id: str = ""
    """What the provider or the harness calls the response, "" if unknown."""
    dated: bool = True
    """Whether its record has a time: else its start is that of the record before."""
    stated: dict[tuple[str, str], int] = field(default_factory=dict)
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
        kept: list[tuple[ToolCall, ToolResult | None]] = []
        for call, result in pairs:
            same = [
                place
                for place, (other, _) in enumerate(kept)
                if call.id and other == call and call.arguments != REDACTED
            ]
            known = [kept[place][1] for place in same]
            if same and (result is None or any(one is not None and one.content == result.content for one in known)):
                continue
            if None in known:
                kept[same[known.index(None)]] = (call, result)
            else:
                kept.append((call, result))
        return kept

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

    def state(self, place: str, **figures: int | None) -> None:
        """Note figures that the log states as totals of this response."""
        for name, figure in figures.items():
            if figure is not None:
                self.stated[place, name] = figure

    @property
    def time(self) -> int | None:
        """When it was complete, else when it began; None if neither is known, or its record has no time of its own."""
        if not self.dated:
            return None
        return self.start if self.responded is None else self.responded

    def repeats(self, other: StepBuilder) -> bool:
        """Whether it has the time, the content, the usage and the results of another, and no id that differs."""
        if self.text != other.text or self.time is None or self.time != other.time:
            return False
        if (self.id and other.id and self.id != other.id) or len(self.calls) != len(other.calls):
            return False
        if self.usage != other.usage and UNKNOWN_USAGE not in (self.usage, other.usage):
            return False
        calls = zip(self.calls, other.calls, self.results, other.results, strict=True)
        return all(
            same_call(call, earlier) and (result is None or known is None or result.content == known.content)
            for call, earlier, result, known in calls
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
        calls, results = tuple(self.calls), tuple(self.results)
        if self._repeats_calls():
            calls, results = zip(*self.distinct_calls(), strict=True)
        if self.rejects:
            results = tuple(None if isinstance(result, RejectedResult) else result for result in results)
        response = Response(
            "\n".join(self.text),
            calls,
            self.finish_reason,
            priced(self.usage),
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
            elapsed_ms(origin, self.start),
            elapsed_ms(self.start, self.ended),
            elapsed_ms(self.start, self.responded),
            response,
            results,
            self.error,
        )


def priced(usage: Usage) -> Usage:
    """The usage; its cost is unknown if it is 0 for tokens, which harnesses write where they know no price.

    Example:
        >>> priced(Usage(9, 1, cost=0)).cost, priced(Usage(0, 0, cost=0)).cost, priced(Usage(9, 1, cost=5)).cost
        (None, 0, 5)
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
        self._open: dict[str, dict[StepBuilder, list[int]]] = {}
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
            self._open.setdefault(call.id, {}).setdefault(step, []).append(position)
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

    def hold(self, call_id: str, content: str, put: PutResult) -> None:
        """Keep a result that answers no call so far: `put` is called when its call is added. Until then it is damage.

        One with the content of the result that answered the last call with this id, or of another early one, is a copy.
        """
        early = self._early.get(call_id, [])
        if self._is_copy(call_id, content) or any(other.content == content for other in early):
            return
        line = None if self._damage is None else self._damage.answers_no_call()
        if call_id:
            self._early.setdefault(call_id, []).append(_EarlyResult(content, put, line))

    def take(self, call_id: str, content: str | None = None) -> tuple[StepBuilder, int] | None:
        """The step and the position of the call that a result with this id answers; None if none does so far.

        It is the first open call with this id in the latest step that has one. Where there is none, it is one that an
        early result with another content answers: that one was of a call that is not in the log.
        """
        waiting = self._open.get(call_id)
        if not waiting:
            if call_id not in self._joined or self._is_copy(call_id, content):
                return None
            step, position, line = self._joined.pop(call_id)
            if self._damage is not None:
                self._damage.answers_no_call(line)
            return step, position
        latest, positions = waiting.popitem()
        position = positions.pop(0)
        if positions:
            waiting[latest] = positions
        elif not waiting:
            del self._open[call_id]
        if call_id:
            self._answered[call_id] = (latest, position)
        return latest, position

    def _is_copy(self, call_id: str, content: str | None) -> bool:
        """Whether a result has the content of the one that answered the last call with this id."""
        answered = self._answered.get(call_id)
        if answered is None or content is None:
            return False
        result = answered[0].results[answered[1]]
        return result is not None and result.content == content


class RunBuilder:
    """Builds one run.

    `truncated`: whether the log ends before the run does, so that its end is unknown; by default that of `damage`.
    `checked`: the damage of the file that gets the inconsistencies of the run; by default `damage`.

    Example:
        >>> builder = RunBuilder("some_format")
        >>> builder.add_message("user", "Fix the test", opens_turn=True)
        >>> step = builder.add_response()
        >>> builder.add_call(step, "c1", "bash", {"command": "ls"})
        >>> builder.add_result("c1", "a.py", is_error=None)
        True
        >>> builder.build("session-1")
        <Run session-1 no agent/some_format: aborted, 1 step, 1 call>
    """

    def __init__(
        self,
        source: str,
        damage: Damage | None = None,
        *,
        truncated: bool | None = None,
        checked: Damage | None = None,
    ) -> None:
        self.source = source
        self.totals = Totals()
        """The figures that the log states about the run: `build` compares them with what was read."""
        self.task = ""
        self.steps: list[StepBuilder] = []
        self.first_time: int | None = None
        """The earliest time in the records."""
        self.last_time: int | None = None
        """The latest time in the records."""
        self.models: Counter[str] = Counter()
        """The names of the models, with how many responses each gave."""
        self.has_prompt = False
        """Whether there is a message that the user wrote."""
        self.version: str | None = None
        """The version of the harness that requests the next responses."""
        self.effort: str | None = None
        """The reasoning effort of the next responses."""
        self._origin: dict[str, Any] = {}
        self._damage = damage
        self._checked = damage if checked is None else checked
        self._truncated = truncated
        self._prompt: list[Message] = []
        self._inputs: list[tuple[Input, bool]] = []
        """The messages between steps, each with whether it may be a copy of an earlier one."""
        self._said: set[int] = set()
        """A digest of the time, the role and the text of each message whose time is known."""
        self._last_said: int | None = None
        """That of the last message, if no response came since."""
        self._events: list[tuple[StepBuilder | int, int | None, str, dict[str, Any]]] = []
        """For each the step that it belongs to, or the number of steps before it; then its time, kind and payload."""
        self._responses: dict[str, StepBuilder] = {}
        self._open_calls = OpenCalls(damage)
        self._latest: int | None = None
        self._turn_opens = True

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a user's message nor a response: then there is no run."""
        return not self.has_prompt and not self.steps

    @property
    def truncated(self) -> bool:
        """Whether the log ends before the run does."""
        if self._truncated is None:
            return self._damage is not None and self._damage.truncated
        return self._truncated

    def note_time(self, time: int | None) -> None:
        """Extend the run to include this time."""
        if time is not None:
            self.first_time = time if self.first_time is None else min(self.first_time, time)
            self.last_time = time if self.last_time is None else max(self.last_time, time)

    def note_origin(self, **facts: object) -> None:
        """Note `git_commit`, `git_branch`, `cwd` or `entrypoint`, as they were when the run began: the first counts."""
        for name, fact in facts.items():
            if name not in self._origin and (word := named(fact)) is not None:
                self._origin[name] = word

    def add_message(self, role: Role, content: str, *, opens_turn: bool, time: int | None = None) -> None:
        """Add a message that is neither a response nor a result.

        It opens a turn if the user wrote it: reminders, notices and summaries open none. One that was added already,
        with the same text at the same time, is a copy.
        """
        twice, copied = self._repeats(role, content, time)
        if twice or (copied and not self.steps):
            return
        self._advance(time)
        if opens_turn:
            self.has_prompt = True
            self.task = self.task or one_line(content)
            self.open_turn()
        message = Message(role, (Text(content),))
        if self.steps:
            self._inputs.append((Input(len(self.steps) + 1, message), copied))
        else:
            self._prompt.append(message)

    def _repeats(self, role: Role, content: str, time: int | None) -> tuple[bool, bool]:
        """Whether a message is there twice in a row; and whether it was there before, and the log goes back to it.

        The latter is a copy if the response to it is one.
        """
        if time is None:
            self._last_said = None
            return False, False
        digest = hash((time, role, content))
        twice = digest == self._last_said and time % 1000 > 0
        copied = digest in self._said and self._goes_back(time)
        self._said.add(digest)
        self._last_said = digest
        return twice, copied

    def _goes_back(self, time: int) -> bool:
        return goes_back(time, self._latest, self.last_time)

    def open_turn(self) -> None:
        """Let the next response open a turn."""
        self._turn_opens = True

    def add_response(
        self, time: int | None = None, start: int | None = None, model: str = "", key: str = ""
    ) -> StepBuilder:
        """Add a response of the model, which is one step. The reader fills in its text, usage and finish reason.

        It was requested at `start`, by default the time of the record before it, and complete at `time`. `key` is its
        id, for formats that write one response as several records; see `response`.
        """
        begun = start if start is not None else self._latest if self._latest is not None else time
        step = StepBuilder(start=begun)
        step.model = model
        step.responded = None if begun is None or (start is None and self._latest is None) else time
        step.goes_back = time is not None and self._goes_back(time)
        step.dated = time is not None or start is not None
        step.extend_to(time)
        self.note_time(start)
        self._advance(time)
        self.append(step)
        if key:
            self._responses[key] = step
            step.id = key
        return step

    def response(self, key: str) -> StepBuilder | None:
        """The response that was added with this key."""
        return self._responses.get(key)

    def append(self, step: StepBuilder) -> None:
        """Add a step, and set its turn."""
        step.turn = (self.steps[-1].turn if self.steps else 0) + self._turn_opens
        step.follows_at_once = not self._turn_opens and self._last_said is None
        self._turn_opens = False
        self._last_said = None
        if step.model:
            self.models[step.model] += 1
        step.version = step.version or self.version
        step.effort = step.effort or self.effort
        self.steps.append(step)

    def extend_response(self, step: StepBuilder, time: int | None) -> None:
        """Note that another record of a response was written."""
        step.begin_record()
        if step.responded is not None and time is not None:
            step.responded = max(step.responded, time)
        step.extend_to(time)
        self._advance(time)

    def rewind_to(self, kept: int, time: int | None = None) -> None:
        """Remove all steps after the first `kept`, and the messages since then."""
        steps = len(self.steps) - kept
        del self.steps[kept:]
        while self._inputs and self._inputs[-1][0].before > kept:
            self._inputs.pop()
        if not kept:
            self._prompt = [message for message in self._prompt if message.role == "system"]
        self.add_event("rewind", time, steps=steps)

    def add_call(self, step: StepBuilder, call_id: str, name: str, arguments: object) -> None:
        """Add a call to a response. `arguments` is its raw text, or a JSON value: `REDACTED` if the log has none."""
        self._open_calls.add(step, ToolCall(call_id, name, arguments_text(arguments)))

    def add_openai_calls(self, step: StepBuilder, calls: object) -> None:
        """Add calls in OpenAI's form: a list of `{id, function: {name, arguments}}`."""
        for call in map(mapping, items(calls)):
            function = mapping(call.get("function"))
            arguments = openai_arguments(function.get("arguments", REDACTED))
            self.add_call(step, text(call.get("id")), text(function.get("name")), arguments)

    def add_result(
        self,
        call_id: str,
        content: str,
        *,
        is_error: bool | None,
        time: int | None = None,
        duration_ms: int | None = None,
        rejected: bool = False,
    ) -> bool:
        """Add the result of the call with this id. False, and damage, if there is no such call so far.

        `rejected` is whether the log marks the call as one that was not executed; the words of a harness say it too.
        """
        found = self._open_calls.take(call_id, content)
        if found is None:

            def put(step: StepBuilder, position: int) -> None:
                latest = self._latest
                self.set_result(
                    step, position, content, is_error=is_error, time=time, duration_ms=duration_ms, rejected=rejected
                )
                self._latest = latest if time is None or (latest is not None and time < latest) else time

            self._open_calls.hold(call_id, content, put)
            return False
        self.set_result(*found, content, is_error=is_error, time=time, duration_ms=duration_ms, rejected=rejected)
        return True

    def has_early_result(self, call_id: str) -> bool:
        """Whether the result of a call with this id was added, and the call was not."""
        return self._open_calls.is_early(call_id)

    def forget_early_results(self) -> None:
        """Let no call that follows have a result that was added before: another part of the log begins."""
        self._open_calls.forget_early()

    def set_result(
        self,
        step: StepBuilder,
        position: int,
        content: str,
        *,
        is_error: bool | None,
        time: int | None = None,
        duration_ms: int | None = None,
        rejected: bool = False,
    ) -> None:
        """Set the result of the call at a position of a step."""
        call = step.calls[position]
        result = ToolResult(call.id, content, is_error, unreadable(call.arguments), duration_ms)
        step.set_result(self.source, position, result, rejected=rejected)
        step.extend_to(time)
        self._advance(time)

    def add_event(self, kind: str, time: int | None = None, **payload: object) -> None:
        """Add an event: `retry`, `compaction`, `fault`, `abort`, `rewind`. One that the log goes back to is a copy."""
        known = (
            time is not None
            and self._goes_back(time)
            and any(event[1:] == (time, kind, payload) for event in self._events)
        )
        self.note_time(time)
        if kind == "compaction":
            self.forget_early_results()
        if not known:
            self._events.append((len(self.steps), time, kind, payload))

    def add_totals(self, **totals: int | None) -> None:
        """Add an event with figures of the whole run, if any is known and not zero."""
        known = {name: figure for name, figure in totals.items() if figure}
        if known:
            self.add_event("totals", **known)

    def state(self, place: str, **figures: Figure) -> None:
        """Note figures of the whole run that the log states at this place: see `boolab.logs.checks`."""
        self.totals.state(place, **figures)

    def add_step_event(self, step: StepBuilder, kind: str, time: int | None = None, **payload: object) -> None:
        """Add an event that follows a step. It is removed if the step is."""
        self._events.append((step, time, kind, payload))

    def add_subagent(
        self, step: StepBuilder, call_id: str, run_id: str | None, agent: str = "", time: int | None = None
    ) -> None:
        """Add the event that a call started a subagent, whose run has the id `run_id` (None if unknown)."""
        self.add_step_event(step, "subagent", time, run_id=run_id, agent=agent, reason=None, call_id=call_id)

    def stop_reason(self) -> StopReason:
        """`finished` if the last response has no error and no calls, or one that ends a run; else `aborted`.

        A run of a truncated file is `aborted` too.
        """
        self._drop_copies()
        return self._stop_reason()

    def _stop_reason(self) -> StopReason:
        last = self.steps[-1] if self.steps else None
        if self.truncated or last is None or last.error or (last.calls and not last.ends_run):
            return "aborted"
        return "finished"

    def stop(
        self, reason: StopReason, rule: str | None = None, threshold: int | None = None, value: int | None = None
    ) -> Stop:
        """A stop after the last complete step of the last turn. A step that others of its turn follow is complete."""
        self._drop_copies()
        return self._stop(reason, rule, threshold, value)

    def _stop(
        self, reason: StopReason, rule: str | None = None, threshold: int | None = None, value: int | None = None
    ) -> Stop:
        last = self.steps[-1] if self.steps else None
        done = 0 if last is None else sum(step.turn == last.turn for step in self.steps) - 1 + last.complete
        return Stop(reason, done, rule, threshold, value)

    def cap_stop(self, cap: int, rule: str) -> Stop:
        """A stop by a cap on steps, which the harness calls `rule`."""
        return self.stop("step_cap", f"{rule}({cap})", cap, max(cap, len(self.steps)))

    def build(
        self,
        run_id: str,
        stop: StopReason | Stop | None = None,
        *,
        agent: str = "",
        model: str = "",
        task: str = "",
        parent_run_id: str | None = None,
        success: bool | None = None,
        scores: tuple[Score, ...] = (),
        error: str | None = None,
        limits: Mapping[str, int | None] | None = None,
        duration_ms: int | None = None,
        log_id: str = "",
        branched_from: str = "",
    ) -> Run:
        """The run.

        By default it ended as `stop_reason` returns, its task is the user's first message, its model the one with the
        most responses, and its duration from the first to the last time in the records. `limits` are by the names of
        their counters; None is no limit. `log_id` is what the log calls the session, sample or trial, and
        `branched_from` the session whose history it began with, if the log names one.
        """
        self._drop_copies()
        stop = self._stop_reason() if stop is None else stop
        origin = self.first_time
        model = model or (self.models.most_common(1)[0][0] if self.models else "")
        steps = tuple(step.build(index, origin, model) for index, step in enumerate(self.steps, 1))
        if self._checked is not None:
            self._checked.inconsistencies += self.totals.check(run_id, steps, [step.stated for step in self.steps])
            self._checked.inconsistencies += implausible(run_id, self.source, steps)
        return Run(
            run_id=run_id,
            agent=agent,
            model=model,
            policy=self.source,
            task=task or self.task,
            stop=stop if isinstance(stop, Stop) else self._stop(stop),
            steps=steps,
            prompt=tuple(self._prompt),
            inputs=tuple(given for given, _ in self._inputs),
            source=self.source,
            parent_run_id=parent_run_id,
            started_at=None if origin is None else _EPOCH + timedelta(milliseconds=origin),
            limits={name: limit for name, limit in (limits or {}).items() if limit is not None},
            duration_ms=elapsed_ms(origin, self.last_time) if duration_ms is None else duration_ms,
            events=(*_branched(run_id, branched_from), *self._build_events()),
            success=success,
            scores=scores,
            error=error,
            harness_version=self._harness_version(),
            log_id=log_id,
            path=None if self._checked is None else str(self._checked.path),
            **self._origin,
        )

    def _drop_copies(self) -> None:
        """Remove the responses that the log holds again, and the messages before them, and number the rest anew."""
        kept = distinct(self.steps)
        if len(kept) == len(self.steps):
            return
        remaining = set(map(id, kept))
        stays = [id(step) in remaining for step in self.steps]
        before = [0, *accumulate(stays)]
        inputs = [pair for pair in self._inputs if not pair[1] or (stays[pair[0].before - 1 :] or (False,))[0]]
        self._inputs = [(Input(before[at - 1] + 1, message), copied) for (at, message), copied in inputs]
        for place, event in enumerate(self._events):
            if isinstance(event[0], int):
                self._events[place] = (before[event[0]], *event[1:])
        turn = fewer = 0
        for step, stay in zip(self.steps, stays, strict=True):
            fewer += step.turn > turn and not stay and turn > 0
            turn = step.turn
            step.turn -= fewer
            if step.model and not stay:
                self.models[step.model] -= 1
        self.steps[:] = kept

    def _harness_version(self) -> str | None:
        """The version of the harness: the one that its responses have, or `mixed`."""
        versions = {step.version for step in self.steps} - {None} or {self.version}
        return MIXED if len(versions) > 1 else versions.pop()

    def _build_events(self) -> tuple[Event, ...]:
        last = len(self.steps)
        found: list[tuple[int, bool, Event]] = []
        rejections = [
            (step, step.ended, "rejected", {"call_id": call.id, "tool": call.name, "what": result.content})
            for step in self.steps
            if step.rejects
            for call, result in step.distinct_calls()
            if isinstance(result, RejectedResult)
        ]
        events = [*self._events, *rejections]
        numbers = {id(step): number for number, step in enumerate(self.steps, 1)} if events else {}
        for place, time, kind, payload in reversed(events):
            if isinstance(place, int):
                number = last = min(place, last)  # events of steps that were removed follow the last step kept
            elif id(place) in numbers:
                number = numbers[id(place)]
            else:
                continue
            event = Event(elapsed_ms(self.first_time, time), kind, {"after_step": number, **payload})
            found.append((number, not isinstance(place, int), event))
        found.reverse()
        return tuple([event for *_, event in sorted(found, key=lambda one: one[:2])])

    def _advance(self, time: int | None) -> None:
        self.note_time(time)
        self._latest = self._latest if time is None else time


def _branched(run_id: str, origin: str) -> Iterator[Event]:
    """The event that a run began with the history of another one; only that one's log shows of how many steps."""
    if origin and origin != run_id:
        yield Event(None, "branch", {"run_id": origin, "step": None, "kept": 0, "after_step": 0})


def distinct(steps: Sequence[StepBuilder]) -> list[StepBuilder]:
    """The responses, each once: without those that a resumed session holds again.

    A copy without an id of its own has the time and the content of an earlier response. The log goes back in time with
    it, or it follows at once and its time is known to the millisecond: two responses of one second may say the same.
    """
    times = [step.time for step in steps]
    if len(set(times)) == len(times) or times.count(None) == len(times):
        return list(steps)
    by_time: dict[int, list[StepBuilder]] = {}
    kept: list[StepBuilder] = []
    for step in steps:
        time = step.time
        if time is None:
            kept.append(step)
            continue
        before = by_time.setdefault(time, [])
        if step.goes_back:
            copied = any(step.repeats(other) for other in before)
        else:
            copied = time % 1000 > 0 and step.follows_at_once and bool(kept) and step.repeats(kept[-1])
        if not copied:
            before.append(step)
            kept.append(step)
    return kept


def goes_back(time: int, latest: int | None, last: int | None) -> bool:
    """Whether a log goes back to a time: it is before the last one so far, or no later, and the latest record was.

    Example:
        >>> goes_back(3, 5, 5), goes_back(5, 3, 5), goes_back(5, 5, 5), goes_back(6, 3, 5)
        (True, True, False, False)
    """
    return last is not None and (time < last or (time == last and latest is not None and latest < last))


def same_call(call: ToolCall, other: ToolCall) -> bool:
    """Whether two calls may be one: equal names and arguments, and no ids that were made to differ."""
    if (call.name, call.arguments) != (other.name, other.arguments):
        return False
    return call.id == other.id or not (is_unique(call.id) and is_unique(other.id))


def unreadable(arguments: str) -> bool:
    """Whether a call's raw arguments are not a JSON object. Those that are not on record are not known to be none."""
    if arguments == REDACTED:
        return False
    try:
        return not isinstance(parse(arguments.encode("utf-8", "surrogatepass")), dict)
    except ValueError:
        return True


def openai_arguments(arguments: object) -> object:
    """Arguments in OpenAI's form, a text of JSON: an empty one is what models write for a function without parameters.

    Example:
        >>> openai_arguments(""), openai_arguments("null"), openai_arguments('{"path": "a"}')
        ({}, {}, '{"path": "a"}')
    """
    return {} if isinstance(arguments, str) and arguments.strip() in {"", "null"} else arguments


def arguments_text(arguments: object) -> str:
    """The raw text of a call's arguments; `REDACTED` if the log withholds them all. Null is a call without arguments.

    An empty text is none that a call has: it is in the place of arguments that are not on record.

    Example:
        >>> arguments_text({"path": "a"}), arguments_text('{"path": "<redacted>"}'), arguments_text(None)
        ('{"path":"a"}', '<redacted>', '{}')
        >>> arguments_text(""), arguments_text({})
        ('<redacted>', '{}')
    """
    raw = arguments if isinstance(arguments, str) else json_text({} if arguments is None else arguments)
    if not raw or raw.isspace():
        return REDACTED
    return REDACTED if "redacted" in raw.lower() and withheld(json_object(raw) or raw) else raw


def withheld(arguments: object) -> bool:
    """Whether a log withholds all arguments of a call: they are `<redacted>`, `[REDACTED]` or the like.

    Example:
        >>> withheld("<redacted>"), withheld({"path": "[REDACTED]"}), withheld({"path": "a", "text": "<redacted>"})
        (True, True, False)
    """
    if isinstance(arguments, dict):
        return bool(arguments) and all(map(withheld, arguments.values()))
    return isinstance(arguments, str) and _WITHHELD.fullmatch(arguments) is not None


def elapsed_ms(start: int | None, end: int | None) -> int | None:
    """The time from start to end, at least 0; None if either is unknown."""
    return None if start is None or end is None else max(0, end - start)
