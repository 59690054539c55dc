"""Detectors of every kind, for tests of random policies."""

from typing import Any, Final

from boolab.limits.detectors.context import CompactionThrash, ContextGrowth
from boolab.limits.detectors.cycles import Cycle
from boolab.limits.detectors.openhands import ActionStreak
from boolab.limits.detectors.similar import SimilarStreak
from boolab.limits.detectors.streaks import (
    ErrorStreak,
    FinishStreak,
    IdleStreak,
    RepeatStreak,
    RoundStreak,
    SameError,
    TimeoutStreak,
    ToolErrors,
)
from boolab.limits.detectors.text import RepeatedText
from boolab.limits.detectors.windows import CallWindow, StepRepeats, ToolWindow
from boolab.limits.detectors.wrappers import Detections

DETECTORS: Final[tuple[Any, ...]] = (
    RepeatStreak("ordered"),
    RepeatStreak("call+result"),
    Cycle("canonical"),
    Detections(Cycle("ordered"), 2),
    ActionStreak("repeating"),
    ActionStreak("failing"),
    ActionStreak("alternating"),
    ErrorStreak(),
    SameError(),
    ToolErrors(),
    TimeoutStreak(),
    IdleStreak(),
    FinishStreak("stop"),
    RoundStreak(),
    StepRepeats(3),
    ToolWindow(3),
    RepeatedText(),
)
"""The detectors of `tests.runtime.engine.test_same_records`: one more changes all of its cases."""

EVERY_DETECTOR: Final[tuple[Any, ...]] = (
    *DETECTORS,
    CallWindow(window=4),
    SimilarStreak(similarity=0.8),
    ContextGrowth(),
    CompactionThrash(),
)
