"""What limits the answer of a trial, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from boolab.core.text import clip, count, flat
from boolab.trials.agents import UNNAMED_POLICY
from boolab.trials.design import Design
from boolab.trials.estimates import Looks

_ERROR_CHARS: Final = 120
_WHY: Final = {
    "broke off": "{n} broke off{error}",
    "cost_limit": "{n} reached cost_limit without a success (a larger one makes them fewer)",
    "no label": "{n} ended without a label (pass score=)",
    "no label on record": "{n} continued a run without a label on record",
}


def notes_of(design: Design, looks: Looks, *, n_unknown_costs: int) -> Iterator[str]:
    """The notes of a trial."""
    openings = design.openings
    by_outcome = {name: sum(one.outcome == name for one in openings) for name in ("unchanged", "truncated", "unknown")}
    counter, turn, user = (sum(one.why == why for one in openings) for why in ("counter", "turn", "user"))
    unknown = f"; for {counter:,} a counter is not on record" if counter else ""
    unknown += f"; in {turn:,} it ends a turn that others follow, which a branch does not have" if turn else ""
    waits = "1 waits for a message of its user" if user == 1 else f"{user:,} wait for a message of their user"
    unknown += f"; {waits}, which a branch does not have" if user else ""
    as_was = "it was" if by_outcome["unchanged"] == 1 else "they were"
    yield (
        f"Of {count(len(openings), 'run')} on record the change leaves {by_outcome['unchanged']:,} as {as_was}, "
        f"truncates {by_outcome['truncated']:,}, and leaves {len(design.order):,} open{unknown}."
    )
    if design.n_left_out:
        left_out = "1 is" if design.n_left_out == 1 else f"{design.n_left_out:,} are"
        yield f"Runs of subagents are not tried by themselves: {left_out} left out."
    if not design.labelled:
        unused = " So score= is not used: label the runs (set Run.success)." if design.job.score is not None else ""
        yield f"No run has a label: a success is a run that ended by itself.{unused}"
    unnamed = sum(not one.run.policy and one.run.agent not in design.agents for one in design.order)
    if unnamed:
        yield (
            f"{count(unnamed, 'open run')} without the name of a policy: branches run under {UNNAMED_POLICY}, with the "
            "limits on record. Pass agent= to run them under your own."
        )
    if design.hazards.left_out and design.hazards.gain is not None:
        yield f"Hazards leave out {design.hazards.left_out}."
    if design.hazards.reach is not None:
        yield f"Hazards reach only to {design.hazards.reach:,.6g}: no run on record went further."
    ended = sum(one.run.stop.reason == "aborted" and one.outcome == "unchanged" for one in openings)
    if ended:
        stays, them = ("it stays as it is", "it") if ended == 1 else ("they stay as they are", "them")
        yield (
            f"{count(ended, 'run')} broke off, and the record names no limit that did it: {stays}. If a cap stopped "
            f"{them}, pass the agent with that cap as agent=."
        )
    yield from _of_branches(looks, n_unknown_costs, has_limit=design.job.cost_limit is not None)


def _of_branches(looks: Looks, n_unknown_costs: int, *, has_limit: bool) -> Iterator[str]:
    n = looks.unknown.total()
    if n:
        error = f" (the first: {clip(flat(looks.error), _ERROR_CHARS)})" if looks.error else ""
        why = ", ".join(
            text.format(n=f"{looks.unknown[name]:,}", error=error) for name, text in _WHY.items() if looks.unknown[name]
        )
        yield (
            f"The outcome of {count(n, 'branch', 'branches')} is unknown: {why}. The lower ends count each as the "
            "worst, the upper ends as the best that it can be."
        )
    if looks.beyond:
        goes, counts = ("value goes", "counts as it is") if looks.beyond == 1 else ("values go", "count as they are")
        yield (
            f"{looks.beyond:,} {goes} beyond the stated maximum, and {counts}. Of a cost there is no upper end before "
            "all open runs are branched."
        )
    if n_unknown_costs:
        report, counts = ("1 branch reports", "counts") if n_unknown_costs == 1 else (
            f"{n_unknown_costs:,} branches report", "count"
        )  # fmt: skip
        yield f"{report} no cost, and {counts} as {'cost_limit' if has_limit else '$0'} in what is spent."
