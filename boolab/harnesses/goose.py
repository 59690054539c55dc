"""goose."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Cap, Detectors, Finish
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.streaks import IdleStreak, SameError
from boolab.limits.guard import Guard

_GOOSE: Final = Policy(
    name="goose",
    about=About(
        source="goose, crates/goose/src/agents/agent.rs: 1000 turns; REP-002 of one stored version",
        loop_style="streaming loop with hooks and steering",
        finish_guard="no calls, and nothing new from the user",
        weakness="its own rule on repeated calls is off",
    ),
    cap=Cap(max_steps=1000, zero="plain"),
    detectors=Detectors(
        guards=(
            Guard(detector=SameError(), ladder=((3, "block"),), check="call", rearm="fire"),
            Guard(detector=IdleStreak(), ladder=((4, "stop"),), reason="error_streak"),
        )
    ),
    finish=Finish(conditions=("no_calls", "has_text", "no_new_input"), idle="again"),
)

HARNESS: Final = Harness(presets=(_GOOSE,))
