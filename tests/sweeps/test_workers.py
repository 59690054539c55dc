"""Workers that die in the middle of a sweep: their cells are run again, and each is on record once."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from boolab.errors import BoolabError
from boolab.frames.tables import runs_df
from boolab.runtime.agents.agent import Agent
from boolab.runtime.models.scripted import ScriptedModel
from tests.support.cases import first
from tests.support.helpers import QUIET, TOOLS, call, distinct
from tests.support.sweeping import Frames, assert_equal, die, die_always, frames, swept

AGENT = Agent("a", tools=(*TOOLS, die, die_always), policy=QUIET)


@pytest.fixture
def hasty_client(dask_client: Any) -> Iterator[Any]:
    """A cluster that blames a task for the first worker that dies over it, and gives workers time to start anew."""
    dask = pytest.importorskip("dask")
    scheduler = dask_client.cluster.scheduler
    usual, scheduler.allowed_failures = scheduler.allowed_failures, 0
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "100s"}):
        yield dask_client
    scheduler.allowed_failures = usual


@pytest.fixture(params=first(1, ["processes", "dask"]))
def executor(request: pytest.FixtureRequest) -> Any:
    return "processes" if request.param == "processes" else request.getfixturevalue("hasty_client")


def cells(tool: str, marker: Path) -> dict[str, Any]:
    """Sixty-one cells, one of which takes its worker along."""
    deadly = ScriptedModel([{"tool_calls": [call("look")]}, {"tool_calls": [call(tool, marker=str(marker))]}, "done"])
    models = {f"m{n}": ScriptedModel(distinct(n % 4)) for n in range(60)}
    models = {**dict([*models.items()][:25]), "deadly": deadly, **dict([*models.items()][25:])}
    return {"agents": AGENT, "tasks": "go", "model": models}


def survived(tool: str, marker: Path) -> Frames:
    """The frames of the same cells where nobody dies."""
    marker.touch()
    expected = frames(swept(**cells(tool, marker)))
    marker.unlink()
    return expected


def test_sweep_repeats_cells_of_a_dead_worker_once(tmp_path: Path, executor: Any) -> None:
    store, marker = tmp_path / "runs.db", tmp_path / "marker"
    expected = survived("die", marker)
    runs = swept(**cells("die", marker), executor=executor, store=store)
    assert marker.exists(), "nobody died"
    assert_equal(frames(runs), expected)


@pytest.mark.slow
def test_sweep_records_a_cell_that_kills_workers_as_an_error(tmp_path: Path, executor: Any) -> None:
    """And nobody else's: the cells that were with it in the same hands are finished, and resuming finds all done."""
    store, marker = tmp_path / "runs.db", tmp_path / "marker"
    parts = cells("die_always", marker)
    runs = swept(**parts, executor=executor, store=store)
    frame = runs_df(runs)
    assert len(frame) == 61
    dead = frame[frame["stop_reason"] == "error"]
    assert dead["model"].tolist() == ["deadly"]
    assert "WorkerDied" in dead["error"].iloc[0]
    assert frame["model"].tolist() == [*parts["model"]]
    others = frame[frame["model"] != "deadly"]
    alone = runs_df(swept(AGENT, "go", {name: model for name, model in parts["model"].items() if name != "deadly"}))
    assert others.reset_index(drop=True).equals(alone)
    deaths = marker.stat().st_size
    assert 2 <= deaths <= 5
    assert runs_df(swept(**parts, executor=executor, store=store)).equals(frame)
    assert marker.stat().st_size == deaths, "a cell that is on record was run again"


@pytest.mark.slow
def test_sweep_with_a_broken_pool_keeps_finished_runs(tmp_path: Path) -> None:
    store, marker = tmp_path / "runs.db", tmp_path / "marker"
    expected = survived("die", marker)
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with pool, pytest.raises(BoolabError, match="pool"):
        swept(**cells("die", marker), executor=pool, store=store)
    assert_equal(frames(swept(**cells("die", marker), store=store)), expected)
