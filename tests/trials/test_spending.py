"""What the branches of a trial cost, compared with what a server billed: killed, interrupted, broken off, in parts."""

import asyncio
import math
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.errors import WorkerDied
from boolab.sweeps.cells import PlannedCell
from boolab.sweeps.task import make_lost_run
from boolab.trials.result import TrialResult
from boolab.trials.spending import Charge, charge_of
from boolab.trials.trial import Trial
from tests.support.cases import first
from tests.support.helpers import call
from tests.support.model_server import Gate
from tests.support.served_trials import COST, TIGHT, Billing, ByTask, child, facts, go, plan_of, recorded
from tests.support.sweeping import die_at, forks, size

ELSEWHERE: Final[list[Any]] = [
    pytest.param({"concurrency": 8}, id="many at once"),
    pytest.param({"executor": "processes"}, id="processes", marks=pytest.mark.slow),
]
LIMIT: Final = 5 * COST
ONCE: Final = {"retry": bl.models.Retry(attempts=1)}
AT_ONCE: Final = 4


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "book"


@pytest.fixture
def billing(book: Path) -> Iterator[Billing]:
    found = Billing(book, n_steps=TIGHT + 3)
    with found.server:
        yield found


def model(billing: Billing) -> ByTask:
    return ByTask([f"{billing.server.url}/v1"], "openai", ONCE)


def killed_and_run_again(folder: Path, book: Path, billing: Billing, kills: int, draw: random.Random) -> None:
    """Kill a trial so often, run it until its money is spent, and compare that with the server's bill."""
    runs, store, most = recorded(book, 20), folder / "trial.db", 30 * COST
    options: dict[str, Any] = {"cost_limit": LIMIT, "max_cost": most}
    for _ in range(kills):
        die_at(book, size(book) // 40 + draw.randint(1, 5))
        child(runs, model(billing), store, at_once=AT_ONCE, **options).join()
    die_at(book, 0)
    before = billing.billed
    plan = plan_of(runs, model(billing), store=store, **options)
    found = go(plan, concurrency=AT_ONCE)
    assert before > 0
    assert billing.billed > before
    assert found.budget_stopped
    assert billing.billed * COST <= found.spent + 1e-9 <= most + 1e-9
    assert found.spent <= (billing.billed + kills * AT_ONCE) * COST + 1e-9
    assert found.n_branches < (most / (4 * COST))


def test_spending_counts_a_killed_process(tmp_path: Path, book: Path, billing: Billing) -> None:
    killed_and_run_again(tmp_path, book, billing, 1, random.Random(3))  # noqa: S311 - a moment, no secret


def test_a_branch_whose_worker_died_counts_as_its_limit(book: Path, billing: Billing) -> None:
    plan = plan_of(recorded(book, 1), model(billing), cost_limit=LIMIT)
    (cell,) = plan.design.cells
    planned = PlannedCell(0, cell, "a1")  # type: ignore[arg-type] # a branch in place of a cell
    died = make_lost_run(plan.design.job, planned, WorkerDied("it died"), dispatched=True)
    assert charge_of([died], LIMIT) == Charge(LIMIT, is_known=False)
    assert charge_of([make_lost_run(plan.design.job, planned, WorkerDied("it died"))], LIMIT) == Charge(0.0)


@pytest.mark.parametrize(
    ("output", "charge"),
    [
        ({}, Charge(0.0)),
        ({"text": "I l"}, Charge(LIMIT, is_known=False)),
        ({"reasoning": "Hm"}, Charge(LIMIT, is_known=False)),
        ({"text": "I l", "usage": bl.models.Usage(cost=250_000)}, Charge(0.25)),
    ],
)
def test_a_broken_request_is_free_only_without_output(output: dict[str, Any], charge: Charge) -> None:
    run = bl.run_sync(None, "Look", model=bl.ScriptedModel(["Done."]))
    response = run.steps[0].response._replace(text="", usage=bl.models.Usage())._replace(**output)
    broken = run.steps[0]._replace(error="the connection was reset", response=response)
    assert charge_of([replace(run, steps=(broken,))], LIMIT) == charge


def on_workers(runs: Sequence[bl.Run], model: ByTask, store: Path) -> None:
    """What a process does that sends branches to others."""
    go(plan_of(runs, model, store=store, cost_limit=LIMIT), executor="processes")


@pytest.mark.slow
def test_spending_counts_branches_sent_by_a_killed_process(tmp_path: Path, book: Path, billing: Billing) -> None:
    runs, store = recorded(book, 12), tmp_path / "trial.db"
    billing.held, billing.held_from = Gate(), 9
    process = forks.Process(target=on_workers, args=(runs, model(billing), store))
    process.start()
    billing.server.wait_for(11)  # some branches are finished, and both workers wait
    process.kill()
    process.join()
    billed = billing.billed
    billing.held.open()
    billing.held = None
    written = bl.runs_df(bl.stored_runs(store, states=["finished", "interrupted", "running"]))
    sent = int((written["stop_reason"] == "aborted").sum())
    assert 2 <= sent <= 8
    plan = plan_of(runs, model(billing), store=store, cost_limit=LIMIT)
    found = go(plan, max_cost=1000.0)
    assert found.n_branches == 12
    assert found.spent == pytest.approx(12 * 4 * COST + sent * LIMIT)
    assert billed * COST < found.spent
    assert f"{sent} branches report no cost, and count as cost_limit in what is spent." in found.notes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_spending_counts_many_killed_processes(tmp_path: Path, book: Path, billing: Billing, seed: int) -> None:
    killed_and_run_again(tmp_path, book, billing, 4, random.Random(seed))  # noqa: S311 - moments, no secret


@pytest.mark.parametrize("options", ELSEWHERE)
def test_spending_lets_cheap_branches_make_room(book: Path, billing: Billing, options: dict[str, Any]) -> None:
    """Three fit while none has ended; each costs four, and so six fit in the end."""
    plan = plan_of(recorded(book, 12), model(billing), cost_limit=10 * COST, max_cost=30 * COST)
    found = go(plan, **options)
    assert (found.n_branches, found.budget_stopped) == (6, True)
    assert found.spent == pytest.approx(24 * COST)


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "in a store"])
def test_spending_of_a_server_that_is_down_is_zero(tmp_path: Path, book: Path, billing: Billing, stored: bool) -> None:
    runs, store = recorded(book, 4), tmp_path / "trial.db" if stored else None
    whole = plan_of(runs, model(billing), cost_limit=LIMIT)
    go(whole)
    plan = plan_of(runs, model(billing), cost_limit=LIMIT, store=store)
    billing.is_down = True
    found = go(plan)
    assert (found.n_branches, found.n_unknown, found.spent) == (4, 4, 0)
    assert (found.gain.low, found.gain.high) == (0, 4)
    billing.is_down = False
    found = go(plan)
    assert found.n_unknown == 0
    assert found.spent == pytest.approx(16 * COST)
    assert facts(plan) == facts(whole)


