"""Trials whose branches are answered over HTTP, killed at any moment and run again with the same store."""

import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from tests.runtime.models.remote.test_llmock import llmock
from tests.support.served_trials import ByTask, child, facts, go, looked, plan_of, recorded, script
from tests.support.sweeping import die_at, entries, size

KILLS: Final = 6
ENDS: Final[tuple[tuple[int, Any], ...]] = (
    (5, "Done."),
    (6, "Done."),
    (20, "never"),
    (4, {"text": "Half a sentence", "error": {"reset": True, "after": 4}}),
)
"""How the branches of a task end: a success, a failure, at the cap, and broken off."""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "book"


@pytest.fixture
def urls(book: Path) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(bl.models.MockServer(script(book, n_steps, end))).url for n_steps, end in ENDS
        ]  # fmt: skip


@pytest.mark.parametrize("protocol", ["openai", pytest.param("anthropic", marks=pytest.mark.slow)])
def test_trial_killed_between_requests_resumes(tmp_path: Path, book: Path, urls: list[str], protocol: str) -> None:
    runs, store = recorded(book, 6), tmp_path / "trial.db"
    model = ByTask(urls, protocol, {})
    whole = plan_of(runs, model)
    go(whole)
    die_at(book, size(book) // 40 + 7)
    process = child(runs, model, store)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    die_at(book, 0)
    start = size(book)
    again = plan_of(runs, model, store=store)
    go(again)
    assert facts(again) == facts(whole)
    assert whole.result.n_branches == 6
    assert whole.result.n_unknown == 1
    finished = {run.run_id for run in bl.stored_runs(store) if run.stop_reason != "error"}
    first = size(book)
    go(plan_of(runs, model, store=store))
    assert not finished & {run_id for run_id, _ in entries(book, first)}, "a finished branch was run again"
    assert start < first


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_trial_killed_many_times_resumes(tmp_path: Path, book: Path, urls: list[str], protocol: str) -> None:
    """At the n-th call of a tool, or after a time: then requests are under way, or a commit."""
    draw = random.Random(protocol)  # noqa: S311 - moments, no secret
    runs, store = recorded(book, 24, tasks=17), tmp_path / "trial.db"
    model = ByTask(urls, protocol, {})
    whole = plan_of(runs, model)
    go(whole)
    killed = 0
    for attempt in range(KILLS):
        by_call = attempt == 0 or draw.random() < 0.5  # a fast machine may be ready before the first time is over
        die_at(book, size(book) // 40 + draw.randint(1, 30) if by_call else 0)
        process = child(runs, model, store, at_once=draw.choice([1, 4, 16]))
        process.join(None if by_call else draw.uniform(0.1, 1.5))
        process.kill()
        process.join()
        killed += process.exitcode != 0
    die_at(book, 0)
    assert killed
    again = plan_of(runs, model, store=store)
    go(again)
    assert facts(again) == facts(whole)
    unbroken = {run.run_id for run in again.branches if run.stop_reason != "error"}
    start = size(book)
    go(plan_of(runs, model, store=store))
    assert not unbroken & {run_id for run_id, _ in entries(book, start)}, "a finished branch was run again"


PATIENT: Final = bl.models.Retry(attempts=40, first=0.02, most=0.05, seconds=1000)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_trial_on_a_failing_server_survives_kills(tmp_path: Path, protocol: str) -> None:
    """Its texts and its errors are random, so that only what does not depend on them is compared."""
    runs, store, draw = looked(12), tmp_path / "trial.db", random.Random(protocol)  # noqa: S311 - moments, no secret
    faults = ["--error-rate", "429=0.2", "--error-rate", "503=0.2", "--latency-ms", "40"]
    with llmock(tmp_path, *faults) as url:
        base = f"{url}/v1" if protocol == "openai" else f"{url}/anthropic/v1"
        model = ByTask([base], protocol, {"retry": PATIENT})
        whole = plan_of(runs, model, "looks")
        go(whole)
        killed = 0
        for _ in range(KILLS):
            process = child(runs, model, store, kind="looks", at_once=2)
            until = time.monotonic() + 20
            before = finished_in(store)
            while process.is_alive() and finished_in(store) == before and time.monotonic() < until:
                process.join(0.01)
            process.join(draw.uniform(0, 0.2))
            process.kill()
            process.join()
            killed += process.exitcode != 0
            if process.exitcode == 0:
                break
        again = plan_of(runs, model, "looks", store=store)
        go(again)
    assert killed
    for found in (whole, again):
        assert found.result.n_branches == 12
        assert (found.result.gain.low, found.result.gain.high) == (8, 8)
    assert again.result.looks.equals(whole.result.looks)
    assert again.result.runs.equals(whole.result.runs)
    assert [branch.steps[:2] for branch in again.branches] == [run.steps[:2] for run in runs_of(again, runs)]


def finished_in(store: Path) -> int:
    """How many branches a store has."""
    try:
        return len(bl.stored_runs(store, states=["finished"]))
    except bl.errors.StoreError:  # it has no tables yet
        return 0


def runs_of(plan: Any, runs: list[bl.Run]) -> list[bl.Run]:
    """The runs that the branches of a plan continue."""
    by_id = {run.run_id: run for run in runs}
    begun = [next(event for event in branch.events if event.kind == "branch") for branch in plan.branches]
    return [by_id[event.payload["run_id"]] for event in begun]
