"""What `claude -p` prints: the same runs as from the lines of a session, and an end by a limit is one."""

import json
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from tests.support.readers import write_lines

BASE = {"session_id": "s1", "parent_tool_use_id": None}


def calls(name: str, number: int, arguments: dict[str, Any], *, caller: str | None = None) -> dict[str, Any]:
    block = {"type": "tool_use", "id": f"t{name}{number}", "name": name, "input": arguments}
    message = {"id": f"m{name}{number}", "role": "assistant", "model": "claude-x", "content": [block],
               "usage": {"input_tokens": 100, "output_tokens": 20}}  # fmt: skip
    return {**BASE, "type": "assistant", "uuid": f"a{name}{number}", "parent_tool_use_id": caller, "message": message}


def answers(call: dict[str, Any], facts: dict[str, Any] | None = None) -> dict[str, Any]:
    call_id = call["message"]["content"][0]["id"]
    block = {"type": "tool_result", "tool_use_id": call_id, "content": "text", "is_error": False}
    return {**BASE, "type": "user", "uuid": f"u{call_id}", "parent_tool_use_id": call["parent_tool_use_id"],
            "message": {"role": "user", "content": [block]}, "tool_use_result": facts or {}}  # fmt: skip


def cut(errors: list[str]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{**BASE, "type": "system", "subtype": "init", "cwd": "/gone", "tools": []}]
    for number in range(3):
        lines += [calls("Bash", number, {"command": str(number)})]
        lines += [answers(lines[-1])]
    end = {"subtype": "error_max_turns", "is_error": True, "num_turns": 4, "errors": errors}
    return [*lines, {**BASE, "type": "result", **end}]


@pytest.mark.parametrize("errors", [["Reached maximum number of turns (3)"], []])
@pytest.mark.parametrize("listed", [False, True])
def test_a_run_that_the_limit_on_turns_ended_names_the_limit(tmp_path: Path, errors: list[str], listed: bool) -> None:
    lines = cut(errors)
    path = tmp_path / ("claude-execution-output.json" if listed else "out.jsonl")
    path.write_text(json.dumps(lines, indent=1) if listed else "\n".join(map(json.dumps, lines)))
    (run,) = bl.load_runs(path)
    assert (run.source, run.run_id, run.n_steps, run.n_tool_calls) == ("claude_code", "s1", 3, 3)
    assert (run.stop.reason, run.stop.rule, dict(run.limits)) == ("step_cap", "maxTurns(3)", {"steps": 3})
    assert run.steps[0].response.usage.input_tokens == 100
    assert bl.audit(path)["verdict"].tolist() == ["hit"]


def test_a_subagent_goes_by_the_call_that_started_it(tmp_path: Path) -> None:
    start = calls("Agent", 0, {"subagent_type": "explore", "prompt": "Find it."})
    caller = start["message"]["content"][0]["id"]
    inner = calls("Grep", 1, {"pattern": "x"}, caller=caller)
    asked = {**BASE, "type": "user", "uuid": "p", "parent_tool_use_id": caller,
             "message": {"role": "user", "content": [{"type": "text", "text": "Find it."}]}}  # fmt: skip
    lines = [start, asked, inner, answers(inner), answers(start, {"agentId": "a1", "totalToolUseCount": 1})]
    path = tmp_path / "out.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    root, child = bl.load_runs(path)
    assert (child.agent, child.parent_run_id, child.run_id) == ("explore", "s1", f"s1/{caller}")
    (event,) = [event.payload for event in root.events if event.kind == "subagent"]
    assert (event["run_id"], event["agent"]) == (child.run_id, "explore")


def test_a_list_of_anything_else_is_no_session(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"type": "result", "session_id": 3}, 5, None]))
    with pytest.raises(bl.errors.RunFormatError, match="not a log of a known format"):
        bl.load_runs(path)


