"""What a trial changes: settings, the policy, or the stop rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from boolab.core.types import StopReason
from boolab.errors import SettingError, near
from boolab.harnesses.policy import DEFAULT, Policy
from boolab.harnesses.presets import get_policy
from boolab.io.checks import is_whole, repr_of
from boolab.limits.stop import StopRule
from boolab.limits.table import AGENT_LIMITS, BUDGETS, LIMIT_OF_REASON, LIMITS
from boolab.runtime.agents.agent import Agent

Given: TypeAlias = Mapping[str, Any] | Policy | str | StopRule

REASONS: Final[Mapping[str, str]] = {**LIMIT_OF_REASON, "stuck": "guards"}
"""The limit that is behind each stop reason that is one."""
_TRIED: Final = (*AGENT_LIMITS, *BUDGETS)


@dataclass(frozen=True, slots=True)
class Change:
    """What a trial changes: exactly one of the three.

    Attributes:
        settings: New values by axis; None is no limit.
        policy: Another policy, with its own limits.
        rule: A stop rule in place of all limits.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy | None = None
    rule: StopRule | None = None

    @property
    def words(self) -> str:
        """What is tried, in words.

        Example:
            >>> change_of({"max_steps": 100}).words, change_of({"max_steps": None}).words
            ('a step cap of 100', 'the removal of the step cap')
        """
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
        """The agent under the change: a policy comes with its own limits, and a rule is no part of an agent.

        Raises:
            SettingError: if the agent's policy does not accept a value.
        """
        if self.policy is not None:
            own_limits: dict[str, Any] = dict.fromkeys(AGENT_LIMITS, DEFAULT)
            return replace(agent, policy=self.policy, **own_limits)
        own = {name: value for name, value in self.settings.items() if name in AGENT_LIMITS}
        budgets = {BUDGETS[name]: value for name, value in self.settings.items() if name in BUDGETS}
        policy = get_policy(agent.policy)
        for name in own:
            if name not in policy.order:
                msg = f"change: the policy {policy.name} of agent {agent.name!r} has no {LIMITS[name].label}"
                raise SettingError(msg)
        return replace(agent, policy=policy.vary(budgets=budgets) if budgets else agent.policy, **own)


def change_of(given: Given) -> Change:
    """The change, checked.

    Example:
        >>> change_of({"max_step": 100})
        Traceback (most recent call last):
        boolab.errors.SettingError: change: there is no setting 'max_step'; did you mean 'max_steps'?
    """
    if isinstance(given, StopRule):
        return Change(rule=given)
    if isinstance(given, Policy | str):
        return Change(policy=get_policy(given))
    if not isinstance(given, Mapping) or not given:
        msg = f"change={given!r}: expected settings such as {{'max_steps': 100}}, a policy, or a stop rule"
        raise SettingError(msg)
    for name, value in given.items():
        if name not in _TRIED:
            msg = f"change: there is no setting {name!r}{near(str(name), _TRIED, 'settings')}"
            raise SettingError(msg)
        least = max(1, LIMITS[name].min_value)
        fits = value is None or (is_whole(value) and value >= least) or (LIMITS[name].fractions and _is_amount(value))
        if not fits:
            kind = "a number above 0" if LIMITS[name].fractions else f"an integer >= {least}"
            msg = f"change: {name}={repr_of(value)} is not accepted; expected {kind}, or None for no limit"
            raise SettingError(msg)
    return Change(settings=dict(given))


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
