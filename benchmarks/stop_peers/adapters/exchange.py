"""What the adapters share: recorded runs from a file, each fed to a fresh guard step by step, until it stops the run.

The adapters run under the Python of the package's own environment, where there is no boolab: they need nothing but the
package. Standard output belongs to the answer; what a package prints goes to standard error.

The request is JSON on standard input: `runs` and `training`, files with one run a line. A run is
`{"id", "group", "task", "success", "steps"}`; a step is `{"text", "calls", "input_tokens", "output_tokens"}`; a call is
`{"tool", "arguments", "result", "error"}`, its arguments parsed if they are a JSON object, and text otherwise. The
answer has the package's version, and by run the number of steps after which it is stopped.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Guard = Callable[[dict[str, Any]], bool]
"""Is called with each step once it is complete, and returns whether the run is stopped there."""


def runs_of(path: str) -> Iterator[dict[str, Any]]:
    """The runs of a file, one after the other."""
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def stop_step(guard: Guard, steps: list[dict[str, Any]]) -> int | None:
    """After how many steps the guard stops the run; None if it never does. It sees no step after that."""
    return next((number for number, step in enumerate(steps, 1) if guard(step)), None)


def serve(package: str, prepare: Callable[[list[dict[str, Any]]], Callable[[str], Guard]]) -> None:
    """Answer the request on standard input.

    Args:
        package: The distribution, for its version.
        prepare: Is called once with the training runs, which have no results (and are none for a package that learns
            nothing), and returns a function that makes the guard of a new run, given the run's group.
    """
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        new_guard = prepare(list(runs_of(asked["training"])))
        stops = {run["id"]: stop_step(new_guard(run["group"]), run["steps"]) for run in runs_of(asked["runs"])}
    json.dump({"version": importlib.metadata.version(package), "stops": stops}, sys.stdout)
