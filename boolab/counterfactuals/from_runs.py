"""Recordings as columns, from runs: detectors are folded over the calls of each, as in the live loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import pandas as pd

from boolab.core.endings import proxy_success, terminated, turn_proxy_success
from boolab.core.gc_pause import without_collection
from boolab.core.run_tree import starts_of
from boolab.core.types import Run, Scope
from boolab.counterfactuals.scopes import check_scope, scopes_of
from boolab.counterfactuals.step_table import UNKNOWN, Ends, Ints, Ledger, assemble, response_counter
from boolab.frames.dtypes import cells, text
from boolab.frames.recording import RUN_FIELDS, has_response, is_final
from boolab.frames.runs import Runs, as_runs, has_boundary, turns_of
from boolab.frames.tables import setting_columns
from boolab.rules.detector import Detector
from boolab.rules.detector_bank import Watch

StepColumns: TypeAlias = Mapping[str, Callable[[Run, str], Sequence[int]]]
"""Further counters by name: each is given a run and its scope, and gives a number for each of the run's steps."""

_NUMBERS: Final = (
    "turn", "tool_calls", "input_tokens", "output_tokens", "cost", "start", "duration", "asked", "boundary", "final",
    "answered", "counted",
)  # fmt: skip
"""The raw columns of steps, before those of detectors."""
_NONE: Final[StepColumns] = MappingProxyType({})


def ledger_of(
    runs: Runs,
    detectors: Iterable[Detector] = (),
    scope: Scope = "auto",
    *,
    columns: StepColumns = _NONE,
    responses: bool = False,
    labelled: bool | None = None,
) -> Ledger:
    """The ledger of runs, with a counter for each detector. Labels are successes where any run has one, else a proxy.

    Its `ended` marks the records that terminated: `Ledger.kept` keeps the limits of the recording in force. `columns`
    are further counters, such as those of a policy. With `responses` each detector is counted at the response too,
    before its calls are executed: see `response_counter`. `labelled` is whether labels are successes, where the runs
    are a part of more.
    """
    check_scope(scope)
    rows = as_runs(runs)
    watched = tuple(dict.fromkeys(detectors))
    names = [detector.name for detector in watched]
    scopes = scopes_of([run.source for run in rows], scope)
    each = list(zip(rows, scopes, strict=True))
    with without_collection():
        numbers = [row for run, its_scope in each for row in _step_rows(run, its_scope, watched, responses=responses)]
    more = [response_counter(name) for name in names] if responses else []
    labels = (*_NUMBERS, *names, *more)
    raw = dict(zip(labels, np.array(numbers, dtype=np.int64).reshape(-1, len(labels)).T.copy(), strict=True))
    frame = pd.DataFrame({"run_id": text([run.run_id for run in rows])})
    for name in RUN_FIELDS:
        frame[name] = text([getattr(run, name) for run in rows])
    for column in setting_columns(rows, frame.columns):
        frame[column.name] = cells([column.get(run) for run in rows], column.dtype)
    ends = Ends(
        np.array([-1 if run.success is None else int(run.success) for run in rows], dtype=np.int64),
        np.array([proxy_success(run) for run in rows], dtype=bool),
        np.array([terminated(run) for run in rows], dtype=bool),
        np.array([run.stop_reason for run in rows], dtype=object),
        scopes,
    )
    first = np.concatenate(([0], np.cumsum(np.array([len(run.steps) for run in rows], dtype=np.int64))))
    started = {row: found for row, run in enumerate(rows) if (found := starts_of(run))}
    ledger = assemble(frame, first, raw, ends, watched, labelled=labelled, started=started)
    further: dict[str, Ints] = {name: raw[name] for name in more}
    for name, values in columns.items():
        further[name] = np.fromiter(chain.from_iterable(values(*one) for one in each), dtype=np.int64)
    return replace(ledger, counters={**ledger.counters, **further}) if further else ledger


def _step_rows(run: Run, scope: str, detectors: Sequence[Detector], *, responses: bool) -> Iterator[list[int]]:
    """The raw columns of each step: `_NUMBERS`, the detectors' counts after it and, if wanted, at its response."""
    names = [detector.name for detector in detectors]
    watch = Watch(detectors)
    counts: dict[str, int | None] = dict.fromkeys(names, 0)
    for number, (turn, steps) in enumerate(turns_of(run)):
        if scope == "turn" and number:
            watch, counts = Watch(detectors), dict.fromkeys(names, 0)
        for step in steps:
            ahead = {**counts, **watch.after(step.response)} if responses else {}
            usage, answered = step.response.usage, len(step.results) - step.results.count(None)
            if step.counted and detectors:
                watch.complete(step.response, step.results, counts)
            values = (
                turn,
                answered,
                usage.input_tokens,
                usage.output_tokens,
                usage.cost,
                step.start_ms,
                step.duration_ms,
                len(step.response.tool_calls) if has_response(run, step) else None,
                (scope == "run" and step.counted and step.index < len(run.steps)) or has_boundary(run, step),
                is_final(step),
                turn_proxy_success(run, [step]),
                step.counted,
                *(counts[name] for name in names),
                *(ahead[name] for name in names if responses),
            )
            yield [UNKNOWN if value is None else value for value in values]
