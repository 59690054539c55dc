"""langgraph: `create_react_agent`, and `create_agent` of langchain that took its place, with a thin chat model."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.pregel.main import ensure_config
from work import End, Turns, raised

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langgraph.prebuilt import create_react_agent

VARIANTS = ("create_agent", "create_react_agent")
FREE = {"recursion_limit": 1_000_000}
EXIT = inspect.signature(ModelCallLimitMiddleware).parameters["exit_behavior"].default


class Scripted(BaseChatModel):
    """Says what its turns say."""

    turns: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_arguments: Any, **_options: Any) -> Any:  # noqa: ANN401
        """It knows its tool."""
        return self

    def _generate(self, *_arguments: Any, **_options: Any) -> ChatResult:  # noqa: ANN401
        raise NotImplementedError  # graphs are run by `ainvoke`

    async def _agenerate(self, *_arguments: Any, **_options: Any) -> ChatResult:  # noqa: ANN401
        a = self.turns.next()
        call = {"name": "add", "args": {"a": a, "b": 1}, "id": f"c{a}"}
        message = AIMessage("done") if a is None else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def graph_of(builder: str, turns: Turns, tool: Callable[[int, int], int], **options: Any) -> Any:  # noqa: ANN401
    """A graph with one tool."""

    async def add(a: int, b: int) -> str:
        """Add."""
        return str(tool(a, b))

    model = Scripted(turns=turns)
    if builder == "create_agent":
        return create_agent(model, tools=[add], system_prompt="Add.", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return create_react_agent(model, [add], prompt="Add.", **options)


LIMITS = {
    "recursion_limit (create_react_agent)": int(ensure_config()["recursion_limit"]),
    "recursion_limit (create_agent)": int(graph_of("create_agent", Turns(1), int.__add__).config["recursion_limit"]),
    "ModelCallLimitMiddleware.run_limit": None,
}


def prepare(variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], Awaitable[list[str]]]:
    """The graph serves all runs."""
    graph = graph_of(variant, Turns(steps), add)

    async def go() -> list[str]:
        return [(await graph.ainvoke({"messages": [("user", "go")]}, FREE))["messages"][-1].text for _ in range(runs)]

    return go


async def limited(name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """A checkpointer that was given beforehand holds the state before the exception."""
    kept: dict[str, Any] = {"checkpointer": InMemorySaver()}
    settings: dict[str, Any] = {"configurable": {"thread_id": "1"}}
    if name.startswith("Model"):
        graph = graph_of("create_agent", turns, add, middleware=[ModelCallLimitMiddleware(run_limit=limit)], **kept)
        settings |= FREE
    else:
        graph = graph_of(name.split("(")[1].rstrip(")"), turns, add, **kept)
        settings["recursion_limit"] = limit
    try:
        messages = (await graph.ainvoke({"messages": [("user", "go")]}, settings))["messages"]
    except GraphRecursionError as error:
        messages = (await graph.aget_state(settings)).values["messages"]
        return End(*raised(error), [("the exception", 0, 0), ("a checkpointer", *counted(messages))])
    return End("returns", messages[-1].text, [("the state returned", *counted(messages))])


def counted(messages: list[Any]) -> tuple[int, int]:
    """Responses with calls and results among messages; what the package says in the model's name is not one."""
    responses = sum(isinstance(one, AIMessage) and bool(one.tool_calls) for one in messages)
    return responses, sum(isinstance(one, ToolMessage) for one in messages)
