"""opencode: `opencode run`, which speaks OpenAI's chat completions through the provider that it brings with it."""

from __future__ import annotations

import json
from typing import Any, Final

from benchmarks.conformance.clis.chat_wire import MODEL, chat_wire
from benchmarks.conformance.clis.harness import Finished, Harness, Start, Way
from benchmarks.conformance.clis.scripts import PROMPT, Call, Loop, Shell, loop_of

AGENT: Final = "appender"
"""The subagent of the runs that have one."""

QUIET: Final = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}

CONFIG: Final = "work/opencode.json"


def _config(url: str) -> dict[str, Any]:
    model = {"name": MODEL, "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    return {
        "model": f"{MODEL}/{MODEL}",
        "small_model": f"{MODEL}/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "provider": {
            MODEL: {
                "npm": "@ai-sdk/openai-compatible",
                "name": MODEL,
                "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
                "models": {MODEL: model},
            }
        },
    }


def _subagent(settings: str = "") -> str:
    return f"---\ndescription: Appends lines.\nmode: subagent\n{settings}---\nAppend lines.\n"


def _base(url: str) -> Start:
    # Settings by the environment are merged with the project's file, which a limit may be set in.
    return Start(
        environment={**QUIET, "OPENCODE_CONFIG_CONTENT": json.dumps(_config(url))},
        files={f"work/.opencode/agent/{AGENT}.md": _subagent()},
    )


def _arguments(added: tuple[str, ...]) -> list[str]:
    return ["run", "--format", "json", *added, "--", PROMPT]


def _call(call: Call) -> tuple[str, dict[str, Any]]:
    if isinstance(call, Shell):
        return "bash", {"command": call.command, "description": "Append a line"}
    return "task", {"subagent_type": AGENT, "description": "Append lines", "prompt": call.prompt}


def sort_request(path: str, body: Any) -> Loop | None:  # noqa: ANN401 - whatever it sends
    """A request is of the loop whose prompt its first message of the user holds; a title is asked for without tools."""
    if not path.endswith("/chat/completions") or not isinstance(body, dict):
        return None
    messages = body["messages"]
    if not body.get("tools") and "title" in json.dumps(messages[:1]):
        return None
    return loop_of([one for one in messages if one["role"] == "user"][:1])


def _end(finished: Finished) -> str:
    last = ""
    for line in finished.out.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("type") == "step_finish":
            last = f"step_finish, reason {event['part'].get('reason')}"
        elif event.get("type") == "error":
            last = f"error, {event.get('error', {}).get('name')}"
    return last


def _told(_: Any) -> str:  # noqa: ANN401
    """The result of the subagent's call says nothing of its end."""
    return "a report"


def _of_agent(name: str, limit: float, word: str = "steps") -> str:
    return json.dumps({"agent": {name: {word: int(limit)}}})


OPENCODE: Final = Harness(
    name="opencode",
    command="opencode",
    ways={
        "steps": Way(
            shown='`"agent": {"build": {"steps": N}}` in opencode.json',
            loop="main",
            start=lambda n: Start(files={CONFIG: _of_agent("build", n)}),
        ),
        "maxSteps": Way(
            shown='`"agent": {"build": {"maxSteps": N}}` in opencode.json',
            loop="main",
            start=lambda n: Start(files={CONFIG: _of_agent("build", n, "maxSteps")}),
        ),
        "subagent": Way(
            shown="`steps: N` in the subagent's file",
            loop="subagent",
            start=lambda n: Start(files={f"work/.opencode/agent/{AGENT}.md": _subagent(f"steps: {n:g}\n")}),
        ),
        "main-steps-subagent": Way(
            shown='`"agent": {"build": {"steps": N}}`, a subagent without a limit',
            loop="subagent",
            holds=False,
            start=lambda n: Start(files={CONFIG: _of_agent("build", n)}),
        ),
    },
    wire=lambda: chat_wire(_call),
    sorter=sort_request,
    base=_base,
    arguments=_arguments,
    end=_end,
    told=_told,
    reasons=(("reason stop", "finished"),),
    presets={"main": "opencode_v1", "subagent": "opencode_v1"},
    logs=(".local/share/opencode/storage/**/*.json",),
)
