"""What a trial changes: settings, the policy, or the stop rule; and the agent that continues a run under it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from boolab.core.run import Run
from boolab.core.types import StopReason
from boolab.errors import SettingError, near
from boolab.harnesses.policy import DEFAULT, Policy
from boolab.harnesses.presets import get_policy, policies
from boolab.io.checks import is_whole, repr_of
from boolab.limits.stop import StopRule
from boolab.limits.table import AGENT_LIMITS, BUDGETS, LIMIT_OF_REASON, LIMITS
from boolab.runtime.agents.agent import Agent

ChangeInput: TypeAlias = Mapping[str, Any] | Policy | str | StopRule

REASONS: Final[Mapping[str, str]] = {**LIMIT_OF_REASON, "stuck": "guards"}
"""The limit that is behind each stop reason that is one."""
_SETTINGS: Final = (*AGENT_LIMITS, *BUDGETS)


@dataclass(frozen=True, slots=True)
class TrialChange:
    """What a trial changes: exactly one of the three."""

    settings: Mapping[str, Any] = field(default_factory=dict)  # new values by axis; None is no limit
    policy: Policy | None = None  # another policy, with its own limits
    rule: StopRule | None = None  # a stop rule in place of all limits

    @property
    def label(self) -> str:
        """What is tried, in words."""
        if self.policy is not None:
            return f"the policy {self.policy.name}"
        if self.rule is not None:
            return f"the rule {self.rule}"
        return " and ".join(
            f"the removal of the {LIMITS[name].label}"
            if value is None
            else LIMITS[name].with_value(int(value) if value == int(value) else value)
            for name, value in self.settings.items()
        )

    def lifts(self, reason: StopReason) -> bool:
        """Whether the limit behind a stop reason is another one under the change."""
        axis = REASONS.get(reason)
        if axis is None:
            return False
        return axis in self.settings if self.settings else True

    def agent(self, agent: Agent) -> Agent:
        """The agent under the change; a `SettingError` if its policy does not accept a value."""
        if self.policy is not None:
            default_limits: dict[str, Any] = dict.fromkeys(AGENT_LIMITS, DEFAULT)
            return replace(agent, policy=self.policy, **default_limits)
        agent_limits = {name: value for name, value in self.settings.items() if name in AGENT_LIMITS}
        budgets = {BUDGETS[name]: value for name, value in self.settings.items() if name in BUDGETS}
        policy = get_policy(agent.policy)
        for name in agent_limits:
            if name not in policy.order:
                msg = f"change: the policy {policy.name} of agent {agent.name!r} has no {LIMITS[name].label}"
                raise SettingError(msg)
        return replace(agent, policy=policy.vary(budgets=budgets) if budgets else agent.policy, **agent_limits)


def change_of(change: ChangeInput) -> TrialChange:
    """The change, checked."""
    if isinstance(change, StopRule):
        return TrialChange(rule=change)
    if isinstance(change, Policy | str):
        return TrialChange(policy=get_policy(change))
    if not isinstance(change, Mapping) or not change:
        msg = f"change={change!r}: expected settings such as {{'max_steps': 100}}, a policy, or a stop rule"
        raise SettingError(msg)
    for name, value in change.items():
        if name not in _SETTINGS:
            raise SettingError(f"change: there is no setting {name!r}{near(str(name), _SETTINGS, 'settings')}")
        minimum = max(1, LIMITS[name].min_value)
        fits = (
            value is None
            or (is_whole(value) and value >= minimum)
            or (LIMITS[name].fractions and _is_positive_number(value))
        )
        if not fits:
            kind = "a number above 0" if LIMITS[name].fractions else f"an integer >= {minimum}"
            msg = f"change: {name}={repr_of(value)} is not accepted; expected {kind}, or None for no limit"
            raise SettingError(msg)
    return TrialChange(settings=dict(change))


def _is_positive_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


UNNAMED_POLICY: Final = "boocode"
"""The policy of branches where the record names none."""


def agents_by_name(agents: Agent | Mapping[str, Agent] | None, runs: Iterable[Run]) -> dict[str, Agent]:
    """The caller's agents by the names on record."""
    if agents is None:
        return {}
    names = list(dict.fromkeys(run.agent for run in runs))
    if isinstance(agents, Agent):
        return dict.fromkeys(names, agents)
    if not isinstance(agents, Mapping) or not all(isinstance(agent, Agent) for agent in agents.values()):
        raise SettingError(f"agent={agents!r}: expected a bl.Agent, agents by their name on record, or None")
    for name in names:
        if name not in agents:
            raise SettingError(f"agent: the record names an agent {name!r}{near(name, [*agents], 'given')}")
    return dict(agents)


def agent_on_record(run: Run) -> Agent:
    """An agent with the policy and the limits that a record names; what it does not name has no limit."""
    named_policy = policies.get(run.policy)
    policy = named_policy or get_policy(UNNAMED_POLICY)
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
            fields[name] = DEFAULT if named_policy and not complete else None
    if fields.get("max_steps") == policy.cap.ceiling:
        fields["max_steps"] = None if policy.cap.max_steps is None else DEFAULT
    budgets = {
        budget: run.limits[limit.counter] / limit.per_unit if limit.per_unit > 1 else run.limits[limit.counter]
        for name, budget in BUDGETS.items()
        if (limit := LIMITS[name]).counter in run.limits
    }
    agent = Agent(run.agent or "agent", policy=policy, **fields)
    return replace(agent, policy=policy.vary(budgets=budgets)) if budgets else agent


def leaves_unchanged(run: Run, change: TrialChange, agents: Mapping[str, Agent]) -> bool:
    """Whether a run was made under just what the change sets, so that the change leaves it as it was."""
    current_agent = agents.get(run.agent)
    if change.rule is not None or (current_agent is None and run.source != "boolab" and not change.settings):
        return False
    agent = agent_on_record(run) if current_agent is None else current_agent
    if not all(_has_recorded_limit(run, axis, value, agent) for axis, value in change.settings.items()):
        return False
    try:
        return _conditions(change.agent(agent)) == _conditions(agent)
    except SettingError:  # the policy has no such limit
        return False


def _has_recorded_limit(run: Run, axis: str, value: float | None, agent: Agent) -> bool:
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
