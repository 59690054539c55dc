"""Placeholders of texts: recognised whole or not at all, and compared by their numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.core.redacted import (
    BEGINNING,
    RedactedArguments,
    beginning_of,
    chars_of,
    is_redacted,
    redacted_arguments,
    redacted_result,
    redacted_text,
)
from boolab.core.types import REDACTED, ToolCall, ToolResult
from boolab.limits.call_identity import ObservedCall, call_key
from tests.support.cases import cases

numbers = st.integers(1, 10**12)


@cases(100)
@given(numbers, numbers, numbers, st.integers(0, 10**12))
def test_placeholders_of_arguments_are_read_back(canonical: int, ordered: int, sent: int, chars: int) -> None:
    text = str(RedactedArguments(canonical, ordered, sent, chars))
    found = redacted_arguments(text)
    assert found is not None
    assert (found.canonical, found.ordered, found.sent, found.chars) == (canonical, ordered, sent, chars)
    assert (is_redacted(text), chars_of(text)) == (True, chars)


@cases(100)
@given(numbers, numbers, st.integers(0, 10**12), st.booleans())
def test_results_begin_the_same_if_the_same_result_began_so(number: int, begins: int, chars: int, late: bool) -> None:
    content = redacted_result(number, begins, chars, timed_out=late)
    assert (is_redacted(content), chars_of(content)) == (True, chars)
    assert redacted_arguments(content) is None
    assert beginning_of(content) == beginning_of(redacted_result(begins, begins, 7, timed_out=not late))
    assert (beginning_of(content) == beginning_of(redacted_result(begins + 1, begins + 1, 7, timed_out=late))) is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        REDACTED,
        "<redacted text 5: 80 chars",
        " <redacted text 5: 80 chars>",
        "<redacted text 5: 80 chars>\n",
        "<redacted text 5: 80 chars> and more",
        "<redacted text: 80 chars>",
        "<redacted text 5: -1 chars>",
        "<redacted text \u0665: 80 chars>",
        f"<redacted text {'9' * 5000}: 80 chars>",
        "<redacted poem 5: 80 chars>",
    ],
)
def test_anything_else_is_a_text_of_its_own_length(text: str) -> None:
    assert not is_redacted(text)
    assert chars_of(text) == len(text)
    assert redacted_arguments(text) is None
    assert beginning_of(text) == text[:BEGINNING]


def observed(arguments: str) -> ObservedCall:
    return ObservedCall(ToolCall("1", "ls", arguments), ToolResult("1", "x"))


@cases(100)
@given(st.tuples(*[st.integers(1, 2)] * 3), st.tuples(*[st.integers(1, 2)] * 3))
def test_calls_are_compared_by_the_number_of_their_identity(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    # what is sent alike is ordered alike, and what is ordered alike is alike with its keys sorted
    one, other = ((c, 2 * o + c, 4 * s + 2 * o + c) for c, o, s in (one, other))
    a, b = (str(RedactedArguments(*these, chars=9)) for these in (one, other))
    for place, identity in enumerate(("canonical", "ordered", "raw")):
        same = one[place] == other[place]
        assert observed(a).same_as(observed(b), identity) is same
        keys = [call_key(ToolCall("1", "ls", text), None, identity) for text in (a, b)]
        assert (keys[0] == keys[1]) is same
    assert observed(a).same_as(observed(b), "tool")


def test_a_placeholder_is_not_the_same_as_what_is_known() -> None:
    assert not observed("<redacted arguments 1: 2 chars>").same_as(observed("{}"), "canonical")
    assert redacted_text(1, 2) != redacted_result(1, 1, 2, timed_out=False)
