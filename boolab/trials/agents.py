"""The agent that continues a recorded run: the caller's, or one with the policy and the limits on record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from boolab.core.types import Run
from boolab.errors import SettingError, near
from boolab.harnesses.policy import DEFAULT
from boolab.harnesses.presets import get_policy, policies
from boolab.limits.table import AGENT_LIMITS, BUDGETS, LIMITS
from boolab.runtime.agents.agent import Agent
from boolab.trials.change import Change

UNNAMED_POLICY: Final = "boocode"
"""The policy of branches where the record names none."""


def agents_by_name(given: Agent | Mapping[str, Agent] | None, runs: Iterable[Run]) -> dict[str, Agent]:
    """The caller's agents by the names on record."""
    if given is None:
        return {}
    names = list(dict.fromkeys(run.agent for run in runs))
    if isinstance(given, Agent):
        return dict.fromkeys(names, given)
    if not isinstance(given, Mapping) or not all(isinstance(one, Agent) for one in given.values()):
        msg = f"agent={given!r}: expected a bl.Agent, agents by their name on record, or None"
        raise SettingError(msg)
    for name in names:
        if name not in given:
            msg = f"agent: the record names an agent {name!r}{near(name, [*given], 'given')}"
            raise SettingError(msg)
    return dict(given)


def agent_on_record(run: Run) -> Agent:
    """An agent with the policy and the limits that a record names; what it does not name has no limit.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(bl.Agent("a", max_steps=5), "Look", model=bl.ScriptedModel(["Done."]))
        >>> agent_on_record(run).max_steps
        5
    """
    known = policies.get(run.policy)
    policy = known or get_policy(UNNAMED_POLICY)
    complete = run.source == "boolab"  # a record of the engine has all limits that were in force
    plain = policy.cap.kind == "hard" and policy.cap.counts == "steps"
    fields: dict[str, Any] = {}
    for name in AGENT_LIMITS:
        counter = LIMITS[name].counter
        if name not in policy.order:
            continue
        if name in run.settings:
            fields[name] = run.settings[name]
        elif counter in run.limits and (plain or name != "max_steps"):
            fields[name] = run.limits[counter]
        else:
            fields[name] = DEFAULT if known and not complete else None
    if fields.get("max_steps") == policy.cap.ceiling:
        fields["max_steps"] = None if policy.cap.max_steps is None else DEFAULT
    budgets = {
        budget: run.limits[limit.counter] / limit.per_unit if limit.per_unit > 1 else run.limits[limit.counter]
        for name, budget in BUDGETS.items()
        if (limit := LIMITS[name]).counter in run.limits
    }
    agent = Agent(run.agent or "agent", policy=policy, **fields)
    return replace(agent, policy=policy.vary(budgets=budgets)) if budgets else agent


def is_as_before(run: Run, change: Change, agents: Mapping[str, Agent]) -> bool:
    """Whether a run was made under just what the change sets, so that the change leaves it as it was."""
    given = agents.get(run.agent)
    if change.rule is not None or (given is None and run.source != "boolab" and not change.settings):
        return False
    agent = agent_on_record(run) if given is None else given
    if not all(_agrees(run, axis, value, agent) for axis, value in change.settings.items()):
        return False
    try:
        return _conditions(change.agent(agent)) == _conditions(agent)
    except SettingError:  # the policy has no such limit
        return False


def _agrees(run: Run, axis: str, value: float | None, agent: Agent) -> bool:
    """Whether the record of a run has this limit, as far as the policy lets a record have it."""
    cap = get_policy(agent.policy).cap
    if axis == "max_steps" and (cap.kind != "hard" or cap.counts != "steps"):
        return True  # the record has another number
    recorded = run.limits.get(LIMITS[axis].counter)
    if value is None or recorded is None:
        return value is recorded and run.source == "boolab"
    return recorded == round(value * LIMITS[axis].per_unit)


def _conditions(agent: Agent) -> tuple[object, ...]:
    policy = get_policy(agent.policy)
    return policy, policy.effective(agent.settings)
