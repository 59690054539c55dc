"""The loop: the one place that decides whether to go on.

Each pass through `while` is one step: one model response, and the execution of the tool calls in it. Models, tools and
policies return values; none of them calls the loop. See `boolab.stop` for the law of the boundary.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, NamedTuple

from boolab.errors import ModelError, describe
from boolab.finish import is_done
from boolab.gate import EXECUTE_ALL, judge, overruled
from boolab.models.base import partial_of
from boolab.tools import execute, execute_together
from boolab.transcript import flat
from boolab.turn import Turn
from boolab.types import Response, Run, Step, Stop, ToolCall
from boolab.wrap_up import compact, is_own, was_sent, wrap_up

log = logging.getLogger("boolab.loop")

YIELD_EVERY_S = 0.010
"""How long the loop may keep the event loop to itself when nothing that it awaits really waits."""


class ToolPhaseResult(NamedTuple):
    """What the tool phase tells the loop. `next_message_id` is None unless the action is `continue`."""

    action: Literal["continue", "paused", "synthesis_done", "finished"]
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
    cancelled: asyncio.CancelledError | None = None
    stop: Stop | None = None
    try:
        while (stop := turn.at_boundary()) is None or await overruled(turn, stop):
            if time.perf_counter() - yielded > YIELD_EVERY_S:
                await asyncio.sleep(0)
                yielded = time.perf_counter()
            if turn.context_limit is not None:
                await compact(turn)
            request, emit = turn.begin_step()
            try:
                given = await turn.model.respond(request, emit)
            except ModelError as error:
                yield turn.break_off(error)
                continue
            response = turn.hear(given)
            verdict = await judge(turn, response) if turn.bounds.judging or turn.closing else EXECUTE_ALL
            if verdict.drops:
                step, stop = turn.end_step(counts=False), verdict.stop
            elif turn.is_final(response):
                step, stop = turn.end_step(counts=False), turn.end("finished")
            else:
                phase = await tool_phase(turn, response, verdict.places)
                step, stop = turn.end_step(counts=turn.grace is None), turn.after(phase.action, verdict.stop)
            yield step
            if stop is not None:
                break
    except GeneratorExit:
        stop = stop or turn.interrupt()
    except asyncio.CancelledError as interruption:
        if was_sent():
            cancelled = None if is_own(turn) else interruption
            stop = turn.interrupt(partial_of(interruption))
        else:
            stop = turn.fail(interruption)
    except BaseException as error:  # noqa: BLE001 - a failure is data
        stop = turn.fail(error)
    cancelled = await wrap_up(turn, stop) or cancelled
    run = turn.close(stop)
    _log_end(run)
    if cancelled is not None:
        cancelled.run = run  # type: ignore[attr-defined] # so that whoever catches it has the record
        raise cancelled


async def tool_phase(turn: Turn, response: Response, places: Sequence[int] | None = None) -> ToolPhaseResult:
    """Execute the calls of a response, look for a pause, and let the synthesis try. It decides nothing.

    Args:
        turn: The turn; `turn.results` is filled as results come in.
        response: The response whose calls are executed.
        places: Which of them; all by default.
    """
    calls = response.tool_calls
    if places is None:
        places = range(len(calls))
    if len(places) > 1 and turn.policy.execution == "parallel":
        await execute_together(calls, places, len(turn.talk.steps) + 1, turn.execution, turn.results)
    else:
        for place in places:
            number = len(turn.talk.steps) + 1
            turn.results[place] = await execute(calls[place], number, place + 1, turn.execution, turn.clock)
            if turn.breaks_batches and turn.ends_batch(calls[place], turn.results[place]):
                break
    if turn.pausing and any(
        call.name in turn.pausing and result is not None and not result.is_error
        for call, result in zip(calls, turn.results, strict=True)
    ):
        return ToolPhaseResult("paused", len(calls), calls, None)
    if turn.setup.synthesis is not None and any(turn.results) and await _synthesise(turn, response):
        return ToolPhaseResult("synthesis_done", len(calls), calls, None)
    if turn.ends_by_calls and is_done(turn.policy, calls, turn.results):
        return ToolPhaseResult("finished", len(calls), calls, None)
    if not calls:
        turn.idle()
    return ToolPhaseResult("continue", len(calls), calls, turn.talk.next_message + 1 + bool(calls))


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


def _log_end(run: Run) -> None:
    stop = run.stop
    facts = {
        "run_id": run.run_id,
        "step": stop.step,
        "stop_reason": stop.reason,
        "stop_rule": stop.rule,
        "stop_threshold": stop.threshold,
        "stop_value": stop.value,
    }
    if stop.rule is not None:
        log.info(
            "run %s: stopped by %s at step %d: %s, value %s",
            flat(run.run_id),
            stop.reason,
            stop.step,
            flat(stop.rule),
            stop.value,
            extra={"event": "stop", **facts},
        )
    log.info(
        "run %s: left the loop: %s after %d steps, %d tool calls",
        flat(run.run_id),
        stop.reason,
        run.n_steps,
        run.n_tool_calls,
        extra={"event": "end", **facts, "n_steps": run.n_steps, "n_tool_calls": run.n_tool_calls},
    )
