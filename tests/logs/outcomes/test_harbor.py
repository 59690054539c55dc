"""The outcome of a Harbor trial labels the runs of its logs, in whichever format they are."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import RunLabel
from boolab.errors import ReadWarning, SettingError
from boolab.logs.outcomes.harbor import outcome, trial_of
from boolab.report.question import Question
from boolab.report.snippets import LogInputs, python, shell
from boolab.report.study import study_of
from tests.support.samples import own

SESSION: Final = "claude_code/3a3a3a3a-1111-4222-8333-555555555555.jsonl"
LOGS: Final = {
    SESSION: "agent/sessions/projects/-app/3a3a3a3a-1111-4222-8333-555555555555.jsonl",
    "codex/rollout-commands.jsonl": "agent/sessions/2026/01/01/rollout-commands.jsonl",
    "atif/others.json": "agent/trajectory.json",
    "mini_swe_agent/text.traj.json": "agent/mini-swe-agent.trajectory.json",
}
TIMEOUT: Final = {"exception_type": "AgentTimeoutError", "exception_message": "Agent execution timed out after 600.0 s"}


def trial(
    folder: Path, rewards: Any = None, exception: Any = None, *, log: str = "atif/others.json", **more: Any
) -> Path:
    """A trial with one log."""
    place = folder / "job" / "task__1"
    path = place / LOGS[log]
    path.parent.mkdir(parents=True)
    shutil.copyfile(own(log), path)
    verified = None if rewards is None else {"rewards": rewards}
    result = {"trial_name": "task__1", "task_name": "task", "verifier_result": verified, "exception_info": exception}
    (place / "result.json").write_text(json.dumps({**result, **more}))
    return path


def roots(path: Path) -> list[bl.Run]:
    return [run for run in bl.load_runs(path) if run.parent_run_id is None]


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(("reward", "success"), [(1.0, True), (1, True), (0.0, False), (-1, False), (2.0, True)])
def test_a_reward_labels_the_log_of_any_format(tmp_path: Path, log: str, reward: float, *, success: bool) -> None:
    path = trial(tmp_path, {"reward": reward}, log=log)
    (tmp_path / "job" / "config.json").write_text('{"jobs_dir": "jobs", "n_attempts": 1}')
    runs = bl.load_runs(tmp_path / "job")
    assert {run.path for run in runs} == {str(path)}
    for run in runs:
        assert run.success is (success if run.parent_run_id is None else None)
    (run,) = [run for run in runs if run.parent_run_id is None][:1]
    assert dict(run.scores)["reward"] == reward
    assert run.labels == (RunLabel(success, "benchmark", f"Harbor, result.json: reward {reward:g}"),)


@pytest.mark.parametrize(
    ("rewards", "success"),
    [
        (None, None),
        ({}, None),
        ({"reward": float("nan")}, None),
        ({"reward": float("nan"), "style": 1}, None),
        ({"reward": None}, None),
        ({"reward": "1"}, None),
        ({"reward": True}, True),
        ({"reward": False}, False),
        ({"tests": True}, True),
        ({"reward": None, "style": 1}, None),
        ({"tests": 1.0}, True),
        ({"tests": 0}, False),
        ({"reward": 1, "style": 0}, True),
        ({"reward": 10**400}, None),
        ([1.0], None),
    ],
)
def test_rewards_that_do_not_decide_are_unknown(tmp_path: Path, rewards: Any, success: bool | None) -> None:
    assert {run.success for run in roots(trial(tmp_path, rewards))} == {success}


@pytest.mark.parametrize("reward", [0.001, 0.5, 0.99])
def test_a_reward_between_is_unknown_and_told_once(tmp_path: Path, reward: float) -> None:
    for task in ("one", "other"):
        trial(tmp_path / task, {"reward": reward})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        reading = bl.read_logs(tmp_path)
    notes = [note for row in reading.files for note in row.warnings if "a reward of" in note]
    assert len(notes) == 1
    assert f"result.json: a reward of {reward:g} is no label: give success_threshold" in notes[0]
    main_runs = [run for run in reading.runs if run.parent_run_id is None]
    assert {(run.success, run.labels, dict(run.scores)["reward"]) for run in main_runs} == {(None, (), reward)}


@pytest.mark.parametrize(
    ("reward", "threshold", "success"),
    [
        (0.5, 0.5, True),
        (0.49, 0.5, False),
        (1, 1, True),
        (0.99, 1, False),
        (7, 7.5, False),
        (1, 7.5, False),
        (-3, -4, True),
        (0, 0, True),
    ],
)
def test_a_reward_from_the_threshold_on_is_a_success(
    tmp_path: Path, reward: float, threshold: float, *, success: bool
) -> None:
    path = trial(tmp_path, {"reward": reward})
    (run,) = [run for run in bl.load_runs(path, success_threshold=threshold) if run.parent_run_id is None][:1]
    why = f"Harbor, result.json: reward {reward:g}, a success from {threshold:g} on"
    assert (run.success, run.labels) == (success, (RunLabel(success, "benchmark", why),))


def test_a_threshold_does_not_choose_among_rewards(tmp_path: Path) -> None:
    path = trial(tmp_path, {"tests": 1.0, "style": 0.0})
    with pytest.warns(ReadWarning, match="several rewards"):
        assert {run.success for run in bl.load_runs(path, success_threshold=0.5)} == {None}


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), "0.5", [0.5]])
def test_a_threshold_that_is_no_number_is_refused(tmp_path: Path, threshold: Any) -> None:
    with pytest.raises(SettingError, match="expected a number, such as 0.5"):
        bl.load_runs(trial(tmp_path, {"reward": 1}), success_threshold=threshold)


def test_several_rewards_without_a_main_one_are_a_warning(tmp_path: Path) -> None:
    path = trial(tmp_path, {"tests": 1.0, "style": 0.0})
    with pytest.warns(ReadWarning, match=r"several rewards and none is called reward \(tests, style\): no label"):
        assert {run.success for run in roots(path)} == {None}


@pytest.mark.parametrize(
    ("name", "content", "success"),
    [
        ("reward.txt", "1.0\n", True),
        ("reward.txt", "0", False),
        ("reward.txt", "", None),
        ("reward.txt", "nan", None),
        ("reward.txt", "failed", None),
        ("reward.txt", "1e999", None),
        ("reward.txt", "\ufeff 1 \r\n", True),
        ("reward.txt", "1_0", None),
        ("reward.json", '{"reward": 1}', True),
        ("reward.json", '{"reward": ', None),
    ],
)
def test_the_verifiers_own_file_counts_where_the_result_has_none(
    tmp_path: Path, name: str, content: str, success: bool | None
) -> None:
    path = trial(tmp_path)
    place = tmp_path / "job" / "task__1"
    (place / "verifier").mkdir()
    (place / "verifier" / name).write_text(content)
    assert {run.success for run in roots(path)} == {success}
    (place / "result.json").unlink()
    assert {run.success for run in roots(path)} == {success}


@pytest.mark.parametrize("reward", [None, 0.0, 1.0])
@pytest.mark.parametrize("inner", [False, True])
def test_a_timeout_is_how_the_run_ended_and_not_its_outcome(
    tmp_path: Path, reward: float | None, *, inner: bool
) -> None:
    given = {"step_results": [{"exception_info": TIMEOUT}]} if inner else {"exception_info": TIMEOUT}
    config = {"agent": {"override_timeout_sec": 600.0, "max_timeout_sec": None}, "timeout_multiplier": 2.0}
    rewards = None if reward is None else {"reward": reward}
    path = trial(tmp_path, rewards, config=config, **given)
    (run, *_) = roots(path)
    assert run.success is (None if reward is None else reward == 1)
    assert (run.stop.reason, run.stop.rule, run.stop.threshold) == (
        "time_budget",
        "AgentTimeoutError(1200000)",
        1_200_000,
    )
    assert run.limits["elapsed"] == 1_200_000
    assert run.censored


def test_a_timeout_without_a_known_limit_is_a_time_budget(tmp_path: Path) -> None:
    times = {"started_at": "2026-01-01T10:00:00Z", "finished_at": "2026-01-01T10:05:00Z"}
    (run, *_) = roots(trial(tmp_path, {"reward": 1}, TIMEOUT, agent_execution=times))
    assert (run.stop.reason, run.stop.threshold, run.stop.value) == ("time_budget", None, 300_000)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NonZeroAgentExitCodeError", "error"),
        ("VerifierTimeoutError", "aborted"),
        ("EnvironmentStartTimeoutError", "aborted"),
    ],
)
def test_only_an_exception_of_the_agent_ends_the_run(tmp_path: Path, name: str, reason: str) -> None:
    path = trial(tmp_path, None, {"exception_type": name, "exception_message": "code 1"})
    document = json.loads(path.read_text())
    call = {"tool_call_id": "open", "function_name": "ls", "arguments": {}}
    step = {"step_id": len(document["steps"]) + 1, "source": "agent", "message": "", "tool_calls": [call]}
    document["steps"].append(step)
    document.pop("final_metrics", None)
    path.write_text(json.dumps(document))
    (run, *_) = roots(path)
    assert (run.success, run.stop.reason) == (None, reason)
    assert run.error == ("NonZeroAgentExitCodeError: code 1" if reason == "error" else None)


def test_a_label_in_the_log_stays(tmp_path: Path) -> None:
    path = tmp_path / "task__1" / "agent" / "chat.json"
    path.parent.mkdir(parents=True)
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "Done."}]
    path.write_text(json.dumps({"messages": messages, "success": False}))
    (path.parent.parent / "result.json").write_text(
        '{"trial_name": "t", "verifier_result": {"rewards": {"reward": 1}}}'
    )
    assert [run.success for run in bl.load_runs(path)] == [False]
    (path.parent.parent / "result.json").write_text(
        '{"trial_name": "t", "verifier_result": {"rewards": {"reward": 0.5}}}'
    )
    assert [run.success for run in bl.load_runs(path)] == [False]


@pytest.mark.parametrize("content", ["[]", "{", '{"reward": 1}', "null"])
def test_another_result_json_is_no_trial(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run" / "agent" / "trajectory.json"
    path.parent.mkdir(parents=True)
    shutil.copyfile(own("atif/others.json"), path)
    (tmp_path / "run" / "result.json").write_text(content)
    (path.parent / "result.json").write_text(content)
    assert trial_of(path) is None
    assert {run.success for run in bl.load_runs(path)} == {None}


def test_a_log_outside_of_a_trial_has_no_label(tmp_path: Path) -> None:
    trial(tmp_path, {"reward": 1})
    shutil.copyfile(own("atif/others.json"), tmp_path / "job" / "other.json")
    assert {run.success for run in bl.load_runs(tmp_path / "job" / "other.json")} == {None}


def test_a_step_of_a_trial_has_the_outcome_of_the_trial(tmp_path: Path) -> None:
    path = trial(tmp_path, {"reward": 1})
    inner = tmp_path / "job" / "task__1" / "steps" / "build" / "agent" / "trajectory.json"
    inner.parent.mkdir(parents=True)
    path.replace(inner)
    assert {run.success for run in roots(inner)} == {True}


def test_several_rewards_decide_only_where_they_agree() -> None:
    assert not outcome({"reward": 0, "style": 1})
    assert outcome({"tests": 1.0})
    assert outcome({"a": 1, "b": 0}) is None


def test_commands_compare_rewards_with_a_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = trial(tmp_path, {"reward": 0.5}).parents[2]
    out = str(tmp_path / "runs.jsonl")
    assert main(["import", str(job), "--success-threshold", "0.4", "-o", out]) == 0
    assert {run.success for run in bl.load_runs(out) if run.parent_run_id is None} == {True}
    words = ["whatif", str(job), "--max-steps", "1,2", "--success-threshold", "0.6"]
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    assert "benchmark" in json.loads(capsys.readouterr().out)["data"]["labels"]
    assert main(["label", str(job), "--status", "--success-threshold", "0.6"]) in (0, 1)
    with pytest.raises(SystemExit, match="2"):
        main([*words[:-1], "much"])
    assert "'much' is no reward; accepted: a number, such as 0.5" in capsys.readouterr().err


def test_the_code_of_a_report_has_the_threshold(tmp_path: Path) -> None:
    job = str(trial(tmp_path, {"reward": 0.5}).parents[2])
    study = study_of([job], Question(success_threshold=0.4, grid={"max_steps": [1, 2]}))
    inputs = LogInputs((job,))
    assert f"bl.load_runs({job!r}, success_threshold=0.4)" in python(study, inputs)
    assert "--success-threshold 0.4" in shell(study, inputs)
