"""Runs as DataFrames. Each table is declared once, as a list of columns.

Integers are `Int64` and flags `boolean`, both nullable: what a source does not report is NA, never zero. So is an
integer beyond 64 bits, such as a seed, which no such column holds: the run has it. Times are milliseconds from the
run's start, money is in dollars. The counters in `steps_df` are those at the boundary *before* the step, computed from
the record by the same folds that the live loop uses, and they start at zero in each turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from boolab.core.endings import has_boundary
from boolab.core.events import compactions_of, run_events
from boolab.core.finish_reasons import finish_reason
from boolab.core.redacted import chars_of
from boolab.core.run import Run
from boolab.core.run_labels import label_of
from boolab.core.run_tree import parent_steps, tool_calls
from boolab.core.types import MICRO, REDACTED, Step, ToolCall, ToolResult, result_slots_in, results_in
from boolab.frames.dtypes import (
    FLAG,
    FLOAT,
    INT,
    TEXT,
    TIME,
    Column,
    frame_of_columns,
    replace_surrogates,
    setting_dtype,
)
from boolab.frames.runs import (
    Runs,
    as_runs,
    handles_unknown_arguments,
    iterate_runs,
    known_sum,
    sum_known_usage,
    sum_usage,
    turns_of,
    with_equal_arguments,
)
from boolab.limits.call_identity import arguments_hash
from boolab.limits.detector import Detector
from boolab.limits.detectors.cycles import cycle_period
from boolab.limits.detectors.streaks import ErrorStreak, RepeatStreak
from boolab.limits.ladder import LadderState
from boolab.limits.stop import StopRule
from boolab.limits.table import COUNTERS

if TYPE_CHECKING:
    import pandas as pd


def runs_df(runs: Runs) -> pd.DataFrame:
    """One row for each run, with a column more for each setting that a sweep set.

    Args:
        runs: A run, runs, or the path of a store or of logs.

    Returns:
        The columns of `RUN_COLUMNS`, then one `Int64` (or `string`) column for each key of `Run.settings`. A setting
        beyond 64 bits is text. `parent_step` is the step of its parent whose call started a subagent, where the parent
        is among the runs and has it.

    Example:
        >>> import boolab as bl
        >>> list(bl.runs_df([]).columns)[:3]
        ['run_id', 'agent', 'model']
    """
    rows = as_runs(runs)
    return frame_of_columns(_run_columns(rows), rows)


def columns_of_runs(rows: Sequence[Run], names: Collection[str]) -> pd.DataFrame:
    """Some of the columns of `runs_df`; all, if one of these is none of them."""
    columns = _run_columns(rows)
    chosen_columns = [column for column in columns if column.name in names]
    return frame_of_columns(chosen_columns if len(chosen_columns) == len(names) else columns, rows)


def _run_columns(rows: Sequence[Run]) -> list[Column]:
    step_by_child = parent_steps(rows)
    columns = [
        column._replace(get=lambda run: None if run.parent_run_id is None else step_by_child.get(run.run_id))
        if column.name == "parent_step"
        else column
        for column in RUN_COLUMNS
    ]
    return [*columns, *setting_columns(rows, _RUN_NAMES)]


def setting_columns(runs: Iterable[Run], reserved: Container[str]) -> list[Column]:
    """A column for each key of `Run.settings`, in the order in which they appear, but for names that are taken."""
    values: dict[str, list[Any]] = {}
    for run in runs:
        for name, value in run.settings.items():
            values.setdefault(name, []).append(value)
    name_by_column = {replace_surrogates(name): name for name in values}
    free = [(column, name) for column, name in name_by_column.items() if column not in reserved]
    return [Column(column, setting_dtype(values[name]), _setting(name)) for column, name in free]


def steps_df(runs: Runs) -> pd.DataFrame:
    """One row for each step, with the counters at the boundary before it.

    `repeat_streak` and `error_streak` are the longest in the step before, as `bl.doom_loop` and `bl.error_streak` read
    them (`boolab.limits.stop`, "Counters"); `repeat_streak` counts by the identity that the run's own detector used;
    `steps_left` and `budget_left` are NA where nothing limited them; `cycle_period` is the smallest p <= 5 such that
    the last 2p calls are two equal halves; `shadow_stops` names the rules in shadow that are true there, joined by
    commas, with spaces for those inside a name.

    Args:
        runs: A run, runs, or the path of a store or of logs.

    Returns:
        The columns of `STEP_COLUMNS`.

    Example:
        >>> import boolab as bl
        >>> bl.steps_df(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])))["finish_reason"].tolist()
        ['stop']
    """
    return frame_of_columns(STEP_COLUMNS, [*chain.from_iterable(map(_step_rows, as_runs(runs)))])


def calls_df(runs: Runs) -> pd.DataFrame:
    """One row for each tool call, the dropped ones included.

    Args:
        runs: A run, runs, or the path of a store or of logs.

    Returns:
        The columns of `CALL_COLUMNS`.

    Example:
        >>> import boolab as bl
        >>> bl.calls_df([]).shape[0]
        0
    """
    return frame_of_columns(CALL_COLUMNS, [*chain.from_iterable(map(_call_rows, as_runs(runs)))])


def events_df(runs: Runs) -> pd.DataFrame:
    """One row for each event, numbered by `seq` within its run; `payload` is JSON. See `boolab.core.events`.

    Args:
        runs: A run, runs, or the path of a store or of logs.

    Returns:
        The columns of `EVENT_COLUMNS`.

    Example:
        >>> import boolab as bl
        >>> list(bl.events_df([]).columns)
        ['run_id', 'seq', 't_ms', 'kind', 'payload']
    """
    rows = [(run.run_id, seq, event) for run in as_runs(runs) for seq, event in enumerate(run_events(run))]
    return frame_of_columns(EVENT_COLUMNS, rows)


def boundaries_df(runs: Runs, rule: StopRule | None = None) -> pd.DataFrame:
    """One row for each boundary of each turn, with all counters: what stop rules are evaluated on, offline.

    Boundary k stands after k completed tool steps; none exists after a final text.

    Args:
        runs: A run, runs, or the path of a store or of logs.
        rule: A stop rule whose detectors' counters are added as columns.

    Returns:
        run_id, turn, boundary, and an `Int64` column for each counter, named as in `boolab.limits.stop`.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.max_steps(0)(bl.boundaries_df(run)).tolist()
        [True]
    """
    detectors = () if rule is None else rule.detectors()
    rows: list[tuple[str, int, Mapping[str, int | None]]] = []
    for run in as_runs(runs):
        equal = with_equal_arguments(run) if detectors else None
        boundaries = _boundary_rows(run, detectors)
        if equal is not None:
            uppers = _boundary_rows(equal, detectors)
            exact = {detector.name for detector in detectors if handles_unknown_arguments(detector)}
            pairs = zip(boundaries, uppers, strict=True)
            boundaries = ((turn, _equal_counters(lower, upper, exact)) for (turn, lower), (_, upper) in pairs)
        rows += [(run.run_id, turn, counters) for turn, counters in boundaries]
    names = [*COUNTERS, *(d.name for d in detectors)]
    columns = [
        Column("run_id", TEXT, lambda row: row[0]),
        Column("turn", INT, lambda row: row[1]),
        Column("boundary", INT, lambda row: row[2]["steps"]),
        *(Column(name, INT, _counter(name)) for name in names),
    ]
    return frame_of_columns(columns, rows)


def _boundary_rows(run: Run, detectors: Sequence[Detector]) -> Iterator[tuple[int, Mapping[str, int | None]]]:
    """The turn of each boundary, and the counters there."""
    compacted = compactions_of(run)
    for turn, steps in turns_of(run):
        ladder = LadderState(detectors)
        ladder.open_turn(turn, turn_start(steps))
        yield turn, dict(ladder.counters)
        for step in steps:
            ladder.add_recorded_compactions(step, compacted)
            if has_boundary(run, step):
                ladder.apply(step)
                yield turn, dict(ladder.counters)


def _equal_counters(
    lower: Mapping[str, int | None], upper: Mapping[str, int | None], exact: Container[str]
) -> dict[str, int | None]:
    """The counters that are equal in both, and those of some names; the others are not known."""
    return {name: value if name in exact or value == upper[name] else None for name, value in lower.items()}


def finish_reasons_df(runs: Runs) -> pd.DataFrame:
    """Finish reasons against calls, both ways: one row for each finish reason of each model.

    Some providers answer `stop` with calls in the response, others `tool_calls` without one: a loop that relies on
    the finish reason drops the former and waits for the latter. Where a source has no finish reason, readers infer it
    (Claude Code's older logs): there it always agrees with the calls. See `docs/formats.md`.

    Args:
        runs: A run, runs, or the path of a store or of logs.

    Returns:
        The columns of `FINISH_COLUMNS`. `model` is the run's, and `provider` what stands before the slash of a name
        like `openai/gpt-5`; `source` is the format of the log. `finish_reason` is in boolab's vocabulary, NA where
        none was given. `n_with_calls` and `n_without_calls` add up to `n_steps`, and `n_calls_executed` and
        `n_calls_dropped` to `n_calls`; dropped calls got no result. The rows of a model are together, its most
        frequent finish reason first.

    Example:
        >>> import boolab as bl
        >>> model = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "finish_reason": "stop"}])
        >>> frame = bl.finish_reasons_df(bl.run_sync(None, "Hello", model=model, policy="naive"))
        >>> frame[["finish_reason", "n_steps", "n_with_calls", "n_calls_executed", "n_calls_dropped"]].values.tolist()
        [['stop', 1, 1, 0, 1]]
    """
    rows: dict[tuple[str, str, str | None], _FinishRow] = {}
    for run in iterate_runs(runs):
        for step in run.steps:
            reason = finish_reason(step.response.finish_reason)
            row = rows.setdefault((run.model, run.source, reason), _FinishRow(run.model, run.source, reason))
            row.count(run, step)
    order = sorted(rows.values(), key=lambda row: (row.model, row.source, -row.n_steps, row.finish_reason or ""))
    return frame_of_columns(FINISH_COLUMNS, order)


class _StepRow(NamedTuple):
    run: Run
    step: Step
    counters: Mapping[str, int | None]
    repeat_streak: int | None
    cycle_period: int | None


class _CallRow(NamedTuple):
    run: Run
    step: Step
    number: int
    call: ToolCall
    result: ToolResult | None


class _FinishRow:
    """The steps of one model with one finish reason, counted."""

    def __init__(self, model: str, source: str, reason: str | None) -> None:
        self.model = model
        self.source = source
        self.finish_reason = reason
        self.runs: set[str] = set()
        self.n_steps = self.n_with_calls = self.n_calls = self.n_executed = 0

    def count(self, run: Run, step: Step) -> None:
        self.runs.add(run.run_id)
        self.n_steps += 1
        self.n_with_calls += bool(step.response.tool_calls)
        self.n_calls += len(step.results)
        self.n_executed += sum(result is not None for result in step.results)


def _provider(model: str) -> str | None:
    """The provider in a model's name, as routers write it; None if there is none in it."""
    provider, slash, _ = model.partition("/")
    return provider or None if slash else None


