"""Simulated recordings for trials: runs that a cap stopped, and what they would have been under a looser one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import boolab as bl

LOOSE: Final = 24
TIGHT: Final = 8


def profile(hazard: float = 0.08, **more: Any) -> bl.models.Profile:
    """An agent that finishes at any step with the same probability, and has known costs."""
    return bl.models.Profile.of(
        {
            "tools": {"look": {"error_rate": 0.1}, "edit": {}},
            "finish": {"hazard": hazard},
            "success": {"finished": 0.8, "cut": 0.1},
            "tokens": {"prompt": 200, "output": 40},
            "price": {"input": 3.0, "output": 15.0},
            **more,
        }
    )


def agent(cap: int | None = TIGHT, **options: Any) -> bl.Agent:
    """An agent with a cap alone."""
    return bl.Agent("a", **{"max_steps": cap, "tool_budget": None, "doom_loop": None, **options})


def recorded(n: int, model: Any, *, tasks: int | None = None, who: bl.Agent | None = None) -> list[bl.Run]:
    """Runs under a tight cap, of so many tasks."""
    made = [
        bl.run_sync(who or agent(), f"Task {seed % (tasks or n)}", model=model, seed=seed) for seed in range(n)
    ]  # fmt: skip
    return [replace(run, run_id=f"run {seed:03}") for seed, run in enumerate(made)]


def undisturbed(runs: list[bl.Run], model: Any, who: bl.Agent) -> list[bl.Run]:
    """What they would have been under another agent from the start."""
    return [bl.run_sync(who, run.task, model=model, seed=run.seed) for run in runs]
