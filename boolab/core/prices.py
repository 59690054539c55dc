"""The cost of a response that its provider does not report, from the price table in the package `genai-prices`.

Nothing is fetched. The provider is identified by its address, so a server of your own that calls its model `gpt-4o` has
no price of OpenAI. A name that the table has only the beginning of, such as `claude-opus-4-8-preview`, has none either:
such a model may cost several times as much.
"""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib.util import find_spec
from operator import itemgetter
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from boolab.core.types import JSON, MICRO, Usage
from boolab.errors import SettingError, install

_PACKAGE = "genai_prices"
RATE_UNITS: Final = 10_000
"""Units of a rate, 1e-10 dollars, to the micro-dollar."""
_STANDARD: Final = frozenset({"", "standard", "default", "normal", "auto", "on_demand"})
_FAST: Final = "-fast"
# What names add to that of a model at the same price: a seller, a region, a date or number of the version, a context.
_SELLER: Final = re.compile(r"^.*/|^(?:(?:us|eu|apac|jp|au|global)\.)?[a-z]+\.(?=[a-z])")
_VERSION: Final = re.compile(
    r"\[1m\]$|-latest$|-v\d+(?::\d+)?$|[-@](?:20\d\d-?[01]\d-?[0-3]\d|[01]\d-[0-3]\d|\d{3,4})$|@(?:latest|default)$"
)


class Rates(NamedTuple):
    """What one token of a request costs at list prices, in integers of 1e-10 dollars.

    A price for long requests applies to all tokens of a request, so the rates depend on its length.
    """

    fresh: int  # input that is neither read from the cache nor written to it
    read: int
    write_5m: int
    write_1h: int
    output: int


class RatesByLength(NamedTuple):
    """The rates of a request by the tokens of its prompt: `tiers[n]` where `n` of `starts` are below them."""

    starts: tuple[int, ...]
    tiers: tuple[Rates, ...]

    def at(self, input_tokens: int) -> Rates:
        """The rates of a request with so many tokens."""
        return self.tiers[bisect_left(self.starts, input_tokens)]


class ListPrice(NamedTuple):
    """The micro-dollars of a recorded response at list prices; or why they are unknown, with bounds if it has any."""

    cost: int | None
    reason: str = ""
    lower: int | None = None  # if all input, but for what was written, had been read from the cache
    upper: int | None = None  # if none had


class PricedRequest(NamedTuple):
    """What the price of a token depends on: the model, its provider, when it was asked, and how it was served."""

    model: str
    provider: str
    day: datetime | None = None
    speed: str | None = None
    service_tier: str | None = None

    @property
    def service(self) -> Mapping[str, str]:
        """The speed and the tier, as the price table names them, where they are not the usual ones."""
        words = {"speed": self.speed, "service_tier": self.service_tier}
        context = {name: word for name, word in words.items() if word is not None and word not in _STANDARD}
        if context.get("service_tier") == "batch":
            context["processing"] = context.pop("service_tier")
        return context


def is_installed() -> bool:
    """Whether the package is installed; it is imported with the first price, because that is slow."""
    return find_spec(_PACKAGE) is not None


def require() -> None:
    """Raise `SettingError` if the package is not installed."""
    if not is_installed():
        raise SettingError(missing_prices())


def missing_prices() -> str:
    """What to install where the package is missing, as a sentence without its full stop."""
    return f"list prices need the package genai-prices, which is not installed: {install('boolab[prices]')}"


def cost_of(usage: Usage, model: str, base_url: str, *, cache_write_tokens: int | None = 0) -> int | None:
    """A response's micro-dollars at list price; None if the provider, the model or a number of tokens is unknown."""
    if cache_write_tokens is None or _is_near(base_url):
        return None
    table = _table(PricedRequest(model, ""), base_url)
    return None if isinstance(table, str) else _cost(usage._replace(cache_write_tokens=cache_write_tokens), table)


def list_price(usage: Usage, request: PricedRequest) -> ListPrice:
    """The cost of a recorded response, as `cost_of`, with its own `cache_write_tokens` and the prices of its day."""
    table = _table(request)
    if isinstance(table, str):
        return ListPrice(None, table)
    cost = _cost(usage, table)
    if cost is not None:
        return ListPrice(cost)
    if usage.cached_tokens is None and usage.input_tokens is not None:
        readable = max(0, usage.input_tokens - (usage.cache_write_tokens or 0))
        lower = _cost(usage._replace(cached_tokens=readable), table)
        upper = _cost(usage._replace(cached_tokens=0), table)
        return ListPrice(None, "the tokens that were read from the cache are not on record", lower, upper)
    return ListPrice(None, "the numbers of tokens are not on record, or contradict each other")


def rates_of(request: PricedRequest, input_tokens: int) -> Rates | None:
    """The rates of a request with so many tokens; None if they are unknown, or no integers."""
    table = _table(request)
    return None if isinstance(table, str) else _rates_at(table, input_tokens)


def rates_by_length(request: PricedRequest) -> RatesByLength | None:
    """The rates of a request at each length; None if any of them is unknown, or no integer."""
    table = _table(request)
    return None if isinstance(table, str) else _rates_by_length(table)


def _rates_by_length(table: JSON) -> RatesByLength | None:
    prices = (
        table.input_mtok,
        table.cache_read_mtok,
        table.cache_write_mtok,
        table.cache_write_1h_mtok,
        table.output_mtok,
    )
    starts = sorted({tier.start for price in prices for tier in getattr(price, "tiers", ())})
    tiers = [_rates_at(table, length) for length in (0, *(start + 1 for start in starts))]
    return RatesByLength((*starts,), tuple([rates for rates in tiers if rates])) if None not in tiers else None


