"""Requests of Anthropic's messages API.

Rules of the API (https://docs.anthropic.com/en/api/messages, and its error messages):

- The roles are user and assistant; consecutive messages of one role are merged. Results are the first blocks of a user
  message, one for each call of the message before. A call without a result gets a substitute; a result without a call
  is sent as text.
- The system prompt is not among the messages. Later system messages are sent as text of the user.
- Ids of calls have only letters, digits, `_` and `-`, and are unique; other ids are mapped.
- The input of a call is an object. Other arguments are wrapped as the documentation of fine-grained tool streaming
  proposes, `{"INVALID_JSON": "<the text>"}`: the model sees its own text and the error that it got.
- A text is not blank; a last message of the assistant does not end with white space, and none ends with reasoning.
- Reasoning is sent unchanged and signed, or not at all, before the rest of its message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Final

from pydantic_core import from_json

from boolab.core.context import Growing
from boolab.core.messages import Message, Part, Reasoning, Text
from boolab.core.types import Response, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.models.remote.anthropic_stream import MessageDecoder, error_message
from boolab.runtime.models.remote.protocol import check_parameters, dump_json, output_range_of, parse_object
from boolab.runtime.tools.tool import ToolSpec

MAX_TOKENS: Final = 8192
"""The default limit of a response: the API has none, and its oldest models allow no more."""

_SET_HERE: Final = ("messages", "model", "stream", "system", "tools")
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME_CHARS: Final = 128
_NO_RESULT: Final = "This call has no result."
_NO_CHOICE: Final = b',"tool_choice":{"type":"none"}'
_THINKING: Final = ("thinking", "redacted_thinking")


@dataclass(frozen=True)
class Messages:
    """The `Wire` of the messages API.

    `parameters`: further members of the body: `max_tokens` (8192), `thinking`, `top_p`, `metadata`, ... None removes a
    default. `tool_choice` is an object of the API, or one word: `auto`, `any` (or `required`), `none`, or the name of a
    tool.
    """

    path: ClassVar[str] = "messages"
    model: str
    parameters: Mapping[str, Any]
    _fixed: bytes = field(init=False, repr=False, compare=False)
    _choice: bytes = field(init=False, repr=False, compare=False)
    _conversations: Growing[_SentConversation] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_parameters(self.parameters, _SET_HERE)
        parameters = {"max_tokens": MAX_TOKENS, **self.parameters}
        choice = _choice(parameters.pop("tool_choice", None))
        fixed = {"model": self.model} | {name: value for name, value in parameters.items() if value is not None}
        fixed.pop("temperature", None)
        fixed.pop("max_tokens", None)
        object.__setattr__(self, "_fixed", dump_json(fixed)[:-1] + b',"stream":true')
        object.__setattr__(self, "_choice", b"" if choice is None else b',"tool_choice":' + dump_json(choice))
        object.__setattr__(self, "_conversations", Growing(_SentConversation, _SentConversation.add))

    @property
    def output_range(self) -> tuple[int, int] | None:
        thinking = self.parameters.get("thinking")
        budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
        return output_range_of(self._max_tokens, budget if type(budget) is int else 0)

    @property
    def _max_tokens(self) -> Any:  # noqa: ANN401 - whatever the user gave
        return self.parameters.get("max_tokens", MAX_TOKENS)

    def body(self, request: Request) -> bytes:
        conversation, tail = self._conversations(request.messages)
        last = conversation.fork()
        for message in tail:
            last.add(message)
        temperature = self.parameters.get("temperature") if request.temperature is None else request.temperature
        parts: list[bytes | bytearray] = [self._fixed]
        max_tokens = self._max_tokens if request.max_output is None else min(self._max_tokens, request.max_output)
        if max_tokens is not None:
            parts.append(b',"max_tokens":' + dump_json(max_tokens))
        if temperature is not None:
            parts.append(b',"temperature":' + json.dumps(temperature).encode())
        if last.system:
            parts += (b',"system":"', last.system, b'"')
        if request.tools:
            parts += (b',"tools":', conversation.offer(request.tools))
            parts.append(_NO_CHOICE if request.tool_choice == "none" else self._choice)
        parts += (b',"messages":[', conversation.closed, last.closed, last.end(), b"]}")
        return b"".join(parts)

    def decoder(self, emit: Emit | None = None, prefix: str = "call") -> MessageDecoder:
        return MessageDecoder(emit, prefix)

    def ignored_parameter(self, request: Request, response: Response) -> str:  # noqa: ARG002 - its servers ignore none
        return ""

    def error_text(self, body: bytes) -> str:
        return error_message(parse_object(body) or {})


class _SentConversation:
    """A conversation in the API's form, built message by message.

    The last message is open, because the next one may have to be merged into it.
    """

    __slots__ = ("_blocks", "_ids", "_last_text", "_offered", "_results", "_role", "_waiting", "closed", "system")

    def __init__(self) -> None:
        self.system = bytearray()  # the system prompt, escaped for a JSON text
        self.closed = bytearray()  # the messages before the open one, each followed by a comma
        self._role = ""
        self._results: list[bytes] = []
        self._blocks: list[bytes] = []
        self._last_text = ""
        self._ids: MutableMapping[str, int] = {}
        self._waiting: dict[str, list[str]] = {}
        self._offered: tuple[tuple[ToolSpec, ...], bytes] = ((), b"[]")

    def fork(self) -> _SentConversation:
        """The same conversation for one request only, without its closed messages."""
        fork = _SentConversation()
        fork.system = self.system.copy()
        fork._role = self._role
        fork._results = self._results.copy()
        fork._blocks = self._blocks.copy()
        fork._last_text = self._last_text
        fork._ids = ChainMap({}, self._ids)
        fork._waiting = {call_id: sent_ids.copy() for call_id, sent_ids in self._waiting.items()}
        return fork

    def offer(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """The tools of a request; those of the request before are not serialised again."""
        if self._offered[0] is not tools:
            self._offered = (tools, dump_json([_tool_definition(spec) for spec in tools]))
        return self._offered[1]

    def add(self, message: Message) -> None:
        """Add one message."""
        if message.role == "assistant":
            self._add_response(message)
        elif message.role == "system" and not self._role:
            text = message.text
            if text.strip():
                self.system += (b"\\n\\n" if self.system else b"") + dump_json(text)[1:-1]
        else:
            self._add_input(message)

    def end(self) -> bytes:
        """The open message as the last one of a request."""
        if self._role == "assistant" and self._waiting:
            self._turn_to("user")
            return self.end()
        if self._role == "assistant" and self._last_text:
            self._blocks[-1] = _text_block(self._last_text.rstrip())
        return self._open() if self._role else b""

    def _turn_to(self, role: str) -> None:
        if self._role and self._role != role:
            self.closed += self._open() + b","
            self._results, self._blocks, self._last_text = [], [], ""
            if role == "assistant":
                self._waiting = {}
        self._role = role

    def _open(self) -> bytes:
        unanswered = chain.from_iterable(self._waiting.values()) if self._role == "user" else ()
        missing = [_result_block(call_id, _NO_RESULT, is_error=True) for call_id in unanswered]
        content = b",".join((*self._results, *missing, *self._blocks))
        return b'{"role":"%s","content":[%s]}' % (self._role.encode(), content)

    def _add_response(self, message: Message) -> None:
        if not any(isinstance(part, ToolCall) or _is_text(part) for part in message.parts):
            return
        if self._waiting:
            self._turn_to("user")
        self._turn_to("assistant")
        thinking: list[bytes] = []  # never the last block
        for part in message.parts:
            if isinstance(part, Reasoning):
                thinking += _thinking_blocks(part.opaque)
            elif isinstance(part, Text) and _is_text(part):
                self._blocks += (*thinking, _text_block(part.text))
                thinking, self._last_text = [], part.text
            elif isinstance(part, ToolCall):
                self._blocks += (*thinking, self._call_block(part))
                thinking = []

    def _add_input(self, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolResult):
                self._add_result(part)
            elif isinstance(part, Text):
                self._add_text(part.text)

    def _add_text(self, text: str) -> None:
        if text.strip():
            self._turn_to("user")
            self._blocks.append(_text_block(text))

    def _add_result(self, result: ToolResult) -> None:
        waiting = self._waiting.get(result.call_id)
        if not waiting:
            self._add_text(f"The result of a call that is not shown:\n{result.content}")
            return
        self._turn_to("user")
        self._results.append(_result_block(waiting.pop(0), result.content, is_error=result.is_error))

    def _call_block(self, call: ToolCall) -> bytes:
        sent_id = self._unused_id(_sendable_id(call.id))
        self._waiting.setdefault(call.id, []).append(sent_id)
        name = _NOT_IN_NAMES.sub("_", call.name)[:_MAX_NAME_CHARS] or "_"
        return b'{"type":"tool_use","id":"%s","name":"%s","input":%s}' % (
            sent_id.encode(),
            name.encode(),
            _input(call.arguments),
        )

    def _unused_id(self, call_id: str) -> str:
        """The id itself the first time, later with a number."""
        number = self._ids.get(call_id, 0)
        unique_id = call_id
        while unique_id in self._ids:
            number += 1
            unique_id = f"{call_id}-{number}"
        self._ids[call_id] = number
        self._ids.setdefault(unique_id, 0)
        return unique_id


def _choice(choice: object) -> Mapping[str, Any] | None:
    """The parameter `tool_choice` in the API's form."""
    if choice is None or isinstance(choice, Mapping):
        return choice
    if not isinstance(choice, str):
        msg = f"parameter 'tool_choice': expected a word or an object like {{'type': 'any'}}, got {choice!r}"
        raise SettingError(msg)
    if choice in ("auto", "any", "none"):
        return {"type": choice}
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}


