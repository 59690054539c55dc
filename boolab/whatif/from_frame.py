"""Recordings as columns, from a frame with a row per step."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd

from boolab.core.run_tree import Start
from boolab.core.types import IDENTITIES, MICRO, Scope, Usage
from boolab.errors import SettingError
from boolab.frames.dtypes import TEXT
from boolab.frames.recording import (
    CALL_TOOLS,
    EQUAL_KEYS,
    OF_STEPS,
    PARENT,
    RUN_FIELDS,
    SUBAGENTS,
    UNPLACED,
    key_hash,
)
from boolab.limits.detector import Detector
from boolab.limits.detectors.streaks import ErrorStreak, RepeatStreak
from boolab.limits.token_count import TokenCount
from boolab.whatif.call_columns import error_streaks_of, repeats_of
from boolab.whatif.step_table import (
    UNKNOWN,
    Ends,
    Flags,
    Ints,
    Ledger,
    assemble,
    bound_counter,
    check_scope,
    finished_reasons,
    first_of_spans,
    last_steps,
    scopes_of,
    spans_of,
)

FRAME_COLUMNS: Final = (
    "run_id", "turn", "step", "boundary", "counted", "final", "answered", "judged", "n_tool_calls", "asked",
    "call_keys", EQUAL_KEYS, "call_errors", UNPLACED, "repeat_streak", "error_streak", "input_tokens", "output_tokens",
    "cost_usd", "start_ms", "duration_ms", "identity", "success", "censored", "stop_reason", "n_steps", SUBAGENTS,
    "parent_step", *RUN_FIELDS,
)  # fmt: skip
"""What is read of a frame with a row per step, beside the columns that groups are made by."""


_CACHE_COLUMNS: Final = ("cached_tokens", "cache_write_tokens")


def frame_columns(detectors: Iterable[Detector], group_by: Iterable[str] = ()) -> list[str]:
    """The columns to read of a table in a file, for these detectors and groups."""
    detectors = tuple(detectors)
    tools = any(isinstance(d, RepeatStreak) and (d.by_tool or d.identity == "tool") for d in detectors)
    usage = _CACHE_COLUMNS if any(isinstance(detector, TokenCount) for detector in detectors) else ()
    return [*dict.fromkeys([*FRAME_COLUMNS, *([CALL_TOOLS] if tools else []), *usage, *group_by])]


def ledger_of_frame(
    frame: pd.DataFrame, detectors: Iterable[Detector] = (), scope: Scope = "auto", *, labelled: bool | None = None
) -> Ledger:
    """The ledger of a frame with a row per step: one like `recording_df` makes, or `steps_df` joined with `runs_df`.

    `run_id`, `step`, and `censored` (whether a limit stopped the recording) are required; `n_tool_calls` for calls,
    tokens, cost and times are optional. Without `boundary`, rules are evaluated after every step of a turn but its
    last, and there too if the run is censored. A row whose `step` is NA stands for a run without steps. Repeats need
    `call_keys`, or `repeat_streak` as `steps_df` has it; under another identity by tool than the frame's, `call_tools`
    as well. `labelled` is whether labels are successes, where the frame is a part of a larger one; by default they are
    if there are any.
    """
    check_scope(scope)
    watched = tuple(dict.fromkeys(detectors))
    check_columns(frame)
    codes, ids = pd.factorize(frame["run_id"])
    starts = np.flatnonzero(np.diff(codes, prepend=-1)) if len(codes) else np.zeros(0, dtype=np.int64)
    if len(starts) != len(ids):
        split_run = frame["run_id"].iloc[
            int(next(s for s, c in zip(starts, codes[starts], strict=True) if s > starts[c]))
        ]
        raise SettingError(f"the rows of run {split_run!r} are not together: sort the frame by run_id and step")
    heads = frame.iloc[starts].reset_index(drop=True)
    if "step" in frame and frame["step"].isna().any():
        is_step = frame["step"].notna().to_numpy()
        frame, codes = frame[is_step].reset_index(drop=True), codes[is_step]
    first = np.append(0, np.cumsum(np.bincount(codes, minlength=len(ids)))).astype(np.int64)
    _check_rows(heads, np.diff(first))
    for name in heads.columns:
        if name in ("run_id", *RUN_FIELDS) or pd.api.types.infer_dtype(heads[name]) == "string":
            heads[name] = heads[name].astype(TEXT)
    calls = _column(frame, "n_tool_calls", 0)  # those that got a result
    if "n_tool_calls" not in frame and "call_keys" in frame:
        calls = np.array([len(keys) for keys in frame["call_keys"]], dtype=np.int64)
    raw = {
        "turn": _column(frame, "turn", 1),
        "tool_calls": calls,
        "input_tokens": _column(frame, "input_tokens", UNKNOWN),
        "output_tokens": _column(frame, "output_tokens", UNKNOWN),
        "cost": _column(frame, "cost_usd", UNKNOWN, MICRO),
        "start": _column(frame, "start_ms", UNKNOWN),
        "duration": _column(frame, "duration_ms", UNKNOWN),
    }
    if "asked" in frame:
        raw["asked"] = _column(frame, "asked", UNKNOWN)
    censored = _column(heads, "censored", 0).astype(bool)
    raw["final"] = _column(frame, "final", 0) if "final" in frame else (raw["tool_calls"] == 0).astype(np.int64)
    sources = heads["source"].tolist() if "source" in heads else [None] * len(heads)
    scopes = scopes_of([None if source is pd.NA else source for source in sources], scope)
    span = spans_of(raw["turn"], first, scopes)
    raw["boundary"] = _boundaries(frame, raw["turn"], span, first, censored)
    raw["counted"] = _counted_column(frame, raw["turn"], first)
    raw["boundary"] &= raw["counted"]
    segments = first_of_spans(span, first)
    calls, by_run = raw["tool_calls"] * raw["counted"], "run" in scopes
    of_counted = slice(None) if raw["counted"].all() else np.repeat(raw["counted"] > 0, raw["tool_calls"])
    for detector in watched:
        if isinstance(detector, TokenCount):
            raw[detector.name] = _token_column(detector, frame, raw["counted"] > 0, segments)
            continue
        counts = raw[detector.name] = _detector_column(detector, frame, of_counted, calls, segments, by_run=by_run)
        if isinstance(detector, RepeatStreak) and "call_keys" in frame:
            keys = _equal_keys(frame, detector)
            raw[bound_counter(detector.name)] = (
                counts if keys is None else repeats_of(keys[of_counted], calls, segments, last_call=detector.last_call)
            )
    raw["judged"] = _column(frame, "judged", UNKNOWN)
    raw["answered"] = _answered_column(frame, raw["final"], first, censored)
    has_steps, last = last_steps(first)
    by_proxy = np.zeros(len(heads), dtype=bool)
    by_proxy[has_steps] = raw["answered"][last] > 0
    reasons = heads["stop_reason"].astype(object) if "stop_reason" in heads else pd.Series([None] * len(heads))
    recorded = np.where(reasons.isna(), finished_reasons(~censored), reasons.to_numpy(dtype=object))
    ends = Ends(_column(heads, "success", UNKNOWN), by_proxy, ~censored, recorded, scopes)
    groups = heads.drop(columns=[*OF_STEPS, "scope"], errors="ignore")
    return assemble(groups, first, raw, ends, watched, labelled=labelled, started=_started(frame, heads, first))


def _started(frame: pd.DataFrame, heads: pd.DataFrame, first: Ints) -> dict[int, list[Start]]:
    """The subagents that each run of a frame started, by its row: from its own column, else from their parents."""
    starts: dict[int, list[Start]] = {}
    if SUBAGENTS in frame:
        subagent_ids = frame[SUBAGENTS]
        rows_with_subagents = np.flatnonzero(subagent_ids.notna())
        runs = np.searchsorted(first, rows_with_subagents, side="right") - 1
        for run, row in zip(runs.tolist(), rows_with_subagents.tolist(), strict=True):
            step = row - int(first[run]) + 1
            starts.setdefault(run, []).extend(Start(step, run_id or None) for run_id in subagent_ids.iloc[row])
        for run, unplaced in enumerate(heads[UNPLACED]) if UNPLACED in heads else ():
            if isinstance(unplaced, Iterable):
                starts.setdefault(run, []).extend(Start(None, run_id or None) for run_id in unplaced)
    elif "parent_step" in heads and PARENT in heads:
        rows = {run_id: row for row, run_id in enumerate(heads["run_id"])}
        steps = _column(heads, "parent_step", 0).tolist()
        for run_id, parent, step in zip(heads["run_id"], heads[PARENT], steps, strict=True):
            if parent is not pd.NA and parent in rows:
                starts.setdefault(rows[parent], []).append(Start(step or None, run_id))
    return starts


def _answered_column(frame: pd.DataFrame, final: Ints, first: Ints, censored: Flags) -> Ints:
    """Whether a turn that ends with a step counts as a success; without the column, one that terminated does."""
    if "answered" in frame:
        return _column(frame, "answered", 0)
    answered = final.copy()
    has_steps, last = last_steps(first)
    answered[last] = ~censored[has_steps]
    return answered


def check_columns(frame: pd.DataFrame) -> None:
    """Raise `SettingError` if a frame lacks a required column, or a value in one."""
    if "run_id" in frame and "step" not in frame and frame["run_id"].is_unique:
        msg = (
            "the frame has no column 'step', so its rows are runs and not steps, and where a limit would have stopped "
            "them is not known: pass the runs themselves, or bl.recording_df(runs)"
        )
        raise SettingError(msg)
    for name in ("run_id", "censored"):
        if name not in frame:
            raise SettingError(
                f"the frame has no column {name!r}: pass runs, a frame made by bl.recording_df(runs), or "
                "bl.steps_df(runs) joined with run_id, censored, stop_reason and success of bl.runs_df(runs); "
                "bl.runs_from_table makes runs of a table with other columns"
            )
        if frame[name].isna().any():
            msg = f"column {name!r} has no value in row {int(frame[name].isna().argmax())}: every row needs one"
            raise SettingError(msg)


def _check_rows(heads: pd.DataFrame, rows: Ints) -> None:
    """Raise `SettingError` if a run has more or fewer rows than the column n_steps gives."""
    if "n_steps" not in heads:
        return
    expected = _column(heads, "n_steps", UNKNOWN)
    wrong = np.flatnonzero((expected >= 0) & (expected != rows))
    if len(wrong):
        run = int(wrong[0])
        raise SettingError(
            f"run {heads['run_id'].iloc[run]!r} has {expected[run]:,} steps by the column n_steps, and {rows[run]:,} "
            f"row{'' if rows[run] == 1 else 's'} in the frame: expected a row for each step, as bl.recording_df(runs) "
            "makes it"
        )


def _column(frame: pd.DataFrame, name: str, missing: int, in_one: int = 1) -> Ints:
    """A column in whole units; `missing` where there is no value or no column."""
    if name not in frame:
        return np.full(len(frame), missing, dtype=np.int64)
    values = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
    is_missing = np.isnan(values)
    return np.where(is_missing, missing, np.rint(values * in_one)).astype(np.int64)


def _boundaries(frame: pd.DataFrame, turn: Ints, span: Ints, first: Ints, censored: Flags) -> Ints:
    """Whether rules are evaluated after each step; inside a span they always are."""
    last = np.zeros(len(frame), dtype=bool)
    has_steps, ends = last_steps(first)
    last[ends] = True
    if "boundary" in frame:
        boundary = _column(frame, "boundary", 0).astype(bool)
    else:
        boundary = ~last
        boundary[:-1] &= turn[1:] == turn[:-1]
        boundary[ends] = censored[has_steps]
    boundary[:-1] |= ~last[:-1] & (span[1:] == span[:-1])
    return boundary.astype(np.int64)


def _counted_column(frame: pd.DataFrame, turn: Ints, first: Ints) -> Ints:
    """Whether limits count each step: without that column, all but those without a boundary inside of their turn."""
    if "counted" in frame:
        return _column(frame, "counted", 1)
    last_of_turn: Flags = np.append(first_of_spans(turn, first)[1:], True)[: len(turn)]
    return np.where(last_of_turn, 1, _column(frame, "boundary", 1))


def _detector_column(
    detector: Detector, frame: pd.DataFrame, of_counted: Flags | slice, calls: Ints, opens: Flags, *, by_run: bool
) -> Ints:
    """A detector's counter after each step, from the numbers that the frame has for each call."""
    if isinstance(detector, RepeatStreak) and "call_keys" in frame:
        last_call = detector.last_call
        least_counts = repeats_of(_keys(frame, detector)[of_counted], calls, opens, last_call=last_call)
        equal = _equal_keys(frame, detector)
        if equal is None:
            return least_counts
        largest_counts = repeats_of(equal[of_counted], calls, opens, last_call=last_call)
        return np.where(largest_counts == least_counts, least_counts, UNKNOWN)
    if isinstance(detector, ErrorStreak) and "call_errors" in frame:
        return error_streaks_of(_flatten(frame["call_errors"])[of_counted], calls, opens)
    kind = {RepeatStreak: "repeat_streak", ErrorStreak: "error_streak"}.get(type(detector))
    if kind is None:
        raise SettingError(f"{detector.name} cannot be computed from a frame, which holds no calls: pass runs")
    if kind not in frame or by_run or getattr(detector, "last_call", False):
        msg = f"{detector.name} cannot be computed from this frame: pass runs, or a frame made by bl.recording_df(runs)"
        raise SettingError(msg)
    after = np.append(_column(frame, kind, UNKNOWN)[1:], UNKNOWN)
    after[np.flatnonzero(np.append(opens[1:], True))] = UNKNOWN
    return after


