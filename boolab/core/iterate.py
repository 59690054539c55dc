"""The steps of runs, and the results and calls of steps, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boolab.core.run import Run
    from boolab.core.types import Step, ToolCall, ToolResult


def steps_in(runs: Iterable[Run]) -> Iterator[Step]:
    """The steps of some runs."""
    return chain.from_iterable(run.steps for run in runs)


def result_slots_in(steps: Iterable[Step]) -> Iterator[ToolResult | None]:
    """The result of each call of some steps; None for a call that got none."""
    return chain.from_iterable(step.results for step in steps)


def results_in(steps: Iterable[Step]) -> Iterator[ToolResult]:
    """The results of the calls of some steps that got one."""
    return (result for result in result_slots_in(steps) if result is not None)


def calls_in(steps: Iterable[Step]) -> Iterator[ToolCall]:
    """The tool calls of the responses of some steps."""
    return chain.from_iterable(step.response.tool_calls for step in steps)
