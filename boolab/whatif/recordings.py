"""Recordings of any kind as ledgers: runs, a frame with a row per step, a file of steps, or a store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pandas as pd

from boolab.core.types import Scope
from boolab.errors import SettingError
from boolab.frames.dtypes import cells, setting_dtype, text
from boolab.frames.recording import CALL_TOOLS, RUN_FIELDS
from boolab.frames.runs import Runs, as_runs, no_group_column
from boolab.frames.tables import tools_called
from boolab.harnesses.policy import Policy
from boolab.limits.call_identity import check_tools
from boolab.limits.detector import Detector, named_tools
from boolab.store.connection import begins_as_sqlite
from boolab.store.stored_runs import StoredRuns, stored_runs
from boolab.whatif.first_crossing import INTERVENED
from boolab.whatif.from_frame import frame_columns, ledger_of_frame
from boolab.whatif.from_runs import StepColumns, ledger_of
from boolab.whatif.policy_limits import divergences, has_response_guards, intervenes
from boolab.whatif.question import OwnLimits
from boolab.whatif.step_files import Partition, frames_of, has_labels, homes_in, is_step_table, merge_families
from boolab.whatif.step_table import Ledger
from boolab.whatif.success_kinds import Group, labelled_groups

Recorded: TypeAlias = Runs | pd.DataFrame | str | Path
"""Runs, a frame with a row per step, or the path of a file (or a folder of them) with such a frame, `.parquet` or
`.jsonl`."""

PARQUET_ROWS: Final = 200_000
"""About how many rows of a file are read at a time."""
STORED_RUNS: Final = 2_000
"""About how many runs of a store are read at a time."""


def ledgers_of(
    recorded: Recorded,
    detectors: Sequence[Detector],
    scope: Scope,
    group_by: Sequence[str] = (),
    policy: Policy | None = None,
    own_limits: OwnLimits = "lifted",
) -> Iterator[Ledger]:
    """Recordings as ledgers: one, or, from a file or a store, one for each batch of whole runs."""
    ledgers = _ledgers(as_recorded(recorded), detectors, scope, group_by, policy)
    return (check_ledger(ledger, group_by, own_limits) for ledger in ledgers)


def labelled_groups_in(recorded: Recorded, scope: Scope, keys: Sequence[str]) -> frozenset[Group] | None:
    """The groups of a file or a store whose successes are labels; None where all is read at once, or without groups.

    It is read once more, without what limits count.
    """
    if not keys or not isinstance(recorded, str | Path):
        return None
    if not begins_as_sqlite(recorded) and not has_labels(recorded):
        return None
    return labelled_groups(ledgers_of(recorded, [], scope, keys), keys)


def as_recorded(recorded: Recorded) -> Recorded:
    """Recordings that can be read several times: a frame, a table of steps or a store as it is, all else as runs."""
    if isinstance(recorded, pd.DataFrame):
        return recorded
    if isinstance(recorded, str | Path) and (begins_as_sqlite(recorded) or is_step_table(recorded)):
        return recorded
    return as_runs(recorded)


def frames_in(
    data: str | Path | Partition,
    homes: Mapping[str, tuple[str, int]],
    detectors: Sequence[Detector],
    group_by: Sequence[str],
) -> Iterator[pd.DataFrame]:
    """The frames in a file, a folder of them, or a partition: whole families, some at a time."""
    columns = frame_columns(detectors, group_by)
    if isinstance(data, Partition):
        return merge_families(data.frames(PARQUET_ROWS, columns), homes)
    return merge_families(frames_of(data, PARQUET_ROWS, columns), homes)


def check_ledger(ledger: Ledger, group_by: Sequence[str], own_limits: OwnLimits) -> Ledger:
    """A ledger with its own limits in force or not; `SettingError` if it lacks a column of `group_by`."""
    for name in group_by:
        if name not in ledger.runs:
            if ledger.n_runs:
                raise no_group_column(name, ledger.runs.columns)
            ledger.runs[name] = text([])
    return ledger.apply_own_limits() if own_limits == "kept" else ledger


def check_labels(ledger: Ledger) -> Ledger:
    """A ledger of a part of a file; `SettingError` if turns have labels of their own, as other parts may have none."""
    if ledger.judges_turns:
        msg = (
            "turns have labels of their own, and a file that is read in parts is counted by run: pass the runs "
            "(bl.load_runs), or scope='run'"
        )
        raise SettingError(msg)
    return ledger


def check_frames(policy: Policy | None) -> None:
    """Raise `SettingError` if frames do not hold enough for a policy."""
    if policy is not None and (intervenes(policy) or has_response_guards(policy)):
        msg = f"policy {policy.name}: its messages to the model need texts, which a frame does not hold: pass runs"
        raise SettingError(msg)


def _ledgers(
    recorded: Recorded, detectors: Sequence[Detector], scope: Scope, group_by: Sequence[str], policy: Policy | None
) -> Iterator[Ledger]:
    guard_detectors = () if policy is None else [guard.watch for guard in policy.detectors.guards]
    named_identities, called_tools = (
        named_tools(detector for detector in detectors if detector not in guard_detectors),
        set[str](),
    )
    if isinstance(recorded, str | Path) and begins_as_sqlite(recorded):
        stored = stored_runs(recorded)
        if named_identities:
            check_tools(named_identities, tools_called(stored))
        yield from _ledgers_of_store(stored, detectors, scope, group_by, policy)
    elif isinstance(recorded, str | Path | pd.DataFrame):
        check_frames(policy)
        if isinstance(recorded, pd.DataFrame):
            labelled, frames = None, iter([recorded])
        else:
            labelled, frames = has_labels(recorded), frames_in(recorded, homes_in(recorded), detectors, group_by)
        frame = None
        for frame in frames:
            yield ledger_of_frame(frame, detectors, scope, labelled=labelled)
            if named_identities and CALL_TOOLS in frame:
                called_tools.update(itertools.chain.from_iterable(frame[CALL_TOOLS].dropna()))
        if frame is None:
            yield ledger_of([], detectors, scope)
        if named_identities:
            check_tools(named_identities, called_tools)
    else:
        runs = as_runs(recorded)
        if named_identities:
            check_tools(named_identities, tools_called(runs))
        yield _ledger_of_runs(runs, detectors, scope, policy)


def _ledger_of_runs(
    runs: Runs, detectors: Sequence[Detector], scope: Scope, policy: Policy | None, *, labelled: bool | None = None
) -> Ledger:
    """The ledger of runs, with the counters that a policy needs."""
    columns: StepColumns = {}
    if policy is not None and intervenes(policy):
        columns = {INTERVENED: lambda run, its_scope: divergences(policy, run, turns=its_scope == "turn")}
    responses = policy is not None and has_response_guards(policy)
    return ledger_of(runs, detectors, scope, columns=columns, responses=responses, labelled=labelled)


def _ledgers_of_store(
    runs: StoredRuns, detectors: Sequence[Detector], scope: Scope, group_by: Sequence[str], policy: Policy | None
) -> Iterator[Ledger]:
    """A ledger for each batch, with settings of the type that they have in all of the runs together."""
    labelled, settings = runs.labelled(), runs.settings()
    swept = [
        name for name in group_by if name not in RUN_FIELDS and any(name in run_settings for run_settings in settings)
    ]
    types = {name: setting_dtype([run_settings.get(name) for run_settings in settings]) for name in swept}
    for batch in runs.families(STORED_RUNS) if len(runs) else [[]]:
        ledger = _ledger_of_runs(batch, detectors, scope, policy, labelled=labelled)
        for name, kind in types.items():
            ledger.runs[name] = cells(ledger.runs[name] if name in ledger.runs else [None] * ledger.n_runs, kind)
        yield ledger
