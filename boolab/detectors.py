"""Call identities, and what all detectors share. A detector watches the calls of a turn for repetition.

A detector is one *fold*: `start` is its first state, `fold(state, seen)` gives the next state and a count after each
call that got a result. Those that look at whole steps or at text also have `close(state, response)`, which gives them
at the end of each step. The live loop and the offline frames go through the same fold in the same order (see
`boolab.watch`), which is why they agree. States are plain tuples; a detector itself is a frozen value without memory,
so that it can be shared by any number of runs.

A call comes as `Seen`: the call, its result, and with which of the last calls it is the same. That is worked out once
for all detectors, and arguments are parsed only where names are equal and argument texts are not.

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

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias, get_args

from pydantic_core import from_json

from boolab.errors import SettingError
from boolab.types import REDACTED, Response, StopReason, ToolCall, ToolResult

Identity: TypeAlias = Literal["raw", "ordered", "canonical", "call+result", "tool"]
IDENTITIES: Final[tuple[str, ...]] = get_args(Identity)
Identities: TypeAlias = str | Mapping[str, str | None]
"""An identity for all tools, or by tool."""

MAX_PERIOD: Final = 5

_NO_CALL: Final = ToolCall("", "", "")
_NO_RESULT: Final = ToolResult("", "")
_NOT_JSON: Final = object()
_UNPARSED: Final = object()


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


class Seen:
    """A call that got a result, as detectors see it.

    Args:
        call: The call.
        result: Its result.
        step: The number of its step, from 1; only used to tell steps apart.
        text: What the model said before it: the text of its response for the first call, nothing for others.
        before: The calls before it, latest first. Shared and moved on: `lags` is to be asked while this is the latest.

    Example:
        >>> first = Seen(ToolCall("1", "ls", '{"a": 1}'), ToolResult("1", "x"))
        >>> Seen(ToolCall("2", "ls", '{"a":1}'), ToolResult("2", "y"), before=[first]).lags("canonical")
        1
    """

    __slots__ = (
        "_alike", "_before", "_lags", "_parsed", "_texts", "arguments", "content", "is_error", "name", "step", "text"
    )  # fmt: skip

    def __init__(
        self, call: ToolCall, result: ToolResult, step: int = 1, text: str = "", before: Sequence[Seen] = ()
    ) -> None:
        self.name = call.name
        self.arguments = call.arguments
        self.content = result.content
        self.is_error = result.is_error
        self.step = step
        self.text = text
        self._before = before
        self._parsed: object = _UNPARSED
        self._texts: dict[bool, str] | None = None
        self._alike: int | None = None
        self._lags: dict[str, int] | None = None

    def lags(self, identity: str | None) -> int:
        """With which of the last calls this one is the same: bit 0 is set for the last, bit 1 for the one before.

        Args:
            identity: One of `IDENTITIES`, or of those that OpenHands compares by (`action`, `action+result`); None for
                a tool that is exempt.

        Returns:
            The bits; 0 if it is the same as none of them.
        """
        if identity is None:
            return 0
        before = self._before
        if len(before) < 2:  # noqa: PLR2004 - a single comparison is not worth remembering
            return int(bool(before) and self.same(before[0], identity))
        alike = self._alike
        if alike is None:
            alike = self._alike = self._like()
        if identity == "canonical":
            return alike
        if not alike and identity != "tool":
            return 0  # what is the same by any other identity is the same by `canonical`
        lags = self._lags
        if lags is None:
            lags = self._lags = {}
        mask = lags.get(identity)
        if mask is None:
            mask = lags[identity] = self._among(-1 if identity == "tool" else alike, identity)
        return mask

    def _like(self) -> int:
        """The lags by `canonical`."""
        name, arguments, mine, lag = self.name, self.arguments, self._parsed, 0
        if arguments == REDACTED:
            return 0
        for other in self._before:
            lag += 1
            if other.name == name:
                if other.arguments != arguments:
                    # As in `_argues_like`, which would be called for every lag.
                    if mine is _UNPARSED:
                        mine = self.parsed
                    theirs = other._parsed  # noqa: SLF001
                    if theirs is _UNPARSED:
                        theirs = other.parsed
                    if mine != theirs or self._text(sort=True) != other._text(sort=True):  # noqa: SLF001
                        continue
                elif lag == 1 and other._alike is not None:  # noqa: SLF001
                    return self._as_the_last(other, other._alike)  # noqa: SLF001
                return self._beyond("canonical", other, lag)
        return 0

    def _as_the_last(self, other: Seen, alike: int) -> int:
        """The lags by `canonical` where the arguments are those of the last call."""
        full = (1 << len(self._before)) - 1
        known = other._lags
        if (
            known is not None
            and other.content == self.content
            and self.text == other.text
            and self.is_error == other.is_error
        ):
            # All of it is as it was: so is what it is like by any identity, one call on.
            self._lags = {identity: (mask << 1 | 1) & full for identity, mask in known.items()}
        return (alike << 1 | 1) & full

    def _among(self, among: int, identity: str) -> int:
        for lag, other in enumerate(self._before, 1):
            if among >> (lag - 1) & 1 and self.same(other, identity):
                return self._beyond(identity, other, lag)
        return 0

    def _beyond(self, identity: str, other: Seen, lag: int) -> int:
        """The lags from a call on that this one is the same as: beyond it, they are the same as that call's own."""
        known = other._alike if identity == "canonical" else (other._lags or {}).get(identity)
        if known is None:
            known = 0
            for place, earlier in enumerate(self._before):
                if place >= lag and self.same(earlier, identity):
                    known |= 1 << (place - lag)
        return (1 << (lag - 1) | known << lag) & ((1 << len(self._before)) - 1)

    def same(self, other: Seen, identity: str) -> bool:
        """Whether this and another call are the same.

        Args:
            other: Another call.
            identity: One of `IDENTITIES`, or of those that OpenHands compares by.

        Returns:
            True if they agree in all that the identity looks at.
        """
        if self.name != other.name:
            return False
        if identity == "tool":
            return True
        if self.arguments == other.arguments:
            if self.arguments == REDACTED:
                return False
        elif identity == "raw" or not self._argues_like(other, sort=identity != "ordered"):
            return False
        if identity in ("canonical", "ordered", "raw"):
            return True
        if identity == "call+result":
            return self.content == other.content
        return self.text == other.text and (
            identity == "action" or (self.content == other.content and self.is_error == other.is_error)
        )

    def _argues_like(self, other: Seen, *, sort: bool) -> bool:
        """Whether the arguments are the same though their texts are not."""
        mine, theirs = self._parsed, other._parsed
        if mine is _UNPARSED:
            mine = self._parsed = _parse(self.arguments)
        if theirs is _UNPARSED:
            theirs = other.parsed
        # Only what Python holds equal is worth serialising.
        return mine == theirs and self._text(sort=sort) == other._text(sort=sort)

    def _text(self, *, sort: bool) -> str:
        """The arguments, serialised; once for all calls of the same argument text that stand close together."""
        texts = self._texts
        if texts is None:
            twins = (seen._texts for seen in self._before if seen.arguments == self.arguments)  # noqa: SLF001
            texts = self._texts = next((texts for texts in twins if texts is not None), {})
        text = texts.get(sort)
        if text is None:
            text = texts[sort] = _dumps(self.parsed, self.arguments, sort=sort)
        return text

    @property
    def parsed(self) -> object:
        """The arguments, parsed when they are first asked for."""
        if self._parsed is _UNPARSED:
            self._parsed = _parse(self.arguments)
        return self._parsed