async def cancelled(plan: Trial, came: Callable[[], object]) -> None:
    """Run a trial, and cancel it then."""
    task = asyncio.create_task(plan.run(progress=False, concurrency=1))
    await asyncio.to_thread(came)
    task.cancel()
    await task


def interrupted(plan: Trial, billing: Billing, how: str) -> None:
    """Interrupt a trial when two branches are finished and the third waits for its second response."""
    billing.held, billing.held_from = Gate(), billing.billed + 9
    last = len(billing.server.asked) + 10

    def came() -> None:
        billing.server.wait_for(last)

    def press() -> None:
        came()
        os.kill(os.getpid(), signal.SIGINT)

    if how == "cancelled":
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cancelled(plan, came))
    else:
        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(plan.run(progress=False, concurrency=1))
        thread.join()
    billing.held.open()
    billing.held = None


@pytest.mark.parametrize("how", ["cancelled", "Ctrl-C"])
@pytest.mark.parametrize("stored", first(1, [True, False]), ids=["in a store", "in memory"])
def test_spending_counts_an_interrupted_branch(
    tmp_path: Path, book: Path, billing: Billing, stored: bool, how: str
) -> None:
    runs, store = recorded(book, 4), tmp_path / "trial.db" if stored else None
    whole = plan_of(runs, model(billing), cost_limit=LIMIT)
    go(whole)
    plan = plan_of(runs, model(billing), cost_limit=LIMIT, store=store)
    before = billing.billed
    interrupted(plan, billing, how)
    assert (plan.result.n_branches, len(plan.branches)) == (2, 2)
    assert plan.result.spent == pytest.approx(10 * COST)
    assert plan.result.spent == pytest.approx((billing.billed - before) * COST)
    found = go(plan)
    assert facts(plan) == facts(whole)
    assert found.spent == pytest.approx((billing.billed - before) * COST)


def test_spending_is_that_of_all_branches(tmp_path: Path, book: Path, billing: Billing) -> None:
    runs = recorded(book, 5)
    for store in (None, tmp_path / "trial.db"):
        plan = plan_of(runs, model(billing), cost_limit=LIMIT, store=store)
        whole = go(plan).spent
        assert go(plan, 2).spent == pytest.approx(whole) == pytest.approx(20 * COST)


def test_spending_of_subagents_is_the_same_with_a_store(tmp_path: Path) -> None:
    paid = {"usage": {"cost_usd": COST}}
    scout = bl.Agent("scout", model=bl.ScriptedModel([{"text": "In a.py.", **paid}]))
    lead = bl.Agent("lead", tools=(bl.task_tool(scout),), policy="naive", max_steps=2)
    items = [{"tool_calls": [call("task", agent="scout", prompt=f"Where is {n}?")], **paid} for n in range(4)]
    script = bl.ScriptedModel([*items, {"text": "Done.", **paid}])
    runs = [bl.run_sync(lead, f"Task {n}", model=script, seed=n) for n in range(3)]
    found: list[TrialResult] = [
        go(bl.trial(runs, {"max_steps": 9}, model=script, agent=lead, cost_limit=1.0, store=store))
        for store in (None, tmp_path / "trial.db")
    ]
    assert found[0].extra_cost == found[1].extra_cost
    assert [one.spent for one in found] == [pytest.approx(3 * 5 * COST)] * 2
    assert math.isfinite(found[0].spent)
