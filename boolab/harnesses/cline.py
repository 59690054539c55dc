"""Cline."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Detectors, Execution, Finish
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.streaks import ErrorStreak, RepeatStreak
from boolab.limits.guard import Guard

_CLINE: Final = Policy(
    name="cline",
    about=About(
        source="Cline: agent-runtime.ts and loop-detection.ts of its SDK; one tool per message as in the extension",
        loop_style="sequential, one tool per message",
        finish_guard="no batching: a text, or attempt_completion",
        weakness="no parallel tools",
        own_words=(("step_cap", "failed"), ("doom_loop", "aborted"), ("error", "failed")),
    ),
    detectors=Detectors(
        guards=(
            Guard(
                detector=RepeatStreak("canonical"), ladder=((3, "nudge"), (5, "stop")), check="call", scope="session"
            ),
            Guard(detector=ErrorStreak(), ladder=((6, "stop"),)),
        )
    ),
    finish=Finish(tools=("attempt_completion",), fatal_reasons=("length",)),
    execution=Execution(calls="one_per_message"),
)

HARNESS: Final = Harness(presets=(_CLINE,), sources={"cline": "cline"})
