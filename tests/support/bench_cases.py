"""Labelled runs for the benchmark of stop rules, by chance: sets, models and tasks, repeated calls, errors, costs."""

import random
from collections.abc import Sequence
from itertools import count

import boolab as bl
from benchmarks.stoprulebench.recordings import Recordings, recordings_of
from boolab.core.run import Run
from boolab.core.types import Response, Step, Stop, ToolCall, ToolResult, Usage

SETS = {
    "sql": ("small", "large", "other"),
    "code": ("small", "large"),
    "tau-airline": ("small",),
    "tau2-airline": ("small",),
}


def run_of(
    calls: str,
    *,
    run_id: str,
    success: bool | None,
    task: str,
    set_name: str = "sql",
    model: str = "small",
    cost: int | None = 10,
) -> Run:
    """A run with a step for each letter, a call of that name; a capital letter is a call that fails."""
    steps = []
    for index, letter in enumerate(calls, 1):
        call = ToolCall(f"c{index}", letter.lower(), "{}")
        result = ToolResult(call.id, f"{letter}{index}", is_error=letter.isupper())
        response = Response("", (call,), "tool_calls", Usage(100, 10, cost=cost))
        steps.append(Step(index, 1, index * 10, 10, 5, response, (result,)))
    return Run(run_id=run_id, agent="a", model=model, policy="p", task=task, stop=Stop("finished", len(calls)),
               steps=tuple(steps), success=success, source="made", settings={"set": set_name})  # fmt: skip


def some_runs(seed: int = 0, tasks: int = 12, sets: Sequence[str] = tuple(SETS)) -> list[Run]:
    """Runs of all sets; failures are longer and repeat themselves more."""
    chance, number = random.Random(seed), count()  # noqa: S311 - made data
    runs = []
    for name in sets:
        for model in SETS[name]:
            for task in range(tasks):
                success = chance.random() < 0.5
                length = chance.randint(1, 8) + (0 if success else chance.randint(0, 9))
                repeats = 0.3 if success else 0.7
                letters = [chance.choice("abcABC")]
                for _ in range(length - 1):
                    letters.append(letters[-1] if chance.random() < repeats else chance.choice("abcABC"))
                cost = None if name == "code" else chance.randint(0, 50)
                runs.append(run_of("".join(letters), run_id=f"r{next(number)}", success=success, task=f"{name}/{task}",
                                   set_name=name, model=model, cost=cost))  # fmt: skip
    chance.shuffle(runs)
    return runs


def some_recordings(seed: int = 0, tasks: int = 12, sets: Sequence[str] = tuple(SETS)) -> Recordings:
    """The same as recordings."""
    return recordings_of(some_runs(seed, tasks, sets), "made")


def saved(runs: Sequence[Run], path: object) -> str:
    """The runs in a file; its name."""
    bl.save_runs(runs, str(path))
    return str(path)
