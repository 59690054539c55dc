"""Runs the branches of a trial with the driver of sweeps: in one event loop or on workers, into a store or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from boolab.agents.agent import Agent
from boolab.core.types import MICRO, Run
from boolab.engine.branch import branch_turn, turn_in_folder
from boolab.engine.keep import kept_after
from boolab.engine.options import Setup
from boolab.engine.turn import Turn
from boolab.errors import SettingError
from boolab.frames.costs import micro_cost
from boolab.harness.presets import get_policy
from boolab.models.base import Model
from boolab.parallel.executors import Executor
from boolab.rules.catalog import max_cost
from boolab.rules.stop import StopRule
from boolab.sweeps.cells import Planned, Task
from boolab.sweeps.driver import Work, run_work
from boolab.sweeps.fingerprints import digest, fingerprint
from boolab.sweeps.progress import Bar, Begun, CellResult, Watcher, result_of
from boolab.sweeps.task import Job
from boolab.trials.replayed_tools import ReplayedTools
from boolab.worlds.protocol import World

if TYPE_CHECKING:
    from boolab.store.writer import Store

BranchModel: TypeAlias = Model | Callable[[Run], Model]
"""A model, or a function from the run that is continued to the model that continues it."""
AGAIN: Final = ("error", "aborted")
"""How a branch ends that shows nothing about the change: it is run again."""


@dataclass(frozen=True, slots=True)
class BranchCell:
    """One branch of a trial.

    Attributes:
        run: The run on record.
        at: How many of its steps are kept.
        agent: Who continues, under the change.
        rule: The stop rule in place of all limits; None where the agent's limits hold.
    """

    run: Run
    at: int
    agent: Agent
    rule: StopRule | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """The run's own seed, so that a simulated agent continues as it would have; else one from its id."""
        return int(digest("branch", self.run.run_id)[:12], 16) if self.run.seed is None else self.run.seed

    def __str__(self) -> str:
        return f"the branch of run {self.run.run_id} after step {self.at}"


@dataclass(frozen=True, slots=True)
class BranchJob(Job):
    """What all branches of a trial share; `model` is a model or a function of the run."""

    cost_limit: float | None = None
    replay_tools: bool = False
    world: World | None = None

    def turn(self, cell: Any, run_id: str | None = None) -> Turn:  # noqa: ANN401 - a `Cell` in a sweep
        """The prepared turn of a branch.

        Args:
            cell: The `BranchCell`.
            run_id: The id of the branch.

        Raises:
            SettingError: if the branch is not accepted.
        """
        return _counting_cost(branch_turn(cell.run, cell.at, self.setup_of(cell, run_id)), cell)

    async def open(self, cell: Any, run_id: str) -> Turn:  # noqa: ANN401 - as above
        turn = self.turn(cell, run_id)
        if self.world is None:
            return turn
        return _counting_cost(await turn_in_folder(turn, cell.run, cell.at, self.world), cell)

    def close(self, turn: Turn) -> None:
        world = turn.plan.options.world
        if world is not None and world is not self.world:
            world.discard()

    def setup_of(self, cell: BranchCell, run_id: str | None = None) -> Setup:
        """The options of a branch.

        Args:
            cell: The branch.
            run_id: The id of its record.
        """
        agent, rule = cell.agent, cell.rule
        if self.cost_limit is not None:
            most = cost_before(cell.run, cell.at) / MICRO + self.cost_limit
            if rule is not None:
                rule |= max_cost(most, on_unknown="ignore")
            else:
                agent = _capped(agent, most)
        model = _model_of(self.model, cell.run)
        if self.replay_tools:
            answering = agent.model if model is None else model
            model = ReplayedTools(cast("Model", answering), cell.run)
        return Setup(
            agent,
            model,
            self.tools,
            self.root,
            stop=rule,
            score=self.score,
            seed=cell.seed,
            settings=dict(cell.settings),
            run_id=run_id,
            world=self.world,
        )


