"""AutoGen."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Cap, Inputs, WrapUp
from boolab.harnesses.harness import STEPS, Harness
from boolab.harnesses.policy import Policy

_AUTOGEN: Final = Policy(
    name="autogen",
    about=About(
        source="AutoGen AssistantAgent: max_tool_iterations = 1, reflect_on_tool_use off",
        loop_style="bounded for-loop inside one reply",
        finish_guard="a response without tool calls, or no iterations left",
        weakness="by default no model ever sees the last results",
        own_words=(("step_cap", "normal response"), ("finished", "normal response")),
    ),
    cap=Cap(max_steps=1, zero="invalid"),
    inputs=Inputs(queued="kept"),
    wrap_up=WrapUp(summary="static"),
)

HARNESS: Final = Harness(presets=(_AUTOGEN,), limits={"autogen": {"max_tool_iterations": STEPS}})
