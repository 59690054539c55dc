"""Where the money of the runs of a report goes, as its page shows it: with the numbers of `boolab cost`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.core.run import Run
from boolab.core.text import count
from boolab.report.cost_text import (
    CAUSE_HEAD,
    MISS_HEAD,
    bill_sentence,
    cause_rows,
    miss_rows,
    miss_sentence,
    piece_rows,
)
from boolab.report.html import PageTable
from boolab.stats.cost.allocated import allocate_runs, facts_of_bill
from boolab.stats.cost.causes import causes_frame
from boolab.stats.cost.misses import misses_frame

_MAX_ROWS: Final = 10
"""So many causes, and misses of the cache, are listed."""


def bill_data(runs: Sequence[Run]) -> dict[str, object] | None:
    """The bill of runs by what is paid for, by cause, and its misses; None where no cost is on record."""
    if all(step.response.usage.cost is None for run in runs for step in run.steps):
        return None
    allocated = allocate_runs(runs)
    facts, causes, misses = facts_of_bill(allocated), causes_frame(allocated, ["tool"]), misses_frame(allocated)
    if not facts.bill_usd:
        return None
    n_left = len(causes) - _MAX_ROWS
    note = f"{count(n_left, 'further cause')} not listed: boolab cost has all." if n_left > 0 else ""
    rows = cause_rows(causes.head(_MAX_ROWS), ["tool"])
    return {
        "bill": bill_sentence(allocated),
        "pieces": PageTable(("paid for", "share", "cost"), piece_rows(allocated), (1, 2)),
        "causes": PageTable(("tool", *CAUSE_HEAD), rows, (1, 2, 3), note=note),
        "misses": miss_sentence(misses),
        "dearest": None if misses.empty else PageTable(MISS_HEAD, miss_rows(misses, _MAX_ROWS), (1, 2, 3, 4)),
        "notes": facts.notes(),
    }
