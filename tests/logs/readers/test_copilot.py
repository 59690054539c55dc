"""Sessions of GitHub Copilot CLI."""

from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.run_tree import Start, starts_of
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.load import load_runs
from tests.support.readers import fates, only, reader_of, write_lines
from tests.support.samples import own

read = reader_of("copilot")
SESSION = "44440000-0000-4000-8000-000000000001"
SAMPLE = f"copilot/session-state/{SESSION}/events.jsonl"


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "timestamp": "2026-06-01T09:00:00Z"}


START = event("session.start", sessionId="s", copilotVersion="1.0.77")
USER = event("user.message", content="go")


def says(words: str = "x", **data: Any) -> dict[str, Any]:
    return event("assistant.message", messageId=words, content=words, toolRequests=[], **data)


def one(folder: Path, *lines: dict[str, Any]) -> Run:
    return only(read(write_lines(folder / "events.jsonl", START, USER, *lines)))


def test_events_of_one_request_are_a_step() -> None:
    run, _ = load_runs(own(SAMPLE))
    assert (run.run_id, run.agent, run.model, run.task) == (SESSION, "copilot", "acme-pro", "Oil the hinge")
    assert (run.harness_version, run.effort, run.cwd, run.git_branch) == ("1.0.77", "medium", "/shed", "main")
    assert [step.response.text for step in run.steps] == ["I look.", "", "Oiled.", ""]
    assert run.steps[0].response.reasoning == "Which hinge?"
    assert [step.turn for step in run.steps] == [1, 1, 1, 2]


def test_only_output_tokens_are_known() -> None:
    run, _ = load_runs(own(SAMPLE))
    assert [step.response.usage for step in run.steps] == [
        Usage(None, 30), Usage(None, 20), Usage(None, 5), UNKNOWN_USAGE,
    ]  # fmt: skip


def test_all_tokens_are_known_where_usage_was_kept(tmp_path: Path) -> None:
    usage = event(
        "assistant.usage", apiCallId="a", inputTokens=9, outputTokens=3, cacheReadTokens=4, cacheWriteTokens=0
    )
    run = one(tmp_path, says(apiCallId="a", outputTokens=3), says("y"), usage)
    assert [step.response.usage for step in run.steps] == [Usage(9, 3, 4, None, None, 0), UNKNOWN_USAGE]


def test_success_of_calls_and_what_the_user_rejected() -> None:
    run, _ = load_runs(own(SAMPLE))
    assert fates(run) == [[False, True], [False, "dropped"], [], ["dropped"]]
    rejected = [event.payload["what"] for event in run.events if event.kind == "rejected"]
    assert rejected == ["The user rejected this tool call."]


def test_a_call_that_no_message_holds_is_of_its_turn() -> None:
    run, _ = load_runs(own(SAMPLE))
    assert [call.arguments for call in run.steps[3].response.tool_calls] == ['{"command":"oil lock"}']


def test_a_subagent_is_a_run_that_its_call_started() -> None:
    run, sub = load_runs(own(SAMPLE))
    assert (sub.run_id, sub.parent_run_id, sub.agent) == (f"{SESSION}#call_44aa3", SESSION, "explore")
    assert (sub.task, sub.model, sub.n_steps, sub.stop.reason) == ("Find the hinge", "acme-mini", 1, "finished")
    assert starts_of(run) == [Start(2, sub.run_id, "explore")]


def test_notices_of_the_program_open_no_turn() -> None:
    run, _ = load_runs(own(SAMPLE))
    assert [(before, message.text) for before, message in run.inputs] == [
        (4, "A notice of the program"), (4, "And the lock"),
    ]  # fmt: skip


def test_compaction_and_abort_are_events() -> None:
    run, _ = load_runs(own(SAMPLE))
    happened = [(event.kind, event.payload["after_step"]) for event in run.events if event.kind != "subagent"]
    assert happened == [("compaction", 2), ("rejected", 2), ("abort", 4)]
    assert (run.stop.reason, run.error) == ("aborted", None)


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ([says()], ("finished", None)),
        ([event("session.error", errorType="query", message="no")], ("error", "no")),
        ([event("session.error", message="no"), says()], ("finished", None)),
        ([says(), event("abort", reason="user")], ("aborted", None)),
    ],
)
def test_what_follows_nothing_ends_a_run(tmp_path: Path, lines: list[Any], end: tuple[str, str | None]) -> None:
    run = one(tmp_path, *lines)
    assert (run.stop.reason, run.error) == end


def test_more_output_than_the_session_adds_up_is_told(tmp_path: Path) -> None:
    metrics = {"m": {"usage": {"outputTokens": 5}}}
    with pytest.warns(ReadWarning, match="session.shutdown states 5 output tokens; 7 were read"):
        one(tmp_path, says(outputTokens=7), event("session.shutdown", modelMetrics=metrics))


def test_unknown_kinds_of_events_are_told(tmp_path: Path) -> None:
    with pytest.warns(ReadWarning, match="3 of 6 lines are of a type that this reader does not know"):
        one(tmp_path, says(), *[event("assistant.hologram")] * 3)


def test_other_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="a log of Copilot is"):
        read(write_lines(tmp_path / "a.jsonl", {"type": "session.start"}))


# --- What `copilot --output-format json` prints -----------------------------------------------------------------------

STREAM = "copilot/stream.jsonl"


def test_a_stream_has_its_id_last_and_its_model_in_the_tools() -> None:
    (run,) = load_runs(own(STREAM))
    assert (run.run_id, run.log_id) == ("44440000-0000-4000-8000-000000000002",) * 2
    assert (run.model, run.task, run.stop.reason) == ("acme-mini", "Wax the table", "finished")
    assert [step.response.usage.output_tokens for step in run.steps] == [40, 9]
    assert (fates(run), run.duration_ms) == ([[True, "dropped"], []], 5000)


def test_a_stream_of_parts_of_messages_is_recognised(tmp_path: Path) -> None:
    lines = own(STREAM).read_text().splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if '"assistant.message_delta"' in line)
    path = tmp_path / "out.jsonl"
    path.write_text("".join([*[lines[first]] * 30, *lines[first:]]))
    (run,) = load_runs(path)
    assert (run.source, run.n_steps) == ("copilot", 2)


def test_subagents_of_a_stream_have_the_id_that_comes_last(tmp_path: Path) -> None:
    call = {"toolCallId": "c1", "name": "task", "arguments": {"prompt": "look"}}
    run, subagent = read(
        write_lines(
            tmp_path / "out.jsonl",
            event("session.tools_updated", model="m"),
            USER,
            event("assistant.message", messageId="1", content="", toolRequests=[call]),
            event("subagent.started", toolCallId="c1", agentName="scout"),
            says("inner", parentToolCallId="c1"),
            event("tool.execution_complete", toolCallId="c1", success=True, result={"content": "x"}),
            says("Done."),
            {"type": "result", "sessionId": "s9", "exitCode": 0},
        )
    )
    assert (run.run_id, subagent.run_id, subagent.parent_run_id) == ("s9", "s9#c1", "s9")
    assert [start.run_id for start in starts_of(run)] == ["s9#c1"]


@pytest.mark.parametrize(("code", "reason"), [(0, "finished"), (1, "error"), (None, "finished")])
def test_a_stream_that_failed_has_an_exit_code(tmp_path: Path, code: int | None, reason: str) -> None:
    run = one(tmp_path, says(), {"type": "result", "sessionId": "s", "exitCode": code})
    assert (run.stop.reason, run.error) == (reason, "exit code 1" if code else None)
