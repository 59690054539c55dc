"""Cycles: the same few calls over and over.

Sources: Gemini CLI's loop detection (periods 1 to 5, 5 repetitions, the last 25 calls); opencode issue 47759 asks for
the same (a count of identical calls misses A, B, A, B, A, B).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import floordiv
from typing import ClassVar, Final, TypeAlias

from boolab.core.types import Identities, StopReason
from boolab.errors import SettingError
from boolab.io.checks import check_whole, repr_of
from boolab.limits.call_identity import ByIdentity, ObservedCall, exclude_tools, identity_of
from boolab.limits.detectors.wrappers import Detections
from boolab.limits.stop import StopRule, detector_rule, stop_when

MAX_PERIOD: Final = 5
_PERIODS: Final = range(1, MAX_PERIOD + 1)
_NO_MATCHES: Final = (0,) * MAX_PERIOD


def cycle_period(keys: Sequence[object]) -> int | None:
    """The smallest p <= 5 such that the last 2p keys of calls are two equal halves; None if there is none."""
    n = len(keys)
    for period in _PERIODS[: n // 2]:
        if keys[n - period :] == keys[n - 2 * period : n - period]:
            return period
    return None


_State: TypeAlias = tuple[tuple[ObservedCall | None, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Cycle(ByIdentity):
    """How many whole blocks of a period end with the latest call, all equal: A, B, A, B, A, B are 3 of period 2.

    The last p x r calls are r equal blocks if and only if each of the last p x (r - 1) calls is the same as the one p
    before it. So the state holds the last p calls, and how many calls in a row were the same as the one p before.

    Attributes:
        period: How many calls a block has; None for the best of 1 to 5.
    """

    meaning: ClassVar[str] = "cycles of calls"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 2

    period: int | None = None

    @classmethod
    def of(cls, period: int | None, identity: Identities) -> Cycle:
        """The detector for a period, and for an identity or identities by tool.

        Raises:
            SettingError: if the period is smaller than 1 or the identity is not known.

        Example:
            >>> import boolab as bl
            >>> bl.detectors.Cycle.of(2, "ordered").name, bl.detectors.Cycle.of(None, "canonical").name
            ('cycle:2:ordered', 'cycle:1-5:canonical')
        """
        if period is not None and period < 1:
            msg = (
                f"a cycle of period {repr_of(period)}: expected an integer >= 1, or None for any from 1 to {MAX_PERIOD}"
            )
            raise SettingError(msg)
        return cls(*identity_of(identity), period)

    @property
    def name(self) -> str:
        return f"cycle:{self.period or f'1-{MAX_PERIOD}'}:{self.identities}"

    @property
    def start(self) -> _State:
        return (None,) * (self.period or MAX_PERIOD), (0,) if self.period else _NO_MATCHES

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int]:
        calls, matches = state  # the last calls, the latest first; how many in a row matched, by period
        identity = self.identity_for(call.name)
        latest = (call, *calls[:-1])
        if self.period:
            if calls[-1] is None:  # the first block is not complete before this call
                return (latest, matches), int(latest[-1] is not None)
            matched = matches[0] + 1 if call.same_as(calls[-1], identity) else 0
            return (latest, (matched,)), 1 + matched // self.period
        equals = list(map(call.same_as, calls, repeat(identity)))
        if True not in equals:
            return (latest, _NO_MATCHES), 1
        matches = tuple([n + 1 if matched else 0 for n, matched in zip(matches, equals, strict=True)])
        return (latest, matches), 1 + max(map(floordiv, matches, _PERIODS))


def cycle(period: int | None, repeats: int, identity: Identities = "canonical", exempt: Iterable[str] = ()) -> StopRule:
    """Stop with `stuck` when period x repeats calls in a row were so many equal blocks of calls, within a step too.

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
    watch = Cycle.of(
        None if period is None else check_whole(period, "cycle: period", 1), exclude_tools(identity, exempt)
    )
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
    watch = Cycle.of(None, exclude_tools(identity, exempt))
    detections = Detections(watch, check_whole(repeats, "cycle_detections: repeats", 2))
    return detector_rule("cycle_detections", detections, n, repr_of(repeats), watch.identities)
