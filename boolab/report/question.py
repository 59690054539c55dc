"""What a report is asked, and the values of the limits that it compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from boolab.core.run import Run
from boolab.core.types import Identities, Scope, results_in
from boolab.frames.runs import turns_of
from boolab.harnesses.presets import get_policy
from boolab.limits.table import LIMITS, MeasureName
from boolab.stats.recommend.fixed_sequence import JOINT_AXES
from boolab.stats.recommend.question import axes_of
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.grid import settings_of
from boolab.whatif.step_table import scopes_of

MAX_USUAL: Final = 1000  # the largest cap or budget that is evaluated, unless values are given
MIN_DOOM: Final = 10  # the doom-loop thresholds reach at least this value


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is computed.

    Attributes:
        grid: Values by axis; None for all that make a difference, on the three usual axes.
        scope: Whether counters start at zero with each user message ("turn"), never ("run"), or as the harness of each
            source counts ("auto"); in a study "auto" stands only where both occur, and sources are separated.
        identity: What makes two calls the same.
        policy: The harness whose limits are evaluated: its order of precedence, its identity, and what else stops it.
        by: Columns that separate groups; () takes all runs together, None leaves them to `recommend`.
        keep: The share of successes to keep.
        confidence: That it is kept.
        objective: What to save.
        success: "label", "ended", or None for labels in the groups that have any, and "ended" in the others.
        budget: Dollars that a unit may cost, which is asked in place of successes to keep; None for these.
        share: The share of units that are to stay within it.
        unlabelled: What runs without a label are in groups that have some: see `recommend`.
        labels: A file of labels.
        trust: Sources of evidence that count as labels.
        evidence: Sources of evidence that are looked at, which is no label unless it is trusted: see `outcomes`.
        git: The repository in which evidence of git is looked for; None for that of the folder of each run.
        success_threshold: From which reward on a Harbor trial is a success: see `load_runs`.
        prices: Whether costs that logs lack are computed at list prices: see `load_runs`.
    """

    grid: Mapping[str, Sequence[Any]] | None = None
    scope: Scope = "auto"
    identity: Identities | None = None
    policy: str | None = None
    by: tuple[str, ...] | None = None
    keep: float = 0.95
    confidence: float = 0.95
    objective: MeasureName = "cost"
    success: Literal["label", "ended"] | None = None
    unlabelled: Literal["bounds", "proxy"] = "bounds"
    labels: str | None = None
    trust: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    git: str | None = None
    success_threshold: float | None = None
    prices: bool = True
    budget: float | None = None
    share: float = 0.95

    @property
    def call_identity(self) -> Identities | None:
        """What makes two calls the same; the policy's own where none is given."""
        uses_own = self.identity is not None or self.policy is None
        return self.identity if uses_own else get_policy(self.policy or "").detectors.identity

    @property
    def counting_arguments(self) -> dict[str, Any]:
        """How limits are counted: arguments of `counterfactual` and `recommend`."""
        return {"scope": self.scope, "policy": self.policy, "identity": self.identity}


def searched_grid(question: Question) -> dict[str, list[Any]] | None:
    """The grid that a recommendation chooses from, in its fixed order; of the usual axes, those of the policy."""
    order = (*JOINT_AXES, *(axis for axis in LIMITS if axis not in JOINT_AXES))
    full_grid = question.grid or {}
    on_values = {axis: [value for value in full_grid[axis] if value is not None] for axis in order if axis in full_grid}
    grid = {axis: values for axis, values in on_values.items() if values}
    if not grid or question.policy is None:
        return grid or None
    policy_axes = axes_of(get_policy(question.policy))
    return {axis: values for axis, values in grid.items() if axis in policy_axes or axis not in JOINT_AXES} or grid


def usual_grid(runs: Sequence[Run], question: Question) -> dict[str, list[int]]:
    """All values that can make a difference."""
    scopes = scopes_of([run.source for run in runs], question.scope)
    parts = [
        steps
        for run, scope in zip(runs, scopes, strict=True)
        for steps in ([list(run.steps)] if scope == "run" else [s for _, s in turns_of(run)])
    ]
    steps = max((len(part) for part in parts), default=0)
    calls = max((len([*results_in(part)]) for part in parts), default=0)
    return {
        "max_steps": [*range(1, min(max(steps, 1), MAX_USUAL) + 1)],
        "tool_budget": [*range(1, min(calls + 1, MAX_USUAL) + 1)],
        "doom_loop": [*range(2, min(max(_longest_repeat(runs, question) + 1, MIN_DOOM), MAX_USUAL) + 1)],
    }


def _longest_repeat(runs: Sequence[Run], question: Question) -> int:
    """How often the same call comes in a row at most, as far as the source records it."""
    rule = settings_of({"doom_loop": [2]}, identity=question.call_identity).axes[0].rules[0]
    assert rule.detector is not None  # noqa: S101 - repeats are what a detector counts
    peaks = ledger_of(runs, [rule.detector], question.scope).peak(rule.counter)
    known_peaks = peaks[peaks < np.iinfo(np.int64).max]
    return int(known_peaks.max(initial=0))
