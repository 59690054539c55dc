"""What `boolab cost` prints of other context policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Final

from boolab.core.text import count
from boolab.display.text import align_columns, joined, wrap_text
from boolab.errors import SettingError
from boolab.stats.cost.allocated import dollars_of
from boolab.stats.cost.context_costs import (
    PolicyCosts,
    PolicyTotal,
    describe_change,
    describe_range,
    notes_of,
    total_of,
    total_under,
)
from boolab.stats.cost.context_policy import ContextPolicy
from boolab.stats.cost.policy_costs import Basis
from boolab.stats.cost.policy_walk import WalkCost
from boolab.stats.cost.threshold import ThresholdFinding, threshold_finding


def policies_text(basis: Basis, costs: PolicyCosts) -> str:
    """A row for each policy, over all runs, and a sentence about the one that costs least."""
    totals = [total for policy, rows in costs if (total := total_of(rows, policy)).rows]
    lines, sentences = [], []
    if totals:
        lines = _policy_lines(totals)
        sentences = [policy_sentence(min(totals, key=lambda total: total.estimate)), *_marks(totals)]
        if any(total.cost is None for total in totals):
            share = max(basis.read_again.values())
            sentences.append(
                f"Which files are named again is not on record: at most is with {share:.0%} of what is "
                "removed read again, and more is possible."
            )
    return "\n".join(
        [*lines, *map(wrap_text, [*sentences, *notes_of(basis, chain.from_iterable(rows for _, rows in costs))])]
    )


def _policy_lines(totals: Sequence[PolicyTotal]) -> list[str]:
    """The table; what all policies have in common stands once above it, because a line has 80 columns."""
    names = [str(total.policy).split(", ") for total in totals]
    common = [part for part in names[0] if len(names) > 1 and all(part in parts for parts in names)]
    rows = [
        [
            ", ".join(part for part in parts if part not in common) or "the same",
            *map(_dollars, (total.cost, total.lower, total.upper)),
            _percent(total.saved, total.recorded),
            f"{total.sum_of('changes'):,}",
            "" if total.cost is None else f"{total.sum_of('reads_again'):,}",
        ]
        for parts, total in zip(names, totals, strict=True)
    ]
    head = ["policy", "cost", "at least", "at most", "saved", "changes", "reads"]
    recorded = ["as recorded", _dollars(totals[0].recorded), *[""] * (len(head) - 2)]
    n_runs = count(len(totals[0].rows), "run")
    title = f"{n_runs} under other policies{f', all with {joined(common)}' if common else ''}:"
    return [wrap_text(title), *align_columns([head, recorded, *rows])]


def policy_sentence(total: PolicyTotal) -> str:
    """What runs would have cost under a policy, as a sentence; never a word about what they would have done."""
    policy, change = f"With {total.policy}", _describe_total(total)
    if not change:
        return f"{policy} the cost is not known."
    if total.cost is None:
        return f"{policy} they would have cost {change} if the steps stay the same."
    # Exact costs need no assumption: the model cannot see what has changed.
    condition = "" if total.cost_is == "exact" else " if the steps stay the same"
    steps = total.break_even_steps
    n_steps = sum(len(row.record.requests) for row in total.rows)
    condition_steps = f"; it pays unless it adds {steps / n_steps:.0%} more steps" if steps and condition else ""
    return f"{policy} they would have cost {change}{condition}{condition_steps}."


def _describe_total(total: PolicyTotal) -> str:
    """The change of the bill under a policy, with its bounds; empty where it is not known."""
    if total.lower is None or total.upper is None or not total.recorded:
        return ""
    ends = (total.lower / total.recorded - 1, total.upper / total.recorded - 1)
    if total.cost is None:
        return describe_range(*ends)
    change = total.cost / total.recorded - 1
    is_one_amount = len({f"{share:.0%}" for share in (*ends, change)}) == 1
    return describe_change(change) + ("" if is_one_amount else f" ({describe_range(*ends, change)})")


def threshold_sentence(basis: Basis) -> str:
    """The cheapest compaction threshold with its range, and the bill with it; empty where none can be computed.

    The threshold is a law for long runs, so what these runs would have cost with it may be more than their bill.
    """
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
        f"{_effect(basis, finding)}"
    )


def _effect(basis: Basis, finding: ThresholdFinding) -> str:
    """What the runs would have cost with a threshold, as a sentence; empty where no prompt reaches it, or in facts."""
    total = total_under(basis, ContextPolicy(compact_at=finding.threshold))
    change = "" if total.cost is None or not total.sum_of("changes") else _describe_total(total)
    return f" With it the recorded steps would have cost {change}." if change else ""


def _marks(totals: Sequence[PolicyTotal]) -> list[str]:
    """How many runs cannot keep to a policy, a sentence for each reason."""
    sentences = []
    for words, is_marked in _MARKS.items():
        numbers = [(sum(row.walk is not None and is_marked(row.walk) for row in total.rows), total) for total in totals]
        parts = [
            f"{number:,} of {count(len(total.rows), 'run')} with {total.policy}" for number, total in numbers if number
        ]
        sentences += [f"{words}: {'; '.join(parts)}."] if parts else []
    return sentences


_MARKS: Final[Mapping[str, Callable[[WalkCost], bool]]] = {
    "Compact at every step": lambda walk: walk.is_crowded,
    "Exceed the window": lambda walk: walk.over_window_at is not None,
}


def _percent(part: int | None, total: int) -> str:
    return "" if part is None or not total else f"{round(100 * part / total)}%"  # never -0%


def _dollars(units: int | None) -> str:
    return "" if units is None else f"${dollars_of(units):,.2f}"
