"""SWE-agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from boolab.harnesses.groups import About, Budgets, Cap, Detectors, Execution, Finish, Inputs, WrapUp
from boolab.harnesses.harness import STEPS, ConfigFile, ConfigLimit, Harness, Native
from boolab.harnesses.policy import Policy
from boolab.io.json_input import mapping
from boolab.limits.detectors.streaks import IdleStreak, TimeoutStreak
from boolab.limits.guard import Guard

_SWE_AGENT: Final = Policy(
    name="swe_agent",
    order=("cost_budget", "max_steps", "guards"),
    about=About(
        source="SWE-agent, sweagent/agent/agents.py and models.py: $3 an instance, calls off, three requeries",
        loop_style="while not done: one action, with bounded requeries",
        finish_guard="the submission, here the tool submit",
        weakness="the response that breaks the limit is paid and dropped",
        own_words=(
            ("step_cap", "submitted (exit_cost)"),
            ("cost_budget", "submitted (exit_cost)"),
            ("error_streak", "submitted (exit_format)"),
            ("error_streak, timeout_streak", "submitted (exit_command_timeout)"),
            ("finished", "submitted"),
        ),
    ),
    cap=Cap(check="response", zero="unlimited"),
    budgets=Budgets(cost=3.0, before="unchecked", after="exceeded"),
    detectors=Detectors(
        guards=(
            Guard(detector=IdleStreak(), ladder=((3, "stop"),), reason="error_streak"),
            Guard(detector=TimeoutStreak(), ladder=((3, "stop"),)),
        )
    ),
    finish=Finish(
        conditions=(), tools=("submit",), idle_prompt="The response could not be parsed: give exactly one action."
    ),
    execution=Execution(calls="exactly_one"),
    inputs=Inputs(queued="kept"),
    wrap_up=WrapUp(summary="static"),
)


def _settings(document: Mapping[str, Any]) -> Iterator[ConfigLimit]:
    model = mapping(mapping(document.get("agent")).get("model"))
    for key in _LIMITS:
        yield ConfigLimit(key, model.get(key))


_LIMITS: Final = {  # sweagent/agent/models.py
    "per_instance_call_limit": STEPS,
    "per_instance_cost_limit": Native("max_cost"),
}

HARNESS: Final = Harness(
    presets=(_SWE_AGENT,),
    sources={"swe_agent": "swe_agent"},
    limits={"swe_agent": _LIMITS},
    config_files=(ConfigFile((), ".yaml", "swe_agent", _settings),),
)
