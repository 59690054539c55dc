"""Pydantic AI 2: a capability of an `Agent`. Run with pydantic-ai-slim 2.68.0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from boolab.integrations.monitored_run import AdapterOptions, MonitoredRun, import_package
from boolab.limits.monitor import Action, Verdict
from boolab.limits.stop import StopRule


def capability(rule: StopRule | None, action: Action = "stop", **options: Unpack[AdapterOptions]) -> Any:
    """A capability that counts the steps of each run and ends it at a stop.

    An agent that may answer in text ends with the reason as its output, and its last response has the stop in
    `metadata["boolab_stop"]`. One whose output has another type ends as at the package's own limits: with
    `UsageLimitExceeded`, and `capture_run_messages` keeps what was done.

    Args:
        rule: The rule; see `bl.Monitor`. The scope is a run of the agent, whatever it is set to.
        action: What happens when it is true.
        **options: See `AdapterOptions`.

    Returns:
        What goes into `Agent(model, capabilities=[...])`.
    """
    base = import_package("pydantic_ai.capabilities", "pydantic-ai-slim").AbstractCapability
    errors = import_package("pydantic_ai.exceptions", "pydantic-ai-slim")
    message_types = import_package("pydantic_ai.messages", "pydantic-ai-slim")
    MonitoredRun(rule, action, **options)  # refuse at once what no run accepts

    def end_run(verdict: Verdict, context: Any, response: Any) -> Any:
        if not context.model_request_parameters.allow_text_output or verdict.stop is None:
            raise errors.UsageLimitExceeded(verdict.message)
        return replace(
            response, parts=[message_types.TextPart(verdict.message)], metadata={"boolab_stop": verdict.stop._asdict()}
        )

    class MonitorCapability(base):  # type: ignore[misc,valid-type] # without types here
        run: MonitoredRun | None = None
        response: Any = None

        async def for_run(self, ctx: Any) -> Any:  # noqa: ARG002
            copy = MonitorCapability()
            copy.run = MonitoredRun(rule, action, **options)
            return copy

        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            assert self.run is not None  # noqa: S101 - the package calls `for_run` first
            verdict, response, self.response = self.run.boundary(), self.response, None
            if response is not None:
                part_by_id = {getattr(part, "tool_call_id", ""): part for part in ctx.messages[-1].parts}
                result_parts = [part_by_id.get(call.tool_call_id) for call in response.tool_calls]
                results = [None if part is None else (_text(part), _has_failed(part)) for part in result_parts]
                verdict = self.run.after(_calls(response), results, _usage(response), response.text or "")
            if verdict.action == "stop":
                raise errors.SkipModelRequest(end_run(verdict, request_context, message_types.ModelResponse([])))
            if verdict.message:
                *earlier_messages, last = request_context.messages
                parts = [*last.parts, message_types.UserPromptPart(verdict.message)]
                request_context.messages = [*earlier_messages, replace(last, parts=parts)]
            return request_context

        async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:  # noqa: ARG002
            assert self.run is not None  # noqa: S101 - as above
            self.response = response
            verdict = self.run.before(_calls(response), _usage(response))
            return end_run(verdict, request_context, response) if verdict.action == "stop" else response

    return MonitorCapability()


def _calls(response: Any) -> list[tuple[str, Any]]:
    return [(call.tool_name, call.args) for call in response.tool_calls]


def _usage(response: Any) -> dict[str, int | None]:
    usage, micro = response.usage, getattr(response.usage, "cost", None)
    cost = None if micro is None else round(1_000_000 * micro)
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost": cost}


def _has_failed(part: Any) -> bool:
    return bool(part.part_kind == "retry-prompt" or part.outcome != "success")


def _text(part: Any) -> str:
    return str(part.model_response() if part.part_kind == "retry-prompt" else part.model_response_str())
