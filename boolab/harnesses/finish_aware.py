"""The finish-reason-aware exit that a study of opencode recommends."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Cap, Finish
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy

_FINISH_AWARE: Final = Policy(
    name="finish_aware",
    about=About(
        source="the study of opencode's runLoop: its recipe for a finish-reason-aware exit",
        loop_style="while true; the exit check at its top",
        finish_guard="yes: the reason is not tool_calls, and no calls",
        weakness="a cap of 50 stands for a doom loop",
        own_words=(("step_cap", "possible doom loop"),),
    ),
    cap=Cap(max_steps=50),
    finish=Finish(conditions=("reason_not_tool_calls", "no_calls"), idle="again"),
)

HARNESS: Final = Harness(presets=(_FINISH_AWARE,))
