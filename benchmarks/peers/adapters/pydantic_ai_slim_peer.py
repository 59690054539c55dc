"""pydantic-ai, with its own `FunctionModel`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic_ai import Agent, capture_run_messages
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits
from work import End, Turns, raised

VARIANTS = ("agent",)
LIMITS = {"UsageLimits.request_limit": UsageLimits().request_limit}


def agent_of(turns: Turns, add: Callable[[int, int], int]) -> Agent:
    """An agent with one tool."""

    def respond(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        a = turns.next()
        return ModelResponse([TextPart("done") if a is None else ToolCallPart("add", f'{{"a":{a},"b":1}}')])

    agent = Agent(FunctionModel(respond), system_prompt="Add.")

    @agent.tool_plain(name="add")
    async def _add(a: int, b: int) -> str:
        """Add."""
        return str(add(a, b))

    return agent


def prepare(_variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], Awaitable[list[str]]]:
    """The agent serves all runs; it stands without the request limit that it has by default."""
    agent, free = agent_of(Turns(steps), add), UsageLimits(request_limit=None)

    async def go() -> list[str]:
        return [(await agent.run("go", usage_limits=free)).output for _ in range(runs)]

    return go


async def limited(_name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """The exception holds nothing of the run; the messages are left to those who asked for them beforehand."""
    agent = agent_of(turns, add)
    with capture_run_messages() as messages:
        try:
            result = await agent.run("go", usage_limits=UsageLimits(request_limit=limit))
        except UsageLimitExceeded as error:
            responses = sum(isinstance(one, ModelResponse) for one in messages)
            results = sum(isinstance(part, ToolReturnPart) for one in messages for part in one.parts)
            return End(*raised(error), [("the exception", 0, 0), ("`capture_run_messages()`", responses, results)])
    return End("returns", result.output, [])
