"""A recording as a frame: a row for each step, with all that counterfactuals need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import pandas as pd

from boolab.core.endings import has_boundary, turn_proxy_success
from boolab.core.run import Run
from boolab.core.run_labels import turn_label
from boolab.core.run_tree import starts_of, tool_calls
from boolab.core.types import Identities, Step, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT, Column, cells, replace_surrogates
from boolab.frames.runs import Runs, as_runs, with_equal_arguments
from boolab.frames.tables import dollars, setting_columns
from boolab.limits.call_identity import check_tools, exclude_tools
from boolab.limits.detectors.streaks import RepeatStreak

PARENT: Final = "parent_run_id"
RUN_FIELDS = ("agent", "model", "policy", "task", "source", "harness_version", "effort", PARENT)
NO_KEY: Final = 0
SUBAGENTS: Final = "subagents"
"""The column of the runs that a step's calls started: their ids, "" for one that the record does not name."""
CALL_TOOLS: Final = "call_tools"
"""The column of the calls' tools, which is read where detectors distinguish tools."""
EQUAL_KEYS: Final = "call_keys_if_equal"
"""The column of the calls' keys if all calls of a tool are equal whose arguments are not on record; else NA."""
UNPLACED: Final = "subagents_of_unknown_step"
"""The column of the subagents that a run started at a step that is not on record: in the run's first row."""
LISTS: Final = {
    "call_keys": "int64", EQUAL_KEYS: "int64", "call_errors": "int8", CALL_TOOLS: "string", SUBAGENTS: "string",
    UNPLACED: "string",
}  # fmt: skip
"""The columns of `recording_df` that hold lists, with the Arrow type of their values."""
OF_STEPS: Final = (
    "turn", "step", "boundary", "counted", "final", "answered", "judged", "n_tool_calls", "asked", "call_keys",
    EQUAL_KEYS, "call_errors", CALL_TOOLS, SUBAGENTS, UNPLACED, "input_tokens", "output_tokens", "cached_tokens",
    "cache_write_tokens", "cost_usd", "start_ms", "duration_ms",
)  # fmt: skip
"""The columns of `recording_df` that are about a step, so that runs cannot be grouped by them."""
_OF_RUNS: Final = ("run_id", "identity", "success", "censored", "stop_reason")


def has_response(run: Run, step: Step) -> bool:
    """Whether the response of a step came, and the recording policy did not treat it as a failure."""
    if any(step.results):
        return True
    failed = step.index == len(run.steps) and run.stop_reason == "error" and not has_boundary(run, step)
    return not (step.error or failed)


def is_final(step: Step) -> bool:
    """Whether a step requests no tools, so that its turn ends with it if nothing follows."""
    return not (step.response.tool_calls or step.error)


def recording_df(runs: Runs, identity: Identities = "canonical", exempt: Sequence[str] = ()) -> pd.DataFrame:
    """One row for each step, with all that `counterfactual` reads: write it to Parquet, and it is read in batches.

    Args:
        runs: A run, or runs. A run without steps has one row, whose `step` is NA.
        identity: What makes two calls the same, for all tools or by tool. It is part of the frame, and
            `counterfactual` refuses another one.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Returns:
        run_id, turn, step; `boundary` (whether rules are evaluated after the step); `counted` (whether limits count
        it); `final` (whether it requests no tools); `answered` (whether a turn that ends with it counts as a success
        where there is no label); `judged` (the label of its turn, where turns have labels of their own);
        n_tool_calls; `asked` (how many calls the response requested, NA if it did not arrive); `call_keys`,
        `call_errors` and `call_tools`, a tuple each with one value for each call that has a result (a hash, 0 for a
        call that is the same as no other; 1 failed, 0 did not, -1 unknown; the tool's name); `call_keys_if_equal`, in
        runs where arguments are not on record, the keys if the calls of each such tool are all equal; `subagents`, the
        ids of the runs that its calls started, "" for one that the record does not name, NA for none;
        `subagents_of_unknown_step`, in the first row, those of which the step is not on record; input_tokens,
        output_tokens, cached_tokens, cache_write_tokens, cost_usd, start_ms, duration_ms; and, the same in all rows of
        a run, identity, agent, model, policy, task, source, harness_version, effort, parent_run_id, success, censored,
        stop_reason, and a column for each key of `Run.settings` that is not the name of one of these.

    Raises:
        SettingError: if two runs have the same id, or the identity is not known.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.recording_df(run)[["step", "boundary", "n_tool_calls"]].values.tolist()
        [[1, False, 0]]
    """
    run_list = as_runs(runs)
    doubles = [run_id for run_id, n in Counter(run.run_id for run in run_list).items() if n > 1]
    if doubles:
        msg = f"{len(doubles)} run ids occur more than once, such as {doubles[0]!r}: a frame cannot separate them"
        raise SettingError(msg)
    identities = exclude_tools(identity, exempt)
    if exempt:
        check_tools(identities, (call.name for call in tool_calls(*run_list)))
    return recording_table(run_list, identities, recorded_settings(run_list))


def recorded_settings(runs: Iterable[Run]) -> list[Column]:
    """The columns of settings that `recording_df` has for these runs."""
    return setting_columns(runs, {*OF_STEPS, *_OF_RUNS, *RUN_FIELDS, "n_steps"})


