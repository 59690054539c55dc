"""Counts a limit in a run as the run's harness counts it, and finds the steps that its rule does not allow.

The rule is that of the harness's preset: what it counts (`Cap.counts`, `Budgets`), where it is evaluated (at the
boundary, before a request; or at the response, before its calls are executed), and whether one more request follows,
for a summary. So the normal overshoot of a harness is within its rule:

- at the response: one response beyond the limit is paid for, and its calls are dropped (Inspect's `turn_limit=3` makes
  4 model calls);
- with a summary or a grace step: one more response, which executes no calls (smolagents: `max_steps=3` makes 4).

Everything after that is beyond the limit: from the first step that the rule does not allow to the end of the turn, or
of the run where the limit holds for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Final, NamedTuple, TypeAlias

from boolab.core.endings import FINISHING, is_terminated
from boolab.core.events import compactions_of
from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import MICRO, Scope, Step
from boolab.frames.runs import known_sum, turns_of
from boolab.harnesses.harness import Native
from boolab.harnesses.policy import Policy
from boolab.limits.catalog import error_streak
from boolab.limits.ladder import LadderState, Progress
from boolab.limits.stop import Threshold
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.logs.limit_answers import limit_answer
from boolab.whatif.policy_limits import thresholds_of

PLAIN: Final = Policy(name="plain", order=AGENT_LIMITS)
"""How limits are counted where the harness is not known: each at the boundary, in model responses."""

CONTEXT_UNIT: Final = "tokens of the context"
"""What a compaction threshold counts. It stops no run."""
_UNITS: Final = {
    "steps": "model responses",
    "actions": "executed calls",
    "tool_steps": "responses with tool calls",
    "supersteps": "supersteps",
}
_CUT_OFF_REASONS: Final = ("aborted", "error")
"""The stop reasons of a log that is cut off for any cause, a limit too."""
_NEW_COUNT_EVENTS: Final = ("extension", "continued", "resumed")
"""The events of boolab's own runs after which a turn may count anew."""

_Reading: TypeAlias = int | float | None


class Counted(NamedTuple):
    """What was counted of one limit in one run."""

    unit: str  # what is counted
    # the largest count of any turn (of the run, where the limit holds for it), in the declared unit; None if the record
    # does not show it
    value: float | None
    steps_beyond: tuple[Step, ...] = ()  # the steps that the harness's rule does not allow
    # whether a turn ended at the limit, with calls in its last response, so that the limit may have ended it: the log
    # does not report another end
    at_limit: bool = False
    is_over: bool = False  # whether the rule allowed one response beyond the limit, and there was one
    responses: int = 0  # how many responses that turn had
    canned: bool = False  # whether the last text is the harness's own answer at the limit, in place of the model's
    own_end: bool = False  # whether the last turn ended at the limit too, but the log reports another end than by it
    note: str = ""  # what else is to be known


def count_limit(
    run: Run,
    native: Native,
    value: float,
    policy: Policy | None,
    scope: Scope = "turn",
    family: Sequence[Run] = (),
) -> Counted:
    """Count a limit in a run, by a preset (None: not known), within a `turn` or a `run`.

    `family`: the run and its subagents, for a limit that they share.
    """
    if native.axis == "messages":
        return _messages(run, int(value))
    if native.axis == "compact_at":
        return count_compactions(run, value)
    if native.axis == "working":
        return Counted(native.unit, None)
    harness = PLAIN if policy is None else policy
    if run.source == "boolab" and harness.cap.counts == "supersteps":  # the record has this limit in steps
        harness = harness.vary(cap={"counts": "steps", "check": "response"})
    if native.axis == "rollout_tokens":
        return _count_rollout(run, native, value, family or (run,))
    rule = _rule_of(harness, native, value)
    last = run.steps[-1].response if run.steps else None
    answer = None if last is None or last.tool_calls else limit_answer(last.text)
    if answer is not None and not answer.requested:
        run = replace(run, steps=run.steps[:-1])
    parts = [_part(steps, start, rule) for steps, start in _scopes(run, scope)]
    values = [part.value for part in parts]
    known_values = [amount for amount in values if amount is not None]
    per_unit = LIMITS[native.axis].per_unit if native.axis in LIMITS else 1
    part_over = next((part for part in parts if part.is_over), None)
    own_end = parts[-1].at_limit and _has_other_end(run, is_over=parts[-1].is_over)
    return Counted(
        native.unit or rule.unit,
        _exact_number(max(known_values) / per_unit / native.factor) if len(known_values) == len(values) else None,
        tuple(chain.from_iterable(part.steps_beyond for part in parts)),
        any(part.at_limit for part in (parts[:-1] if own_end else parts)),
        part_over is not None,
        0 if part_over is None else part_over.responses,
        canned=answer is not None and (answer.reason == "step_cap") == (native.axis == "max_steps"),
        own_end=own_end,
    )


