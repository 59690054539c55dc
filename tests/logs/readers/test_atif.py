"""ATIF that others wrote. What boolab wrote itself is in tests/logs/test_save.py."""

import json
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run_tree import Start, starts_of
from boolab.core.types import REDACTED, Usage
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.fields import Head
from boolab.logs.readers.atif import sniff
from tests.support.readers import reader_of
from tests.support.samples import own, shared

read = reader_of("atif")

HERE = own("atif/others.json")


def agent(number: int, said: str = "", **more: Any) -> dict[str, Any]:
    return {"step_id": number, "source": "agent", "message": said, **more}


def user(number: int, said: str = "Go.") -> dict[str, Any]:
    return {"step_id": number, "source": "user", "message": said}


def write(folder: Path, *steps: dict[str, Any], **more: Any) -> Path:
    path = folder / "run.json"
    document = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "x", "version": "1"}, **more}
    path.write_text(json.dumps({**document, "steps": steps}))
    return path


def test_steps_of_the_agent_are_steps_but_for_copies_and_those_that_asked_no_model() -> None:
    run, child = read(HERE)
    assert [step.response.text for step in run.steps] == [
        "I look in both rooms.",
        "It is in the north room.\n[image]",
        "",
    ]
    assert [step.turn for step in run.steps] == [1, 1, 2]
    assert (run.run_id, run.agent, run.model, run.task) == (
        "shelf-7",
        "librarian",
        "paper-large",
        "Where is the atlas?",
    )
    assert (child.run_id, child.parent_run_id, child.n_steps, child.n_tool_calls) == ("binder-1", "shelf-7", 2, 2)
    assert starts_of(run) == [Start(3, "binder-1")]


def test_usage_and_times_are_taken_as_they_stand_and_errors_are_unknown() -> None:
    run, child = read(HERE)
    assert run.steps[0].response.usage == Usage(900, 60, 512, 20, 2_100)
    assert (run.steps[0].start_ms, run.steps[0].model_ms) == (0, 4_000)
    assert bl.calls_df([run, child])["is_error"].isna().all()
    assert bl.steps_df([run, child])["finish_reason"].isna().all()
    assert bl.runs_df(child)[["input_tokens", "started_at", "duration_ms", "success"]].isna().all(axis=None)


def test_results_find_their_calls_by_id_or_if_they_have_none_by_their_order() -> None:
    run, child = read(HERE)
    assert [result and result.content for result in run.steps[0].results] == ["an atlas", "a globe"]
    assert [result and result.content for result in child.steps[0].results] == ["glued", "pressed"]


def test_of_results_without_ids_and_fewer_than_the_calls_nobody_knows_whose_they_are(tmp_path: Path) -> None:
    asked = [{"tool_call_id": name, "function_name": "f", "arguments": {}} for name in "ab"]
    (run,) = read(write(tmp_path, user(1), agent(2, tool_calls=asked, observation={"results": [{"content": "x"}]})))
    assert run.steps[0].results == (None, None)


def test_a_call_without_a_result_never_ran() -> None:
    run, _ = read(HERE)
    assert [result is None for result in run.steps[2].results] == [False, True]
    assert run.stop_reason == "aborted"


def test_arguments_that_are_kept_back_are_unknown_and_no_repeats() -> None:
    run, _ = read(HERE)
    assert [call.arguments for call in run.steps[2].response.tool_calls] == [REDACTED, REDACTED]
    asked = bl.calls_df(run).query("step == 3")
    assert asked[["arguments", "arguments_hash"]].isna().all(axis=None)
    assert not asked["parse_error"].dropna().any()
    real = read(shared("atif/nemo_relay_atif_v1.7_real_redacted.json"))
    outcomes = bl.counterfactual(real, grid={"doom_loop": [2, 3]})
    assert (outcomes["stop_reason"] != "doom_loop").all()


def test_a_source_that_is_kept_back_is_the_agents_where_a_model_left_its_marks(tmp_path: Path) -> None:
    steps = [user(1) | {"source": "<redacted>"}, agent(2, metrics={"prompt_tokens": 3}) | {"source": "<redacted>"}]
    (run,) = read(write(tmp_path, *steps))
    assert run.n_steps == 1
    assert run.steps[0].response.usage.input_tokens == 3


def test_a_trajectory_that_goes_on_elsewhere_is_cut(tmp_path: Path) -> None:
    steps = [user(1), agent(2, "Done.")]
    (whole,) = read(write(tmp_path, *steps))
    (part,) = read(write(tmp_path, *steps, continued_trajectory_ref="next.json"))
    assert (whole.stop_reason, part.stop_reason) == ("finished", "aborted")


def test_one_trajectory_a_line_and_what_is_none_is_told_with_its_line(tmp_path: Path) -> None:
    line = json.dumps(json.loads(HERE.read_text()))
    path = tmp_path / "runs.jsonl"
    path.write_text(f'{line}\n{{"schema_version": "ATIF-v9.0", "steps": []}}\n[1]\n{line}\n')
    with pytest.warns(ReadWarning) as caught:
        assert [run.run_id for run in read(path)] == ["shelf-7", "binder-1", "shelf-7/2", "binder-1/2"]
    assert [str(one.message).partition(": ")[0] for one in caught] == [f"{path}:2", f"{path}:3"]
    assert "versions ATIF-v1.x can be read" in str(caught[0].message)


def test_a_file_that_is_cut_gives_the_steps_before_and_says_that_the_run_is(tmp_path: Path) -> None:
    path = write(tmp_path, user(1), agent(2, "One."), agent(3, "Two."), agent(4, "Three."))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.warns(ReadWarning, match=r"run\.json:1: the file ends in the middle of a value"):
        (run,) = read(path)
    assert (run.n_steps, run.stop_reason) == (2, "aborted")


def test_nothing_in_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"schema_version": "ATIF-v2.0", "steps": []}')
    with pytest.raises(RunFormatError, match=r"run\.json:1: a trajectory of 'ATIF-v2.0'"):
        read(path)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"schema_version": 1}', b'{"schema_version": "1.0", "steps": []}'])
def test_other_files_are_not_taken_for_it(data: bytes) -> None:
    assert not sniff(Head(data, Path("a.json")))


def test_parts_of_one_session_are_runs_of_their_own(tmp_path: Path) -> None:
    """Found by fuzzing: without ids of their own, all of them have the session's."""
    children = [{"session_id": "s", "steps": [agent(1, "child")]}]
    row = json.loads(write(tmp_path, user(1), agent(2, "Hm."), subagent_trajectories=children).read_text())
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
    assert [(run.run_id, run.parent_run_id) for run in read(path)] == [
        ("s", None),
        ("s/2", "s"),
        ("s/3", None),
        ("s/4", "s/3"),
    ]


def test_half_a_surrogate_in_arguments_stays_what_it_is(tmp_path: Path) -> None:
    """Found by fuzzing: such a value has no place in UTF-8, but in JSON."""
    asked = {"tool_call_id": "c", "function_name": "look", "arguments": {"what": "\udc00"}}
    (run,) = read(write(tmp_path, user(1), agent(2, "\ud83d", tool_calls=[asked], extra={"\udc00": 1})))
    assert run.steps[0].response.text == "\ud83d"
    assert json.loads(run.steps[0].response.tool_calls[0].arguments) == {"what": "\udc00"}
