"""openai-agents, with a thin model of our own; with its tracing off, and with traces that go to a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agents.run import DEFAULT_MAX_TURNS
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from work import End, Turns, raised

from agents import (
    Agent,
    MaxTurnsExceeded,
    Model,
    ModelResponse,
    Runner,
    ToolCallOutputItem,
    TracingProcessor,
    Usage,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
)

VARIANTS = ("no tracing", "tracing")
LIMITS = {"max_turns": DEFAULT_MAX_TURNS}


class Listed(TracingProcessor):
    """Keeps every span that ended, as a record of one's own would."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def on_span_end(self, span: Any) -> None:  # noqa: ANN401
        """Keep it."""
        self.spans.append(span)

    def on_trace_start(self, trace: Any) -> None:  # noqa: ANN401
        """Nothing to do."""

    def on_trace_end(self, trace: Any) -> None:  # noqa: ANN401
        """Nothing to do."""

    def on_span_start(self, span: Any) -> None:  # noqa: ANN401
        """Nothing to do."""

    def shutdown(self) -> None:
        """Nothing is open."""

    def force_flush(self) -> None:
        """Nothing waits."""


class Scripted(Model):
    """Says what its turns say."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    async def get_response(self, *_arguments: Any, **_options: Any) -> ModelResponse:  # noqa: ANN401
        """One response."""
        a = self.turns.next()
        output: Any
        if a is None:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        else:
            output = ResponseFunctionToolCall(
                type="function_call", call_id=f"c{a}", name="add", arguments=f'{{"a":{a},"b":1}}'
            )
        return ModelResponse(output=[output], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *_arguments: Any, **_options: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        """Never asked for: `Runner.run` does not stream."""
        raise NotImplementedError


def agent_of(turns: Turns, tool: Callable[[int, int], int]) -> Agent:
    """An agent with one tool."""

    async def add(a: int, b: int) -> str:
        """Add."""
        return str(tool(a, b))

    return Agent(name="a", instructions="Add.", model=Scripted(turns), tools=[function_tool(add)])


def prepare(variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], Awaitable[list[str]]]:
    """The agent serves all runs."""
    set_tracing_disabled(variant == "no tracing")
    if variant == "tracing":
        set_trace_processors([Listed()])  # in place of those that send
    agent = agent_of(Turns(steps), add)

    async def go() -> list[str]:
        return [(await Runner.run(agent, "go", max_turns=steps)).final_output for _ in range(runs)]

    return go


async def limited(name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """The exception carries what was done."""
    set_tracing_disabled(disabled=True)
    try:
        result = await Runner.run(agent_of(turns, add), "go", **{name: limit})
    except MaxTurnsExceeded as error:
        done = error.run_data
        if done is None:
            return End(*raised(error), [("the exception", 0, 0)])
        results = sum(isinstance(one, ToolCallOutputItem) for one in done.new_items)
        return End(*raised(error), [("the exception's `run_data`", len(done.raw_responses), results)])
    return End("returns", result.final_output, [])
