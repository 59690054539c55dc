"""What runs and branches cost, in micro-dollars."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from boolab.core.run_tree import descendants
from boolab.core.types import Run
from boolab.frames.runs import used_by


def micro_cost(run: Run, steps: int | None = None) -> int | None:
    """What a run cost in micro-dollars, its subagents included; of its first steps alone, if a number is given.

    `steps`: how many of its steps count; by default all, and the requests outside of them. Returns None if it is not
    known of each request.
    """
    if steps is not None:
        costs = [step.response.usage.cost for step in run.steps[:steps]]
        return None if None in costs else sum(cast("list[int]", costs))
    costs = [used_by(one, "cost") for one in (run, *descendants(run))]
    return None if None in costs else sum(cast("list[int]", costs))


def own_cost(run: Run) -> int | None:
    """What a run cost itself, in micro-dollars: a branch without the steps that it kept, which an earlier run paid for.

    Returns None if it is not known of each request.

    Example:
        >>> import boolab as bl
        >>> import asyncio
        >>> look = {"tool_calls": [{"name": "look"}], "usage": {"cost_usd": 0.5}}
        >>> model = bl.ScriptedModel([look, look, {"text": "A door.", "usage": {"cost_usd": 0.25}}])
        >>> first = bl.run_sync(None, "Look around.", model=model)
        >>> micro_cost(first), own_cost(first), own_cost(asyncio.run(bl.branch(first, 2, model=model)))
        (1250000, 1250000, 250000)
    """
    return micro_cost(own_part(run))


def own_part(run: Run) -> Run:
    """What a run has that no earlier one has: a branch without the steps and the summaries that it kept.

    A branch in a log has kept none: what it shares with the earlier run is in its prompt.
    """
    begun = next((event for event in reversed(run.events) if event.kind == "branch"), None)
    if begun is None:
        return run
    at = begun.payload.get("kept", begun.payload["step"]) or 0
    n_earlier = sum(event.kind == "continued" and event.payload["after_step"] < at for event in run.events)
    return replace(
        run,
        steps=run.steps[at:],
        compactions=tuple(one for one in run.compactions if one.before > at),
        earlier_wrap_ups=run.earlier_wrap_ups[n_earlier:],
    )