def _token_column(detector: TokenCount, frame: pd.DataFrame, is_counted: Flags, opens: Flags) -> Ints:
    """The weighted tokens after each step, by the detector's own sums: those of numpy could overflow."""
    names = ("input_tokens", "output_tokens", *_CACHE_COLUMNS)
    if "cached_tokens" not in frame and detector.cached != detector.input:
        msg = f"{detector.name} needs the column cached_tokens: pass runs, or a frame made by bl.recording_df(runs)"
        raise SettingError(msg)
    columns = (_column(frame, name, UNKNOWN).tolist() for name in names)
    state: int | None = detector.start
    count: int | None = 0
    counts = np.zeros(len(frame), dtype=np.int64)
    for place, (counted, first, *amounts) in enumerate(zip(is_counted, opens, *columns, strict=True)):
        if first:
            state, count = detector.start, 0
        if counted:
            usage = Usage(**{name: None if n < 0 else n for name, n in zip(names, amounts, strict=True)})
            state, count = detector.charge(state, usage)
        counts[place] = UNKNOWN if count is None else count
    return counts


def _equal_keys(frame: pd.DataFrame, detector: RepeatStreak) -> Ints | None:
    """As `_keys`, where all calls of a tool with unknown arguments are equal; None if all arguments are known."""
    if EQUAL_KEYS not in frame or frame[EQUAL_KEYS].isna().all():
        return None
    equal = frame[EQUAL_KEYS].where(frame[EQUAL_KEYS].notna(), frame["call_keys"])
    return _keys(frame.assign(call_keys=equal), detector)


