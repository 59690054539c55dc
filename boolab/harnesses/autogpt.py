"""AutoGPT classic."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Cap, Detectors, Execution, Finish, Inputs
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.streaks import IdleStreak
from boolab.limits.guard import Guard

_AUTOGPT: Final = Policy(
    name="autogpt",
    about=About(
        source="AutoGPT classic, autogpt/app/main.py: cycles_remaining, three invalid outputs",
        loop_style="while with max_iterations",
        finish_guard="count only: the finish command, or no cycles left",
        weakness="counts, does not look at content",
    ),
    cap=Cap(counts="actions", zero="unlimited"),
    detectors=Detectors(guards=(Guard(detector=IdleStreak(), ladder=((3, "stop"),), reason="error_streak"),)),
    finish=Finish(conditions=(), tools=("finish",), idle="again"),
    execution=Execution(calls="one_per_message"),
    inputs=Inputs(queued="kept"),
)

HARNESS: Final = Harness(presets=(_AUTOGPT,))
