"""inspect-ai: `react`, with its own `mockllm` model."""

from __future__ import annotations

import os
import tempfile
from typing import Any

os.environ["INSPECT_DISPLAY"] = "none"

from exchange import Script, serve
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    Model,
    ModelCost,
    ModelInfo,
    ModelOutput,
    ModelUsage,
    get_model,
    set_model_info,
)
from inspect_ai.tool import Tool, ToolCall, ToolError, tool

DOLLARS_PER_MILLION = 10_000
"""The price of a token at which a turn of 100 tokens costs the one dollar that the scripts say."""


def tools_of(script: Script) -> list[Tool]:
    """The script's tools as Inspect wants them."""

    @tool(name="look")
    def look() -> Tool:
        async def execute(what: str) -> str:
            """Look.

            Args:
                what: At what.
            """
            return script.look(what)

        return execute

    @tool(name="fail")
    def fail() -> Tool:
        async def execute(what: str) -> str:
            """Fail.

            Args:
                what: With what.
            """
            return script.fail(what)

        return execute

    @tool(name="decline")
    def decline() -> Tool:
        async def execute(what: str) -> str:
            """Decline.

            Args:
                what: With what.
            """
            return script.fail(what, ToolError)

        return execute

    return [look(), fail(), decline()]


def model_of(script: Script) -> Model:
    """The package's own model for tests, with the script's turns, at a dollar each."""

    def respond(_input: Any, tools: Any, _tool_choice: Any, _config: Any) -> ModelOutput:  # noqa: ANN401
        said = script.say(offered=bool(tools))
        calls = [
            ToolCall(id=f"c{script.model_calls}.{i}", function=one["name"], arguments=one["arguments"])
            for i, one in enumerate(said["calls"])
        ]
        message = ChatMessageAssistant(content=said["text"], tool_calls=calls or None, source="generate")
        sent, received = said["tokens"]
        return ModelOutput(
            model="mockllm",
            choices=[ChatCompletionChoice(message=message, stop_reason=said["finish_reason"])],
            usage=ModelUsage(input_tokens=sent, output_tokens=received, total_tokens=sent + received),
        )

    price = ModelCost(input=DOLLARS_PER_MILLION, output=DOLLARS_PER_MILLION, input_cache_write=0, input_cache_read=0)
    set_model_info("mockllm/model", ModelInfo(cost=price))
    return get_model("mockllm/model", custom_outputs=respond, memoize=False)


def task_of(script: Script) -> Task:
    """A task of one sample."""
    return Task(dataset=[Sample(input="go", target="done")], solver=react(tools=tools_of(script)), scorer=None)


def play(script: Script, settings: dict[str, Any]) -> str:
    """Evaluate a task of one sample, under limits of `eval`: the end is its status, and the limit that ended it."""
    model, task = model_of(script), task_of(script)
    with tempfile.TemporaryDirectory() as folder:
        log = evaluate(task, model=model, display="none", log_dir=folder, score=False, **settings)[0]
        limit = log.samples[0].limit if log.samples else None  # samples are read from the folder when asked for
    return str(log.status) if limit is None else f"{log.status}, limit {limit.type}"


def run_exported(script: Script, code: str) -> bool:
    """Run an exported text, which evaluates a task; its log goes into a folder of its own."""
    names: dict[str, Any] = {"model": model_of(script), "task": task_of(script)}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["INSPECT_LOG_DIR"] = folder
        exec(code, names)  # noqa: S102 - the text is what is tested
        log = names["logs"][0]
        limit = log.samples[0].limit if log.samples else None
    return bool(log.status == "success" and limit is None)


if __name__ == "__main__":
    serve("inspect-ai", play, run_exported)