def _has_other_end(run: Run, *, is_over: bool = False) -> bool:
    """Whether the log names what ended a run: itself, with its last calls executed, or a rule."""
    by_itself = is_terminated(run) and not is_over and not run.steps[-1].dropped
    return by_itself or run.stop.reason not in ("finished", "synthesis", *_CUT_OFF_REASONS)


def _exact_number(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


class _Rule(NamedTuple):
    """A limit under a policy."""

    unit: str  # what it counts, in words
    counter: str  # the name of its counter
    boundary: Threshold | None  # its threshold at the boundary; None if it is not evaluated there
    response: Threshold | None = None  # the same at the response
    asks: bool = False  # whether one more request follows, in which no call is executed
    finishing: frozenset[str] = FINISHING  # the tools that end a turn


def _rule_of(policy: Policy, native: Native, value: float) -> _Rule:
    axis, exact = native.axis, _exact_number(value * native.factor)
    if axis == "error_streak":
        rule = next(error_streak(int(exact)).leaves())
        return _Rule(LIMITS[axis].unit, rule.counter, rule)
    if axis == "max_steps" and "max_steps" not in policy.order:
        policy = policy.vary(order=("max_steps", *policy.order))
    thresholds = thresholds_of(policy, axis, exact)
    boundary, response = thresholds if thresholds != (None, None) else thresholds_of(PLAIN, axis, exact)
    counter = next(rule.counter for rule in (response, boundary) if rule is not None)
    if axis == "max_steps" and policy.cap.counts == "supersteps":
        counter = "supersteps"
    last = policy.last_step
    asks = policy.wrap_up.summary == "model" or last.action == "grace" or policy.finish.idle == "grace"
    asks = asks or (last.action in ("no_tools", "tool_choice_none") and not last.in_cap)
    asks = asks or (axis == "max_steps" and exact == 0 and policy.cap.zero == "text_only")
    hard = axis == "max_steps" and policy.cap.kind == "hard"
    unit = _UNITS[policy.cap.counts if hard else "steps"] if axis == "max_steps" else LIMITS[axis].unit
    return _Rule(unit, counter, boundary, response, asks, FINISHING | {*policy.finish.tools})


def _scopes(run: Run, scope: Scope) -> Iterator[tuple[list[Step], int | None]]:
    """The steps that count together, each list with the time at which counting starts."""
    groups = [list(run.steps)] if scope == "run" else [part for _, part in turns_of(run)]
    is_boolab = run.source == "boolab"
    reset_steps = {
        event.payload.get("after_step") for event in run.events if is_boolab and event.kind in _NEW_COUNT_EVENTS
    }
    step_groups: list[list[Step]] = []
    for group in groups:
        step_groups.append([])
        for step in group:
            if step_groups[-1] and step_groups[-1][-1].index in reset_steps:
                step_groups.append([])
            if step.counted:
                step_groups[-1].append(step)
    for steps in step_groups:
        yield steps, steps[0].start_ms if steps and steps[0].index > 1 else 0


class _TurnCount(NamedTuple):
    """What was counted in one turn, in the counter's own unit."""

    value: _Reading
    steps_beyond: Sequence[Step] = ()
    at_limit: bool = False
    is_over: bool = False
    responses: int = 0


def _part(steps: Sequence[Step], start: int | None, rule: _Rule) -> _TurnCount:
    """Count one turn."""
    boundary, response = _readings(steps, start, rule)
    value = _value(steps, boundary, rule)
    stops = _find_first(boundary[:-1], rule.boundary)
    drops = _find_first(response, rule.response)
    if stops is not None and (drops is None or stops <= drops):
        rest = steps[stops:]
        if rule.asks and len(rest) == 1 and not _has_executed_call(rest[0], rule, refusals=True):
            count = stops if rule.counter == "steps" else value
            return _TurnCount(count, at_limit=True, is_over=True, responses=len(steps))
        return _TurnCount(value, rest)
    if drops is not None:
        if drops < len(steps) - 1 or _has_executed_call(steps[drops], rule):
            return _TurnCount(value, steps[drops:])
        has_dropped_calls = bool(steps[drops].response.tool_calls)
        return _TurnCount(value, at_limit=has_dropped_calls, is_over=True, responses=len(steps))
    is_reached = _find_first(boundary[-1:], rule.boundary) is not None
    if rule.boundary is None and rule.response is not None and rule.counter in ("responses", "tool_steps"):
        is_reached = value == rule.response.threshold - 1
    return _TurnCount(value, at_limit=is_reached and bool(steps) and _has_executed_call(steps[-1], rule))


def _find_first(readings: Sequence[_Reading], rule: Threshold | None) -> int | None:
    """The place of the first reading at which a threshold is reached."""
    if rule is None:
        return None
    return next(
        (index for index, reading in enumerate(readings) if reading is not None and reading >= rule.threshold), None
    )


def _has_executed_call(step: Step, rule: _Rule, *, refusals: bool = False) -> bool:
    """Whether a call of a step was executed, other than one that ends the turn; `refusals`: error results are none."""
    pairs = zip(step.response.tool_calls, step.results, strict=True)
    return any(
        result is not None and call.name not in rule.finishing and not (refusals and result.is_error is True)
        for call, result in pairs
    )


def _readings(steps: Sequence[Step], start: int | None, rule: _Rule) -> tuple[list[_Reading], list[_Reading]]:
    """The counter before each step and after the last, and at each response, were its calls executed."""
    watched = rule.boundary.detector if rule.boundary is not None else None
    ladder = LadderState([] if watched is None else [watched], per_turn=False)
    ladder.open_turn(1, start)
    counter = rule.counter if rule.boundary is None else rule.boundary.counter
    at_response = None if rule.response is None else rule.response.counter
    boundary: list[_Reading] = [0]
    response: list[_Reading] = []
    tool_steps = 0
    for index, step in enumerate(steps):
        calls = len(step.response.tool_calls)
        if at_response is not None:
            has_calls = calls > 0
            response_counters = {
                "responses": index + 1,
                "tool_steps": tool_steps + has_calls,
                "supersteps": 2 * index + 2 + has_calls,
            }
            progress = Progress(**ladder.counters, **response_counters)
            progress.charge(step.response.usage, calls)
            response.append(progress[at_response])
        tool_steps += calls > 0
        ladder.apply(step)
        boundary.append(ladder.counters.get(counter, index + 1))
    return boundary, response


def _value(steps: Sequence[Step], boundary: Sequence[_Reading], rule: _Rule) -> _Reading:
    """What is reported as the count of a turn."""
    if rule.counter in ("steps", "responses"):
        return len(steps)
    if rule.counter == "tool_steps":
        return sum(bool(step.response.tool_calls) for step in steps)
    if rule.counter == "supersteps":
        return sum(1 + any(result is not None for result in step.results) for step in steps)
    if rule.boundary is not None and rule.boundary.detector is not None:
        readings = [reading for reading in boundary if reading is not None]
        return max(readings) if len(readings) == len(boundary) else None
    if rule.boundary is None and rule.counter == "tool_calls":
        return calls_of(steps)
    return boundary[-1]


def _messages(run: Run, limit: int) -> Counted:
    """Inspect's limit on the messages of a conversation, which it checks before each request."""
    messages_before = {message.before: 0 for message in run.inputs}
    for message in run.inputs:
        messages_before[message.before] += 1
    n = len(run.prompt)
    steps_beyond: list[Step] = []
    for step in run.steps:
        n += messages_before.get(step.index, 0)
        if n >= limit and step.response.tool_calls and any(step.results):
            steps_beyond.append(step)
        n += 1 + sum(result is not None for result in step.results)
    n += sum(amount for step_index, amount in messages_before.items() if step_index > len(run.steps))
    is_reached = n >= limit and bool(run.steps) and bool(run.steps[-1].response.tool_calls)
    own_end = is_reached and _has_other_end(run)
    return Counted("messages", n, tuple(steps_beyond), at_limit=is_reached and not own_end, own_end=own_end)


def count_compactions(run: Run, threshold: float) -> Counted:
    """Compare a compaction threshold with the compactions of a run, by the tokens before each.

    The prompt that crosses the threshold is within the rule; the history must be compacted before the next one.
    """
    compacted = compactions_of(run) or {}
    payloads = {e.payload.get("after_step", 0) + 1: e.payload for e in run.events if e.kind == "compaction"}
    contexts: list[int] = []
    before: list[int] = []
    steps_beyond: list[Step] = []
    for step, next_step in zip_longest(run.steps, run.steps[1:]):
        usage = step.response.usage
        context = None if usage.input_tokens is None else usage.input_tokens + (usage.output_tokens or 0)
        contexts += [] if context is None else [context]
        if next_step is None or next_step.index not in compacted:
            if next_step is not None and context is not None and context > threshold:
                steps_beyond.append(next_step)
            continue
        payload = payloads.get(next_step.index, {})
        tokens = payload.get("tokens") or context
        if payload.get("trigger") != "manual" and isinstance(tokens, int):
            before.append(tokens)
    figures = [f"{min(before):,}", *([f"{max(before):,}"] if len(before) > 1 else [])] if before else []
    note = f"compacted {count(len(before), 'time')}, at {' to '.join(figures)} tokens" if before else ""
    largest = max(before or contexts, default=None)
    is_over = largest is not None and largest > threshold and not steps_beyond
    return Counted(CONTEXT_UNIT, largest, tuple(steps_beyond), is_over=is_over, note=note)


class _Charge(NamedTuple):
    """A request of a family of runs: when it began and was charged, in milliseconds; NaN where that is not known."""

    run: Run
    step: Step
    begin: float
    end: float


def _charges(family: Sequence[Run]) -> Iterator[_Charge]:
    for run in family:
        origin = math.nan if run.started_at is None else run.started_at.timestamp() * 1000
        for step in run.steps:
            begin = origin + (math.nan if step.start_ms is None else step.start_ms)
            lasted = step.duration_ms if step.model_ms is None else step.model_ms
            yield _Charge(run, step, begin, begin + (math.nan if lasted is None else lasted))


def _count_rollout(run: Run, native: Native, limit: float, family: Sequence[Run]) -> Counted:
    """Codex's budget, which a session shares with its subagents.

    A response is charged when it is complete, and the budget then ends all that follows: requests that were under way
    may still end (openai/codex pull request 28494). Without times, subagents are charged after the session's own steps.
    """
    charges = [*_charges(family)]
    has_times = not any(math.isnan(charge.end) for charge in charges)
    if has_times:
        charges.sort(key=lambda charge: charge.end)
    micro_tokens: int | None = native.tokens.start
    used_up: float | None = None
    beyond: list[Step] = []
    for charge in charges:
        if used_up is not None and charge.run is run and (not has_times or charge.begin >= used_up):
            beyond.append(charge.step)
        micro_tokens, _ = native.tokens.charge(micro_tokens, charge.step.response.usage)
        if used_up is None and micro_tokens is not None and micro_tokens >= limit * MICRO:
            used_up = charge.end
    last = run.steps[-1] if run.steps else None
    is_last = used_up is not None and not beyond and last is not None and any(last.results)
    own_end = is_last and _has_other_end(run)
    value = None if micro_tokens is None else _exact_number(micro_tokens / MICRO)
    return Counted(native.unit, value, tuple(beyond), at_limit=is_last and not own_end, own_end=own_end)


def tokens_of(steps: Sequence[Step]) -> int | None:
    """The tokens of steps, input and output; None if one of them is not known."""
    usages = [step.response.usage for step in steps]
    return known_sum(chain.from_iterable((usage.input_tokens, usage.output_tokens) for usage in usages))


def calls_of(steps: Sequence[Step]) -> int:
    """How many calls of steps were executed."""
    return sum(len(step.results) - step.results.count(None) for step in steps)
