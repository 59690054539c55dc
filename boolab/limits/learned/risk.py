"""The detector of a learned rule: its count is the score of the run so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import ClassVar, TypeAlias

from boolab.core.types import Response, StopReason
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detector import Detector
from boolab.limits.learned.features import Reader, State
from boolab.limits.learned.models import Model, score_of

_State: TypeAlias = tuple[State, int]


@dataclass(frozen=True, slots=True)
class LearnedRisk:
    """How much a run looks like those that failed: the score of a model, in billionths, after each step.

    The score is that of the latest completed step; it is 0 before the first one.

    Attributes:
        model: The model, with the names of the features that it takes.
        detectors: The detectors among its features.

    Example:
        >>> import boolab as bl
        >>> from boolab.core.types import Response, ToolResult
        >>> from boolab.limits.detector_bank import Watch
        >>> from boolab.limits.learned.models import LinearModel
        >>> risk = LearnedRisk(LinearModel(("calls_streak",), (2.0,), -2.0, (0.7,)))
        >>> watch, counts = Watch([risk]), {}
        >>> scores = []
        >>> for n in "123":
        ...     call = bl.models.ToolCall(n, "ls", "{}")
        ...     _ = watch.complete(Response("", (call,)), [ToolResult(n, "x")], counts)
        ...     scores.append(counts[risk.name])
        >>> scores
        [351214356, 549146940, 684080620]
    """

    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 1
    handles_unknown_arguments: ClassVar[bool] = True
    """Its features are missing there, as they were where the model was fitted."""

    model: Model
    detectors: tuple[Detector, ...] = ()
    name: str = field(init=False, compare=False)
    start: _State = field(init=False, repr=False, compare=False)
    _reader: Reader = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reader = Reader(self.model.features, self.detectors)
        object.__setattr__(self, "_reader", reader)
        object.__setattr__(self, "start", (reader.start, 0))
        object.__setattr__(self, "name", f"learned_risk:{digest_of(self.model)}")

    def __reduce__(self) -> tuple[type[LearnedRisk], tuple[Model, tuple[Detector, ...]]]:
        """Pickle the model and the detectors: the readers are functions, made anew."""
        return LearnedRisk, (self.model, self.detectors)

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int]:
        inner, score = state
        return (self._reader.fold(inner, call), score), score

    def close(self, state: _State, response: Response) -> tuple[_State, int]:
        inner = self._reader.close(state[0], response)
        score = score_of(self.model.log_odds(self._reader.values(inner)))
        return (inner, score), score


def digest_of(model: Model) -> str:
    """Eight hex digits that name a model: equal models have the same."""
    return blake2b(repr(model).encode(), digest_size=4).hexdigest()
