"""The interval of what branches cost: with a limit that stops them, it has what was spent."""

import asyncio
import math

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.frames.runs import micro_cost
from boolab.trials.trial import Trial
from tests.support.cases import cases
from tests.support.trial_cases import LOOSE, agent, profile, recorded


def added(trial: Trial) -> float:
    """The dollars that the branches of a trial cost more than the runs on record."""
    before = {one.run.run_id: one.run for one in trial.design.order}
    continued = {
        event.payload["run_id"]: branch
        for branch in trial.branches
        for event in branch.events
        if event.kind == "branch"
    }
    return sum((micro_cost(branch) or 0) - (micro_cost(before[name]) or 0) for name, branch in continued.items()) / 1e6


@cases(25, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([0.0005, 0.002, 0.01, 1.0]), st.sampled_from([3.0, 300.0]), st.integers(0, 3), st.integers(4, 14)
)
def test_cost_interval_contains_the_final_cost(cost_limit: float, price: float, growth: int, n: int) -> None:
    model = bl.SimulatedModel(
        profile(
            tokens={"prompt": 200, "output": 40, "growth": 100 * growth}, price={"input": price, "output": 5 * price}
        )
    )
    runs = recorded(n, model, tasks=max(2, n - 2))
    trial = bl.trial(runs, {"max_steps": LOOSE}, model=model, agent=agent(), cost_limit=cost_limit)
    found = asyncio.run(trial.run(progress=False))
    if not found.n_open:
        return
    truth = added(trial)
    assert found.extra_cost is not None
    assert [*found.extra_cost] == pytest.approx([truth] * 3)
    for low, high in zip(found.looks["extra_cost_usd_low"], found.looks["extra_cost_usd_high"], strict=True):
        assert low <= truth + 1e-9
        assert truth <= high + 1e-9


def test_cost_interval_widens_with_the_dearest_step() -> None:
    cheap, dear = ({"tool_calls": [{"name": "look"}], "usage": {"cost_usd": usd}} for usd in (0.001, 5.0))
    look = bl.tool(name="look", read_only=True)(lambda: "x")
    who = bl.Agent("a", max_steps=2, tool_budget=None, doom_loop=None, policy="naive", tools=(look,))
    runs = [bl.run_sync(who, f"Task {n}", model=bl.ScriptedModel([cheap] * 2)) for n in range(6)]
    trial = bl.trial(runs, {"max_steps": 9}, model=lambda _run: bl.ScriptedModel([dear] * 9), agent=who, cost_limit=0.1)
    some = asyncio.run(trial.run(3, progress=False)).extra_cost
    assert some is not None
    assert some.low >= 15.0 - 1e-9
    assert 30.0 <= some.high < math.inf
    looks = trial.result.looks
    assert (looks["extra_cost_usd_low"] <= 30.0 + 1e-9).all()
    assert (looks["extra_cost_usd_high"] >= 30.0 - 1e-9).all()
    assert some.value == pytest.approx(30.0)
    every = asyncio.run(trial.run(progress=False)).extra_cost
    assert every is not None
    assert [*every] == pytest.approx([30.0] * 3)
