"""Bills: what runs cost at list prices beside what their logs state, and why they differ.

A log may state a cost for each step, or one of the whole run or session. The second may be of more requests than those
on record: Claude Code lets a small model write titles, on no line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from boolab.core.prices import PricedRequest, list_price
from boolab.core.prompt_parts import is_cut
from boolab.core.run import Run, StatedCost, steps_in
from boolab.core.run_tree import descendants
from boolab.core.text import count
from boolab.core.types import MICRO, Usage
from boolab.frames.dtypes import FLOAT, TEXT, Column, frame_of_columns
from boolab.frames.runs import Runs, as_runs, distinct_runs
from boolab.harnesses.registry import provider_of_source
from boolab.logs.list_prices import provider_of, request_of
from boolab.stats.cost.allocated import allocate_runs, dollars_of

if TYPE_CHECKING:
    import pandas as pd

WARNED_SHARE: Final = 0.01
"""Bills that differ by more than this share are worth a warning."""
STEPS: Final = "steps"
"""What a bill covers whose log states the cost of each step."""


class Bill(NamedTuple):
    """The bill of a run, in micro-dollars."""

    run_id: str
    computed: int | None
    stated: StatedCost | None
    reasons: tuple[str, ...]

    @property
    def difference(self) -> int | None:
        """By how much the computed bill is higher than the stated one."""
        return None if self.computed is None or self.stated is None else self.computed - self.stated.cost

    @property
    def warning(self) -> str:
        """What to warn of, where the bills differ by more than a percent; else empty."""
        difference, stated = self.difference, self.stated
        if difference is None or stated is None or abs(difference) <= WARNED_SHARE * stated.cost:
            return ""
        reasons = f": {'; '.join(self.reasons)}" if self.reasons else "; why is not known"
        direction = "more" if difference > 0 else "less"
        return (
            f"Run {self.run_id} costs ${abs(difference) / MICRO:,.4f} {direction} at list prices than the "
            f"${stated.cost / MICRO:,.4f} that its log states{reasons}."
        )


_BILL_COLUMNS: Final = (
    Column("run_id", TEXT, lambda bill: bill.run_id),
    Column("computed_usd", FLOAT, lambda bill: None if bill.computed is None else bill.computed / MICRO),
    Column("stated_usd", FLOAT, lambda bill: None if bill.stated is None else bill.stated.cost / MICRO),
    Column("stated_covers", TEXT, lambda bill: None if bill.stated is None else bill.stated.covers),
    Column("difference_usd", FLOAT, lambda bill: None if bill.difference is None else bill.difference / MICRO),
    Column("why", TEXT, lambda bill: "; ".join(bill.reasons)),
)


def bills_df(runs: Runs) -> pd.DataFrame:
    """Compare what runs cost at list prices with what their logs state.

    List prices are those of `genai-prices` on the day of each request. Where a source does not name the provider of a
    model, the name does, so a server of your own that names its model as a provider does has that one's prices here.

    Args:
        runs: A run, runs, or the path of a store or of logs.

    Returns:
        One row a run: `run_id`, `computed_usd` (NA if a request with tokens has no price), `stated_usd`,
        `stated_covers` (`steps`: each step has a cost in the log; `run`: one cost of the run; `session`: also of its
        subagents, and of requests that no line has), `difference_usd` (computed less stated), and `why` they may
        differ. `attrs["warnings"]` has a sentence for each run whose bills differ by more than 1%.

    Example:
        >>> import boolab as bl
        >>> list(bl.bills_df([]).columns)[:3]
        ['run_id', 'computed_usd', 'stated_usd']
    """
    bills = [bill_of(run) for run in distinct_runs(as_runs(runs))[0]]
    frame = frame_of_columns(_BILL_COLUMNS, bills)
    frame.attrs["warnings"] = [bill.warning for bill in bills if bill.warning]
    return frame


def bill_of(run: Run) -> Bill:
    """The bill of a run, with its subagents where the stated one covers them."""
    stated = run.stated_cost or _stated_by_steps(run)
    runs = [run, *descendants(run)] if stated is not None and stated.covers == "session" else [run]
    requests = list(chain.from_iterable(map(_requests_of, runs)))
    prices = [(request.model, list_price(usage, request)) for request, usage in requests if _has_tokens(usage)]
    costs = [price.cost for _, price in prices if price.cost is not None]
    computed = sum(costs) if prices and len(costs) == len(prices) else None
    unpriced = Counter((price.reason, model) for model, price in prices if price.cost is None)
    reasons = [f"{reason} ({model or 'no name'}, {count(n, 'request')})" for (reason, model), n in unpriced.items()]
    unknown = len(requests) - len(prices)
    if unknown:
        reasons.append(f"the tokens of {count(unknown, 'request')} are not on record")
    if any(map(is_cut, steps_in(runs))):
        allocated = chain.from_iterable(row.allocation.requests for row in allocate_runs(runs))
        lacking = sum(request.lacking_units for request in allocated)
        if lacking:
            bill = "" if computed is None else f" of ${computed / MICRO:,.4f}"
            reasons.append(f"the log lacks about ${dollars_of(lacking):,.4f}{bill}: it has a part of the output only")
    if stated is not None:
        reasons += _unseen_models(stated, {request.model for request, _ in requests})
    return Bill(run.run_id, computed, stated, tuple(reasons))


def _requests_of(run: Run) -> Iterator[tuple[PricedRequest, Usage]]:
    for step in run.steps:
        yield request_of(step, run), step.response.usage
    for usage in run.outside:
        yield PricedRequest(run.model, provider_of(run), run.started_at), usage


def _has_tokens(usage: Usage) -> bool:
    return usage.input_tokens is not None and usage.output_tokens is not None


def _stated_by_steps(run: Run) -> StatedCost | None:
    """The sum of what the log states of each step; None if it does not, or prices of ours are in their place."""
    costs = [usage.cost for usage in (*(step.response.usage for step in run.steps), *run.outside)]
    if provider_of_source(run.source) or not costs or None in costs:
        return None
    return StatedCost(sum(cost or 0 for cost in costs), STEPS)


def _unseen_models(stated: StatedCost, models: set[str]) -> Iterator[str]:
    """The parts of a bill that are of models which answered no request on record."""
    for part in stated.models:
        if part.cost and part.model not in models:
            yield f"${part.cost / MICRO:,.4f} of the stated bill are of {part.model}, which no line has"
