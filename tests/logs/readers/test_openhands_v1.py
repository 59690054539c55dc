"""Logs of OpenHands' agent SDK."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import REDACTED, Usage
from boolab.logs.load import load_runs, read_logs
from tests.support.readers import reader_of
from tests.support.samples import own, shared

read = reader_of("openhands_sdk")

CLERK = own("openhands_sdk/clerk.jsonl")
FOLDER_OF_ONE = own("openhands_sdk/conversation")
FIRST = next((FOLDER_OF_ONE / "events").glob("event-00000-*"))


def runs_of(path: Path) -> tuple[list[Run], list[str]]:
    told: list[str] = []
    return read(path, told.append), told


def event(kind: str, source: str = "agent", **more: Any) -> dict[str, Any]:
    return {"id": "e", "timestamp": "2026-03-02T09:00:00", "kind": kind, "source": source, **more}


def asks(name: str, response: str | None = None, tool: str = "terminal") -> dict[str, Any]:
    call = {"id": name, "name": tool, "arguments": "{}"}
    return event("ActionEvent", thought=[], tool_call_id=name, tool_call=call, llm_response_id=response or name)


def gives(name: str, **observation: Any) -> dict[str, Any]:
    return event("ObservationEvent", "environment", tool_call_id=name, observation=observation)


def state(key: str, value: object) -> dict[str, Any]:
    return event("ConversationStateUpdateEvent", "environment", key=key, value=value)


def write(folder: Path, *events: object) -> Path:
    path = folder / "talk.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in events))
    return path


def test_actions_of_one_response_are_one_step_as_is_a_message() -> None:
    runs, told = runs_of(CLERK)
    (run,) = runs
    assert told == []
    assert (run.run_id, run.agent, run.model, run.task) == ("clerk", "openhands_sdk", "lab/clerk-2", "Fix the counter.")
    assert [len(step.response.tool_calls) for step in run.steps] == [2, 1, 1, 0, 1, 1]
    assert [step.turn for step in run.steps] == [1, 1, 1, 1, 2, 2]
    assert [step.response.text for step in run.steps] == ["I look.", "", "", "Which shelf?", "", ""]
    assert (run.steps[3].response.reasoning, run.n_tool_calls) == ("I know.", 5)
    assert {step.response.finish_reason for step in run.steps} == {None}
    assert [happened.kind for happened in run.events] == ["compaction", "rejected"]
    assert [(message.role, message.text) for message in run.prompt] == [
        ("system", "You are a clerk."),
        ("user", "Fix the counter."),
    ]
    assert (run.stop[:2], run.success, run.duration_ms) == (("finished", 2), None, 25_000)


def test_results_are_matched_by_id_and_errors_by_content() -> None:
    (run,) = read(CLERK)
    results = [result for step in run.steps for result in step.results]
    assert [result and result.content for result in results] == [
        "counter.py", "cat: x", "Error validating args", None, "...", "Done.",
    ]  # fmt: skip
    assert [result and result.is_error for result in results] == [False, True, True, None, None, False]
    assert [result and result.parse_error for result in results] == [False, False, True, None, False, False]
    assert run.steps[0].response.tool_calls[0].arguments == '{"command": "ls", "summary": "look"}'
    assert run.steps[1].response.tool_calls[0].arguments == '{"command": '


def test_usage_is_the_growth_of_stats_or_unknown_without_stats() -> None:
    (run,) = read(CLERK)
    assert [step.response.usage[:5] for step in run.steps] == [
        (100, 20, 0, 0, 10_000),
        (150, 10, 90, 0, 20_000),
        (None,) * 5,
        (None,) * 5,  # these stats hold the response before too
        (None,) * 5,
        (None,) * 5,
    ]
    assert [(step.start_ms, step.model_ms, step.duration_ms) for step in run.steps[:2]] == [
        (0, 3000, 5000),
        (4000, 3000, 3000),
    ]


def test_tokens_of_more_than_one_response_are_unknown(tmp_path: Path) -> None:
    def spent(tokens: int, latest: int) -> dict[str, Any]:
        counted = {"prompt_tokens": tokens, "completion_tokens": 0, "per_turn_token": latest}
        return state("stats", {"usage_to_metrics": {"default": {"accumulated_token_usage": counted}}})

    (run,) = read(write(tmp_path, spent(90, 40), asks("a"), spent(150, 60), asks("b")))
    assert [step.response.usage.input_tokens for step in run.steps] == [None, 60]


def test_conversation_folder_is_one_run_with_facts_of_its_state() -> None:
    reading = read_logs(FOLDER_OF_ONE)
    (run,) = reading.runs
    assert [row.skipped for row in reading.files] == [None] * 6
    assert reading.files[1].warnings == ()
    assert run.run_id == "7c1d0000-0000-4000-8000-000000000007"
    assert (run.model, dict(run.limits)) == ("lab/clerk-2", {"steps": 2})
    assert run.stop == ("step_cap", 1, "max_iterations(2)", 2, 2, ())
    assert run.error == "MaxIterationsReached: Agent reached maximum iterations limit (2)."
    assert [step.response.usage for step in run.steps] == [Usage(100, 4, 0, 1), Usage(200, 5, 90, 0)]
    assert [call.id for call in run.steps[-1].dropped] == ["c2"]
    assert load_runs(FIRST) == [run]


def test_events_that_are_missing_or_damaged_are_told(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER_OF_ONE, copy)
    (copy / "base_state.json").unlink()
    names = sorted((copy / "events").iterdir())
    names[1].unlink()
    names[4].write_text("{")
    runs, told = runs_of(names[0])
    (run,) = runs
    assert (run.run_id, run.n_steps, run.stop_reason) == ("copy", 1, "aborted")
    assert [message.split(": ", 1)[1] for message in told[:1]] == ["events 1 to 1 are missing; skipped"]
    assert f"{names[4].name} cannot be read" in told[1]
    assert "1 tool result answers no call" in told[2]


def test_evaluation_rows_have_label_limit_and_error() -> None:
    done, stuck = read(own("openhands_sdk/output.jsonl"))
    assert (done.run_id, done.task, done.success) == ("openhands_sdk/desk__counter-1", "desk__counter-1", True)
    assert (done.stop_reason, dict(done.limits), done.model) == ("finished", {"steps": 30}, "lab/clerk-2")
    assert done.steps[0].response.usage == Usage(50, 3)
    assert (stuck.run_id, stuck.stop_reason, stuck.success) == ("openhands_sdk/desk__lamp-2/2", "stuck", None)


@pytest.mark.parametrize(
    ("events", "reason", "limits"),
    [
        ([], "aborted", {}),
        ([state("execution_status", "finished")], "finished", {}),
        ([state("execution_status", "stuck")], "stuck", {}),
        ([state("execution_status", "error")], "error", {}),
        ([state("execution_status", "waiting_for_confirmation")], "paused", {}),
        ([state("agent_status", "FINISHED")], "finished", {}),
        ([state("full_state", {"execution_status": "finished", "max_iterations": 9})], "finished", {"steps": 9}),
        ([event("PauseEvent", "user")], "paused", {}),
        ([event("ConversationErrorEvent", code="MaxBudgetReached", detail="x")], "cost_budget", {}),
        ([event("ConversationErrorEvent", code="LLMError", detail="x")], "error", {}),
        (
            [event("ConversationIterationLimitEvent", iteration=5, max_iterations=5, detail="x")],
            "step_cap",
            {"steps": 5},
        ),
        ([asks("f", tool="finish")], "finished", {}),
    ],
)
def test_the_status_and_the_error_say_how_it_ended(
    tmp_path: Path, events: list[dict[str, Any]], reason: str, limits: dict[str, int]
) -> None:
    (run,) = read(write(tmp_path, asks("a"), gives("a", is_error=False), *events))
    assert (run.stop_reason, dict(run.limits)) == (reason, limits)


def test_a_conversation_that_goes_on_leaves_its_error_behind(tmp_path: Path) -> None:
    failed = event("ConversationErrorEvent", code="LLMError", detail="x")
    again = event("MessageEvent", "user", llm_message={"content": [{"type": "text", "text": "Again"}]})
    answer = event("MessageEvent", llm_message={"content": [{"type": "text", "text": "Yes."}]}, llm_response_id="r")
    (run,) = read(write(tmp_path, asks("a"), failed, again, answer))
    assert (run.stop_reason, run.error, [step.turn for step in run.steps]) == ("finished", None, [1, 2])
    assert [happened.kind for happened in run.events] == ["fault"]


@pytest.mark.parametrize(
    ("observation", "failed"),
    [
        ({"is_error": True}, True),
        ({"is_error": False}, False),
        ({"is_error": False, "exit_code": 1}, True),
        ({"is_error": False, "metadata": {"exit_code": -1}}, None),
        ({"exit_code": 0}, False),
        ({"error": "no"}, True),
        ({"error": None}, False),
        ({}, None),
    ],
)
def test_an_observation_is_an_error_if_it_says_so(
    tmp_path: Path, observation: dict[str, Any], failed: bool | None
) -> None:
    (run,) = read(write(tmp_path, asks("a"), gives("a", **observation)))
    assert [result and result.is_error for result in run.steps[0].results] == [failed]


def test_unexecutable_old_calls_and_calls_without_text_are_read(tmp_path: Path) -> None:
    call = {"id": "b", "type": "function", "function": {"name": "missing", "arguments": '{"a": 1}'}}
    refused = event("NonExecutableActionEvent", thought=[], tool_calls=[call, {"id": "c", "name": "other"}])
    bare = event("ActionEvent", tool_name="look", tool_call_id="d", action={"at": 1, "kind": "LookAction"})
    (run,) = read(write(tmp_path, refused, bare))
    assert [tuple(call) for step in run.steps for call in step.response.tool_calls] == [
        ("b", "missing", '{"a": 1}'),
        ("c", "other", REDACTED),
        ("d", "look", '{"at":1}'),
    ]


def test_a_list_of_events_is_a_conversation_too(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps([asks("a"), gives("a", content=[{"type": "text", "text": "x"}])]))
    (run,) = load_runs(path)
    assert (run.run_id, run.n_steps, run.n_tool_calls) == ("trajectory", 1, 1)


def test_a_line_that_is_damaged_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, asks("a"), 3, {"kind": 7})
    path.write_text(path.read_text() + '{"id": ')
    runs, told = runs_of(path)
    assert (len(runs), runs[0].stop_reason) == (1, "aborted")
    assert [message.split(":")[1] for message in told] == ["2", "4"]


@pytest.mark.parametrize(("broken", "reason"), [(1, "finished"), (3, "aborted")])
def test_only_a_damaged_last_event_leaves_the_end_unknown(tmp_path: Path, broken: int, reason: str) -> None:
    words = [{"type": "text", "text": "Go."}]
    (tmp_path / "events").mkdir()
    for number, source in enumerate(("user", "environment", "agent", "agent")):
        one = event("MessageEvent", source, llm_message={"content": words}, llm_response_id=f"r{number}")
        content = "{" if number == broken else json.dumps(one)
        (tmp_path / "events" / f"event-{number:05}-00000000.json").write_text(content)
    runs, _ = runs_of(tmp_path / "events" / "event-00000-00000000.json")
    assert [run.stop_reason for run in runs] == [reason]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_among_the_events_is_told_and_not_waited_for(tmp_path: Path) -> None:
    shutil.copytree(FOLDER_OF_ONE, tmp_path / "talk")
    os.mkfifo(tmp_path / "talk" / "events" / "event-09999-00000000.json")
    runs, told = runs_of(tmp_path / "talk" / "events" / FIRST.name)
    assert len(runs) == 1
    assert "event-09999-00000000.json cannot be read (a pipe or a device, not a file)" in "".join(told)


def test_real_events_are_read_with_the_tokens_of_each_turn() -> None:
    runs, told = runs_of(shared("openhands-sdk/sdk/conversation/goal/fixtures/events.jsonl"))
    (run,) = runs
    assert (run.n_steps, run.n_tool_calls, run.stop_reason) == (2, 2, "aborted")
    used = [step.response.usage for step in run.steps]
    assert [(usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in used] == [35_484, 36_176]
    assert {usage.cost for usage in used} == {None}
    assert [result and result.is_error for step in run.steps for result in step.results] == [True, True]
    assert len(told) == 1


def test_a_response_that_only_its_rejection_records_is_a_step(tmp_path: Path) -> None:
    def message(number: int, source: str, content: str) -> dict[str, Any]:
        said = {"role": source, "content": [{"type": "text", "text": content}]}
        return {"kind": "MessageEvent", "id": str(number), "source": source, "llm_message": said}

    refused = "Function 'run' not found in available tools: {'terminal'}"
    lines = [message(0, "user", "Hi"), message(1, "user", refused), message(2, "agent", "Done")]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run,) = load_runs(path, prices=False)
    assert [step.response.text for step in run.steps] == ["", "Done"]
    assert ({step.turn for step in run.steps}, run.stop_reason) == ({1}, "finished")
