"""Sessions of Claude Code."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.run_tree import Start, starts_of
from boolab.core.types import ToolResult, Usage
from boolab.errors import ReadWarning, RunFormatError
from boolab.frames.tables import runs_df
from boolab.logs.fields import Head
from boolab.logs.load import load_runs
from boolab.logs.readers.claude_code import sniff
from boolab.logs.units import units_of_run
from tests.support.claude_logs import SESSION, Session, call, text, usage, write
from tests.support.readers import reader_of, write_lines
from tests.support.samples import shared

read = reader_of("claude_code")


def begun(*said: dict[str, Any]) -> Session:
    """A session with a prompt, and a response of these blocks."""
    session = Session()
    session.user("the task")
    session.say("m1", *(said or [text()]))
    return session


def test_fixture_is_read_and_unanswered_result_is_warned_about() -> None:
    path = shared("agent-sessions/claude/small.jsonl")
    with pytest.warns(ReadWarning, match="1 tool result answers no call"):
        main, side, other = read(path)
    assert (main.n_steps, side.n_steps, side.parent_run_id) == (1, 3, main.run_id)
    assert (other.run_id, other.n_steps, other.parent_run_id) == ("[trimmed for fixture]", 1, None)
    assert [event.kind for event in main.events] == ["compaction"]
    assert [event.kind for event in other.events][:1] == ["fault"]


def test_lines_of_one_message_are_one_step_across_a_result(tmp_path: Path) -> None:
    session = Session()
    session.user("fix the test")
    session.say("m1", {"type": "thinking", "thinking": "hm"}, text("I look."), call("t1"), usage=usage(3, 1))
    session.answer("t1", "found")
    session.say("m1", call("t2", "Read", path="a"), usage=usage(3, 57, written=90, cached=200))
    session.answer("t2", is_error=True)
    session.say("m2", text("Done."))
    run = session.run(tmp_path)
    first, last = run.steps
    assert [c.name for c in first.response.tool_calls] == ["Bash", "Read"]
    assert [(r.content, r.is_error) for r in first.results if r] == [("found", False), ("ok", True)]
    assert (first.response.reasoning, first.response.text) == ("hm", "I look.")
    assert first.response.usage == Usage(293, 57, 200, cache_write_tokens=90)
    assert last.response.usage == Usage()
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "stop"]
    assert (run.stop.reason, run.stop.step, run.task) == ("finished", 1, "fix the test")
    assert (run.run_id, run.source, run.model, run.success) == (SESSION, "claude_code", "claude-x", None)


def test_arguments_are_compact_json_with_their_keys_in_order(tmp_path: Path) -> None:
    session = Session()
    session.user()
    session.say("m1", call("t1", z=1, a={"ü": [True, None, 1.5]}), {**call("t2"), "input": '{"cut": '})
    session.answer("t1")
    session.answer("t2")
    (step,) = session.run(tmp_path).steps
    assert [c.arguments for c in step.response.tool_calls] == ['{"z":1,"a":{"ü":[true,null,1.5]}}', '{"cut": ']
    assert [result and result.parse_error for result in step.results] == [False, True]


def test_call_without_result_is_dropped_and_session_is_aborted(tmp_path: Path) -> None:
    session = begun(call("t1"))
    session.answer("t1")
    session.say("m2", call("t2"), call("t3"))
    session.answer("t3")
    run = session.run(tmp_path)
    assert [result is None for result in run.steps[1].results] == [True, False]
    assert (run.stop.reason, run.stop.step) == ("aborted", 1)


def test_session_ending_after_results_is_aborted_after_that_step(tmp_path: Path) -> None:
    session = begun(call("t1"))
    session.answer("t1")
    assert session.run(tmp_path).stop[:2] == ("aborted", 1)


def test_ids_that_repeat_are_paired_by_position(tmp_path: Path) -> None:
    session = begun(call("t"))
    session.say("m2", call("t"), call("t"))
    session.answer("t", "first of the second")
    session.answer("t", "second of the second")
    run = session.run(tmp_path)
    assert [[result and result.content for result in step.results] for step in run.steps] == [
        [None],
        ["first of the second", "second of the second"],
    ]


QUIET = [
    ("<local-command-caveat>Caveat: ...</local-command-caveat>", {"isMeta": True}),
    ("<local-command-stdout>Goodbye!</local-command-stdout>", {}),
    ("<system-reminder>be brief</system-reminder>", {}),
    ("Stop hook feedback: go on", {"isMeta": True}),
    ("This session is being continued", {"isCompactSummary": True}),
]


@pytest.mark.parametrize(("said", "more"), QUIET)
def test_what_the_harness_writes_is_a_message_but_begins_no_turn(
    tmp_path: Path, said: str, more: dict[str, Any]
) -> None:
    session = begun()
    session.user(said, **more)
    session.say("m2", text())
    session.user([text("<ide_opened_file>a.py</ide_opened_file>"), text("and now?")])
    session.say("m3", text())
    run = session.run(tmp_path)
    assert [step.turn for step in run.steps] == [1, 1, 2]
    assert (run.inputs[0].before, run.inputs[0].message.text) == (2, said)
    assert [message.text for message in run.prompt] == ["the task"]
    assert run.task == "the task"


@pytest.mark.parametrize(
    "notice",
    [
        "<task-notification>\n<task-id>b1</task-id>\n<status>failed</status>\n</task-notification>",
        "Another Claude session sent a message:\n<teammate-message>{}</teammate-message>",
        '<teammate-message teammate_id="a">Done.</teammate-message>',
    ],
)
def test_answer_to_a_notice_belongs_to_the_turn_before_it(tmp_path: Path, notice: str) -> None:
    session = begun()
    session.say("m2", text())
    session.user(notice)
    session.say("m3", call("t3"))
    session.answer("t3")
    session.say("m4", text())
    session.user("and now?")
    session.say("m5", text())
    session.user(notice)
    run = session.run(tmp_path)
    assert [step.turn for step in run.steps] == [1, 1, 1, 1, 2]
    assert (run.task, run.stop.reason) == ("the task", "finished")
    assert [unit.turn for unit in units_of_run(run, "turn")] == [1, 2]
    assert notice in [message.text for _, message in run.inputs]


@pytest.mark.parametrize(
    "said", ["<task-notification>\n</task-notification>", "<system-reminder>be brief</system-reminder>"]
)
def test_prompt_beside_a_text_of_the_harness_begins_a_turn(tmp_path: Path, said: str) -> None:
    session = begun()
    session.user([text(said), text("and now?")])
    session.say("m2", text())
    assert [step.turn for step in session.run(tmp_path).steps] == [1, 2]


def test_session_that_begins_with_a_notice_has_it_as_its_prompt(tmp_path: Path) -> None:
    session = Session()
    session.user("<teammate-message>Look at a.py</teammate-message>")
    session.say("m1", text())
    session.user("<teammate-message>Look at b.py</teammate-message>")
    session.say("m2", text())
    run = session.run(tmp_path)
    assert [step.turn for step in run.steps] == [1, 1]
    assert [message.text for message in run.prompt] == ["<teammate-message>Look at a.py</teammate-message>"]


def test_a_command_begins_a_turn_only_if_the_model_answers_it(tmp_path: Path) -> None:
    session = begun(call("t1"))
    session.user("<command-name>/cost</command-name>")
    session.answer("t1")
    session.say("m2", text())
    session.user("<command-name>/review</command-name>")
    session.user("Review the code.", isMeta=True)
    session.say("m3", text())
    session.user("<command-name>/exit</command-name>")
    session.user("<local-command-stdout>Goodbye!</local-command-stdout>")
    run = session.run(tmp_path)
    assert [step.turn for step in run.steps] == [1, 1, 2]
    assert run.stop.reason == "finished"


def test_an_interruption_ends_its_turn_and_is_an_event(tmp_path: Path) -> None:
    session = begun(text("I thi"))
    session.user([text("[Request interrupted by user]")])
    first = session.run(tmp_path)
    assert first.stop[:2] == ("aborted", 0)
    assert first.steps[0].response.finish_reason is None
    session.user("go on")
    session.say("m2", text())
    run = session.run(tmp_path)
    assert run.stop.reason == "finished"
    assert [step.turn for step in run.steps] == [1, 2]
    assert [(event.kind, event.payload["after_step"]) for event in run.events] == [("abort", 1)]


def test_api_error_is_no_step_and_ends_a_run_if_it_is_last(tmp_path: Path) -> None:
    session = begun(call("t1"))
    session.answer("t1")
    message = {"id": "x", "model": "<synthetic>", "content": [text("API Error: 529 Overloaded")], "usage": usage(0, 0)}
    session.line("assistant", message=message, isApiErrorMessage=True)
    run = session.run(tmp_path)
    assert (run.n_steps, run.stop[:2], run.error) == (1, ("error", 1), "API Error: 529 Overloaded")
    session.say("m2", text())
    run = session.run(tmp_path)
    assert (run.n_steps, run.stop[:2], run.error) == (2, ("finished", 1), None)
    assert [event.kind for event in run.events] == ["fault"]


def test_compaction_is_an_event_and_the_chain_continues(tmp_path: Path) -> None:
    session = Session()
    session.user("the task")
    tip = session.say("m1", text())
    session.parent = None
    facts = {"trigger": "auto", "preTokens": 167_117}
    session.line("system", subtype="compact_boundary", logicalParentUuid=tip, compactMetadata=facts)
    session.user("Summary.", isCompactSummary=True)
    session.user("next")
    session.say("m2", text())
    run = session.run(tmp_path)
    assert run.events[0].payload == {"after_step": 1, "trigger": "auto", "tokens": 167_117}
    assert [step.turn for step in run.steps] == [1, 2]
    assert run.inputs[0].message.text == "Summary."


def test_rewind_drops_the_branch_and_records_its_length(tmp_path: Path) -> None:
    session = Session()
    session.user("the task")
    tip = session.say("m1", text("one"))
    session.user("a bad idea")
    session.say("m2", call("t2"))
    session.answer("t2")
    session.say("m3", text("two"))
    session.parent = tip
    session.user("a better idea")
    session.say("m4", text("three"))
    run = session.run(tmp_path)
    assert [step.response.text for step in run.steps] == ["one", "three"]
    assert [step.index for step in run.steps] == [1, 2]
    assert [message.text for _, message in run.inputs] == ["a better idea"]
    assert [(event.kind, dict(event.payload)) for event in run.events] == [("rewind", {"after_step": 1, "steps": 2})]


@pytest.mark.slow
def test_a_long_tangle_of_branches_takes_no_longer_a_line(tmp_path: Path) -> None:
    def seconds(length: int) -> float:
        session = Session()
        session.user()
        first = session.say("m0", text("x"))
        for number in range(1, length):  # two chains of responses, in turns
            session.parent = f"u{number - 1}" if number > 2 else first
            session.say(f"m{number}", text("x"))
        for parent in ("u2", *[first] * (length // 10)):
            session.parent = parent
            session.user("again")
        start = time.process_time()
        assert session.run(tmp_path).n_steps == length
        return time.process_time() - start

    assert seconds(40_000) < 40 * seconds(4_000), "ten times if each line takes as long, a hundred if each looks at all"


def test_parallel_calls_fork_the_tree_and_are_no_rewinding(tmp_path: Path) -> None:
    session = Session()
    session.user("the task")
    one = session.say("m1", call("t1"))
    session.say("m1", call("t2"))
    session.parent = one
    session.answer("t1")
    session.answer("t2")
    session.parent = one
    session.user("go on")
    session.say("m2", text())
    assert session.run(tmp_path).n_tool_calls == 2


def test_subagents_within_a_session_are_runs_of_their_own(tmp_path: Path) -> None:
    session = Session()
    session.user("the task")
    tip = session.say("m1", call("t1", "Task"))
    session.parent = None
    session.user("look", isSidechain=True, agentId="a1")
    session.say("s1", text("looked"), isSidechain=True, agentId="a1", attributionAgent="explorer")
    session.parent = None
    session.user("an old one", isSidechain=True)
    session.say("s2", text("looked too"), isSidechain=True)
    session.parent = tip
    session.answer("t1")
    session.say("m2", text())
    main, first, second = read(session.write(tmp_path / f"{SESSION}.jsonl"))
    assert (main.n_steps, main.parent_run_id) == (2, None)
    assert (first.run_id, first.parent_run_id, first.agent, first.task) == (
        f"{SESSION}/a1",
        SESSION,
        "explorer",
        "look",
    )
    assert (second.parent_run_id, second.agent, second.task) == (SESSION, "subagent", "an old one")


def test_a_result_names_the_subagent_that_its_call_started(tmp_path: Path) -> None:
    session = begun(call("t1"))
    session.answer("t1")
    session.say("m2", call("t2", "Task"), call("t3", "Agent"), call("t4", "Task"))
    session.answer("t3", toolUseResult={"agentId": "a2", "totalToolUseCount": 3})
    session.answer("t2", toolUseResult={"agentId": "a1"})
    session.answer("t4", toolUseResult="Error: no such agent")
    session.say("m3", call("t5", "Task"))
    session.answer("t5", toolUseResult={"totalToolUseCount": 3})  # an older version, which gives no id
    session.say("m4", text())
    run = session.run(tmp_path)
    assert starts_of(run) == [Start(2, f"{run.run_id}/a1"), Start(2, f"{run.run_id}/a2"), Start(3, None)]


def test_of_older_sessions_the_call_has_the_subagents_prompt(tmp_path: Path) -> None:
    session = Session()
    session.user("the task")
    tip = session.say("m1", {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look"}})
    session.parent = None
    session.user("look", isSidechain=True)
    session.say("s1", text("looked"), isSidechain=True)
    session.parent = tip
    session.answer("t1", toolUseResult={"totalToolUseCount": 0})
    session.say("m2", text())
    main, child = read(session.write(tmp_path / f"{SESSION}.jsonl"))
    assert starts_of(main) == [Start(1, child.run_id)]


def test_subagent_file_belongs_to_the_session_of_its_folder(tmp_path: Path) -> None:
    agent = Session(isSidechain=True, agentId="a9", sessionId="agent-a9")
    agent.user("look")
    agent.say("s1", text())
    path = agent.write(tmp_path / SESSION / "subagents" / "agent-a9.jsonl")
    path.with_suffix(".meta.json").write_text('{"agentType": "general-purpose"}')
    (run,) = read(path)
    assert (run.run_id, run.parent_run_id, run.agent) == (f"{SESSION}/a9", SESSION, "general-purpose")
    assert read(agent.write(path.with_name("agent-acompact-1.jsonl"))) == []


def test_times_start_at_the_first_line_and_steps_at_the_request(tmp_path: Path) -> None:
    session = Session()
    session.user()  # 0 s
    session.say("m1", text(), call("t1"))  # 1 s, 2 s
    session.line("progress", data={"type": "hook_progress"})  # 3 s
    session.answer("t1", toolUseResult={"durationMs": 40})  # 4 s
    session.say("m2", text())  # 5 s
    run = session.run(tmp_path)
    assert [step[2:5] for step in run.steps] == [(0, 4_000, 2_000), (4_000, 1_000, 1_000)]
    assert (run.duration_ms, run.started_at) == (5_000, datetime(2026, 2, 1, 10, tzinfo=UTC))
    assert run.steps[0].results == (ToolResult("t1", "ok", is_error=False, duration_ms=40),)


def test_without_timestamps_times_are_unknown(tmp_path: Path) -> None:
    session = Session(timestamp=None)
    session.user()
    session.say("m1", text())
    run = session.run(tmp_path)
    assert (run.started_at, run.duration_ms, run.steps[0][2:5]) == (None, None, (None, None, None))


def test_lines_that_stand_twice_are_read_once(tmp_path: Path) -> None:
    session = begun(text("once"))
    session.lines += session.lines[:2]
    run = session.run(tmp_path)
    assert (run.n_steps, run.text, run.inputs) == (1, "once", ())


def test_stray_texts_for_lines_and_for_blocks_are_tolerated(tmp_path: Path) -> None:
    session = Session()
    session.user(["the task", {"type": "image", "source": {}}])
    session.line("assistant", message={"id": "m1", "content": ["a bare text"], "model": "claude-x"})
    session.line("assistant", message={"id": "m2", "content": "another", "model": "claude-x"})
    path = write(tmp_path / "a.jsonl", ["a bare line", *session.lines])
    (run,) = read(path)
    assert [step.response.text for step in run.steps] == ["a bare text", "another"]
    assert run.prompt[0].text == "the task\n[image]"


@pytest.mark.parametrize(
    ("said", "expected"),
    [("end_turn", "stop"), ("tool_use", "tool_calls"), ("max_tokens", "length"), ("refusal", "content_filter")],
)
def test_a_stop_reason_that_is_given_is_translated(tmp_path: Path, said: str, expected: str) -> None:
    session = Session()
    session.user()
    session.say("m1", text(), stop=said)
    assert session.run(tmp_path).steps[0].response.finish_reason == expected


def test_an_interrupted_tool_without_a_flag_failed(tmp_path: Path) -> None:
    session = begun(call("t1"))
    session.answer("t1", toolUseResult={"interrupted": True})
    (step,) = session.run(tmp_path).steps
    assert step.results[0] is not None
    assert step.results[0].is_error is True


def cut(tmp_path: Path) -> tuple[Path, list[Run]]:
    session = begun(call("t1"))
    session.answer("t1")
    session.say("m2", text("lost"))
    path = session.write(tmp_path / "cut.jsonl")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.warns(ReadWarning, match=r"cut\.jsonl:4: the file ends in the middle of a value; skipped"):
        return path, read(path)


def test_session_cut_within_a_line_keeps_earlier_steps(tmp_path: Path) -> None:
    _, (run,) = cut(tmp_path)
    assert (run.n_steps, run.stop[:2]) == (1, ("aborted", 1))


def test_a_line_that_is_no_json_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    session = begun()
    path = session.write(tmp_path / "a.jsonl")
    path.write_text(path.read_text().replace("\n", "\n{broken}\n", 1) + "[" * 500 + "\n")
    with pytest.warns(ReadWarning) as caught:
        (run,) = read(path)
    assert [str(one.message).removeprefix(str(path))[:18] for one in caught] == [
        ":2: not valid JSON",
        ":4: not valid JSON",
    ]
    assert run.n_steps == 1


def test_a_session_of_nothing_but_damage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"type": "user"\n')
    with pytest.raises(RunFormatError, match="nothing else in it can be read") as caught:
        read(path)
    assert caught.value.line == 1


def test_a_session_without_prompt_or_response_holds_no_run(tmp_path: Path) -> None:
    summary = {"type": "summary", "summary": "What it was about", "leafUuid": "u9"}
    path = write(tmp_path / "a.jsonl", [summary])
    assert sniff(Head(path.read_bytes(), path))
    assert read(path) == []


def test_a_prompt_without_response_is_a_run_without_steps(tmp_path: Path) -> None:
    session = Session()
    session.user("the task")
    run = session.run(tmp_path)
    assert (run.n_steps, run.task, run.stop[:2]) == (0, "the task", ("aborted", 0))


def test_half_a_line_that_is_longer_than_the_head_is_recognised() -> None:
    line = json.dumps({"type": "user", "sessionId": "s", "parentUuid": None, "message": {"content": "x" * 99}})
    assert sniff(Head(line[:-20].encode(), Path("a.jsonl")))


def test_of_usage_that_shrinks_the_largest_counts(tmp_path: Path) -> None:
    session = Session()
    session.user()
    session.say("m1", text(), usage=usage(3, 57))
    session.say("m1", text(), usage=usage(3, 1))
    assert session.run(tmp_path).steps[0].response.usage == Usage(3, 57, 0, cache_write_tokens=0)


def test_blocks_of_nothing_but_white_space_say_nothing(tmp_path: Path) -> None:
    session = begun(text("\n\n"), {"type": "thinking", "thinking": ""}, text("Yes."))
    response = session.run(tmp_path).steps[0].response
    assert (response.text, response.reasoning) == ("Yes.", "")


def test_prompt_sent_during_an_answer_keeps_both_turns(tmp_path: Path) -> None:
    session = Session()
    first = session.user("the task")
    session.say("m1", text("one"))
    session.parent = first
    session.user("and this")
    session.say("m2", text("two"))
    assert [step.turn for step in session.run(tmp_path).steps] == [1, 2]


def test_a_message_that_came_in_during_the_work_begins_no_turn(tmp_path: Path) -> None:
    session = begun(call("t1"))
    session.line("attachment", attachment={"type": "queued_command", "prompt": "faster"})
    session.user([{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}, text("a word more")])
    session.say("m2", text())
    run = session.run(tmp_path)
    assert [step.turn for step in run.steps] == [1, 1]
    assert [message.text for _, message in run.inputs] == ["faster", "a word more"]


def test_command_between_prompt_and_answer_keeps_the_new_turn(tmp_path: Path) -> None:
    session = begun(call("t1"))
    session.user("another task")
    session.user("<command-name>/model</command-name>")
    session.say("m2", text())
    assert [step.turn for step in session.run(tmp_path).steps] == [1, 2]


def test_interruption_before_an_answer_keeps_last_turn_finished(tmp_path: Path) -> None:
    session = begun()
    session.user("another task")
    session.user([text("[Request interrupted by user]")])
    run = session.run(tmp_path)
    assert run.steps[0].response.finish_reason == "stop"
    assert run.stop[:2] == ("aborted", 0)


def test_a_response_that_broke_off_was_aborted(tmp_path: Path) -> None:
    session = Session()
    session.user()
    session.say("m1", text("half a"), isAbortedMidStream=True)
    run = session.run(tmp_path)
    assert (run.stop.reason, run.steps[0].response.finish_reason) == ("aborted", None)


def test_session_is_named_by_its_lines_or_else_by_its_file(tmp_path: Path) -> None:
    session = begun()
    (run,) = read(session.write(tmp_path / "copy.jsonl"))
    assert run.run_id == SESSION
    nameless = Session(sessionId=None)
    nameless.user()
    (run,) = read(nameless.write(tmp_path / "copy.jsonl"))
    assert run.run_id == "copy"
    resumed = Session()
    resumed.user(sessionId="an-older-one")
    resumed.user()
    assert resumed.run(tmp_path).run_id == SESSION


def test_a_response_before_any_prompt_has_no_known_latency(tmp_path: Path) -> None:
    session = Session()
    session.say("m1", text(), text())
    (step,) = session.run(tmp_path).steps
    assert step[2:5] == (0, 1_000, None)


def test_an_agent_called_by_an_agent_has_an_id_of_its_own(tmp_path: Path) -> None:
    session = Session(isSidechain=True)
    session.user("look", agentId="a1")
    session.say("s1", call("t1", "Task"), agentId="a1")
    session.user("look closer", agentId="a2")
    session.say("s2", text(), agentId="a2")
    session.say("c1", text(), agentId="acompact-1")
    runs = read(session.write(tmp_path / "a.jsonl"))
    assert [run.run_id for run in runs] == [f"{SESSION}/a1", f"{SESSION}/a2"]


OTHER = "9e9e9e9e-1111-4222-8333-555555555555"


def mixed(one: Session, two: Session) -> list[dict[str, Any]]:
    """The lines of two sessions, turn and turn about."""
    for line in two.lines:  # each session has uuids of its own
        line |= {"uuid": f"v{line['uuid']}", "parentUuid": line["parentUuid"] and f"v{line['parentUuid']}"}
    return [line for pair in zip_longest(one.lines, two.lines) for line in pair if line is not None]


def worked(task: str, steps: int, **always: Any) -> Session:
    session = Session(**always)
    session.user(task)
    for n in range(steps):
        session.say(f"m{n}", call(f"t{n}"))
        session.answer(f"t{n}", task)
    session.say("last", text(f"{task} is done"))
    return session


def test_two_sessions_whose_lines_are_mixed_are_two_runs(tmp_path: Path) -> None:
    one, two = worked("first", 2), worked("second", 4, sessionId=OTHER)
    first, second = read(write(tmp_path / f"{SESSION}.jsonl", mixed(one, two)))
    assert [(run.run_id, run.task, run.n_steps, run.n_tool_calls) for run in (first, second)] == [
        (SESSION, "first", 3, 2),
        (OTHER, "second", 5, 4),
    ]
    assert {result.content for step in second.steps for result in step.results if result} == {"second"}
    assert (first.stop_reason, second.stop_reason, second.parent_run_id) == ("finished", "finished", None)


def test_subagents_of_mixed_sessions_belong_to_their_own(tmp_path: Path) -> None:
    one, two = worked("first", 1), worked("second", 1, sessionId=OTHER)
    two.parent = None
    two.user("look", isSidechain=True, agentId="a1")
    two.say("s1", text("looked"), isSidechain=True, agentId="a1")
    runs = read(write(tmp_path / "mixed.jsonl", mixed(one, two)))
    assert [(run.run_id, run.parent_run_id) for run in runs] == [
        (SESSION, None),
        (OTHER, None),
        (f"{OTHER}/a1", OTHER),
    ]


def test_resumed_session_with_an_older_first_id_is_one_run(tmp_path: Path) -> None:
    session = Session(sessionId=OTHER)
    session.user("the task")
    session.say("m1", text("first"))
    session.always["sessionId"] = SESSION
    session.user("go on")
    session.say("m2", text("second"))
    session.parent = None  # as after a line that is not in the file
    session.user("and on")
    session.say("m3", text("third"))
    run = session.run(tmp_path)
    assert (run.run_id, run.n_steps, run.task) == (SESSION, 3, "the task")


NOTED = (
    "NOTE: this agent stopped at its 2-turn limit before finishing. It was still calling tools and had produced no "
    "report. Send the agent a message (SendMessage) to let it continue from where it stopped."
)

LISTED = "  <tools-used-before-summary>Bash, Read</tools-used-before-summary>\n  \n  "
"""What 2.1.330 writes in front."""


def notified(owner: str, call_id: str, outcome: str) -> str:
    """A notification as the harness writes it when a subagent in the background has stopped."""
    return (
        f"<task-notification>\n<task-id>{owner}</task-id>\n<tool-use-id>{call_id}</tool-use-id>\n"
        f'<status>completed</status>\n<summary>Agent "look" {outcome}</summary>\n</task-notification>'
    )


LIMITED = notified("a1", "t1", "stopped at its 2-turn limit (partial result; SendMessage to task-id to continue)")
FINISHED = notified("a1", "t1", "finished")


def delegated(folder: Path, *told: str, inside: bool = False, answer: str = "launched") -> list[Run]:
    """The runs of a session whose call t1 started the subagent a1, and of the subagent, which made two steps."""
    session = Session()
    session.user("the task")
    session.say("m1", call("t1", "Agent", prompt="look"))
    tip = session.parent
    agent = session if inside else Session(isSidechain=True, agentId="a1")
    more: dict[str, Any] = {"isSidechain": True, "agentId": "a1"} if inside else {}
    agent.parent = None
    agent.user("look", **more)
    for n in range(2):
        agent.say(f"s{n}", call(f"c{n}"), **more)
        agent.answer(f"c{n}", **more)
    session.parent = tip
    done = {} if answer == "launched" else {"totalToolUseCount": 2}
    session.answer("t1", answer, toolUseResult={"agentId": "a1", "status": "completed", **done})
    for one in told:
        session.user(one)
    session.say("m2", text())
    runs = read(session.write(folder / f"{SESSION}.jsonl"))
    if inside:
        return runs
    return [*runs, *read(agent.write(folder / SESSION / "subagents" / "agent-a1.jsonl"))]


@pytest.mark.parametrize("inside", [True, False], ids=["in the session", "in a file of its own"])
@pytest.mark.parametrize(
    ("answer", "told"),
    [(NOTED, ()), (LISTED + NOTED, ()), ("launched", (LIMITED,)), ("launched", (FINISHED, LIMITED))],
    ids=["by the result", "behind a list of tools", "by a notification", "by the last of two notifications"],
)
def test_a_subagent_that_its_turn_limit_stopped_was_cut(
    tmp_path: Path, answer: str, told: tuple[str, ...], inside: bool
) -> None:
    parent, child = delegated(tmp_path, *told, inside=inside, answer=answer)
    assert (child.stop_reason, child.censored, child.n_steps) == ("step_cap", True, 2)
    assert (child.stop.rule, child.stop.threshold, child.stop.value) == ("maxTurns(2)", 2, 2)
    assert dict(child.limits) == {"steps": 2}
    assert (parent.stop_reason, dict(parent.limits)) == ("finished", {})
    assert [event.payload["what"] for event in parent.events if event.kind == "fault"] == [
        "the subagent a1 was stopped at its limit of 2 turns: its result is partial"
    ]


@pytest.mark.parametrize("inside", [True, False], ids=["in the session", "in a file of its own"])
@pytest.mark.parametrize(
    ("answer", "told"),
    [("Two tests do.", ()), ("launched", (LIMITED, FINISHED)), ('The log says "stopped at its 2-turn limit"', ())],
    ids=["it finished", "it was sent on and finished", "it quotes"],
)
def test_a_subagent_that_ended_otherwise_was_not(
    tmp_path: Path, answer: str, told: tuple[str, ...], inside: bool
) -> None:
    _, child = delegated(tmp_path, *told, inside=inside, answer=answer)
    assert (child.stop.rule, dict(child.limits)) == (None, {})
    assert child.stop_reason == "aborted"  # its last response asks for tools


def test_session_at_its_turn_limit_is_capped_unless_it_continues(tmp_path: Path) -> None:
    session = worked("the task", 2)
    session.lines.pop()
    session.line("attachment", attachment={"type": "max_turns_reached", "maxTurns": 2, "turnCount": 3})
    run = session.run(tmp_path)
    assert (run.stop, dict(run.limits)) == (("step_cap", 2, "maxTurns(2)", 2, 2, ()), {"steps": 2})
    session.user("go on")
    session.say("m9", text())
    assert (session.run(tmp_path).stop_reason, dict(session.run(tmp_path).limits)) == ("finished", {})


def workflow(folder: Path, result: dict[str, Any], agents: Sequence[str] = ("aa", "bb", "acompact-1")) -> list[Run]:
    """A session that started a workflow, with the files of its subagents."""
    call = {"type": "tool_use", "id": "w1", "name": "Workflow", "input": {"name": "review"}}
    given = {"type": "tool_result", "tool_use_id": "w1", "content": "launched"}
    session = {"sessionId": "s1", "version": "2.1.207"}
    write_lines(
        folder / "s1.jsonl",
        {**session, "type": "user", "uuid": "u1", "message": {"role": "user", "content": "Review"}},
        {**session, "type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": {"id": "m1", "content": "Hm"}},
        {**session, "type": "assistant", "uuid": "a2", "parentUuid": "a1", "message": {"id": "m2", "content": [call]}},
        {
            **session,
            "type": "user",
            "uuid": "u2",
            "parentUuid": "a2",
            "message": {"role": "user", "content": [given]},
            "toolUseResult": result,
        },
        {**session, "type": "assistant", "uuid": "a3", "parentUuid": "u2", "message": {"id": "m3", "content": "Ok"}},
    )
    home = folder / "s1" / "subagents" / "workflows" / "wf_1"
    home.mkdir(parents=True)
    for agent in agents:
        side = {**session, "isSidechain": True, "agentId": agent}
        write_lines(
            home / f"agent-{agent}.jsonl",
            {**side, "type": "user", "uuid": f"u{agent}", "message": {"role": "user", "content": f"Check {agent}"}},
            {**side, "type": "assistant", "uuid": f"a{agent}", "parentUuid": f"u{agent}",
             "message": {"id": f"m{agent}", "content": "Fine"}},
        )  # fmt: skip
    return load_runs(folder, prices=False)


def test_subagents_of_a_workflow_have_the_step_that_started_it(tmp_path: Path) -> None:
    started = {"status": "async_launched", "taskType": "local_workflow", "runId": "wf_1", "transcriptDir": "/x/wf_1"}
    frame = runs_df(workflow(tmp_path, started)).set_index("run_id")
    assert frame["parent_step"].dropna().to_dict() == {"s1/aa": 2, "s1/bb": 2}
    assert frame["parent_run_id"].dropna().to_dict() == {"s1/aa": "s1", "s1/bb": "s1"}


@pytest.mark.parametrize("name", ["../workflows/wf_1", "wf_2", "", "..", "/", 3])
def test_a_workflow_without_a_folder_of_its_name_starts_nobody(name: object, tmp_path: Path) -> None:
    frame = runs_df(workflow(tmp_path, {"taskType": "local_workflow", "runId": name}))
    assert frame["parent_step"].isna().all()
    assert frame["parent_run_id"].notna().sum() == 2
