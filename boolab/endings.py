"""How a record ended: by itself or cut, and whether its end looks like a success where nobody labelled it.

Two questions that must not be mixed. `terminated` asks whether a looser limit would have changed anything: it decides
between `unchanged` and `censored`. `proxy_success` asks what counts as a success where no label says it: an agent that
ended by itself, but whose last calls were never executed, or whose last response was cut off, has terminated and has
not succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.finish_reasons import finish_reason
from boolab.types import Run, Step

FAILED_FINISH: Final = frozenset({"length", "content_filter", "error"})
"""The finish reasons of a response that did not come to its own end, in boolab's vocabulary."""

FINISHING: Final = frozenset({"attempt_completion", "complete_task", "final_answer", "finish", "submit"})
"""Tools that end a run by being called: harnesses that have them often log no result (OpenHands logs none)."""


def terminated(run: Run) -> bool:
    """Whether the record ended by itself, so that no looser limit would have gone on.

    Args:
        run: The run.

    Returns:
        True unless the run is censored.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> terminated(run_sync(None, "Hello", model=ScriptedModel(["Hi."])))
        True
    """
    return not run.censored


def proxy_success(run: Run) -> bool:
    """Whether the run counts as a success where no label says so.

    It terminated, its last step has no error and no call without a result (but for a tool in `FINISHING`, which ends a
    run by being called), and the finish reason of its last response is not `length`, `content_filter` or `error`. A
    run that a synthesis ended has its answer from there, whatever its last response was. A run without a step answered
    nothing: it is none.

    Args:
        run: The run.

    Returns:
        True if it counts as a success.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> cut = ScriptedModel([{"text": "The answer is", "finish_reason": "length"}])
        >>> run = run_sync(None, "Hello", model=cut)
        >>> terminated(run), proxy_success(run)
        (True, False)
    """
    if run.stop_reason == "synthesis":
        return True
    return terminated(run) and bool(run.steps) and _came_to_its_end(run.steps[-1])


def turn_proxy_success(run: Run, steps: Sequence[Step]) -> bool:
    """Whether one turn of a run counts as a success: a label judges the whole run, so turns have the proxy alone.

    The run's last turn ends as the run does. An earlier turn was answered if its last response asks for no tools, and
    that step would count at the end of a run.

    Args:
        run: The run.
        steps: The steps of one of its turns, in order.

    Returns:
        True if the turn counts as a success.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> run = run_sync(None, "Hello", model=ScriptedModel(["Hi."]))
        >>> turn_proxy_success(run, run.steps)
        True
    """
    if not steps:
        return False
    last = steps[-1]
    if last.index == run.steps[-1].index:
        return proxy_success(run)
    return not last.response.tool_calls and _came_to_its_end(last)


def finished_unexecuted(run: Run) -> bool:
    """Whether the run reports that it finished, with calls in its last response that were never executed.

    Args:
        run: The run.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> model = ScriptedModel([{"tool_calls": [{"name": "ls"}], "finish_reason": "stop"}])
        >>> finished_unexecuted(run_sync(None, "Hello", model=model, policy="naive"))
        True
    """
    return run.stop_reason == "finished" and bool(run.steps) and _unexecuted(run.steps[-1])


def _came_to_its_end(step: Step) -> bool:
    """Whether a step has no error, no call without a result, and no response that was cut off."""
    cut_off = finish_reason(step.response.finish_reason) in FAILED_FINISH
    return not (step.error or cut_off or _unexecuted(step))


def _unexecuted(step: Step) -> bool:
    """Whether a call of the step got no result, though it should have."""
    return any(call.name not in FINISHING for call in step.dropped)
