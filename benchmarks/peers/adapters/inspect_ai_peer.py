"""inspect-ai: `react` in a task of one sample for each run, with a thin model.

Its own mock model is not used: that copies the whole history at each call. An evaluation's start and its log are part
of what is measured; without samples in the log, the second variant shows what the transcript costs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

os.environ["INSPECT_DISPLAY"] = "none"

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, get_model, modelapi
from inspect_ai.tool import Tool
from inspect_ai.tool import tool as tool_of
from work import End, Turns

VARIANTS = ("log", "no samples in the log")
LIMITS = {"turn_limit": None, "message_limit": None}


@modelapi("scripted")
def scripted() -> type[ModelAPI]:
    """The provider of the thin model."""

    class Scripted(ModelAPI):
        """Says what its turns say."""

        def __init__(self, model_name: str, *_arguments: Any, turns: Any, **_options: Any) -> None:  # noqa: ANN401
            super().__init__(model_name)
            self.turns = turns

        async def generate(self, *_arguments: Any, **_options: Any) -> ModelOutput:  # noqa: ANN401
            """One output; the end is a call of the agent's own tool."""
            a = self.turns.next()
            name, arguments = ("submit", {"answer": "done"}) if a is None else ("add", {"a": a, "b": 1})
            output = ModelOutput.for_tool_call("scripted", name, arguments)
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
            return output

    return Scripted


def evaluated(turns: Turns, runs: int, add: Callable[[int, int], int], **settings: Any) -> Any:  # noqa: ANN401
    """The log of an evaluation of so many samples, one after the other."""

    @tool_of(name="add")
    def adding() -> Tool:
        async def execute(a: int, b: int) -> str:
            """Add.

            Args:
                a: First.
                b: Second.
            """
            return str(add(a, b))

        return execute

    model = get_model("scripted/model", memoize=False, turns=turns)
    samples = [Sample(input="go", target="done", id=number) for number in range(1, runs + 1)]
    task = Task(dataset=samples, solver=react(tools=[adding()]), scorer=None)
    return evaluate(task, model=model, display="none", max_samples=1, max_connections=1, score=False, **settings)[0]


def answered(sample: Any) -> str:  # noqa: ANN401
    """What was submitted: the completion has the model's own text before it."""
    return str(sample.output.completion).split("\n")[-1]


def prepare(variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], list[str]]:
    """The folder of the log; all else is the evaluation's."""
    folder = tempfile.mkdtemp()  # in the home that goes with this process
    without = {"log_samples": False, "log_realtime": False} if variant == VARIANTS[1] else {}

    def go() -> list[str]:
        log = evaluated(Turns(steps), runs, add, log_dir=folder, **without)
        if without:
            return ["done"] * log.results.completed_samples if log.status == "success" else [str(log.error)]
        return [answered(one) for one in log.samples]

    return go


def limited(name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """The log has a sample with its messages, and the limit that ended it."""
    with tempfile.TemporaryDirectory() as folder:
        log = evaluated(turns, 1, add, log_dir=folder, **{name: limit})
        sample = log.samples[0]
        responses = sum(one.role == "assistant" for one in sample.messages)
        results = sum(one.role == "tool" for one in sample.messages)
        met = f"limit {sample.limit.type}" if sample.limit else "no limit met"
        said = "" if sample.limit else answered(sample)
        return End(f"returns a log, status {log.status}, {met}", said, [("the log's messages", responses, results)])
