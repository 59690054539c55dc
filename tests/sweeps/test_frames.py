"""The same frames, bit for bit, wherever, in whatever order and by whatever shortcut the cells of a sweep are run."""

import random
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pytest

from boolab.store.stored_runs import stored_runs
from tests.support.cases import first
from tests.support.sweeping import EVERYTHING, Frames, assert_equal, frames, shuffled, swept

T = TypeVar("T")


class Shuffling(Executor):
    """Runs what it was given in threads, in an order that only its seed knows."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - an order, no secret
        self._threads = ThreadPoolExecutor(2)
        self._waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the future carries it
                future.set_exception(error)

        self._waiting.insert(self._draw.randint(0, len(self._waiting)), work)
        self._threads.submit(self._next)
        return future

    def _next(self) -> None:
        self._waiting.pop()()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)


@pytest.fixture(scope="module")
def one_by_one() -> Frames:
    """The frames of the sweep whose runs were made one after the other."""
    return frames(swept(**EVERYTHING, concurrency=1))


def test_the_sweep_holds_most_that_can_happen_to_a_run(one_by_one: Frames) -> None:
    """Else the frames below could be equal for want of anything in them."""
    runs, steps, calls, events = one_by_one
    reasons = {"finished", "step_cap", "tool_budget", "doom_loop", "error"}
    assert reasons <= set(runs["stop_reason"])
    assert set(runs["policy"]) >= {"boocode", "quiet", "naive", "opencode_3631"}
    assert runs["parent_run_id"].notna().sum() > 20
    assert runs[["max_steps", "tool_budget", "doom_loop"]].isna().any().all()
    assert calls["is_error"].any()
    assert calls["parse_error"].any()
    assert (runs["summary_calls"] > 0).any()
    assert set(runs["model"]) >= {"busy", "failing", "simulated"}
    assert events["kind"].nunique() >= 5
    assert len(steps) > 1000
    assert runs["run_id"].is_unique
    assert runs["run_id"].str.fullmatch("[0-9a-f]{32}").all()
    simulated = runs[runs["model"] == "simulated"]
    assert simulated["success"].any()
    assert len(set(simulated.groupby("seed")["n_steps"].first())) > 1


@pytest.mark.parametrize("how", first(1, ["threads", "two hundred at once", "random order"]))
def test_concurrent_runs_give_the_same_frames(one_by_one: Frames, tmp_path: Path, how: str) -> None:
    path = tmp_path / "runs.db"
    if how == "two hundred at once":
        swept(**EVERYTHING, concurrency=200, store=path)
    else:
        with ThreadPoolExecutor(4) if how == "threads" else Shuffling(1) as executor:
            swept(**EVERYTHING, executor=executor, store=path)
    assert_equal(frames(path), one_by_one)


def test_a_store_gives_the_frames_of_the_sweep_that_wrote_it(one_by_one: Frames, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    runs = swept(**EVERYTHING, store=path)
    assert_equal(frames(path), one_by_one)
    assert list(runs) == list(stored_runs(path)) == list(stored_runs(str(path)))


@pytest.mark.slow
@pytest.mark.parametrize("with_store", [False, True])
def test_processes_give_the_frames_of_the_event_loop(one_by_one: Frames, tmp_path: Path, with_store: bool) -> None:
    store = tmp_path / "runs.db" if with_store else None
    assert_equal(frames(swept(**EVERYTHING, executor="processes", store=store)), one_by_one)


@pytest.mark.slow
@pytest.mark.parametrize("with_store", [False, True])
def test_dask_cluster_gives_the_same_frames(
    one_by_one: Frames, tmp_path: Path, dask_client: Any, with_store: bool
) -> None:
    store = tmp_path / "runs.db" if with_store else None
    assert_equal(frames(swept(**EVERYTHING, executor=dask_client, store=store)), one_by_one)


def sort(given: Frames) -> Frames:
    """The frames in the order of the runs' ids, the settings' columns in that of their names."""
    runs, steps, calls, events = given

    def by_id(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.sort_values("run_id", kind="stable", ignore_index=True)

    return Frames(by_id(runs[sorted(map(str, runs))]), by_id(steps), by_id(calls), by_id(events))


def test_cell_gives_the_same_run_in_any_order(one_by_one: Frames) -> None:
    """Agents, tasks, models, axes and values are shuffled: the rows are the same, ids and seeds included."""
    other = frames(swept(**shuffled(EVERYTHING, 1)))
    assert list(other.runs["run_id"]) != list(one_by_one.runs["run_id"])
    assert_equal(sort(other), sort(one_by_one))


@pytest.mark.parametrize(
    ("options", "with_store"), first(1, [[{}, True], [{}, False], [{"executor": "processes"}, True]])
)
def test_derived_runs_are_the_runs_that_would_have_been_made(
    one_by_one: Frames, tmp_path: Path, options: dict[str, Any], with_store: bool
) -> None:
    store = tmp_path / "runs.db" if with_store else None
    assert_equal(frames(swept(**EVERYTHING, reuse_prefixes=True, store=store, **options)), one_by_one)


def test_all_settings_of_a_grid_see_the_same_randomness(one_by_one: Frames) -> None:
    """Common random numbers: what the seed draws does not depend on what is compared."""
    runs = one_by_one.runs[one_by_one.runs["parent_run_id"].isna()]
    assert (runs.groupby(["agent", "task", "model"])["seed"].nunique() == EVERYTHING["repeats"]).all()
