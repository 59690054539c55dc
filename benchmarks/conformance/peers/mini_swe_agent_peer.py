"""mini-swe-agent: `DefaultAgent` with its own deterministic model, its own parser of tool calls, and real commands.

The model's turns go through the parser that the package's LiteLLM model uses, and are paid for before they are parsed,
as there. `look`, `fail` and `submit` are commands to its one tool, bash; every other name is a tool that it lacks.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["MSWEA_SILENT_STARTUP"] = "1"

from exchange import Script, serve
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_from_spec
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import FormatError
from minisweagent.models.test_models import DeterministicToolcallModel
from minisweagent.models.utils.actions_toolcall import parse_toolcall_actions

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
COMMANDS = {"look": "echo seen {}", "fail": "echo {}; false", "submit": SUBMIT}


def tool_call(call_id: str, one: dict[str, Any]) -> SimpleNamespace:
    """A call of the script as the package's parser takes it."""
    command, *_ = (shlex.quote(str(value)) for value in one["arguments"].values())
    known = one["name"] in COMMANDS
    arguments = {"command": COMMANDS[one["name"]].format(command)} if known else one["arguments"]
    function = SimpleNamespace(name="bash" if known else one["name"], arguments=json.dumps(arguments))
    return SimpleNamespace(id=call_id, function=function)


class Scripted(DeterministicToolcallModel):
    """Says what the script says."""

    def __init__(self, script: Script) -> None:
        super().__init__(outputs=[])
        self.script = script

    def query(self, _messages: Any, **_options: Any) -> dict[str, Any]:  # noqa: ANN401
        """One message, its calls parsed."""
        said = self.script.say(offered=True)
        calls = [tool_call(f"c{self.script.model_calls}.{i}", one) for i, one in enumerate(said["calls"])]
        try:
            actions = parse_toolcall_actions(calls, format_error_template="{{error}}")
        except FormatError as error:
            error.messages[0]["extra"]["cost"] = said["cost"]
            raise
        return {"role": "assistant", "content": said["text"], "extra": {"actions": actions, "cost": said["cost"]}}


class Counted(LocalEnvironment):
    """The package's own environment; commands other than the submission are counted."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def execute(self, action: dict[str, Any], *rest: Any, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Run the command."""
        if action["command"] != SUBMIT:
            self.script.ran(shlex.split(action["command"].partition(";")[0])[-1])
        return super().execute(action, *rest, **options)


def play(script: Script, settings: dict[str, Any]) -> str:
    """Run the agent once."""
    agent = DefaultAgent(
        Scripted(script), Counted(script), system_template="Look.", instance_template="{{task}}", **settings
    )
    return str(agent.run("go")["exit_status"])


def run_exported(script: Script, code: str) -> bool:
    """Run the agent under an exported configuration, read as the package reads one."""
    path = Path("limits.yaml")
    path.write_text(code, encoding="utf-8")
    config = get_config_from_spec(str(path))
    return play(script, config["agent"]) == "Submitted"


if __name__ == "__main__":
    serve("mini-swe-agent", play, run_exported)
