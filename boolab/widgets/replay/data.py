"""A run as the plain data that replay.js draws: everything that it shows is prepared here.

Texts are raw: the browser makes control characters visible. Money is in dollars, times are milliseconds from the run's
start, None is unknown. Steps count from 1, boundaries from 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from boolab.core.redacted import is_redacted
from boolab.core.text import count
from boolab.core.types import MICRO, REDACTED, Message, Run, Step, ToolCall, ToolResult, stop_place
from boolab.display.numbers import duration, money, short_number
from boolab.display.text import NO_NAME
from boolab.display.tool_kinds import KINDS
from boolab.frames.runs import known_sum
from boolab.harnesses.policy import Policy
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.stop import StopRule
from boolab.widgets._base.amounts import dollars_of, tokens_of
from boolab.widgets._base.call_labels import labelled
from boolab.widgets.replay.between import rows_between
from boolab.widgets.replay.cards import card_of, is_refused, without_commands
from boolab.widgets.replay.code import code_of
from boolab.widgets.replay.curves import curves_of, slow_steps
from boolab.widgets.replay.edits import is_window
from boolab.widgets.replay.events import moments_of
from boolab.widgets.replay.gauges import counts_by_turn, gauges_of
from boolab.widgets.replay.header import MIN_STREAK, header_of, used_in
from boolab.widgets.replay.outline import outline_of
from boolab.widgets.replay.requests import requests_of
from boolab.widgets.replay.subagents import Child, children_of
from boolab.widgets.replay.unrecorded import in_words, shown, sizes_of
from boolab.widgets.replay.what_if_marks import acting, limits_of, marks_of_each, stop_boundary

MAX_GENERATIONS: Final = 20
"""How many generations of subagents one Replay has."""
_BY_LIMIT: Final = frozenset(
    {"extension", "continued", "grace", "ask", "block", "stop_before_call", "shadow", "sentinel"}
)
"""Events that a limit or a guard causes."""


def replay_data(
    run: Run,
    policies: Sequence[str | Policy] | None = None,
    rules: Sequence[StopRule] = (),
    runs: Sequence[Run] = (),
) -> dict[str, Any]:
    """A run as plain data. A child whose call is not known has None as its `step` and `call`.

    `runs`: runs among which there are subagents of it, linked by their `parent_run_id`.

    Example:
        >>> import boolab as bl
        >>> data = replay_data(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])))
        >>> data["pills"][0], data["steps"][0]["text"], data["stop"]["text"]
        ('1 step · 0 calls', 'Hi.', 'finished after 1 step')
    """
    return replays_data([run], policies, rules, runs)[0]


def replays_data(
    wanted: Sequence[Run],
    policies: Sequence[str | Policy] | None = None,
    rules: Sequence[StopRule] = (),
    runs: Sequence[Run] = (),
) -> list[dict[str, Any]]:
    """The same for several runs: other policies are evaluated once for all of them."""
    families = [_family(run, runs, frozenset({run.run_id})) for run in wanted]
    marks = iter(marks_of_each([run for family in families for run in _members(family)], policies, rules))
    limits = limits_of(policies, rules)
    return [_data(family, marks, limits) for family in families]


class _Family(NamedTuple):
    """A run with the runs that it started, and those that they did."""

    run: Run
    children: list[tuple[Child, _Family]]
    left_out: int = 0
    """How many more it started that are too far down."""


def _family(run: Run, runs: Sequence[Run], above: frozenset[str]) -> _Family:
    children = [child for child in children_of(run, runs) if child.run.run_id not in above]
    if len(above) == MAX_GENERATIONS:
        return _Family(run, [], len(children))
    return _Family(run, [(child, _family(child.run, runs, above | {child.run.run_id})) for child in children])


def _members(family: _Family) -> Iterator[Run]:
    """All runs of a family, in the order in which `_data` comes to them."""
    yield family.run
    for _, below in family.children:
        yield from _members(below)


def _data(
    family: _Family, marks_of_members: Iterator[list[dict[str, Any]]], limits: Sequence[tuple[str, int, str]]
) -> dict[str, Any]:
    run = family.run
    marks = next(marks_of_members)
    opening = _openings(run)
    turns = _turns(run, opening)
    children = [child for child, _ in family.children]
    nested = {(child.step, child.call): number for number, child in enumerate(children)}
    opened = {child.run.run_id for child in children if child.call is not None}
    streaks = _streaks(run)
    longest = max((streak for counts in streaks for streak in counts), default=0)
    steps = _steps(run, turns, moments_of(run, opening, opened), streaks, nested)
    _flag(steps, marks)
    between = rows_between(run, marks, children)
    gauges = gauges_of(run, limits)
    return {
        "run_id": run.run_id,
        "title": run.agent or NO_NAME,
        "header": header_of(run, marks, longest),
        "pills": _pills(run),
        "stop": _stop(run),
        "finding": _finding(longest, marks),
        "acting": acting(marks),
        "notes": [*_notes(run), *_marking_notes(marks), *_children_notes(children, family.left_out)],
        "kinds": dict(KINDS),
        "timed": is_timed(run),
        "unknown_errors": all(call["error"] is None for step in steps for call in step["calls"]),
        "duration_ms": run.duration_ms,
        "turns": turns,
        "counts_by_turn": len(turns) > 1 and counts_by_turn(run),
        "steps": steps,
        "gauges": gauges,
        "curves": curves_of(run, gauges),
        "slow": slow_steps(run),
        "marks": marks,
        "between": between,
        "outline": outline_of(turns, steps, {row["after"] for row in between}),
        "requests": requests_of(run),
        "code": code_of(run),
        "children": [
            {
                "step": child.step,
                "call": child.call,
                "start_ms": child.start_ms,
                "duration_ms": child.run.duration_ms,
                "run": _data(below, marks_of_members, limits),
            }
            for child, below in family.children
        ],
    }


# --- Turns and steps --------------------------------------------------------------------------------------------------


def _segments(run: Run) -> list[tuple[int, list[Step]]]:
    """The turns with their steps, in order; a run without steps has one turn. A number that comes again is another."""
    return [(turn, list(steps)) for turn, steps in groupby(run.steps, lambda step: step.turn)] or [(1, [])]


def _openings(run: Run) -> dict[int, Message]:
    """By its first step, the message that opens each turn: the last one of the user's before it."""
    opening = {}
    for number, (_, steps) in enumerate(_segments(run)):
        first = steps[0].index if steps else 1
        given = list(run.prompt) if number == 0 else []
        given += [message for before, message in run.inputs if before == first]
        tasks = [message for message in given if message.role == "user" and message.text]
        if tasks:
            opening[first] = tasks[-1]
    return opening


