"""Sessions of Cline: of its command line, and of its extension in both of its ways to write calls."""

import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Usage
from boolab.errors import ReadWarning
from boolab.logs.fields import Head
from boolab.logs.load import load_runs, read_logs
from boolab.logs.readers.cline import sniff
from tests.support.readers import reader_of
from tests.support.samples import own, shared

read = reader_of("cline")

HERE = "cline/1767225600000_abcde.messages.json"
TASK = "cline/tasks/1700000000000/api_conversation_history.json"


def results(run: Run) -> list[list[bool | None]]:
    return [[None if result is None else result.is_error for result in step.results] for step in run.steps]


def task(folder: Path, *texts: str) -> Path:
    roles = ("user", "assistant")
    path = folder / "api_conversation_history.json"
    path.write_text(
        json.dumps([{"role": roles[i % 2], "content": [{"type": "text", "text": one}]} for i, one in enumerate(texts)])
    )
    return path


def test_real_session_usage_equals_the_count_of_cline() -> None:
    (run,) = load_runs(shared("cline/session.messages.json"))
    said = json.loads(shared("cline/basic.compaction.json").read_text())
    counted = said["messages"][0]["metadata"]["usageBefore"]
    used = [step.response.usage for step in run.steps]
    assert sum(one.input_tokens or 0 for one in used) == counted["inputTokens"]
    assert sum(one.output_tokens or 0 for one in used) == counted["outputTokens"]
    assert sum(one.cached_tokens or 0 for one in used) == counted["cacheReadTokens"]
    assert abs(sum(one.cost or 0 for one in used) / 1e6 - counted["cost"]) < 1e-4


def test_a_session_of_the_command_line() -> None:
    (run,) = load_runs(own(HERE))
    assert (run.source, run.run_id, run.agent) == ("cline", "1767225600000_abcde", "lead")
    assert (run.model, run.task, run.parent_run_id) == ("example/model-1", "Sort the recipes", None)
    assert (run.n_steps, run.n_tool_calls) == (4, 3)
    assert [step.turn for step in run.steps] == [1, 1, 1, 2]
    assert run.prompt[0].text == "You are a careful cook."
    assert run.prompt[1].text.endswith("[file recipes.txt]")


def test_a_result_fails_by_its_flag_or_by_what_its_parts_say() -> None:
    (run,) = load_runs(own(HERE))
    assert results(run) == [[False, True], [True], [], [None]]
    assert run.steps[0].results[0] is not None
    assert '"result":"tart\\nsoup"' in run.steps[0].results[0].content


def test_usage_includes_cached_tokens_and_times_are_milliseconds() -> None:
    (run,) = load_runs(own(HERE))
    assert run.steps[1].response.usage == Usage(1100, 60, 990, None, 2000, 0)
    assert [step.start_ms for step in run.steps] == [0, 3000, 6600, 60_000]
    assert run.steps[0].model_ms == 2000
    assert {step.response.finish_reason for step in run.steps} == {None}


def test_notices_are_no_steps_or_turns_and_compaction_is_event() -> None:
    (run,) = load_runs(own(HERE))
    assert [(event.kind, event.payload["after_step"]) for event in run.events] == [("fault", 1), ("compaction", 3)]
    assert [given.before for given in run.inputs] == [3, 4, 4]


def test_a_session_that_ends_in_a_call_was_cut() -> None:
    (run,) = load_runs(own(HERE))
    assert (run.stop.reason, run.success, dict(run.limits)) == ("aborted", None, {})


def test_a_compaction_repeats_its_session_and_holds_no_run(tmp_path: Path) -> None:
    path = tmp_path / "1767225600000_abcde.compaction.json"
    path.write_bytes(own(HERE).read_bytes())
    assert sniff(Head(path.read_bytes(), path))
    assert read(path) == []


def test_a_subagent_is_a_run_of_its_own() -> None:
    (run,) = load_runs(own("cline/1767225600000_abcde__helper.messages.json"))
    assert (run.run_id, run.parent_run_id) == ("1767225600000_abcde__helper", "1767225600000_abcde")
    assert run.agent == "helper"