def _step_rows(run: Run) -> Iterator[_StepRow]:
    """The rows of a run; repeats are unknown where they depend on arguments that are not on record."""
    equal = with_equal_arguments(run)
    if equal is None:
        yield from _counted_rows(run)
        return
    for row, upper_row in zip(_counted_rows(run), _counted_rows(equal), strict=True):
        yield row._replace(
            repeat_streak=row.repeat_streak if row.repeat_streak == upper_row.repeat_streak else None,
            cycle_period=row.cycle_period if row.cycle_period == upper_row.cycle_period else None,
        )


def _counted_rows(run: Run) -> Iterator[_StepRow]:
    repeat, errors = RepeatStreak(run.identity), ErrorStreak()
    for turn, steps in turns_of(run):
        ladder = LadderState((repeat, errors))
        ladder.open_turn(turn, turn_start(steps))
        keys: list[object] = []
        for step in steps:
            counters = dict(ladder.counters)
            yield _StepRow(run, step, counters, counters[repeat.name], cycle_period(keys))
            if has_boundary(run, step):
                ladder.apply(step)
                keys += [
                    repeat.key(call, result)
                    for call, result in zip(step.response.tool_calls, step.results, strict=True)
                    if result is not None
                ]


def _call_rows(run: Run) -> Iterator[_CallRow]:
    for step in run.steps:
        pairs = zip(step.response.tool_calls, step.results, strict=True)
        for number, (call, result) in enumerate(pairs, 1):
            yield _CallRow(run, step, number, call, result)


