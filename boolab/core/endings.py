"""How a record ended: by itself or censored, whether that counts as a success, and whether it can be continued.

The first two differ. `is_terminated`: would a looser limit have changed nothing? It decides between `unchanged` and
`censored`. `proxy_success`: is an end without a label a success? An agent that ended by itself, but whose last calls
were never executed, or whose last response was cut off, has terminated and has not succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.core.finish_reasons import FAILED_FINISH, finish_reason
from boolab.core.run import Run
from boolab.core.types import Step

_NO_REASON: Final = ("other", "unknown")
"""What providers and harnesses write where they know no reason: an answer may have come to its end, nothing has not."""

FINISHING: Final = frozenset(
    {"attempt_completion", "complete_task", "final_answer", "finish", "mark_task_complete", "submit", "task_complete"}
)
"""Tools whose call ends the run: harnesses that have them often log no result (OpenHands logs none)."""


def is_terminated(run: Run) -> bool:
    """Whether the record ended by itself, so that it would have ended there under a looser limit too."""
    return not run.censored


def proxy_success(run: Run) -> bool:
    """Whether the run counts as a success, judged without a label.

    It terminated, its last step has no error and no call without a result (but for a tool in `FINISHING`, which ends a
    run when it is called), and the finish reason of its last response is not `length`, `content_filter` or `error`. A
    run that ended with a synthesis has its answer from there, whatever its last response was. A run without steps is
    not a success.
    """
    if run.stop_reason == "synthesis":
        return True
    return is_terminated(run) and bool(run.steps) and _is_complete(run.steps[-1])


def turn_proxy_success(run: Run, steps: Sequence[Step]) -> bool:
    """Whether one turn of a run counts as a success: a label judges the whole run, so turns have the proxy alone.

    The run's last turn ends as the run does. An earlier turn was answered if its last response calls no tools, and
    that step would count at the end of a run.
    """
    if not steps:
        return False
    last = steps[-1]
    if last.index == run.steps[-1].index:
        return proxy_success(run)
    return not last.response.tool_calls and _is_complete(last)


def has_unexecuted_finish(run: Run) -> bool:
    """Whether the run reports that it finished, with calls in its last response that were never executed."""
    return run.stop_reason == "finished" and bool(run.steps) and _has_unexecuted_call(run.steps[-1])


def _is_complete(step: Step) -> bool:
    """Whether a step has no error, no call without a result, and no response that was cut off."""
    response = step.response
    reason = finish_reason(response.finish_reason)
    cut_off = reason in FAILED_FINISH or (reason in _NO_REASON and not response.text and not response.tool_calls)
    return not (step.error or cut_off or _has_unexecuted_call(step))


def _has_unexecuted_call(step: Step) -> bool:
    """Whether a call of the step got no result, though it should have."""
    return any(call.name not in FINISHING for call in step.dropped)


def has_boundary(run: Run, step: Step) -> bool:
    """Whether a boundary follows at which the step counts: none exists after a final text, a pause or a synthesis."""
    if not step.counted:
        return False
    if step.index < len(run.steps):
        answered = any(result is not None for result in step.results)
        return run.steps[step.index].turn == step.turn or answered
    if run.stop_reason in ("finished", "paused", "synthesis"):
        return False
    return sum(other.turn == step.turn for other in run.steps) <= run.stop_step


def missing_reason(run: Run, last: Step) -> str:
    """Why a run cannot continue from its last step, in words; "" if it can."""
    if run.stop_reason == "paused":
        return "waits for an answer: resume the run with it, and branch from that"
    advice = f"branch at {last.index - 1} to have it done anew"
    if last.error:
        return f"broke off ({last.error}): {advice}"
    if run.stop_reason in ("finished", "synthesis"):
        return f"has no results of its calls: {advice}" if last.results and not any(last.results) else ""
    return "" if has_boundary(run, last) else f"was cut short ({run.stop_reason}): {advice}"
