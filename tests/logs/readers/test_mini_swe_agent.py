"""Runs of mini-swe-agent."""

import json
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.fields import Head
from boolab.logs.readers.mini_swe_agent import sniff
from tests.support.readers import fates, reader_of
from tests.support.samples import own

read = reader_of("mini_swe_agent")

HEAD = 65_536


def asks(*commands: str, **extra: Any) -> dict[str, Any]:
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        for i, command in enumerate(commands)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls, "extra": extra}


def gives(call: str, said: str = "<returncode>0</returncode>", **extra: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": said, "extra": extra}


def says(said: str) -> dict[str, Any]:
    return {"role": "assistant", "content": said}


def user(said: str, **extra: Any) -> dict[str, Any]:
    return {"role": "user", "content": said} | ({"extra": extra} if extra else {})


def write(folder: Path, *messages: Any, info: Any = None, name: str = "repo-1.traj.json", **more: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"info": {} if info is None else info, "messages": [user("Fix it"), *messages]}
    path.write_text(json.dumps(document | {"trajectory_format": "mini-swe-agent-1.1"} | more))
    return path


def only(path: Path) -> Run:
    (run,) = read(path)
    return run


def test_the_sample_with_tool_calls() -> None:
    run = only(own("mini_swe_agent/tool-calls.traj.json"))
    assert (run.n_steps, run.n_tool_calls, run.task) == (5, 6, "tower__bell-7")
    assert fates(run) == [[False, True], [], [False, True, "dropped"], [False], [None]]
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "stop", *["tool_calls"] * 3]
    assert [step.response.text for step in run.steps] == [
        "I look at two files.",
        "The bell is fine.",
        "",
        "I mend it.",
        "Done.",
    ]
    assert run.steps[0].response.reasoning == "Perhaps a loop."
    assert [step.response.usage for step in run.steps] == [
        Usage(900, 40, None, None, 2_000),
        Usage(1_000, 15, None, None, None),
        Usage(1_100, 30, 512, 8, 3_500),
        Usage(1_300, 25, 1_024, 0, 3_000),
        Usage(1_400, 20, 1_280, 0, None),
    ]
    assert run.stop[:3] == ("finished", 5, None)
    assert (run.agent, run.model, dict(run.limits)) == (
        "mini_swe_agent",
        "acme/coder-1",
        {"steps": 50, "cost": 3_000_000},
    )
    assert {step.turn for step in run.steps} == {1}


def test_times_are_those_of_the_messages() -> None:
    run = only(own("mini_swe_agent/tool-calls.traj.json"))
    assert [step.start_ms for step in run.steps] == [0, 1_500, 4_000, 71_000, 80_500]
    assert [step.duration_ms for step in run.steps] == [1_500, 2_500, 67_000, 9_500, 5_250]
    assert [step.model_ms for step in run.steps] == [None, 2_500, 6_000, 9_000, 4_500]
    assert run.duration_ms == 85_750


def test_what_the_submission_gave_is_the_result_of_its_call() -> None:
    run = only(own("mini_swe_agent/tool-calls.traj.json"))
    (result,) = run.steps[-1].results
    assert result is not None
    assert (result.content, result.is_error) == ("diff --git a/bell.py b/bell.py\n", None)


def test_only_the_submitting_parallel_call_gets_the_result(tmp_path: Path) -> None:
    end = {"role": "exit", "content": "patch", "extra": {"exit_status": "Submitted"}}
    run = only(write(tmp_path, asks("ls", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "pwd"), end))
    assert fates(run) == [["dropped", None, "dropped"]]
    assert run.stop.reason == "finished"


