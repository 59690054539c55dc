"""Made-up labelled runs of tasks that differ in how hard they are."""

from collections.abc import Sequence
from random import Random

import boolab as bl
from boolab.core.types import Response, Stop, ToolCall, ToolResult


def made_run(run_id: str, task: str, calls: Sequence[tuple[str, str]], *, success: bool | None) -> bl.Run:
    """A run of one call a step, each with its arguments and its result, that ended by itself with a text."""
    steps = [
        bl.Step(
            number,
            1,
            None,
            None,
            None,
            Response("", (ToolCall(str(number), "look", arguments),)),
            (ToolResult(str(number), result, is_error=result == "error"),),
        )
        for number, (arguments, result) in enumerate(calls, 1)
    ]
    steps.append(bl.Step(len(steps) + 1, 1, None, None, None, Response("Done.")))
    stop = Stop("finished", len(calls))
    return bl.Run(
        run_id=run_id, agent="", model="m", policy="", task=task, stop=stop, steps=tuple(steps), success=success
    )


def labelled_runs(tasks: int, runs_per_task: int = 2, seed: int = 0) -> list[bl.Run]:
    """Runs whose failures repeat calls more often and are longer; a task's difficulty is shared by its runs."""
    random = Random(seed)  # noqa: S311 - chance is no secret here
    runs = []
    for task in range(tasks):
        difficulty = random.random()
        for number in range(runs_per_task):
            failed = random.random() < difficulty
            length = random.randint(2, 8) + failed * random.randint(0, 12)
            repeats = 0.55 if failed else 0.15
            calls: list[tuple[str, str]] = []
            for step in range(length):
                if calls and random.random() < repeats:
                    calls.append(calls[-1])
                else:
                    calls.append((f'{{"page": {step}}}', "error" if random.random() < 0.2 else "x" * step))
            runs.append(made_run(f"{task}.{number}", f"task {task}", calls, success=not failed))
    return runs
