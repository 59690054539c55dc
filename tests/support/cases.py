"""How many random cases a property gets: a tenth of its number in `test`, four in `slow`, eighty in `properties`."""

from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import settings

USUAL: Final = 100
"""How many random cases a property that says nothing gets; profiles say how many to make instead of so many."""


def cases(usual: int, **how: Any) -> settings:
    """Settings for so many random cases, or for fewer or more as the profile says that hypothesis was started with."""
    return settings(max_examples=max(3, usual * settings().max_examples // USUAL), deadline=None, **how)


def first(number: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of a test: all of these values. `make test` takes the first few, `make slow` the others."""

    def slow(one: Any) -> Any:
        return pytest.param(*(one if isinstance(one, list) else [one]), marks=pytest.mark.slow)

    return [one if place < number else slow(one) for place, one in enumerate(values)]
