"""What each format has on record about the harness, the effort and the place of a run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from boolab.core.run import Run
from boolab.logs.load import load_runs

CLAUDE = {"sessionId": "s1", "cwd": "/app", "version": "2.1.39", "gitBranch": "main", "entrypoint": "cli"}


class Origin(NamedTuple):
    """What is on record of a run, and the effort, speed and tier of its responses."""

    version: str | None = None
    efforts: tuple[str | None, ...] = (None,)
    speed: str | None = None
    tier: str | None = None
    commit: str | None = None
    branch: str | None = None
    cwd: str | None = None
    entrypoint: str | None = None


def origin(run: Run) -> Origin:
    responses = [step.response for step in run.steps]
    return Origin(
        run.harness_version,
        tuple(response.effort for response in responses),
        responses[0].speed,
        responses[0].service_tier,
        run.git_commit,
        run.git_branch,
        run.cwd,
        run.entrypoint,
    )


def prompt(uuid: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": f"Do {uuid}"}
    return {**CLAUDE, "type": "user", "uuid": uuid, "parentUuid": parent, "message": message, **more}


def reply(uuid: str, parent: str, usage: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    message = {
        "id": f"m{uuid}",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": f"Did {uuid}"}],
        "usage": {"input_tokens": 1, "output_tokens": 1, **(usage or {})},
    }
    return {**CLAUDE, "type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message, **more}


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-06-01T10:00:00.000Z", "type": kind, "payload": payload}


def codex_session(*efforts: Any, **meta: Any) -> list[dict[str, Any]]:
    lines = [codex("session_meta", id="c1", timestamp="2026-06-01T10:00:00.000Z", **meta)]
    for number, effort in enumerate(efforts):
        content = [{"type": "input_text", "text": f"Do {number}"}]
        answer = [{"type": "output_text", "text": f"Did {number}"}]
        lines += [
            codex("response_item", type="message", role="user", content=content),
            codex("turn_context", model="m", cwd="/sub", **effort),
            codex("response_item", type="message", role="assistant", content=answer),
        ]
    return lines


GIT = {"commit_hash": "0123abc", "branch": "codex", "repository_url": "https://example.invalid/r.git"}
LEVEL = {"level": "high", "disabled": False, "triggers": []}

LINES: Sequence[tuple[str, str, list[dict[str, Any]], Origin]] = [
    (
        "claude level",
        "s1.jsonl",
        [
            prompt("u1", thinkingMetadata=LEVEL),
            reply("a1", "u1", {"service_tier": "priority", "speed": "fast"}),
            prompt("u2", "a1", thinkingMetadata={"maxThinkingTokens": 31999}),
            reply("a2", "u2"),
            prompt("u3", "a2", thinkingMetadata={**LEVEL, "disabled": True}),
            reply("a3", "u3"),
        ],
        Origin("2.1.39", ("high", "31999", "none"), "fast", "priority", None, "main", "/app", "cli"),
    ),
    (
        "claude effort of the response",
        "s1.jsonl",
        [prompt("u1", thinkingMetadata=LEVEL), reply("a1", "u1", effort="xhigh", version="2.1.80", cwd="/app/sub")],
        Origin("2.1.80", ("xhigh",), None, None, None, "main", "/app", "cli"),
    ),
    (
        "claude resumed by another version",
        "s1.jsonl",
        [prompt("u1"), reply("a1", "u1"), prompt("u2", "a1"), reply("a2", "u2", version="2.1.40")],
        Origin("mixed", (None, None), None, None, None, "main", "/app", "cli"),
    ),
    (
        "claude stream",
        "s1.jsonl",
        [
            {"type": "system", "subtype": "init", "session_id": "s1", "claude_code_version": "2.1.11", "cwd": "/app"},
            {**reply("a1", "", {"service_tier": "standard"}), "session_id": "s1", "parent_tool_use_id": None}
            | dict.fromkeys(("sessionId", "version", "gitBranch", "entrypoint", "cwd")),
        ],
        Origin("2.1.11", (None,), None, "standard", None, None, "/app", None),
    ),
    (
        "codex",
        "rollout-c1.jsonl",
        codex_session(
            {"effort": "high", "service_tier": "flex"},
            {"effort": None},
            {"collaboration_mode": {"settings": {"reasoning_effort": "low"}}},
            cli_version="0.104.0",
            git=GIT,
            cwd="/app",
            originator="codex_cli_rs",
            source="exec",
        ),
        Origin("0.104.0", ("high", None, "low"), None, "flex", "0123abc", "codex", "/app", "exec"),
    ),
    (
        "codex subagent",
        "rollout-c1.jsonl",
        codex_session({"effort": "high"}, originator="codex_vscode", source={"subagent": "review"}),
        Origin(None, ("high",), None, None, None, None, "/sub", "codex_vscode"),
    ),
]


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = content if isinstance(content, list) else [content]
    clean = [{key: value for key, value in line.items() if value is not None} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in clean))
    return path


@pytest.mark.parametrize(("name", "lines", "wanted"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_logs_keep_where_a_run_came_from(
    name: str, lines: list[dict[str, Any]], wanted: Origin, tmp_path: Path
) -> None:
    (run,) = load_runs(write(tmp_path, name, lines), prices=False)
    assert origin(run) == wanted


USER, DONE = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Done"}
OTEL = [
    {"key": key, "value": {"stringValue": value}}
    for key, value in {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.reasoning_effort": "low",
        "openai.response.service_tier": "flex",
    }.items()
]
SPAN = {"traceId": "t", "spanId": "s", "startTimeUnixNano": "1000000", "endTimeUnixNano": "2000000", "attributes": OTEL}
SERVICE = {"attributes": [{"key": "service.version", "value": {"stringValue": "3.1"}}]}
MINI = {
    "mini_version": "2.2.4",
    "config": {"model": {"model_kwargs": {"reasoning": {"effort": "high"}}}, "environment": {"cwd": "/testbed"}},
}
INSPECT = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "t",
        "eval_id": "e",
        "packages": {"inspect_ai": "0.3.250"},
        "revision": {"type": "git", "commit": "6aea785d"},
        "model_generate_config": {"reasoning_effort": "medium"},
    },
    "samples": [{"id": 1, "epoch": 1, "messages": [USER, DONE]}],
}
SWE = {
    "trajectory": [{"action": "ls\n", "observation": "a.py", "response": "I look", "thought": "I look", "state": "{}"}],
    "info": {"exit_status": "submitted", "swe_agent_version": "1.0.1"},
    "environment": "main",
    "replay_config": json.dumps(
        {
            "agent": {"model": {"name": "m", "completion_kwargs": {"reasoning_effort": "high"}}},
            "env": {"repo": {"base_commit": "bfd2593d"}},
        }
    ),
}
TAU2 = {
    "info": {
        "git_commit": "abc123",
        "num_trials": 1,
        "max_steps": 9,
        "max_errors": 3,
        "agent_info": {"llm": "m", "llm_args": {"reasoning_effort": "low"}},
    },
    "tasks": [],
    "simulations": [
        {
            "id": "r",
            "task_id": "1",
            "termination_reason": "user_stop",
            "reward_info": {"reward": 1.0},
            "messages": [USER, {**DONE, "usage": {"prompt_tokens": 1}}],
        }
    ],
}
HANDS = {
    "instance_id": "x",
    "test_result": {},
    "metadata": {"agent_class": "CodeActAgent", "git_commit": "f00", "llm_config": {"reasoning_effort": "high"}},
    "history": [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "Hi"}},
        {"id": 1, "source": "agent", "action": "message", "args": {"content": "Done"}},
    ],
}
STATE = {"agent": {"llm": {"model": "m", "reasoning_effort": "high"}}, "workspace": {"working_dir": "/workspace"}}
SDK = [
    {
        "kind": "ConversationStateUpdateEvent",
        "id": "0",
        "source": "environment",
        "key": "full_state",
        "value": STATE,
    },
    {"kind": "MessageEvent", "id": "1", "source": "user", "llm_message": USER},
    {"kind": "MessageEvent", "id": "2", "source": "agent", "llm_message": DONE},
]
PI = [
    {"type": "session", "id": "p", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/app", "thinkingLevel": "off"},
    {"type": "message", "message": USER},
    {"type": "message", "message": {**DONE, "stopReason": "stop"}},
    {"type": "thinking_level_change", "thinkingLevel": "high"},
    {"type": "message", "message": {**DONE, "content": "Again", "stopReason": "stop"}},
]
OPENCODE = {
    "info": {"id": "ses_1", "version": "1.3.17", "directory": "/app", "time": {"created": 1}},
    "messages": [
        {"info": {"id": "m1", "role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "Hi"}]},
        {
            "info": {"id": "m2", "role": "assistant", "variant": "high", "finish": "stop", "time": {"created": 2}},
            "parts": [{"type": "text", "text": "Done"}],
        },
    ],
}
CLINE = {"version": 1, "sessionId": "c", "messages": [USER, {**DONE, "modelInfo": {"id": "m"}}]}
OPENAI = {
    "messages": [USER, {**DONE, "usage": {"prompt_tokens": 1, "service_tier": "priority"}}],
    "reasoning_effort": "low",
}
ANTHROPIC = {
    "system": "Be brief",
    "messages": [USER, {**DONE, "usage": {"input_tokens": 1, "speed": "fast", "service_tier": "batch"}}],
}
TRACE = {"resourceSpans": [{"resource": SERVICE, "scopeSpans": [{"spans": [SPAN]}]}]}
DOCUMENTS: Sequence[tuple[str, str, Any, Origin]] = [
    ("pi", "p.jsonl", PI, Origin(None, ("off", "high"), cwd="/app")),
    ("opencode", "e.json", OPENCODE, Origin("1.3.17", ("high",), cwd="/app")),
    ("inspect", "i.json", INSPECT, Origin("0.3.250", ("medium",), commit="6aea785d")),
    ("mini", "x.traj.json", {"info": MINI, "messages": [USER, DONE]}, Origin("2.2.4", ("high",), cwd="/testbed")),
    ("swe_agent", "x.traj", SWE, Origin("1.0.1", ("high",), commit="bfd2593d")),
    ("tau2", "t.json", TAU2, Origin("abc123", ("low",))),
    ("openhands", "output.jsonl", HANDS, Origin("f00", ("high",))),
    ("openhands_sdk", "events.jsonl", SDK, Origin(None, ("high",), cwd="/workspace")),
    ("otel", "o.json", TRACE, Origin("3.1", ("low",), tier="flex")),
    ("openai", "m.json", OPENAI, Origin(None, ("low",), tier="priority")),
    ("anthropic", "m.json", ANTHROPIC, Origin(speed="fast", tier="batch")),
    ("cline", "c.messages.json", CLINE, Origin("mixed", cwd="/app", entrypoint="cli")),
]


@pytest.mark.parametrize(
    ("name", "document", "wanted"), [row[1:] for row in DOCUMENTS], ids=[row[0] for row in DOCUMENTS]
)
def test_documents_keep_where_a_run_came_from(name: str, document: Any, wanted: Origin, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"cwd": "/app", "source": "cli"}))
    history = [{"cline_version": version} for version in ("3.1", "3.2")]
    (tmp_path / "task_metadata.json").write_text(json.dumps({"environment_history": history}))
    (run,) = load_runs(write(tmp_path, name, document), prices=False)
    assert origin(run) == wanted