def _keys(frame: pd.DataFrame, detector: RepeatStreak) -> Ints:
    """The keys that a detector compares calls by: the frame's own, but for tools it exempts or compares by name."""
    keys = _flatten(frame["call_keys"])
    frame_identities = set(frame["identity"].dropna().unique()) if "identity" in frame else set()
    if not frame_identities - {detector.identities}:
        return keys
    its_own = next(iter(frame_identities)) if len(frame_identities) == 1 else ""
    missing = {detector.identities}
    if its_own in IDENTITIES and CALL_TOOLS in frame:
        codes, tools = pd.factorize(np.array([*chain.from_iterable(frame[CALL_TOOLS])], dtype=object))
        identities = [detector.identity_for(tool) for tool in tools]
        missing = {identity for identity in identities if identity not in (None, "tool", its_own)}
        if not missing:
            pairs = zip(tools, identities, strict=True)
            by_name = [key_hash(None if identity is None else (tool,)) for tool, identity in pairs]
            keeps_key = np.array([identity == its_own for identity in identities], dtype=bool)
            return np.where(keeps_key[codes], keys, np.array(by_name, dtype=np.int64)[codes]) if len(codes) else keys
    raise SettingError(
        f"the frame's calls are compared by {', '.join(sorted(frame_identities))}, not by "
        f"{', '.join(sorted(missing))}: make it with bl.recording_df(runs, identity=...), or use its identity"
    )


def _flatten(lists: pd.Series[Any]) -> Ints:
    if lists.isna().any():
        row = int(lists.isna().argmax())
        raise SettingError(f"column {lists.name!r} has no value in row {row}: every step needs a list of numbers")
    parts = lists.tolist()
    if set(map(type, parts)) == {np.ndarray}:  # as they come from a file
        return np.concatenate(parts).astype(np.int64)
    return np.fromiter(chain.from_iterable(parts), dtype=np.int64)
