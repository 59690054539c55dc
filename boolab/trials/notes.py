"""What limits the answer of a trial, in words."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from boolab.core.text import count
from boolab.trials.agents import UNNAMED_POLICY
from boolab.trials.estimates import Looks
from boolab.trials.openings import Opening


def notes_of(
    openings: Sequence[Opening],
    looks: Looks,
    *,
    reach: float | None,
    labelled: bool,
    known_agents: Container[str],
    n_left_out: int,
    n_unknown_costs: int,
) -> Iterator[str]:
    """The notes of a trial.

    Args:
        openings: What is known of each run.
        looks: The branches so far.
        reach: The amount beyond which hazards know nothing; None if they reach far enough.
        labelled: Whether runs have labels.
        known_agents: The agents that the caller gave, by name.
        n_left_out: How many runs of subagents were left out.
        n_unknown_costs: How many branches report no cost.
    """
    by_outcome = {name: sum(one.outcome == name for one in openings) for name in ("unchanged", "truncated", "unknown")}
    still_open = [one for one in openings if one.outcome == "open"]
    counter, user = (sum(one.why == why for one in openings) for why in ("counter", "user"))
    unknown = f"; for {counter:,} a counter is not on record" if counter else ""
    unknown += f"; {user:,} wait for a message of their user, which a branch does not have" if user else ""
    yield (
        f"Of {count(len(openings), 'run')} on record the change leaves {by_outcome['unchanged']:,} as they were, "
        f"truncates {by_outcome['truncated']:,}, and leaves {len(still_open):,} open{unknown}."
    )
    if n_left_out:
        left_out = "1 is" if n_left_out == 1 else f"{n_left_out:,} are"
        yield f"Runs of subagents are not tried by themselves: {left_out} left out."
    if not labelled:
        yield "No run has a label: a success is a run that ended by itself."
    unnamed = sum(not one.run.policy and one.run.agent not in known_agents for one in still_open)
    if unnamed:
        yield (
            f"{count(unnamed, 'open run')} without the name of a policy: branches run under {UNNAMED_POLICY}, with the "
            "limits on record. Pass agent= to run them under your own."
        )
    if reach is not None:
        yield f"Hazards reach only to {reach:,.6g}: no run on record went further."
    ended = sum(one.run.stop.reason == "aborted" and one.outcome == "unchanged" for one in openings)
    if ended:
        yield (
            f"{count(ended, 'run')} broke off, and the record names no limit that did it: they stay as they are. If a "
            "cap stopped them, pass the agent with that cap as agent=."
        )
    if looks.unknown:
        why = (
            f"{count(looks.unlabelled, 'branch', 'branches')} ended without a label: pass score=."
            if looks.unlabelled
            else "They broke off or reached cost_limit."
        )
        yield (
            f"The outcome of {count(looks.unknown, 'branch', 'branches')} is unknown: the lower ends count them as the "
            f"worst, the upper ends as the best that they can be. {why}"
        )
    if looks.beyond:
        yield (
            f"{count(looks.beyond, 'value')} went beyond the stated maximum and count as the maximum: the interval of "
            "what is added may be too low."
        )
    if n_unknown_costs:
        yield f"{count(n_unknown_costs, 'branch', 'branches')} report no cost."
