"""The LangChain middleware in `create_agent`."""

from __future__ import annotations

import asyncio
from typing import Any

from exchange import Script
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph_peer import Scripted
from monitored import Case, endless, search, serve


class Talking(Scripted):
    """A scripted model that reports its usage."""

    case: Any = None

    async def _agenerate(self, messages: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        if self.case is not None:
            self.case.look_at(messages)
        made = await super()._agenerate(messages, *arguments, **options)
        made.generations[0].message.usage_metadata = {"input_tokens": 60, "output_tokens": 40, "total_tokens": 100}
        return made

    def _generate(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        return asyncio.run(self._agenerate(*arguments, **options))


def play(case: Case) -> None:
    """Invoke the agent once."""
    from boolab.integrations.langchain import middleware

    script: Script = case.script

    @tool
    async def look(what: str) -> str:
        """Look."""
        return script.look(what)

    @tool
    async def fail(what: str) -> str:
        """Fail."""
        return script.fail(what, ToolException)

    fail.handle_tool_error = True
    guard = middleware(case.rule, case.action, **case.options)
    agent = create_agent(Talking(script=script, case=case), [look, fail], middleware=[guard])
    state = asyncio.run(agent.ainvoke({"messages": [("user", "go")]}, {"recursion_limit": 500}))
    case.end = "boolab_stop" if state.get("boolab_stop") else "finished"
    case.kept = sum(isinstance(one, ToolMessage) and one.content.startswith("seen") for one in state["messages"])
    case.reason = state["messages"][-1].content if case.end == "boolab_stop" else ""


if __name__ == "__main__":
    serve("langchain", play, lambda: {"model": Talking(script=endless()), "search": search})
