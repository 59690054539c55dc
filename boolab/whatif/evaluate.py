"""What one recording shows about every setting.

A recording determines its own prefix and nothing else. Where a setting stops inside it, the stop, its reason and all
that is spent until then are exact; what the agent would have achieved with what it had is unknown, so success lies
between `kept_lower` (0) and `kept_upper` (1 if no call follows the stop). Where a recording was cut before its agent
ended, a setting that goes further is `censored`: neither a success nor a failure. See
`boolab.whatif.outcomes`.

All of this holds for rules that the model cannot see. What a policy sends it on the way is compared with what it got in
the recording: where they differ, a run is not identified. See `boolab.whatif.policy_limits`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, overload

import cloudpickle
import numpy as np
import pandas as pd

from boolab.core.executors import Executor, map_in_order, open_pool
from boolab.core.types import Identities, Scope
from boolab.errors import SettingError, program
from boolab.frames.data_set import attach_set
from boolab.frames.dtypes import text
from boolab.frames.runs import list_columns
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, identity_under
from boolab.limits.function_rule import AnyRule
from boolab.limits.table import LIMITS
from boolab.store.connection import begins_as_sqlite
from boolab.whatif.from_frame import ledger_of_frame
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.grid import Grid
from boolab.whatif.outcomes import agents_of
from boolab.whatif.question import OwnLimits, Question, question_of
from boolab.whatif.recordings import (
    PARQUET_ROWS,
    Recorded,
    as_recorded,
    check_frames,
    check_labels,
    check_ledger,
    frames_in,
    labelled_groups_in,
    ledgers_of,
)
from boolab.whatif.step_files import Partition, has_labels, homes_in, partitions_of, take_ids
from boolab.whatif.step_table import Ledger, UnitNoun
from boolab.whatif.success_kinds import decide_by_group
from boolab.whatif.tables import BATCH_ROWS, SUCCESS_BY, add_parts, finish_sums, pieces, rows_of, sums_of

MAX_ROWS: Final = 5_000_000
_POLICY: Final = "policy"


@overload
def counterfactual(
    recorded: Recorded,
    grid: Grid | None = None,
    *,
    rules: Sequence[AnyRule] | AnyRule | None = None,
    scope: Scope = "auto",
    own_limits: OwnLimits = "kept",
    policy: str | Policy | Sequence[str | Policy] | None = None,
    identity: Identities | None = None,
    exempt: Sequence[str] = (),
    by: str | Sequence[str] | None = None,
    aggregate: bool = False,
    batches: Literal[False] = False,
    client: Executor | None = None,
    progress: bool = True,
) -> pd.DataFrame: ...
@overload
def counterfactual(
    recorded: Recorded,
    grid: Grid | None = None,
    *,
    rules: Sequence[AnyRule] | AnyRule | None = None,
    scope: Scope = "auto",
    own_limits: OwnLimits = "kept",
    policy: str | Policy | None = None,
    identity: Identities | None = None,
    exempt: Sequence[str] = (),
    by: str | Sequence[str] | None = None,
    aggregate: Literal[False] = False,
    batches: Literal[True],
) -> Iterator[pd.DataFrame]: ...
def counterfactual(
    recorded: Recorded,
    grid: Grid | None = None,
    *,
    rules: Sequence[AnyRule] | AnyRule | None = None,
    scope: Scope = "auto",
    own_limits: OwnLimits = "kept",
    policy: str | Policy | Sequence[str | Policy] | None = None,
    identity: Identities | None = None,
    exempt: Sequence[str] = (),
    by: str | Sequence[str] | None = None,
    aggregate: bool = False,
    batches: bool = False,
    client: Executor | None = None,
    progress: bool = True,
    **unknown: object,
) -> pd.DataFrame | Iterator[pd.DataFrame]:
    """What every setting of a grid, and every rule, would have made of recorded runs.

    Args:
        recorded: Runs; or a frame with a row per step, as `recording_df` makes it; or the path of a file with
            such a frame, `.parquet` or `.jsonl`, of a folder of them, or of a store: it is read in batches and may be
            larger than memory.
        grid: Values by axis; all combinations are settings. Axes: `max_steps, tool_budget, doom_loop, error_streak,
            max_tokens, max_cost` (dollars), `max_time` (seconds). None is off, and so is an axis that is left out:
            neither a policy's default nor its ceiling applies, but its further budgets and its guards do. An axis
            limits each run on its own counters, a subagent's too. `max_steps@scout` replaces `max_steps` for the runs
            of the agent `scout`. `max_steps=0` leaves one answer in text, which is on no record (`not_identified`); the
            rule `max_steps(0)` stops before the first request (`truncated`).
        rules: Stop rules, each a setting of its own beside those of the grid. Of runs also functions, as `boolab bench`
            takes them: of `prefix.steps`, the steps since the counters started, to True (stop) or False.
        scope: Where counters start again. `turn`: at each user message, as the limits of interactive harnesses do; each
            turn is limited by itself. `run`: never, as those of benchmarks. `auto`: as the harness of each run's source
            counts (see `boolab.logs.log_files`); where both occur, no row mixes them.
        own_limits: The limits under which the runs were recorded. `kept`: they stay in force and a
            setting is added to them, so that a run which it would stop no earlier is `unchanged`, with the outcome on
            record. `lifted`: they are gone, so that a run that they cut is `censored` under a looser setting.
        policy: The policy whose order of precedence, identity, and places of evaluation apply, such as "boocode", and
            whose guards and budgets are evaluated beside the grid; an axis replaces the policy's own limit.
            Without one: cap, doom loop, budget, then the others, at boundaries; identity canonical. A policy alone,
            without a grid and rules, is one setting: as it comes, with its defaults (those without an agent) and its
            ceiling. Where a run ends by itself, and how its calls are executed, is the recording's, not the policy's.
            No user can answer, so a policy that would ask the user stops. Rules replace all of its limits. Several
            policies are evaluated one after the other; the column `policy` has the name of each.
        identity: What makes two calls the same, for all tools or by tool: see `boolab.limits.call_identity`. By default
            the policy's, or `canonical`. Rules have their own.
        exempt: The tools whose repeats are no loop, such as one that polls. Rules have their own.
        by: A column of the runs (agent, model, task, a swept setting ...) or several, to separate groups.
        aggregate: Return sums: one row for each setting (and group).
        batches: Return an iterator of frames instead of one.
        client: The workers that read the file, or the folder: `"processes"` (one for each core), any
            `concurrent.futures` executor, or the client of a Dask cluster, whose workers all find the file at the same
            path. Each reads a part of it at a time; the table is the same.
        progress: Whether to show a progress bar, if a client has more than a second of work.
        **unknown: Any other option is refused; a limit belongs into `grid`.

    Returns:
        One row for each run and setting: run_id; the columns of `by`; one column for each axis, and `rule` if
        there are rules; outcome, stop_turn, stop_step (the boundary within the scope),
        stop_reason, also_fired, success, kept_lower, kept_upper, the steps, tool_calls, tokens and cost_usd that are
        spent, and `saved_` with the same name for each of them: the rest of what is on record. With the scope `turn`
        each turn is limited by itself, and later turns stay as recorded. saved_is is how certain that is: "exact",
        "estimate" (tokens and cost of turns after one that is stopped) or "at most" (where the policy would have
        changed a request, or a limit of the recording is lifted). A stop at the response has paid for that response
        and executed none of its calls: it counts in steps, tokens and cost_usd, and stop_step is the boundary before
        it. stop_reason is NA where a policy has sent the model a message. Where runs and those of their subagents are
        recorded, a run is not identified from the call on whose subagent is stopped, unknown from one whose subagent is
        not on record, and a subagent that would have been called after its parent's stop is truncated at step 0; the
        success of a family is its root's (see `boolab.whatif.family_stops`). scope is "turn" or "run";
        success_by is what a success is: a label, or, where no run has one, that the run ended by itself. With `by` it
        is decided for each group by itself.

        With `aggregate`: the axes, n_runs, the number of runs by outcome and by stop reason, successes (the base of
        kept_lower and kept_upper), successes_censored (of them, those that are neither kept nor lost), and the sums of
        what is spent and saved, one row for each scope that occurs. n_unknown_tokens and n_unknown_cost runs are left
        out of these sums; where no run reports them, they are NA. Each `saved_` has a `_lower` and an `_upper`: what is
        certainly saved, and at most; NA where it has no bound, because the use of a stopped run is not known. `unit` is
        what is counted as one: always "run", also with the scope `turn`. Without labels `recommend` and `boolab whatif`
        count each turn of a session as one: `unit` is "turn" in their tables (see docs/terms.md).
        An aggregate of parts of the runs adds up to the aggregate of the whole, exactly.

    Raises:
        SettingError: if an argument is not one of those above, the table would have more than 5 million rows,
            recordings do not identify such a policy (it names the axis), or turns have labels of their own in a file
            that is read in parts, or with subagents.
        WorkerDied: if the worker of a part died four times in a row.

    Example:
        >>> import boolab as bl
        >>> look = {"tool_calls": [{"name": "ls"}], "repeat": 2}
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]))
        >>> table = bl.counterfactual(run, grid={"max_steps": [1, None]})
        >>> table[["max_steps", "outcome", "steps", "saved_steps"]].values.tolist()
        [[1, 'truncated', 1, 2], [<NA>, 'unchanged', 3, 0]]
    """
    for name, value in unknown.items():
        hint = f"; did you mean grid={{{name!r}: {value!r}}}?" if name in LIMITS else ""
        raise TypeError(f"counterfactual() got an unexpected keyword argument {name!r}{hint}")
    if isinstance(policy, Sequence) and not isinstance(policy, str):
        if batches:
            msg = "batches=True gives the frames of one policy: expected policy=one, or batches=False"
            raise SettingError(msg)
        every = _named_policies(policy, by)
        options: dict[str, Any] = {
            "rules": rules, "grid": grid, "scope": scope, "own_limits": own_limits, "identity": identity,
            "exempt": exempt, "by": by, "aggregate": aggregate, "client": client, "progress": progress,
        }  # fmt: skip
        return _stack_policies(every, lambda one: counterfactual(recorded, policy=one, **options))
    same = identity_under(policy, identity, exempt) if exempt else identity
    question = question_of(rules, grid, scope, policy, same, by, own_limits)
    if batches:
        if aggregate:
            msg = "aggregate=True gives one small table; batches=True goes with a row per run"
            raise SettingError(msg)
        if client is not None:
            msg = "batches=True reads a file in order, in this process: leave client out, or use aggregate=True"
            raise SettingError(msg)
        return _batches(recorded, question)
    agents: set[str] = set()
    units: set[UnitNoun] = {"run"}
    if client is None:
        ledgers = _add_agents(_ledgers(recorded, question, units), question, agents)
        parts: Iterator[pd.DataFrame] = (_part(ledger, question, aggregate=aggregate) for ledger in ledgers)
    else:
        parts = _parts_elsewhere(recorded, question, client, agents, aggregate=aggregate, progress=progress)
    frame = _join_parts(parts, question, aggregate=aggregate)
    question.check_agents(agents)
    if not aggregate:
        return attach_set(frame, recorded)
    if question.rules:  # groups that come late come last, so that these are in the rows' order: the grid, rule by rule
        places = pd.Categorical(frame["rule"], categories=[str(rule) for rule in question.rules]).codes
        frame = frame.iloc[np.argsort(places, kind="stable")].reset_index(drop=True)
    return attach_set(finish_sums(frame, question.keys, max(units)), recorded)  # a turn, if there are any


def _ledgers(recorded: Recorded, question: Question, units: set[UnitNoun] | None = None) -> Iterator[Ledger]:
    """The recordings; each group by itself has labels or the proxy. What a row of them is is added to `units`."""
    recorded = as_recorded(recorded)
    groups = labelled_groups_in(recorded, question.scope, question.by)
    split = check_labels if isinstance(recorded, str | Path) else Ledger.split_judged
    for recording in ledgers_of(recorded, question.detectors, question.scope, question.by, question.policy):
        ledger = check_ledger(split(recording), question.by, question.own_limits)
        if units is not None and ledger.by_turn:
            units.add("turn")
        yield decide_by_group(ledger, question.by, groups)


def _batches(recorded: Recorded, question: Question) -> Iterator[pd.DataFrame]:
    size, agents = max(1, BATCH_ROWS // question.count), set[str]()
    for ledger in _add_agents(_ledgers(recorded, question), question, agents):
        for part in pieces(ledger, ledger.kin(), size) if ledger.n_runs else ():
            yield rows_of(part, question)
    question.check_agents(agents)


def _add_agents(ledgers: Iterator[Ledger], question: Question, agents: set[str]) -> Iterator[Ledger]:
    """The ledgers; their agents are added, if some limits are those of one agent."""
    for ledger in ledgers:
        agents.update(agents_of(ledger) if question.has_agent_limits else ())
        yield ledger


def _part(ledger: Ledger, question: Question, *, aggregate: bool) -> pd.DataFrame:
    """The rows of some of the runs, or sums over them."""
    if aggregate:
        return sums_of(ledger, question)
    _check_size(ledger.n_runs * question.count, question)
    return rows_of(ledger, question)


def _join_parts(parts: Iterator[pd.DataFrame], question: Question, *, aggregate: bool) -> pd.DataFrame:
    """Parts, one at least, as one; of sums never more than two are in memory."""
    table = next(parts)
    if aggregate:
        for part in parts:
            table = add_parts([table, part], [*question.keys, SUCCESS_BY])
        return table
    tables, rows = [table], len(table)
    for part in parts:
        rows += len(part)
        _check_size(rows, question)
        tables.append(part)
    return pd.concat(tables, ignore_index=True) if len(tables) > 1 else table


def _check_size(rows: int, question: Question) -> None:
    if rows > MAX_ROWS:
        raise SettingError(
            f"{question.count:,} settings make more than {MAX_ROWS:,} rows with these runs: use aggregate=True (sums, "
            "one row per setting) or batches=True (an iterator of frames)"
        )


def _parts_elsewhere(
    recorded: Recorded, question: Question, client: Executor, agents: set[str], *, aggregate: bool, progress: bool
) -> Iterator[pd.DataFrame]:
    """The parts of a data set, one for each partition, from workers."""
    if not isinstance(recorded, str | Path):
        msg = (
            "client= has workers read a data set: expected the path of a .parquet or .jsonl file, or of a folder of "
            "them (bl.save_runs(runs, 'runs.parquet') makes one); leave it out for what is in memory already"
        )
        raise SettingError(msg)
    if begins_as_sqlite(recorded):
        raise SettingError(
            f"client= has workers read a data set, and {recorded} is a store: leave client out, or export it first "
            f"({program()} store export {recorded} runs.parquet)"
        )
    check_frames(question.policy)
    from tqdm.auto import tqdm

    partitions = partitions_of(recorded, PARQUET_ROWS)
    groups = labelled_groups_in(recorded, question.scope, question.by)
    load: bytes = cloudpickle.dumps((question, has_labels(recorded), groups, aggregate, homes_in(recorded)))
    seen_ids: set[Any] = set()
    is_empty = True
    size = sum(partition.size for partition in partitions)
    with open_pool(client) as pool, tqdm(total=size, unit="B", unit_scale=True, disable=not progress, delay=1) as bar:
        results = map_in_order(pool, _evaluate_partition, ((load, partition) for partition in partitions))
        for partition, (run_ids, part_agents, part) in zip(partitions, results, strict=True):
            take_ids(seen_ids, run_ids, partition.file)
            agents |= part_agents
            bar.update(partition.size)
            if part is not None:
                is_empty = False
                yield part
    if is_empty:
        yield _part(ledger_of([], question.detectors, question.scope), question, aggregate=aggregate)


def _evaluate_partition(load: bytes, partition: Partition) -> tuple[list[Any], set[str], pd.DataFrame | None]:
    """In a worker: the ids and agents of the runs of a partition, and their part; None if no run begins there."""
    question, labelled, groups, aggregate, homes = cloudpickle.loads(load)
    run_ids: list[Any] = []
    agents: set[str] = set()

    def ledgers() -> Iterator[Ledger]:
        for frame in frames_in(partition, homes, question.detectors, question.by):
            ledger = ledger_of_frame(frame, question.detectors, question.scope, labelled=labelled)
            run_ids.extend(ledger.runs["run_id"])
            ledger = check_ledger(check_labels(ledger), question.by, question.own_limits)
            yield decide_by_group(ledger, question.by, groups)

    parts = (_part(ledger, question, aggregate=aggregate) for ledger in _add_agents(ledgers(), question, agents))
    first = next(parts, None)
    part = None if first is None else _join_parts(itertools.chain([first], parts), question, aggregate=aggregate)
    return run_ids, agents, part


def _named_policies(policies: Sequence[str | Policy], group_by: str | Sequence[str] | None) -> list[Policy]:
    """The policies of a table; a `SettingError` if there are none, or their names are not distinct or a column."""
    presets = [get_policy(policy) for policy in policies]
    names = [policy.name for policy in presets]
    if not presets:
        msg = "policy=[]: expected at least one policy"
        raise SettingError(msg)
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise SettingError(f"two policies are called {duplicate!r}: give one of them another name with vary(name=...)")
    if _POLICY in list_columns(group_by):
        msg = "by='policy': with several policies the column has their names: rename yours in the frame"
        raise SettingError(msg)
    return presets


def _stack_policies(policies: Sequence[Policy], table: Callable[[Policy], pd.DataFrame]) -> pd.DataFrame:
    """The tables of policies below each other, with their names in the first column, or after the run."""
    frames = []
    for policy in policies:
        frame = table(policy)
        frame.insert(int("run_id" in frame), _POLICY, text([policy.name] * len(frame)))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
