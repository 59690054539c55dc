"""The detectors of OpenHands: they count actions and their observations.

An action is the same when tool, arguments (as parsed, so key order does not matter) and the thought before it are; an
observation when its text is, and whether it is an error. The thought of several calls in one response belongs to the
first. Only what is within the last 20 events counts: an action, an observation and a response without a call are an
event each. Source: the stuck detector of the OpenHands agent SDK (conversation/stuck_detector.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from boolab.core.types import Response, StopReason
from boolab.errors import SettingError
from boolab.limits.call_identity import ObservedCall
from boolab.limits.stop import OnUnknown, StopRule, detector_rule

Pattern: TypeAlias = Literal["repeating", "failing", "alternating"]
EVENTS: Final = 20
_FULL: Final = "ao" * (EVENTS // 2)
MIN_COUNTS: Final = {"repeating": 2, "failing": 1, "alternating": 3}

_State: TypeAlias = tuple[tuple[ObservedCall | None, ObservedCall | None], int | None, int, str]
"""The last two actions, the streak, how many calls the step has so far, and the kinds of the last events."""


@dataclass(frozen=True, slots=True)
class ActionStreak:
    """How many actions in a row, up to the latest, make a pattern.

    Attributes:
        pattern: `repeating`: the same action with the same observation (OpenHands: stuck at 4). `failing`: the same
            action with any error (3). `alternating`: the same as the action and observation two before (6).

    Example:
        >>> import boolab as bl
        >>> bl.detectors.ActionStreak("failing").name
        'actions:failing'
    """

    meaning: ClassVar[str] = "actions and their results"
    reason: ClassVar[StopReason] = "stuck"
    start: ClassVar[_State] = ((None, None), 0, 0, "")

    pattern: Pattern

    def __post_init__(self) -> None:
        if self.pattern not in MIN_COUNTS:
            msg = f"actions: pattern {self.pattern!r} is not known; accepted: {', '.join(get_args(Pattern))}"
            raise SettingError(msg)

    @property
    def name(self) -> str:
        return f"actions:{self.pattern}"

    @property
    def least(self) -> int:
        return MIN_COUNTS[self.pattern]

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int | None]:
        (second_last, last), streak, calls, events = state
        if self.pattern == "repeating":
            streak = (streak or 0) + 1 if call.same_as(last, "action+result") else 1
        elif self.pattern == "alternating":
            # Any two actions in a row are a streak of 2; there is one two before from the third on.
            continues = second_last is None or call.same_as(second_last, "action+result")
            streak = (streak or 0) + 1 if continues else 2
        else:
            streak = _failing_streak(streak, call, last)
        return ((last, call), streak, calls + 1, events), streak

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        latest, streak, calls, events = state
        if calls == 1 and events == _FULL:
            return (latest, streak, 0, events), streak and min(streak, EVENTS // 2)
        events = (events + ("a" * calls + "o" * calls if response.tool_calls else "m"))[-EVENTS:]
        return (latest, streak, 0, events), streak and min(streak, events.count("a"), events.count("o"))


def _failing_streak(streak: int | None, call: ObservedCall, last: ObservedCall | None) -> int | None:
    """The streak of equal actions that failed, after this one."""
    if not call.is_error:
        return None if call.is_error is None else 0
    if streak == 0 or not call.same_as(last, "action"):
        return 1
    return None if streak is None else streak + 1


def repeating_actions(n: int) -> StopRule:
    """Stop with `stuck` when the last n actions are the same and all gave the same observation.

    Unlike `doom_loop(n, "call+result")`, the text before a call is part of it: see `boolab.limits.detectors.openhands`.

    Args:
        n: How many actions, 2 or more.

    Raises:
        SettingError: if n is not an integer >= 2.

    Source: OpenHands ("action_observation", 4).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.repeating_actions(4))
        'repeating_actions(4)'
    """
    return detector_rule("repeating_actions", ActionStreak("repeating"), n)


def failing_actions(n: int, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `stuck` when the last n actions are the same and all failed, with any error.

    Args:
        n: How many actions, 1 or more.
        on_unknown: What it means that a log does not record errors: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: OpenHands ("action_error", 3).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.failing_actions(3))
        'failing_actions(3)'
    """
    return detector_rule("failing_actions", ActionStreak("failing"), n, on_unknown=on_unknown)


def alternating_actions(n: int) -> StopRule:
    """Stop with `stuck` when the last n actions alternate, A, B, A, B, each with its own observation every time.

    Args:
        n: How many actions, 3 or more.

    Raises:
        SettingError: if n is not an integer >= 3.

    Source: OpenHands ("alternating_pattern", 6).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.alternating_actions(6))
        'alternating_actions(6)'
    """
    return detector_rule("alternating_actions", ActionStreak("alternating"), n)
