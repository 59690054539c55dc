"""Results that answer no call: every reader leaves them out, and says so in one way."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.errors import ReadWarning
from boolab.logs.load import load_runs, read_file
from boolab.logs.log_files import readers
from tests.support.session_databases import CRUSH, create, crush_message, finish, part

T = "2026-02-01T10:00:00Z"
OPENAI: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "Done."},
    {"role": "tool", "tool_call_id": "lost", "content": "x"},
]
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "lost", "content": "x"}]},
]
CLAUDE = [
    {"type": row["role"], "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": "s", "timestamp": T}
    | {"message": {"id": f"m{n}", "model": "m", **row}}
    for n, row in enumerate(ANTHROPIC)
]
CODEX = [
    {"timestamp": T, "type": "session_meta", "payload": {"id": "s", "cwd": "/x", "cli_version": "0.104"}},
    *(
        {"timestamp": T, "type": "response_item", "payload": payload}
        for payload in (
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
            {"type": "function_call_output", "call_id": "lost", "output": "x"},
        )
    ),
]
PI = [
    {"type": "session", "id": "s", "timestamp": T, "version": 3},
    *(
        {"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}" if n else None, "timestamp": T, "message": message}
        for n, message in enumerate(
            [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "stopReason": "stop"},
                {"role": "toolResult", "toolCallId": "lost", "content": [], "isError": False},
            ]
        )
    ),
]
ATIF_STEPS = [
    {"step_id": 1, "source": "user", "message": "go"},
    {"step_id": 2, "source": "agent", "message": "Done."}
    | {"observation": {"results": [{"source_call_id": "lost", "content": "x"}]}},
]
OPENHANDS = [
    {"id": 1, "timestamp": T, "source": "user", "action": "message", "args": {"content": "go"}},
    {"id": 2, "timestamp": T, "source": "agent", "action": "message", "args": {"content": "Done."}},
    {"id": 3, "timestamp": T, "source": "agent", "cause": 99, "observation": "run", "content": "x", "extras": {}},
]
SDK = [
    {"id": "1", "timestamp": T, "source": "user", "kind": "MessageEvent"}
    | {"llm_message": {"role": "user", "content": [{"type": "text", "text": "go"}]}},
    {"id": "2", "timestamp": T, "source": "agent", "kind": "MessageEvent", "llm_response_id": "r"}
    | {"llm_message": {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}},
    {"id": "3", "timestamp": T, "source": "environment", "kind": "ObservationEvent", "tool_call_id": "lost"}
    | {"tool_name": "bash", "observation": {"content": "x"}, "action_id": "9"},
]
CHAT_SPAN = {"traceId": "t", "spanId": "b", "name": "chat", "startTimeUnixNano": "1", "endTimeUnixNano": "2"} | {
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {
            "key": "gen_ai.input.messages",
            "value": {
                "stringValue": json.dumps(
                    [
                        {"role": "user", "parts": [{"type": "text", "content": "go"}]},
                        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "lost", "response": "x"}]},
                    ]
                )
            },
        },
    ]
}
OTEL = {"resourceSpans": [{"scopeSpans": [{"spans": [CHAT_SPAN, {**CHAT_SPAN, "spanId": "c"}]}]}]}
"""Each request repeats the history: the result is one all the same."""
TAU2 = [{**message, "id": "lost", "requestor": "assistant"} for message in OPENAI]
INSPECT = {"eval": {"eval_id": "e", "task": "t", "model": "m"}, "status": "success", "version": 2} | {
    "samples": [{"id": "1", "epoch": 1, "messages": OPENAI, "scores": {}}]
}
MINI = {"trajectory_format": "mini-swe-agent-1.1", "info": {"exit_status": "Submitted"}, "messages": OPENAI}
CLINE = {"version": 1, "agent": "main", "sessionId": "s"} | {
    "messages": [{"ts": 1767225600000 + n, **row} for n, row in enumerate(ANTHROPIC)]
}


COPILOT = [
    {"type": kind, "data": data, "timestamp": T}
    for kind, data in (
        ("session.start", {"sessionId": "s", "copilotVersion": "1"}),
        ("user.message", {"content": "go"}),
        ("assistant.message", {"messageId": "m", "content": "Done.", "toolRequests": []}),
        ("tool.execution_complete", {"toolCallId": "lost", "success": True, "result": {"content": "x"}}),
    )
]
KIMI = [
    {"type": "metadata", "protocol_version": "1.4"},
    {"type": "turn.prompt", "input": "go", "origin": {"kind": "user"}},
    *(
        {"type": "context.append_loop_event", "event": event}
        for event in (
            {"type": "content.part", "stepUuid": "u", "part": {"type": "text", "text": "Done."}},
            {"type": "tool.result", "toolCallId": "lost", "result": {"output": "x"}},
        )
    ),
]
QWEN = [
    {"uuid": name, "parentUuid": parent, "sessionId": "s", "type": kind, "message": {"parts": [part]}}
    for name, parent, kind, part in (
        ("a", None, "user", {"text": "go"}),
        ("b", "a", "assistant", {"text": "Done."}),
        ("c", "b", "tool_result", {"functionResponse": {"id": "lost", "response": {"output": "x"}}}),
    )
]
DROID = [
    {"type": "session_start", "id": "d", "title": "t"},
    *({"type": "message", "id": f"m{n}", "message": message} for n, message in enumerate(ANTHROPIC)),
]

STS = [
    {"type": "session", "harness": "h", "id": "s"},
    *({"type": "message", "message": {**row, "toolCallId": row.get("tool_call_id")}} for row in OPENAI),
]


def lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


AGENTDOJO = {"suite_name": "s", "pipeline_name": "p", "user_task_id": "t", "messages": OPENAI}
CASES: dict[str, tuple[str, str, int | None]] = {
    "agentdojo": ("none.json", json.dumps(AGENTDOJO), None),
    "anthropic_messages": ("a.jsonl", lines({"system": "s", "messages": ANTHROPIC}), 1),
    "atif": ("a.jsonl", lines({"schema_version": "ATIF-v1.4", "session_id": "s", "steps": ATIF_STEPS}), 1),
    "claude_code": ("s.jsonl", lines(*CLAUDE), 3),
    "cline": ("a.messages.json", json.dumps(CLINE), None),
    "codex": ("rollout-a.jsonl", lines(*CODEX), 4),
    "copilot": ("events.jsonl", lines(*COPILOT), 4),
    "droid": ("a.jsonl", lines(*DROID), 4),
    "kimi": ("wire.jsonl", lines(*KIMI), 4),
    "qwen": ("a.jsonl", lines(*QWEN), 3),
    "sts": ("a.jsonl", lines(*STS), 4),
    "inspect": ("a.json", json.dumps(INSPECT), None),
    "mini_swe_agent": ("a.traj.json", json.dumps(MINI), None),
    "openai_chat": ("a.jsonl", lines(*OPENAI), 3),
    "openhands": ("output.jsonl", lines({"instance_id": "i", "history": OPENHANDS}), 1),
    "openhands_sdk": ("events.jsonl", lines(*SDK), 3),
    "otel": ("a.json", json.dumps(OTEL), None),
    "pi": ("a.jsonl", lines(*PI), 4),
    "tau_bench": ("a.json", json.dumps([{"task_id": 1, "trial": 0, "reward": 1.0, "info": {}, "traj": OPENAI}]), None),
    "tau2_bench": ("a.json", json.dumps([{"task_id": "1", "termination_reason": "user_stop", "messages": TAU2}]), None),
}
CRUSH_ROWS = {
    "sessions": [{"id": "s", "title": ""}],
    "messages": [
        crush_message(1, "user", part("text", text="go"), session="s"),
        crush_message(2, "assistant", part("text", text="Done."), finish("end_turn"), session="s"),
        crush_message(3, "tool", part("tool_result", tool_call_id="lost", content="x", is_error=False), session="s"),
    ],
}
BY_PLACE = {"gemini", "intercode", "opencode", "swe_agent"}
"""Formats that keep a result with its call, so that none can be without one."""
OWN = {"parquet", "store"}


def test_every_reader_is_held_to_it() -> None:
    assert sorted(readers()) == sorted([*CASES, *BY_PLACE, *OWN, "crush"])


def load(path: Path, name: str) -> tuple[list[Run], list[str]]:
    told: list[str] = []
    return read_file(readers()[name], path, told.append), told


@pytest.mark.parametrize("name", [*CASES])
def test_unmatched_result_is_left_out_and_its_place_reported(name: str, tmp_path: Path) -> None:
    file, content, line = CASES[name]
    path = tmp_path / file
    path.write_text(content)
    runs, told = load(path, name)
    place = path if line is None else f"{path}:{line}"
    assert [one for one in told if "no call" in one] == [
        f"{place}: 1 tool result answers no call that is in the file; left out"
    ]
    assert sum(run.n_tool_calls for run in runs) == 0
    assert sum(run.n_steps for run in runs) >= 1


def test_unmatched_result_in_a_database_is_reported(tmp_path: Path) -> None:
    path = create(tmp_path / "crush.db", CRUSH, CRUSH_ROWS)
    _, told = load(path, "crush")
    assert told == [f"{path}: 1 tool result answers no call that is in the file; left out"]


def test_many_unmatched_results_give_one_warning_with_the_first(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(*OPENAI[:2], *[{**OPENAI[2], "tool_call_id": f"lost {n}"} for n in range(1_200)]))
    with pytest.warns(ReadWarning) as told:
        load_runs(path)
    assert [str(one.message) for one in told] == [
        f"{path}:3: 1,200 tool results answer no call that is in the file (this is the first); left out"
    ]
