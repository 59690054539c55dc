"""`summary_of`: what the branches so far show, put together as the result of a trial, with its notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pandas as pd

from boolab.core.run_tree import descendants
from boolab.core.text import clip, count, flat
from boolab.core.types import MICRO, Run
from boolab.frames.costs import micro_cost
from boolab.frames.data_set import of_set
from boolab.frames.dtypes import FLAG, INT, TEXT, cells
from boolab.stats.intervals import Interval
from boolab.trials.change import UNNAMED_POLICY
from boolab.trials.design import Design
from boolab.trials.estimates import (
    Forecast,
    Looks,
    forecast,
    known_success,
    looks_of,
    openings_in,
    ratio_of,
    unknown_because,
)
from boolab.trials.openings import OUTCOMES, success_of
from boolab.trials.result import Effects, Estimate, TrialResult
from boolab.trials.spending import Spending

_ERROR_CHARS: Final = 120
_WHY: Final = {
    "broke off": "{n} broke off{error}",
    "cost_limit": "{n} reached cost_limit without a success (a larger one makes them fewer)",
    "no label": "{n} ended without a label (pass score=)",
    "no label on record": "{n} continued a run without a label on record",
}


def notes_of(design: Design, looks: Looks, *, n_unknown_costs: int) -> Iterator[str]:
    """The notes of a trial."""
    openings = design.openings
    by_outcome = {name: sum(one.outcome == name for one in openings) for name in ("unchanged", "truncated", "unknown")}
    counter, turn, user = (sum(one.why == why for one in openings) for why in ("counter", "turn", "user"))
    unknown = f"; for {counter:,} a counter is not on record" if counter else ""
    unknown += f"; in {turn:,} it ends a turn that others follow, which a branch does not have" if turn else ""
    waits = "1 waits for a message of its user" if user == 1 else f"{user:,} wait for a message of their user"
    unknown += f"; {waits}, which a branch does not have" if user else ""
    as_was = "it was" if by_outcome["unchanged"] == 1 else "they were"
    yield (
        f"Of {count(len(openings), 'run')} on record the change leaves {by_outcome['unchanged']:,} as {as_was}, "
        f"truncates {by_outcome['truncated']:,}, and leaves {len(design.order):,} open{unknown}."
    )
    if design.n_left_out:
        left_out = "1 is" if design.n_left_out == 1 else f"{design.n_left_out:,} are"
        yield f"Runs of subagents are not tried by themselves: {left_out} left out."
    if not design.labelled:
        unused = " So score= is not used: label the runs (set Run.success)." if design.job.score is not None else ""
        yield f"No run has a label: a success is a run that ended by itself.{unused}"
    unnamed = sum(not one.run.policy and one.run.agent not in design.agents for one in design.order)
    if unnamed:
        yield (
            f"{count(unnamed, 'open run')} without the name of a policy: branches run under {UNNAMED_POLICY}, with the "
            "limits on record. Pass agent= to run them under your own."
        )
    if design.hazards.left_out and design.hazards.gain is not None:
        yield f"Hazards leave out {design.hazards.left_out}."
    if design.hazards.reach is not None:
        yield f"Hazards reach only to {design.hazards.reach:,.6g}: no run on record went further."
    ended = sum(one.run.stop.reason == "aborted" and one.outcome == "unchanged" for one in openings)
    if ended:
        stays, them = ("it stays as it is", "it") if ended == 1 else ("they stay as they are", "them")
        yield (
            f"{count(ended, 'run')} broke off, and the record names no limit that did it: {stays}. If a cap stopped "
            f"{them}, pass the agent with that cap as agent=."
        )
    yield from _of_branches(looks, n_unknown_costs, has_limit=design.job.cost_limit is not None)


def _of_branches(looks: Looks, n_unknown_costs: int, *, has_limit: bool) -> Iterator[str]:
    n = looks.unknown.total()
    if n:
        error = f" (the first: {clip(flat(looks.error), _ERROR_CHARS)})" if looks.error else ""
        why = ", ".join(
            text.format(n=f"{looks.unknown[name]:,}", error=error) for name, text in _WHY.items() if looks.unknown[name]
        )
        yield (
            f"The outcome of {count(n, 'branch', 'branches')} is unknown: {why}. The lower ends count each as the "
            "worst, the upper ends as the best that it can be."
        )
    if looks.beyond:
        goes, counts = ("value goes", "counts as it is") if looks.beyond == 1 else ("values go", "count as they are")
        yield (
            f"{looks.beyond:,} {goes} beyond the stated maximum, and {counts}. Of a cost there is no upper end before "
            "all open runs are branched."
        )
    if n_unknown_costs:
        report, counts = ("1 branch reports", "counts") if n_unknown_costs == 1 else (
            f"{n_unknown_costs:,} branches report", "count"
        )  # fmt: skip
        yield f"{report} no cost, and {counts} as {'cost_limit' if has_limit else '$0'} in what is spent."


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
        (opening.success, known_success(opening, branches[opening.run.run_id], design.limits, labelled=design.labelled))
        for opening in openings_in(design.tasks[:done])
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
