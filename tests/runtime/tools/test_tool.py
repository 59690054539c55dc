"""Tools: schemas, validation, execution."""

from __future__ import annotations

import asyncio
import threading
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from boolab.core.clock import VirtualClock, WallClock
from boolab.core.types import ToolCall, ToolResult
from boolab.errors import SettingError, ToolError
from boolab.runtime.tools.execution import ExecutionContext, execute, execute_together
from boolab.runtime.tools.tool import ToolContext, ToolSpec, as_tool, open_tool, tool


def give(spec: ToolSpec, arguments: str, name: str | None = None, clock: Any = None) -> ToolResult:
    run = ExecutionContext({spec.name: spec}, "run", clock or VirtualClock())
    return asyncio.run(execute(ToolCall("c1", name or spec.name, arguments), 1, 1, run, run.clock))


class Place(BaseModel):
    line: int
    column: int = 0


class Mode(Enum):
    FAST = "fast"


@tool(read_only=True)
def grep(
    pattern: str,
    paths: list[str],
    mode: Literal["text", "glob"] = "text",
    limit: Annotated[int, Field(ge=1)] = 10,
    place: Place | None = None,
) -> str:
    """Search files for a pattern.

    A second paragraph that is not for the model.

    Args:
        pattern: What to look for,
            on as many lines as it takes.
        paths (list[str]): Where.
        mode: How to read the pattern.
        limit: At most so many.
        place: From where.

    Returns:
        The matches.
    """
    return f"{pattern} {paths} {mode} {limit} {type(place).__name__}"


def test_a_signature_and_a_docstring_become_a_schema() -> None:
    assert (grep.name, grep.description, grep.read_only) == ("grep", "Search files for a pattern.", True)
    properties = grep.parameters["properties"]
    assert properties["pattern"] == {"type": "string", "description": "What to look for, on as many lines as it takes."}
    assert properties["paths"] == {"type": "array", "items": {"type": "string"}, "description": "Where."}
    assert properties["mode"]["enum"] == ["text", "glob"]
    assert properties["limit"] == {
        "type": "integer",
        "minimum": 1,
        "default": 10,
        "description": "At most so many.",
    }
    assert grep.parameters["required"] == ["pattern", "paths"]
    assert grep.parameters["additionalProperties"] is False


def test_sphinx_docstrings_are_read_too() -> None:
    @tool
    def f(a: int, b: str) -> None:
        """Do it.

        :param a: the first
        :param str b: the second
        :returns: nothing
        """

    assert [p.get("description") for p in f.parameters["properties"].values()] == ["the first", "the second"]


def test_validated_arguments_have_their_types() -> None:
    assert give(grep, '{"pattern":"x","paths":["a"],"place":{"line":3}}').content == "x ['a'] text 10 Place"


def test_a_tool_called_directly_is_still_the_function() -> None:
    assert grep("p", ["q"]) == "p ['q'] text 10 NoneType"


def test_the_schema_is_built_once_and_not_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = as_tool(add)
    monkeypatch.setattr("pydantic.TypeAdapter", None)
    monkeypatch.setattr("inspect.signature", None)
    assert give(spec, '{"a":1,"b":2}').content == "3"


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize(
    ("arguments", "broken", "says"),
    [
        ('{"a":1', True, "The arguments of add are not valid JSON: EOF"),
        ("\ud800", True, "not valid JSON"),
        ('{"a":1}', False, "Bad arguments for add: b: Field required."),
        ('{"a":1,"b":"x"}', False, "b: Input should be a valid integer"),
        ('{"a":1,"b":2,"c":3}', False, "c: Extra inputs are not permitted"),
        ("[1,2]", False, "arguments: Input should be an object"),
        ("", False, "a: Field required; b: Field required"),
        ('{"a":' + "[" * 500 + "]" * 500 + "}", True, "not valid JSON: recursion limit exceeded"),
    ],
)
def test_bad_arguments_are_an_error_that_says_what_is_accepted(arguments: str, broken: bool, says: str) -> None:
    result = give(as_tool(add), arguments)
    assert (result.is_error, result.parse_error) == (True, broken)
    assert says in result.content
    assert result.content.endswith('Accepted: {"a": integer, "b": integer}')


