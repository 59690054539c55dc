"""Counts of detectors from columns: the same as their folds give, whatever the scopes and the steps that count."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.core.run import Run
from boolab.core.types import Step, Stop
from boolab.frames.runs import with_equal_arguments
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detector import Detector
from boolab.limits.detectors.cycles import Cycle
from boolab.limits.detectors.streaks import (
    ErrorStreak,
    IdleStreak,
    RepeatStreak,
    RoundStreak,
    TimeoutStreak,
    ToolErrors,
)
from boolab.limits.detectors.text import TextContains
from boolab.limits.detectors.windows import StepRepeats, ToolWindow
from boolab.limits.detectors.wrappers import Detections, PerMessage, Rearmed
from boolab.limits.ladder import Watch
from boolab.whatif.detector_columns import is_columnar
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.step_table import UNKNOWN
from tests.limits.test_detector_folds import ALL, STEPS
from tests.support.cases import cases

MORE: list[Detector] = [
    *(ToolWindow(window, tool) for window in (1, 3) for tool in (None, "t", "gone")),
    *(StepRepeats(window) for window in (1, 2, 3)),
    *(RoundStreak(identity) for identity in ("tool", "call+result")),
    RoundStreak("ordered", (("u", None),)),
    Cycle("call+result", period=2),
    Cycle("raw", (("t", "call+result"), ("u", "tool"))),
    TimeoutStreak(),
    TextContains("so"),
    PerMessage(ErrorStreak()),
    PerMessage(ToolErrors()),
    Detections(IdleStreak(), 1),
    Detections(ErrorStreak(), 2),
    Detections(Detections(RepeatStreak(), 2), 2),
    Detections(Rearmed(RepeatStreak(), 2), 2),
]
DETECTORS = list(dict.fromkeys([*ALL, *MORE]))
FOLDED = {
    *("repeated_text", "rearmed", "per_message(tool_errors)", "detections(rearmed"),
    *("similar_streak", "context_growth", "compaction_thrash"),
}


def folded(run: Run, detectors: list[Detector], scope: str) -> dict[str, list[int]]:
    """The counts after each step as the live loop counts."""
    counts: dict[str, int | None] = {}
    out: dict[str, list[int]] = {detector.name: [] for detector in detectors}
    watch = Watch()
    for place, step in enumerate(run.steps):
        if not place or (scope == "turn" and step.turn != run.steps[place - 1].turn):
            watch, counts = Watch(detectors), dict.fromkeys(out, 0)
        if step.counted:
            watch.complete(step.response, step.results, counts)
        for name, listed in out.items():
            count = counts[name]
            listed.append(UNKNOWN if count is None else count)
    return out


@st.composite
def runs(draw: Any) -> list[Run]:
    """Runs of several turns, some steps of which do not count."""
    made = []
    for number in range(draw(st.integers(1, 3))):
        steps: list[Step] = []
        for turn in range(1, draw(st.integers(1, 3)) + 1):
            for response, results in draw(STEPS):
                counted = draw(st.sampled_from([True, True, True, False]))
                made_of = (len(steps) + 1, turn, 0, 0, 0, response, results)
                steps.append(Step(*made_of, counted=counted))
        made.append(Run(run_id=str(number), agent="", model="", policy="", task="", stop=Stop("aborted", 0),
                        steps=tuple(steps)))  # fmt: skip
    return made


@cases(150)
@given(runs(), st.sampled_from(["turn", "run"]))
def test_counts_from_columns_are_those_of_the_folds(given_runs: list[Run], scope: Any) -> None:
    ledger = ledger_of(given_runs, DETECTORS, scope)
    for place, run in enumerate(given_runs):
        steps = slice(ledger.first[place], ledger.first[place + 1])
        found = {detector.name: ledger.counters[detector.name][steps].tolist() for detector in DETECTORS}
        assert found == known(folded(run, DETECTORS, scope), folded(with_equal_arguments(run) or run, DETECTORS, scope))


def known(least: Mapping[str, list[int]], most: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """The counts on which both agree; the others depend on arguments that are not on record."""
    return {
        name: [low if low == high else UNKNOWN for low, high in zip(lows, most[name], strict=True)]
        for name, lows in least.items()
    }


def test_all_but_a_few_detectors_are_counted_from_columns() -> None:
    names = [detector.name for detector in DETECTORS if not is_columnar(detector)]
    assert all(any(name.startswith(one) for one in FOLDED) for name in names)


@dataclass(frozen=True)
class Halved(RepeatStreak):
    """A detector of a user, which counts in another way than the one that it is made of."""

    least: ClassVar[int] = 1

    def fold(self, state: Any, call: ObservedCall) -> Any:
        state, count = super().fold(state, call)
        return state, count // 2


@pytest.mark.parametrize("detector", [Halved(), PerMessage(Halved()), Detections(Halved(), 1)])
def test_a_subclass_is_folded_in_its_own_way(detector: Detector) -> None:
    assert not is_columnar(detector)


def test_runs_without_steps_or_calls_have_no_counts() -> None:
    empty = Run(run_id="", agent="", model="", policy="", task="", stop=Stop("aborted", 0), steps=())
    for rows in ([], [empty], [empty, empty]):
        ledger = ledger_of(rows, DETECTORS)
        assert all(np.array_equal(ledger.counters[detector.name], []) for detector in DETECTORS)
