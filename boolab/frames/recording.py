"""A recording as a frame: a row for each step, with all that counterfactuals need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import pandas as pd

from boolab.core.endings import turn_proxy_success
from boolab.core.run_tree import starts_of
from boolab.core.types import Identities, Run, Step
from boolab.errors import SettingError
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT, cells, well_formed
from boolab.frames.runs import Runs, as_runs, has_boundary
from boolab.frames.tables import Column, dollars, setting_columns
from boolab.rules.call_identity import check_tools, exempting
from boolab.rules.detectors.streaks import RepeatStreak

PARENT: Final = "parent_run_id"
RUN_FIELDS = ("agent", "model", "policy", "task", "source", "harness_version", "effort", PARENT)
NO_KEY: Final = 0
SUBAGENTS: Final = "subagents"
"""The column of the runs that a step's calls started: their ids, "" for one that the record does not name."""
CALL_TOOLS: Final = "call_tools"
"""The column of the calls' tools, which is read where detectors distinguish tools."""
OF_STEPS: Final = (
    "turn", "step", "boundary", "final", "answered", "n_tool_calls", "asked", "call_keys", "call_errors", CALL_TOOLS,
    SUBAGENTS, "input_tokens", "output_tokens", "cost_usd", "start_ms", "duration_ms",
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
        runs: A run, or runs. A run without steps has no row.
        identity: What makes two calls the same, for all tools or by tool. It is part of the frame, and
            `counterfactual` refuses another one.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Returns:
        run_id, turn, step; `boundary` (whether rules are evaluated after the step); `final` (whether it requests no
        tools); `answered` (whether a turn that ends with it counts as a success where there is no label);
        n_tool_calls; `asked` (how many calls the response requested, NA if it did not arrive); `call_keys`,
        `call_errors` and `call_tools`, a tuple each with one value for each call that has a result (a hash, 0 for a
        call that is the same as no other; 1 failed, 0 did not, -1 unknown; the tool's name); `subagents`, the ids of
        the runs that its calls started, "" for one that the record does not name, NA for none; input_tokens,
        output_tokens, cost_usd, start_ms, duration_ms; and, the same in all rows of a run, identity, agent, model,
        policy, task, source, harness_version, effort, parent_run_id, success, censored, stop_reason, and a column for
        each key of `Run.settings` that is not the name of one of these.

    Raises:
        SettingError: if two runs have the same id, or the identity is not known.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.recording_df(run)[["step", "boundary", "n_tool_calls"]].values.tolist()
        [[1, False, 0]]
    """
    listed = as_runs(runs)
    twice = [run_id for run_id, n in Counter(run.run_id for run in listed).items() if n > 1]
    if twice:
        msg = f"{len(twice)} run ids occur more than once, such as {twice[0]!r}: a frame cannot keep the runs apart"
        raise SettingError(msg)
    same = exempting(identity, exempt)
    if exempt:
        check_tools(same, (call.name for run in listed for step in run.steps for call in step.response.tool_calls))
    return recording_table(listed, same, recorded_settings(listed))


def recorded_settings(runs: Iterable[Run]) -> list[Column]:
    """The columns of settings that `recording_df` has for these runs."""
    return setting_columns(runs, {*OF_STEPS, *_OF_RUNS, *RUN_FIELDS, "n_steps"})


def recording_table(listed: Sequence[Run], identity: Identities, settings: Sequence[Column]) -> pd.DataFrame:
    """The frame of `recording_df`, with the columns of settings that are given: those of more runs than these."""
    rows = [(run, step) for run in listed for step in run.steps]
    watch = RepeatStreak.of(identity)
    pairs = [[(c, r) for c, r in zip(s.response.tool_calls, s.results, strict=True) if r is not None] for _, s in rows]
    keys = [tuple(key_hash(watch.key(c, r)) for c, r in answered) for answered in pairs]
    columns: dict[str, tuple[str, Callable[[Run, Step], Any]]] = {
        "run_id": (TEXT, lambda run, _: run.run_id),
        "turn": (INT, lambda _, step: step.turn),
        "step": (INT, lambda _, step: step.index),
        "boundary": (FLAG, has_boundary),
        "final": (FLAG, lambda _, step: is_final(step)),
        "answered": (FLAG, lambda run, step: turn_proxy_success(run, [step])),
        "n_tool_calls": (INT, lambda _, step: sum(result is not None for result in step.results)),
        "asked": (INT, lambda run, step: len(step.response.tool_calls) if has_response(run, step) else None),
        "input_tokens": (INT, lambda _, step: step.response.usage.input_tokens),
        "output_tokens": (INT, lambda _, step: step.response.usage.output_tokens),
        "cost_usd": (FLOAT, lambda _, step: dollars(step.response.usage.cost)),
        "start_ms": (INT, lambda _, step: step.start_ms),
        "duration_ms": (INT, lambda _, step: step.duration_ms),
        "identity": (TEXT, lambda *_: watch.identities),
        **{name: (TEXT, _field(name)) for name in RUN_FIELDS},
        "success": (FLAG, lambda run, _: run.success),
        "censored": (FLAG, lambda run, _: run.censored),
        "stop_reason": (TEXT, _field("stop_reason")),
    }
    columns |= {column.name: (column.dtype, _of_run(column.get)) for column in settings}
    frame = pd.DataFrame({name: cells([get(*row) for row in rows], of) for name, (of, get) in columns.items()})
    frame.insert(8, "call_keys", pd.Series(keys, dtype=object))
    errors = [tuple(-1 if r.is_error is None else int(r.is_error) for _, r in answered) for answered in pairs]
    frame.insert(9, "call_errors", pd.Series(errors, dtype=object))
    tools = [tuple(well_formed(call.name) for call, _ in answered) for answered in pairs]
    frame.insert(10, CALL_TOOLS, pd.Series(tools, dtype=object))
    named = {run.run_id: _named_by_step(run) for run in listed}
    started = [tuple(map(well_formed, named[run.run_id].get(step.index, ()))) or None for run, step in rows]
    frame.insert(11, SUBAGENTS, pd.Series(started, dtype=object))
    return frame


def _named_by_step(run: Run) -> dict[int, list[str]]:
    """The subagents that a run has started, by step; those of an unknown step are at the first."""
    found: dict[int, list[str]] = {}
    for step, run_id, _ in starts_of(run):
        found.setdefault(step or 1, []).append(run_id or "")
    return found


def key_hash(key: tuple[str, ...] | None) -> int:
    """A call's key as a number; 0 only for None."""
    if key is None:
        return NO_KEY
    text = "\x1f".join(key).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), signed=True) or 1


def _field(name: str) -> Callable[[Run, Step], Any]:
    return lambda run, _: getattr(run, name)


def _of_run(get: Callable[[Run], Any]) -> Callable[[Run, Step], Any]:
    return lambda run, _: get(run)
