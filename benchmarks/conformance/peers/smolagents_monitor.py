"""The callback of smolagents in `ToolCallingAgent`."""

from __future__ import annotations

from typing import Any

from monitored import Case, endless, search, serve
from smolagents import ActionStep, LogLevel, ToolCallingAgent, tool
from smolagents.utils import AgentError
from smolagents_peer import Scripted


class Looking(Scripted):
    """A scripted model that looks at what it is sent."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.script)
        self.case = case

    def generate(self, messages: Any, *rest: Any, **options: Any) -> Any:  # noqa: ANN401
        """One message."""
        self.case.look_at(messages)
        return super().generate(messages, *rest, **options)


def play(case: Case) -> None:
    """Run the agent once."""
    from boolab.integrations.smolagents import callback

    script = case.script

    @tool
    def look(what: str) -> str:
        """Look.

        Args:
            what: At what.
        """
        return script.look(what)

    @tool
    def fail(what: str) -> str:
        """Fail.

        Args:
            what: With what.
        """
        return script.fail(what)

    guard = callback(case.rule, case.action, **case.options)
    agent = ToolCallingAgent(
        tools=[look, fail], model=Looking(case), max_steps=1000, step_callbacks=[guard], verbosity_level=LogLevel.OFF
    )
    try:
        agent.run("go")
        case.end = "finished"
    except AgentError as error:
        case.end = f"AgentError: {error.message}"
        case.reason = agent.memory.steps[-1].observations.splitlines()[-1]
    steps = [one for one in agent.memory.steps if isinstance(one, ActionStep)]
    case.kept = sum(line.startswith("seen") for one in steps for line in (one.observations or "").splitlines())


if __name__ == "__main__":
    serve("smolagents", play, lambda: {"model": Scripted(endless()), "search": tool(search)})
