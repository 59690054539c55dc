"""Names that are too long for a table: both ends, or, where these are alike, what tells them apart."""

from hypothesis import given
from hypothesis import strategies as st

from boolab.display.text import shorten_apart
from tests.support.cases import cases


@given(st.lists(st.text("ab-", min_size=1, max_size=90), max_size=12), st.integers(12, 40))
@cases(200)
def test_names_that_differ_are_shortened_so_that_they_differ(names: list[str], most: int) -> None:
    long = [f"{'same ' * 8}{name}{' end' * 8}" for name in names]
    shown = shorten_apart(long, most)
    assert list(shown) == list(dict.fromkeys(long))
    assert len(set(shown.values())) == len(set(long))
    assert all(len(text) <= most for text in shown.values())


def test_short_names_and_names_with_different_ends_stay_distinct() -> None:
    one, other = f"one {'x' * 60} first", f"two {'x' * 60} second"
    assert shorten_apart(["short", one, other], 12) == {"short": "short", one: "one xx…first", other: "two xx…econd"}
