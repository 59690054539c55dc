"""langgraph: `create_react_agent`, with a thin chat model."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from exchange import Script, serve
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
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

    def _generate(self, *_arguments: Any, **options: Any) -> ChatResult:  # noqa: ANN401
        return self.said(**options)

    async def _agenerate(self, *_arguments: Any, **options: Any) -> ChatResult:  # noqa: ANN401
        return self.said(**options)

    def said(self, **options: Any) -> ChatResult:  # noqa: ANN401
        """The next turn of the script."""
        said = self.script.say(offered=bool(options.get("tools")))
        calls = [
            {"name": one["name"], "args": one["arguments"], "id": f"c{self.script.model_calls}.{i}"}
            for i, one in enumerate(said["calls"])
        ]
        sent, received = said["tokens"]
        used = UsageMetadata(input_tokens=sent, output_tokens=received, total_tokens=sent + received)
        message = AIMessage(said["text"], tool_calls=calls, usage_metadata=used)
        return ChatResult(generations=[ChatGeneration(message=message)])


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


def plain_tools_of(script: Script) -> list[Any]:
    """Tools that are no coroutines, for `invoke`."""

    def look(what: str) -> str:
        """Look."""
        return script.look(what)

    def fail(what: str) -> str:
        """Fail."""
        return script.fail(what)

    return [look, fail]


def run_exported(script: Script, code: str) -> bool:
    """Run an exported text, which invokes the agent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = create_react_agent(Scripted(script=script), tools=plain_tools_of(script))
    names: dict[str, Any] = {"agent": agent, "prompt": "go"}
    exec(code, names)  # noqa: S102 - the text is what is tested
    return bool(names["result"]["messages"][-1].content == "done")


if __name__ == "__main__":
    serve("langgraph", play, run_exported)
