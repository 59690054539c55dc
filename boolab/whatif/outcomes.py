"""Outcomes: what a setting would have made of each run, a row for each run and setting.

| outcome          | the recording                                                                              |
|------------------|--------------------------------------------------------------------------------------------|
| `unchanged`      | ends, by itself or by a limit of its own that stays in force, before the setting fires     |
| `truncated`      | is stopped by the setting: spent until then is exact, success lies between bounds          |
| `not_identified` | is stopped in a turn that others follow, or where the policy would have changed the        |
|                  | request, added a message, or changed what its calls do                                     |
| `censored`       | was stopped by a limit that is lifted, and the setting would have continued                |
| `unknown`        | needs a counter that the source does not have (a live run would end with `error` there),   |
|                  | or depends on a subagent that is not on record                                             |

In a family each run is limited by itself; `boolab.whatif.family_stops` has the consequences for the others. A
run whose subagent is stopped is `not_identified` from that call on. A subagent whose parent is stopped before the call
is `truncated` at step 0, for the reason that stopped the parent.

Outcomes are about the first stop of a run. What is spent and saved is about all of it: each turn is limited by itself,
as a harness does it, and later turns stay as they were recorded. So spent and saved add up to what is on record, for
every setting. `saved_is` is how certain that is: `exact`; `estimate`, where a turn is stopped that others follow:
tokens and cost of later requests still include what would have been left out (steps and calls are exact); or `at most`,
where the policy would have changed a request: the truth lies between 0 and this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.core.types import MICRO
from boolab.errors import SettingError, UnknownCounter
from boolab.frames.dtypes import Cells, text
from boolab.limits.stop import StopRule
from boolab.limits.table import COUNTERS, MEASURES
from boolab.whatif.first_crossing import (
    ACTS,
    AT_RESPONSE,
    INTERVENED,
    MESSAGES,
    RANKS,
    UNDECIDED,
    UNDECIDED_AT_RESPONSE,
    WIDE_RANKS,
    Keys,
    Places,
    Stops,
    extended_fires,
    fires_of,
    first_fires,
    first_interventions,
    key_type,
    keys_of,
    truth_of,
)
from boolab.whatif.grid import Settings
from boolab.whatif.question import OUTCOMES
from boolab.whatif.step_table import ELAPSED, Flags, Ints, Ledger, split_for_stops

_UNCHANGED, _CENSORED, _TRUNCATED, _NOT_IDENTIFIED, _UNKNOWN = range(5)
_NAMES: Final = np.array(OUTCOMES, dtype=object)
_CERTAINTY: Final = np.array(["exact", "estimate", "at most"], dtype=object)


def grid_keys(ledger: Ledger, settings: Settings, positions: Places) -> tuple[Keys, list[Keys]]:
    """The key of each run's stop under each setting, R x values of each axis, and the tables whose minimum it is."""
    ranks = ranks_of(settings)
    response_ledger = ledger.response_ledger() if settings.checks_responses else ledger
    tables = []
    for rank, axis in enumerate(settings.axes):
        response_axis = axis.response_axis
        if axis.extension is not None:
            table = extended_fires(ledger, axis, rank, ranks)
        elif response_axis is None or axis.rules:
            table = first_fires(ledger, fires_of(ledger, axis, positions), positions, rank, ranks=ranks)
        if response_axis is not None:
            response_fires = fires_of(response_ledger, response_axis, positions)
            dropped = first_fires(
                response_ledger, response_fires, positions, AT_RESPONSE + rank, ranks=ranks, at_response=True
            )
            table = np.minimum(table, dropped) if axis.rules else dropped
        if axis.agent or axis.but_for:
            table[~np.array(axis.holds_for(agents_of(ledger)), dtype=bool)] = np.iinfo(table.dtype).max
        tables.append(table)
    if not tables:  # no limit at all
        kind = key_type(ledger, ranks)
        tables.append(np.full((ledger.n_runs, 1), np.iinfo(kind).max, dtype=kind))
    keys = keys_of(tables)
    if settings.intervenes:
        intervened = first_interventions(ledger, ledger.counters[INTERVENED], positions)
        keys = np.minimum(keys, intervened.reshape(-1, *(1,) * (keys.ndim - 1)))
    return keys, tables


def agents_of(ledger: Ledger) -> list[str]:
    """The agent of each run; "" where it has none. `SettingError` if the recordings have no such column."""
    if "agent" not in ledger.runs:
        msg = "an axis such as max_steps@scout needs the agent of each run: the frame has no column 'agent'"
        raise SettingError(msg)
    return ["" if agent is pd.NA or agent is None else str(agent) for agent in ledger.runs["agent"]]


