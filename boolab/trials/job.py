"""One branch of a trial: the run that it continues, by whom and under which limits; and what all branches share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias, cast

from boolab.core.run import Run
from boolab.core.run_tree import tool_calls
from boolab.core.types import MICRO, Response, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.frames.runs import micro_cost
from boolab.harnesses.presets import get_policy
from boolab.io.git.scratch import scratch_folder
from boolab.limits.call_identity import arguments_hash
from boolab.limits.catalog import max_cost
from boolab.limits.stop import StopRule, Threshold
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.branch import branch_turn, turn_in_folder
from boolab.runtime.engine.plan import TurnOptions
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import Emit, Model, OfflineModel, Request, traits_of
from boolab.runtime.tools.tool import ToolContext
from boolab.runtime.worlds.protocol import World
from boolab.sweeps.fingerprints import digest, fingerprint
from boolab.sweeps.task import Job

BranchModel: TypeAlias = Model | Callable[[Run], Model]
"""A model, or a function from the run that is continued to the model that continues it."""
MARK: Final = "score"


@dataclass(frozen=True, slots=True)
class BranchCell:
    """One branch of a trial."""

    run: Run  # the run on record
    n_kept: int  # how many of its steps are kept
    agent: Agent  # who continues, under the change
    rule: StopRule | None = None  # the stop rule in place of all limits; None where the agent's limits hold
    settings: Mapping[str, Any] = field(default_factory=dict)  # the values that are tried, by axis

    @property
    def seed(self) -> int:
        """The run's own seed, so that a simulated agent continues as it would have; else one from its id."""
        return int(digest("branch", self.run.run_id)[:12], 16) if self.run.seed is None else self.run.seed

    def __str__(self) -> str:
        return f"the branch of run {self.run.run_id} after step {self.n_kept}"


def most_steps(cell: BranchCell) -> int | None:
    """The most steps that a branch can have under the change; None if it has no cap."""
    if cell.rule is not None:
        caps = [
            alternative.threshold
            for alternative in cell.rule.alternatives
            if isinstance(alternative, Threshold) and alternative.counter == "steps"
        ]
        return min(caps) + 1 if caps else None
    policy = get_policy(cell.agent.policy)
    cap = policy.effective(cell.agent.settings).get("max_steps") if "max_steps" in policy.order else None
    caps = [alternative for alternative in (cap, policy.cap.ceiling) if alternative is not None]
    if not caps or policy.continues.by == "loop" or policy.cap.counts != "steps":
        return policy.cap.ceiling
    if policy.cap.kind == "soft":
        return policy.cap.ceiling or min(caps)
    return min(caps) + 1  # one step may come beyond the cap


def cost_before(run: Run, n_steps: int) -> int:
    """What the first steps of a run count as in limits on cost, in micro-dollars.

    Where the record does not have their costs, they count as 0, so that a limit is one on the cost of the branch. A
    whole run that a limit on cost stopped counts as that limit.
    """
    micro = micro_cost(run, n_steps)
    if micro is not None:
        return micro
    limit = run.limits.get("cost")
    return limit if limit is not None and n_steps == run.n_steps and run.stop.reason == "cost_budget" else 0


class Diverged(Exception):
    """A branch made another call than the record."""


