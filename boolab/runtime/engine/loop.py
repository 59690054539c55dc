"""The loop: the one place that decides whether to continue.

Each pass through `while` is one step: one model response, and the execution of the tool calls in it. Models, tools and
policies return values; none of them calls the loop. See `boolab.limits.stop` for the law of the boundary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any, Literal, TypeAlias

from boolab.core.types import Response, Step, Stop
from boolab.errors import ModelError, describe
from boolab.harnesses.finish import is_done
from boolab.runtime.engine.decide import (
    EXECUTE_ALL,
    Verdict,
    at_boundary,
    continue_after_ask,
    ends_batch,
    idle,
    is_final,
    judge,
)
from boolab.runtime.engine.keep import keep, open_world
from boolab.runtime.engine.log import log_end
from boolab.runtime.engine.record import close
from boolab.runtime.engine.summaries import compact, consume_own_cancel, wrap_up
from boolab.runtime.engine.turn import EXECUTE, ORDINARY, Turn
from boolab.runtime.models.base import partial_of
from boolab.runtime.tools.tool import execute, execute_together, task_is_cancelled

YIELD_EVERY_S = 0.010
"""How long the loop may keep the event loop to itself when nothing that it awaits really waits."""


Action: TypeAlias = Literal["continue", "limit", "tool_failed", "paused", "synthesis_done", "finished"]


async def loop(turn: Turn) -> AsyncGenerator[Step, None]:  # noqa: C901, PLR0912 - the one loop, on one screen
    """Run a turn to its end and yield each step as it completes. `turn.run` is the record, however the turn ends.

    Args:
        turn: The prepared turn.

    Yields:
        The steps in order, the final text included.

    Raises:
        WorldError: if the world cannot be kept at all.
        asyncio.CancelledError: if the task was cancelled, not by its own `Abort`; its `run` is the record.
    """
    plan, yielded = turn.plan, time.perf_counter()
    cancelled: asyncio.CancelledError | None = None
    stop: Stop | None = None
    try:
        if plan.options.world is not None:
            await open_world(turn)
        while (stop := at_boundary(turn)) is None or await continue_after_ask(turn, stop):
            if time.perf_counter() - yielded > YIELD_EVERY_S:
                await asyncio.sleep(0)
                yielded = time.perf_counter()
            if turn.context_limit is not None:
                await compact(turn)
            request, emit = turn.begin_step()
            try:
                given = await plan.model.respond(request, emit)
            except ModelError as error:
                yield turn.retry(error)
                continue
            response = turn.accept_response(given)
            verdict = await judge(turn, response) if plan.judges or turn.step.mode != ORDINARY else EXECUTE_ALL
            if verdict.drops:
                event = "dropped"
            elif is_final(turn, response):
                event = "final"
            else:
                event = await tool_phase(turn, response, verdict)
            step, stop = turn.end_step(event, verdict.stop)
            if turn.keeper is not None and any(step.results):
                await keep(turn)
            yield step
            if stop is not None:
                break
    except GeneratorExit:
        stop = stop or turn.interrupt()
    except asyncio.CancelledError as interruption:
        if task_is_cancelled():
            cancelled = None if consume_own_cancel(turn) else interruption
            stop = turn.interrupt(partial_of(interruption))
        else:
            stop = turn.fail(interruption)
    except BaseException as error:  # noqa: BLE001 - a failure is data
        stop = turn.fail(error)
    cancelled = await wrap_up(turn, stop) or cancelled
    log_end(run := close(turn, stop))
    if cancelled is not None:
        cancelled.run = run  # type: ignore[attr-defined] # so that the handler has the record
        raise cancelled


async def tool_phase(turn: Turn, response: Response, verdict: Verdict = EXECUTE_ALL) -> Action:
    """Execute the calls of a response, look for a pause, and let the synthesis try. It decides nothing.

    Args:
        turn: The turn; `turn.step.results` is filled as results come in.
        response: The response whose calls are executed.
        verdict: Which of them, and the stop that follows.

    Returns:
        The event of `TABLE` that follows.
    """
    plan, step, calls, places = turn.plan, turn.step, response.tool_calls, verdict.places
    step.state, number = EXECUTE, len(turn.history.steps) + 1
    if places is None:
        places = range(len(calls))
    if len(places) > 1 and plan.policy.execution.calls == "parallel":
        await execute_together(calls, places, number, turn.execution, step.results)
    else:
        for place in places:
            step.results[place] = await execute(calls[place], number, place + 1, turn.execution, turn.clock)
            if plan.breaks_batches and ends_batch(turn, calls[place], step.results[place]):
                break
    if turn.execution.failures:
        return "tool_failed"
    if plan.pausing and any(
        call.name in plan.pausing and result is not None and not result.is_error
        for call, result in zip(calls, step.results, strict=True)
    ):
        return "paused"
    if plan.options.synthesis is not None and any(step.results) and await _synthesise(turn, response):
        return "synthesis_done"
    if plan.ends_by_calls and is_done(plan.policy, calls, step.results):
        return "finished"
    if not calls:
        idle(turn)
    return "continue" if verdict.stop is None else "limit"


async def _synthesise(turn: Turn, response: Response) -> bool:
    """Whether the synthesis wrote the final answer. Its failure is noted and changes nothing."""
    synthesis, record = turn.plan.options.synthesis, turn.record
    assert synthesis is not None  # noqa: S101 - asked by the caller
    try:
        results = [result for result in turn.step.results if result is not None]
        text: Any = await synthesis(response.tool_calls, results)
    except Exception as error:  # noqa: BLE001 - a failure is data
        record.fault("synthesis", f"the synthesis failed: {describe(error)}")
        return False
    if text is None:
        return False
    if not isinstance(text, str) or not text:
        record.fault("synthesis", f"the synthesis failed: it returned {text!r}, not a text or None")
        return False
    record.synthesis = text
    record.note("synthesis", what="the synthesis wrote the final answer")
    return True