def recording_table(run_list: Sequence[Run], identity: Identities, settings: Sequence[Column]) -> pd.DataFrame:
    """The frame of `recording_df`, with the columns of settings that are given: those of more runs than these."""
    watch = RepeatStreak.of(identity)
    rows = [(run, step) for run in run_list for step in run.steps or (None,)]
    of_steps: dict[str, tuple[str, Callable[[Run, Step], Any]]] = {
        "turn": (INT, lambda _, step: step.turn),
        "step": (INT, lambda _, step: step.index),
        "boundary": (FLAG, has_boundary),
        "counted": (FLAG, lambda _, step: step.counted),
        "final": (FLAG, lambda _, step: is_final(step)),
        "answered": (FLAG, lambda run, step: turn_proxy_success(run, [step])),
        "judged": (FLAG, lambda run, step: None if (label := turn_label(run, step.turn)) is None else label.success),
        "n_tool_calls": (INT, lambda _, step: sum(result is not None for result in step.results)),
        "asked": (INT, lambda run, step: len(step.response.tool_calls) if has_response(run, step) else None),
        "input_tokens": (INT, lambda _, step: step.response.usage.input_tokens),
        "output_tokens": (INT, lambda _, step: step.response.usage.output_tokens),
        "cached_tokens": (INT, lambda _, step: step.response.usage.cached_tokens),
        "cache_write_tokens": (INT, lambda _, step: step.response.usage.cache_write_tokens),
        "cost_usd": (FLOAT, lambda _, step: dollars(step.response.usage.cost)),
        "start_ms": (INT, lambda _, step: step.start_ms),
        "duration_ms": (INT, lambda _, step: step.duration_ms),
        "identity": (TEXT, lambda *_: watch.identities),
    }
    of_runs: dict[str, tuple[str, Callable[[Run], Any]]] = {
        **{name: (TEXT, attrgetter(name)) for name in RUN_FIELDS},
        "success": (FLAG, attrgetter("success")),
        "censored": (FLAG, attrgetter("censored")),
        "stop_reason": (TEXT, attrgetter("stop_reason")),
        **{column.name: (column.dtype, column.get) for column in settings},
    }
    data = {"run_id": cells([run.run_id for run, _ in rows], TEXT)}
    data |= {
        name: cells([None if step is None else get(run, step) for run, step in rows], dtype)
        for name, (dtype, get) in of_steps.items()
    }
    data |= {name: cells([get(run) for run, _ in rows], dtype) for name, (dtype, get) in of_runs.items()}
    frame = pd.DataFrame(data)
    pairs = [_answered_calls(step) for _, step in rows]
    lists: dict[str, list[Any]] = {
        "call_keys": [_key_hashes(watch, answered) for answered in pairs],
        EQUAL_KEYS: _equal_keys(watch, run_list),
        "call_errors": [
            tuple(-1 if r.is_error is None else int(r.is_error) for _, r in answered) for answered in pairs
        ],
        CALL_TOOLS: [tuple(replace_surrogates(call.name) for call, _ in answered) for answered in pairs],
        SUBAGENTS: [*chain.from_iterable(map(_subagents_by_step, run_list))],
        UNPLACED: [*chain.from_iterable(map(_subagents_without_step, run_list))],
    }
    for position, (name, values) in enumerate(lists.items(), list(frame).index("asked") + 1):
        frame.insert(position, name, pd.Series(values, dtype=object))
    return frame


def _answered_calls(step: Step | None) -> list[tuple[ToolCall, ToolResult]]:
    """The calls of a step that got a result."""
    if step is None:
        return []
    pairs = zip(step.response.tool_calls, step.results, strict=True)
    return [(call, result) for call, result in pairs if result is not None]


def _key_hashes(watch: RepeatStreak, answered: Iterable[tuple[ToolCall, ToolResult]]) -> tuple[int, ...]:
    return tuple(key_hash(watch.key(call, result)) for call, result in answered)


def _equal_keys(watch: RepeatStreak, run_list: Iterable[Run]) -> list[tuple[int, ...] | None]:
    """For each row the keys with equal arguments where they are unknown; None in runs with all arguments on record."""
    rows: list[tuple[int, ...] | None] = []
    for run in run_list:
        equal = with_equal_arguments(run)
        if equal is None:
            rows += [None] * (len(run.steps) or 1)
        else:
            rows += [_key_hashes(watch, _answered_calls(step)) for step in equal.steps]
    return rows


def _subagents_by_step(run: Run) -> list[tuple[str, ...] | None]:
    """The subagents that a run has started, by row."""
    rows: list[tuple[str, ...]] = [()] * (len(run.steps) or 1)
    for step, run_id, _ in starts_of(run):
        if step is not None:
            rows[step - 1] = (*rows[step - 1], replace_surrogates(run_id or ""))
    return [run_ids or None for run_ids in rows]


def _subagents_without_step(run: Run) -> list[tuple[str, ...] | None]:
    """The subagents that a run has started at a step that is not on record: in its first row."""
    run_ids = tuple(replace_surrogates(run_id or "") for step, run_id, _ in starts_of(run) if step is None)
    return [run_ids or None, *[None] * (len(run.steps) - 1)]


def key_hash(key: tuple[str, ...] | None) -> int:
    """A call's key as a number; 0 only for None."""
    if key is None:
        return NO_KEY
    text = "\x1f".join(key).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), signed=True) or 1
