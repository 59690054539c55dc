"""Calls that are nearly the same: the arguments change a little from call to call."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from boolab.core.redacted import RedactedArguments, is_redacted
from boolab.core.types import REDACTED, Identities, StopReason
from boolab.errors import SettingError
from boolab.io.checks import repr_of
from boolab.limits.call_identity import ByIdentity, ObservedCall, exclude_tools, identity_of
from boolab.limits.stop import OnUnknown, StopRule, detector_rule

MAX_COMPARED: Final = 2000
"""How many characters of a text are compared: of a longer one, so many from its two ends, half from each."""

_IDENTITIES: Final = ("canonical", "call+result", None)
_State: TypeAlias = tuple[ObservedCall | None, int | None]


def are_similar(text: str, other: str, similarity: float) -> bool:
    """Whether two texts are similar: what they have in common, in order, is so large a share of both together.

    The share is 2 x c / (a + b): a and b are their lengths, and c the length of the longest sequence of characters that
    is found in both, with gaps. Of a text of more than `MAX_COMPARED` characters its two ends are compared, and the
    whole of its length: texts whose lengths alone differ too much are not similar.

    `similarity`: the least share, above 0 and at most 1.
    """
    if text == other:
        return True
    if similarity >= 1 or 2 * min(len(text), len(other)) < _min_common(len(text) + len(other), similarity):
        return False
    from rapidfuzz.distance import Indel  # not at the top: it takes 14 ms, for this detector alone

    text, other = _ends(text), _ends(other)
    length = len(text) + len(other)
    max_distance = length - _min_common(length, similarity)
    return Indel.distance(text, other, score_cutoff=max_distance) <= max_distance


def _min_common(length: int, similarity: float) -> int:
    """How many of so many characters have to be common. Rounded first: 0.55 of 20 are 11, and no float above."""
    return math.ceil(round(similarity * length, 6))


def _ends(text: str) -> str:
    half = MAX_COMPARED // 2
    return text if len(text) <= MAX_COMPARED else text[:half] + text[-half:]


@dataclass(frozen=True, slots=True)
class SimilarStreak(ByIdentity):
    """How many calls in a row, up to the latest, were of one tool and similar to the one before.

    Two calls are similar if their arguments are (`are_similar` over compact JSON with the keys sorted), and under
    `call+result` their results too. At a similarity of 1 this is `RepeatStreak`. Unknown where it depends on a text
    that the record keeps back.

    Sources: opencode issue 32187 (edits of different lines are never the same call); senpi pull request 585 (5 calls
    with a mean similarity of 0.85 by pairs of letters); hermes-agent pull request 103180 (209 calls, no two in a row
    the same, their results off by a counter); typeclaw pull request 564 (895 reads of one file at other offsets).

    Attributes:
        similarity: The least similarity, above 0 and at most 1.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.SimilarStreak().name
        'similar_streak:0.9:canonical'
    """

    meaning: ClassVar[str] = "similar calls in a row"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 2
    start: ClassVar[_State] = (None, 0)

    similarity: float = 0.9

    def __post_init__(self) -> None:
        ByIdentity.__post_init__(self)
        share: object = self.similarity
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            msg = f"similarity={repr_of(share)}: expected a number above 0 and at most 1, such as 0.9"
            raise SettingError(msg)
        wrong = [
            identity
            for identity in (self.identity, *(identity for _, identity in self.by_tool))
            if identity not in _IDENTITIES
        ]
        if wrong:
            msg = f"similar calls: identity {wrong[0]!r} is not accepted: expected 'canonical' or 'call+result'"
            raise SettingError(msg)

    @classmethod
    def of(cls, identity: Identities, similarity: float = 0.9) -> SimilarStreak:
        """The detector for an identity, or for identities by tool.

        Example:
            >>> import boolab as bl
            >>> bl.detectors.SimilarStreak.of({"*": "call+result", "poll": None}, 0.8).name
            'similar_streak:0.8:call+result,poll=exempt'
        """
        return cls(*identity_of(identity), similarity)

    @property
    def name(self) -> str:
        return f"similar_streak:{self.similarity:g}:{self.identities}"

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int | None]:
        last, streak = state
        is_similar = last is not None and self._is_alike(call, last)
        if is_similar is False:
            streak = 1
        elif is_similar is None:
            streak = None
        elif streak is not None:
            streak += 1
        return (call, streak), streak

    def _is_alike(self, call: ObservedCall, other: ObservedCall) -> bool | None:
        identity = self.identity_for(call.name)
        if identity is None or call.name != other.name:
            return False
        if call.same_as(other, identity):
            return True
        if self.similarity >= 1:
            return False
        if call.same_as(other, "canonical"):
            is_similar: bool | None = True
        elif _is_kept_back(call) or _is_kept_back(other):
            is_similar = None
        else:
            is_similar = are_similar(call.normalised(sort=True), other.normalised(sort=True), self.similarity)
        if identity == "canonical" or is_similar is False or call.content == other.content:
            return is_similar
        if is_redacted(call.content) or is_redacted(other.content):
            return None
        return is_similar if are_similar(call.content, other.content, self.similarity) else False


def _is_kept_back(call: ObservedCall) -> bool:
    return call.arguments == REDACTED or isinstance(call.parsed, RedactedArguments)


def similar_calls(
    n: int,
    similarity: float = 0.9,
    identity: Identities = "canonical",
    exempt: Iterable[str] = (),
    on_unknown: OnUnknown = "error",
) -> StopRule:
    """Stop with `stuck` when n calls in a row are of one tool, each with arguments similar to those of the one before.

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
    watch = SimilarStreak.of(exclude_tools(identity, exempt), similarity)
    return detector_rule("similar_calls", watch, n, f"{similarity:g}", watch.identities, on_unknown=on_unknown)
