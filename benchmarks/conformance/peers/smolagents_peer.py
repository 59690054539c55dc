"""smolagents: `ToolCallingAgent`, with a thin model of our own."""

from __future__ import annotations

from typing import Any

from exchange import Script, serve
from smolagents import LogLevel, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction
from smolagents.monitoring import TokenUsage


class Scripted(Model):
    """Says what the script says."""

    def __init__(self, script: Script) -> None:
        super().__init__(model_id="scripted")
        self.script = script

    def generate(self, _messages: Any, tools_to_call_from: Any = None, **_options: Any) -> ChatMessage:  # noqa: ANN401
        """One message; the wrap-up is the request that names no tools."""
        said = self.script.say(offered=bool(tools_to_call_from))
        calls = [
            ChatMessageToolCall(
                function=ChatMessageToolCallFunction(name=one["name"], arguments=one["arguments"]),
                id=f"c{self.script.model_calls}.{i}",
                type="function",
            )
            for i, one in enumerate(said["calls"])
        ]
        used = TokenUsage(input_tokens=said["tokens"][0], output_tokens=said["tokens"][1])
        return ChatMessage(role="assistant", content=said["text"] or None, tool_calls=calls or None, token_usage=used)


def tools_of(script: Script) -> list[Any]:
    """The script's tools."""

    @tool
    def look(what: str) -> str:
        """Look.

        Args:
            what: At what.
        """
        return script.look(what)

    @tool
    def fail(what: str) -> str:
        """Fail.

        Args:
            what: With what.
        """
        return script.fail(what)

    return [look, fail]


def play(script: Script, settings: dict[str, Any]) -> str:
    """Run the agent once: `max_steps` is the agent's, `run_max_steps` that of the call to `run`."""
    agent = ToolCallingAgent(
        tools=tools_of(script), model=Scripted(script), max_steps=settings["max_steps"], verbosity_level=LogLevel.OFF
    )
    result = agent.run("go", max_steps=settings.get("run_max_steps"), return_full_result=True)
    return str(result.state)


def run_exported(script: Script, code: str) -> bool:
    """Run an exported text, which makes the agent."""
    names: dict[str, Any] = {"tools": tools_of(script), "model": Scripted(script)}
    exec(code, names)  # noqa: S102 - the text is what is tested
    agent = names["agent"]
    agent.logger.level = LogLevel.OFF
    return bool(agent.run("go", return_full_result=True).state == "success")


if __name__ == "__main__":
    serve("smolagents", play, run_exported)
