"""Runs as ATIF, the Agent Trajectory Interchange Format, and back: what boolab wrote comes back exactly as it was.

The format: github.com/harbor-framework/harbor, rfcs/0001-trajectory-format.md; the package `atif` holds it as models.
What it has a place for stands there, so that any tool can read it: messages, responses, calls, results, tokens, costs,
times. What it has no place for stands under `extra["boolab"]` of the trajectory, of a step, of a call or of a result:
whether a call failed, turns, finish reasons, why the run ended, and arguments that are no JSON object. Results stand in
the order of their calls.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from importlib.metadata import version
from typing import Any, Final

from boolab.core.codec import decode, encode, run_fields, run_of
from boolab.core.types import (
    MICRO,
    UNKNOWN_USAGE,
    Input,
    Message,
    Response,
    Run,
    Step,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from boolab.io.json_input import items, mapping, parse_exactly

SCHEMA: Final = "ATIF-v1.7"
EXTRA: Final = "boolab"
"""Where in an `extra` boolab's own facts stand."""

VERSION: Final = 2
"""The version of what stands there."""

_LARGEST: Final = 2**63 - 1  # what a column of integers holds
_TOLD: Final = ("run_id", "model", "steps", "prompt", "inputs")
_ROLES: Final = {"system": "system", "user": "user", "assistant": "agent", "tool": "system", "sentinel": "system"}
_STEP_FACTS: Final = (
    "turn", "start_ms", "duration_ms", "model_ms", "ttft_ms", "finish_reason", "native_finish_reason", "opaque",
    "model", "error", "shadow_stops", "counted",
)  # fmt: skip
"""The fields of a step, and of its response, that ATIF has no place for."""
_KNOWN_STEP_FACTS: Final = frozenset(_STEP_FACTS)
_RESULT_FACTS: Final = frozenset(("call", "call_id", "is_error", "parse_error", "duration_ms"))
_TOKENS: Final = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cached_tokens": "cached_tokens",
}
"""The figures of a usage, by ATIF's names for them."""
_MORE_TOKENS: Final = ("reasoning_tokens", "cache_write_tokens", "cache_write_1h_tokens")
"""Those that ATIF has no name for."""


def trajectory(run: Run) -> dict[str, Any]:
    """A run as one ATIF trajectory, as JSON values.

    Args:
        run: The run.

    Returns:
        The trajectory, which `run_of_trajectory` reads back exactly.

    Raises:
        SettingError: if a setting or an event holds what JSON cannot.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> [(step["source"], step["message"]) for step in trajectory(run)["steps"]]
        [('user', 'Hello'), ('agent', 'Hi.')]
        >>> run_of_trajectory(trajectory(run)) == run
        True
    """
    steps = [row | {"step_id": number} for number, row in enumerate(_rows(run), 1)]
    agent = {
        "name": run.agent or run.policy or run.source,
        "version": version("boolab") if run.source == "boolab" else "unknown",
    }
    return {
        "schema_version": SCHEMA,
        "session_id": run.run_id,
        "trajectory_id": run.run_id,
        "agent": agent | ({"model_name": run.model} if run.model else {}),
        "steps": steps,
        "final_metrics": {"total_steps": len(steps), "extra": {EXTRA: {"model_steps": run.n_steps}}},
        "extra": {EXTRA: {"version": VERSION, **run_fields(run, leave_out=_TOLD)}},
    }


def run_of_trajectory(row: Mapping[str, Any]) -> Run:
    """The run that `trajectory` wrote.

    Args:
        row: The trajectory.

    Raises:
        ValueError: if it is none of boolab's, of another version, or not what it wrote.
    """
    own = _own(row)
    if own.get("version") != VERSION or isinstance(own.get("version"), bool):
        raise ValueError(f"a record of version {own.get('version')!r}; version {VERSION} can be read")
    prompt: list[Message] = []
    inputs: list[Input] = []
    steps: list[Step] = []
    for number, lines in enumerate(items(row.get("steps")), 1):
        try:
            before = _own(mapping(lines)).get("before")
            if mapping(lines).get("source") == "agent" and not mapping(lines).get("is_copied_context"):
                steps.append(_step(lines, len(steps) + 1))
            elif before is None:
                prompt.append(_message(lines))
            else:
                inputs.append(Input(decode(int, before), _message(lines)))
        except ValueError as error:
            raise ValueError(f"steps: step {number}: {error}") from None
    fields = {name: value for name, value in own.items() if name != "version"}
    return run_of(
        fields,
        run_id=decode(str, row.get("trajectory_id")),
        model=decode(str, mapping(row.get("agent")).get("model_name", "")),
        steps=tuple(steps),
        prompt=tuple(prompt),
        inputs=tuple(inputs),
    )


