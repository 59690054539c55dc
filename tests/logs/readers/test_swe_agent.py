"""Runs of SWE-agent."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE
from boolab.errors import ReadWarning
from boolab.logs.load import read_logs
from tests.support.readers import reader_of
from tests.support.samples import own

read = reader_of("swe_agent")

HEAD = 65_536


def entry(action: str = "ls\n", observation: str = "a.py", response: str = "I look.", **more: Any) -> dict[str, Any]:
    return {"action": action, "observation": observation, "response": response, "thought": response, **more}


def gave_up(why: str) -> dict[str, Any]:
    return entry("", "Exited (autosubmitted)", why, execution_time=0.0)


def write(
    folder: Path, *entries: Any, status: str | None = "submitted", name: str = "repo-1.traj", **more: Any
) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"trajectory": entries, "info": {"exit_status": status}, "environment": "main"} | more))
    return path


def model(**settings: Any) -> str:
    return json.dumps({"agent": {"model": settings}})


def only(path: Path) -> Run:
    (run,) = read(path)
    return run


def contents(run: Run) -> list[list[str | None]]:
    return [[result and result.content for result in step.results] for step in run.steps]


def test_the_sample_with_function_calling() -> None:
    run = only(own("swe_agent/function-calling.traj"))
    assert (run.n_steps, run.n_tool_calls) == (5, 3)
    calls = [step.response.tool_calls for step in run.steps]
    assert [call.name for asked in calls for call in asked] == ["bash", "vi", "str_replace_editor", "bash"]
    assert calls[3][0].arguments == '{"command": "view", "path": "/testbed/lantern/core.py"}'
    assert [call.id for asked in calls for call in asked] == ["call_1", "", "call_2", "call_2"]
    assert contents(run)[3:] == [["1\tdef wick(length):\n2\t    return lenght"], [""]]
    assert [result and result.duration_ms for step in run.steps for result in step.results] == [125, None, 500, 250]
    assert [step.response.reasoning for step in run.steps][3:] == [
        "The name is misspelt somewhere.",
        "It is not needed any more.",
    ]
    assert run.stop == ("cost_budget", 5, "exit_cost", 500_000, 512_345, ())
    assert (run.model, dict(run.limits)) == ("acme/coder-1", {"steps": 40, "cost": 500_000})
    assert (run.task, run.agent, run.success, run.error) == ("function-calling", "swe_agent", True, None)
    assert {step.turn for step in run.steps} == {1}


def test_a_demonstration_in_the_prompt_is_no_step_and_no_task() -> None:
    run = only(own("swe_agent/function-calling.traj"))
    assert [message.role for message in run.prompt] == ["system", "user", "user"]
    assert run.prompt[2].text == "The wick has the wrong length. Please fix it."


def test_the_sample_of_the_text_mode() -> None:
    run = only(own("swe_agent/text-mode.traj"))
    calls = [call for step in run.steps for call in step.response.tool_calls]
    assert [call.name for call in calls] == ["ls", "edit", "rm", "submit"]
    assert json.loads(calls[1].arguments) == {"command": "edit 2:2\n    return length\nend_of_edit\n"}
    assert contents(run) == [
        ["core.py\ntests/\n"],
        ["[File: core.py (2 lines total)]"],
        [""],
        ["diff --git a/core.py b/core.py\n"],
    ]
    assert run.stop[:2] == ("finished", 4)
    assert not any(result and result.parse_error for step in run.steps for result in step.results)


def test_each_attempt_is_a_run_and_the_copy_of_the_best_is_not(tmp_path: Path) -> None:
    path = tmp_path / "attempts.traj"
    path.write_bytes(own("swe_agent/attempts.traj").read_bytes())
    (tmp_path / "results.json").write_text('{"resolved_ids": ["attempts"]}')
    first, second = read(path)
    assert [run.run_id for run in (first, second)] == [f"{tmp_path.name}/attempts#0", f"{tmp_path.name}/attempts#1"]
    assert [(run.n_steps, run.stop.reason) for run in (first, second)] == [(1, "token_budget"), (3, "finished")]
    assert (first.success, second.success) == (None, True)
    assert [run.events[0].payload["responses"] for run in (first, second)] == [1, 3]


def test_a_file_with_nothing_but_a_history_is_read_from_that() -> None:
    run = only(own("swe_agent/demonstration.traj"))
    assert (run.n_steps, run.n_tool_calls, run.stop[:2]) == (3, 2, ("finished", 3))
    assert contents(run) == [["OBSERVATION:\nFound 1 match"], [], ["OBSERVATION:\ndiff --git a/lamp.py b/lamp.py"]]
    assert [(before, message.text) for before, message in run.inputs] == [
        (3, "Your last output did not use any tool calls!")
    ]
    assert {step.turn for step in run.steps} == {1}


def test_run_totals_are_an_event_and_step_usage_stays_unknown() -> None:
    run = only(own("swe_agent/text-mode.traj"))
    (event,) = run.events
    figures = {"cost": 310_000, "input_tokens": 30_100, "output_tokens": 412, "responses": 4}
    assert (event.kind, dict(event.payload)) == ("totals", {"after_step": 4, **figures})
    assert {step.response.usage for step in run.steps} == {UNKNOWN_USAGE}


def test_what_nobody_counted_is_not_zero(tmp_path: Path) -> None:
    stats = {"instance_cost": 0, "tokens_sent": 0, "tokens_received": 0, "api_calls": 0}
    assert only(write(tmp_path, entry(), info={"exit_status": "submitted", "model_stats": stats})).events == ()


def test_errors_times_and_finish_reasons_are_unknown() -> None:
    for name in ("function-calling", "text-mode", "demonstration"):
        run = only(own(f"swe_agent/{name}.traj"))
        assert {result.is_error for step in run.steps for result in step.results if result} == {None}
        assert {step.response.finish_reason for step in run.steps} == {None}
        assert {step.start_ms for step in run.steps} == {None}
        assert (run.started_at, run.duration_ms) == (None, None)


@pytest.mark.parametrize(
    ("status", "reason", "rule"),
    [
        ("submitted", "finished", None),
        ("exit_command", "finished", None),
        ("exit_forfeit", "finished", None),
        ("exit_cost", "cost_budget", "exit_cost"),
        ("submitted (exit_cost)", "cost_budget", "exit_cost"),
        ("submitted (exit_context)", "token_budget", "exit_context"),
        ("exit_total_execution_time", "time_budget", "exit_total_execution_time"),
        ("exit_format", "error_streak", "exit_format"),
        ("exit_command_timeout", "error_streak", "exit_command_timeout"),
        ("exit_api", "error", None),
        ("exit_error", "error", None),
        ("early_exit", "error", None),
        ("something_new", "error", None),
        ("skipped", "aborted", None),
        (None, "aborted", None),
    ],
)
def test_the_status_tells_why_a_run_ended(tmp_path: Path, status: str | None, reason: str, rule: str | None) -> None:
    run = only(write(tmp_path, entry(), status=status))
    assert run.stop[:3] == (reason, 1, rule)
    assert run.censored is (reason != "finished")
    assert run.error == (status if reason == "error" else None)


def test_settings_distinguish_a_call_limit_from_a_cost_limit(tmp_path: Path) -> None:
    info = {"exit_status": "submitted (exit_cost)", "model_stats": {"instance_cost": 0.1, "api_calls": 3}}
    config = model(name="m", per_instance_call_limit=2, per_instance_cost_limit=1.5)
    run = only(write(tmp_path, entry(), entry(), gave_up("Exit due to cost limit"), info=info, replay_config=config))
    assert run.stop == ("step_cap", 2, "per_instance_call_limit(2)", 2, 2, ())
    assert dict(run.limits) == {"steps": 2, "cost": 1_500_000}
    info["model_stats"] = {"instance_cost": 1.6, "api_calls": 2}  # the limit was reached, but one call more is cut
    run = only(write(tmp_path, entry(), entry(), gave_up("Exit due to cost limit"), info=info, replay_config=config))
    assert run.stop == ("cost_budget", 2, "exit_cost", 1_500_000, 1_600_000, ())


def test_a_limit_of_zero_is_none(tmp_path: Path) -> None:
    config = json.loads(model(name="m", per_instance_call_limit=0, per_instance_cost_limit=0))
    assert dict(only(write(tmp_path, entry(), replay_config=config)).limits) == {}


def test_what_the_harness_says_when_it_gives_up_is_no_response(tmp_path: Path) -> None:
    run = only(write(tmp_path, entry(), gave_up("Exit due to unknown error: no route"), status="exit_error"))
    assert (run.n_steps, run.error) == (1, "Exit due to unknown error: no route")
    old = entry("exit_cost", "Exited (autosubmitted)", "") | {"thought": "Exit due to cost limit"}
    assert only(write(tmp_path, entry(), old, status="submitted (exit_cost)")).n_steps == 1
    malformed = entry("exit_format", "Exited (autosubmitted)", "Neither command nor thought")
    run = only(write(tmp_path, entry(), malformed, status="submitted (exit_format)"))
    assert (run.n_steps, run.n_tool_calls, run.text) == (2, 1, "Neither command nor thought")


def test_blocked_call_is_dropped_and_call_without_output_is_not(tmp_path: Path) -> None:
    blocked, silent = entry("vi a", "", execution_time=0.0), entry("rm a", "", execution_time=0.03)
    run = only(write(tmp_path, blocked, silent, entry("rm a", "")))
    assert contents(run) == [[None], [""], [""]]


def test_calls_are_found_in_a_history_that_lacks_responses(tmp_path: Path) -> None:
    asked = {"function": {"name": "bash", "arguments": '{"command":"ls"}'}, "id": "c9"}
    history = [
        {"role": "user", "content": "Fix it", "agent": "main"},
        {"role": "assistant", "content": "I look.", "action": "ls\n", "agent": "main", "tool_calls": [asked]},
    ]
    run = only(write(tmp_path, entry("vi", "", "Hm.", execution_time=0.0), entry(), history=history))
    assert [call.name for step in run.steps for call in step.response.tool_calls] == ["vi", "bash"]


@pytest.mark.parametrize(
    ("place", "report", "label"),
    [
        ("report.json", {"resolved_ids": ["repo-1"], "submitted_ids": ["repo-1"]}, True),
        ("final_report.json", {"resolved_ids": [], "submitted_ids": ["repo-1"]}, False),
        ("results.json", {"resolved_ids": ["repo-2"], "submitted_ids": ["repo-2"], "incomplete_ids": ["repo-1"]}, None),
        ("repo-1/report.json", {"repo-1": {"resolved": False}}, False),
        ("results.json", {"resolved": ["repo-1"], "no_generation": []}, True),
        ("results/results.json", {"resolved": [], "no_generation": ["repo-1"]}, False),
        ("results.json", {"something": ["repo-1"]}, None),
        ("results.json", ["repo-1"], None),
        ("report.json", {"resolved_ids": [["repo-1"]], "submitted_ids": 3}, None),
    ],
)
def test_labels_come_from_a_report_beside_the_file_or_above(
    tmp_path: Path, place: str, report: Any, label: bool | None
) -> None:
    path = write(tmp_path, entry(), name="repo-1/repo-1.traj")
    assert only(path).success is None
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text(json.dumps(report))
    assert only(path).success is label


def test_a_report_that_cannot_be_read_is_no_label(tmp_path: Path) -> None:
    path = write(tmp_path, entry())
    (tmp_path / "report.json").write_text('{"resolved_ids": ["repo-1"')
    (tmp_path / "results.json").mkdir()
    assert only(path).success is None


def test_the_id_names_the_experiment_and_the_instance(tmp_path: Path) -> None:
    assert only(write(tmp_path, entry(), name="try-2/repo-1.traj")).run_id == "try-2/repo-1"
    assert only(write(tmp_path, entry(), name="try-2/repo-1/repo-1.traj")).run_id == "try-2/repo-1"


def test_of_a_file_that_was_cut_the_steps_before_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, entry(), entry("pwd"), entry("submit"))
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"submit") + 3])
    with pytest.warns(ReadWarning, match=":1: the file ends in the middle of a value"):
        run = only(path)
    assert (run.n_steps, run.stop[:2]) == (2, ("aborted", 2))


def test_a_report_that_was_changed_is_read_again(tmp_path: Path) -> None:
    path, report = write(tmp_path, entry()), tmp_path / "report.json"
    report.write_text('{"resolved_ids": [], "submitted_ids": ["repo-1"]}')
    assert only(path).success is False
    report.write_text('{"resolved_ids": ["repo-1"], "submitted_ids": ["repo-1"]}')
    assert only(path).success is True


def submission(
    folder: Path, *, name: str = "20240620_sweagent_claude3.5sonnet", metadata: str = "name: SWE-agent + Claude\n"
) -> Path:
    """A submission as SWE-bench's experiments repository holds them."""
    home = folder / "verified" / name
    for instance in ("repo-1", "repo-2", "repo-3"):
        write(home / "trajs", entry(), entry("submit\n", ""), name=f"{instance}.traj")
    (home / "results").mkdir()
    (home / "results" / "results.json").write_text(
        json.dumps({"no_generation": ["repo-3"], "no_logs": [], "resolved": ["repo-1"]})
    )
    (home / "results" / "resolved_by_repo.json").write_text(json.dumps({"repo": {"resolved": 1, "total": 3}}))
    (home / "metadata.yaml").write_text(metadata)
    (home / "README.md").write_text("# SWE-agent\n")
    return home


