"""Recordings as columns, from runs.

Detectors are counted from columns of integers where that can be done (`boolab.whatif.detector_columns`), else
folded over the calls of each run, as in the live loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import pandas as pd

from boolab.core.endings import is_terminated, proxy_success, turn_proxy_success
from boolab.core.events import compactions_of
from boolab.core.gc_pause import pause_collection
from boolab.core.run import Run
from boolab.core.run_tree import starts_of
from boolab.core.types import Scope, Step
from boolab.frames.dtypes import Cells, cells, text
from boolab.frames.recording import RUN_FIELDS
from boolab.frames.runs import Runs, as_runs, handles_unknown_arguments, turns_of, with_equal_arguments
from boolab.frames.tables import setting_columns
from boolab.limits.detector import Detector
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.ladder import Watch, response_counter
from boolab.whatif.call_columns import CallColumns
from boolab.whatif.detector_columns import counts_of, is_columnar
from boolab.whatif.step_table import (
    UNKNOWN,
    Ends,
    Flags,
    Ints,
    Ledger,
    assemble,
    bound_counter,
    check_scope,
    first_of_spans,
    last_steps,
    scopes_of,
    spans_of,
)

StepColumns: TypeAlias = Mapping[str, Callable[[Run, str], Sequence[int]]]
"""Further counters by name: each is given a run and its scope, and gives a number for each of the run's steps."""

_NO_COLUMNS: Final[StepColumns] = MappingProxyType({})


def ledger_of(
    runs: Runs,
    detectors: Iterable[Detector] = (),
    scope: Scope = "auto",
    *,
    columns: StepColumns = _NO_COLUMNS,
    responses: bool = False,
    labelled: bool | None = None,
) -> Ledger:
    """The ledger of runs, with a counter for each detector. Labels are successes where any run has one, else a proxy.

    Its `ended` marks the records that terminated: `Ledger.apply_own_limits` keeps the limits of the recording in force.
    `columns` are further counters, such as those of a policy. With `responses` each detector is counted at the response
    too, before its calls are executed: see `response_counter`. `labelled` is whether labels are successes, where the
    runs are a part of more.
    """
    check_scope(scope)
    rows = as_runs(runs)
    watched = tuple(dict.fromkeys(detectors))
    scopes = scopes_of([run.source for run in rows], scope)
    fields: dict[str, Cells] = {}
    for name in ("run_id", *RUN_FIELDS):
        fields[name] = text([getattr(run, name) for run in rows])
    for column in setting_columns(rows, fields):
        fields[column.name] = cells([column.get(run) for run in rows], column.dtype)
    frame = pd.DataFrame(fields)
    ends = Ends(
        np.array([-1 if run.success is None else int(run.success) for run in rows], dtype=np.int64),
        np.array([proxy_success(run) for run in rows], dtype=bool),
        np.array([is_terminated(run) for run in rows], dtype=bool),
        np.array([run.stop_reason for run in rows], dtype=object),
        scopes,
    )
    first = np.concatenate(([0], np.cumsum(np.array([len(run.steps) for run in rows], dtype=np.int64))))
    with pause_collection():
        raw = _raw_columns(rows, first, ends, watched, responses=responses)
    starts_by_run = {row: starts for row, run in enumerate(rows) if (starts := starts_of(run))}
    ledger = assemble(frame, first, raw, ends, watched, labelled=labelled, started=starts_by_run)
    response_names = [response_counter(detector.name) for detector in watched] if responses else []
    further_counts: dict[str, Ints] = {name: raw[name] for name in response_names}
    for name, values in columns.items():
        of_runs = (values(*run_scope) for run_scope in zip(rows, scopes, strict=True))
        further_counts[name] = np.fromiter(chain.from_iterable(of_runs), dtype=np.int64)
    return replace(ledger, counters={**ledger.counters, **further_counts}) if further_counts else ledger


