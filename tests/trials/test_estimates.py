"""Intervals from branches: which count, what is unknown, what more they take."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import UNKNOWN_USAGE
from boolab.stats.finite_totals import total_sequence
from boolab.stats.intervals import Interval
from boolab.trials.change import change_of
from boolab.trials.estimates import BranchLimits, Looks, OpenTask, forecast, looks_of, ratio_of, tasks_in_order
from boolab.trials.openings import openings_of
from tests.support.trial_cases import LOOSE, agent, profile, recorded, undisturbed

MODEL = bl.SimulatedModel(profile())
RUNS = recorded(60, MODEL, tasks=20)
OPENINGS = openings_of(RUNS, change_of({"max_steps": LOOSE}), {})
TASKS = tasks_in_order(OPENINGS, 0)
WHOLE = {
    run.run_id: whole for run, whole in zip(RUNS, undisturbed(RUNS, MODEL, agent(LOOSE)), strict=True)
}  # fmt: skip
LIMITS = BranchLimits(steps=LOOSE + 1, cost=1.0)


def looks(branches: dict[str, bl.Run], tasks: list[OpenTask] = TASKS, confidence: float = 0.95) -> Looks:
    return looks_of(tasks, branches, LIMITS, labelled=True, confidence=confidence)


def of_first(n: int) -> dict[str, bl.Run]:
    return {one.run.run_id: WHOLE[one.run.run_id] for task in TASKS[:n] for one in task.openings}


def gain_of(run_id: str) -> int:
    before = next(run for run in RUNS if run.run_id == run_id)
    return int(bool(WHOLE[run_id].success)) - int(bool(before.success))


def test_the_order_of_tasks_depends_on_the_seed_alone() -> None:
    shuffled = OPENINGS[::-3] + [one for place, one in enumerate(OPENINGS[::-1]) if place % 3]
    assert [task.task for task in tasks_in_order(shuffled, 0)] == [task.task for task in TASKS]
    assert [task.task for task in tasks_in_order(OPENINGS, 1)] != [task.task for task in TASKS]
    assert {one.run.run_id for task in TASKS for one in task.openings} == {
        one.run.run_id for one in OPENINGS if one.outcome == "open"
    }


def test_the_first_tasks_are_each_equally_often_any_of_them() -> None:
    first = [tasks_in_order(OPENINGS, seed)[0].task for seed in range(400)]
    counts = [first.count(task.task) for task in TASKS]
    expected = 400 / len(TASKS)
    assert sum((count - expected) ** 2 / expected for count in counts) < len(TASKS) + 4 * math.sqrt(2 * len(TASKS))


@pytest.mark.parametrize("n", [0, 1, 7, len(TASKS)])
def test_the_gain_is_the_sequence_of_the_task_totals(n: int) -> None:
    found = looks(of_first(n)).frame
    totals = [sum(gain_of(one.run.run_id) for one in task.openings) for task in TASKS[:n]]
    least, most = ([sum(getattr(one, end) for one in task.openings) for task in TASKS] for end in ("low", "high"))
    expected = total_sequence(totals, totals, minima=least, maxima=most)
    assert found["gain_low"].tolist() == expected.low.tolist()
    assert found["gain_high"].tolist() == expected.high.tolist()
    if n:
        assert found["gain"].iloc[-1] == pytest.approx(np.mean(totals) * len(TASKS))


def test_when_all_are_branched_each_interval_is_what_they_add() -> None:
    last = looks(of_first(len(TASKS))).frame.iloc[-1]
    ids = [one.run.run_id for task in TASKS for one in task.openings]
    gain = sum(map(gain_of, ids))
    before = {run.run_id: run for run in RUNS}
    steps = sum(WHOLE[one].n_steps - before[one].n_steps for one in ids)
    dollars = sum(
        float(bl.runs_df(WHOLE[one])["cost_usd"].iloc[0] - bl.runs_df(before[one])["cost_usd"].iloc[0]) for one in ids
    )
    assert last["gain_low"] == last["gain_high"] == gain
    assert last["extra_steps_low"] == last["extra_steps_high"] == steps
    assert last["extra_cost_usd_low"] == pytest.approx(dollars)
    assert last["extra_cost_usd_high"] == pytest.approx(dollars)


def test_estimate_counts_only_complete_tasks_in_order() -> None:
    branches = of_first(9)
    missing = TASKS[4].openings[-1].run.run_id
    del branches[missing]
    found = looks(branches)
    assert found.n_done == 4
    assert found.frame.equals(looks(of_first(4)).frame)


def test_estimate_bounds_a_branch_that_broke_off() -> None:
    branches = of_first(9)
    some = TASKS[2].openings[0]
    broken = bl.run_sync(agent(), "t", model=bl.ScriptedModel([{"error": {"status": 400}}]))
    branches[some.run.run_id] = replace(branches[some.run.run_id], stop=broken.stop, error=broken.error)
    found, exact = looks(branches), looks(of_first(9))
    assert found.unknown_by_reason == {"broke off": 1}
    assert not exact.unknown_by_reason
    assert found.error == broken.error != ""
    for name in ("extra_steps", "extra_cost_usd"):  # it would have gone on
        assert found.frame[f"{name}_low"].iloc[-1] == exact.frame[f"{name}_low"].iloc[-1]
        assert found.frame[f"{name}_high"].iloc[-1] > exact.frame[f"{name}_high"].iloc[-1]
    assert (found.frame["gain_low"] <= exact.frame["gain_low"]).all()
    assert (found.frame["gain_high"] >= exact.frame["gain_high"]).all()


def test_without_a_known_cost_there_is_no_upper_end_of_the_cost() -> None:
    def unpriced(run: bl.Run) -> bl.Run:
        steps = tuple(step._replace(response=step.response._replace(usage=UNKNOWN_USAGE)) for step in run.steps)
        return replace(run, steps=steps, wrap_up=None)

    tasks = [OpenTask(task.task, tuple(one._replace(run=unpriced(one.run)) for one in task.openings)) for task in TASKS]
    assert looks({}, tasks).frame["extra_cost_usd_high"].iloc[0] == math.inf
    assert looks({}).frame["extra_cost_usd_high"].iloc[0] < math.inf


def test_estimate_of_cost_needs_a_stated_maximum() -> None:
    found = looks_of(TASKS, of_first(9), BranchLimits(steps=None, cost=None), labelled=True, confidence=0.95)
    assert [name for name in map(str, found.frame) if name.startswith("extra")] == []


@example(-10.0, 1.0, 5.0, 5.0, 0, 0)  # the four ends: of a saving and of a cost, low and high
@example(-10.0, 1.0, 5.0, 5.0, 100, 100)
@example(5.0, 1.0, 5.0, 5.0, 0, 100)
@example(5.0, 1.0, 5.0, 5.0, 100, 0)
@example(1.0, 2.2250738585e-313, 0.0, 0.0, 0, 0)
@example(-1.0, 2.2250738585072014e-308, 0.0, 0.0, 0, 0)
@given(*[st.floats(-50, 50)] * 2, *[st.floats(0, 50)] * 2, st.integers(0, 100), st.integers(0, 100))
def test_a_ratio_lies_in_the_interval_of_its_parts(
    cost: float, gain: float, cost_width: float, gain_width: float, at: int, there: int
) -> None:
    costs, gains = Interval(cost, cost + cost_width), Interval(gain, gain + gain_width)
    one, other = cost + cost_width * at / 100, gain + gain_width * there / 100
    found = ratio_of(costs, gains)
    if gains.high <= 0:
        assert math.isnan(found.low)
    elif other > 0:
        ratio = one / other
        assert found.low <= ratio or math.isclose(found.low, ratio, rel_tol=1e-6)
        assert found.high >= ratio or math.isclose(found.high, ratio, rel_tol=1e-6)
    if gains.low <= 0 < gains.high:
        assert math.isinf(found.high) == (costs.high > 0)


@pytest.mark.slow
def test_a_forecast_is_about_as_many_branches_as_it_then_takes() -> None:
    """The truth has the share that the forecast assumes."""
    model = bl.SimulatedModel(profile(hazard=0.05))
    runs = recorded(300, model)
    openings = openings_of(runs, change_of({"max_steps": 60}), {})
    branches = {
        one.run.run_id: whole
        for one, whole in zip(openings, undisturbed(runs, model, agent(60)), strict=True)
        if one.outcome == "open"
    }
    taken, foretold = [], []
    for seed in range(5):
        tasks = tasks_in_order(openings, seed)
        found = looks_of(tasks, branches, LIMITS, labelled=True, confidence=0.95)
        share = float(abs(found.frame["gain_low"].iloc[-1])) / len(branches)
        narrow = found.frame["gain_high"] - found.frame["gain_low"] <= 30
        taken.append(int(found.frame["branches"][narrow].iloc[0]))
        foretold.append(forecast(tasks, [], [], share, 30, other=0, confidence=0.95).branches)
    assert 0.6 * np.mean(taken) <= np.mean([n for n in foretold if n is not None]) <= 1.5 * np.mean(taken)


def test_a_width_that_branches_cannot_reach_has_no_forecast() -> None:
    assert forecast(TASKS, [], [], 0.5, 3, other=4, confidence=0.95).branches is None
    assert forecast(TASKS, [], [], 0.5, 1e9, other=0, confidence=0.95).branches == 0
