"""Conversations that a log holds in several states: gateways write all messages so far with each request.

Such lines have no id of their conversation. A conversation that is the beginning of another one of
the file, in every message, response and result, is taken as an earlier state of it, unless it has a label or an id of
its own: then it is an attempt, which may have stopped early. Two conversations that are equal stay two.
"""

from __future__ import annotations

from collections.abc import Sequence

from boolab.core.types import Run, Step
from boolab.logs.copy_parts import completed
from boolab.logs.identity import is_unique


def last_states(runs: Sequence[Run]) -> list[Run]:
    """The runs without those that are an earlier state of another one, whose usage the other one gets."""
    groups: dict[int, list[int]] = {}
    for place, run in enumerate(runs):
        if run.steps:
            groups.setdefault(hash((run.prompt, _content(run.steps[0]))), []).append(place)
    kept: list[Run | None] = list(runs)
    for group in groups.values():
        longest: list[int] = []
        for place in sorted(group, key=lambda place: (-runs[place].n_steps, -runs[place].n_tool_calls, place)):
            run = runs[place]
            later = next((other for other in longest if _is_state(run, runs[other])), None)
            if later is None:
                longest.append(place)
            else:
                whole = kept[later]
                kept[later] = None if whole is None else completed(whole, run, steps=True)
                kept[place] = None
    return [run for run in kept if run is not None]


def _is_state(run: Run, later: Run) -> bool:
    """Whether a run is an earlier state of another one, and no attempt of its own."""
    if run.success is not None or run.scores or len(run.steps) > len(later.steps):
        return False
    names = {run.log_id, later.log_id} - {""} or {name for name in (run.run_id, later.run_id) if not is_unique(name)}
    if len(names - {""}) > 1 or run.inputs != later.inputs[: len(run.inputs)] or run.prompt != later.prompt:
        return False
    pairs = list(zip(run.steps, later.steps, strict=False))
    if any(_content(one) != _content(other) for one, other in pairs):
        return False
    if any(one.results != other.results for one, other in pairs[:-1]):
        return False
    last, other = pairs[-1]
    if len(run.steps) < len(later.steps):  # a request follows results, or what the user wrote
        answered = bool(other.results) and None not in other.results
        more = answered or any(before == last.index + 1 for before, _ in later.inputs)
    else:
        more = last.results != other.results
    return more and all(
        result is None or result == known for result, known in zip(last.results, other.results, strict=True)
    )


def _content(step: Step) -> tuple[object, ...]:
    return (step.response.text, *[call[1:] for call in step.response.tool_calls])
