"""Transfer: a rule of one group on another is what judging it there gives, and on its own group what crossval gives."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import boolab as bl
from benchmarks.study.transfers import transfer
from boolab.errors import SettingError
from tests.support.lengths import group_of_runs, random_group

GROUPS = {name: random_group(seed, prefix=name, model=name) for seed, name in enumerate("abc", 5)}
RUNS = [run for group in GROUPS.values() for run in group]
FIGURES = ["n_runs", "n_tasks", "successes", "kept_lower", "kept_share", "kept_low", "kept_high", "saved_share",
           "saved_low", "saved_high", "even_trade"]  # fmt: skip


def test_transfer_judges_the_rule_of_one_group_on_another() -> None:
    found = transfer(RUNS, "model", keep=0.9).frame
    assert found[["chosen_on", "judged_on"]].values.tolist() == [[a, b] for a in "abc" for b in "abc"]
    for row in found[~found["held_out"]].to_dict("records"):
        rule = bl.stats.smallest_cap(0.9)(GROUPS[row["chosen_on"]])
        assert row["rule"] == str(rule)
        [expected] = bl.stats.frontier(GROUPS[row["judged_on"]], [rule]).frame.to_dict("records")
        assert {name: row[name] for name in FIGURES} == {name: expected[name] for name in FIGURES}
        assert row["holds"] == (row["kept_lower"] >= 0.9 * row["successes"])


def test_on_its_own_group_it_is_cross_validated() -> None:
    found = transfer(RUNS, "model", bl.stats.percentile_cap(), folds=4, seed=2).frame
    expected = bl.stats.crossval(RUNS, bl.stats.percentile_cap(), 4, by="model", seed=2).frame
    held_out = expected[expected["part"] == "held out"].reset_index(drop=True)
    own = found[found["held_out"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(own[FIGURES], held_out[FIGURES])


def test_a_group_with_too_few_tasks_is_judged_by_others_alone() -> None:
    runs = [*GROUPS["a"], *group_of_runs([3, 9], [True, False], 2, "z", model="z")]
    found = transfer(runs, "model")
    frame = found.frame.set_index(["chosen_on", "judged_on"])
    own: Any = frame.loc[("z", "z")]
    assert own["kept_share"] is pd.NA
    assert own["holds"] is pd.NA
    assert frame.loc[("a", "z"), "successes"] == 1
    assert any("Too few tasks to hold some out: z." in note for note in found.notes)


def test_tasks_that_two_groups_share_are_counted_and_noted() -> None:
    runs = [*GROUPS["a"], *random_group(9, prefix="a", model="b")]
    found = transfer(runs, "model")
    assert found["shared_tasks"].tolist() == [20] * 4
    assert any("In 2 of 2 pairs both groups have tasks in common" in note for note in found.notes)
    assert transfer(RUNS, "model")["shared_tasks"].tolist() == [20, 0, 0, 0, 20, 0, 0, 0, 20]


@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_frames_and_files_give_the_same_as_runs(kind: str, tmp_path: Path) -> None:
    recorded: Any = bl.recording_df(RUNS)
    if kind == "parquet":
        recorded.to_parquet(tmp_path / "steps.parquet")
        recorded = tmp_path / "steps.parquet"
    pd.testing.assert_frame_equal(transfer(recorded, "model").frame, transfer(RUNS, "model").frame)


def test_the_sentences_give_the_numbers_of_the_frame() -> None:
    found = transfer(RUNS, "model", keep=0.9)
    own, others = (found.frame[found["held_out"] == its] for its in (True, False))
    assert f"in {own['holds'].sum()} of 3 groups" in found.sentences[0]
    assert f"in {others['holds'].sum()} of 6 pairs" in found.sentences[0]


def test_one_group_cannot_be_transferred() -> None:
    with pytest.raises(SettingError, match="by='model': the runs have 1 group: expected two at least"):
        transfer(GROUPS["a"], "model")
    with pytest.raises(SettingError, match="by='modl': there is no such column; did you mean 'model'"):
        transfer(RUNS, "modl")


@pytest.mark.slow
def test_cap_of_one_set_keeps_its_promise_on_half_of_the_others() -> None:
    """Others computed these figures over the original files, without boolab."""
    found = transfer(bl.load_dataset("atlas"), "set").frame
    own, others = (found[found["held_out"] == its]["holds"] for its in (True, False))
    assert (own.sum(), len(own), others.sum(), len(others)) == (4, 9, 36, 72)