def test_a_folder_gives_each_session_once() -> None:
    reading = read_logs(own("cline"))
    assert sorted(run.run_id for run in reading.runs) == [
        "1700000000000",
        "1767225600000_abcde",
        "1767225600000_abcde__helper",
    ]
    assert not any(row.warnings for row in reading.files)


def test_calls_in_texts_pair_by_order_and_only_the_first_ran() -> None:
    (run,) = load_runs(own(TASK))
    assert (run.run_id, run.model, run.task) == ("1700000000000", "example-2", "Fix the notes")
    first = run.steps[0]
    assert [(call.name, call.arguments) for call in first.response.tool_calls] == [
        ("read_file", '{"path":"notes.md"}'),
        ("list_files", '{"path":"."}'),
    ]
    assert first.results[0] is not None
    assert (first.results[0].content, first.results[1]) == ("# Notes\n- milk", None)
    assert first.response.usage == Usage(500, 40, 100, None, 4000)


def test_errors_of_the_extension_are_told_by_clines_own_words() -> None:
    (run,) = load_runs(own(TASK))
    assert results(run) == [[False, None], [True], [], [False], [None]]


def test_feedback_opens_a_turn_and_a_reminder_does_not() -> None:
    (run,) = load_runs(own(TASK))
    assert [step.turn for step in run.steps] == [1, 1, 1, 1, 2]


def test_displayed_and_not_executed_notices_open_no_turn(tmp_path: Path) -> None:
    talk: list[Any] = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    notice = {"role": "user", "content": "The plan changed.", "metadata": {"displayRole": "system"}}
    path = tmp_path / "s.messages.json"
    path.write_text(json.dumps({"version": 1, "sessionId": "s", "messages": [*talk, notice, *talk[1:], *talk]}))
    (run,) = load_runs(path)
    assert [step.turn for step in run.steps] == [1, 1, 2]
    (run,) = load_runs(task(tmp_path, "<task>x</task>", "y", "Tool [read_file] was not executed because", "z"))
    assert (run.inputs[0].message.text, [step.turn for step in run.steps]) == ("", [1, 1])


def test_an_interrupted_response_says_so() -> None:
    (run,) = load_runs(own(TASK))
    assert (run.stop.reason, run.steps[-1].error) == ("aborted", "[Response interrupted by user]")
    assert [call.name for call in run.steps[-1].dropped] == ["write_to_file"]


def test_an_error_of_the_provider_ends_a_run_with_it(tmp_path: Path) -> None:
    (run,) = load_runs(task(tmp_path, "<task>x</task>", "Well\n\n[Response interrupted by API Error]"))
    assert (run.stop.reason, run.error) == ("error", "[Response interrupted by API Error]")


def test_a_completion_that_nobody_answered_is_a_finish(tmp_path: Path) -> None:
    done = "<attempt_completion>\n<result>\nyes\n</result>\n</attempt_completion>"
    (run,) = load_runs(task(tmp_path, "<task>x</task>", done))
    assert (run.stop.reason, run.n_tool_calls) == ("finished", 0)


def test_a_result_of_a_command_over_several_lines_is_one(tmp_path: Path) -> None:
    asked = "<execute_command>\n<command>cd x\nmake</command>\n</execute_command>"
    given = "[execute_command for 'cd x\nmake'] Result:\nbuilt"
    (run,) = load_runs(task(tmp_path, "<task>x</task>", asked, given, "ok"))
    assert run.steps[0].results[0] is not None
    assert run.steps[0].results[0].content == "built"
    assert [step.turn for step in run.steps] == [1, 1]


def test_model_comes_from_the_manifest_if_messages_lack_it(tmp_path: Path) -> None:
    talk: list[Any] = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    path = tmp_path / "s.messages.json"
    path.write_text(json.dumps({"version": 1, "sessionId": "s", "messages": talk}))
    (tmp_path / "s.json").write_text('{"model": "m"}')
    (run,) = load_runs(path)
    assert run.model == "m"


