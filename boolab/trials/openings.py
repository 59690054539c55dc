"""What a recording knows of a change: which runs it leaves as they were, which it truncates, and which are open.

A run is open if what would have followed under the change is not on record: the limit that stopped it is looser, or the
model would have got another request. Then it is also known from which step on, and until there the run stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pandas as pd

from boolab.core.endings import missing_reason, proxy_success
from boolab.core.run import Run
from boolab.core.types import StopReason
from boolab.errors import SettingError
from boolab.frames.dtypes import is_missing
from boolab.frames.runs import with_subagents
from boolab.harnesses.policy import DEFAULT, Policy
from boolab.harnesses.presets import get_policy, policies
from boolab.runtime.agents.agent import Agent
from boolab.trials.change import REASONS, TrialChange, leaves_unchanged
from boolab.whatif.evaluate import counterfactual
from boolab.whatif.policy_limits import check_identified

Outcome: TypeAlias = Literal["unchanged", "truncated", "open", "unknown"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("unchanged", "truncated", "open", "unknown")


class Opening(NamedTuple):
    """What the recording knows of a run under the change."""

    run: Run
    # `unchanged`: the change does not reach it. `truncated`: the change stops it earlier. `open`: what would have
    # followed is not on record. `unknown`: see `why`
    outcome: Outcome
    n_kept: int  # how many of its first steps stay as they are, where it is `open`
    success: bool | None  # whether it is a success on record; None where it is not labelled and others are
    low: int  # what the change makes of its success at least: -1 (lost), 0 or 1 (gained)
    high: int  # at most, likewise
    # why the outcome is unknown and no branch can find it: a `counter` is not on record, the change ends a `turn` that
    # others follow, or the run waits for its `user`; "" else
    why: str = ""

    @property
    def cluster(self) -> str:
        """Its task; the run itself where no task is named."""
        return self.run.task or self.run.run_id


def openings_of(
    runs: Sequence[Run], change: TrialChange, agents: Mapping[str, Agent], subagent_runs: Sequence[Run] = ()
) -> list[Opening]:
    """What the recording knows of each run; what runs of subagents used counts for their callers."""
    rows: dict[str, _EvaluatedRun] = {}
    for policy, group in _group_by_policy(runs, agents):
        rows |= {run.run_id: row for run, row in _evaluate(policy, group, change, subagent_runs)}
    labelled = any(run.success is not None for run in runs)
    return [
        Opening(run, "unchanged", run.n_steps, success_of(run, labelled=labelled), 0, 0)
        if leaves_unchanged(run, change, agents)
        else _opening(run, rows[run.run_id], change, harness_of(run, agents), labelled=labelled)
        for run in runs
    ]


def success_of(run: Run, *, labelled: bool) -> bool | None:
    """Whether a run is a success: by its label, or, where no run has one, because it ended by itself."""
    return run.success if labelled else proxy_success(run)


class RunHarness(NamedTuple):
    """What a run was made under, as far as it is known: its policy, and its cap on steps."""

    policy: Policy | None
    cap: int | None

    @property
    def informs(self) -> bool:
        """Whether the model gets a request from which it may learn of its cap."""
        policy = self.policy
        if policy is None:
            return False
        return policy.last_step.reminder != "none" or policy.last_step.action != "tools" or self.is_soft

    @property
    def is_soft(self) -> bool:
        """Whether its cap gives the model a message, and the turn continues."""
        return self.policy is not None and self.policy.cap.kind == "soft"

    @property
    def informs_after_cap(self) -> bool:
        """Whether the request from which the model may learn of the cap is the one beyond it."""
        return self.policy is not None and (self.policy.last_step.action == "grace" or not self.policy.last_step.in_cap)


def harness_of(run: Run, agents: Mapping[str, Agent]) -> RunHarness:
    """What a run was made under: its agent, if the caller has it, else what is on record."""
    agent = agents.get(run.agent)
    policy = get_policy(agent.policy) if agent is not None else policies.get(run.policy)
    cap = run.limits.get("steps")
    if cap is None and agent is not None and policy is not None:
        cap = policy.effective(agent.settings).get("max_steps")
    if policy is not None and policy.cap.kind == "soft":  # the record has the ceiling alone
        requested_cap = agent.max_steps if agent is not None else run.settings.get("max_steps", DEFAULT)
        cap = policy.effective({"max_steps": requested_cap}).get("max_steps")
    return RunHarness(policy, cap)


def steps_before_cap(run: Run, harness: RunHarness) -> int:
    """How many first steps of a run, at most, got the requests that they would have got under another limit.

    A policy may inform the model of its cap: in each request, or in the last one under the cap. A response may have
    been dropped, too, because it was the one beyond the limit.
    """
    policy, cap = harness
    n_kept = run.n_steps
    if policy is not None and policy.last_step.reminder != "none":
        return 0
    if policy is not None and cap is not None and harness.informs:
        n_kept = min(n_kept, cap if harness.informs_after_cap else cap - 1)
    while n_kept and n_kept == run.n_steps and _cannot_continue(run):
        n_kept -= 1
    return n_kept


def _cannot_continue(run: Run) -> bool:
    """Whether a branch has to make the last step anew: it broke off, or its calls were not executed."""
    last = run.steps[-1]
    dropped = bool(last.response.tool_calls) and not any(last.results)
    return dropped or bool(missing_reason(run, last))


def _group_by_policy(runs: Iterable[Run], agents: Mapping[str, Agent]) -> list[tuple[Policy | None, list[Run]]]:
    groups: list[tuple[Policy | None, list[Run]]] = []
    for run in runs:
        policy = harness_of(run, agents).policy
        for other, group in groups:
            if other == policy:
                group.append(run)
                break
        else:
            groups.append((policy, [run]))
    return groups


class _EvaluatedRun(NamedTuple):
    """One run under the change, while its own limits are kept, and while they are lifted."""

    under_own_limits: Mapping[str, Any]
    without_limits: Mapping[str, Any]


def _evaluate(
    policy: Policy | None, runs: list[Run], change: TrialChange, subagent_runs: Sequence[Run]
) -> Iterable[tuple[Run, _EvaluatedRun]]:
    question: dict[str, Any] = {"policy": _usable_policy(policy, [*change.settings])}
    if change.settings:
        question["grid"] = {name: [value] for name, value in change.settings.items()}
    elif change.rule is not None:
        question = {"rules": [change.rule]}
    elif _usable_policy(change.policy, ["max_steps"]) is None:  # each request differs
        no_answer: dict[str, Any] = {"outcome": "not_identified", "stop_step": 0}
        return [(run, _EvaluatedRun(no_answer, no_answer)) for run in runs]
    else:
        question = {"policy": change.policy}
    families = with_subagents([*runs, *subagent_runs])
    tables = [
        {str(row["run_id"]): row for row in _rows(counterfactual(families, own_limits=own_limits, **question))}
        for own_limits in ("kept", "lifted")
    ]
    return [(run, _EvaluatedRun(*(table[run.run_id] for table in tables))) for run in runs]


def _usable_policy(policy: Policy | None, axes: Sequence[str]) -> Policy | None:
    """The policy, if recordings can be evaluated under it."""
    if policy is None:
        return None
    try:
        check_identified(policy, axes)
    except SettingError:
        return None
    return policy


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.itertuples(index=False, name=None)]


def _opening(run: Run, row: _EvaluatedRun, change: TrialChange, harness: RunHarness, *, labelled: bool) -> Opening:
    success = success_of(run, labelled=labelled)
    evaluated = row.under_own_limits if change.settings else row.without_limits
    outcome, n_kept = _outcome(run, row, evaluated, change, harness)
    if outcome == "unchanged":
        return Opening(run, outcome, run.n_steps, success, 0, 0)
    if outcome == "truncated":
        table = row.under_own_limits if row.under_own_limits["outcome"] == "truncated" else row.without_limits
        return Opening(run, outcome, int(table["stop_step"]), success, *_bounds(table, success))
    low, high = (-1, 1) if success is None else (-int(success), int(not success))
    reason = "counter" if evaluated["outcome"] == "unknown" else "turn"
    return Opening(run, outcome, n_kept, success, low, high, reason if outcome == "unknown" else "")


def _bounds(row: Mapping[str, Any], success: bool | None) -> tuple[int, int]:
    """What an earlier stop makes of a success at least and at most; a failure stays one."""
    if success is False:
        return 0, 0
    lower, upper = row["kept_lower"], row["kept_upper"]
    return (-1 if is_missing(lower) else int(lower) - 1, 0 if is_missing(upper) else int(upper) - 1)


def _outcome(
    run: Run, row: _EvaluatedRun, evaluated: Mapping[str, Any], change: TrialChange, harness: RunHarness
) -> tuple[Outcome, int]:
    replaced = not change.settings
    n_before = steps_before_cap(run, harness)
    informed = harness.informs and n_before < run.n_steps and (replaced or "max_steps" in change.settings)
    if evaluated["outcome"] == "unknown":
        return "unknown", 0
    if evaluated["outcome"] == "not_identified":
        step = evaluated["stop_step"]
        single = run.steps[-1].turn == 1 if run.steps else True
        return ("open", min(int(step), n_before)) if single and not is_missing(step) else ("unknown", 0)
    if evaluated["outcome"] == "truncated":
        stop = int(evaluated["stop_step"])
        if harness.is_soft and [*change.settings] == ["max_steps"]:  # such a cap stops no run: it informs the model
            return "open", min(n_before, stop if harness.informs_after_cap else stop - 1)
        return ("open", n_before) if informed and n_before < stop else ("truncated", 0)
    if informed:
        return "open", n_before
    reason = _reason(run, harness)
    if row.without_limits["outcome"] == "truncated":
        return ("truncated", 0) if change.lifts(reason) else ("unchanged", 0)
    other_axes = {REASONS.get(reason) for reason in run.stop.also_fired}
    is_held = not replaced and any(axis is not None and axis not in change.settings for axis in other_axes)
    if row.without_limits["outcome"] == "censored" and change.lifts(reason) and not is_held:
        return "open", n_before
    return "unchanged", 0


def _reason(run: Run, harness: RunHarness) -> StopReason:
    """Why a run ended: a log may lack the limit that stopped it, but not that it broke off where its cap is."""
    last = sum(step.turn == run.steps[-1].turn for step in run.steps) if run.steps else 0
    return "step_cap" if run.stop.reason == "aborted" and harness.cap == last > 0 else run.stop.reason
