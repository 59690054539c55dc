"""OpenAI Agents SDK: `max_turns` of a run, and boolab's hooks for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.harnesses.exports.python_code import (
    default_note,
    monitor_notes,
    monitor_rows,
    options_code,
    python_part,
    rule_lines,
)
from boolab.harnesses.exports.step_cap import limited_steps
from boolab.harnesses.exports.values import Limits, Part, Sets, Target, any_weights
from boolab.harnesses.groups import About, Cap, Execution, Inputs
from boolab.harnesses.harness import STEPS, Harness
from boolab.harnesses.policy import Policy

_MONITORED: Final = ("tool_budget", "doom_loop", "error_streak", "max_tokens", "max_time")
_PRESET: Final = "openai_agents"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The call that runs an agent."""
    rule = rule_lines(limits, _MONITORED)
    remarks = [*default_note(limits, _PRESET, "max_turns=None lifts it")]
    arguments = ["agent", "prompt"]
    if (cap := limited_steps(limits, _PRESET, remarks, "turns")) is not None:
        arguments.append(f"max_turns={cap}")
    if rule:
        arguments.append(f"hooks=hooks(rule{options_code(limits)})")
    remarks += monitor_notes(limits, _MONITORED, "The SDK")
    lines = [
        *(["import boolab as bl"] if rule else []),
        "from agents import Runner",
        *(["from boolab.integrations.openai_agents import hooks"] if rule else []),
        "",
        *rule,
        "result = Runner.run_sync(",
        *(f"    {argument}," for argument in arguments),
        ")",
    ]
    how = "where the agent is run; `agent` and `prompt` are yours, and `await Runner.run` takes the same."
    return (python_part(limits, {"max_steps", *_MONITORED}, lines, [*remarks, *notes], how),), tuple(remarks)


_TARGET: Final = Target(
    name="openai-agents",
    title="the OpenAI Agents SDK",
    preset=_PRESET,
    source="openai-agents 0.24.0, src/agents/run.py, and run (docs/exports.md); "
    "https://openai.github.io/openai-agents-python/running_agents/",
    sets=(
        Sets(
            "max_steps",
            "`Runner.run(..., max_turns=N)`",
            "responses, evaluated before each request; 10 by default",
            "run with openai-agents 0.24.0",
        ),
        *monitor_rows(_MONITORED, "boolab.integrations.openai_agents.hooks({})"),
    ),
    lacks={"max_cost": "The SDK reports no costs; a token budget comes nearest."},
    build=build,
    lacks_weights=any_weights,
)


_OPENAI_AGENTS: Final = Policy(
    name="openai_agents",
    about=About(
        source="openai-agents, src/agents/run.py: max_turns = 10",
        loop_style="while true: a turn, then tools, a handoff or the output",
        finish_guard="an output of the right type, without tool calls",
        weakness="the limit raises; what was done is in the exception only",
        own_words=(
            ("step_cap", "MaxTurnsExceeded"),
            ("error, ModelError", "ModelBehaviorError"),
            ("finished", "final_output"),
        ),
    ),
    cap=Cap(max_steps=10, zero="plain"),
    execution=Execution(unknown_tools="fatal"),
    inputs=Inputs(queued="kept"),
)

HARNESS: Final = Harness(
    presets=(_OPENAI_AGENTS,), limits={"openai_agents": {"max_turns": STEPS}}, target=_TARGET, adapter="openai_agents"
)
