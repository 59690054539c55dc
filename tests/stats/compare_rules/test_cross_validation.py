"""Cross-validation: a choice never sees the tasks that it is judged on, and what is reported is what a loop gives."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.stats.compare_rules.cross_validation import folds_of
from boolab.store.writer import Store
from tests.support.cases import first
from tests.support.lengths import group_of_runs, random_group

RUNS = random_group(1)
CAPS = {bl.max_steps: range(1, 25), bl.doom_loop: [2, 3]}


def kept_and_saved(runs: list[Run], rule: bl.StopRule | None) -> tuple[int, int]:
    """By `counterfactual`, row by row."""
    if rule is None:
        return sum(run.success is True for run in runs), 0
    table = bl.counterfactual(runs, rules=rule)
    return int(table["kept_lower"].sum()), int(table["saved_steps"].sum())


def test_a_choice_never_sees_the_tasks_that_it_is_judged_on() -> None:
    seen: list[set[str]] = []

    def choose(train: list[Run]) -> bl.StopRule:
        seen.append({run.task for run in train})
        return bl.max_steps(6)

    found = bl.stats.crossval(RUNS, choose, folds=4).frame
    tasks = {run.task for run in RUNS}
    *folds, everything = seen
    assert everything == tasks
    held_out = [tasks - part for part in folds]
    assert sorted(task for part in held_out for task in part) == sorted(tasks)  # each once
    assert found["n_tasks"].tolist() == [*map(len, held_out), len(tasks), len(tasks)]
    for part, row in zip(held_out, found.itertuples(), strict=False):
        mine = [run for run in RUNS if run.task in part]
        assert (row.kept_lower, row.saved_steps) == kept_and_saved(mine, bl.max_steps(6))


def test_held_out_figures_equal_a_plain_loop_over_the_folds() -> None:
    def choose(train: list[Run]) -> bl.StopRule:
        needed = sorted(len(run.steps) for run in train if run.success)
        return bl.max_steps(needed[math.ceil(0.9 * len(needed)) - 1])

    found = bl.stats.crossval(RUNS, choose, folds=5, keep=0.9).frame.set_index("part")
    at: Any = found.loc
    fold = folds_of(pd.Series([run.task for run in RUNS]), 5, seed=0)
    total = np.zeros(2, dtype=int)
    for number in range(1, 6):
        rule = choose([run for run, its in zip(RUNS, fold, strict=True) if its != number])
        part = kept_and_saved([run for run, its in zip(RUNS, fold, strict=True) if its == number], rule)
        row = at[f"fold {number}"]
        assert (row["rule"], row["kept_lower"], row["saved_steps"]) == (str(rule), *part)
        total += part
    assert at["held out", ["kept_lower", "saved_steps"]].tolist() == total.tolist()
    assert at["same tasks", ["kept_lower", "saved_steps"]].tolist() == [*kept_and_saved(RUNS, choose(RUNS))]
    held: Any = at["held out"]
    share = held["kept_share"]
    assert held["holds"] == (share >= 0.9)
    assert held["kept_low"] <= share <= held["kept_high"]


@pytest.mark.parametrize(
    "ready",
    [bl.stats.smallest_cap(0.9), bl.stats.percentile_cap(0.75), bl.stats.best_rule(CAPS, keep=0.9)],
    ids=["smallest_cap", "percentile_cap", "best_rule"],
)
@pytest.mark.parametrize("kind", first(2, ["runs", "frame", "parquet", "store"]))
def test_ready_chooser_equals_the_same_choice_made_per_part(ready: Any, kind: str, tmp_path: Path) -> None:
    recorded: Any = RUNS
    if kind == "frame":
        recorded = bl.recording_df(RUNS)
    elif kind == "parquet":
        recorded = tmp_path / "steps.parquet"
        bl.recording_df(RUNS).to_parquet(recorded)
    elif kind == "store":
        recorded = tmp_path / "runs.db"
        with Store(recorded) as store:
            for run in RUNS:
                store.add(run)

    def choose(train: Any) -> Any:
        return ready(train)

    plain = bl.stats.crossval(recorded, choose, keep=0.9).frame
    pd.testing.assert_frame_equal(bl.stats.crossval(recorded, ready, keep=0.9).frame, plain)
    pd.testing.assert_frame_equal(bl.stats.crossval(RUNS, ready, keep=0.9).frame, plain)


def test_ready_choosers_choose_what_a_search_over_all_caps_finds() -> None:
    successes = sum(run.success is True for run in RUNS)
    table = {cap: kept_and_saved(RUNS, bl.max_steps(cap)) for cap in range(1, 40)}
    smallest = min(cap for cap, (kept, _) in table.items() if kept >= 0.9 * successes)
    assert str(bl.stats.smallest_cap(0.9)(RUNS)) == str(bl.stats.best_rule({"max_steps": range(1, 40)}, 0.9)(RUNS))
    assert str(bl.stats.smallest_cap(0.9)(RUNS)) == f"max_steps({smallest})"
    steps = sorted(len(run.steps) for run in RUNS)
    place = 0.75 * (len(steps) - 1)
    low = math.floor(place)
    linear = steps[low] + (place - low) * (steps[low + 1] - steps[low])
    assert str(bl.stats.percentile_cap(0.75)(RUNS)) == f"max_steps({math.floor(linear)})"


def test_without_a_success_nothing_is_limited() -> None:
    runs = group_of_runs([3, 4, 9], [False, False, None])
    assert bl.stats.smallest_cap()(runs) is None
    assert bl.stats.best_rule(CAPS)(runs) is None
    found = bl.stats.crossval(runs, bl.stats.smallest_cap(), folds=3)
    assert found["rule"].tolist() == ["no limit"] * 5
    assert found["holds"].isna().all()
    assert "there is no success to keep" in str(found)


def test_crossval_splits_each_group_and_holds_out_no_single_task() -> None:
    runs = [*random_group(2, prefix="a", model="a"), *group_of_runs([3, 5], [True, False], 2, "b", model="b")]
    found = bl.stats.crossval(runs, bl.stats.smallest_cap(0.9), by="model")
    alone = bl.stats.crossval(runs[:-2], bl.stats.smallest_cap(0.9), by="model")
    pd.testing.assert_frame_equal(found.frame[found["model"] == "a"], alone.frame)
    assert found.frame[found["model"] == "b"]["part"].tolist() == ["same tasks"]
    assert any("Too few tasks to hold some out: b." in note for note in found.notes)


def test_folds_depend_on_names_and_seed_and_have_equal_size() -> None:
    names = pd.Series([f"t{n}" for n in range(23)])
    folds = dict(zip(names, folds_of(names, 5, 0), strict=True))
    shuffled = names.sample(frac=1, random_state=1)
    assert dict(zip(shuffled, folds_of(shuffled, 5, 0), strict=True)) == folds
    assert sorted(pd.Series(folds).value_counts()) == [4, 4, 5, 5, 5]
    assert dict(zip(names, folds_of(names, 5, 1), strict=True)) != folds
    assert sorted(folds_of(names[:3], 5, 0)) == [1, 2, 3]


def test_folds_may_be_given_by_task() -> None:
    given = {run.task: int(run.task[1:]) % 2 for run in RUNS}
    found = bl.stats.crossval(RUNS, bl.stats.smallest_cap(), given).frame
    assert found["part"].tolist() == ["fold 1", "fold 2", "held out", "same tasks"]
    assert found["n_tasks"].tolist()[:2] == [10, 10]
    with pytest.raises(SettingError, match="folds: task 't1' has no fold; 1 of the runs' tasks"):
        bl.stats.crossval(RUNS, bl.stats.smallest_cap(), {name: fold for name, fold in given.items() if name != "t1"})


def test_a_choice_may_be_a_setting_or_no_limit() -> None:
    found = bl.stats.crossval(RUNS, lambda _: {"max_steps": 5, "doom_loop": None}, folds=2)
    assert set(found["rule"]) == {"max_steps(5)"}
    assert set(bl.stats.crossval(RUNS, lambda _: None, folds=2)["rule"]) == {"no limit"}


def test_the_sentences_give_the_numbers_of_the_frame() -> None:
    found = bl.stats.crossval(RUNS, bl.stats.smallest_cap(0.9))
    row = found.frame.set_index("part").loc["held out"]
    assert f"{row['kept_lower']} of {row['successes']} successes" in found.sentences[0]
    assert f"saves {row['saved_share']:.0%} of steps" in found.sentences[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"folds": 1}, "folds=1: expected a whole number of at least 2"),
        ({"folds": {"t0": 0}}, "expected a whole number of at least 2, or the fold of each task"),
        ({"choose": "P75"}, "choose='P75': expected a function that takes runs"),
        ({"choose": lambda _: 20}, "choose returned 20: expected a stop rule"),
        ({"choose": lambda _: {"max_step": 20}}, "did you mean 'max_steps'?"),
        ({"keep": 95}, "keep=95: expected a number between 0 and 1"),
        ({"by": "part"}, "the result has a column of this name"),
    ],
)
def test_what_is_not_accepted_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        bl.stats.crossval(RUNS, **{"choose": bl.stats.smallest_cap(), **arguments})
    assert message in str(error.value)
