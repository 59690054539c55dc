"""Runs of tau-bench."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.types import UNKNOWN_USAGE
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.fields import Head
from boolab.logs.readers.tau_bench import sniff
from tests.support.project import ROOT
from tests.support.readers import reader_of
from tests.support.samples import shared

read = reader_of("tau_bench")

HERE = ROOT / "tests" / "data" / "tau_bench" / "tau-bench-tiny-airline.json"


def user(said: str) -> dict[str, Any]:
    return {"role": "user", "content": said}


def says(said: str) -> dict[str, Any]:
    return {"role": "assistant", "content": said}


def asks(name: str = "look", call: str = "c1", arguments: str = '{"at": 1}') -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call, "type": "function", "function": function}],
    }


def gives(said: str, call: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "name": "look", "content": said}


def entry(*talk: dict[str, Any], task: int = 0, trial: int = 0, reward: float = 1.0, **info: Any) -> dict[str, Any]:
    opening = [{"role": "system", "content": "policy"}, user("Hello")]
    return {"task_id": task, "trial": trial, "reward": reward, "info": info, "traj": [*opening, *talk]}


def write(folder: Path, *entries: object, name: str = "gpt-x-retail.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(entries))
    return path


def test_only_the_unfinished_run_of_thirty_steps_is_capped() -> None:
    runs = read(shared("tau-bench/gpt-4o-airline.trial0.json"))
    longest = {run.task: run.stop for run in runs if run.n_steps == 30}
    assert {task: stop.reason for task, stop in longest.items()} == {"airline/3": "finished", "airline/33": "step_cap"}
    cut = next(run for run in runs if run.task == "airline/33")
    assert (cut.stop.rule, cut.stop.threshold, cut.stop.value) == ("max_num_steps(30)", 30, 30)
    assert (dict(cut.limits), cut.censored, cut.success) == ({"steps": 30}, True, False)
    assert sum(run.censored for run in runs) == 1


def test_the_file_of_our_own_making() -> None:
    first, again, second = read(HERE)
    assert (first.run_id, again.run_id) == ("tau-bench-tiny-airline/4/0", "tau-bench-tiny-airline/4/1")
    assert (first.task, again.task, second.task) == ("airline/4", "airline/4", "airline/7")
    assert (first.success, again.success, second.success) == (True, False, False)
    assert [run.scores[0].name for run in (first, again, second)] == ["reward"] * 3
    assert (first.scores[0].value, second.scores[0].value) == (1.0, 0.0)
    assert [step.turn for step in first.steps] == [1, 1, 1, 2, 2]
    assert first.stop[:2] == ("finished", 1)
    assert [r and r.is_error for step in first.steps for r in step.results] == [True, False, False]
    assert again.stop[:2] == ("finished", 2)
    assert again.steps[-1].response.tool_calls[0].name == "transfer_to_human_agents"
    assert second.stop[:2] == ("aborted", 1)
    assert {step.response.usage for run in (first, again, second) for step in run.steps} == {UNKNOWN_USAGE}
    assert {step.start_ms for step in first.steps} == {None}
    assert {step.response.finish_reason for step in first.steps} == {None}


def test_user_message_starts_a_turn_and_last_one_is_an_input(tmp_path: Path) -> None:
    path = write(tmp_path, entry(says("Which?"), user("That."), asks(), gives("ok"), says("Done."), user("###STOP###")))
    (run,) = read(path)
    assert [step.turn for step in run.steps] == [1, 2, 2]
    assert [(before, message.text) for before, message in run.inputs] == [(2, "That."), (4, "###STOP###")]
    assert [message.text for message in run.prompt] == ["policy", "Hello"]
    assert run.stop[:2] == ("finished", 1)


def test_arguments_keep_their_text_and_parse_errors_are_marked(tmp_path: Path) -> None:
    path = write(tmp_path, entry(asks(arguments='{ "a":1}'), gives("ok"), asks(arguments="{a"), gives("ok")))
    (run,) = read(path)
    assert [step.response.tool_calls[0].arguments for step in run.steps] == ['{ "a":1}', "{a"]
    assert [step.results[0] and step.results[0].parse_error for step in run.steps] == [False, True]


def test_action_unknown_to_the_environment_is_an_error(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path, entry(asks("loook"), gives("Unknown action loook"), asks(), gives("unknown"))))
    assert [step.results[0] and step.results[0].is_error for step in run.steps] == [True, False]


def test_equally_long_unfinished_runs_are_capped_at_that_length(tmp_path: Path) -> None:
    long = [message for _ in range(5) for message in (asks(), gives("ok"))]
    short = long[:6]
    runs = read(write(tmp_path, entry(*long), entry(*long, task=1), entry(*short, task=2)))
    assert [run.stop.reason for run in runs] == ["step_cap", "step_cap", "aborted"]
    assert [run.stop.step for run in runs] == [5, 5, 3]
    assert runs[0].limits == {"steps": 5}
    (alone,) = read(write(tmp_path, entry(*long)))
    assert (alone.stop.reason, dict(alone.limits)) == ("aborted", {})


def test_a_run_that_the_harness_lost_is_an_error(tmp_path: Path) -> None:
    lost = {"task_id": 1, "trial": 0, "reward": 0.0, "info": {"error": "rate limit", "traceback": "..."}, "traj": []}
    (run,) = read(write(tmp_path, lost))
    assert (run.n_steps, run.stop[:2], run.error) == (0, ("error", 0), "rate limit")


def test_a_trial_that_is_there_twice_has_an_id_of_its_own(tmp_path: Path) -> None:
    runs = read(write(tmp_path, entry(says("")), entry(says("")), name="x.json"))
    assert [run.run_id for run in runs] == ["x/0/0", "x/0/0#2"]
    assert [run.task for run in runs] == ["x/0", "x/0"]


def test_without_reward_success_is_unknown(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path, entry(says("")) | {"reward": None}))
    assert run.success is None


def test_react_and_few_shot_files_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="ReAct transcript"):
        read(write(tmp_path, entry(says("Action: look"), user("API output: ok"))))
    few = tmp_path / "few.jsonl"
    few.write_text('{"messages_display": "user: Hi"}\n')
    assert sniff(Head(few.read_bytes(), few))
    with pytest.raises(RunFormatError, match=r"few\.jsonl:1: few-shot demonstrations"):
        read(few)


def test_of_a_file_that_was_cut_the_runs_before_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, entry(says("one")), entry(says("two"), task=1), entry(says("three"), task=2))
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.warns(ReadWarning, match=":1: the file ends in the middle of a value"):
        runs = read(path)
    assert [run.text for run in runs] == ["one", "two"]


def test_entries_that_are_no_runs_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, entry(says("one")), {"task_id": 3}, "what")
    with pytest.warns(ReadWarning, match="entry [23] has no task_id or no traj"):
        assert len(read(path)) == 1


def test_only_full_reward_succeeds_and_only_leading_error_counts(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path, entry(asks(), gives("no Error here"), reward=0.6)))
    assert run.success is False
    assert run.steps[0].results[0] is not None
    assert run.steps[0].results[0].is_error is False


def test_two_messages_in_a_row_begin_one_turn(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path, entry(says("Which?"), user("That."), user("No, this."), says("Done."))))
    assert [step.turn for step in run.steps] == [1, 2]


def test_error_after_the_conversation_keeps_its_finish(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path, entry(says("Bye."), user("###STOP###"), error="while scoring")))
    assert (run.stop.reason, run.error) == ("finished", "while scoring")
