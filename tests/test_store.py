"""The store: what is read is what was written, whichever way it was committed and whatever happened in between."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boolab.store.records import records_of, run_of_record
from boolab.store.stored import stored_runs
from boolab.store.writer import Store
from boolab.types import Run
from tests.test_saving import assert_same, runs

NUMBERS = count()
FIXTURE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
several = st.lists(runs(), max_size=4, unique_by=lambda run: run.run_id)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for the files of many examples, none of which stays."""
    yield tmp_path
    for file in tmp_path.iterdir():
        file.unlink()


def as_it_grew(run: Run) -> Iterator[Run]:
    """The run as it stood after each of its steps."""
    for n in range(len(run.steps) + 1):
        came = tuple(one for one in run.inputs if one.before <= n + 1)
        yield replace(run, steps=run.steps[:n], inputs=came)


@settings(deadline=None)
@given(run=runs(), shared=st.integers(0, 3))
def test_a_record_is_the_run_also_in_another_process_and_with_the_steps_of_another_run(run: Run, shared: int) -> None:
    (record,) = records_of(run)
    assert_same(run_of_record(pickle.loads(pickle.dumps(record))), run)  # noqa: S301 - its own
    cut = replace(run, run_id=f"{run.run_id} cut", steps=run.steps[:shared], success=None)
    (derived,) = records_of(cut, run)
    assert (derived.base, derived.steps, derived.calls) == (run.run_id, (), ())
    for base in (record, run):
        assert_same(run_of_record(derived, base), cut)


@FIXTURE
@given(batches=several, cells=st.booleans())
def test_runs_that_were_committed_in_batches_come_back_exactly(batches: list[Run], cells: bool, folder: Path) -> None:
    path = folder / f"{next(NUMBERS)}.db"
    with Store(path) as store:
        for n, run in enumerate(batches):
            store.put(records_of(run), f"cell {n}" if cells else None)
    for read, run in zip(stored_runs(path), batches, strict=True):
        assert_same(read, run)


@FIXTURE
@given(steps=several)
def test_runs_that_were_committed_step_by_step_come_back_exactly(steps: list[Run], folder: Path) -> None:
    path = folder / f"{next(NUMBERS)}.db"
    with Store(path) as store:
        for run in steps:
            for grown in as_it_grew(run):
                store.step(grown)
            store.finish(run)
    for read, run in zip(stored_runs(path), steps, strict=True):
        assert_same(read, run)
