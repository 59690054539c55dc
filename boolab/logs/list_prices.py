"""The cost of recorded steps at list prices, for logs with tokens and a model but no cost.

Claude Code and Codex write such logs. Each uses the models of one provider, whose list prices are in the package
`genai-prices`; subscriptions and discounts are unknown. The provider of other sources is unknown: a server may call its
model `gpt-4o` without OpenAI's price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from typing import Final, NamedTuple

from boolab.core.prices import (
    ListPrice,
    PricedRequest,
    Rates,
    RatesByLength,
    is_installed,
    list_price,
    missing_prices,
    rates_by_length,
    rates_of,
    require,
)
from boolab.core.run import Run, steps_in
from boolab.core.run_tree import rebuild
from boolab.core.text import count, first_of
from boolab.core.types import MICRO, Step, Usage
from boolab.display.text import capitalize
from boolab.frames.runs import Runs, as_runs, known_sum
from boolab.harnesses.registry import provider_of_source

_MAX_NAMES: Final = 3  # models in a note
PROVIDER_BY_NAME: Final = "litellm"
"""For the price table: the provider that a name such as `openai/gpt-5` begins with, else the one that has the model."""


class Prices(NamedTuple):
    """Runs with costs."""

    runs: list[Run]
    n_priced: int  # how many steps have a cost from the price table
    unpriced: Mapping[str, int]  # the steps with tokens whose model has no known price, by model
    bounded_prices: Sequence[ListPrice]  # the costs of steps of which it is not known how much was read from the cache


def priced(runs: Runs) -> list[Run]:
    """Fill in the cost of steps at list prices, if their log has tokens and the model but no cost.

    `load_runs` and `read_logs` do so by default; this is for other runs, such as those of a store. It is for logs of
    Claude Code and of Codex; other runs stay as they are. Tokens that were read from the provider's
    cache, or written to it, have their own prices. A cost in the log stays. If the model's price is not known, the
    cost stays unknown.

    Args:
        runs: A run, runs, or the path of a store or of logs. They are not changed; copies are returned.

    Returns:
        The runs in their order.

    Raises:
        SettingError: if the package genai-prices is not installed (`pip install 'boolab[prices]'`).

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.priced(run) == [run]
        True
    """
    require()
    return price_runs(as_runs(runs)).runs


def needs_prices(runs: Sequence[Run]) -> bool:
    """Whether there are steps that the price table might price."""
    provider_runs = [run for run in runs if provider_of_source(run.source)]
    return any(_lacks(step.response.usage) for step in steps_in(provider_runs))


def price_notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """Where the costs of runs are from whose logs have none, as sentences for a report."""
    provider_runs = [run for run in runs if provider_of_source(run.source)]
    if provider_runs and not is_installed():
        return (capitalize(f"{missing_prices()}."),) if needs_prices(provider_runs) else ()
    n_priced = sum(step.response.usage.cost is not None for step in steps_in(provider_runs))
    left_out, unpriced, bounded_prices = price_runs(provider_runs)[1:]
    notes = []
    if n_priced:
        notes.append(
            f"Cost of {count(n_priced, 'step')}: from tokens at list prices of genai-prices {version('genai-prices')}, "
            "not from the log. A subscription or a discount is not in it."
        )
    if left_out:
        notes.append(f"The cost of {count(left_out, 'step')} is left out, though list prices of the models are known.")
    if unpriced:
        models, steps = first_of([*unpriced], _MAX_NAMES), count(sum(unpriced.values()), "step")
        notes.append(f"No list price is known of {models}, so the cost of {steps} is not known.")
    if bounded_prices:
        lower = known_sum(price.lower for price in bounded_prices) or 0
        upper = known_sum(price.upper for price in bounded_prices) or 0
        bounds = f"${lower / MICRO:,.2f} (all of it) and ${upper / MICRO:,.2f} (none)"
        notes.append(
            f"How much of the input of {count(len(bounded_prices), 'step')} was read from the cache is not on record, "
            f"so the cost is not known: at list prices it is between {bounds}."
        )
    return tuple(notes)


def provider_of(run: Run) -> str:
    """The provider of a run's models for the price table: that of the source, else that of each model's name."""
    return provider_of_source(run.source) or PROVIDER_BY_NAME


def request_of(step: Step, run: Run) -> PricedRequest:
    """What the prices of a step depend on."""
    time = run.started_at
    if time is not None and step.start_ms is not None:
        time += timedelta(milliseconds=step.start_ms)
    response = step.response
    return PricedRequest(response.model or run.model, provider_of(run), time, response.speed, response.service_tier)


def step_rates(step: Step, run: Run) -> Rates | None:
    """The list prices of the tokens of a step; None if they or its input are unknown."""
    tokens = step.response.usage.input_tokens
    return None if tokens is None else rates_of(request_of(step, run), tokens)


def step_rates_by_length(step: Step, run: Run) -> RatesByLength | None:
    """The list prices of the tokens of a step, had its prompt another length; None if they are unknown."""
    return rates_by_length(request_of(step, run))


def price_runs(runs: Sequence[Run]) -> Prices:
    """The same as `priced`, with counts; without the package, the runs as they are."""
    unpriced = _Unpriced(Counter(), [])
    if not is_installed():
        return Prices([*runs], 0, *unpriced)
    n_lacking = sum(_lacks(step.response.usage) for step in steps_in(runs))
    new_runs = [_price_run(run, unpriced) for run in runs]
    n_priced = n_lacking - sum(_lacks(step.response.usage) for step in steps_in(new_runs))
    return Prices(new_runs, n_priced, *unpriced)


class _Unpriced(NamedTuple):
    models: Counter[str]
    bounded_prices: list[ListPrice]


def _price_run(run: Run, unpriced: _Unpriced) -> Run:
    def make(node: Run) -> Run:
        if not provider_of_source(node.source):
            return node
        counts = unpriced if node is run else _Unpriced(Counter(), [])  # subagents are counted as runs of the list
        return replace(node, steps=tuple([_add_cost(step, node, counts) for step in node.steps]))

    return rebuild(run, make)


def _add_cost(step: Step, run: Run, unpriced: _Unpriced) -> Step:
    response = step.response
    if not _lacks(response.usage):
        return step
    request = request_of(step, run)
    price = list_price(response.usage, request)
    if price.cost is not None:
        return step._replace(response=response._replace(usage=response.usage._replace(cost=price.cost)))
    if price.upper is not None:
        unpriced.bounded_prices.append(price)
    else:
        service = "".join(f" ({word})" for word in request.service.values())
        unpriced.models[(request.model or "a model without a name") + service] += 1
    return step


def _lacks(usage: Usage) -> bool:
    return usage.cost is None and usage.input_tokens is not None and usage.output_tokens is not None
