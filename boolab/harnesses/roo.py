"""Roo Code."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Cap, Detectors, Execution, Finish
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.streaks import IdleStreak, RepeatStreak
from boolab.limits.guard import Guard

_ROO: Final = Policy(
    name="roo",
    about=About(
        source="Roo Code, src/core/tools/ToolRepetitionDetector.ts and Task.ts",
        loop_style="while; every reply must use a tool",
        finish_guard="attempt_completion only",
        weakness="a plain answer is a mistake; the user is asked, not the run stopped",
    ),
    cap=Cap(zero="unlimited"),
    detectors=Detectors(
        guards=(
            Guard(
                detector=RepeatStreak("canonical"), ladder=((4, "block"),), check="call", rearm="fire", block_asks=True
            ),
            Guard(detector=IdleStreak(), ladder=((4, "ask"),), reason="error_streak", rearm="fire"),
        )
    ),
    finish=Finish(
        conditions=(),
        tools=("attempt_completion",),
        idle_prompt="You used no tool. Call one, or attempt_completion if the work is done.",
    ),
    execution=Execution(calls="one_per_message"),
)

HARNESS: Final = Harness(presets=(_ROO,))
