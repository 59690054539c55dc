"""smolagents: `max_steps` of an agent, and boolab's step callback for the rest."""

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
from boolab.harnesses.groups import About, Cap, Finish, Inputs, WrapUp
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy

_MONITORED: Final = ("tool_budget", "doom_loop", "error_streak", "max_tokens", "max_time")
_PRESET: Final = "smolagents"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The agent."""
    rule = rule_lines(limits, _MONITORED)
    remarks = [*default_note(limits, _PRESET, "a larger max_steps raises it")]
    arguments = ["tools=tools", "model=model"]
    if (cap := limited_steps(limits, _PRESET, remarks, "steps")) is not None:
        remarks.append("After the cap one more request asks for a summary, without tools, and its text is the answer.")
        arguments.append(f"max_steps={cap}")
    if rule:
        arguments.append(f"step_callbacks=[callback(rule{options_code(limits)})]")
    remarks += monitor_notes(limits, _MONITORED, "smolagents")
    lines = [
        *(["import boolab as bl", "from boolab.integrations.smolagents import callback"] if rule else []),
        "from smolagents import ToolCallingAgent",
        "",
        *rule,
        "agent = ToolCallingAgent(",
        *(f"    {argument}," for argument in arguments),
        ")",
    ]
    how = "where the agent is made; `tools` and `model` are yours, and a CodeAgent takes the same."
    return (python_part(limits, {"max_steps", *_MONITORED}, lines, [*remarks, *notes], how),), tuple(remarks)


_TARGET: Final = Target(
    name="smolagents",
    title="smolagents",
    preset=_PRESET,
    source="smolagents 1.26.0, src/smolagents/agents.py, and run (docs/exports.md); "
    "https://huggingface.co/docs/smolagents/reference/agents",
    sets=(
        Sets(
            "max_steps",
            "`ToolCallingAgent(..., max_steps=N)`",
            "steps, evaluated before each; 20 by default, then a summary",
            "run with smolagents 1.26.0",
        ),
        *monitor_rows(_MONITORED, "boolab.integrations.smolagents.callback({})"),
    ),
    lacks={"max_cost": "smolagents reports no costs; a token budget comes nearest."},
    build=build,
    lacks_weights=any_weights,
)


_SMOLAGENTS: Final = Policy(
    name="smolagents",
    about=About(
        source="smolagents, src/smolagents/agents.py: max_steps = 20",
        loop_style="ReAct steps; the memory is rewritten for each",
        finish_guard="final_answer",
        weakness="the wrap-up bypasses final_answer (issue 825)",
        own_words=(("step_cap", "max_steps_error"), ("finished", "success")),
    ),
    cap=Cap(max_steps=20, zero="default"),
    finish=Finish(
        conditions=(),
        tools=("final_answer",),
        batch="alone",
        idle_prompt="The response could not be parsed for a tool call. Call a tool, or final_answer.",
    ),
    inputs=Inputs(queued="kept"),
    wrap_up=WrapUp(summary="model"),
)

HARNESS: Final = Harness(presets=(_SMOLAGENTS,), target=_TARGET, adapter="smolagents")
