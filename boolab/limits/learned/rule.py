"""A learned rule: a threshold on the score of a model, with what was promised and what it was learned from.

The count of its detector, `LearnedRisk`, is the score of the run so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, TypeAlias

from boolab.core.types import Response, StopReason
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detector import Detector
from boolab.limits.learned.features import FeatureReader, State
from boolab.limits.learned.models import ScoreModel, score_of
from boolab.limits.stop import Threshold

_State: TypeAlias = tuple[State, int]


@dataclass(frozen=True, slots=True)
class LearnedRisk:
    """How much a run looks like those that failed: the score of a model, in billionths, after each step.

    The score is that of the latest completed step; it is 0 before the first one.

    Attributes:
        model: The model, with the names of the features that it takes.
        detectors: The detectors among its features.
    """

    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 1
    handles_unknown_arguments: ClassVar[bool] = True
    """Its features are missing there, as they were where the model was fitted."""

    model: ScoreModel
    detectors: tuple[Detector, ...] = ()
    name: str = field(init=False, compare=False)
    start: _State = field(init=False, repr=False, compare=False)
    _reader: FeatureReader = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reader = FeatureReader(self.model.features, self.detectors)
        object.__setattr__(self, "_reader", reader)
        object.__setattr__(self, "start", (reader.start, 0))
        object.__setattr__(self, "name", f"learned_risk:{digest_of(self.model)}")

    def __reduce__(self) -> tuple[type[LearnedRisk], tuple[ScoreModel, tuple[Detector, ...]]]:
        """Pickle the model and the detectors: the readers are functions, made anew."""
        return LearnedRisk, (self.model, self.detectors)

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int]:
        inner, score = state
        return (self._reader.fold(inner, call), score), score

    def close(self, state: _State, response: Response) -> tuple[_State, int]:
        inner = self._reader.close(state[0], response)
        score = score_of(self.model.log_odds(self._reader.values(inner)))
        return (inner, score), score


def digest_of(model: ScoreModel) -> str:
    """Eight hex digits that name a model: equal models have the same."""
    return blake2b(repr(model).encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised about the successes that a rule keeps.

    Attributes:
        keep: The share to keep.
        confidence: The probability that this very rule keeps it; None if it is kept on average over rules.
        calibration_tasks: How many tasks with a success the threshold was set on; the model has not seen them.
    """

    keep: float
    confidence: float | None
    calibration_tasks: int

    def __str__(self) -> str:
        """The promise in one sentence."""
        if self.confidence is None:
            return (
                "On average over rules learned like this one, a success of a new task is kept with probability "
                f"{100 * self.keep:.6g}% or more."
            )
        return (
            f"With probability {100 * self.confidence:.6g}% or more, this rule keeps all successes of at least "
            f"{100 * self.keep:.6g}% of the tasks that have one, where tasks are like these and run as often."
        )


@dataclass(frozen=True, slots=True)
class LearnedFrom:
    """The runs that a rule was learned from.

    Attributes:
        runs: How many.
        successes: How many of them succeeded.
        tasks: The number of tasks, or of other clusters.
        steps: The steps of all.
        sha256: The digest of their ids, tasks, labels and features.
        cluster: What the tasks are: `task`, or another column of the runs.
    """

    runs: int
    successes: int
    tasks: int
    steps: int
    sha256: str
    cluster: str = "task"


@dataclass(frozen=True, slots=True, repr=False)
class LearnedRule(Threshold):
    """A stop rule like any other, which `bl.learn_stop` makes: the score of a run so far has reached a threshold.

    It can be combined, run live and in shadow, and evaluated offline. `print(rule.report)` shows what it does.

    Attributes:
        reason: The stop reason: `stuck`.
        counter: The name of the score among the counters.
        threshold: The score that stops a run: an estimate of failure, in billionths.
        label: Its name in tables.
        on_unknown: Has no effect: a score is always known.
        detector: What counts the score, with the model; see `risk`.
        promise: What is promised about the successes that it keeps.
        learned_from: The runs that it was learned from.
        report: What it saves and keeps on held-out tasks; None of a rule that was read from a file.
    """

    promise: Promise | None = None
    learned_from: LearnedFrom | None = None
    report: Any = field(default=None, repr=False, compare=False)

    @property
    def risk(self) -> LearnedRisk:
        """The detector, with the model."""
        assert isinstance(self.detector, LearnedRisk)  # noqa: S101 - `learned_rule` makes no other
        return self.detector

    def __str__(self) -> str:
        return self.label

    def _repr_html_(self) -> str:
        """The report, in a notebook."""
        return "" if self.report is None else str(self.report._repr_html_())


def learned_rule(
    risk: LearnedRisk, threshold: int, promise: Promise, learned_from: LearnedFrom, report: object = None
) -> LearnedRule:
    """The rule that stops a run whose score is a threshold or more."""
    label = f"learn_stop({risk.model.kind}, {promise.keep:g}, {promise.confidence}, {digest_of(risk.model)})"
    return LearnedRule(
        risk.reason,
        risk.name,
        threshold,
        label,
        "error",
        risk,
        promise=promise,
        learned_from=learned_from,
        report=report,
    )