def is_own(row: Mapping[str, Any]) -> bool:
    """Whether boolab wrote this trajectory."""
    return bool(_own(row))


def _own(row: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = row.get("extra")
    return mapping(extra.get(EXTRA)) if isinstance(extra, dict) else {}


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    """The messages and the steps of a run in their order."""
    for message in run.prompt:
        yield _message_row(message)
    waiting = list(reversed(run.inputs))
    for step in run.steps:
        while waiting and waiting[-1].before <= step.index:
            yield _input_row(waiting.pop())
        yield _step_row(run, step)
    while waiting:
        yield _input_row(waiting.pop())


def _message_row(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"source": _ROLES[message.role], "message": message.text}
    if row["source"] == "agent":
        row["is_copied_context"] = True
    if [type(part) for part in message.parts] != [Text] or row["source"] != message.role:
        row["extra"] = {EXTRA: {"message": encode(message, "a message")}}
    return row


def _input_row(given: Input) -> dict[str, Any]:
    row = _message_row(given.message)
    own = mapping(row.get("extra")).get(EXTRA, {})
    return row | {"extra": {EXTRA: {"before": given.before, **own}}}


def _message(row: object) -> Message:
    whole = _own(mapping(row)).get("message")
    if whole is not None:
        return decode(Message, whole)
    lines = mapping(row)
    return decode(Message, {"role": lines.get("source"), "parts": [{"part": "text", "text": lines.get("message")}]})


def _step_row(run: Run, step: Step) -> dict[str, Any]:
    response = step.response
    row: dict[str, Any] = {"source": "agent", "message": response.text}
    stamp = _timestamp(run, step)
    if stamp is not None:
        row["timestamp"] = stamp
    if response.reasoning:
        row["reasoning_content"] = response.reasoning
    if response.tool_calls:
        row["tool_calls"] = [_call_row(call) for call in response.tool_calls]
        answers = [result for result in step.results if result is not None]
        if answers:
            row["observation"] = {"results": _result_rows(step)}
    if response.usage != UNKNOWN_USAGE:
        row["metrics"] = _metrics(response.usage)
    rest = response._replace(text="", tool_calls=(), usage=UNKNOWN_USAGE, reasoning="")
    record = encode(step._replace(response=rest, results=()), f"step {step.index} of run {run.run_id}")
    facts = record | record.pop("response")
    return row | {"extra": {EXTRA: {name: facts[name] for name in _STEP_FACTS if facts.get(name) is not None}}}


def _timestamp(run: Run, step: Step) -> str | None:
    """When the response was there, as far as is known."""
    if run.started_at is None or step.start_ms is None:
        return None
    try:
        return (run.started_at + timedelta(milliseconds=step.start_ms + (step.model_ms or 0))).isoformat()
    except OverflowError:
        return None


def _call_row(call: ToolCall) -> dict[str, Any]:
    arguments, lines = _parsed(call.arguments)
    row: dict[str, Any] = {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments}
    if lines != call.arguments:
        row["extra"] = {EXTRA: {"arguments": call.arguments}}
    return row


def _parsed(arguments: str) -> tuple[dict[str, Any], str]:
    """The arguments if they are a JSON object that can be written, else an empty one; and the text of either."""
    try:
        value = parse_exactly(arguments.encode("utf-8", "surrogatepass"))
        lines = _text(value)
        if "Infinity" in lines:
            json.dumps(value, allow_nan=False)
    except ValueError:  # no JSON, or a number beyond all floats
        value, lines = None, ""
    return (value, lines) if isinstance(value, dict) else ({}, "{}")


def _text(arguments: Mapping[str, Any]) -> str:
    """The text of arguments as most models send them; it must be the same for reading as it was for writing."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _result_rows(step: Step) -> list[dict[str, Any]]:
    calls = step.response.tool_calls
    by_place = len({call.id for call in calls}) < len(calls)
    rows = []
    for place, (call, result) in enumerate(zip(calls, step.results, strict=True)):
        if result is None:
            continue
        facts = {
            "call": place if by_place or result.call_id != call.id else None,
            "call_id": result.call_id if result.call_id != call.id else None,
            "is_error": result.is_error,
            "parse_error": result.parse_error or None,
            "duration_ms": result.duration_ms,
        }
        own = {name: fact for name, fact in facts.items() if fact is not None}
        row: dict[str, Any] = {"source_call_id": call.id, "content": result.content}
        rows.append(row | ({"extra": {EXTRA: own}} if own else {}))
    return rows


def _metrics(usage: Usage) -> dict[str, Any]:
    figures = {theirs: getattr(usage, name) for name, theirs in _TOKENS.items()}
    row: dict[str, Any] = {name: figure for name, figure in figures.items() if figure is not None}
    if usage.cost is not None:
        row["cost_usd"] = usage.cost / MICRO
    more = {name: getattr(usage, name) for name in _MORE_TOKENS if getattr(usage, name) is not None}
    return row | ({"extra": more} if more else {})


def _step(row: Mapping[str, Any], index: int) -> Step:
    own = _own(row)
    _only(own, _KNOWN_STEP_FACTS)
    calls = tuple([_call(entry) for entry in items(row.get("tool_calls"))])
    results: list[ToolResult | None] = [None] * len(calls)
    for entry in items(mapping(row.get("observation")).get("results")):
        place, result = _result(entry, calls)
        results[place] = result
    response = Response(
        _str(row, "message"),
        calls,
        _known_str(own, "finish_reason"),
        _usage(mapping(row.get("metrics"))),
        _str(row, "reasoning_content", ""),
        _known_int(own, "ttft_ms"),
        _known_str(own, "native_finish_reason"),
        _str(own, "opaque", ""),
        _str(own, "model", ""),
    )
    turn = _known_int(own, "turn")
    if turn is None:
        msg = "turn: missing"
        raise ValueError(msg)
    return Step(
        index,
        turn,
        _known_int(own, "start_ms"),
        _known_int(own, "duration_ms"),
        _known_int(own, "model_ms"),
        response,
        tuple(results),
        _str(own, "error", ""),
        tuple([decode(str, name) for name in items(own.get("shadow_stops"))]),
        decode(bool, own.get("counted", True)),
    )


def _call(entry: object) -> ToolCall:
    row = mapping(entry)
    own = _own(row)
    _only(own, ("arguments",))
    arguments = _str(own, "arguments") if own else _text(mapping(row.get("arguments")))
    return ToolCall(_str(row, "tool_call_id"), _str(row, "function_name"), arguments)


def _result(entry: object, calls: tuple[ToolCall, ...]) -> tuple[int, ToolResult]:
    """A result, and the place of its call."""
    row = mapping(entry)
    own = _own(row)
    _only(own, _RESULT_FACTS)
    call_id = _str(row, "source_call_id")
    place = _known_int(own, "call")
    if place is None:
        place = next((place for place, call in enumerate(calls) if call.id == call_id), -1)
    if place not in range(len(calls)):
        raise ValueError(f"a result answers call {call_id!r:.80}, which is not there")
    result = ToolResult(
        _str(own, "call_id", call_id),
        _str(row, "content"),
        _flag(own, "is_error"),
        _flag(own, "parse_error") or False,
        _known_int(own, "duration_ms"),
    )
    return place, result


def _usage(metrics: Mapping[str, Any]) -> Usage:
    cost = metrics.get("cost_usd")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float)):
        raise ValueError(f"cost_usd: {cost!r:.80} is not a number")
    if cost is not None and not abs(cost) * MICRO <= _LARGEST + 1:
        raise ValueError(f"cost_usd: {cost!r:.80} is too large")
    more = mapping(metrics.get("extra"))
    return Usage(
        _known_int(metrics, "prompt_tokens"),
        _known_int(metrics, "completion_tokens"),
        _known_int(metrics, "cached_tokens"),
        _known_int(more, "reasoning_tokens"),
        None if cost is None else min(round(cost * MICRO), _LARGEST),  # dollars are floats: they may round up
        _known_int(more, "cache_write_tokens"),
        _known_int(more, "cache_write_1h_tokens"),
    )


def _only(own: Mapping[str, Any], known: Collection[str]) -> None:
    unknown = own.keys() - known
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: not known here")


def _str(row: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name}: {value!r:.80} is not a text")  # noqa: TRY004 - of what was read, all faults are alike
    return value


def _known_str(row: Mapping[str, Any], name: str) -> str | None:
    return None if row.get(name) is None else _str(row, name)


def _known_int(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is not None and (type(value) is not int or not -_LARGEST - 1 <= value <= _LARGEST):
        raise ValueError(f"{name}: {value!r:.80} is not a whole number of 64 bits")
    return value


def _flag(row: Mapping[str, Any], name: str) -> bool | None:
    value = row.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name}: {value!r:.80} is not a flag")
    return value
