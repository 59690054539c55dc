"""Builds runs from the records of a log. Every reader uses it.

A reader calls the methods of `RunBuilder` in the order of the log: `add_message` for messages, `add_response` for each
response of the model, `add_call` for each of its calls, `add_result` for each result, and `add_event` for everything
else. `build` returns the run. Times are milliseconds since 1970, or None if unknown. A response starts when the record
before it was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import Any, Final

from boolab.core.messages import Input, Message, Role, Text
from boolab.core.run import MIXED, Run, RunLabel, Score, StatedCost
from boolab.core.types import REDACTED, Event, Image, Stop, StopReason, ToolCall, ToolResult
from boolab.io.json_input import Damage, items, mapping, text
from boolab.logs.checks import Figure, Totals, find_implausible
from boolab.logs.fields import name_or_none, one_line
from boolab.logs.step_builder import (
    OpenCalls,
    RejectedResult,
    StepBuilder,
    arguments_text,
    distinct_steps,
    elapsed_ms,
    goes_back,
    is_unreadable,
    openai_arguments,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RunBuilder:
    """Builds one run.

    `truncated`: whether the log ends before the run does, so that its end is unknown; by default that of `damage`.
    `checked`: the damage of the file that gets the inconsistencies of the run; by default `damage`.
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
        self.stated_cost: StatedCost | None = None
        """What the whole run cost by its log."""
        self.context_window: int | None = None
        """The most tokens that a request of the run may have."""
        self._origin: dict[str, Any] = {}
        self._damage = damage
        self._inconsistency_log = damage if checked is None else checked
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
            if name not in self._origin and (word := name_or_none(fact)) is not None:
                self._origin[name] = word

    def add_message(
        self, role: Role, content: str, *, opens_turn: bool, time: int | None = None, images: tuple[Image, ...] = ()
    ) -> None:
        """Add a message that is no response or result, unless it is a copy; one of the user opens a turn."""
        copied = False
        if time is None:
            self._last_said = None
        else:
            is_repeat, copied = self._repeats(role, content, time)
            if is_repeat or (copied and not self.steps):
                return
            self._advance(time)
        if opens_turn:
            self.has_prompt = True
            self.task = self.task or one_line(content)
            self.open_turn()
        message = Message(role, (Text(content), *images))
        if self.steps:
            self._inputs.append((Input(len(self.steps) + 1, message), copied))
        else:
            self._prompt.append(message)

    def _repeats(self, role: Role, content: str, time: int) -> tuple[bool, bool]:
        """Whether a message is there twice in a row; and whether it was there before, and the log goes back to it."""
        digest = hash((time, role, content))
        is_repeat = digest == self._last_said and time % 1000 > 0
        copied = digest in self._said and self._goes_back(time)
        self._said.add(digest)
        self._last_said = digest
        return is_repeat, copied

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
        request_time = start if start is not None else self._latest if self._latest is not None else time
        step = StepBuilder(start=request_time)
        step.model = model
        if time is not None or start is not None:
            step.responded = None if start is None and self._latest is None else time
            step.goes_back = time is not None and self._goes_back(time)
            step.ended = time
            self.note_time(start)
            self._advance(time)
        else:
            step.dated = False
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
        if self.version is not None or self.effort is not None:
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

    def rewind_to(self, n_kept: int, time: int | None = None) -> None:
        """Remove all steps after the first `n_kept`, and the messages since then."""
        steps = len(self.steps) - n_kept
        del self.steps[n_kept:]
        while self._inputs and self._inputs[-1][0].before > n_kept:
            self._inputs.pop()
        if not n_kept:
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
        images: tuple[Image, ...] = (),
    ) -> bool:
        """Add the result of the call with this id; False, and damage, if there is no such call so far."""
        open_call = self._open_calls.take(call_id, content)
        put_result = partial(
            self.set_result,
            content=content,
            is_error=is_error,
            time=time,
            duration_ms=duration_ms,
            rejected=rejected,
            images=images,
        )
        if open_call is None:

            def put(step: StepBuilder, position: int) -> None:
                latest = self._latest
                put_result(step, position)
                self._latest = latest if time is None or (latest is not None and time < latest) else time

            self._open_calls.hold(call_id, content, put)
            return False
        put_result(*open_call)
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
        images: tuple[Image, ...] = (),
    ) -> None:
        """Set the result of the call at a position of a step."""
        call = step.calls[position]
        result = ToolResult(call.id, content, is_error, is_unreadable(call.arguments), duration_ms, images)
        step.set_result(self.source, position, result, rejected=rejected)
        if time is not None:
            step.extend_to(time)
            self._advance(time)

    def add_event(self, kind: str, time: int | None = None, **payload: object) -> None:
        """Add an event: `retry`, `compaction`, `fault`, `abort`, `rewind`. One that the log goes back to is a copy."""
        is_copy = (
            time is not None
            and self._goes_back(time)
            and any(event[1:] == (time, kind, payload) for event in self._events)
        )
        self.note_time(time)
        if kind == "compaction":
            self.forget_early_results()
        if not is_copy:
            self._events.append((len(self.steps), time, kind, payload))

    def add_totals(self, **totals: int | None) -> None:
        """Add an event with figures of the whole run, if any is known and not zero."""
        figures = {name: figure for name, figure in totals.items() if figure}
        if figures:
            self.add_event("totals", **figures)
        if cost := figures.get("cost"):
            self.stated_cost = StatedCost(cost, "run")

    def state(self, location: str, **figures: Figure) -> None:
        """Note figures of the whole run that the log states at this place: see `boolab.logs.checks`."""
        self.totals.state(location, **figures)
        if isinstance(cost := figures.get("cost"), tuple):
            self.stated_cost = StatedCost(cost[1], "session")
        elif cost:
            self.stated_cost = StatedCost(cost, "run")

    def add_step_event(self, step: StepBuilder, kind: str, time: int | None = None, **payload: object) -> None:
        """Add an event that follows a step. It is removed if the step is."""
        self._events.append((step, time, kind, payload))

    def add_subagent(
        self, step: StepBuilder, call_id: str, run_id: str | None, agent: str = "", time: int | None = None
    ) -> None:
        """Add the event that a call started a subagent, whose run has the id `run_id` (None if unknown)."""
        self.add_step_event(step, "subagent", time, run_id=run_id, agent=agent, reason=None, call_id=call_id)

    def stop_reason(self) -> StopReason:
        """`finished` if the last response has no error and no calls, or one that ends a run; else `aborted`."""
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
        n_complete = 0 if last is None else sum(step.turn == last.turn for step in self.steps) - 1 + last.complete
        return Stop(reason, n_complete, rule, threshold, value)

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
        success: bool | RunLabel | None = None,
        scores: tuple[Score, ...] = (),
        error: str | None = None,
        limits: Mapping[str, int | None] | None = None,
        duration_ms: int | None = None,
        log_id: str = "",
        branched_from: str = "",
    ) -> Run:
        """The run.

        By default it ended as `stop_reason` returns, its task is the user's first message, its model the one with the
        most responses, and its duration from the first to the last time in the records. `success` may name its source
        and its reason. `limits` are by the names of their counters; None is no limit. `log_id` is what the log calls
        the session, sample or trial, and `branched_from` the session whose history it began with, if the log names one.
        """
        self._drop_copies()
        stop = self._stop_reason() if stop is None else stop
        origin = self.first_time
        model = model or (self.models.most_common(1)[0][0] if self.models else "")
        steps = tuple([step.build(index, origin, model) for index, step in enumerate(self.steps, 1)])
        if self._inconsistency_log is not None:
            stated = [step.stated for step in self.steps]
            if not self.totals.is_empty or any(stated):
                self._inconsistency_log.inconsistencies += self.totals.check(run_id, steps, stated)
            self._inconsistency_log.inconsistencies += find_implausible(run_id, self.source, steps)
        return Run(
            run_id=run_id,
            agent=agent,
            model=model,
            policy=self.source,
            task=task or self.task,
            stop=stop if isinstance(stop, Stop) else self._stop(stop),
            steps=steps,
            prompt=tuple(self._prompt),
            inputs=tuple([message for message, _ in self._inputs]),
            source=self.source,
            parent_run_id=parent_run_id,
            started_at=None if origin is None else _EPOCH + timedelta(milliseconds=origin),
            limits={name: limit for name, limit in (limits or {}).items() if limit is not None},
            duration_ms=elapsed_ms(origin, self.last_time) if duration_ms is None else duration_ms,
            events=(*_branch_events(run_id, branched_from), *self._build_events()),
            success=success.success if isinstance(success, RunLabel) else success,
            labels=(success,) if isinstance(success, RunLabel) else (),
            scores=scores,
            error=error,
            harness_version=self._harness_version(),
            context_window=self.context_window or None,
            stated_cost=self.stated_cost,
            log_id=log_id,
            path=None if self._inconsistency_log is None else str(self._inconsistency_log.path),
            **self._origin,
        )

    def _drop_copies(self) -> None:
        """Remove the responses that the log holds again, and the messages before them, and number the rest anew."""
        originals = distinct_steps(self.steps)
        if len(originals) == len(self.steps):
            return
        remaining = set(map(id, originals))
        stays = [id(step) in remaining for step in self.steps]
        counts = [0, *accumulate(stays)]
        inputs = [pair for pair in self._inputs if not pair[1] or (stays[pair[0].before - 1 :] or (False,))[0]]
        self._inputs = [(Input(counts[position - 1] + 1, message), copied) for (position, message), copied in inputs]
        for index, event in enumerate(self._events):
            if isinstance(event[0], int):
                self._events[index] = (counts[event[0]], *event[1:])
        turn = fewer = 0
        for step, stay in zip(self.steps, stays, strict=True):
            fewer += step.turn > turn and not stay and turn > 0
            turn = step.turn
            step.turn -= fewer
            if step.model and not stay:
                self.models[step.model] -= 1
        self.steps[:] = originals

    def _harness_version(self) -> str | None:
        """The version of the harness: the one that its responses have, or `mixed`."""
        versions = {step.version for step in self.steps} - {None} or {self.version}
        return MIXED if len(versions) > 1 else versions.pop()

    def _build_events(self) -> tuple[Event, ...]:
        last = len(self.steps)
        entries: list[tuple[int, bool, Event]] = []
        events = [*self._events]
        for step in self.steps:
            for call, result in step.distinct_calls() if step.rejects else ():
                if isinstance(result, RejectedResult):
                    facts = {"call_id": call.id, "tool": call.name, "what": result.content}
                    events.append((step, step.ended, "rejected", facts))
        if not events:
            return ()
        numbers = {id(step): number for number, step in enumerate(self.steps, 1)}
        for anchor, time, kind, payload in reversed(events):
            if isinstance(anchor, int):
                number = last = min(anchor, last)  # events of steps that were removed follow the last step kept
            elif id(anchor) in numbers:
                number = numbers[id(anchor)]
            else:
                continue
            event = Event(elapsed_ms(self.first_time, time), kind, {"after_step": number, **payload})
            entries.append((number, not isinstance(anchor, int), event))
        entries.reverse()
        return tuple([event for *_, event in sorted(entries, key=lambda entry: entry[:2])])

    def _advance(self, time: int | None) -> None:
        self.note_time(time)
        self._latest = self._latest if time is None else time


def _branch_events(run_id: str, origin: str) -> Iterator[Event]:
    """The event that a run began with the history of another one; only that one's log shows of how many steps."""
    if origin and origin != run_id:
        yield Event(None, "branch", {"run_id": origin, "step": None, "kept": 0, "after_step": 0})
