"""Requests of chat completions, OpenAI's protocol, which most model servers support.

Source: platform.openai.com/docs/api-reference/chat. `openai_stream` decodes the responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from boolab.core.context import Growing
from boolab.core.messages import Message, Reasoning, Text
from boolab.core.types import Response, ToolCall, ToolResult
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.models.remote.openai_stream import REASONING_FIELDS, ChatDecoder, error_text
from boolab.runtime.models.remote.protocol import check_parameters, dump_json, output_range_of, parse_object
from boolab.runtime.tools.tool import ToolSpec

_SET_HERE: Final = ("messages", "model", "stream", "tools")
_MOST_CHARS_PER_TOKEN: Final = 8
"""Of JSON Schema, in characters: twice as many as tokenizers usually take, so that a short prompt is no chance."""
_OUTPUT_LIMITS: Final = ("max_completion_tokens", "max_tokens")
"""The names of the limit on a response: OpenAI's own, which replaced the other in 2024, and that of other servers."""
_BY_REQUEST: Final = (*_OUTPUT_LIMITS, "parallel_tool_calls", "seed", "temperature", "tool_choice")
_DEFAULTS: Final = {"stream_options": {"include_usage": True}}
_LARGEST_SEED: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """The `Wire` of chat completions.

    `parameters`: further members of each request's body; None removes a default (`stream_options=None`). The request's
    temperature overrides that of the parameters; the parameters' seed overrides the request's. `tool_choice` and
    `parallel_tool_calls` are sent only with tools, and not if the model must answer in text.
    """

    model: str
    parameters: Mapping[str, Any]
    path: str = field(default="chat/completions", init=False)
    _fixed: bytes = field(init=False, repr=False, compare=False)
    _requests: Growing[_CommonPart] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_parameters(self.parameters, _SET_HERE)
        fixed = {name: value for name, value in self.parameters.items() if name not in _BY_REQUEST}
        object.__setattr__(self, "_fixed", _members({"stream": True, **_DEFAULTS, **fixed}))
        object.__setattr__(self, "_requests", Growing(_CommonPart, self._add))

    @property
    def output_range(self) -> tuple[int, int] | None:
        values: list[Any] = [self.parameters.get(name) for name in _OUTPUT_LIMITS]
        limits: list[int] = [limit for limit in values if type(limit) is int]
        return output_range_of(min(limits)) if limits else None

    def _add(self, common_part: _CommonPart, message: Message) -> None:
        common_part.add(message, self.model)

    def body(self, request: Request) -> bytes:
        common_part, tail = self._requests(request.messages)
        last = _CommonPart()
        for message in tail:
            last.add(message, self.model)
        separator = b"," if common_part.messages and last.messages else b""
        opening = b'{"model":%b,"messages":[' % dump_json(self.model)
        tools = common_part.tools_json(request.tools)
        by_request = _members(self._request_values(request))
        return b"".join(
            (opening, common_part.messages, separator, last.messages, b"]", tools, self._fixed, by_request, b"}")
        )

    def _request_values(self, request: Request) -> dict[str, Any]:
        values: dict[str, Any] = {name: self.parameters.get(name) for name in _BY_REQUEST}
        if request.max_output is not None:
            for name in _OUTPUT_LIMITS:
                if values[name] is not None:
                    values[name] = min(values[name], request.max_output)
        if request.temperature is not None:
            values["temperature"] = request.temperature
        if request.seed is not None and "seed" not in self.parameters:
            values["seed"] = request.seed & _LARGEST_SEED
        if request.tool_choice == "none":
            values["tool_choice"] = "none"
        if not request.tools:  # OpenAI refuses both without tools
            values["tool_choice"] = values["parallel_tool_calls"] = None
        return values

    def decoder(self, emit: Emit | None = None, prefix: str = "call") -> ChatDecoder:
        return ChatDecoder(self.model, emit, prefix)

    def error_text(self, body: bytes) -> str:
        return error_text(body)

    def ignored_parameter(self, request: Request, response: Response) -> str:
        """`tool_choice`, if a call was required and none came; `tools`, if the prompt is too short to hold them.

        llama.cpp drops the tools, with HTTP 200, where the template of a model has none (ggml-org/llama.cpp#27129).
        """
        if not request.tools or response.tool_calls:
            return ""
        sent = response.usage.input_tokens
        if sent is not None and sent * _MOST_CHARS_PER_TOKEN < len(_CommonPart().tools_json(request.tools)):
            return "tools"
        choice = self.parameters.get("tool_choice")
        required = choice not in (None, "auto", "none") and request.tool_choice == "auto"
        return "tool_choice" if required and response.finish_reason != "length" else ""


