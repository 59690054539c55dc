"""The loosest limit under which a unit is shown to stay within a budget, with a given frequency.

The values of one limit are tested from tight to loose, and accepted while the record shows that at most a share of
1 - `share` of the units costs more than the budget, up to the first value that fails. What a unit costs only grows
along the way, so the first value under which too many cost more passes with a probability of at most the error, and the
last accepted one may be set (fixed sequences: Maurer, Hothorn and Lehmacher 1995). One value is tested on whole tasks,
as in `boolab.stats.kept_share`, a unit that costs more being lost. A unit whose cost is not known costs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from boolab.core.types import MICRO
from boolab.errors import SettingError
from boolab.stats.kept_share import keeps_enough, kept_bound, tasks_missing
from boolab.stats.recommend.candidates import Candidates, rows_under, sums_of
from boolab.stats.recommend.choice import Candidate, Choice, PathFinding
from boolab.stats.recommend.fixed_sequence import Path, PathResult
from boolab.stats.recommend.question import Budget, Question
from boolab.stats.recommend.units import base_of, named_clusters
from boolab.whatif.grid import Grid
from boolab.whatif.step_table import LABEL, Ints, Ledger

Costs = npt.NDArray[np.float64]
_NO_UNITS: Final = np.zeros(0, dtype=np.int64)


class BudgetFinding(NamedTuple):
    """What a group shows about a budget.

    Attributes:
        n_over: How many units cost more under the candidate.
        n_over_without: How many cost more without a limit.
        n_unknown: How many units have no known cost; each counts as one that costs more.
        n_units: How many units there are.
        bound: The share of units to come that costs more is at most this, by itself.
        largest: The dearest unit under the candidate, in micro-dollars; None if no cost is known.
        largest_without: The dearest without a limit.
        next_value: The next looser value, which is not shown; None if none follows.
        kept_bound: The lower bound of the share of successes that is kept, by itself; None without labels.
    """

    n_over: int
    n_over_without: int
    n_unknown: int
    n_units: int
    bound: float
    largest: int | None
    largest_without: int | None
    next_value: Any
    kept_bound: float | None


def budget_of(budget: float | None, share: float, dependence: str) -> Budget | None:
    """The checked arguments of `recommend`; None where no budget is asked for."""
    if budget is None:
        return None
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < float("inf"):
        raise SettingError(f"budget={budget!r}: expected dollars above 0, such as 0.50")
    if dependence != "tasks":
        msg = f"dependence={dependence!r}: a budget is shown for tasks like those on record: leave dependence out"
        raise SettingError(msg)
    return Budget(round(budget * MICRO), share)


class _Units:
    """The costs of the units of a group under one setting after another.

    Runs that share a success are one unit, and cost what they cost together.
    """

    def __init__(self, units: Ledger, clusters: Ints, question: Question) -> None:
        self._units, self._question = units, question
        self.owner = np.arange(units.n_runs) if units.unit is None else np.unique(units.unit, return_inverse=True)[1]
        self.n_units = int(self.owner.max(initial=-1)) + 1
        self.tasks = np.zeros(self.n_units, dtype=np.int64)
        self.tasks[self.owner] = clusters
        self.sizes = np.bincount(self.tasks)
        self.noun = "task" if len(self.sizes) > 1 and _names_tasks(units) else "run"

    def costs(self, setting: dict[str, Any]) -> Costs:
        """The micro-dollars of each unit; infinite where they are not known."""
        rows = rows_under(self._units, self._question.settings({name: [value] for name, value in setting.items()}))
        costs = rows["cost_usd"].to_numpy(np.float64, na_value=np.inf) * MICRO
        costs[np.asarray(rows["outcome"] == "unknown", dtype=bool)] = np.inf
        return np.asarray(np.bincount(self.owner, weights=costs, minlength=self.n_units), dtype=np.float64)

    def over_by_task(self, setting: dict[str, Any], amount: int) -> Ints:
        """How many units of each task cost more."""
        return np.bincount(self.tasks[np.rint(self.costs(setting)) > amount], minlength=len(self.sizes))


def _names_tasks(units: Ledger) -> bool:
    """Whether several tasks are named."""
    return "task" in units.runs and len(units.runs["task"].dropna().unique()) > 1


def tasks_of_units(units: Ledger) -> Ints:
    """R: the task of each run, from 0; where all are of one task, its runs."""
    names = named_clusters(units)
    if len(names.unique()) == 1:
        names = units.runs["run_id"]
    return np.unique(names.astype(str).to_numpy(dtype=str), return_inverse=True)[1].astype(np.int64)


def fit_budget(candidates: Candidates, budget: Budget) -> tuple[Choice, BudgetFinding]:
    """The loosest value of a limit that is shown to stay within a budget, and what the group shows.

    Args:
        candidates: The units, and the values of one limit.
        budget: What is asked.

    Returns:
        The choice: `best` is None where no value is shown, and where no limit is needed; `tightest` is then the value
        that is tested first.
    """
    question, ledger = candidates.question, candidates.units
    name = question.order[0]
    units = _Units(ledger, tasks_of_units(ledger), question)
    values = [*candidates.values_of(name), None]
    settings: list[dict[str, Any]] = [{} if value is None else {name: value} for value in values]

    def passes(index: int) -> bool:
        n_over = units.over_by_task(settings[index], budget.amount)
        return bool(keeps_enough(n_over, units.sizes, budget.share, question.error))

    n_accepted, n_open = 0, len(settings)  # what units cost only grows, so all before the first failure pass
    while n_accepted < n_open:
        middle = (n_accepted + n_open) // 2
        n_accepted, n_open = (middle + 1, n_open) if passes(middle) else (n_accepted, middle)
    setting = settings[max(n_accepted - 1, 0)]
    n_over = units.over_by_task(setting, budget.amount)
    costs, free_costs = units.costs(setting), units.costs({})
    choice = _choice(candidates, units, budget, setting, n_over, n_accepted)
    finding = BudgetFinding(
        n_over=int(n_over.sum()),
        n_over_without=int((np.rint(free_costs) > budget.amount).sum()),
        n_unknown=int(np.isinf(free_costs).sum()),
        n_units=units.n_units,
        bound=1 - float(kept_bound(n_over, units.sizes, question.error)),
        largest=_largest(costs),
        largest_without=_largest(free_costs),
        next_value=values[n_accepted] if 0 < n_accepted < len(values) else None,
        kept_bound=choice.best.bound if choice.best and choice.successes and ledger.success_by == LABEL else None,
    )
    return choice, finding


def _choice(
    candidates: Candidates, units: _Units, budget: Budget, setting: dict[str, Any], n_over: Ints, n_accepted: int
) -> Choice:
    """The setting as a choice: its tasks are those of all units, and `missing` are tasks without a dear unit."""
    question, ledger = candidates.question, candidates.units
    sums, total = sums_of(ledger, setting, question), sums_of(ledger, {}, question)[question.measure]
    n_good = int(base_of(ledger).sum())
    n_lost = n_good - sums["kept_lower"]
    name = question.order[0]
    candidate = Candidate(name, setting, n_lost, sums[f"saved_{question.measure}"], candidates.bound_of(setting))
    result = PathResult(Path(name, 0, _NO_UNITS, 1.0), question.error, n_accepted)
    path = PathFinding(
        result, {name: setting.get(name)} if n_accepted else None, n_lost, candidate.saved, candidate.bound
    )
    missing = 0 if n_accepted else tasks_missing(n_over, units.sizes, budget.share, question.error)
    return Choice(
        best=candidate if n_accepted and setting else None,
        tightest=candidate if setting else None,
        last_step=None,
        next_step=None,
        paths=(path,),
        missing=missing,
        successes=n_good,
        tasks=int(np.count_nonzero(units.sizes)),
        largest=int(units.sizes.max(initial=0)),
        keep_possible=0.0,
        cluster=units.noun,
        spent=total,
    )


def _largest(costs: Costs) -> int | None:
    known_costs: Sequence[float] = costs[np.isfinite(costs)].tolist()
    return round(max(known_costs)) if known_costs else None


def order_for_budget(order: Sequence[str], grid: Grid | None) -> tuple[str, ...]:
    """The one limit that a budget is asked of: the first, or that of a grid; `SettingError` if this has several."""
    if grid is not None and len(grid) != 1:
        msg = "budget=: expected the values of one limit, such as grid={'max_steps': range(1, 101)}"
        raise SettingError(f"{msg}, not of {len(grid)}")
    return tuple(order[:1])
