"""What the branches of a trial cost: those that ended, those that were run again, and those that were interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from boolab.core.run import Run
from boolab.core.run_tree import descendants
from boolab.core.types import MICRO, Step
from boolab.frames.runs import own_part, sum_usage
from boolab.store.select import INTERRUPTED
from boolab.sweeps.progress import Bar, Begun, CellResult, Watcher
from boolab.sweeps.task import NOT_RETURNED

_ROUNDING: Final = 1e-12


class Charge(NamedTuple):
    """What an attempt at a branch counts."""

    dollars: float  # the cost of its requests; of one without a known cost, the most that it may have been
    is_known: bool = True  # whether each of them has a known cost


def charge_of(attempt: Sequence[Run], limit: float) -> Charge:
    """What an attempt at a branch counts.

    A request that failed before any output costs nothing. A request that was under way when the branch was interrupted
    counts as much as the most expensive one of the branch: its response is not on record. Where the cost of another
    request is not known, the attempt counts as the limit; so does one in another process that ended before it returned.

    `limit`: the most that a branch may cost, in dollars.
    """
    branch, *subagent_runs = attempt
    own_run = own_part(branch)
    costs = [_cost_of(step) for step in own_run.steps]
    expensive = max((step.response.usage.cost or 0 for step in branch.steps), default=0) or None
    if branch.error and any(event.payload.get("code") == NOT_RETURNED for event in branch.events):
        costs.append(None)
    elif branch.error == INTERRUPTED:  # the process ended: a request may have come after the last step on record
        costs.append(expensive)
    elif branch.stop.reason == "aborted" and own_run.steps and own_run.steps[-1].response.usage.cost is None:
        costs[-1] = expensive
    costs += [usage.cost for usage in own_run.outside]
    costs += [sum_usage(child, "cost") for child in (*subagent_runs, *descendants(branch))]
    known_dollars = sum(cost for cost in costs if cost is not None) / MICRO
    return Charge(max(known_dollars, limit), is_known=False) if None in costs else Charge(known_dollars)


def _cost_of(step: Step) -> int | None:
    """What a request of the loop cost in micro-dollars; nothing if it failed before any output."""
    response = step.response
    empty = not (response.text or response.reasoning or response.tool_calls)
    return 0 if step.error and empty and response.usage.cost is None else response.usage.cost


class Spending:
    """Counts what the branches of a trial cost while they run, and shows it beside the progress.

    It is the watcher of a sweep. `may_start` keeps the total within the maximum: each branch under way counts with the
    most that it may cost. Once it has ended, it counts with what it cost, so that another may fit.

    `maximum`: of the whole trial, in dollars. `earlier`: the spending before; with a store, that is counted from
    the attempts in it.
    """

    def __init__(
        self,
        ids: Sequence[str],
        maximum: float | None,
        cost_limit: float | None,
        watcher: bool | Watcher,
        earlier: Spending | None = None,
    ) -> None:
        self.spent: float = 0.0 if earlier is None else earlier.spent
        self.unknown: set[str] = set() if earlier is None else set(earlier.unknown)
        """The ids of the branches that report no cost."""
        self.stopped = False
        """Whether not even one more branch fits."""
        self._ids = ids
        self._maximum = maximum
        self._limit = cost_limit or 0.0
        self.under_way = 0
        """How many branches have started, and not ended."""
        self._find: Callable[[str], Sequence[Run]] = lambda _run_id: ()
        self._watcher: Watcher | None = (_CostBar(self) if watcher else None) if isinstance(watcher, bool) else watcher

    def may_start(self) -> bool:
        """Whether one more branch fits; it counts as started then."""
        if self._maximum is not None:
            maximum = self.spent + (self.under_way + 1) * self._limit
            if maximum > self._maximum * (1 + _ROUNDING):
                self.stopped = not self.under_way
                return False
        self.under_way += 1
        return True

    def begin(self, beginning: Begun) -> None:
        """Count what the store has already."""
        self._find = beginning.find
        if beginning.store is not None:
            self.count_store(beginning.store)
        if self._watcher is not None:
            self._watcher.begin(beginning)

    def add(self, result: CellResult) -> None:
        """Count one more branch."""
        self.under_way -= 1
        attempt = self._find(result.run_id)
        if attempt:
            self.count(attempt)
        else:  # it is not written yet
            self._add(result.run_id, self._charge_of_result(result))
        if self._watcher is not None:
            self._watcher.add(result)

    def end(self, error: BaseException | None) -> None:
        """Pass the end on."""
        if self._watcher is not None:
            self._watcher.end(error)

    def count(self, attempt: Sequence[Run]) -> None:
        """Count an attempt at a branch."""
        self._add(attempt[0].run_id, charge_of(attempt, self._limit))

    def count_store(self, store: str | Path) -> None:
        """Count all attempts in a store, and nothing else."""
        from boolab.store.stored_runs import attempts

        self.spent, self.unknown = 0.0, set()
        for _, attempt in attempts(store, self._ids):
            self.count(attempt)

    def _add(self, run_id: str, charge: Charge) -> None:
        self.spent += charge.dollars
        if not charge.is_known:
            self.unknown.add(run_id)

    def _charge_of_result(self, result: CellResult) -> Charge:
        own_dollars = result.own_cost_usd
        return Charge(self._limit, is_known=False) if own_dollars is None else Charge(own_dollars)


class _CostBar(Bar):
    """The bar of a sweep, with what was spent so far."""

    def __init__(self, spending: Spending) -> None:
        self._spending = spending

    def begin(self, beginning: Begun) -> None:
        super().begin(beginning)
        self._bar.set_description("trial")
        self._bar.unit = "branch"

    def add(self, result: CellResult) -> None:
        super().add(result)
        if self._spending.spent:
            self._bar.set_description(f"trial, ${self._spending.spent:,.2f} spent", refresh=False)
