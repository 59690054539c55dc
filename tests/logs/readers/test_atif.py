"""ATIF that others wrote. What boolab wrote itself is in tests/logs/test_save.py."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.endings import proxy_success
from boolab.core.run import Run
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


def test_agent_steps_are_steps_except_copies_or_without_a_model() -> None:
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


def test_usage_and_times_are_read_as_given_and_errors_unknown() -> None:
    run, child = read(HERE)
    assert run.steps[0].response.usage == Usage(900, 60, 512, 20, 2_100)
    assert (run.steps[0].start_ms, run.steps[0].model_ms) == (0, 4_000)
    assert bl.calls_df([run, child])["is_error"].isna().all()
    assert bl.steps_df([run, child])["finish_reason"].isna().all()
    assert bl.runs_df(child)[["input_tokens", "started_at", "duration_ms", "success"]].isna().all(axis=None)


def test_results_are_paired_by_id_or_else_by_order() -> None:
    run, child = read(HERE)
    assert [result and result.content for result in run.steps[0].results] == ["an atlas", "a globe"]
    assert [result and result.content for result in child.steps[0].results] == ["glued", "pressed"]


def test_too_few_results_without_ids_stay_unpaired(tmp_path: Path) -> None:
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


def test_redacted_source_is_an_agent_if_metrics_are_present(tmp_path: Path) -> None:
    steps = [user(1) | {"source": "<redacted>"}, agent(2, metrics={"prompt_tokens": 3}) | {"source": "<redacted>"}]
    (run,) = read(write(tmp_path, *steps))
    assert run.n_steps == 1
    assert run.steps[0].response.usage.input_tokens == 3


def test_a_trajectory_that_goes_on_elsewhere_is_cut(tmp_path: Path) -> None:
    steps = [user(1), agent(2, "Done.")]
    (whole,) = read(write(tmp_path, *steps))
    (part,) = read(write(tmp_path, *steps, continued_trajectory_ref="next.json"))
    assert (whole.stop_reason, part.stop_reason) == ("finished", "aborted")


def test_jsonl_has_a_trajectory_per_line_and_reports_bad_lines(tmp_path: Path) -> None:
    line = json.dumps(json.loads(HERE.read_text()))
    path = tmp_path / "runs.jsonl"
    path.write_text(f'{line}\n{{"schema_version": "ATIF-v9.0", "steps": []}}\n[1]\n{line}\n')
    with pytest.warns(ReadWarning) as caught:
        assert [run.run_id for run in read(path)] == ["shelf-7", "binder-1", "shelf-7/2", "binder-1/2"]
    assert [str(one.message).partition(": ")[0] for one in caught] == [f"{path}:2", f"{path}:3"]
    assert "versions ATIF-v1.x can be read" in str(caught[0].message)


def test_truncated_file_gives_earlier_steps_and_an_aborted_run(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("version", ["ATIF-v1.8", "ATIF-v2.0", "ATIF-v9", "ATIF-v10.3.1"])
def test_a_later_version_is_read_with_a_warning(version: str, tmp_path: Path) -> None:
    steps = user(1), agent(2, "One."), agent(3, "Two.")
    (plain,) = read(write(tmp_path, *steps))
    path = write(tmp_path, *steps)
    path.write_text(path.read_text().replace(json.loads(path.read_text())["schema_version"], version))
    with pytest.warns(
        ReadWarning, match=f"version {version} wrote it, and the newest that the reader of atif was tested"
    ):
        (run,) = bl.load_runs(path, prices=False)
    assert [step.response for step in run.steps] == [step.response for step in plain.steps]
    path.write_text(path.read_text().replace('"source"', '"origin"'))
    if version != "ATIF-v1.8":
        with pytest.raises(RunFormatError, match=r"run\.json:1: a trajectory of 'ATIF-v"):
            bl.load_runs(path)


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


def tool(number: int, name: str = "Bash", **given: Any) -> dict[str, Any]:
    call = {"tool_call_id": f"c{number}", "function_name": name, "arguments": given or {"number": number}}
    return {"tool_calls": [call], "observation": {"results": [{"source_call_id": f"c{number}", "content": "a"}]}}


def agents(number: int, **more: Any) -> dict[str, Any]:
    metrics = {"prompt_tokens": 100 * number, "completion_tokens": number}
    return {"step_id": number, "source": "agent", "message": "x", "metrics": metrics, **more}


def harbor(folder: Path, *steps: dict[str, Any], version: str = "1.7", **more: Any) -> list[Run]:
    row = {
        "schema_version": f"ATIF-v{version}",
        "session_id": "s",
        "agent": {"name": "claude-code", "version": "2.0.46", "model_name": "m"},
        "steps": [{"step_id": 1, "source": "user", "message": "go"}, *steps],
        **more,
    }
    path = folder / "trajectory.json"
    path.write_text(json.dumps(row))
    return bl.load_runs(path, prices=False)


def test_steps_of_a_sidechain_are_a_run_of_a_subagent(tmp_path: Path) -> None:
    side = {"is_sidechain": True, "agent_id": "a1"}
    steps = [agents(n, **tool(n), extra=side if n in (3, 4, 5) else {"is_sidechain": False}) for n in range(2, 8)]
    main, child = harbor(tmp_path, *steps)
    assert [(run.run_id, run.n_steps, run.parent_run_id) for run in (main, child)] == [("s", 3, None), ("s/a1", 3, "s")]
    assert [step.response.usage.input_tokens for step in main.steps] == [200, 600, 700]
    assert [step.response.usage.input_tokens for step in child.steps] == [300, 400, 500]
    assert {result.is_error for step in main.steps for result in step.results if result} == {False}


def test_a_sidechain_without_an_id_is_found_by_its_prompt(tmp_path: Path) -> None:
    side = {"extra": {"is_sidechain": True}}
    prompts = [{"step_id": 9, "source": "user", "message": f"Look {name}", **side} for name in "ab"]
    steps = [
        prompts[0], agents(2, **tool(2), **side), agents(3, **side),  # Harbor sorts sidechains first
        prompts[1], agents(4, **tool(4), **side),
        agents(5, **tool(5)),
        agents(6, **tool(6, "Task", prompt="Look b", subagent_type="Explore")),
        agents(7, **tool(7, "Task", prompt="Look a", subagent_type="Plan")),
        agents(8),
    ]  # fmt: skip
    runs = harbor(tmp_path, *steps)
    frame = bl.runs_df(runs).set_index("run_id")
    assert frame["n_steps"].to_dict() == {"s": 4, "s/sidechain-1": 2, "s/sidechain-2": 1}
    assert frame["parent_step"].dropna().to_dict() == {"s/sidechain-1": 3, "s/sidechain-2": 2}
    assert frame["agent"].tolist() == ["claude-code", "Plan", "Explore"]
    assert frame["stop_reason"].tolist() == ["finished"] * 3


def test_a_result_names_its_subagent(tmp_path: Path) -> None:
    extra = {"tool_result_metadata": {"tool_use_result": {"agentId": "a2"}}}
    calls = [tool(n, "Agent", prompt="Same") for n in (2, 3)]
    calls[1]["observation"]["results"][0]["extra"] = extra
    sides = [
        {"step_id": 9, "source": "user", "message": "Same", "extra": {"is_sidechain": True, "agent_id": name}}
        for name in ("a2", "a1")
    ]
    replies = [agents(4 + n, extra={"is_sidechain": True, "agent_id": f"a{n}"}) for n in (1, 2)]
    runs = harbor(tmp_path, *sides, *replies, agents(2, **calls[0]), agents(3, **calls[1]), agents(8))
    assert bl.runs_df(runs).set_index("run_id")["parent_step"].dropna().to_dict() == {"s/a2": 2, "s/a1": 1}


def test_an_empty_result_that_harbor_leaves_out_is_one(tmp_path: Path) -> None:
    """Of a real trial: a command without output has no observation, only its result as Claude Code has it."""
    call = {key: value for key, value in tool(2).items() if key == "tool_calls"}
    raw = {
        "tool_use_id": call["tool_calls"][0]["tool_call_id"],
        "type": "tool_result",
        "content": "",
        "is_error": False,
    }
    extra = {"is_sidechain": False, "tool_result_metadata": {"raw_tool_result": raw}}
    (run,) = harbor(tmp_path, agents(2, **call, extra=extra), agents(3))
    assert [result and (result.content, result.is_error) for result in run.steps[0].results] == [("", False)]


def test_the_model_of_a_run_is_that_of_most_of_its_steps(tmp_path: Path) -> None:
    """Of a real trial: Harbor names the first model of the session for the agent, which may be a subagent's."""
    named = [agents(n, model_name="big") for n in (2, 3)]
    assert harbor(tmp_path, *named)[0].model == "big"
    assert harbor(tmp_path, *named, *(agents(n) for n in (4, 5, 6)))[0].model == "m"
    assert harbor(tmp_path)[0].model == "m"


