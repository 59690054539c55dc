"""Trials whose branches are answered over HTTP, killed at any moment and run again with the same store."""

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from tests.support.served_trials import ByTask, child, facts, go, plan_of, recorded, script
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


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_trial_that_is_killed_between_requests_ends_as_an_undisturbed_one(
    tmp_path: Path, book: Path, urls: list[str], protocol: str
) -> None:
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
def test_a_trial_that_is_killed_again_and_again_ends_as_an_undisturbed_one(
    tmp_path: Path, book: Path, urls: list[str], protocol: str
) -> None:
    """At the n-th call of a tool, or after a time: then requests are under way, or a commit."""
    draw = random.Random(protocol)  # noqa: S311 - moments, no secret
    runs, store = recorded(book, 24, tasks=17), tmp_path / "trial.db"
    model = ByTask(urls, protocol, {})
    whole = plan_of(runs, model)
    go(whole)
    killed = 0
    for _ in range(KILLS):
        by_call = draw.random() < 0.5
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