def turn_start(steps: Sequence[Step]) -> int | None:
    """When a turn began: with the run, or with its own first step."""
    return steps[0].start_ms if steps and steps[0].index > 1 else 0


def tools_called(runs: Iterable[Run]) -> set[str]:
    """The names of the tools that runs call, those of calls included that were not executed."""
    return {call.name for call in tool_calls(*runs)}


def _setting(name: str) -> Callable[[Run], Any]:
    return lambda run: run.settings.get(name)


def _counter(name: str) -> Callable[[tuple[str, int, Mapping[str, int | None]]], int | None]:
    return lambda row: row[2][name]


def _verdicts(steps: Iterable[Step]) -> list[bool | None]:
    """Whether each call that got a result failed; None where that is not known."""
    return [result.is_error for result in results_in(steps)]


def _errors_at_least(steps: Iterable[Step]) -> int | None:
    """The number of calls that are known to have failed; None if that is known of none of them."""
    verdicts = _verdicts(steps)
    return None if verdicts and set(verdicts) == {None} else verdicts.count(True)


def _branch(fact: str) -> Callable[[Run], Any]:
    """Where a run was branched off last: the other run's id, or the step; None if it was not."""
    return lambda run: next((event.payload[fact] for event in reversed(run.events) if event.kind == "branch"), None)


