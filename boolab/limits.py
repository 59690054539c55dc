"""A policy's limits as thresholds: what counterfactuals ask in its name.

A recording tells what a limit would have done as long as the model would not have known of it. What the model is told
in the course of a turn is in `boolab.told`; what leaves nothing to tell from the first request on is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from boolab.errors import SettingError
from boolab.policy import LimitCheck, Policy
from boolab.stop import Threshold, max_steps

AXIS_OF: Final[Mapping[str, str]] = {
    "token_budget": "max_tokens",
    "cost_budget": "max_cost",
    "time_budget": "max_time",
}
"""The axis of a grid that stands for a policy's limit, where it has another name."""
LIMIT_OF: Final[Mapping[str, str]] = {axis: limit for limit, axis in AXIS_OF.items()}
"""The policy's limit that such an axis stands for."""
NEVER: Final = 1 << 62
"""A threshold that no counter reaches."""


class Limit(NamedTuple):
    """One rule of a policy that no axis of a grid stands for.

    Attributes:
        name: What the policy calls the limit.
        rule: The rule.
        place: Where it is asked.
        alone: Whether it is asked after all others at its place, so that it is never true beside one.
        closes: Whether the request before it is changed.
    """

    name: str
    rule: Threshold
    place: LimitCheck
    alone: bool = False
    closes: bool = False


def check_identified(policy: Policy, axes: Collection[str]) -> None:
    """Raise `SettingError` if recordings say nothing about limits under that policy; it names the axis.

    Args:
        policy: The policy.
        axes: The axes whose limits are asked.

    Example:
        >>> from boolab.compaction import Compaction
        >>> check_identified(Policy(name="p", source="", loop_style="", compaction=Compaction()), ["steps"])
        Traceback (most recent call last):
        boolab.errors.SettingError: policy p: compaction changes what the model is sent, ...
    """
    why = ""
    if policy.compaction is not None:
        why = (
            "compaction changes what the model is sent, and no recording tells what it does then: expected one "
            "without, such as dataclasses.replace(policy, compaction=None)"
        )
    elif policy.reminder != "none":
        why = (
            f"reminder={policy.reminder!r} changes every request, so that a recording says nothing of another limit: "
            "expected reminder='none'"
        )
    elif policy.budget_batch == "cut" and "tool_budget" in axes:
        why = (
            "budget_batch='cut' executes a part of a batch, and the model says something else then: expected "
            "'overshoot' or 'reject', or no tool budget"
        )
    if why:
        msg = f"policy {policy.name}: {why}"
        raise SettingError(msg)


def thresholds_of(policy: Policy, axis: str, value: Any) -> tuple[Threshold | None, Threshold | None]:  # noqa: ANN401
    """What a value of an axis means under a policy: the rule at the boundary, and the one at the response.

    Neither the policy's ceiling nor its identity is looked at.

    Args:
        policy: The policy.
        axis: An axis of a grid.
        value: Its value, in the user's units; not None.

    Raises:
        SettingError: if the policy gives the value another meaning than that of a limit.

    Example:
        >>> policy = Policy(name="p", source="", loop_style="", cap_check="response")
        >>> tuple(map(str, thresholds_of(policy, "steps", 3)))
        ('None', 'max_responses(3)')
    """
    name = LIMIT_OF.get(axis, axis)
    if axis == "steps" and value == 0:
        if policy.zero_steps in ("unlimited", "default"):
            what = "no limit" if policy.zero_steps == "unlimited" else f"the default, {policy.steps}"
            msg = f"grid: steps=0 is {what}, under {policy.name}: expected an integer >= 1, or None for no limit"
            raise SettingError(msg)
        if policy.zero_steps == "text_only":
            return _leaf(max_steps(0)), None
    free = replace(policy, ceiling=None)
    if name in AXIS_OF:
        free, value = replace(free, **{name: value}), None
    at_boundary, at_response = (
        next((_leaf(rule) for rule in free.limit(name, value, place)), None) for place in ("boundary", "response")
    )
    if axis == "steps" and (policy.last_step != "tools" or policy.cap == "soft"):
        at_boundary = _leaf(max_steps(value))
    return at_boundary, at_response


def own_limits(policy: Policy, axes: Collection[str], *, settings: bool) -> Iterator[Limit]:
    """The limits of a policy that no axis of a grid stands for, in order of precedence.

    Args:
        policy: The policy.
        axes: The axes of the grid.
        settings: Whether its defaults for steps, tool budget and doom loop hold, and its ceiling.
    """
    held = policy.effective({}, no_agent=True) if settings else {}
    asked = policy if settings else replace(policy, ceiling=None)
    cap = held.get("steps")
    if settings and cap is not None and (policy.last_step != "tools" or policy.cap == "soft"):
        asked = replace(policy, ceiling=None)
        yield Limit("steps", _leaf(max_steps(min(cap, policy.ceiling or cap))), "boundary", closes=True)
        held["steps"] = None
    for name in policy.precedence:
        if AXIS_OF.get(name, name) in axes:
            continue
        for place in ("boundary", "response"):
            for rule in asked.limit(name, held.get(name), place):
                yield Limit(name, _leaf(rule), place)
    for guard in policy.guards:
        at = next((at for at, action in guard.ladder if action == "stop"), None)
        if guard.check == "response" and at is not None:
            rule = guard.at(at)
            yield Limit("guards", replace(rule, counter=at_response(rule.counter)), "response", alone=True)


def at_response(counter: str) -> str:
    """The name of a detector's counter as it would be, were a response counted."""
    return f"{counter} at the response"


def watched_at_response(policy: Policy) -> bool:
    """Whether the policy has guards that are asked at the response."""
    return any(guard.check == "response" for guard in policy.guards)


def _leaf(rule: Any) -> Threshold:  # noqa: ANN401 - a plain stop rule
    leaf = next(rule.leaves())
    assert isinstance(leaf, Threshold)  # noqa: S101 - all rules of limits are plain
    return leaf