def _capped(agent: Agent, most: float) -> Agent:
    """The agent with a limit on cost, unless its own is lower."""
    policy = get_policy(agent.policy)
    own = policy.budgets.cost
    return replace(agent, policy=policy.vary(budgets={"cost": most if own is None else min(own, most)}))


def _model_of(model: object, run: Run) -> Model | None:
    if model is None or hasattr(model, "respond"):
        return cast("Model | None", model)
    return cast("Model", cast("Callable[[Run], object]", model)(run))


def cost_before(run: Run, at: int) -> int:
    """What the first steps of a run count as in limits on cost, in micro-dollars.

    Where the record does not have their costs, they count as 0, so that a limit is one on the cost of the branch. A
    whole run that a limit on cost stopped counts as that limit.

    Args:
        run: The run.
        at: How many first steps.
    """
    known = micro_cost(run, at)
    if known is not None:
        return known
    limit = run.limits.get("cost")
    return limit if limit is not None and at == run.n_steps and run.stop.reason == "cost_budget" else 0


def _counting_cost(turn: Turn, cell: BranchCell) -> Turn:
    """The turn, with a counter of cost that is known: no limit on an unknown one would stop it."""
    if turn.ladder.counters["cost"] is None:
        turn.ladder.counters["cost"] = cost_before(cell.run, cell.at)
    return turn


class Spending:
    """Counts what the branches of a trial cost while they run, and shows it beside the progress.

    It is the watcher of a sweep. `may_start` keeps the total within the maximum: each branch under way counts with the
    most that it may cost.

    Args:
        maximum: Of the whole trial, in dollars.
        cost_limit: The most that a branch may cost.
        before: What was spent before.
        shown: Whether a bar is shown, or another watcher.
    """

    def __init__(
        self,
        maximum: float | None,
        cost_limit: float | None,
        shown: bool | Watcher,
    ) -> None:
        self.spent = 0.0
        self.unknown = 0
        self.stopped = False
        self._maximum = maximum
        self._limit = cost_limit or 0.0
        self._under_way = 0
        self._watcher: Watcher | None = (_CostBar(self) if shown else None) if isinstance(shown, bool) else shown

    def may_start(self) -> bool:
        """Whether one more branch fits; it counts as started then."""
        if self._maximum is not None and self.spent + (self._under_way + 1) * self._limit > self._maximum * (1 + 1e-12):
            self.stopped = True
            return False
        self._under_way += 1
        return True

    def begin(self, begun: Begun) -> None:
        """Count what the store has already.

        Args:
            begun: The sweep.
        """
        for result in begun.earlier:
            self.count(result)
        if self._watcher is not None:
            self._watcher.begin(begun)

    def add(self, result: CellResult) -> None:
        """Count one more branch.

        Args:
            result: Its result.
        """
        self._under_way -= 1
        self.count(result)
        if self._watcher is not None:
            self._watcher.add(result)

    def end(self, error: BaseException | None) -> None:
        """Pass the end on.

        Args:
            error: What ended the trial early.
        """
        if self._watcher is not None:
            self._watcher.end(error)

    def count(self, result: CellResult) -> None:
        """Count the cost of a branch.

        Args:
            result: Its result.
        """
        if result.own_cost_usd is None:
            self.unknown += 1
            self.spent += self._limit  # the most that it may have been
        else:
            self.spent += result.own_cost_usd


class _CostBar(Bar):
    """The bar of a sweep, with what was spent so far."""

    def __init__(self, spending: Spending) -> None:
        self._spending = spending

    def begin(self, begun: Begun) -> None:
        super().begin(begun)
        self._bar.set_description("trial")
        self._bar.unit = "branch"

    def add(self, result: CellResult) -> None:
        super().add(result)
        if self._spending.spent:
            self._bar.set_description(f"trial, ${self._spending.spent:,.2f} spent", refresh=False)


