"""LoopBrake: a limit on tool calls for each agent, calibrated on past successes with the package's own `calibrate`."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import loopbrake
from exchange import Guard, serve

ALL = "all"
"""The project of all agents together."""


def actions(step: dict[str, Any]) -> list[tuple[str, str | None, bool | None]]:
    """The actions of a step, with result and error, as in the package's own experiments.

    They are its calls: the name of the tool, then the arguments as sorted JSON. A step without a call is one action,
    its text.
    """
    if not step["calls"]:
        return [(step["text"] or "no text", None, None)]
    return [(f"{call['tool']} {as_text(call['arguments'])}", call["result"], call["error"]) for call in step["calls"]]


def as_text(arguments: Any) -> str:  # noqa: ANN401
    """The arguments as the package writes them."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def project_of(group: str) -> str:
    """The name of an agent's project: short, of plain characters, and its own."""
    return hashlib.sha256(group.encode()).hexdigest()[:16]


def past_run(run: dict[str, Any]) -> dict[str, Any]:
    """A run in the package's file format. Of the results it learns nothing, so they are left out."""
    steps = [
        {"action": action, "observation": "", "error": error, "tokens": 0}
        for step in run["steps"]
        for action, _result, error in actions(step)
    ]
    facts = {"group": run["group"], "dataset": run["group"], "task": run["task"], "run": run["id"]}
    return {**facts, "success": run["success"], "exit": None, "tokens_measured": False, "steps": steps}


def prepare(training: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    """Calibrate each agent, and all together for agents that are not among them.

    The package only watches an agent with fewer than 19 tasks with a success, and never stops it.
    """
    home = Path(tempfile.mkdtemp(prefix="loopbrake-"))
    pasts: dict[str, list[str]] = {ALL: []}
    for run in training:
        line = json.dumps(past_run(run))
        pasts[ALL].append(line)
        pasts.setdefault(project_of(run["group"]), []).append(line)
    for project, lines in pasts.items():
        file = home / f"{project}.jsonl"
        file.write_text("\n".join(lines), encoding="utf-8")
        loopbrake.calibrate(file, project=project, home=home)

    def new_guard(group: str) -> Guard:
        project = project_of(group)
        brake = loopbrake.start(project if project in pasts else ALL, home=home)

        def guard(step: dict[str, Any]) -> bool:
            decisions = [brake.step(action, result, error=error) for action, result, error in actions(step)]
            return any(decision.stop for decision in decisions)

        return guard

    return new_guard


if __name__ == "__main__":
    serve("loopbrake", prepare)
