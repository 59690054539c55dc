"""Spans in other forms than OTLP with GenAI attributes, as such: of one form, all are read in one way.

- OpenInference (github.com/Arize-ai/openinference, `spec/semantic_conventions.md`): spans with
  `openinference.span.kind`, whose messages are numbered attributes. `LLM`, `TOOL` and `AGENT` are a response, a call
  and an agent.
- OpenTelemetry's console exporter for Python: an object for each span, with a `context`, in a list, a document with
  `spans`, or a line each.
- The OpenAI Agents SDK (github.com/openai/openai-agents-python, `tracing/spans.py`): objects `trace` and `trace.span`,
  with a `span_data` of the type `generation` or `response`, `function`, `handoff` or `agent`; also in lists `traces`,
  `spans` and `data`. A `group_id` is the conversation, else the trace is. A handoff is the result of the call of
  `transfer_to_` and the agent, if the tool has the name that the SDK gives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from boolab.core.types import REDACTED
from boolab.io.json_input import items, json_object, mapping, text
from boolab.logs.fields import instant

_KIND: Final = "openinference.span.kind"
_OPERATIONS: Final = {"LLM": "chat", "TOOL": "execute_tool", "AGENT": "invoke_agent"}
_NAMES: Final = {
    "llm.model_name": "gen_ai.response.model",
    "llm.token_count.prompt": "gen_ai.usage.input_tokens",
    "llm.token_count.completion": "gen_ai.usage.output_tokens",
    "llm.token_count.prompt_details.cache_read": "gen_ai.usage.cache_read.input_tokens",
    "llm.token_count.prompt_details.cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "llm.token_count.completion_details.reasoning": "gen_ai.usage.reasoning_tokens",
    "llm.finish_reason": "gen_ai.response.finish_reasons",
    "llm.cost.total": "gen_ai.usage.cost",
    "session.id": "gen_ai.conversation.id",
    "agent.name": "gen_ai.agent.name",
    "tool.name": "gen_ai.tool.name",
    "tool.id": "gen_ai.tool.call.id",
    "tool_call.id": "gen_ai.tool.call.id",
}
"""The attributes of OpenInference that GenAI's conventions have under another name."""
_MESSAGE: Final = re.compile(
    r"llm\.(input|output)_messages\.(\d{1,6})\.message\."
    r"(?:(role|content|tool_call_id)|contents\.(\d{1,6})\.message_content\.text"
    r"|tool_calls\.(\d{1,6})\.tool_call\.(id|function\.name|function\.arguments))"
)
_HANDED: Final = "handoff to "
HANDOFF: Final = "handoff"
"""The type of a tool that hands over to another agent, which ends the run."""
_DATA: Final = {
    "generation": "chat", "response": "chat", "function": "execute_tool", HANDOFF: "execute_tool",
    "agent": "invoke_agent",
}  # fmt: skip
_FAILED: Final = 2
_LISTS: Final = ("traces", "spans", "data")
_MAX_DEPTH: Final = 3


def as_gen_ai(attributes: dict[str, Any], name: str) -> dict[str, Any]:
    """The attributes of a span of that name by GenAI's conventions, if they are OpenInference's."""
    operation = _OPERATIONS.get(text(attributes.get(_KIND)).upper())
    if operation is None:
        return attributes
    renamed = {_NAMES.get(own, own): value for own, value in attributes.items()}
    renamed["gen_ai.operation.name"] = operation
    for side in ("input", "output"):
        if messages := _numbered_messages(attributes, side):
            renamed[f"gen_ai.{side}.messages"] = messages
    entered, output = attributes.get("input.value"), attributes.get("output.value")
    if operation == "execute_tool":
        handed = name.removeprefix(_HANDED) if name.startswith(_HANDED) else ""
        renamed.setdefault("gen_ai.tool.name", _transfer_to(handed) if handed else name)
        renamed |= {"gen_ai.tool.type": HANDOFF} if handed else {}
        renamed["gen_ai.tool.call.arguments"] = REDACTED if entered is None or handed else entered
        renamed["gen_ai.tool.call.result"] = output
    elif operation == "invoke_agent" and isinstance(entered, str) and not entered.startswith(("{", "[")):
        renamed["gen_ai.input.messages"] = [{"role": "user", "content": entered}]
    elif operation == "chat":
        parameters = json_object(text(attributes.get("llm.invocation_parameters")))
        renamed["gen_ai.request.reasoning_effort"] = parameters.get("reasoning_effort")
    return renamed


def _transfer_to(agent: str) -> str:
    """The tool by which the OpenAI Agents SDK hands over to an agent."""
    return "transfer_to_" + re.sub(r"[^a-z0-9_]", "_", agent.lower())


