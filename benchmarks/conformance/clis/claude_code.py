"""Claude Code: `claude -p`, which speaks Anthropic's Messages."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from benchmarks.conformance.clis.anthropic_wire import anthropic_wire
from benchmarks.conformance.clis.harness import Finished, Harness, Start, Way
from benchmarks.conformance.clis.scripts import PROMPT, Call, Loop, Shell, loop_of

AGENT: Final = "appender"
"""The agent of the runs that have one of their own."""

QUIET: Final = {
    "IS_SANDBOX": "1",  # permissions may be skipped as root
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # a subagent runs in the foreground, so that the main loop waits
}


def _agent_file(limit: float | None) -> str:
    turns = "" if limit is None else f"maxTurns: {limit:g}\n"
    return f"---\nname: {AGENT}\ndescription: Appends lines.\ntools: Bash\n{turns}---\nAppend lines.\n"


def _agent_json(limit: float) -> str:
    agent = {"description": "Appends lines.", "prompt": "Append lines.", "tools": ["Bash"], "maxTurns": limit}
    return json.dumps({AGENT: agent})


def _environment_settings(limit: float) -> str:
    return json.dumps({"env": {"CLAUDE_CODE_MAX_TURNS": f"{limit:g}"}})


def _base(url: str) -> Start:
    return Start(
        environment={**QUIET, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"},
        files={f"work/.claude/agents/{AGENT}.md": _agent_file(None)},
    )


def _arguments(added: tuple[str, ...]) -> list[str]:
    return ["-p", "--output-format", "json", "--dangerously-skip-permissions", *added, "--", PROMPT]


def _call(call: Call) -> tuple[str, dict[str, Any]]:
    if isinstance(call, Shell):
        return "Bash", {"command": call.command, "description": "Append a line"}
    return "Agent", {"subagent_type": AGENT, "description": "Append lines", "prompt": call.prompt}


def sort_request(path: str, body: Any) -> Loop | None:  # noqa: ANN401 - whatever it sends
    """A request with tools is of the loop whose prompt its first messages hold; others are titles and the like."""
    if not path.partition("?")[0].endswith("/v1/messages") or not isinstance(body, dict) or not body.get("tools"):
        return None
    return loop_of(body["messages"][:1])


def _end(finished: Finished) -> str:
    try:
        result = json.loads(finished.out)
    except ValueError:
        return (finished.out or finished.err).strip().splitlines()[-1][:80] if finished.out or finished.err else ""
    result = result[-1] if isinstance(result, list) else result  # a list of all messages with --verbose
    return f"{result.get('subtype')}, is_error {json.dumps(result.get('is_error'))}"


def _told(body: Any) -> str:  # noqa: ANN401
    """What the result of the subagent's call says of its end."""
    found = re.search(r"stopped at its \d+-turn limit before finishing", json.dumps(body["messages"]))
    return found.group() if found else "a report"


CLAUDE_CODE: Final = Harness(
    name="claude-code",
    command="claude",
    ways={
        "flag": Way(shown="`--max-turns N`", loop="main", start=lambda n: Start(arguments=("--max-turns", f"{n:g}"))),
        "environment": Way(
            shown="`CLAUDE_CODE_MAX_TURNS=N`",
            loop="main",
            start=lambda n: Start(environment={"CLAUDE_CODE_MAX_TURNS": f"{n:g}"}),
        ),
        "user-settings": Way(
            shown='`"env": {"CLAUDE_CODE_MAX_TURNS": "N"}` in `~/.claude/settings.json`',
            loop="main",
            start=lambda n: Start(files={"home/.claude/settings.json": _environment_settings(n)}),
        ),
        "settings": Way(
            shown='`"env": {"CLAUDE_CODE_MAX_TURNS": "N"}` in the project\'s `.claude/settings.json`',
            loop="main",
            holds=False,
            start=lambda n: Start(files={"work/.claude/settings.json": _environment_settings(n)}),
        ),
        "agent": Way(
            shown="`--agent NAME`, `maxTurns: N` in its file",
            loop="main",
            holds=False,
            start=lambda n: Start(
                arguments=("--agent", AGENT), files={f"work/.claude/agents/{AGENT}.md": _agent_file(n)}
            ),
        ),
        "budget": Way(
            shown="`--max-budget-usd N`",
            loop="main",
            limits="cost",
            settled=False,
            start=lambda n: Start(arguments=("--max-budget-usd", f"{n:g}")),
        ),
        "subagent": Way(
            shown="`maxTurns: N` in the subagent's file",
            loop="subagent",
            start=lambda n: Start(files={f"work/.claude/agents/{AGENT}.md": _agent_file(n)}),
        ),
        "subagent-json": Way(
            shown='`--agents` with `"maxTurns": N`',
            loop="subagent",
            start=lambda n: Start(arguments=("--agents", _agent_json(n))),
        ),
        "main-flag-subagent": Way(
            shown="`--max-turns N`, a subagent without a limit",
            loop="subagent",
            holds=False,
            start=lambda n: Start(arguments=("--max-turns", f"{n:g}")),
        ),
    },
    wire=lambda: anthropic_wire(_call),
    sorter=sort_request,
    base=_base,
    arguments=_arguments,
    end=_end,
    told=_told,
    reasons=(
        ("turn limit", "step_cap"),
        ("error_max_turns", "step_cap"),
        ("error_max_budget_usd", "cost_budget"),
        ("success", "finished"),
    ),
    presets={"main": "claude_code", "subagent": "claude_code"},
    logs=(".claude/projects/**/*.jsonl",),
)