class Detector(Protocol):
    """One fold over calls and their results.

    One that looks at whole steps also has `close(state, response)`, which gives the state and the count at the end of
    the step that began with this response.

    Example:
        >>> streak = RepeatStreak("canonical")
        >>> first = Seen(ToolCall("1", "ls", "{}"), ToolResult("1", "x"))
        >>> again = Seen(ToolCall("2", "ls", "{}"), ToolResult("2", "x"), before=[first])
        >>> state, _ = streak.fold(streak.start, first)
        >>> streak.name, streak.fold(state, again)[1]
        ('repeat_streak:canonical', 2)
    """

    @property
    def name(self) -> str:
        """The counter that it feeds, unique to the detector and its parameters."""
        ...

    @property
    def reason(self) -> StopReason:
        """Why a rule on it stops."""
        ...

    @property
    def least(self) -> int:
        """The smallest threshold that makes sense."""
        ...

    @property
    def reach(self) -> int:
        """How many calls back it compares by `Seen.lags`."""
        ...

    @property
    def start(self) -> Any:  # noqa: ANN401 - each detector has a state of its own
        """The state at the start of a turn."""
        ...

    def fold(self, state: Any, seen: Seen) -> tuple[Any, int | None]:  # noqa: ANN401
        """The state after this call, and the count; None where it is not known.

        Args:
            state: What it gave for the call before; `start` for the first.
            seen: The call, and what it gave.

        Returns:
            The next state, and the count.
        """
        ...


