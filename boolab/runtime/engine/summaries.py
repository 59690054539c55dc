"""The requests outside the loop's steps: the summary after a limit, and the compaction of a long history.

Old results are cleared here too, which needs no request.

Neither ever changes why a turn stops; a failure is noted, and the turn continues without.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from itertools import takewhile
from typing import Final, Literal

from boolab.core.context import Context
from boolab.core.messages import Message, Text
from boolab.core.run import Compacted, WrapUp
from boolab.core.surrogates import whole_text
from boolab.core.text import count
from boolab.core.types import Response
from boolab.errors import INTERRUPTS, ModelError, describe
from boolab.harnesses.compaction import Summariser
from boolab.limits.detectors.context import CompactionThrash
from boolab.runtime.engine.cost_bounds import bound_request, charge_outside, is_affordable, limit_request
from boolab.runtime.engine.seeds import request_seed
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import Request, accept_response, partial_of
from boolab.runtime.tools.execution import task_is_cancelled

SUMMARY_PROMPT: Final = (
    "You have been stopped by a limit and can call no more tools. Summarise what was done, what was found and what "
    "is left to do."
)


THRASH_COMPACTIONS: Final = 3
"""After so many compactions in a row Claude Code refuses the next one."""
_THRASH: Final = CompactionThrash()


async def summarise(turn: Turn, static: str, question: str = SUMMARY_PROMPT) -> asyncio.CancelledError | None:
    """Ask the model for a summary after a limit; `static` stands for one that fails. Returns as `wrap_up`."""
    response: Response | None
    cancelled, is_broken = None, False
    try:
        response = summary = await _ask(turn, "summary", turn.history.sent, question)
        fault = _summary_fault(summary)
    except asyncio.CancelledError as interruption:
        response, fault, is_broken = partial_of(interruption), "aborted", True
        cancelled = None if not task_is_cancelled() or consume_own_cancel(turn) else interruption
    except (*INTERRUPTS, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a failure is data
        response, fault, is_broken = partial_of(error), describe(error), True
    turn.record.wrap_up = WrapUp(response.text if response and not fault else static, response, fault, is_broken)
    if fault:
        turn.record.fault("summary", f"the summary failed: {fault}")
    return cancelled


async def shorten(turn: Turn) -> None:
    """Compact the history, or clear old results of it, where it is too long for the next request.

    Raises:
        asyncio.CancelledError: as `_compact` does.
    """
    await _compact(turn)
    compaction, history = turn.plan.compaction, turn.history
    if compaction is None or compaction.clear_at is None or history.tokens() <= compaction.clear_at:
        return
    # This looks at all results again at each boundary where too little could be cleared, but a run has some hundred.
    results = history.results_to_clear()
    tokens = history.tokens_of(results)
    if results and tokens >= compaction.clear_at_least:
        history.clear(results, len(history.steps) + 1)
        what = f"{count(len(results), 'result')} cleared"
        turn.record.note("clearing", what=what, tokens=tokens, results=[list(key) for key in results])


async def _compact(turn: Turn) -> None:
    """Summarise what came first, and send the summary in its place from now on.

    A step's calls and results stay together: whole steps are summarised, or kept. If the summary fails, the history is
    sent as it is, and not tried again in this turn. An earlier summary is part of what a later one sums up.

    Raises:
        asyncio.CancelledError: if the task was cancelled meanwhile; what was requested is on record.
    """
    compaction, limit = turn.plan.compaction, turn.context_limit
    if compaction is None or limit is None:
        return
    tokens, number = turn.history.tokens(), len(turn.history.steps) + 1
    kept_from = number - compaction.keep_steps
    if tokens <= limit or kept_from <= turn.history.summary_end:
        return
    old = turn.history.messages_up_to(kept_from)
    start, asks, reason = turn.now(), compaction.by == "model" and turn.plan.traits.compacts, "the model has no summary"
    if asks and not is_affordable(turn, compaction.prompt, resent=True):
        asks, reason = False, "a hard limit on cost leaves nothing for it"
    response, text, fault, failure = None, "", "", None
    try:
        if compaction.by != "model":
            text, fault = await _call_summariser(compaction.by, old)
        elif asks:
            response = await _ask(turn, "compaction", old, compaction.prompt)
            text, fault = response.text, _summary_fault(response)
        else:
            fault = reason
    except (*INTERRUPTS, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a failure is data
        response, fault, failure = partial_of(error), describe(error), error
        if task_is_cancelled() or turn.is_aborted:
            fault = "aborted"
    is_broken = asks and failure is not None
    duration_ms = turn.now() - start
    _record_compaction(
        turn, Compacted(number, kept_from, "" if fault else text, tokens, response, fault, is_broken, duration_ms)
    )
    if turn.is_aborted or (failure is not None and task_is_cancelled()):
        raise failure or asyncio.CancelledError


def _record_compaction(turn: Turn, compacted: Compacted) -> None:
    """Put a compaction on record, and from now on send its summary in place of what it sums up."""
    turn.history.compactions.append(compacted)
    turn.boundary_ms = turn.now()
    if turn.ladder.turn > 1 and not turn.steps_completed:
        turn.ladder.opened_ms = turn.boundary_ms  # a later turn begins with its first step, in every record
    if compacted.fault:
        turn.context_limit = None
        if compacted.fault != "aborted":
            turn.record.fault("compaction", f"the compaction failed: {compacted.fault}")
        return
    facts = {"kept_from": compacted.kept_from, "tokens": compacted.tokens, "what": compacted.summary}
    turn.record.note("compaction", **facts)
    turn.history.send_summary(compacted)
    turn.ladder.add_compaction()
    _note_thrash(turn)
    if turn.cost_limits:
        limit_request(turn)


def _note_thrash(turn: Turn) -> None:
    """Note once that compactions follow each other with little work in between, as `CompactionThrash` counts."""
    steps_before = [compaction.before for compaction in turn.history.compactions if not compaction.fault]
    pairs = zip(steps_before[::-1], steps_before[-2::-1], strict=False)
    streak = 1 + sum(1 for _ in takewhile(lambda pair: pair[0] - pair[1] <= _THRASH.within, pairs))
    if streak < THRASH_COMPACTIONS or any(event.kind == "compaction_thrash" for event in turn.record.events):
        return
    limit = turn.context_limit or 0
    what = (
        f"the history was compacted {count(streak, 'time')} with at most {count(_THRASH.within, 'step')} in between: "
        f"the limit of {limit:,} tokens leaves little room beside what a compaction keeps"
    )
    turn.record.note("compaction_thrash", what=what, value=streak)


async def _call_summariser(summarise: Summariser, messages: Sequence[Message]) -> tuple[str, str]:
    """The summary of a function, and what is wrong with it."""
    text: object = summarise(messages)
    if inspect.isawaitable(text):
        text = await text
    if isinstance(text, str) and text:
        return whole_text(text), ""
    return "", f"the function gave {text!r}, not a text"


async def _ask(
    turn: Turn, purpose: Literal["summary", "compaction"], messages: Sequence[Message], question: str
) -> Response:
    """One request without tools, outside the cap."""
    index, seed = len(turn.history.steps), turn.plan.options.get("seed")
    max_output, reserved = None, turn.request_cost
    if turn.cost_limits:
        bound = bound_request(turn, question, resent=purpose == "compaction")
        turn.reserve(reserved + bound.cost)
        max_output = bound.max_output
    request = Request(
        index,
        Context((), messages, 0, (Message("user", (Text(question),)),)),
        (),
        turn.clock,
        purpose,
        turn.plan.agent.temperature,
        request_seed(seed, purpose, index),
        note=turn.record.note,
        run_id=turn.record.run_id,
        run_seed=seed,
        max_output=max_output,
    )
    try:
        response = accept_response(await turn.plan.model.respond(request))
    except ValueError as fault:
        msg = f"the {purpose} is malformed: {fault}"
        raise ModelError(msg) from None
    if turn.cost_limits:
        charge_outside(turn, response.usage)
        turn.reserve(reserved)
    return response


def _summary_fault(response: Response) -> str:
    if response.tool_calls:
        return "the model called tools"
    return "" if response.text else "the model returned no text"


def consume_own_cancel(turn: Turn) -> bool:
    """Whether a cancellation came from the turn's own `Abort`, and from nothing else."""
    return turn.abort is not None and turn.abort.absorb()
