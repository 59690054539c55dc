"""`compare_units`: which unit of a budget saves most of a bill, at the same share of stopped runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import MICRO, Scope
from boolab.errors import SettingError
from boolab.frames.dtypes import FLOAT, INT, TEXT, Column, frame_of_columns
from boolab.frames.runs import Runs, as_runs, distinct_runs, known_sum, turns_of
from boolab.io.checks import is_share, repr_of
from boolab.limits.token_count import FRESH, TokenCount
from boolab.stats.intervals import ClusterBootstrap, check_confidence
from boolab.stats.units import clusters_of, units_of
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.outcomes import running_total
from boolab.whatif.step_table import UNKNOWN, UNKNOWN_PEAK, Ints, Ledger

if TYPE_CHECKING:
    import pandas as pd

WEIGHTS: Final[Mapping[str, float]] = {"input": 1, "output": 8}
"""Those of the row `weighted`: output costs 8 times as much as input at OpenAI (gpt-5), and 5 times at Anthropic."""


class _BudgetUnit(NamedTuple):
    """A unit in which a budget may be given."""

    name: str  # in the table
    counter: str  # in the ledger
    per_unit: int = 1  # how many of the counter's units one of its own is


class UnitSavings(NamedTuple):
    """What a budget in one unit saves: a row of `compare_units`. None where it is not known."""

    budget: str
    limit: float | None = None
    n_units: int = 0
    n_stopped: int | None = None
    saved_usd: float | None = None
    saved_share: float | None = None
    saved_share_low: float | None = None
    saved_share_high: float | None = None
    largest_bill_usd: float | None = None
    unit: str = "run"


def compare_units(
    runs: Runs,
    stopped: float = 0.05,
    *,
    scope: Scope = "auto",
    weights: Mapping[str, float] = WEIGHTS,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """What budgets in different units save of a bill, each set so that it stops the same share of the runs on record.

    A bill is mostly context that is sent again, so a budget of steps or of fresh tokens does not see what most of it
    is made of. Each budget is the tightest that stops no more than that share.

    Args:
        runs: A run, runs, or the path of a store or of logs. Those whose cost is not known are left out.
        stopped: The largest share of runs, or of turns, that a budget may stop.
        scope: Where counters start again: see `bl.counterfactual`. Where they start again in each turn, turns are
            counted. A subagent's run is one of its own, with limits of its own.
        weights: The weights of the row `weighted`: see `bl.max_tokens`.
        confidence: Of the interval.

    Returns:
        A row for each unit, that which saves most first: budget (cost, in dollars; tokens, input and output; steps;
        weighted and fresh tokens; context, the tokens of the latest request and its response; minutes), limit,
        n_units (of which it is known), n_stopped, saved_usd, saved_share of the bill with its interval (of this limit,
        on other runs, none of them larger than the largest on record; by task, or by run where runs have several
        turns), largest_bill_usd that is left, and unit (run or turn). A limit is NA where it is not known, or where
        no run may be stopped: with a share of 0.05 that is below 20 runs. `attrs["bill_usd"]` is the bill.

    Raises:
        SettingError: if `stopped` is not between 0 and 1, or a weight is not accepted.

    Source: openai/codex pull request 28494, which limits weighted tokens in place of steps.

    Example:
        >>> import boolab as bl
        >>> usage = {"input_tokens": 900, "output_tokens": 9, "cost_usd": 0.1}
        >>> steps = [{"tool_calls": [{"name": f"look_{n}"}], "usage": usage} for n in range(8)]
        >>> end = {"text": "Done.", "usage": usage}
        >>> runs = [bl.run_sync(None, "go", model=bl.ScriptedModel([*steps[:n], end])) for n in (2, 3, 3, 8)]
        >>> bl.compare_units(runs, stopped=0.25).set_index("budget").loc["steps", ["limit", "n_stopped"]].tolist()
        [4.0, 1.0]
    """
    check_confidence(confidence)
    if not is_share(stopped):
        raise SettingError(f"compare_units: stopped={repr_of(stopped)}: expected a share between 0 and 1, such as 0.05")
    weighted = TokenCount.from_weights(weights)
    run_list = [run for run in distinct_runs(as_runs(runs))[0] if run.steps]
    ledger = (
        ledger_of(run_list, dict.fromkeys((FRESH, weighted)), scope, columns={_CONTEXT: _context_sizes})
        .split_spans()
        .apply_own_limits()
    )
    total, unknown = running_total(ledger, "cost")
    budgets = [
        _BudgetUnit("cost", "cost", MICRO), _BudgetUnit("tokens", "tokens"), _BudgetUnit("steps", "steps"),
        _BudgetUnit("weighted", weighted.name), _BudgetUnit("fresh", FRESH.name), _BudgetUnit("context", _CONTEXT),
        _BudgetUnit("minutes", "elapsed", 60_000),
    ]  # fmt: skip
    units = units_of(run_list, scope=scope, measures=())
    work = _UnitComparison(ledger, total, ~unknown, clusters_of(units)[0].to_numpy(), stopped, confidence)
    rows = sorted((work.savings(budget) for budget in budgets), key=lambda row: -(row.saved_usd or -1))
    frame = frame_of_columns(_COLUMNS, rows)
    bills = np.diff(total[ledger.first])[~unknown]
    frame.attrs |= {"bill_usd": int(bills.sum()) / MICRO, "stopped": stopped, "notes": work.notes()}
    return frame


_CONTEXT: Final = "context"


def _context_sizes(run: Run, _: str) -> list[int]:
    """The tokens of the context after each step: what was sent, and the response."""
    steps = chain.from_iterable(steps for _, steps in turns_of(run))
    usages = (step.response.usage for step in steps)
    sizes = [known_sum((usage.input_tokens, usage.output_tokens)) for usage in usages]
    return [UNKNOWN if size is None else size for size in sizes]


class _UnitComparison(NamedTuple):
    """Units with their bills."""

    ledger: Ledger
    total: Ints  # what all steps up to each one cost, in micro-dollars
    priced: Any  # R: whether the cost of the unit is known
    clusters: Any  # R: what it shares with others that are like it
    stopped: float
    confidence: float

    def savings(self, budget: _BudgetUnit) -> UnitSavings:
        """What the tightest limit on a counter saves that stops no more than the share."""
        ledger, noun = self.ledger, "turn" if self.ledger.by_turn else "run"
        peak = ledger.peak(budget.counter)
        is_known = self.priced & (peak != UNKNOWN_PEAK)
        n_units, peaks = int(is_known.sum()), np.sort(peak[is_known])
        n_allowed = int(self.stopped * n_units + 1e-9)  # 0.05 * 20 is below 1
        if not n_allowed:
            return UnitSavings(budget.name, n_units=n_units, unit=noun)
        limit = int(peaks[n_units - n_allowed - 1]) + 1
        end = self._ends(budget.counter, limit)
        bills = (self.total[ledger.first[1:]] - self.total[ledger.first[:-1]])[is_known]
        bills_left = (self.total[end] - self.total[ledger.first[:-1]])[is_known]
        saved = bills - bills_left
        low = high = None
        if bills.sum():
            share = ClusterBootstrap(self.clusters[is_known]).share(saved, bills, self.confidence)
            low, high = float(share.low), float(share.high)
        return UnitSavings(
            budget.name, limit / budget.per_unit, n_units, int((peaks >= limit).sum()), int(saved.sum()) / MICRO,
            int(saved.sum()) / int(bills.sum()) if bills.sum() else None, low, high,
            int(bills_left.max(initial=0)) / MICRO, noun,
        )  # fmt: skip

    def _ends(self, counter: str, limit: int) -> Ints:
        """R: the place after the last step of each unit under the limit."""
        ledger, end = self.ledger, self.ledger.first[1:].copy()
        fires = np.flatnonzero(ledger.boundary & (ledger.counters[counter] >= limit))
        owner = np.searchsorted(ledger.first, fires, side="right") - 1
        np.minimum.at(end, owner, fires + 1)
        return end

    def notes(self) -> tuple[str, ...]:
        """What is left out, as sentences."""
        n_unpriced = int((~self.priced).sum())
        noun = "turn" if self.ledger.by_turn else "run"
        verb = "is" if n_unpriced == 1 else "are"
        return (f"{count(n_unpriced, noun)} without a known cost {verb} left out.",) if n_unpriced else ()


def _field(name: str) -> Callable[[UnitSavings], Any]:
    return lambda row: getattr(row, name)


_TYPES: Final[Sequence[str]] = (TEXT, FLOAT, INT, INT, FLOAT, FLOAT, FLOAT, FLOAT, FLOAT, TEXT)
_COLUMNS: Final = tuple(
    Column(name, dtype, _field(name)) for name, dtype in zip(UnitSavings._fields, _TYPES, strict=True)
)
