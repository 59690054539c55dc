"""Sessions of Gemini CLI."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning
from boolab.logs.load import load_runs
from tests.support.readers import only, reader_of, write_lines
from tests.support.samples import own

read = reader_of("gemini")

HEADER = {"sessionId": "s1", "projectHash": "ab12", "startTime": "2026-05-06T07:00:00Z"}
DOCUMENT = "gemini/chats/session-2026-05-06T07-00-22220000.json"
LINES = "gemini/chats/session-2026-05-06T07-01-22220000.jsonl"
SUBAGENT = "gemini/chats/22220000-0000-7000-8000-000000000002/22220000-0000-7000-8000-000000000003.jsonl"


def user(name: str, said: Any = "Hello") -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-05-06T07:00:01Z", "type": "user", "content": said}


def says(name: str, said: Any = "Done.", **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-05-06T07:00:02Z", "type": "gemini", "content": said, **more}


def call(status: str | None = "success", result: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"id": "c1", "name": "glob", "args": {"pattern": "*"}, "status": status, "result": result, **more}


def write(folder: Path, *lines: object) -> Path:
    return write_lines(folder / "session-x.jsonl", *lines)


def one(folder: Path, *lines: object) -> Run:
    return only(read(write(folder, HEADER, *lines)))


def texts(run: Run) -> list[str]:
    return [step.response.text for step in run.steps]


def happened(run: Run) -> list[tuple[str, dict[str, Any]]]:
    return [(event.kind, dict(event.payload)) for event in run.events]


def test_a_session_in_one_document() -> None:
    (run,) = load_runs(own(DOCUMENT))
    assert (run.source, run.run_id, run.agent) == ("gemini", "22220000-0000-7000-8000-000000000001", "gemini")
    assert (run.task, run.model, run.parent_run_id) == ("Why is the build slow?", "acme-pro", None)
    assert [step.turn for step in run.steps] == [1, 1, 1, 2]
    assert [len(step.response.tool_calls) for step in run.steps] == [2, 1, 0, 2]
    assert run.steps[0].response.reasoning == "Looking: The build has two parts."
    assert run.steps[0].response.tool_calls[0].arguments == '{"path":"Makefile"}'
    assert {step.response.finish_reason for step in run.steps} == {None}
    assert [(before, message.role, message.text) for before, message in run.inputs] == [
        (4, "system", "A new version is there."),
        (4, "user", "Then run them once\n[inlineData]"),
    ]
    assert run.stop == ("aborted", 0, None, None, None, ())


def test_thoughts_are_output_and_the_results_of_tools_are_input() -> None:
    (run,) = read(own(DOCUMENT))
    assert [step.response.usage for step in run.steps] == [
        Usage(105, 30, 60, 10),
        Usage(150, 8, 0, 0),
        UNKNOWN_USAGE,
        Usage(200, 12, 0, 0),
    ]


def test_call_status_decides_the_error_whatever_the_output() -> None:
    (run,) = read(own(DOCUMENT))
    results = [result for step in run.steps[:2] for result in step.results if result is not None]
    assert [result.is_error for result in results] == [False, True, False]
    assert [result.content for result in results[:2]] == ["all: test", "File not found: build.log"]


def test_calls_that_were_cancelled_or_never_ended_were_dropped() -> None:
    (run,) = read(own(DOCUMENT))
    assert [call.id for call in run.steps[-1].dropped] == ["c4", "c5"]
    assert run.n_tool_calls == 3


def test_times_are_those_of_messages_and_calls() -> None:
    (run,) = read(own(DOCUMENT))
    assert [(step.start_ms, step.model_ms, step.duration_ms) for step in run.steps] == [
        (0, 4000, 5500),
        (5500, 2500, 3500),
        (9000, 3000, 3000),
        (20000, 4000, 4000),
    ]


def test_records_are_folded_before_they_are_counted() -> None:
    (run,) = load_runs(own(LINES))
    assert texts(run) == ["I look.", "", "It is renamed."]
    assert [step.turn for step in run.steps] == [1, 2, 2]
    assert [result and result.content for step in run.steps for result in step.results] == ["old.py", "[masked]"]
    assert [step.response.usage.input_tokens for step in run.steps] == [50, 80, 40]
    assert happened(run) == [
        ("rewind", {"after_step": 1, "steps": 1}),
        ("compaction", {"after_step": 2}),
        ("fault", {"after_step": 3, "what": "[API Error: quota exceeded]"}),
    ]
    assert [(before, message.text) for before, message in run.inputs] == [
        (2, "Call it invoice.py"),
        (3, "<state_snapshot>The module was renamed.</state_snapshot>"),
        (4, "[API Error: quota exceeded]"),
    ]
    assert (run.stop[:2], run.error) == (("error", 1), "[API Error: quota exceeded]")


def test_a_subagent_belongs_to_the_session_that_its_folder_names() -> None:
    (run,) = load_runs(own(SUBAGENT))
    assert (run.agent, run.parent_run_id) == ("subagent", "22220000-0000-7000-8000-000000000002")
    assert run.steps[0].results[0] is not None
    assert run.steps[0].results[0].content == '{"output":{"files":["old.py"]}}'
    assert run.stop[:2] == ("finished", 1)


def test_a_rewind_to_an_unknown_message_takes_all_away(tmp_path: Path) -> None:
    run = one(tmp_path, user("a"), says("b"), {"$rewindTo": "z"}, user("c", "Anew"), says("d", "2"))
    assert ([message.text for message in run.prompt], texts(run)) == (["Anew"], ["2"])
    assert happened(run) == [("rewind", {"after_step": 0, "steps": 1})]


def test_a_list_that_brings_nothing_new_is_a_rewind(tmp_path: Path) -> None:
    run = one(tmp_path, user("a"), says("b"), user("c"), says("d"), {"$set": {"messages": [user("a"), says("b")]}})
    assert (run.n_steps, happened(run)) == (1, [("rewind", {"after_step": 1, "steps": 1})])


def test_a_whole_list_after_a_rewind_is_no_compaction(tmp_path: Path) -> None:
    told = [user("a"), says("b"), user("c"), says("d")]
    for kept, events in ((told[:2], ["rewind"]), (told[1:2], ["rewind", "compaction"])):
        run = one(tmp_path, *told, {"$rewindTo": "c"}, {"$set": {"messages": [*kept, user("e"), says("f")]}})
        assert [kind for kind, _ in happened(run)] == events


def test_a_list_in_the_first_place_is_the_session(tmp_path: Path) -> None:
    run = one(tmp_path, {"$set": {"messages": [user("a"), says("b"), user("c"), says("d")]}}, says("d", "changed"))
    assert ([step.turn for step in run.steps], texts(run)) == ([1, 2], ["Done.", "changed"])


def test_a_response_with_nothing_in_it_is_none(tmp_path: Path) -> None:
    assert one(tmp_path, user("a"), says("b", "")).n_steps == 0
    assert one(tmp_path, user("a"), says("b", "", tokens={"input": 3, "output": 0})).n_steps == 1


def test_parts_that_are_calls_results_or_thoughts_are_no_text(tmp_path: Path) -> None:
    parts = ["a", {"text": "b"}, {"text": "hm", "thought": True}, {"functionCall": {}}, {"fileData": {}}]
    run = one(tmp_path, user("u", [{"functionResponse": {}}]), says("b", parts), user("v", {"text": "x"}), says("c"))
    assert texts(run)[0] == "a\nb\n[fileData]"
    assert ([step.turn for step in run.steps], run.task) == ([1, 2], "x")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (call(), (False, "ok")),
        (call("error", [{"text": "a"}, "b"]), (True, "a\nb")),
        (call(None), (None, "ok")),
        (call(None, None), None),
        (call("success", None), (False, "")),
        (call("awaiting_approval"), None),
    ],
)
def test_a_result_is_there_if_the_call_ended(tmp_path: Path, given: dict[str, Any], told: object) -> None:
    run = one(tmp_path, user("a"), says("b", toolCalls=[given]))
    (result,) = run.steps[0].results
    assert (result and (result.is_error, result.content)) == told


def test_a_fault_that_was_got_over_does_not_end_the_run(tmp_path: Path) -> None:
    fault = {"id": "e", "type": "error", "content": "slow down"}
    run = one(tmp_path, user("a"), fault, says("b"))
    assert (run.stop.reason, run.error, happened(run)) == (
        "finished",
        None,
        [("fault", {"after_step": 0, "what": "slow down"})],
    )


def test_a_document_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "session-x.json"
    path.write_text(json.dumps({**HEADER, "messages": [user("a"), says("b"), says("c"), says("d")]})[:-30])
    with pytest.warns(ReadWarning, match=":1: the file ends in the middle of a value"):
        (run,) = load_runs(path)
    assert (run.n_steps, run.stop.reason) == (2, "aborted")


def test_records_of_no_kind_are_told(tmp_path: Path) -> None:
    with pytest.warns(ReadWarning, match=":2: neither a header nor a message with an id"):
        assert one(tmp_path, {"type": "user"}, user("a"), says("b")).n_steps == 1


def test_a_header_alone_is_no_run(tmp_path: Path) -> None:
    assert read(write(tmp_path, HEADER)) == []
    assert read(write(tmp_path, {**HEADER, "messages": []})) == []
