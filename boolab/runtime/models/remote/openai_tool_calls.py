"""Builds the tool calls of a chat completion from their deltas.

Servers differ; the rules are those of Vercel's AI SDK (`streaming-tool-call-tracker.ts`):

- llama.cpp and SGLang repeat the id and the name in each delta: these are assigned, only arguments are joined.
- Ollama and Gemini send whole calls, Gemini without an index. Without an index, a new id, or else a name, begins a call
  (openai/openai-python#2806).
- vLLM and proxies of Gemini send parallel calls at one index: a name with another id, or a name after complete
  arguments, begins a call (QuantumNous/new-api#2701).
- Old versions of vLLM send an empty or a new id with each later delta of a call: a delta without a name continues it.
- Arguments may be an object instead of a text.
"""

from __future__ import annotations

from typing import Any, Final

from boolab.core.types import ToolCall
from boolab.runtime.models.remote.protocol import Pieces, assign_ids, dump_json, parse_object

_EXCERPT_CHARS: Final = 80


class MalformedError(Exception):
    """A value does not have the type that the protocol requires."""


def as_object(value: object) -> dict[str, Any]:
    """An object; an empty one for None. Anything else is a `MalformedError`."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError
    return value


def as_list(value: object, types: tuple[type, ...] = (dict,)) -> list[Any]:
    """A list of values of these types; one value is a list of one, None an empty list, else a `MalformedError`."""
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, types) for item in items):
        raise MalformedError
    return items


class _OpenCall:
    """A call that is being built."""

    __slots__ = ("_pieces", "_whole", "extra", "id", "index", "name")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.extra: Any = None
        self._pieces = Pieces()
        self._whole: str | None = None

    @property
    def arguments(self) -> str:
        return self._pieces.text() if self._whole is None else self._whole

    def add(self, arguments: object) -> None:
        if isinstance(arguments, str):
            self._pieces.add(arguments)
        elif isinstance(arguments, dict | list):
            self._whole = dump_json(arguments).decode()
        elif arguments is not None:
            raise MalformedError


class CallBuilder:
    """Builds the calls of one response from their deltas; `prefix` begins the ids of calls that have none."""

    def __init__(self, prefix: str) -> None:
        self._call_id_prefix = prefix
        self._calls: list[_OpenCall] = []
        self._at: dict[int, list[_OpenCall]] = {}

    @property
    def has_calls(self) -> bool:
        """Whether any call has arrived."""
        return bool(self._calls)

    def add(self, delta: dict[str, Any]) -> None:
        """Read one entry of `tool_calls`; a `MalformedError` if it is not of the protocol's form."""
        function = as_object(delta.get("function"))
        index = delta.get("index")
        if isinstance(index, bool) or not isinstance(index, int):
            index = None
        call_id = _word(delta.get("id")) or _word(function.get("id"))
        name, arguments = _word(function.get("name")), function.get("arguments")
        call = self._call_at(index, call_id, name, arguments)
        call.id = call.id or call_id
        call.name = name or call.name
        call.extra = delta.get("extra_content") or call.extra
        call.add(arguments)

    def _call_at(self, index: int | None, call_id: str, name: str, arguments: object) -> _OpenCall:
        """The call of a delta: an earlier one, or a new one."""
        calls = self._calls if index is None else self._at.setdefault(index, [])
        if call_id:
            for call in reversed(calls):
                if call.id == call_id:
                    return call
        if calls and not _begins_another(calls[-1], index, call_id, name, arguments):
            return calls[-1]
        call = _OpenCall(index)
        self._calls.append(call)
        if index is not None:
            calls.append(call)
        return call

    def named_calls(self) -> list[tuple[ToolCall, Any]]:
        """The calls with a name, their ids unique, by index, each with the provider's content for the next request."""
        calls = self._calls
        if all(call.index is not None for call in calls):
            calls = sorted(calls, key=lambda call: call.index or 0)
        named_calls = [call for call in calls if call.name]
        unique_calls = assign_ids(
            [ToolCall(call.id, call.name, call.arguments) for call in named_calls], self._call_id_prefix
        )
        return [(call, open_call.extra) for call, open_call in zip(unique_calls, named_calls, strict=True)]

    def nameless_excerpt(self) -> str | None:
        """An excerpt of the arguments of a call without a name; None if there is none."""
        return next((f"{call.arguments[:_EXCERPT_CHARS]!r}" for call in self._calls if not call.name), None)


def _begins_another(last: _OpenCall, index: int | None, call_id: str, name: str, arguments: object) -> bool:
    """Whether a delta with an unknown id begins another call than the last one (at its index)."""
    if not name or not last.name:
        return False
    if index is None or (call_id and last.id):
        return True
    so_far = last.arguments
    if not so_far:
        return False
    return name != last.name or (bool(arguments) and parse_object(so_far) is not None)


def _word(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
