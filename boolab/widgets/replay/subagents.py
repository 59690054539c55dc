"""The runs that a run started, and the calls that started them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from boolab.core.types import Run
from boolab.display.tool_kinds import kind_of


class Child(NamedTuple):
    """A run that another one started.

    `step` is the number of the step that did, `call` the place of the call in it, from 0; `start_ms` is counted from
    the parent's start. None where it is not known.
    """

    run: Run
    step: int | None = None
    call: int | None = None
    start_ms: int | None = None


def children_of(run: Run, others: Iterable[Run] = ()) -> list[Child]:
    """The subagents of a run with the calls that started them, in the order in which they were started.

    The events of a live run show which call started which run. In logs, runs only name their parents. There, the call
    is one of a subagent tool whose arguments contain the child's task; where as many such calls as children are left,
    they are paired in order; otherwise the call is not known.
    """
    found = {child.run_id: child for child in run.subagents}
    for other in others:
        if other.parent_run_id == run.run_id and other.run_id != run.run_id:
            found.setdefault(other.run_id, other)
    if not found:
        return []
    places = {
        (str(step.index), call.id): (step.index, place)
        for step in run.steps
        for place, call in enumerate(step.response.tool_calls)
    }
    begun = {
        str(event.payload.get("run_id")): event
        for event in run.events
        if event.kind == "subagent" and event.payload.get("reason") is None
    }
    assigned = {at: run.steps[at[0] - 1].response.tool_calls[at[1]] for at in _assigning(run)}
    known: dict[str, tuple[int, int]] = {}
    for child in found.values():
        event = begun.get(child.run_id)
        place = None
        if event is not None:
            place = places.get((str(event.payload.get("after_step")), str(event.payload.get("call_id"))))
        if place is None:
            place = next((at for at, call in assigned.items() if _has_task(call.arguments, child)), None)
        if place is not None:
            known[child.run_id] = place
            assigned.pop(place, None)
    left = [child for child in found.values() if child.run_id not in known and child.run_id not in begun]
    if len(left) == len(assigned):
        known |= {child.run_id: place for child, place in zip(left, assigned, strict=True)}
    children = []
    for child in found.values():
        event = begun.get(child.run_id)
        start = _since(run, child) if event is None else event.t_ms
        step, call = known.get(child.run_id, (None, None))
        children.append(Child(child, step, call, start))
    return sorted(children, key=lambda child: (child.step is None, child.step or 0, child.call or 0))


def _assigning(run: Run) -> list[tuple[int, int]]:
    """The places of all calls that start a subagent."""
    return [
        (step.index, place)
        for step in run.steps
        for place, call in enumerate(step.response.tool_calls)
        if kind_of(call.name) == "subagent"
    ]


def _since(run: Run, child: Run) -> int | None:
    """How long after its parent a run began, if both have a time."""
    if run.started_at is None or child.started_at is None:
        return None
    if (run.started_at.tzinfo is None) != (child.started_at.tzinfo is None):
        return None  # one of them is a time without a time zone
    return max(0, round((child.started_at - run.started_at).total_seconds() * 1000))


def _has_task(arguments: str, child: Run) -> bool:
    """Whether the JSON arguments of a call contain the task of a run."""
    words = child.task.strip()[:60]
    return bool(words) and words in arguments.replace("\\n", "\n").replace('\\"', '"')
