"""Each group has labels, or the proxy: labels of one group leave the others as they are without them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.step_table import LABEL, PROXY
from boolab.whatif.success_kinds import decide_by_group, labelled_groups
from tests.stats.test_recommend import run_of

GRID = {"max_steps": [2, 4, None]}


def of_model(model: str, lengths: str, labels: str, start: int) -> list[Run]:
    """Runs with so many calls each; a label is "+", "-" or "?" (none)."""
    known = {"+": True, "-": False, "?": None}
    return [
        replace(run_of(start + i, "abcdefgh"[: int(length)], success=known[label], cut=length == "7"), model=model)
        for i, (length, label) in enumerate(zip(lengths, labels, strict=True))
    ]


LABELLED = of_model("labelled", "1357", "+-+?", 0)
BARE = of_model("bare", "13577", "?????", 100)
MIXED = [run for pair in zip(LABELLED, BARE, strict=False) for run in pair] + BARE[4:]


def without_model(frame: pd.DataFrame, model: str) -> pd.DataFrame:
    rows = frame[frame["model"] == model]
    return rows.dropna(axis=1, how="all").reset_index(drop=True)


@pytest.mark.parametrize("aggregate", [True, False])
def test_a_group_has_the_rows_that_it_has_alone(aggregate: bool) -> None:
    both = bl.counterfactual(MIXED, grid=GRID, by="model", aggregate=aggregate)
    assert both.groupby("model")["success_by"].unique().map(list).to_dict() == {"labelled": [LABEL], "bare": [PROXY]}
    for model, runs in (("labelled", LABELLED), ("bare", BARE)):
        alone = bl.counterfactual(runs, grid=GRID, by="model", aggregate=aggregate)
        pd.testing.assert_frame_equal(without_model(both, model), without_model(alone, model), check_dtype=False)


def test_rules_are_decided_by_group_too() -> None:
    both = bl.counterfactual(MIXED, rules=[bl.max_steps(2), bl.doom_loop(3)], by="model", aggregate=True)
    alone = bl.counterfactual(BARE, rules=[bl.max_steps(2), bl.doom_loop(3)], by="model", aggregate=True)
    pd.testing.assert_frame_equal(without_model(both, "bare"), without_model(alone, "bare"))


def test_without_groups_a_label_decides_for_all_runs() -> None:
    table = bl.counterfactual(MIXED, grid=GRID, aggregate=True)
    assert table["success_by"].unique().tolist() == [LABEL]
    assert table["successes"].unique().tolist() == [2]


@pytest.mark.parametrize("aggregate", [True, False])
def test_files_and_stores_give_the_same_as_runs(aggregate: bool, tmp_path: Path) -> None:
    expected = bl.counterfactual(MIXED, grid=GRID, by="model", aggregate=aggregate)
    bl.save_runs(MIXED, tmp_path / "runs.parquet")
    frame = bl.recording_df(MIXED)
    frame.to_json(tmp_path / "steps.jsonl", orient="records", lines=True)
    with bl.Store(tmp_path / "runs.db") as store:
        for run in MIXED:
            store.add(run)
    names = ("runs.parquet", "steps.jsonl", "runs.db")
    records: list[pd.DataFrame | str] = [frame, *(str(tmp_path / name) for name in names)]
    for recorded in records:
        found = bl.counterfactual(recorded, grid=GRID, by="model", aggregate=aggregate)
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_workers_agree_on_the_groups(tmp_path: Path) -> None:
    bl.save_runs(MIXED, tmp_path / "runs.parquet")
    with ThreadPoolExecutor(2) as workers:
        found = bl.counterfactual(tmp_path / "runs.parquet", grid=GRID, by="model", aggregate=True, client=workers)
    expected = bl.counterfactual(MIXED, grid=GRID, by="model", aggregate=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


@pytest.mark.slow
def test_parts_of_a_file_agree_on_the_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one label of a group is in another part of the file than its other runs."""
    monkeypatch.setattr("boolab.whatif.recordings.PARQUET_ROWS", 6)
    bl.save_runs([*BARE, *LABELLED[::-1]], tmp_path / "runs.parquet")
    found = bl.counterfactual(tmp_path / "runs.parquet", grid=GRID, by="model", aggregate=True)
    expected = bl.counterfactual([*BARE, *LABELLED[::-1]], grid=GRID, by="model", aggregate=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_a_family_with_a_label_has_no_proxy() -> None:
    """The lead of the family is labelled: its scouts are in a group of their own, and have its label."""
    lead = replace(LABELLED[0], agent="lead", run_id="lead")
    scout = replace(BARE[0], agent="scout", run_id="scout", parent_run_id="lead")
    other = replace(BARE[1], agent="other", run_id="other")
    ledger = ledger_of([lead, scout, other])
    assert labelled_groups([ledger], ["agent"]) == {("lead",), ("scout",)}
    decided = decide_by_group(ledger, ["agent"])
    assert decided.success_kinds().tolist() == [LABEL, LABEL, PROXY]
    assert decided.success.tolist() == [1, -1, 1]


def test_a_ledger_without_labels_stays_as_it_is() -> None:
    ledger = ledger_of(BARE)
    assert decide_by_group(ledger, ["model"]) is ledger
    every = ledger_of(LABELLED)
    assert decide_by_group(every, ["model"]) is every
    flags = np.zeros(len(LABELLED), dtype=bool)
    assert every.with_proxy(flags) is every
    assert every.with_proxy(~flags).success_by == PROXY
    assert (
        every.with_proxy(~flags).success.tolist()
        == ledger_of([replace(run, success=None) for run in LABELLED]).success.tolist()
    )


# --- What else has groups ---------------------------------------------------------------------------------------------


TABLES = {
    "scorecard": lambda runs: bl.scorecard(runs, [bl.max_steps(3), bl.doom_loop(3)], by="model").frame,
    "precision_recall": lambda runs: bl.stats.precision_recall_df(runs, {"max_steps": [2, 4]}, by="model"),
    "frontier": lambda runs: bl.stats.frontier(runs, GRID, by="model").frame,
    "crossval": lambda runs: bl.stats.crossval(runs, bl.stats.smallest_cap(0.8), folds=2, by="model").frame,
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["runs", "frame"])
def test_statistics_of_a_group_are_those_that_it_has_alone(name: str, kind: str) -> None:
    def table(runs: list[Run]) -> pd.DataFrame:
        return TABLES[name](runs if kind == "runs" else bl.recording_df(runs))

    both = table(MIXED)
    for model, runs in (("labelled", LABELLED), ("bare", BARE)):
        pd.testing.assert_frame_equal(without_model(both, model), without_model(table(runs), model), check_dtype=False)


def test_a_scorecard_names_what_is_positive_in_each_group() -> None:
    found = bl.scorecard(MIXED, bl.max_steps(3), by="model")
    kinds = dict(zip(found["model"], found["positive_is"], strict=True))
    assert kinds == {"labelled": "failed", "bare": "did not end by itself"}
    notes = " ".join(found.notes)
    assert "Groups with labels: A run is positive if it failed, by its label: 1 of 3 runs." in notes
    assert (
        "Groups without labels: No run has a label. By a proxy, a run is positive if it did not end by itself" in notes
    )
    labelled, bare = found.sentences
    assert "that failed" in labelled
    assert "did not end by itself" in bare


def test_what_a_user_calls_positive_has_no_proxy() -> None:
    flags = {run.run_id: len(run.steps) > 4 for run in MIXED}
    found = bl.scorecard(MIXED, bl.max_steps(3), positive=flags, by="model")
    assert set(found["positive_is"]) == {"positive"}
    assert found["successes"].tolist() == [2, 0]


def test_notes_say_in_which_groups_the_proxy_stands() -> None:
    found = bl.stats.frontier(MIXED, GRID, by="model")
    assert any(note.startswith("In groups in which no run has a label, a success is a run") for note in found.notes)
    assert not any("ended by itself" in note for note in bl.stats.frontier(LABELLED, GRID, by="model").notes)
