"""mini-swe-agent: limits in a YAML file beside its own, and on the command line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from boolab.harnesses.exports.step_cap import step_cap
from boolab.harnesses.exports.values import Limits, Part, Sets, Target, commented
from boolab.harnesses.presets import get_policy

_PRESET: Final = "mini_swe_agent"
_NONE: Final = "mini-swe-agent has none; a subclass of its DefaultAgent with bl.Monitor has it."
_RUN: Final = "run with mini-swe-agent 2.4.6"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """A configuration file that is merged into the package's own."""
    own: list[str] = []
    values: dict[str, int | float] = {}
    if limits.max_steps is not None:
        cap = step_cap(limits.max_steps, _PRESET, limits.policy, "model calls")
        own += [cap.note] if cap.note else []
        values["step_limit"] = cap.value
    if limits.max_cost is not None:
        values["cost_limit"] = limits.max_cost
    else:
        default = get_policy(_PRESET).budgets.cost
        own.append(f"Its default cost_limit of ${default:g} stays in force: cost_limit: 0 lifts it.")
    if limits.max_time is not None:
        values["wall_time_limit_seconds"] = math.ceil(limits.max_time)
        own.append("The time is in whole seconds.")
    own.append("In a terminal, mini asks for new limits when one is reached; without one, the run ends.")
    if not values:
        return (Part(text=commented("yaml", notes), language="yaml", how="mini-swe-agent has no such limit."),), ()
    settings = "".join(f"  {name}: {value}\n" for name, value in values.items())
    options = " ".join(f"-c agent.{name}={value}" for name, value in values.items())
    sets = frozenset({"max_steps", "max_cost", "max_time"} & limits.given.keys())
    parts = (
        Part(
            text=f"{commented('yaml', (*own, *notes))}agent:\n{settings}",
            language="yaml",
            how="a configuration of its own, merged into the package's: mini -c mini.yaml -c limits.yaml",
            path="limits.yaml",
            sets=sets,
        ),
        Part(text=f"mini -c mini.yaml {options}\n", language="shell", how="the same on the command line.", sets=sets),
    )
    return parts, tuple(own)


TARGET: Final = Target(
    name="mini-swe-agent",
    title="mini-swe-agent",
    preset=_PRESET,
    source="mini-swe-agent 2.4.6, minisweagent/agents/default.py, and run (docs/exports.md); "
    "https://mini-swe-agent.com/latest/advanced/yaml_configuration/",
    sets=(
        Sets("max_steps", "`agent.step_limit`", "model calls, evaluated before each; 0 is off", _RUN),
        Sets("max_cost", "`agent.cost_limit`", "dollars, evaluated before each request; 3 by default, 0 is off", _RUN),
        Sets(
            "max_time",
            "`agent.wall_time_limit_seconds`",
            "whole seconds, evaluated before each request; 0 is off",
            "minisweagent/agents/default.py of 2.4.6",
        ),
    ),
    lacks=dict.fromkeys(("tool_budget", "doom_loop", "error_streak", "max_tokens"), _NONE),
    build=build,
)
