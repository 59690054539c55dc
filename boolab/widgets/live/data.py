"""A run while it happens, as the plain data that live.js draws: the cards of its latest steps, limits and counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from boolab.core.run import Run, stop_place
from boolab.core.text import clean, clip
from boolab.core.types import MICRO, Step
from boolab.errors import SettingError
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.stop import Threshold
from boolab.limits.table import AGENT_LIMITS, LIMIT_OF_REASON, LIMITS
from boolab.runtime.engine.runner import StartedRun
from boolab.widgets._base.run_texts import label_call, visible_text
from boolab.widgets.replay.events import moments_of, shown_at
from boolab.widgets.replay.header import header_of
from boolab.widgets.replay.steps import StepRows, flag_steps

WINDOW: Final = 20
"""How many of the latest steps are shown; Replay has all."""
MAX_CHARS: Final = 4_000
"""The longest text of a card here; Replay has the whole."""
MAX_PARTS: Final = 100
"""How many calls of a step, or lines of a diff, are shown here at most."""
MIN_REACH: Final = 10
"""How far each slider reaches at least."""


class LatestCards:
    """The cards of the latest steps of a run, made as its steps complete."""

    def __init__(self, identity: str) -> None:
        self.rows: deque[tuple[int, dict[str, Any]]] = deque(maxlen=WINDOW)
        self._made = StepRows()
        self._repeat = RepeatStreak(identity)
        self._state: Any = self._repeat.start

    def add(self, step: Step, run: Run) -> None:
        """Make the card of a step that has just been put on the record `run`."""
        events = [event for event in run.events if shown_at(event, step.index) == step.index]
        inputs = [entry for entry in run.inputs if entry.before == step.index]
        part = replace(run, steps=(step,), inputs=tuple(inputs), events=tuple(events))
        (moments,) = moments_of(part, {})
        row = self._made.add(step, step.turn, moments, self._streaks(step))
        flag_steps([row], [])
        self.rows.append((step.index, cut(row)))

    def _streaks(self, step: Step) -> list[int]:
        streaks = []
        for call, result in zip(step.response.tool_calls, step.results, strict=True):
            streak = 0
            if result is not None:
                self._state, streak = self._repeat.fold(self._state, ObservedCall(call, result))
            streaks.append(streak)
        return streaks


def cut(value: Any) -> Any:  # noqa: ANN401 - plain data of any kind
    """Plain data with long texts and lists cut, so that what a notebook sends stays small whatever a tool returns."""
    if isinstance(value, str):
        hidden_count = len(value) - MAX_CHARS
        return (
            f"{value[:MAX_CHARS]}\n[{hidden_count:,} more characters: open the run in Replay]"
            if hidden_count > 0
            else value
        )
    if isinstance(value, Mapping):
        return {name: cut(part) for name, part in value.items()}
    return [cut(part) for part in value[:MAX_PARTS]] if isinstance(value, list | tuple) else value


def head_of(run: Run) -> dict[str, Any]:
    """What stands above the cards: the task, the names, and what the run has used."""
    header = header_of(run, [], 0)
    return {name: cut(header[name]) for name in ("title", "task", "facts", "kpis")}


def now_of(live_run: StartedRun, partial: str) -> dict[str, Any]:
    """What happens at this moment: the step under way, and what it waits for."""
    call = live_run.running_call
    step = len(live_run.snapshot().steps) + 1
    if call is not None:
        return {"step": step, "what": "tool", "text": clip(label_call(call).label, 160)}
    if live_run.awaits_answer:
        return {"step": step, "what": "model", "text": visible_text(partial)}
    return {"step": step, "what": "", "text": ""}


def reach_of(values: Mapping[str, int | None]) -> dict[str, int]:
    """How far the slider of each limit reaches: twice its first value."""
    return {name: max(2 * (value or 0), MIN_REACH) for name, value in values.items()}


def limits_of(
    live_run: StartedRun, new_values: Mapping[str, int | None], reach: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The limits that can be moved: their values, what counts towards each, and how far its slider reaches."""
    thresholds, counters = live_run.thresholds, live_run.progress
    limits = []
    values = live_run.changeable_limits
    for name in [name for name in AGENT_LIMITS if name in values]:
        limit, value = LIMITS[name], values[name]
        leaf = next((leaf for leaf in thresholds if leaf.reason == limit.reason), None)
        count_now = count_of(leaf, counters) if leaf is not None else _count_without(name, counters)
        limits.append(
            {
                "name": name,
                "label": limit.label,
                "title": limit.short_label.capitalize(),
                "unit": limit.unit,
                "value": value,
                "wanted": new_values.get(name, value),
                "count": count_now,
                "least": limit.min_useful,
                "reach": max(reach[name], value or 0, new_values.get(name) or 0, count_now or 0),
            }
        )
    return limits


def why_fixed(live_run: StartedRun) -> str:
    """Why no limit can be moved; empty where some can."""
    try:
        live_run.check_limits({})
    except SettingError as error:
        return f"{str(error)[0].upper()}{str(error)[1:]}."
    return ""


def counts_of(live_run: StartedRun) -> list[dict[str, Any]]:
    """What else counts: every threshold that holds and is none of the limits that can be moved."""
    own_reasons = {LIMITS[name].reason for name in live_run.changeable_limits}
    counts = []
    for leaf in live_run.thresholds:
        if leaf.reason in own_reasons:
            own_reasons.remove(
                leaf.reason
            )  # the first one is the limit itself; further ones are guards and the ceiling
            continue
        limit = LIMITS.get(LIMIT_OF_REASON.get(leaf.reason, ""))
        money = leaf.counter == "cost"
        scale = MICRO if money else 1
        value = count_of(leaf, live_run.progress)
        counts.append(
            {
                "name": str(leaf),
                "label": limit.label if limit is not None and leaf.detector is None else _meaning(leaf),
                "count": None if value is None else value / scale,
                "threshold": leaf.threshold / scale,
                "unit": "usd" if money else "ms" if leaf.counter == "elapsed" else "",
            }
        )
    return counts


def _meaning(leaf: Threshold) -> str:
    return str(getattr(leaf.detector, "meaning", "") or str(leaf))


def count_of(leaf: Threshold, counters: Mapping[str, int | None]) -> int | None:
    """What has counted towards a threshold; one that counts at responses has counted the steps."""
    return counters.get(leaf.counter, counters["steps"])


def _count_without(name: str, counters: Mapping[str, int | None]) -> int | None:
    """What would count towards a limit that is off."""
    counter = LIMITS[name].counter
    known_counters = list(counters.items())  # a copy: another thread counts
    return next((value for key, value in known_counters if key.partition(":")[0] == counter), None)


def end_of(run: Run | None, fault: str) -> dict[str, str] | None:
    """How the run ended, in words; None while it has not."""
    if run is None:
        return None
    rule = f", by {run.stop.rule}" if run.stop.rule else ""
    reason = run.stop_reason.replace("_", " ")
    return {"reason": run.stop_reason, "text": f"{reason} {stop_place(run)}{rule}", "error": fault or run.error or ""}


def lines_of(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> list[str]:
    """The latest steps as text, a line each."""
    labels = [(number, ", ".join(call["label"] for call in row["calls"]) or row["text"]) for number, row in rows]
    return [f"{number:4}. {clip(clean(label), 100)}" for number, label in labels]
