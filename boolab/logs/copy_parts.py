"""Runs without the history that they share with another one, and runs with what only a copy of them has."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from boolab.core.messages import Input, Message, StepStart, response_message, results_message
from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Event, Response, Step, Usage


def remove_history(run: Run, shared: int, origin: str, step: int) -> Run:
    """A run with only its own steps: those that it shares with another one are in its prompt."""
    prompt = list(run.prompt)
    waiting = list(reversed(run.inputs))
    for old in run.steps[:shared]:
        while waiting and waiting[-1].before <= old.index:
            prompt.append(waiting.pop().message)
        prompt += _history(old)
    steps = run.steps[shared:]
    shift = steps[0].start_ms if steps else None
    after = timedelta(milliseconds=shift or 0)
    events = [
        event._replace(
            t_ms=None if event.t_ms is None else max(0, event.t_ms - (shift or 0)),
            payload={**event.payload, "after_step": event.payload.get("after_step", len(run.steps)) - shared},
        )
        for event in run.events
        if event.payload.get("after_step", len(run.steps)) > shared and event.kind != "branch"
    ]
    began = Event(None, "branch", {"run_id": origin, "step": step, "kept": 0, "after_step": 0})
    n_turn_steps = sum(old.turn == steps[-1].turn for old in run.steps[:shared]) if steps else 0
    return replace(
        run,
        prompt=tuple(prompt),
        inputs=tuple(Input(position - shared, message) for position, message in run.inputs if position > shared),
        steps=tuple(
            new._replace(index=index, start_ms=None if new.start_ms is None else max(0, new.start_ms - (shift or 0)))
            for index, new in enumerate(steps, 1)
        ),
        stop=run.stop._replace(step=max(0, run.stop.step - n_turn_steps)),
        started_at=None if run.started_at is None else run.started_at + after,
        duration_ms=None if run.duration_ms is None else max(0, run.duration_ms - (shift or 0)),
        events=(began, *events),
        prints=run.prints[shared:],
    )


def _history(step: Step) -> list[Message]:
    """The messages of a step, as a later request sends them."""
    message = response_message(step.index, step.start_ms, step.response)
    parts = tuple(part for part in message.parts if not isinstance(part, StepStart))
    answers = results_message(step.results)
    return [Message("assistant", parts), *([] if answers is None else [answers])]


_FILLED: Final = (
    "agent", "model", "task", "started_at", "duration_ms", "seed", "context_window", "limits", "success", "labels",
    "scores", "error", "harness_version", "git_commit", "git_branch", "cwd", "entrypoint", "log_id",
)  # fmt: skip
"""The fields of a run that a copy adds where they are not known."""


def complete_run(run: Run, copy: Run, *, steps: bool) -> Run:
    """A run with what only its copy has; with `steps` also what only the copy's steps have."""
    new = {name: getattr(copy, name) for name in _FILLED if getattr(run, name) in (None, "", (), {})}
    new = {name: value for name, value in new.items() if value not in (None, "", (), {})}
    if steps:
        filled = [_complete_step(*pair) for pair in zip(run.steps, copy.steps, strict=False)]
        if any(step is not old for step, old in zip(filled, run.steps, strict=False)):
            new["steps"] = (*filled, *run.steps[len(filled) :])
    return replace(run, **new) if new else run


def _complete_step(step: Step, copy: Step) -> Step:
    """A step with what only its copy has; as it is if the copy has other calls."""
    response, other = step.response, copy.response
    if [call[1:] for call in response.tool_calls] != [call[1:] for call in other.tool_calls]:
        return step
    filled = {name: getattr(other, name) for name in _OF_RESPONSE if getattr(response, name) is None}
    filled = {name: value for name, value in filled.items() if value is not None}
    usage = _merge_usage(response.usage, other.usage)
    if usage != response.usage:
        filled["usage"] = usage
    results = tuple(
        result._replace(is_error=copy_result.is_error)
        if result is not None and copy_result is not None and result.is_error is None
        else result
        for result, copy_result in zip(step.results, copy.results, strict=True)
    )
    if not filled and results == step.results:
        return step
    return step._replace(response=response._replace(**filled), results=results)


_OF_RESPONSE: Final = tuple(
    name for name, usual in Response._field_defaults.items() if usual is None
)  # what is unknown without a value


def _merge_usage(usage: Usage, other: Usage) -> Usage:
    if UNKNOWN_USAGE in (usage, other):
        return usage if other == UNKNOWN_USAGE else other
    return Usage(*(value if value is not None else fallback for value, fallback in zip(usage, other, strict=True)))
