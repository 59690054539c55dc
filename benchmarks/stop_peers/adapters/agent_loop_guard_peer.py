"""agent-loop-guard, with its defaults: four strategies; four suspicious calls in a row stop the run.

Its edit distance is a loop in Python over all pairs of characters, which would take days here. rapidfuzz computes the
same number; that it does is checked at the start.
"""

from __future__ import annotations

import random
from typing import Any

from exchange import Guard, serve
from loop_guard import LoopGuard, similarity
from rapidfuzz.distance import Levenshtein


def checked_distance() -> Any:  # noqa: ANN401
    """The fast edit distance, after it gave the package's own numbers for 300 pairs of short texts."""
    own, chance = similarity.normalized_edit_distance, random.Random(0)  # noqa: S311 - no secret
    for _ in range(300):
        first, second = ("".join(chance.choices("ab c", k=chance.randrange(12))) for _ in range(2))
        if own(first, second) != Levenshtein.normalized_distance(first, second):
            raise ValueError(f"the distances of {first!r} and {second!r} differ")
    return Levenshtein.normalized_distance


def prepare(_training: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    """It learns nothing."""
    similarity.normalized_edit_distance = checked_distance()

    def new_guard(_group: str) -> Guard:
        own = LoopGuard()

        def guard(step: dict[str, Any]) -> bool:
            decisions = [own.check(call["tool"], call["arguments"], call["result"]) for call in step["calls"]]
            return any(decision.is_loop for decision in decisions)

        return guard

    return new_guard


if __name__ == "__main__":
    serve("agent-loop-guard", prepare)
