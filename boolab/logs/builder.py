"""Builds runs from the records of a log. Every reader uses it.

A reader reads records in the order of the log and calls the methods of `RunBuilder`: `add_message` for messages,
`add_response` for each response of the model, `add_call` for each of its calls, `add_result` for each result, and
`add_event` for everything else. `build` returns the run. Times are milliseconds since 1970, or None if unknown. A
response starts when the record before it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from boolab.core.types import (
    REDACTED,
    UNKNOWN_USAGE,
    Event,
    Input,
    Message,
    Response,
    Role,
    Run,
    Step,
    Stop,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from boolab.io.json_input import Damage, items, json_text, mapping, parse, text
from boolab.logs.fields import one_line

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WITHHELD: Final = re.compile(r"\s*[<\[(*]+\s*redacted\s*[>\])*]+\s*", re.IGNORECASE)


class StepBuilder:
    """One response of the model and the results of its calls. Times are milliseconds on any one clock."""

    __slots__ = (
        "calls",
        "ended",
        "error",
        "finish_reason",
        "model",
        "reasoning",
        "responded",
        "results",
        "start",
        "text",
        "turn",
        "usage",
    )

    def __init__(self, turn: int = 1, start: int | None = None) -> None:
        self.turn = turn
        self.start = start
        self.responded: int | None = None
        """When the last part of the response was written."""
        self.ended: int | None = None
        """When the last part of the response, or the last result, was written."""
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[ToolCall] = []
        self.results: list[ToolResult | None] = []
        self.finish_reason: str | None = None
        self.usage: Usage = UNKNOWN_USAGE
        self.error = ""
        self.model = ""
        """The model that responded, "" if unknown."""

    @property
    def complete(self) -> bool:
        """Whether it has calls, and each of them has a result."""
        return bool(self.calls) and None not in self.results

    def add_text(self, text: str) -> None:
        """Add a part of the text, unless it is empty."""
        if text:
            self.text.append(text)

    def add_reasoning(self, text: str) -> None:
        """Add a part of the reasoning, unless it is empty."""
        if text:
            self.reasoning.append(text)

    def extend_to(self, time: int | None) -> None:
        """Set the end of the step to this time, if it is later."""
        if time is not None:
            self.ended = time if self.ended is None else max(self.ended, time)

    def build(self, index: int, origin: int | None, model: str = "") -> Step:
        """The step of a run of this model. Its times count from `origin`."""
        response = Response(
            "\n".join(self.text),
            tuple(self.calls),
            self.finish_reason,
            self.usage,
            "\n".join(self.reasoning),
            model="" if self.model == model else self.model,
        )
        return Step(
            index,
            self.turn,
            elapsed_ms(origin, self.start),
            elapsed_ms(self.start, self.ended),
            elapsed_ms(self.start, self.responded),
            response,
            tuple(self.results),
            self.error,
        )


class OpenCalls:
    """The calls of a run that have no result yet.

    A result is matched to a call by its id and by position, because ids repeat within a run in real logs.

    Args:
        damage: Records the results that answer no call.
    """

    def __init__(self, damage: Damage | None = None) -> None:
        self._damage = damage
        self._open: dict[str, dict[StepBuilder, list[int]]] = {}

    def add(self, step: StepBuilder, call: ToolCall) -> None:
        """Add a call to a step."""
        self._open.setdefault(call.id, {}).setdefault(step, []).append(len(step.calls))
        step.calls.append(call)
        step.results.append(None)

    def take(self, call_id: str) -> tuple[StepBuilder, int] | None:
        """The call that a result with this id answers: the first open one of the latest step that has any.

        Returns:
            The step and the position of the call in it. None if there is no such call, which is recorded as damage.
        """
        waiting = self._open.get(call_id)
        if not waiting:
            if self._damage is not None:
                self._damage.answers_no_call()
            return None
        latest, positions = waiting.popitem()
        position = positions.pop(0)
        if positions:
            waiting[latest] = positions
        elif not waiting:
            del self._open[call_id]
        return latest, position


class RunBuilder:
    """Builds one run.

    Args:
        source: The name of the format.
        damage: The damage of the file: it records results that answer no call.
        truncated: Whether the log ends too early, so that the end of the run is unknown; by default that of `damage`.

    Example:
        >>> builder = RunBuilder("some_format")
        >>> builder.add_message("user", "Fix the test", opens_turn=True)
        >>> step = builder.add_response()
        >>> builder.add_call(step, "c1", "bash", {"command": "ls"})
        >>> builder.add_result("c1", "a.py", is_error=None)
        True
        >>> builder.build("session-1")
        <Run session- no agent/some_format: aborted, 1 steps, 1 calls>
    """

    def __init__(self, source: str, damage: Damage | None = None, *, truncated: bool | None = None) -> None:
        self.source = source
        self.task = ""
        self.steps: list[StepBuilder] = []
        self.first_time: int | None = None
        """The earliest time in the records."""
        self.last_time: int | None = None
        """The latest time in the records."""
        self.models: Counter[str] = Counter()
        """The names of the models, with how many responses each gave."""
        self.has_prompt = False
        """Whether a user's own message came."""
        self._damage = damage
        self._truncated = truncated
        self._prompt: list[Message] = []
        self._inputs: list[Input] = []
        self._events: list[tuple[int | None, str, dict[str, Any]]] = []
        self._events_of_steps: list[tuple[StepBuilder, int | None, str, dict[str, Any]]] = []
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
        """Whether the log ends too early, so that the end of the run is unknown."""
        if self._truncated is None:
            return self._damage is not None and self._damage.truncated
        return self._truncated

    def note_time(self, time: int | None) -> None:
        """Extend the run to include this time."""
        if time is not None:
            self.first_time = time if self.first_time is None else min(self.first_time, time)
            self.last_time = time if self.last_time is None else max(self.last_time, time)

    def add_message(self, role: Role, content: str, *, opens_turn: bool, time: int | None = None) -> None:
        """Add a message that is neither a response nor a result.

        Args:
            role: `user` or `system`.
            content: Its text.
            opens_turn: Whether it opens a turn: it is the user's own, and no reminder, notice or summary.
            time: When it was written.
        """
        self._advance(time)
        if opens_turn:
            self.has_prompt = True
            self.task = self.task or one_line(content)
            self.open_turn()
        message = Message(role, (Text(content),))
        if self.steps:
            self._inputs.append(Input(len(self.steps) + 1, message))
        else:
            self._prompt.append(message)

    def open_turn(self) -> None:
        """Let the next response open a turn."""
        self._turn_opens = True

    def add_response(
        self, time: int | None = None, start: int | None = None, model: str = "", key: str = ""
    ) -> StepBuilder:
        """Add a response of the model, which is one step.

        Args:
            time: When it was complete, if that is known.
            start: When it was requested; by default the time of the last record before it.
            model: The model's name.
            key: The response's id, for formats that write one response as several records; see `response`.

        Returns:
            The step. The reader fills in its text, reasoning, usage and finish reason.
        """
        begun = start if start is not None else self._latest if self._latest is not None else time
        step = StepBuilder(start=begun)
        step.model = model
        step.responded = None if begun is None or (start is None and self._latest is None) else time
        step.extend_to(time)
        self.note_time(start)
        self._advance(time)
        self.append(step)
        if key:
            self._responses[key] = step
        return step

    def response(self, key: str) -> StepBuilder | None:
        """The response that was added with this key."""
        return self._responses.get(key)

    def append(self, step: StepBuilder) -> None:
        """Add a step that is already built. Its turn is set."""
        step.turn = (self.steps[-1].turn if self.steps else 0) + self._turn_opens
        self._turn_opens = False
        if step.model:
            self.models[step.model] += 1
        self.steps.append(step)

    def extend_response(self, step: StepBuilder, time: int | None) -> None:
        """Note that another part of a response was written."""
        if step.responded is not None and time is not None:
            step.responded = max(step.responded, time)
        step.extend_to(time)
        self._advance(time)

    def rewind_to(self, kept: int, time: int | None = None) -> None:
        """Remove all steps but the first `kept`, and the messages since then."""
        steps = len(self.steps) - kept
        del self.steps[kept:]
        while self._inputs and self._inputs[-1].before > kept:
            self._inputs.pop()
        if not kept:
            self._prompt = [message for message in self._prompt if message.role == "system"]
        self.add_event("rewind", time, steps=steps)

    def add_call(self, step: StepBuilder, call_id: str, name: str, arguments: object) -> None:
        """Add a call to a response. `arguments` is its raw text, or a JSON value."""
        raw = arguments if isinstance(arguments, str) else json_text({} if arguments is None else arguments)
        if "redacted" in raw.lower() and withheld(arguments):
            raw = REDACTED
        self._open_calls.add(step, ToolCall(call_id, name, raw))

    def add_openai_calls(self, step: StepBuilder, calls: object) -> None:
        """Add calls in OpenAI's form: a list of `{id, function: {name, arguments}}`."""
        for call in map(mapping, items(calls)):
            function = mapping(call.get("function"))
            self.add_call(step, text(call.get("id")), text(function.get("name")), function.get("arguments"))

    def add_result(
        self,
        call_id: str,
        content: str,
        *,
        is_error: bool | None,
        time: int | None = None,
        duration_ms: int | None = None,
    ) -> bool:
        """Add the result of a call, which is found by its id. False if there is no such call (recorded as damage)."""
        found = self._open_calls.take(call_id)
        if found is None:
            return False
        self.set_result(*found, content, is_error=is_error, time=time, duration_ms=duration_ms)
        return True

    def set_result(
        self,
        step: StepBuilder,
        position: int,
        content: str,
        *,
        is_error: bool | None,
        time: int | None = None,
        duration_ms: int | None = None,
    ) -> None:
        """Set the result of the call at a position of a step, for formats that keep both in one record."""
        call = step.calls[position]
        bad = call.arguments != REDACTED and unreadable(call.arguments)
        step.results[position] = ToolResult(call.id, content, is_error, bad, duration_ms)
        step.extend_to(time)
        self._advance(time)

    def add_event(self, kind: str, time: int | None = None, **payload: object) -> None:
        """Add an event: `retry`, `compaction`, `fault`, `abort`, `rewind`."""
        self.note_time(time)
        self._events.append((time, kind, {"after_step": len(self.steps), **payload}))

    def add_totals(self, **totals: int | None) -> None:
        """Add an event with figures of the whole run, if any is known and not zero."""
        known = {name: figure for name, figure in totals.items() if figure}
        if known:
            self.add_event("totals", **known)

    def add_step_event(self, step: StepBuilder, kind: str, time: int | None = None, **payload: object) -> None:
        """Add an event that belongs to a step, wherever that step ends up in the run."""
        self._events_of_steps.append((step, time, kind, payload))

    def add_subagent(
        self, step: StepBuilder, call_id: str, run_id: str | None, agent: str = "", time: int | None = None
    ) -> None:
        """Note that a call started a subagent.

        Args:
            step: The response with the call.
            call_id: The call's id.
            run_id: The id that the subagent's run gets from its own reader; None if unknown.
            agent: The subagent's name, "" if unknown.
            time: When.
        """
        self.add_step_event(step, "subagent", time, run_id=run_id, agent=agent, reason=None, call_id=call_id)

    def stop_reason(self) -> StopReason:
        """`finished` if the last response has no calls and no error, and the file is not truncated; else `aborted`."""
        if self.truncated or not self.steps or self.steps[-1].calls or self.steps[-1].error:
            return "aborted"
        return "finished"

    def stop(
        self, reason: StopReason, rule: str | None = None, threshold: int | None = None, value: int | None = None
    ) -> Stop:
        """A stop after the last complete tool step of the last turn.

        A step that is followed by others of its turn is complete, with or without results.
        """
        if not self.steps:
            return Stop(reason, 0, rule, threshold, value)
        last = self.steps[-1]
        before = sum(step.turn == last.turn for step in self.steps) - 1
        return Stop(reason, before + last.complete, rule, threshold, value)

    def cap_stop(self, cap: int, rule: str) -> Stop:
        """A stop by a cap on steps. `rule` is the harness's name for it."""
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
        error: str | None = None,
        limits: Mapping[str, int | None] | None = None,
        duration_ms: int | None = None,
    ) -> Run:
        """The run.

        Args:
            run_id: Its id.
            stop: Why it ended; by default `stop_reason`.
            agent: The agent's name.
            model: The model's name; by default the one with the most responses.
            task: The task; by default the user's first message.
            parent_run_id: The run that this is a subagent of.
            success: The label.
            error: The error that ended the run.
            limits: The limits of the run, by the names of their counters; None stands for no limit.
            duration_ms: Its duration in milliseconds; by default from the first to the last time in the records.
        """
        stop = self.stop_reason() if stop is None else stop
        origin = self.first_time
        model = model or (self.models.most_common(1)[0][0] if self.models else "")
        return Run(
            run_id=run_id,
            agent=agent,
            model=model,
            policy=self.source,
            task=task or self.task,
            stop=stop if isinstance(stop, Stop) else self.stop(stop),
            steps=tuple(step.build(index, origin, model) for index, step in enumerate(self.steps, 1)),
            prompt=tuple(self._prompt),
            inputs=tuple(self._inputs),
            source=self.source,
            parent_run_id=parent_run_id,
            started_at=None if origin is None else _EPOCH + timedelta(milliseconds=origin),
            limits={name: limit for name, limit in (limits or {}).items() if limit is not None},
            duration_ms=elapsed_ms(origin, self.last_time) if duration_ms is None else duration_ms,
            events=self._build_events(),
            success=success,
            error=error,
        )

    def _build_events(self) -> tuple[Event, ...]:
        steps = len(self.steps)
        for _, _, payload in reversed(self._events):  # events of steps that were removed follow the last step kept
            payload["after_step"] = steps = min(payload["after_step"], steps)
        events = list(self._events)
        if self._events_of_steps:
            numbers = {id(step): number for number, step in enumerate(self.steps, 1)}
            for step, time, kind, payload in self._events_of_steps:
                if id(step) in numbers:
                    events.append((time, kind, {"after_step": numbers[id(step)], **payload}))
            events.sort(key=lambda event: event[2]["after_step"])
        return tuple(Event(elapsed_ms(self.first_time, time), kind, payload) for time, kind, payload in events)

    def _advance(self, time: int | None) -> None:
        self.note_time(time)
        self._latest = self._latest if time is None else time


def unreadable(arguments: str) -> bool:
    """Whether a call's raw arguments are not a JSON object."""
    try:
        return not isinstance(parse(arguments.encode("utf-8", "surrogatepass")), dict)
    except ValueError:
        return True


def withheld(arguments: object) -> bool:
    """Whether a log withholds all arguments of a call: they read `<redacted>`, `[REDACTED]` or the like.

    Example:
        >>> withheld("<redacted>"), withheld({"path": "[REDACTED]"}), withheld({"path": "a", "text": "<redacted>"})
        (True, True, False)
    """
    if isinstance(arguments, dict):
        return bool(arguments) and all(map(withheld, arguments.values()))
    return isinstance(arguments, str) and _WITHHELD.fullmatch(arguments) is not None


def elapsed_ms(start: int | None, end: int | None) -> int | None:
    """The time from start to end; None if either is unknown, and never less than 0.

    Example:
        >>> elapsed_ms(2_000, 2_500), elapsed_ms(None, 2_500)
        (500, None)
    """
    return None if start is None or end is None else max(0, end - start)
