"""`repriced`: the recorded tokens at other list prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from boolab.core.prices import ListPrice, PricedRequest, list_price, require
from boolab.core.run import Run
from boolab.core.types import MICRO, Step, Usage
from boolab.errors import SettingError
from boolab.frames.dtypes import FLOAT, INT, TEXT, Column, frame_of_columns
from boolab.frames.runs import Runs, as_runs, distinct_runs, own_part
from boolab.io.checks import repr_of
from boolab.logs.list_prices import PROVIDER_BY_NAME, provider_of, request_of

if TYPE_CHECKING:
    import pandas as pd

CacheUse: TypeAlias = Literal["none", "5m", "1h"]
REPRICED: Final = "repriced_usd"
"""The column that is arithmetic, and no cost of any run."""
CAVEAT: Final = (
    "That is arithmetic on the tokens on record: another model counts other tokens, writes others, and takes other "
    "steps."
)


class _PricedRow(NamedTuple):
    """A request with its own price and another one."""

    run: Run
    step: Step | None  # None for a request outside of the steps
    usage: Usage
    own_model: str
    model: str
    own_price: ListPrice
    price: ListPrice


def repriced(
    runs: Runs,
    model: str | Mapping[str, str] | None = None,
    *,
    provider: str | None = None,
    cache: CacheUse | None = None,
) -> pd.DataFrame:
    """Price the recorded tokens by the list prices of another model, provider, or use of the cache.

    This is arithmetic on tokens, and not what another model would have cost: it counts other tokens, writes others, and
    takes other steps. So no decision takes it: `recommend` refuses it. Each request is priced by its own model, at its
    own date: sessions switch models.

    Args:
        runs: A run, runs, or the path of a store or of logs.
        model: The model by which all requests are priced; or, by the name of a recorded model, that which stands for
            it, while others keep their own. None: each its own.
        provider: The provider of those prices in the package genai-prices; by default that of the model's name.
        cache: "none" prices all input as sent anew, "5m" and "1h" all tokens that were written to the cache as kept for
            so long. None: as recorded.

    Returns:
        A row for each request: run_id, step (NA outside of the steps), turn, model (that answered), priced_as,
        input_tokens, cached_tokens, cache_write_tokens, output_tokens, list_usd (by its own model), repriced_usd, and
        why where that is not known. `attrs["caveat"]` has what it is not, as a sentence.

    Raises:
        SettingError: if the package genai-prices is not installed, or an argument is not one of those above.

    Example:
        >>> import boolab as bl
        >>> step = {"text": "Hi.", "usage": {"input_tokens": 1_000_000, "output_tokens": 0, "cached_tokens": 0}}
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel([step]))
        >>> bl.repriced(run, model="claude-sonnet-4-5")["repriced_usd"].tolist()
        [6.0]
    """
    require()
    if cache is not None and cache not in get_args(CacheUse):
        raise SettingError(f"cache={cache!r}: expected {', '.join(map(repr, get_args(CacheUse)))}, or None")
    models: object = model
    if models is not None and not isinstance(models, str | Mapping):
        raise SettingError(f"model={repr_of(model)}: expected the name of a model, or names by recorded model")
    if provider is not None and model is None:
        msg = f"provider={provider!r}: expected model= too, whose prices it has"
        raise SettingError(msg)
    listed = [own_part(run) for run in distinct_runs(as_runs(runs))[0]]
    frame = frame_of_columns(_COLUMNS, [*chain.from_iterable(_rows(run, model, provider, cache) for run in listed)])
    frame.attrs["caveat"] = CAVEAT
    return frame


def refuse_repriced(recorded: object) -> None:
    """Raise `SettingError` for a frame of `repriced`: a decision is about what runs cost."""
    if REPRICED in getattr(recorded, "columns", ()):
        msg = f"{REPRICED} is arithmetic on recorded tokens, and no cost of any run: expected the runs"
        raise SettingError(msg)


def _rows(
    run: Run, model: str | Mapping[str, str] | None, provider: str | None, cache: CacheUse | None
) -> Iterator[_PricedRow]:
    """The requests of a run with both prices."""
    requests: list[tuple[Step | None, PricedRequest, Usage]] = [
        (step, request_of(step, run), step.response.usage) for step in run.steps
    ]
    requests += [(None, PricedRequest(run.model, provider_of(run), run.started_at), usage) for usage in run.outside]
    for step, own_request, usage in requests:
        other = model if model is None or isinstance(model, str) else model.get(own_request.model)
        request = own_request
        if other is not None and (other != own_request.model or provider is not None):
            request = PricedRequest(other, provider or PROVIDER_BY_NAME, own_request.day)
        price = list_price(_usage_with(usage, cache), request)
        yield _PricedRow(run, step, usage, own_request.model, request.model, list_price(usage, own_request), price)


def _usage_with(usage: Usage, cache: CacheUse | None) -> Usage:
    """The same tokens with another use of the cache."""
    if cache == "none":
        return usage._replace(cached_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0)
    if cache is None or usage.cache_write_tokens is None:
        return usage
    return usage._replace(cache_write_1h_tokens=usage.cache_write_tokens if cache == "1h" else 0)


def _dollars(price: ListPrice) -> float | None:
    return None if price.cost is None else price.cost / MICRO


_COLUMNS: Final = (
    Column("run_id", TEXT, lambda row: row.run.run_id),
    Column("step", INT, lambda row: None if row.step is None else row.step.index),
    Column("turn", INT, lambda row: None if row.step is None else row.step.turn),
    Column("model", TEXT, lambda row: row.own_model or None),
    Column("priced_as", TEXT, lambda row: row.model or None),
    Column("input_tokens", INT, lambda row: row.usage.input_tokens),
    Column("cached_tokens", INT, lambda row: row.usage.cached_tokens),
    Column("cache_write_tokens", INT, lambda row: row.usage.cache_write_tokens),
    Column("output_tokens", INT, lambda row: row.usage.output_tokens),
    Column("list_usd", FLOAT, lambda row: _dollars(row.own_price)),
    Column(REPRICED, FLOAT, lambda row: _dollars(row.price)),
    Column("why", TEXT, lambda row: row.price.reason or None),
)
