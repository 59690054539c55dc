"""Sweeps in one event loop."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boolab as bl
from boolab import policies, runs_df
from boolab.harnesses.policy import DEFAULT
from boolab.sweeps.cells import Cell, Plan
from tests.support.helpers import TOOLS, Counting, Listening, call, distinct, steps

STUCK = bl.ScriptedModel([{"tool_calls": [call("look")], "repeat": "forever"}], name="stuck")
A, B = bl.Agent("a", tools=TOOLS), bl.Agent("b", tools=TOOLS, max_steps=3)


def sweep_now(*args: Any, **options: Any) -> list[Any]:
    return asyncio.run(bl.sweep(*args, progress=False, **options))


def test_sweep_runs_each_cell_in_order() -> None:
    models = {"stuck": STUCK, "short": bl.ScriptedModel(["end"])}
    runs = sweep_now([A, B], ["one", "two"], models, grid={"max_steps": [1, 2], "doom_loop": [None]}, repeats=2)
    frame = runs_df(runs)
    assert len(frame) == 2 * 2 * 2 * 2 * 2
    keys = ["agent", "task", "model", "max_steps"]
    assert frame.groupby(keys, sort=False).size().tolist() == [2] * 16
    assert frame["agent"].tolist() == ["a"] * 16 + ["b"] * 16
    assert frame["model"].tolist()[:8] == ["stuck"] * 4 + ["short"] * 4
    assert (
        frame.loc[frame["model"] == "stuck", "n_steps"].tolist()
        == frame.loc[frame["model"] == "stuck", "max_steps"].tolist()
    )


def test_a_swept_run_is_the_run_that_run_makes() -> None:
    (swept,) = sweep_now(A, "go", bl.ScriptedModel(steps("A A A")), grid={"doom_loop": [2]})
    alone = bl.run_sync(replace(A, doom_loop=2), "go", model=bl.ScriptedModel(steps("A A A")))
    assert swept.settings == {"doom_loop": 2}
    assert replace(swept, run_id="", seed=None, settings={}) == replace(alone, run_id="")


def test_sweep_runs_equal_cells_once() -> None:
    runs = sweep_now(A, "go", STUCK, grid={"policy": ["boocode", "naive"], "doom_loop": [2, 3], "max_steps": [5]})
    frame = runs_df(runs)[["policy", "doom_loop", "max_steps", "n_steps"]]
    assert frame.astype(object).where(frame.notna(), None).values.tolist() == [
        ["boocode", 2, 5, 2],
        ["boocode", 3, 5, 3],
        ["naive", None, 5, 5],
    ]


def test_sweep_ignores_a_setting_that_the_policy_lacks() -> None:
    agent = bl.Agent("a", tools=TOOLS, tool_budget=1)
    (run,) = sweep_now(agent, "go", bl.ScriptedModel(distinct(4)), grid={"policy": ["naive"]})
    assert run.stop_reason == "finished"


def test_all_cells_are_checked_before_the_first_runs() -> None:
    model = Listening(["end"])
    with pytest.raises(bl.SettingError, match="agent 'a' under opencode_3631.*max_steps=0 is not valid"):
        sweep_now(A, "go", model, grid={"max_steps": [1, 0], "policy": ["boocode", "opencode_3631"]})
    with pytest.raises(bl.SettingError, match="lists the tool 'fly'"):
        sweep_now([A, bl.Agent("x", tools=("fly",))], "go", model)
    with pytest.raises(bl.SettingError, match="there is no axis 'budget'; did you mean 'tool_budget'"):
        sweep_now(A, "go", model, grid={"budget": [1]})
    with pytest.raises(bl.SettingError, match="DEFAULT is not a value of 'max_steps'; leave the axis out"):
        sweep_now(A, "go", model, grid={"max_steps": [DEFAULT]})
    with pytest.raises(bl.SettingError, match="repeats=0"):
        sweep_now(A, "go", model, repeats=0)
    assert model.requests == []


def test_a_failing_run_is_a_row_and_not_the_end() -> None:
    models = {"bad": bl.ScriptedModel([{"error": {"status": 500}}]), "good": bl.ScriptedModel(["end"])}
    assert [r.stop_reason for r in sweep_now(A, "go", models)] == ["error", "finished"]


def test_the_model_may_be_a_function_of_the_cell() -> None:
    runs = sweep_now([A, B], "go", lambda cell: bl.ScriptedModel([cell.agent.name]))
    assert [r.text for r in runs] == ["a", "b"]


def test_sweep_seed_does_not_depend_on_settings() -> None:
    one = [cell.seed for cell in Plan([A, B], "go", None, {"max_steps": [1, 2]}, 2)]
    other = [cell.seed for cell in Plan([B, A], ["x", "go"], None, {"max_steps": [2, 1, 9]}, 3)]
    assert one[:2] == one[2:4]
    assert len(set(one)) == 4
    assert set(one) <= set(other)
    assert all(run.seed in one for run in sweep_now([A, B], "go", STUCK, grid={"max_steps": [1, 2]}, repeats=2))


def test_runs_are_under_way_at_once_but_no_more_than_asked_for() -> None:
    model = Counting(["end"])
    sweep_now(A, "go", model, repeats=50, concurrency=7)
    assert model.most == 7


@pytest.mark.parametrize("stated", [1, 3])
def test_sweep_keeps_to_the_concurrency_that_its_model_states(stated: int) -> None:
    model = Counting(["end"])
    model.concurrency = stated
    sweep_now(A, "go", model, repeats=10)
    assert model.most == stated


def test_numpy_integers_in_a_grid_are_integers() -> None:
    frame = runs_df(sweep_now(A, "go", STUCK, grid={"max_steps": np.arange(1, 3)}))
    assert str(frame["max_steps"].dtype) == "Int64"
    assert frame["max_steps"].tolist() == [1, 2]


def test_agents_may_come_as_load_agents_gives_them() -> None:
    assert [r.agent for r in sweep_now({"a": A, "b": B}, "go", STUCK)] == ["a", "b"]
    with pytest.raises(bl.SettingError, match="agents: 'a' is not an agent"):
        sweep_now(["a"], "go", STUCK)


def test_axes_and_tasks_that_are_no_lists_are_named() -> None:
    with pytest.raises(bl.SettingError, match="grid: max_steps=5 is not a list of values"):
        sweep_now(A, "go", STUCK, grid={"max_steps": 5})
    with pytest.raises(bl.SettingError, match="tasks: .* is not accepted; expected a text, or texts"):
        sweep_now(A, [{"role": "user"}], STUCK)


def test_no_cells_give_no_runs() -> None:
    assert sweep_now([], "go", STUCK) == []


def test_scores_are_taken() -> None:
    runs = sweep_now(A, "go", bl.ScriptedModel(["yes"]), score=lambda run: run.text == "yes")
    assert [r.success for r in runs] == [True]


def test_cancelling_a_sweep_leaves_no_task() -> None:
    async def scenario() -> int:
        class Silent(bl.ScriptedModel):
            async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
                await asyncio.Event().wait()
                return bl.models.Response()

        task = asyncio.create_task(bl.sweep(A, "go", Silent(["x"]), repeats=5, progress=False))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1


def test_sweep_of_instant_runs_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is long enough to give way by itself; the event loop must not wait for all of them."""
    cells = 3000
    monkeypatch.setattr("boolab.sweeps.driver.YIELD_EVERY_S", 0.001)  # a fast machine needs less than 0.1 s for all

    async def scenario() -> list[Any]:
        task = asyncio.create_task(bl.sweep(A, "go", bl.ScriptedModel(["end"]), repeats=cells, progress=False))
        await asyncio.sleep(0)  # its plan is made, and nothing is run yet
        asyncio.get_running_loop().call_later(0.001, task.cancel)
        with pytest.raises(asyncio.CancelledError) as interrupted:
            await task
        return list(interrupted.value.runs)  # type: ignore[attr-defined] # what is done so far

    assert len(asyncio.run(scenario())) < cells