def _raw_columns(
    rows: Sequence[Run], first: Ints, ends: Ends, detectors: Sequence[Detector], *, responses: bool
) -> dict[str, Ints]:
    """The raw columns of steps for `assemble`, and the counts of detectors after each step, by name."""
    steps = _steps_of(rows)
    answers = [step.response for step in steps]
    usages = [response.usage for response in answers]
    raw = {
        "turn": _ints([step.turn for step in steps]),
        "tool_calls": _ints([len(step.results) - step.results.count(None) for step in steps]),
        "input_tokens": _fill_unknown([usage.input_tokens for usage in usages]),
        "output_tokens": _fill_unknown([usage.output_tokens for usage in usages]),
        "cost": _fill_unknown([usage.cost for usage in usages]),
        "start": _fill_unknown([step.start_ms for step in steps]),
        "duration": _fill_unknown([step.duration_ms for step in steps]),
    }
    is_counted = np.array([step.counted for step in steps], dtype=bool)
    failed = np.array([bool(step.error) for step in steps], dtype=bool)
    requested = _ints([len(response.tool_calls) for response in answers])
    has_steps, last = last_steps(first)
    is_last = np.zeros(len(steps), dtype=bool)
    is_last[last] = True
    boundary = _boundaries(rows, raw["turn"], raw["tool_calls"] > 0, is_counted, first)
    # As `has_response`: the last step of a run that ended with an error got none, unless a boundary follows it.
    unanswered = failed.copy()
    unanswered[last] |= (ends.reasons[has_steps] == "error") & ~boundary[last]
    raw["asked"] = np.where(unanswered & (raw["tool_calls"] == 0), UNKNOWN, requested)
    by_run = np.repeat(np.array([scope == "run" for scope in ends.scopes], dtype=bool), np.diff(first))
    raw["boundary"] = (boundary | (by_run & is_counted & ~is_last)).astype(np.int64)
    raw["final"] = ((requested == 0) & ~failed).astype(np.int64)
    raw["answered"] = np.zeros(len(steps), dtype=np.int64)
    raw["answered"][last] = ends.by_proxy[has_steps]
    silent = np.flatnonzero((requested == 0) & ~is_last)
    runs_of = np.searchsorted(first, silent, side="right") - 1
    for index, run in zip(silent.tolist(), runs_of.tolist(), strict=True):
        raw["answered"][index] = turn_proxy_success(rows[run], [steps[index]])
    raw["counted"] = is_counted.astype(np.int64)
    raw["judged"] = _labels_of_turns(rows, raw["turn"], first)
    return raw | _counts(rows, steps, raw, first, ends.scopes, detectors, responses=responses)


def _labels_of_turns(rows: Sequence[Run], turn: Ints, first: Ints) -> Ints:
    """N: the label of each step's turn, 1, 0 or -1."""
    labels = np.full(len(turn), UNKNOWN)
    for row, run in enumerate(rows):
        for label in run.labels:
            if label.turn is not None and label.success is not None:
                steps = labels[first[row] : first[row + 1]]
                steps[turn[first[row] : first[row + 1]] == label.turn] = label.success
    return labels


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _fill_unknown(values: list[int | None]) -> Ints:
    """Whole numbers; `UNKNOWN` where there is none."""
    return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64)


def _boundaries(rows: Sequence[Run], turn: Ints, has_results: Flags, is_counted: Flags, first: Ints) -> Flags:
    """N: whether a boundary follows each step at which it counts: the same as `has_boundary`, for all steps at once."""
    has_steps, last = last_steps(first)
    boundary = has_results.copy()
    boundary[:-1] |= turn[1:] == turn[:-1]
    lengths = np.diff(first)[has_steps]
    in_last_turn = np.add.reduceat(turn == np.repeat(turn[last], lengths), first[:-1][has_steps]) if len(last) else last
    stops = [run.stop for run in rows if run.steps]
    limited = np.array([stop.reason not in ("finished", "paused", "synthesis") for stop in stops], dtype=bool)
    boundary[last] = limited & (in_last_turn <= _ints([stop.step for stop in stops]))
    return boundary & is_counted


def _counts(
    rows: Sequence[Run],
    steps: Sequence[Step],
    raw: Mapping[str, Ints],
    first: Ints,
    scopes: Sequence[str],
    detectors: Sequence[Detector],
    *,
    responses: bool,
) -> dict[str, Ints]:
    """The counts of detectors after each step; unknown where they depend on arguments that are not on record.

    An unknown streak of repeats is at most the one where all calls of the tool are equal: see `bound_counter`.
    """
    bounds = {d.name: bound_counter(d.name) for d in detectors if isinstance(d, RepeatStreak)}
    counts = _known_counts(rows, steps, raw, first, scopes, detectors, responses=responses)
    equal = [with_equal_arguments(run) for run in rows] if detectors else []
    lacking = [index for index, run in enumerate(equal) if run is not None]
    if not lacking:
        return counts | {bound_name: counts[name] for name, bound_name in bounds.items()}
    most_counts = _most_counts(
        [run for run in equal if run is not None], lacking, raw, first, scopes, detectors, responses
    )
    certain = [detector.name for detector in detectors if handles_unknown_arguments(detector)]
    certain += [*map(response_counter, certain)]
    lengths = np.diff(first)
    lacks_arguments = np.zeros(len(lengths), dtype=bool)
    lacks_arguments[lacking] = True
    uncertain = np.repeat(lacks_arguments, lengths)  # N: whether the step is of a run that lacks arguments
    for name, least_counts in {**counts}.items():
        largest = least_counts.copy()
        largest[uncertain] = most_counts[name]
        if name not in certain:
            counts[name] = np.where(least_counts == largest, least_counts, UNKNOWN)
        if name in bounds:
            counts[bounds[name]] = largest
    return counts


