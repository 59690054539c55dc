"""The turns and steps of a run as the plain data that replay.js draws, what each request held, and the outline."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, chain, groupby
from typing import Any, Final

from boolab.core.messages import Message
from boolab.core.run import Run
from boolab.core.text import clean, count, shorten
from boolab.core.types import MICRO, Step, ToolCall, ToolResult
from boolab.display.numbers import span
from boolab.frames.runs import known_sum
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.widgets._base.run_texts import describe_text, label_call, sizes_of, visible_text
from boolab.widgets.replay.cards import card_of, is_refused, remove_commands
from boolab.widgets.replay.edits import is_window
from boolab.widgets.replay.gauges import counts_by_turn

_BY_LIMIT: Final = frozenset(
    {"extension", "continued", "grace", "ask", "block", "stop_before_call", "shadow", "sentinel", "limits"}
)
"""Events that a limit or a guard causes."""


def _segments(run: Run) -> list[tuple[int, list[Step]]]:
    """The turns with their steps, in order; a run without steps has one turn. A number that comes again is another."""
    return [(turn, list(steps)) for turn, steps in groupby(run.steps, lambda step: step.turn)] or [(1, [])]


def opening_messages(run: Run) -> dict[int, Message]:
    """By its first step, the message that opens each turn: the last one of the user's before it."""
    opening = {}
    for number, (_, steps) in enumerate(_segments(run)):
        first = steps[0].index if steps else 1
        messages = list(run.prompt) if number == 0 else []
        messages += [message for step_number, message in run.inputs if step_number == first]
        tasks = [message for message in messages if message.role == "user" and message.text]
        if tasks:
            opening[first] = tasks[-1]
    return opening


def turn_rows(run: Run, opening: dict[int, Message]) -> list[dict[str, Any]]:
    """The turns: each with its title, its text, and its first and last step."""
    turns = []
    for number, (turn, steps) in enumerate(_segments(run)):
        first, last = (steps[0].index, steps[-1].index) if steps else (1, 0)
        text = opening[first].text if first in opening else run.task if number == 0 else ""
        title = next((line.strip() for line in visible_text(text).splitlines() if line.strip()), "") or f"Turn {turn}"
        step_range = {"first": first, "last": last}
        turns.append({"title": title[:200], "text": visible_text(text), "missing": sizes_of(text=text)} | step_range)
    return turns


def call_streaks(run: Run) -> list[list[int]]:
    """For each call of each step, how many in a row were the same up to it; 0 for one that never ran."""
    repeat = RepeatStreak(run.identity)
    streaks = []
    for _, steps in _segments(run) if counts_by_turn(run) else [(1, run.steps)]:
        state = repeat.start
        for step in steps:
            counts = []
            for call, result in zip(step.response.tool_calls, step.results, strict=True):
                streak = 0
                if result is not None:
                    state, streak = repeat.fold(state, ObservedCall(call, result))
                counts.append(streak)
            streaks.append(counts)
    return streaks


def step_rows(
    run: Run,
    turns: Sequence[dict[str, Any]],
    moments: Sequence[list[dict[str, Any]]],
    streaks: Sequence[list[int]],
    nested: dict[tuple[int | None, int | None], int],
) -> list[dict[str, Any]]:
    """The steps with their calls; `nested` has the places of the subagents by the step and call that started them."""
    lengths = ([number] * (turn["last"] + 1 - turn["first"]) for number, turn in enumerate(turns, 1))
    rows, turn_numbers = StepRows(nested), chain.from_iterable(lengths)
    return [rows.add(*each) for each in zip(run.steps, turn_numbers, moments, streaks, strict=True)]


