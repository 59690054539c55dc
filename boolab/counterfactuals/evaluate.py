"""What one recording says about every setting.

A recording determines its own prefix and nothing else. Where a setting stops inside it, the stop, its reason and all
that is spent until then are exact; what the agent would have achieved with what it had is unknown, so success lies
between `kept_lower` (0) and `kept_upper` (1 if no call follows the stop). Where a recording was cut before its agent
was done, a setting that goes further is `censored`: neither a success nor a failure. See
`boolab.counterfactuals.outcomes`.

All of this holds for rules that the model cannot see. What a policy tells it on the way is held against what it was
told in the recording: where they part, a run is not identified. See `boolab.counterfactuals.interventions`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args, overload

import cloudpickle
import numpy as np
import pandas as pd

from boolab.core.run_tree import Kin
from boolab.core.types import MICRO, Identities, Scope, StopReason
from boolab.counterfactuals.aggregate import SPENT, aggregate_of
from boolab.counterfactuals.family_stops import family_stops, hears_results
from boolab.counterfactuals.first_crossing import INTERVENED, Places
from boolab.counterfactuals.from_frame import frame_columns, ledger_of_frame
from boolab.counterfactuals.from_runs import StepColumns, ledger_of
from boolab.counterfactuals.grid import Grid, GridAxis, Settings, settings_of, settings_of_policy
from boolab.counterfactuals.interventions import departures, speaks
from boolab.counterfactuals.outcomes import OUTCOMES, Stops, agents_of, grid_stops, outcome_columns, rule_stops
from boolab.counterfactuals.policy_thresholds import watched_at_response
from boolab.counterfactuals.scopes import OwnLimits, check_own_limits, check_scope
from boolab.counterfactuals.step_files import (
    Partition,
    frames_of,
    has_labels,
    homes_in,
    partitions_of,
    take_ids,
    together,
)
from boolab.counterfactuals.step_table import Flags, Ints, Ledger, spanned
from boolab.errors import SettingError, near, nearest
from boolab.frames.dtypes import INT, TEXT, Cells, axis_dtype, cells, text
from boolab.frames.recording import CALL_TOOLS, RUN_FIELDS
from boolab.frames.runs import Runs, as_runs, by_columns
from boolab.frames.tables import setting_dtype, tools_called
from boolab.harness.policy import Policy
from boolab.harness.presets import identity_under
from boolab.parallel.executors import Executor, in_order, open_pool
from boolab.rules.call_identity import check_tools
from boolab.rules.detector import Detector, named_tools
from boolab.rules.stop import StopRule
from boolab.store.connection import begins_as_sqlite
from boolab.store.stored_runs import StoredRuns, stored_runs

Recorded: TypeAlias = Runs | pd.DataFrame | str | Path
"""Runs, a frame with a row per step, or the path of a file (or a folder of them) with such a frame, `.parquet` or
`.jsonl`."""

MAX_ROWS: Final = 5_000_000
_BATCH_ROWS: Final = 500_000
_PARQUET_ROWS: Final = 200_000
_STORED_RUNS: Final = 2_000
_NAMED: Final = 12
"""How many agents a message names."""
_MAX_SUMS: Final = 5_000_000


@overload
def counterfactual(
    recorded: Recorded,
    *,
    rules: Sequence[StopRule] | StopRule | None = None,
    grid: Grid | None = None,
    scope: Scope = "auto",
    own_limits: OwnLimits = "kept",
    policy: str | Policy | None = None,
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
    *,
    rules: Sequence[StopRule] | StopRule | None = None,
    grid: Grid | None = None,
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
    *,
    rules: Sequence[StopRule] | StopRule | None = None,
    grid: Grid | None = None,
    scope: Scope = "auto",
    own_limits: OwnLimits = "kept",
    policy: str | Policy | None = None,
    identity: Identities | None = None,
    exempt: Sequence[str] = (),
    by: str | Sequence[str] | None = None,
    aggregate: bool = False,
    batches: bool = False,
    client: Executor | None = None,
    progress: bool = True,
) -> pd.DataFrame | Iterator[pd.DataFrame]:
    """What every setting of a grid, and every rule, would have made of recorded runs.

    Args:
        recorded: Runs; or a frame with a row per step, as `recording_df` makes it; or the path of a file with
            such a frame, `.parquet` or `.jsonl`, of a folder of them, or of a store: it is read in batches and may be
            larger than memory.
        rules: Stop rules, each a setting of its own beside those of the grid.
        grid: Values by axis; all combinations are settings. Axes: `max_steps, tool_budget, doom_loop, error_streak,
            max_tokens, max_cost` (dollars), `max_time` (seconds). None is off, and so is an axis that is left out:
            neither a policy's default nor its ceiling holds, but its further budgets and its guards do. An axis holds
            for each run on its own counters, a subagent's too. `max_steps@scout` replaces `max_steps` for the runs of
            the agent `scout`.
        scope: Where counters start anew. `turn`: at each user message, as the limits of interactive harnesses do; each
            turn is limited by itself. `run`: never, as those of benchmarks. `auto`: as the harness of each run's source
            counts (see `boolab.logs.sources`); where both occur, no row mixes them.
        own_limits: What becomes of the limits under which the runs were recorded. `kept`: they stay in force and a
            setting is added to them, so that a run which it would stop no earlier is `unchanged`, with the outcome on
            record. `lifted`: they are gone, so that a run that they cut is `censored` under a looser setting.
        policy: Whose order of precedence, identity, and places at which limits are asked hold, such as "boocode", and
            whose guards and budgets are asked beside the grid; an axis takes the place of the policy's own limit.
            Without one: cap, doom loop, budget, then the others, at boundaries; identity canonical. A policy alone,
            without a grid and rules, is one setting: as it comes, with its defaults (those without an agent) and its
            ceiling. Where a run ends by itself, and how its calls are executed, is the recording's, not the policy's.
            Nobody is there to be asked, so what asks the user stops. Rules take the place of all of its limits.
        identity: What makes two calls the same, for all tools or by tool: see `boolab.rules.call_identity`. By default
            the policy's, or `canonical`. Rules have their own.
        exempt: The tools whose repeats are no loop, such as one that polls. Rules have their own.
        by: A column of the runs (agent, model, task, a swept setting ...) or several, to keep groups apart.
        aggregate: Give sums: one row for each setting (and group).
        batches: Give an iterator of frames instead of one.
        client: Who reads the file, or the folder: `"processes"` (one for each core), any `concurrent.futures` executor,
            or the client of a Dask cluster, whose workers all find the file at the same path. Each takes a part of it
            at a time; the table is the same.
        progress: Whether to show a progress bar, if a client has more than a second of work.

    Returns:
        One row for each run and setting: run_id; the columns of `by`; one column for each axis, and `rule` if
        there are rules; outcome, stop_turn, stop_step (the boundary within the scope),
        stop_reason, also_fired, success, kept_lower, kept_upper, the steps, tool_calls, tokens and cost_usd that are
        spent, and `saved_` with the same name for each of them: the rest of what is on record. With the scope `turn`
        each turn is limited by itself, and later turns stand as recorded. saved_is says how sure that is: "exact",
        "estimate" (tokens and cost of turns after one that is stopped) or "at most" (where the policy would have
        changed a request, or a limit of the recording is lifted). A stop at the response has paid for that response
        and executed none of its calls: it counts in steps, tokens and cost_usd, and stop_step is the boundary before
        it. stop_reason is NA where a policy has told the model something. Where runs and those of their subagents are
        recorded, a run is not identified from the call on whose subagent is stopped, unknown from one whose subagent is
        not on record, and a subagent that would have been called after its parent's stop is truncated at step 0; the
        success of a family is its root's (see `boolab.counterfactuals.family_stops`). scope is "turn" or "run";
        success_by says what a success is: a label, or, where no run has one, that the run ended by itself.

        With `aggregate`: the axes, n_runs, the number of runs by outcome and by stop reason, successes (the base of
        kept_lower and kept_upper), successes_censored (of them, those that are neither kept nor lost), and the sums of
        what is spent and saved, one row for each scope that occurs. n_unknown_tokens and n_unknown_cost runs are left
        out of these sums; where nobody tells, they are NA. Each `saved_` has a `_lower` and an `_upper`: what is saved
        for certain, and at most; NA where it has no bound, because a run that is stopped does not tell what it used.
        An aggregate of parts of the runs adds up to the aggregate of the whole, exactly.

    Raises:
        SettingError: if an argument is not one of those above, the table would have more than 5 million rows, or
            recordings say nothing about such a policy; it names the axis.
        WorkerDied: if the worker of a part died four times in a row.

    Example:
        >>> import boolab as bl
        >>> look = {"tool_calls": [{"name": "ls"}], "repeat": 2}
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]))
        >>> table = bl.counterfactual(run, grid={"max_steps": [1, None]})
        >>> table[["max_steps", "outcome", "steps", "saved_steps"]].values.tolist()
        [[1, 'truncated', 1, 2], [<NA>, 'unchanged', 3, 0]]
    """
    same = identity_under(policy, identity, exempt)
    asked = _Question.of(rules, grid, scope, policy, same, by, own_limits)
    if batches:
        if aggregate:
            msg = "aggregate=True gives one small table; batches=True goes with a row per run"
            raise SettingError(msg)
        if client is not None:
            msg = "batches=True goes through a file in order, in this process: leave client out, or use aggregate=True"
            raise SettingError(msg)
        return _batches(recorded, asked)
    if client is None:
        ledgers = ledgers_of(recorded, asked.detectors, asked.scope, asked.by, asked.policy, asked.own_limits)
        parts = _parts(ledgers, asked, aggregate=aggregate)
    else:
        parts = _parts_elsewhere(recorded, asked, client, aggregate=aggregate, progress=progress)
    parts = _known_agents(parts, asked)
    return _aggregate(parts, asked) if aggregate else _table(parts, asked)


def summed(table: pd.DataFrame) -> pd.DataFrame:
    """The sums of a table with a row for each run and setting: what `counterfactual(..., aggregate=True)` gives.

    Args:
        table: What `counterfactual` returned without `aggregate`, or some of its rows.

    Returns:
        One row for each setting (and group), in the order in which they appear.

    Raises:
        SettingError: if a column is missing.

    Example:
        >>> import boolab as bl
        >>> look = {"tool_calls": [{"name": "ls"}], "repeat": 2}
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]))
        >>> summed(bl.counterfactual(run, grid={"max_steps": [1, None]}))["n_truncated"].tolist()
        [1, 0]
    """
    missing = [name for name in _OF_ROWS if name not in table]
    if missing:
        msg = f"the frame has no column {missing[0]!r}: expected one like counterfactual(...) makes, a row for each run"
        raise SettingError(msg)
    names = [str(name) for name in table.columns]
    keys = [*(name for name in names[: names.index("outcome")] if name != "run_id"), "scope"]
    by = table["success_by"].dropna().unique().tolist()
    return _finished(_sums(table, keys), keys, by[0] if len(by) == 1 else "mixed")


_OF_ROWS: Final = ("run_id", "outcome", "scope", "success_by", "kept_lower", "saved_steps", "saved_is")
_RESULT_COLUMNS: Final = {
    "run_id", "rule", "outcome", "stop_turn", "stop_step", "stop_reason", "also_fired", "success", "kept_lower",
    "kept_upper", "steps", "tool_calls", "tokens", "cost", "cost_usd", "saved_steps", "saved_tool_calls",
    "saved_tokens", "saved_cost", "saved_cost_usd", "saved_is", "scope", "success_by", "successes",
    "successes_censored", "n_runs",
    *(f"n_{name}" for name in (*OUTCOMES, *get_args(StopReason))),
}  # fmt: skip


def listed_rules(rules: Iterable[StopRule] | StopRule | None) -> list[StopRule]:
    """A rule, or rules, as a list; `SettingError` if one is not a rule."""
    listed: list[Any] = [rules] if isinstance(rules, StopRule) else list(rules) if isinstance(rules, Iterable) else []
    for rule in listed:
        if not isinstance(rule, StopRule):
            msg = f"rules: {rule!r} is not a stop rule: expected such as bl.max_steps(20) | bl.tool_budget(50)"
            raise SettingError(msg)
    return listed


class _Question:
    """What is asked, checked."""

    def __init__(
        self,
        settings: Settings | None,
        rules: Sequence[StopRule],
        scope: Scope,
        by: Sequence[str],
        own_limits: OwnLimits = "kept",
    ) -> None:
        self.settings = settings
        self.rules = tuple(rules)
        self.scope = scope
        self.by = tuple(by)
        self.own_limits = own_limits

    @classmethod
    def of(
        cls,
        rules: Sequence[StopRule] | StopRule | None,
        grid: Grid | None,
        scope: Scope,
        policy: str | Policy | None,
        identity: Identities | None,
        by: str | Sequence[str] | None,
        own_limits: OwnLimits = "kept",
    ) -> _Question:
        check_scope(scope)
        check_own_limits(own_limits)
        settings = None if grid is None else settings_of(grid, policy, identity)
        if settings is None and rules is None and policy is not None:
            settings = settings_of_policy(policy)
        listed = listed_rules(rules)
        if settings is None and not listed:
            msg = "nothing to ask: expected grid={'max_steps': [10, 20], ...}, rules=[...], or both, or a policy"
            raise SettingError(msg)
        keys = [name for name in by_columns(by) if name != "scope"]  # which is always kept apart
        axes = set() if settings is None else {axis.key for axis in settings.axes if axis.key in settings.named}
        taken = [name for name in keys if name in _RESULT_COLUMNS or name in axes]
        if taken:
            msg = f"by={taken[0]!r}: the table has a column of this name: rename yours in the runs or the frame"
            raise SettingError(msg)
        return cls(settings, list({str(rule): rule for rule in listed}.values()), scope, keys, own_limits)

    @property
    def detectors(self) -> list[Detector]:
        grid = () if self.settings is None else self.settings.detectors()
        return list(dict.fromkeys([*grid, *(d for rule in self.rules for d in rule.detectors())]))

    @property
    def count(self) -> int:
        """How many settings there are."""
        return (0 if self.settings is None else self.settings.count) + len(self.rules)

    @property
    def policy(self) -> Policy | None:
        """Whose words to the model are held against the recordings."""
        return None if self.settings is None else self.settings.policy

    @property
    def agents(self) -> bool:
        """Whether some limits are those of one agent alone."""
        return self.settings is not None and bool(self.settings.agents)

    @property
    def axes(self) -> list[GridAxis]:
        """The axes in the order in which the user named them."""
        if self.settings is None:
            return []
        return [next(axis for axis in self.settings.axes if axis.key == name) for name in self.settings.named]


def ledgers_of(
    recorded: Recorded,
    detectors: Sequence[Detector],
    scope: Scope,
    by: Sequence[str] = (),
    policy: Policy | None = None,
    own_limits: OwnLimits = "lifted",
) -> Iterator[Ledger]:
    """Recordings as ledgers: one, or, from a file, one for each batch of whole runs.

    Raises:
        SettingError: if runs have no such column as one of `by`, a frame lacks one that is needed, or an identity
            names a tool that none of them calls.
    """
    made = _ledgers(recorded, detectors, scope, by, policy)
    yield from (ledger.kept() for ledger in made) if own_limits == "kept" else made


def _ledgers(
    recorded: Recorded, detectors: Sequence[Detector], scope: Scope, by: Sequence[str], policy: Policy | None
) -> Iterator[Ledger]:
    own = () if policy is None else [guard.watch for guard in policy.detectors.guards]
    named, called = named_tools(detector for detector in detectors if detector not in own), set[str]()
    if isinstance(recorded, str | Path) and begins_as_sqlite(recorded):
        stored = stored_runs(recorded)
        check_tools(named, tools_called(stored) if named else ())
        yield from _ledgers_of_store(stored, detectors, scope, by, policy)
        return
    if isinstance(recorded, str | Path | pd.DataFrame):
        _check_frames(policy)
    if isinstance(recorded, str | Path):
        ledger = None
        labelled = has_labels(recorded)
        frames = frames_of(recorded, _PARQUET_ROWS, frame_columns(detectors, by))
        for frame in together(frames, homes_in(recorded)):
            ledger = ledger_of_frame(frame, detectors, scope, labelled=labelled)
            called |= _tools_of_frame(frame) if named else set()
            yield _checked(ledger, by)
        if ledger is None:
            yield ledger_of([], detectors, scope)
        check_tools(named, called)
    elif isinstance(recorded, pd.DataFrame):
        ledger = ledger_of_frame(recorded, detectors, scope)
        check_tools(named, _tools_of_frame(recorded) if named else ())
        yield _checked(ledger, by)
    else:
        runs = as_runs(recorded)
        check_tools(named, tools_called(runs) if named else ())
        yield _checked(_of_runs(runs, detectors, scope, policy), by)


def _of_runs(
    runs: Runs, detectors: Sequence[Detector], scope: Scope, policy: Policy | None, *, labelled: bool | None = None
) -> Ledger:
    """The ledger of runs, with the counters that a policy needs."""
    columns: StepColumns = {}
    if policy is not None and speaks(policy):
        columns = {INTERVENED: lambda run, its_scope: departures(policy, run, turns=its_scope == "turn")}
    responses = policy is not None and watched_at_response(policy)
    return ledger_of(runs, detectors, scope, columns=columns, responses=responses, labelled=labelled)


def _tools_of_frame(frame: pd.DataFrame) -> set[str]:
    """The tools that a frame names; none if it does not say."""
    return set(itertools.chain.from_iterable(frame[CALL_TOOLS].dropna())) if CALL_TOOLS in frame else set()


def _ledgers_of_store(
    runs: StoredRuns, detectors: Sequence[Detector], scope: Scope, by: Sequence[str], policy: Policy | None
) -> Iterator[Ledger]:
    """A ledger for each batch, with settings of the type that they have in all of the runs together."""
    labelled, settings = runs.labelled(), runs.settings()
    swept = [name for name in by if name not in RUN_FIELDS and any(name in one for one in settings)]
    types = {name: setting_dtype([one.get(name) for one in settings]) for name in swept}
    for batch in runs.families(_STORED_RUNS) if len(runs) else [[]]:
        ledger = _of_runs(batch, detectors, scope, policy, labelled=labelled)
        for name, kind in types.items():
            ledger.runs[name] = cells(ledger.runs[name] if name in ledger.runs else [None] * ledger.n_runs, kind)
        yield _checked(ledger, by)


def _check_frames(policy: Policy | None) -> None:
    """Raise `SettingError` if what frames hold is not enough for a policy."""
    if policy is not None and (speaks(policy) or watched_at_response(policy)):
        msg = (
            f"policy {policy.name}: what it tells the model cannot be had from a frame, which holds no texts: pass runs"
        )
        raise SettingError(msg)


def _checked(ledger: Ledger, by: Sequence[str]) -> Ledger:
    for name in by:
        if name not in ledger.runs:
            if not ledger.n_runs:
                ledger.runs[name] = text([])
                continue
            msg = f"by={name!r}: there is no such column{near(name, [*ledger.runs.columns], 'columns')}"
            raise SettingError(msg)
    return ledger


# --- Parts ------------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """What some of the runs say: their rows, or sums over them."""

    table: pd.DataFrame
    success_by: str
    agents: frozenset[str] = frozenset()


def _parts(ledgers: Iterator[Ledger], asked: _Question, *, aggregate: bool) -> Iterator[_Part]:
    for ledger in ledgers:
        agents = frozenset(agents_of(ledger)) if asked.agents else frozenset()
        if aggregate:
            yield _Part(_aggregate_of_ledger(ledger, asked), ledger.success_by, agents)
        else:
            _check_size(ledger.n_runs * asked.count, asked)
            yield _Part(_rows(ledger, asked), ledger.success_by, agents)


def _known_agents(parts: Iterator[_Part], asked: _Question) -> Iterator[_Part]:
    """The parts; raise `SettingError` after the last of them if the grid names an agent that none of them has."""
    seen: set[str] = set()
    for part in parts:
        seen |= part.agents
        yield part
    _check_agents(asked, seen)


def _check_agents(asked: _Question, seen: Collection[str]) -> None:
    for axis in asked.axes:
        if axis.agent and seen and axis.agent not in seen:
            close = nearest(axis.agent, seen)
            meant = f"; did you mean {axis.name}@{close}?" if close else ""
            agents = ", ".join(sorted(agent for agent in seen if agent)[:_NAMED])
            msg = f"grid: {axis.key}: the runs have no agent {axis.agent!r}{meant} Their agents: {agents or 'none'}"
            raise SettingError(msg)


def _parts_elsewhere(
    recorded: Recorded, asked: _Question, client: Executor, *, aggregate: bool, progress: bool
) -> Iterator[_Part]:
    """What the partitions of a data set say, each of them to a worker."""
    if not isinstance(recorded, str | Path):
        msg = (
            "client= has workers read a data set: expected the path of a .parquet or .jsonl file, or of a folder of "
            "them (bl.save_runs(runs, 'runs.parquet') makes one); leave it out for what is in memory already"
        )
        raise SettingError(msg)
    if begins_as_sqlite(recorded):
        msg = (
            f"client= has workers read a data set, and {recorded} is a store: leave client out, or export it first "
            f"(boolab store export {recorded} runs.parquet)"
        )
        raise SettingError(msg)
    _check_frames(asked.policy)
    from tqdm.auto import tqdm

    partitions = partitions_of(recorded, _PARQUET_ROWS)
    load: bytes = cloudpickle.dumps((asked, has_labels(recorded), aggregate, homes_in(recorded)))
    seen: set[Any] = set()
    none = True
    size = sum(partition.size for partition in partitions)
    with open_pool(client) as pool, tqdm(total=size, unit="B", unit_scale=True, disable=not progress, delay=1) as bar:
        found = in_order(pool, _of_partition, ((load, partition) for partition in partitions))
        for partition, (run_ids, part) in zip(partitions, found, strict=True):
            take_ids(seen, run_ids, partition.file)
            bar.update(partition.size)
            if part is not None:
                none = False
                yield part
    if none:
        yield from _parts(iter([ledger_of([], asked.detectors, asked.scope)]), asked, aggregate=aggregate)


def _of_partition(load: bytes, partition: Partition) -> tuple[list[Any], _Part | None]:
    """What a worker does: the ids of the runs of a partition, and what they say; None where none begins."""
    asked, labelled, aggregate, homes = cloudpickle.loads(load)
    run_ids: list[Any] = []

    def ledgers() -> Iterator[Ledger]:
        frames = partition.frames(_PARQUET_ROWS, frame_columns(asked.detectors, asked.by))
        for frame in together(frames, homes):
            ledger = ledger_of_frame(frame, asked.detectors, asked.scope, labelled=labelled)
            run_ids.extend(ledger.runs["run_id"])
            yield _checked(ledger.kept() if asked.own_limits == "kept" else ledger, asked.by)

    part = _joined(_parts(ledgers(), asked, aggregate=aggregate), asked, aggregate=aggregate)
    return run_ids, part


def _joined(parts: Iterator[_Part], asked: _Question, *, aggregate: bool) -> _Part | None:
    """Parts as one; None if there are none."""
    first = next(parts, None)
    if first is None:
        return None
    rest = itertools.chain([first], parts)
    agents: set[str] = set()

    def each() -> Iterator[_Part]:
        for part in rest:
            agents.update(part.agents)
            yield part

    table = _added_up(each(), asked) if aggregate else _table(each(), asked)
    return _Part(table, first.success_by, frozenset(agents))


def _table(parts: Iterator[_Part], asked: _Question) -> pd.DataFrame:
    """The rows of all parts."""
    frames, rows = [], 0
    for part in parts:
        rows += len(part.table)
        _check_size(rows, asked)
        frames.append(part.table)
    return pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def _check_size(rows: int, asked: _Question) -> None:
    if rows > MAX_ROWS:
        msg = (
            f"{asked.count:,} settings make more than {MAX_ROWS:,} rows with these runs: ask for aggregate=True (sums, "
            "one row per setting) or batches=True (an iterator of frames)"
        )
        raise SettingError(msg)


# --- A row per run and setting ----------------------------------------------------------------------------------------


def _batches(recorded: Recorded, asked: _Question) -> Iterator[pd.DataFrame]:
    size, seen = max(1, _BATCH_ROWS // asked.count), set[str]()
    for ledger in ledgers_of(recorded, asked.detectors, asked.scope, asked.by, asked.policy, asked.own_limits):
        seen.update(agents_of(ledger) if asked.agents else ())
        for part in _pieces(ledger, ledger.kin(), size) if ledger.n_runs else ():
            yield _rows(part, asked)
    _check_agents(asked, seen)


def _pieces(ledger: Ledger, kin: Kin | None, size: int) -> Iterator[Ledger]:
    """A ledger in parts of about so many runs, without a family in two of them; one part if there are no runs."""
    if kin is not None:
        yield from ledger.whole_families(kin, size)
        return
    for start in range(0, max(ledger.n_runs, 1), size):
        yield ledger.take(slice(start, start + size))


def _rows(ledger: Ledger, asked: _Question) -> pd.DataFrame:
    each, kin = spanned(ledger), ledger.kin()
    places = Places(ledger)
    of_spans = places if each is ledger else Places(each)
    parts: list[tuple[Stops, Stops, dict[str, Any], str | None]] = []
    if asked.settings is not None:
        stops = grid_stops(ledger, asked.settings, places)
        spans = stops if each is ledger else grid_stops(each, asked.settings, of_spans)
        if kin is not None:
            stops, spans = _in_families(ledger, kin, asked.settings, stops, spans)
        shape = [len(axis.values) for axis in asked.settings.axes]
        values = np.indices(shape).reshape(len(shape), -1)
        axes = {
            axis.key: _values(axis, np.tile(at, ledger.n_runs))
            for axis, at in zip(asked.settings.axes, values, strict=True)
        }
        parts.append((stops, spans, axes, None))
    for rule in asked.rules:
        off = np.zeros(ledger.n_runs, dtype=np.int64)
        axes = {axis.key: _values(GridAxis(axis.name, (), (None,)), off) for axis in asked.axes}
        stops = rule_stops(ledger, rule)
        spans = stops if each is ledger else rule_stops(each, rule)
        if kin is not None:
            heard = [leaf.reason for leaf in rule.leaves() if hears_results(leaf.counter, leaf.detector)]
            stops, spans = family_stops(ledger, kin, stops, spans, heard, lambda _: np.ones(1, dtype=bool))
        parts.append((stops, spans, axes, str(rule)))
    frames = []
    for stops, spans, axes, rule_text in parts:
        head = {name: ledger.runs[name].array.take(stops.run) for name in ("run_id", *asked.by)}
        head |= {axis.key: axes[axis.key] for axis in asked.axes}
        if asked.rules:
            head["rule"] = _all(rule_text, len(stops.run))
        data = outcome_columns(ledger, places, stops, spans)
        data["scope"] = ledger.runs["scope"].array.take(stops.run)
        frames.append(pd.DataFrame(head | data | {"success_by": _all(ledger.success_by, len(stops.run))}))
    return pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def _in_families(ledger: Ledger, kin: Kin, settings: Settings, stops: Stops, spans: Stops) -> tuple[Stops, Stops]:
    """The stops of a grid as they are in families."""
    shape = [len(axis.values) for axis in settings.axes]
    values = np.indices(shape).reshape(len(shape), -1)

    def holds_for(agent: str) -> Flags:
        """For each setting, whether any limit of it holds for an agent."""
        limited = np.full(settings.count, settings.intervenes)
        for axis, at in zip(settings.axes, values, strict=True):
            if not agent or axis.holds_for([agent])[0]:
                limited |= at < max(axis.size, len(axis.responses))  # off is the last value
        return limited

    rules = [rule for axis in settings.axes for rule in (*axis.rules[:1], *axis.responses[:1])]
    heard = [rule.reason for rule in rules if hears_results(rule.counter, rule.detector)]
    return family_stops(ledger, kin, stops, spans, heard, holds_for)


def _values(axis: GridAxis, places: Ints) -> Cells:
    """The values of an axis at these places."""
    return cells(axis.values, axis_dtype(axis.name)).take(places)


def _all(value: str | None, n: int) -> Cells:
    """The same text n times."""
    return text([value]).take(np.zeros(n, dtype=np.int64))


# --- Sums -------------------------------------------------------------------------------------------------------------


def _aggregate_of_ledger(ledger: Ledger, asked: _Question) -> pd.DataFrame:
    parts = [] if asked.settings is None else [_grid_aggregate(ledger, asked, asked.settings)]
    if asked.rules:
        parts.append(_rule_aggregate(ledger, asked))
    return parts[0] if len(parts) == 1 else _added(parts, _keys(asked))


def _keys(asked: _Question) -> list[str]:
    """The columns that tell sums apart."""
    return [*asked.by, *(axis.key for axis in asked.axes), *(["rule"] if asked.rules else []), "scope"]


def _added_up(parts: Iterator[_Part], asked: _Question) -> pd.DataFrame:
    """The sums of all parts, never more than two of them in memory."""
    total = next(parts).table
    for part in parts:
        total = _added([total, part.table], _keys(asked))
    return total


def _aggregate(parts: Iterator[_Part], asked: _Question) -> pd.DataFrame:
    first = next(parts)
    frame = _added_up(itertools.chain([first], parts), asked)
    if asked.rules:  # groups that come late come last, so that these are in the rows' order: the grid, rule by rule
        places = pd.Categorical(frame["rule"], categories=[str(rule) for rule in asked.rules]).codes
        frame = frame.iloc[np.argsort(places, kind="stable")].reset_index(drop=True)
    return _finished(frame, _keys(asked), first.success_by)


def _finished(frame: pd.DataFrame, keys: Sequence[str], success_by: str) -> pd.DataFrame:
    """Sums as the columns of an aggregate: NA what nobody tells and what has no bound, money in dollars."""
    sums = {name: frame[name].to_numpy(np.int64) for name in frame.columns if name not in keys}
    never = np.zeros(len(frame), dtype=bool)
    measures: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for name in SPENT:
        told = name in ("steps", "tool_calls")
        nobody = never if told else sums[f"n_unknown_{name}"] >= np.maximum(sums["n_runs"], 1)
        open_above = nobody if told else nobody | (sums[f"unreported_{name}"] > 0)
        column = "cost_usd" if name == "cost" else name
        for into, label, values, missing in (
            (measures, column, sums[name], nobody),
            (measures, f"saved_{column}", sums[f"saved_{name}"], nobody),
            (bounds, f"saved_{column}_lower", sums[f"saved_{name}_lower"], nobody | (sums["n_censored"] > 0)),
            (bounds, f"saved_{column}_upper", sums[f"saved_{name}"], open_above),
        ):
            array: Any = pd.arrays.FloatingArray if name == "cost" else pd.arrays.IntegerArray
            into[label] = array(values / MICRO if name == "cost" else values, missing)
    counts = [f"n_{name}" for name in ("runs", *OUTCOMES, *get_args(StopReason), "unknown_tokens", "unknown_cost")]
    kept = ["successes", "successes_censored", "kept_lower", "kept_upper"]
    data: dict[str, Any] = {key: frame[key].array for key in keys if key != "scope"}
    data |= {name: pd.arrays.IntegerArray(sums[name], never) for name in (*counts, *kept) if name in sums}
    data |= {name: measures[name] for name in sorted(measures, key=lambda name: name.startswith("saved_"))}
    end = {"scope": frame["scope"].astype(TEXT).array, "success_by": _all(success_by, len(frame))}
    return pd.DataFrame(data | bounds | end)


def _added(parts: Sequence[pd.DataFrame], keys: Sequence[str]) -> pd.DataFrame:
    """Aggregates of different runs, added up."""
    together = pd.concat(parts, ignore_index=True)
    sums = [name for name in together.columns if name not in keys]
    together[sums] = together[sums].fillna(0)
    return _grouped_sums(together, keys)


def _grouped_sums(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """The sums of all other columns for each group of rows; for all together if nothing keeps them apart."""
    if not keys:
        return rows.sum().to_frame().T
    return rows.groupby(list(keys), dropna=False, sort=False).sum().reset_index()


def _grid_aggregate(ledger: Ledger, asked: _Question, settings: Settings) -> pd.DataFrame:
    kin = ledger.kin()
    if kin is not None or not (settings.plain and settings.silent):
        return _aggregate_of_rows(ledger, asked, settings, kin)
    codes, groups = _groups(ledger, asked.by, asked.scope)
    if len(groups) * settings.count > _MAX_SUMS:
        msg = f"{len(groups):,} groups with {settings.count:,} settings each: expected {_MAX_SUMS:,} sums at most"
        raise SettingError(msg)
    sums = aggregate_of(ledger, settings, groups=codes, n_groups=len(groups))
    asked_for = (slice(None), *(slice(len(axis.values)) for axis in settings.axes))
    named = [settings.axes.index(axis) + 1 for axis in asked.axes]
    own = [n for n in range(1, len(settings.axes) + 1) if n not in named]
    group, *places = np.indices((len(groups), *(len(axis.values) for axis in asked.axes))).reshape(len(named) + 1, -1)
    data: dict[str, Any] = {name: groups[name].array.take(group) for name in (*asked.by, "scope")}
    data |= {axis.key: _values(axis, some) for axis, some in zip(asked.axes, places, strict=True)}
    if asked.rules:
        data["rule"] = _all(None, len(group))
    for name, values in (sums | {f"saved_{name}_lower": sums[f"saved_{name}"] for name in SPENT}).items():
        data[name] = pd.array(values[asked_for].transpose(0, *named, *own).reshape(-1), dtype=INT)
    return pd.DataFrame(data)


def _groups(ledger: Ledger, by: Sequence[str], scope: Scope) -> tuple[Ints | None, pd.DataFrame]:
    """The group of each run, and one row for each group. No row holds runs of two scopes."""
    if not by and not ledger.mixed:
        scopes = ledger.runs["scope"].head(1).tolist() or ["run" if scope == "run" else "turn"]
        return None, pd.DataFrame({"scope": text(scopes)})
    keys = [*by, "scope"]
    grouped = ledger.runs.groupby(keys, dropna=False, sort=False)
    codes: Ints = grouped.ngroup().to_numpy().astype(np.int64)
    return codes, grouped.head(1)[keys].reset_index(drop=True)


def _aggregate_of_rows(ledger: Ledger, asked: _Question, settings: Settings, kin: Kin | None) -> pd.DataFrame:
    """The sums for settings that sums over steps cannot tell, from their rows, a part of the runs at a time."""
    alone = _Question(settings, (), asked.scope, asked.by)
    keys = _keys(alone)
    parts = [_sums(_rows(part, alone), keys) for part in _pieces(ledger, kin, max(1, _BATCH_ROWS // alone.count))]
    sums = parts[0] if len(parts) == 1 else _added(parts, keys)
    return sums.assign(rule=_all(None, len(sums))) if asked.rules else sums


def _rule_aggregate(ledger: Ledger, asked: _Question) -> pd.DataFrame:
    """The sums for each rule, from its rows."""
    rows = _rows(ledger, _Question(None, asked.rules, asked.scope, asked.by))
    sums = _sums(rows, [*asked.by, "rule", "scope"])
    off = np.zeros(len(sums), dtype=np.int64)
    return sums.assign(**{axis.key: _values(GridAxis(axis.name, (), (None,)), off) for axis in asked.axes})


def _sums(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """The sums of a table with a row per run and setting, by these columns; cost in micro-dollars."""
    counted = rows[list(keys)].copy()
    counted["n_runs"] = 1
    for outcome in OUTCOMES:
        counted[f"n_{outcome}"] = (rows["outcome"] == outcome).astype(INT)
    known = rows["outcome"] != "unknown"
    for reason in get_args(StopReason):
        counted[f"n_{reason}"] = ((rows["stop_reason"] == reason) & known).fillna(value=False).astype(INT)
    counted["n_unknown_tokens"] = rows["tokens"].isna().astype(INT)
    counted["n_unknown_cost"] = rows["cost_usd"].isna().astype(INT)
    counted["successes"] = rows["success"].astype(INT).fillna(0)
    counted["successes_censored"] = counted["successes"] * counted["n_censored"]
    for name in ("kept_lower", "kept_upper", "steps", "tool_calls", "tokens"):
        counted[name] = rows[name].fillna(0)
    for name in ("steps", "tool_calls", "tokens"):
        counted[f"saved_{name}"] = rows[f"saved_{name}"].fillna(0)
    for name in ("cost", "saved_cost"):
        counted[name] = (rows[f"{name}_usd"].fillna(0) * MICRO).round().astype(INT)
    certain = (rows["saved_is"] != "at most").astype(INT)
    for name in SPENT:
        counted[f"saved_{name}_lower"] = counted[f"saved_{name}"] * certain
    for name, column in (("tokens", "tokens"), ("cost", "cost_usd")):
        counted[f"unreported_{name}"] = counted["saved_steps"] * rows[column].isna().astype(INT)
    return _grouped_sums(counted, keys)
