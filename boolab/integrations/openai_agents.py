"""OpenAI Agents SDK: hooks of a run. Run with openai-agents 0.24.0."""

from __future__ import annotations

from typing import Any, Final, Unpack

from boolab.integrations.monitored_run import AdapterOptions, MonitoredRun, import_package
from boolab.limits.monitor import Action, Verdict
from boolab.limits.stop import StopRule

_FAILED: Final = "An error occurred while running the tool"
"""How the result of a tool that raised begins (`default_tool_error_function` in agents/tool.py). Nothing else marks it.
"""


def hooks(rule: StopRule | None, action: Action = "stop", **options: Unpack[AdapterOptions]) -> Any:  # noqa: C901 - small methods
    """Hooks that count the steps of one run and end it at a stop as `max_turns` does: with `MaxTurnsExceeded`.

    Its text is the reason, and its `run_data` has what was done so far.

    Args:
        rule: The rule; see `bl.Monitor`.
        action: What happens when it is true. A `nudge` needs `RunConfig(call_model_input_filter=hooks.add_nudge)` too.
        **options: See `AdapterOptions`.

    Returns:
        What goes into `Runner.run(agent, input, hooks=...)`; new ones for each run.
    """
    base = import_package("agents.lifecycle", "openai-agents").RunHooks
    max_turns_exceeded = import_package("agents.exceptions", "openai-agents").MaxTurnsExceeded

    class MonitorHooks(base):  # type: ignore[misc,valid-type] # without types here
        def __init__(self) -> None:
            self.run = MonitoredRun(rule, action, **options)
            self.monitor = self.run.monitor
            self.response: Any = None
            self.results: dict[str, tuple[str, bool]] = {}

        async def on_llm_start(self, *_: Any, **__: Any) -> None:
            self.end_at(self.boundary())

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002
            self.response, self.results = response, {}
            self.end_at(self.run.before(_calls(response), _usage(response)))

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:  # noqa: ARG002
            self.results[getattr(context, "tool_call_id", "")] = (str(result), str(result).startswith(_FAILED))

        def end_at(self, verdict: Verdict) -> None:
            if verdict.action == "stop":
                raise max_turns_exceeded(verdict.message)

        def boundary(self) -> Verdict:
            """The verdict after the last step, which is counted once."""
            if self.response is None:
                return self.run.boundary()
            response, self.response = self.response, None
            results = [self.results.get(item.call_id) for item in _items(response)]
            return self.run.after(_calls(response), results, _usage(response))

        def add_nudge(self, data: Any) -> Any:
            """Add the message of a nudge to a request: what goes into `RunConfig(call_model_input_filter=...)`."""
            new, verdict = self.response is not None, self.boundary()
            if new and verdict.action == "nudge":
                data.model_data.input.append({"role": "user", "content": verdict.message})
            return data.model_data

    return MonitorHooks()


def _items(response: Any) -> list[Any]:
    return [item for item in response.output if getattr(item, "type", "") == "function_call"]


def _calls(response: Any) -> list[tuple[str, str]]:
    return [(item.name, item.arguments) for item in _items(response)]


def _usage(response: Any) -> dict[str, int] | None:
    usage = response.usage
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens} if usage.requests else None
