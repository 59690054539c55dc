"""openai-agents, with a thin model of our own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from exchange import Script, serve
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled

set_tracing_disabled(True)


class Scripted(Model):
    """Says what the script says."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def get_response(  # the parameters are the package's
        self,
        system_instructions: Any,  # noqa: ANN401, ARG002
        input: Any,  # noqa: A002, ANN401, ARG002
        model_settings: Any,  # noqa: ANN401, ARG002
        tools: list[Any],
        *_rest: Any,  # noqa: ANN401
        **_options: Any,  # noqa: ANN401
    ) -> ModelResponse:
        """One response."""
        said = self.script.say(offered=bool(tools))
        n = self.script.model_calls
        output: list[Any] = []
        if said["text"]:
            text = ResponseOutputText(type="output_text", text=said["text"], annotations=[])
            output.append(
                ResponseOutputMessage(id=f"m{n}", type="message", role="assistant", status="completed", content=[text])
            )
        output += [
            ResponseFunctionToolCall(
                type="function_call", call_id=f"c{n}.{i}", name=one["name"], arguments=json.dumps(one["arguments"])
            )
            for i, one in enumerate(said["calls"])
        ]
        sent, received = said["tokens"]
        used = Usage(requests=1, input_tokens=sent, output_tokens=received, total_tokens=sent + received)
        return ModelResponse(output=output, usage=used, response_id=None)

    def stream_response(self, *_arguments: Any, **_options: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        """Never asked for: `Runner.run_sync` does not stream."""
        raise NotImplementedError


def agent_of(script: Script) -> Agent:
    """The agent, with the script's tools."""

    async def look(what: str) -> str:
        return script.look(what)

    async def fail(what: str) -> str:
        return script.fail(what)

    tools = [function_tool(look), function_tool(fail)]
    return Agent(name="a", instructions="Look.", model=Scripted(script), tools=tools)


def play(script: Script, settings: dict[str, Any]) -> str:
    """Run the agent once; with `handler`, one that answers for the limit."""
    handlers = {"max_turns": lambda _given: "handled"} if settings.get("handler") else None
    result = Runner.run_sync(agent_of(script), "go", max_turns=settings["max_turns"], error_handlers=handlers)
    return "handled" if result.final_output == "handled" else "final_output"


def run_exported(script: Script, code: str) -> bool:
    """Run an exported text, which runs the agent."""
    names: dict[str, Any] = {"agent": agent_of(script), "prompt": "go"}
    exec(code, names)  # noqa: S102 - the text is what is tested
    return bool(names["result"].final_output == "done")


if __name__ == "__main__":
    serve("openai-agents", play, run_exported)
