"""What the functions of costs do with an argument of the wrong type: an error that names it."""

from collections.abc import Callable
from typing import Any

import pytest

import boolab as bl
from boolab.errors import SettingError

ANYTHING: Any = "x"
NUMBER: Any = 60_000


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: bl.compare_units([], stopped=ANYTHING), "stopped='x': expected a share"),
        (lambda: bl.compare_units([], confidence=ANYTHING), "confidence='x': expected a number"),
        (lambda: bl.tails_df([], confidence=ANYTHING), "confidence='x': expected a number"),
        (lambda: bl.context_costs([], grid={"compact_at": NUMBER}), "compact_at=60000: expected values in a list"),
        (lambda: bl.repriced([], model=NUMBER), "model=60000: expected the name of a model"),
        (
            lambda: bl.deadline(600, margin=ANYTHING),
            "margin='x': expected a number >= 0, in seconds, or 'auto' with runs=",
        ),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(SettingError) as raised:
        ask()
    assert message in str(raised.value)
