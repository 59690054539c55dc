"""What a response cost, where its provider does not say: from the price table of the package `genai-prices`.

The table is part of the package, and nothing is fetched. A price is looked up by the provider's address: a server of
your own that calls its model `gpt-4o` costs nobody what OpenAI takes.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime
from importlib.util import find_spec
from urllib.parse import urlsplit

from boolab.core.types import JSON, MICRO, Usage
from boolab.errors import SettingError

_PACKAGE = "genai_prices"


def installed() -> bool:
    """Whether the price table is there. The package itself is imported with the first price: that takes its time."""
    return find_spec(_PACKAGE) is not None


def require() -> None:
    """Make sure that the price table is there.

    Raises:
        SettingError: if it is not, with what to install.
    """
    if not installed():
        msg = "prices need the package genai-prices, which is not installed: pip install 'boolab[prices]'"
        raise SettingError(msg)


def cost_of(usage: Usage, model: str, base_url: str, *, cache_write_tokens: int | None = 0) -> int | None:
    """What a response cost at its provider's list price.

    Args:
        usage: What it consumed: all input tokens with the cached ones, all output tokens with the reasoning.
        model: The provider's name for the model.
        base_url: The address of its API, by which the provider is known.
        cache_write_tokens: How many of the input tokens were written to the provider's cache.

    Returns:
        Integer micro-dollars. None where something is not known that the price depends on: the provider, the model,
        or a number of tokens.

    Example:
        >>> import boolab as bl
        >>> cost_of(bl.models.Usage(1000, 100, 0), "gpt-4o", "http://localhost:8000/v1") is None
        True
    """
    if cache_write_tokens is None or _is_near(base_url):
        return None
    return _cost(usage._replace(cache_write_tokens=cache_write_tokens), model, provider_api_url=base_url)


def list_price(usage: Usage, model: str, provider: str, at: datetime | None = None) -> int | None:
    """What a response on record costs at its provider's list price.

    Args:
        usage: What it consumed: see `cost_of`. Tokens that were written to the cache are those of `cache_write_tokens`,
            none where it is None; those of `cache_write_1h_tokens` have a price of their own.
        model: The provider's name for the model.
        provider: The provider's id in the price table, such as "anthropic".
        at: When it was, because prices change; by default now.

    Returns:
        Integer micro-dollars; None where something is not known that the price depends on.

    Example:
        >>> import boolab as bl
        >>> list_price(bl.models.Usage(1000, 100, 0), "a model of my own", "openai") is None
        True
    """
    return _cost(usage, model, provider_id=provider, genai_request_timestamp=at)


def _cost(usage: Usage, model: str, **whose: JSON) -> int | None:
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    try:
        import genai_prices
    except ImportError:
        return None
    try:
        price = genai_prices.calc_price(
            genai_prices.Usage(
                input_tokens=usage.input_tokens,
                cache_read_tokens=usage.cached_tokens,
                cache_write_tokens=usage.cache_write_tokens or 0,
                cache_write_1h_tokens=usage.cache_write_1h_tokens or 0,
                output_tokens=usage.output_tokens,
                output_reasoning_tokens=usage.reasoning_tokens,
            ),
            model,
            **whose,
        )
    except (LookupError, ValueError):  # an unknown provider or model; figures that contradict each other
        return None
    table = price.model_price
    if table.input_mtok is None or table.output_mtok is None:
        return None
    if usage.cached_tokens is None and table.cache_read_mtok is not None:
        return None
    return round(price.total_price * MICRO)


def _is_near(base_url: str) -> bool:
    """Whether an address is no provider's for sure: this machine, or one that has no name."""
    host = ""
    try:
        host = urlsplit(base_url).hostname or ""
        ipaddress.ip_address(host)
    except ValueError:
        return host in ("", "localhost") or host.endswith(".localhost")
    return True
