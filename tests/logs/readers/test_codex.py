"""Rollouts of Codex."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.run_tree import Start, starts_of
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning
from boolab.logs.load import load_runs
from tests.support.readers import only, reader_of, write_lines
from tests.support.samples import own, shared

read = reader_of("codex")

META = {"type": "session_meta", "payload": {"id": "s1"}}


def item(kind: str, **more: Any) -> dict[str, Any]:
    return {"timestamp": "2026-04-05T08:00:00Z", "type": "response_item", "payload": {"type": kind, **more}}


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"timestamp": "2026-04-05T08:00:00Z", "type": "event_msg", "payload": {"type": kind, **more}}


def user(said: str = "Hello") -> dict[str, Any]:
    return item("message", role="user", content=[{"type": "input_text", "text": said}])


def says(said: str = "Done.") -> dict[str, Any]:
    return item("message", role="assistant", content=[{"type": "output_text", "text": said}])


def asks(call: str = "c1", **more: Any) -> dict[str, Any]:
    return item("function_call", name="shell", arguments='{"command":["ls"]}', call_id=call, **more)


def gives(output: object = "a.py", call: str = "c1") -> dict[str, Any]:
    return item("function_call_output", call_id=call, output=output)


def count(entered: int, total: int, **more: int) -> dict[str, Any]:
    last = {"input_tokens": entered, "output_tokens": 5, **more}
    return event("token_count", info={"total_token_usage": {"total_tokens": total}, "last_token_usage": last})


def write(folder: Path, *lines: object) -> Path:
    return write_lines(folder / "rollout-x.jsonl", *lines)


def one(folder: Path, *lines: object) -> Run:
    return only(read(write(folder, META, *lines)))


def tokens(run: Run) -> int:
    return sum((step.response.usage.input_tokens or 0) + (step.response.usage.output_tokens or 0) for step in run.steps)


def failed(run: Run) -> list[bool | None]:
    return [result.is_error for step in run.steps for result in step.results if result is not None]


def test_the_real_rollout_holds_its_own_total() -> None:
    (run,) = load_runs(shared("agtrace/samples/codex_session.jsonl"))
    assert (run.n_steps, run.n_tool_calls, run.steps[-1].turn) == (7, 5, 2)
    assert failed(run) == [False, False, True, True, False]
    assert tokens(run) == 27_148
    assert sum(step.response.usage.reasoning_tokens or 0 for step in run.steps) == 128
    assert run.stop[:2] == ("finished", 3)


def test_a_rollout_of_two_turns() -> None:
    (run,) = load_runs(own("codex/rollout-commands.jsonl"))
    assert (run.source, run.agent, run.model) == ("codex", "codex", "acme-codex-mini")
    assert (run.run_id, run.parent_run_id) == ("11110000-0000-7000-8000-000000000001", None)
    assert run.task == "Why does the invoice test fail?"
    assert [step.turn for step in run.steps] == [1, 1, 1, 2, 2, 2, 2]
    assert [len(step.response.tool_calls) for step in run.steps] == [2, 1, 1, 1, 1, 1, 2]
    assert failed(run) == [True, False, False, None, False, True, True, True]
    assert {step.response.finish_reason for step in run.steps} == {None}
    assert run.stop == ("aborted", 3, None, None, None, ())
    assert [(event.kind, dict(event.payload)) for event in run.events] == [
        ("compaction", {"after_step": 3}),
        ("abort", {"after_step": 7, "what": "interrupted"}),
    ]


def test_usage_report_counts_once_and_compaction_usage_never() -> None:
    (run,) = read(own("codex/rollout-commands.jsonl"))
    assert [step.response.usage for step in run.steps] == [
        Usage(1000, 90, 0, 50),
        Usage(1200, 40, 1000, 0),
        Usage(1300, 30, 1200, 0),
        Usage(600, 20, 0, 5),
        Usage(640, 10, 600, 0),
        Usage(700, 12, 640, 0),
        UNKNOWN_USAGE,
    ]


def test_what_codex_puts_in_itself_opens_no_turn_and_is_no_task() -> None:
    (run,) = read(own("codex/rollout-commands.jsonl"))
    assert [message.role for message in run.prompt] == ["system", "user", "user", "user"]
    assert [(before, message.text.split("\n")[0]) for before, message in run.inputs] == [
        (4, "Run all tests"),
        (4, "The invoice test failed; rounding was mended."),
        (6, "Warning: the maximum number of processes is near"),
        (8, "<turn_aborted>"),
    ]


def test_times_come_from_lines_and_durations_from_tools() -> None:
    (run,) = read(own("codex/rollout-commands.jsonl"))
    first = run.steps[0]
    assert (first.start_ms, first.model_ms, first.duration_ms) == (1000, 4500, 6500)
    took = [result.duration_ms for step in run.steps for result in step.results if result is not None]
    assert took == [1500, 100, 400, None, 1000, 500, 250, None]
    assert run.duration_ms == 33_000


def test_names_and_arguments_are_those_that_the_model_sent() -> None:
    (run,) = read(own("codex/rollout-commands.jsonl"))
    calls = [call for step in run.steps for call in step.response.tool_calls]
    assert [call.name for call in calls[2:6]] == ["apply_patch", "web_search", "exec_command", "write_stdin"]
    assert calls[6].name == "mcp__tracker__issues"
    assert json.loads(calls[2].arguments) == {"input": "*** Begin Patch\n*** Update File: invoice.py\n*** End Patch"}
    assert calls[0].arguments == '{"command":"pytest -q tests/test_invoice.py"}'


def test_a_call_without_a_result_was_dropped() -> None:
    (run,) = read(own("codex/rollout-commands.jsonl"))
    assert [call.id for call in run.steps[-1].dropped] == ["c8"]


def test_provider_search_does_not_keep_a_run_from_finishing(tmp_path: Path) -> None:
    search = item("web_search_call", status="completed", action={"type": "search", "query": "x"})
    run = one(tmp_path, user(), search, says())
    assert (run.n_steps, run.n_tool_calls, run.stop.reason) == (1, 1, "finished")
    assert failed(run) == [None]
    under_way = item("web_search_call", status="in_progress", action={})
    assert one(tmp_path, user(), under_way).n_tool_calls == 0


def test_a_spawned_agent_is_named_by_the_result_of_its_call(tmp_path: Path) -> None:
    spawn = item("function_call", name="spawn_agent", arguments='{"message":"look"}', call_id="c2")
    run = one(tmp_path, user(), asks(), gives(), spawn, gives('{"agent_id":"t-2"}', "c2"), says())
    assert starts_of(run) == [Start(2, "t-2")]
    failed_to = one(tmp_path, user(), spawn, gives("no such agent", "c2"), says())
    assert starts_of(failed_to) == []


def test_a_subagent_names_the_run_that_it_belongs_to() -> None:
    (run,) = load_runs(own("codex/rollout-subagent.jsonl"))
    assert (run.agent, run.parent_run_id) == ("explorer", "11110000-0000-7000-8000-000000000001")
    assert run.task == "Find where invoices are rounded"
    assert [call.name for step in run.steps for call in step.response.tool_calls] == ["local_shell", "tool_search"]
    assert failed(run) == [False, None]


def test_turns_that_were_rolled_back_are_left_behind() -> None:
    (run,) = read(own("codex/rollout-subagent.jsonl"))
    assert [step.response.text for step in run.steps] == ["", "", "Let me think", "In line 4"]
    assert [step.turn for step in run.steps] == [1, 1, 1, 2]
    assert [(before, message.text) for before, message in run.inputs] == [(4, "Look in prices.py")]
    assert ("rewind", {"after_step": 3, "steps": 1}) in [(event.kind, dict(event.payload)) for event in run.events]


def test_a_session_that_spent_its_budget_was_stopped_by_it() -> None:
    (run,) = read(own("codex/rollout-subagent.jsonl"))
    assert (run.stop[:3], run.error, dict(run.limits)) == (("token_budget", 0, None), None, {})
    kinds = [event.kind for event in run.events]
    assert kinds == ["fault", "rewind", "retry", "fault"]


def test_events_are_read_where_no_item_is_of_the_model() -> None:
    (run,) = load_runs(own("codex/rollout-review.jsonl"))
    (step,) = run.steps
    assert (run.agent, run.parent_run_id, run.task) == ("review", None, "Review the changes")
    assert (step.response.text, step.response.reasoning) == ("The rounding is right.", "Only one file was changed.")
    assert (run.stop.reason, run.model) == ("finished", "acme-codex")


@pytest.mark.parametrize(("name", "steps"), [("rollout-bare.jsonl", 3), ("rollout-first.json", 2)])
def test_older_layouts_hold_bare_items(name: str, steps: int) -> None:
    (run,) = load_runs(own(f"codex/{name}"))
    assert (run.n_steps, run.task, run.stop.reason) == (steps, "List the files", "finished")
    assert {step.start_ms for step in run.steps} == {None}
    assert [result and result.parse_error for result in run.steps[0].results] == [True]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("Process exited with code 0\nOutput:\n", False),
        ("Output:\nExit code: 1", None),
        ("Chunk ID: 9\nWall time: 1.0014 seconds\nProcess running with session ID 77\nOutput:\n", False),
        ("Process running with session ID 3\nOutput:\n", False),
        ("Process running with session ID 3\nProcess exited with code 1\nOutput:\n", True),
        ("write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true", True),
        ("write_stdin failed: Unknown process id 12", True),
        ("failed to parse function arguments: missing field `cmd` at line 1 column 2", True),
        ('exec_command failed for `/bin/bash -lc ls`: CreateProcess { message: "Rejected" }', True),
        ("apply_patch verification failed: Failed to find expected lines in /a.py", True),
        ("unsupported call: frobnicate", True),
        ("unsupported custom tool call: frobnicate", True),
        ("tool apply_patch invoked with incompatible payload", True),
        ("execution error: Io(Os { code: 2 })", True),
        ("collab spawn failed: agent thread limit reached", True),
        ("unable to locate image at `/a.png`: No such file", True),
        ("Script failed\nWall time 0.1 seconds\nOutput:\n", True),
        ("Script completed\nWall time 0.1 seconds\nOutput:\n", False),
        ("Script running with cell ID 3\n", False),
        ("Plan updated", False),
        ("Success. Updated the following files:\nM a.py\n", False),
        ("The build says: exec_command failed for me", None),
        ("Plan updated by hand", None),
        ("aborted by user after 2.0s", True),
        ("Error: no", None),
        ({"content": "x", "success": False}, True),
        ([{"type": "input_text", "text": "Exit code: 3\n"}], True),
        ('{"output":"x","metadata":{"exit_code":0}}', False),
        ('{"output":"x","metadata":{"exit_code":true}}', None),
        ('{"output":', None),
        (None, None),
    ],
)
def test_only_what_codex_wrote_itself_tells_of_errors(tmp_path: Path, output: object, told: bool | None) -> None:
    assert failed(one(tmp_path, user(), asks(), gives(output))) == [told]


def test_events_tell_how_a_command_ended_whose_output_does_not(tmp_path: Path) -> None:
    end = event("exec_command_end", call_id="c1", exit_code=3, duration={"secs": 2, "nanos": 500_000_000})
    run = one(tmp_path, user(), asks(), end, gives("boom"))
    assert [(result.is_error, result.duration_ms) for result in run.steps[0].results if result] == [(True, 2500)]


def test_exact_time_of_an_event_precedes_the_rounded_one(tmp_path: Path) -> None:
    end = event("exec_command_end", call_id="c1", exit_code=0, duration={"secs": 2, "nanos": 512_000_000})
    run = one(tmp_path, user(), asks(), end, gives("Exit code: 0\nWall time: 2.5 seconds\nOutput:\na.py"))
    assert [result.duration_ms for result in run.steps[0].results if result] == [2512]


def test_end_event_sets_status_only_if_the_result_gives_none(tmp_path: Path) -> None:
    end = event("exec_command_end", call_id="c1", exit_code=3)
    assert failed(one(tmp_path, user(), asks(), end, gives("Exit code: 0\n"))) == [False]
    assert failed(one(tmp_path, user(), asks(), end, gives("x"), asks(), gives("y"))) == [True, None]
    served = event("mcp_tool_call_end", call_id="c1", result={"Ok": {"content": []}})
    assert failed(one(tmp_path, user(), asks(), served, gives("x"))) == [False]


def test_a_prompt_that_only_begins_with_a_tag_is_the_users(tmp_path: Path) -> None:
    run = one(tmp_path, user(), says(), user("<div> stands open, mend it"), says())
    assert [step.turn for step in run.steps] == [1, 2]


def test_message_given_by_item_and_event_is_read_once(tmp_path: Path) -> None:
    told = event("user_message", message="Hello")
    for lines in ([user(), told], [told, user()]):
        run = one(tmp_path, *lines, says(), *lines, says())
        assert ([step.turn for step in run.steps], len(run.prompt), len(run.inputs)) == ([1, 2], 1, 1)


def test_tagged_prompt_opens_a_turn_if_an_event_confirms_it(tmp_path: Path) -> None:
    tagged = "<div>mend this</div>"
    told = event("user_message", message=tagged)
    assert [step.turn for step in one(tmp_path, user(), says(), user(tagged), says()).steps] == [1, 1]
    assert [step.turn for step in one(tmp_path, user(), says(), user(tagged), told, says()).steps] == [1, 2]


def test_a_usage_report_ends_a_response(tmp_path: Path) -> None:
    run = one(tmp_path, user(), says("a"), count(10, 15), count(10, 15), says("b"), count(20, 40))
    assert [step.response.usage.input_tokens for step in run.steps] == [10, 20]
    run = one(tmp_path, user(), says("a"), count(0, 0), says("b"))
    assert [step.response.usage for step in run.steps] == [UNKNOWN_USAGE]


def test_usage_report_before_its_response_belongs_to_it(tmp_path: Path) -> None:
    """As versions up to the end of 2025 write it."""
    first, second, third = count(10, 15), count(20, 40), count(30, 75)
    run = one(tmp_path, user(), first, asks(), gives(), second, second, asks(), gives(), third, says())
    assert [step.response.usage.input_tokens for step in run.steps] == [10, 20, 30]
    run = one(tmp_path, user(), first, says(), event("turn_aborted"), user("On"), second, says())
    assert [step.response.usage.input_tokens for step in run.steps] == [10, 20]


def test_a_usage_report_of_a_compaction_belongs_to_no_step(tmp_path: Path) -> None:
    compacted = {"type": "compacted", "payload": {"message": "x"}}
    run = one(tmp_path, user(), asks(), count(10, 15), gives(), count(70, 90), compacted, says())
    assert [step.response.usage.input_tokens for step in run.steps] == [10, None]
    run = one(tmp_path, user(), asks(), count(10, 15), gives(), compacted, count(70, 90), says(), count(20, 115))
    assert [step.response.usage.input_tokens for step in run.steps] == [10, 20]


@pytest.mark.parametrize(
    ("last", "reason", "error"),
    [
        (event("turn_aborted", reason="interrupted"), "aborted", None),
        (event("turn_aborted", reason="budget_limited"), "token_budget", None),
        (event("error", message="no quota"), "error", "no quota"),
        (event("task_complete", error={"message": "broke"}), "error", "broke"),
        (event("task_complete", error=None), "finished", None),
        (user("<turn_aborted>x</turn_aborted>"), "aborted", None),
        (event("warning", message="?"), "finished", None),
    ],
)
def test_what_happened_last_decides_how_it_ended(
    tmp_path: Path, last: dict[str, Any], reason: str, error: str | None
) -> None:
    run = one(tmp_path, user(), says(), last)
    assert (run.stop.reason, run.error) == (reason, error)


def test_the_end_of_a_task_ends_a_response(tmp_path: Path) -> None:
    for kind in ("task_complete", "turn_aborted", "error", "thread_rolled_back"):
        assert one(tmp_path, user(), says("a"), event(kind), says("b")).n_steps == 1 + (kind != "thread_rolled_back")


def test_a_run_that_waits_for_a_result_was_aborted(tmp_path: Path) -> None:
    assert one(tmp_path, user(), asks()).stop[:2] == ("aborted", 0)
    assert one(tmp_path, user()).stop[:2] == ("aborted", 0)


def test_a_rollback_past_the_beginning_leaves_nothing(tmp_path: Path) -> None:
    run = one(tmp_path, user(), says(), event("thread_rolled_back", num_turns=9), user("Anew"), asks())
    assert ([message.text for message in run.prompt], run.n_steps, run.stop.reason) == (["Anew"], 1, "aborted")


def test_of_a_file_that_was_cut_nobody_knows_how_it_ended(tmp_path: Path) -> None:
    path = write(tmp_path, META, user(), says(), says("and this"))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(ReadWarning, match=":4: the file ends in the middle of a value"):
        (run,) = load_runs(path)
    assert run.stop.reason == "aborted"


def test_a_header_alone_is_no_run(tmp_path: Path) -> None:
    assert read(write(tmp_path, META)) == []


def report(entered: int, total: int) -> dict[str, Any]:
    figures = [{"input_tokens": figure, "output_tokens": 0} for figure in (total, entered)]
    return event("token_count", info=dict(zip(("total_token_usage", "last_token_usage"), figures, strict=True)))


def test_a_running_total_tells_what_an_aborted_response_took(tmp_path: Path) -> None:
    aborted = [says("b"), event("turn_aborted"), user("On")]
    nothing = one(tmp_path, user(), says("a"), report(10, 10), *aborted, says("c"), report(20, 30))
    assert [step.response.usage.input_tokens for step in nothing.steps] == [10, 0, 20]
    rest = one(tmp_path, user(), says("a"), report(10, 10), *aborted, says("c"), report(20, 37))
    assert [step.response.usage.input_tokens for step in rest.steps] == [10, 7, 20]
    again = one(tmp_path, user(), says("a"), report(10, 10), says("b"), event("turn_aborted"), report(10, 10))
    assert [step.response.usage.input_tokens for step in again.steps] == [10, 0]


def test_an_aborted_response_stays_unknown_without_a_total(tmp_path: Path) -> None:
    last = one(tmp_path, user(), says("a"), report(10, 10), says("b"), event("turn_aborted"))
    assert [step.response.usage.input_tokens for step in last.steps] == [10, None]
    first = one(tmp_path, user(), says("a"), event("turn_aborted"), user("On"), says("b"), report(20, 20))
    assert [step.response.usage.input_tokens for step in first.steps] == [None, 20]
    fallen = one(tmp_path, user(), says("a"), report(50, 50), says("b"), event("turn_aborted"), user("On"), says("c"),
                 report(20, 20))  # fmt: skip
    assert [step.response.usage.input_tokens for step in fallen.steps] == [50, None, 20]
