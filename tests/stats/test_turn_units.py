"""Sessions whose turns have labels: recommend, counterfactual and scorecard count the same units."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import boolab as bl
from benchmarks.stoprulebench.recordings import recordings_of
from boolab.core.run import Run, RunLabel
from boolab.errors import SettingError
from boolab.whatif.tables import sum_rows
from tests.support.caplab_cases import Told, runs_of

LABELS = {("r0", 1): True, ("r0", 2): False, ("r1", 1): True, ("r1", 3): True, ("r2", 1): False}


def sessions() -> list[Run]:
    """Four sessions of turns of several lengths; five of their ten turns with steps have a label."""
    told = runs_of(
        Told(("A -", "A B C D -")), Told(("A B -", "A -", "A A A A -")), Told(("A A A A -",)),
        Told(("A -", "A B C -", "A -", "-")),
    )  # fmt: skip
    return [
        replace(run, source="claude_code", labels=tuple(
            RunLabel(success, "hand", turn=turn) for (run_id, turn), success in LABELS.items() if run_id == run.run_id
        ))
        for run in told
    ]  # fmt: skip


def with_one_turn(runs: list[Run]) -> list[Run]:
    """The label of a session's only turn is that of its run, as files of labels give it."""
    return [
        replace(run, success=run.labels[0].success, labels=(run.labels[0]._replace(turn=None),))
        if run.run_id == "r2" else run
        for run in runs
    ]  # fmt: skip


def counts(runs: Any, **how: Any) -> dict[str, tuple[str, int, int]]:
    """The unit, the labelled units and the successes that each function counts."""
    decision = bl.recommend(runs, grid={"max_steps": [3]}, objective="steps", by=[], **how)
    table = bl.counterfactual(runs, grid={"max_steps": [3, None]}, aggregate=True, **how)
    rows = bl.counterfactual(runs, grid={"max_steps": [3]}, **how)
    card = bl.scorecard(runs, [bl.max_steps(3)], **how)
    return {
        "recommend": (decision.evidence["unit"], decision.labels.labelled, decision.evidence["successes"]),
        "counterfactual": (table["unit"][0], int(rows["success"].notna().sum()), int(table["successes"][0])),
        "scorecard": (card["unit"][0], int(card["n_runs"][0]), int(card["successes"][0])),
    }


def test_all_count_the_same_labelled_turns() -> None:
    runs = with_one_turn(sessions())
    assert {*counts(runs).values()} == {("turn", 5, 3)}
    assert {*counts(bl.recording_df(runs)).values()} == {("turn", 5, 3)}


def test_all_keep_the_same_turns() -> None:
    runs = with_one_turn(sessions())
    decision = bl.recommend(runs, grid={"max_steps": [3]}, objective="steps", by=[], keep=0.01, confidence=0.01)
    row = bl.counterfactual(runs, grid={"max_steps": [3]}, aggregate=True).iloc[0]
    card = bl.scorecard(runs, [bl.max_steps(3)]).frame.iloc[0]
    group = decision.groups[0]
    assert row["n_runs"] == group.units.n_runs == 10
    assert row["kept_lower"] == row["successes"] - card["successes_lost_upper"] == 2
    if group.candidate is not None:
        assert (group.sums["kept_lower"], group.sums["kept_upper"]) == (row["kept_lower"], row["kept_upper"])


def test_rows_name_the_turn_and_add_up() -> None:
    runs = with_one_turn(sessions())
    rows = bl.counterfactual(runs, grid={"max_steps": [3, None]})
    assert [*rows.columns[:3]] == ["run_id", "turn", "max_steps"]
    stopped = rows[rows["outcome"] == "truncated"]
    assert {*zip(stopped["run_id"], stopped["turn"], strict=True)} == {
        ("r0", 2), ("r1", 3), ("r2", 1), ("r3", 2),
    }  # fmt: skip
    sums = bl.counterfactual(runs, grid={"max_steps": [3, None]}, aggregate=True)
    pd.testing.assert_frame_equal(sum_rows(rows)[[*sums.columns]], sums, check_dtype=False)


def test_groups_without_a_label_have_the_proxy_of_turns() -> None:
    runs = with_one_turn(sessions())
    runs[3] = replace(runs[3], agent="other")
    table = bl.counterfactual(runs, grid={"max_steps": [3]}, by="agent", aggregate=True)
    assert table[["agent", "unit", "success_by", "successes"]].values.tolist() == [
        ["coder", "turn", "label", 3],
        ["other", "turn", "turn ended by itself", 4],
    ]
    card = bl.scorecard(runs, [bl.max_steps(3)], by="agent").frame
    assert card[["agent", "unit", "successes"]].values.tolist() == [["coder", "turn", 3], ["other", "turn", 4]]


def test_scope_of_the_run_leaves_labels_of_turns_out() -> None:
    runs = [replace(run, success=True) for run in sessions()]
    assert {*counts(runs, scope="run").values()} == {("run", 4, 4)}


def test_sentences_of_the_scorecard_are_about_turns() -> None:
    found = bl.scorecard(with_one_turn(sessions()), [bl.max_steps(3)])
    assert found.sentences[0].startswith("max_steps(3) alarms in 3 of 5 turns; 2 of them failed")
    assert "5 of 10 turns are left out: without a label their class is not known." in found.notes
    assert "A turn is positive if it failed, by its label: 2 of 5 turns." in found.notes


def test_a_file_in_parts_is_refused(tmp_path: Path) -> None:
    bl.save_runs(sessions(), tmp_path / "runs.parquet")
    with pytest.raises(SettingError, match="read in parts is counted by run: pass the runs"):
        bl.counterfactual(tmp_path / "runs.parquet", grid={"max_steps": [3]}, aggregate=True)
    with pytest.raises(SettingError, match="read in parts is counted by run: pass the runs"):
        bl.counterfactual(tmp_path / "runs.parquet", grid={"max_steps": [3]}, aggregate=True, client="processes")


def test_families_whose_turns_have_labels_are_refused() -> None:
    child = replace(runs_of(Told(("A -",)))[0], run_id="c", parent_run_id="r0", source="claude_code")
    with pytest.raises(SettingError, match=r"have subagents.*use bl\.recommend, or scope='run'"):
        bl.counterfactual([*sessions(), child], grid={"max_steps": [3]})
    assert bl.scorecard([*sessions(), child], [bl.max_steps(3)])["n_runs"][0] == 4  # a subagent has no label


def test_stoprulebench_refuses_labels_of_turns() -> None:
    with pytest.raises(SettingError, match=r"logs: turns of 3 runs have labels of their own, and StopRuleBench judges"):
        recordings_of(sessions(), "logs")