METRICS = {"prompt_tokens": 500, "completion_tokens": 20}
CACHED = {**METRICS, "extra": {"cache_read_input_tokens": 400, "cache_creation_input_tokens": 30}}


def block(number: int, metrics: dict[str, Any], *, called: bool = False, **more: Any) -> dict[str, Any]:
    return agents(number, **(tool(number) if called else {}), **more) | {"metrics": metrics}


@pytest.mark.parametrize(
    ("blocks", "steps"),
    [
        ([block(2, METRICS), block(3, METRICS, called=True)], 1),
        ([block(2, METRICS, called=True), block(3, METRICS, called=True)], 2),
        ([block(n, METRICS, called=True, timestamp="2026-01-01T00:00:00Z") for n in (2, 3)], 1),
        ([block(n, METRICS, called=True, timestamp=f"2026-01-01T00:00:0{n}Z") for n in (2, 3)], 2),
        ([block(n, CACHED, called=True, timestamp=f"2026-01-01T00:00:0{n}Z") for n in (2, 3)], 1),
        ([block(n, METRICS, called=True, extra={"requestId": "r"}) for n in (2, 3)], 1),
        ([block(n, METRICS, extra={"requestId": f"r{n}"}) for n in (2, 3)], 2),
        ([block(2, METRICS), block(3, {**METRICS, "prompt_tokens": 501})], 2),
        ([block(2, METRICS), {"step_id": 3, "source": "user", "message": "on"}, block(4, METRICS)], 2),
        ([block(2, METRICS), block(3, METRICS, model_name="other")], 2),
        ([block(2, {}), block(3, {})], 2),
        ([block(2, {"prompt_tokens": 0}), block(3, {"prompt_tokens": 0})], 2),
    ],
)
def test_blocks_of_one_response_are_one_step(blocks: list[dict[str, Any]], steps: int, tmp_path: Path) -> None:
    (run,) = harbor(tmp_path, *blocks, version="1.4")
    assert run.n_steps == steps
    calls = [call for one in blocks for call in one.get("tool_calls", ())]
    assert run.n_tool_calls == len(calls)
    if steps == 1:
        assert run.steps[0].response.usage[:2] == (500, 20)