def _tool_definition(spec: ToolSpec) -> dict[str, Any]:
    described = {"description": spec.description} if spec.description else {}
    return {"name": spec.name, **described, "input_schema": dict(spec.parameters)}


def _is_text(part: Part) -> bool:
    """Whether a part is a text that is not blank."""
    return isinstance(part, Text) and part.text.strip() != ""


def _text_block(text: str) -> bytes:
    return b'{"type":"text","text":%s}' % dump_json(text)


def _result_block(call_id: str, content: str, *, is_error: bool | None) -> bytes:
    """A result. Blank content is left out; an error must have content."""
    blank = not content.strip()
    inner = b"" if blank and not is_error else b',"content":%s' % dump_json("The call failed." if blank else content)
    return b'{"type":"tool_result","tool_use_id":"%s"%s%s}' % (
        call_id.encode(),
        inner,
        b',"is_error":true' if is_error else b"",
    )


def _thinking_blocks(opaque: str) -> list[bytes]:
    """The signed reasoning of this provider; opaque content of other providers is left out."""
    blocks = (parse_object(opaque) or {}).get("messages") if opaque else None
    if not isinstance(blocks, list):
        return []
    return [dump_json(block) for block in blocks if isinstance(block, dict) and block.get("type") in _THINKING]


def _input(arguments: str) -> bytes:
    """The input of a call: its arguments unchanged, if they are an object."""
    if not arguments.strip():
        return b"{}"
    try:
        if isinstance(from_json(arguments, allow_inf_nan=False), dict):
            return arguments.encode()
    except (ValueError, TypeError):
        pass
    return dump_json({"INVALID_JSON": arguments})


def _sendable_id(call_id: str) -> str:
    """The id itself if the API accepts it, else a hash of it."""
    if _ID.fullmatch(call_id):
        return call_id
    return "id_" + hashlib.sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:32]
