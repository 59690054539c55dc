"""A policy's limits as thresholds, for counterfactuals under that policy.

A recording shows what a limit would have done as long as the model would not have noticed it. Messages to the model
during a turn are in `boolab.whatif.interventions`; a policy that changes requests from the first one on is
refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from boolab.errors import SettingError
from boolab.frames.dtypes import Cell
from boolab.harnesses.groups import LimitCheck
from boolab.harnesses.policy import Policy
from boolab.limits.catalog import max_steps
from boolab.limits.counters import response_counter
from boolab.limits.stop import Threshold
from boolab.limits.table import BUDGETS, LIMITS

AXIS_OF: Final[Mapping[str, str]] = {LIMITS[name].reason: name for name in BUDGETS}
"""The axis of a grid for a policy's limit, where it has another name."""
LIMIT_OF: Final[Mapping[str, str]] = {axis: limit for limit, axis in AXIS_OF.items()}
"""The policy's limit for such an axis."""
FIELD_OF: Final[Mapping[str, str]] = {limit: BUDGETS[axis] for limit, axis in AXIS_OF.items()}
"""The field of `Budgets` that holds such a limit."""
NEVER: Final = 1 << 62
"""A threshold that no counter reaches."""


class Limit(NamedTuple):
    """One rule of a policy without an axis in a grid, and where it is evaluated.

    `alone`: it is evaluated after all others at its place, so that it never fires together with another. `closes`: the
    request before it is changed.
    """

    name: str
    rule: Threshold
    place: LimitCheck
    alone: bool = False
    closes: bool = False


def check_identified(policy: Policy, axes: Collection[str]) -> None:
    """Raise `SettingError` if recordings do not identify the limits of these axes under the policy.

    Example:
        >>> import boolab as bl
        >>> check_identified(bl.Policy(name="p", compaction=bl.Compaction()), ["max_steps"])
        Traceback (most recent call last):
        boolab.errors.SettingError: policy p: compaction changes the requests, ...
    """
    why = ""
    if policy.compaction is not None:
        why = (
            "compaction changes the requests, and no recording shows what the model would do then: expected one "
            "without, such as policy.vary(compaction=None)"
        )
    elif policy.last_step.reminder != "none":
        why = (
            f"last_step.reminder={policy.last_step.reminder!r} changes every request, so that a recording "
            "shows nothing about another limit: expected 'none'"
        )
    elif policy.budgets.batch == "cut" and "tool_budget" in axes:
        why = (
            "budgets.batch='cut' executes a part of a batch, and the model then answers differently: expected "
            "'overshoot' or 'reject', or no tool budget"
        )
    if why:
        msg = f"policy {policy.name}: {why}"
        raise SettingError(msg)


def thresholds_of(policy: Policy, axis: str, value: Cell) -> tuple[Threshold | None, Threshold | None]:
    """The rules for a value of an axis, not None, under a policy: at the boundary, and at the response.

    The policy's ceiling and identity are not used. `SettingError` if the policy gives the value another meaning.

    Example:
        >>> import boolab as bl
        >>> policy = bl.Policy(name="p").vary(cap={"check": "response"})
        >>> tuple(map(str, thresholds_of(policy, "max_steps", 3)))
        ('None', 'max_responses(3)')
    """
    name = LIMIT_OF.get(axis, axis)
    if axis == "max_steps" and value == 0:
        if policy.cap.zero in ("unlimited", "default"):
            what = "no limit" if policy.cap.zero == "unlimited" else f"the default, {policy.cap.max_steps}"
            msg = f"grid: max_steps=0 is {what}, under {policy.name}: expected an integer >= 1, or None for no limit"
            raise SettingError(msg)
        if policy.cap.zero == "text_only":
            return next(max_steps(0).leaves()), None
    free = policy.vary(cap={"ceiling": None})
    if name in AXIS_OF:
        free, value = free.vary(budgets={FIELD_OF[name]: value}), None
    at_boundary, at_response = (
        next((next(rule.leaves()) for rule in free.limit(name, value, place)), None)
        for place in ("boundary", "response")
    )
    if axis == "max_steps" and (policy.last_step.action != "tools" or policy.cap.kind == "soft"):
        at_boundary = next(max_steps(value).leaves())
    return at_boundary, at_response


def own_limits(policy: Policy, axes: Collection[str], *, settings: bool) -> Iterator[Limit]:
    """The limits of a policy without an axis in a grid, in order of precedence.

    With `settings`, its defaults for steps, tool budget and doom loop are in force, and its ceiling.
    """
    held = policy.effective({}, no_agent=True) if settings else {}
    limited = policy if settings else policy.vary(cap={"ceiling": None})
    cap = held.get("max_steps")
    if settings and cap is not None and (policy.last_step.action != "tools" or policy.cap.kind == "soft"):
        limited = policy.vary(cap={"ceiling": None})
        yield Limit("max_steps", next(max_steps(min(cap, policy.cap.ceiling or cap)).leaves()), "boundary", closes=True)
        held["max_steps"] = None
    for name in policy.precedence:
        if AXIS_OF.get(name, name) in axes:
            continue
        for place in ("boundary", "response"):
            for rule in limited.limit(name, held.get(name), place):
                yield Limit(name, next(rule.leaves()), place)
    for guard in policy.detectors.guards:
        at = next((at for at, action in guard.ladder if action == "stop"), None)
        if guard.check == "response" and at is not None:
            rule = guard.at(at)
            yield Limit("guards", replace(rule, counter=response_counter(rule.counter)), "response", alone=True)


def watched_at_response(policy: Policy) -> bool:
    """Whether the policy has guards that are evaluated at the response."""
    return any(guard.check == "response" for guard in policy.detectors.guards)
