"""The context: compactions that follow each other closely, and growth while nothing new is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from boolab.core.types import Identities, Response, StopReason
from boolab.io.checks import check_whole, repr_of
from boolab.limits.call_identity import ByIdentity, ObservedCall, exclude_tools, identity_of
from boolab.limits.stop import OnUnknown, StopRule, detector_rule

_Compactions: TypeAlias = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class CompactionThrash:
    """How many compactions of the history, up to the latest, followed each other with little work in between.

    Each came at most `within` steps after the one before. The count is 0 again once there have been more steps, and
    where there was no compaction; unknown where the record does not report whether there was one. It is known after the
    step that follows a compaction: while compactions follow each other without a step, no rule is evaluated.

    Sources: Claude Code's "Autocompact is thrashing: the context refilled to the limit within 3 turns of the previous
    compact, 3 times in a row" (anthropics/claude-code issue 82131; fewer than 3 turns in between, so `within` is 2);
    hermes-agent issues 53008 (16 compactions, 205K to 204K tokens) and 117574 (108 that each succeeded: what is counted
    is how often, not how well); micode issue 14 (one or two edits, then a compaction); opencode issue 27924.

    Attributes:
        within: The most steps between two compactions.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.CompactionThrash().name
        'compaction_thrash:2'
    """

    meaning: ClassVar[str] = "compactions in a row with few steps in between"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 2
    start: ClassVar[_Compactions] = (0, 0)

    within: int = 2

    def __post_init__(self) -> None:
        check_whole(self.within, "compaction_thrash: within", 1)

    @property
    def name(self) -> str:
        return f"compaction_thrash:{self.within}"

    def compact(self, state: _Compactions, times: int | None) -> _Compactions:
        return None if state is None or times is None else (0, state[1] + times)

    def fold(self, state: _Compactions, call: ObservedCall) -> tuple[_Compactions, int | None]:
        return state, None if state is None else state[1]

    def close(self, state: _Compactions, response: Response) -> tuple[_Compactions, int | None]:
        if state is None:
            return None, None
        steps, streak = state
        if steps == self.within:
            streak = 0
        else:
            steps += 1
        return (steps, streak), streak


_Calls: TypeAlias = tuple[frozenset[bytes], ...]
_Growth: TypeAlias = tuple[_Calls, bool | None, int | None, int | None]
_NOT_YET = -1
"""In place of the tokens of the step before, if that step did something new."""


@dataclass(frozen=True, slots=True)
class ContextGrowth(ByIdentity):
    """By how many tokens the context grew since the agent last did something new.

    A step does something new if one of its calls was not made before, by the identity: under `call+result` a call that
    was made before is new if it gives a result that it has not given before. The growth is the sum of what the input
    tokens of each request rose by over the request before, among those since then; where they fall, as after a
    compaction, nothing is taken off. It is unknown where the tokens are, and where arguments are kept back, until a
    step is known to do something new.

    Sources: willdady/platypus issue 268 ("the same read and the same answer, with context growing every step": a call
    whose result differs is progress); openai/codex issue 36665 (74 compactions, 95% of which the agent followed by
    reading files again); smolagents issue 2566 and gentle-pi issue 729 (each step sends the whole history again).

    Example:
        >>> import boolab as bl
        >>> bl.detectors.ContextGrowth().name
        'context_growth:call+result'
    """

    meaning: ClassVar[str] = "tokens by which the context grew without a new call"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 1
    start: ClassVar[_Growth] = ((), False, 0, _NOT_YET)

    identity: str = "call+result"

    @classmethod
    def of(cls, identity: Identities) -> ContextGrowth:
        """The detector for an identity, or for identities by tool; the calls of an exempt tool are never new.

        Example:
            >>> import boolab as bl
            >>> bl.detectors.ContextGrowth.of({"*": "canonical", "poll": None}).name
            'context_growth:canonical,poll=exempt'
        """
        return cls(*identity_of(identity))

    @property
    def name(self) -> str:
        return f"context_growth:{self.identities}"

    def fold(self, state: _Growth, call: ObservedCall) -> tuple[_Growth, int | None]:
        digests, is_new, growth, tokens = state
        identity = self.identity_for(call.name)
        if identity is not None:
            digest = call.digest(identity)
            if digest is None:
                is_new = is_new or None
            elif not any(digest in group for group in digests):
                digests, is_new = _add_digest(digests, digest), True
        return (digests, is_new, growth, tokens), growth

    def close(self, state: _Growth, response: Response) -> tuple[_Growth, int | None]:
        digests, is_new, growth, previous_tokens = state
        tokens = response.usage.input_tokens
        if is_new:
            growth, tokens = 0, _NOT_YET
        elif is_new is None or previous_tokens is None or growth is None:
            growth = None
        elif previous_tokens != _NOT_YET:
            growth = None if tokens is None else growth + max(0, tokens - previous_tokens)
        return (digests, False, growth, tokens), growth


def _add_digest(digests: _Calls, digest: bytes) -> _Calls:
    """The calls with one more. Sets of like sizes are joined, so that n calls take n log n copies and not n squared."""
    latest = frozenset((digest,))
    while digests and len(digests[-1]) <= len(latest):
        latest |= digests[-1]
        digests = digests[:-1]
    return (*digests, latest)


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
    watch = CompactionThrash(within)
    return detector_rule("compaction_thrash", watch, n, f"within={repr_of(within)}", on_unknown=on_unknown)


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
    watch = ContextGrowth.of(exclude_tools(identity, exempt))
    return detector_rule("context_growth", watch, n, watch.identities, on_unknown=on_unknown)