def _resumed_run_id(run: Run) -> str | None:
    """The id of the run that this one continues; None if it is no resumed run, or a branch of one."""
    began = next((event for event in reversed(run.events) if event.kind in ("branch", "resumed")), None)
    return None if began is None or began.kind == "branch" else began.payload.get("run_id")


def _summary_tokens(run: Run) -> int | None:
    return known_sum(amount for usage in run.outside for amount in (usage.input_tokens, usage.output_tokens))


def dollars(micro: int | None) -> float | None:
    """An amount in micro-dollars as dollars."""
    return None if micro is None else micro / MICRO


def _remaining(limit: str, counter: str) -> Callable[[_StepRow], int | None]:
    def remaining(row: _StepRow) -> int | None:
        limit_value, so_far = row.run.limits.get(limit), row.counters[counter]
        return None if limit_value is None or so_far is None else limit_value - so_far

    return remaining


def _replace_commas(name: str) -> str:
    """A rule's name as one of a list that commas separate."""
    return " ".join(name.replace(",", " ").split())


def _argument_text(call: ToolCall, render: Callable[[str], str]) -> str | None:
    """Something of a call's arguments; None where the log keeps them back."""
    return None if call.arguments == REDACTED else render(call.arguments)


def _label_text(run: Run, name: str) -> str | None:
    """The source of the run's label, or its reason; None without one."""
    label = label_of(run)
    return None if label is None else getattr(label, name) or None


RUN_COLUMNS = [
    Column("run_id", TEXT, lambda run: run.run_id),
    Column("agent", TEXT, lambda run: run.agent or None),
    Column("model", TEXT, lambda run: run.model or None),
    Column("policy", TEXT, lambda run: run.policy),
    Column("task", TEXT, lambda run: run.task or None),
    Column("source", TEXT, lambda run: run.source),
    Column("harness_version", TEXT, lambda run: run.harness_version),
    Column("effort", TEXT, lambda run: run.effort),
    Column("parent_run_id", TEXT, lambda run: run.parent_run_id),
    Column("parent_step", INT, lambda _: None),  # its parent has it: see runs_df
    Column("branched_from", TEXT, _branch("run_id")),
    Column("branched_at", INT, _branch("step")),
    Column("resumed_from", TEXT, _resumed_run_id),
    Column("seed", INT, lambda run: run.seed),
    Column("started_at", TIME, lambda run: run.started_at),
    Column("n_turns", INT, lambda run: len(list(turns_of(run)))),
    Column("stop_reason", TEXT, lambda run: run.stop.reason),
    Column("stop_step", INT, lambda run: run.stop.step),
    Column("stop_rule", TEXT, lambda run: run.stop.rule),
    Column("stop_threshold", INT, lambda run: run.stop.threshold),
    Column("stop_value", INT, lambda run: run.stop.value),
    Column("also_fired", TEXT, lambda run: ",".join(run.stop.also_fired)),
    Column("n_steps", INT, lambda run: run.n_steps),
    Column("n_tool_calls", INT, lambda run: run.n_tool_calls),
    Column("n_errors", INT, lambda run: known_sum(_verdicts(run.steps))),
    Column("n_dropped", INT, lambda run: [*result_slots_in(run.steps)].count(None)),
    Column("overshoot", INT, lambda run: run.stop.overshoot),
    Column("summary_calls", INT, lambda run: len(run.outside)),
    Column("summary_tokens", INT, _summary_tokens),
    Column("input_tokens", INT, lambda run: sum_usage(run, "input_tokens")),
    Column("output_tokens", INT, lambda run: sum_usage(run, "output_tokens")),
    Column("cost_usd", FLOAT, lambda run: dollars(sum_usage(run, "cost"))),
    Column("duration_ms", INT, lambda run: run.duration_ms),
    Column("success", FLAG, lambda run: run.success),
    Column("success_source", TEXT, lambda run: _label_text(run, "source")),
    Column("success_why", TEXT, lambda run: _label_text(run, "why")),
    Column("censored", FLAG, lambda run: run.censored),
    Column("error", TEXT, lambda run: run.error),
    # Sums of what is on record: the least where a sum is NA, because a part of it is not known.
    Column("n_errors_at_least", INT, lambda run: _errors_at_least(run.steps)),
    Column("n_results_unknown", INT, lambda run: sum(verdict is None for verdict in _verdicts(run.steps))),
    Column("input_tokens_at_least", INT, lambda run: sum_known_usage(run, "input_tokens")),
    Column("output_tokens_at_least", INT, lambda run: sum_known_usage(run, "output_tokens")),
    Column("cost_usd_at_least", FLOAT, lambda run: dollars(sum_known_usage(run, "cost"))),
]
_RUN_NAMES = {column.name for column in RUN_COLUMNS}

