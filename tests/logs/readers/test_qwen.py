"""Sessions of Qwen Code."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import RunFormatError
from boolab.logs.load import load_runs, read_logs
from tests.support.readers import fates, only, reader_of, write_lines
from tests.support.samples import own

read = reader_of("qwen")
SESSION = "66660000-0000-4000-8000-000000000001"
SAMPLE = f"qwen/chats/{SESSION}.jsonl"


def record(name: str, parent: str | None, kind: str, *parts: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "model" if kind == "assistant" else "user", "parts": [*parts]}
    return {"uuid": name, "parentUuid": parent, "sessionId": "s", "type": kind, "message": message, **more}


def one(folder: Path, *lines: dict[str, Any]) -> Run:
    return only(read(write_lines(folder / "s.jsonl", record("a", None, "user", {"text": "go"}), *lines)))


def test_records_of_one_id_are_a_step() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert (run.run_id, run.agent, run.model, run.harness_version) == (SESSION, "qwen", "acme-coder", "0.21.13")
    assert (run.cwd, run.git_branch) == ("/shed", "main")
    assert [step.response.text for step in run.steps] == ["I look.", "Painted.", "Thanks."]
    assert run.steps[0].response.reasoning == "Which red?"


def test_thoughts_are_output_unless_the_total_has_them() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert [step.response.usage for step in run.steps] == [
        Usage(100, 26, 40, 6), Usage(50, 12, None, 4), UNKNOWN_USAGE,
    ]  # fmt: skip


def test_the_status_of_a_call_decides() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert fates(run) == [[False, True, "dropped"], [], []]
    assert [result and result.content for result in run.steps[0].results] == ["door.txt", "no such file", None]


@pytest.mark.parametrize(("response", "failed"), [({"error": "no"}, True), ({"output": "x"}, None)])
def test_a_result_without_a_status_failed_or_is_unknown(
    tmp_path: Path, response: dict[str, str], failed: bool | None
) -> None:
    call = record("b", "a", "assistant", {"functionCall": {"id": "c", "name": "ls", "args": {}}})
    answer = record("d", "b", "tool_result", {"functionResponse": {"id": "c", "name": "ls", "response": response}})
    assert fates(one(tmp_path, call, answer)) == [[failed]]


def test_the_branch_of_the_last_record_is_the_session() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert [message.text for message in run.prompt] == ["Paint the door", "Paint it red"]
    assert [(event.kind, event.payload["after_step"]) for event in run.events] == [
        ("rewind", 0), ("compaction", 1), ("fault", 1),
    ]  # fmt: skip
    assert run.events[0].payload["steps"] == 1


def test_a_notification_opens_no_turn_and_hooks_no_task() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert (run.task, [step.turn for step in run.steps]) == ("Paint the door", [1, 1, 1])


def test_a_fault_that_nothing_followed_ends_the_run(tmp_path: Path) -> None:
    event = {"uiEvent": {"event.name": "qwen-code.api_error", "error_message": "busy"}}
    fault = record("c", "b", "system", subtype="ui_telemetry", systemPayload=event)
    run = one(tmp_path, record("b", "a", "assistant", {"text": "x"}), fault)
    assert (run.stop.reason, run.error) == ("error", "busy")


def test_records_that_are_joined_in_a_line_are_read(tmp_path: Path) -> None:
    lines = [record("a", None, "user", {"text": "go"}), record("b", "a", "assistant", {"text": "x"})]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(map(json.dumps, lines)) + "\n")
    assert only(read(path)).n_steps == 1


def test_other_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="a log of Qwen Code is"):
        read(write_lines(tmp_path / "a.jsonl", {"type": "session.start"}))


def test_what_qwen_prints_is_no_run_of_claude_code() -> None:
    (run,) = load_runs(own("qwen/stream.jsonl"))
    assert (run.source, run.agent, run.model, run.harness_version) == ("qwen", "qwen", "coder-model", "0.25.0")
    assert (run.run_id, run.stop.reason, run.cwd) == ("66660000-0000-4000-8000-000000000002", "finished", "/shed")
    assert [step.response.reasoning for step in run.steps] == ["Where is it?", "Gone."]
    assert [step.response.text for step in run.steps] == ["I look.", "There is no shed."]
    assert fates(run) == [[True], []]


def test_input_tokens_of_a_stream_are_with_the_cached_ones() -> None:
    reading = read_logs(own("qwen/stream.jsonl"))
    usages = [step.response.usage for run in reading.runs for step in run.steps]
    assert [usage[:3] for usage in usages] == [(500, 20, 100), (540, 9, 500)]
    assert not reading.files[0].inconsistencies


def test_messages_without_tokens_are_responses_of_their_own(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in own("qwen/stream.jsonl").read_text().splitlines()]
    for line in lines:
        line.get("message", {}).pop("usage", None)
    (run,) = load_runs(write_lines(tmp_path / "out.jsonl", *lines[:-1]))
    assert (run.n_steps, [step.response.usage.input_tokens for step in run.steps]) == (2, [None, None])
