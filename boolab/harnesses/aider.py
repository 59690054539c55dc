"""Aider."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Cap, Execution, Finish, Inputs
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy

_AIDER: Final = Policy(
    name="aider",
    about=About(
        source="Aider, aider/coders/base_coder.py: max_reflections = 3; an edit that does not apply is a failed call",
        loop_style="prompt first, then look for work",
        finish_guard="no: it ends when nothing is left to fix",
        weakness="sequential: sends everything, then checks",
        own_words=(("step_cap", "num_reflections >= max_reflections"),),
    ),
    cap=Cap(max_steps=4, zero="plain"),
    finish=Finish(asks_again="after_errors"),
    execution=Execution(calls="sequence"),
    inputs=Inputs(queued="kept"),
)

HARNESS: Final = Harness(presets=(_AIDER,))
