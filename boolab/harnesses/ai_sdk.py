"""Vercel AI SDK."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Cap, Inputs
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy

_AI_SDK: Final = Policy(
    name="ai_sdk",
    about=About(
        source="Vercel AI SDK, ToolLoopAgent: stopWhen isStepCount(20); generateText stops after 1",
        loop_style="do-while over steps",
        finish_guard="no calls, or a stop condition",
        weakness="no calls is an implicit stop that no condition can override (issue 8544)",
        own_words=(("step_cap", "tool-calls"), ("finished", "stop")),
    ),
    cap=Cap(max_steps=20, zero="unlimited"),
    inputs=Inputs(queued="kept"),
)

HARNESS: Final = Harness(presets=(_AI_SDK,))
