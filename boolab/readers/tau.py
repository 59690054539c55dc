"""What tau-bench and tau2-bench have in common."""

from __future__ import annotations

from collections import Counter
from typing import Final

_SENSIBLE: Final = 2**53


def rewarded(reward: object) -> bool | None:
    """Whether a reward is full, which alone counts as a success; None if there is none.

    Example:
        >>> rewarded(1.0), rewarded(0.6), rewarded(None)
        (True, False, None)
    """
    if not isinstance(reward, int | float) or not abs(reward) < _SENSIBLE:
        return None
    return abs(reward - 1) <= 1e-6  # noqa: PLR2004


def numbered(run_id: str, seen: Counter[str]) -> str:
    """The id, with a number if it was there before.

    Example:
        >>> seen = Counter()
        >>> [numbered("a", seen), numbered("a", seen)]
        ['a', 'a#2']
    """
    seen[run_id] += 1
    return run_id if seen[run_id] == 1 else f"{run_id}#{seen[run_id]}"
