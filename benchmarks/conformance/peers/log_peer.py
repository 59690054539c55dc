"""One scenario, played through a released package, and the log that the package itself can keep of it.

inspect-ai and mini-swe-agent write logs of their own. Of the others it is the messages that the package holds at its
end, also where it ended with an exception, as OpenAI's chat messages.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from exchange import Script


def _call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": raw}}


def _written(path: Path, messages: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({"messages": messages}, indent=1), encoding="utf-8")


def inspect_ai(script: Script, settings: dict[str, Any], folder: Path) -> None:
    """Its own log, as JSON."""
    import inspect_ai_peer as peer

    peer.tempfile = SimpleNamespace(TemporaryDirectory=lambda: nullcontext(str(folder)))
    peer.play(script, settings | {"log_format": "json"})


def mini_swe_agent(script: Script, settings: dict[str, Any], folder: Path) -> None:
    """Its own trajectory."""
    import mini_swe_agent_peer as peer

    class Saved(peer.DefaultAgent):
        def run(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            try:
                return super().run(*arguments, **options)
            finally:
                self.save(folder / "run.traj.json")

    peer.DefaultAgent = Saved
    peer.play(script, {"cost_limit": 0.0, **settings})


def langgraph(script: Script, settings: dict[str, Any], folder: Path) -> None:
    """The messages in the last state of the graph."""
    import asyncio

    import langgraph_peer as peer
    from langchain_core.messages import convert_to_openai_messages

    async def look(what: str) -> str:
        """Look."""
        return script.look(what)

    graph = peer.create_react_agent(peer.Scripted(script=script), tools=[look])
    state: dict[str, Any] = {}

    async def run() -> None:
        async for one in graph.astream({"messages": [("user", "go")]}, settings, stream_mode="values"):
            state.update(one)

    with suppress(Exception):  # how it ends is not asked here
        asyncio.run(run())
    _written(folder / "run.json", convert_to_openai_messages(state["messages"]))


def openai_agents(script: Script, settings: dict[str, Any], folder: Path) -> None:
    """The items of the run, or of the exception."""
    import openai_agents_peer as peer

    from agents import MaxTurnsExceeded

    kept: list[Any] = []
    run_sync = peer.Runner.run_sync

    def watched(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        try:
            result = run_sync(*arguments, **options)
        except MaxTurnsExceeded as error:
            kept.extend(error.run_data.new_items)
            raise
        kept.extend(result.new_items)
        return result

    peer.Runner.run_sync = watched
    with suppress(MaxTurnsExceeded):
        peer.play(script, settings)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for item in (one.to_input_item() for one in kept):
        if item["type"] == "function_call":
            call = _call(item["call_id"], item["name"], item["arguments"])
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif item["type"] == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        else:
            messages.append({"role": "assistant", "content": item["content"][0]["text"]})
    _written(folder / "run.json", messages)


def pydantic_ai_slim(script: Script, settings: dict[str, Any], folder: Path) -> None:
    """The messages that `capture_run_messages` holds."""
    import pydantic_ai_slim_peer as peer
    from pydantic_ai import UsageLimitExceeded, capture_run_messages

    with capture_run_messages() as found, suppress(UsageLimitExceeded):
        peer.play(script, settings)
    messages: list[dict[str, Any]] = []
    for message in found:
        calls = []
        text = ""
        for part in message.parts:
            kind = part.part_kind
            if kind == "tool-call":
                calls.append(_call(part.tool_call_id, part.tool_name, part.args))
            elif kind == "text":
                text += part.content
            elif kind == "tool-return":
                messages.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": str(part.content)})
            elif kind == "user-prompt":
                messages.append({"role": "user", "content": part.content})
        if message.kind == "response":
            messages.append({"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})})
    _written(folder / "run.json", messages)


def smolagents(script: Script, settings: dict[str, Any], folder: Path) -> None:
    """The steps of the agent's memory."""
    import smolagents_peer as peer

    kept: list[Any] = []

    class Kept(peer.ToolCallingAgent):
        def run(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            try:
                return super().run(*arguments, **options)
            finally:
                kept.extend(step for step in self.memory.steps if hasattr(step, "step_number"))

    peer.ToolCallingAgent = Kept
    peer.play(script, settings)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for step in kept:
        calls = [_call(one.id, one.name, one.arguments) for one in step.tool_calls or ()]
        said = {"tool_calls": calls, "content": None} if calls else {"content": str(step.action_output or "Summary.")}
        messages.append({"role": "assistant", **said})
        messages += [
            {"role": "tool", "tool_call_id": one["id"], "content": str(step.observations or "")} for one in calls
        ]
    _written(folder / "run.json", messages)


PACKAGES = {
    "inspect-ai": inspect_ai,
    "langgraph": langgraph,
    "mini-swe-agent": mini_swe_agent,
    "openai-agents": openai_agents,
    "pydantic-ai-slim": pydantic_ai_slim,
    "smolagents": smolagents,
}


def main() -> None:
    """Play what stands on standard input; write the counts to standard output."""
    asked = json.load(sys.stdin)
    script = Script(asked["script"])
    with redirect_stdout(sys.stderr), suppress(Exception):
        PACKAGES[asked["package"]](script, asked["settings"], Path(asked["folder"]))
    json.dump({"model_calls": script.model_calls, "tools_run": script.tools_run}, sys.stdout)


if __name__ == "__main__":
    main()
