"""Stop rules on the loops that users report most, beside the same call in a row.

Each names where it was reported. `boolab.limits.catalog` has the other rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from boolab.core.types import Identities
from boolab.io.checks import repr_of, whole
from boolab.limits.call_identity import exempting, identity_of
from boolab.limits.catalog import stop_when, unless_known
from boolab.limits.detectors.context import CompactionThrash, ContextGrowth
from boolab.limits.detectors.similar import SimilarStreak
from boolab.limits.detectors.windows import CallWindow
from boolab.limits.stop import OnUnknown, StopRule


def compaction_thrash(n: int = 3, within: int = 2, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `stuck` when the history was compacted n times with little work in between.

    Args:
        n: How many compactions in a row, at least 2. Claude Code refuses the next one after 3.
        within: The most steps between one and the next.
        on_unknown: What it means that a log does not record compactions: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 2, or `within` is not one >= 1.

    Source: Claude Code (anthropics/claude-code issue 82131), hermes-agent issues 53008 and 117574, micode issue 14,
    opencode issue 27924.

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.compaction_thrash(3))
        'compaction_thrash(3, within=2)'
    """
    label = f"compaction_thrash({repr_of(n)}, within={repr_of(within)}{unless_known(on_unknown)})"
    return stop_when(CompactionThrash(within), n, on_unknown, label=label)


def similar_calls(
    n: int,
    similarity: float = 0.9,
    identity: Identities = "canonical",
    exempt: Iterable[str] = (),
    on_unknown: OnUnknown = "error",
) -> StopRule:
    """Stop with `stuck` when the last n calls are of one tool, each with arguments similar to those of the one before.

    An agent that reads the next pages of a file, or files with like names, makes similar calls too. Under
    `call+result` the results have to be similar as well.

    Args:
        n: How many in a row, at least 2; senpi warns at 5.
        similarity: How similar, above 0 and at most 1: see `boolab.limits.detectors.similar.are_similar`. At 1 the
            rule is `doom_loop`, under another stop reason.
        identity: What is compared: `canonical` (arguments) or `call+result`, for all tools or by tool.
        exempt: The tools whose repeats are no loop, such as one that polls.
        on_unknown: What it means that a log keeps texts back: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 2, or an option is not one of those above.

    Source: opencode issue 32187, senpi pull request 585, hermes-agent pull request 103180.

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.similar_calls(5)), str(bl.detectors.similar_calls(5, 0.8, "call+result"))
        ('similar_calls(5, 0.9, canonical)', 'similar_calls(5, 0.8, call+result)')
    """
    watch = SimilarStreak.of(exempting(identity, exempt), similarity)
    label = f"similar_calls({repr_of(n)}, {similarity:g}, {watch.identities}{unless_known(on_unknown)})"
    return stop_when(watch, n, on_unknown, label=label)


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
    watch = CallWindow(*identity_of(exempting(identity, exempt)), whole(window, "call_window: window", 1))
    whole(window, f"call_window: window of {repr_of(n)}", whole(n, "call_window", 2))
    return stop_when(watch, n, label=f"call_window({repr_of(n)}, {repr_of(window)}, {watch.identities})")


def context_growth(
    n: int, identity: Identities = "call+result", exempt: Iterable[str] = (), on_unknown: OnUnknown = "error"
) -> StopRule:
    """Stop with `stuck` when the context grew by n tokens while the agent did nothing new.

    A call that was not made before is new; so is, under `call+result`, one with a result that it has not given before.

    Args:
        n: How many tokens, 1 or more. By how much the input tokens of the requests rose since the last new call.
        identity: What makes two calls the same, for all tools or by tool: see `boolab.limits.call_identity`.
        exempt: The tools whose calls are never new, such as one that polls.
        on_unknown: What it means that a log has no tokens: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 1 or the identity is not known.

    Source: willdady/platypus issue 268, openai/codex issue 36665, smolagents issue 2566.

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.context_growth(50_000))
        'context_growth(50000, call+result)'
    """
    watch = ContextGrowth.of(exempting(identity, exempt))
    return stop_when(
        watch, n, on_unknown, label=f"context_growth({repr_of(n)}, {watch.identities}{unless_known(on_unknown)})"
    )
