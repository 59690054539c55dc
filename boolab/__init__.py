"""boolab: step caps, tool budgets and doom-loop thresholds for LLM agents, compared in notebooks.

The public names, sorted. Each is imported when it is first used, so that `import boolab` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boolab.abort import Abort
    from boolab.agents import Agent, load_agents
    from boolab.bash import bash_tool
    from boolab.branching import branch
    from boolab.compaction import Compaction
    from boolab.compare import compare_policies
    from boolab.counterfactuals import counterfactual
    from boolab.detector_rules import (
        alternating_actions,
        chanting,
        cycle,
        cycle_detections,
        failing_actions,
        finish_streak,
        idle_streak,
        reaches,
        repeating_actions,
        round_streak,
        same_error,
        step_repeats,
        text_mention,
        tool_window,
    )
    from boolab.detectors import Detector, Seen
    from boolab.divergence import divergences, first_divergence
    from boolab.errors import (
        AgentFileError,
        BoolabError,
        ModelError,
        ProfileError,
        ReadWarning,
        RunFormatError,
        ScriptError,
        ScriptExhausted,
        SettingError,
        StoreError,
        ToolError,
        UnknownCounter,
        WorkerDied,
    )
    from boolab.frames import boundaries_df, calls_df, events_df, finish_reasons_df, runs_df, steps_df
    from boolab.inbox import Inbox
    from boolab.labels import label
    from boolab.ledger import recording_df
    from boolab.list_prices import priced
    from boolab.models.hosted import AnthropicModel, OpenAIModel
    from boolab.models.patience import Timeouts
    from boolab.models.profile import Profile
    from boolab.models.recorded import RecordedModel
    from boolab.models.recording import record
    from boolab.models.retry import Retry
    from boolab.models.scripted import ScriptedModel
    from boolab.models.simulated import SimulatedModel
    from boolab.models.throttle import Throttle
    from boolab.plots import (
        plot_caps,
        plot_divergences,
        plot_fit,
        plot_heatmap,
        plot_scorecard,
        plot_steps,
        plot_stop_reasons,
        plot_survival,
        plot_timeline,
        plot_tools,
    )
    from boolab.policy import Guard, Policy
    from boolab.presets import dynamic_turns, fixed_turns, policies
    from boolab.public_data import load_dataset
    from boolab.reading import Reader, Reading, load_runs, read_logs
    from boolab.runner import resume, run, run_sync, start
    from boolab.saving import save_runs
    from boolab.setup import Question
    from boolab.stats.finding import Finding
    from boolab.stats.fit import Fit
    from boolab.stats.profiles import fit_profile
    from boolab.stats.recommend import Recommendation, recommend
    from boolab.stats.scorecard import scorecard
    from boolab.stats.survival import survival
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
    from boolab.store.stored import StoredRuns, stored_runs
    from boolab.store.writer import Store
    from boolab.subagents import family, task_tool
    from boolab.sweeps.sweep import sweep
    from boolab.tables import read_steps
    from boolab.tools import ToolContext, tool
    from boolab.types import Response, Run, Step, ToolCall, Usage
    from boolab.widgets.agent_editor import AgentEditor
    from boolab.widgets.caplab import CapLab
    from boolab.widgets.compare import Compare
    from boolab.widgets.heatmap import Heatmap
    from boolab.widgets.replay import Replay
    from boolab.widgets.sweep_view import SweepView

__all__ = [
    "Abort",
    "Agent",
    "AgentEditor",
    "AgentFileError",
    "AnthropicModel",
    "BoolabError",
    "CapLab",
    "Compaction",
    "Compare",
    "Detector",
    "Finding",
    "Fit",
    "Guard",
    "Heatmap",
    "Inbox",
    "ModelError",
    "OpenAIModel",
    "Policy",
    "Profile",
    "ProfileError",
    "Question",
    "ReadWarning",
    "Reader",
    "Reading",
    "Recommendation",
    "RecordedModel",
    "Replay",
    "Response",
    "Retry",
    "Run",
    "RunFormatError",
    "ScriptError",
    "ScriptExhausted",
    "ScriptedModel",
    "Seen",
    "SettingError",
    "SimulatedModel",
    "Step",
    "StopRule",
    "Store",
    "StoreError",
    "StoredRuns",
    "SweepView",
    "Throttle",
    "Timeouts",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "UnknownCounter",
    "Usage",
    "WorkerDied",
    "alternating_actions",
    "bash_tool",
    "boundaries_df",
    "branch",
    "calls_df",
    "chanting",
    "compare_policies",
    "counterfactual",
    "cycle",
    "cycle_detections",
    "divergences",
    "doom_loop",
    "dynamic_turns",
    "error_streak",
    "events_df",
    "failing_actions",
    "family",
    "finish_reasons_df",
    "finish_streak",
    "first_divergence",
    "fit_profile",
    "fixed_turns",
    "idle_streak",
    "label",
    "load_agents",
    "load_dataset",
    "load_runs",
    "max_cost",
    "max_steps",
    "max_time",
    "max_tokens",
    "plot_caps",
    "plot_divergences",
    "plot_fit",
    "plot_heatmap",
    "plot_scorecard",
    "plot_steps",
    "plot_stop_reasons",
    "plot_survival",
    "plot_timeline",
    "plot_tools",
    "policies",
    "priced",
    "reaches",
    "read_logs",
    "read_steps",
    "recommend",
    "record",
    "recording_df",
    "repeating_actions",
    "resume",
    "round_streak",
    "run",
    "run_sync",
    "runs_df",
    "same_error",
    "save_runs",
    "scorecard",
    "start",
    "step_repeats",
    "steps_df",
    "stored_runs",
    "survival",
    "sweep",
    "task_tool",
    "text_mention",
    "tool",
    "tool_budget",
    "tool_window",
]

_HOMES = {
    "setup": ("Question",),
    "inbox": ("Inbox",),
    "compaction": ("Compaction",),
    "compare": ("compare_policies",),
    "divergence": ("divergences", "first_divergence"),
    "presets": ("dynamic_turns", "fixed_turns", "policies"),
    "abort": ("Abort",),
    "agents": ("Agent", "load_agents"),
    "bash": ("bash_tool",),
    "branching": ("branch",),
    "counterfactuals": ("counterfactual",),
    "detector_rules": (
        "alternating_actions",
        "chanting",
        "cycle",
        "cycle_detections",
        "failing_actions",
        "finish_streak",
        "idle_streak",
        "reaches",
        "repeating_actions",
        "round_streak",
        "same_error",
        "step_repeats",
        "text_mention",
        "tool_window",
    ),
    "detectors": ("Detector", "Seen"),
    "errors": (
        "AgentFileError",
        "BoolabError",
        "ModelError",
        "ProfileError",
        "ReadWarning",
        "RunFormatError",
        "ScriptError",
        "ScriptExhausted",
        "SettingError",
        "StoreError",
        "ToolError",
        "UnknownCounter",
        "WorkerDied",
    ),
    "frames": ("boundaries_df", "calls_df", "events_df", "finish_reasons_df", "runs_df", "steps_df"),
    "ledger": ("recording_df",),
    "labels": ("label",),
    "list_prices": ("priced",),
    "models.hosted": ("AnthropicModel", "OpenAIModel"),
    "models.patience": ("Timeouts",),
    "models.profile": ("Profile",),
    "models.recorded": ("RecordedModel",),
    "models.recording": ("record",),
    "models.retry": ("Retry",),
    "models.scripted": ("ScriptedModel",),
    "models.simulated": ("SimulatedModel",),
    "models.throttle": ("Throttle",),
    "plots": (
        "plot_caps",
        "plot_divergences",
        "plot_fit",
        "plot_heatmap",
        "plot_scorecard",
        "plot_steps",
        "plot_stop_reasons",
        "plot_survival",
        "plot_timeline",
        "plot_tools",
    ),
    "policy": ("Guard", "Policy"),
    "widgets.agent_editor": ("AgentEditor",),
    "widgets.caplab": ("CapLab",),
    "widgets.compare": ("Compare",),
    "widgets.heatmap": ("Heatmap",),
    "widgets.replay": ("Replay",),
    "widgets.sweep_view": ("SweepView",),
    "public_data": ("load_dataset",),
    "reading": ("Reader", "Reading", "load_runs", "read_logs"),
    "saving": ("save_runs",),
    "runner": ("resume", "run", "run_sync", "start"),
    "stats.finding": ("Finding",),
    "stats.fit": ("Fit",),
    "stats.profiles": ("fit_profile",),
    "stats.recommend": ("Recommendation", "recommend"),
    "stats.scorecard": ("scorecard",),
    "stats.survival": ("survival",),
    "stop": ("StopRule", "doom_loop", "error_streak", "max_cost", "max_steps", "max_time", "max_tokens", "tool_budget"),
    "store.stored": ("StoredRuns", "stored_runs"),
    "store.writer": ("Store",),
    "subagents": ("family", "task_tool"),
    "sweeps.sweep": ("sweep",),
    "tables": ("read_steps",),
    "tools": ("ToolContext", "tool"),
    "types": ("Response", "Run", "Step", "ToolCall", "Usage"),
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("boolab")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        msg = f"module 'boolab' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"boolab.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