def _turns(run: Run, opening: dict[int, Message]) -> list[dict[str, Any]]:
    turns = []
    for number, (turn, steps) in enumerate(_segments(run)):
        first, last = (steps[0].index, steps[-1].index) if steps else (1, 0)
        text = opening[first].text if first in opening else run.task if number == 0 else ""
        title = next((line.strip() for line in shown(text).splitlines() if line.strip()), "") or f"Turn {turn}"
        place = {"first": first, "last": last}
        turns.append({"title": title[:200], "text": shown(text), "missing": sizes_of(text=text)} | place)
    return turns


def _streaks(run: Run) -> list[list[int]]:
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


def _steps(
    run: Run,
    turns: Sequence[dict[str, Any]],
    moments: Sequence[list[dict[str, Any]]],
    streaks: Sequence[list[int]],
    nested: dict[tuple[int | None, int | None], int],
) -> list[dict[str, Any]]:
    places = [number for number, turn in enumerate(turns, 1) for _ in range(turn["first"], turn["last"] + 1)]
    before: dict[tuple[str, str, str], int] = {}
    called: dict[tuple[str, str], int] = {}
    window = ""  # the last result that showed lines of an open file
    rows = []
    for step, turn, events, counts in zip(run.steps, places, moments, streaks, strict=True):
        response, usage = step.response, step.response.usage
        times = _call_times(step)
        calls = []
        for place, (call, result) in enumerate(zip(response.tool_calls, step.results, strict=True)):
            seen = before.get(_outcome(call, result)) if result is not None else None
            facts = {
                "streak": counts[place],
                "same_call_as": called.get((call.name, call.arguments)) if counts[place] > 1 else None,
                "same_result_as": seen,
                "child": nested.get((step.index, place)),
            }
            calls.append(_call(call, result, times[place], window) | facts)
            called[call.name, call.arguments] = step.index
            if result is not None and is_window(result.content):
                window = result.content
        for call, result in zip(response.tool_calls, step.results, strict=True):
            if result is not None and result.content:
                before.setdefault(_outcome(call, result), step.index)
        rows.append(
            {
                "turn": turn,
                "start_ms": step.start_ms,
                "duration_ms": step.duration_ms,
                "model_ms": step.model_ms,
                "ttft_ms": response.ttft_ms,
                "finish": response.finish_reason,
                "text": without_commands(
                    shown(response.text), ((one.arguments, labelled(one).value) for one in response.tool_calls)
                ),
                "reasoning": in_words(response.reasoning),
                "error": in_words(step.error),
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
        )
    return rows


def _outcome(call: ToolCall, result: ToolResult | None) -> tuple[str, str, str]:
    return call.name, call.arguments, result.content if result is not None else ""


def _call(call: ToolCall, result: ToolResult | None, start: int | None, window: str) -> dict[str, Any]:
    kind, label, value = labelled(call)
    content = "" if result is None else result.content
    refused = is_refused(content)
    written = call.arguments if value is None else json.dumps(value, indent=2, ensure_ascii=False)
    return card_of(call.name, kind, call.arguments, value, result=content, window=window) | {
        "tool": call.name,
        "kind": kind,
        "label": label,
        "arguments": shown(written),
        "missing": sizes_of(arguments=call.arguments, result=content),
        "parse_error": result is not None and result.parse_error,
        "result": None if result is None else shown(content),
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
    took = [result.duration_ms for result in step.results if result is not None]
    total = known_sum(took)
    if total is None or step.duration_ms is None or total > step.duration_ms - step.model_ms:
        return [start] * n
    times: list[int | None] = []
    for result in step.results:
        times.append(start)
        start += (result.duration_ms or 0) if result is not None else 0
    return times


def _flag(steps: Sequence[dict[str, Any]], marks: Sequence[dict[str, Any]]) -> None:
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


# --- The run in a few words -------------------------------------------------------------------------------------------


def is_timed(run: Run) -> bool:
    """Whether a run's steps have times, and some passed."""
    if not run.steps or any(step.start_ms is None for step in run.steps):
        return False
    last = run.steps[-1]
    return last.duration_ms is not None and (last.start_ms or 0) + last.duration_ms > 0


def _pills(run: Run) -> list[str]:
    tokens, dollars = tokens_of(run), dollars_of(run)
    pills = [f"{count(run.n_steps, 'step')} · {count(run.n_tool_calls, 'call')}"]
    turns = len({step.turn for step in run.steps})
    pills += [count(turns, "turn")] if turns > 1 else []
    pills += [] if tokens is None else [f"{short_number(tokens)} tokens"]
    pills += [] if dollars is None else [money(dollars)]
    pills += [duration(run.duration_ms)] if run.duration_ms else []
    return pills


def _stop(run: Run) -> dict[str, Any]:
    text = f"{run.stop_reason} {stop_place(run)}"
    if run.stop.rule:
        text += f": {run.stop.rule}"
    if run.error:
        text += f" ({run.error})"
    return {"reason": run.stop_reason, "step": stop_boundary(run), "text": text}


def _finding(longest: int, marks: Sequence[dict[str, Any]]) -> str | None:
    repeated = f"{longest:,} identical calls in a row" if longest >= MIN_STREAK else None
    return "; ".join(filter(None, (repeated, acting(marks)))) or None


def _notes(run: Run) -> Iterator[str]:
    results = [result for step in run.steps for result in step.results if result is not None]
    calls = [call for step in run.steps for call in step.response.tool_calls]
    usages = [step.response.usage for step in run.steps]
    n = len(run.steps)
    errors = [result.is_error is not None or is_refused(result.content) for result in results]
    unknown = {
        "times": sum(step.start_ms is None for step in run.steps),
        "tokens": sum(usage.input_tokens is None for usage in usages),
        "costs": sum(usage.cost is None for usage in usages),
    }
    nowhere = [name for name, missing in unknown.items() if n and missing == n]
    tokens, dollars = used_in(run)
    sums = [name for name, whole in (("tokens", tokens), ("costs", dollars)) if name in nowhere and whole is not None]
    nowhere = [name for name in nowhere if name not in sums]
    nowhere += ["errors"] if errors and not any(errors) else []
    nowhere += [] if run.limits else ["limits"]
    if nowhere:
        yield f"Not on record: {', '.join(nowhere)}."
    if sums:
        yield f"On record for the whole run, not for each step: {' and '.join(sums)}."
    if n and not is_timed(run) and not unknown["times"]:
        yield "No time passed."
    for name, missing in unknown.items():
        if 0 < missing < n:
            yield f"{name.capitalize()} of {count(missing, 'step')} are not on record."
    if any(errors) and not all(errors):
        yield f"Whether {count(errors.count(False), 'call')} failed is not on record."
    hidden = sum(call.arguments == REDACTED for call in calls)
    if hidden:
        yield f"The log leaves out the arguments of {count(hidden, 'call')}."
    if any(is_redacted(call.arguments) for call in calls) or any(is_redacted(result.content) for result in results):
        yield "The texts are not on record: their sizes are shown, and which of them are equal is known."
    if run.limits and len({step.turn for step in run.steps}) > 1:
        yield "Counters start at zero in each turn." if counts_by_turn(run) else "Limits hold for the whole run."


def _marking_notes(marks: Sequence[dict[str, Any]]) -> Iterator[str]:
    names = [mark["policy"] for mark in marks if mark["compacts"]]
    if names:
        yield f"Evaluated without compaction of the history: {', '.join(names)}."
    names = [mark["policy"] for mark in marks if mark["acts"] == "steps in"]
    if names:
        yield f"Would have sent the model a message, and what would have followed is unknown: {', '.join(names)}."


def _children_notes(children: Sequence[Child], left_out: int) -> Iterator[str]:
    if left_out:
        below = f"{count(left_out, 'subagent')}, below the {MAX_GENERATIONS} generations of this Replay"
        yield f"It started {below}: open its own."
    lost = sum(child.call is None for child in children)
    if lost:
        yield f"Which calls started {count(lost, 'subagent')} is not on record."
