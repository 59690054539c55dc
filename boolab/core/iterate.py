"""The results and calls of steps, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from boolab.core.types import Step, ToolResult


def result_slots_in(steps: Iterable[Step]) -> Iterator[ToolResult | None]:
    """The result of each call of some steps; None for a call that got none."""
    return chain.from_iterable(step.results for step in steps)


def results_in(steps: Iterable[Step]) -> Iterator[ToolResult]:
    """The results of the calls of some steps that got one."""
    return (result for result in result_slots_in(steps) if result is not None)
