"""A real model does, live, what its recording says of a tighter cap; and a trial's branches are the longer runs."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import boolab as bl
from benchmarks.onpolicy import actions_of, compare
from boolab.runtime.models.local.model import LocalModel
from boolab.runtime.tasks.families import FIX
from tests.support.local_models import real

pytestmark = [pytest.mark.slow, real]
OPTIONS: dict[str, Any] = {"tools": [FIX.tool], "score": FIX.succeeded}


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    with FIX.model() as model:
        yield model


def record(model: LocalModel, cap: int) -> list[bl.Run]:
    """Runs of ten tasks."""
    return [bl.run_sync(FIX.agent(max_steps=cap), FIX.task_of(n), model=model, seed=n, **OPTIONS) for n in range(1, 11)]


@pytest.fixture(scope="module")
def loose(model: LocalModel) -> list[bl.Run]:
    return record(model, 12)


@pytest.fixture(scope="module")
def tight(model: LocalModel) -> list[bl.Run]:
    return record(model, 4)


def test_live_runs_under_a_cap_are_what_the_recording_says(loose: list[bl.Run], tight: list[bl.Run]) -> None:
    assert sum(run.stop_reason == "step_cap" for run in tight) >= 2
    outcomes = compare(loose, tight, grid={"max_steps": [4]})
    assert [all(outcome) for outcome in outcomes] == [True] * 10


def test_six_branches_of_a_trial_are_the_runs_of_the_larger_cap(
    model: LocalModel, loose: list[bl.Run], tight: list[bl.Run]
) -> None:
    plan = bl.trial(tight, {"max_steps": 12}, model=model, agent=FIX.agent(max_steps=4), **OPTIONS)
    found = asyncio.run(plan.run(6, progress=False))
    assert found.n_branches == 6
    longer = {run.task: run for run in loose}
    assert [actions_of(branch) == actions_of(longer[branch.task]) for branch in plan.branches] == [True] * 6