def test_calls_of_equal_usage_are_steps_in_a_log_without_results(tmp_path: Path) -> None:
    calls = [block(n, METRICS, called=True) | {"observation": {}} for n in (2, 3)]
    (run,) = harbor(tmp_path, *calls, version="1.4")
    assert run.n_steps == 2
    (run,) = harbor(tmp_path, block(2, METRICS), *calls[1:], version="1.4")
    assert run.n_steps == 1


def test_totals_of_blocks_and_sidechains_differ_from_nothing(tmp_path: Path) -> None:
    side: dict[str, Any] = {"extra": {"is_sidechain": True, "agent_id": "a1"}}
    steps = [block(2, METRICS), block(3, METRICS, called=True), block(4, {**METRICS, "prompt_tokens": 90}, **side)]
    for prompt, completion in ((1090, 60), (590, 40)):
        totals = {"total_prompt_tokens": prompt, "total_completion_tokens": completion, "total_steps": 4}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            harbor(tmp_path, *steps, final_metrics=totals)
    with pytest.warns(ReadWarning, match="final_metrics states 9 input tokens"):
        harbor(tmp_path, *steps, final_metrics={"total_prompt_tokens": 9})


def test_tokens_written_to_the_cache_are_input(tmp_path: Path) -> None:
    (old,), (new,) = (harbor(tmp_path, block(2, CACHED), version=version) for version in ("1.2", "1.7"))
    assert (old.steps[0].response.usage[0], new.steps[0].response.usage[0]) == (530, 500)
    assert {run.steps[0].response.usage.cache_write_tokens for run in (old, new)} == {30}


