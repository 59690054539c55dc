"""Gemini CLI: `gemini -p`, which speaks Gemini's generateContent."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from benchmarks.conformance.clis.gemini_wire import gemini_wire
from benchmarks.conformance.clis.harness import Finished, Harness, Start, Way
from benchmarks.conformance.clis.scripts import PROMPT, Call, Loop, Shell, loop_of

AGENT: Final = "appender"
"""The subagent of the runs that have one."""

MODEL: Final = "gemini-2.5-pro"

QUIET: Final = {
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "NO_BROWSER": "true",
    "CI": "1",
}

SETTINGS: Final[dict[str, Any]] = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "experimental": {"enableAgents": True},
}
"""The settings of the user. What the scripted limit sets is in the project's, which are merged with them."""

PROJECT: Final = "work/.gemini/settings.json"


def _subagent(settings: str = "") -> str:
    return (
        f"---\nname: {AGENT}\ndescription: Appends lines.\nkind: local\ntools:\n  - run_shell_command\n{settings}---\n"
        "Append lines.\n"
    )


def _base(url: str) -> Start:
    return Start(
        environment={**QUIET, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none"},
        files={
            "home/.gemini/settings.json": json.dumps(SETTINGS),
            # An agent of the project would have to be acknowledged by hand first.
            f"home/.gemini/agents/{AGENT}.md": _subagent(),
        },
    )


def _arguments(added: tuple[str, ...]) -> list[str]:
    return ["--model", MODEL, "--yolo", "--output-format", "json", *added, "--prompt", PROMPT]


def _call(call: Call) -> tuple[str, dict[str, Any]]:
    if isinstance(call, Shell):
        return "run_shell_command", {"command": call.command, "description": "Append a line"}
    return "invoke_agent", {"agent_name": AGENT, "prompt": call.prompt}


def sort_request(path: str, body: Any) -> Loop | None:  # noqa: ANN401 - whatever it sends
    """A request with tools is of the loop whose prompt its contents hold first."""
    if "enerateContent" not in path or not isinstance(body, dict) or not body.get("tools"):
        return None
    return loop_of(content for content in body["contents"] if content.get("role") == "user")


def _end(finished: Finished) -> str:
    read = json.JSONDecoder().raw_decode
    for text in (finished.out, finished.err):
        try:
            result, _ = read(text, text.index("{"))
        except ValueError:
            continue
        if "error" in result:
            return f"{result['error'].get('type')}, code {result['error'].get('code')}"
        return "response"
    return (finished.err or finished.out).strip().splitlines()[-1][:80] if finished.err or finished.out else ""


def _told(body: Any) -> str:  # noqa: ANN401
    """What the result of the subagent's call says of its end."""
    found = re.search(r"Termination Reason: (\w+)", json.dumps(body["contents"]))
    return found.group(1) if found else "a report"


def _overridden(limit: float) -> str:
    return json.dumps({"agents": {"overrides": {AGENT: {"runConfig": {"maxTurns": int(limit)}}}}})


GEMINI_CLI: Final = Harness(
    name="gemini-cli",
    command="gemini",
    ways={
        "session": Way(
            shown='`"model": {"maxSessionTurns": N}` in settings.json',
            loop="main",
            start=lambda n: Start(files={PROJECT: json.dumps({"model": {"maxSessionTurns": int(n)}})}),
        ),
        "subagent": Way(
            shown="`max_turns: N` in the subagent's file",
            loop="subagent",
            start=lambda n: Start(files={f"home/.gemini/agents/{AGENT}.md": _subagent(f"max_turns: {n:g}\n")}),
        ),
        "overrides": Way(
            shown='`"runConfig": {"maxTurns": N}` of `agents.overrides` in settings.json',
            loop="subagent",
            start=lambda n: Start(files={PROJECT: _overridden(n)}),
        ),
        "main-session-subagent": Way(
            shown="`maxSessionTurns: N`, a subagent without a limit",
            loop="subagent",
            holds=False,
            start=lambda n: Start(files={PROJECT: json.dumps({"model": {"maxSessionTurns": int(n)}})}),
        ),
    },
    wire=lambda: gemini_wire(_call),
    sorter=sort_request,
    base=_base,
    arguments=_arguments,
    end=_end,
    told=_told,
    reasons=(
        ("MAX_TURNS", "step_cap"),
        ("FatalTurnLimitedError", "step_cap"),
        ("ERROR_NO_COMPLETE_TASK_CALL", "error_streak"),
        ("response", "finished"),
    ),
    presets={"main": "gemini_cli", "subagent": "gemini_subagent"},
    logs=(".gemini/tmp/*/chats/**/*",),
)
