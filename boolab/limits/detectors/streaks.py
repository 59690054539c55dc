"""Streaks: the same call, round, error or finish reason several times in a row, or no call at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from boolab.core.finish_reasons import FINISH_REASONS
from boolab.core.redacted import TIMED_OUT, beginning_of, is_redacted
from boolab.core.types import Identities, Response, StopReason
from boolab.limits.call_identity import ByIdentity, ObservedCall, exclude_tools, identity_of
from boolab.limits.stop import OnUnknown, StopRule, detector_rule

_Repeats: TypeAlias = tuple[ObservedCall | None, int]


@dataclass(frozen=True, slots=True)
class RepeatStreak(ByIdentity):
    """How many calls in a row, up to the latest, were the same: `q := q + 1 if same as the last else 1`.

    It continues across steps, and a rule reads the largest count of a step (`boolab.limits.stop`, "Counters"). Source:
    BooCode 1.14, opencode, Cline.

    Attributes:
        last_call: Whether a rule reads the count after the last call of a step alone, as BooCode does.
    """

    meaning: ClassVar[str] = "identical calls in a row"
    reason: ClassVar[StopReason] = "doom_loop"
    least: ClassVar[int] = 2
    start: ClassVar[_Repeats] = (None, 0)

    last_call: bool = False

    @classmethod
    def of(cls, identity: Identities, *, last_call: bool = False) -> RepeatStreak:
        """The detector for an identity, or for identities by tool.

        Example:
            >>> import boolab as bl
            >>> bl.detectors.RepeatStreak.of({"*": "ordered", "poll": None}).name
            'repeat_streak:ordered,poll=exempt'
        """
        return cls(*identity_of(identity), last_call)

    @property
    def name(self) -> str:
        return f"repeat_streak:{self.identities}{':last_call' if self.last_call else ''}"

    def fold(self, state: _Repeats, call: ObservedCall) -> tuple[_Repeats, int]:
        last, streak = state
        identity = self._by_tool.get(call.name, self.identity) if self.by_tool else self.identity
        streak = streak + 1 if call.same_as(last, identity) else 1
        return (call, streak), streak


@dataclass(frozen=True, slots=True)
class ErrorStreak:
    """How many calls in a row, up to the latest, failed. Unknown from a result of unknown status to a known success."""

    meaning: ClassVar[str] = "failed calls in a row"
    name: ClassVar[str] = "error_streak"
    reason: ClassVar[StopReason] = "error_streak"
    least: ClassVar[int] = 1
    start: ClassVar[int | None] = 0

    def fold(self, state: int | None, call: ObservedCall) -> tuple[int | None, int | None]:
        return failures_in_a_row(state, call.is_error)


def failures_in_a_row(streak: int | None, failed: bool | None) -> tuple[int | None, int | None]:
    """The streak after one more call, twice: state and count. Unknown from an unknown status to a known success."""
    if failed is None:
        streak = None
    elif not failed:
        streak = 0
    elif streak is not None:
        streak += 1
    return streak, streak


_Round: TypeAlias = tuple[str, tuple[ObservedCall, ...], int]
_RoundState: TypeAlias = tuple[tuple[_Round, ...], tuple[ObservedCall, ...], int]


@dataclass(frozen=True, slots=True)
class RoundStreak(ByIdentity):
    """How many responses in a row that called a tool made the same calls: the maximum over the tools of the step.

    The calls of one tool in one response are a set: equal calls count once, and their order does not matter. Responses
    that do not call the tool do not end the streak; one that makes another call of it does.
    Counted at the end of each step. Source: OpenRouter's agent SDK, "doom-loop detection" (observe at 2, block at 3,
    stop at 6; openrouter.ai/docs/agent-sdk/call-model/doom-loop-detection), with the sets of its later versions.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.RoundStreak().name
        'round_streak:canonical'
    """

    meaning: ClassVar[str] = "identical rounds in a row"
    reason: ClassVar[StopReason] = "doom_loop"
    least: ClassVar[int] = 2
    of_steps: ClassVar[bool] = True
    start: ClassVar[_RoundState] = ((), (), 0)

    @property
    def name(self) -> str:
        return f"round_streak:{self.identities}"

    def fold(self, state: _RoundState, call: ObservedCall) -> tuple[_RoundState, int]:
        rounds, calls, count = state
        return (rounds, (*calls, call), count), count

    def close(self, state: _RoundState, response: Response) -> tuple[_RoundState, int]:
        rounds, calls, count = state
        if not calls:
            return state, count
        if rounds and len(calls) == len(rounds[0][1]) == 1 and rounds[0][0] == calls[0].name and not self.by_tool:
            # The usual step, written out for speed: one call, of the tool that was called last.
            (name, (previous,), streak), *other_rounds = rounds
            streak = streak + 1 if calls[0].same_as(previous, self.identity) else 1
            return (((name, calls, streak), *other_rounds), (), streak), streak
        count = 0
        for name in dict.fromkeys(call.name for call in calls):
            rounds, streak = self._extend_rounds(rounds, tuple(call for call in calls if call.name == name))
            count = max(count, streak)
        return (rounds, (), count), count

    def _extend_rounds(
        self, rounds: tuple[_Round, ...], calls: tuple[ObservedCall, ...]
    ) -> tuple[tuple[_Round, ...], int]:
        """The rounds with one more of the tool of these calls, and its streak. The latest tool comes first."""
        name, streak = calls[0].name, 1
        for index, (tool, previous, so_far) in enumerate(rounds):
            if tool == name:
                if self._is_alike(calls, previous):
                    streak = so_far + 1
                rounds = rounds[:index] + rounds[index + 1 :]
                break
        return ((name, calls, streak), *rounds), streak

    def _is_alike(self, calls: tuple[ObservedCall, ...], other_calls: tuple[ObservedCall, ...]) -> bool:
        identity = self.identity_for(calls[0].name)
        return all(any(a.same_as(b, identity) for b in other_calls) for a in calls) and all(
            any(a.same_as(b, identity) for b in calls) for a in other_calls
        )


_Text: TypeAlias = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class SameError:
    """How often in a row the tool that was called last failed with the same error: its first 100 characters.

    Other tools in between do not matter. A success of the same tool ends the streak, another error starts a new one.
    Unknown if it depends on a result of unknown status. Source: goose (REP-002, at 3).
    """

    meaning: ClassVar[str] = "the same error in a row"
    name: ClassVar[str] = "same_error"
    reason: ClassVar[StopReason] = "error_streak"
    least: ClassVar[int] = 1
    start: ClassVar[tuple[_Text, ...]] = ()

    def fold(self, state: tuple[_Text, ...], call: ObservedCall) -> tuple[tuple[_Text, ...], int | None]:
        last: str | None = None
        count: int | None = 0
        for index, (tool, text, streak) in enumerate(state):
            if tool == call.name:
                last, count = text, streak
                state = state[:index] + state[index + 1 :]
                break
        if call.is_error is False:
            return state, 0
        text = beginning_of(call.content)
        if call.is_error is None:
            count = None
        elif text != last:
            count = 1
        elif count is not None:
            count += 1
        return ((call.name, text, count), *state), count


@dataclass(frozen=True, slots=True)
class FinishStreak:
    """How many responses in a row, up to the latest, ended for one reason. Unknown from a response without a reason on.

    Source: Inspect, which ends at 3 of `content_filter`.

    Attributes:
        finish_reason: The reason, in boolab's vocabulary.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.FinishStreak("content_filter").name
        'finish_streak:content_filter'
    """

    meaning: ClassVar[str] = "finish reasons in a row"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 1
    start: ClassVar[int | None] = 0

    finish_reason: str

    @property
    def name(self) -> str:
        return f"finish_streak:{self.finish_reason}"

    def fold(self, state: int | None, call: ObservedCall) -> tuple[int | None, int | None]:
        return state, state

    def close(self, state: int | None, response: Response) -> tuple[int | None, int | None]:
        is_counted = self.is_reason(response.finish_reason)
        if not is_counted:
            state = None if is_counted is None else 0
        elif state is not None:
            state += 1
        return state, state

    def is_reason(self, reason: str | None) -> bool | None:
        """Whether a response's finish reason is the one that is counted; None where that is unknown.

        Example:
            >>> FinishStreak("length").is_reason("<redacted text 5: 9 chars>"), FinishStreak("length").is_reason(None)
            (False, None)
        """
        if reason is None or (is_redacted(reason) and self.finish_reason not in FINISH_REASONS):
            return None
        return reason == self.finish_reason


@dataclass(frozen=True, slots=True)
class IdleStreak:
    """How many responses in a row, up to the latest, called no tool, or only such calls as were dropped.

    Source: OpenHands ("monologue", 3), Roo (no-tool replies), Inspect's react loop, which prompts it to continue.
    """

    meaning: ClassVar[str] = "responses without a call in a row"
    name: ClassVar[str] = "idle_streak"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 1
    start: ClassVar[int] = 0

    def fold(self, state: int, call: ObservedCall) -> tuple[int, int]:
        return -1, 0

    def close(self, state: int, response: Response) -> tuple[int, int]:
        state += 1
        return state, state


_Failures: TypeAlias = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class ToolErrors:
    """In how many steps so far the tool that failed most has failed. Once a status is unknown, it stays unknown.

    Source: pydantic-ai, which lets each tool fail in one step of a run and ends it at the second.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.ToolErrors().name
        'tool_errors'
    """

    meaning: ClassVar[str] = "steps in which the same tool failed"
    name: ClassVar[str] = "tool_errors"
    reason: ClassVar[StopReason] = "error_streak"
    least: ClassVar[int] = 1
    start: ClassVar[_Failures | None] = ()

    def fold(self, state: _Failures | None, call: ObservedCall) -> tuple[_Failures | None, int | None]:
        if state is None or call.is_error is None:
            return None, None
        if call.is_error:
            n, last = next(((n, last) for name, n, last in state if name == call.name), (0, 0))
            other_tools = tuple(entry for entry in state if entry[0] != call.name)
            state = (*other_tools, (call.name, n + (call.step != last), call.step))
        return state, max((n for _, n, _ in state), default=0)


@dataclass(frozen=True, slots=True)
class TimeoutStreak:
    """How many calls in a row, up to the latest, exceeded their time limit. Unknown while a status is unknown.

    Source: SWE-agent, which ends after 3 commands in a row that exceeded the limit of 30 s.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.TimeoutStreak().name
        'timeout_streak'
    """

    meaning: ClassVar[str] = "timeouts in a row"
    name: ClassVar[str] = "timeout_streak"
    reason: ClassVar[StopReason] = "error_streak"
    least: ClassVar[int] = 1
    start: ClassVar[int | None] = 0

    def fold(self, state: int | None, call: ObservedCall) -> tuple[int | None, int | None]:
        return failures_in_a_row(state, call.is_error if TIMED_OUT in call.content else False)


def round_streak(n: int, identity: Identities = "canonical", exempt: Iterable[str] = ()) -> StopRule:
    """Stop with `doom_loop` when n responses in a row that called a tool made the same calls of it.

    Equal calls in one response count once, and other tools may be called in between.

    Args:
        n: How many responses, at least 2; OpenRouter observes at 2, blocks at 3 and stops at 6.
        identity: What makes two calls the same, for all tools or by tool.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Raises:
        SettingError: if n is not an integer >= 2 or the identity is unknown.

    Source: OpenRouter, doom-loop detection (openrouter.ai/docs/agent-sdk/call-model/doom-loop-detection).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.round_streak(6))
        'round_streak(6, canonical)'
    """
    watch = RoundStreak(*identity_of(exclude_tools(identity, exempt)))
    return detector_rule("round_streak", watch, n, watch.identities)


def same_error(n: int, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `error_streak` when one tool failed n times in a row with the same error (its first 100 characters).

    Args:
        n: How many times, 1 or more.
        on_unknown: What it means that a log does not record errors: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: goose (REP-002, at 3).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.same_error(3))
        'same_error(3)'
    """
    return detector_rule("same_error", SameError(), n, on_unknown=on_unknown)


def finish_streak(n: int, finish_reason: str, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `stuck` when n responses in a row ended for one reason.

    Args:
        n: How many.
        finish_reason: The reason, in boolab's vocabulary: `content_filter`, `length`.
        on_unknown: What it means that a log has no finish reasons: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: Inspect (`content_filter`, 3).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.finish_streak(3, "content_filter"))
        'finish_streak(3, content_filter)'
    """
    return detector_rule("finish_streak", FinishStreak(finish_reason), n, finish_reason, on_unknown=on_unknown)


def idle_streak(n: int) -> StopRule:
    """Stop with `stuck` when n responses in a row called no tool, under a policy that does not end at the first one.

    Args:
        n: How many responses, 1 or more.

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: OpenHands ("monologue", 3).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.idle_streak(3))
        'idle_streak(3)'
    """
    return detector_rule("idle_streak", IdleStreak(), n)
