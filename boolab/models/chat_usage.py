"""What a chat completion says that it consumed, in the words of several providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from boolab.models.payload import figure, micro_dollars
from boolab.types import Usage

_TICKS_PER_DOLLAR: Final = 10**10


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Figures of usage as a `Usage`; what is not told, or is no figure, is None.

    Cached tokens are among the prompt's with all of them, the tokens of reasoning among the completion's, except with
    xAI: there the total says so (docs.x.ai/docs/key-information/consumption-and-rate-limits).

    Example:
        >>> usage_of({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135, "reasoning_tokens": 94})[:4]
        (32, 103, None, 94)
    """
    prompt, made = figure(usage.get("prompt_tokens")), figure(usage.get("completion_tokens"))
    read = _first(_details(usage, "prompt_tokens_details").get("cached_tokens"), usage.get("prompt_cache_hit_tokens"))
    cached = _first(read, usage.get("cached_tokens"))  # the last one is Moonshot's
    thought = _first(
        _details(usage, "completion_tokens_details").get("reasoning_tokens"), usage.get("reasoning_tokens")
    )
    if prompt is not None and made is not None and thought and usage.get("total_tokens") == prompt + made + thought:
        made = figure(made + thought)
    return Usage(prompt, made, cached, thought, _cost(usage))


def written_in(usage: Mapping[str, Any]) -> int:
    """How many of the prompt's tokens were written to the provider's cache: OpenAI and OpenRouter say so if any were.

    Example:
        >>> written_in({"prompt_tokens_details": {"cache_write_tokens": 7}}), written_in({})
        (7, 0)
    """
    return figure(_details(usage, "prompt_tokens_details").get("cache_write_tokens")) or 0


def _cost(usage: Mapping[str, Any]) -> int | None:
    """What was charged, in micro-dollars.

    OpenRouter tells it as `cost` (openrouter.ai/docs, "Usage accounting"), Perplexity as `cost.total_cost`, DeepInfra
    as `estimated_cost`, all in dollars; xAI in ticks (docs.x.ai/developers/cost-tracking).
    """
    cost = usage.get("cost")
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    ticks = figure(usage.get("cost_in_usd_ticks"))
    told = (cost, usage.get("estimated_cost"), None if ticks is None else ticks / _TICKS_PER_DOLLAR)
    return next((known for known in map(micro_dollars, told) if known is not None), None)


def _details(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = usage.get(name)
    return details if isinstance(details, dict) else {}


def _first(*values: object) -> int | None:
    return next((known for known in map(figure, values) if known is not None), None)
