"""How the tool calls of a chat completion are put together from their deltas.

What servers send, and what is made of it (as the most careful of the clients does, Vercel's AI SDK in its
`streaming-tool-call-tracker.ts`):

- llama.cpp and SGLang repeat id and name in each delta: they are assigned; only arguments are joined.
- Ollama and Gemini send whole calls, Gemini without an index: without one, an id that is new, or else a name, begins a
  call (openai/openai-python#2806).
- vLLM and proxies of Gemini send parallel calls at one index: a name with another id, or one that comes when the
  arguments are complete, begins a call (QuantumNous/new-api#2701).
- Old versions of vLLM send an empty id, or ever new ones, with the later deltas of a call: without a name they go on
  with it.
- Arguments may come as an object in place of a text.
"""

from __future__ import annotations

from typing import Any, Final

from boolab.core.types import ToolCall
from boolab.models.remote.json_codec import Pieces, dumped, parsed_object, with_ids

_EXCERPT: Final = 80


class MalformedError(Exception):
    """A value is not of the kind that the protocol wants."""


def as_object(value: object) -> dict[str, Any]:
    """A value that should be an object; an empty one where there is none.

    Raises:
        MalformedError: if it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError
    return value


def as_list(value: object, of: tuple[type, ...] = (dict,)) -> list[Any]:
    """A value that should be a list of such things, or one of them; an empty one where there is none.

    Raises:
        MalformedError: if it is something else.
    """
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, of) for item in items):
        raise MalformedError
    return items


class _Call:
    """A call in the making."""

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
            self._whole = dumped(arguments).decode()
        elif arguments is not None:
            raise MalformedError


class CallsInTheMaking:
    """The calls of one response, from their deltas.

    Args:
        prefix: How the ids begin of calls that come without one.

    Example:
        >>> calls = CallsInTheMaking("call_3")
        >>> calls.add({"index": 0, "function": {"name": "look", "arguments": '{"at":'}})
        >>> calls.add({"index": 0, "function": {"arguments": '"it"}'}})
        >>> calls.named()
        [(ToolCall(id='call_3_1', name='look', arguments='{"at":"it"}'), None)]
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._calls: list[_Call] = []
        self._at: dict[int, list[_Call]] = {}

    @property
    def begun(self) -> bool:
        """Whether any has come."""
        return bool(self._calls)

    def add(self, delta: dict[str, Any]) -> None:
        """Take in one entry of `tool_calls`.

        Raises:
            MalformedError: if it is not of the protocol's form.
        """
        function = as_object(delta.get("function"))
        index = delta.get("index")
        if isinstance(index, bool) or not isinstance(index, int):
            index = None
        given = _word(delta.get("id")) or _word(function.get("id"))
        name, arguments = _word(function.get("name")), function.get("arguments")
        call = self._call_at(index, given, name, arguments)
        call.id = call.id or given
        call.name = name or call.name
        call.extra = delta.get("extra_content") or call.extra
        call.add(arguments)

    def _call_at(self, index: int | None, given: str, name: str, arguments: object) -> _Call:
        """The call that a delta belongs to, a new one if to none before."""
        calls = self._calls if index is None else self._at.setdefault(index, [])
        if given:
            for call in reversed(calls):
                if call.id == given:
                    return call
        if calls and not _begins_another(calls[-1], index, given, name, arguments):
            return calls[-1]
        call = _Call(index)
        self._calls.append(call)
        if index is not None:
            calls.append(call)
        return call

    def named(self) -> list[tuple[ToolCall, Any]]:
        """The calls whose names are known, each with what its provider wants to see again with it (None: nothing).

        They are in the order of their indices, if all have one. Ids are made unique: results name their call by it.
        """
        calls = self._calls
        if all(call.index is not None for call in calls):
            calls = sorted(calls, key=lambda call: call.index or 0)
        named = [call for call in calls if call.name]
        made = with_ids([ToolCall(call.id, call.name, call.arguments) for call in named], self._prefix)
        return [(call, told.extra) for call, told in zip(made, named, strict=True)]

    def nameless(self) -> str | None:
        """The arguments of a call, cut short, whose name never came; None if there is none."""
        return next((f"{call.arguments[:_EXCERPT]!r}" for call in self._calls if not call.name), None)


def _begins_another(last: _Call, index: int | None, given: str, name: str, arguments: object) -> bool:
    """Whether a delta is not of the last call (at its index), whose id it does not have."""
    if not name or not last.name:
        return False
    if index is None or (given and last.id):
        return True
    so_far = last.arguments
    if not so_far:
        return False
    return name != last.name or (bool(arguments) and parsed_object(so_far) is not None)


def _word(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
