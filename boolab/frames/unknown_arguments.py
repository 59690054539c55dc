"""Repeats where a log leaves the arguments of calls out.

Whether two such calls are the same is not known. Counted as they stand, they differ from all others, and give the
least count of a detector; with the arguments of their tools made equal, they give the most. Where the two agree, the
count is known.
"""

from __future__ import annotations

from dataclasses import replace

from boolab.core.types import REDACTED, Run, Step


def with_equal_arguments(run: Run) -> Run | None:
    """Make all calls equal of each tool that has a call without arguments on record.

    Returns the run; None if the arguments of all its calls are on record.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> with_equal_arguments(run) is None
        True
    """
    tools = {call.name for step in run.steps for call in step.response.tool_calls if call.arguments == REDACTED}
    return replace(run, steps=tuple(_equal(step, tools) for step in run.steps)) if tools else None


def handles_unknown_arguments(detector: object) -> bool:
    """Whether a detector's count is known even where it depends on arguments that are not on record."""
    return bool(getattr(detector, "handles_unknown_arguments", False))


def _equal(step: Step, tools: set[str]) -> Step:
    calls = step.response.tool_calls
    if not any(call.name in tools for call in calls):
        return step
    equal = tuple(call._replace(arguments="{}") if call.name in tools else call for call in calls)
    return step._replace(response=step.response._replace(tool_calls=equal))
