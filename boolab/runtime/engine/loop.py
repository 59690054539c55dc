"""The loop: the one place that decides whether to continue.

Each pass through `while` is one step: one model response, and the execution of the tool calls in it. Models, tools and
policies return values; none of them calls the loop. See `boolab.limits.stop` for the law of the boundary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any, Final, Literal, TypeAlias

from boolab.core.events import stop_event
from boolab.core.run import Run, WrapUp
from boolab.core.types import Response, Step, Stop
from boolab.errors import ModelError, SettingError, describe
from boolab.harnesses.compaction import COMPACTION_PROMPT
from boolab.limits.context_size import is_handoff
from boolab.runtime.engine.cost_bounds import is_affordable
from boolab.runtime.engine.decide import (
    EXECUTE_ALL,
    CallVerdict,
    continue_after_ask,
    ends_batch,
    handle_idle,
    is_final,
    judge,
    stop_at_boundary,
)
from boolab.runtime.engine.keep import keep, open_world
from boolab.runtime.engine.record import log_end
from boolab.runtime.engine.summaries import SUMMARY_PROMPT, consume_own_cancel, shorten, summarise
from boolab.runtime.engine.turn import EXECUTE, ORDINARY, Turn
from boolab.runtime.models.base import partial_of
from boolab.runtime.tools.execution import execute, execute_together, task_is_cancelled

YIELD_EVERY_S = 0.010
"""How long the loop may keep the event loop to itself when nothing that it awaits really waits."""

SCORE_FAILED: Final = "the score failed: "
"""The beginning of the fault of a failed score."""

SENTINELS: Final = {
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


Action: TypeAlias = Literal["continue", "limit", "tool_failed", "paused", "synthesis_done", "finished"]


async def loop(turn: Turn) -> AsyncGenerator[Step, None]:  # noqa: C901, PLR0912 - the one loop, on one screen
    """Run a turn to its end and yield each step as it completes. `turn.run` is the record, however the turn ends.

    Raises:
        WorldError: if the world cannot be kept at all.
        asyncio.CancelledError: if the task was cancelled, not by its own `Abort`; its `run` is the record.
    """
    plan, yielded = turn.plan, time.perf_counter()
    cancelled: asyncio.CancelledError | None = None
    stop: Stop | None = None
    try:
        if plan.options.get("world") is not None:
            await open_world(turn)
        while (stop := stop_at_boundary(turn)) is None or await continue_after_ask(turn, stop):
            if time.perf_counter() - yielded > YIELD_EVERY_S:
                await asyncio.sleep(0)
                yielded = time.perf_counter()
            if plan.compaction is not None:
                await shorten(turn)
            request, emit = turn.begin_step()
            try:
                answer = await plan.model.respond(request, emit)
            except ModelError as error:
                yield turn.retry(error)
                continue
            response = turn.accept_response(answer)
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


def check_event_loop() -> None:
    """Raise `SettingError` where no event loop of asyncio runs, as under trio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        msg = (
            "no event loop of asyncio is running: boolab runs agents with asyncio. Elsewhere, as under trio, call "
            "bl.run_sync in a thread: await trio.to_thread.run_sync(lambda: bl.run_sync(...))"
        )
        raise SettingError(msg) from None


async def drive(turn: Turn, after_step: Callable[[Turn], object] | None = None) -> Run:
    """Run a prepared turn to its end."""
    check_event_loop()
    abort = turn.abort
    if abort is not None:
        abort.attach()
    try:
        async with aclosing(loop(turn)) as steps:
            async for _ in steps:
                if after_step is not None:
                    after_step(turn)
    finally:
        if abort is not None:
            abort.detach()
    assert turn.run is not None  # noqa: S101 - the loop closes its turn
    return turn.run


async def tool_phase(turn: Turn, response: Response, verdict: CallVerdict = EXECUTE_ALL) -> Action:
    """Execute the calls of a response, look for a pause, and let the synthesis try: the event that follows."""
    plan, step, calls, indices = turn.plan, turn.step, response.tool_calls, verdict.places
    step.state, number, results = EXECUTE, len(turn.history.steps) + 1, step.results
    if indices is None:
        indices = range(len(calls))
    if len(indices) > 1 and plan.policy.execution.calls == "parallel":
        await execute_together(calls, indices, number, turn.execution, results)
    else:
        for index in indices:
            results[index] = result = await execute(calls[index], number, index + 1, turn.execution, turn.clock)
            if plan.breaks_batches and ends_batch(turn, calls[index], result):
                break
    if turn.execution.failures:
        return "tool_failed"
    if plan.may_end_by_calls:
        end = await _end_by_calls(turn, response)
        if end is not None:
            return end
    if not calls:
        handle_idle(turn)
    return "continue" if verdict.stop is None else "limit"


