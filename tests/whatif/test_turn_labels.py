"""Turns that have labels of their own are what a decision counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import boolab as bl
from boolab.core.run import Run, RunLabel
from boolab.stats.recommend.units import unit_of_ledger, units_of_ledger
from boolab.whatif.from_runs import ledger_of
from tests.logs.outcomes.test_resolve import session


def two_turns(run_id: str, labels: tuple[bool | None, ...]) -> Run:
    run = replace(session(run_id, "a", ("b", ("look", "{}")), "c", turns=(3,)), source="claude_code")
    return replace(run, labels=tuple(RunLabel(label, "hand", "", turn) for turn, label in enumerate(labels, 1)))


def one_turn(run_id: str, *, success: bool | None) -> Run:
    run = replace(session(run_id, "a", "b"), source="claude_code", success=success)
    return run if success is None else replace(run, labels=(RunLabel(success, "hand"),))


RUNS = [
    two_turns("x", (True, False)),
    one_turn("y", success=True),
    two_turns("z", (None,)),
    one_turn("u", success=None),
]


def test_labelled_turns_are_units() -> None:
    units = units_of_ledger(ledger_of(RUNS), None)
    assert unit_of_ledger(units) == "turn"
    assert units.success_by == "label"
    assert units.runs["run_id"].tolist() == ["x", "x", "y", "z", "z", "u"]
    assert units.success.tolist() == [1, 0, 1, -1, -1, -1]
    assert np.diff(units.first).tolist() == [2, 1, 2, 2, 1, 2]


def test_labels_of_whole_runs_stay_those_of_runs() -> None:
    whole = replace(two_turns("x", ()), success=True, labels=(RunLabel(True, "user"),))
    units = units_of_ledger(ledger_of([whole, RUNS[3]]), None)
    assert unit_of_ledger(units) == "run"
    assert units.success.tolist() == [1, -1]


def test_a_turn_label_is_no_label_of_a_run() -> None:
    ledger = ledger_of(RUNS[:1], scope="run")
    assert not ledger.judges_turns
    assert not ledger.labelled_runs().any()


@pytest.mark.parametrize("by", [[], ["agent"]])
def test_a_decision_counts_labelled_turns(by: list[str]) -> None:
    runs = [two_turns(f"r{n}", (True, n % 2 == 0)) for n in range(40)]
    found = bl.recommend(runs, by=by, keep=0.9)
    row = found.frame.iloc[0]
    assert (row["unit"], row["success_by"], row["n_units"], row["successes"]) == ("turn", "label", 80, 60)
    assert bl.recommend(runs, by=by, keep=0.9, success="label").frame.equals(found.frame)
    ended = bl.recommend(runs, by=by, success="ended").frame.iloc[0]
    assert ended["success_by"] == "turn ended by itself"


def test_frames_and_files_have_the_labels_of_turns(tmp_path: Path) -> None:
    runs = [two_turns(f"r{n}", (True, n % 2 == 0)) for n in range(9)]
    bl.save_runs(runs, tmp_path / "runs.parquet")
    expected = bl.recommend(runs, keep=0.9).frame
    assert expected["unit"].tolist() == ["turn"]
    for recorded in (bl.recording_df(runs), str(tmp_path / "runs.parquet")):
        assert bl.recommend(recorded, keep=0.9).frame.equals(expected)


def test_groups_without_labels_keep_the_proxy() -> None:
    labelled = [replace(two_turns(f"r{n}", (True, False)), agent="a") for n in range(9)]
    others = [replace(one_turn(f"s{n}", success=None), agent="b") for n in range(9)]
    frame = bl.recommend(labelled + others).frame.set_index("agent")
    assert frame["success_by"].to_dict() == {"a": "label", "b": "run ended by itself"}
    assert frame["successes"].tolist() == [9, 9]
