"""`worst_case`: what a run may cost at most under a setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from boolab.core.prices import RATE_UNITS, PricedRequest, rates_by_length, require, window_of
from boolab.core.types import MICRO
from boolab.errors import SettingError
from boolab.limits.catalog import max_cost, max_steps
from boolab.limits.stop import StopRule, Threshold
from boolab.limits.table import COST_AHEAD
from boolab.logs.list_prices import PROVIDER_BY_NAME

_LIMITS: Final[Mapping[str, Callable[[Any], StopRule]]] = {"max_steps": max_steps, "max_cost": max_cost}
"""The limits of a setting that bound its cost; others end a run too, but never at a known cost."""


def worst_case(
    setting: Mapping[str, float | None] | StopRule,
    model: str,
    *,
    provider: str | None = None,
    window: int | None = None,
    compact_at: int | None = None,
    max_output: int | None = None,
) -> float:
    """Bound what a run costs under a setting: a step cap times the dearest request, or a limit on cost and one request.

    A hard limit on cost bounds it by itself, as `max_cost(0.50, hard=True)` asks before each request what it may cost.

    The dearest request fills the window at the dearest rate of an input token, such as that of a write to the cache for
    an hour, and its response is as long as it can be. The bound holds for the steps of one run at the list prices of
    today; requests for summaries, retries, and the runs of subagents come on top.

    Args:
        setting: Limits by name, such as `{"max_steps": 40, "max_cost": 0.50}`, or a rule. Others than these two bound
            no cost.
        model: The model, as logs name it.
        provider: Its provider in the package genai-prices; by default that of its name.
        window: The most tokens of a request; by default the context window in the price table.
        compact_at: The number of tokens at which the history is summarised, where that is less.
        max_output: The most tokens of a response; by default as many as fit into the window.

    Returns:
        Dollars.

    Raises:
        SettingError: if the setting bounds no cost, the package genai-prices is not installed, or the model's prices or
            its window are not known.

    Example:
        >>> import boolab as bl
        >>> setting = {"max_steps": 40, "max_cost": None}
        >>> round(bl.worst_case(setting, "claude-sonnet-4-5", window=100_000, max_output=8_000), 2)
        28.8
        >>> round(bl.worst_case(bl.max_cost(0.15), "claude-sonnet-4-5", window=100_000, max_output=8_000), 2)
        0.87
        >>> bl.worst_case(bl.max_cost(0.15, hard=True), "claude-sonnet-4-5")
        0.15
    """
    limits = list(_limits_of(setting))
    if not limits:
        msg = "the setting bounds no cost: expected a step cap or a limit on cost, such as {'max_steps': 40}"
        raise SettingError(msg)
    hard = [(limit.threshold - 1) * RATE_UNITS for limit in limits if limit.counter == COST_AHEAD]
    request = 0 if len(hard) == len(limits) else _dearest_request(model, provider, window, compact_at, max_output)
    caps = [limit.threshold * request for limit in limits if limit.counter == "steps"]
    budgets = [limit.threshold * RATE_UNITS + request for limit in limits if limit.counter == "cost"]
    return min(hard + caps + budgets) / (RATE_UNITS * MICRO)


def _limits_of(setting: Mapping[str, float | None] | StopRule) -> Iterator[Threshold]:
    """The thresholds of a setting that bound its cost by themselves."""
    if isinstance(setting, Mapping):
        rules = [_LIMITS[name](value) for name, value in setting.items() if value is not None and name in _LIMITS]
    else:
        rules = list(setting.alternatives)
    for rule in rules:
        for leaf in rule.leaves():
            if leaf is rule and leaf.counter in ("steps", "cost", COST_AHEAD):
                yield leaf


def _dearest_request(
    model: str, provider: str | None, window: int | None, compact_at: int | None, max_output: int | None
) -> int:
    """What one request may cost at most, in 1e-10 dollars."""
    require()
    priced_request = PricedRequest(model, provider or PROVIDER_BY_NAME)
    rates = rates_by_length(priced_request)
    if rates is None:
        raise SettingError(f"no list price is known of {model}; pass provider=, or bound its cost by yourself")
    size = window if window is not None else window_of(priced_request)
    if size is None:
        raise SettingError(f"the context window of {model} is not known: expected window=, a number of tokens")
    prompt = size if compact_at is None else min(size, compact_at)
    dearest = rates.at(prompt)
    per_token = max(dearest.fresh, dearest.read, dearest.write_5m, dearest.write_1h)
    return prompt * per_token + (size if max_output is None else max_output) * dearest.output