class _CommonPart:
    """The common part of a run's requests, serialised."""

    __slots__ = ("_tools", "_tools_json", "messages")

    def __init__(self) -> None:
        self.messages = bytearray()
        self._tools: tuple[ToolSpec, ...] = ()
        self._tools_json = b""

    def add(self, message: Message, model: str) -> None:
        for wire_message in wire_messages(message, model):
            if self.messages:
                self.messages += b","
            self.messages += dump_json(wire_message)

    def tools_json(self, tools: tuple[ToolSpec, ...]) -> bytes:
        if tools is not self._tools:
            self._tools = tools
            self._tools_json = _members({"tools": [_tool(spec) for spec in tools] or None})
        return self._tools_json


def _members(values: Mapping[str, Any]) -> bytes:
    """Values as further members of a JSON object, without None."""
    present = {name: value for name, value in values.items() if value is not None}
    return b"," + dump_json(present)[1:-1] if present else b""


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def wire_messages(message: Message, model: str) -> list[dict[str, Any]]:
    """The protocol's messages for a message: one for each tool result, or none.

    Servers refuse an assistant's message without text and calls, so it is left out, as are an empty system message and
    sentinels. An empty text of the user is sent, since servers refuse a conversation without a message of the user.
    Opaque content is sent only to the model that it came from.
    """
    if message.role == "tool":
        results = (part for part in message.parts if isinstance(part, ToolResult))
        return [{"role": "tool", "tool_call_id": result.call_id, "content": result.content} for result in results]
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    if message.role == "assistant":
        return _assistant(message, text, model)
    if message.role == "sentinel" or (message.role == "system" and not text):
        return []
    return [{"role": message.role, "content": text}]


def _assistant(message: Message, text: str, model: str) -> list[dict[str, Any]]:
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    if not text and not calls:
        return []
    # Calls without text have the content "". The protocol has null, or no content, but local servers refuse null
    # (llama-cpp-python 0.3.36, lmstudio-ai/lmstudio-bug-tracker#261, mistralai/mistral-common#324), and a template of
    # llama-cpp-python fails without content. Known to refuse "": Bedrock behind some gateways
    # (anomalyco/opencode#17395).
    wire_message: dict[str, Any] = {"role": "assistant", "content": text}
    extras: Mapping[str, Any] = {}
    for part in message.parts:
        if isinstance(part, Reasoning):
            opaque = _own_content(part.opaque, model)
            extras = _object(opaque.get("calls"))
            wire_message |= {name: opaque[name] for name in ("reasoning_details", "extra_content") if name in opaque}
            if opaque.get("reasoning_field") in REASONING_FIELDS:
                wire_message[opaque["reasoning_field"]] = part.text
    if calls:
        wire_message["tool_calls"] = [_call(call, extras.get(call.id)) for call in calls]
    return [wire_message]


def _call(call: ToolCall, extra: object) -> dict[str, Any]:
    # Arguments that are no JSON, for example because a limit cut them off, are sent unchanged. OpenAI accepts them;
    # Ollama answers 400, and so did vLLM until 2026 (vllm-project/vllm#48922).
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    wire_call: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
    return wire_call if extra is None else {**wire_call, "extra_content": extra}


def _own_content(opaque: str, model: str) -> Mapping[str, Any]:
    """The opaque content of a response of this model; empty for other models."""
    content = _object(_object(parse_object(opaque) if opaque else None).get("chat_completions"))
    return content if content.get("model") == model else {}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