def test_the_sample_of_the_text_mode() -> None:
    run = only(own("mini_swe_agent/text.traj.json"))
    assert fates(run) == [[False], [], [True]]
    calls = [call for step in run.steps for call in step.response.tool_calls]
    assert [(call.name, call.arguments) for call in calls] == [
        ("bash", '{"command":"ls"}'),
        ("bash", '{"command":"python clock.py"}'),
    ]
    assert run.stop == ("step_cap", 3, "step_limit(3)", 3, 3, ())
    assert dict(run.limits) == {"steps": 3, "cost": 2_500_000}
    assert [step.response.usage[:2] for step in run.steps] == [(500, 20)] * 3
    assert [dict(event.payload) for event in run.events] == [{"after_step": 3, "cost": 250_000, "responses": 3}]
    assert {step.turn for step in run.steps} == {1}
    assert {step.start_ms for step in run.steps} == {None}


def test_the_sample_of_the_responses_interface() -> None:
    run = only(own("mini_swe_agent/responses.traj.json"))
    assert [step.turn for step in run.steps] == [1, 1, 2]
    assert [step.response.text for step in run.steps] == ["I look.", "", "There is on"]
    assert [step.response.reasoning for step in run.steps] == ["Look first.", "", ""]
    assert [step.response.usage for step in run.steps] == [
        Usage(300, 30, 100, 12, 4_000),
        Usage(350, 10, None, None, 3_000),
        Usage(400, 5, None, None, 3_000),
    ]
    assert [step.response.finish_reason for step in run.steps] == [None, None, "length"]
    assert fates(run) == [[False], ["dropped"], []]
    assert run.stop[:4] == ("time_budget", 0, "TimeExceeded", 60_000)
    assert (dict(run.limits), run.events) == ({"elapsed": 60_000}, ())


def test_the_sample_that_is_a_list_of_messages() -> None:
    run = only(own("mini_swe_agent/messages.traj.json"))
    assert fates(run) == [[True], [None]]
    assert (run.stop[:2], run.task, run.limits) == (("finished", 2), "Say the time.", {})
    assert {step.response.usage for step in run.steps} == {UNKNOWN_USAGE}


def test_a_response_that_could_not_be_parsed_is_a_step_once(tmp_path: Path) -> None:
    kept = user("Format error", interrupt_type="FormatError", model_response="no block")
    run = only(write(tmp_path, kept, asks("ls"), gives("c0"), says("Hm."), kept))
    assert [step.response.text for step in run.steps] == ["no block", "", "Hm."]
    assert run.n_tool_calls == 1


def test_a_text_with_two_commands_or_none_asks_for_nothing(tmp_path: Path) -> None:
    fence = "```mswea_bash_command\nls\n```"
    run = only(
        write(tmp_path, says(f"{fence}\n{fence}"), user("One, please."), says("What?"), user("One!"), says(fence))
    )
    assert [len(step.response.tool_calls) for step in run.steps] == [0, 0, 1]


@pytest.mark.parametrize(
    "said",
    [
        "```bash\nls -l\n```",
        "```bash\nls -l\n```bash\npwd\n```",  # the fence that closes a block opens none
        "```mswea_bash_command\nls -l\n```",
        "<mswea_bash_command>ls -l</mswea_bash_command>",
    ],
)
def test_commands_are_found_in_each_kind_of_block(tmp_path: Path, said: str) -> None:
    run = only(write(tmp_path, says(said), user("<returncode>0</returncode>")))
    assert run.steps[0].response.tool_calls[0].arguments == '{"command":"ls -l"}'


def test_parsed_actions_are_calls_with_results_in_order(tmp_path: Path) -> None:
    reply = {"role": "assistant", "content": "…", "extra": {"actions": [{"command": "a"}, {"command": "b"}]}}
    run = only(write(tmp_path, reply, user("one", returncode=0), user("two", returncode=2), user("done?")))
    assert fates(run) == [[False, True]]
    assert [message.text for _, message in run.inputs] == ["done?"]


def test_a_command_of_the_user_and_what_it_gave_are_no_call(tmp_path: Path) -> None:
    typed = user("User command: \n```bash\nls\n```", actions=[{"command": "ls"}])
    run = only(write(tmp_path, asks("pwd"), gives("c0"), typed, user("a.py", returncode=0), asks("ls"), gives("c0")))
    assert (run.n_steps, run.n_tool_calls) == (2, 2)
    assert [step.turn for step in run.steps] == [1, 1]


