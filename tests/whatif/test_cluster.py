"""Counterfactuals on many processes and machines: the same tables as in one, whatever the parts and whoever dies."""

import functools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.io.resources import data_path
from boolab.whatif import evaluate
from boolab.whatif.step_files import partitions_of
from tests.support import pieces
from tests.support.cases import cases, first

GRID: dict[str, list[int | None]] = {"max_steps": [5, 20, None], "doom_loop": [3, None], "tool_budget": [None, 10]}
ASKED: dict[str, dict[str, Any]] = {
    "sums": {"grid": GRID, "aggregate": True},
    "sums by groups, and rules": {
        "grid": GRID,
        "rules": [bl.max_steps(7), bl.tool_budget(9)],
        "by": ["task", "source"],
        "aggregate": True,
    },
    "sums of rows": {"grid": {"max_steps": [5, 20], "error_streak": [2]}, "scope": "run", "aggregate": True},
    "rows": {"grid": GRID},
    "rows of rules": {"rules": bl.max_steps(7), "by": "agent"},
}


@pytest.fixture(scope="module")
def steps() -> pd.DataFrame:
    runs = bl.load_runs(data_path("datasets") / "runs" / "coder.jsonl")[:8]
    return bl.recording_df(runs)


@pytest.fixture(scope="module")
def data(steps: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Parquet file of many row groups, and a file of JSON Lines."""
    folder = tmp_path_factory.mktemp("data")
    cut = int((steps["run_id"] == steps["run_id"].unique()[6]).to_numpy().argmax())
    steps[:cut].to_parquet(folder / "a.parquet", row_group_size=7)
    steps[cut:].to_json(folder / "b.jsonl", orient="records", lines=True, double_precision=15)
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boolab.whatif.evaluate.PARQUET_ROWS", 30)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as executor:
        yield executor


@pytest.mark.parametrize("how", first(2, reversed(ASKED)))
def test_any_workers_give_the_same_table(how: str, data: Path, threads: ThreadPoolExecutor, small: None) -> None:
    assert len(partitions_of(data, 30)) > 3
    expected = bl.counterfactual(data, **ASKED[how])
    pd.testing.assert_frame_equal(bl.counterfactual(data, client=threads, **ASKED[how]), expected)


@pytest.mark.slow
def test_so_do_processes(data: Path, small: None) -> None:
    expected = bl.counterfactual(data, grid=GRID, aggregate=True)
    pd.testing.assert_frame_equal(bl.counterfactual(data, grid=GRID, aggregate=True, client="processes"), expected)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sums by groups, and rules", "rows"])
def test_so_does_a_dask_cluster(how: str, data: Path, dask_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boolab.whatif.evaluate.PARQUET_ROWS", 100)
    expected = bl.counterfactual(data, **ASKED[how])
    pd.testing.assert_frame_equal(bl.counterfactual(data, client=dask_client, **ASKED[how]), expected)


@pytest.mark.slow
def test_the_part_of_a_worker_that_is_killed_counts_once(
    data: Path, dask_client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = functools.partial(pieces.die_once_before, tmp_path / "trace", evaluate._evaluate_partition)
    monkeypatch.setattr("boolab.whatif.evaluate._evaluate_partition", dying)
    monkeypatch.setattr("boolab.whatif.evaluate.PARQUET_ROWS", 100)
    expected = bl.counterfactual(data, grid=GRID, aggregate=True)
    pd.testing.assert_frame_equal(bl.counterfactual(data, grid=GRID, aggregate=True, client=dask_client), expected)
    assert (tmp_path / "trace").exists()


@cases(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    group=st.integers(1, 9),
    rows=st.integers(1, 20),
    read=st.integers(1, 9),
)
def test_each_run_is_in_one_part_whole_wherever_row_groups_end(
    lengths: list[int], group: int, rows: int, read: int, tmp_path: Path
) -> None:
    ids = [f"run {number}" for number, length in enumerate(lengths) for _ in range(length)]
    frame = pd.DataFrame({"run_id": ids, "step": pd.array(range(len(ids)), dtype="Int64")})
    frame.to_parquet(tmp_path / "steps.parquet", row_group_size=group)
    parts = [list(part.frames(read, ["run_id", "step"])) for part in partitions_of(tmp_path, rows)]
    found = [some for part in parts for some in part]
    pd.testing.assert_frame_equal(pd.concat(found, ignore_index=True), frame)
    assert sum(some["run_id"].nunique() for some in found) == len(lengths)


def test_a_label_in_one_part_makes_labels_of_all(
    steps: pd.DataFrame, tmp_path: Path, threads: ThreadPoolExecutor, small: None
) -> None:
    first = steps["run_id"] == steps["run_id"].iloc[0]
    some = steps.assign(success=steps["success"].where(~first).where(steps["run_id"] == steps["run_id"].iloc[-1]))
    some[first].to_parquet(tmp_path / "a.parquet")
    some[~first].to_parquet(tmp_path / "b.parquet", row_group_size=10)
    for tally in (True, False):
        expected = bl.counterfactual(some, grid=GRID, aggregate=tally)
        assert set(expected["success_by"]) == {"label"}
        found = bl.counterfactual(tmp_path, grid=GRID, aggregate=tally, client=threads)
        pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("tally", [True, False])
def test_a_table_without_rows_says_what_it_says_here(
    steps: pd.DataFrame, tmp_path: Path, threads: ThreadPoolExecutor, tally: bool
) -> None:
    steps[:0].to_parquet(tmp_path / "steps.parquet")
    expected = bl.counterfactual(tmp_path, grid=GRID, aggregate=tally)
    pd.testing.assert_frame_equal(bl.counterfactual(tmp_path, grid=GRID, aggregate=tally, client=threads), expected)


@pytest.mark.parametrize("files", [1, 2])
def test_run_with_separated_rows_is_refused_across_workers(
    steps: pd.DataFrame, tmp_path: Path, threads: ThreadPoolExecutor, small: None, files: int
) -> None:
    again = steps[steps["run_id"] == steps["run_id"].iloc[0]]
    if files == 1:
        pd.concat([steps, again]).to_parquet(tmp_path / "a.parquet", row_group_size=10)
    else:
        steps.to_parquet(tmp_path / "a.parquet", row_group_size=10)
        again.to_parquet(tmp_path / "b.parquet")
    last = "ab"[files - 1]
    with pytest.raises(bl.SettingError, match=rf"{last}\.parquet: the rows of run '\S+' are not together"):
        bl.counterfactual(tmp_path, grid=GRID, aggregate=True, client=threads)


def test_too_many_rows_are_refused_as_they_are_here(
    data: Path, threads: ThreadPoolExecutor, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_rows = len(bl.counterfactual(data, grid=GRID))
    for most in (n_rows - 1, 5):
        monkeypatch.setattr("boolab.whatif.evaluate.MAX_ROWS", most)
        with pytest.raises(bl.SettingError, match=f"12 settings make more than {most:,} rows"):
            bl.counterfactual(data, grid=GRID, client=threads)


def test_what_cannot_be_parted_is_refused_with_what_can(
    steps: pd.DataFrame, data: Path, tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    with pytest.raises(bl.SettingError, match=r"expected the path of a \.parquet or \.jsonl file"):
        bl.counterfactual(steps, grid=GRID, client=threads)
    with pytest.raises(bl.SettingError, match="batches=True reads a file in order, in this process"):
        bl.counterfactual(data, grid=GRID, batches=True, client=threads)  # type: ignore[call-overload]
    with pytest.raises(bl.SettingError, match="policy cline: its messages to the model need texts"):
        bl.counterfactual(data, policy="cline", client=threads)
    with pytest.raises(bl.SettingError, match="by='mood': there is no such column"):
        bl.counterfactual(data, grid=GRID, by="mood", client=threads)
    with pytest.raises(bl.SettingError, match="expected 'processes', a concurrent.futures executor"):
        bl.counterfactual(data, grid=GRID, client="threads")  # type: ignore[call-overload]
    steps.drop(columns="run_id").to_parquet(tmp_path / "steps.parquet")
    with pytest.raises(bl.errors.RunFormatError, match=rf"{re.escape(str(tmp_path))}.*there is no column run_id"):
        bl.counterfactual(tmp_path, grid=GRID, client=threads)
    (tmp_path / "steps.parquet").write_bytes(b"no")
    with pytest.raises(bl.errors.RunFormatError, match="cannot be read as Parquet"):
        bl.counterfactual(tmp_path, grid=GRID, client=threads)
