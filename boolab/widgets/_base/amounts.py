"""What a whole run used: unknown as soon as one of its requests is."""

from __future__ import annotations

from boolab.core.types import MICRO, Run
from boolab.frames.runs import used_by


def tokens_of(run: Run) -> int | None:
    """Input and output tokens of all requests; None if unknown, or if there was no request."""
    return used_by(run, "input_tokens", "output_tokens") if run.steps or run.outside else None


def dollars_of(run: Run) -> float | None:
    """The cost of all requests in dollars; None if unknown, or if there was no request."""
    cost = used_by(run, "cost") if run.steps or run.outside else None
    return None if cost is None else cost / MICRO
