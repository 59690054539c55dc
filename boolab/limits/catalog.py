"""The stop rules that users call: functions that return a rule.

The stop reason of a rule on a detector is `doom_loop` where calls are identical, `error_streak` where calls fail, and
`stuck` for all else.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal

from boolab.core.types import MICRO, Identities
from boolab.errors import SettingError
from boolab.io.checks import MAX_COUNT, repr_of, too_large, whole
from boolab.limits.call_identity import exempting, identity_of
from boolab.limits.detector import Detector, check_detector
from boolab.limits.detectors.cycles import Cycle
from boolab.limits.detectors.openhands import ActionStreak
from boolab.limits.detectors.streaks import ErrorStreak, FinishStreak, IdleStreak, RepeatStreak, RoundStreak, SameError
from boolab.limits.detectors.text import RepeatedText, TextContains
from boolab.limits.detectors.windows import StepRepeats, ToolWindow
from boolab.limits.detectors.wrappers import Detections
from boolab.limits.stop import OnUnknown, StopRule, Threshold


def max_steps(n: int) -> StopRule:
    """Stop with `step_cap` at boundary n: after n completed steps. Source: BooCode 1.14, opencode issue 3631.

    Args:
        n: How many steps, 0 or more.

    Raises:
        SettingError: if n is not an integer >= 0.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_steps(20))
        'max_steps(20)'
    """
    return Threshold("step_cap", "steps", whole(n, "max_steps", 0), f"max_steps({n})")


def ceiling(n: int) -> StopRule:
    """A policy's own limit on steps, for agents that set none. It stops with `step_cap` too, under its own label."""
    return Threshold("step_cap", "steps", whole(n, "ceiling", 0), f"ceiling({n})")


def tool_budget(n: int) -> StopRule:
    """Stop with `tool_budget` once n calls have a result. The batch that crosses n is completed. Source: BooCode 1.14.

    Args:
        n: How many calls, 0 or more.

    Raises:
        SettingError: if n is not an integer >= 0.

    Example:
        >>> import boolab as bl
        >>> str(bl.tool_budget(50))
        'tool_budget(50)'
    """
    return Threshold("tool_budget", "tool_calls", whole(n, "tool_budget", 0), f"tool_budget({n})")


def doom_loop(n: int, identity: Identities = "canonical", exempt: Iterable[str] = ()) -> StopRule:
    """Stop with `doom_loop` when, at a boundary, the last n calls of the turn are the same call.

    Args:
        n: How many in a row, at least 2.
        identity: What makes two calls the same, for all tools or by tool: see `boolab.limits.call_identity`. BooCode
            and opencode use `ordered`, with n = 3.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Raises:
        SettingError: if n is not an integer >= 2 or the identity is not known.

    Example:
        >>> import boolab as bl
        >>> str(bl.doom_loop(3, "ordered"))
        'doom_loop(3, ordered)'
    """
    watch = RepeatStreak.of(exempting(identity, exempt))
    label = f"doom_loop({repr_of(n)}, {watch.identities})"
    return Threshold("doom_loop", watch.name, whole(n, "doom_loop", 2), label, detector=watch)


def max_tokens(
    n: int, of: Literal["tokens", "input_tokens", "output_tokens"] = "tokens", on_unknown: OnUnknown = "error"
) -> StopRule:
    """Stop with `token_budget` once the turn has used n tokens.

    Args:
        n: The limit.
        of: What is counted: `tokens` (input + output), `input_tokens` or `output_tokens`.
        on_unknown: What it means that a log has no token counts: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 0, or an option is not one of those above.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_tokens(100_000)), str(bl.max_tokens(5_000, of="output_tokens", on_unknown="ignore"))
        ('max_tokens(100000)', 'max_tokens(5000, output_tokens, on_unknown=ignore)')
    """
    if of not in ("tokens", "input_tokens", "output_tokens"):
        raise SettingError(f"max_tokens: of={of!r} is not known; accepted: tokens, input_tokens, output_tokens")
    unless = unless_known(on_unknown)
    label = f"max_tokens({repr_of(n)}{unless})" if of == "tokens" else f"max_tokens({repr_of(n)}, {of}{unless})"
    return Threshold("token_budget", of, whole(n, "max_tokens", 0), label, on_unknown)


