"""`summary_of`: what the branches so far show, put together as the result of a trial, with its notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pandas as pd

from boolab.core.run import Run
from boolab.core.run_tree import descendants
from boolab.core.text import clip, count, flatten
from boolab.core.types import MICRO
from boolab.frames.data_set import attach_set
from boolab.frames.dtypes import FLAG, INT, TEXT, cells
from boolab.frames.runs import micro_cost
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
    unknown_reason,
)
from boolab.trials.openings import OUTCOMES, success_of
from boolab.trials.result import Effects, TrialEstimate, TrialResult
from boolab.trials.spending import Spending

_ERROR_CHARS: Final = 120
_UNKNOWN_REASONS: Final = {
    "broke off": "{n} broke off{error}",
    "cost_limit": "{n} reached cost_limit without a success (a larger one makes them fewer)",
    "no label": "{n} ended without a label (pass score=)",
    "no label on record": "{n} continued a run without a label on record",
}


def notes_of(design: Design, looks: Looks, *, n_unknown_costs: int) -> Iterator[str]:
    """The notes of a trial."""
    openings = design.openings
    by_outcome = {
        name: sum(opening.outcome == name for opening in openings) for name in ("unchanged", "truncated", "unknown")
    }
    counter, turn, user = (sum(opening.why == reason for opening in openings) for reason in ("counter", "turn", "user"))
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
    unnamed = sum(not opening.run.policy and opening.run.agent not in design.agents for opening in design.order)
    if unnamed:
        yield (
            f"{count(unnamed, 'open run')} without the name of a policy: branches run under {UNNAMED_POLICY}, with the "
            "limits on record. Pass agent= to run them under your own."
        )
    if design.hazards.left_out and design.hazards.gain is not None:
        yield f"Hazards leave out {design.hazards.left_out}."
    if design.hazards.reach is not None:
        yield f"Hazards reach only to {design.hazards.reach:,.6g}: no run on record went further."
    ended = sum(opening.run.stop.reason == "aborted" and opening.outcome == "unchanged" for opening in openings)
    if ended:
        stays, pronoun = ("it stays as it is", "it") if ended == 1 else ("they stay as they are", "them")
        yield (
            f"{count(ended, 'run')} broke off, and the record names no limit that did it: {stays}. If a cap stopped "
            f"{pronoun}, pass the agent with that cap as agent=."
        )
    yield from _branch_notes(looks, n_unknown_costs, has_limit=design.job.cost_limit is not None)


def _branch_notes(looks: Looks, n_unknown_costs: int, *, has_limit: bool) -> Iterator[str]:
    n = looks.unknown_by_reason.total()
    if n:
        error = f" (the first: {clip(flatten(looks.error), _ERROR_CHARS)})" if looks.error else ""
        reasons = ", ".join(
            text.format(n=f"{looks.unknown_by_reason[name]:,}", error=error)
            for name, text in _UNKNOWN_REASONS.items()
            if looks.unknown_by_reason[name]
        )
        yield (
            f"The outcome of {count(n, 'branch', 'branches')} is unknown: {reasons}. The lower ends count each as the "
            "worst, the upper ends as the best that it can be."
        )
    if looks.n_beyond:
        verb, counts = ("value goes", "counts as it is") if looks.n_beyond == 1 else ("values go", "count as they are")
        yield (
            f"{looks.n_beyond:,} {verb} beyond the stated maximum, and {counts}. Of a cost there is no upper end "
            "before all open runs are branched."
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
    """What a trial has found so far; without `spending` before the first branch."""
    looks, other_gain = _looks(design, branches, design.confidence), design.closed_gain
    frame, last = attach_set(looks.frame.copy(), [opening.run for opening in design.openings]), looks.frame.iloc[-1]
    frame[["gain", "gain_low", "gain_high"]] += [sum(other_gain) / 2, *other_gain]
    total = frame.iloc[-1]
    extra = {name: _estimate(last, name) for name in (_STEPS, _COST) if name in looks.frame}
    effects = _effects(design, branches, looks.n_done)
    unknown_costs = frozenset() if spending is None else spending.unknown
    return TrialResult(
        change=design.change.label,
        success="successes" if design.labelled else "runs that end by themselves",
        n_runs=len(design.openings),
        successes=sum(bool(opening.success) for opening in design.openings),
        outcomes={name: sum(opening.outcome == name for opening in design.openings) for name in OUTCOMES},
        bounds=design.bounds,
        other=other_gain,
        hazards=design.hazards,
        gain=_estimate(total, "gain"),
        extra_steps=extra.get(_STEPS),
        extra_cost=extra.get(_COST),
        per_success=_per_success(design, branches, extra),
        recorded_per_success=_recorded_price(design, in_dollars=_COST in extra),
        n_branches=int(last["branches"]),
        n_open=len(design.order),
        n_unknown=looks.unknown_by_reason.total(),
        n_beyond=looks.n_beyond,
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


def _estimate(row: pd.Series, name: str) -> TrialEstimate:
    value = row[name]
    return TrialEstimate(
        None if pd.isna(value) else float(value), float(row[f"{name}_low"]), float(row[f"{name}_high"])
    )


def _per_success(
    design: Design, branches: Mapping[str, Run], extra: Mapping[str, TrialEstimate]
) -> TrialEstimate | None:
    """What an additional success costs: both parts at half the error."""
    name = _COST if _COST in extra else _STEPS
    if name not in extra or not design.order:
        return None
    last = _looks(design, branches, (1 + design.confidence) / 2).frame.iloc[-1]
    added, gained = (_estimate(last, measure) for measure in (name, "gain"))
    low, high = ratio_of(Interval(added.low, added.high), Interval(gained.low, gained.high))
    if added.value is None or gained.value is None or gained.value <= 0:
        return TrialEstimate(None, low, high)
    return TrialEstimate(added.value / gained.value, low, high)


def _recorded_price(design: Design, *, in_dollars: bool) -> float | None:
    """What a success on record costs, in its steps: as `recommend` counts it, without requests outside of them."""
    wins = sum(bool(opening.success) for opening in design.openings)
    used_amounts = [_cost_of_steps(opening.run) if in_dollars else opening.run.n_steps for opening in design.openings]
    if not wins or None in used_amounts:
        return None
    return sum(filter(None, used_amounts)) / wins / (MICRO if in_dollars else 1)


def _cost_of_steps(run: Run) -> int | None:
    costs = [micro_cost(member, member.n_steps) for member in (run, *descendants(run))]
    return None if None in costs else sum(filter(None, costs))


def _effects(design: Design, branches: Mapping[str, Run], n_done: int) -> Effects:
    """The results of branches, for failures and for successes on record, where they are known."""
    pairs = [
        (opening.success, known_success(opening, branches[opening.run.run_id], design.limits, labelled=design.labelled))
        for opening in openings_in(design.tasks[:n_done])
    ]
    counts = Counter(pairs)
    recovered, lost = counts[False, True], counts[True, False]
    return Effects(counts[False, False] + recovered, recovered, counts[True, True] + lost, lost)


def _forecast(design: Design, looks: Looks, effects: Effects, width: float) -> Forecast:
    n_tried, hazards = effects.failures + effects.successes, design.hazards
    if n_tried:
        share = (effects.recovered + effects.lost + 0.5) / (n_tried + 1)
    elif hazards.gain is not None and hazards.covered:
        share = min(0.5, max(0.02, abs(hazards.gain) / hazards.covered))
    else:
        share = 0.5  # where nothing is known, the value that takes most
    return forecast(
        design.tasks,
        [gain.low for gain in looks.gains],
        [gain.high for gain in looks.gains],
        share,
        width,
        other=design.closed_gain.high - design.closed_gain.low,
        confidence=design.confidence,
    )


def _table(design: Design, branches: Mapping[str, Run]) -> pd.DataFrame:
    """A row for each run: what the record knows, and its branch."""
    openings, labelled = design.openings, design.labelled
    row_branches = [branches.get(opening.run.run_id) for opening in openings]
    reasons = [
        opening.why if run is None else unknown_reason(opening, run, design.limits, labelled=labelled)
        for opening, run in zip(openings, row_branches, strict=True)
    ]
    columns: dict[str, tuple[Sequence[object], str]] = {
        "run_id": ([opening.run.run_id for opening in openings], TEXT),
        "task": ([opening.run.task for opening in openings], TEXT),
        "outcome": ([opening.outcome for opening in openings], TEXT),
        "stop_reason": ([opening.run.stop.reason for opening in openings], TEXT),
        "n_steps": ([opening.run.n_steps for opening in openings], INT),
        "branch_at": ([opening.n_kept if opening.outcome == "open" else None for opening in openings], INT),
        "success": ([opening.success for opening in openings], FLAG),
        "branch_id": ([None if run is None else run.run_id for run in row_branches], TEXT),
        "branch_steps": ([None if run is None else run.n_steps for run in row_branches], INT),
        "branch_stop_reason": ([None if run is None else run.stop.reason for run in row_branches], TEXT),
        "branch_success": ([None if run is None else success_of(run, labelled=labelled) for run in row_branches], FLAG),
        "unknown": ([opening or None for opening in reasons], TEXT),
    }
    return pd.DataFrame({name: cells(values, kind) for name, (values, kind) in columns.items()})
