"""The interface of a detector, which counts repetition in the calls of a turn.

A detector is one *fold*: `start` is its first state, `fold(state, call)` gives the next state and a count after each
call that got a result. Detectors of whole steps or of text also have `close(state, response)`, which gives both at the
end of each step; one that watches the history has `compact(state, times)`. `boolab.limits.stop`, "Counters", has what
a rule reads at the boundary after a step of several calls. The live loop and the offline tables use the same fold in
the same order (`Watch`), so they agree. States are plain tuples. A detector itself is a frozen value without memory, so
any number of runs can share it.

A call comes as `ObservedCall`: the call and its result. A detector that compares calls keeps the earlier ones in its
state, and compares by `call.same_as(earlier, identity)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, get_args

from boolab.core.types import Response, Step, StopReason, Usage
from boolab.errors import SettingError
from boolab.io.checks import repr_of

if TYPE_CHECKING:
    from boolab.limits.call_identity import ObservedCall

State: TypeAlias = Any
"""The state of a detector between two calls: each detector has a type of its own."""


class Detector(Protocol):
    """One fold over calls and their results.

    A detector of whole steps also has `close(state, response)`, which gives the state and the count at the end of the
    step that began with this response. One of compactions has `compact(state, times)`, which gives the state when the
    history was compacted that often before the next step; `times` is None where the record does not report that.

    Example:
        >>> import boolab as bl
        >>> from boolab.core.types import ToolResult
        >>> streak = bl.detectors.RepeatStreak("canonical")
        >>> call = bl.detectors.ObservedCall(bl.models.ToolCall("1", "ls", "{}"), ToolResult("1", "x"))
        >>> state, _ = streak.fold(streak.start, call)
        >>> streak.name, streak.fold(state, call)[1]
        ('repeat_streak:canonical', 2)
    """

    @property
    def name(self) -> str:
        """The name of its counter, unique to the detector and its parameters."""
        ...

    @property
    def reason(self) -> StopReason:
        """The stop reason of rules on it."""
        ...

    @property
    def least(self) -> int:
        """The smallest threshold that makes sense."""
        ...

    @property
    def start(self) -> State:
        """The state at the start of a turn."""
        ...

    def fold(self, state: State, call: ObservedCall) -> tuple[State, int | None]:
        """The state after this call, and the count; None where it is not known.

        Args:
            state: The state after the previous call; `start` for the first.
            call: The call and its result.

        Returns:
            The next state, and the count.
        """
        ...


_ATTRIBUTES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "name": (lambda value: isinstance(value, str) and value != "", "the name of its counter, such as 'looks'"),
    "reason": (
        lambda value: value in get_args(StopReason),
        f"one of {', '.join(get_args(StopReason))} (`stuck` for a detector of your own; stop_rule distinguishes rules)",
    ),
    "least": (lambda value: type(value) is int, "the smallest threshold that makes sense, such as 1"),
    "start": (lambda _: True, "its state at the start of a turn, such as 0"),
    "fold": (callable, "a function of a state and a call that gives the next state and the count"),
}
"""The attributes of a detector, each with a check and what is expected."""


def check_detector(detector: object) -> None:
    """Raise `SettingError` unless this has all attributes of a detector; it names what is missing or not accepted."""
    description = f"detector {detector!r}"
    if isinstance(detector, type):
        msg = f"{description} is a class: expected one of its instances, such as {detector.__name__}()"
        raise SettingError(msg)
    for name, (is_valid, expected) in _ATTRIBUTES.items():
        if not hasattr(detector, name):
            msg = f"{description} has no attribute `{name}`: expected {expected}"
            raise SettingError(msg)
        value = getattr(detector, name)
        if not is_valid(value):
            msg = f"{description}: {name}={repr_of(value)} is not accepted: expected {expected}"
            raise SettingError(msg)
    try:
        hash(detector)
    except TypeError as error:
        msg = f"{description} cannot be hashed: make it a frozen dataclass"
        raise SettingError(msg) from error


Charge: TypeAlias = Callable[[State, Usage], tuple[State, int | None]]
Close: TypeAlias = Callable[[State, Response], tuple[State, int | None]]
Compact: TypeAlias = Callable[[State, int | None], State]
Extend: TypeAlias = Callable[[State, Step], tuple[State, int]]


def charge_method(detector: Detector) -> Charge | None:
    """The `charge` of a detector, which is given what a subagent used; None if it counts no usage."""
    return getattr(detector, "charge", None)


def close_method(detector: Detector) -> Close | None:
    """The `close` of a detector; None if it has none, because it needs calls alone."""
    return getattr(detector, "close", None)


def compact_method(detector: Detector) -> Compact | None:
    """The `compact` of a detector; None if compactions of the history do not matter to it."""
    return getattr(detector, "compact", None)


def extend_method(detector: Detector) -> Extend | None:
    """The `extend` of a detector, which is given whole steps; None if it has none."""
    return getattr(detector, "extend", None)


def reads_largest(detector: Detector) -> bool:
    """Whether the counter of a detector is the largest count after a call of the step: see `boolab.limits.stop`."""
    at_end = close_method(detector) or extend_method(detector) or getattr(detector, "last_call", False)
    return not at_end


def largest_count(counts: Iterable[int | None]) -> int | None:
    """The largest of the counts after the calls of a step; unknown if one of them is."""
    largest = 0
    for count in counts:
        if count is None:
            return None
        largest = max(largest, count)
    return largest


def named_tools(detectors: Iterable[object]) -> dict[str, str | None]:
    """The tools that detectors name in their identities: what `check_tools` takes."""
    identities: dict[str, str | None] = {}
    for detector in detectors:
        inner: object = detector
        while (inner_detector := getattr(inner, "detector", None)) is not None:
            inner = inner_detector
        identities |= dict(getattr(inner, "by_tool", ()))
    return identities
