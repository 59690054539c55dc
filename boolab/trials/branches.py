"""Runs the branches of a trial with the driver of sweeps: in one event loop or on workers, into a store or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, cast

from boolab.core.parallel.executors import Executor
from boolab.core.text import first_of
from boolab.core.types import MICRO, Run
from boolab.errors import SettingError, StoreError
from boolab.harnesses.presets import get_policy
from boolab.io.git.scratch import remove_leftovers, scratch_folder
from boolab.limits.catalog import max_cost
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.branch import branch_turn, turn_in_folder
from boolab.runtime.engine.keep import kept_after
from boolab.runtime.engine.options import Setup
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import Model
from boolab.runtime.worlds.protocol import World
from boolab.store.connection import path_of
from boolab.sweeps.cells import Planned, Task
from boolab.sweeps.driver import Work, run_work
from boolab.sweeps.fingerprints import digest, fingerprint
from boolab.sweeps.task import Job
from boolab.trials.cells import BranchCell, cost_before
from boolab.trials.replayed_tools import ReplayedTools
from boolab.trials.scores import FirstLabel, check_labels, mark, scored
from boolab.trials.spending import Spending

if TYPE_CHECKING:
    from boolab.store.writer import Store

BranchModel: TypeAlias = Model | Callable[[Run], Model]
"""A model, or a function from the run that is continued to the model that continues it."""
AGAIN: Final = ("error", "aborted")
"""How a branch ends that shows nothing about the change: it is run again."""
_SHOWN: Final = 5
"""How many names of tools an error has."""


@dataclass(frozen=True, slots=True)
class BranchJob(Job):
    """What all branches of a trial share; `model` is a model or a function of the run."""

    records_start: ClassVar[bool] = True
    cost_limit: float | None = None
    replay_tools: bool = False
    world: World | None = None
    score_digest: str = ""
    """The digest of the score, computed once: a score may hold all runs on record."""

    @property
    def parts(self) -> list[tuple[str, object]]:
        return [*super(BranchJob, self).parts, ("world", self.world)]

    def turn(self, cell: Any, run_id: str | None = None) -> Turn:  # noqa: ANN401 - a `Cell` in a sweep
        """The prepared turn of a branch."""
        turn = mark(branch_turn(cell.run, cell.at, self.setup_of(cell, run_id)), self.score_digest)
        return _counting_cost(turn, cell)

    @asynccontextmanager
    async def opened(self, cell: Any, run_id: str) -> AsyncIterator[Turn]:  # noqa: ANN401 - as above
        turn = self.turn(cell, run_id)
        if self.world is None:
            yield turn
            return
        with scratch_folder(run_id) as folder:
            own = await turn_in_folder(turn, cell.run, cell.at, self.world, folder=folder)
            yield _counting_cost(mark(own, self.score_digest), cell)

    def setup_of(self, cell: BranchCell, run_id: str | None = None) -> Setup:
        """The options of a branch."""
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


def _counting_cost(turn: Turn, cell: BranchCell) -> Turn:
    """The turn, with a counter of cost that is known: no limit on an unknown one would stop it."""
    if turn.ladder.counters["cost"] is None:
        turn.ladder.counters["cost"] = cost_before(cell.run, cell.at)
    return turn


async def run_branches(
    cells: Sequence[BranchCell],
    job: BranchJob,
    *,
    ids: Sequence[str],
    n: int,
    store: str | Path | None,
    executor: Executor | None,
    concurrency: int | None,
    spending: Spending,
    finished: dict[str, Run],
    labelled: bool,
) -> None:
    """Run branches in their order, as far as the maximum goes.

    `finished`: those that exist already, by the id of the run on record; it gets all of the store and the new ones,
    also if an interrupt or an error ends the trial early.
    """
    if job.score is not None:
        job = replace(job, score_digest=fingerprint(job.score))
    again = () if job.replay_tools else AGAIN  # the record will not have the missing result another time either
    records = {run_id: cell.run.run_id for cell, run_id in zip(cells, ids, strict=True)}
    known = () if store is not None else {run.run_id for run in finished.values() if run.stop.reason not in again}
    wanted = list(zip(cells, ids, strict=True))[:n]

    labels = labelled and job.score is not None
    if store is not None and path_of(store).exists():
        stored = _in_store(store, ids, spending)
        finished.update((records[run.run_id], run) for run in stored if run.run_id in records)
    if labels:
        finished.update(zip(finished, _with_labels(job, [*finished.values()]), strict=True))
    earlier = {run.run_id: run.success for run in finished.values()} if labels else {}
    settled = any(label is not None for label in earlier.values())
    first = FirstLabel(spending, labels=labels, settled=settled)

    def unfinished(before: Sequence[int] | None, _store: Store | None) -> Iterator[Task | None]:
        todo = (
            Task((Planned(place, cast("Any", cell), run_id),))
            for place, (cell, run_id) in enumerate(wanted)
            if run_id not in known and not (before is not None and before[place])
        )
        return _as_allowed(todo, first, spending)

    _check(wanted, job, labelled=labelled)
    if job.world is not None:
        remove_leftovers(set(ids))
    names = [(run_id, run_id) for _, run_id in wanted]  # so that no branch replaces that of another trial
    about = {
        "trial": True,
        "agents": sorted({cell.agent.name for cell, _ in wanted}),
        "tasks": [],
        "models": [],
        "grid": {},
        "repeats": 1,
    }
    work = Work(job, names, about, unfinished)
    found: Iterable[Run] = ()
    try:
        found = await run_work(
            work, store=store, executor=executor, concurrency=concurrency, again=again, shown=first
        )  # fmt: skip
        found = found if store is None else _in_store(store, ids, spending)
    except BaseException as interruption:
        found = _kept(interruption, store, ids, spending)
        raise
    finally:
        whole = [replace(run, success=earlier.get(run.run_id, run.success)) for run in found if run.run_id in records]
        finished.update((records[run.run_id], run) for run in whole)
    if labels:
        check_labels(finished.values())


def _as_allowed(todo: Iterable[Task], first: FirstLabel, spending: Spending) -> Iterator[Task | None]:
    """The branches to run, as far as the maximum goes and the score labels them; None while others are waited for."""
    for task in todo:
        while not first.settled and spending.under_way:
            yield None
        if first.failed:
            return
        while not spending.may_start():
            if not spending.under_way:
                return
            yield None  # those under way may cost less than they may
        yield task


def _check(wanted: Iterable[tuple[BranchCell, str]], job: BranchJob, *, labelled: bool) -> None:
    """Raise `SettingError` for the first branch that is not accepted, before anything is spent."""
    for cell, run_id in wanted:
        try:
            turn = job.turn(cell, run_id)
            _check_tools(turn, cell.run)
            if labelled:
                _check_score(turn)
            if job.world is not None:
                kept_after(cell.run, cell.at)
        except SettingError as error:
            msg = f"{cell}: {error}"
            raise SettingError(msg) from error


def _check_tools(turn: Turn, run: Run) -> None:
    """Raise `SettingError` if a run called tools and its branch has none at all: the model could only write text."""
    called = list(dict.fromkeys(call.name for step in run.steps for call in step.response.tool_calls))
    replies = turn.plan.traits.replies_to
    if not called or turn.plan.tools or turn.plan.text_only or any(map(replies, called)):
        return
    msg = (
        f"the run called {first_of(called, _SHOWN)}, and the branch has no tools: pass tools=, an agent= that has "
        "them, or replay_tools=True"
    )
    raise SettingError(msg)


def _check_score(turn: Turn) -> None:
    """Raise `SettingError` if nothing labels a branch."""
    profile = turn.plan.traits.profile
    undecided = profile is not None and profile.success is None
    if turn.plan.options.score is None and (undecided or turn.plan.traits.score is None):
        why = " (the profile of the simulated model has no success)" if undecided else ""
        msg = (
            f"runs on record have labels, and the branch would have none{why}, so that its outcome would be unknown: "
            "pass score=, a function from a branch to whether it is a success"
        )
        raise SettingError(msg)


def _kept(
    interruption: BaseException, store: str | Path | None, ids: Sequence[str], spending: Spending
) -> Iterable[Run]:
    """The finished branches after an interrupt or an error."""
    if store is not None:
        with suppress(StoreError):  # the first error is the one to report
            return _in_store(store, ids, spending)
    for run in getattr(interruption, "interrupted", ()):
        spending.count([run])
    runs: Iterable[Run] = getattr(interruption, "runs", ())
    return runs


def _in_store(store: str | Path, ids: Sequence[str], spending: Spending) -> list[Run]:
    """The finished branches in a store, and their subagents; all attempts there are counted as spent."""
    from boolab.store.stored_runs import attempts

    spending.count_store(store)
    return [_whole(runs) for state, runs in attempts(store, ids) if state == "finished"]


def _with_labels(job: BranchJob, branches: list[Run]) -> list[Run]:
    """Branches of an earlier run as this score labels them; with a world, as it did, because its files are gone."""
    if job.world is None and job.score is not None:
        return scored(branches, job.score, job.score_digest)
    check_labels(branches)
    return branches


def _whole(family: Sequence[Run]) -> Run:
    """A run with those of its subagents inside, each with its own."""

    def with_own(run: Run) -> Run:
        own = [with_own(one) for one in family[1:] if one.parent_run_id == run.run_id]
        return replace(run, subagents=tuple(own)) if own else run

    return with_own(family[0])


def branch_ids(cells: Sequence[BranchCell], job: BranchJob) -> list[str]:
    """The ids of branches: digests of all that may change them, so that a store knows which of them it has."""
    # Without a world a branch can be scored again from its record, so that another score pays for none anew.
    score = None if job.world is None else job.score
    shared = fingerprint((job.tools, score, str(job.root), job.cost_limit, job.replay_tools, job.world))
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


def check_model(model: object, cells: Iterable[BranchCell]) -> None:
    """Raise `SettingError` if nothing answers in branches."""
    if model is not None and not (hasattr(model, "respond") or callable(model)):
        msg = f"model={model!r}: expected a model, or a function from a run to its model"
        raise SettingError(msg)
    if model is None and not all(hasattr(cell.agent.model, "respond") for cell in cells):
        msg = (
            "branches need a model: expected model=, such as bl.OpenAIModel(...), or for a rehearsal without a key "
            "bl.SimulatedModel(bl.fit_profile(runs).profile)"
        )
        raise SettingError(msg)


def is_simulated(job: BranchJob, cell: BranchCell) -> bool:
    """Whether a simulated model answers in a branch, so that it is a rehearsal."""
    model = _model_of(job.model, cell.run)
    return hasattr(cell.agent.model if model is None else model, "profile")
