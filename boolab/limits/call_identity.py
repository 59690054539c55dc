"""Which calls are the same: an identity names what of a call is compared.

The harnesses each use another identity, and the identities disagree on real logs:

| identity      | two calls are the same when equal in                      | used by                         |
|---------------|-----------------------------------------------------------|---------------------------------|
| `raw`         | name and argument text as sent                            | crush                           |
| `ordered`     | name and parsed arguments, compact, key order kept        | BooCode, opencode, Gemini CLI   |
| `canonical`   | name and parsed arguments, keys sorted at every depth     | Roo, Cline; boolab's default    |
| `call+result` | as `canonical`, and the result's text                     | OpenHands                       |
| `tool`        | the name alone                                            |                                 |

Where tools differ, a mapping gives the identity by tool: `{"*": "ordered", "bash": "call+result", "poll": None}`.
`"*"` is all other tools (`canonical` by default). None exempts a tool: its calls are never the same as another, so that
an agent that polls does not look stuck.

Arguments that are not valid JSON are compared by their raw text. So are arguments that hold a lone surrogate, that are
nested more than 200 deep, or that hold an integer of more than 4,300 digits. Python's own equality would not do as an
identity: `1 == True == 1.0`.

A placeholder of arguments (`boolab.core.redacted`) is compared by its number at the identity, so a recording of facts
has the same repeats as the recording that it was made of.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from boolab.core.redacted import RedactedArguments, redacted_arguments
from boolab.core.types import IDENTITIES, REDACTED, Identities, ToolCall, ToolResult
from boolab.errors import SettingError, near

_NOT_PARSED: Final = object()
_ONLY_THE_CALL: Final = frozenset({"raw", "ordered", "canonical"})


class ObservedCall:
    """A call that got a result, as detectors see it.

    Args:
        call: The call.
        result: Its result.
        step: The number of its step, from 1; only used to distinguish steps.
        text: The model's text before it: the text of the response for its first call, nothing for the others.

    Example:
        >>> import boolab as bl
        >>> first = bl.detectors.ObservedCall(bl.models.ToolCall("1", "ls", '{"a": 1}'), ToolResult("1", "x"))
        >>> second = bl.detectors.ObservedCall(bl.models.ToolCall("2", "ls", '{"a":1}'), ToolResult("2", "y"))
        >>> second.same_as(first, "canonical"), second.same_as(first, "call+result")
        (True, False)
    """

    __slots__ = ("_parsed", "_texts", "arguments", "content", "is_error", "name", "step", "text")

    def __init__(self, call: ToolCall, result: ToolResult, step: int = 1, text: str = "") -> None:
        self.name, self.arguments = call.name, call.arguments
        self.content = result.content
        self.is_error = result.is_error
        self.step = step
        self.text = text
        self._parsed: object = _NOT_PARSED
        self._texts: dict[bool, str] | None = None

    @property
    def parsed(self) -> object:
        """The arguments as a JSON value, parsed at the first access; their text if they are not valid JSON.

        Of a placeholder, what it holds.
        """
        if self._parsed is _NOT_PARSED:
            self._parsed = _parse(self.arguments)
        return self._parsed

    def normalised(self, *, sort: bool) -> str:
        """The arguments as compact JSON; their text if they are not valid JSON.

        Args:
            sort: Whether the keys are sorted.

        Returns:
            The text.
        """
        if self._texts is None:
            self._texts = {}
        if sort not in self._texts:
            self._texts[sort] = _normalise_parsed(self.arguments, self.parsed, sort=sort)
        return self._texts[sort]

    def same_as(self, other: ObservedCall | None, identity: str | None) -> bool:
        """Whether this and another call are the same.

        Args:
            other: Another call; None if there is none: it is never the same.
            identity: One of `IDENTITIES`, or of those that OpenHands compares by (`action`: as `canonical`, and the
                text before the call; `action+result`: the result and its status too). None for an exempt tool.

        Returns:
            True if they agree in all that the identity compares.
        """
        if other is None or self.name != other.name or identity is None:
            return False
        if identity == "tool":
            return True
        if self.arguments == other.arguments:
            is_same = self.arguments != REDACTED
        elif identity == "raw":
            is_same = False
        else:
            # Not a method of its own: most calls of a run come here.
            value, other_value = self._parsed, other._parsed  # noqa: SLF001 - of the same class
            if value is _NOT_PARSED:
                value = self._parsed = _parse(self.arguments)
            if other_value is _NOT_PARSED:
                other_value = other.parsed
            is_same = value == other_value and self._has_text_of(other, sort=identity != "ordered")
        return is_same and (identity in _ONLY_THE_CALL or self._has_outcome_of(other, identity))

    def digest(self, identity: str) -> bytes | None:
        """16 bytes that two calls share if and only if they are the same by an identity, as `call_key` compares them.

        Args:
            identity: One of `IDENTITIES`.

        Returns:
            The bytes; None for arguments that a log keeps back, unless by `tool` alone.
        """
        if identity == "tool":
            arguments = ""
        elif self.arguments == REDACTED:
            return None
        elif identity == "raw":
            arguments = self.arguments
        else:
            arguments = self.normalised(sort=identity != "ordered")
        from hashlib import blake2b  # few detectors need it: rules start fast

        content = self.content if identity == "call+result" else ""
        content_text = f"{len(self.name)},{len(arguments)},{self.name}{arguments}{content}"
        return blake2b(content_text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def __reduce__(self) -> tuple[type[ObservedCall], tuple[ToolCall, ToolResult, int, str]]:
        """Pickle what it was made of: "not parsed yet" is an object of this process alone."""
        call, result = ToolCall("", self.name, self.arguments), ToolResult("", self.content, self.is_error)
        return ObservedCall, (call, result, self.step, self.text)

    def _has_text_of(self, other: ObservedCall, *, sort: bool) -> bool:
        # Values that Python holds equal, such as 1 and True, may have unequal texts.
        return self.normalised(sort=sort) == other.normalised(sort=sort)

    def _has_outcome_of(self, other: ObservedCall, identity: str) -> bool:
        if identity == "call+result":
            return self.content == other.content
        return self.text == other.text and (
            identity == "action" or (self.content == other.content and self.is_error == other.is_error)
        )


def check_identity(identity: str) -> None:
    """Raise `SettingError` unless `identity` is one of `IDENTITIES`."""
    if identity not in IDENTITIES:
        expected = f"accepted: {', '.join(IDENTITIES)}, or a mapping of tools to them"
        msg = f"identity {identity!r} is not known{near(identity, IDENTITIES) or f'; {expected}'}"
        raise SettingError(msg)


def identity_for(tool: str, identity: Identities) -> str | None:
    """The identity of one tool's calls; None if the tool is exempt."""
    return identity if isinstance(identity, str) else identity.get(tool, identity.get("*", "canonical"))