def _most_counts(
    equal: Sequence[Run],
    lacking: Sequence[int],
    raw: Mapping[str, Ints],
    first: Ints,
    scopes: Sequence[str],
    detectors: Sequence[Detector],
    responses: bool,
) -> dict[str, Ints]:
    """The counts after the steps of some runs, by their places, where calls without arguments are equal."""
    steps = _steps_of(equal)
    lengths = np.diff(first)[list(lacking)]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    step_indices = np.arange(starts[-1]) + np.repeat(first[:-1][list(lacking)] - starts[:-1], lengths)
    own_columns = {name: raw[name][step_indices] for name in ("turn", "counted")}
    return _known_counts(
        equal, steps, own_columns, starts, [scopes[i] for i in lacking], detectors, responses=responses
    )


def _steps_of(runs: Iterable[Run]) -> list[Step]:
    """The steps of all runs, turn by turn."""
    return list(chain.from_iterable(steps for _, steps in chain.from_iterable(map(turns_of, runs))))


def _known_counts(
    rows: Sequence[Run],
    steps: Sequence[Step],
    raw: Mapping[str, Ints],
    first: Ints,
    scopes: Sequence[str],
    detectors: Sequence[Detector],
    *,
    responses: bool,
) -> dict[str, Ints]:
    """The counts of detectors after each step: from columns where that can be done, else folded over the calls."""
    columnar = [] if responses else [detector for detector in detectors if is_columnar(detector)]
    folded = [detector for detector in detectors if detector not in columnar]
    counts: dict[str, Ints] = {}
    if columnar:
        opens = first_of_spans(spans_of(raw["turn"], first, scopes), first)
        is_counted = raw["counted"] > 0
        columns = CallColumns(steps, opens, is_counted)
        for detector in columnar:
            counts[detector.name] = _spread_to_all_steps(counts_of(detector, columns), opens, is_counted)
    if folded:
        names = [detector.name for detector in folded]
        names += [response_counter(name) for name in names] if responses else []
        folds = (_fold_steps(run, scope, folded, responses=responses) for run, scope in zip(rows, scopes, strict=True))
        columns_of_counts = np.array(list(chain.from_iterable(folds)), dtype=np.int64).reshape(-1, len(names)).T.copy()
        counts |= zip(names, columns_of_counts, strict=True)
    return counts


def _spread_to_all_steps(counts: Ints, opens: Flags, is_counted: Flags) -> Ints:
    """The counts after counted steps as they stand after all steps: a step that does not count changes nothing."""
    if is_counted.all():
        return counts
    so_far = np.cumsum(is_counted)
    starts = np.flatnonzero(opens)
    counted_before: Ints = np.repeat((so_far - is_counted)[starts], np.diff(np.append(starts, len(opens))))
    return np.where(so_far > counted_before, np.append(counts, 0)[so_far - 1], 0)


def _fold_steps(run: Run, scope: str, detectors: Sequence[Detector], *, responses: bool) -> Iterator[list[int]]:
    """For each step of a run the counts of detectors after it and, if wanted, at its response."""
    names = [detector.name for detector in detectors]
    watch = Watch(detectors)
    counts: dict[str, int | None] = dict.fromkeys(names, 0)
    compacted = compactions_of(run)
    for number, (_, steps) in enumerate(turns_of(run)):
        if scope == "turn" and number:
            watch, counts = Watch(detectors), dict.fromkeys(names, 0)
        for step in steps:
            watch.add_compaction(None if compacted is None else compacted.get(step.index, 0))
            at_response = {**counts, **watch.counts_after(step.response)} if responses else {}
            if step.counted:
                watch.complete(step.response, step.results, counts, step)
            values = (*(counts[name] for name in names), *(at_response[name] for name in names if responses))
            yield [UNKNOWN if value is None else value for value in values]