def test_experiments_submission_gives_labels_and_the_model(tmp_path: Path) -> None:
    reading = read_logs(submission(tmp_path))
    assert [(run.run_id, run.success, run.model) for run in reading.runs] == [
        ("20240620_sweagent_claude3.5sonnet/repo-1", True, "claude3.5sonnet"),
        ("20240620_sweagent_claude3.5sonnet/repo-2", False, "claude3.5sonnet"),
        ("20240620_sweagent_claude3.5sonnet/repo-3", False, "claude3.5sonnet"),
    ]


@pytest.mark.parametrize(
    ("name", "metadata", "model"),
    [
        ("20250227_sweagent-claude-3-7-20250219", "tags:\n  model:\n    - claude-3-7-sonnet-20250219\n", "claude-3-7"),
        ("20250227_sweagent_sonnet", "tags: {model: claude-3-7-sonnet}", "claude-3-7"),
        ("20240402_sweagent_gpt4", "", "gpt4"),
        ("20240402_sweagent_gpt4", "tags: [model]\nname: {", "gpt4"),
        ("20250511_sweagent_lm_32b", "name: SWE-agent-LM", "lm_32b"),
        ("my-first-try", "name: SWE-agent", ""),
    ],
)
def test_submission_model_comes_from_metadata_or_folder_name(
    tmp_path: Path, name: str, metadata: str, model: str
) -> None:
    (run, *_) = read_logs(submission(tmp_path, name=name, metadata=metadata)).runs
    assert run.model.startswith(model)
    assert bool(run.model) == bool(model)


