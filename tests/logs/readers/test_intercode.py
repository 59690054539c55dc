"""Runs of InterCode."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.types import UNKNOWN_USAGE
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.fields import Head
from boolab.logs.readers.intercode import sniff
from tests.support.readers import fates, only, reader_of
from tests.support.samples import own

read = reader_of("intercode")

SQL = "intercode/ic_sql_multiturn_tiny-1_3_turns_handicap.json"
REACT = "intercode/bash/tiny-2/ic_bash_react_3_turns_fs_1.json"
CTF = "intercode/ic_ctf_tiny-1_3_turns.json"


def episode(actions: list[str], *, reward: float = 0.0, cap: int | None = 10, **more: Any) -> dict[str, Any]:
    history = {"actions": actions, "observations": ["x"] * len(actions), "rewards": [0.0] * len(actions)}
    summary = {"max_reward": reward} | ({} if cap is None else {"turns_max": cap})
    return {"environment": "ic_sql", "task_id": 0, "query": "q", "turn_history": history, "summary": summary} | more


def write(folder: Path, *episodes: object, name: str = "ic_sql_multiturn_gpt-x_10_turns.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(dict(enumerate(episodes))))
    return path


def test_each_action_is_a_step_with_one_call_and_its_observation() -> None:
    run = read(own(SQL))[0]
    calls = [(call.name, json.loads(call.arguments)) for step in run.steps for call in step.response.tool_calls]
    assert calls == [("sql", {"action": "SHOW TABLES"}), ("sql", {"action": "SELECT count(*) FROM boat"})]
    assert [result.content for step in run.steps for result in step.results if result] == [
        "[('boat',), ('crew',)]",
        "[(4,)]",
    ]
    assert {step.turn for step in run.steps} == {1}
    assert {step.response.usage for step in run.steps} == {UNKNOWN_USAGE}


def test_only_a_full_reward_is_a_success() -> None:
    assert [run.success for run in read(own(SQL))] == [True, False, False]
    assert [run.success for run in read(own(REACT))] == [True, False]
    assert [run.success is True for run in read(own(SQL))] == [run.scores[0].value == 1 for run in read(own(SQL))]


def test_turn_limit_stops_runs_without_success_or_own_end() -> None:
    solved, cut, blocked = read(own(SQL))
    assert (solved.stop.reason, cut.stop.reason, blocked.stop.reason) == ("finished", "step_cap", "error")
    assert (cut.stop.rule, cut.stop.threshold, cut.stop.value) == ("max_turns(3)", 3, 3)
    assert {run.limits["steps"] for run in (solved, cut, blocked)} == {3}


def test_a_failure_of_the_provider_is_no_step() -> None:
    blocked = read(own(SQL))[2]
    assert (blocked.n_steps, blocked.error) == (1, "blocked")


def test_an_action_that_was_not_executed_is_a_call_that_failed() -> None:
    assert fates(read(own(SQL))[1]) == [[True], [True], [True]]
    assert fates(read(own(REACT))[1]) == [[False], [True], [False]]


def test_react_submit_added_by_the_harness_is_a_step_cap() -> None:
    own_end, cut = read(own(REACT))
    assert (own_end.n_steps, own_end.stop.reason) == (3, "finished")
    assert (cut.n_steps, cut.stop.reason) == (3, "step_cap")
    assert [step.response.text for step in cut.steps] == ["I look.", "Which are empty?", "Remove them."]
    assert [call.name for step in own_end.steps for call in step.response.tool_calls] == ["bash", "bash", "submit"]


def test_an_agent_that_skips_a_task_has_finished() -> None:
    skipped, solved = read(own(CTF))
    assert (skipped.stop.reason, skipped.success) == ("finished", False)
    assert (solved.stop.reason, solved.success) == ("finished", True)
    assert [step.response.tool_calls[0].name for step in solved.steps] == ["ctf", "submit", "submit"]


def test_model_prompting_and_handicap_come_from_file_and_folder() -> None:
    first, react, ctf = (read(own(name))[0] for name in (SQL, REACT, CTF))
    assert [run.model for run in (first, react, ctf)] == ["tiny-1", "tiny-2", "tiny-1"]
    assert dict(first.settings) == {"prompting": "multiturn", "handicap": True}
    assert dict(react.settings) == {"prompting": "react", "handicap": False}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("ic_sql_multiturn_gpt-3.5-1_turns.json", "gpt-3.5"),
        ("ic_bash_multiturn_text-bison-001_10_turns_fs_2.json", "text-bison-001"),
        ("ic_ctf_gpt-4_25_turns.json", "gpt-4"),
        ("mine.json", ""),
    ],
)
def test_the_model_is_read_from_every_kind_of_name(name: str, model: str, tmp_path: Path) -> None:
    assert only(read(write(tmp_path, episode(["SELECT 1"]), name=name))).model == model


def test_tasks_of_different_files_are_different_tasks() -> None:
    assert [run.task for run in read(own(REACT))] == ["nl2bash_fs_1/0", "nl2bash_fs_1/1"]
    assert [run.task for run in read(own(CTF))] == ["tiny_ctf/7", "tiny_ctf/8"]


def test_end_of_log_without_limit_is_a_finished_run(tmp_path: Path) -> None:
    path = write(tmp_path, episode(["ls"], cap=None), name="ic_sql_plan_solve.json")
    assert (only(read(path)).stop.reason, only(read(path)).settings["prompting"]) == ("finished", "plan_solve")


def test_run_ending_below_its_limit_without_reason_is_aborted(tmp_path: Path) -> None:
    assert only(read(write(tmp_path, episode(["SELECT 1"])))).stop.reason == "aborted"


def test_call_failure_is_unknown_if_the_log_does_not_say(tmp_path: Path) -> None:
    one = episode(["SELECT 1", "SELECT 2"])
    one["turn_history"]["valid_action"] = [None]
    assert fates(only(read(write(tmp_path, one)))) == [[None], [None]]


def test_invalid_entry_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, episode(["SELECT 1"]), {"note": "x"})
    with pytest.warns(ReadWarning, match="entry 1 has no task_id or no actions"):
        assert len(read(path)) == 1


def test_runs_of_people_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {"environment": "ic_sql", "query_idx": 0, "trajectory": []})
    with pytest.raises(RunFormatError, match="turn_history"):
        read(path)


@pytest.mark.parametrize("value", [{}, [], {"0": {}}, {"0": {"task_id": 1}}, {"0": {"turn_history": {"actions": []}}}])
def test_other_documents_are_not_taken_for_it(value: object) -> None:
    assert not sniff(Head(json.dumps(value).encode(), Path("x.json")))


def test_its_files_are_recognised() -> None:
    for name in (SQL, REACT, CTF):
        assert sniff(Head(own(name).read_bytes(), own(name)))
