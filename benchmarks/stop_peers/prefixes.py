"""Recorded runs as what a guard in an agent's loop would see: steps of tool calls with their results, in plain JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import boolab as bl

Fed: TypeAlias = dict[str, Any]
"""One run, as `adapters/exchange.py` describes it."""

NO_PART_OF_AN_AGENT: Final = frozenset({"set", "ended_by"})
"""Settings of a run that are facts about its data set."""


def group_of(run: bl.Run) -> str:
    """The agent that made the run: its data set, model and settings, such as the prompt."""
    settings = [str(value) for name, value in sorted(run.settings.items()) if name not in NO_PART_OF_AN_AGENT]
    return "/".join(part for part in (str(run.settings.get("set", "")), run.model, *settings) if part)


def fed(run: bl.Run) -> Fed:
    """A run with its steps; calls that were dropped never ran, so no guard sees them.

    Args:
        run: A run with its texts. One of facts alone has integers for arguments and results, which are not enough for
            packages that compare texts.
    """
    steps = [
        {
            "text": step.response.text,
            "calls": [
                {
                    "tool": call.name,
                    "arguments": _parsed(call.arguments),
                    "result": result.content,
                    "error": result.is_error,
                }
                for call, result in zip(step.response.tool_calls, step.results, strict=True)
                if result is not None
            ],
            "input_tokens": step.response.usage.input_tokens,
            "output_tokens": step.response.usage.output_tokens,
        }
        for step in run.steps
    ]
    return {
        "id": run.run_id,
        "group": group_of(run),
        "task": run.task or run.run_id,
        "success": run.success is True,
        "steps": steps,
    }


def without_results(run: Fed) -> Fed:
    """A run to learn from: no package learns from results, and they are most of the text."""
    steps = [{**step, "calls": [{**call, "result": None} for call in step["calls"]]} for step in run["steps"]]
    return {**run, "steps": steps}


def write(runs: Iterable[Fed], path: Path) -> Path:
    """Write runs, one a line.

    Returns:
        The path.
    """
    with path.open("w", encoding="utf-8") as lines:
        for run in runs:
            lines.write(json.dumps(run) + "\n")
    return path


def _parsed(arguments: str) -> Any:  # noqa: ANN401 - an object, or the text
    """The arguments if they are a JSON object, else the text as the model wrote it."""
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return arguments
    return parsed if isinstance(parsed, dict) else arguments