class StepRows:
    """Makes the rows of steps, one after the other: a card names the steps before it that are the same."""

    def __init__(self, nested: Mapping[tuple[int | None, int | None], int] | None = None) -> None:
        self._nested = {} if nested is None else nested
        self._step_of_outcome: dict[tuple[str, str, str], int] = {}
        self._step_of_call: dict[tuple[str, str], int] = {}
        self._window = ""  # the last result that showed lines of an open file

    def add(self, step: Step, turn: int, events: list[dict[str, Any]], streaks: Sequence[int]) -> dict[str, Any]:
        """The row of the next step; `streaks`: for each call, how many in a row were the same up to it."""
        response, usage = step.response, step.response.usage
        times = _call_times(step)
        calls = []
        for index, (call, result) in enumerate(zip(response.tool_calls, step.results, strict=True)):
            first_step = self._step_of_outcome.get(_outcome(call, result)) if result is not None else None
            facts = {
                "streak": streaks[index],
                "same_call_as": self._step_of_call.get((call.name, call.arguments)) if streaks[index] > 1 else None,
                "same_result_as": first_step,
                "child": self._nested.get((step.index, index)),
            }
            calls.append(_call(call, result, times[index], self._window) | facts)
            self._step_of_call[call.name, call.arguments] = step.index
            if result is not None and is_window(result.content):
                self._window = result.content
        for call, result in zip(response.tool_calls, step.results, strict=True):
            if result is not None and result.content:
                self._step_of_outcome.setdefault(_outcome(call, result), step.index)
        return {
            "turn": turn,
            "start_ms": step.start_ms,
            "duration_ms": step.duration_ms,
            "model_ms": step.model_ms,
            "ttft_ms": response.ttft_ms,
            "finish": response.finish_reason,
            "text": remove_commands(
                visible_text(response.text),
                ((tool_call.arguments, label_call(tool_call).value) for tool_call in response.tool_calls),
            ),
            "reasoning": describe_text(response.reasoning),
            "error": describe_text(step.error),
            "missing": sizes_of(text=response.text),
            "usage": {
                "input": usage.input_tokens,
                "cached": usage.cached_tokens,
                "output": usage.output_tokens,
                "reasoning": usage.reasoning_tokens,
                "cost": None if usage.cost is None else usage.cost / MICRO,
            },
            "calls": calls,
            "events": events,
        }


def _outcome(call: ToolCall, result: ToolResult | None) -> tuple[str, str, str]:
    return call.name, call.arguments, result.content if result is not None else ""


def _call(call: ToolCall, result: ToolResult | None, start: int | None, window: str) -> dict[str, Any]:
    kind, label, value = label_call(call)
    content = "" if result is None else result.content
    refused = is_refused(content)
    arguments_text = call.arguments if value is None else json.dumps(value, indent=2, ensure_ascii=False)
    return card_of(call.name, kind, call.arguments, value, result=content, window=window) | {
        "tool": call.name,
        "kind": kind,
        "label": label,
        "arguments": visible_text(arguments_text),
        "missing": sizes_of(arguments=call.arguments, result=content),
        "parse_error": result is not None and result.parse_error,
        "result": None if result is None else visible_text(content),
        "error": None if result is None else refused or result.is_error,
        "refused": refused,
        "dropped": result is None,
        "start_ms": start,
        "ms": None if result is None else result.duration_ms,
    }


def _call_times(step: Step) -> list[int | None]:
    """When each call started. Calls of a step that fit into its time one after another are assumed to be sequential."""
    n = len(step.results)
    if step.start_ms is None or step.model_ms is None:
        return [None] * n
    start = step.start_ms + step.model_ms
    durations = [result.duration_ms for result in step.results if result is not None]
    total = known_sum(durations)
    if total is None or step.duration_ms is None or total > step.duration_ms - step.model_ms:
        return [start] * n
    times: list[int | None] = []
    for result in step.results:
        times.append(start)
        start += (result.duration_ms or 0) if result is not None else 0
    return times


def flag_steps(steps: Sequence[dict[str, Any]], marks: Sequence[dict[str, Any]]) -> None:
    """What one can jump to: errors, repeats, and where limits stopped, would have stopped, or intervened."""
    stops = {
        max(mark["step"], 1)
        for mark in marks
        if mark["acts"] in ("stops", "steps in") and mark["reason"] not in ("finished", "synthesis", "paused")
    }
    for number, step in enumerate(steps, 1):
        flags = {
            "error": bool(step["error"]) or any(call["error"] for call in step["calls"]),
            "repeat": any(call["streak"] > 1 for call in step["calls"]),
            "limit": number in stops or any(event["kind"] in _BY_LIMIT for event in step["events"]),
        }
        step["flags"] = [name for name, holds in flags.items() if holds]


