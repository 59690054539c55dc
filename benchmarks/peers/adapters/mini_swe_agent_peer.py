"""mini-swe-agent: `DefaultAgent`, with a thin model and an environment that adds without a shell."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["MSWEA_SILENT_STARTUP"] = "1"

from minisweagent.agents.default import AgentConfig, DefaultAgent
from minisweagent.exceptions import Submitted
from minisweagent.models.test_models import DeterministicModel
from work import End, Turns

VARIANTS = ("DefaultAgent",)
LIMITS = {"step_limit": AgentConfig.model_fields["step_limit"].default}


class Scripted(DeterministicModel):
    """Says what its turns say; the package's own would hold all it says in a configuration that each step copies."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(outputs=[])
        self.turns = turns

    def query(self, _messages: Any, **_options: Any) -> dict[str, Any]:  # noqa: ANN401
        """One message with one command."""
        a = self.turns.next()
        command = "submit" if a is None else f"add {a} 1"
        return {"role": "assistant", "content": "", "extra": {"actions": [{"command": command}], "cost": 0.0}}


class Adding:
    """Runs `add A B` and `submit`."""

    config = None

    def __init__(self, tool: Callable[[int, int], int]) -> None:
        self.tool = tool

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:  # noqa: ARG002 - the package's own
        """Run one command."""
        name, *numbers = action["command"].split()
        if name == "submit":
            extra = {"exit_status": "Submitted", "submission": "done"}
            raise Submitted({"role": "exit", "content": "done", "extra": extra})
        a, b = map(int, numbers)
        return {"output": str(self.tool(a, b)), "returncode": 0, "exception_info": ""}

    def get_template_vars(self, **_options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Its templates need none."""
        return {}

    def serialize(self) -> dict[str, Any]:
        """It has no settings."""
        return {}


def agent_of(turns: Turns, add: Callable[[int, int], int], **settings: Any) -> DefaultAgent:  # noqa: ANN401
    """An agent in that environment."""
    return DefaultAgent(Scripted(turns), Adding(add), system_template="Add.", instance_template="{{task}}", **settings)


def prepare(_variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], list[str]]:
    """An agent for each run, as it counts its calls."""
    turns = Turns(steps)
    agents = [agent_of(turns, add) for _ in range(runs)]
    return lambda: [str(agent.run("go")["submission"]) for agent in agents]


def limited(name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """The agent keeps its messages, and writes them to a file where it is told one."""
    agent = agent_of(turns, add, **{name: limit})
    end = agent.run("go")
    roles = [one["role"] for one in agent.messages]
    results = sum("returncode" in one.get("extra", {}) for one in agent.messages)
    how = f"returns, exit_status {end['exit_status']}"
    return End(how, str(end["submission"]), [("`agent.messages`", roles.count("assistant"), results)])
