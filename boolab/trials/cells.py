"""One branch of a trial: the run that it continues, from where, by whom and under which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from boolab.core.types import Run
from boolab.frames.costs import micro_cost
from boolab.harnesses.presets import get_policy
from boolab.limits.stop import StopRule, Threshold
from boolab.runtime.agents.agent import Agent
from boolab.sweeps.fingerprints import digest


@dataclass(frozen=True, slots=True)
class BranchCell:
    """One branch of a trial.

    Attributes:
        run: The run on record.
        at: How many of its steps are kept.
        agent: Who continues, under the change.
        rule: The stop rule in place of all limits; None where the agent's limits hold.
        settings: The values that are tried, by axis.
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


def most_steps(cell: BranchCell) -> int | None:
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


def cost_before(run: Run, at: int) -> int:
    """What the first steps of a run count as in limits on cost, in micro-dollars.

    Where the record does not have their costs, they count as 0, so that a limit is one on the cost of the branch. A
    whole run that a limit on cost stopped counts as that limit.
    """
    known = micro_cost(run, at)
    if known is not None:
        return known
    limit = run.limits.get("cost")
    return limit if limit is not None and at == run.n_steps and run.stop.reason == "cost_budget" else 0
