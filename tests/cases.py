"""How many random cases a property gets: two fifths of its number in `make test`, eight times it in `properties`."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings

USUAL: Final = 100
"""How many random cases a property that says nothing gets; profiles say how many to make instead of so many."""


def cases(usual: int, **how: Any) -> settings:
    """Settings for so many random cases, or for fewer or more as the profile says that hypothesis was started with.

    Args:
        usual: How many there are in a profile of `USUAL` cases.
        how: Other settings.
    """
    return settings(max_examples=usual * settings().max_examples // USUAL, deadline=None, **how)