def max_cost(usd: float, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `cost_budget` once the turn has cost that many dollars (kept as whole micro-dollars).

    Args:
        usd: How many dollars, 0 or more; fractions are fine.
        on_unknown: What it means that a log has no costs: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if usd is not a number >= 0.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_cost(0.5)), bl.max_cost(0.5).threshold
        ('max_cost(0.5)', 500000)
    """
    micro = _units(usd, MICRO, "max_cost")
    return Threshold("cost_budget", "cost", micro, f"max_cost({usd:.12g}{unless_known(on_unknown)})", on_unknown)


def max_time(seconds: float, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `time_budget` at the first boundary at which that much time has passed since the start of the turn.

    Args:
        seconds: How many seconds, 0 or more; fractions are fine.
        on_unknown: What it means that a log has no times: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if seconds is not a number >= 0.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_time(90)), bl.max_time(90).threshold
        ('max_time(90)', 90000)
    """
    ms = _units(seconds, 1000, "max_time")
    return Threshold("time_budget", "elapsed", ms, f"max_time({seconds:.12g}{unless_known(on_unknown)})", on_unknown)


def error_streak(n: int, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `error_streak` when, at a boundary, the last n calls all failed.

    Args:
        n: How many calls, 1 or more.
        on_unknown: What it means that a log does not record errors: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 1.

    Example:
        >>> import boolab as bl
        >>> str(bl.error_streak(3))
        'error_streak(3)'
    """
    watch = ErrorStreak()
    label = f"error_streak({repr_of(n)}{unless_known(on_unknown)})"
    return Threshold("error_streak", watch.name, whole(n, "error_streak", 1), label, on_unknown, watch)


def stop_when(detector: Detector, n: int, on_unknown: OnUnknown = "error", *, label: str | None = None) -> StopRule:
    """Stop when, at a boundary, the count of a detector is n or more.

    Args:
        detector: Any detector, those of `boolab.limits.detectors.wrappers` too.
        n: The threshold.
        on_unknown: What an unknown count means: `error`, or `ignore` (not reached).
        label: The name of the rule in tables; by default it is made from the detector's name.

    Raises:
        SettingError: if n is not an integer, or smaller than makes sense for the detector, or the detector
            lacks an attribute or has a stop reason that does not exist.

    Example:
        >>> import boolab as bl
        >>> from boolab.limits.detectors.wrappers import PerMessage
        >>> str(bl.detectors.stop_when(PerMessage(bl.detectors.RepeatStreak("ordered")), 3))
        'stop_when(per_message(repeat_streak:ordered), 3)'
    """
    check_detector(detector)
    unless = unless_known(on_unknown)
    threshold = whole(n, label.partition("(")[0] if label else detector.name, detector.least)
    name = label or f"stop_when({detector.name}, {n}{unless})"
    return Threshold(detector.reason, detector.name, threshold, name, on_unknown, detector)


def cycle(period: int | None, repeats: int, identity: Identities = "canonical", exempt: Iterable[str] = ()) -> StopRule:
    """Stop with `stuck` when the last period x repeats calls of the turn are so many equal blocks of calls.

    A, B, A, B, A, B is a cycle of period 2, three times. A, A, A, A is one of period 2 too, twice.

    Args:
        period: How many calls a block has; None for any from 1 to 5.
        repeats: How many blocks, at least 2.
        identity: What makes two calls the same, for all tools or by tool: see `boolab.limits.call_identity`.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Raises:
        SettingError: if the period is not an integer >= 1 or None, repeats is not one >= 2, or the identity is unknown.

    Source: opencode issue 47759; Gemini CLI (`cycle(None, 5, "ordered")`).

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.cycle(2, 3))
        'cycle(2, 3, canonical)'
    """
    watch = Cycle.of(None if period is None else whole(period, "cycle: period", 1), exempting(identity, exempt))
    return stop_when(watch, repeats, label=f"cycle({repr_of(period)}, {repr_of(repeats)}, {watch.identities})")


def cycle_detections(
    n: int, repeats: int = 5, identity: Identities = "ordered", exempt: Iterable[str] = ()
) -> StopRule:
    """Stop with `stuck` when cycles of any period from 1 to 5 were found in n steps so far.

    Args:
        n: How many steps; Gemini CLI nudges at the 1st and stops at the 2nd.
        repeats: How many equal blocks make a cycle, at least 2.
        identity: What makes two calls the same, for all tools or by tool.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Raises:
        SettingError: if n is not an integer >= 1, repeats is not one >= 2, or the identity is unknown.

    Source: Gemini CLI, loopDetectionService.ts.

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.cycle_detections(2))
        'cycle_detections(2, 5, ordered)'
    """
    watch = Cycle.of(None, exempting(identity, exempt))
    label = f"cycle_detections({repr_of(n)}, {repr_of(repeats)}, {watch.identities})"
    return stop_when(Detections(watch, whole(repeats, "cycle_detections: repeats", 2)), n, label=label)


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
    watch = RoundStreak(*identity_of(exempting(identity, exempt)))
    return stop_when(watch, n, label=f"round_streak({repr_of(n)}, {watch.identities})")


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
    watch = StepRepeats(whole(window, "step_repeats: window", 1))
    whole(window, f"step_repeats: window of {repr_of(n)}", whole(n, "step_repeats", 2))
    return stop_when(watch, n, label=f"step_repeats({repr_of(n)}, window={repr_of(window)})")


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
    watch = ToolWindow(whole(window, "tool_window: window", 1), tool)
    whole(window, f"tool_window: window of {repr_of(n)}", whole(n, "tool_window", watch.least))
    named = "" if tool is None else f", tool={tool}"
    return stop_when(watch, n, label=f"tool_window({repr_of(n)}, window={repr_of(window)}{named})")


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
    return stop_when(SameError(), n, on_unknown, label=f"same_error({repr_of(n)}{unless_known(on_unknown)})")


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
    label = f"finish_streak({repr_of(n)}, {finish_reason}{unless_known(on_unknown)})"
    return stop_when(FinishStreak(finish_reason), n, on_unknown, label=label)


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
    return stop_when(IdleStreak(), n, label=f"idle_streak({repr_of(n)})")


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
    return stop_when(ActionStreak("repeating"), n, label=f"repeating_actions({repr_of(n)})")


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
    label = f"failing_actions({repr_of(n)}{unless_known(on_unknown)})"
    return stop_when(ActionStreak("failing"), n, on_unknown, label=label)


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
    return stop_when(ActionStreak("alternating"), n, label=f"alternating_actions({repr_of(n)})")


def repeated_text(n: int = 1) -> StopRule:
    """Stop with `stuck` when the text of n responses so far repeated itself: see `boolab.limits.detectors.text`.

    Args:
        n: How many responses, 1 or more.

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: Gemini CLI, loopDetectionService.ts.

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.repeated_text())
        'repeated_text(1)'
    """
    return stop_when(RepeatedText(), n, label=f"repeated_text({repr_of(n)})")


def text_contains(text: str) -> StopRule:
    """Stop with `finished` once a response has contained a text. Combined with `&` it stays true, as in AutoGen.

    Args:
        text: The text to look for; upper and lower case are not the same.

    Raises:
        SettingError: if it is not a string, or an empty one.

    Source: AutoGen's TextMentionTermination.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_steps(3) & bl.detectors.text_contains("APPROVE"))
        "max_steps(3) & text_contains('APPROVE')"
    """
    given: object = text
    if not isinstance(given, str) or not given:
        raise SettingError(f"text_contains({text!r}): expected a text that is not empty")
    return stop_when(TextContains(text), 1, label=f"text_contains({text!r})")


def _units(n: object, in_one: int, what: str) -> int:
    """A number as whole units. A positive one is at least one unit: 0 would be reached before the first step."""
    number: Any = n  # `Real` declares no comparison with an int
    if isinstance(n, bool) or not isinstance(n, Real) or not number >= 0:
        raise SettingError(f"{what}({repr_of(n)}): expected a number >= 0")
    if number > MAX_COUNT // in_one:
        raise too_large(what, MAX_COUNT // in_one)
    return max(round(float(number) * in_one), 1) if number > 0 else 0


def unless_known(on_unknown: OnUnknown) -> str:
    """The part of a rule's label about unknown counters."""
    if on_unknown not in ("error", "ignore"):
        raise SettingError(f"on_unknown={on_unknown!r} is not known; accepted: error, ignore")
    return ", on_unknown=ignore" if on_unknown == "ignore" else ""
