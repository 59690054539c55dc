"""The checked arguments of `counterfactual`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from boolab.core.types import Identities, Scope, StopReason
from boolab.errors import SettingError, nearest
from boolab.frames.runs import list_columns, taken_name
from boolab.harnesses.policy import Policy
from boolab.limits.detector import Detector
from boolab.limits.function_rule import AnyRule, as_rules
from boolab.limits.stop import StopRule
from boolab.limits.table import MEASURES
from boolab.whatif.grid import Grid, GridAxis, Settings, detectors_of, settings_of, settings_of_policy
from boolab.whatif.step_table import check_scope

OwnLimits: TypeAlias = Literal["kept", "lifted"]

OUTCOMES: Final = ("unchanged", "censored", "truncated", "not_identified", "unknown")
"""What a setting may have done to a run."""
_MAX_NAMED: Final = 12  # agents in a message
_RESULT_COLUMNS: Final = {
    "run_id", "rule", "outcome", "stop_turn", "stop_step", "stop_reason", "also_fired", "success", "kept_lower",
    "kept_upper", "saved_is", "scope", "unit", "success_by", "successes", "successes_censored", "n_runs",
    *MEASURES, "cost_usd", *(f"saved_{name}" for name in (*MEASURES, "cost_usd")),
    *(f"n_{name}" for name in (*OUTCOMES, *get_args(StopReason))),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """Which settings are evaluated, and how.

    Attributes:
        settings: Those of the grid or the policy; None if there are only rules.
        rules: Further settings, one each.
        scope: Where counters start again.
        by: The columns of the runs that separate groups, without "scope", which always does.
        own_limits: "kept" or "lifted".
    """

    settings: Settings | None
    rules: tuple[StopRule, ...]
    scope: Scope
    by: tuple[str, ...]
    own_limits: OwnLimits

    @property
    def detectors(self) -> list[Detector]:
        """The detectors that its rules need."""
        grid = () if self.settings is None else self.settings.detectors()
        return list(dict.fromkeys([*grid, *detectors_of(self.rules)]))

    @property
    def count(self) -> int:
        """The number of settings."""
        return (0 if self.settings is None else self.settings.count) + len(self.rules)

    @property
    def policy(self) -> Policy | None:
        """The policy whose messages to the model are compared with those of the recordings."""
        return None if self.settings is None else self.settings.policy

    @property
    def has_agent_limits(self) -> bool:
        """Whether some limits are those of one agent alone."""
        return self.settings is not None and bool(self.settings.agents)

    @property
    def axes(self) -> list[GridAxis]:
        """The axes in the user's order."""
        if self.settings is None:
            return []
        return [next(axis for axis in self.settings.axes if axis.key == name) for name in self.settings.named]

    @property
    def keys(self) -> list[str]:
        """The columns that separate sums."""
        return [*self.by, *(axis.key for axis in self.axes), *(["rule"] if self.rules else []), "scope"]

    def check_agents(self, seen: Collection[str]) -> None:
        """Raise `SettingError` if the grid names an agent that none of the runs has."""
        for axis in self.axes:
            if axis.agent and seen and axis.agent not in seen:
                close = nearest(axis.agent, seen)
                hint = f"; did you mean {axis.name}@{close}?" if close else ""
                agents = ", ".join(sorted(agent for agent in seen if agent)[:_MAX_NAMED])
                msg = f"grid: {axis.key}: the runs have no agent {axis.agent!r}{hint} Their agents: {agents or 'none'}"
                raise SettingError(msg)


def question_of(
    rules: Sequence[AnyRule] | AnyRule | None,
    grid: Grid | None,
    scope: Scope,
    policy: str | Policy | None,
    identity: Identities | None,
    group_by: str | Sequence[str] | None,
    own_limits: OwnLimits,
) -> Question:
    """Check the arguments of `counterfactual`; `SettingError` if one is not accepted."""
    check_scope(scope)
    _check_own_limits(own_limits)
    _check_grid(grid)
    settings = None if grid is None else settings_of(grid, policy, identity)
    if settings is None and rules is None and policy is not None:
        settings = settings_of_policy(policy)
    rule_list = listed_rules(rules)
    if settings is None and not rule_list:
        msg = "there is no setting: expected grid={'max_steps': [10, 20], ...}, rules=[...], or both, or a policy"
        raise SettingError(msg)
    keys = tuple(name for name in list_columns(group_by) if name != "scope")
    distinct = tuple({str(rule): rule for rule in rule_list}.values())
    question = Question(settings, distinct, scope, keys, own_limits)
    reserved = [name for name in keys if name in _RESULT_COLUMNS or name in {axis.key for axis in question.axes}]
    if reserved:
        raise SettingError(f"by={reserved[0]!r}: {taken_name(reserved[0], 'table')}")
    return question


def _check_own_limits(own_limits: str) -> None:
    """Raise `SettingError` unless `own_limits` is known."""
    if own_limits not in ("kept", "lifted"):
        raise SettingError(
            f"own_limits={own_limits!r} is not known; accepted: kept (the limits of the recording stay in force), "
            "lifted (they are gone)"
        )


def _check_grid(grid: object) -> None:
    """Raise `SettingError` for rules in the place of a grid, which comes before them."""
    first = grid[0] if isinstance(grid, list | tuple) and grid else grid
    if isinstance(first, StopRule) or callable(first):
        msg = f"grid={grid!r:.200}: a grid has values by axis, such as {{'max_steps': [5]}}; for rules pass rules=[...]"
        raise SettingError(msg)


def listed_rules(rules: Iterable[AnyRule] | AnyRule | None) -> list[StopRule]:
    """A rule or a function of the run so far, or several, as a list of rules; `SettingError` if one is neither."""
    single = isinstance(rules, StopRule | str) or not isinstance(rules, Iterable)
    rule_list: list[Any] = [] if rules is None else [rules] if single else list(rules)  # type: ignore[arg-type]
    return as_rules(rule_list, "rules")
