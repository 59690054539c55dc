"""The rule of each limit that can be set, and one rule of several of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Any, Final

from boolab.core.types import Identities
from boolab.errors import SettingError, near
from boolab.limits.catalog import doom_loop, error_streak, max_cost, max_steps, max_time, max_tokens, tool_budget
from boolab.limits.stop import StopRule

RULES: Final[Mapping[str, Callable[..., StopRule]]] = MappingProxyType(
    {rule.__name__: rule for rule in (max_steps, doom_loop, tool_budget, error_streak, max_tokens, max_cost, max_time)}
)
"""The rule of each limit, in the order of precedence without a policy."""


def rule_of(values: Mapping[str, Any], identity: Identities = "canonical", exempt: Iterable[str] = ()) -> StopRule:
    """The rule that is true when the first of some limits is reached.

    Returns the limits, joined by `|` in the order of precedence.

    Example:
        >>> str(rule_of({"tool_budget": 50, "max_steps": 20}))
        'max_steps(20) | tool_budget(50)'
    """
    for name in values:
        if name not in RULES:
            accepted = f"; accepted: {', '.join(RULES)}"
            raise SettingError(f"there is no limit {name!r}{near(name, RULES) or accepted}")
    options = {"doom_loop": {"identity": identity, "exempt": exempt}}
    rules = [rule(values[name], **options.get(name, {})) for name, rule in RULES.items() if name in values]
    if not rules:
        raise SettingError(f"there is no limit: give one of {', '.join(RULES)}")
    return reduce(or_, rules)
