"""Where a stop rule raises an alarm in recorded runs, and what each alarm would have saved and lost.

An alarm is a run in which the rule fires after a step. Where the rule needs an unknown counter, it is not known whether
there is an alarm. All arrays have an entry for each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from boolab.core.run import Run
from boolab.core.types import Step, ToolCall, ToolResult
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.stop import StopRule, Threshold
from boolab.limits.table import MEASURES
from boolab.whatif.first_crossing import Places
from boolab.whatif.outcomes import running_total
from boolab.whatif.rule_matrix import stops_of_rules
from boolab.whatif.step_table import Flags, Ints, Ledger, split_for_stops

SAVED: Final = tuple(MEASURES)
"""What a stop saves; `cost` in micro-dollars."""

NOT_REPORTED: Final = -1


@dataclass(frozen=True, slots=True)
class Alarms:
    """The alarms of one rule."""

    rule: StopRule
    raised: Flags  # whether it fires
    unknown: Flags  # whether it needs an unknown counter; then it is not raised
    at: Ints  # how many steps of the run are complete at the stop
    # what the stopped scope uses after it, by name; `NOT_REPORTED` if unknown. 0 where there is no alarm
    saved: Mapping[str, Ints]
    cut_off: Flags  # whether calls follow the stop in the last turn, so that a success is certainly lost
    early: Flags  # whether the stop is in a turn that others follow: how these would have continued is not known
    # whether the alarm is work and not a loop; None where no repeats are watched, or there are no results
    converged: Flags | None


@dataclass(frozen=True, slots=True)
class FalseAlarmPeaks:
    """The largest values of a rule's counter.

    `false` is the largest threshold at which an alarm would be false; `NOT_REPORTED` where none could be. `unknown` is
    whether the counter is unknown at a boundary of a run in which any alarm is false, so that it may have been larger.
    `least` is the smallest threshold that the rule accepts.
    """

    false: Ints
    unknown: Flags
    least: int


def alarms_of(ledger: Ledger, runs: Sequence[Run] | None, rules: Sequence[StopRule], positions: Places) -> list[Alarms]:
    """The alarms of each rule; `runs` is None where there are only columns."""
    boundary, stopped, unknown = stops_of_rules(ledger, positions, rules)
    raised = stopped & ~unknown
    early = raised & (boundary <= positions.last_turn[:, None]) & (positions.last_turn > 0)[:, None]
    cut_off = raised & ~early & (boundary < positions.last_call[:, None])
    saved = count_saved(ledger, rules, boundary, stopped)
    return [
        Alarms(
            rule,
            raised[:, n],
            unknown[:, n],
            boundary[:, n],
            {name: np.where(raised[:, n], amounts[:, n], 0) for name, amounts in saved.items()},
            cut_off[:, n],
            early[:, n],
            _convergence_flags(ledger, runs, rule, raised[:, n], boundary[:, n]),
        )
        for n, rule in enumerate(rules)
    ]


def count_saved(
    ledger: Ledger, rules: Sequence[StopRule], boundary: Ints, stopped: Flags, names: Sequence[str] = SAVED
) -> dict[str, Ints]:
    """R x rules: what each run uses after the stops of its spans, each of which is limited by itself, by name.

    `boundary` and `stopped` are where the rules stop the runs: see `stops_of_rules`.
    """
    spans = split_for_stops(ledger)
    if spans is not ledger:
        boundary, stopped, _ = stops_of_rules(spans, Places(spans), rules)
    end = spans.first[1:, None]
    stop = np.where(stopped, spans.first[:-1, None] + boundary, end)
    begins = np.searchsorted(ledger.spans()[1], np.arange(ledger.n_runs))
    saved = {}
    for name in names:
        total, missing = running_total(ledger, name)
        amount_left = total[end] - total[stop]
        amount_left = amount_left if spans is ledger else np.add.reduceat(amount_left, begins, axis=0)
        saved[name] = np.where(missing[:, None], NOT_REPORTED, amount_left)
    return saved


def watches_repeats(rule: StopRule) -> bool:
    """Whether alarms of a rule can converge."""
    return any(isinstance(leaf.detector, RepeatStreak) for leaf in rule.leaves())


def _convergence_flags(
    ledger: Ledger, runs: Sequence[Run] | None, rule: StopRule, raised: Flags, boundary: Ints
) -> Flags | None:
    watches = [(leaf, leaf.detector) for leaf in rule.leaves() if isinstance(leaf.detector, RepeatStreak)]
    if not watches or runs is None:
        return None
    out = np.zeros(ledger.n_runs, dtype=bool)
    by_turn = (ledger.runs["scope"] == "turn").tolist()
    for run_index in np.flatnonzero(raised & (boundary > 0)).tolist():
        step = int(ledger.first[run_index] + boundary[run_index] - 1)
        out[run_index] = any(
            ledger.counters[leaf.counter][step] >= leaf.threshold
            and converges(runs[run_index], int(boundary[run_index]), watch, turns=by_turn[run_index])
            for leaf, watch in watches
        )
    return out


def converges(run: Run, n_steps: int, watch: RepeatStreak, *, turns: bool) -> bool:
    """Whether the call that repeats after `n_steps` steps of a run is work and not a loop.

    It is, if the same call comes again after these steps (in the same turn, if counters start again in `turns`), its
    result is known to be no error, and its content differs from the result before the alarm. Calls are the same by the
    detector's identity, without results: results are what is compared.
    """
    turn = run.steps[n_steps - 1].turn
    last = _find_repeated_call([step for step in run.steps[:n_steps] if not turns or step.turn == turn], watch)
    identity = None if last is None else watch.identity_for(last.name)
    if last is None or identity is None:
        return False
    by_call = "canonical" if identity == "call+result" else identity
    later = chain.from_iterable(_answers(step) for step in run.steps[n_steps:] if not turns or step.turn == turn)
    return any(
        result.is_error is False
        and result.content != last.content
        and ObservedCall(call, result).same_as(last, by_call)
        for call, result in later
    )


def _find_repeated_call(steps: Sequence[Step], watch: RepeatStreak) -> ObservedCall | None:
    """The call whose streak a rule reads after some steps: that of the longest one in the last step with calls."""
    latest = next((answers for step in reversed(steps) if (answers := _answers(step))), [])
    if len(latest) < 2 or watch.last_call:  # noqa: PLR2004
        return ObservedCall(*latest[-1]) if latest else None
    calls = [ObservedCall(*answer) for answer in chain.from_iterable(map(_answers, steps))]
    streaks, state = [], watch.start
    for call in calls:
        state, streak = watch.fold(state, call)
        streaks.append((streak, call))
    return max(streaks[-len(latest) :], key=lambda pair: pair[0])[1]


def _answers(step: Step) -> list[tuple[ToolCall, ToolResult]]:
    return [(c, r) for c, r in zip(step.response.tool_calls, step.results, strict=True) if r is not None]


def false_alarm_peaks_of(
    ledger: Ledger,
    runs: Sequence[Run] | None,
    rule: StopRule,
    negative: Flags,
    positions: Places,
    *,
    converged: npt.ArrayLike = False,
) -> FalseAlarmPeaks | None:
    """How far the counter of a rule goes where alarms are false; None unless the rule is a single threshold.

    Every alarm is false in `negative` runs; in those of `converged` it is false if it converges.
    """
    if not isinstance(rule, Threshold):
        return None
    counts = ledger.counters[rule.counter]
    boundary_steps = np.flatnonzero(ledger.boundary)
    peak = np.zeros(ledger.n_runs, dtype=np.int64)  # every counter begins at 0
    np.maximum.at(peak, positions.run[boundary_steps], counts[boundary_steps])
    unknown = np.zeros(ledger.n_runs, dtype=bool)
    if rule.on_unknown == "error":
        unknown[positions.run[boundary_steps[counts[boundary_steps] < 0]]] = True
    false = np.where(negative, peak, NOT_REPORTED)
    watch = rule.detector
    if isinstance(watch, RepeatStreak) and runs is not None:
        by_turn = (ledger.runs["scope"] == "turn").tolist()
        for run_index in np.flatnonzero(np.broadcast_to(converged, negative.shape) & ~negative).tolist():
            steps = slice(ledger.first[run_index], ledger.first[run_index + 1])
            values = np.where(ledger.boundary[steps], counts[steps], 0)
            rising = np.flatnonzero(np.diff(np.maximum.accumulate(values), prepend=1) > 0)
            turns = by_turn[run_index]
            fired = (int(step) for step in rising[::-1])  # the largest thresholds first
            highest = next((s for s in fired if converges(runs[run_index], s + 1, watch, turns=turns)), None)
            false[run_index] = NOT_REPORTED if highest is None else values[highest]
    return FalseAlarmPeaks(false, unknown & negative, 0 if watch is None else watch.least)
