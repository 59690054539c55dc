"""autogen-agentchat: `AssistantAgent`, with a thin model client."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent, ToolCallRequestEvent
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage
from work import End, Turns

logging.disable(logging.WARNING)

VARIANTS = ("AssistantAgent",)
LIMITS = {"max_tool_iterations": inspect.signature(AssistantAgent).parameters["max_tool_iterations"].default}
USED = RequestUsage(prompt_tokens=1, completion_tokens=1)


class Scripted(ChatCompletionClient):
    """Says what its turns say."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    async def create(self, _messages: Any, *, tools: Any = (), **_options: Any) -> CreateResult:  # noqa: ANN401
        """One result; a request without tools is a wrap-up."""
        if not tools:
            return CreateResult(finish_reason="stop", content=self.turns.wrap_up(), usage=USED, cached=False)
        a = self.turns.next()
        if a is None:
            return CreateResult(finish_reason="stop", content="done", usage=USED, cached=False)
        call = FunctionCall(id=f"c{a}", name="add", arguments=f'{{"a":{a},"b":1}}')
        return CreateResult(finish_reason="function_calls", content=[call], usage=USED, cached=False)

    def create_stream(self, *_arguments: Any, **_options: Any) -> Any:  # noqa: ANN401
        """Never asked for: the agent does not stream."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        """Not used by the agent."""
        return USED

    def total_usage(self) -> RequestUsage:
        """Not used by the agent."""
        return USED

    def count_tokens(self, *_arguments: Any, **_options: Any) -> int:  # noqa: ANN401
        """Not used by the agent."""
        return 0

    def remaining_tokens(self, *_arguments: Any, **_options: Any) -> int:  # noqa: ANN401
        """Not used by the agent."""
        return 1_000_000

    @property
    def capabilities(self) -> Any:  # noqa: ANN401
        """The older word for `model_info`."""
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        """A model that calls functions."""
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
        )


def agent_of(turns: Turns, tool: Callable[[int, int], int], iterations: int) -> AssistantAgent:
    """An agent with one tool."""

    async def add(a: int, b: int) -> str:
        """Add."""
        return str(tool(a, b))

    return AssistantAgent(
        "a", Scripted(turns), tools=[add], system_message="Add.", max_tool_iterations=iterations, description="Adds."
    )


def prepare(_variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], Awaitable[list[str]]]:
    """An agent for each run, as it remembers what it did."""
    turns = Turns(steps)
    agents = [agent_of(turns, add, steps) for _ in range(runs)]

    async def go() -> list[str]:
        return [str((await agent.run(task="go")).messages[-1].content) for agent in agents]

    return go


async def limited(_name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """The result has an event for each call and for each result."""
    done = await agent_of(turns, add, limit).run(task="go")
    responses = sum(isinstance(one, ToolCallRequestEvent) for one in done.messages)
    results = sum(isinstance(one, ToolCallExecutionEvent) for one in done.messages)
    last = done.messages[-1]
    how = f"returns a {type(last).__name__}, stop_reason {done.stop_reason}"
    return End(how, str(last.content), [("the result's messages", responses, results)])
