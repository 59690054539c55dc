"""The Pydantic AI capability in `Agent`."""

from __future__ import annotations

import json
from collections.abc import Callable

from exchange import Script
from monitored import Case, endless, search, serve
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits


def model_of(script: Script, look_at: Callable[[object], None] = lambda _: None) -> FunctionModel:
    """A model that plays a script."""

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        look_at(messages)
        said = script.say(offered=bool(info.function_tools))
        parts = [TextPart(said["text"])] if said["text"] else []
        parts += [ToolCallPart(one["name"], json.dumps(one["arguments"])) for one in said["calls"]]
        return ModelResponse(parts, usage=RequestUsage(input_tokens=60, output_tokens=40))

    return FunctionModel(respond)


def play(case: Case) -> None:
    """Run the agent once."""
    from boolab.integrations.pydantic_ai import capability

    script = case.script

    async def look(what: str) -> str:
        return script.look(what)

    async def fail(what: str) -> str:
        return script.fail(what, ModelRetry)

    guard = capability(case.rule, case.action, **case.options)
    agent = Agent(model_of(script, case.look_at), tools=[look, fail], capabilities=[guard], retries=50)
    result = agent.run_sync("go", usage_limits=UsageLimits(request_limit=None))
    stopped = (result.all_messages()[-1].metadata or {}).get("boolab_stop")
    case.end = "boolab_stop" if stopped else "finished"
    parts = [part for one in result.all_messages() if isinstance(one, ModelRequest) for part in one.parts]
    case.kept = sum(isinstance(part, ToolReturnPart) and str(part.content).startswith("seen") for part in parts)
    case.reason = result.output if stopped else ""


if __name__ == "__main__":
    serve("pydantic-ai-slim", play, lambda: {"model": model_of(endless()), "search": search})
