"""Tool results from a record, as long as a branch makes the calls that the record has at the same places.

A recording of another system has no world to go back to. Where the files and servers of a run are gone, a branch may
still continue while its calls are those on record. The result of any other call is not known, so the branch ends there.
"""

from __future__ import annotations

from collections.abc import Awaitable

from boolab.core.types import Response, Run, ToolCall, ToolResult
from boolab.limits.call_identity import arguments_hash
from boolab.runtime.models.base import Emit, LocalModel, Model, Request, traits_of
from boolab.runtime.tools.tool import ToolContext


class Diverged(Exception):
    """A branch made another call than the record."""


class ReplayedTools(LocalModel):
    """A model whose calls get the results on record; it ends its run where it makes another call."""

    def __init__(self, model: Model, run: Run) -> None:
        self._model = model
        self._run = run
        self._diverged = ""
        self.name = model.name
        traits = traits_of(model)
        self.summarises, self.compacts = traits.summarises, traits.compacts
        self.context_window, self.virtual, self.score = traits.context_window, traits.virtual, traits.score
        self.own_tools = tuple(
            dict.fromkeys(call.name for step in run.steps for call in step.response.tool_calls)
        )  # fmt: skip
        self.fingerprint = (model, run.run_id)
        """What distinguishes it from others: see `boolab.sweeps.fingerprints`."""

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        if self._diverged:
            raise Diverged(self._diverged)
        return await self._model.respond(request, emit)

    def replies_to(self, tool: str) -> bool:  # noqa: ARG002 - it has an answer for each
        return True

    def reply(self, call: ToolCall, context: ToolContext) -> Awaitable[ToolResult]:
        """The result on record."""
        return self._reply(call, context.step, context.call)

    async def _reply(self, call: ToolCall, step: int, number: int) -> ToolResult:
        recorded = self._recorded(step, number)
        if recorded is not None and not self._diverged:
            before, result = recorded
            if before.name == call.name and arguments_hash(before.arguments) == arguments_hash(call.arguments):
                return result._replace(call_id=call.id)
        self._diverged = self._diverged or (
            f"the record has no result of the call of {call.name} in step {step:,}: the branch cannot continue"
        )
        return ToolResult(call.id, self._diverged, is_error=True, duration_ms=0)

    def _recorded(self, step: int, number: int) -> tuple[ToolCall, ToolResult] | None:
        if not 0 < step <= len(self._run.steps):
            return None
        found = self._run.steps[step - 1]
        calls = found.response.tool_calls
        result = found.results[number - 1] if 0 < number <= len(calls) else None
        return None if result is None else (calls[number - 1], result)
