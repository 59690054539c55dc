"""`summary_of`: what the branches so far show, put together as the result of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from boolab.core.run_tree import descendants
from boolab.core.types import MICRO, Run
from boolab.frames.costs import micro_cost
from boolab.frames.data_set import of_set
from boolab.frames.dtypes import FLAG, INT, TEXT, cells
from boolab.stats.intervals import Interval
from boolab.trials.design import Design
from boolab.trials.estimates import Looks, known_success, looks_of, ratio_of, unknown_because
from boolab.trials.forecast import Forecast, forecast
from boolab.trials.notes import notes_of
from boolab.trials.openings import OUTCOMES, success_of
from boolab.trials.result import Effects, Estimate, TrialResult
from boolab.trials.spending import Spending

_COST, _STEPS = "extra_cost_usd", "extra_steps"


def summary_of(
    design: Design, branches: Mapping[str, Run], spending: Spending | None, *, simulated: bool
) -> TrialResult:
    """What a trial has found so far.

    `spending`: what the branches cost; None before the first.
    """
    looks, others = _looks(design, branches, design.confidence), design.others
    frame, last = of_set(looks.frame.copy(), [one.run for one in design.openings]), looks.frame.iloc[-1]
    frame[["gain", "gain_low", "gain_high"]] += [sum(others) / 2, *others]
    total = frame.iloc[-1]
    extra = {name: _estimate(last, name) for name in (_STEPS, _COST) if name in looks.frame}
    effects = _effects(design, branches, looks.done)
    unknown_costs = frozenset() if spending is None else spending.unknown
    return TrialResult(
        change=design.change.words,
        success="successes" if design.labelled else "runs that end by themselves",
        n_runs=len(design.openings),
        successes=sum(bool(one.success) for one in design.openings),
        outcomes={name: sum(one.outcome == name for one in design.openings) for name in OUTCOMES},
        bounds=design.bounds,
        other=others,
        hazards=design.hazards,
        gain=_estimate(total, "gain"),
        extra_steps=extra.get(_STEPS),
        extra_cost=extra.get(_COST),
        per_success=_per_success(design, branches, extra),
        recorded_per_success=_recorded(design, in_dollars=_COST in extra),
        n_branches=int(last["branches"]),
        n_open=len(design.order),
        n_unknown=looks.unknown.total(),
        n_beyond=looks.beyond,
        spent=0.0 if spending is None else spending.spent,
        effects=effects,
        forecast=partial(_forecast, design, looks, effects),
        confidence=design.confidence,
        simulated=simulated,
        looks=frame,
        runs=_table(design, branches),
        notes=tuple(notes_of(design, looks, n_unknown_costs=len(unknown_costs))),
        budget_stopped=spending is not None and spending.stopped,
        settings=design.change.settings,
    )


def _looks(design: Design, branches: Mapping[str, Run], confidence: float) -> Looks:
    return looks_of(design.tasks, branches, design.limits, labelled=design.labelled, confidence=confidence)


def _estimate(row: pd.Series, name: str) -> Estimate:
    value = row[name]
    return Estimate(None if pd.isna(value) else float(value), float(row[f"{name}_low"]), float(row[f"{name}_high"]))


def _per_success(design: Design, branches: Mapping[str, Run], extra: Mapping[str, Estimate]) -> Estimate | None:
    """What an additional success costs: both parts at half the error."""
    name = _COST if _COST in extra else _STEPS
    if name not in extra or not design.order:
        return None
    last = _looks(design, branches, (1 + design.confidence) / 2).frame.iloc[-1]
    added, gained = (_estimate(last, one) for one in (name, "gain"))
    low, high = ratio_of(Interval(added.low, added.high), Interval(gained.low, gained.high))
    if added.value is None or gained.value is None or gained.value <= 0:
        return Estimate(None, low, high)
    return Estimate(added.value / gained.value, low, high)


def _recorded(design: Design, *, in_dollars: bool) -> float | None:
    """What a success on record costs, in its steps: as `recommend` counts it, without requests outside of them."""
    wins = sum(bool(one.success) for one in design.openings)
    used = [_cost_of_steps(one.run) if in_dollars else one.run.n_steps for one in design.openings]
    if not wins or None in used:
        return None
    return sum(filter(None, used)) / wins / (MICRO if in_dollars else 1)


def _cost_of_steps(run: Run) -> int | None:
    costs = [micro_cost(one, one.n_steps) for one in (run, *descendants(run))]
    return None if None in costs else sum(filter(None, costs))


def _effects(design: Design, branches: Mapping[str, Run], done: int) -> Effects:
    """The results of branches, for failures and for successes on record, where they are known."""
    pairs = [
        (one.success, known_success(one, branches[one.run.run_id], design.limits, labelled=design.labelled))
        for task in design.tasks[:done]
        for one in task.openings
    ]
    known = [(before, after) for before, after in pairs if before is not None and after is not None]
    failed, won = [after for before, after in known if not before], [after for before, after in known if before]
    return Effects(len(failed), sum(failed), len(won), len(won) - sum(won))


def _forecast(design: Design, looks: Looks, effects: Effects, width: float) -> Forecast:
    tried, hazards = effects.failures + effects.successes, design.hazards
    if tried:
        share = (effects.recovered + effects.lost + 0.5) / (tried + 1)
    elif hazards.gain is not None and hazards.covered:
        share = min(0.5, max(0.02, abs(hazards.gain) / hazards.covered))
    else:
        share = 0.5  # where nothing is known, the value that takes most
    return forecast(
        design.tasks,
        [one.low for one in looks.gains],
        [one.high for one in looks.gains],
        share,
        width,
        other=design.others.high - design.others.low,
        confidence=design.confidence,
    )


def _table(design: Design, branches: Mapping[str, Run]) -> pd.DataFrame:
    """A row for each run: what the record knows, and its branch."""
    openings, labelled = design.openings, design.labelled
    found = [branches.get(one.run.run_id) for one in openings]
    why = [
        one.why if run is None else unknown_because(one, run, design.limits, labelled=labelled)
        for one, run in zip(openings, found, strict=True)
    ]
    columns: dict[str, tuple[Sequence[object], str]] = {
        "run_id": ([one.run.run_id for one in openings], TEXT),
        "task": ([one.run.task for one in openings], TEXT),
        "outcome": ([one.outcome for one in openings], TEXT),
        "stop_reason": ([one.run.stop.reason for one in openings], TEXT),
        "n_steps": ([one.run.n_steps for one in openings], INT),
        "branch_at": ([one.at if one.outcome == "open" else None for one in openings], INT),
        "success": ([one.success for one in openings], FLAG),
        "branch_id": ([None if run is None else run.run_id for run in found], TEXT),
        "branch_steps": ([None if run is None else run.n_steps for run in found], INT),
        "branch_stop_reason": ([None if run is None else run.stop.reason for run in found], TEXT),
        "branch_success": ([None if run is None else success_of(run, labelled=labelled) for run in found], FLAG),
        "unknown": ([one or None for one in why], TEXT),
    }
    return pd.DataFrame({name: cells(values, kind) for name, (values, kind) in columns.items()})
