"""Call identities, and detectors: what watches the calls of a turn for repetition.

A detector is one *fold*: `start` is its first state, `fold(state, call, result)` gives the next state and a count.
The live loop and the offline frames call the same fold in the same order, which is why they agree. States are plain
tuples; a detector itself is a frozen value without memory, so that it can be shared by any number of runs.

Identities of a call (the sources each use another one, and they disagree on real logs):

| identity      | two calls are the same when equal in                      | used by                         |
|---------------|-----------------------------------------------------------|---------------------------------|
| `raw`         | name and argument text as sent                            | crush                           |
| `ordered`     | name and parsed arguments, compact, key order kept        | BooCode, opencode, Gemini CLI   |
| `canonical`   | name and parsed arguments, keys sorted at every depth     | Roo, Cline; boolab's default    |
| `call+result` | as `canonical`, and the result's text                     | OpenHands                       |
| `tool`        | the name alone                                            |                                 |

Where tools differ, a mapping says it by tool: `{"*": "ordered", "bash": "call+result", "write_stdin": None}`. `"*"` is
all other tools (`canonical` by default), and None exempts a tool: its calls are the same as no other, so that an agent
that polls is not taken for one that is stuck.

Arguments that are not valid JSON are compared by their raw text. Python's equality is no identity: `1 == True == 1.0`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from pydantic_core import from_json

from boolab.errors import SettingError
from boolab.types import REDACTED, ToolCall, ToolResult

Identity: TypeAlias = Literal["raw", "ordered", "canonical", "call+result", "tool"]
IDENTITIES: Final[tuple[str, ...]] = get_args(Identity)
Identities: TypeAlias = str | Mapping[str, str | None]
"""An identity for all tools, or by tool."""

MAX_PERIOD: Final = 5

_NOT_JSON: Final = object()
_UNPARSED: Final = object()
_NO_CALL: Final = ToolCall("", "", "")
_NO_RESULT: Final = ToolResult("", "")


class Detector(Protocol):
    """One fold over calls and their results. `name` is the counter that it feeds."""

    @property
    def name(self) -> str:
        """The name of the counter, unique to the detector and its parameters."""
        ...

    @property
    def start(self) -> Any:  # noqa: ANN401 - each detector has a state of its own
        """The state at the start of a turn."""
        ...

    def fold(self, state: Any, call: ToolCall, result: ToolResult) -> tuple[Any, int | None]:  # noqa: ANN401
        """The state after this call, and the count; None where it is not known."""
        ...


def check_identity(identity: str) -> None:
    """Raise `SettingError` unless `identity` is one of `IDENTITIES`."""
    if identity not in IDENTITIES:
        msg = f"identity {identity!r} is not known; accepted: {', '.join(IDENTITIES)}, or a mapping of tools to them"
        raise SettingError(msg)


def identity_for(tool: str, identity: Identities) -> str | None:
    """The identity of one tool's calls; None if the tool is exempt.

    Example:
        >>> identity_for("poll", {"poll": None}), identity_for("grep", {"poll": None})
        (None, 'canonical')
    """
    return identity if isinstance(identity, str) else identity.get(tool, identity.get("*", "canonical"))


def call_key(
    call: ToolCall, result: ToolResult | None = None, identity: str | None = "canonical"
) -> tuple[str, ...] | None:
    """What a call is compared by: two calls are the same if and only if their keys are equal and not None.

    Args:
        call: The call.
        result: Its result, needed for `call+result`.
        identity: One of `IDENTITIES`; None for a tool that is exempt.

    Returns:
        The key. None for a tool that is exempt, and for arguments that a log keeps back, unless by `tool` alone.

    Example:
        >>> call_key(ToolCall("1", "ls", '{"b": 1, "a": [ ]}'))
        ('ls', '{"a":[],"b":1}')
    """
    if identity is None:
        return None
    if identity == "tool":
        return (call.name,)
    if call.arguments == REDACTED:
        return None
    if identity == "raw":
        return (call.name, call.arguments)
    text = _dumps(_parse(call.arguments), call.arguments, sort=identity != "ordered")
    if identity == "call+result":
        return (call.name, text, "" if result is None else result.content)
    return (call.name, text)


def arguments_hash(arguments: str) -> str:
    """The hex of an 8-byte blake2b over the canonical form of `arguments` (their raw text if they do not parse).

    Example:
        >>> arguments_hash('{"a":1,"b":2}') == arguments_hash('{ "b": 2, "a": 1 }')
        True
    """
    canonical = _dumps(_parse(arguments), arguments, sort=True)
    return blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class RepeatStreak:
    """How many calls in a row, up to the latest, were the same: `q := q + 1 if same as the last else 1`.

    It runs on across steps, is not capped, and is read only at boundaries.
    """

    identity: str = "canonical"
    by_tool: tuple[tuple[str, str | None], ...] = ()
    _by_tool: Mapping[str, str | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for identity in (self.identity, *(identity for _, identity in self.by_tool if identity is not None)):
            check_identity(identity)
        object.__setattr__(self, "_by_tool", dict(self.by_tool))

    @classmethod
    def of(cls, identity: Identities) -> RepeatStreak:
        """The detector for an identity, or for identities by tool.

        Example:
            >>> RepeatStreak.of({"*": "ordered", "poll": None}).name
            'repeat_streak:ordered,poll=exempt'
        """
        if not isinstance(identity, Mapping):
            return cls(identity)
        if identity.get("*", "canonical") is None:
            msg = "identity {'*': None} exempts every tool: nothing would be watched"
            raise SettingError(msg)
        tools = tuple(sorted((tool, of) for tool, of in identity.items() if tool != "*"))
        return cls(identity.get("*") or "canonical", tools)

    @property
    def identities(self) -> str:
        """The identity in one line, with what differs by tool."""
        return ",".join((self.identity, *(f"{tool}={identity or 'exempt'}" for tool, identity in self.by_tool)))

    @property
    def name(self) -> str:
        return f"repeat_streak:{self.identities}"

    def key(self, call: ToolCall, result: ToolResult | None) -> tuple[str, ...] | None:
        """What this detector compares the call by; None for a call that is the same as no other."""
        return call_key(call, result, self._by_tool.get(call.name, self.identity))

    @property
    def start(self) -> _RepeatState:
        return _NO_CALL, _NO_RESULT, _UNPARSED, 0

    def fold(self, state: _RepeatState, call: ToolCall, result: ToolResult) -> tuple[_RepeatState, int]:
        last, last_result, last_parsed, streak = state
        identity = self._by_tool.get(call.name, self.identity) if self._by_tool else self.identity
        parsed: object = _UNPARSED
        if call.name != last.name or identity is None:
            same = False
        elif call.arguments == last.arguments or identity == "tool":
            same = call.arguments != REDACTED or identity == "tool"
            parsed = last_parsed
        elif identity == "raw":
            same = False
        else:
            # Unequal values have unequal texts, so only values that Python holds equal are worth serialising.
            if last_parsed is _UNPARSED:
                last_parsed = _parse(last.arguments)
            parsed = _parse(call.arguments)
            sort = identity != "ordered"
            same = parsed == last_parsed and (
                _dumps(parsed, call.arguments, sort=sort) == _dumps(last_parsed, last.arguments, sort=sort)
            )
        if same and identity == "call+result":
            same = result.content == last_result.content
        streak = streak + 1 if same else 1
        return (call, result, parsed, streak), streak


_RepeatState: TypeAlias = tuple[ToolCall, ToolResult, object, int]


@dataclass(frozen=True, slots=True)
class ErrorStreak:
    """How many calls in a row, up to the latest, failed. Unknown from a result of unknown status to a known success."""

    @property
    def name(self) -> str:
        return "error_streak"

    @property
    def start(self) -> int | None:
        return 0

    def fold(self, state: int | None, call: ToolCall, result: ToolResult) -> tuple[int | None, int | None]:  # noqa: ARG002
        if result.is_error is None:
            state = None
        elif not result.is_error:
            state = 0
        elif state is not None:
            state += 1
        return state, state


def cycle_period(keys: Sequence[object]) -> int | None:
    """The smallest p <= 5 such that the last 2p calls are two equal halves; None if there is none.

    Args:
        keys: What the calls are compared by, in order (see `call_key`).

    Example:
        >>> cycle_period("xABAB"), cycle_period("ABC")
        (2, None)
    """
    n = len(keys)
    for period in range(1, min(MAX_PERIOD, n // 2) + 1):
        if keys[n - period :] == keys[n - 2 * period : n - period]:
            return period
    return None


def _parse(arguments: str) -> object:
    try:
        return from_json(arguments, allow_inf_nan=False)
    except (ValueError, TypeError):  # a TypeError for text that is no Unicode
        return _NOT_JSON


def _dumps(value: object, raw: str, *, sort: bool) -> str:
    if value is _NOT_JSON:
        return raw
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)
