"""pydantic-ai, with its own `FunctionModel`."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from exchange import Script, serve
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

FINISH_REASONS = {"tool_calls": "tool_call"}


def model_of(script: Script) -> FunctionModel:
    """A model that says what the script says."""

    def respond(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = script.say(offered=bool(info.function_tools))
        parts: list[Any] = [TextPart(said["text"])] if said["text"] else []
        parts += [ToolCallPart(one["name"], json.dumps(one["arguments"])) for one in said["calls"]]
        sent, received = said["tokens"]
        used = RequestUsage(input_tokens=sent, output_tokens=received, cost=Decimal(str(said["cost"])))
        reason = said["finish_reason"]
        return ModelResponse(parts, usage=used, finish_reason=FINISH_REASONS.get(reason, reason))

    return FunctionModel(respond)


def tools_of(script: Script) -> list[Any]:
    """The script's tools."""

    async def look(what: str) -> str:
        return script.look(what)

    async def fail(what: str) -> str:
        return script.fail(what)

    async def decline(what: str) -> str:
        return script.fail(what, ModelRetry)

    return [look, fail, decline]


def play(script: Script, settings: dict[str, Any]) -> str:
    """Run the agent once; without a `request_limit` there is none. The package has no word for a run that finished."""
    limits = {"request_limit": None, **settings}
    if "cost_limit" in limits:
        limits["cost_limit"] = Decimal(str(limits["cost_limit"]))
    agent = Agent(model_of(script), tools=tools_of(script))
    agent.run_sync("go", usage_limits=UsageLimits(**limits))
    return "finished"


def run_exported(script: Script, code: str) -> bool:
    """Run an exported text, which runs the agent."""
    names = {"model": model_of(script), "tools": tools_of(script), "prompt": "go"}
    names["agent"] = Agent(names["model"], tools=names["tools"])
    exec(code, names)  # noqa: S102 - the text is what is tested
    return bool(names["result"].output == "done")


if __name__ == "__main__":
    serve("pydantic-ai-slim", play, run_exported)
