"""What stands between and beside the steps of a run: messages, limits, compactions, subagents, and the stop."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from boolab.core.messages import Message
from boolab.core.run import Run, stop_place
from boolab.core.text import clean, clip, count
from boolab.core.types import MICRO, Event, ToolCall
from boolab.display.numbers import duration, money, short_number
from boolab.display.tool_kinds import kind_of
from boolab.limits.table import AGENT_LIMITS, describe_limits
from boolab.widgets._base.run_texts import describe_text
from boolab.widgets.replay.header import limit_name


class Child(NamedTuple):
    """A run that another one started.

    `step` is the number of the step that did, `call` the place of the call in it, from 0; `start_ms` is counted from
    the parent's start. None where it is not known.
    """

    run: Run
    step: int | None = None
    call: int | None = None
    start_ms: int | None = None


def children_of(run: Run, candidates: Iterable[Run] = ()) -> list[Child]:
    """The subagents of a run with the calls that started them, in the order in which they were started.

    The events of a live run show which call started which run. In logs, runs only name their parents. There, the call
    is one of a subagent tool whose arguments contain the child's task; where as many such calls as children are left,
    they are paired in order; otherwise the call is not known.
    """
    child_runs = {child.run_id: child for child in run.subagents}
    for other in candidates:
        if other.parent_run_id == run.run_id and other.run_id != run.run_id:
            child_runs.setdefault(other.run_id, other)
    if not child_runs:
        return []
    call_positions = {(str(step), call.id): (step, position) for step, position, call in _placed_calls(run)}
    start_events = {
        str(event.payload.get("run_id")): event
        for event in run.events
        if event.kind == "subagent" and event.payload.get("reason") is None
    }
    assigned = {
        (step, position): call for step, position, call in _placed_calls(run) if kind_of(call.name) == "subagent"
    }
    positions_by_run: dict[str, tuple[int, int]] = {}
    for child in child_runs.values():
        event = start_events.get(child.run_id)
        position = None
        if event is not None:
            position = call_positions.get((str(event.payload.get("after_step")), str(event.payload.get("call_id"))))
        if position is None:
            position = next(
                (task_position for task_position, call in assigned.items() if _has_task(call.arguments, child)), None
            )
        if position is not None:
            positions_by_run[child.run_id] = position
            assigned.pop(position, None)
    unplaced_runs = [
        child
        for child in child_runs.values()
        if child.run_id not in positions_by_run and child.run_id not in start_events
    ]
    if len(unplaced_runs) == len(assigned):
        positions_by_run |= {child.run_id: position for child, position in zip(unplaced_runs, assigned, strict=True)}
    children = []
    for child in child_runs.values():
        event = start_events.get(child.run_id)
        start = _start_delay(run, child) if event is None else event.t_ms
        step, call = positions_by_run.get(child.run_id, (None, None))
        children.append(Child(child, step, call, start))
    return sorted(children, key=lambda child: (child.step is None, child.step or 0, child.call or 0))


def _placed_calls(run: Run) -> Iterator[tuple[int, int, ToolCall]]:
    """Each call with the number of its step and its place in it."""
    for step in run.steps:
        for index, call in enumerate(step.response.tool_calls):
            yield step.index, index, call


def _start_delay(run: Run, child: Run) -> int | None:
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


_INPUT_EVENTS: Final = frozenset({"input", "reminder", "nudge", "continuation", "extension", "continued"})
"""Events whose messages stand among the run's inputs."""
_ROW_EVENTS: Final = frozenset({"sentinel", "synthesis", "stop", "compaction", "world"})
"""Events that stand between steps (see `boolab.widgets.replay.events`), and those of files that were kept."""
_STEP_EVENTS: Final = frozenset({"subagent", "ignored", "retry", "throttled"})
"""Events of the step in which they happened; all others come after it."""
_LEFT_OUT_KEYS: Final = frozenset(
    {"after_step", "call_id", "code", "results", "step_number", "what", "text", "wait_ms"}
)