def dearest_rates(model: str, base_url: str) -> tuple[int, int] | None:
    """The dearest list prices of a token of input and of output of a model, whatever is cached and however long.

    In integers of 1e-10 dollars; None if the provider or a price is not known.
    """
    if _is_near(base_url):
        return None
    table = _table(PricedRequest(model, ""), base_url)
    lengths = None if isinstance(table, str) else _rates_by_length(table)
    if lengths is None:
        return None
    inputs = [max(rates.fresh, rates.read, rates.write_5m, rates.write_1h) for rates in lengths.tiers]
    return max(inputs), max(rates.output for rates in lengths.tiers)


def window_of(request: PricedRequest) -> int | None:
    """The context window of a model by the price table; None if it has none."""
    if not is_installed():
        return None
    window: int | None = getattr(_entry(request.model, request.provider or None, None)[0], "context_window", None)
    return window


def _rates_at(table: JSON, input_tokens: int) -> Rates | None:
    fresh = table.input_mtok
    write = table.cache_write_mtok if table.cache_write_mtok is not None else fresh
    hour = table.cache_write_1h_mtok if table.cache_write_1h_mtok is not None else write
    read = table.cache_read_mtok if table.cache_read_mtok is not None else fresh
    rates = [_at_length(price, input_tokens) * RATE_UNITS for price in (fresh, read, write, hour, table.output_mtok)]
    return Rates(*map(int, rates)) if all(rate == int(rate) for rate in rates) else None


def _at_length(price: JSON, input_tokens: int) -> JSON:
    """The price of a token of a request: that of the highest tier that begins below its length."""
    tiers = [tier.price for tier in getattr(price, "tiers", ()) if input_tokens > tier.start]
    return tiers[-1] if tiers else getattr(price, "base", price)


def _cost(usage: Usage, table: JSON) -> int | None:
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if usage.cached_tokens is None and table.cache_read_mtok is not None:
        return None
    import genai_prices

    try:
        price = table.calc_price(
            genai_prices.Usage(
                input_tokens=usage.input_tokens,
                cache_read_tokens=usage.cached_tokens,
                cache_write_tokens=usage.cache_write_tokens or 0,
                cache_write_1h_tokens=usage.cache_write_1h_tokens or 0,
                output_tokens=usage.output_tokens,
                output_reasoning_tokens=usage.reasoning_tokens,
            )
        )
    except ValueError:  # contradicting numbers
        return None
    cost: int = round(price["total_price"] * MICRO)
    return cost


def _table(request: PricedRequest, base_url: str | None = None) -> JSON:
    """The prices of a million tokens of a request; a text, why there are none, if they are not known."""
    if not is_installed():
        return "the package genai-prices is not installed"
    time = request.day or datetime.now(UTC)
    model, speed = _entry(request.model, request.provider or None, base_url)
    if model is None:
        return "no list price is known of the model" + (", only of one whose name is its beginning" if speed else "")
    context = request._replace(speed=speed or request.speed).service
    if context and not any(
        variant.when == context and (variant.constraint is None or variant.constraint.active(time))
        for variant in model.price_variants or ()
    ):
        return f"no list price is known of the model at {' and '.join(' '.join(pair) for pair in context.items())}"
    table = model.get_prices(time, context)
    return "its tokens have no price" if table.input_mtok is None or table.output_mtok is None else table


@lru_cache(maxsize=1024)
def _entry(name: str, provider: str | None, base_url: str | None) -> tuple[JSON, str]:
    """The model with this name, and the speed that the name has; if only a beginning of it is known, None and that."""
    from genai_prices.data_snapshot import get_snapshot

    name, similar_id = name.lower(), ""
    for table_name, speed in ((name, ""), (name.removesuffix(_FAST), _FAST[1:])):
        try:
            _, model = get_snapshot().find_provider_model(table_name, None, provider, base_url)
        except LookupError:
            continue
        if _has_name(model, table_name):
            return model, speed
        similar_id = model.id
    return None, similar_id


def _has_name(model: JSON, name: str) -> bool:
    """Whether a model of the table has this name, not only its beginning, or a part of it."""
    clauses = [*_clauses(model.match)]
    if name.startswith("ft:") or any(kind == "regex" and re.fullmatch(text, name) for kind, text in clauses):
        return True
    return _short_name(name) in map(_short_name, (model.id, *map(itemgetter(1), clauses)))


def _clauses(match: JSON) -> Iterator[tuple[str, str]]:
    """The kind and the text of each part of a match."""
    parts = getattr(match, "or_", None) or getattr(match, "and_", None)
    for part in parts or ():
        yield from _clauses(part)
    if not parts:
        yield next(iter(vars(match).items()))


def _short_name(name: str) -> str:
    name = _SELLER.sub("", name.lower().strip("-@"))
    while (match := _VERSION.search(name)) is not None:
        name = name[: match.start()]
    return name


def _is_near(base_url: str) -> bool:
    """Whether an address cannot be a provider's: this machine, or an address without a name."""
    host = ""
    try:
        host = urlsplit(base_url).hostname or ""
        ipaddress.ip_address(host)
    except ValueError:
        return host in ("", "localhost") or host.endswith(".localhost")
    return True
