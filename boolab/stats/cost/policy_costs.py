"""What a run would cost under a context policy: bounds, an estimate by reference, and what is not identified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import median_low
from typing import Final, NamedTuple

from boolab.core.text import count
from boolab.stats.cost.allocated import AllocatedRun
from boolab.stats.cost.context_policy import ContextPolicy
from boolab.stats.cost.policy_walk import WalkCost, walk_policy
from boolab.stats.cost.request_record import SUMMARY_TOKENS, RequestRecord, record_of

MAX_RATIO_ERROR: Final = 0.03
"""By how much the walk under the recorded policy may miss the bill."""
_MAX_SUMMARY_TOKENS: Final = 9_000
_READ_AGAIN: Final = 0.3
"""The share of removed results that is read again at most, where the record does not show it."""
_LEAST_COMPACTIONS: Final = 5
"""How many recorded compactions show what is read again: with fewer, less than 30% proves nothing."""
_ALWAYS: Final = "the outcome"
_CHANGED: Final = (_ALWAYS, "the number of steps", "what a summary forgets besides files")


class Basis(NamedTuple):
    """What runs are computed with: their records, and by source the tokens of a summary and what is read again."""

    records: list[RequestRecord]
    refusals: list[str]
    ratios: list[float | None]
    summary_tokens: Mapping[str, int]
    read_again: Mapping[str, float]


class PolicyCost(NamedTuple):
    """A run under a policy, in units. `refusal` is why there is no cost; then all else is empty.

    `cost` is None where it cannot be estimated by reference. `cost_is` is `exact`, `by reference`, `bounds` or
    `estimated`.
    """

    record: RequestRecord
    policy: ContextPolicy
    refusal: str
    ratio: float | None
    summary_tokens: int
    recorded: int
    cost: int | None = None
    lower: int | None = None
    upper: int | None = None
    walk: WalkCost | None = None
    cost_is: str | None = None
    not_identified: tuple[str, ...] = (_ALWAYS,)
    break_even_share: float | None = None


def basis_of(allocated: Iterable[AllocatedRun]) -> Basis:
    """The records of runs, each checked: the walk under the recorded policy must give the bill."""
    records = [*map(record_of, allocated)]
    checks = [_check(record) for record in records]
    sources = {record.run.source for record in records}
    by_source = {source: [record for record in records if record.run.source == source] for source in sources}
    return Basis(
        records,
        [refusal for refusal, _ in checks],
        [ratio for _, ratio in checks],
        {source: _summary_tokens(of_source) for source, of_source in by_source.items()},
        {source: _read_again(of_source) for source, of_source in by_source.items()},
    )


def _check(record: RequestRecord) -> tuple[str, float | None]:
    """Why a run cannot be computed with, and what the walk gives of its bill."""
    bill = sum(request.units for request in record.requests)
    if record.refusal or not bill:
        return record.refusal or "nothing of it costs anything", None
    ratio = walk_policy(record, ContextPolicy(), SUMMARY_TOKENS, estimate_all=True).units / bill
    if abs(ratio - 1) > MAX_RATIO_ERROR:
        return f"the walk under the recorded policy gives {ratio:.3f} of the bill", ratio
    return "", ratio


def _summary_tokens(records: Sequence[RequestRecord]) -> int:
    requests = chain.from_iterable(record.requests for record in records)
    summaries = [request.summary for request in requests if request.summary]
    return min(median_low(summaries), _MAX_SUMMARY_TOKENS) if summaries else SUMMARY_TOKENS


def _read_again(records: Sequence[RequestRecord]) -> float:
    """The highest share of removed results that recorded compactions brought back, by reading an old path."""
    readable = [record for record in records if record.arguments_known]  # facts name no files
    shares = [*chain.from_iterable(map(_shares_read_again, readable))]
    highest = max(shares, default=0.0)
    return highest if len(shares) >= _LEAST_COMPACTIONS else max(highest, _READ_AGAIN)


def _shares_read_again(record: RequestRecord) -> list[float]:
    shares: list[float] = []
    removed_files: set[str] = set()
    files: set[str] = set()
    removed = tokens = read_tokens = 0
    for request in record.requests:
        if request.summary is not None:
            if removed:
                shares.append(min(1.0, read_tokens / removed))
            removed_files, removed = files, tokens
            files, tokens, read_tokens = set(), 0, 0
        for result in request.added.results:
            tokens += result.width
            files.update(result.files)
            if removed_files.intersection(result.files):
                read_tokens += result.width
                removed_files = removed_files.difference(result.files)
    return [*shares, min(1.0, read_tokens / removed)] if removed else shares


def costs_under(basis: Basis, policy: ContextPolicy) -> list[PolicyCost]:
    """What each run would cost under a policy."""
    return [cost_under(basis, index, policy) for index in range(len(basis.records))]


def cost_under(basis: Basis, index: int, policy: ContextPolicy) -> PolicyCost:
    """What a run would cost under a policy."""
    record, refusal, ratio = basis.records[index], basis.refusals[index], basis.ratios[index]
    source = record.run.source
    summary, recorded = policy.summary_tokens or basis.summary_tokens[source], record.units + record.unlogged_units
    if not refusal and policy.cache != "recorded" and not record.has_times:
        refusal = "the log has no times, so what a cache of another lifetime keeps is not known"
    if refusal:
        return PolicyCost(record, policy, refusal, ratio, summary, recorded)
    other_units = recorded - sum(request.units for request in record.requests)
    walk = walk_policy(record, policy, summary, by_reference=record.arguments_known)
    if walk.exact_until == record.requests[-1].step:
        units = walk.units + other_units
        cost_is = "exact" if policy.cache == "recorded" or record.charges_writes else "estimated"
        return PolicyCost(record, policy, "", ratio, summary, recorded, units, units, units, walk, cost_is)
    minimum = walk_policy(record, policy, summary) if record.arguments_known else walk
    read_again = basis.read_again[source]
    maximum = walk_policy(record, policy, summary, read_again=read_again)
    # Until its first change a run has the compactions on record, whose requests may be on no line.
    other_units = _outside_until(record, walk.exact_until, other_units)
    cost, lower, upper = walk.units + other_units, minimum.units + other_units, maximum.units + other_units
    slope = (upper - lower) / read_again if read_again else 0.0
    return PolicyCost(
        record, policy, "", ratio, summary, recorded,
        cost if record.arguments_known else None, min(lower, cost), max(upper, cost),
        walk, "by reference" if record.arguments_known else "bounds",
        _not_identified(record, policy),
        (recorded - lower) / slope if slope > 0 and recorded > lower else None,
    )  # fmt: skip


def _outside_until(record: RequestRecord, last_step: int, other_units: int) -> int:
    """The cost of requests for summaries before the first change: a share of it by the number of compactions."""
    steps = [request.step for request in record.requests if request.summary is not None]
    return other_units * sum(step <= last_step for step in steps) // len(steps) if steps else 0


def _not_identified(record: RequestRecord, policy: ContextPolicy) -> tuple[str, ...]:
    words = [*_CHANGED]
    if policy.cut_results is not None:
        words.append("what is read beyond a cut")
    if not policy.images:
        words.append("images whose sizes are not on record" if record.has_unsized_images else "what images showed")
    if not record.arguments_known:
        words.append("which files are named again (arguments are not on record)")
    first_result = next((request.step for request in record.requests if request.added.results), None)
    if any(first_result is None or step < first_result for step in policy.fresh_at):
        words.append("a fresh context before the first result")
    if policy.cache != "recorded" and not record.charges_writes:
        words.append("when the provider evicts what it cached")
    return tuple(words)


def refusal_notes(refusals: Iterable[str]) -> tuple[str, ...]:
    """How many runs are left out, and why, as sentences; a run that is computed with has an empty refusal."""
    n_runs_by_refusal = Counter(refusal for refusal in refusals if refusal)
    return tuple([f"{count(n_runs, 'run')} left out: {refusal}." for refusal, n_runs in n_runs_by_refusal.items()])


def ratio_sentence(basis: Basis) -> str:
    """What the walk under the recorded policy gives of the bill, as a sentence."""
    ratios = [ratio for ratio in basis.ratios if ratio is not None]
    if not ratios:
        return "The walk under the recorded policy could not be compared with any bill."
    spread = f"{min(ratios):.4f}" if len(ratios) == 1 else f"{min(ratios):.4f} to {max(ratios):.4f}"
    return f"The walk under the recorded policy gives {spread} of the bill."


def break_even_steps(saved: int, bill: int, n_requests: int) -> float | None:
    """How many more steps, at the recorded mean, cost what is saved; None where nothing is."""
    return saved / (bill / n_requests) if saved > 0 and bill and n_requests else None