@pytest.mark.parametrize(
    ("said", "kind", "turn"),
    [
        ("The user added a new task: now the other", "UserNewTask", 2),
        ("Interrupted by user: not like that", "UserInterruption", 2),
        ("Interrupted by user: Temporary interruption caught.", "UserInterruption", 1),
        ("Commands not executed. Switching to human mode", "UserRejection", 1),
        ("Please use a tool.", "FormatError", 1),
        ("Interrupted by user: not like that", None, 2),
    ],
)
def test_only_words_of_the_user_begin_a_turn(tmp_path: Path, said: str, kind: str | None, turn: int) -> None:
    extra = {} if kind is None else {"interrupt_type": kind}
    run = only(write(tmp_path, says("```bash\nls\n```"), user(said, **extra), asks("pwd"), gives("c0")))
    assert [step.turn for step in run.steps] == [1, turn]
    assert fates(run) == [["dropped"], [False]]


def test_padded_result_is_dropped_for_both_kinds_of_call(tmp_path: Path) -> None:
    padding = {"returncode": -1, "exception_info": "action was not executed"}
    told = [says("two") | {"extra": {"actions": [{"command": "ls"}, {"command": "pwd"}]}}, user("a.py"), user("")]
    told[2]["extra"] = padding
    run = only(write(tmp_path, *told, asks("ls", "pwd"), gives("c0"), gives("c1", "", **padding)))
    assert fates(run) == [[None, "dropped"], [False, "dropped"]]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("Submitted", "finished"),
        ("TimeExceeded", "time_budget"),
        ("LimitsExceeded", "cost_budget"),
        ("RepeatedFormatError", "error_streak"),
        ("ContextWindowExceededError", "token_budget"),
        ("KeyboardInterrupt", "aborted"),
        ("AuthenticationError", "error"),
        (None, "aborted"),
    ],
)
def test_the_status_tells_why_a_run_ended(tmp_path: Path, status: str | None, reason: str) -> None:
    run = only(write(tmp_path, asks("ls"), gives("c0"), info={"exit_status": status}))
    assert run.stop[:2] == (reason, 1)
    assert run.error == (status if reason == "error" else None)


def test_a_status_that_stands_only_in_the_last_message_counts(tmp_path: Path) -> None:
    end = {
        "role": "user",
        "content": "x",
        "extra": {"exit_status": "BadRequestError", "exception_str": "no such model"},
    }
    run = only(write(tmp_path, asks("ls"), gives("c0"), end))
    assert (run.stop.reason, run.error) == ("error", "BadRequestError: no such model")


def test_the_limit_that_was_reached_is_told_by_the_settings(tmp_path: Path) -> None:
    settings = {"step_limit": 9, "cost_limit": 0.5}
    info = {"exit_status": "LimitsExceeded", "config": {"agent": settings}, "model_stats": {"instance_cost": 0.75}}
    info["model_stats"] = {"instance_cost": 0.75, "api_calls": 4}
    with pytest.warns(ReadWarning, match="api_calls states 4 responses; 1 was read"):
        run = only(write(tmp_path, asks("ls"), gives("c0"), info=info))
    assert run.stop == ("cost_budget", 1, "cost_limit", 500_000, 750_000, ())
    info["model_stats"] = {"instance_cost": 0.75, "api_calls": 9}
    with pytest.warns(ReadWarning, match="api_calls states 9 responses; 1 was read"):
        run = only(write(tmp_path, asks("ls"), gives("c0"), info=info))
    assert (run.stop.reason, run.stop.threshold, run.stop.also_fired) == ("step_cap", 9, ("cost_budget",))


def test_labels_come_from_a_report_beside_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, asks("ls"), gives("c0"), name="try/repo-1/repo-1.traj.json", instance_id="repo-1")
    (tmp_path / "try" / "report.json").write_text('{"resolved_ids": [], "submitted_ids": ["repo-1"]}')
    run = only(path)
    assert (run.run_id, run.task, run.success) == ("try/repo-1", "repo-1", False)


