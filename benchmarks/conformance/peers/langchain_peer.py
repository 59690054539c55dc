"""langchain: `create_agent` with its middleware for limits on calls, and the chat model of the driver of langgraph."""

from __future__ import annotations

import asyncio
from typing import Any

from exchange import Script, serve
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, ToolCallLimitMiddleware
from langgraph_peer import Scripted, plain_tools_of, tools_of


def play(script: Script, settings: dict[str, Any]) -> str:
    """Invoke the agent once; a limit of the middleware ends it with a text, as a success."""
    middleware: list[Any] = []
    if "model_run_limit" in settings:
        middleware.append(ModelCallLimitMiddleware(run_limit=settings["model_run_limit"], exit_behavior="end"))
    if "tool_run_limit" in settings:
        middleware.append(ToolCallLimitMiddleware(run_limit=settings["tool_run_limit"], exit_behavior="end"))
    agent = create_agent(Scripted(script=script), tools=tools_of(script), middleware=middleware)
    config = {name: settings[name] for name in ("recursion_limit",) if name in settings}
    asyncio.run(agent.ainvoke({"messages": [("user", "go")]}, config))
    return "success"


def run_exported(script: Script, code: str) -> bool:
    """Run an exported text, which makes the agent, or invokes one without middleware."""
    names: dict[str, Any] = {"model": Scripted(script=script), "tools": plain_tools_of(script), "prompt": "go"}
    names["agent"] = create_agent(names["model"], tools=names["tools"])
    exec(code, names)  # noqa: S102 - the text is what is tested
    result = names["result"] if "result" in names else names["agent"].invoke({"messages": [("user", "go")]})
    return bool(result["messages"][-1].content == "done")


if __name__ == "__main__":
    serve("langchain", play, run_exported)
