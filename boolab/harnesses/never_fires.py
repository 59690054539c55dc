"""Which limits of a policy can never fire, because another one always fires first.

Only what follows from the policy's own rules is found, for any model and any task. The main case: where a turn
continues only after a response with calls, each step makes at least one call, so a tool budget of b is used up after b
steps at the latest, and a larger step cap never fires. The opposite is not so: one step may make any number of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from boolab.limits.table import AGENT_LIMITS

if TYPE_CHECKING:
    from boolab.harnesses.groups import Budgets, Cap, Execution, Finish


class FiresFirst(NamedTuple):
    """The limit that fires before another one, and why, in words."""

    limit: str
    why: str


class LimitFields(Protocol):
    """The fields of a policy that decide which limit fires first. Not `Policy`: it imports this module."""

    @property
    def order(self) -> tuple[str, ...]: ...
    @property
    def precedence(self) -> tuple[str, ...]: ...
    @property
    def cap(self) -> Cap: ...
    @property
    def budgets(self) -> Budgets: ...
    @property
    def finish(self) -> Finish: ...
    @property
    def execution(self) -> Execution: ...


def never_fires(policy: LimitFields, settings: Mapping[str, int | None]) -> dict[str, FiresFirst]:
    """The limits that can never fire."""
    cap, budget, doom = (settings.get(name) for name in AGENT_LIMITS)
    first_by_limit: dict[str, FiresFirst] = {}
    hard = cap if "max_steps" in policy.order and policy.cap.kind == "hard" else None
    ceiling = policy.cap.ceiling
    plain = policy.cap.counts == "steps" and policy.cap.check == "boundary"
    if hard is not None and ceiling is not None and plain and hard > ceiling:
        first_by_limit["max_steps"] = FiresFirst(
            "ceiling", f"the policy's ceiling of {ceiling:,} steps comes before {hard:,}"
        )
    if hard == 0:
        for name, value in (("tool_budget", budget), ("doom_loop", doom)):
            if value:
                first_by_limit[name] = FiresFirst("max_steps", "with a step cap of 0 no tool is called")
        return first_by_limit
    if budget is None or policy.budgets.batch == "cut":
        return first_by_limit
    if doom is not None and (budget == 0 or (policy.budgets.batch == "reject" and doom > budget)):
        reason = f"a tool budget of {budget:,} lets fewer than {doom:,} calls through"
        first_by_limit["doom_loop"] = FiresFirst("tool_budget", reason)
    name = "max_steps" if hard is not None and "max_steps" not in first_by_limit else "ceiling"
    limit = hard if name == "max_steps" else ceiling
    if limit is not None and _makes_calls_each_step(policy) and _comes_first(policy, budget, limit, name):
        limit_name = f"a step cap of {limit:,}" if name == "max_steps" else f"the policy's ceiling of {limit:,} steps"
        used_up = f"a tool budget of {budget:,} is used up before {limit_name} is reached"
        reason = f"each step makes at least one call, so {used_up}"
        first_by_limit["max_steps"] = FiresFirst("tool_budget", reason)
    return first_by_limit


def _makes_calls_each_step(policy: LimitFields) -> bool:
    """Whether each step that another one follows has made a call that got a result."""
    execution = policy.execution
    return (
        policy.finish.conditions == ("no_calls",)
        and execution.calls != "exactly_one"
        and execution.unknown_tools != "rejected"
        and execution.broken_retries == 0
    )


def _comes_first(policy: LimitFields, budget: int, limit: int, name: str) -> bool:
    """Whether the tool budget fires before the cap, where each step makes one call: more calls use it up earlier.

    Places are numbered in the order of the loop: boundary k is 2k, the response of step k is 2k - 1.
    """
    cap = policy.cap
    has_precedence = policy.precedence.index("tool_budget") < policy.precedence.index("max_steps")
    if name == "max_steps" and cap.counts == "actions":
        return policy.budgets.batch == "overshoot" and cap.check == "boundary" and budget <= limit and has_precedence
    fires = 2 * limit
    if name == "max_steps" and cap.counts == "supersteps":
        fires = limit if cap.check == "boundary" else 2 * -(-limit // 2) - 1
    elif name == "max_steps" and (cap.check == "response" or cap.counts == "tool_steps"):
        fires = 2 * limit + 1
    budget_place = 2 * budget if policy.budgets.batch == "overshoot" else 2 * budget + 1
    return budget_place < fires or (budget_place == fires and has_precedence)
