"""Detectors around another detector: they change where it starts again from its start, or what is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from boolab.core.types import Response, StopReason
from boolab.io.checks import check_whole
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detector import Close, Compact, Detector, check_detector, close_method, compact_method

_State: TypeAlias = tuple[Any, ...]


def _max_known(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


@dataclass(frozen=True, slots=True)
class _Around:
    """What all detectors around another detector share."""

    detector: Detector
    _close: Close | None = field(init=False, repr=False, compare=False)
    _compact: Compact | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_detector(self.detector)
        object.__setattr__(self, "_close", close_method(self.detector))
        object.__setattr__(self, "_compact", compact_method(self.detector))

    @property
    def reason(self) -> StopReason:
        return self.detector.reason

    @property
    def least(self) -> int:
        return self.detector.least

    def compact(self, state: _State, times: int | None) -> _State:
        """The state of the detector in it comes first."""
        return state if self._compact is None else (self._compact(state[0], times), *state[1:])


@dataclass(frozen=True, slots=True)
class PerMessage(_Around):
    """A detector that starts again with each response, so that it finds only what is within one message.

    At the end of a step its count is the highest that it had in the step. Source: opencode V1, which compares the calls
    of the current assistant message only (issue 25254).
    """

    @property
    def name(self) -> str:
        return f"per_message({self.detector.name})"

    @property
    def start(self) -> _State:
        return (self.detector.start, 0)

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int | None]:
        inner, highest = state
        inner, count = self.detector.fold(inner, call)
        return (inner, _max_known(highest, count)), count

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        inner, highest = state
        close = self._close
        if close is not None:
            highest = _max_known(highest, close(inner, response)[1])
        return self.start, highest


@dataclass(frozen=True, slots=True)
class Rearmed(_Around):
    """A detector that starts again when its count has reached a threshold.

    At the end of a step in which it did, the count is that threshold. Source: Roo Code, which resets its counter when
    it has blocked a call.

    Attributes:
        detector: The detector.
        threshold: The count at which it starts again.
    """

    threshold: int

    def __post_init__(self) -> None:
        _Around.__post_init__(self)
        check_whole(self.threshold, f"rearmed: {self.detector.name}", self.detector.least)

    @property
    def name(self) -> str:
        return f"rearmed({self.detector.name},{self.threshold})"

    @property
    def start(self) -> _State:
        return (self.detector.start, 0, 0)

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int | None]:
        inner, _, fired = state
        inner, count = self.detector.fold(inner, call)
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
class Detections(_Around):
    """In how many steps so far a detector's count was at or over a threshold.

    A step counts once, whatever else it calls. After an unknown count it stays unknown. Source: Gemini CLI, which
    nudges at the first detection in a prompt and stops at the second.

    Attributes:
        detector: The detector.
        threshold: The lowest count that is a detection.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.Detections(bl.detectors.Cycle("ordered"), 5).name
        'detections(cycle:1-5:ordered,5)'
    """

    meaning: ClassVar[str] = "how often a cycle of calls was found"

    threshold: int

    def __post_init__(self) -> None:
        _Around.__post_init__(self)
        check_whole(self.threshold, f"detections: {self.detector.name}", self.detector.least)

    @property
    def name(self) -> str:
        return f"detections({self.detector.name},{self.threshold})"

    @property
    def least(self) -> int:
        return 1

    @property
    def start(self) -> _State:
        return (self.detector.start, 0, 0)

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int | None]:
        inner, n_detections, step = state
        inner, count = self.detector.fold(inner, call)
        if self._close is None and (count is None or (count >= self.threshold and step != call.step)):
            n_detections, step = (None if n_detections is None or count is None else n_detections + 1), call.step
        return (inner, n_detections, step), n_detections

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        inner, n_detections, step = state
        if self._close is not None:
            inner, count = self._close(inner, response)
            if count is None or count >= self.threshold:
                n_detections = None if n_detections is None or count is None else n_detections + 1
        return (inner, n_detections, step), n_detections
