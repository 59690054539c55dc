"""Cancelling a sweep wherever it waits: what was done is kept, the store is whole, the same call goes on from there."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.runtime.engine.loop import drive
from boolab.runtime.engine.runner import turn_of
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import Emit
from boolab.store.stored_runs import State
from tests.support.helpers import QUIET, TOOLS, call, distinct
from tests.support.suspensions import Blow, cancel, cancel_until_it_ends, everywhere, pause, strike, told

AGENT = bl.Agent("tester", tools=TOOLS, policy=QUIET)
GRID = {"max_steps": [1, 2]}
ENDED: Final[tuple[State, ...]] = ("finished", "interrupted")


class Waiting(bl.ScriptedModel):
    """A script whose model makes one wait before and after it speaks; in virtual time or, for a store, in real time."""

    def __init__(self, items: Any, *, virtual: bool = True) -> None:
        super().__init__(items)
        self.virtual = virtual

    async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
        await pause()
        response = await super().respond(request, emit)
        await pause()
        return response


def facts(runs: Any) -> list[Any]:
    """What a run is, but for its times."""
    return [
        (run.run_id, run.settings, run.stop, [step.response for step in run.steps], len(run.events)) for run in runs
    ]


def check_store(path: Path) -> None:
    """SQLite finds no fault with the file, and each run in it can be read whole."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    for run in bl.stored_runs(path, states=ENDED):
        for step in run.steps:
            assert [one and one.call_id for one in step.results] == [one.id for one in step.response.tool_calls]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("virtual", "blow"), [(True, cancel_until_it_ends), (False, cancel)], ids=["virtual time", "real time"]
)
def test_cancelled_sweep_resumes_from_its_store(tmp_path: Path, virtual: bool, blow: Blow) -> None:
    model = Waiting(distinct(2), virtual=virtual)
    swept = partial(bl.sweep, AGENT, ["go", "on"], model, grid=GRID, concurrency=2, progress=False)
    reference = facts(asyncio.run(swept()))

    for at, out in everywhere(lambda at: strike(lambda: swept(store=tmp_path / f"{at}.db"), at, blow)):
        with told(place=at):
            store = tmp_path / f"{at}.db"
            assert isinstance(out.error, asyncio.CancelledError) or not out.struck
            assert (out.left, out.unclosed, out.complaints) == ([], [], [])
            assert out.after <= 12 or not out.struck
            check_store(store)
            again = asyncio.run(swept(store=store))
            assert facts(again) == reference
            check_store(store)
            assert len(bl.stored_runs(store, states=ENDED[:1])) == len(reference)
    assert at > len(reference)


@pytest.mark.parametrize("items", [distinct(2), [{"tool_calls": [call("ask")]}]], ids=["follow", "do not follow"])
def test_cancelled_sweep_in_memory_returns_finished_runs(items: Any) -> None:
    """Of the cells whose runs may follow from others', those of a run that paused do not, and are run."""
    model = Waiting(items)
    swept = partial(bl.sweep, AGENT, ["go", "on"], model, grid=GRID, concurrency=2, progress=False, reuse_prefixes=True)
    reference = facts(asyncio.run(swept()))
    for at, out in everywhere(lambda at: strike(swept, at)):
        with told(place=at):
            runs = out.error.runs if out.struck else out.value  # type: ignore[union-attr] # that is where they are
            assert isinstance(out.error, asyncio.CancelledError) or not out.struck
            assert (out.left, out.unclosed, out.complaints) == ([], [], [])
            assert set(map(str, facts(runs))) <= set(map(str, reference))
            assert out.struck or facts(runs) == reference


def test_sweep_closes_a_run_whose_sink_fails() -> None:
    """Such as a store that finds no more room."""
    turns: list[Turn] = []

    def fail(turn: Turn) -> None:
        raise bl.errors.StoreError("no room")

    async def scenario() -> bl.Run:
        turns.append(turn_of({"agent": AGENT, "model": bl.ScriptedModel(distinct(2))}, "go"))
        return await drive(turns[0], fail)

    out = strike(scenario, 0)
    assert isinstance(out.error, bl.errors.StoreError)
    assert (out.left, out.unclosed, out.complaints) == ([], [], [])
    assert turns[0].run is not None
    assert turns[0].run.stop_reason == "aborted"


def test_cancelled_sweep_on_workers_keeps_returned_runs() -> None:
    model = bl.ScriptedModel(distinct(2))
    with ThreadPoolExecutor(2) as pool:
        swept = partial(bl.sweep, AGENT, ["go", "on"], model, grid=GRID, executor=pool, progress=False)
        reference = set(map(str, facts(asyncio.run(swept()))))
        for at, out in everywhere(partial(strike, swept)):
            with told(place=at):
                runs = out.error.runs if out.struck else out.value  # type: ignore[union-attr] # that is where they are
                assert set(map(str, facts(runs))) <= reference
                assert (out.left, out.unclosed, out.complaints) == ([], [], [])
