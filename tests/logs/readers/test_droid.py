"""Sessions of Factory's Droid, and what it prints."""

from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE
from boolab.errors import RunFormatError
from boolab.logs.load import load_runs
from tests.support.readers import fates, only, reader_of, write_lines
from tests.support.samples import own

read = reader_of("droid")
SESSION = "77770000-0000-4000-8000-000000000001"
STORED = f"droid/sessions/-shed/{SESSION}.jsonl"
STREAM = "droid/stream.jsonl"
CALL = {"type": "tool_call", "session_id": "s", "toolCallId": "c", "toolName": "ls", "parameters": {}}
RESULT = {"type": "tool_result", "session_id": "s", "toolCallId": "c"}


def one(folder: Path, *lines: dict[str, Any]) -> Run:
    user = {"type": "message", "session_id": "s", "role": "user", "text": "go"}
    return only(read(write_lines(folder / "a.jsonl", user, *lines)))


def test_a_message_of_the_assistant_is_a_step() -> None:
    (run,) = load_runs(own(STORED))
    assert (run.run_id, run.agent, run.task, run.cwd) == (SESSION, "droid", "Sweep the floor", "/shed")
    assert (run.model, run.effort, run.harness_version) == ("acme-opus", "low", "0.81.0")
    assert [step.turn for step in run.steps] == [1, 1, 2]
    assert [step.start_ms for step in run.steps] == [0, 3000, 9000]
    assert run.steps[0].response.reasoning == "Which?"
    assert run.stop.reason == "finished"


def test_a_result_that_begins_with_an_error_is_one() -> None:
    (run,) = load_runs(own(STORED))
    assert fates(run) == [[False, True], [], []]


@pytest.mark.parametrize(("path", "tokens"), [(STORED, (100, 30)), (STREAM, (50, 9))])
def test_tokens_are_those_of_the_whole_run(path: str, tokens: tuple[int, int]) -> None:
    (run,) = load_runs(own(path))
    assert {step.response.usage for step in run.steps} == {UNKNOWN_USAGE}
    totals = [event.payload for event in run.events if event.kind == "totals"]
    assert [(total["input_tokens"], total["output_tokens"]) for total in totals] == [tokens]


def test_a_branch_that_was_left_is_no_part_of_the_session(tmp_path: Path) -> None:
    def said(name: str, parent: str | None, role: str, words: str) -> dict[str, Any]:
        message = {"role": role, "content": [{"type": "text", "text": words}]}
        return {"type": "message", "id": name, "parentId": parent, "message": message}

    lines = [
        {"type": "session_start", "id": "d", "title": "t"},
        said("a", None, "user", "go"),
        said("b", "a", "assistant", "left"),
        said("c", "a", "assistant", "kept"),
    ]
    run = only(read(write_lines(tmp_path / "d.jsonl", *lines)))
    assert [step.response.text for step in run.steps] == ["kept"]
    assert [(event.kind, event.payload["steps"]) for event in run.events] == [("rewind", 1)]


def stored(folder: Path, *messages: dict[str, Any], **start: Any) -> Run:
    lines = [{"type": "message", "id": f"m{n}", **message} for n, message in enumerate(messages)]
    return only(
        read(write_lines(folder / "d.jsonl", {"type": "session_start", "id": "d", "title": "t", **start}, *lines))
    )


def test_a_response_has_its_own_model_and_effort(tmp_path: Path) -> None:
    (tmp_path / "d.settings.json").write_text('{"model": "last", "reasoningEffort": "high"}')
    replies: list[dict[str, Any]] = [{"modelId": "first", "reasoningEffort": "low"}, {"modelId": "last"}, {}]
    messages = [{"message": {"role": "assistant", "content": "x", **reply}} for reply in replies]
    run = stored(tmp_path, *messages)
    assert [step.response.model or run.model for step in run.steps] == ["first", "last", "last"]
    assert [step.response.effort or run.effort for step in run.steps] == ["low", "high", "high"]


def test_a_subagent_names_the_session_that_started_it(tmp_path: Path) -> None:
    run = stored(tmp_path, {"message": {"role": "user", "content": "look"}}, callingSessionId="p", callingToolUseId="c")
    assert (run.run_id, run.parent_run_id, run.agent) == ("d", "p", "subagent")


@pytest.mark.parametrize("inside", [False, True])
def test_what_only_the_model_sees_opens_no_turn(tmp_path: Path, *, inside: bool) -> None:
    hidden = {"visibility": "llm_only"}
    note = {"role": "user", "content": "<context>x</context>", **(hidden if inside else {})}
    run = stored(
        tmp_path,
        {"message": {"role": "user", "content": "go"}},
        {"message": {"role": "assistant", "content": "a"}},
        {"message": note, **({} if inside else hidden)},
        {"message": {"role": "assistant", "content": "b"}},
        {"type": "compaction_state", "summaryText": "all"},
    )
    assert ([step.turn for step in run.steps], run.task) == ([1, 1], "go")
    assert [event.kind for event in run.events] == ["compaction"]


def test_a_response_of_the_stream_ends_where_results_follow() -> None:
    (run,) = load_runs(own(STREAM))
    assert (run.model, run.effort, run.task) == ("acme-opus", "low", "Count the pots")
    assert [step.response.text for step in run.steps] == ["I count.", "Two."]
    assert (fates(run), run.duration_ms) == ([[False], []], 4000)


def test_the_last_text_is_no_second_response(tmp_path: Path) -> None:
    reply = {"type": "message", "session_id": "s", "role": "assistant", "text": "Two."}
    assert one(tmp_path, reply, {"type": "completion", "session_id": "s", "finalText": "Two."}).n_steps == 1


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ({"isError": True, "value": "no"}, True),
        ({"value": {"stdout": "x", "exitCode": 0}}, False),
        ({"value": {"stdout": "x", "exitCode": 2}}, True),
        ({"value": "x"}, None),
    ],
)
def test_a_result_of_the_stream_failed_by_flag_or_code(tmp_path: Path, result: dict[str, Any], failed: object) -> None:
    assert fates(one(tmp_path, CALL, {**RESULT, **result})) == [[failed]]


def test_an_error_that_nothing_followed_ends_the_run(tmp_path: Path) -> None:
    run = one(tmp_path, CALL, {**RESULT, "value": "x"}, {"type": "error", "session_id": "s", "message": "no key"})
    assert (run.stop.reason, run.error) == ("error", "no key")


def test_other_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="a log of Droid is"):
        read(write_lines(tmp_path / "a.jsonl", {"type": "hello"}))
