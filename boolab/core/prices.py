"""The cost of a response that its provider does not report, from the price table in the package `genai-prices`.

Nothing is fetched. The provider is identified by its address, so a server of your own that calls its model `gpt-4o` has
no price of OpenAI.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime
from importlib.util import find_spec
from urllib.parse import urlsplit

from boolab.core.types import JSON, MICRO, Usage
from boolab.errors import SettingError, install

_PACKAGE = "genai_prices"


def is_installed() -> bool:
    """Whether the package is installed; it is imported with the first price, because that is slow."""
    return find_spec(_PACKAGE) is not None


def require() -> None:
    """Raise `SettingError` if the package is not installed."""
    if not is_installed():
        msg = f"prices need the package genai-prices, which is not installed: {install('boolab[prices]')}"
        raise SettingError(msg)


def cost_of(usage: Usage, model: str, base_url: str, *, cache_write_tokens: int | None = 0) -> int | None:
    """A response's micro-dollars at list price; None if the provider, the model or a number of tokens is unknown."""
    if cache_write_tokens is None or _is_near(base_url):
        return None
    return _cost(usage._replace(cache_write_tokens=cache_write_tokens), model, provider_api_url=base_url)


def list_price(usage: Usage, model: str, provider: str, day: datetime | None = None) -> int | None:
    """The cost of a recorded response, as `cost_of`, with its own `cache_write_tokens` and the prices of its day."""
    return _cost(usage, model, provider_id=provider, genai_request_timestamp=day)


def _cost(usage: Usage, model: str, **model_name: JSON) -> int | None:
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
            **model_name,
        )
    except (LookupError, ValueError):  # an unknown provider or model, or contradicting numbers
        return None
    table = price.model_price
    if table.input_mtok is None or table.output_mtok is None:
        return None
    if usage.cached_tokens is None and table.cache_read_mtok is not None:
        return None
    return round(price.total_price * MICRO)


def _is_near(base_url: str) -> bool:
    """Whether an address cannot be a provider's: this machine, or an address without a name."""
    host = ""
    try:
        host = urlsplit(base_url).hostname or ""
        ipaddress.ip_address(host)
    except ValueError:
        return host in ("", "localhost") or host.endswith(".localhost")
    return True