def call_key(
    call: ToolCall, result: ToolResult | None = None, identity: str | None = "canonical"
) -> tuple[str, ...] | None:
    """What a call is compared by; None for one that is never the same: exempt, or its arguments kept back."""
    if identity is None:
        return None
    if identity == "tool":
        return (call.name,)
    if call.arguments == REDACTED:
        return None
    if identity == "raw":
        return (call.name, call.arguments)
    text = normalise_arguments(call.arguments, sort=identity != "ordered")
    if identity == "call+result":
        return (call.name, text, "" if result is None else result.content)
    return (call.name, text)


def arguments_hash(arguments: str) -> str:
    """The hex of an 8-byte blake2b over the canonical form of `arguments` (their raw text if they do not parse)."""
    from hashlib import blake2b  # as above

    return blake2b(
        normalise_arguments(arguments, sort=True).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


def identity_of(identity: Identities) -> tuple[str, tuple[tuple[str, str | None], ...]]:
    """The identity of most tools, and those of others by tool."""
    if not isinstance(identity, Mapping):
        return identity, ()
    if identity.get("*", "canonical") is None:
        msg = "identity {'*': None} exempts every tool: nothing would be watched"
        raise SettingError(msg)
    tools = tuple(sorted((tool, tool_identity) for tool, tool_identity in identity.items() if tool != "*"))
    return identity.get("*") or "canonical", tools


def split_identity(identity: Identities) -> tuple[str, dict[str, str], list[str]]:
    """The identity of most tools, those of others by tool, and the exempt tools."""
    identity, by_tool = identity_of(identity)
    exempt = [tool for tool, tool_identity in by_tool if tool_identity is None]
    return identity, {tool: tool_identity for tool, tool_identity in by_tool if tool_identity is not None}, exempt


def check_tools(identity: Identities | None, called_tools: Iterable[str]) -> tuple[str, ...]:
    """Check the tools that an identity names against those of recordings.

    One list of exempt tools may serve many recordings, some of which never call all of them. A name close to that of a
    tool that was called is taken for a misspelt one.

    `called_tools`: the names of the tools that recordings hold calls of. Where there are none, nothing is checked.
    """
    if not isinstance(identity, Mapping):
        return ()
    called_names = set(called_tools)
    uncalled = tuple(tool for tool in identity if tool != "*" and tool not in called_names)
    texts = sorted(tool for tool in called_names if isinstance(tool, str))
    for tool in uncalled:
        if hint := near(tool, texts):
            raise SettingError(f"no call of the tool {tool!r} is on record{hint}")
    return uncalled if called_names else ()


def uncalled_note(identity: Identities | None, called_tools: Iterable[str]) -> tuple[str, ...]:
    """Note the tools that an identity names and that were never called; empty if there is none."""
    uncalled = check_tools(identity, called_tools)
    if not uncalled:
        return ()
    names = ", ".join(map(repr, uncalled))
    noun, pronoun = ("tool", "it") if len(uncalled) == 1 else ("tools", "them")
    return (f"No call of the {noun} {names} is on record: to name {pronoun} changes nothing here.",)


def exclude_tools(identity: Identities, exempt: Iterable[str]) -> Identities:
    """An identity without some tools: their calls are never the same."""
    exempt = [exempt] if isinstance(exempt, str) else list(exempt)
    names: list[object] = [*exempt]
    if not all(isinstance(name, str) and name and name != "*" for name in names):
        msg = f"exempt={exempt!r}: expected a list of names of tools, such as ['poll']"
        raise SettingError(msg)
    identities = {"*": identity} if isinstance(identity, str) else {"*": "canonical", **identity}
    exempt_tools = dict.fromkeys(exempt)
    return {**identities, **exempt_tools} if exempt_tools else identity


@dataclass(frozen=True, slots=True)
class ByIdentity:
    """A detector that compares calls, by one identity or by one for each tool."""

    identity: str = "canonical"
    by_tool: tuple[tuple[str, str | None], ...] = ()
    _by_tool: Mapping[str, str | None] = field(init=False, repr=False, compare=False)
    identities: str = field(init=False, repr=False, compare=False)
    """The identity in one line, with the tools that have another one."""

    def __post_init__(self) -> None:
        for identity in (self.identity, *(identity for _, identity in self.by_tool if identity is not None)):
            check_identity(identity)
        object.__setattr__(self, "_by_tool", dict(self.by_tool))
        exceptions = (f"{tool}={identity or 'exempt'}" for tool, identity in self.by_tool)
        object.__setattr__(self, "identities", ",".join((self.identity, *exceptions)))

    def key(self, call: ToolCall, result: ToolResult | None) -> tuple[str, ...] | None:
        """The key by which this detector compares the call; None for a call that is never the same as another."""
        return call_key(call, result, self.identity_for(call.name))

    def identity_for(self, tool: str) -> str | None:
        """The identity of one tool's calls; None if the tool is exempt."""
        return self._by_tool.get(tool, self.identity) if self.by_tool else self.identity


_ENCODERS: Final = {
    sort: json.JSONEncoder(sort_keys=sort, separators=(",", ":"), ensure_ascii=False) for sort in (False, True)
}


def _reject_constant(name: str) -> object:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant)
_DIGITS: Final = 4300
"""The most digits before a decimal point that pydantic accepts."""
_LONG_NUMBER: Final = re.compile(rf"(?<![0-9])[0-9]{{{_DIGITS + 1}}}")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")
"""A surrogate, as it is or escaped."""
_DEEPEST: Final = 200
_MODULES: Final = sys.modules


