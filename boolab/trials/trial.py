"""`trial`: what a change of limits would bring, where a recording cannot show it.

A recording answers tighter limits. For a looser one, or one of which the model is informed, it only knows which runs
the change would reach. A trial counts them, bounds what they can add, and continues a random sample of them under the
change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from boolab.agents.agent import Agent
from boolab.core.text import count
from boolab.core.types import MICRO, Run
from boolab.engine.branch import TurnEndedError, branch_turn
from boolab.engine.options import Score
from boolab.errors import SettingError
from boolab.frames.costs import micro_cost
from boolab.frames.dtypes import FLAG, INT, TEXT, cells
from boolab.frames.runs import Runs, as_runs
from boolab.frames.tables import columns_of_runs
from boolab.harness.presets import get_policy
from boolab.io.checks import is_whole
from boolab.models.scripted import ScriptedModel
from boolab.parallel.executors import Executor
from boolab.rules.stop import Threshold
from boolab.stats.intervals import Interval, check_confidence
from boolab.sweeps.progress import Watcher, check_watcher
from boolab.tools.tool import ToolSpec, as_tools
from boolab.trials.agents import agent_on_record, agents_by_name
from boolab.trials.branches import BranchCell, BranchJob, BranchModel, branch_ids, check_model, run_branches
from boolab.trials.change import Change, Given, change_of
from boolab.trials.estimates import Limits, Looks, looks_of, ratio_of, tasks_in_order
from boolab.trials.forecast import Forecast, forecast
from boolab.trials.hazards import hazards_of
from boolab.trials.notes import notes_of
from boolab.trials.openings import OUTCOMES, Opening, openings_of, success_of
from boolab.trials.result import WIDTH, Effects, Estimate, TrialResult
from boolab.trials.spending import Spending
from boolab.worlds.protocol import World


def trial(
    runs: Runs,
    change: Given,
    *,
    n: int | None = None,
    model: BranchModel | None = None,
    tools: Sequence[ToolSpec | Callable[..., Any]] | None = None,
    world: World | None = None,
    store: str | Path | None = None,
    seed: int = 0,
    agent: Agent | Mapping[str, Agent] | None = None,
    score: Score | None = None,
    root: str | Path | None = None,
    replay_tools: bool = False,
    cost_limit: float | None = None,
    max_cost: float | None = None,
    pool: str | None = None,
    confidence: float = 0.95,
) -> Trial:
    """Plan a trial of a change, and report what the recording knows of it.

    Three kinds of evidence stand side by side and are never mixed. *Bounds* assume nothing: the open runs change from
    none to all. *Hazards* assume that the open runs would have continued like those on record that went further.
    *Branches* continue a random sample of the open runs under the change, from the step where it would matter; only the
    order of their tasks is random, so their interval assumes nothing about how outcomes arise.

    Args:
        runs: Runs on record. Those of subagents are not tried by themselves.
        change: Settings such as `{"max_steps": 100}` (also `tool_budget`, `doom_loop`, `max_tokens`, `max_cost`,
            `max_time`; None is no limit), a policy or its name, or a stop rule in place of all limits.
        n: How many branches `run` makes by default; all open runs, if it is not given.
        model: What answers in branches: a model, or a function from a run to its model; by default the agents' own.
        tools: As for `run`.
        world: What brings the files of a run back as they were after a step, such as `bl.GitWorld(".")`.
        store: The file that keeps the branches. The same trial resumes from it, also after a crash.
        seed: Of the order in which tasks are branched.
        agent: The agent that made the runs, or agents by their name on record. By default one with the policy and the
            limits that each run has on record.
        score: As for `run`; a simulated model has its own.
        root: As for `run`.
        replay_tools: Whether calls get their results from the record, as long as they are those on record; a branch
            that makes another call ends, and its outcome is unknown.
        cost_limit: The most that a branch may cost, in dollars. It stops a branch, whose outcome is then unknown unless
            it is a success, and it is the stated maximum that an interval of the cost needs.
        max_cost: The most that all branches may cost together, in dollars; it needs `cost_limit`.
        pool: A column of the runs, such as `model`: hazards take only runs of the same group as alike.
        confidence: Of each interval.

    Returns:
        The plan. `print(plan)` shows what is known; `await plan.run(12)` runs branches.

    Raises:
        SettingError: if there are no runs, or an argument is not accepted.

    Example:
        >>> import boolab as bl
        >>> import asyncio
        >>> model = bl.SimulatedModel.load("coder")
        >>> agent = bl.Agent("coder", max_steps=20, tool_budget=None, doom_loop=None)
        >>> runs = [bl.run_sync(agent, f"Task {i}", model=model, seed=i) for i in range(30)]
        >>> plan = bl.trial(runs, {"max_steps": 60}, model=model)
        >>> plan.outcomes["open"], plan.result.bounds.high == plan.outcomes["open"]
        (30, True)
        >>> found = asyncio.run(plan.run(12, progress=False))
        >>> found.n_branches, bool(found.gain.low <= found.gain.value <= found.gain.high)
        (12, True)
    """
    tried = change_of(change)
    listed = as_runs(runs)
    own = [run for run in listed if run.parent_run_id is None]
    below = [run for run in listed if run.parent_run_id is not None]
    if not own:
        msg = "there are no runs to try a change on" if not listed else "all runs are those of subagents"
        raise SettingError(msg)
    _check(n, cost_limit, max_cost, replay_tools=replay_tools, world=world)
    agents = agents_by_name(agent, own)
    job = BranchJob(
        model=model,  # type: ignore[arg-type] # a branch has another kind of cell
        tools=tuple(as_tools(tools or ())),
        root=root,
        score=score,
        cost_limit=cost_limit,
        replay_tools=replay_tools,
        world=world,
    )
    return Trial(own, tried, agents, job, n, store, seed, max_cost, pool, check_confidence(confidence), below)


def _check(n: object, cost_limit: object, max_cost: object, *, replay_tools: bool, world: object) -> None:
    if n is not None and (not is_whole(n) or n < 1):
        msg = f"n={n!r}: expected how many branches to run, an integer >= 1"
        raise SettingError(msg)
    for name, value in (("cost_limit", cost_limit), ("max_cost", max_cost)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value < float("inf")):  # type: ignore[operator] # a number
            msg = f"{name}={value!r}: expected dollars, a number above 0"
            raise SettingError(msg)
    if max_cost is not None and cost_limit is None:
        msg = "max_cost= needs cost_limit=, the most that one branch may cost: else the last ones could exceed it"
        raise SettingError(msg)
    if replay_tools and world is not None:
        msg = "replay_tools=True answers calls from the record, and world= executes them: expected one of the two"
        raise SettingError(msg)


class Trial:
    """A plan of a trial: what the recording knows, and the branches that were run so far. Made by `trial`.

    Attributes:
        change: What is tried.
        outcomes: How many runs the record leaves `unchanged`, `truncated`, `open` and `unknown`.
        result: What is found so far.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        change: Change,
        agents: Mapping[str, Agent],
        job: BranchJob,
        n: int | None,
        store: str | Path | None,
        seed: int,
        max_cost: float | None,
        pool: str | None,
        confidence: float,
        below: Sequence[Run],
    ) -> None:
        self.change = change
        self._agents = agents
        self._job = job
        self._n = n
        self._store = store
        self._max_cost = max_cost
        self._confidence = confidence
        self._left_out = len(below)
        self._labelled = any(run.success is not None for run in runs)
        self._openings = [self._with_user(one) for one in openings_of(runs, change, agents, below)]
        self._tasks = tasks_in_order(self._openings, seed)
        self._order = [one for task in self._tasks for one in task.openings]
        self._cells = [self._cell(one) for one in self._order]
        groups = ["" for _ in runs] if pool is None else columns_of_runs(list(runs), {pool})[pool].tolist()
        self._hazards = hazards_of(self._openings, change.settings, groups, confidence)
        self._branches: dict[str, Run] = {}
        self._spending: Spending | None = None
        self.outcomes: dict[str, int] = {name: sum(one.outcome == name for one in self._openings) for name in OUTCOMES}
        self.result = self._result()

    def __repr__(self) -> str:
        return f"<Trial of {self.change.words}: {count(self.outcomes['open'], 'open run')}>"

    def __str__(self) -> str:
        return str(self.result)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    @property
    def branches(self) -> list[Run]:
        """The branches that were run, in the order of the trial."""
        return [self._branches[one.run.run_id] for one in self._order if one.run.run_id in self._branches]

    async def run(
        self,
        n: int | None = None,
        *,
        max_cost: float | None = None,
        concurrency: int | None = None,
        executor: Executor | None = None,
        progress: bool | Watcher = True,
    ) -> TrialResult:
        """Run branches until there are so many, and report what they show.

        All open runs of a task are branched together, so there may be some more. Those that exist already, here or in
        the store, are not run again, but for those that broke off. One may look at the result at any time and stop or
        go further: the intervals allow for it. An interrupt keeps the finished branches, in `result` too.

        All attempts at branches count as spent, also those that were interrupted or are run again. With a store this
        holds for a process that was killed, but with an executor, which returns only whole branches.

        Args:
            n: How many branches there are to be in all; by default those of the plan.
            max_cost: As for `trial`, from now on.
            concurrency: As for `sweep`.
            executor: As for `sweep`.
            progress: As for `sweep`.

        Returns:
            What is found so far; also `result`.

        Raises:
            SettingError: if an argument is not accepted, or nothing answers.
            StoreError: as `sweep`.
            asyncio.CancelledError: if the task is cancelled, or interrupted from the keyboard.
        """
        wanted = n if n is not None else self._n
        self._max_cost = max_cost if max_cost is not None else self._max_cost
        _check(wanted, self._job.cost_limit, self._max_cost, replay_tools=False, world=None)
        shown = check_watcher(progress)
        if self._cells:
            check_model(self._job.model, {cell.agent.name: cell.agent for cell in self._cells})
            some = self._prefix(len(self._cells) if wanted is None else wanted)
            ids = branch_ids(self._cells, self._job)
            before = None if self._store is not None else self._spending
            self._spending = Spending(ids, self._max_cost, self._job.cost_limit, shown, before)
            try:
                await run_branches(
                    self._cells[:some],
                    self._job,
                    ids=ids[:some],
                    store=self._store,
                    executor=executor,
                    concurrency=concurrency,
                    spending=self._spending,
                    finished=self._branches,
                )
            finally:  # also what was finished before an interrupt
                self.result = self._result()
        return self.result

    def enough(self, width: float = WIDTH) -> bool:
        """Whether the interval of the gain over all runs is narrow enough to stop.

        Args:
            width: How wide it may be, as a share of all runs.
        """
        return self.result.enough(width)

    def forecast(self, width: float = WIDTH) -> Forecast:
        """How many branches, those so far included, an interval is likely to take.

        Args:
            width: How wide it may be, as a share of all runs.

        Returns:
            The median over possible outcomes.
        """
        return self.result.forecast(width * len(self._openings))

    def _with_user(self, one: Opening) -> Opening:
        """What is known of a run; its outcome is unknown if it waits for a user, whom a branch does not have."""
        if one.outcome != "open" or not one.at or one.run.steps[one.at - 1].response.tool_calls:
            return one
        setup = self._job.setup_of(self._cell(one))._replace(model=ScriptedModel([]), world=None)
        try:
            branch_turn(one.run, one.at, setup)
        except TurnEndedError:
            return one._replace(outcome="unknown", why="user")
        return one

    def _cell(self, one: Opening) -> BranchCell:
        agent = self._agents.get(one.run.agent) or agent_on_record(one.run)
        return BranchCell(one.run, one.at, self.change.agent(agent), self.change.rule, dict(self.change.settings))

    def _prefix(self, wanted: int) -> int:
        """How many branches the first tasks have that together have at least so many."""
        size = 0
        for task in self._tasks:
            if size >= wanted:
                break
            size += len(task.openings)
        return size

    def _limits(self) -> Limits:
        """The most steps and dollars that a branch may have."""
        caps = [_most_steps(cell) for cell in self._cells]
        steps = None if None in caps else max(filter(None, caps), default=None)
        return Limits(steps, self._job.cost_limit)

    def _looks(self, confidence: float | None = None) -> Looks:
        return looks_of(
            self._tasks,
            self._branches,
            self._limits(),
            labelled=self._labelled,
            confidence=self._confidence if confidence is None else confidence,
        )

    def _others(self) -> Interval:
        """The bounds of the gain of runs that no branch is about."""
        others = [one for one in self._openings if one.outcome != "open"]
        return Interval(sum(one.low for one in others), sum(one.high for one in others))

    def _result(self) -> TrialResult:
        looks, others = self._looks(), self._others()
        last = looks.frame.iloc[-1]
        open_low, open_high = (sum(getattr(one, end) for one in self._order) for end in ("low", "high"))
        gain = Estimate(
            _value(last["gain"], (others.low + others.high) / 2),
            last["gain_low"] + others.low,
            last["gain_high"] + others.high,
        )
        extra = {
            name: Estimate(_value(last[name]), float(last[f"{name}_low"]), float(last[f"{name}_high"]))
            for name in ("extra_steps", "extra_cost_usd")
            if name in looks.frame
        }
        n_branches = int(last["branches"])
        effects = self._effects(looks.done)
        frame = looks.frame.copy()
        frame[["gain_low", "gain_high"]] += [others.low, others.high]
        return TrialResult(
            change=self.change.words,
            success="successes" if self._labelled else "runs that end by themselves",
            n_runs=len(self._openings),
            successes=sum(bool(one.success) for one in self._openings),
            outcomes=self.outcomes,
            bounds=Interval(open_low + others.low, open_high + others.high),
            other=others,
            hazards=self._hazards,
            gain=gain,
            extra_steps=extra.get("extra_steps"),
            extra_cost=extra.get("extra_cost_usd"),
            per_success=self._per_success(extra),
            recorded_per_success=self._recorded("extra_cost_usd" in extra),
            n_branches=n_branches,
            n_open=len(self._order),
            n_unknown=looks.unknown,
            n_beyond=looks.beyond,
            spent=0.0 if self._spending is None else self._spending.spent,
            effects=effects,
            forecast=partial(self._forecast, looks),
            confidence=self._confidence,
            simulated=hasattr(self._job.model, "profile"),
            looks=frame,
            runs=self._table(),
            notes=tuple(
                notes_of(
                    self._openings,
                    looks,
                    reach=self._hazards.reach,
                    labelled=self._labelled,
                    known_agents=self._agents,
                    n_left_out=self._left_out,
                    n_unknown_costs=0 if self._spending is None else len(self._spending.unknown),
                )
            ),
            budget_stopped=self._spending is not None and self._spending.stopped,
            settings=self.change.settings,
        )

    def _per_success(self, extra: Mapping[str, Estimate]) -> Estimate | None:
        """What an additional success costs: both parts at half the error."""
        name = "extra_cost_usd" if "extra_cost_usd" in extra else "extra_steps"
        if name not in extra or not self._order:
            return None
        halves = self._looks((1 + self._confidence) / 2).frame.iloc[-1]
        low, high = ratio_of(
            *(Interval(float(halves[f"{one}_low"]), float(halves[f"{one}_high"])) for one in (name, "gain"))
        )
        added, gained = extra[name].value, _value(halves["gain"])
        middle = added / gained if added is not None and gained is not None and gained > 0 else None
        return Estimate(middle, low, high)

    def _recorded(self, in_dollars: bool) -> float | None:
        wins = sum(bool(one.success) for one in self._openings)
        used = [micro_cost(one.run) if in_dollars else one.run.n_steps for one in self._openings]
        if not wins or None in used:
            return None
        return sum(filter(None, used)) / wins / (MICRO if in_dollars else 1)

    def _effects(self, done: int) -> Effects:
        pairs = [
            (one.success, success_of(self._branches[one.run.run_id], labelled=self._labelled))
            for task in self._tasks[:done]
            for one in task.openings
        ]
        known = [(before, after) for before, after in pairs if before is not None and after is not None]
        failed, won = [after for before, after in known if not before], [after for before, after in known if before]
        return Effects(len(failed), sum(failed), len(won), len(won) - sum(won))

    def _forecast(self, looks: Looks, width: float) -> Forecast:
        effects = self._effects(looks.done)
        tried = effects.failures + effects.successes
        if tried:
            share = (effects.recovered + effects.lost + 0.5) / (tried + 1)
        elif self._hazards.gain is not None and self._hazards.covered:
            share = min(0.5, max(0.02, abs(self._hazards.gain) / self._hazards.covered))
        else:
            share = 0.5  # where nothing is known, the value that takes most
        others = self._others()
        spreads = looks.gains
        return forecast(
            self._tasks,
            [one.low for one in spreads],
            [one.high for one in spreads],
            share,
            width,
            other=others.high - others.low,
            confidence=self._confidence,
        )

    def _table(self) -> pd.DataFrame:
        branches = [self._branches.get(one.run.run_id) for one in self._openings]
        after = [None if run is None else success_of(run, labelled=self._labelled) for run in branches]
        columns: dict[str, tuple[Sequence[object], str]] = {
            "run_id": ([one.run.run_id for one in self._openings], TEXT),
            "task": ([one.run.task for one in self._openings], TEXT),
            "outcome": ([one.outcome for one in self._openings], TEXT),
            "stop_reason": ([one.run.stop.reason for one in self._openings], TEXT),
            "n_steps": ([one.run.n_steps for one in self._openings], INT),
            "branch_at": ([one.at if one.outcome == "open" else None for one in self._openings], INT),
            "success": ([one.success for one in self._openings], FLAG),
            "branch_id": ([None if run is None else run.run_id for run in branches], TEXT),
            "branch_steps": ([None if run is None else run.n_steps for run in branches], INT),
            "branch_stop_reason": ([None if run is None else run.stop.reason for run in branches], TEXT),
            "branch_success": (after, FLAG),
        }
        return pd.DataFrame({name: cells(values, kind) for name, (values, kind) in columns.items()})


def _value(value: object, added: float = 0.0) -> float | None:
    return None if pd.isna(value) else float(value) + added  # type: ignore[arg-type, call-overload] # a number


def _most_steps(cell: BranchCell) -> int | None:
    """The most steps that a branch can have under the change; None if it has no cap."""
    if cell.rule is not None:
        caps = [
            one.threshold for one in cell.rule.alternatives if isinstance(one, Threshold) and one.counter == "steps"
        ]
        return min(caps) + 1 if caps else None
    policy = get_policy(cell.agent.policy)
    cap = policy.effective(cell.agent.settings).get("max_steps") if "max_steps" in policy.order else None
    known = [one for one in (cap, policy.cap.ceiling) if one is not None]
    if not known or policy.continues.by == "loop" or policy.cap.counts != "steps":
        return policy.cap.ceiling
    return (policy.cap.ceiling or min(known)) if policy.cap.kind == "soft" else min(known) + 1  # one may come beyond it
