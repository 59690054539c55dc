"""OpenRouter's agent SDK."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Cap, Detectors, LastStep
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.streaks import RoundStreak
from boolab.limits.guard import Guard

_OPENROUTER: Final = Policy(
    name="openrouter",
    about=About(
        source="OpenRouter agent SDK, docs agent-sdk/call-model: doom-loop-detection, stop-conditions",
        loop_style="tool loop with stop conditions and a ladder",
        finish_guard="a response without tool calls, or a stop condition",
        weakness="other arguments evade it; results are not looked at",
    ),
    cap=Cap(zero="plain"),
    last_step=LastStep(action="tool_choice_none", in_cap=False),
    detectors=Detectors(
        guards=(
            Guard(
                detector=RoundStreak("canonical"),
                ladder=((2, "shadow"), (3, "block"), (6, "stop")),
                check="call",
                scope="session",
            ),
        )
    ),
)

HARNESS: Final = Harness(presets=(_OPENROUTER,))
