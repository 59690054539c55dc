"""crush."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.compaction import Compaction
from boolab.harnesses.groups import About, Detectors
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.windows import StepRepeats
from boolab.limits.guard import Guard

_CRUSH: Final = Policy(
    name="crush",
    order=(),
    compaction=Compaction(reserve=20_000, small_window=200_000, small_share=0.2),
    about=About(
        source="crush, internal/agent/loop_detection.go and agent.go",
        loop_style="library loop with stop conditions and a queue",
        finish_guard="a response without tool calls, or a stop condition",
        weakness="looks after ten steps only",
    ),
    detectors=Detectors(guards=(Guard(detector=StepRepeats(10), ladder=((6, "stop"),)),)),
)

HARNESS: Final = Harness(presets=(_CRUSH,), sources={"crush": "crush"})