_ATTRIBUTES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "name": (lambda value: isinstance(value, str) and value != "", "the name of its counter, such as 'looks'"),
    "reason": (
        lambda value: value in get_args(StopReason),
        f"one of {', '.join(get_args(StopReason))} (`stuck` for a detector of your own; stop_rule tells rules apart)",
    ),
    "least": (lambda value: type(value) is int, "the smallest threshold that makes sense, such as 1"),
    "reach": (lambda value: type(value) is int and value >= 0, "how many calls back it compares, such as 0"),
    "start": (lambda _: True, "its state at the start of a turn, such as 0"),
    "fold": (callable, "a function of a state and a call that gives the next state and the count"),
}
"""What a detector has, each with a check and what is expected."""


def check_detector(detector: object) -> None:
    """Raise `SettingError` unless this is a whole detector; it names what is missing or not accepted.

    Example:
        >>> check_detector("AAA")
        Traceback (most recent call last):
        boolab.errors.SettingError: detector 'AAA' has no attribute `name`: expected the name of its counter...
    """
    shown = f"detector {detector!r}"
    if isinstance(detector, type):
        msg = f"{shown} is a class: expected one of its instances, such as {detector.__name__}()"
        raise SettingError(msg)
    for name, (accepted, expected) in _ATTRIBUTES.items():
        if not hasattr(detector, name):
            msg = f"{shown} has no attribute `{name}`: expected {expected}"
            raise SettingError(msg)
        value = getattr(detector, name)
        if not accepted(value):
            msg = f"{shown}: {name}={value!r} is not accepted: expected {expected}"
            raise SettingError(msg)
    try:
        hash(detector)
    except TypeError as error:
        msg = f"{shown} cannot be hashed: make it a frozen dataclass"
        raise SettingError(msg) from error


Fold: TypeAlias = Callable[[Any, Seen], tuple[Any, int | None]]
Close: TypeAlias = Callable[[Any, Response], tuple[Any, int | None]]


def closing(detector: Detector) -> Close | None:
    """What a detector does at the end of a step; None if it looks at calls alone."""
    return getattr(detector, "close", None)


@dataclass(frozen=True, slots=True)
class ByIdentity:
    """A detector that asks which calls are the same, by one identity or by tool."""

    identity: str = "canonical"
    by_tool: tuple[tuple[str, str | None], ...] = ()
    _by_tool: Mapping[str, str | None] = field(init=False, repr=False, compare=False)
    identities: str = field(init=False, repr=False, compare=False)
    """The identity in one line, with what differs by tool."""

    def __post_init__(self) -> None:
        for identity in (self.identity, *(identity for _, identity in self.by_tool if identity is not None)):
            check_identity(identity)
        object.__setattr__(self, "_by_tool", dict(self.by_tool))
        others = (f"{tool}={identity or 'exempt'}" for tool, identity in self.by_tool)
        object.__setattr__(self, "identities", ",".join((self.identity, *others)))

    def key(self, call: ToolCall, result: ToolResult | None) -> tuple[str, ...] | None:
        """What this detector compares the call by; None for a call that is the same as no other."""
        return call_key(call, result, self.identity_for(call.name))

    def identity_for(self, tool: str) -> str | None:
        """The identity of one tool's calls; None if the tool is exempt."""
        return self._by_tool.get(tool, self.identity)

    def lags(self, seen: Seen) -> int:
        """With which of the last calls this one is the same: see `Seen.lags`."""
        return seen.lags(self._by_tool.get(seen.name, self.identity))


def identity_of(identity: Identities) -> tuple[str, tuple[tuple[str, str | None], ...]]:
    """The identity of most tools, and those of others by tool.

    Raises:
        SettingError: if every tool is exempt.

    Example:
        >>> identity_of({"*": "ordered", "poll": None})
        ('ordered', (('poll', None),))
    """
    if not isinstance(identity, Mapping):
        return identity, ()
    if identity.get("*", "canonical") is None:
        msg = "identity {'*': None} exempts every tool: nothing would be watched"
        raise SettingError(msg)
    tools = tuple(sorted((tool, of) for tool, of in identity.items() if tool != "*"))
    return identity.get("*") or "canonical", tools


