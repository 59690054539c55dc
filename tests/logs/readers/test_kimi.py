"""Sessions of Kimi Code and of Kimi CLI."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.run_tree import Start, starts_of
from boolab.core.types import UNKNOWN_USAGE, Stop, Usage
from boolab.errors import RunFormatError
from boolab.logs.load import load_runs
from tests.support.readers import fates, only, reader_of, write_lines
from tests.support.samples import own

read = reader_of("kimi")
CODE = "kimi/sessions/wd_shed/session_5555aa01/agents/main/wire.jsonl"
SUBAGENT = "kimi/sessions/wd_shed/session_5555aa01/agents/agent-0/wire.jsonl"
CLI = "kimi/cli/5555bb02/wire.jsonl"
META = {"type": "metadata", "protocol_version": "1.4"}
PROMPT = {"type": "turn.prompt", "input": [{"type": "text", "text": "go"}], "origin": {"kind": "user"}, "time": 1_000}


def loop(kind: str, **event: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": {"type": kind, "stepUuid": "u", **event}, "time": 2_000}


PART = loop("content.part", part={"type": "text", "text": "x"})


def one(folder: Path, *lines: dict[str, Any]) -> Run:
    return only(read(write_lines(folder / "wire.jsonl", META, PROMPT, *lines)))


def test_a_step_that_was_answered_is_a_step() -> None:
    (run,) = load_runs(own(CODE))
    assert (run.run_id, run.agent, run.model, run.effort) == ("session_5555aa01", "kimi", "acme/k-1", "high")
    assert (run.task, run.cwd) == ("Water the beds", "/shed")
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "tool_calls", "stop"]
    assert [step.response.text for step in run.steps] == ["I look.", "", "Watered."]
    assert run.steps[0].response.reasoning == "Which bed?"
    assert [(step.start_ms, step.model_ms, step.duration_ms) for step in run.steps] == [
        (100, 2000, 2500), (2700, 1300, 3500), (7100, 900, 900),
    ]  # fmt: skip


def test_the_input_includes_what_was_cached() -> None:
    (run,) = load_runs(own(CODE))
    assert [step.response.usage for step in run.steps] == [
        Usage(160, 20, 50, None, None, 10), Usage(200, 30, 160, None, None, 0), Usage(60, 8, 0, None, None, 0),
    ]  # fmt: skip


def test_a_failed_command_is_an_error() -> None:
    (run,) = load_runs(own(CODE))
    assert fates(run) == [[False], [False, True], []]


def test_a_subagent_is_the_agent_that_the_result_names() -> None:
    (run,), (sub,) = load_runs(own(CODE)), load_runs(own(SUBAGENT))
    assert starts_of(run) == [Start(2, "session_5555aa01#agent-0")]
    assert (sub.run_id, sub.parent_run_id, sub.agent) == ("session_5555aa01#agent-0", "session_5555aa01", "subagent")
    assert (sub.task, sub.steps[0].turn, sub.stop.reason) == ("Find the can", 1, "finished")


def test_a_subagent_without_the_state_is_one_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "s/agents/agent-1/wire.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copyfile(own(SUBAGENT), path)
    assert only(read(path)).parent_run_id == "s"


def test_a_cancelled_request_without_an_answer_is_no_step() -> None:
    (run,) = load_runs(own(CODE))
    assert [(event.kind, event.payload["after_step"]) for event in run.events if event.kind != "subagent"] == [
        ("compaction", 2), ("abort", 3),
    ]  # fmt: skip
    assert (run.n_steps, run.stop.reason) == (3, "aborted")


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ({"reason": "completed"}, (Stop("finished", 0), None)),
        ({"reason": "max_steps"}, (Stop("step_cap", 0, "max_steps_per_turn"), None)),
        ({"reason": "cancelled"}, (Stop("aborted", 0), None)),
        ({"reason": "failed", "error": {"message": "no"}}, (Stop("error", 0), "no")),
    ],
)
def test_the_end_of_a_turn_is_that_of_the_run(
    tmp_path: Path, line: dict[str, Any], end: tuple[Stop, str | None]
) -> None:
    run = one(tmp_path, PART, {"type": "turn.ended", **line, "time": 3_000})
    assert (run.stop, run.error) == end


def test_a_prompt_of_the_program_opens_no_turn(tmp_path: Path) -> None:
    notice = {**PROMPT, "origin": {"kind": "system_trigger", "name": "cron"}}
    run = one(tmp_path, PART, notice, loop("content.part", stepUuid="v", part={"type": "text", "text": "y"}))
    assert [step.turn for step in run.steps] == [1, 1]


def test_a_step_of_the_cli_begins_a_response() -> None:
    run, sub = load_runs(own(CLI))
    assert (run.run_id, run.task, [step.response.text for step in run.steps]) == (
        "5555bb02", "Mend the fence", ["I look.", "Mended."],
    )  # fmt: skip
    assert [step.response.usage for step in run.steps] == [Usage(100, 15, 30, None, None, 0), UNKNOWN_USAGE]
    assert fates(run) == [[True, False], []]
    assert [call.arguments for call in run.steps[0].response.tool_calls] == ['{"command":"ls"}', '{"prompt":"Find it"}']
    assert (sub.run_id, sub.parent_run_id, sub.agent) == ("5555bb02#Task_5b02", "5555bb02", "explore")
    assert starts_of(run) == [Start(1, "5555bb02#Task_5b02", "explore")]


def test_an_interruption_of_the_cli_ends_a_run(tmp_path: Path) -> None:
    lines = [{"timestamp": n, "message": {"type": kind, "payload": payload}} for n, (kind, payload) in enumerate([
        ("TurnBegin", {"user_input": [{"type": "text", "text": "go"}]}), ("StepBegin", {"n": 1}),
        ("ContentPart", {"type": "text", "text": "x"}), ("StepInterrupted", {}),
    ], 1)]  # fmt: skip
    run = only(read(write_lines(tmp_path / "wire.jsonl", META, *lines)))
    assert (run.task, run.n_steps, run.stop.reason) == ("go", 1, "aborted")


def test_other_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="a log of Kimi is"):
        read(write_lines(tmp_path / "a.jsonl", {"type": "session.start"}))
