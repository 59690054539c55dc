"""Stop rules on what watches for repetition beyond identical calls and errors in a row (`boolab.stop` has these).

The reason of a rule is `doom_loop` where calls are identical, `error_streak` where calls fail, `stuck` for all else.
"""

from __future__ import annotations

from boolab.actions import ActionStreak
from boolab.chants import Chanting
from boolab.cycles import Cycle
from boolab.detectors import Detector, Identities, check_detector, identity_of
from boolab.errors import SettingError
from boolab.mentions import Mentions
from boolab.scopes import Detections
from boolab.stop import OnUnknown, StopRule, Threshold, unless_known, whole
from boolab.streaks import FinishStreak, IdleStreak, RoundStreak, SameError
from boolab.windows import StepRepeats, ToolWindow


def reaches(detector: Detector, n: int, on_unknown: OnUnknown = "error", *, label: str | None = None) -> StopRule:
    """Stop when, at a boundary, the count of a detector is n or more.

    Args:
        detector: Any detector, those of `boolab.scopes` too.
        n: The threshold.
        on_unknown: What an unknown count means: `error`, or `ignore` (not reached).
        label: What the rule is called; by default it is named after the detector.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer, or smaller than makes sense for the detector, or the detector is not
            whole: it lacks an attribute, or its stop reason is not one of those that there are.

    Example:
        >>> from boolab.detectors import RepeatStreak
        >>> from boolab.scopes import PerMessage
        >>> str(reaches(PerMessage(RepeatStreak("ordered")), 3))
        'reaches(per_message(repeat_streak:ordered), 3)'
    """
    check_detector(detector)
    unless = unless_known(on_unknown)
    threshold = whole(n, label.partition("(")[0] if label else detector.name, detector.least)
    name = label or f"reaches({detector.name}, {n}{unless})"
    return Threshold(detector.reason, detector.name, threshold, name, on_unknown, detector)


def cycle(period: int | None, repeats: int, identity: Identities = "canonical") -> StopRule:
    """Stop with `stuck` when the last period x repeats calls of the turn are so many equal blocks of calls.

    A, B, A, B, A, B is a cycle of period 2, three times. A, A, A, A is one of period 2 too, twice.

    Args:
        period: How many calls a block has; None for any from 1 to 5.
        repeats: How many blocks, at least 2.
        identity: What makes two calls the same, for all tools or by tool: see `boolab.detectors`.

    Returns:
        The rule.

    Raises:
        SettingError: if the period is not an integer >= 1 or None, repeats is not one >= 2, or the identity is unknown.

    Source: opencode issue 47759; Gemini CLI (`cycle(None, 5, "ordered")`).

    Example:
        >>> str(cycle(2, 3))
        'cycle(2, 3, canonical)'
    """
    watch = Cycle.of(None if period is None else whole(period, "cycle: period", 1), identity)
    return reaches(watch, repeats, label=f"cycle({period}, {repeats}, {watch.identities})")


def cycle_detections(n: int, repeats: int = 5, identity: Identities = "ordered") -> StopRule:
    """Stop with `stuck` when cycles of any period from 1 to 5 were found in n steps so far.

    Args:
        n: How many steps; Gemini CLI nudges at the 1st and stops at the 2nd.
        repeats: How many equal blocks make a cycle, at least 2.
        identity: What makes two calls the same, for all tools or by tool.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 1, repeats is not one >= 2, or the identity is unknown.

    Source: Gemini CLI, loopDetectionService.ts.

    Example:
        >>> str(cycle_detections(2))
        'cycle_detections(2, 5, ordered)'
    """
    watch = Cycle.of(None, identity)
    label = f"cycle_detections({n}, {repeats}, {watch.identities})"
    return reaches(Detections(watch, whole(repeats, "cycle_detections: repeats", 2)), n, label=label)


def round_streak(n: int, identity: Identities = "canonical") -> StopRule:
    """Stop with `doom_loop` when n responses in a row that called a tool asked the same of it.

    Equal calls in one response count once, and other tools may be called in between.

    Args:
        n: How many responses, at least 2; OpenRouter observes at 2, blocks at 3 and stops at 6.
        identity: What makes two calls the same, for all tools or by tool.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 2 or the identity is unknown.

    Source: OpenRouter, doom-loop detection (openrouter.ai/docs/agent-sdk/call-model/doom-loop-detection).

    Example:
        >>> str(round_streak(6))
        'round_streak(6, canonical)'
    """
    watch = RoundStreak(*identity_of(identity))
    return reaches(watch, n, label=f"round_streak({n}, {watch.identities})")


def step_repeats(n: int, window: int = 10) -> StopRule:
    """Stop with `stuck` when n of the last steps are the same: all calls, argument texts and results, in any order.

    Args:
        n: How many, at least 2; crush stops at 6 (more than 5).
        window: How many steps are looked at; nothing is found before there were so many.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 2 or the window is not one >= n.

    Source: crush.

    Example:
        >>> str(step_repeats(6))
        'step_repeats(6, window=10)'
    """
    watch = StepRepeats(whole(window, "step_repeats: window", 1))
    whole(window, f"step_repeats: window of {n}", whole(n, "step_repeats", 2))
    return reaches(watch, n, label=f"step_repeats({n}, window={window})")


