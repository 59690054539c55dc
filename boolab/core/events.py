"""A run as a sequence of events: the same whether they are watched live or derived from the record.

Kinds, with what their payload holds besides `message` and `part` (the places of a message and of a part in it):

| kind                                | payload                                                           |
|-------------------------------------|-------------------------------------------------------------------|
| `step_start`                        | step_number, started_at                                           |
| `delta` (live only)                 | of (text, reasoning, tool_call), text                             |
| `reasoning`, `text`                 | chars                                                             |
| `tool_call`                         | call_id, tool                                                     |
| `tool_result`                       | call_id, is_error, chars                                          |
| `dropped`                           | call_id, tool                                                     |
| `rejected` (of a log)               | call_id, tool, what (the harness's answer to a call that the      |
|                                     | user, a rule or a hook rejected: it was dropped); after_step      |
| `broken`                            | step_number, error                                                |
| `abort`, `synthesis`                | a description; after_step                                         |
| `fault`                             | a description; after_step; code: a word of `FaultKind`            |
| `subagent`                          | run_id, agent, call_id; reason (None when it begins, and then all |
|                                     | that follows is left out), steps, calls, charged; after_step      |
| `retry`, `throttled`                | why the model's answer takes longer; step_number, if it was in a  |
|                                     | step: they are emitted at once; after_step                           |
| `ignored`                           | parameter, what: a parameter of a request that the server seems   |
|                                     | to have ignored; step_number; after_step                          |
| `input`, `reminder`                 | the user's message, as it was or wrapped; after_step              |
| `nudge`, `continuation`             | the policy's message to the model; after_step                     |
| `extension`, `continued`            | the same, or the user's message, beyond a cap; or, without a      |
|                                     | message, by how much the cap grew; after_step                     |
| `branch`                            | run_id (of the run whose first steps these are), step; kept, if   |
|                                     | fewer of them are among its own steps than `step`: 0 where a log  |
|                                     | has them in the prompt; after_step                                |
| `handoff`                           | run_id (of the run that this one continues, with a summary in     |
|                                     | place of its steps), step; after_step                             |
| `resumed`                           | run_id (of the run that this one continues), step; after_step     |
| `departed`                          | message (its number), role, recorded, came: what is not as it was |
|                                     | recorded, or what, in words; after_step                           |
| `grace`                             | why there is one more request; after_step                         |
| `limits`                            | max_steps, tool_budget, doom_loop: those of the policy's limits   |
|                                     | that hold from here on, after one was changed; after_step         |
| `ask`                               | rule, value, allowed; at a call its call_id and tool; after_step  |
| `block`, `stop_before_call`         | rule, value, call_id, tool; after_step                            |
| `shadow`                            | rule, reason, value, where it first was true; after_step          |
| `compaction`                        | kept_from (the first step that was not summed up), tokens (the    |
|                                     | estimate before), what (the summary); after_step                  |
| `clearing`                          | results (the step and the place, from 0, of each result that was  |
|                                     | cleared), tokens (an estimate of theirs), what; after_step        |
| `compaction_thrash`                 | what, value: so many compactions with little work in between;     |
|                                     | once a run; after_step                                            |
| `cut`                               | call_id, tool, call (its number in the step), chars (of the       |
|                                     | result), sent (how many of them were sent); after_step            |
| `cache_miss` (of a log)             | reason (the provider's word), tokens (of the prompt that were not |
|                                     | read from the cache); after_step: of the request                  |
| `world`                             | what was kept (of a `GitWorld`: commit, changed, left_out, ...),  |
|                                     | or fault: why nothing was; after_step                             |
| `sentinel`                          | sentinel (its kind), text, after_step                             |
| `stop`                              | reason, step, rule, threshold, value, also_fired, error            |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from boolab.core.messages import Reasoning, Text, response_message, results_message
from boolab.core.redacted import chars_of
from boolab.core.run import Run
from boolab.core.types import Event, Step, ToolCall

FaultKind: TypeAlias = Literal[
    "ask", "compaction", "not_returned", "on_event", "recording", "score", "summary", "synthesis", "world"
]
"""What failed, in the `code` of a `fault`. Code depends on this word, never on the description: that is for people."""

DURING_STEP: Final = frozenset({"ignored", "retry", "throttled"})
"""Events that are emitted during a step, because they are about its request; so is `subagent`."""


def start_event(message: int, step_number: int, started_at: int | None) -> Event:
    """A step begins; its `StepStart` is part 0 of the message that it will make."""
    payload = {"message": message, "part": 0, "step_number": step_number, "started_at": started_at}
    return Event(started_at, "step_start", payload)


def step_events(message: int, step: Step) -> Iterator[Event]:
    """The events after the start: the parts of the response, the results, dropped calls and errors."""
    start = step.start_ms or 0
    for number, part in enumerate(response_message(step.index, step.start_ms, step.response).parts):
        position = {"message": message, "part": number}
        answered = start + (step.model_ms or 0)
        # The part that is left is the `StepStart`, whose event came when the step began.
        if isinstance(part, Reasoning):
            yield Event(answered, "reasoning", {**position, "chars": chars_of(part.text)})
        elif isinstance(part, Text):
            yield Event(answered, "text", {**position, "chars": chars_of(part.text)})
        elif isinstance(part, ToolCall):
            yield Event(answered, "tool_call", {**position, "call_id": part.id, "tool": part.name})
    end = start + (step.duration_ms or 0)
    for call in step.dropped:
        yield Event(end, "dropped", {"message": message, "call_id": call.id, "tool": call.name})
    executed_results = [result for result in step.results if result is not None]
    for number, result in enumerate(executed_results):
        payload: dict[str, Any] = {"message": message + 1, "part": number, "call_id": result.call_id}
        yield Event(end, "tool_result", payload | {"is_error": result.is_error, "chars": chars_of(result.content)})
    if step.error:
        yield Event(end, "broken", {"message": message, "step_number": step.index, "error": step.error})


def stop_event(run: Run) -> Event:
    """The end of a run, and why."""
    payload = run.stop._asdict() | {"also_fired": list(run.stop.also_fired), "error": run.error}
    return Event(run.duration_ms, "stop", payload)


def run_events(run: Run) -> list[Event]:
    """All events of a run in order: those of its steps, the exceptional ones, and the stop."""
    events = _events_after(run, 0)
    message = len(run.prompt)
    came_in = Counter(step_index for step_index, _ in run.inputs)
    for step in run.steps:
        message += came_in[step.index]
        events.append(start_event(message, step.index, step.start_ms))
        recorded_events = _events_after(run, step.index)
        events.extend(event for event in recorded_events if _is_within(event))
        events.extend(step_events(message, step))
        events.extend(event for event in recorded_events if not _is_within(event))
        message += 1 if results_message(step.results) is None else 2
    events.append(stop_event(run))
    return events


def _is_within(event: Event) -> bool:
    """Whether an exceptional event was emitted during its step, and not after it."""
    return event.kind == "subagent" or (event.kind in DURING_STEP and "step_number" in event.payload)


def _events_after(run: Run, step: int) -> list[Event]:
    """The exceptional events that came after that step."""
    return [event for event in run.events if event.payload.get("after_step", len(run.steps)) == step]


RECORDED_BY: Final = frozenset(
    (
        "boolab", "claude_code", "cline", "codex", "copilot", "crush", "droid", "gemini", "inspect", "kimi",
        "opencode", "openhands", "openhands_sdk", "pi", "qwen",
    )
)  # fmt: skip
"""The formats whose readers report compactions as events. Others hold none, or do not report them."""


def compactions_of(run: Run) -> dict[int, int] | None:
    """How often the history was compacted before each step, where it was; None if the record does not report it."""
    counts_by_step: defaultdict[int, Counter[bool]] = defaultdict(Counter)
    for _, kind, payload in run.events:
        if kind == "compaction":
            after: object = payload.get("after_step")
            counts_by_step[after + 1 if isinstance(after, int) else 1]["auto" in payload] += 1
    if not counts_by_step and run.source not in RECORDED_BY:
        return None
    # opencode writes two messages for one compaction: what requested it (`auto`), and the summary.
    return {step: max(kinds.values()) for step, kinds in counts_by_step.items()}
