"""Where a stop rule raises an alarm in recorded runs, and what each alarm would have saved and lost.

An alarm is a run in which the rule fires after a step. Where the rule needs an unknown counter, it is not known whether
there is an alarm. All arrays have an entry for each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from boolab.core.types import MICRO, Run, Step, ToolCall, ToolResult
from boolab.counterfactuals.first_crossing import Places
from boolab.counterfactuals.outcomes import outcome_columns, rule_stops, stops_of_spans
from boolab.counterfactuals.step_table import Flags, Ints, Ledger
from boolab.rules.detectors.streaks import RepeatStreak
from boolab.rules.stop import StopRule, Threshold

SAVED: Final = ("steps", "tool_calls", "tokens", "cost")
"""What a stop saves; `cost` in micro-dollars."""

NOT_REPORTED: Final = -1


@dataclass(frozen=True, slots=True)
class Alarms:
    """The alarms of one rule.

    Attributes:
        rule: The rule.
        raised: Whether it fires.
        unknown: Whether it needs an unknown counter; then it is not raised.
        at: How many steps of the run are complete at the stop.
        saved: What the stopped scope uses after it, by name; `NOT_REPORTED` if unknown. 0 where there is no alarm.
        cut_off: Whether calls follow the stop in the last turn, so that a success is certainly lost.
        early: Whether the stop is in a turn that others follow: how these would have continued is not known.
        converged: Whether the alarm is work and not a loop; None where no repeats are watched, or there are no results.
    """

    rule: StopRule
    raised: Flags
    unknown: Flags
    at: Ints
    saved: Mapping[str, Ints]
    cut_off: Flags
    early: Flags
    converged: Flags | None


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest values of a rule's counter.

    `false` is the largest threshold at which an alarm would be false; `NOT_REPORTED` where none could be. `unknown` is
    whether the counter is unknown at a boundary of a run in which any alarm is false, so that it may have been larger.
    `least` is the smallest threshold that the rule accepts.
    """

    false: Ints
    unknown: Flags
    least: int


def alarms_of(ledger: Ledger, runs: Sequence[Run] | None, rule: StopRule, places: Places) -> Alarms:
    """The alarms of a rule; `runs` is None where there are only columns."""
    stops, of_spans = stops_of_spans(ledger, places, lambda each, _: rule_stops(each, rule))
    data = outcome_columns(ledger, places, stops, of_spans)
    raised = stops.stopped & ~stops.undecided
    saved = {}
    for name in SAVED:
        column = data["saved_cost_usd" if name == "cost" else f"saved_{name}"]
        amount = np.rint(column.to_numpy(np.float64, na_value=0) * (MICRO if name == "cost" else 1)).astype(np.int64)
        gone = np.asarray(column.isna(), dtype=bool)
        saved[name] = np.where(raised, np.where(gone, NOT_REPORTED, amount), 0)
    early = raised & np.asarray(data["outcome"] == "not_identified", dtype=bool)
    return Alarms(
        rule,
        raised,
        stops.undecided,
        stops.at,
        saved,
        raised & ~early & (stops.at < places.last_call),
        early,
        _converged(ledger, runs, rule, raised, stops.at),
    )


def watches_repeats(rule: StopRule) -> bool:
    """Whether alarms of a rule can converge."""
    return any(isinstance(leaf.detector, RepeatStreak) for leaf in rule.leaves())


def _converged(ledger: Ledger, runs: Sequence[Run] | None, rule: StopRule, raised: Flags, at: Ints) -> Flags | None:
    watches = [(leaf, leaf.detector) for leaf in rule.leaves() if isinstance(leaf.detector, RepeatStreak)]
    if not watches or runs is None:
        return None
    out = np.zeros(ledger.n_runs, dtype=bool)
    by_turn = (ledger.runs["scope"] == "turn").tolist()
    for place in np.flatnonzero(raised & (at > 0)).tolist():
        step = int(ledger.first[place] + at[place] - 1)
        out[place] = any(
            ledger.counters[leaf.counter][step] >= leaf.threshold
            and converges(runs[place], int(at[place]), watch, turns=by_turn[place])
            for leaf, watch in watches
        )
    return out


def converges(run: Run, at: int, watch: RepeatStreak, *, turns: bool) -> bool:
    """Whether the call that repeats after `at` steps of a run is work and not a loop.

    It is, if the same call comes again after these steps (in the same turn, if counters start again in `turns`), its
    result is known to be no error, and its content differs from the result before the alarm. Calls are the same by the
    detector's identity, without results: results are what is compared.
    """
    last = next((pair for step in reversed(run.steps[:at]) for pair in reversed(_answered(step))), None)
    key = None if last is None else watch.key(last[0], None)
    if last is None or key is None:
        return False
    turn = run.steps[at - 1].turn
    return any(
        result.is_error is False
        and result.content != last[1].content
        and call.name == last[0].name
        and watch.key(call, None) == key
        for step in run.steps[at:]
        if not turns or step.turn == turn
        for call, result in _answered(step)
    )


def _answered(step: Step) -> list[tuple[ToolCall, ToolResult]]:
    return [(c, r) for c, r in zip(step.response.tool_calls, step.results, strict=True) if r is not None]


def reach_of(
    ledger: Ledger,
    runs: Sequence[Run] | None,
    rule: StopRule,
    negative: Flags,
    places: Places,
    *,
    converged: npt.ArrayLike = False,
) -> Reach | None:
    """How far the counter of a rule goes where alarms are false; None unless the rule is a single threshold.

    Every alarm is false in `negative` runs; in those of `converged` it is false if it converges.
    """
    if not isinstance(rule, Threshold):
        return None
    counts = ledger.counters[rule.counter]
    inside = np.flatnonzero(ledger.boundary)
    peak = np.zeros(ledger.n_runs, dtype=np.int64)  # every counter begins at 0
    np.maximum.at(peak, places.run[inside], counts[inside])
    unknown = np.zeros(ledger.n_runs, dtype=bool)
    if rule.on_unknown == "error":
        unknown[places.run[inside[counts[inside] < 0]]] = True
    false = np.where(negative, peak, NOT_REPORTED)
    watch = rule.detector
    if isinstance(watch, RepeatStreak) and runs is not None:
        by_turn = (ledger.runs["scope"] == "turn").tolist()
        for place in np.flatnonzero(np.broadcast_to(converged, negative.shape) & ~negative).tolist():
            steps = slice(ledger.first[place], ledger.first[place + 1])
            values = np.where(ledger.boundary[steps], counts[steps], 0)
            rising = np.flatnonzero(np.diff(np.maximum.accumulate(values), prepend=1) > 0)
            turns = by_turn[place]
            fired = (int(step) for step in rising[::-1])  # the largest thresholds first
            highest = next((s for s in fired if converges(runs[place], s + 1, watch, turns=turns)), None)
            false[place] = NOT_REPORTED if highest is None else values[highest]
    return Reach(false, unknown & negative, 0 if watch is None else watch.least)