class ReplayedTools(OfflineModel):
    """A model whose calls get the results on record; it ends its run where it makes another call."""

    def __init__(self, model: Model, run: Run) -> None:
        self._model = model
        self._run = run
        self._diverged = ""
        self.name = model.name
        traits = traits_of(model)
        self.summarises, self.compacts = traits.summarises, traits.compacts
        self.context_window, self.virtual, self.score = traits.context_window, traits.virtual, traits.score
        self.own_tools = tuple(dict.fromkeys(call.name for call in tool_calls(run)))
        self.fingerprint = (model, run.run_id)
        """What distinguishes it from others: see `boolab.sweeps.fingerprints`."""

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        if self._diverged:
            raise Diverged(self._diverged)
        return await self._model.respond(request, emit)

    def replies_to(self, tool: str) -> bool:  # noqa: ARG002 - it has an answer for each
        return True

    def reply(self, call: ToolCall, context: ToolContext) -> Awaitable[ToolResult]:
        """The result on record."""
        return self._reply(call, context.step, context.call)

    async def _reply(self, call: ToolCall, step: int, number: int) -> ToolResult:
        recorded = self._recorded_call(step, number)
        if recorded is not None and not self._diverged:
            recorded_call, result = recorded
            if recorded_call.name == call.name and arguments_hash(recorded_call.arguments) == arguments_hash(
                call.arguments
            ):
                return result._replace(call_id=call.id)
        self._diverged = self._diverged or (
            f"the record has no result of the call of {call.name} in step {step:,}: the branch cannot continue"
        )
        return ToolResult(call.id, self._diverged, is_error=True, duration_ms=0)

    def _recorded_call(self, step: int, number: int) -> tuple[ToolCall, ToolResult] | None:
        if not 0 < step <= len(self._run.steps):
            return None
        step_record = self._run.steps[step - 1]
        calls = step_record.response.tool_calls
        result = step_record.results[number - 1] if 0 < number <= len(calls) else None
        return None if result is None else (calls[number - 1], result)


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
        turn = mark_score(branch_turn(cell.run, cell.n_kept, self.branch_options(cell, run_id)), self.score_digest)
        return _count_known_cost(turn, cell)

    @asynccontextmanager
    async def begin_turn(self, cell: Any, run_id: str) -> AsyncIterator[Turn]:  # noqa: ANN401 - as above
        turn = self.turn(cell, run_id)
        if self.world is None:
            yield turn
            return
        with scratch_folder(run_id) as folder:
            turn_in_world = await turn_in_folder(turn, cell.run, cell.n_kept, self.world, folder=folder)
            yield _count_known_cost(mark_score(turn_in_world, self.score_digest), cell)

    def branch_options(self, cell: BranchCell, run_id: str | None = None) -> TurnOptions:
        """The options of a branch."""
        agent, rule = cell.agent, cell.rule
        if self.cost_limit is not None:
            maximum = cost_before(cell.run, cell.n_kept) / MICRO + self.cost_limit
            if rule is not None:
                rule |= max_cost(maximum, on_unknown="ignore")
            else:
                agent = _cap_cost(agent, maximum)
        model = _model_of(self.model, cell.run)
        if self.replay_tools:
            answering = agent.model if model is None else model
            model = ReplayedTools(cast("Model", answering), cell.run)
        return {
            "agent": agent,
            "model": model,
            "tools": self.tools,
            "root": self.root,
            "stop": rule,
            "score": self.score,
            "seed": cell.seed,
            "settings": dict(cell.settings),
            "run_id": run_id,
            "world": self.world,
        }


def _cap_cost(agent: Agent, maximum: float) -> Agent:
    """The agent with a limit on cost, unless its own is lower."""
    policy = get_policy(agent.policy)
    own_maximum = policy.budgets.cost
    return replace(
        agent, policy=policy.vary(budgets={"cost": maximum if own_maximum is None else min(own_maximum, maximum)})
    )


def _model_of(model: object, run: Run) -> Model | None:
    if model is None or hasattr(model, "respond"):
        return cast("Model | None", model)
    return cast("Model", cast("Callable[[Run], object]", model)(run))


def _count_known_cost(turn: Turn, cell: BranchCell) -> Turn:
    """The turn, with a counter of cost that is known: no limit on an unknown one would stop it."""
    if turn.ladder.counters["cost"] is None:
        turn.ladder.counters["cost"] = cost_before(cell.run, cell.n_kept)
    return turn


def mark_score(turn: Turn, digest: str) -> Turn:
    """The turn of a branch, with the digest of the score that labels it in its event `branch`; "" for none."""
    if digest:
        events = turn.record.events
        index = max(number for number, event in enumerate(events) if event.kind == "branch")
        events[index] = events[index]._replace(payload={**events[index].payload, MARK: digest})
    return turn


def branch_ids(cells: Sequence[BranchCell], job: BranchJob) -> list[str]:
    """The ids of branches: digests of all that may change them, so that a store knows which of them it has."""
    # Without a world a branch can be scored again from its record, so that another score pays for none anew.
    score = None if job.world is None else job.score
    shared = fingerprint((job.tools, score, str(job.root), job.cost_limit, job.replay_tools, job.world))
    shared_model = None if callable(job.model) and not hasattr(job.model, "respond") else fingerprint(job.model)
    fingerprints: dict[int, str] = {}
    ids = []
    for cell in cells:
        if id(cell.agent) not in fingerprints:
            fingerprints[id(cell.agent)] = fingerprint(cell.agent)
        model = fingerprint(_model_of(job.model, cell.run)) if shared_model is None else shared_model
        rule = "" if cell.rule is None else str(cell.rule)
        ids.append(
            digest("branch", cell.run.run_id, cell.n_kept, cell.seed, fingerprints[id(cell.agent)], rule, shared, model)
        )
    return ids


def check_model(model: object, cells: Iterable[BranchCell]) -> None:
    """Raise `SettingError` if nothing answers in branches."""
    if model is not None and not (hasattr(model, "respond") or callable(model)):
        raise SettingError(f"model={model!r}: expected a model, or a function from a run to its model")
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
