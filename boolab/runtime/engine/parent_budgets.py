"""The budgets of the turns that pay for a subagent: they are evaluated before each of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from boolab.core.types import Stop
from boolab.limits.catalog import tool_budget
from boolab.limits.stop import AnyOf, StopRule
from boolab.limits.table import BUDGETS, LIMITS
from boolab.runtime.engine.turn import Turn

SPENT: Final = frozenset(LIMITS[name].reason for name in ("tool_budget", *BUDGETS))
"""The stop reasons of limits that a subagent can use up for its caller."""


def stop_of_parents(turn: Turn) -> Stop | None:
    """The stop of a subagent once the budgets of a turn that pays for it are used up.

    Returns the stop, with the subagent's own rules that are true at the same boundary; None to continue.
    """
    stop = None if turn.budget_parent is None else _refused_by(turn.budget_parent, turn)
    if stop is None:
        return None
    rules = () if turn.limits.rule is None else turn.limits.rule.alternatives
    counters = turn.ladder.counters
    own = (rule.decisive(counters).reason for rule in rules if rule(counters))
    return stop._replace(also_fired=(*stop.also_fired, *own))


def _refused_by(parent: Turn, child: Turn) -> Stop | None:
    """The stop of a subagent once the budgets of a turn that pays for it are used up.

    Those of the root come first (as in Inspect: if the child's were named, an outer agent might start the next child
    for ever). A limit that the parent's policy evaluates at the response is evaluated here on what has been spent so
    far.
    """
    refused = None if parent.budget_parent is None else _refused_by(parent.budget_parent, child)
    if refused is not None:
        return refused
    elapsed = child.clock.now() - parent.ahead_ms - (parent.ladder.opened_ms or 0)
    spent = {**parent.ladder.counters, "elapsed": elapsed}
    used_up = [rule for rule in _budgets(parent) if rule(spent) is not False]
    verdict = AnyOf(tuple(used_up)).verdict(spent) if used_up else None
    if verdict is None:
        return None
    name = parent.plan.agent.name
    return verdict._replace(
        step=child.steps_completed, rule=f"{verdict.rule} of {repr(name) if name else 'the caller'}"
    )


def _budgets(turn: Turn) -> Iterator[StopRule]:
    """The rules of a turn that limit what is spent, and not how many steps are made."""
    limits = turn.limits
    for rules in (limits.rule, limits.response_rule):
        for rule in () if rules is None else rules.alternatives:
            if any(leaf.reason in SPENT for leaf in rule.leaves()):
                yield rule
    budget = limits.settings.get("tool_budget")
    if turn.plan.policy.budgets.batch == "cut" and budget is not None:
        yield tool_budget(budget)
