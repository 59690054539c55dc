"""What a whole run used: unknown as soon as one of its requests is."""

from __future__ import annotations

from boolab.core.types import MICRO, Run, Usage
from boolab.frames.runs import known_sum


def tokens_of(run: Run) -> int | None:
    """Input and output tokens of all requests; None if unknown, or if there was no request."""
    usages = _usages(run)
    return known_sum(n for usage in usages for n in (usage.input_tokens, usage.output_tokens)) if usages else None


def dollars_of(run: Run) -> float | None:
    """The cost of all requests in dollars; None if unknown, or if there was no request."""
    usages = _usages(run)
    cost = known_sum(usage.cost for usage in usages) if usages else None
    return None if cost is None else cost / MICRO


def _usages(run: Run) -> list[Usage]:
    return [*(step.response.usage for step in run.steps), *run.outside]
