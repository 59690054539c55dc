"""Tables of steps in files: Parquet and JSON Lines say the same."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import boolab as bl
from boolab.errors import RunFormatError, SettingError
from boolab.io.resources import data_path
from boolab.whatif.step_files import frames_of

GRID: dict[str, list[int | None]] = {"max_steps": [5, 20], "doom_loop": [3], "tool_budget": [None, 10]}


@pytest.fixture(scope="module")
def runs() -> list[bl.Run]:
    return bl.load_runs(data_path("datasets") / "runs" / "coder.jsonl")[:20]


def written(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    return path


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.parquet"])
def test_a_table_comes_back_with_the_types_of_boolabs_frames(runs: list[bl.Run], tmp_path: Path, name: str) -> None:
    frame = bl.steps_df(runs)
    read = bl.read_steps(written(frame, tmp_path / name))
    assert [str(kind) for kind in read.dtypes] == [str(kind) for kind in frame.dtypes]
    assert read["cached_tokens"].isna().all()
    pd.testing.assert_frame_equal(read.astype(frame.dtypes), frame)


def test_both_kinds_of_file_answer_counterfactual_as_the_runs_do(runs: list[bl.Run], tmp_path: Path) -> None:
    expected = bl.counterfactual(runs, grid=GRID, aggregate=True)
    for name in ("steps.jsonl", "steps.parquet"):
        path = written(bl.recording_df(runs), tmp_path / name)
        pd.testing.assert_frame_equal(bl.counterfactual(path, grid=GRID, aggregate=True), expected)


@pytest.mark.slow
def test_column_missing_from_the_first_row_is_read(
    runs: list[bl.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [replace(runs[0], success=None), *runs[1:]]
    path = tmp_path / "steps.jsonl"
    rows = json.loads(bl.recording_df(some).to_json(orient="records", double_precision=15))
    with path.open("w") as file:
        file.writelines(json.dumps({name: v for name, v in row.items() if v is not None}) + "\n" for row in rows)
    expected = bl.counterfactual(some, grid=GRID, aggregate=True)
    for block in (1_000, 4 * 2**20):
        monkeypatch.setattr("boolab.whatif.step_files._BLOCK", block)
        pd.testing.assert_frame_equal(bl.counterfactual(path, grid=GRID, aggregate=True), expected)
        assert bl.read_steps(path)["success"].dtype == "boolean"


def test_rows_of_a_run_stay_together_in_small_pieces(
    runs: list[bl.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boolab.whatif.step_files._BLOCK", 2_000)
    path = written(bl.recording_df(runs), tmp_path / "steps.jsonl")
    found = [set(frame["run_id"]) for frame in frames_of(path, 10, ["run_id", "step"])]
    assert len(found) > 5
    assert sum(map(len, found)) == len(set().union(*found)) == len(runs)


def test_a_folder_of_both_is_one_table(runs: list[bl.Run], tmp_path: Path) -> None:
    written(bl.recording_df(runs[:5]), tmp_path / "a.jsonl")
    (tmp_path / "b.parquet").mkdir()
    written(bl.recording_df(runs[5:]), tmp_path / "b.parquet" / "part.parquet")
    assert len(bl.read_steps(tmp_path)) == sum(run.n_steps for run in runs)
    pd.testing.assert_frame_equal(
        bl.counterfactual(tmp_path, grid=GRID, aggregate=True), bl.counterfactual(runs, grid=GRID, aggregate=True)
    )


def test_a_file_that_is_no_table_is_refused_by_name(runs: list[bl.Run], tmp_path: Path) -> None:
    for text in ("", "[1]\n", "{broken"):
        (tmp_path / "bad.jsonl").write_text(text)
        with pytest.raises(RunFormatError, match=r"bad\.jsonl:1: it has no row"):
            bl.read_steps(tmp_path / "bad.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"run_id": "a", "step": 1}\n{"run_id": "a", "step": "two"}\n')
    with pytest.raises(RunFormatError, match=r"bad\.jsonl: it cannot be read as JSON Lines"):
        bl.read_steps(tmp_path / "bad.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"run_id": "a", "step": 1.0}\n')
    with pytest.raises(RunFormatError, match=r"parse:1\.0.*\(an integer must be written as one: before to_json"):
        bl.read_steps(tmp_path / "bad.jsonl")
    (tmp_path / "bad.parquet").write_bytes(b"no")
    with pytest.raises(RunFormatError, match=r"bad\.parquet: it cannot be read as Parquet"):
        bl.read_steps(tmp_path / "bad.parquet")
    with pytest.raises(SettingError, match="it does not exist"):
        bl.read_steps(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (pa.array([{"a": 1}, {"a": 1}]), "column run_id is of struct<a: int64>: expected plain values"),
        (pa.array([[1], [1]]), "column run_id is of list<.*>: expected plain values"),
        (pa.array([b"\xff", b"\xff"]).view(pa.string()), "cannot be read as Parquet: .*UTF8"),
    ],
)
def test_a_column_of_what_no_such_column_holds_is_refused(names: Any, told: str, tmp_path: Path) -> None:
    path = tmp_path / "steps.parquet"
    parquet.write_table(pa.table({"run_id": names, "step": [1, 2]}), path)
    with pytest.raises(RunFormatError, match=told):
        bl.counterfactual(path, grid=GRID)
    parquet.write_table(pa.table([pa.array(["a"]), pa.array(["a"])], names=["run_id", "run_id"]), path)
    with pytest.raises(RunFormatError, match="there are 2 columns run_id: expected one"):
        bl.counterfactual(path, grid=GRID)


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(pd.DataFrame({"run_id": ["a"]}), tmp_path / "steps.jsonl")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingError, match=r"pip install 'boolab\[parquet\]'"):
        bl.read_steps(path)


def test_groups_are_made_by_columns_that_boolab_does_not_know(runs: list[bl.Run], tmp_path: Path) -> None:
    frame = bl.recording_df(runs).assign(team=lambda table: table["run_id"].str[-1])
    expected = bl.counterfactual(frame, grid=GRID, aggregate=True, by="team")
    for name in ("steps.jsonl", "steps.parquet"):
        path = written(frame, tmp_path / name)
        pd.testing.assert_frame_equal(
            bl.counterfactual(path, grid=GRID, aggregate=True, by="team"), expected, check_dtype=False
        )