def requests_of(run: Run) -> list[str]:
    """For each step, what its request was made of, in words: as if there were no compactions but those on record."""
    system = ["system prompt"] if any(message.role == "system" for message in run.prompt) else []
    message_count = sum(message.role != "system" for message in run.prompt)
    coming = sorted(step_number for step_number, message in run.inputs if message.role != "system")
    summaries = [compaction for compaction in run.compactions if not compaction.fault]
    texts = []
    kept_from = 1
    for step in run.steps:
        while coming and coming[0] <= step.index:
            coming.pop(0)
            message_count += 1
        while summaries and summaries[0].before <= step.index:
            kept_from = summaries.pop(0).kept_from
        parts = [*system, *([count(message_count, "message")] if message_count else [])]
        if kept_from > 1:
            parts.append(f"summary of {_steps(1, kept_from - 1)}")
        if kept_from < step.index:
            parts.append(f"{_steps(kept_from, step.index - 1)} with results")
        texts.append(", ".join(parts) or "not on record")
    return texts


def _steps(first: int, last: int) -> str:
    return f"{'step' if first == last else 'steps'} {span(first, last)}"


_ANSWER: Final = "final answer"
_NO_TEXT: Final = "no text"
_UNRECORDED: Final = "text not on record"
_PEEK: Final = 200
_WORDS: Final = 48
_TEXT: Final = "text"
_TIMES: Final = "\N{MULTIPLICATION SIGN}"


def outline_of(
    turns: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]], followed_steps: Collection[int] = ()
) -> list[dict[str, Any]]:
    """The outline of a run: no item continues after one of the steps that something follows."""
    outline = []
    for number, turn in enumerate(turns, 1):
        items = _items(steps, turn["first"], turn["last"], followed_steps, ends=number == len(turns))
        outline.append({"turn": number, "title": turn["title"], "items": items})
    return outline


def _items(
    steps: Sequence[Mapping[str, Any]], first: int, last: int, followed_steps: Collection[int], *, ends: bool
) -> list[dict[str, Any]]:
    """The items of a turn; `ends`: whether it is the last one, so that its last text is the answer."""
    numbers = range(first, last + 1)
    parts = accumulate((number - 1 in followed_steps for number in numbers), initial=0)  # how many rows came before
    numbered = [(number, steps[number - 1], part) for number, part in zip(numbers, [*parts][1:], strict=True)]
    items = []
    for _, group in groupby(numbered, lambda entry: (entry[2], *_sameness(entry[1]))):
        members = [(number, step) for number, step, _ in group]
        item_steps = [step for _, step in members]
        calls = [*chain.from_iterable(step["calls"] for step in item_steps)]
        repeats = sum(any(call["streak"] > 1 for call in step["calls"]) for step in item_steps)
        items.append(
            {
                "label": _label(item_steps, calls, repeats, closes=ends and members[-1][0] == last),
                "kind": calls[0]["kind"] if calls else _TEXT,
                "first": members[0][0],
                "last": members[-1][0],
                "errors": sum(call["error"] is True for call in calls)
                + sum(bool(step["error"]) for step in item_steps),
                "repeats": repeats,
            }
        )
    return items


def _sameness(step: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes neighbours one item: the same calls, or reads by the same tool, all carried out or all refused."""
    calls = step["calls"]
    if not calls:
        return (_TEXT, step["text"], step["error"], str(step.get("missing")))
    tools = {(call["tool"], call["kind"]) for call in calls}
    refused = str(any(call.get("refused") for call in calls))
    if len(tools) == 1 and calls[0]["kind"] == "read":
        return ("read", calls[0]["tool"], refused)
    return (*sorted({call["label"] for call in calls}), refused)


def _label(
    steps: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], repeats: int, *, closes: bool
) -> str:
    if not calls:
        if steps[-1]["error"]:
            return "failed"
        text = clean(steps[0]["text"][:_PEEK])
        if steps[0].get("missing"):
            return _ANSWER if closes else _UNRECORDED
        label = _ANSWER if closes and text else f'"{shorten(text, _WORDS)}"' if text else _NO_TEXT
        return label if len(steps) == 1 else f"{label} {_TIMES}{len(steps)}"
    labels = list(dict.fromkeys(call["label"] for call in calls))
    if len(labels) == 1:
        return str(labels[0]) if repeats + 1 >= len(calls) else f"{labels[0]} {_TIMES}{len(calls)}"
    tools = list(dict.fromkeys(call["tool"] for call in calls))
    if len(tools) == 1:
        return f"{tools[0]} {_TIMES}{len(calls)}"
    return f"{labels[0]} and {len(calls) - 1} more"
