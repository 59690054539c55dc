"""What Replay's timeline draws below the calls: cost, context and tokens over the steps, and the slowest steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import median
from typing import Any, Final

from boolab.core.text import count
from boolab.core.types import MICRO, Run
from boolab.display.numbers import duration

_SLOW: Final = 8  # how many times as long as usual a step takes that is labelled
_MIN_SLOW_MS: Final = 10_000
_MAX_LABELLED: Final = 3


def curves_of(run: Run, gauges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The curves of a run: each with `key`, `label`, `unit`, `limit` (None: not known) and `values` after each step.

    Cost and tokens are sums. Where the run's own limits hold, they are the counters that these read, which may start
    at zero in each turn: their label then has "(turn)". Where none does, they are sums of the whole run. What fewer
    than two steps have on record has no curve; None is unknown.

    Example:
        >>> import boolab as bl
        >>> from boolab.widgets.replay.gauges import gauges_of
        >>> used = [{"tool_calls": [{"name": "ls"}], "usage": {"input_tokens": n}} for n in (4, 9)]
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel([*used, "Done."], tools={"ls": "a.py"}))
        >>> [(curve["key"], curve["values"]) for curve in curves_of(run, gauges_of(run))]
        [('context', [4, 9, None])]
    """
    usages = [step.response.usage for step in run.steps]
    costs = [None if usage.cost is None else usage.cost / MICRO for usage in usages]
    tokens = [
        None if usage.input_tokens is None or usage.output_tokens is None else usage.input_tokens + usage.output_tokens
        for usage in usages
    ]
    limited = {gauge["key"]: gauge for gauge in gauges if gauge["limit"] is not None and not gauge["by"]}
    curves = [
        _curve("cost", "usd", _sums(costs), limited.get("cost")),
        {"key": "context", "label": "context", "unit": "tokens", "limit": run.context_window,
         "values": [usage.input_tokens for usage in usages]},
        _curve("tokens", "tokens", _sums(tokens), limited.get("tokens")),
    ]  # fmt: skip
    known = [curve for curve in curves if sum(value is not None for value in curve["values"]) > 1]
    priced = known and known[0]["key"] == "cost"  # then the sum of tokens adds a third scale, and nothing to read
    return [curve for curve in known if curve["key"] != "tokens" or curve["limit"] is not None or not priced]


def _curve(key: str, unit: str, sums: Sequence[float | None], limited: Mapping[str, Any] | None) -> dict[str, Any]:
    limit, values = (None, list(sums)) if limited is None else (limited["limit"], limited["values"][1:])
    known = [value for value in values if value is not None]
    by_turn = any(after < before for before, after in pairwise(known))
    return {"key": key, "label": f"{key} (turn)" if by_turn else key, "unit": unit, "limit": limit, "values": values}


def _sums(values: Sequence[float | None]) -> list[float | None]:
    """Sums up to each; unknown from the first one on that is."""
    known = next((i for i, value in enumerate(values) if value is None), len(values))
    sums = list(accumulate(value for value in values[:known] if value is not None))
    return [*sums, *[None] * (len(values) - known)]


def slow_steps(run: Run) -> list[dict[str, Any]]:
    """The steps in which the model took many times as long as usual: `step` and `text`, at most three.

    Example:
        >>> import boolab as bl
        >>> slow_steps(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])))
        []
    """
    times = {step.index: step.model_ms for step in run.steps if step.model_ms}
    if not times:
        return []
    least = max(_MIN_SLOW_MS, _SLOW * median(times.values()))
    slowest = sorted((step for step, took in times.items() if took >= least), key=lambda step: -times[step])
    causes = dict(_retried(run))
    return [
        {"step": step, "text": ": ".join(filter(None, (duration(times[step]), causes.get(step))))}
        for step in slowest[:_MAX_LABELLED]
    ]


def _retried(run: Run) -> Iterator[tuple[int, str]]:
    retries = Counter(event.payload.get("after_step") for event in run.events if event.kind == "retry")
    for step, n in retries.items():
        if isinstance(step, int):
            yield step, count(n, "retry", "retries")
