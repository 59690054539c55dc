from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from boolab.core.types import ToolCall, ToolResult, Usage
from boolab.logs.step_builder import (
    StepBuilder,
    arguments_text,
    distinct_steps,
    goes_back,
    is_withheld,
    openai_arguments,
)
from tests.support.cases import cases


@st.composite
def responses(draw: st.DrawFn) -> list[StepBuilder]:
    """Responses of which many are alike, with few ids, or each with one of its own, but for one of them."""
    n = draw(st.integers(0, 10))
    few = draw(st.sampled_from([("",), ("a", "b"), ("", "a", "b"), ()]))
    ids = [draw(st.sampled_from(few)) if few else f"m{number}" for number in range(n)]
    unnamed = draw(st.sampled_from([-1, n // 2]))
    return [draw(response("" if number == unnamed else name)) for number, name in enumerate(ids)]


@st.composite
def response(draw: st.DrawFn, response_id: str) -> StepBuilder:
    step = StepBuilder(draw(st.sampled_from([None, 1000, 1250, 1250, 1250])))
    step.id = response_id
    step.dated = draw(st.integers(0, 4)) > 0
    step.goes_back, step.follows_at_once = draw(st.booleans()), draw(st.booleans())
    step.usage = draw(st.sampled_from([Usage(), Usage(1)]))
    if draw(st.booleans()):
        step.calls.append(ToolCall("", "ls", "{}"))
        step.results.append(draw(st.sampled_from([None, ToolResult("", "a.py")])))
    return step


def compared_one_by_one(steps: list[StepBuilder]) -> list[StepBuilder]:
    """The distinct responses, each compared with all before it."""
    originals: list[StepBuilder] = []
    for step in steps:
        if step.goes_back:
            copied = any(step.repeats(other) for other in originals)
        else:
            exact = (step.time or 0) % 1000 > 0
            copied = exact and step.follows_at_once and any(step.repeats(other) for other in originals[-1:])
        if not copied:
            originals.append(step)
    return originals


@cases(500)
@given(responses())
def test_distinct_finds_what_comparing_each_pair_finds(steps: list[StepBuilder]) -> None:
    originals = distinct_steps(steps)
    assert list(map(id, originals)) == list(map(id, compared_one_by_one(steps)))
    assert distinct_steps(originals) == originals
    added: list[StepBuilder] = []
    for step in steps:
        added = distinct_steps([*added, step])
    assert added == originals


def test_distinct_drops_a_copy_that_has_no_id() -> None:
    first, copy = StepBuilder(1250), StepBuilder(1250)
    first.id, copy.goes_back = "m1", True
    assert distinct_steps([first, copy]) == [first]
    copy.id = "m2"
    assert distinct_steps([first, copy]) == [first, copy]


def test_time_goes_back_below_the_last_one() -> None:
    assert goes_back(3, 5, 5)
    assert goes_back(5, 3, 5)
    assert not goes_back(5, 5, 5)
    assert not goes_back(6, 3, 5)


def test_empty_openai_arguments_are_an_object() -> None:
    assert openai_arguments("") == {}
    assert openai_arguments("null") == {}
    assert openai_arguments('{"path": "a"}') == '{"path": "a"}'


def test_empty_arguments_text_is_redacted() -> None:
    assert arguments_text({"path": "a"}) == '{"path":"a"}'
    assert arguments_text('{"path": "<redacted>"}') == "<redacted>"
    assert arguments_text(None) == "{}"
    assert arguments_text("") == "<redacted>"
    assert arguments_text({}) == "{}"


def test_arguments_are_withheld_if_all_are_redacted() -> None:
    assert is_withheld("<redacted>")
    assert is_withheld({"path": "[REDACTED]"})
    assert not is_withheld({"path": "a", "text": "<redacted>"})
