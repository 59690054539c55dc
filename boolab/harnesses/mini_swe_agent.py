"""mini-swe-agent: limits in a YAML file beside its own, and on the command line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from boolab.harnesses.exports.step_cap import limited_steps
from boolab.harnesses.exports.values import Limits, Part, Sets, Target, comment
from boolab.harnesses.groups import About, Budgets, Cap, Detectors, Execution, Finish, Inputs
from boolab.harnesses.harness import STEPS, ConfigFile, ConfigLimit, Harness, Native
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.io.json_input import mapping
from boolab.limits.detectors.streaks import IdleStreak
from boolab.limits.guard import Guard

_PRESET: Final = "mini_swe_agent"
_NO_LIMIT: Final = "mini-swe-agent has none; a subclass of its DefaultAgent with bl.Monitor has it."
_VERIFIED: Final = "run with mini-swe-agent 2.4.6"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """A configuration file that is merged into the package's own."""
    remarks: list[str] = []
    values: dict[str, int | float] = {}
    if (cap := limited_steps(limits, _PRESET, remarks, "model calls")) is not None:
        values["step_limit"] = cap
    if limits.max_cost is not None:
        values["cost_limit"] = limits.max_cost
    else:
        default = get_policy(_PRESET).budgets.cost
        remarks.append(f"Its default cost_limit of ${default:g} stays in force: cost_limit: 0 lifts it.")
    if limits.max_time is not None:
        values["wall_time_limit_seconds"] = math.ceil(limits.max_time)
        remarks.append("The time is in whole seconds.")
    remarks.append("In a terminal, mini asks for new limits when one is reached; without one, the run ends.")
    if not values:
        return (Part(text=comment("yaml", notes), language="yaml", how="mini-swe-agent has no such limit."),), ()
    settings = "".join(f"  {name}: {value}\n" for name, value in values.items())
    options = " ".join(f"-c agent.{name}={value}" for name, value in values.items())
    sets = frozenset({"max_steps", "max_cost", "max_time"} & limits.given.keys())
    parts = (
        Part(
            text=f"{comment('yaml', (*remarks, *notes))}agent:\n{settings}",
            language="yaml",
            how="a configuration of its own, merged into the package's: mini -c mini.yaml -c limits.yaml",
            path="limits.yaml",
            sets=sets,
        ),
        Part(text=f"mini -c mini.yaml {options}\n", language="shell", how="the same on the command line.", sets=sets),
    )
    return parts, tuple(remarks)


_TARGET: Final = Target(
    name="mini-swe-agent",
    title="mini-swe-agent",
    preset=_PRESET,
    source="mini-swe-agent 2.4.6, minisweagent/agents/default.py, and run (docs/exports.md); "
    "https://mini-swe-agent.com/latest/advanced/yaml_configuration/",
    sets=(
        Sets("max_steps", "`agent.step_limit`", "model calls, evaluated before each; 0 is off", _VERIFIED),
        Sets(
            "max_cost",
            "`agent.cost_limit`",
            "dollars, evaluated before each request; 3 by default, 0 is off",
            _VERIFIED,
        ),
        Sets(
            "max_time",
            "`agent.wall_time_limit_seconds`",
            "whole seconds, evaluated before each request; 0 is off",
            "minisweagent/agents/default.py of 2.4.6",
        ),
    ),
    lacks=dict.fromkeys(("tool_budget", "doom_loop", "error_streak", "max_tokens"), _NO_LIMIT),
    build=build,
)


_MINI_SWE_AGENT: Final = Policy(
    name="mini_swe_agent",
    order=("guards", "max_steps", "cost_budget", "time_budget"),
    about=About(
        source="mini-swe-agent v2, minisweagent/agents/default.py: step_limit 0 (off), cost_limit $3, wall time 0",
        loop_style="while true: query, run, observe",
        finish_guard="the submission marker, here the tool submit",
        weakness="no wrap-up, no detector",
        own_words=(
            ("step_cap", "LimitsExceeded"),
            ("cost_budget", "LimitsExceeded"),
            ("time_budget", "TimeExceeded"),
            ("error_streak", "RepeatedFormatError"),
            ("finished", "Submitted"),
        ),
    ),
    cap=Cap(zero="unlimited"),
    budgets=Budgets(cost=3.0),
    detectors=Detectors(guards=(Guard(detector=IdleStreak(), ladder=((3, "stop"),), reason="error_streak"),)),
    finish=Finish(
        conditions=(),
        tools=("submit",),
        batch="until",
        idle_prompt="No action was found in the response. Give exactly one.",
    ),
    execution=Execution(unknown_tools="rejected", calls="sequence"),
    inputs=Inputs(queued="kept"),
)


def _settings(document: Mapping[str, Any]) -> Iterator[ConfigLimit]:
    agent = mapping(document.get("agent"))
    for key in _LIMITS:
        yield ConfigLimit(key, agent.get(key))


_LIMITS: Final = {  # mini-swe-agent 2, minisweagent/agents/default.py
    "step_limit": STEPS,
    "cost_limit": Native("max_cost"),
    "wall_time_limit_seconds": Native("max_time"),
}

HARNESS: Final = Harness(
    presets=(_MINI_SWE_AGENT,),
    sources={"mini_swe_agent": "mini_swe_agent"},
    limits={"mini_swe_agent": _LIMITS},
    config_files=(ConfigFile((), ".yaml", "mini_swe_agent", _settings),),
    target=_TARGET,
)