def test_unknown_tool_is_an_error_with_a_guess_and_a_list() -> None:
    result = give(grep, "{}", name="grpe")
    assert result.is_error
    assert result.content == "There is no tool 'grpe'. Did you mean grep? Available: grep."
    run = ExecutionContext({}, "run", VirtualClock())
    alone = asyncio.run(execute(ToolCall("c", "x", ""), 1, 1, run, run.clock))
    assert alone.content == "There is no tool 'x'; no tools are available. Answer in text."


def test_exception_is_an_error_result_with_its_type() -> None:
    def broken(how: str) -> None:
        """Break."""
        raise {"value": ValueError, "tool": ToolError, "key": KeyError}[how]("no luck")

    spec = as_tool(broken)
    assert give(spec, '{"how":"value"}').content == "ValueError: no luck"
    assert give(spec, '{"how":"tool"}').content == "no luck"
    assert all(give(spec, f'{{"how":"{how}"}}').is_error for how in ("value", "tool", "exit", "key"))


def test_a_tool_that_cancels_itself_is_an_error_result() -> None:
    async def cancelling() -> None:
        """Cancel."""
        raise asyncio.CancelledError

    assert give(as_tool(cancelling), "{}").content == "the tool cancelled itself"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (None, ""),
        (3, "3"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Place(line=1), '{"line":1,"column":0}'),
        (Mode.FAST, "fast"),
        (float("nan"), "NaN"),
        (object, str(object)),
    ],
)
def test_what_a_tool_returns_becomes_text(value: object, text: str) -> None:
    def returning() -> object:
        """Return it."""
        return value

    assert give(as_tool(returning), "").content == text


def test_calls_run_concurrently_and_results_are_in_call_order() -> None:
    order: list[int] = []

    async def work(n: int) -> int:
        """Work."""
        order.append(n)
        await asyncio.sleep(0)
        for _ in range(3 - n):
            await asyncio.sleep(0)
        order.append(-n)
        return n

    spec = as_tool(work)
    run = ExecutionContext({"work": spec}, "run", VirtualClock())
    results: list[ToolResult | None] = [None] * 3
    calls = [ToolCall(f"c{n}", "work", f'{{"n":{n}}}') for n in (1, 2, 3)]
    asyncio.run(execute_together(calls, range(len(calls)), 1, run, results))
    assert [r and (r.call_id, r.content) for r in results] == [("c1", "1"), ("c2", "2"), ("c3", "3")]
    assert order[:3] == [1, 2, 3]
    assert order[3:] == [-3, -2, -1]


def test_the_context_is_given_and_not_shown() -> None:
    async def where(ctx: ToolContext, n: int = 0) -> str:
        """Where."""
        return f"{ctx.run_id} {ctx.step} {ctx.call}"

    spec = as_tool(where)
    assert list(spec.parameters["properties"]) == ["n"]
    assert give(spec, "{}").content == "run 1 1"
    assert "Extra inputs" in give(spec, '{"ctx": 1}').content


def test_a_virtual_timeout_is_an_error_result_at_its_deadline() -> None:
    @tool(timeout=2)
    async def slow(seconds: float, ctx: ToolContext) -> str:
        """Sleep."""
        await ctx.sleep(seconds)
        return "done"

    assert give(slow, '{"seconds": 1.5}').content == "done"
    result = give(slow, '{"seconds": 60}')
    assert (result.is_error, result.content, result.duration_ms) == (True, "slow did not finish within 2 s", 2000)


