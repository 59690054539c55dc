"""Runs of tau2-bench."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run, Score
from boolab.core.types import Usage
from boolab.errors import ReadWarning
from boolab.logs.fields import Head
from boolab.logs.load import load_runs
from boolab.logs.readers.tau2_bench import sniff
from tests.support.readers import reader_of
from tests.support.samples import own

read = reader_of("tau2_bench")

HEAD = 65_536
INFO = {"num_trials": 1, "max_steps": 100, "max_errors": 10, "agent_info": {"llm": "m"}}


def user(said: str | None, *calls: str) -> dict[str, Any]:
    return {"role": "user", "content": said, "tool_calls": [call(one, "user") for one in calls] or None}


def agent(said: str | None, *calls: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": said, "tool_calls": [call(one) for one in calls] or None, **more}


def call(call_id: str, requestor: str = "assistant") -> dict[str, Any]:
    return {"id": call_id, "name": "look", "arguments": {"at": 1}, "requestor": requestor}


def gives(call_id: str, requestor: str = "assistant", error: object = False) -> dict[str, Any]:
    return {"role": "tool", "id": call_id, "content": "x", "requestor": requestor, "error": error}


def simulation(*messages: Any, reason: str = "user_stop", reward: object = 1.0, **more: Any) -> dict[str, Any]:
    talk = [agent("Hi!"), user("Hello"), *messages]
    given = {"task_id": "7", "trial": 0, "termination_reason": reason, "reward_info": {"reward": reward}}
    return given | {"messages": talk} | more


def write(folder: Path, *simulations: Any, name: str = "a.json", info: Any = None) -> Path:
    path = folder / name
    path.write_text(json.dumps({"info": info or INFO, "tasks": [], "simulations": simulations}))
    return path


def only(path: Path) -> Run:
    (run,) = read(path)
    return run


def test_the_sample_in_one_file() -> None:
    one, two, three = read(own("tau2_bench/results.json"))
    assert [run.run_id for run in (one, two, three)] == ["5f0d-one", "5f0d-two", "5f0d-three"]
    assert [(run.n_steps, run.n_tool_calls) for run in (one, two, three)] == [(3, 3), (3, 2), (1, 2)]
    assert [run.success for run in (one, two, three)] == [True, False, None]
    assert [run.task for run in (one, two, three)] == ["telecom/task_7", "telecom/task_7", "telecom/task_8"]
    assert {(run.agent, run.model) for run in (one, two, three)} == {("llm_agent", "acme/helper-1")}
    assert [step.turn for step in one.steps] == [1, 1, 2]
    assert [r and r.is_error for r in one.steps[0].results] == [False, False, True]
    assert [r and r.is_error for r in three.steps[0].results] == [True, True]
    assert one.steps[0].response.usage == Usage(1_500, 60, None, None, 4_000)
    assert one.steps[0].response.reasoning == "Look everything up."
    assert [step.response.finish_reason for step in one.steps] == ["tool_calls", "stop", "stop"]
    assert [step.response.finish_reason for step in two.steps] == ["tool_calls", "tool_calls", "length"]
    assert one.steps[0].response.tool_calls[1].arguments == '{"id":"L1"}'


def test_times_are_those_of_the_messages() -> None:
    run = read(own("tau2_bench/results.json"))[0]
    assert [(step.start_ms, step.model_ms, step.duration_ms) for step in run.steps] == [
        (2_500, 2_500, 3_250),
        (6_000, 2_000, 2_000),
        (11_000, 2_000, 2_000),
    ]
    assert run.duration_ms == 15_500


def test_the_greeting_is_no_step() -> None:
    run = read(own("tau2_bench/results.json"))[0]
    assert [(message.role, message.text) for message in run.prompt] == [
        ("assistant", "Hi! How can I help you today?"),
        ("user", "My line is dead."),
    ]


def test_calls_of_the_simulated_user_are_neither_calls_nor_turns() -> None:
    run = read(own("tau2_bench/results.json"))[0]
    assert [one.name for step in run.steps for one in step.response.tool_calls] == [
        "get_customer",
        "get_line",
        "get_bill",
    ]
    assert [(before, message.text) for before, message in run.inputs] == [(3, "Done. It works."), (4, "###STOP###")]


def test_message_limits_are_stops_in_their_own_units() -> None:
    one, two, three = read(own("tau2_bench/results.json"))
    assert one.stop[:3] == ("finished", 0, None)
    assert two.stop == ("step_cap", 2, "max_steps(6)", 6, None, ())
    assert three.stop == ("error_streak", 1, "too_many_errors(2)", 2, None, ())
    assert [run.limits for run in (one, two, three)] == [{}, {}, {}]


def test_the_cost_of_a_run_is_kept_where_its_steps_lack_theirs() -> None:
    one, two, three = read(own("tau2_bench/results.json"))
    assert (one.events, three.events) == ((), ())
    assert [(event.kind, event.payload["cost"]) for event in two.events] == [("totals", 7_100)]


def test_single_simulation_file_finds_the_settings_beside_it() -> None:
    run = only(own("tau2_bench/simulations/5f0d-four.json"))
    assert (run.n_steps, run.n_tool_calls, run.stop[:2], run.success) == (2, 1, ("finished", 1), False)
    assert (run.task, run.model) == ("telecom/task_8", "acme/helper-1")


def test_a_run_without_a_user_begins_with_a_step(tmp_path: Path) -> None:
    alone = simulation() | {"messages": [agent(None, "c1"), gives("c1"), agent("###STOP###")]}
    run = only(write(tmp_path, alone))
    assert (run.n_steps, run.n_tool_calls) == (2, 1)


def test_settings_without_simulations_are_no_run_and_no_error(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"info": INFO, "tasks": [], "simulation_index": []}))
    assert sniff(Head(path.read_bytes(), path))
    assert read(path) == []


def test_results_in_one_message_are_all_read(tmp_path: Path) -> None:
    both = {"role": "tool", "tool_messages": [gives("c2", error=True), gives("c1")]}
    run = only(write(tmp_path, simulation(agent(None, "c1", "c2", "c3"), both)))
    assert [r.is_error if r else "dropped" for r in run.steps[0].results] == [False, True, "dropped"]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("user_stop", "finished"),
        ("agent_stop", "finished"),
        ("max_steps", "step_cap"),
        ("timeout", "time_budget"),
        ("too_many_errors", "error_streak"),
        ("context_window_exceeded", "token_budget"),
        ("agent_error", "error"),
        ("infrastructure_error", "error"),
        ("something_new", "error"),
        ("", "finished"),
    ],
)
def test_the_termination_tells_why_a_run_ended(tmp_path: Path, reason: str, stop: str) -> None:
    run = only(write(tmp_path, simulation(agent("Bye."), reason=reason)))
    assert run.stop.reason == stop
    assert run.error == (reason if stop == "error" else None)


@pytest.mark.parametrize(("reward", "label"), [(1.0, True), (1, True), (0.5, False), (None, None), ("1", None)])
def test_only_a_full_reward_is_a_success(tmp_path: Path, reward: object, label: bool | None) -> None:
    run = only(write(tmp_path, simulation(agent("Bye."), reward=reward)))
    assert run.success is label
    assert label is None or run.scores == (Score("reward", reward),)


def test_what_a_result_does_not_say_is_unknown(tmp_path: Path) -> None:
    run = only(write(tmp_path, simulation(agent(None, "c1"), gives("c1", error=None))))
    (result,) = run.steps[0].results
    assert result is not None
    assert result.is_error is None


def test_simulations_without_an_id_get_one_each(tmp_path: Path) -> None:
    runs = read(write(tmp_path, simulation(), simulation(), name="air.json"))
    assert [run.run_id for run in runs] == ["air/7/0", "air/7/0#2"]


def test_voice_and_other_things_are_told(tmp_path: Path) -> None:
    voice = simulation() | {"messages": None, "ticks": []}
    with pytest.warns(ReadWarning) as told:
        runs = read(write(tmp_path, simulation(agent("Bye.")), voice, "what", {"task_id": 3}))
    assert len(runs) == 1
    assert ["voice, which" in str(one.message) for one in told] == [True, False, False]


def test_of_a_file_that_was_cut_the_simulations_before_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, simulation(agent("one")), simulation(agent("two")), simulation(agent("three")))
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"three")])
    with pytest.warns(ReadWarning, match=":1: the file ends in the middle of a value"):
        assert [run.text for run in read(path)] == ["one", "two"]


def bare(folder: Path, *simulations: Any, name: str = "a.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(simulations))
    return path


def test_a_bare_list_of_simulations_is_read(tmp_path: Path) -> None:
    path = bare(tmp_path, simulation(agent("a", "c"), gives("c")), simulation(agent("b"), reward=0.0, task_id="8"))
    assert sniff(Head(path.read_bytes(), path))
    one, two = load_runs(path)
    assert [(run.source, run.run_id, run.n_steps, run.n_tool_calls, run.success) for run in (one, two)] == [
        ("tau2_bench", "a/7/0", 1, 1, True),
        ("tau2_bench", "a/8/0", 1, 0, False),
    ]
    assert (one.model, one.stop_reason) == ("", "finished")


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("my_retail_gpt.json", "retail/7"),
        ("2025_airline.json", "airline/7"),
        ("telecom/a.json", "telecom/7"),
        ("retail/airline_4.json", "airline/7"),
        ("retailer/a.json", "7"),
        ("a.json", "7"),
    ],
)
def test_the_domain_of_a_bare_list_is_told_by_its_path(tmp_path: Path, name: str, task: str) -> None:
    assert only(bare(tmp_path, simulation(agent("a")), name=name)).task == task


def test_domain_of_a_bare_list_comes_from_its_tools(tmp_path: Path) -> None:
    asks = agent("a", "c")
    asks["tool_calls"][0]["name"] = "get_order_details"
    assert only(bare(tmp_path, simulation(asks, gives("c")))).task == "retail/7"


def test_settings_without_a_domain_are_not_guessed_at(tmp_path: Path) -> None:
    assert only(write(tmp_path, simulation(agent("a")), name="retail.json")).task == "7"


def test_of_a_bare_list_what_is_no_simulation_is_told(tmp_path: Path) -> None:
    with pytest.warns(ReadWarning, match="simulation 2 is without task_id or messages"):
        assert len(read(bare(tmp_path, simulation(agent("a")), {"passed": True}))) == 1


def test_the_model_of_a_submission_is_the_one_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "submission.json").write_text(json.dumps({"model_name": "Orchestrator", "results": {}}))
    assert only(write(tmp_path / "trajectories", simulation(agent("a")))).model == "Orchestrator"