def moments_of(run: Run, opening: Mapping[int, Message], shown_ids: Collection[str] = ()) -> list[list[dict[str, Any]]]:
    """What came before or at each step of a run, in order: for each step its events with `kind`, `t_ms` and `text`.

    What came after the last step is with it.

    Args:
        run: The run.
        opening: By step, the messages that open turns, which are shown there.
        shown_ids: The ids of subagents that have views of their own: their events are left out.
    """
    n = len(run.steps)
    moments: list[list[dict[str, Any]]] = [[] for _ in run.steps]
    if not n:
        return moments
    kinds = {
        (_event_step(event, n), str(event.payload.get("what", ""))): event.kind
        for event in run.events
        if event.kind in _INPUT_EVENTS
    }
    for step_number, message in run.inputs:
        if message is not opening.get(step_number):
            text = message.text
            kind = kinds.get((step_number - 1, text)) or ("input" if message.role == "user" else message.role)
            moments[min(step_number, n) - 1].append({"kind": kind, "t_ms": None, "text": describe_text(text)})
    for event in run.events:
        if event.kind in _INPUT_EVENTS | _ROW_EVENTS or str(event.payload.get("run_id")) in shown_ids:
            continue
        moments[min(max(shown_at(event, n), 1), n) - 1].append(
            {"kind": event.kind, "t_ms": event.t_ms, "text": _text_of(event)}
        )
    for step_record, events in zip(run.steps, moments, strict=True):
        events.extend({"kind": "shadow", "t_ms": None, "text": rule} for rule in step_record.shadow_stops)
    return moments


def shown_at(event: Event, last: int) -> int:
    """The step with which an event is shown, of a run of so many steps; the next one where it came between two."""
    after = _event_step(event, last)
    return after if event.kind in _STEP_EVENTS and after else after + 1


def _event_step(event: Event, last: int) -> int:
    """The step after which an event came; the last one if the event does not have a number."""
    after = event.payload.get("after_step")
    return after if isinstance(after, int) else last


def _text_of(event: Event) -> str:
    """An event's payload as text: its sentence, then its other facts."""
    payload = event.payload
    if event.kind == "subagent":
        return _describe_subagent(payload)
    if event.kind == "limits":
        values = {name: payload[name] for name in AGENT_LIMITS if name in payload}
        return f"from here on: {', '.join(describe_limits(values, None))}"
    sentence = next((describe_text(str(payload[name])) for name in ("what", "text") if payload.get(name)), "")
    facts = [_fact(name, value) for name, value in payload.items() if name not in _LEFT_OUT_KEYS and value is not None]
    if isinstance(payload.get("wait_ms"), int):
        facts.append(f"again after {duration(payload['wait_ms'])}")
    return ", ".join(filter(None, [sentence, *facts]))


def _fact(name: str, value: object) -> str:
    """A fact of an event, in common units."""
    if isinstance(value, int) and not isinstance(value, bool):
        if name == "cost":
            return f"cost {money(value / MICRO)}"
        if name.endswith("tokens"):
            return f"{name.replace('_', ' ')} {short_number(value)}"
    return f"{name} {describe_text(str(value))}"


def _describe_subagent(payload: Mapping[str, Any]) -> str:
    """That a subagent begins, or how it ended; any fact of the event may be missing."""
    agent = payload.get("agent") or "a subagent"
    if payload.get("reason") is None:
        return f"{agent} begins"
    amounts = ", ".join(f"{payload[name]} {name}" for name in ("steps", "calls") if payload.get(name) is not None)
    return f"{agent}: {payload['reason']}{', ' if amounts else ''}{amounts}"


def rows_between(run: Run, marks: Sequence[Mapping[str, Any]], children: Sequence[Child] = ()) -> list[dict[str, Any]]:
    """The rows between the steps of a run, in order: limits, compactions, subagents and the stop."""
    order = ("compaction", "subagent", "limit", "stop")
    rows = [*_limits(run, marks), *_compactions(run), *_subagents(run, children), _stop(run, marks)]
    return sorted(rows, key=lambda row: (row["after"], order.index(row["kind"])))


def _row(kind: str, after: int, title: str, text: str = "", *, name: str, **extra: Any) -> dict[str, Any]:  # noqa: ANN401 - plain data
    row = {"kind": kind, "after": after, "title": title, "text": text, "name": name}
    return row | {"details": "", "about": "", "child": None} | extra