def _numbered_messages(attributes: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    """The messages in attributes such as `llm.input_messages.0.message.content`, in OpenAI's form."""
    messages: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        match = _MESSAGE.fullmatch(name) if name.startswith("llm.") else None
        if match is None or match[1] != side:
            continue
        message = messages.setdefault(int(match[2]), {"texts": {}, "calls": {}})
        if match[3]:
            message[match[3]] = value
        elif match[4]:
            message["texts"][int(match[4])] = text(value)
        else:
            message["calls"].setdefault(int(match[5]), {})[match[6]] = value
    return [_message(messages[number]) for number in sorted(messages)]


def _message(message: dict[str, Any]) -> dict[str, Any]:
    texts, calls = message.pop("texts"), message.pop("calls")
    if texts and "content" not in message:
        message["content"] = "\n".join(texts[number] for number in sorted(texts))
    if calls:
        message["tool_calls"] = [
            {
                "id": call.get("id"),
                "function": {"name": call.get("function.name"), "arguments": call.get("function.arguments", REDACTED)},
            }
            for _, call in sorted(calls.items())
        ]
    return message


def is_other_span(value: object) -> bool:
    """Whether a value is a span, or several, of the console exporter or of the OpenAI Agents SDK."""
    return next(_spans_in(value), None) is not None


def _spans_in(value: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The spans and traces in a value: itself, or those of a list or of a document."""
    entry = mapping(value)
    if {"trace_id", "span_id"} <= mapping(entry.get("context")).keys() or _is_traced(entry):
        yield entry
    for inner in (value, *(entry.get(name) for name in _LISTS)) if depth < _MAX_DEPTH else ():
        for item in items(inner):
            yield from _spans_in(item, depth + 1)


def _is_traced(entry: Mapping[str, Any]) -> bool:
    kind = entry.get("object")
    return (kind == "trace.span" and "span_data" in entry) or (kind == "trace" and "workflow_name" in entry)


def other_spans(value: object, groups: dict[str, str]) -> Iterator[Mapping[str, Any]]:
    """The spans in a value, in OTLP's form. `groups` gets the conversation of each trace that names one."""
    for entry in _spans_in(value):
        if entry.get("object") == "trace":
            groups[text(entry.get("id"))] = text(entry.get("group_id"))
        elif "span_data" in entry:
            yield _agents_span(entry, groups)
        else:
            yield _console_span(entry)


def _nanoseconds(stamp: object) -> int | None:
    if isinstance(stamp, int) and not isinstance(stamp, bool):
        return stamp
    moment = instant(stamp)
    return None if moment is None else round(moment.timestamp() * 1_000_000) * 1000


def _console_span(span: Mapping[str, Any]) -> Mapping[str, Any]:
    context, status = mapping(span.get("context")), mapping(span.get("status"))
    failed = status.get("status_code") == "ERROR"
    version = text(mapping(mapping(span.get("resource")).get("attributes")).get("service.version"))
    return {
        "name": span.get("name"),
        "traceId": context.get("trace_id"),
        "spanId": context.get("span_id"),
        "parentSpanId": span.get("parent_id"),
        "startTimeUnixNano": _nanoseconds(span.get("start_time")),
        "endTimeUnixNano": _nanoseconds(span.get("end_time")),
        "status": {"code": _FAILED, "message": status.get("description")} if failed else {},
        "attributes": span.get("attributes"),
        "events": span.get("events"),
        **({"service.version": version} if version else {}),
    }


def _agents_span(span: Mapping[str, Any], groups: Mapping[str, str]) -> Mapping[str, Any]:
    data, error = mapping(span.get("span_data")), mapping(span.get("error"))
    trace, operation = text(span.get("trace_id")), _DATA.get(text(data.get("type")), "")
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.conversation.id": groups.get(trace) or trace,
    }
    if operation == "chat":
        attributes |= {
            "gen_ai.request.model": data.get("model"),
            "gen_ai.response.id": data.get("response_id"),
            "gen_ai.input.messages": data.get("input"),
            "gen_ai.output.messages": data.get("output"),
            **{f"gen_ai.usage.{name}": figure for name, figure in _tokens(mapping(data.get("usage"))).items()},
        }
    elif data.get("type") == HANDOFF:
        attributes |= {
            "gen_ai.tool.name": _transfer_to(text(data.get("to_agent"))),
            "gen_ai.tool.type": HANDOFF,
            "gen_ai.tool.call.arguments": REDACTED,
            "gen_ai.tool.call.result": data.get("to_agent"),
        }
    elif operation == "execute_tool":
        attributes |= {
            "gen_ai.tool.name": data.get("name"),
            "gen_ai.tool.call.arguments": data.get("input", REDACTED),
            "gen_ai.tool.call.result": data.get("output"),
        }
    elif operation == "invoke_agent":
        attributes["gen_ai.agent.name"] = data.get("name")
    return {
        "traceId": trace,
        "spanId": span.get("id"),
        "parentSpanId": span.get("parent_id"),
        "startTimeUnixNano": _nanoseconds(span.get("started_at")),
        "endTimeUnixNano": _nanoseconds(span.get("ended_at")),
        "status": {"code": _FAILED, "message": text(error.get("message"))} if error else {},
        "attributes": {name: value for name, value in attributes.items() if value is not None},
    }


def _tokens(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The usage of a response, with what its details have, by GenAI's names."""
    details = {**usage, **mapping(usage.get("details"))}
    entered, output = mapping(details.get("input_tokens_details")), mapping(details.get("output_tokens_details"))
    return {
        **usage,
        "cache_read.input_tokens": entered.get("cached_tokens"),
        "cache_creation.input_tokens": entered.get("cache_write_tokens"),
        "reasoning_tokens": output.get("reasoning_tokens"),
    }
