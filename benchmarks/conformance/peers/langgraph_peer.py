"""langgraph: `create_react_agent`, with a thin chat model."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from exchange import Script, serve
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langgraph.prebuilt import create_react_agent


class Scripted(BaseChatModel):
    """Says what the script says."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:  # noqa: ANN401
        """The same model, with tools on offer."""
        return self.bind(tools=tools)

    def _generate(self, *_arguments: Any, **_options: Any) -> ChatResult:  # noqa: ANN401
        raise NotImplementedError  # the graph is run by `ainvoke`

    async def _agenerate(self, *_arguments: Any, **options: Any) -> ChatResult:  # noqa: ANN401
        said = self.script.say(offered=bool(options.get("tools")))
        calls = [
            {"name": one["name"], "args": one["arguments"], "id": f"c{self.script.model_calls}.{i}"}
            for i, one in enumerate(said["calls"])
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said["text"], tool_calls=calls))])


def tools_of(script: Script) -> list[Any]:
    """The script's tools."""

    async def look(what: str) -> str:
        """Look."""
        return script.look(what)

    async def fail(what: str) -> str:
        """Fail."""
        return script.fail(what)

    async def decline(what: str) -> str:
        """Decline."""
        return script.fail(what, ToolException)

    return [look, fail, decline]


def play(script: Script, settings: dict[str, Any]) -> str:
    """Invoke the graph once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = create_react_agent(Scripted(script=script), tools=tools_of(script))
    asyncio.run(graph.ainvoke({"messages": [("user", "go")]}, {"recursion_limit": settings["recursion_limit"]}))
    return "success"


if __name__ == "__main__":
    serve("langgraph", play)
