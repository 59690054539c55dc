"""Counts within a window: how often the same step, the same tool, or the same call comes among the latest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from boolab.core.types import REDACTED, Identities, Response, StopReason
from boolab.io.checks import check_whole, repr_of
from boolab.limits.call_identity import ByIdentity, ObservedCall, exclude_tools, identity_of
from boolab.limits.stop import StopRule, detector_rule

_Signature: TypeAlias = tuple[str | int, ...]
_StepState: TypeAlias = tuple[tuple[_Signature, ...], _Signature, int]


@dataclass(frozen=True, slots=True)
class StepRepeats:
    """How many of the last steps are the same: the largest number of equal ones among `window`, in any order.

    Two steps are the same if all their calls are, in order, by name, argument text and result. Steps without calls are
    in the window but the same as no other. 0 until there have been `window` steps. Source: crush, which stops when it
    is more than 5 of 10.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.StepRepeats().name
        'step_repeats:10'
    """

    meaning: ClassVar[str] = "the same step in a window"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 2
    start: ClassVar[_StepState] = ((), (), 0)

    window: int = 10

    def __post_init__(self) -> None:
        check_whole(self.window, "step_repeats: window", 1)

    @property
    def name(self) -> str:
        return f"step_repeats:{self.window}"

    def fold(self, state: _StepState, call: ObservedCall) -> tuple[_StepState, int]:
        steps, calls, count = state
        arguments = call.step if call.arguments == REDACTED else call.arguments  # as in no other step
        calls += (arguments, call.content, call.name)
        return (steps, calls, count), count if len(steps) == self.window else 0

    def close(self, state: _StepState, response: Response) -> tuple[_StepState, int]:
        steps, calls, count = state
        dropped = None
        is_repeated = calls in steps
        if is_repeated:  # equal steps are one object, so that their texts are compared but once
            calls = steps[steps.index(calls)]
        if len(steps) == self.window:
            dropped, steps = steps[0], steps[1:]
        steps += (calls,)
        count = _update_largest(count, steps, calls, dropped) if is_repeated or count > 1 or not calls else 1
        return (steps, (), count), count if len(steps) == self.window else 0


def _update_largest(largest: int, latest: tuple[object, ...], added: object, dropped: object) -> int:
    """The largest number of equal ones, empty steps aside, when one was added and one dropped."""
    if added == dropped:
        return largest
    count = latest.count(added) if added != () else 0
    if count >= largest:
        return count
    if dropped and latest.count(dropped) + 1 == largest:
        return max(map(latest.count, {*latest} - {()}), default=0)
    return largest


_ToolState: TypeAlias = tuple[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class ToolWindow:
    """How often a tool was called in the last `window` calls, whatever its arguments.

    Source: opencode issue 32187 (calls whose arguments change slightly are never the same).

    Attributes:
        window: How many calls are looked at.
        tool: The tool; None for whichever was called most.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.ToolWindow(20).name, bl.detectors.ToolWindow(20, "grep").name
        ('tool_window:20', 'tool_window:20:grep')
    """

    meaning: ClassVar[str] = "the same tool in a window"
    reason: ClassVar[StopReason] = "stuck"
    start: ClassVar[_ToolState] = ((), 0)

    window: int
    tool: str | None = None

    def __post_init__(self) -> None:
        check_whole(self.window, "tool_window: window", 1)

    @property
    def name(self) -> str:
        return f"tool_window:{self.window}" + ("" if self.tool is None else f":{self.tool}")

    @property
    def least(self) -> int:
        return 2 if self.tool is None else 1

    def fold(self, state: _ToolState, call: ObservedCall) -> tuple[_ToolState, int]:
        names, count = state
        name = call.name
        dropped = None
        if len(names) == self.window:
            dropped, names = names[0], names[1:]
        names += (name,)
        if self.tool is not None:
            count += (name == self.tool) - (dropped == self.tool)
        else:
            count = _update_largest(count, names, name, dropped)
        return (names, count), count


_CallState: TypeAlias = tuple[tuple[bytes | tuple[()], ...], int]


@dataclass(frozen=True, slots=True)
class CallWindow(ByIdentity):
    """How many of the last `window` calls are the same: the largest number of equal ones, in any order.

    Calls of exempt tools, and those whose arguments are kept back, are in the window but never counted. Source:
    typeclaw pull request 564 (read(a), edit(b), read(a), edit(b): a count of identical calls in a row sees none).

    Attributes:
        window: How many calls are looked at.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.CallWindow(window=20).name
        'call_window:20:canonical'
    """

    meaning: ClassVar[str] = "the same call in a window"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 2
    start: ClassVar[_CallState] = ((), 0)

    window: int = 16

    def __post_init__(self) -> None:
        ByIdentity.__post_init__(self)
        check_whole(self.window, "call_window: window", 1)

    @property
    def name(self) -> str:
        return f"call_window:{self.window}:{self.identities}"

    def fold(self, state: _CallState, call: ObservedCall) -> tuple[_CallState, int]:
        calls, count = state
        identity = self.identity_for(call.name)
        latest = (None if identity is None else call.digest(identity)) or ()
        dropped = None
        if len(calls) == self.window:
            dropped, calls = calls[0], calls[1:]
        calls += (latest,)
        count = _update_largest(count, calls, latest, dropped)
        return (calls, count), count


def step_repeats(n: int, window: int = 10) -> StopRule:
    """Stop with `stuck` when n of the last steps are the same: all calls, argument texts and results, in any order.

    Args:
        n: How many, at least 2; crush stops at 6 (more than 5).
        window: How many steps are looked at; nothing is found before there were so many.

    Raises:
        SettingError: if n is not an integer >= 2 or the window is not one >= n.

    Source: crush.

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.step_repeats(6))
        'step_repeats(6, window=10)'
    """
    return _window_rule("step_repeats", StepRepeats(window), n, f"window={repr_of(window)}")


def tool_window(n: int, window: int, tool: str | None = None) -> StopRule:
    """Stop with `stuck` when n of the last calls were of one tool, whatever the arguments.

    Args:
        n: How many: at least 1 of a tool that is named, 2 of whichever it is.
        window: How many calls are looked at.
        tool: The tool's name; None for any one tool.

    Raises:
        SettingError: if n is not such an integer or the window is not one >= n.

    Source: opencode issue 32187.

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.tool_window(8, 10)), str(bl.detectors.tool_window(3, 10, "grep"))
        ('tool_window(8, window=10)', 'tool_window(3, window=10, tool=grep)')
    """
    options = [f"window={repr_of(window)}"] if tool is None else [f"window={repr_of(window)}", f"tool={tool}"]
    return _window_rule("tool_window", ToolWindow(window, tool), n, *options)


def call_window(n: int, window: int = 16, identity: Identities = "canonical", exempt: Iterable[str] = ()) -> StopRule:
    """Stop with `stuck` when n of the last calls are the same, whatever other calls come in between.

    It finds A, B, x, A, y, B, A, B, which is no cycle of any period. An agent that runs one test after each change
    makes the same call with other results: `identity="call+result"` leaves that alone.

    Args:
        n: How many, at least 2; typeclaw warns at 4 and blocks at 6 of 16.
        window: How many calls are looked at.
        identity: What makes two calls the same, for all tools or by tool: see `boolab.limits.call_identity`.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Raises:
        SettingError: if n is not an integer >= 2, the window is not one >= n, or the identity is not known.

    Source: typeclaw pull request 564; willdady/platypus issue 268 (3 of the same call with the same result, with others
    in between).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.call_window(6)), str(bl.detectors.call_window(3, 20, "call+result"))
        ('call_window(6, 16, canonical)', 'call_window(3, 20, call+result)')
    """
    watch = CallWindow(*identity_of(exclude_tools(identity, exempt)), window)
    return _window_rule("call_window", watch, n, repr_of(window), watch.identities)


def _window_rule(name: str, watch: StepRepeats | ToolWindow | CallWindow, n: int, *options: str) -> StopRule:
    """The rule of a detector with a window, which must hold as many as the threshold."""
    check_whole(watch.window, f"{name}: window of {repr_of(n)}", check_whole(n, name, watch.least))
    return detector_rule(name, watch, n, *options)
