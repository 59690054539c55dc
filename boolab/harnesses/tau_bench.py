"""tau-bench."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.harness import STEPS, Harness

HARNESS: Final = Harness(sources={"tau_bench": ""}, limits={"tau_bench": {"max_num_steps": STEPS}})
