"""Converts runs to ATIF, the Agent Trajectory Interchange Format, and back exactly.

The format: github.com/harbor-framework/harbor, rfcs/0001-trajectory-format.md; the package `atif` has its models. Any
tool can read messages, responses, calls, results, tokens, costs and times. What ATIF has no field for is under
`extra["boolab"]` of the trajectory, of a step, of a call or of a result: whether a call failed, turns, finish reasons,
why the run ended, and arguments that are no JSON object. Results are in the order of their calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from boolab.core.codec import MAX_COLUMN_INT, decode, encode, run_fields, run_of
from boolab.core.messages import Input, Message, Text
from boolab.core.run import Run
from boolab.core.types import MICRO, UNKNOWN_USAGE, Image, Response, Step, ToolCall, ToolResult, Usage
from boolab.io.json_input import items, mapping, parse_exactly

SCHEMA: Final = "ATIF-v1.7"
EXTRA: Final = "boolab"
"""The key of boolab's own facts in an `extra`."""

VERSION: Final = 2
"""The version of these facts."""
_NO_VERSION: Final = "unknown"
"""What the format, which demands a version of the agent, has for one that is not known."""

_IN_ATIF: Final = ("run_id", "model", "steps", "prompt", "inputs")
_ROLES: Final = {"system": "system", "user": "user", "assistant": "agent", "tool": "system", "sentinel": "system"}
_STEP_FACTS: Final[Mapping[str, type]] = {
    "turn": int, "start_ms": int, "duration_ms": int, "model_ms": int, "ttft_ms": int, "finish_reason": str,
    "native_finish_reason": str, "opaque": str, "model": str, "id": str, "speed": str, "service_tier": str,
    "error": str, "shadow_stops": list, "counted": bool,
}  # fmt: skip
"""The fields of a step, and of its response, that ATIF does not have, each with the type of its value."""
_CALL_FACTS: Final[Mapping[str, type]] = {"arguments": str}
_RESULT_FACTS: Final[Mapping[str, type]] = {
    "call": int, "call_id": str, "is_error": bool, "parse_error": bool, "duration_ms": int, "images": list,
}  # fmt: skip
_NEVER_NULL: Final = frozenset(
    {"turn", "opaque", "model", "id", "error", "shadow_stops", "counted", "arguments", "call_id", "images"}
)
_TOKENS: Final = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cached_tokens": "cached_tokens",
}
"""The figures of a usage, by ATIF's names for them."""
_MORE_TOKENS: Final = ("reasoning_tokens", "cache_write_tokens", "cache_write_1h_tokens")
"""Those that ATIF does not have."""
_KINDS: Final = {str: "a text", bool: "a flag", int: "a whole number of 64 bits", list: "a list"}


def trajectory(run: Run) -> dict[str, Any]:
    """A run as one ATIF trajectory; a `SettingError` if a setting or an event holds what JSON cannot."""
    steps = [row | {"step_id": number} for number, row in enumerate(_rows(run), 1)]
    facts = run_fields(run, leave_out=_IN_ATIF)
    if _named_version(run.harness_version) == run.harness_version:
        facts.pop("harness_version", None)
    agent: dict[str, Any] = {
        "name": run.agent or run.policy or run.source,
        "version": run.harness_version or _NO_VERSION,
    }
    return {
        "schema_version": SCHEMA,
        "session_id": run.run_id,
        "trajectory_id": run.run_id,
        "agent": agent | ({"model_name": run.model} if run.model else {}),
        "steps": steps,
        "final_metrics": {"total_steps": len(steps), "extra": {EXTRA: {"model_steps": run.n_steps}}},
        "extra": {EXTRA: {"version": VERSION, **facts}},
    }


def run_of_trajectory(row: Mapping[str, Any]) -> Run:
    """The run that `trajectory` wrote; a `ValueError` if boolab did not write it, or it has another version."""
    facts = _read_facts(row)
    if facts.get("version") != VERSION or isinstance(facts.get("version"), bool):
        raise ValueError(f"a record of version {facts.get('version')!r}; version {VERSION} can be read")
    prompt: list[Message] = []
    inputs: list[Input] = []
    steps: list[Step] = []
    for number, lines in enumerate(items(row.get("steps")), 1):
        try:
            position = _read_facts(mapping(lines)).get("before")
            if mapping(lines).get("source") == "agent" and not mapping(lines).get("is_copied_context"):
                steps.append(_step(lines, len(steps) + 1))
            elif position is None:
                prompt.append(_message(lines))
            else:
                inputs.append(Input(decode(int, position), _message(lines)))
        except ValueError as error:
            raise ValueError(f"steps: step {number}: {error}") from None
    fields = {name: value for name, value in facts.items() if name != "version"}
    agent = mapping(row.get("agent"))
    if "harness_version" not in facts:
        fields["harness_version"] = _named_version(agent.get("version"))
    return run_of(
        fields,
        run_id=decode(str, row.get("trajectory_id")),
        model=decode(str, agent.get("model_name", "")),
        steps=tuple(steps),
        prompt=tuple(prompt),
        inputs=tuple(inputs),
    )


