"""OpenHands: its classic form, and the agent SDK that followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from boolab.harnesses.groups import About, Cap, Continues, Detectors, Execution, Finish
from boolab.harnesses.harness import STEPS, ConfigFile, ConfigLimit, Harness, Native
from boolab.harnesses.policy import Policy
from boolab.io.json_input import mapping
from boolab.limits.detectors.openhands import ActionStreak
from boolab.limits.detectors.streaks import IdleStreak
from boolab.limits.guard import Guard

_OPENHANDS: Final = Policy(
    name="openhands",
    order=("cost_budget", "max_steps", "guards"),
    about=About(
        source="OpenHands software-agent-sdk, conversation/impl/local_conversation.py and stuck_detector.py",
        loop_style="while true under a lock; a status machine",
        finish_guard="a text without tool calls, or finish",
        weakness="compares thoughts too: other words hide a loop",
        own_words=(
            ("step_cap", "MaxIterationsReached"),
            ("cost_budget", "MaxBudgetReached"),
            ("stuck", "STUCK"),
            ("error_streak", "STUCK"),
            ("finished", "FINISHED"),
        ),
    ),
    cap=Cap(max_steps=500, zero="plain"),
    detectors=Detectors(
        guards=(
            Guard(detector=ActionStreak("repeating"), ladder=((4, "stop"),)),
            Guard(detector=ActionStreak("failing"), ladder=((3, "nudge"), (4, "stop"))),
            Guard(detector=IdleStreak(), ladder=((3, "stop"),)),
            Guard(detector=ActionStreak("alternating"), ladder=((6, "stop"),)),
        )
    ),
    finish=Finish(
        conditions=("no_calls", "has_text"),
        tools=("finish",),
        idle_prompt="Your reply holds neither text nor a tool call. Use a tool, or finish.",
    ),
    execution=Execution(calls="sequence"),
)
_OPENHANDS_CLASSIC: Final = Policy(
    name="openhands_classic",
    order=("guards", "max_steps", "cost_budget"),
    about=About(
        source="OpenHands classic, openhands/controller/agent_controller.py and stuck.py",
        loop_style="event-driven controller, one action a step",
        finish_guard="finish, or a message to the user",
        weakness="kills agents that wait for a long process (issues 5355, 10350)",
        own_words=(("step_cap", "ERROR"), ("cost_budget", "ERROR"), ("stuck", "STUCK"), ("error_streak", "STUCK")),
    ),
    cap=Cap(max_steps=500, zero="plain"),
    continues=Continues(times=None, by="ask"),
    detectors=Detectors(
        guards=(
            Guard(detector=ActionStreak("repeating"), ladder=((4, "stop"),)),
            Guard(detector=ActionStreak("failing"), ladder=((3, "stop"),)),
            Guard(detector=IdleStreak(), ladder=((3, "stop"),)),
            Guard(detector=ActionStreak("alternating"), ladder=((6, "stop"),)),
        )
    ),
    finish=Finish(tools=("finish",)),
    execution=Execution(calls="sequence"),
)


def _settings(document: Mapping[str, Any]) -> Iterator[ConfigLimit]:
    core = mapping(document.get("core"))
    for key in _CLASSIC:
        yield ConfigLimit(key, core.get(key))


_CLASSIC: Final = {"max_iterations": STEPS, "max_budget_per_task": Native("max_cost")}  # config.template.toml
_SDK: Final = {  # software-agent-sdk, local_conversation.py
    "max_iteration_per_run": STEPS,
    "max_iterations": STEPS,
    "max_budget_per_run": Native("max_cost"),
}

HARNESS: Final = Harness(
    presets=(_OPENHANDS, _OPENHANDS_CLASSIC),
    sources={"openhands": "openhands_classic", "openhands_sdk": "openhands"},
    limits={"openhands_classic": _CLASSIC, "openhands": _SDK},
    config_files=(ConfigFile(("config.toml",), ".toml", "openhands", _settings),),
)
