"""What `boolab cost` prints of other context policies."""

from __future__ import annotations

from collections.abc import Sequence

from boolab.core.text import count
from boolab.display.text import align_columns, wrap_text
from boolab.errors import SettingError
from boolab.stats.cost.allocated import dollars_of
from boolab.stats.cost.context_costs import PolicyTotal, describe_change, describe_range, notes_of, total_of
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
        return f"{policy} they would have cost {describe_range(*ends)} if the steps stay the same."
    change = total.cost / recorded - 1
    bounds = "" if total.cost_is == "exact" else f" ({describe_range(*ends, change)})"
    # Exact costs need no assumption: the model cannot see what has changed.
    condition = "" if total.cost_is == "exact" else " if the steps stay the same"
    steps = total.break_even_steps
    n_steps = sum(len(row.record.requests) for row in total.rows)
    condition_steps = f"; it pays unless it adds {steps / n_steps:.0%} more steps" if steps and condition else ""
    return f"{policy} they would have cost {describe_change(change)}{bounds}{condition}{condition_steps}."


def threshold_sentence(basis: Basis) -> str:
    """The cheapest compaction threshold with its range; empty where none can be computed."""
    try:
        finding = threshold_finding(basis)
    except SettingError:
        return ""
    low, high = finding.flat_range
    n_runs = sum(not refusal for refusal in basis.refusals)
    length = f"{finding.threshold:,} tokens ({low:,} to {high:,})"
    n_enough = round(finding.share_with_steps * n_runs)
    return (
        f"Compaction would cost least at {length} if the steps stay the same: one pays after "
        f"{finding.break_even_steps} more steps, which {n_enough} of {count(n_runs, 'run')} had."
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


def _percent(part: int | None, total: int) -> str:
    return "" if part is None or not total else f"{part / total:.0%}"


def _dollars(units: int | None) -> str:
    return "" if units is None else f"${dollars_of(units):,.2f}"