def test_a_list_of_texts_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "local.traj.json"
    path.write_text('["first", "second"]')
    assert not sniff(Head(path.read_bytes(), path))
    with pytest.raises(RunFormatError, match="a list of strs, not a run; a run of mini-swe-agent is an object"):
        read(path)


def test_files_of_its_form_without_a_run_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.traj.json"
    for content in ("[]", '{"messages": []}'):
        assert not sniff(Head(content.encode(), path))
    path.write_text('{"info": {"mini_version": 1}}')
    with pytest.raises(RunFormatError):
        read(path)


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"info": {"mini_version": "1.0"}, "messages": []}, True),
        ({"info": {"exit_status": "Submitted", "submission": ""}}, True),
        ({"info": {"mini_version": "1.0"}, "messages": {}}, False),
        ({"info": {"exit_status": "submitted", "submission": ""}, "trajectory": []}, False),  # SWE-agent's
        ({"info": {"exit_status": "submitted", "submission": ""}, "history": []}, False),
        ({"info": {"exit_status": "submitted"}, "messages": []}, False),
    ],
)
def test_early_file_without_format_name_is_known_by_its_info(document: Any, known: bool) -> None:
    assert sniff(Head(json.dumps(document).encode(), Path("a.traj.json"))) is known


def test_of_a_file_that_was_cut_the_steps_before_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, asks("ls"), gives("c0"), asks("pwd"), gives("c0"))
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"pwd")])
    with pytest.warns(ReadWarning, match=":1: the file ends in the middle of a value"):
        run = only(path)
    assert (run.n_steps, run.stop[:2]) == (1, ("aborted", 1))


def rejected(said: str = "No tool calls found in the response.") -> dict[str, Any]:
    return user(said, interrupt_type="FormatError")


def limited(calls: int, **limits: float) -> dict[str, Any]:
    stats = {"instance_cost": 0.01, "api_calls": calls}
    return {"exit_status": "LimitsExceeded", "model_stats": stats, "config": {"agent": limits}}


def test_a_response_that_only_its_rejection_records_is_a_step(tmp_path: Path) -> None:
    bad = rejected()
    run = only(write(tmp_path, bad, bad, asks("ls"), gives("c0"), bad, asks("pwd"), gives("c0"), says("Done?"), bad))
    assert [len(step.response.tool_calls) for step in run.steps] == [0, 0, 1, 0, 1, 0]
    assert [step.response.text for step in run.steps] == ["", "", "", "", "", "Done?"]
    assert {step.turn for step in run.steps} == {1}
    assert run.steps[0].response.usage == UNKNOWN_USAGE


def test_a_step_limit_counts_responses_that_were_rejected(tmp_path: Path) -> None:
    messages = [asks("ls"), gives("c0"), rejected(), rejected(), asks("pwd"), gives("c0")]
    run = only(write(tmp_path, *messages, info=limited(4, step_limit=4)))
    assert (run.stop.reason, run.stop.rule, run.stop.threshold, run.stop.value) == (
        "step_cap", "step_limit(4)", 4, 4,
    )  # fmt: skip
    assert (run.n_steps, bl.audit([run])["counted"].tolist()) == (4, [4])
    assert bl.counterfactual(run, grid={"max_steps": [3]})["stop_step"].tolist() == [3]


def test_the_rejection_at_which_the_harness_gives_up_is_a_step(tmp_path: Path) -> None:
    end = {"role": "exit", "content": "", "extra": {"exit_status": "RepeatedFormatError"}}
    info = {"exit_status": "RepeatedFormatError", "model_stats": {"api_calls": 3}}
    assert only(write(tmp_path, rejected(), rejected(), end, info=info)).n_steps == 3
    counted = {**info, "model_stats": {"api_calls": 2}}
    assert only(write(tmp_path, rejected(), rejected(), end, info=counted)).n_steps == 2
