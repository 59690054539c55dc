"""Spans of OTLP JSON about models, tools and agents: their attributes and events, and the messages in both.

See `docs/gen-ai` in github.com/open-telemetry/semantic-conventions-genai for the attributes and the parts of messages.
Older instrumentations write messages as events, as numbered attributes, or in the provider's own form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from boolab.core.finish_reasons import finish_reason
from boolab.core.types import REDACTED
from boolab.io.json_input import JSON, items, json_text, mapping, parse, text
from boolab.logs.fields import content_text, name_or_none, time_ms
from boolab.logs.readers._otel_dialects import as_gen_ai

CHAT: Final = "chat"
TOOL: Final = "execute_tool"
AGENT: Final = "invoke_agent"

_CHATS: Final = (CHAT, "text_completion", "generate_content")
_FAILED: Final = (2, "2", "STATUS_CODE_ERROR")
_NANO: Final = 1e6
MAX_DEPTH: Final = 64
MAX_DIGITS: Final = 20  # 64 bits have 19
_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "choice",
}
"""The events of older instrumentations, and the roles of their messages."""

_MODELS: Final = ("assistant", "model")
_MESSAGE_ENDS: Final = (".messages", "_instructions", "gen_ai.prompt", "gen_ai.completion")
_NUMBERED: Final = re.compile(r"gen_ai\.(prompt|completion)\.(\d{1,6})\.(\w+)(?:\.(\d{1,6})\.(\w+))?")

Key: TypeAlias = tuple[str, str]
"""A trace's and a span's id."""


SERVICE_VERSION: Final = "service.version"
"""The version of the program, which a span has from its resource."""


class SpanMessage(NamedTuple):
    """A message in the input or the output of a response."""

    role: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str, Any], ...] = ()
    """The id, name and arguments of each call."""
    results: tuple[tuple[str, str], ...] = ()
    """The id of the call and the content of each result."""
    reason: str | None = None


def spans_of(document: Mapping[str, Any]) -> Iterator[object]:
    """The spans of a document."""
    for resource in items(document.get("resourceSpans")):
        scopes = mapping(resource).get("scopeSpans") or mapping(resource).get("instrumentationLibrarySpans")
        version = name_or_none(
            _attributes(mapping(mapping(resource).get("resource")).get("attributes")).get("service.version")
        )
        for scope in items(scopes):
            for span in items(mapping(scope).get("spans")):
                yield span if version is None or not isinstance(span, dict) else {**span, SERVICE_VERSION: version}


class Span:
    """The facts of a span at a place in the file."""

    __slots__ = (
        "about",
        "asked",
        "end",
        "error",
        "given",
        "key",
        "kind",
        "made",
        "order",
        "parent",
        "start",
        "version",
    )

    def __init__(self, span: Mapping[str, Any], index: int) -> None:
        trace = text(span.get("traceId"))
        self.key: Key = (trace, text(span.get("spanId")))
        self.parent: Key = (trace, text(span.get("parentSpanId")))
        attributes = as_gen_ai(_attributes(span.get("attributes")), text(span.get("name")))
        self.version = name_or_none(span.get(SERVICE_VERSION))
        self.kind = _kind(attributes)
        """`chat`, `execute_tool` or `invoke_agent`; empty for other spans."""
        start = span.get("startTimeUnixNano")
        self.start = time_ms(start, _NANO)
        self.order = (_parse_int(start) or 0, self.kind != CHAT, index)
        """The key of the order of spans."""
        self.end = time_ms(span.get("endTimeUnixNano"), _NANO)
        self.error = ""
        status = mapping(span.get("status"))
        if status.get("code") in _FAILED or text(attributes.get("error.type")):
            self.error = text(attributes.get("error.type")) or text(status.get("message")) or "error"
        self.given: list[SpanMessage] = []
        """The new messages of the input."""
        self.asked: list[str] = []
        """The ids of the calls that these may answer: those of the last response that the input has."""
        self.made: list[SpanMessage] = []
        """The output: one message for each alternative."""
        self.about: dict[str, Any] = {}
        """The attributes that hold no messages."""
        if self.kind:
            self._take_messages(attributes, items(span.get("events")))
            self.about = {name: value for name, value in attributes.items() if not name.endswith(_MESSAGE_ENDS)}

    def _take_messages(self, attributes: Mapping[str, Any], events: Sequence[Any]) -> None:
        lines = [(text(mapping(event).get("name")), _attributes(mapping(event).get("attributes"))) for event in events]
        single = [_event_message(_ROLES[name], of_event) for name, of_event in lines if name in _ROLES]
        sources = [attributes, *(of_event for _, of_event in lines)]
        inputs, outputs = (
            _first_messages(sources, "input.messages", "prompt"),
            _first_messages(sources, "output.messages", "completion"),
        )
        inputs = inputs or [message for message in single if message.role != "choice"]
        self.made = outputs or [message for message in single if message.role == "choice"]
        instructions = _parse_structured(attributes.get("gen_ai.system_instructions"))
        system = _message({"role": "system", "parts": instructions}) if instructions else SpanMessage("system")
        self.given = ([system] if system.text else []) + _new_messages(inputs)
        last = next((message for message in reversed(inputs) if message.role in _MODELS), None)
        self.asked = [call_id for call_id, _, _ in last.calls] if last is not None else []

    def adopt(self, other: Span) -> None:
        """Add what this span lacks from one within it about the same response."""
        self.about = {**other.about, **self.about}
        self.given = self.given or other.given
        self.made = self.made or other.made


def _kind(attributes: Mapping[str, Any]) -> str:
    """The operation of a span, which older instrumentations do not name; empty for other spans."""
    operation = text(attributes.get("gen_ai.operation.name"))
    if operation:
        return CHAT if operation in _CHATS else operation if operation in (TOOL, AGENT) else ""
    if "gen_ai.tool.name" in attributes:
        return TOOL
    chat = "gen_ai.request.model" in attributes and not {"gen_ai.system", "gen_ai.provider.name"}.isdisjoint(attributes)
    return "chat" if chat and text(attributes.get("llm.request.type")) in ("", "chat", "completion") else ""


def _attributes(entries: object) -> dict[str, Any]:
    if isinstance(entries, dict):  # other exporters write them as an object
        return {**entries}
    attributes = {}
    for entry in items(entries):
        name = text(mapping(entry).get("key"))
        if name:
            attributes[name] = _plain_value(mapping(entry).get("value"))
    return attributes


def _plain_value(value: object, depth: int = 0) -> JSON:
    wrapped = mapping(value)
    if depth > MAX_DEPTH or not wrapped:
        return None
    name, inner = next(iter(wrapped.items()))
    if name == "arrayValue":
        return [_plain_value(item, depth + 1) for item in items(mapping(inner).get("values"))]
    if name == "kvlistValue":
        pairs = (mapping(item) for item in items(mapping(inner).get("values")))
        return {text(pair.get("key")): _plain_value(pair.get("value"), depth + 1) for pair in pairs}
    if name == "intValue":
        return _parse_int(inner)
    return inner if isinstance(inner, str | int | float) else None


def _parse_int(value: object) -> int | None:
    """A whole number, which OTLP JSON may write as a text because it has 64 bits."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < MAX_DIGITS else None
    return value if isinstance(value, int) else None