def test_facts_that_converters_add_are_read(tmp_path: Path) -> None:
    used = {**METRICS, "extra": {"service_tier": "priority", "speed": "fast"}}
    flags = [{"tool_result_is_error": True}, {"tool_result_metadata": {"exit_code": 2}}, {"tool_metadata": {}}]
    steps = [block(2 + n, {**used, "prompt_tokens": n + 1}, called=True) for n in range(3)]
    for step, facts in zip(steps, flags, strict=True):
        step["observation"]["results"][0]["extra"] = facts
    steps[0] |= {"reasoning_effort": "high", "extra": {"stop_reason": "tool_use", "cwd": "/app"}}
    last = agents(9, reasoning_effort="low", extra={"stop_reason": "max_tokens"})
    (run,) = harbor(tmp_path, *steps, last)
    assert [result.is_error for step in run.steps for result in step.results if result] == [True, True, None]
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", None, None, "length"]
    assert [step.response.effort for step in run.steps] == ["high", None, None, "low"]
    assert (run.effort, run.harness_version, run.cwd) == ("mixed", "2.0.46", "/app")
    assert run.steps[0].response[-3:] == ("high", "fast", "priority")
    assert not proxy_success(run)


@pytest.mark.parametrize(
    ("name", "answered", "reason"),
    [("finish", False, "finished"), ("mark_task_complete", True, "finished"), ("submit", True, "finished"),
     ("bash", True, "aborted"), ("bash", False, "aborted")],
)  # fmt: skip
def test_a_call_that_ends_a_run_ends_it(name: str, answered: bool, reason: str, tmp_path: Path) -> None:
    step = agents(2, **tool(2, name))
    if not answered:
        del step["observation"]
    (run,) = harbor(tmp_path, step)
    assert (run.stop_reason, proxy_success(run)) == (reason, reason == "finished")
    failed = agents(2, **tool(2, name), extra={"tool_result_is_error": True})
    assert harbor(tmp_path, failed)[0].stop_reason == "aborted"


def test_the_sample_of_a_converter_has_a_subagent() -> None:
    main, child = read(own("atif/harbor.json"))
    assert [(run.run_id, run.n_steps, run.n_tool_calls) for run in (main, child)] == [
        ("harbor-1", 4, 3),
        ("harbor-1/e1", 2, 1),
    ]
    assert [result.is_error for step in main.steps for result in step.results if result] == [False, True, False]
    assert starts_of(main) == [Start(1, "harbor-1/e1", "Explore")]
    assert (main.effort, main.harness_version, main.git_branch, main.cwd) == ("high", "2.0.46", "main", "/app")
    assert [run.stop_reason for run in (main, child)] == ["finished", "finished"]
    assert sum(step.response.usage.input_tokens or 0 for run in (main, child) for step in run.steps) == 3600


def test_continued_trajectory_and_its_files_are_one_run(tmp_path: Path) -> None:
    def step(number: int, **more: Any) -> dict[str, Any]:
        metrics = {"prompt_tokens": 9 * number, "completion_tokens": number}
        return {"step_id": number, "source": "agent", "message": f"step {number}", "metrics": metrics, **more}

    def put(name: str, steps: list[dict[str, Any]], ref: str | None) -> None:
        head = {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "terminus-2", "version": "2"}}
        rest = {"continued_trajectory_ref": ref} if ref else {}
        (tmp_path / name).write_text(json.dumps({**head, "steps": steps, **rest}))

    copied = [step(1, is_copied_context=True), step(2, is_copied_context=True)]
    put("trajectory.json", [step(1), step(2)], "trajectory.cont-1.json")
    put("trajectory.cont-1.json", [*copied, step(3)], "trajectory.cont-2.json")
    put("trajectory.cont-2.json", [step(4)], None)
    with pytest.warns(ReadWarning, match="it continues trajectory.*, and is read with it"):
        (run,) = bl.load_runs(tmp_path)
    assert [step.response.text for step in run.steps] == [f"step {n}" for n in (1, 2, 3, 4)]
    assert (run.stop_reason, bl.runs_df(run)["output_tokens"].tolist()) == ("finished", [10])
    put("trajectory.cont-2.json", [step(4)], "trajectory.json")  # a circle, a missing file and one elsewhere end it
    for ref in ("trajectory.json", "gone.json", "../trajectory.json"):
        put("trajectory.cont-2.json", [step(4)], ref)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadWarning)
            assert [run.stop_reason for run in bl.load_runs(tmp_path)] == ["aborted"]
