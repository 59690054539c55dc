"""Prices: list prices by provider, model and kind of token, and silence where anything is unknown."""

import socket
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from boolab.core import prices
from boolab.core.prices import RATE_UNITS, PricedRequest, Rates, cost_of, list_price, rates_of
from boolab.core.types import Usage
from boolab.errors import SettingError

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"


def table(provider_id: str, model: str) -> Any:
    """The package's own prices of a model, in dollars per million tokens."""
    provider = next(provider for provider in get_snapshot().providers if provider.id == provider_id)
    info = next(info for info in provider.models if info.id == model)
    return info.prices[-1].prices if isinstance(info.prices, list) else info.prices


def flat(value: Any) -> Decimal:
    """A price that does not depend on the length of the request."""
    assert isinstance(value, Decimal)
    return value


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**5))
def test_cached_input_has_its_own_price(plain: int, cached: int, output: int) -> None:
    price = table("openai", "gpt-4o")
    dollars = flat(price.input_mtok) * plain + flat(price.cache_read_mtok) * cached + flat(price.output_mtok) * output
    # Dollars for a million tokens are micro-dollars for one.
    assert cost_of(Usage(plain + cached, output, cached), "gpt-4o", OPENAI) == round(dollars)


@given(st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5))
def test_input_written_to_the_cache_has_its_own_price(plain: int, written: int, read: int, output: int) -> None:
    price = table("anthropic", "claude-opus-4-1")
    dollars = flat(price.input_mtok) * plain + flat(price.output_mtok) * output
    dollars += flat(price.cache_write_mtok) * written + flat(price.cache_read_mtok) * read
    usage = Usage(plain + written + read, output, read)
    assert cost_of(usage, "claude-opus-4-1", ANTHROPIC, cache_write_tokens=written) == round(dollars)


def test_reasoning_is_part_of_the_output_and_not_paid_twice() -> None:
    with_reasoning = cost_of(Usage(1000, 500, 0, 400), "o3", OPENAI)
    assert with_reasoning is not None
    assert with_reasoning == cost_of(Usage(1000, 500, 0), "o3", OPENAI)


@pytest.mark.parametrize(
    "base_url",
    [
        "http://localhost:8000/v1",
        "http://127.0.0.1:8080/v1",
        "http://[::1]:8080/v1",
        "http://192.168.0.4/v1",
        "http://box.localhost/v1",
        "https://models.example.com/v1",
        "https://example.com/api.openai.com/v1",
        "",
        "http://[",
    ],
)
def test_unknown_provider_has_no_price_for_any_model_name(base_url: str) -> None:
    assert cost_of(Usage(1000, 100, 0), "gpt-4o", OPENAI) is not None
    assert cost_of(Usage(1000, 100, 0), "gpt-4o", base_url) is None


@pytest.mark.parametrize(
    "usage",
    [
        Usage(None, 100, 0),
        Usage(1000, None, 0),
        Usage(1000, 100, None),  # the cached ones are cheaper
        Usage(1000, 100, 2000),  # more cached than there are
        Usage(),
    ],
)
def test_an_unknown_or_impossible_number_of_tokens_is_no_cost(usage: Usage) -> None:
    assert cost_of(usage, "gpt-4o", OPENAI) is None


def test_unknown_cached_tokens_are_fine_if_they_cost_the_same() -> None:
    price = table("openai", "gpt-4-turbo")
    assert price.cache_read_mtok is None
    expected = round(flat(price.input_mtok) * 1000 + flat(price.output_mtok) * 100)
    assert cost_of(Usage(1000, 100), "gpt-4-turbo", OPENAI) == expected


def test_unknown_tokens_written_to_the_cache_give_no_cost() -> None:
    assert cost_of(Usage(1000, 100, 0), "claude-opus-4-1", ANTHROPIC, cache_write_tokens=None) is None


def test_an_unknown_model_has_no_price() -> None:
    assert cost_of(Usage(1000, 100, 0), "a-model-that-nobody-has", OPENAI) is None


def test_a_model_whose_tokens_have_no_price_is_not_free() -> None:
    provider = next(provider for provider in get_snapshot().providers if provider.id == "openrouter")
    unpriced = next(
        info.id
        for info in provider.models
        if not isinstance(info.prices, list) and info.prices.input_mtok is None and info.prices.output_mtok is None
    )
    assert cost_of(Usage(1000, 100, 0), unpriced, "https://openrouter.ai/api/v1") is None