def _parse_structured(value: object) -> JSON:
    """A value that may be written as its JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return parse(value.encode("utf-8", "replace")) if value[:1] in ("[", "{", '"') else value
    except ValueError:
        return value


def _first_messages(sources: Sequence[Mapping[str, Any]], name: str, older: str) -> list[SpanMessage]:
    """The messages of the first attributes that have any, by either name or numbered."""
    for source in sources:
        for key in (f"gen_ai.{name}", f"gen_ai.{older}"):
            messages = _messages(source.get(key))
            if messages:
                return messages
        messages = [_message(message) for message in _numbered_messages(source, older)]
        if messages:
            return messages
    return []


def _numbered_messages(attributes: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Messages in attributes such as `gen_ai.prompt.0.content`."""
    messages: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[int, dict[str, Any]]] = {}
    for key, value in attributes.items():
        parts = _NUMBERED.fullmatch(key) if key.startswith(f"gen_ai.{name}.") else None
        if parts is None:
            continue
        number = int(parts[2])
        message = messages.setdefault(number, {})
        if parts[4] is None:
            message[parts[3]] = value
        elif parts[3] == "tool_calls":
            calls.setdefault(number, {}).setdefault(int(parts[4]), {})[parts[5]] = value
    for number, message_calls in calls.items():
        messages[number]["tool_calls"] = [message_calls[index] for index in sorted(message_calls)]
    return [messages[number] for number in sorted(messages)]


