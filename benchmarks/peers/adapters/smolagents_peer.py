"""smolagents: `ToolCallingAgent`, with a thin model of our own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from smolagents import ActionStep, LogLevel, Model, MultiStepAgent, ToolCallingAgent
from smolagents import tool as tool_of
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction
from work import End, Turns

VARIANTS = ("ToolCallingAgent",)
LIMITS = {"max_steps": inspect.signature(MultiStepAgent).parameters["max_steps"].default}


class Scripted(Model):
    """Says what its turns say."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(model_id="scripted")
        self.turns = turns

    def generate(self, _messages: Any, tools_to_call_from: Any = None, **_options: Any) -> ChatMessage:  # noqa: ANN401
        """One message; a request that names no tools is the wrap-up."""
        if not tools_to_call_from:
            return ChatMessage(role="assistant", content=self.turns.wrap_up())
        a = self.turns.next()
        function = (
            ChatMessageToolCallFunction(name="final_answer", arguments={"answer": "done"})
            if a is None
            else ChatMessageToolCallFunction(name="add", arguments={"a": a, "b": 1})
        )
        call = ChatMessageToolCall(function=function, id=f"c{a}", type="function")
        return ChatMessage(role="assistant", content=None, tool_calls=[call])


def agent_of(turns: Turns, tool: Callable[[int, int], int], limit: int) -> ToolCallingAgent:
    """An agent with one tool, beside the one for its final answer."""

    @tool_of
    def add(a: int, b: int) -> str:
        """Add.

        Args:
            a: First.
            b: Second.
        """
        return str(tool(a, b))

    return ToolCallingAgent(tools=[add], model=Scripted(turns), max_steps=limit, verbosity_level=LogLevel.OFF)


def prepare(_variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], list[str]]:
    """The agent serves all runs; it forgets the last at the start of the next."""
    agent = agent_of(Turns(steps), add, steps)
    return lambda: [str(agent.run("go")) for _ in range(runs)]


def limited(_name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """The agent's memory and the full result have a step for each step."""
    agent = agent_of(turns, add, limit)
    result = agent.run("go", return_full_result=True)
    taken = [one for one in agent.memory.steps if isinstance(one, ActionStep) and one.tool_calls]
    results = sum(one.observations is not None for one in taken)
    how = f"returns, state {result.state}"
    return End(how, str(result.output), [("the result's steps, `agent.memory`", len(taken), results)])
