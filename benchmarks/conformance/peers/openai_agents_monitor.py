"""The hooks of the OpenAI Agents SDK in `Runner`."""

from __future__ import annotations

from typing import Any

from monitored import Case, endless, search, serve
from openai_agents_peer import Scripted

from agents import Agent, MaxTurnsExceeded, RunConfig, Runner, ToolCallOutputItem, function_tool


class Looking(Scripted):
    """A scripted model that looks at what it is sent."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.script)
        self.case = case

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **options: Any) -> Any:  # noqa: A002, ANN401
        """One response."""
        self.case.look_at(input)
        return await super().get_response(system_instructions, input, *rest, **options)


def play(case: Case) -> None:
    """Run the agent once."""
    from boolab.integrations.openai_agents import hooks

    script = case.script

    async def look(what: str) -> str:
        return script.look(what)

    async def fail(what: str) -> str:
        return script.fail(what)

    agent = Agent(name="a", model=Looking(case), tools=[function_tool(look), function_tool(fail)])
    guard = hooks(case.rule, case.action, **case.options)
    settings = RunConfig(call_model_input_filter=guard.add_nudge)
    try:
        items = Runner.run_sync(agent, "go", max_turns=None, hooks=guard, run_config=settings).new_items
        case.end = "finished"
    except MaxTurnsExceeded as error:
        case.end, case.reason = "MaxTurnsExceeded", str(error)
        items = error.run_data.new_items
    case.kept = sum(isinstance(one, ToolCallOutputItem) and str(one.output).startswith("seen") for one in items)


if __name__ == "__main__":
    names = {"model": Scripted(endless()), "search": function_tool(search)}
    serve("openai-agents", play, lambda: names)