def _messages(value: object) -> list[SpanMessage]:
    inner = _parse_structured(value)
    if isinstance(inner, str):
        return [SpanMessage("user", inner)] if inner else []
    return [_message(mapping(item)) for item in ([inner] if isinstance(inner, dict) else items(inner)) if mapping(item)]


def _message(value: Mapping[str, Any], role: str = "") -> SpanMessage:
    """One message: of parts, or of OpenAI's or Anthropic's form, which older instrumentations write."""
    body, reasoning = [], []
    calls: list[tuple[str, str, Any]] = []
    results: list[tuple[str, str]] = []
    content = _parse_structured(value.get("parts", value.get("content")))
    role = role or text(value.get("role"))
    for block in content if isinstance(content, list) else [content]:
        part = mapping(block)
        kind = text(part.get("type"))
        inner_text = part.get("content", part.get("text"))
        if isinstance(block, str):
            body.append(block)
        elif kind in ("tool_call", "tool_use"):
            name, arguments = text(part.get("name")), part.get("arguments", part.get("input", REDACTED))
            calls.append((text(part.get("id")), name, arguments))
        elif kind in ("tool_call_response", "tool_result"):
            response = part.get("response", part.get("result", part.get("content")))
            results.append((text(part.get("id")) or text(part.get("tool_use_id")), result_of(response)))
        elif kind in ("reasoning", "thinking"):
            reasoning.append(text(inner_text) or text(part.get("thinking")))
        elif part:
            body.append(
                inner_text if isinstance(inner_text, str) and kind in ("", "text") else f"[{kind or 'unknown'}]"
            )
    for call in items(value.get("tool_calls")):
        function = mapping(mapping(call).get("function")) or mapping(call)
        calls.append((text(mapping(call).get("id")), text(function.get("name")), function.get("arguments", REDACTED)))
    if role == "tool" and not results:
        results = [(text(value.get("tool_call_id")) or text(value.get("id")), "\n".join(body))]
        body = []
    reason = finish_reason(value.get("finish_reason"))
    return SpanMessage(role, "\n".join(body), "\n".join(reasoning), tuple(calls), tuple(results), reason)


def _event_message(role: str, attributes: Mapping[str, Any]) -> SpanMessage:
    """The message of an event: its attributes, or the JSON text in one of them."""
    body = mapping(_parse_structured(attributes.get("gen_ai.event.content"))) or attributes
    if role == "choice":
        inner = _parse_structured(body.get("message"))
        message = _message(inner if isinstance(inner, dict) else {"content": inner}, role)
        calls = _message({"tool_calls": _parse_structured(body.get("tool_calls"))}).calls
        return message._replace(reason=finish_reason(body.get("finish_reason")), calls=message.calls or calls)
    return _message({**body, "tool_calls": _parse_structured(body.get("tool_calls"))}, role)


def _new_messages(messages: Sequence[SpanMessage]) -> list[SpanMessage]:
    """The new messages of an input: the system's, and those after the last of the assistant's."""
    last = max((index for index, item in enumerate(messages) if item.role in _MODELS), default=-1)
    return [item for index, item in enumerate(messages) if index > last or item.role in ("system", "developer")]


def result_of(value: object) -> str:
    """A result's text; what is no text as its JSON."""
    value = _parse_structured(value)
    parts = value if isinstance(value, list) else []
    if isinstance(value, dict) or any(not isinstance(part, str) and "type" not in mapping(part) for part in parts):
        return json_text(value)
    return content_text(value)
