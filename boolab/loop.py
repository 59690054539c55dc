"""The loop: the one place that decides whether to go on.

Each pass through `while` is one step: one model response, and the execution of the tool calls in it. Models, tools and
policies return values; none of them calls the loop. See `boolab.stop` for the law of the boundary.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any, Literal, NamedTuple

from boolab.errors import ModelError, describe
from boolab.models.base import Request, partial_of, what_is_wrong
from boolab.tools import execute, execute_together
from boolab.turn import Turn
from boolab.types import Message, Response, Run, Step, Stop, Text, ToolCall, ToolResult, WrapUp

log = logging.getLogger("boolab.loop")

YIELD_EVERY_S = 0.010
"""How long the loop may keep the event loop to itself when nothing that it awaits really waits."""

SENTINELS = {
    "step_cap": ("cap_hit", "Step limit reached"),
    "tool_budget": ("cap_hit", "Tool budget exhausted"),
    "token_budget": ("cap_hit", "Token budget exhausted"),
    "cost_budget": ("cap_hit", "Cost budget exhausted"),
    "time_budget": ("cap_hit", "Time budget exhausted"),
    "doom_loop": ("doom_loop", "Doom loop detected"),
    "stuck": ("doom_loop", "Repetition detected"),
    "error_streak": ("error_streak", "Too many errors in a row"),
}
"""For each stop reason that is a limit: the kind of its sentinel, and the first words of its text."""

SUMMARY_PROMPT = (
    "You have been stopped by a limit and can call no more tools. Summarise what was done, what was found and what "
    "is left to do."
)
REFUSAL = "Tools are not available in the last step; this call was not executed."


class ToolPhaseResult(NamedTuple):
    """What the tool phase tells the loop. `next_message_id` is None unless the action is `continue`."""

    action: Literal["continue", "paused", "synthesis_done"]
    tool_call_count: int
    tool_calls: tuple[ToolCall, ...]
    next_message_id: int | None


async def loop(turn: Turn) -> AsyncGenerator[Step, None]:  # noqa: C901, PLR0912 - the one loop, on one screen
    """Run a turn to its end and yield each step as it completes.

    The record is `turn.run`; it is there afterwards, also when the iteration is broken off or the task cancelled.

    Args:
        turn: The prepared turn.

    Yields:
        The steps in order, the final text included.

    Raises:
        asyncio.CancelledError: if the task was cancelled by somebody else than the turn's own `Abort`; its attribute
            `run` is the record.
    """
    yielded = time.perf_counter()
    chatty = log.isEnabledFor(logging.INFO)
    cancelled: asyncio.CancelledError | None = None
    stop: Stop | None = None
    try:
        while (stop := turn.at_boundary()) is None:
            if time.perf_counter() - yielded > YIELD_EVERY_S:
                await asyncio.sleep(0)
                yielded = time.perf_counter()
            request, emit = turn.begin_step()
            if chatty:
                log.info("run %s: step_start %d", turn.run_id, request.index + 1)
            response = await turn.model.respond(request, emit)
            turn.hear(response)
            if turn.is_final(response):
                step, stop = turn.end_step(counts=False), turn.end("finished")
            else:
                phase = await tool_phase(turn, response)
                step = turn.end_step()
                if phase.action != "continue":
                    stop = turn.end("paused" if phase.action == "paused" else "synthesis")
            yield step
            if stop is not None:
                break
    except GeneratorExit:
        stop = stop or turn.interrupt()
    except asyncio.CancelledError as interruption:
        if _was_sent():
            cancelled = None if _is_own(turn) else interruption
            stop = turn.interrupt()
        else:
            stop = turn.fail(interruption)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure is data
        stop = turn.fail(error)
    if stop.reason in SENTINELS:
        cancelled = await _wrap_up(turn, stop)
    run = turn.close(stop)
    _log_end(run)
    if cancelled is not None:
        cancelled.run = run  # type: ignore[attr-defined] # so that whoever catches it has the record
        raise cancelled


async def tool_phase(turn: Turn, response: Response) -> ToolPhaseResult:
    """Execute the calls of a response, look for a pause, and let the synthesis try. It decides nothing.

    Args:
        turn: The turn; `turn.results` is filled as results come in.
        response: The response whose calls are executed.
    """
    calls = response.tool_calls
    if turn.closing:
        turn.results = [ToolResult(call.id, REFUSAL, is_error=True) for call in calls]
    elif len(calls) == 1:
        turn.results[0] = await execute(calls[0], len(turn.steps) + 1, 1, turn.execution, turn.clock)
    elif calls:
        await execute_together(calls, len(turn.steps) + 1, turn.execution, turn.results)
    if turn.pausing and any(
        call.name in turn.pausing and result is not None and not result.is_error
        for call, result in zip(calls, turn.results, strict=True)
    ):
        return ToolPhaseResult("paused", len(calls), calls, None)
    if turn.setup.synthesis is not None and calls and await _synthesise(turn, response):
        return ToolPhaseResult("synthesis_done", len(calls), calls, None)
    return ToolPhaseResult("continue", len(calls), calls, turn.next_message + 1 + bool(calls))


async def _synthesise(turn: Turn, response: Response) -> bool:
    """Whether the synthesis wrote the final answer. Its failure is noted and changes nothing."""
    assert turn.setup.synthesis is not None  # noqa: S101 - asked by the caller
    try:
        results = [result for result in turn.results if result is not None]
        text: Any = await turn.setup.synthesis(response.tool_calls, results)
    except Exception as error:  # noqa: BLE001 - a failure is data
        turn.note("fault", what=f"the synthesis failed: {describe(error)}")
        return False
    if text is None:
        return False
    if not isinstance(text, str) or not text:
        turn.note("fault", what=f"the synthesis failed: it returned {text!r}, not a text or None")
        return False
    turn.synthesis = text
    turn.note("synthesis", what="the synthesis wrote the final answer")
    return True


async def _wrap_up(turn: Turn, stop: Stop) -> asyncio.CancelledError | None:
    """What a policy does after a limit stopped the run: a summary, and a visible sentinel. It never changes the stop.

    Returns:
        The cancellation of the task meanwhile by somebody else than the turn's own `Abort`, if there was one.
    """
    kind, words = SENTINELS[stop.reason]
    where = f"{words}: {stop.rule} at step {stop.step}."
    cancelled = None
    if turn.policy.summary != "none":
        response, fault, broken = None, "", False
        if turn.policy.summary == "model" and getattr(turn.model, "summarises", True):
            try:
                response = await _ask_for_summary(turn)
                fault = _summary_fault(response)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure is data
                response, fault, broken = partial_of(error), describe(error), True
            except asyncio.CancelledError as interruption:
                fault, broken = "aborted", True
                cancelled = None if not _was_sent() or _is_own(turn) else interruption
        static = f"{where} The work may be unfinished."
        turn.wrap_up = WrapUp(response.text if response and not fault else static, response, fault, broken)
        if fault:
            turn.note("fault", what=f"the summary failed: {fault}")
    if turn.policy.sentinel:
        turn.write_sentinel(kind, where)
    return cancelled


async def _ask_for_summary(turn: Turn) -> Response:
    """One request without tools, outside the cap."""
    question = Message("user", (Text(SUMMARY_PROMPT),))
    request = Request(
        len(turn.steps),
        [*turn.history, question],
        (),
        turn.clock,
        "summary",
        turn.agent.temperature,
        turn.setup.seed,
    )
    response = await turn.model.respond(request)
    fault = what_is_wrong(response)
    if fault:
        msg = f"the summary is malformed: {fault}"
        raise ModelError(msg)
    return response


def _summary_fault(response: Response) -> str:
    if response.tool_calls:
        return "the model called tools"
    return "" if response.text else "the model said nothing"


def _was_sent() -> bool:
    """Whether the task has been cancelled at all: a model or a tool may raise CancelledError by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_own(turn: Turn) -> bool:
    """Whether a cancellation came from the turn's own `Abort`, and from nobody else."""
    return turn.setup.abort is not None and turn.setup.abort.absorb()


def _log_end(run: Run) -> None:
    stop = run.stop
    if stop.rule is not None:
        log.info(
            "run %s: stopped by %s at step %d: %s, value %s", run.run_id, stop.reason, stop.step, stop.rule, stop.value
        )
    log.info(
        "run %s: left the loop: %s after %d steps, %d tool calls",
        run.run_id,
        stop.reason,
        run.n_steps,
        run.n_tool_calls,
    )
