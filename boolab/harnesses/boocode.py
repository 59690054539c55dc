"""BooCode."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.groups import About, Budgets, Cap, Continues, Detectors, WrapUp
from boolab.harnesses.harness import Harness
from boolab.harnesses.policy import Policy

_BOOCODE: Final = Policy(
    name="boocode",
    order=("max_steps", "doom_loop", "tool_budget"),
    about=About(
        source="BooCode v1.14, the outer loop that replaced recursion",
        loop_style="while under the cap; doom loop and budget evaluated at its top",
        finish_guard="a response without tool calls",
        weakness="evaluates the budget only between batches: the last one overshoots",
    ),
    cap=Cap(ceiling=200),
    continues=Continues(times=2, counters="fresh"),
    budgets=Budgets(read_only=50, writing=10, no_agent=50),
    detectors=Detectors(doom_loop=3, reached_at="last_call"),
    wrap_up=WrapUp(sentinel=True, summary="model"),
)

HARNESS: Final = Harness(presets=(_BOOCODE,))
