"""Runs that are cut from a looser setting's run are those that running them gives."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boolab as bl
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.guard import Guard
from boolab.sweeps.cells import Plan, PlannedCell, Task
from boolab.sweeps.driver import sweep
from boolab.sweeps.reuse import group_cells, is_plain
from boolab.sweeps.task import Job, make_lost_run, run_task
from tests.support.cases import first
from tests.support.helpers import TOOLS, grouped

AGENT = bl.Agent("worker", tools=TOOLS)


class Counting:
    """Passes requests on to a model and counts them."""

    virtual = True

    def __init__(self, model: bl.ScriptedModel) -> None:
        self.name = model.name
        self.summarises = model.summarises
        self.model = model
        self.asked = 0

    async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
        self.asked += 1
        return await self.model.respond(request, emit)


def script(chance: random.Random) -> bl.ScriptedModel:
    """A model that calls, repeats itself, fails, and says what it used, or not."""
    told = chance.random() < 0.7
    items: list[dict[str, Any]] = []
    for _ in range(chance.randint(1, 12)):
        calls = [
            {"name": chance.choice(["look", "fail", "nobody"]), "arguments": {"n": chance.randint(1, 2)}}
            for _ in range(chance.choice([1, 1, 1, 2, 3]))
        ]
        item: dict[str, Any] = {"tool_calls": calls, "repeat": chance.choice([1, 1, 1, 2, 5]), "latency_ms": 3}
        if told:
            item["usage"] = {"input_tokens": chance.randint(1, 50), "output_tokens": 2, "cost_usd": 0.01}
        items.append(item)
    if chance.random() < 0.3:
        items.append({"text": "Well", "error": {"status": 500, "after": 2}})
    summary = "In short." if chance.random() < 0.5 else None
    return bl.ScriptedModel([*items, "Done."], summary=summary)


def grid(chance: random.Random, policies: list[str]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {
        "max_steps": [1, 2, 3, 5, 8, 13, None],
        "tool_budget": [1, 2, 4, 9, 15, None],
        "doom_loop": [2, 3, 4, 6, None],
        "policy": policies,
    }
    return {
        axis: chance.sample(values[axis], min(len(values[axis]), 3))
        for axis in chance.sample([*values], chance.randint(2, 4))
    }


def fussy(run: bl.Run) -> bool:
    """A score that depends on the settings too, and fails at times."""
    if run.n_steps == 4:
        msg = "four"
        raise ValueError(msg)
    return (run.n_steps + (run.settings.get("max_steps") or 0)) % 2 == 0


@pytest.mark.parametrize("seed", first(5, range(40)))
def test_derived_runs_are_those_that_running_every_cell_gives(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    options: dict[str, Any] = {
        "grid": grid(chance, chance.sample([*bl.policies], 4)),
        "repeats": 2,
        "score": chance.choice([None, fussy]),
        "progress": False,
    }
    models = {"one": script(chance), "other": script(chance)}
    plainly = asyncio.run(sweep(AGENT, ["go", "run"], models, **options))
    derived = asyncio.run(sweep(AGENT, ["go", "run"], models, reuse_prefixes=True, **options))
    assert derived == plainly
    for frame in (bl.runs_df, bl.steps_df, bl.calls_df, bl.events_df):
        assert frame(derived).equals(frame(plainly))


def test_the_model_is_asked_for_the_loosest_setting_alone() -> None:
    values: dict[str, list[Any]] = {"max_steps": [2, 4, 8], "tool_budget": [3, 6, None], "doom_loop": [2, 9]}
    calls = [{"tool_calls": [{"name": "look", "arguments": {"n": n}}]} for n in range(20)]
    model = Counting(bl.ScriptedModel([*calls, "Done."]))
    runs = asyncio.run(sweep(AGENT, "go", model, grid=values, reuse_prefixes=True, progress=False))
    assert len(runs) == 18
    assert model.asked == 8
    asyncio.run(sweep(AGENT, "go", model, grid=values, progress=False))
    assert model.asked == 8 + sum(run.n_steps for run in runs)


def test_reuse_requests_the_summary_of_a_cut_run() -> None:
    class Sums(Counting):
        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            if request.purpose == "summary":
                return bl.models.Response(f"{len(request.messages)} messages at {request.index}")
            return await super().respond(request, emit)

    calls = [{"tool_calls": [{"name": "look", "arguments": {"n": n}}], "latency_ms": 5} for n in range(20)]
    model = Sums(bl.ScriptedModel([*calls, "Done."], summary="unused"))
    options: dict[str, Any] = {"grid": {"max_steps": [2, 4, 8]}, "progress": False}
    plainly = asyncio.run(sweep(AGENT, "go", model, **options))
    derived = asyncio.run(sweep(AGENT, "go", model, reuse_prefixes=True, **options))
    assert derived == plainly
    assert len({run.text for run in derived}) == 3


def test_what_a_policy_tells_its_model_is_never_cut() -> None:
    spoken = [
        name
        for name, policy in bl.policies.items()
        if policy.last_step.action != "tools" or policy.last_step.reminder != "none"
    ]
    assert len(spoken) > 3
    assert not any(is_plain(bl.policies[name]) for name in spoken)
    plan = Plan(AGENT, "go", None, {"max_steps": [3, 5], "policy": spoken})
    cells = [PlannedCell(place, cell, str(place)) for place, cell in enumerate(plan)]
    assert [len(group) for group in group_cells(cells, lambda _: None)] == [1] * len(cells)


def test_reuse_runs_each_setting_with_its_own_model() -> None:
    def model(cell: Any) -> bl.ScriptedModel:
        call = {"tool_calls": [{"name": "look", "arguments": {"cap": cell.settings["max_steps"]}}], "repeat": 9}
        return bl.ScriptedModel([call, "Done."])

    options: dict[str, Any] = {"grid": {"max_steps": [2, 4], "doom_loop": [3, None]}, "progress": False}
    plainly = asyncio.run(sweep(AGENT, "go", model, **options))
    assert asyncio.run(sweep(AGENT, "go", model, reuse_prefixes=True, **options)) == plainly
    assert plainly[0].steps[0] != plainly[-1].steps[0]


def test_subagents_keep_a_cell_from_being_cut() -> None:
    scout = bl.Agent("scout", model=bl.ScriptedModel(["Here."]))
    asks = {"tool_calls": [{"name": "task", "arguments": {"agent": "scout", "prompt": "Where?"}}]}
    options: dict[str, Any] = {"grid": {"max_steps": [1, 2, 3]}, "tools": [bl.task_tool(scout)], "progress": False}
    model = bl.ScriptedModel([asks, asks, "Done."])
    plainly = asyncio.run(sweep(bl.Agent("lead"), "go", model, **options))
    assert asyncio.run(sweep(bl.Agent("lead"), "go", model, reuse_prefixes=True, **options)) == plainly
    assert len({run.run_id for run in plainly}) == len(plainly) == 3 + 1 + 2 + 2


def both(agent: bl.Agent, model: Any, **options: Any) -> tuple[list[bl.Run], list[bl.Run]]:
    """What running every cell gives, and what deriving gives."""
    plainly = asyncio.run(sweep(agent, "go", model, progress=False, **options))
    return plainly, asyncio.run(sweep(agent, "go", model, progress=False, reuse_prefixes=True, **options))


@pytest.mark.parametrize(
    "changes",
    [
        {"finish.asks_again": "after_errors"},
        {"finish.tools": ("look",)},
        {"detectors.guards": (Guard(detector=RepeatStreak(), ladder=((3, "stop"),), check="call"),)},
        {"detectors.guards": (Guard(detector=RepeatStreak(), ladder=((3, "stop"),), check="response"),)},
        {"detectors.guards": (Guard(detector=RepeatStreak(), ladder=((3, "stop"),)),), "cap.ceiling": 4},
    ],
    ids=str,
)
def test_reuse_ignores_the_boundary_after_a_broken_step(changes: dict[str, Any]) -> None:
    """A cap that is just that of the step at which the run ended by itself does not stop it."""
    policy = bl.policies["boocode"].vary(**grouped({"name": "other", "detectors.doom_loop": None, **changes}))
    model = bl.ScriptedModel([{"tool_calls": [{"name": "fail"}]}, {"tool_calls": [{"name": "look"}], "repeat": 9}])
    grid = {"max_steps": [1, 2, 3, 4, 5, None], "tool_budget": [2, 4, None], "doom_loop": [2, None]}
    plainly, derived = both(replace(AGENT, policy=policy), model, grid=grid)
    assert derived == plainly


def test_reuse_scores_each_setting_separately() -> None:
    def score(run: bl.Run) -> bool:
        if run.settings["max_steps"] == 5:
            raise ValueError(run.settings)
        return np.bool_(True)  # type: ignore[return-value] # which is none of Python's, and taken all the same

    model = bl.ScriptedModel([{"tool_calls": [{"name": "look"}]}, "Done."])
    plainly, derived = both(AGENT, model, grid={"max_steps": [4, 5, 6, None]}, score=score)
    assert derived == plainly
    assert [run.success for run in derived] == [True, None, True, True]
    assert all(type(run.success) is bool for run in derived if run.success is not None)


def test_reuse_drops_events_of_the_looser_summary() -> None:
    class Patient(Counting):
        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            request.note("retry", attempt=1, run=len(request.messages), purpose=request.purpose)
            return await super().respond(request, emit)

    model = Patient(bl.ScriptedModel([{"tool_calls": [{"name": "look"}], "repeat": 9}, "Done."], summary="So far."))
    policy = bl.policies["boocode"].vary(name="other", detectors={"doom_loop": None}, wrap_up={"summary": "model"})
    plainly, derived = both(replace(AGENT, policy=policy), model, grid={"max_steps": [2, 3], "tool_budget": [2, 3, 9]})
    assert derived == plainly
    assert {event.payload["purpose"] for event in derived[-1].events if event.kind == "retry"} == {"step", "summary"}


def test_reuse_cancelled_in_a_summary_ends_the_sweep(tmp_path: Path) -> None:
    class Slow(Counting):
        waits = True

        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            if request.purpose == "summary" and len(request.messages) < 8 and self.waits:
                waiting.set()
                await asyncio.Event().wait()
            return await super().respond(request, emit)

    waiting = asyncio.Event()
    model = Slow(bl.ScriptedModel([{"tool_calls": [{"name": "look"}], "repeat": 9}, "Done."], summary="So far."))
    policy = bl.policies["boocode"].vary(name="other", detectors={"doom_loop": None}, wrap_up={"summary": "model"})
    parts: dict[str, Any] = {"grid": {"max_steps": [2, 3, 8]}, "reuse_prefixes": True, "progress": False}
    store = tmp_path / "runs.db"

    async def cancelled() -> None:
        work = asyncio.create_task(sweep(replace(AGENT, policy=policy), "go", model, store=store, **parts))
        await waiting.wait()
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert [run.settings["max_steps"] for run in bl.stored_runs(store)] == [8]
    model.waits = False
    runs = asyncio.run(sweep(replace(AGENT, policy=policy), "go", model, store=store, **parts))
    assert [run.text for run in runs] == ["So far."] * 3


def test_reuse_runs_other_settings_after_a_lost_worker() -> None:
    plan = Plan(AGENT, "go", None, {"max_steps": [2, None]})
    job = Job(bl.ScriptedModel([{"tool_calls": [{"name": "look"}]}, "Done."]), (), None, None)
    two, loose = (PlannedCell(place, cell, str(place)) for place, cell in enumerate(plan))
    gone = make_lost_run(job, loose, RuntimeError("it died"))

    async def rest() -> list[bl.Run]:
        return [one.run async for one in run_task(job, Task((loose, two), gone))]

    assert [run.stop_reason for run in asyncio.run(rest())] == ["finished"]


class Warm(Counting):
    """Says at which temperature it was asked."""

    async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
        response = await super().respond(request, emit)
        return response._replace(text=f"{response.text} at {request.temperature}")


def variant(chance: random.Random, number: int) -> bl.Policy:
    """A preset with some of that changed which decides whether its runs may be cut."""
    changes: dict[str, list[Any]] = {
        "cap.check": ["boundary", "response"],
        "budgets.batch": ["overshoot", "reject", "cut"],
        "last_step.action": ["tools", "no_tools"],
        "last_step.reminder": ["none", "turns_left"],
        "budgets.tokens": [20, 60],
        "budgets.on_unknown": ["error", "ignore"],
        "budgets.after": ["exceeded", "unchecked"],
        "finish.tools": [("look",), ("submit",)],
        "execution.broken_retries": [0, 2],
        "cap.ceiling": [4, None],
        "wrap_up.sentinel": [True, False],
    }
    base = bl.policies[chance.choice(["boocode", "naive", "openai_agents", "aider", "cline"])]
    picked = {name: chance.choice(changes[name]) for name in chance.sample([*changes], 3)}
    loop = {"continues.times": 1, "continues.by": "loop", "cap.check": "boundary"} if chance.random() < 0.2 else {}
    fixed = {"order": ("max_steps", "tool_budget", "doom_loop"), "cap.counts": "steps", "cap.zero": "text_only"}
    return base.vary(name=f"variant {number}", **grouped({**fixed, **picked, **loop}))


@pytest.mark.parametrize("seed", first(8, range(30)))
def test_reuse_gives_the_runs_of_each_cell_for_any_policy(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    values: dict[str, list[Any]] = {
        "policy": [variant(chance, number) for number in range(4)],
        "max_steps": [*chance.sample([1, 2, 3, 5], 2), chance.choice([0, 8, None])],
        chance.choice(["tool_budget", "doom_loop"]): [chance.randint(2, 5), None],
        "temperature": [0.1, 0.9],
    }
    plainly, derived = both(AGENT, Warm(script(chance)), grid=values)
    assert derived == plainly
