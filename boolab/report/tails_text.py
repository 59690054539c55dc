"""What `boolab cost --tails` and `--model` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pandas as pd

from boolab.core.prices import is_installed
from boolab.core.run import Run
from boolab.core.text import clean, count, shorten
from boolab.display.numbers import money
from boolab.display.text import align_columns, capitalize, joined, wrap_text
from boolab.errors import SettingError
from boolab.frames.dtypes import is_missing
from boolab.stats.cost.repriced import REPRICED
from boolab.stats.cost.worst_case import worst_case

_NAMES: Final = {"cost_usd": "cost", "steps": "steps", "minutes": "minutes"}
_MAX_MODELS: Final = 20


def tails_text(tails: pd.DataFrame, runs: Sequence[Run]) -> str:
    """The rows of `bl.tails_df` of the record as it is, and what bounds the cost of its runs."""
    rows: list[dict[str, Any]] = tails.to_dict("records")  # type: ignore[assignment]
    known_rows = [row for row in rows if not is_missing(row["max"])]
    unit, n_units = rows[0]["unit"], rows[0]["n_units"]
    if not known_rows:
        return f"No cost, steps or minutes on record for {count(n_units, unit)}."
    tasks = max(row["tasks"] for row in known_rows)
    head = f"{count(n_units, unit)} of {count(tasks, 'task')}, as recorded; 95% intervals count tasks."
    cells = [
        [_NAMES[row["measure"]], _quantile(row, "p50"), _quantile(row, "p95"), _amount(row["measure"], row["max"]),
         _amount(row["measure"], row["shortfall"])]
        for row in known_rows
    ]  # fmt: skip
    table = align_columns([["", "half within", "95% within", "most", "mean of the last 5%"], *cells])
    return "\n".join([wrap_text(head), *table, *map(wrap_text, _tail_notes(rows, runs))])


def _quantile(row: Mapping[str, Any], name: str) -> str:
    """A quantile with its interval; an end that is not shown is "?"."""
    low, high = (
        "?" if is_missing(row[f"{name}_{end}"]) else _amount(row["measure"], row[f"{name}_{end}"])
        for end in ("low", "high")
    )
    return f"{_amount(row['measure'], row[name])} ({low} to {high})"


def _amount(measure: str, value: float) -> str:
    return money(value) if measure == "cost_usd" else f"{value:,.1f}" if measure == "minutes" else f"{value:,.0f}"


def _tail_notes(rows: Sequence[Mapping[str, Any]], runs: Sequence[Run]) -> Iterator[str]:
    """What the table does not show."""
    missing = max(row["more_needed"] for row in rows if not is_missing(row["max"]))
    if missing:
        yield (
            f"An end marked ? is not shown: the upper end of the 95% needs {count(missing, 'more task')} like these, "
            "none of them dearer."
        )
    for row in rows:
        if row["n_unknown"]:
            yield f"{capitalize(_NAMES[row['measure']])} of {count(row['n_unknown'], row['unit'])} not known: left out."
    yield "The mean of the last 5% has no interval: no hard limit bounds it, and the next one may be any amount dearer."
    yield from _worst_case_notes(rows, runs)


def _worst_case_notes(rows: Sequence[Mapping[str, Any]], runs: Sequence[Run]) -> Iterator[str]:
    """What a cap as long as the longest on record would bound, beside the dearest one."""
    by_measure = {row["measure"]: row for row in rows}
    cost, steps = by_measure["cost_usd"]["max"], by_measure["steps"]["max"]
    every_step = list(chain.from_iterable(run.steps for run in runs))
    models = set(chain.from_iterable(_models_of(run) for run in runs))
    outputs = [tokens for step in every_step if (tokens := step.response.usage.output_tokens) is not None]
    if is_missing(cost) or is_missing(steps) or len(models) != 1 or not outputs or not is_installed():
        return
    (model,), cap = models, int(steps)
    try:
        bound = worst_case({"max_steps": cap}, model, max_output=max(outputs))
    except SettingError:  # its price, or its window, is not known
        return
    yield (
        f"The dearest {rows[0]['unit']} cost {money(cost)}. A step cap of {cap:,}, the most steps on record, bounds it "
        f"by {money(bound)}, if no response has more tokens than the longest on record, {max(outputs):,} "
        "(bl.worst_case)."
    )


def _models_of(run: Run) -> set[str]:
    return {step.response.model or run.model for step in run.steps}


def repriced_text(repriced: pd.DataFrame) -> str:
    """The rows of `bl.repriced` by model: its own list prices, and the others."""
    model = joined([shorten(name) for name in repriced["priced_as"].dropna().unique()[:_MAX_MODELS]] or ["no model"])
    known = repriced.dropna(subset=[REPRICED, "list_usd"])
    lines = [wrap_text(f"The tokens of {count(len(repriced), 'request')} at the list prices of {model}:")]
    by_model = known.assign(model=known["model"].fillna("no name")).groupby("model", sort=False)
    cells = [
        [shorten(name), f"{len(part):,}", money(part["list_usd"].sum()), money(part[REPRICED].sum())]
        for name, part in list(by_model)[:_MAX_MODELS]
    ]
    if cells:
        totals = [money(known[name].sum()) for name in ("list_usd", REPRICED)]
        cells += [["all", f"{len(known):,}", *totals]] if len(cells) > 1 else []
        lines += align_columns([["recorded model", "requests", "its list price", REPRICED], *cells])
    unknown = repriced[repriced[[REPRICED, "list_usd"]].isna().any(axis=1)]
    reasons = unknown["why"].fillna("no list price is known of the recorded model").value_counts()
    lines += [wrap_text(f"{count(n, 'request')} left out: {clean(reason)}.") for reason, n in reasons.items()]
    return "\n".join([*lines, wrap_text(repriced.attrs["caveat"])])