async def _end_by_calls(turn: Turn, response: Response) -> Action | None:
    """The event by which the executed calls of a step end the turn; None if they do not."""
    plan, calls, results = turn.plan, response.tool_calls, turn.step.results
    for call, result in zip(calls, results, strict=True):
        if call.name in plan.pausing and result is not None and not result.is_error:
            return "paused"
    if plan.options.get("synthesis") is not None and any(results) and await _synthesise(turn, response):
        return "synthesis_done"
    return "finished" if plan.ends_by_calls and plan.policy.finish.is_done(calls, results) else None


async def _synthesise(turn: Turn, response: Response) -> bool:
    """Whether the synthesis wrote the final answer. Its failure is noted and changes nothing."""
    synthesis, record = turn.plan.options.get("synthesis"), turn.record
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


# --- The end of a turn ------------------------------------------------------------------------------------------------


async def wrap_up(turn: Turn, stop: Stop) -> asyncio.CancelledError | None:
    """Write the summary and the sentinel after a limit; returns a cancellation that is not the `Abort`'s."""
    if stop.reason not in SENTINELS:
        return None
    kind, words = SENTINELS[stop.reason]
    limit = f"{words}: {stop.rule} at step {stop.step}."
    policy, record, steps = turn.plan.policy.wrap_up, turn.record, turn.history.steps
    static = f"{limit} {policy.static_summary}".rstrip()
    cancelled = None
    question = COMPACTION_PROMPT if is_handoff(stop) else SUMMARY_PROMPT
    asks = (policy.summary == "model" or is_handoff(stop)) and turn.plan.traits.summarises
    if asks and is_affordable(turn, question):
        cancelled = await summarise(turn, static, question)
    elif policy.summary != "none":
        record.wrap_up = WrapUp(static)
    last = steps[-1] if steps else None
    in_text = last is not None and last.response.text and not last.response.tool_calls and not last.broke_off
    status = policy.limit_status == "without_text" and not in_text
    if status and record.wrap_up is None and (last is None or not last.response.text):
        record.wrap_up = WrapUp(static)
    if policy.sentinel or status:
        record.write_sentinel(kind, limit)
    return cancelled


def close(turn: Turn, stop: Stop) -> Run:
    """Make the record of a turn that has stopped."""
    turn.step.move("closed")
    if turn.keeper is not None:
        turn.keeper.close()
        turn.keeper = None
    run, record = run_of(turn, stop), turn.record
    score = turn.plan.score
    if score is not None:
        try:
            run = replace(run, success=as_success(score(run)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a score's failure must not lose the run
            record.fault("score", f"{SCORE_FAILED}{describe(error)}")
            run = replace(run, events=tuple(record.events))
    turn.run = run
    turn.execution = replace(turn.execution, caller=None)  # or turn and tools would hold each other until collected
    if record.on_event is not None:
        record.emit(stop_event(run))
    return run


def run_of(turn: Turn, stop: Stop) -> Run:
    """The record of a turn as it stands."""
    plan, history, record = turn.plan, turn.history, turn.record
    options, subagents = plan.options, [child.run for child in turn.subagents if child.run is not None]
    return Run(
        run_id=record.run_id,
        agent=plan.agent.name,
        model=options.get("model_name") or plan.model.name,
        policy=plan.policy.name,
        task=record.task or next((m.text for m in reversed(history.prompt) if m.role == "user"), ""),
        stop=stop,
        steps=tuple(history.steps),
        prompt=tuple(history.prompt),
        inputs=tuple(history.inputs),
        parent_run_id=record.parent_run_id,
        seed=options.get("seed"),
        started_at=record.started_at,
        duration_ms=turn.now(),
        identity=plan.identity,
        context_window=plan.traits.context_window,
        limits=plan.recorded_limits(turn.limits),
        settings=dict(options.get("settings", {})),
        compactions=tuple(history.compactions),
        earlier_wrap_ups=record.earlier_wrap_ups,
        wrap_up=record.wrap_up,
        sentinel=record.sentinel,
        synthesis=record.synthesis,
        events=tuple(record.events),
        error=record.error,
        harness_version=_version(),
        subagents=(*record.earlier_subagents, *subagents),
        continuation=options if stop.reason in ("paused", "step_cap") or is_handoff(stop) else None,
    )


@cache
def _version() -> str:
    """The version of boolab that is installed."""
    return version("boolab")


def as_success(value: object) -> bool | None:
    """What a score returned, as a record holds it; a `TypeError` if it is none of True, False and None."""
    if value is None or isinstance(value, bool):
        return value
    plain = value.item() if hasattr(value, "item") else value  # numpy has a bool of its own
    if not isinstance(plain, bool):
        msg = f"it returned {value!r}, not True, False or None"
        raise TypeError(msg)
    return plain
