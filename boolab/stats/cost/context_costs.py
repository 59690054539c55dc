"""`context_costs`: the bill of recorded runs under other context policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain, product
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from boolab.errors import SettingError, near
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT, Column, frame_of_columns
from boolab.frames.runs import Runs
from boolab.io.checks import repr_of
from boolab.stats.cost.allocated import allocate_runs, dollars_of
from boolab.stats.cost.context_policy import ContextPolicy
from boolab.stats.cost.policy_costs import (
    Basis,
    PolicyCost,
    basis_of,
    break_even_steps,
    costs_under,
    ratio_sentence,
    refusal_notes,
)
from boolab.stats.cost.request_record import RequestRecord

if TYPE_CHECKING:
    import pandas as pd

ASSUMPTION: Final = (
    "Exact up to the first change; then the recorded steps, outputs and results are assumed. The outcome is not on "
    "record: bl.trial with a bl.Compaction measures it."
)
_FIELDS: Final = tuple(field.name for field in fields(ContextPolicy))


def context_costs(
    runs: Runs,
    policies: ContextPolicy | str | Iterable[ContextPolicy | str] = (),
    *,
    grid: Mapping[str, Iterable[Any]] | None = None,
    aggregate: bool = False,
) -> pd.DataFrame:
    """What recorded runs would have cost under other context policies, if their steps stay the same.

    The requests of a run are walked through with the same outputs, results and pauses, and with the prompts of the
    policy. Up to the first change this is exact; with `cache=` alone it is exact to the end, because a model cannot see
    it. After a change the recorded steps are assumed, so this is about money and never about outcomes.

    Args:
        runs: A run, runs, or the path of a store or of logs.
        policies: `bl.ContextPolicy` values, or names that `bl.ContextPolicy.preset` knows.
        grid: Values by field of the policy; each combination is one more policy.
        aggregate: A row for each policy, over all runs that can be computed with.

    Returns:
        A row for each run and policy. `policy` and its fields; recorded_usd (the bill), of which unlogged_usd is
        estimated (the requests for summaries that no line has); cost_usd, the estimate: each file that is removed and
        named later is read once more; cost_lower (nothing is read again) and cost_upper (the highest share of removed
        results that the record's own compactions brought back is read again, at least 30% with fewer than five of them:
        a run may read more); saved (dollars) and saved_share; exact_until_step and exact_usd; changes (compactions and
        clearings); reads_again;
        extra_requests_usd (what summaries and reads cost); break_even_steps (saved over the recorded mean of a step);
        break_even_share (of the removed results, read again, that costs what is saved); compacts_every_step (the base,
        the summary and the kept steps are more than 80% of the threshold); over_window_at (the first step whose prompt
        is longer than the model's window); cost_is (`exact`, `by reference`, `bounds` where arguments are not on
        record, `estimated`); identified (whether the cost is) and not_identified; walk_ratio (the walk under the
        recorded policy over the bill) and refused (why a row has no cost).

        With `aggregate`: the same summed up, with n_runs and n_refused, and the numbers of runs that compact at every
        step and that exceed the window. `attrs["notes"]` has what all of it rests on.

    Raises:
        SettingError: if there is no policy, or one is not valid.

    Example:
        >>> import boolab as bl
        >>> bl.context_costs([], grid={"compact_at": [60_000, 90_000], "keep_steps": [0, 1]}).empty
        True
    """
    policy_list = policies_of(policies, grid)
    basis = basis_of(allocate_runs(runs))
    costs = [(policy, costs_under(basis, policy)) for policy in policy_list]
    return costs_frame(basis, costs, aggregate=aggregate)


PolicyCosts: TypeAlias = Sequence[tuple[ContextPolicy, Sequence[PolicyCost]]]
"""Policies, each with what the runs would cost under it."""


def costs_frame(basis: Basis, costs: PolicyCosts, *, aggregate: bool = False) -> pd.DataFrame:
    """The frame of `context_costs`, of costs that are known."""
    rows_of_policies = [rows for _, rows in costs]
    if aggregate:
        frame = frame_of_columns(_TOTAL_COLUMNS, [total_of(rows, policy) for policy, rows in costs])
    else:
        frame = frame_of_columns(_COLUMNS, [*chain.from_iterable(zip(*rows_of_policies, strict=True))])
    frame.attrs["notes"] = notes_of(basis, chain.from_iterable(rows_of_policies))
    return frame


def policies_of(
    policies: ContextPolicy | str | Iterable[ContextPolicy | str], grid: Mapping[str, Iterable[Any]] | None
) -> list[ContextPolicy]:
    """The policies of a question, those of its grid last."""
    items = [policies] if isinstance(policies, ContextPolicy | str) else [*policies]
    result = []
    for policy in items:
        if not isinstance(policy, ContextPolicy | str):
            raise SettingError(f"policies: {policy!r} is no bl.ContextPolicy, and no name of one")
        result.append(ContextPolicy.preset(policy) if isinstance(policy, str) else policy)
    if grid:
        for name in grid:
            if name not in _FIELDS:
                raise SettingError(f"grid: a context policy has no {name!r}{near(name, _FIELDS, 'accepted')}")
            value_list: object = grid[name]
            if not isinstance(value_list, Iterable):
                raise SettingError(f"grid: {name}={repr_of(value_list)}: expected values in a list")
        values = [[value] if isinstance(value, str) else [*value] for value in grid.values()]
        result += [ContextPolicy(**dict(zip(grid, combination, strict=True))) for combination in product(*values)]
    if not result:
        msg = "no policy: pass bl.ContextPolicy(compact_at=70_000), or grid={'compact_at': [60_000, 90_000]}"
        raise SettingError(msg)
    return result


def describe_change(share: float) -> str:
    """A change of the bill in words: `24% less`."""
    amount = f"{abs(share):.0%}"
    return "about the same" if amount == "0%" else f"{amount} {'less' if share < 0 else 'more'}"


def describe_range(low: float, high: float, change: float | None = None) -> str:
    """The range of a change; without a sign where both ends have that of the change, which stands beside it."""
    if (low < 0) == (high < 0):
        first, second = sorted((abs(low), abs(high)))
        is_named = change is not None and (change < 0) == (low < 0)
        return f"{first:.0%} to {f'{second:.0%}' if is_named else describe_change(second if high > 0 else -second)}"
    return f"{describe_change(low)} to {describe_change(high)}"


def notes_of(basis: Basis, rows: Iterable[PolicyCost]) -> tuple[str, ...]:
    """What the costs of runs under some policies rest on, as sentences."""
    refusals = {(id(row.record), row.refusal): row.refusal for row in rows}.values()
    if not any(not refusal for refusal in refusals):
        return refusal_notes(refusals)
    notes = [ASSUMPTION, ratio_sentence(basis), *refusal_notes(refusals)]
    return (*notes, *unlogged_notes(basis.records))


def unlogged_notes(records: Iterable[RequestRecord]) -> list[str]:
    """How much of the recorded cost of some runs is estimated, as a sentence if any is."""
    unlogged = dollars_of(sum(record.unlogged_units for record in records))
    if not unlogged:
        return []
    return [f"About ${unlogged:,.2f} of the recorded cost is estimated: no line has the requests for summaries."]


def _usd(units: int | None) -> float | None:
    return None if units is None else dollars_of(units)


def _saved(row: PolicyCost) -> int | None:
    return None if row.cost is None else row.recorded - row.cost


def _share(part: int | None, total: int) -> float | None:
    return None if part is None or not total else part / total


def _of_walk(name: str) -> Callable[[PolicyCost], Any]:
    return lambda row: None if row.walk is None else getattr(row.walk, name)


def _break_even(row: PolicyCost) -> float | None:
    saved, record = _saved(row), row.record
    return None if saved is None else break_even_steps(saved, row.recorded, len(record.requests))


def _policy_column(name: str, dtype: str) -> Column:
    return Column(name, dtype, lambda row: getattr(row.policy, name))


_OF_POLICY: Final = (
    Column("policy", TEXT, lambda row: str(row.policy)),
    _policy_column("compact_at", INT),
    _policy_column("keep_steps", INT),
    Column("summary_tokens", INT, lambda row: row.summary_tokens),
    _policy_column("clear_at", INT),
    _policy_column("clear_keep", INT),
    _policy_column("cut_results", INT),
    _policy_column("cold_at", INT),
    _policy_column("cache", TEXT),
)
_COLUMNS: Final = (
    Column("run_id", TEXT, lambda row: row.record.run.run_id),
    *_OF_POLICY,
    Column("recorded_usd", FLOAT, lambda row: None if row.refusal else dollars_of(row.recorded)),
    Column("unlogged_usd", FLOAT, lambda row: None if row.refusal else dollars_of(row.record.unlogged_units)),
    Column("cost_usd", FLOAT, lambda row: _usd(row.cost)),
    Column("cost_lower", FLOAT, lambda row: _usd(row.lower)),
    Column("cost_upper", FLOAT, lambda row: _usd(row.upper)),
    Column("saved", FLOAT, lambda row: _usd(_saved(row))),
    Column("saved_share", FLOAT, lambda row: _share(_saved(row), row.recorded)),
    Column("exact_until_step", INT, _of_walk("exact_until")),
    Column("exact_usd", FLOAT, lambda row: None if row.walk is None else dollars_of(row.walk.exact_units)),
    Column("changes", INT, _of_walk("changes")),
    Column("reads_again", INT, lambda row: None if row.cost is None or row.walk is None else row.walk.reads_again),
    Column("extra_requests_usd", FLOAT, lambda row: None if row.walk is None else dollars_of(row.walk.extra_units)),
    Column("break_even_steps", FLOAT, _break_even),
    Column("break_even_share", FLOAT, lambda row: row.break_even_share),
    Column("compacts_every_step", FLAG, _of_walk("is_crowded")),
    Column("over_window_at", INT, _of_walk("over_window_at")),
    Column("cost_is", TEXT, lambda row: row.cost_is),
    Column("identified", FLAG, lambda row: None if row.refusal else row.cost_is == "exact"),
    Column("not_identified", TEXT, lambda row: "; ".join(row.not_identified)),
    Column("walk_ratio", FLOAT, lambda row: row.ratio),
    Column("refused", TEXT, lambda row: row.refusal or None),
)


class PolicyTotal(NamedTuple):
    """What several runs cost under one policy, in units; None where that of one of them is not known."""

    policy: ContextPolicy
    rows: Sequence[PolicyCost]
    n_refused: int
    recorded: int
    cost: int | None
    lower: int | None
    upper: int | None

    @property
    def estimate(self) -> int:
        """What it costs by reference; where arguments are not on record, at most."""
        return self.cost if self.cost is not None else self.upper or 0

    @property
    def saved(self) -> int | None:
        """What is saved by the estimate."""
        return None if self.cost is None else self.recorded - self.cost

    @property
    def break_even_steps(self) -> float | None:
        """How many more steps of all runs cost what is saved."""
        n_requests = sum(len(row.record.requests) for row in self.rows)
        return None if self.saved is None else break_even_steps(self.saved, self.recorded, n_requests)

    @property
    def cost_is(self) -> str | None:
        """The least certain kind of cost among the runs."""
        kinds = {row.cost_is for row in self.rows}
        return next((kind for kind in ("bounds", "by reference", "estimated", "exact") if kind in kinds), None)

    def sum_of(self, name: str) -> int | None:
        """The sum of a number of each walk."""
        return sum(getattr(row.walk, name) for row in self.rows) if self.rows else None


def total_of(rows: Sequence[PolicyCost], policy: ContextPolicy) -> PolicyTotal:
    """The rows of one policy as one: of the runs that can be computed with."""
    priced = [row for row in rows if not row.refusal]
    recorded = sum(row.recorded for row in priced)
    costs = (_sum_known([getattr(row, name) for row in priced]) for name in ("cost", "lower", "upper"))
    return PolicyTotal(policy, priced, len(rows) - len(priced), recorded, *costs)


def total_under(basis: Basis, policy: ContextPolicy) -> PolicyTotal:
    """What all runs that can be computed with cost under a policy."""
    return total_of(costs_under(basis, policy), policy)


def _sum_known(amounts: Sequence[int | None]) -> int | None:
    known_amounts = [amount for amount in amounts if amount is not None]
    return sum(known_amounts) if amounts and len(known_amounts) == len(amounts) else None


def _total_summary(total: PolicyTotal) -> int | None:
    summaries = {row.summary_tokens for row in total.rows}
    return summaries.pop() if len(summaries) == 1 else None


_TOTAL_COLUMNS: Final = (
    *(column for column in _OF_POLICY if column.name != "summary_tokens"),
    Column("summary_tokens", INT, _total_summary),
    Column("n_runs", INT, lambda total: len(total.rows)),
    Column("n_refused", INT, lambda total: total.n_refused),
    Column("recorded_usd", FLOAT, lambda total: dollars_of(total.recorded)),
    Column("unlogged_usd", FLOAT, lambda total: dollars_of(sum(row.record.unlogged_units for row in total.rows))),
    Column("cost_usd", FLOAT, lambda total: _usd(total.cost)),
    Column("cost_lower", FLOAT, lambda total: _usd(total.lower)),
    Column("cost_upper", FLOAT, lambda total: _usd(total.upper)),
    Column("saved", FLOAT, lambda total: _usd(total.saved)),
    Column("saved_share", FLOAT, lambda total: _share(total.saved, total.recorded)),
    Column("exact_usd", FLOAT, lambda total: _usd(total.sum_of("exact_units"))),
    Column("changes", INT, lambda total: total.sum_of("changes")),
    Column("reads_again", INT, lambda total: None if total.cost is None else total.sum_of("reads_again")),
    Column("extra_requests_usd", FLOAT, lambda total: _usd(total.sum_of("extra_units"))),
    Column("break_even_steps", FLOAT, lambda total: total.break_even_steps),
    Column("n_compacting_every_step", INT, lambda total: total.sum_of("is_crowded")),
    Column("n_over_window", INT, lambda total: sum(row.walk.over_window_at is not None for row in total.rows)),
    Column("cost_is", TEXT, lambda total: total.cost_is),
)
