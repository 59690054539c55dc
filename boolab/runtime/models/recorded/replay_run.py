"""Replays the responses of a run in order, with the results of its calls: a `RecordedModel` of a run."""

from __future__ import annotations

from collections.abc import Sequence

from boolab.core.text import count
from boolab.core.types import Compacted, Response, Run, ToolCall, ToolResult
from boolab.errors import ModelError, ScriptExhausted
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.tools.tool import FailedReply, ToolContext


class RunReplay:
    """The responses and results of a recorded run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.name = run.model
        self.context_window = run.context_window
        continued = [event.payload.get("after_step") for event in run.events if event.kind == "continued"]
        self._wrap_ups = dict(zip(continued, run.earlier_wrap_ups, strict=False))
        if run.wrap_up is not None:
            self._wrap_ups[run.n_steps] = run.wrap_up
        self._compactions = {compacted.before - 1: compacted for compacted in run.compactions if compacted.asked}

    def __repr__(self) -> str:
        return repr(self._run)

    @property
    def summarises(self) -> bool:
        """Whether the recorded run asked its model for a summary."""
        return any(wrap_up.asked for wrap_up in self._wrap_ups.values())

    @property
    def compacts(self) -> bool:
        """Whether the recorded run asked its model for a compaction."""
        return bool(self._compactions)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The recorded response to this request."""
        if request.purpose != "step":
            return await self._aside(request)
        if request.index >= self._run.n_steps:
            msg = f"the recording ends after {count(self._run.n_steps, 'response')} ({self._run.stop_reason})"
            raise ScriptExhausted(msg)
        step = self._run.steps[request.index]
        await request.clock.sleep((step.model_ms or 0) / 1000)
        if step.broke_off:
            if self._run.stop_reason == "aborted":
                msg = f"the recording was aborted in response {step.index}"
                raise ScriptExhausted(msg)
            continued = request.index + 1 < self._run.n_steps or step.error != self._run.error
            raise ModelError(step.error, retryable=continued, partial=step.response, recorded=step.error)
        if emit is not None:
            if step.response.reasoning:
                emit("reasoning", step.response.reasoning)
            if step.response.text:
                emit("text", step.response.text)
        return step.response

    async def _aside(self, request: Request) -> Response:
        """The response to a request outside the steps; raises its failure."""
        compacted, wrap_up = self._compactions.get(request.index), self._wrap_ups.get(request.index)
        aside = compacted if request.purpose == "compaction" else wrap_up
        if aside is None or not aside.asked:
            msg = f"the recording has no {request.purpose} after {count(request.index, 'response')}"
            raise ScriptExhausted(msg)
        pause_ms = aside.duration_ms or 0 if isinstance(aside, Compacted) else self._pause_ms(request.index)
        await request.clock.sleep(pause_ms / 1000)
        if aside.broken or aside.response is None:
            raise ModelError(aside.fault, partial=aside.response, recorded=aside.fault)
        return aside.response

    def _pause_ms(self, after: int) -> int:
        """The recorded time between a step and the next step, or the end, without a compaction."""
        run, steps = self._run, self._run.steps
        end = (steps[after - 1].start_ms or 0) + (steps[after - 1].duration_ms or 0) if after else 0
        then = run.duration_ms if after == len(steps) else steps[after].start_ms
        compacted = self._compactions.get(after)
        return (end if then is None else then) - end - ((compacted and compacted.duration_ms) or 0)

    def has_result_of(self, tool: str) -> bool:
        """Whether a call of that tool has a result in the recording."""
        return any(
            call.name == tool and result is not None
            for step in self._run.steps
            for call, result in zip(step.response.tool_calls, step.results, strict=True)
        )

    async def reply(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """The recorded result of a call, found by its place, since ids repeat in real logs."""
        step = self._run.steps[context.step - 1]
        result = step.results[context.call - 1] if context.call <= len(step.results) else None
        if result is None:
            return ToolResult(call.id, "This call has no result in the recording.", is_error=True, duration_ms=0)
        if step.error and result.is_error and step.error.endswith(result.content) and self._run.stop_reason == "error":
            raise FailedReply(result, step.error)
        # One call takes the time of all, whether they run in sequence or in parallel: the next boundary sees the sum.
        if context.call == _longest(step.results):
            await context.sleep(((step.duration_ms or 0) - (step.model_ms or 0)) / 1000)
        return result


def _longest(results: Sequence[ToolResult | None]) -> int:
    """The number of the first call that took longest; unknown times count as the shortest."""
    times = [-2 if result is None else -1 if result.duration_ms is None else result.duration_ms for result in results]
    return times.index(max(times)) + 1
