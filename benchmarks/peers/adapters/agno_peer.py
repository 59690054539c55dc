"""agno, with a thin model of our own; its telemetry is off."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

os.environ["AGNO_TELEMETRY"] = "false"

import inspect

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from work import End, Turns

VARIANTS = ("Agent",)
LIMITS = {"tool_call_limit": inspect.signature(Agent).parameters["tool_call_limit"].default}


class Scripted(Model):
    """Says what its turns say."""

    turns: Turns
    asked_at_most: int | None = None

    def invoke(self, *_arguments: Any, **_options: Any) -> ModelResponse:  # noqa: ANN401
        """One message."""
        if self.asked_at_most is not None and self.turns.asked >= self.asked_at_most:
            return ModelResponse(role="assistant", content="gave up")
        a = self.turns.next()
        if a is None:
            return ModelResponse(role="assistant", content="done")
        function = {"name": "add", "arguments": f'{{"a":{a},"b":1}}'}
        calls = [{"id": f"c{a}", "type": "function", "function": function}]
        return ModelResponse(role="assistant", content="", tool_calls=calls)

    async def ainvoke(self, *_arguments: Any, **_options: Any) -> ModelResponse:  # noqa: ANN401
        """One message."""
        return self.invoke()

    def invoke_stream(self, *_arguments: Any, **_options: Any) -> Any:  # noqa: ANN401
        """Never asked for: the agent does not stream."""
        raise NotImplementedError

    def ainvoke_stream(self, *_arguments: Any, **_options: Any) -> Any:  # noqa: ANN401
        """Never asked for."""
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_options: Any) -> Any:  # noqa: ANN401
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:  # noqa: ANN401
        return response


def agent_of(turns: Turns, tool: Callable[[int, int], int], **settings: Any) -> Agent:  # noqa: ANN401
    """An agent with one tool."""

    async def add(a: int, b: int) -> str:
        """Add."""
        return str(tool(a, b))

    model = Scripted(id="scripted")
    model.turns = turns
    return Agent(model=model, tools=[add], system_message="Add.", telemetry=False, **settings)


def prepare(_variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], Awaitable[list[str]]]:
    """An agent for each run, as it keeps a session."""
    turns = Turns(steps)
    agents = [agent_of(turns, add) for _ in range(runs)]

    async def go() -> list[str]:
        return [str((await agent.arun("go")).content) for agent in agents]

    return go


GIVES_UP = 50
"""After so many requests the model stops by itself: this limit refuses calls, and ends nothing."""


async def limited(name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """The limit is on calls of tools: those beyond it are refused, and the model is asked on."""
    agent = agent_of(turns, add, **{name: limit})
    agent.model.asked_at_most = GIVES_UP
    result = await agent.arun("go")
    messages = result.messages or []
    responses = sum(one.role == "assistant" and bool(one.tool_calls) for one in messages)
    results = sum(one.role == "tool" for one in messages)
    said = str(result.content)
    how = "refuses further calls; requests continue until the model stops" if said == "gave up" else "returns"
    return End(how, said, [("the result's messages", responses, results)])
