"""Codex: `codex exec`, which speaks OpenAI's Responses."""

from __future__ import annotations

import json
from typing import Any, Final

from benchmarks.conformance.clis.harness import Finished, Harness, Start, Way
from benchmarks.conformance.clis.responses_wire import responses_wire
from benchmarks.conformance.clis.scripts import PROMPT, Call, Loop, Shell, loop_of

MODEL: Final = "gpt-5.1-codex"


def _config(url: str) -> str:
    return f"""\
model = "{MODEL}"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
"""


def _base(url: str) -> Start:
    return Start(files={"home/.codex/config.toml": _config(url)})


def _arguments(added: tuple[str, ...]) -> list[str]:
    return ["exec", "--json", "--skip-git-repo-check", *added, "--", PROMPT]


def _call(call: Call) -> tuple[str, dict[str, Any]]:
    if isinstance(call, Shell):
        return "exec_command", {"cmd": call.command}
    return "spawn_agent", {"message": call.prompt}


def sort_request(path: str, body: Any) -> Loop | None:  # noqa: ANN401 - whatever it sends
    """A request with tools is of the loop whose prompt its first inputs hold."""
    if not path.endswith("/responses") or not isinstance(body, dict) or not body.get("tools"):
        return None
    return loop_of(item for item in body["input"] if item.get("role") == "user")


def _end(finished: Finished) -> str:
    last = ""
    for line in finished.out.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("type") in ("turn.completed", "turn.failed"):
            last = event["type"]
    return last or (finished.err.strip().splitlines()[-1][:80] if finished.err.strip() else "")


def _told(_: Any) -> str:  # noqa: ANN401
    return "a report"


CODEX: Final = Harness(
    name="codex",
    command="codex",
    ways={
        "budget": Way(
            shown="`-c features.rollout_budget.limit_tokens=N`",
            loop="main",
            limits="tokens",
            start=lambda n: Start(
                arguments=(
                    "-c",
                    "features.rollout_budget.enabled=true",
                    "-c",
                    f"features.rollout_budget.limit_tokens={n:g}",
                    "-c",
                    "features.rollout_budget.reminder_at_remaining_tokens=[10]",
                )
            ),
        ),
    },
    wire=lambda: responses_wire(_call),
    sorter=sort_request,
    base=_base,
    arguments=_arguments,
    end=_end,
    told=_told,
    reasons=(("turn.failed", "token_budget"), ("turn.completed", "finished")),
    presets={},
    logs=(".codex/sessions/**/*.jsonl",),
)