STEP_COLUMNS = [
    Column("run_id", TEXT, lambda row: row.run.run_id),
    Column("turn", INT, lambda row: row.step.turn),
    Column("step", INT, lambda row: row.step.index),
    Column("start_ms", INT, lambda row: row.step.start_ms),
    Column("duration_ms", INT, lambda row: row.step.duration_ms),
    Column("ttft_ms", INT, lambda row: row.step.response.ttft_ms),
    Column("finish_reason", TEXT, lambda row: row.step.response.finish_reason),
    Column("native_finish_reason", TEXT, lambda row: row.step.response.native_finish_reason),
    Column("n_tool_calls", INT, lambda row: sum(result is not None for result in row.step.results)),
    Column("n_errors", INT, lambda row: known_sum(_verdicts([row.step]))),
    Column("input_tokens", INT, lambda row: row.step.response.usage.input_tokens),
    Column("output_tokens", INT, lambda row: row.step.response.usage.output_tokens),
    Column("cached_tokens", INT, lambda row: row.step.response.usage.cached_tokens),
    Column("cost_usd", FLOAT, lambda row: dollars(row.step.response.usage.cost)),
    Column("text_chars", INT, lambda row: chars_of(row.step.response.text)),
    Column("tool_calls_so_far", INT, lambda row: row.counters["tool_calls"]),
    Column("steps_left", INT, _remaining("steps", "steps")),
    Column("budget_left", INT, _remaining("tool_calls", "tool_calls")),
    Column("repeat_streak", INT, lambda row: row.repeat_streak),
    Column("cycle_period", INT, lambda row: row.cycle_period),
    Column("error_streak", INT, lambda row: row.counters["error_streak"]),
    Column("shadow_stops", TEXT, lambda row: ",".join(map(_replace_commas, row.step.shadow_stops))),
]

CALL_COLUMNS = [
    Column("run_id", TEXT, lambda row: row.run.run_id),
    Column("turn", INT, lambda row: row.step.turn),
    Column("step", INT, lambda row: row.step.index),
    Column("call", INT, lambda row: row.number),
    Column("tool", TEXT, lambda row: row.call.name),
    Column("arguments_hash", TEXT, lambda row: _argument_text(row.call, arguments_hash)),
    Column("arguments", TEXT, lambda row: _argument_text(row.call, str)),
    Column("result", TEXT, lambda row: row.result and row.result.content),
    Column("is_error", FLAG, lambda row: row.result and row.result.is_error),
    Column("parse_error", FLAG, lambda row: row.result and row.result.parse_error),
    Column("result_chars", INT, lambda row: row.result and chars_of(row.result.content)),
    Column("duration_ms", INT, lambda row: row.result and row.result.duration_ms),
    Column("dropped", FLAG, lambda row: row.result is None),
]

FINISH_COLUMNS = [
    Column("model", TEXT, lambda row: row.model or None),
    Column("provider", TEXT, lambda row: _provider(row.model)),
    Column("source", TEXT, lambda row: row.source),
    Column("finish_reason", TEXT, lambda row: row.finish_reason),
    Column("n_runs", INT, lambda row: len(row.runs)),
    Column("n_steps", INT, lambda row: row.n_steps),
    Column("n_with_calls", INT, lambda row: row.n_with_calls),
    Column("n_without_calls", INT, lambda row: row.n_steps - row.n_with_calls),
    Column("n_calls", INT, lambda row: row.n_calls),
    Column("n_calls_executed", INT, lambda row: row.n_executed),
    Column("n_calls_dropped", INT, lambda row: row.n_calls - row.n_executed),
]

EVENT_COLUMNS = [
    Column("run_id", TEXT, lambda row: row[0]),
    Column("seq", INT, lambda row: row[1]),
    Column("t_ms", INT, lambda row: row[2].t_ms),
    Column("kind", TEXT, lambda row: row[2].kind),
    Column("payload", TEXT, lambda row: json.dumps(row[2].payload)),
]