def tool_window(n: int, window: int, tool: str | None = None) -> StopRule:
    """Stop with `stuck` when n of the last calls were of one tool, whatever the arguments.

    Args:
        n: How many: at least 1 of a tool that is named, 2 of whichever it is.
        window: How many calls are looked at.
        tool: The tool's name; None for any one tool.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not such an integer or the window is not one >= n.

    Source: opencode issue 32187.

    Example:
        >>> str(tool_window(8, 10)), str(tool_window(3, 10, "grep"))
        ('tool_window(8, window=10)', 'tool_window(3, window=10, tool=grep)')
    """
    watch = ToolWindow(whole(window, "tool_window: window", 1), tool)
    whole(window, f"tool_window: window of {n}", whole(n, "tool_window", watch.least))
    named = "" if tool is None else f", tool={tool}"
    return reaches(watch, n, label=f"tool_window({n}, window={window}{named})")


def same_error(n: int, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `error_streak` when one tool failed n times in a row with the same error (its first 100 characters).

    Args:
        n: How many times, 1 or more.
        on_unknown: What a source that does not tell errors means: `error`, or `ignore` (never reached).

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: goose (REP-002, at 3).

    Example:
        >>> str(same_error(3))
        'same_error(3)'
    """
    return reaches(SameError(), n, on_unknown, label=f"same_error({n}{unless_known(on_unknown)})")


def finish_streak(n: int, finish_reason: str, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `stuck` when n responses in a row ended for one reason.

    Args:
        n: How many.
        finish_reason: The reason, in boolab's vocabulary: `content_filter`, `length`.
        on_unknown: What a source that does not tell reasons means: `error`, or `ignore` (never reached).

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: Inspect (`content_filter`, 3).

    Example:
        >>> str(finish_streak(3, "content_filter"))
        'finish_streak(3, content_filter)'
    """
    label = f"finish_streak({n}, {finish_reason}{unless_known(on_unknown)})"
    return reaches(FinishStreak(finish_reason), n, on_unknown, label=label)


def idle_streak(n: int) -> StopRule:
    """Stop with `stuck` when n responses in a row called no tool, under a policy that does not take the first as final.

    Args:
        n: How many responses, 1 or more.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: OpenHands ("monologue", 3).

    Example:
        >>> str(idle_streak(3))
        'idle_streak(3)'
    """
    return reaches(IdleStreak(), n, label=f"idle_streak({n})")


def repeating_actions(n: int) -> StopRule:
    """Stop with `stuck` when the last n actions are the same and all gave the same observation.

    Unlike `doom_loop(n, "call+result")`, the text before a call is part of it: see `boolab.actions`.

    Args:
        n: How many actions, 2 or more.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 2.

    Source: OpenHands ("action_observation", 4).

    Example:
        >>> str(repeating_actions(4))
        'repeating_actions(4)'
    """
    return reaches(ActionStreak("repeating"), n, label=f"repeating_actions({n})")


def failing_actions(n: int, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `stuck` when the last n actions are the same and all failed, with whatever error.

    Args:
        n: How many actions, 1 or more.
        on_unknown: What a source that does not tell errors means: `error`, or `ignore` (never reached).

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: OpenHands ("action_error", 3).

    Example:
        >>> str(failing_actions(3))
        'failing_actions(3)'
    """
    label = f"failing_actions({n}{unless_known(on_unknown)})"
    return reaches(ActionStreak("failing"), n, on_unknown, label=label)


def alternating_actions(n: int) -> StopRule:
    """Stop with `stuck` when the last n actions alternate, A, B, A, B, each with its own observation every time.

    Args:
        n: How many actions, 3 or more.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 3.

    Source: OpenHands ("alternating_pattern", 6).

    Example:
        >>> str(alternating_actions(6))
        'alternating_actions(6)'
    """
    return reaches(ActionStreak("alternating"), n, label=f"alternating_actions({n})")


def chanting(n: int = 1) -> StopRule:
    """Stop with `stuck` when the text of n responses so far began to chant: see `boolab.chants`.

    Args:
        n: How many responses, 1 or more.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: Gemini CLI, loopDetectionService.ts.

    Example:
        >>> str(chanting())
        'chanting(1)'
    """
    return reaches(Chanting(), n, label=f"chanting({n})")


def text_mention(text: str) -> StopRule:
    """Stop with `finished` once a response has said a text. Combined with `&` it stays true, as in AutoGen.

    Args:
        text: What is listened for; upper and lower case are not the same.

    Returns:
        The rule.

    Raises:
        SettingError: if it is no text, or an empty one.

    Source: AutoGen's TextMentionTermination.

    Example:
        >>> from boolab.stop import max_steps
        >>> str(max_steps(3) & text_mention("APPROVE"))
        "max_steps(3) & text_mention('APPROVE')"
    """
    given: object = text
    if not isinstance(given, str) or not given:
        msg = f"text_mention({text!r}): expected a text"
        raise SettingError(msg)
    return reaches(Mentions(text), 1, label=f"text_mention({text!r})")
