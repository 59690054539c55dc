"""Anthropic's messages API: how a conversation becomes the body of a request.

Rules of the API that shape it (https://docs.anthropic.com/en/api/messages, and its error messages where it refuses):

- The roles are user and assistant; messages of one role in a row become one. Results are blocks of a user message, the
  first in it, and there is one for each call of the message before. A call that got none has one that says so; a result
  of no call is sent as text.
- The system prompt stands beside the messages. System messages that come later are sent as the user's text.
- Ids of calls have letters, digits, `_` and `-` and are unique; those that other providers or logs gave are mapped.
- The input of a call is an object. Arguments that are none are wrapped as the documentation of fine-grained tool
  streaming proposes, `{"INVALID_JSON": "<the text>"}`: the model sees what it wrote, beside the error that it got.
- A text is not blank; a last message of the assistant does not end in white space, and none ends in reasoning.
- Reasoning goes back as it came, signed, or not at all. It comes first in its message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pydantic_core import from_json

from boolab.core.types import Message, Part, Reasoning, Text, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.models.base import Emit, Request
from boolab.models.incremental import Growing
from boolab.models.remote.anthropic_stream import MessageDecoder, error_words
from boolab.models.remote.json_codec import checked_parameters, dumped, parsed_object
from boolab.tools.tool import ToolSpec

MAX_TOKENS: Final = 8192
"""How long a response may be unless a parameter says: the API has no default, and its oldest models allow no more."""

_SET_HERE: Final = ("messages", "model", "stream", "system", "tools")
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 128
_NO_RESULT: Final = "This call has no result."
_NO_CHOICE: Final = b',"tool_choice":{"type":"none"}'
_THINKING: Final = ("thinking", "redacted_thinking")


@dataclass(frozen=True)
class Messages:
    """The wire format of the messages API: see `boolab.models.remote.protocol.Wire`.

    Args:
        model: The provider's name for the model.
        parameters: What else goes into the body, by name: `max_tokens` (8192), `thinking`, `top_p`, `metadata`, ...
            None takes a default away. `tool_choice` is an object as the API has it, or one word: `auto`, `any` (or
            `required`), `none`, or the name of a tool.

    Raises:
        SettingError: if a parameter is one that boolab sets, or no JSON.

    Example:
        >>> import boolab as bl
        >>> from boolab.core.clock import VirtualClock
        >>> hello = Message("user", (Text("Hello"),))
        >>> Messages("claude", {"max_tokens": 9}).body(bl.models.Request(0, [hello], (), VirtualClock()))
        b'{"model":"claude","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Hello"}]}]}'
    """

    path: ClassVar[str] = "messages"
    model: str
    parameters: Mapping[str, Any]
    _fixed: bytes = field(init=False, repr=False, compare=False)
    _choice: bytes = field(init=False, repr=False, compare=False)
    _conversations: Growing[_Conversation] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_parameters(self.parameters, _SET_HERE)
        told = {"max_tokens": MAX_TOKENS, **self.parameters}
        choice = _choice(told.pop("tool_choice", None))
        fixed = {"model": self.model} | {name: value for name, value in told.items() if value is not None}
        fixed.pop("temperature", None)
        object.__setattr__(self, "_fixed", dumped(fixed)[:-1] + b',"stream":true')
        object.__setattr__(self, "_choice", b"" if choice is None else b',"tool_choice":' + dumped(choice))
        object.__setattr__(self, "_conversations", Growing(_Conversation, _Conversation.add))

    def body(self, request: Request) -> bytes:
        """The JSON body of a request for a stream."""
        conversation, tail = self._conversations(request.messages)
        last = conversation.fork()
        for message in tail:
            last.add(message)
        temperature = self.parameters.get("temperature") if request.temperature is None else request.temperature
        parts: list[bytes | bytearray] = [self._fixed]
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
        """What takes in the response to one request."""
        return MessageDecoder(emit, prefix)

    def error_text(self, body: bytes) -> str:
        """The API's own words in the body of an error; "" if there are none.

        Example:
            >>> Messages("claude", {}).error_text(b'{"error": {"type": "not_found_error", "message": "model: claude"}}')
            'not_found_error: model: claude'
        """
        return error_words(parsed_object(body) or {})


class _Conversation:
    """The messages of a conversation as the API wants them, moved on by one message after another.

    The last one is open: what comes next may have to be merged into it.

    Attributes:
        system: The system prompt, escaped for a JSON text.
        closed: The messages before the open one, each with a comma behind it.
    """

    __slots__ = ("_blocks", "_ids", "_last_text", "_offered", "_results", "_role", "_waiting", "closed", "system")

    def __init__(self) -> None:
        self.system = bytearray()
        self.closed = bytearray()
        self._role = ""
        self._results: list[bytes] = []
        self._blocks: list[bytes] = []
        self._last_text = ""
        self._ids: MutableMapping[str, int] = {}
        self._waiting: dict[str, list[str]] = {}
        self._offered: tuple[tuple[ToolSpec, ...], bytes] = ((), b"[]")

    def fork(self) -> _Conversation:
        """The same conversation, to go on for one request only. What is closed is not in it."""
        fork = _Conversation()
        fork.system = self.system.copy()
        fork._role = self._role
        fork._results = self._results.copy()
        fork._blocks = self._blocks.copy()
        fork._last_text = self._last_text
        fork._ids = ChainMap({}, self._ids)
        fork._waiting = {given: sent.copy() for given, sent in self._waiting.items()}
        return fork

    def offer(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """The tools of a request. They are mostly those of the request before, and are then not serialised again."""
        if self._offered[0] is not tools:
            self._offered = (tools, dumped([_offered(spec) for spec in tools]))
        return self._offered[1]

    def add(self, message: Message) -> None:
        """Move on by one message."""
        if message.role == "assistant":
            self._add_response(message)
        elif message.role == "system" and not self._role:
            text = message.text
            if text.strip():
                self.system += (b"\\n\\n" if self.system else b"") + dumped(text)[1:-1]
        else:
            self._add_input(message)

    def end(self) -> bytes:
        """The open message, as the last one of a request."""
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
        missing = []
        if self._role == "user":
            missing = [
                _result_block(sent, _NO_RESULT, is_error=True) for every in self._waiting.values() for sent in every
            ]
        content = b",".join((*self._results, *missing, *self._blocks))
        return b'{"role":"%s","content":[%s]}' % (self._role.encode(), content)

    def _add_response(self, message: Message) -> None:
        if not any(
            isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip()) for part in message.parts
        ):
            return
        if self._waiting:
            self._turn_to("user")
        self._turn_to("assistant")
        thinking: list[bytes] = []  # it never comes last
        for part in message.parts:
            if isinstance(part, Reasoning):
                thinking += _thinking_blocks(part.opaque)
            elif isinstance(part, Text) and _is_said(part):
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
        sent = self._unused(_sendable_id(call.id))
        self._waiting.setdefault(call.id, []).append(sent)
        name = _NOT_IN_NAMES.sub("_", call.name)[:_LONGEST_NAME] or "_"
        return b'{"type":"tool_use","id":"%s","name":"%s","input":%s}' % (
            sent.encode(),
            name.encode(),
            _input(call.arguments),
        )

    def _unused(self, wanted: str) -> str:
        """The id itself the first time, then with a number behind it."""
        number = self._ids.get(wanted, 0)
        found = wanted
        while found in self._ids:
            number += 1
            found = f"{wanted}-{number}"
        self._ids[wanted] = number
        self._ids.setdefault(found, 0)
        return found


def _choice(choice: object) -> Mapping[str, Any] | None:
    """The parameter `tool_choice` as the API wants it."""
    if choice is None or isinstance(choice, Mapping):
        return choice
    if not isinstance(choice, str):
        msg = f"parameter 'tool_choice': expected a word or an object like {{'type': 'any'}}, got {choice!r}"
        raise SettingError(msg)
    if choice in ("auto", "any", "none"):
        return {"type": choice}
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}


def _offered(spec: ToolSpec) -> dict[str, Any]:
    told = {"description": spec.description} if spec.description else {}
    return {"name": spec.name, **told, "input_schema": dict(spec.parameters)}


def _is_said(part: Part) -> bool:
    """Whether a part is a text that is not blank."""
    return isinstance(part, Text) and not part.text.isspace() and part.text != ""


def _text_block(text: str) -> bytes:
    return b'{"type":"text","text":%s}' % dumped(text)


def _result_block(call_id: str, content: str, *, is_error: bool | None) -> bytes:
    """A result. Empty content is left out, and replaced where an error must have some."""
    blank = not content.strip()
    told = b"" if blank and not is_error else b',"content":%s' % dumped("The call failed." if blank else content)
    return b'{"type":"tool_result","tool_use_id":"%s"%s%s}' % (
        call_id.encode(),
        told,
        b',"is_error":true' if is_error else b"",
    )


def _thinking_blocks(opaque: str) -> list[bytes]:
    """The signed reasoning that this provider sent. What another provider wants to see again is not for this one."""
    blocks = (parsed_object(opaque) or {}).get("messages") if opaque else None
    if not isinstance(blocks, list):
        return []
    return [dumped(block) for block in blocks if isinstance(block, dict) and block.get("type") in _THINKING]


def _input(arguments: str) -> bytes:
    """The input of a call: its arguments as the model wrote them, if they are an object."""
    if not arguments.strip():
        return b"{}"
    try:
        if isinstance(from_json(arguments, allow_inf_nan=False), dict):
            return arguments.encode()
    except (ValueError, TypeError):
        pass
    return dumped({"INVALID_JSON": arguments})


def _sendable_id(call_id: str) -> str:
    """The id itself if the API takes it; else one that stands for it, the same each time."""
    if _ID.fullmatch(call_id):
        return call_id
    return "id_" + hashlib.sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:32]
