"""InterCode."""

from __future__ import annotations

from typing import Final

from boolab.harnesses.harness import STEPS, Harness

HARNESS: Final = Harness(sources={"intercode": ""}, limits={"intercode": {"max_turns": STEPS}})