def check_tools(identity: Identities | None, tools: Iterable[str]) -> None:
    """Raise `SettingError` if an identity names a tool that is not among those of the recordings: a misspelt one.

    Args:
        identity: An identity for all tools, or by tool.
        tools: The names of the tools that recordings hold calls of. Where there are none, nothing can be told.

    Example:
        >>> check_tools({"*": "canonical", "Bsh": None}, ["Bash", "Read"])
        Traceback (most recent call last):
        boolab.errors.SettingError: no call of the tool 'Bsh' is on record; did you mean 'Bash'?
    """
    if not isinstance(identity, Mapping):
        return
    known = set(tools)
    unknown = [tool for tool in identity if tool != "*" and tool not in known]
    if not unknown or not known:
        return
    texts = sorted(tool for tool in known if isinstance(tool, str))
    close = difflib.get_close_matches(unknown[0], texts, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"tools: {', '.join(texts[:20])}"
    msg = f"no call of the tool {unknown[0]!r} is on record; {hint}"
    raise SettingError(msg)


def named_tools(detectors: Iterable[object]) -> dict[str, str | None]:
    """The tools that detectors name in their identities: what `check_tools` takes.

    Example:
        >>> named_tools([RepeatStreak.of({"*": "ordered", "poll": None})])
        {'poll': None}
    """
    named: dict[str, str | None] = {}
    for detector in detectors:
        inner: object = detector
        while (within := getattr(inner, "detector", None)) is not None:
            inner = within
        named |= dict(getattr(inner, "by_tool", ()))
    return named


def exempting(identity: Identities, exempt: Iterable[str]) -> Identities:
    """An identity without some tools: their calls are never the same.

    Args:
        identity: An identity for all tools, or by tool.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Example:
        >>> exempting("ordered", ["poll"])
        {'*': 'ordered', 'poll': None}
    """
    others = {"*": identity} if isinstance(identity, str) else {"*": "canonical", **identity}
    without = dict.fromkeys(exempt)
    return {**others, **without} if without else identity


@dataclass(frozen=True, slots=True)
class RepeatStreak(ByIdentity):
    """How many calls in a row, up to the latest, were the same: `q := q + 1 if same as the last else 1`.

    It runs on across steps, is not capped, and is read only at boundaries. Source: BooCode 1.14, opencode, Cline.
    """

    reason: ClassVar[StopReason] = "doom_loop"
    least: ClassVar[int] = 2
    reach: ClassVar[int] = 1
    start: ClassVar[int] = 0

    @classmethod
    def of(cls, identity: Identities) -> RepeatStreak:
        """The detector for an identity, or for identities by tool.

        Example:
            >>> RepeatStreak.of({"*": "ordered", "poll": None}).name
            'repeat_streak:ordered,poll=exempt'
        """
        return cls(*identity_of(identity))

    @property
    def name(self) -> str:
        return f"repeat_streak:{self.identities}"

    def fold(self, state: int, seen: Seen) -> tuple[int, int]:
        lags = self.lags(seen) if self.by_tool else seen.lags(self.identity)
        streak = state + 1 if state and lags & 1 else 1
        return streak, streak

    @property
    def start_alone(self) -> _Last:
        """The state at the start of a turn, for `fold_alone`."""
        return _NO_CALL, _NO_RESULT, _UNPARSED, 0

    def fold_alone(self, state: _Last, call: ToolCall, result: ToolResult) -> tuple[_Last, int]:
        """The same count, made from the call itself: see `boolab.watch`."""
        last, last_result, last_parsed, streak = state
        identity = self._by_tool.get(call.name, self.identity) if self.by_tool else self.identity
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
        streak = streak + 1 if same and streak else 1
        return (call, result, parsed, streak), streak


_Last: TypeAlias = tuple[ToolCall, ToolResult, object, int]


@dataclass(frozen=True, slots=True)
class ErrorStreak:
    """How many calls in a row, up to the latest, failed. Unknown from a result of unknown status to a known success."""

    name: ClassVar[str] = "error_streak"
    reason: ClassVar[StopReason] = "error_streak"
    least: ClassVar[int] = 1
    reach: ClassVar[int] = 0
    start: ClassVar[int | None] = 0

    start_alone: ClassVar[int | None] = 0

    def fold(self, state: int | None, seen: Seen) -> tuple[int | None, int | None]:
        return failures_in_a_row(state, seen.is_error)

    def fold_alone(self, state: int | None, call: ToolCall, result: ToolResult) -> tuple[int | None, int | None]:  # noqa: ARG002
        """The same count, made from the call itself: see `boolab.watch`."""
        return failures_in_a_row(state, result.is_error)


def failures_in_a_row(streak: int | None, failed: bool | None) -> tuple[int | None, int | None]:
    """The streak after one more call, twice: state and count. Unknown from an unknown status to a known success."""
    if failed is None:
        streak = None
    elif not failed:
        streak = 0
    elif streak is not None:
        streak += 1
    return streak, streak


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