def test_a_progress_bar_is_shown_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(bl.sweep(A, "go", bl.ScriptedModel(["end"]), repeats=3))
    assert "3/3" in capsys.readouterr().err
    asyncio.run(bl.sweep(A, "go", bl.ScriptedModel(["end"]), repeats=3, progress=False))
    assert capsys.readouterr().err == ""


def test_equal_temperatures_are_one_whatever_they_came_as() -> None:
    values = [*np.linspace(0, 1, 3), 1, 1.0, np.float32(0.5), None]
    runs = sweep_now(A, "go", bl.ScriptedModel(["end"]), grid={"temperature": values})
    assert [run.settings["temperature"] for run in runs] == [0.0, 0.5, 1.0, None]
    assert all(type(run.settings["temperature"]) is float for run in runs[:3])
    for value in (True, "hot", float("nan"), float("inf")):
        with pytest.raises(bl.SettingError, match="temperature=.* is not accepted; expected numbers"):
            sweep_now(A, "go", STUCK, grid={"temperature": [value]})


def test_sweep_refuses_unknown_stop_reasons() -> None:
    with pytest.raises(bl.SettingError, match="model: 1 is not a name; expected models by name"):
        sweep_now(A, "go", {1: STUCK})
    with pytest.raises(bl.SettingError, match="again: 'eror' is not a stop reason; expected some of finished, .*error"):
        sweep_now(A, "go", STUCK, again=("eror",))
    with pytest.raises(bl.SettingError, match="concurrency=True"):
        sweep_now(A, "go", STUCK, concurrency=True)