def test_timeout_in_real_time_is_an_error_result() -> None:
    release = threading.Event()

    @tool(timeout=0.01)
    async def forever() -> None:
        """Wait."""
        await asyncio.Event().wait()

    @tool(timeout=0.01)
    def blocked() -> None:
        """Wait."""
        release.wait(30)

    async def both() -> list[ToolResult]:
        run = ExecutionContext({"forever": forever, "blocked": blocked}, "run", WallClock())
        results = [await execute(ToolCall("c", name, ""), 1, 1, run, run.clock) for name in run.tools]
        release.set()
        return results

    assert [r.content for r in asyncio.run(both())] == [
        "forever did not finish within 0.01 s",
        "blocked did not finish within 0.01 s",
    ]


def test_a_real_wait_is_cut_off_under_virtual_time_too() -> None:
    @tool(timeout=0.0124)
    async def stuck() -> None:
        """Wait."""
        await asyncio.Event().wait()

    assert give(stuck, "").content == "stuck did not finish within 0.0124 s"


def test_a_plain_function_that_returns_an_awaitable_is_awaited() -> None:
    async def later() -> str:
        return "later"

    def wrapped() -> Any:
        """Return a coroutine."""
        return later()

    assert give(as_tool(wrapped), "").content == "later"


def test_an_exception_that_cannot_be_printed_is_an_error_result() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def broken() -> None:
        """Break."""
        raise Mute

    assert give(as_tool(broken), "").content == "Mute: (its text cannot be had)"


@pytest.mark.parametrize("reply", [lambda call, ctx: 1 / 0, lambda call, ctx: returning("x")])
def test_a_models_own_reply_that_fails_is_an_error_result(reply: Any) -> None:
    run = ExecutionContext({}, "run", VirtualClock(), (), reply)
    result = asyncio.run(execute(ToolCall("c", "x", ""), 1, 1, run, run.clock))
    assert result.is_error
    assert result.content.startswith("The model's own reply")


async def returning(value: object) -> object:
    return value


def test_a_timeout_that_the_tool_raised_itself_is_told_as_such() -> None:
    @tool(timeout=60)
    async def impatient() -> None:
        """Give up."""
        raise TimeoutError("gave up")

    assert give(impatient, "").content == "TimeoutError: gave up"


def test_plain_functions_run_inline_and_with_thread_in_a_thread() -> None:
    def here() -> int:
        """Tell the thread."""
        return threading.get_ident()

    assert give(as_tool(here), "").content == str(threading.get_ident())
    assert give(tool(thread=True)(here), "").content != str(threading.get_ident())


def test_extra_arguments_pass_where_the_function_takes_them() -> None:
    def anything(a: int = 0, **rest: object) -> str:
        """Take anything."""
        return str(sorted(rest))

    assert give(as_tool(anything), '{"a": 1, "z": 2}').content == "['z']"


def test_signatures_that_no_model_could_use_are_refused() -> None:
    def positional(a: int, /) -> None: ...
    def star(*a: int) -> None: ...
    def untyped(a: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821 - on purpose
    def odd(a: threading.Thread) -> None: ...

    for fn, message in (
        (positional, "has no name for the model"),
        (star, "has no name for the model"),
        (untyped, "annotations cannot be resolved: name 'Nowhere'"),
        (odd, "cannot be put into a JSON schema"),
    ):
        with pytest.raises(SettingError, match=message):
            tool(fn)
    with pytest.raises(SettingError, match="cannot be a tool's name"):
        tool(lambda: None)
    with pytest.raises(SettingError, match=r"timeout=0: expected seconds > 0"):
        tool(timeout=0)(add)
    with pytest.raises(SettingError, match="is no tool"):
        as_tool(3)  # type: ignore[arg-type] # on purpose


def test_an_untyped_parameter_takes_anything() -> None:
    def loose(a, b=2):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - on purpose
        return f"{a} {b}"

    assert give(as_tool(loose), '{"a": [1]}').content == "[1] 2"


def test_an_open_tool_takes_any_object() -> None:
    assert give(open_tool("x"), '{"whatever": 1}').content == "x has no function here"
    assert give(open_tool("x"), "[]").is_error


def test_a_bound_method_can_be_a_tool() -> None:
    class Box:
        def get(self, n: int) -> int:
            """Get."""
            return n

    assert give(as_tool(Box().get), '{"n": 4}').content == "4"
