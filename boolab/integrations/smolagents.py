"""smolagents: a step callback. Run with smolagents 1.26.0."""

from __future__ import annotations

from typing import Any, Unpack

from boolab.errors import SettingError
from boolab.integrations.monitored_run import AdapterOptions, MonitoredRun, import_package
from boolab.limits.monitor import Action, Monitor
from boolab.limits.stop import StopRule


def callback(rule: StopRule, action: Action = "stop", **options: Unpack[AdapterOptions]) -> Any:
    """A callback that counts the steps of an agent and interrupts it at a stop, as `agent.interrupt()` does.

    `agent.run` then raises `AgentError("Agent interrupted.")`. The steps are in `agent.memory`, the last of them ends
    with the reason among its observations, and `callback.monitor.verdict.stop` has it too.

    Args:
        rule: The rule; see `bl.Monitor`. The package evaluates nothing before the first step.
        action: What happens when it is true.
        **options: See `AdapterOptions`; without `at_response`, for which the package has no place.

    Returns:
        What goes into `ToolCallingAgent(..., step_callbacks=[...])` or a `CodeAgent`; one for each agent.

    Raises:
        SettingError: if a rule is evaluated at the response.
    """
    package = import_package("smolagents", "smolagents")

    class MonitorCallback:
        def __init__(self) -> None:
            self.run = MonitoredRun(rule, action, **options)
            if self.run.monitor.at_response is not None:
                msg = f"{self.run.monitor.at_response} is evaluated at the response: smolagents has no place for it"
                raise SettingError(msg)

        @property
        def monitor(self) -> Monitor:
            return self.run.monitor

        def __call__(self, step: Any, agent: Any) -> None:
            if step.is_final_answer or isinstance(step.error, package.AgentMaxStepsError):
                return  # the run ends by itself
            if step.step_number == 1:
                if any(isinstance(memory_step, package.ActionStep) for memory_step in agent.memory.steps):
                    self.run.open_turn()
                else:
                    self.run = MonitoredRun(rule, action, **options)
            verdict = self.run.after(*_parts(step))
            if verdict.message:
                step.observations = f"{step.observations or ''}\n{verdict.message}".strip()
            if verdict.action == "stop":
                agent.interrupt()

    return MonitorCallback()


def _parts(step: Any) -> tuple[list[tuple[str, Any]], list[tuple[str, bool]], dict[str, int] | None]:
    """The calls, results and usage of a step: it records one outcome for all calls, and none of them after an error."""
    wire_calls = getattr(step.model_output_message, "tool_calls", None) or ()
    calls = [(call.name, call.arguments) for call in step.tool_calls or [entry.function for entry in wire_calls]]
    result = (f"{step.observations or ''}{step.error or ''}", step.error is not None)
    counts = step.token_usage
    usage = None if counts is None else {"input_tokens": counts.input_tokens, "output_tokens": counts.output_tokens}
    return calls, [result] * len(calls), usage
