"""boolab: step caps, tool budgets and doom-loop thresholds for LLM agents, compared in notebooks.

The public names, sorted. Each is imported when it is first used, so that `import boolab` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boolab.abort import Abort
    from boolab.agents import Agent, load_agents
    from boolab.errors import (
        AgentFileError,
        BoolabError,
        ModelError,
        ScriptError,
        ScriptExhausted,
        SettingError,
        ToolError,
        UnknownCounter,
    )
    from boolab.frames import calls_df, events_df, runs_df, steps_df
    from boolab.models.recorded import RecordedModel
    from boolab.models.scripted import ScriptedModel
    from boolab.plots import plot_steps, plot_stop_reasons, plot_tools
    from boolab.policy import Policy, policies
    from boolab.runner import resume, run, run_sync, start
    from boolab.stop import (
        StopRule,
        doom_loop,
        error_streak,
        max_cost,
        max_steps,
        max_time,
        max_tokens,
        tool_budget,
    )
    from boolab.sweeps import sweep
    from boolab.tools import ToolContext, tool
    from boolab.types import Run, Step

_HOMES = {
    "Abort": "abort",
    "Agent": "agents",
    "AgentFileError": "errors",
    "BoolabError": "errors",
    "ModelError": "errors",
    "Policy": "policy",
    "RecordedModel": "models.recorded",
    "Run": "types",
    "ScriptError": "errors",
    "ScriptExhausted": "errors",
    "ScriptedModel": "models.scripted",
    "SettingError": "errors",
    "Step": "types",
    "StopRule": "stop",
    "ToolContext": "tools",
    "ToolError": "errors",
    "UnknownCounter": "errors",
    "calls_df": "frames",
    "doom_loop": "stop",
    "error_streak": "stop",
    "events_df": "frames",
    "load_agents": "agents",
    "max_cost": "stop",
    "max_steps": "stop",
    "max_time": "stop",
    "max_tokens": "stop",
    "plot_steps": "plots",
    "plot_stop_reasons": "plots",
    "plot_tools": "plots",
    "policies": "policy",
    "resume": "runner",
    "run": "runner",
    "run_sync": "runner",
    "runs_df": "frames",
    "start": "runner",
    "steps_df": "frames",
    "sweep": "sweeps",
    "tool": "tools",
    "tool_budget": "stop",
}

__all__ = [  # noqa: PLE0604 - a literal list of the keys above
    *_HOMES,
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module 'boolab' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"boolab.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
