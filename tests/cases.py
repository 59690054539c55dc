"""How many random cases a property gets: fewer in `make test`, eight times as many in `make properties`."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings

USUAL: Final = 100
"""What hypothesis' profiles say how many examples to make by."""


def cases(usual: int, **how: Any) -> settings:
    """Settings for so many random cases, or for more if hypothesis was started with a profile that says so.

    Args:
        usual: How many there are in `make test`.
        how: Other settings.
    """
    return settings(max_examples=usual * settings().max_examples // USUAL, deadline=None, **how)