def test_sweep_error_of_a_model_function_names_the_cell() -> None:
    def model(cell: Cell) -> bl.ScriptedModel:
        return bl.ScriptedModel([{1: "end"}[cell.settings["max_steps"]]])

    with pytest.raises(KeyError) as caught:
        sweep_now(A, "go", model, grid={"max_steps": [1, 2]})
    assert caught.value.__notes__ == [
        "in the function that makes the model, for the cell: agent 'a' under boocode with max_steps=2"
    ]


def test_what_cannot_be_sent_to_a_worker_is_named() -> None:
    lock = threading.Lock()

    @bl.tool
    def held() -> str:
        """Say who holds it."""
        return str(lock)

    class Locked(bl.ScriptedModel):
        guard = threading.Lock()

    parts: list[tuple[str, dict[str, Any]]] = [
        ("the tool 'held'", {"tools": [held]}),
        ("score", {"score": lambda _run: lock.locked()}),
        ("model", {"model": Locked(["end"])}),
        ("the model 'x'", {"model": {"x": Locked(["end"])}}),
        ("the agent 'b'", {"agents": bl.Agent("b", tools=(held,))}),
    ]
    with ThreadPoolExecutor(1) as executor:
        for named, part in parts:
            with pytest.raises(
                bl.SettingError, match=f"^{named} cannot be sent to a worker .*lock.*leave out executor="
            ):
                sweep_now(
                    **{"agents": A, "tasks": "go", "model": bl.ScriptedModel(["end"]), "executor": executor, **part}
                )


def test_a_score_that_leaves_costs_the_score_alone() -> None:
    def leave(_run: bl.Run) -> bool:
        sys.exit(3)

    (run,) = sweep_now(A, "go", bl.ScriptedModel(["end"]), score=leave)
    assert (run.stop_reason, run.success) == ("finished", None)


def test_sweep_keeps_runs_of_two_unnamed_models(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    for name in ("one", "other", "one"):
        sweep_now(A, "go", bl.ScriptedModel(["end"], name=name), store=store)
    sweep_now(replace(A, model=bl.ScriptedModel(["end"], name="own")), "go", store=store)
    assert sorted(run.model for run in bl.stored_runs(store)) == ["one", "other", "own"]


def test_a_task_that_stands_twice_is_run_once() -> None:
    assert [run.task for run in sweep_now(A, ["go", "run", "go"], bl.ScriptedModel(["end"]))] == ["go", "run"]


def test_models_that_have_names_see_each_their_own_randomness() -> None:
    runs = sweep_now(A, "go", {"one": STUCK, "other": STUCK}, grid={"max_steps": [1, 2]})
    assert [run.seed for run in runs] == [runs[0].seed] * 2 + [runs[-1].seed] * 2
    assert runs[0].seed != runs[-1].seed


def test_the_order_in_which_a_grid_is_written_changes_no_cell() -> None:
    values: dict[str, list[Any]] = {"max_steps": [1, 2], "tool_budget": [3], "temperature": [0.5, 0]}
    there, back = (dict(items) for items in (values.items(), reversed(values.items())))
    ids = [{run.run_id for run in sweep_now(A, "go", STUCK, grid=grid)} for grid in (there, back)]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 4


def test_sweep_runs_a_changed_policy_again() -> None:
    one = policies["boocode"].vary(name="mine")
    ids = [
        sweep_now(A, "go", STUCK, grid={"policy": [policy]})[0].run_id
        for policy in (one, one.vary(wrap_up={"sentinel": False}))
    ]
    assert ids[0] != ids[1]


def test_sweep_checks_each_model_of_a_function_first() -> None:
    def model(cell: Cell) -> Any:
        return cell.settings["max_steps"] if cell.settings["max_steps"] == 3 else Silent(["end"])

    class Silent(bl.ScriptedModel):
        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            raise AssertionError(request)

    with pytest.raises(bl.SettingError, match="with max_steps=3: model=3 is no model"):
        sweep_now(A, "go", model, grid={"max_steps": [1, 2, 3]})
