"""The counters of a run over its steps, each against its limit, and the curves that are drawn below the calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby, pairwise
from statistics import median
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import MICRO
from boolab.display.numbers import duration
from boolab.limits.detectors.streaks import ErrorStreak, RepeatStreak
from boolab.limits.table import MEASURES
from boolab.logs.log_files import scope_of
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.step_table import Ledger

_GAUGES: Final = (  # key, label, unit
    ("repeat_streak", "repeat streak", "count"),
    ("error_streak", "error streak", "count"),
    ("steps", "steps", "count"),
    ("tool_calls", "tool calls", "count"),
    ("tokens", "tokens", "tokens"),
    ("cost", "cost", "usd"),
    ("elapsed", "time", "ms"),
)
_ALWAYS: Final = frozenset({"repeat_streak", *MEASURES})


def counts_by_turn(run: Run) -> bool:
    """Whether counters start at zero in each turn; in benchmarks they continue through the messages of a user."""
    return scope_of(run.source) == "turn"


def remove_names(run: Run) -> Run:
    """The run without its names, which no counter needs: no text column accepts the lone surrogates in some.

    A source whose limits hold for the whole run stays: counters start again, or not, by it, and it is a known name.
    """
    empty_names: dict[str, Any] = dict.fromkeys(("agent", "model", "policy", "task"), "")
    return replace(run, run_id="run", settings={}, source="" if counts_by_turn(run) else run.source, **empty_names)


def gauges_of(run: Run, compared: Sequence[tuple[str, int, str]] = ()) -> list[dict[str, Any]]:
    """The counters of a run after each of its steps, as its rules read them, with their limits; None is unknown."""
    ledger = ledger_of(remove_names(run), (RepeatStreak(run.identity), ErrorStreak()))
    other_limits = [(counter, value, name) for counter, value, name in compared if name != run.policy]
    return [*_gauges(run.limits, ledger, RepeatStreak(run.identity).name, other_limits), *_measured_curves(run)]


def _measured_curves(run: Run) -> Iterator[dict[str, Any]]:
    """What no rule reads: the context that was sent, and the time that the model took."""
    sizes = [step.response.usage.input_tokens for step in run.steps]
    times = [step.model_ms for step in run.steps]
    if any(value is not None for value in sizes):
        yield {"key": "context", "label": "context", "unit": "tokens", "limit": run.context_window, "by": "",
               "values": [0, *sizes]}  # fmt: skip
    if times and None not in times:
        by_turn = counts_by_turn(run)
        spans = groupby(run.steps, lambda step: step.turn if by_turn else 1)
        total = [0, *chain.from_iterable(accumulate(step.model_ms or 0 for step in steps) for _, steps in spans)]
        yield {"key": "model_time", "label": "model time", "unit": "ms", "limit": None, "by": "",
               "values": total}  # fmt: skip


def _gauges(
    limits: Mapping[str, int], ledger: Ledger, repeats: str, compared: Sequence[tuple[str, int, str]]
) -> Iterator[dict[str, Any]]:
    for key, label, unit in _GAUGES:
        counter = repeats if key == "repeat_streak" else key
        counts: list[int | None] = [0, *(None if n < 0 else n for n in ledger.counters[counter].tolist())]
        limit, owner = limits.get(counter, limits.get(key)), ""
        other_limits = [(value, name) for other, value, name in compared if other == counter]
        if limit is None and other_limits:
            limit, owner = min(other_limits)
        if counts[1:] and all(n is None for n in counts[1:]) and (owner or limit is None):
            continue
        if key in _ALWAYS or limit is not None or any(counts):
            scale = MICRO if unit == "usd" else None
            values = counts if scale is None else [None if n is None else n / scale for n in counts]
            shown_limit = limit if limit is None or scale is None else limit / scale
            yield {"key": key, "label": label, "unit": unit, "limit": shown_limit, "by": owner, "values": values}


_SLOW: Final = 8  # how many times as long as usual a step takes that is labelled
_MIN_SLOW_MS: Final = 10_000
_MAX_LABELLED: Final = 3


def curves_of(run: Run, gauges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The curves of a run: counters by turn where its own limits hold, else sums; None is unknown."""
    usages = [step.response.usage for step in run.steps]
    costs = [None if usage.cost is None else usage.cost / MICRO for usage in usages]
    tokens = [
        None if usage.input_tokens is None or usage.output_tokens is None else usage.input_tokens + usage.output_tokens
        for usage in usages
    ]
    limited = {gauge["key"]: gauge for gauge in gauges if gauge["limit"] is not None and not gauge["by"]}
    curves = [
        _sum_curve("cost", "usd", _sums(costs), limited.get("cost")),
        {"key": "context", "label": "context", "unit": "tokens", "limit": run.context_window,
         "values": [usage.input_tokens for usage in usages]},
        _sum_curve("tokens", "tokens", _sums(tokens), limited.get("tokens")),
    ]  # fmt: skip
    known_curves = [curve for curve in curves if sum(value is not None for value in curve["values"]) > 1]
    priced = (
        known_curves and known_curves[0]["key"] == "cost"
    )  # then the sum of tokens adds a third scale, and nothing to read
    return [curve for curve in known_curves if curve["key"] != "tokens" or curve["limit"] is not None or not priced]


def _sum_curve(key: str, unit: str, sums: Sequence[float | None], limited: Mapping[str, Any] | None) -> dict[str, Any]:
    limit, values = (None, list(sums)) if limited is None else (limited["limit"], limited["values"][1:])
    known_values = [value for value in values if value is not None]
    by_turn = any(later < earlier for earlier, later in pairwise(known_values))
    return {"key": key, "label": f"{key} (turn)" if by_turn else key, "unit": unit, "limit": limit, "values": values}


def _sums(values: Sequence[float | None]) -> list[float | None]:
    """Sums up to each; unknown from the first one on that is."""
    known_count = next((i for i, value in enumerate(values) if value is None), len(values))
    sums = list(accumulate(value for value in values[:known_count] if value is not None))
    return [*sums, *[None] * (len(values) - known_count)]


def slow_steps(run: Run) -> list[dict[str, Any]]:
    """The steps in which the model took many times as long as usual: `step` and `text`, at most three."""
    times = {step.index: step.model_ms for step in run.steps if step.model_ms}
    if not times:
        return []
    min_ms = max(_MIN_SLOW_MS, _SLOW * median(times.values()))
    slowest = sorted((step for step, model_ms in times.items() if model_ms >= min_ms), key=lambda step: -times[step])
    causes = dict(_retry_counts(run))
    return [
        {"step": step, "text": ": ".join(filter(None, (duration(times[step]), causes.get(step))))}
        for step in slowest[:_MAX_LABELLED]
    ]


def _retry_counts(run: Run) -> Iterator[tuple[int, str]]:
    retries = Counter(event.payload.get("after_step") for event in run.events if event.kind == "retry")
    for step, n in retries.items():
        if isinstance(step, int):
            yield step, count(n, "retry", "retries")
