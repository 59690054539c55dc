"""What `boolab cost` prints of other context policies."""

from __future__ import annotations

from collections.abc import Sequence

from boolab.core.text import count
from boolab.display.text import align_columns, wrap_text
from boolab.errors import SettingError
from boolab.stats.cost.allocated import dollars_of
from boolab.stats.cost.context_costs import PolicyTotal, notes_of, total_of
from boolab.stats.cost.context_policy import ContextPolicy
from boolab.stats.cost.policy_costs import Basis, cost_under
from boolab.stats.cost.threshold import threshold_finding


def policies_text(basis: Basis, policies: Sequence[ContextPolicy]) -> str:
    """A row for each policy, over all runs, and a sentence about the one that costs least."""
    indices = range(len(basis.records))
    totals = [total_of([cost_under(basis, index, policy) for index in indices], policy) for policy in policies]
    rows = [
        [
            str(total.policy),
            _dollars(total.cost),
            f"{_dollars(total.lower)} to {_dollars(total.upper)}",
            _percent(total.saved, total.recorded),
            str(total.sum_of("changes")),
            "" if total.cost is None else str(total.sum_of("reads_again")),
            _mark(total),
        ]
        for total in totals
        if total.rows
    ]
    lines = align_columns([["policy", "cost", "range", "saved", "changes", "reads", ""], *rows]) if rows else []
    cheapest = min((total for total in totals if total.rows), key=_lead, default=None)
    sentences = [] if cheapest is None else [policy_sentence(cheapest)]
    return "\n".join(line.rstrip() for line in [*lines, *map(wrap_text, [*sentences, *notes_of(basis)])])


def policy_sentence(total: PolicyTotal) -> str:
    """What runs would have cost under a policy, as a sentence; never a word about what they would have done."""
    policy, recorded = f"With {total.policy}", total.recorded
    if total.lower is None or total.upper is None or not recorded:
        return f"{policy} the cost is not known."
    ends = (total.lower / recorded - 1, total.upper / recorded - 1)
    if total.cost is None:
        return f"{policy} they would have cost {_range(*ends)} if the steps stay the same."
    change = total.cost / recorded - 1
    bounds = "" if total.cost_is == "exact" else f" ({_range(*ends)})"
    # Exact costs need no assumption: the model cannot see what has changed.
    condition = "" if total.cost_is == "exact" else " if the steps stay the same"
    steps = total.break_even_steps
    n_steps = sum(len(row.record.requests) for row in total.rows)
    unless = f"; it pays unless it adds {steps / n_steps:.0%} more steps" if steps and condition else ""
    return f"{policy} they would have cost {_change(change)}{bounds}{condition}{unless}."


def threshold_sentence(basis: Basis) -> str:
    """The cheapest compaction threshold with its range; empty where none can be computed."""
    try:
        found = threshold_finding(basis)
    except SettingError:
        return ""
    low, high = found.flat_range
    n_runs = sum(not refusal for refusal in basis.refusals)
    return (
        f"Compaction would cost least at {found.threshold:,} tokens ({low:,} to {high:,}) if the steps stay the same: "
        f"one pays after {found.break_even_steps} more steps, which {round(found.share_with_steps * n_runs)} of "
        f"{count(n_runs, 'run')} had."
    )


def _lead(total: PolicyTotal) -> int:
    return (total.upper or 0) if total.cost is None else total.cost


def _mark(total: PolicyTotal) -> str:
    marks = []
    if total.sum_of("is_crowded"):
        marks.append("compacts at every step")
    if any(row.walk is not None and row.walk.over_window_at is not None for row in total.rows):
        marks.append("exceeds the window")
    return ", ".join(marks)


def _range(low: float, high: float) -> str:
    """The range of a change: its sign once, where both ends have the same."""
    if (low < 0) == (high < 0):
        first, second = sorted((abs(low), abs(high)))
        return f"{first:.0%} to {second:.0%} {'less' if low < 0 else 'more'}"
    return f"{abs(low):.0%} less to {high:.0%} more"


def _change(share: float) -> str:
    return f"{abs(share):.0%} {'less' if share < 0 else 'more'}"


def _percent(part: int | None, total: int) -> str:
    return "" if part is None or not total else f"{part / total:.0%}"


def _dollars(units: int | None) -> str:
    return "" if units is None else f"${dollars_of(units):,.2f}"
