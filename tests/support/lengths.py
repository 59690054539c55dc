"""Runs of which only the lengths matter, for rules that are compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from boolab.core.run import Run
from boolab.core.types import MICRO, Response, Step, Stop, ToolCall, ToolResult, Usage


def run_of_length(n: int, success: bool | None, task: str, name: str, **fields: Any) -> Run:
    """A run of `n` steps with a different call each, the last one too: its calls end the run."""
    made = []
    for index in range(1, n + 1):
        call, result = ToolCall("c", "look", f'{{"page": {index}}}'), ToolResult("c", f"page {index}", is_error=False)
        made.append(Step(index, 1, 0, 0, 0, Response("", (call,), None, Usage(10, 5, cost=MICRO)), (result,)))
    known: dict[str, Any] = {"agent": "", "model": "m", "policy": "", "source": "intercode", "run_id": name}
    return Run(**(known | fields), task=task, stop=Stop("finished", n), steps=tuple(made), success=success)


def group_of_runs(
    lengths: Sequence[int], successes: Sequence[bool | None], per_task: int = 1, prefix: str = "", **fields: Any
) -> list[Run]:
    """A run for each length; so many in a row are of one task."""
    return [
        run_of_length(n, success, f"{prefix}t{place // per_task}", f"{prefix}r{place}", **fields)
        for place, (n, success) in enumerate(zip(lengths, successes, strict=True))
    ]


def random_group(seed: int, tasks: int = 20, per_task: int = 2, prefix: str = "", **fields: Any) -> list[Run]:
    """Runs of random lengths; failures are longer."""
    rng = np.random.default_rng(seed)
    won = rng.random(tasks * per_task) < 0.6
    lengths = 1 + rng.poisson(np.where(won, 5, 12))
    return group_of_runs(lengths.tolist(), won.tolist(), per_task, prefix, **fields)
