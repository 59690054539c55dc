"""Logs of OpenHands before its SDK."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.run_tree import Start, starts_of
from boolab.core.types import Usage
from boolab.logs.load import load_runs
from tests.support.readers import reader_of
from tests.support.samples import own

read = reader_of("openhands")

ROWS = own("openhands/output.jsonl")
COST = {"steps": 7, "cost": 1_000_000}


def runs_of(path: Path) -> tuple[list[Run], list[str]]:
    told: list[str] = []
    return read(path, told.append), told


def write(folder: Path, history: object, **row: Any) -> Path:
    path = folder / "output.jsonl"
    path.write_text(json.dumps({"instance_id": "a", "test_result": {}, "history": history, **row}) + "\n")
    return path


def user(said: str) -> dict[str, Any]:
    return {"source": "user", "action": "message", "args": {"content": said}}


def act(number: int, kind: str = "run", **args: Any) -> dict[str, Any]:
    return {"id": number, "source": "agent", "action": kind, "args": args}


def see(cause: int, kind: str = "run", content: str = "ok", **extras: Any) -> dict[str, Any]:
    return {
        "id": cause + 1,
        "source": "agent",
        "cause": cause,
        "observation": kind,
        "content": content,
        "extras": extras,
    }


def test_a_row_is_a_run_with_its_label_and_its_limit() -> None:
    runs, told = runs_of(ROWS)
    assert told == []
    tasks = ["desk__counter-1", "desk__printer-2", "desk__price-3", "Look it up.", "desk__lamp-4"]
    assert [run.task for run in runs] == tasks
    assert [run.run_id for run in runs[:2]] == ["openhands/desk__counter-1", "openhands/desk__printer-2"]
    assert [run.success for run in runs] == [True, None, False, None, None]
    assert [run.n_steps for run in runs] == [3, 4, 2, 2, 0]
    assert [run.n_tool_calls for run in runs] == [3, 4, 1, 1, 0]
    assert {run.model for run in runs} == {"lab/clerk-2"}
    assert runs[0].limits == {"steps": 4}


def test_actions_of_one_response_form_one_step_with_arguments() -> None:
    run = read(ROWS)[0]
    first, second, last = run.steps
    assert first.response.text == "I look around."
    assert [call.arguments for call in first.response.tool_calls] == ['{"command": "ls"}', '{"command": "cat missing"}']
    assert [result and result.is_error for result in first.results] == [False, True]
    assert (first.start_ms, first.model_ms, first.duration_ms) == (1000, 3000, 6000)
    (bad,) = second.results
    assert bad is not None
    assert (bad.is_error, bad.parse_error, bad.content) == (True, True, "Invalid arguments")
    assert ([call.name for call in last.dropped], run.stop[:2]) == (["finish"], ("finished", 2))
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls"] * 3
    assert [happened.kind for happened in run.events] == ["compaction"]
    assert [message.role for message in run.prompt] == ["system", "user"]


def test_usage_is_per_response_and_costs_become_differences() -> None:
    steps = read(ROWS)[0].steps
    assert [step.response.usage[:5] for step in steps] == [
        (100, 20, 30, 4, 10_000),
        (150, 10, 100, 0, 20_000),
        (180, 7, 150, None, 10_000),
    ]


def test_accumulated_tokens_are_usage_and_zero_cost_is_unknown() -> None:
    (run,) = read(own("openhands/trajectory.json"))
    assert run.steps[0].response.usage == Usage(50, 9, 10)
    assert {step.response.usage.cost for step in run.steps} == {None}
    assert [step.turn for step in run.steps] == [1, 2, 2]
    assert [step.results[0] and step.results[0].is_error for step in run.steps[1:]] == [False, None]
    assert (run.run_id, run.task, run.stop_reason) == ("trajectory", "Hello", "aborted")


def test_a_difference_over_a_response_without_metrics_is_unknown(tmp_path: Path) -> None:
    def spent(number: int, cost: float | None) -> dict[str, Any]:
        return act(number, command="x") | ({} if cost is None else {"llm_metrics": {"accumulated_cost": cost}})

    (run,) = read(write(tmp_path, [spent(1, 0.1), spent(2, None), spent(3, 0.4), spent(4, 0.5)]))
    assert [step.response.usage.cost for step in run.steps] == [100_000, None, None, 100_000]


def test_iteration_cap_is_step_cap_and_running_command_no_error() -> None:
    run = read(ROWS)[1]
    assert run.stop == ("step_cap", 4, "max_iterations(4)", 4, 4, ())
    assert [step.results[0] and step.results[0].is_error for step in run.steps] == [None, None, None, True]
    assert run.error is not None
    assert run.error.startswith("RuntimeError: Agent reached maximum iteration")


def test_what_a_delegate_does_is_a_run_of_its_own() -> None:
    _, _, run, child, _ = read(ROWS)
    assert (child.parent_run_id, child.run_id) == (run.run_id, f"{run.run_id}/delegate-1")
    assert (child.agent, child.task, child.stop_reason) == ("BrowsingAgent", "Look it up.", "finished")
    assert [call.name for step in child.steps for call in step.response.tool_calls] == ["browser", "finish"]
    (result,) = run.steps[0].results
    assert result is not None
    assert result.content == "5"
    assert (child.steps[0].results[0] or result).is_error is True
    assert (run.text, run.stop_reason) == ("It costs 5.", "finished")
    assert starts_of(run) == [Start(1, child.run_id, "BrowsingAgent")]


def test_old_pairs_and_the_resolvers_label_are_read() -> None:
    (run,) = read(own("openhands/pairs.jsonl"))
    assert (run.run_id, run.task, run.success) == ("pairs/issue-12", "issue-12", True)
    assert [step.response.text for step in run.steps] == ["I count.", "", "Seven."]
    assert run.steps[0].response.tool_calls[0][1:] == ("run", '{"command":"wc"}')
    assert [step.results[0] and step.results[0].is_error for step in run.steps] == [False, None, None]
    assert (run.n_tool_calls, run.stop_reason) == (2, "finished")


@pytest.mark.parametrize(
    ("error", "reason", "limits"),
    [
        ("Agent reached maximum iteration. Current iteration: 30.00, max iteration: 30.00", "step_cap", {"steps": 30}),
        ("Agent reached maximum iteration.", "step_cap", {"steps": 7}),
        ("Agent reached maximum budget for conversation.Current budget: 1.2, max budget: 1.0", "cost_budget", COST),
        ("AgentStuckInLoopError: Agent got stuck in a loop", "stuck", {"steps": 7}),
        ("Timeout after 60 seconds", "time_budget", {"steps": 7, "elapsed": 60_000}),
        ("litellm.Timeout: APITimeoutError - Request timed out.", "error", {"steps": 7}),
    ],
)  # fmt: skip
def test_the_rows_error_says_how_it_ended(tmp_path: Path, error: str, reason: str, limits: dict[str, int]) -> None:
    path = write(tmp_path, [user("x"), act(1)], error=error, metadata={"max_iterations": 7})
    (run,) = read(path)
    assert (run.stop_reason, dict(run.limits), run.error) == (reason, limits, error)


def test_finish_stays_despite_a_row_error_unless_a_turn_follows(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path, [act(1, "finish")], error="while scoring"))
    assert (run.stop_reason, run.error) == ("finished", "while scoring")
    (run,) = read(write(tmp_path, [act(1, "finish"), user("more"), act(2), see(2)]))
    assert run.stop_reason == "aborted"


@pytest.mark.parametrize(
    ("state", "reason", "ended"),
    [("error", "", "error"), ("stopped", "", "aborted"), ("paused", "", "paused"), ("running", "", "finished")],
)
def test_the_last_state_says_how_a_trajectory_ended(tmp_path: Path, state: str, reason: str, ended: str) -> None:
    changed = {
        "source": "environment",
        "observation": "agent_state_changed",
        "content": "",
        "extras": {"agent_state": state},
    }
    (run,) = read(write(tmp_path, [user("x"), act(1, "message", content="Hi."), changed]))
    assert run.stop_reason == ended


def test_an_error_of_the_harness_is_an_event_and_the_end(tmp_path: Path) -> None:
    broken = {"source": "environment", "observation": "error", "content": "no connection", "extras": {}}
    (run,) = read(write(tmp_path, [user("x"), act(1), broken]))
    assert ([happened.kind for happened in run.events], run.stop_reason, run.error) == (
        ["fault"],
        "error",
        "no connection",
    )


def test_first_of_two_observations_counts_and_orphan_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, [act(1), see(1, content="one"), see(1, content="two"), see(9)])
    runs, told = runs_of(path)
    assert [result and result.content for result in runs[0].steps[0].results] == ["one"]
    assert told == [f"{path}:1: 1 tool result answers no call that is in the file; left out"]


@pytest.mark.parametrize(
    ("kind", "content", "extras", "failed"),
    [
        ("edit", "ERROR:\nNo match found", {"impl_source": "oh_aci"}, True),
        ("edit", "--- a\n+++ b", {"impl_source": "oh_aci"}, False),
        ("read", "ERROR: of the file's own", {"impl_source": "default"}, False),
        ("mcp", '{"content": [], "isError": true}', {}, True),
        ("mcp", '{"content": [], "isError": false}', {}, False),
        ("mcp", "{", {}, None),
        ("browse", "a page", {"error": False}, False),
        ("browse", "a page", {}, None),
        ("think", "", {}, False),
        ("run_ipython", "Traceback", {}, None),
        ("user_rejected", "", {}, None),
        ("delegate", "", {}, None),
        ("run", "", {"exit_code": 1}, True),
        ("run", "", {}, None),
    ],
)
def test_an_observation_is_an_error_where_it_says_so(
    tmp_path: Path, kind: str, content: str, extras: dict[str, Any], failed: bool | None
) -> None:
    (run,) = read(write(tmp_path, [act(1), see(1, kind, content, **extras)]))
    assert [result and result.is_error for result in run.steps[0].results] == [failed]


def test_an_instance_that_is_there_twice_has_an_id_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, [])
    path.write_text(path.read_text() * 2)
    assert [run.run_id.split("/")[-1] for run in read(path)] == ["a", "a#2"]


def test_a_line_that_is_damaged_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, [user("x")])
    path.write_text(path.read_text() + "{\n3\n" + path.read_text())
    runs, told = runs_of(path)
    assert (len(runs), len(told)) == (2, 2)
    assert f"{path}:3: no instance with a history; skipped" in told


REJECTIONS = [
    "Failed to parse tool call arguments: {",
    'Missing required argument "command" in tool call execute_bash',
    "Tool run is not registered. (arguments: {}). Please check the tool name.",
    "Function 'run' not found in available tools: {'execute_bash'}",
]


@pytest.mark.parametrize("content", REJECTIONS)
def test_a_response_that_only_its_rejection_records_is_a_step(content: str, tmp_path: Path) -> None:
    events = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "Hi"}},
        {"id": 1, "source": "agent", "observation": "error", "content": content, "extras": {}},
        {"id": 2, "source": "agent", "action": "message", "args": {"content": "Done"}},
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events))
    (run,) = load_runs(path, prices=False)
    assert [step.response.text for step in run.steps] == ["", "Done"]
    assert ({step.turn for step in run.steps}, run.stop_reason, run.error) == ({1}, "finished", None)


def test_other_errors_without_a_cause_are_faults(tmp_path: Path) -> None:
    events = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "Hi"}},
        {"id": 1, "source": "agent", "action": "message", "args": {"content": "Done"}},
        {"id": 2, "source": "agent", "observation": "error", "content": "Agent got stuck in a loop", "extras": {}},
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events))
    (run,) = load_runs(path, prices=False)
    assert (run.n_steps, run.stop_reason) == (1, "stuck")


def test_a_row_without_a_label_has_that_of_the_report_beside_it(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"instance_id": f"x__y-{number}", "test_result": {}, "history": [user("Go")]} for number in (1, 10, 2)
    ]
    rows.append({**rows[0], "instance_id": "x__y-3", "resolved": True})
    (tmp_path / "output.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = {"submitted_ids": ["x__y-1", "x__y-10", "x__y-3"], "resolved_ids": ["x__y-10"]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    runs, _ = runs_of(tmp_path / "output.jsonl")
    assert {run.task: run.success for run in runs} == {
        "x__y-1": False, "x__y-10": True, "x__y-2": None, "x__y-3": True,
    }  # fmt: skip
