"""What the requests of a run paid for, as Replay draws it: each prompt by cause, and the misses of the cache."""

from __future__ import annotations

from typing import Any

from boolab.core.run import Run
from boolab.stats.cost.allocated import PIECE_NAMES, allocate_runs, pieces_usd
from boolab.stats.cost.misses import cache_misses

CONTEXT_PIECES = ("reread", "rewrite", "first")
"""What a prompt is made of, from the ground up: the largest, which changes least, is the lowest."""


def bill_of(run: Run) -> dict[str, Any] | None:
    """The bill of a run by step; None if it has no figures of the cache, so that only the length of prompts is known.

    Returns:
        `window`: the most tokens of a prompt; `pieces`: the name of each piece and its dollars; `context`: by step the
        tokens of its prompt, by `CONTEXT_PIECES`, or None; `misses`: the step, the extra dollars and the cause of each
        in words.
    """
    (allocated,) = allocate_runs(run)
    requests = {request.step.index: request for request in allocated.allocation.requests}
    if all(request.missed_tokens is None for request in requests.values()):
        return None
    tokens = {number: [getattr(of.tokens, piece) for piece in CONTEXT_PIECES] for number, of in requests.items()}
    return {
        "window": run.context_window,
        "pieces": [[PIECE_NAMES[piece], usd] for piece, usd in pieces_usd([allocated]).items()],
        "context": [tokens.get(step.index) for step in run.steps],
        "misses": [
            {"step": miss.request.step.index, "usd": miss.extra_usd, "text": miss.describe()}
            for miss in cache_misses(allocated)
        ],
    }
