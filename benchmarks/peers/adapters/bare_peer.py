"""The bare loop against itself; and with a row for each step and a DataFrame of them at the end.

The second is what a careful user writes by hand: without rules, validation or messages of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bare import BareModel, bare

VARIANTS = ("bare", "rows")
LIMITS: dict[str, object] = {}


async def rows(steps: int, add: Callable[[int, int], int], kept: list[dict[str, Any]]) -> str:
    """The bare loop, which appends a row for each step to `kept`."""
    model, functions = BareModel(steps), {"add": add}
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Add."}, {"role": "user", "content": "go"}]
    step = called = 0
    while True:
        begun = time.perf_counter()
        answer = await model(messages)
        said = time.perf_counter()
        messages.append(answer)
        step += 1
        calls = answer.get("tool_calls", ())
        row = {"step": step, "start": begun, "model_s": said - begun, "n_tool_calls": len(calls), "n_before": called}
        for call in calls:
            name, text = call["function"]["name"], call["function"]["arguments"]
            result = str(functions[name](**json.loads(text)))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            called += 1
            row |= {"tool": name, "arguments": text, "call": hash((name, text)), "result_chars": len(result)}
        row["duration_s"] = time.perf_counter() - begun
        kept.append(row)
        if not calls:
            return str(answer["content"])


def prepare(variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], Awaitable[list[str]]]:
    """Nothing is built beforehand."""
    if variant == "bare":

        async def go() -> list[str]:
            return [await bare(steps, add) for _ in range(runs)]

        return go

    import pandas as pd

    async def with_rows() -> list[str]:
        kept: list[dict[str, Any]] = []
        texts = [await rows(steps, add, kept) for _ in range(runs)]
        assert len(pd.DataFrame(kept)) == runs * steps
        return texts

    return with_rows