def test_prices_never_touch_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        pytest.fail("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert cost_of(Usage(1000, 100, 0), "gpt-4o", OPENAI) is not None


def test_price_package_is_not_imported_for_local_servers() -> None:
    code = (
        "import sys; from boolab.core import prices; from boolab.core.types import Usage\n"
        "prices.require()\n"
        "prices.cost_of(Usage(1, 1, 0), 'gpt-4o', 'http://localhost/v1')\n"
        "assert 'genai_prices' not in sys.modules\n"
        f"prices.cost_of(Usage(1, 1, 0), 'gpt-4o', {OPENAI!r})\n"
        "assert 'genai_prices' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_genai_prices_cost_is_none_and_require_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prices, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "genai_prices", None)  # this makes the import fail
    assert not prices.is_installed()
    assert cost_of(Usage(1000, 100, 0), "gpt-4o", OPENAI) is None
    with pytest.raises(SettingError, match=r"pip install 'boolab\[prices\]'"):
        prices.require()


MODELS = [
    ("anthropic", "claude-opus-4-8"),
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-sonnet-4-5-20250929"),
    ("anthropic", "claude-haiku-5-5"),
    ("anthropic", "claude-3-5-haiku-latest"),
    ("openai", "gpt-5"),
    ("openai", "gpt-5.2-codex"),
    ("openai", "gpt-5.6-sol"),
    ("openai", "gpt-4.1-mini"),
    ("openai", "o3"),
    ("google", "gemini-2.5-pro"),
]


def cost_by_rates(usage: Usage, rates: Rates) -> int:
    """The units of a usage with each kind of token at its rate."""
    written, hour, cached = usage.cache_write_tokens or 0, usage.cache_write_1h_tokens or 0, usage.cached_tokens or 0
    assert usage.input_tokens is not None
    assert usage.output_tokens is not None
    tokens = (usage.input_tokens - cached - written, cached, written - hour, hour, usage.output_tokens)
    return sum(number * rate for number, rate in zip(tokens, rates, strict=True))


tokens = st.integers(0, 200_000)


@given(st.sampled_from(MODELS), st.tuples(tokens, tokens, tokens, tokens, tokens))
def test_rates_add_up_to_the_cost_of_the_price_table(model: tuple[str, str], numbers: tuple[int, ...]) -> None:
    fresh, read, short, hour, output = numbers
    usage = Usage(fresh + read + short + hour, output, read, None, None, short + hour, hour)
    request = PricedRequest(model[1], model[0])
    rates = rates_of(request, fresh + read + short + hour)
    assert rates is not None
    assert list_price(usage, request).cost == round(Decimal(cost_by_rates(usage, rates)) / RATE_UNITS)


def test_a_tier_applies_to_all_tokens_of_a_request() -> None:
    request = PricedRequest("claude-sonnet-4-5", "anthropic")
    assert rates_of(request, 200_000) == (30_000, 3_000, 37_500, 60_000, 150_000)
    assert rates_of(request, 200_001) == (60_000, 6_000, 75_000, 120_000, 225_000)
    assert list_price(Usage(200_000, 0, 0), request).cost == 600_000
    assert list_price(Usage(200_001, 0, 0), request).cost == 1_200_006


def test_prices_are_those_of_the_day_of_the_request() -> None:
    usage = Usage(300_000, 0, 0)
    costs = [
        list_price(usage, PricedRequest("claude-opus-4-6", "anthropic", datetime(2026, 3, day, tzinfo=UTC))).cost
        for day in (12, 13)
    ]
    assert costs == [3_000_000, 1_500_000]


@pytest.mark.parametrize("name", ["claude-opus-4-8-anything", "claude-opus-4-8-1", "claude-opus-4-80", "anything"])
def test_a_name_known_by_its_beginning_has_no_price(name: str) -> None:
    usage = Usage(1000, 100, 0)
    price = list_price(usage, PricedRequest(name, "anthropic"))
    assert price.cost is None
    assert price.reason.startswith("no list price is known of the model")
    assert cost_of(usage, name, ANTHROPIC) is None
    assert rates_of(PricedRequest(name, "anthropic"), 1000) is None


@pytest.mark.parametrize(
    "name", ["claude-opus-4-8-20260528", "claude-opus-4-8@20260528", "claude-opus-4-8-latest", "claude-opus-4-8[1m]"]
)
def test_a_date_of_a_model_does_not_change_its_price(name: str) -> None:
    expected = list_price(Usage(1000, 100, 0), PricedRequest("claude-opus-4-8", "anthropic"))
    assert list_price(Usage(1000, 100, 0), PricedRequest(name, "anthropic")) == expected
    assert expected.cost == 7_500


def test_a_fast_response_has_its_own_price() -> None:
    usage = Usage(1000, 100, 0)
    by_field = list_price(usage, PricedRequest("claude-opus-4-8", "anthropic", speed="fast")).cost
    by_name = list_price(usage, PricedRequest("claude-opus-4-8-fast", "anthropic")).cost
    usual = list_price(
        usage, PricedRequest("claude-opus-4-8", "anthropic", speed="standard", service_tier="standard")
    ).cost
    assert (by_field, by_name, usual) == (15_000, 15_000, 7_500)


@pytest.mark.parametrize(("speed", "tier"), [("fast", None), ("turbo", "standard"), (None, "priority")])
def test_a_speed_or_tier_without_a_price_is_no_cost(speed: str | None, tier: str | None) -> None:
    price = list_price(Usage(1000, 100, 0), PricedRequest("claude-sonnet-4-5", "anthropic", None, speed, tier))
    assert (price.cost, price.lower, price.upper) == (None, None, None)
    assert price.reason.startswith("no list price is known of the model at ")


def test_the_batch_tier_has_its_own_price() -> None:
    request = PricedRequest("claude-opus-4-8", "anthropic", datetime(2026, 11, 1, tzinfo=UTC), service_tier="batch")
    assert list_price(Usage(1000, 100, 0), request).cost == 3_750


def test_unknown_cached_tokens_bound_the_cost() -> None:
    price = list_price(Usage(1000, 100, cache_write_tokens=200), PricedRequest("claude-opus-4-8", "anthropic"))
    assert price.cost is None
    assert price.lower == round(0.5 * 800 + 6.25 * 200 + 25 * 100)
    assert price.upper == round(5 * 800 + 6.25 * 200 + 25 * 100)
