"""What happened in a run beside its steps: messages that came in between, nudges, retries, compactions, sentinels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from boolab.core.types import MICRO, Event, Message, Run
from boolab.display.numbers import duration, money, short_number
from boolab.widgets.replay.unrecorded import in_words

_IN_WORDS: Final = frozenset({"input", "reminder", "nudge", "continuation", "extension", "continued"})
"""Events whose messages stand among the run's inputs."""
_ELSEWHERE: Final = frozenset({"sentinel", "synthesis", "stop", "compaction", "world"})
"""Events that stand between steps (see `boolab.widgets.replay.between`), and those of files that were kept."""
_WITHIN: Final = frozenset({"subagent", "retry", "throttled"})
"""Events of the step in which they happened; all others come after it."""
_PLACES: Final = frozenset({"after_step", "call_id", "code", "step_number", "what", "text", "wait_ms"})


def moments_of(run: Run, opening: Mapping[int, Message], shown: Collection[str] = ()) -> list[list[dict[str, Any]]]:
    """What came before or at each step of a run, in order: for each step its events with `kind`, `t_ms` and `text`.

    What came after the last step is with it.

    Args:
        run: The run.
        opening: By step, the messages that open turns, which are shown there.
        shown: The ids of subagents that have views of their own: their events are left out.
    """
    n = len(run.steps)
    found: list[list[dict[str, Any]]] = [[] for _ in run.steps]
    if not n:
        return found
    kinds = {
        (_after(event, n), str(event.payload.get("what", ""))): event.kind
        for event in run.events
        if event.kind in _IN_WORDS
    }
    for before, message in run.inputs:
        if message is not opening.get(before):
            text = message.text
            kind = kinds.get((before - 1, text)) or ("input" if message.role == "user" else message.role)
            found[min(before, n) - 1].append({"kind": kind, "t_ms": None, "text": in_words(text)})
    for event in run.events:
        after = _after(event, n)
        if event.kind in _IN_WORDS | _ELSEWHERE or str(event.payload.get("run_id")) in shown:
            continue
        step = after if event.kind in _WITHIN and after else after + 1
        found[min(max(step, 1), n) - 1].append({"kind": event.kind, "t_ms": event.t_ms, "text": _text_of(event)})
    for one, events in zip(run.steps, found, strict=True):
        events.extend({"kind": "shadow", "t_ms": None, "text": rule} for rule in one.shadow_stops)
    return found


def _after(event: Event, last: int) -> int:
    """The step after which an event came; the last one if the event does not have a number."""
    after = event.payload.get("after_step")
    return after if isinstance(after, int) else last


def _text_of(event: Event) -> str:
    """An event's payload as text: its sentence, then its other facts."""
    payload = event.payload
    if event.kind == "subagent":
        return _of_subagent(payload)
    sentence = next((in_words(str(payload[name])) for name in ("what", "text") if payload.get(name)), "")
    facts = [_fact(name, value) for name, value in payload.items() if name not in _PLACES and value is not None]
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
    return f"{name} {in_words(str(value))}"


def _of_subagent(payload: Mapping[str, Any]) -> str:
    """That a subagent begins, or how it ended; any fact of the event may be missing."""
    who = payload.get("agent") or "a subagent"
    if payload.get("reason") is None:
        return f"{who} begins"
    made = ", ".join(f"{payload[name]} {name}" for name in ("steps", "calls") if payload.get(name) is not None)
    return f"{who}: {payload['reason']}{', ' if made else ''}{made}"