def _named_version(version: object) -> object:
    """The version of a harness that an agent's `version` names; None for the word that stands for none."""
    return None if version in (_NO_VERSION, "") else version


def is_own(row: Mapping[str, Any]) -> bool:
    """Whether boolab wrote this trajectory."""
    return bool(_read_facts(row))


def _read_facts(row: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = row.get("extra")
    return mapping(extra.get(EXTRA)) if isinstance(extra, dict) else {}


def _rows(run: Run) -> Iterator[dict[str, Any]]:
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


def _input_row(item: Input) -> dict[str, Any]:
    row = _message_row(item.message)
    facts = mapping(row.get("extra")).get(EXTRA, {})
    return row | {"extra": {EXTRA: {"before": item.before, **facts}}}


def _message(row: object) -> Message:
    record = _read_facts(mapping(row)).get("message")
    if record is not None:
        return decode(Message, record)
    lines = mapping(row)
    return decode(Message, {"role": lines.get("source"), "parts": [{"part": "text", "text": lines.get("message")}]})


def _step_row(run: Run, step: Step) -> dict[str, Any]:
    response = step.response
    row: dict[str, Any] = {"source": "agent", "message": response.text}
    stamp = _timestamp(run, step)
    if stamp is not None:
        row["timestamp"] = stamp
    if response.effort is not None:
        row["reasoning_effort"] = response.effort
    if response.reasoning:
        row["reasoning_content"] = response.reasoning
    if response.tool_calls:
        row["tool_calls"] = [_call_row(call) for call in response.tool_calls]
        answers = [result for result in step.results if result is not None]
        if answers:
            row["observation"] = {"results": _result_rows(step)}
    if response.usage != UNKNOWN_USAGE:
        row["metrics"] = _metrics(response.usage)
    rest = response._replace(text="", tool_calls=(), usage=UNKNOWN_USAGE, reasoning="", effort=None)
    record = encode(step._replace(response=rest, results=()), f"step {step.index} of run {run.run_id}")
    facts = record | record.pop("response")
    return row | {"extra": {EXTRA: {name: facts[name] for name in _STEP_FACTS if facts.get(name) is not None}}}


def _timestamp(run: Run, step: Step) -> str | None:
    if run.started_at is None or step.start_ms is None:
        return None
    try:
        return (run.started_at + timedelta(milliseconds=step.start_ms + (step.model_ms or 0))).isoformat()
    except OverflowError:
        return None


def _call_row(call: ToolCall) -> dict[str, Any]:
    arguments, lines = _parse_arguments(call.arguments)
    row: dict[str, Any] = {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments}
    if lines != call.arguments:
        row["extra"] = {EXTRA: {"arguments": call.arguments}}
    return row


def _parse_arguments(arguments: str) -> tuple[dict[str, Any], str]:
    """The arguments if they are a JSON object that can be written, else an empty one; and their text."""
    try:
        value = parse_exactly(arguments.encode("utf-8", "surrogatepass"))
        lines = _arguments_text(value)
        if "Infinity" in lines:
            json.dumps(value, allow_nan=False)
    except ValueError:  # no JSON, or a number beyond all floats
        value, lines = None, ""
    return (value, lines) if isinstance(value, dict) else ({}, "{}")


def _arguments_text(arguments: Mapping[str, Any]) -> str:
    """The text of arguments as most models send them, the same for reading and for writing."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _result_rows(step: Step) -> list[dict[str, Any]]:
    calls = step.response.tool_calls
    by_index = len({call.id for call in calls}) < len(calls)
    rows = []
    for index, (call, result) in enumerate(zip(calls, step.results, strict=True)):
        if result is None:
            continue
        facts = {
            "call": index if by_index or result.call_id != call.id else None,
            "call_id": result.call_id if result.call_id != call.id else None,
            "is_error": result.is_error,
            "parse_error": result.parse_error or None,
            "duration_ms": result.duration_ms,
            "images": encode(result.images, "the images of a result") or None,
        }
        extra = {name: fact for name, fact in facts.items() if fact is not None}
        row: dict[str, Any] = {"source_call_id": call.id, "content": result.content}
        rows.append(row | ({"extra": {EXTRA: extra}} if extra else {}))
    return rows


def _metrics(usage: Usage) -> dict[str, Any]:
    figures = {theirs: getattr(usage, name) for name, theirs in _TOKENS.items()}
    row: dict[str, Any] = {name: figure for name, figure in figures.items() if figure is not None}
    if usage.cost is not None:
        row["cost_usd"] = usage.cost / MICRO
    extra = {name: getattr(usage, name) for name in _MORE_TOKENS if getattr(usage, name) is not None}
    return row | ({"extra": extra} if extra else {})


def _step(row: Mapping[str, Any], index: int) -> Step:
    facts = _read_facts(row)
    _check(facts, _STEP_FACTS)
    calls = tuple([_call(entry) for entry in items(row.get("tool_calls"))])
    results: list[ToolResult | None] = [None] * len(calls)
    for entry in items(mapping(row.get("observation")).get("results")):
        position, result = _result(entry, calls)
        results[position] = result
    response = Response(
        _text(row, "message"),
        calls,
        facts.get("finish_reason"),
        _usage(mapping(row.get("metrics"))),
        _text(row, "reasoning_content", ""),
        facts.get("ttft_ms"),
        facts.get("native_finish_reason"),
        facts.get("opaque", ""),
        facts.get("model", ""),
        facts.get("id", ""),
        decode(str, effort) if (effort := row.get("reasoning_effort")) is not None else None,
        facts.get("speed"),
        facts.get("service_tier"),
    )
    if "turn" not in facts:
        msg = "turn: missing"
        raise ValueError(msg)
    return Step(
        index,
        facts["turn"],
        facts.get("start_ms"),
        facts.get("duration_ms"),
        facts.get("model_ms"),
        response,
        tuple(results),
        facts.get("error", ""),
        tuple([decode(str, name) for name in facts.get("shadow_stops", ())]),
        facts.get("counted", True),
    )


def _call(entry: object) -> ToolCall:
    row = mapping(entry)
    facts = _read_facts(row)
    _check(facts, _CALL_FACTS)
    arguments = facts["arguments"] if facts else _arguments_text(mapping(row.get("arguments")))
    return ToolCall(_text(row, "tool_call_id"), _text(row, "function_name"), arguments)


def _result(entry: object, calls: tuple[ToolCall, ...]) -> tuple[int, ToolResult]:
    row = mapping(entry)
    facts = _read_facts(row)
    _check(facts, _RESULT_FACTS)
    call_id = _text(row, "source_call_id")
    index = facts.get("call")
    if index is None:
        index = next((index for index, call in enumerate(calls) if call.id == call_id), -1)
    if index not in range(len(calls)):
        raise ValueError(f"a result answers call {call_id!r:.80}, which is not there")
    result = ToolResult(
        facts.get("call_id", call_id),
        _text(row, "content"),
        facts.get("is_error"),
        facts.get("parse_error") or False,
        facts.get("duration_ms"),
        tuple([decode(Image, image) for image in facts.get("images", ())]),
    )
    return index, result


def _usage(metrics: Mapping[str, Any]) -> Usage:
    if not metrics:
        return UNKNOWN_USAGE
    cost = metrics.get("cost_usd")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float)):
        raise ValueError(f"cost_usd: {cost!r:.80} is not a number")
    if cost is not None and not abs(cost) * MICRO <= MAX_COLUMN_INT + 1:
        raise ValueError(f"cost_usd: {cost!r:.80} is too large")
    extra = mapping(metrics.get("extra"))
    return Usage(
        _read_value(metrics, "prompt_tokens", int),
        _read_value(metrics, "completion_tokens", int),
        _read_value(metrics, "cached_tokens", int),
        _read_value(extra, "reasoning_tokens", int),
        None if cost is None else min(round(cost * MICRO), MAX_COLUMN_INT),  # dollars are floats: they may round up
        _read_value(extra, "cache_write_tokens", int),
        _read_value(extra, "cache_write_1h_tokens", int),
    )


def _check(facts: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Raise `ValueError` if one of boolab's facts is not known, or not of its kind."""
    for name, value in facts.items():  # the facts that are there: two in most steps, of a dozen kinds
        kind = kinds.get(name)
        if kind is None:
            raise ValueError(f"{', '.join(sorted(facts.keys() - kinds.keys()))}: not known here")
        if type(value) is not kind or kind is int:
            _read_value(facts, name, kind)
            if value is None and name in _NEVER_NULL:
                raise ValueError(f"{name}: None is not {_KINDS[kind]}")


def _read_value(row: Mapping[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401 - of this kind, or None
    value: Any = row.get(name)
    fits = type(value) is kind
    if fits and kind is int:
        fits = -MAX_COLUMN_INT - 1 <= value <= MAX_COLUMN_INT
    if value is None or fits:
        return value
    raise ValueError(f"{name}: {value!r:.80} is not {_KINDS[kind]}")


def _text(row: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if isinstance(value, str):
        return value
    raise ValueError(f"{name}: {value!r:.80} is not {_KINDS[str]}")