def test_tags_without_an_end_do_not_take_long(tmp_path: Path) -> None:
    many = "<read_file>" + "".join(f"<a{i}>" for i in range(100_000))
    start = time.process_time()
    (run,) = load_runs(task(tmp_path, "<task>x</task>", many))
    assert time.process_time() - start < 10
    assert run.n_steps == 1


def native(number: int, name: str, **given: Any) -> dict[str, Any]:
    call = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
    return {"role": "assistant", "content": [{"type": "text", "text": "Step"}, call], "modelInfo": {"modelId": "m"}}


def answered(*texts: str) -> dict[str, Any]:
    blocks = [*texts, "<environment_details>\nACT MODE\n</environment_details>"]
    return {"role": "user", "content": [{"type": "text", "text": block} for block in blocks]}


def verdicts(run: Run) -> list[list[bool | str | None]]:
    return [[("dropped" if r is None else r.is_error) for r in step.results] for step in run.steps]


def extension(folder: Path, *messages: dict[str, Any]) -> Run:
    path = folder / "1777" / "api_conversation_history.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([{"role": "user", "content": "<task>\nMove it\n</task>"}, *messages]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (run,) = bl.load_runs(path, prices=False)
    return run


def test_native_calls_are_answered_by_texts(tmp_path: Path) -> None:
    failure = (
        "[write_to_file for 'b.ts'] Result:\nThe tool execution failed with the following error:\n<error>no</error>"
    )
    run = extension(
        tmp_path,
        native(1, "read_file", path="a.ts"),
        answered("[read_file for 'a.ts'] Result:\nx = 1"),
        native(2, "execute_command", command="npm test"),
        answered("[execute_command for 'npm test'] Result:\nCommand executed.", "ok"),
        native(3, "write_to_file", path="b.ts"),
        answered(failure),
        native(4, "attempt_completion", result="Moved"),
    )
    assert verdicts(run) == [[False], [False], [True], ["dropped"]]
    assert [result.content for step in run.steps for result in step.results if result][:2] == [
        "x = 1",
        "Command executed.\nok",
    ]
    assert (run.stop_reason, run.task, {step.turn for step in run.steps}) == ("finished", "Move it", {1})


def test_parallel_native_calls_are_answered_by_tool(tmp_path: Path) -> None:
    both = native(1, "read_file", path="a.ts")
    both["content"] += (
        native(2, "list_files", path=".")["content"][1:] + native(3, "read_file", path="b")["content"][1:]
    )
    texts = answered(
        "[list_files for '.'] Result:\na.ts",
        "[read_file for 'a.ts'] Result:\nfirst",
        "Tool [read_file] was not executed",
    )
    run = extension(tmp_path, both, texts)
    assert [result and result.content for result in run.steps[0].results] == ["first", "a.ts", None]


def test_blocks_and_texts_answer_one_message(tmp_path: Path) -> None:
    both = native(1, "read_file", path="a.ts")
    both["content"] += native(2, "read_file", path="b.ts")["content"][1:]
    mixed = answered("[read_file for 'b.ts'] Result:\nsecond")
    mixed["content"].insert(0, {"type": "tool_result", "tool_use_id": "t1", "content": '{"status":"error"}'})
    run = extension(tmp_path, both, mixed)
    assert [(result.content, result.is_error) for result in run.steps[0].results if result] == [
        ('{"status":"error"}', True),
        ("second", False),
    ]


def test_a_text_that_answers_no_open_call_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "api_conversation_history.json"
    path.write_text(json.dumps([
        {"role": "user", "content": "<task>\nMove it\n</task>"},
        native(1, "read_file", path="a.ts"),
        answered("[read_file for 'a.ts'] Result:\nx", "[read_file for 'a.ts'] Result:\ny"),
    ]))  # fmt: skip
    with pytest.warns(ReadWarning, match="answers no call"):
        (run,) = bl.load_runs(path, prices=False)
    assert verdicts(run) == [[False]]
