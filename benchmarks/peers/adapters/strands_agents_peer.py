"""strands-agents, with a thin model of our own; its sliding window over the messages is off, as no peer has one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from strands import Agent
from strands import tool as tool_of
from strands.agent.conversation_manager import NullConversationManager
from strands.models.model import Model
from work import End, Turns

VARIANTS = ("Agent",)
LIMITS = {"limits['turns']": None}
USED = {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 0}}


class Scripted(Model):
    """Says what its turns say."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def update_config(self, **_settings: Any) -> None:  # noqa: ANN401
        """It has no settings."""

    def get_config(self) -> dict[str, Any]:
        """It has no settings."""
        return {}

    def structured_output(self, *_arguments: Any, **_options: Any) -> Any:  # noqa: ANN401
        """Never asked for."""
        raise NotImplementedError

    async def stream(self, *_arguments: Any, **_options: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        """One message, in the events of the package."""
        a = self.turns.next()
        yield {"messageStart": {"role": "assistant"}}
        if a is None:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        else:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": "add", "toolUseId": f"c{a}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": f'{{"a":{a},"b":1}}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if a is None else "tool_use"}}
        yield {"metadata": USED}


def agent_of(turns: Turns, tool: Callable[[int, int], int]) -> Agent:
    """An agent with one tool."""

    @tool_of
    async def add(a: int, b: int) -> str:
        """Add.

        Args:
            a: First.
            b: Second.
        """
        return str(tool(a, b))

    return Agent(
        model=Scripted(turns),
        tools=[add],
        system_prompt="Add.",
        callback_handler=None,
        conversation_manager=NullConversationManager(),
    )


def prepare(_variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], Awaitable[list[str]]]:
    """An agent for each run, as it remembers what it did."""
    turns = Turns(steps)
    agents = [agent_of(turns, add) for _ in range(runs)]

    async def go() -> list[str]:
        return [str(await agent.invoke_async("go")) for agent in agents]

    return go


async def limited(_name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """The agent keeps its messages."""
    agent = agent_of(turns, add)
    result = await agent.invoke_async("go", limits={"turns": limit})
    responses = sum(one["role"] == "assistant" for one in agent.messages)
    results = sum("toolResult" in block for one in agent.messages for block in one["content"])
    return End(f"returns, stop_reason {result.stop_reason}", str(result), [("`agent.messages`", responses, results)])
