"""The design of a trial: all that is fixed before its first branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from boolab.core.run import Run
from boolab.errors import SettingError, near
from boolab.frames.tables import columns_of_runs
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.branch import TurnEndedError, branch_turn
from boolab.runtime.models.scripted import ScriptedModel
from boolab.stats.intervals import Interval
from boolab.trials.change import TrialChange, agent_on_record
from boolab.trials.estimates import BranchLimits, OpenTask, openings_in, tasks_in_order
from boolab.trials.hazards import HazardEstimate, hazards_of
from boolab.trials.job import BranchCell, BranchJob, most_steps
from boolab.trials.openings import Opening, openings_of


@dataclass(frozen=True, kw_only=True)
class Design:
    """What a trial does, and what the record knows of it; no branch changes it."""

    change: TrialChange  # what is tried
    agents: Mapping[str, Agent]  # the caller's agents by their names on record
    job: BranchJob  # what all branches share
    openings: Sequence[Opening]  # what is known of each run, in their order
    tasks: Sequence[OpenTask]  # the open tasks, in the one random order of the trial
    hazards: HazardEstimate  # what longer runs on record suggest
    labelled: bool  # whether labels, and not the ends of runs, determine what a success is
    confidence: float  # of each interval
    n_left_out: int  # how many runs of subagents were left out

    @cached_property
    def order(self) -> list[Opening]:
        """The open runs, in the order in which they are branched."""
        return openings_in(self.tasks)

    @cached_property
    def cells(self) -> list[BranchCell]:
        """Their branches, in the same order."""
        return [_cell(opening, self.change, self.agents) for opening in self.order]

    @cached_property
    def limits(self) -> BranchLimits:
        """The most steps and dollars that a branch may have."""
        caps = [most_steps(cell) for cell in self.cells]
        return BranchLimits(None if None in caps else max(filter(None, caps), default=None), self.job.cost_limit)

    @cached_property
    def closed_gain(self) -> Interval:
        """The bounds of the gain of runs that no branch is about."""
        closed_runs = [opening for opening in self.openings if opening.outcome != "open"]
        return Interval(sum(opening.low for opening in closed_runs), sum(opening.high for opening in closed_runs))

    @cached_property
    def bounds(self) -> Interval:
        """The bounds of the gain of all runs, by the record alone."""
        return Interval(*(sum(getattr(opening, end) for opening in self.openings) for end in ("low", "high")))

    def prefix(self, n_wanted: int) -> int:
        """How many branches the first tasks have that together have at least so many."""
        size = 0
        for task in self.tasks:
            if size >= n_wanted:
                break
            size += len(task.openings)
        return size


def design_of(
    runs: Sequence[Run],
    change: TrialChange,
    *,
    agents: Mapping[str, Agent],
    job: BranchJob,
    subagent_runs: Sequence[Run],
    seed: int,
    pool: str | None,
    confidence: float,
) -> Design:
    """Look at what the record knows of a change, and draw the order of its open tasks."""
    _check_ids(runs)
    groups = _groups(runs, pool)
    openings = [
        _exclude_waiting(opening, change, agents, job) for opening in openings_of(runs, change, agents, subagent_runs)
    ]
    return Design(
        change=change,
        agents=agents,
        job=job,
        openings=openings,
        tasks=tasks_in_order(openings, seed),
        hazards=hazards_of(openings, change.settings, groups, confidence),
        labelled=any(run.success is not None for run in runs),
        confidence=confidence,
        n_left_out=len(subagent_runs),
    )


def _check_ids(runs: Sequence[Run]) -> None:
    """Raise `SettingError` unless each run has an id of its own: branches are named by them."""
    missing = sum(not run.run_id for run in runs)
    if missing:
        raise SettingError(
            f"{missing:,} of {len(runs):,} runs have no run_id, which branches are named by: give each run its own, "
            "such as dataclasses.replace(run, run_id=f'run {n}')"
        )
    (run_id, n), *_ = Counter(run.run_id for run in runs).most_common(1)
    if n > 1:
        msg = f"{n:,} runs have the run_id {run_id!r}: pass each run once, and give each a run_id of its own"
        raise SettingError(msg)


def _groups(runs: Sequence[Run], pool: str | None) -> Sequence[object]:
    if pool is None:
        return [""] * len(runs)
    table = columns_of_runs(list(runs), {pool})
    if pool not in table:
        raise SettingError(f"pool: runs have no column {pool!r}{near(str(pool), list(table.columns), 'columns')}")
    groups: list[object] = table[pool].tolist()
    return groups


def _cell(opening: Opening, change: TrialChange, agents: Mapping[str, Agent]) -> BranchCell:
    agent = agents.get(opening.run.agent) or agent_on_record(opening.run)
    return BranchCell(opening.run, opening.n_kept, change.agent(agent), change.rule, dict(change.settings))


def _exclude_waiting(opening: Opening, change: TrialChange, agents: Mapping[str, Agent], job: BranchJob) -> Opening:
    """What is known of a run; its outcome is unknown if it waits for a user, whom a branch does not have."""
    if opening.outcome != "open" or not opening.n_kept or opening.run.steps[opening.n_kept - 1].response.tool_calls:
        return opening
    options = job.branch_options(_cell(opening, change, agents))
    options |= {"model": ScriptedModel([]), "world": None}
    try:
        branch_turn(opening.run, opening.n_kept, options)
    except TurnEndedError:
        return opening._replace(outcome="unknown", why="user")
    return opening