def delegated(folder: Path, *tail: dict[str, Any], launched: dict[str, Any] | None = None) -> Run:
    """The subagent of a stream whose last lines are these; it printed one call with its result, and no text."""
    call = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "Find", "subagent_type": "Explore"}}
    read = {"type": "tool_use", "id": "r1", "name": "Read", "input": {"file_path": "x.py"}}
    given = {"type": "tool_result", "tool_use_id": "r1", "content": "x = 1"}
    lines: list[dict[str, Any]] = [
        {"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [call]}},
        *([] if launched is None else [launched]),
        {
            "type": "assistant",
            "parent_tool_use_id": "t1",
            "message": {"id": "m2", "role": "assistant", "content": [read]},
        },
        {"type": "user", "parent_tool_use_id": "t1", "message": {"role": "user", "content": [given]}},
        *tail,
    ]
    path = write_lines(
        folder / "out.jsonl",
        {"type": "system", "subtype": "init", "session_id": "s"},
        *({"parent_tool_use_id": None, "session_id": "s", **line} for line in lines),
    )
    _, child = bl.load_runs(path, prices=False)
    return child


def result_of_task(content: str, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content}
    facts = more.pop("tool_use_result", None)
    line = {"type": "user", "message": {"role": "user", "content": [{**block, **more}]}}
    return line if facts is None else {**line, "tool_use_result": facts}


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ([result_of_task("It is in x.py")], "finished"),
        ([result_of_task("It is in x.py", tool_use_result={"status": "completed", "agentId": "ab"})], "finished"),
        ([result_of_task("Error: the agent failed", is_error=True)], "aborted"),
        ([], "aborted"),
        ([{"type": "system", "subtype": "task_notification", "tool_use_id": "t1", "status": "completed"}], "finished"),
        ([{"type": "system", "subtype": "task_notification", "tool_use_id": "t1", "status": "failed"}], "aborted"),
    ],
)
def test_a_subagent_ended_if_its_call_has_a_result(tail: list[dict[str, Any]], reason: str, tmp_path: Path) -> None:
    child = delegated(tmp_path, *tail)
    assert (child.stop_reason, child.n_steps, child.parent_run_id) == (reason, 1, "s")


@pytest.mark.parametrize(
    "launched",
    [
        result_of_task("Async agent launched successfully.", tool_use_result={"isAsync": True, "agentId": "ab"}),
        result_of_task("Async agent launched successfully."),
    ],
)
def test_launching_a_subagent_does_not_end_it(launched: dict[str, Any], tmp_path: Path) -> None:
    assert delegated(tmp_path, launched=launched).stop_reason == "aborted"
    assert delegated(tmp_path, launched).stop_reason == "aborted"


ABORTED = {
    "type": "user",
    "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
}


@pytest.mark.parametrize(
    ("result", "lines", "stop", "error"),
    [
        ({"subtype": "error_during_execution"}, (), ("error", None, None, None), "error_during_execution"),
        ({"subtype": "error_during_execution", "errors": ["boom", "b"]}, (), ("error", None, None, None), "boom; b"),
        ({"subtype": "success", "result": "API Error: 529"}, (), ("error", None, None, None), "API Error: 529"),
        ({"subtype": "error_during_execution"}, (ABORTED,), ("aborted", None, None, None), None),
        (
            {"subtype": "error_during_execution", "terminal_reason": "aborted_tools"},
            (),
            ("aborted", None, None, None),
            None,
        ),
        (
            {"subtype": "error_max_budget_usd", "errors": ["Reached maximum budget ($0.1)"], "total_cost_usd": 0.12},
            (),
            ("cost_budget", "maxBudgetUsd(0.1)", 100_000, 120_000),
            None,
        ),
        ({"subtype": "error_max_budget_usd"}, (), ("cost_budget", "maxBudgetUsd", None, None), None),
        (
            {"subtype": "error_max_structured_output_retries"},
            (),
            ("error_streak", "maxStructuredOutputRetries", None, None),
            None,
        ),
        ({"subtype": "error_of_next_year", "errors": [{"code": 3}]}, (), ("error", None, None, None), '{"code":3}'),
    ],
)
def test_an_error_result_is_the_end_that_it_names(
    result: dict[str, Any],
    lines: tuple[dict[str, Any], ...],
    stop: tuple[str, str | None, int | None, int | None],
    error: str | None,
    tmp_path: Path,
) -> None:
    more = [{**BASE, "uuid": "i", **line} for line in lines]
    end = {**BASE, "type": "result", "is_error": True, "num_turns": 4, **result}
    path = write_lines(tmp_path / "out.jsonl", *cut([])[:-1], *more, end)
    (run,) = bl.load_runs(path, prices=False)
    assert (run.stop[0], *run.stop[2:5]) == stop
    assert run.error == error
    assert run.limits == ({"cost": 100_000} if stop[2] else {})
    path = write_lines(tmp_path / "out.jsonl", *cut([])[:-1], *more, {**end, "subtype": "success", "is_error": False})
    assert bl.load_runs(path, prices=False)[0].stop_reason == "aborted"  # its last call has a result and no response
