"""Prices: list prices by provider, model and kind of token, and silence where anything is unknown."""

import socket
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from boolab.core import prices
from boolab.core.prices import cost_of
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