def ranks_of(settings: Settings) -> int:
    """The number of ranks from a boundary to the next, in the keys of these settings."""
    wide = settings.checks_responses or settings.intervenes or settings.announces
    return WIDE_RANKS if wide else RANKS


def grid_stops(ledger: Ledger, settings: Settings, positions: Places) -> Stops:
    """The stops of all settings of a grid: the rows of a run are together, its last axis fastest.

    All is decided on whole arrays of runs x settings: every statement here is a pass over all cells, and the memory of
    a call is about a dozen such arrays. So callers hand over runs in batches (`BATCH_ROWS` in `tables`).
    """
    table, tables = grid_keys(ledger, settings, positions)
    keys, ranks = table.reshape(-1), ranks_of(settings)
    stopped = keys != np.iinfo(keys.dtype).max
    # A key is two numbers in one: the boundary, and the rank of what stops there.
    rank = np.where(stopped, keys % ranks, 0).astype(np.int64)
    boundary = np.where(stopped, keys // ranks, 0).astype(np.int64)
    messages = stopped & ((rank == MESSAGES) | (rank == ACTS))
    dropped = stopped & (rank > MESSAGES) & ~messages
    undecided = stopped & ((rank == UNDECIDED) | (rank == UNDECIDED_AT_RESPONSE))
    # Ranks from AT_RESPONSE on are those of the same axes, evaluated at the next response.
    axis_index = np.where(dropped, rank - AT_RESPONSE, rank)
    by_rule = stopped & ~undecided & ~messages
    names = [axis.reason for axis in settings.axes]
    request_changes, goes_on = messages.copy(), messages.copy()
    text_only = np.zeros(len(keys), dtype=bool)
    for index, axis in enumerate(settings.axes):
        by_axis = by_rule & (axis_index == index)
        text_only |= by_axis & (boundary == 0) & (axis.is_text_only and not axis.ahead)
        request_changes |= by_axis & ~dropped & axis.is_open_ended
        goes_on |= by_axis & ~dropped & axis.goes_on
    first_rank = boundary * ranks + np.where(dropped, AT_RESPONSE, 0)
    also_fired = _also_fired(settings, tables, table.shape, first_rank, np.where(by_rule, axis_index, _NO_AXIS))
    reasons = np.array([*names, "error", "finished"], dtype=object)
    reason = np.where(undecided, len(names), np.where(text_only, len(names) + 1, np.where(messages, 0, axis_index)))
    return Stops(
        np.repeat(np.arange(ledger.n_runs), settings.count),
        boundary,
        dropped,
        stopped,
        undecided,
        request_changes | text_only,
        goes_on,
        np.where(stopped & ~messages, reasons[reason], None),  # type: ignore[call-overload] # its stubs want no None
        also_fired,
        np.ones(len(keys), dtype=bool),
    )


_NO_AXIS: Final = -1


def _also_fired(
    settings: Settings, tables: Sequence[Keys], shape: tuple[int, ...], first_rank: Ints, by_axis: Ints
) -> npt.NDArray[np.object_]:
    """The reasons of the other rules that are true where each setting stops a run, in the order of the axes.

    The minimum over the axes has lost them, so each axis is asked again whether its own first key is at that place:
    one more pass over all cells for each axis, about a quarter of the time of `grid_stops` with four axes. `first_rank`
    is the key of the first axis there, `by_axis` the axis that stops; `_NO_AXIS` where none does.
    """
    fired = np.zeros(len(by_axis), dtype=np.int64)  # a bit for each axis
    by_rule, stops_alone = by_axis != _NO_AXIS, np.zeros(len(by_axis), dtype=bool)
    for index, (axis, firsts) in enumerate(zip(settings.axes, tables, strict=True)):
        if axis.alone:  # evaluated after all others, so nothing else is true where it stops
            stops_alone |= by_axis == index
        elif not axis.ahead:  # a cap that changes the request before it is not evaluated where another stops
            wide = firsts.reshape(len(firsts), *(firsts.shape[1] if n == index else 1 for n in range(len(tables))))
            is_true = np.broadcast_to(wide, shape).reshape(-1) == first_rank + index
            fired |= (is_true & by_rule & (by_axis != index)).astype(np.int64) << index
    fired[stops_alone] = 0
    names = [axis.reason for axis in settings.axes]
    # At most 2^12 texts (MAX_AXES), made once, rather than one for each row.
    texts = [",".join(name for n, name in enumerate(names) if bits >> n & 1) for bits in range(1 << len(names))]
    return np.array(texts, dtype=object)[fired]


def rule_stops(ledger: Ledger, rule: StopRule) -> Stops:
    """The stops of any rule, a row for each run, by the predicate of the live loop on whole columns."""
    names = (*COUNTERS, *(detector.name for detector in rule.detectors()))
    boundary, stopped, undecided = first_true(ledger, rule)
    verdicts: list[tuple[str, str] | None] = [None] * ledger.n_runs
    runs = np.flatnonzero(stopped)
    steps = ledger.first[runs] + boundary[runs] - 1
    at_once = dict.fromkeys(names, 0)
    for run, step in zip(runs.tolist(), np.where(boundary[runs] > 0, steps, -1).tolist(), strict=True):
        counts = at_once if step < 0 else {name: int(ledger.counters[name][step]) for name in names}
        verdicts[run] = _verdict(rule, {name: None if count < 0 else count for name, count in counts.items()})
    return Stops(
        np.arange(ledger.n_runs),
        boundary,
        np.zeros(ledger.n_runs, dtype=bool),
        stopped,
        undecided,
        np.zeros(ledger.n_runs, dtype=bool),
        np.zeros(ledger.n_runs, dtype=bool),
        np.array([None if verdict is None else verdict[0] for verdict in verdicts], dtype=object),
        np.array(["" if verdict is None else verdict[1] for verdict in verdicts], dtype=object),
        np.ones(ledger.n_runs, dtype=bool),
    )


def first_true(ledger: Ledger, rule: StopRule) -> tuple[Ints, Flags, Flags]:
    """R: how many steps are complete where a rule first is true or unknown, whether it is true, and unknown."""
    names = {leaf.counter for leaf in rule.leaves()}
    boundary, (stopped, undecided) = np.zeros(ledger.n_runs, dtype=np.int64), np.zeros((2, ledger.n_runs), dtype=bool)
    if rule(dict.fromkeys(names, 0)):
        stopped[:] = True
        return boundary, stopped, undecided
    boundary_steps = np.flatnonzero(ledger.boundary)
    true = truth_of(ledger, rule, boundary_steps)
    fires = np.flatnonzero(np.asarray(true.fillna(value=True), dtype=bool))
    of_run = np.searchsorted(ledger.first, boundary_steps[fires], side="right") - 1
    first = np.diff(of_run, prepend=-1) > 0
    runs, fires = of_run[first], fires[first]
    boundary[runs] = boundary_steps[fires] - ledger.first[runs] + 1
    stopped[runs] = True
    undecided[runs] = np.asarray(true.isna(), dtype=bool)[fires]
    return boundary, stopped, undecided


_UNDECIDED: Final = ("error", "")


def _verdict(rule: StopRule, counters: dict[str, int | None] | dict[str, int]) -> tuple[str, str] | None:
    try:
        stop = rule.verdict(counters)
    except UnknownCounter:
        return _UNDECIDED
    return None if stop is None else (stop.reason, ",".join(stop.also_fired))


def stops_of_spans(
    ledger: Ledger, positions: Places, stops_of: Callable[[Ledger, Places], Stops]
) -> tuple[Stops, Stops]:
    """Where settings stop each run first, and where they stop each of its spans, limited by itself."""
    spans, stops = split_for_stops(ledger), stops_of(ledger, positions)
    return stops, stops if spans is ledger else stops_of(spans, Places(spans))


def outcome_columns(ledger: Ledger, positions: Places, stops: Stops, of_spans: Stops) -> dict[str, Any]:
    """The columns of outcome, stop, success, spent and saved, a row for each row of `stops`."""
    run, boundary, stopped = stops.run, stops.at, stops.stopped
    paid_steps = boundary + stops.dropped
    lengths = np.diff(ledger.first)[run]
    # The step that is last under the setting; what stops before the first step belongs to the first turn.
    last = np.where(lengths > 0, ledger.first[run] + np.where(stopped, np.maximum(paid_steps, 1), lengths) - 1, -1)
    in_last_turn = (paid_steps > positions.last_turn[run]) | (positions.last_turn[run] == 0) | ~stops.begun
    outcome = np.where(ledger.ended[run], _UNCHANGED, _CENSORED)
    outcome = np.where(stopped, np.where(stops.ahead | ~in_last_turn, _NOT_IDENTIFIED, _TRUNCATED), outcome)
    outcome = np.where(stops.undecided, _UNKNOWN, outcome)
    success = ledger.success[run]
    certainly_lost = stopped & ~stops.undecided & ~stops.open & in_last_turn & (boundary < positions.last_call[run])
    open_end = (outcome == _CENSORED) | (success < 0)
    as_recorded = np.where(ledger.terminated, "finished", ledger.reason)[run]
    boundaries = np.where(stopped, boundary, _completed_steps(ledger, positions)[run])
    data: dict[str, Any] = {
        "outcome": text(_NAMES[outcome]),
        "stop_turn": _nullable_cells(np.append(ledger.turn, 1)[last], outcome == _CENSORED),
        "stop_step": _nullable_cells(
            np.maximum(boundaries - _steps_before_span(ledger)[last], 0), outcome == _CENSORED
        ),
        "stop_reason": text(np.where(outcome == _UNCHANGED, as_recorded, stops.reason)),
        "also_fired": text(stops.also_fired),
        "success": pd.arrays.BooleanArray(success == 1, success < 0),
        "kept_lower": _nullable_cells(np.where(outcome == _UNCHANGED, success, 0), open_end),
        "kept_upper": _nullable_cells(np.where(certainly_lost, 0, success), open_end),
    }
    return data | _amounts(ledger, of_spans, censored=outcome == _CENSORED)


def _amounts(ledger: Ledger, stops: Stops, *, censored: Flags) -> dict[str, Any]:
    """What is spent and saved: the sums over the spans of each run, each of which is limited by itself."""
    first, owner = ledger.spans()
    count = len(stops.run) // max(len(owner), 1)  # settings
    begins = np.searchsorted(owner, np.arange(ledger.n_runs))
    span, stopped = stops.run, stops.stopped

    def sum_spans(values: Cells, add: np.ufunc = np.add) -> Cells:
        """The rows of runs from the rows of their spans."""
        if len(owner) == ledger.n_runs:
            return values
        return add.reduceat(values.reshape(-1, count), begins, axis=0).reshape(-1)

    lengths = np.diff(first)[span]
    paid_steps = np.where(stopped, stops.at + stops.dropped, lengths)
    changed = stopped & (stops.ahead | stops.open)
    follows = np.append(owner[1:] == owner[:-1], False)[: len(owner)]
    estimated = stopped & stops.begun & follows[span] & (paid_steps < lengths)
    run = sum_spans(owner[span], np.maximum) if len(owner) else np.zeros(0, dtype=np.int64)
    certain = np.where(
        sum_spans(changed, np.logical_or) | censored, 2, np.where(sum_spans(estimated, np.logical_or), 1, 0)
    )
    spent_columns: dict[str, Any] = {}
    saved: dict[str, Any] = {}
    for name in (*MEASURES, *(name for name in (ELAPSED,) if name in ledger.used)):
        total, unknown = running_total(ledger, name)
        steps_done = np.where(stopped, stops.at, lengths) if name == "tool_calls" else paid_steps
        so_far = total[first[:-1][span] + steps_done]
        amount_spent, amount_left = (
            sum_spans(so_far - total[first[:-1]][span]),
            sum_spans(total[first[1:]][span] - so_far),
        )
        column = "cost_usd" if name == "cost" else name
        for amounts, label, amount in ((spent_columns, column, amount_spent), (saved, f"saved_{column}", amount_left)):
            missing = unknown[run]
            amounts[label] = (
                pd.arrays.FloatingArray(amount / MICRO, missing) if name == "cost" else _nullable_cells(amount, missing)
            )
    return spent_columns | saved | {"saved_is": text(_CERTAINTY[certain])}


def running_total(ledger: Ledger, name: str) -> tuple[Ints, Flags]:
    """N + 1: what all steps up to each one used; and R: which runs lack it for some of their steps."""
    amounts = np.ones(ledger.n_steps, dtype=np.int64) if name == "steps" else ledger.used[name]
    gaps = np.concatenate(([0], np.cumsum(amounts < 0)))
    total = np.concatenate(([0], np.cumsum(np.maximum(amounts, 0))))
    return total, gaps[ledger.first[1:]] > gaps[ledger.first[:-1]]


def _completed_steps(ledger: Ledger, positions: Places) -> Ints:
    """R: how many steps of each run are complete at its end: up to the last boundary, or one whose calls ended it."""
    last = np.zeros(ledger.n_runs, dtype=np.int64)
    complete_steps = np.flatnonzero(ledger.complete)
    last[positions.run[complete_steps]] = positions.step[complete_steps]  # steps ascend, so the last one stays
    return last


def _steps_before_span(ledger: Ledger) -> Ints:
    """How many steps of its run come before each step's span; and 0 for a run without steps, last."""
    starts = np.flatnonzero(ledger.opens())
    base = np.repeat(ledger.first[:-1], np.diff(ledger.first))
    return np.append(np.repeat(starts, np.diff(np.append(starts, ledger.n_steps))) - base, 0)


def _nullable_cells(values: Ints, missing: Flags) -> Cells:
    return pd.arrays.IntegerArray(np.asarray(values, dtype=np.int64), np.asarray(missing, dtype=bool))