def _parse(arguments: str) -> object:
    """The arguments as a JSON value; their text if they are not valid JSON, or nested too deep to be compared.

    Of a placeholder, what it holds. Pydantic's parser takes half the time, but 15 ms to import. So it parses where the
    process has it anyway, as that of a live loop has, and otherwise only what the standard library may read in another
    way.
    """
    try:
        from_json = _MODULES["pydantic_core"].from_json
    except (KeyError, AttributeError):  # not imported, or not to its end
        value = _parse_plain(arguments)
        if value is not _NOT_PARSED:
            return value
        from pydantic_core import from_json
    try:
        return from_json(arguments, allow_inf_nan=False)
    except (ValueError, TypeError):  # a TypeError for lone surrogates
        return redacted_arguments(arguments) or arguments  # not looked at before: most arguments are JSON


def _parse_plain(arguments: str) -> object:
    """The arguments as the standard library parses them; `_NOT_PARSED` where pydantic may not agree."""
    if arguments.count("[") + arguments.count("{") > _DEEPEST or _SURROGATE.search(arguments):
        return _NOT_PARSED
    if len(arguments) > _DIGITS and _LONG_NUMBER.search(arguments):
        return _NOT_PARSED
    try:
        value, end = _DECODER.raw_decode(arguments)
    except ValueError:
        return _NOT_PARSED
    return value if end == len(arguments) else _NOT_PARSED


def _normalise_parsed(arguments: str, parsed: object, *, sort: bool) -> str:
    """Arguments as compact JSON; as they are if they are not valid JSON."""
    if parsed is arguments:
        return arguments
    return parsed.normalised(sort=sort) if isinstance(parsed, RedactedArguments) else _ENCODERS[sort].encode(parsed)


def normalise_arguments(arguments: str, *, sort: bool) -> str:
    """Arguments as compact JSON, as an identity compares them; their text if they are not valid JSON."""
    return _normalise_parsed(arguments, _parse(arguments), sort=sort)