def _limits(run: Run, marks: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    acting = [mark for mark in marks if not mark["own"] and mark["acts"] in ("stops", "steps in")]
    acting.sort(key=lambda mark: (mark["step"], mark["acts"]))
    for (after, acts), group in groupby(acting, lambda mark: (mark["step"], mark["acts"])):
        members = list(group)
        limit_names = [limit_name(mark) if acts == "stops" else mark["policy"] or mark["limit"] for mark in members]
        names = "; ".join(limit_names)
        if acts == "stops":
            title = f"Would have stopped here: {names}."
            text = f"The run continued for {count(run.n_steps - after, 'step')}{_end(run)}."
        else:
            title = f"Would have sent the model a message here: {names}."
            text = "What would have followed is not known."
        short = limit_names[0] + (f" +{len(limit_names) - 1}" if limit_names[1:] else "")
        yield _row("limit", after, title, text if after < run.n_steps else "", name=short)


def _end(run: Run) -> str:
    return {True: ", and was resolved", False: ", and failed", None: ""}[run.success]


def _compactions(run: Run) -> Iterator[dict[str, Any]]:
    """Those of a live run with their summaries; of a log, their events."""
    for compaction in run.compactions:
        title = (
            f"Compaction: failed, {compaction.fault}"
            if compaction.fault
            else _describe_compaction(compaction.kept_from)
        )
        size = f"The context was about {short_number(compaction.tokens)} tokens."
        yield _compaction(compaction.before - 1, title, size, describe_text(compaction.summary), "its summary")
    if run.compactions:
        return
    for event in run.events:
        if event.kind == "compaction":
            after, tokens = event.payload.get("after_step"), event.payload.get("tokens")
            text = f"The context was {short_number(tokens)} tokens." if isinstance(tokens, int) else ""
            step_number = min(after, run.n_steps) if isinstance(after, int) else run.n_steps
            title = "Compaction: a summary took the place of earlier messages."
            yield _compaction(step_number, title, text, _next_message(run, step_number), "the message that followed")


def _compaction(after: int, title: str, text: str, details: str, details_label: str) -> dict[str, Any]:
    return _row("compaction", after, title, text, name="compaction", details=details, about=details_label)


def _next_message(run: Run, after: int) -> str:
    """The first message that came in after a step: in logs, the summary is often one."""
    return next((describe_text(message.text) for step_number, message in run.inputs if step_number == after + 1), "")


def _subagents(run: Run, children: Sequence[Child]) -> Iterator[dict[str, Any]]:
    for index, child in enumerate(children):
        if child.call is None:
            title = f"Subagent: {clip(clean(child.run.task or child.run.agent or child.run.run_id), 120)}"
            text = f"{count(child.run.n_steps, 'step')}. Which call started it is not on record."
            yield _row("subagent", _step_at(run, child), title, text, name=title, child=index)


def _step_at(run: Run, child: Child) -> int:
    """The last step that had begun when a subagent was started; the last one of all where times are not on record."""
    if child.step is not None:
        return child.step
    starts = [step.start_ms for step in run.steps]
    if child.start_ms is None or any(start is None for start in starts):
        return run.n_steps
    return sum(start is not None and start <= child.start_ms for start in starts)


def _describe_compaction(kept_from: int) -> str:
    return f"Compaction: a summary took the place of all before step {kept_from:,}."


def _stop(run: Run, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rule = f", by {run.stop.rule}" if run.stop.rule else ""
    title = f"The run ended here: {run.stop_reason.replace('_', ' ')} {stop_place(run)}{rule}."
    last = run.wrap_up.text if run.wrap_up is not None else run.synthesis or ""
    sentinel = run.sentinel.text if run.sentinel is not None else ""
    details = "\n\n".join(
        dict.fromkeys(map(describe_text, filter(None, (sentinel, last))))
    )  # each once: some are the same
    name = next((mark["limit"] for mark in marks if mark["own"]), run.stop.rule or run.stop_reason)
    return _row("stop", run.n_steps, title, describe_text(run.error or ""), name=name, details=details)
