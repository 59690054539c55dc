"""Detectors made of detectors: how far one counts, and what it does when it has fired."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from boolab.detectors import Close, Detector, Seen, check_detector, closing
from boolab.stop import whole
from boolab.types import Response, StopReason

_State: TypeAlias = tuple[Any, ...]


def _most(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


@dataclass(frozen=True, slots=True)
class PerMessage:
    """A detector that starts anew with each response: what it finds, it finds within one message.

    At the end of a step its count is the most that was reached in it. Source: opencode V1, which compares the calls of
    the current assistant message only (issue 25254).

    Example:
        >>> from boolab.detectors import RepeatStreak
        >>> PerMessage(RepeatStreak("ordered")).name
        'per_message(repeat_streak:ordered)'
    """

    detector: Detector
    _close: Close | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_detector(self.detector)
        object.__setattr__(self, "_close", closing(self.detector))

    @property
    def name(self) -> str:
        return f"per_message({self.detector.name})"

    @property
    def reason(self) -> StopReason:
        return self.detector.reason

    @property
    def least(self) -> int:
        return self.detector.least

    @property
    def reach(self) -> int:
        return self.detector.reach

    @property
    def start(self) -> _State:
        return (self.detector.start, 0)

    def fold(self, state: _State, seen: Seen) -> tuple[_State, int | None]:
        inner, most = state
        inner, count = self.detector.fold(inner, seen)
        return (inner, _most(most, count)), count

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        inner, most = state
        close = self._close
        if close is not None:
            most = _most(most, close(inner, response)[1])
        return self.start, most


@dataclass(frozen=True, slots=True)
class Rearmed:
    """A detector that starts anew when its count has reached a threshold.

    At the end of a step in which it did, the count is that threshold. Source: Roo Code, which resets its counter when
    it has blocked a call.

    Attributes:
        detector: The detector.
        threshold: Where it starts anew.

    Example:
        >>> from boolab.detectors import RepeatStreak
        >>> Rearmed(RepeatStreak(), 4).name
        'rearmed(repeat_streak:canonical,4)'
    """

    detector: Detector
    threshold: int
    _close: Close | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_detector(self.detector)
        object.__setattr__(self, "_close", closing(self.detector))
        whole(self.threshold, f"rearmed: {self.detector.name}", self.detector.least)

    @property
    def name(self) -> str:
        return f"rearmed({self.detector.name},{self.threshold})"

    @property
    def reason(self) -> StopReason:
        return self.detector.reason

    @property
    def least(self) -> int:
        return self.detector.least

    @property
    def reach(self) -> int:
        return self.detector.reach

    @property
    def start(self) -> _State:
        return (self.detector.start, 0, 0)

    def fold(self, state: _State, seen: Seen) -> tuple[_State, int | None]:
        inner, _, fired = state
        inner, count = self.detector.fold(inner, seen)
        if count is not None and count >= self.threshold:
            return (self.detector.start, 0, count), count
        return (inner, count, fired), count

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        inner, count, fired = state
        close = self._close
        if close is not None:
            inner, count = close(inner, response)
            if count is not None and count >= self.threshold:
                inner, count, fired = self.detector.start, 0, count
        return (inner, count, 0), fired or count


@dataclass(frozen=True, slots=True)
class Detections:
    """In how many steps so far a detector's count was at or over a threshold.

    A step counts once, whatever else it calls. Unknown for good from an unknown count on. Source: Gemini CLI, whose
    first detection in a prompt makes it nudge and whose second makes it stop.

    Attributes:
        detector: The detector.
        threshold: The count from which on it detects.

    Example:
        >>> from boolab.cycles import Cycle
        >>> Detections(Cycle("ordered"), 5).name
        'detections(cycle:1-5:ordered,5)'
    """

    least: ClassVar[int] = 1

    detector: Detector
    threshold: int
    _close: Close | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_detector(self.detector)
        object.__setattr__(self, "_close", closing(self.detector))
        whole(self.threshold, f"detections: {self.detector.name}", self.detector.least)

    @property
    def name(self) -> str:
        return f"detections({self.detector.name},{self.threshold})"

    @property
    def reason(self) -> StopReason:
        return self.detector.reason

    @property
    def reach(self) -> int:
        return self.detector.reach

    @property
    def start(self) -> _State:
        return (self.detector.start, 0, 0)

    def fold(self, state: _State, seen: Seen) -> tuple[_State, int | None]:
        inner, found, step = state
        inner, count = self.detector.fold(inner, seen)
        if self._close is None and (count is None or (count >= self.threshold and step != seen.step)):
            found, step = (None if found is None or count is None else found + 1), seen.step
        return (inner, found, step), found

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        inner, found, step = state
        if self._close is not None:
            inner, count = self._close(inner, response)
            if count is None or count >= self.threshold:
                found = None if found is None or count is None else found + 1
        return (inner, found, step), found
