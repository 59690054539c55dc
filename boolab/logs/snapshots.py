"""Conversations that a log holds in several states: gateways write all messages so far with each request.

Such lines have no id of their conversation. A conversation that is the beginning of another one of
the file, in every message, response and result, is taken as an earlier state of it, unless it has a label or an id of
its own: then it is an attempt, which may have stopped early. Two conversations that are equal stay two.
"""

from __future__ import annotations

from collections.abc import Sequence

from boolab.core.run import Run
from boolab.core.types import Step
from boolab.logs.copy_parts import complete_run
from boolab.logs.identity import is_unique


def last_states(runs: Sequence[Run]) -> list[Run]:
    """The runs without those that are an earlier state of another one, whose usage the other one gets."""
    groups: dict[int, list[int]] = {}
    for index, run in enumerate(runs):
        if run.steps:
            groups.setdefault(hash((run.prompt, _content(run.steps[0]))), []).append(index)
    states: list[Run | None] = list(runs)
    for group in groups.values():
        longest: list[int] = []
        for index in sorted(group, key=lambda index: (-runs[index].n_steps, -runs[index].n_tool_calls, index)):
            run = runs[index]
            later = next((other for other in longest if _is_state(run, runs[other])), None)
            if later is None:
                longest.append(index)
            else:
                last_run = states[later]
                states[later] = None if last_run is None else complete_run(last_run, run, steps=True)
                states[index] = None
    return [run for run in states if run is not None]


def _is_state(run: Run, later: Run) -> bool:
    """Whether a run is an earlier state of another one, and no attempt of its own."""
    if run.success is not None or run.scores or len(run.steps) > len(later.steps):
        return False
    names = {run.log_id, later.log_id} - {""} or {name for name in (run.run_id, later.run_id) if not is_unique(name)}
    if len(names - {""}) > 1 or run.inputs != later.inputs[: len(run.inputs)] or run.prompt != later.prompt:
        return False
    pairs = list(zip(run.steps, later.steps, strict=False))
    if any(_content(step) != _content(other) for step, other in pairs):
        return False
    if any(step.results != other.results for step, other in pairs[:-1]):
        return False
    last, other = pairs[-1]
    if len(run.steps) < len(later.steps):  # a request follows results, or what the user wrote
        answered = bool(other.results) and None not in other.results
        has_more = answered or any(position == last.index + 1 for position, _ in later.inputs)
    else:
        has_more = last.results != other.results
    return has_more and all(
        result is None or result == expected for result, expected in zip(last.results, other.results, strict=True)
    )


def _content(step: Step) -> tuple[object, ...]:
    return (step.response.text, *[call[1:] for call in step.response.tool_calls])