async def run_branches(
    cells: Sequence[BranchCell],
    job: BranchJob,
    *,
    store: str | Path | None,
    executor: Executor | None,
    concurrency: int | None,
    maximum: float | None,
    progress: bool | Watcher,
    finished: Mapping[str, Run],
) -> tuple[dict[str, Run], Spending]:
    """Run branches in their order, as far as the maximum goes.

    Args:
        cells: The branches.
        job: What they share.
        store: Where they are kept.
        executor: As for `sweep`.
        concurrency: As for `sweep`.
        maximum: The dollars of the whole trial.
        progress: As for `sweep`.
        finished: Those that exist already, by the id of the run on record, where there is no store.

    Returns:
        By the id of the run on record, its finished branch; and what was spent.

    Raises:
        SettingError: if a branch is not accepted.
    """
    ids = branch_ids(cells, job)
    spending = Spending(maximum, job.cost_limit, progress)
    names = [(digest("branch", cell.run.run_id, cell.at), run_id) for cell, run_id in zip(cells, ids, strict=True)]
    known = {} if store is not None else {run.run_id: run for run in finished.values()}
    for run_id in ids:
        if run_id in known:
            spending.count(result_of(known[run_id]))

    def unfinished(before: Sequence[int] | None, _store: Store | None) -> Iterator[Task]:
        for place, (cell, run_id) in enumerate(zip(cells, ids, strict=True)):
            if run_id in known or (before is not None and before[place]):
                continue
            if not spending.may_start():
                return
            yield Task((Planned(place, cast("Any", cell), run_id),))

    for cell, run_id in zip(cells, ids, strict=True):  # what is missing is named before anything is spent
        job.turn(cell, run_id)
        if job.world is not None:
            kept_after(cell.run, cell.at)
    about = {
        "trial": True,
        "agents": sorted({cell.agent.name for cell in cells}),
        "tasks": [],
        "models": [],
        "grid": {},
    }
    work = Work(job, names, {**about, "repeats": 1}, unfinished)
    again = () if job.replay_tools else AGAIN  # the record will not have the missing result another time either
    runs = await run_work(
        work, store=store, executor=executor, concurrency=concurrency, again=again, shown=spending
    )  # fmt: skip
    by_id = {**known, **{run.run_id: run for run in runs}}
    found = {cell.run.run_id: by_id[run_id] for cell, run_id in zip(cells, ids, strict=True) if run_id in by_id}
    return found, spending


def branch_ids(cells: Sequence[BranchCell], job: BranchJob) -> list[str]:
    """The ids of branches: digests of all that may change them, so that a store knows which of them it has.

    Args:
        cells: The branches.
        job: What they share.
    """
    shared = fingerprint((job.tools, job.score, str(job.root), job.cost_limit, job.replay_tools))
    one = None if callable(job.model) and not hasattr(job.model, "respond") else fingerprint(job.model)
    known: dict[int, str] = {}
    ids = []
    for cell in cells:
        if id(cell.agent) not in known:
            known[id(cell.agent)] = fingerprint(cell.agent)
        model = fingerprint(_model_of(job.model, cell.run)) if one is None else one
        rule = "" if cell.rule is None else str(cell.rule)
        ids.append(digest("branch", cell.run.run_id, cell.at, cell.seed, known[id(cell.agent)], rule, shared, model))
    return ids


def check_model(model: object, agents: Mapping[str, Agent]) -> None:
    """Raise `SettingError` if nothing answers in branches.

    Args:
        model: The model of the trial.
        agents: The agents of the runs.
    """
    if model is not None and not (hasattr(model, "respond") or callable(model)):
        msg = f"model={model!r}: expected a model, or a function from a run to its model"
        raise SettingError(msg)
    if model is None and not (agents and all(hasattr(agent.model, "respond") for agent in agents.values())):
        msg = (
            "branches need a model: expected model=, such as bl.OpenAIModel(...), or for a rehearsal without a key "
            "bl.SimulatedModel(bl.fit_profile(runs).profile)"
        )
        raise SettingError(msg)
