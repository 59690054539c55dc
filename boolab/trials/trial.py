"""`trial`: what a change of limits would bring, where a recording cannot show it.

A recording answers tighter limits. For a looser one, or one of which the model is informed, it only knows which runs
the change would reach. A trial counts them, bounds what they can add, and continues a random sample of them under the
change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from boolab.core.displayable import Displayable
from boolab.core.executors import Executor
from boolab.core.run import Run
from boolab.core.text import count
from boolab.display.document import Document
from boolab.errors import SettingError
from boolab.frames.runs import Runs, as_runs
from boolab.io.checks import is_whole, repr_of
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.plan import Score
from boolab.runtime.tools.tool import ToolSpec, as_tools
from boolab.runtime.worlds.protocol import World
from boolab.stats.intervals import check_confidence
from boolab.store.connection import path_of
from boolab.sweeps.driver import check_concurrency
from boolab.sweeps.progress import Watcher, check_watcher
from boolab.trials.branches import run_branches
from boolab.trials.change import ChangeInput, TrialChange, agents_by_name, change_of
from boolab.trials.design import Design, design_of
from boolab.trials.estimates import Forecast
from boolab.trials.job import BranchJob, BranchModel, branch_ids, check_model, is_simulated
from boolab.trials.result import WIDTH, TrialResult, check_width
from boolab.trials.spending import Spending
from boolab.trials.summary import summary_of


def trial(
    runs: Runs,
    change: ChangeInput,
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
        seed: Of the order in which tasks are branched. Choose it before the first branch: an order that is chosen for
            what it shows is not random.
        agent: The agent that made the runs, or agents by their name on record. By default one with the policy and the
            limits that each run has on record.
        score: As for `run`; a simulated model has its own if its profile has `success`.
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
    trial_change = change_of(change)
    all_runs = as_runs(runs)
    own_runs = [run for run in all_runs if run.parent_run_id is None]
    if not own_runs:
        msg = "there are no runs to try a change on" if not all_runs else "all runs are those of subagents"
        raise SettingError(msg)
    _check_branches(runs, own_runs, store)
    _check_size(n)
    _check_costs(cost_limit, max_cost)
    if not is_whole(seed):
        raise SettingError(f"seed={repr_of(seed)}: expected an integer")
    if replay_tools and world is not None:
        msg = "replay_tools=True answers calls from the record, and world= executes them: expected one of the two"
        raise SettingError(msg)
    if getattr(world, "into", None) is not None:
        msg = "world: into= names one folder, and each branch gets one of its own: leave it out"
        raise SettingError(msg)
    agents = agents_by_name(agent, own_runs)
    job = BranchJob(
        model=model,  # type: ignore[arg-type] # a branch has another kind of cell
        tools=tuple(as_tools(tools or ())),
        root=root,
        score=score,
        cost_limit=cost_limit,
        replay_tools=replay_tools,
        world=world,
    )
    design = design_of(
        own_runs,
        trial_change,
        agents=agents,
        job=job,
        subagent_runs=[run for run in all_runs if run.parent_run_id is not None],
        seed=seed,
        pool=pool,
        confidence=check_confidence(confidence),
    )
    return Trial(design, n=n, store=store, max_cost=max_cost)


def _check_branches(runs_given: Runs, runs: Sequence[Run], store: str | Path | None) -> None:
    """Raise `SettingError` if branches are among the runs on record, or would come among them."""
    origin = runs_given if isinstance(runs_given, str | Path) else getattr(runs_given, "path", None)
    if store is not None and origin is not None and path_of(store).absolute() == path_of(origin).absolute():
        msg = f"store={str(store)!r} holds the runs on record, and branches would be among them: name another file"
        raise SettingError(msg)
    ids = {run.run_id for run in runs}
    branches = [
        run for run in runs if any(kind == "branch" and facts["run_id"] in ids for _, kind, facts in run.events)
    ]
    if branches:
        subject = f"1 of {len(runs):,} runs is a branch" if len(branches) == 1 else (
            f"{len(branches):,} of {len(runs):,} runs are branches"
        )  # fmt: skip
        msg = f"{subject} of others among them, such as {branches[0].run_id}: pass the runs on record alone"
        raise SettingError(msg)


def _check_size(n: object) -> None:
    if n is not None and (not is_whole(n) or n < 1):
        raise SettingError(f"n={repr_of(n)}: expected how many branches to run, an integer >= 1")


def _check_costs(cost_limit: float | None, max_cost: float | None) -> None:
    for name, value in (("cost_limit", cost_limit), ("max_cost", max_cost)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value < float("inf")):
            raise SettingError(f"{name}={repr_of(value)}: expected dollars, a number above 0")
    if max_cost is None:
        return
    if cost_limit is None:
        msg = "max_cost= needs cost_limit=, the most that one branch may cost: else the last ones could exceed it"
        raise SettingError(msg)
    if max_cost < cost_limit:
        raise SettingError(
            f"max_cost={max_cost!r} is less than cost_limit={cost_limit!r}, so that not one branch could begin: "
            "expected max_cost= of at least cost_limit="
        )


class Trial(Displayable):
    """A plan of a trial: what the recording knows, and the branches that were run so far. Made by `trial`.

    Args:
        design: What is fixed before the first branch.
        n: How many branches `run` makes by default; None for all.
        store: The file that keeps the branches.
        max_cost: The most that all branches may cost together, in dollars.

    Attributes:
        design: The same.
        change: What is tried.
        outcomes: How many runs the record leaves `unchanged`, `truncated`, `open` and `unknown`.
        result: What is found so far.
    """

    def __init__(self, design: Design, *, n: int | None, store: str | Path | None, max_cost: float | None) -> None:
        self.design = design
        self._n_branches = n
        self._store = store
        self._max_cost = max_cost
        self._branches: dict[str, Run] = {}
        self._spending: Spending | None = None
        self._simulated = False
        self.result = self._summary()

    def __repr__(self) -> str:
        return f"<Trial of {self.change.label}: {count(self.outcomes['open'], 'open run')}>"

    def __str__(self) -> str:
        return str(self.result)

    def _document_(self) -> Document:
        return self.result._document_()

    @property
    def change(self) -> TrialChange:
        """What is tried."""
        return self.design.change

    @property
    def outcomes(self) -> dict[str, int]:
        """How many runs the record leaves `unchanged`, `truncated`, `open` and `unknown`."""
        return self.result.outcomes

    @property
    def branches(self) -> list[Run]:
        """The branches that were run, in the order of the trial."""
        ids = [run_id.run.run_id for run_id in self.design.order]
        return [self._branches[run_id] for run_id in ids if run_id in self._branches]

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
        the store, are not run again, but for those that broke off; they count in the result, also if they are more. One
        may look at the result at any time and stop or go further: the intervals allow for it. An interrupt keeps the
        finished branches, in `result` too.

        All attempts at branches count as spent, also those that were interrupted or are run again; with a store, also
        those of a process that was killed. An executor returns only whole branches, so that each one that was sent and
        did not return counts as `cost_limit`.

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
        design = self.design
        n_wanted = n if n is not None else self._n_branches
        maximum = max_cost if max_cost is not None else self._max_cost
        _check_size(n_wanted)
        _check_costs(design.job.cost_limit, maximum)
        check_concurrency(concurrency)
        watcher = check_watcher(progress)
        self._max_cost = maximum
        if not design.cells:
            return self.result
        check_model(design.job.model, design.cells)
        ids = branch_ids(design.cells, design.job)
        earlier_spending = None if self._store is not None else self._spending
        self._spending = Spending(ids, maximum, design.job.cost_limit, watcher, earlier_spending)
        self._simulated = is_simulated(design.job, design.cells[0])
        try:
            await run_branches(
                design.cells,
                design.job,
                ids=ids,
                n=len(design.cells) if n_wanted is None else design.prefix(n_wanted),
                store=self._store,
                executor=executor,
                concurrency=concurrency,
                spending=self._spending,
                finished=self._branches,
                labelled=design.labelled,
            )
        finally:  # also what was finished before an interrupt
            self.result = self._summary()
        return self.result

    def enough(self, width: float = WIDTH) -> bool:
        """Whether the interval of the gain over all runs is narrow enough to stop.

        Args:
            width: How wide it may be, as a share of all runs.

        Raises:
            SettingError: if the width is no number above 0.
        """
        return self.result.enough(width)

    def forecast(self, width: float = WIDTH) -> Forecast:
        """How many branches, those so far included, an interval is likely to take.

        Args:
            width: How wide it may be, as a share of all runs.

        Returns:
            The median over possible outcomes.

        Raises:
            SettingError: if the width is no number above 0.
        """
        return self.result.forecast(check_width(width) * len(self.design.openings))

    def _summary(self) -> TrialResult:
        return summary_of(self.design, self._branches, self._spending, simulated=self._simulated)