def test_the_settings_name_the_model_before_the_submission_does(tmp_path: Path) -> None:
    home = submission(tmp_path)
    write(home / "trajs", entry(), replay_config=model(name="acme/coder-1"))
    assert only(home / "trajs" / "repo-1.traj").model == "acme/coder-1"


def test_report_gives_no_label_to_an_unlisted_instance(tmp_path: Path) -> None:
    path = write(tmp_path / "mine", entry())
    (tmp_path / "mine" / "results.json").write_text(json.dumps({"resolved": ["repo-7"]}))
    assert only(path).success is None


def test_the_entry_of_the_cost_cap_in_old_files_is_no_response(tmp_path: Path) -> None:
    end = entry("exit_cost", "Exited (autosubmitted)", "Exit due to cost limit")
    run = only(write(tmp_path, entry(), end, status="submitted (exit_cost)"))
    assert (run.n_steps, run.stop_reason, run.censored) == (1, "cost_budget", True)


def test_a_submit_that_failed_is_no_end(tmp_path: Path) -> None:
    failed = entry("submit\n", "\nEXECUTION FAILED OR COMMAND MALFORMED")
    assert only(write(tmp_path, entry(), failed, status=None)).stop_reason == "aborted"
    assert only(write(tmp_path, entry(), entry("submit\n", "diff"), status=None)).stop_reason == "finished"
