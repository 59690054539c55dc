"""Results that are written before their calls, by parallel writers or in resumed sessions: each has its call."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.live.follow.log_file import LogFile
from boolab.logs.load import read_file
from boolab.logs.log_files import readers
from tests.logs.readers.test_unanswering import BY_PLACE, CASES, OWN

ORDERS = ([0, 1, 2, 3, 4], [0, 2, 1, 3, 4], [0, 2, 3, 1, 4], [0, 3, 2, 1, 4], [2, 0, 1, 3, 4], [0, 2, 2, 1, 3, 4])
"""The order of a prompt, a response with two calls, its two results, and a last response."""
SPLIT_ORDERS = (*[[*order[:1], 1, 2, *order[1:]] for order in ([0, 3, 4, 5], [0, 4, 3, 5])], [0, 1, 4, 2, 3, 5],
                [0, 3, 1, 4, 2, 5], [0, 4, 3, 1, 2, 5], [0, 1, 4, 4, 2, 3, 5])  # fmt: skip
"""The same where each call is a record of its own."""


PAIR = ("c1", "c2")


def at(second: int) -> str:
    return f"2026-02-01T10:00:{second:02}.500Z"


def asked(call_id: str) -> dict[str, Any]:
    return {"command": f"cat {call_id}"}


def function(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": json.dumps(asked(call_id))}}


def chat(**calls: Any) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", **calls},
        *({"role": "tool", "tool_call_id": name, "content": f"the {name}"} for name in PAIR),
        {"role": "assistant", "content": "Done."},
    ]


OPENAI = chat(tool_calls=[function("c1"), function("c2")])
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": c, "name": "bash", "input": asked(c)} for c in PAIR]},
    *({"role": "user", "content": [{"type": "tool_result", "tool_use_id": c, "content": f"the {c}"}]} for c in PAIR),
    {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
]  # fmt: skip
CLAUDE: list[dict[str, Any]] = [
    {"type": row["role"], "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": "s"}
    | {"timestamp": at(n), "message": {"model": "m", **row} | ({"id": f"m{n}"} if row["role"] == "assistant" else {})}
    for n, row in enumerate(ANTHROPIC)
]
CODEX = [
    {"timestamp": at(n), "type": "response_item", "payload": payload}
    for n, payload in enumerate([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        *({"type": "function_call", "name": "bash", "call_id": c, "arguments": json.dumps(asked(c))} for c in PAIR),
        *({"type": "function_call_output", "call_id": c, "output": f"the {c}"} for c in PAIR),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ])
]  # fmt: skip
PI = [
    {"type": "message", "timestamp": at(n), "message": message}
    for n, message in enumerate([
        {"role": "user", "content": "go"},
        {"role": "assistant", "stopReason": "toolUse", "content": [
            {"type": "toolCall", "id": c, "name": "bash", "arguments": asked(c)} for c in PAIR]},
        *({"role": "toolResult", "toolCallId": c, "content": [{"type": "text", "text": f"the {c}"}], "isError": False}
          for c in PAIR),
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "stopReason": "stop"},
    ])
]  # fmt: skip
OPENHANDS: list[dict[str, Any]] = [
    {"id": 1, "source": "user", "action": "message", "args": {"content": "go"}},
    *({"id": n, "source": "agent", "action": "run", "args": asked(c), "tool_call_metadata": {
        "function_name": "bash", "tool_call_id": c, "model_response": {"id": "r1", "model": "m"}}}
      for n, c in ((2, "c1"), (3, "c2"))),
    *({"id": n + 2, "source": "agent", "cause": n, "observation": "run", "content": f"the {c}", "extras": {}}
      for n, c in ((2, "c1"), (3, "c2"))),
    {"id": 6, "source": "agent", "action": "message", "args": {"content": "Done."}},
]  # fmt: skip
SDK: list[dict[str, Any]] = [
    {"id": "1", "timestamp": at(1), "source": "user", "kind": "MessageEvent"}
    | {"llm_message": {"role": "user", "content": [{"type": "text", "text": "go"}]}},
    *({"id": f"a{c}", "timestamp": at(2), "source": "agent", "kind": "ActionEvent", "llm_response_id": "r1"}
      | {"tool_name": "bash", "tool_call_id": c, "action": asked(c)}
      | {"tool_call": {"id": c, "name": "bash", "arguments": json.dumps(asked(c))}} for c in PAIR),
    *({"id": f"o{c}", "timestamp": at(3), "source": "environment", "kind": "ObservationEvent", "tool_call_id": c}
      | {"tool_name": "bash", "observation": {"content": f"the {c}"}, "action_id": f"a{c}"} for c in PAIR),
    {"id": "6", "timestamp": at(4), "source": "agent", "kind": "MessageEvent", "llm_response_id": "r2"}
    | {"llm_message": {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}},
]  # fmt: skip
TAU2: list[dict[str, Any]] = [
    {**row, "id": row.get("tool_call_id"), "requestor": "assistant"}
    for row in chat(tool_calls=[{"id": c, "name": "bash", "arguments": asked(c)} for c in PAIR])
]
AGENTDOJO = chat(tool_calls=[{"id": c, "function": "bash", "args": asked(c)} for c in PAIR])
INSPECT: list[dict[str, Any]] = chat(
    tool_calls=[{"id": c, "function": "bash", "arguments": asked(c), "type": "function"} for c in PAIR]
)

COPILOT: list[dict[str, Any]] = [
    {"type": kind, "timestamp": at(n), "data": data}
    for n, (kind, data) in enumerate((
        ("user.message", {"content": "go"}),
        ("assistant.message", {"messageId": "m1", "content": "", "toolRequests": [
            {"toolCallId": c, "name": "bash", "arguments": asked(c)} for c in PAIR
        ]}),
        *(("tool.execution_complete", {"toolCallId": c, "success": True, "result": {"content": f"the {c}"}})
          for c in PAIR),
        ("assistant.message", {"messageId": "m2", "content": "Done.", "toolRequests": []}),
    ))
]  # fmt: skip
KIMI: list[dict[str, Any]] = [
    {"type": "turn.prompt", "input": "go", "origin": {"kind": "user"}},
    *({"type": "context.append_loop_event", "event": event} for event in (
        *({"type": "tool.call", "stepUuid": "u1", "toolCallId": c, "name": "bash", "args": asked(c)} for c in PAIR),
        *({"type": "tool.result", "toolCallId": c, "result": {"output": f"the {c}"}} for c in PAIR),
        {"type": "content.part", "stepUuid": "u2", "part": {"type": "text", "text": "Done."}},
    )),
]  # fmt: skip
QWEN: list[dict[str, Any]] = [
    {"type": kind, "sessionId": "s", "timestamp": at(n), "message": {"parts": parts}}
    for n, (kind, parts) in enumerate((
        ("user", [{"text": "go"}]),
        ("assistant", [{"functionCall": {"id": c, "name": "bash", "args": asked(c)}} for c in PAIR]),
        *(("tool_result", [{"functionResponse": {"id": c, "response": {"output": f"the {c}"}}}]) for c in PAIR),
        ("assistant", [{"text": "Done."}]),
    ))
]  # fmt: skip

Wrap = Callable[[list[Any]], str]


def lines(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def within(name: str, **around: Any) -> Wrap:
    return lambda records: json.dumps({**around, name: records})


def codex(records: list[Any]) -> str:
    return lines(
        [{"timestamp": at(0), "type": "session_meta", "payload": {"id": "s", "cli_version": "0.104"}}, *records]
    )


def pi(records: list[Any]) -> str:
    tree = [{**row, "id": f"e{n}", "parentId": f"e{n - 1}" if n else None} for n, row in enumerate(records)]
    return lines([{"type": "session", "id": "s", "timestamp": at(0), "version": 3}, *tree])


def copilot(records: list[Any]) -> str:
    return lines([{"type": "session.start", "data": {"sessionId": "s", "copilotVersion": "1"}}, *records])


def kimi(records: list[Any]) -> str:
    return lines([{"type": "metadata", "protocol_version": "1.4"}, *records])


def qwen(records: list[Any]) -> str:
    return lines([{**row, "uuid": f"e{n}", "parentUuid": f"e{n - 1}" if n else None} for n, row in enumerate(records)])


def droid(records: list[Any]) -> str:
    stored = [{"type": "message", "id": f"m{n}", "message": row} for n, row in enumerate(records)]
    return lines([{"type": "session_start", "id": "d", "title": "t"}, *stored])


def sts(records: list[Any]) -> str:
    renamed = [{**row, "toolCallId": row.get("tool_call_id"), "toolCalls": row.get("tool_calls")} for row in records]
    messages = [{"type": "message", "message": row} for row in renamed]
    return lines([{"type": "session", "harness": "h", "id": "s"}, *messages])


def inspect(records: list[Any]) -> str:
    sample = {"id": "1", "epoch": 1, "messages": records, "scores": {}}
    about = {"eval": {"eval_id": "e", "task": "t", "model": "m"}, "status": "success", "version": 2}
    return json.dumps({**about, "samples": [sample]})


FORMATS: dict[str, tuple[list[dict[str, Any]], Wrap]] = {
    "agentdojo": (AGENTDOJO, within("messages", suite_name="s", pipeline_name="p", user_task_id="t")),
    "anthropic_messages": (ANTHROPIC, lines),
    "claude_code": (CLAUDE, lines),
    "cline": (ANTHROPIC, within("messages", version=1, agent="main", sessionId="s")),
    "codex": (CODEX, codex),
    "copilot": (COPILOT, copilot),
    "droid": (ANTHROPIC, droid),
    "inspect": (INSPECT, inspect),
    "kimi": (KIMI, kimi),
    "mini_swe_agent": (
        OPENAI,
        within("messages", trajectory_format="mini-swe-agent-1.1", info={"mini_version": "2.1"}),
    ),
    "openai_chat": (OPENAI, lines),
    "openhands": (OPENHANDS, within("history", instance_id="i")),
    "openhands_sdk": (SDK, lines),
    "pi": (PI, pi),
    "qwen": (QWEN, qwen),
    "sts": (OPENAI, sts),
    "tau_bench": (
        OPENAI,
        lambda rows: json.dumps([{"task_id": 1, "trial": 0, "reward": 1.0, "info": {}, "traj": rows}]),
    ),
    "tau2_bench": (
        TAU2,
        lambda rows: json.dumps([{"task_id": "1", "termination_reason": "user_stop", "messages": rows}]),
    ),
}
IN_THE_STEP = {"atif", "otel"}
"""Formats in which a step has its calls and its results, or spans are put in the order of their times."""


def test_every_reader_is_tried() -> None:
    assert {*FORMATS, *IN_THE_STEP, *BY_PLACE, *OWN} == {*CASES, *BY_PLACE, *OWN}


def read(name: str, folder: Path, content: str) -> tuple[list[Run], list[str]]:
    path = folder / CASES[name][0]
    path.write_text(content)
    told: list[str] = []
    return read_file(readers()[name], path, told.append), told


def told_of_calls(told: list[str]) -> list[str]:
    return [one for one in told if "no call" in one]


@pytest.mark.parametrize("name", FORMATS)
def test_a_result_before_its_call_is_joined_to_it(name: str, tmp_path: Path) -> None:
    records, wrap = FORMATS[name]
    for order in ORDERS if len(records) == 5 else SPLIT_ORDERS:
        (run,), told = read(name, tmp_path, wrap([records[place] for place in order]))
        steps = [
            [[call.id for call in step.response.tool_calls], [result and result.content for result in step.results]]
            for step in run.steps
        ]
        assert steps == [[["c1", "c2"], ["the c1", "the c2"]], [[], []]], order
        assert told_of_calls(told) == [], order
        assert run.stop == read(name, tmp_path, wrap(records))[0][0].stop, order


@pytest.mark.parametrize("name", FORMATS)
def test_a_result_whose_call_never_comes_is_told(name: str, tmp_path: Path) -> None:
    records, wrap = FORMATS[name]
    calls = 1 if len(records) == 5 else 2
    (run,), told = read(name, tmp_path, wrap([*records[:1], *records[1 + calls :]]))
    assert run.n_tool_calls == 0
    assert len(told_of_calls(told)) == 1
    assert "2 tool results answer no call" in told_of_calls(told)[0]


def test_a_later_result_of_a_call_replaces_one_before_it(tmp_path: Path) -> None:
    orphan = {**OPENAI[2], "content": "of a call before the log"}
    (run,), told = read("openai_chat", tmp_path, lines([orphan, *OPENAI]))
    assert [result and result.content for result in run.steps[0].results] == ["the c1", "the c2"]
    assert told_of_calls(told) == [
        f"{tmp_path / 'a.jsonl'}:1: 1 tool result answers no call that is in the file; left out"
    ]


def test_an_early_result_moves_no_time_of_a_response(tmp_path: Path) -> None:
    (plain,), _ = read("claude_code", tmp_path, lines(CLAUDE))
    (early,), _ = read("claude_code", tmp_path, lines([CLAUDE[n] for n in (0, 2, 3, 1, 4)]))
    assert [(step.start_ms, step.model_ms, step.duration_ms) for step in early.steps] == [
        (step.start_ms, step.model_ms, step.duration_ms) for step in plain.steps
    ]


def test_early_codex_result_names_the_started_subagent(tmp_path: Path) -> None:
    spawn = {"type": "function_call", "name": "spawn_agent", "call_id": "c1", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": json.dumps({"agent_id": "child"})}
    rows = [
        {"timestamp": at(n), "type": "response_item", "payload": payload} for n, payload in enumerate((output, spawn))
    ]
    (run,), _ = read("codex", tmp_path, codex([CODEX[0], *rows]))
    assert [event.payload["run_id"] for event in run.events if event.kind == "subagent"] == ["child"]


def test_a_compaction_parts_an_early_result_from_a_call(tmp_path: Path) -> None:
    compacted = {"timestamp": at(1), "type": "compacted", "payload": {"message": "so far"}}
    (run,), told = read("codex", tmp_path, codex([CODEX[0], CODEX[3], compacted, CODEX[1]]))
    assert run.steps[0].results == (None,)
    assert len(told_of_calls(told)) == 1


def test_events_of_openhands_that_are_there_twice_count_once(tmp_path: Path) -> None:
    wrap = FORMATS["openhands"][1]
    (plain,), _ = read("openhands", tmp_path, wrap(OPENHANDS))
    for records in ([row for row in OPENHANDS for _ in (0, 1)], OPENHANDS + OPENHANDS):
        (run,), _ = read("openhands", tmp_path, wrap(json.loads(json.dumps(records))))
        assert run.steps == plain.steps


def test_lines_that_parallel_writers_ran_together_are_read(tmp_path: Path) -> None:
    (plain,), _ = read("claude_code", tmp_path, lines(CLAUDE))
    rows = [json.dumps(row) for row in CLAUDE]
    for content in (
        rows[0] + rows[1] + " " + rows[2] + "\n\n" + "\n".join(rows[3:]),
        "\ufeff" + "\n\ufeff".join(rows),
    ):
        (run,), told = read("claude_code", tmp_path, content + "\n")
        assert (run.steps, told) == (plain.steps, [])
        path, followed = tmp_path / "followed.jsonl", LogFile(tmp_path / "followed.jsonl")
        for end in range(0, len(content), 97):
            path.write_text(content[:end])
            followed.update()
        path.write_text(content + "\n")
        followed.update()
        assert followed.runs[0].steps == plain.steps
    (run,), told = read(
        "claude_code", tmp_path, rows[0] + "\n" + rows[1] + rows[2][:40] + "\n" + "\n".join(rows[3:]) + "\n"
    )
    assert len(told) == 2  # the line that is cut, and the result of its call
