"""Runs with their charges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from boolab.core.allocation import PIECES, UNITS, Allocation, CauseCharge, allocate
from boolab.core.prices import is_installed, missing_prices
from boolab.core.prompt_parts import UNALLOCATED, PartKind
from boolab.core.run import Run
from boolab.core.text import count, shorten
from boolab.core.types import MICRO
from boolab.frames.runs import Runs, as_runs, distinct_runs, kept_steps
from boolab.logs.list_prices import step_rates

UNLOGGED_SUMMARIES: Final = frozenset({"claude_code"})
"""The sources whose logs have no line for a request that writes the summary of a compaction."""
_LOW_SHARE: Final = 0.01


class AllocatedRun(NamedTuple):
    """A run and its charges."""

    run: Run
    allocation: Allocation

    @property
    def totals_only(self) -> bool:
        """Whether no step has its tokens on record, so that nothing can be divided."""
        return not self.allocation.requests and bool(self.run.steps)


def allocate_runs(runs: Runs) -> list[AllocatedRun]:
    """The charges of runs, each run once. Steps that a branch kept are charged in the run that it began with."""
    return [AllocatedRun(run, _allocate(run)) for run in distinct_runs(as_runs(runs))[0]]


def _allocate(run: Run) -> Allocation:
    logs_summaries = run.source not in UNLOGGED_SUMMARIES
    rates_of = partial(step_rates, run=run)
    return allocate(run, rates_of, kept_steps=kept_steps(run), logs_summaries=logs_summaries)


class BillFacts(NamedTuple):
    """What a table of costs rests on, in dollars: the bill of the steps, and what is not in it."""

    bill_usd: float
    unseen_share: float
    unpriced_requests: int
    unknown_requests: int
    unlogged_requests: int
    unlogged_usd: float
    lacking_output_usd: float
    totals_only_runs: int
    unallocated_usd: float

    def notes(self) -> tuple[str, ...]:
        """The same as sentences, each of what there is."""
        notes = []
        if self.unseen_share >= _LOW_SHARE:
            notes.append(f"{self.unseen_share:.0%} of the bill pays for text that no line of the logs has (unseen).")
        if self.unallocated_usd:
            reason = "the price of a token is not known" if is_installed() else missing_prices()
            notes.append(f"${self.unallocated_usd:,.2f} of the bill is not divided by cause: {reason}.")
        if self.unpriced_requests:
            notes.append(f"The cost of {count(self.unpriced_requests, 'request')} is not known.")
        if self.unknown_requests:
            notes.append(f"The tokens of {count(self.unknown_requests, 'request')} are not on record.")
        if self.unlogged_requests:
            notes.append(
                f"{count(self.unlogged_requests, 'request')} that wrote the summary of a compaction "
                f"{'is' if self.unlogged_requests == 1 else 'are'} on no line of the logs: about "
                f"${self.unlogged_usd:,.2f} more."
            )
        if self.lacking_output_usd >= 0.005:  # noqa: PLR2004 - a cent, rounded
            notes.append(
                f"The logs lack about ${self.lacking_output_usd:,.2f} of output: lines of Claude Code 2.1 hold the "
                "beginning of a response's count."
            )
        if self.totals_only_runs:
            notes.append(TOTALS_ONLY.format(count(self.totals_only_runs, "run")))
        return tuple(notes)


TOTALS_ONLY: Final = (
    "{} with totals only: no dollars by cause, because the length of each prompt is not on record; the rank is by "
    "characters, sent once for each later request."
)


def facts_of_bill(allocated: Sequence[AllocatedRun]) -> BillFacts:
    """What the charges of runs rest on."""
    charges = [*chain.from_iterable(row.allocation.charges for row in allocated)]
    requests = [*chain.from_iterable(row.allocation.requests for row in allocated)]
    bill = sum(sum(charge.units) for charge in charges)
    unseen = sum(sum(charge.units) for charge in charges if charge.part.kind == "unseen")
    return BillFacts(
        dollars_of(bill),
        unseen / bill if bill else 0.0,
        sum(row.allocation.unpriced for row in allocated),
        sum(row.allocation.unknown for row in allocated if not row.totals_only),
        sum(request.unlogged_units > 0 for request in requests),
        dollars_of(sum(request.unlogged_units for request in requests)),
        dollars_of(sum(request.lacking_units for request in requests)),
        sum(row.totals_only for row in allocated),
        _usd_of_kind(charges, UNALLOCATED.kind),
    )


def pieces_usd(allocated: Iterable[AllocatedRun]) -> dict[str, float]:
    """The bill by piece, in dollars; `unallocated` is what cannot be divided, where there is some."""
    charges = [*chain.from_iterable(row.allocation.charges for row in allocated)]
    divided = [charge.units for charge in charges if charge.part.kind != UNALLOCATED.kind]
    pieces: dict[str, float] = {piece: dollars_of(sum(units[i] for units in divided)) for i, piece in enumerate(PIECES)}
    unallocated_usd = _usd_of_kind(charges, UNALLOCATED.kind)
    return {**pieces, UNALLOCATED.kind: unallocated_usd} if unallocated_usd else pieces


def _usd_of_kind(charges: Iterable[CauseCharge], kind: PartKind) -> float:
    return dollars_of(sum(sum(charge.units) for charge in charges if charge.part.kind == kind))


def dollars_of(units: int) -> float:
    """Units of money as dollars, in whole micro-dollars."""
    return round(units / UNITS) / MICRO


PIECE_NAMES: Final[Mapping[str, str]] = {
    "output": "written by the model",
    "first": "sent the first time",
    "reread": "sent again, from the cache",
    "rewrite": "sent again, cache missed",
    UNALLOCATED.kind: "not divided",
}
"""How a text or a figure names what is paid for."""
_CAUSE_NAMES: Final = {
    "(base)": "system prompt, tools",
    "(user)": "the user's messages",
    "(text)": "answers as text",
    "(reasoning)": "reasoning",
    "(summary)": "compaction summary",
    "(unseen)": "not in the log",
    "(unallocated)": "not divided",
}


def cause_name(cause: str) -> str:
    """How a text or a figure names a cause: a tool by its name, the others in words."""
    return _CAUSE_NAMES.get(cause, shorten(cause))
