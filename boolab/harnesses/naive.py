"""The loop that believes the finish reason."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Finish
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy

_NAIVE: Final = Policy(
    name="naive",
    about=About(
        source="the loop that opencode's study warns of: break on finish_reason == stop",
        loop_style="while true; believes the finish reason",
        finish_guard="the finish reason stop, whatever else is in the response",
        weakness="drops tool calls when a provider reports stop too early",
    ),
    finish=Finish(conditions=("reason_stop",), idle="again"),
)

HARNESS: Final = Harness(presets=(_NAIVE,))
