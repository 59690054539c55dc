"""Frontiers: no setting on the front is beaten, and the band is what resampling the tasks gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import MICRO
from boolab.errors import SettingError
from boolab.stats.compare_rules.frontiers import find_undominated, front_at
from boolab.stats.intervals import ClusterBootstrap, expand_tail
from boolab.stats.trade import trade_of
from tests.support.cases import cases
from tests.support.lengths import group_of_runs, random_group

RUNS = random_group(3)
GRID: dict[str, list[int | None]] = {"max_steps": [*range(1, 25), None], "doom_loop": [3, None]}
POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)


@cases(100)
@given(POINTS)
def test_front_equals_a_pairwise_comparison_of_settings(points: list[tuple[int, int]]) -> None:
    def beaten(kept: int, saved: int) -> bool:
        return any(k >= kept and s >= saved and (k, s) != (kept, saved) for k, s in points)

    kept, saved = zip(*points, strict=True)
    assert find_undominated(kept, saved).tolist() == [not beaten(*point) for point in points]
    several = find_undominated([kept, saved], [saved, kept])  # each row by itself
    assert several[0].tolist() == find_undominated(kept, saved).tolist()
    assert several[1].tolist() == find_undominated(saved, kept).tolist()


@cases(100)
@given(POINTS, st.lists(st.floats(0, 1) | st.sampled_from([n / 6 for n in range(7)]), min_size=1, max_size=5))
def test_the_front_as_a_function_is_the_best_that_saves_so_much(
    points: list[tuple[int, int]], levels: list[float]
) -> None:
    kept, saved = (np.array([column]) / 6 for column in zip(*points, strict=True))
    expected = [
        1.0 if at <= 0 else max((k for k, s in zip(kept[0], saved[0], strict=True) if s >= at), default=0.0)
        for at in levels
    ]
    assert front_at(kept, saved, np.array(levels))[0].tolist() == expected


def test_frontier_figures_equal_the_sums_of_counterfactual() -> None:
    found = bl.stats.frontier(RUNS, GRID).frame
    sums = bl.counterfactual(RUNS, grid=GRID, aggregate=True)
    both = found.merge(sums, on=["max_steps", "doom_loop"], suffixes=("", "_sum"))
    assert len(both) == len(found) == len(sums) == 50
    for name in ("kept_lower", "kept_upper", "successes", "n_runs", "saved_steps"):
        assert both[name].tolist() == both[f"{name}_sum"].tolist(), name
    np.testing.assert_allclose(both["saved_cost_usd"].astype(float), both["saved_cost_usd_sum"].astype(float))
    np.testing.assert_allclose(both["cost_usd"].astype(float), found["steps"].astype(float) / 1)  # a dollar a step
    assert (both["kept_share"] == both["kept_lower"] / both["successes"]).all()
    assert (both["saved_share"] == both["saved_steps"] / both["steps"]).all()


def test_a_grid_rules_and_functions_of_rules_give_the_same() -> None:
    grid = bl.stats.frontier(RUNS, {"max_steps": [4, 8]}).frame
    rules = bl.stats.frontier(RUNS, [bl.max_steps(4), bl.max_steps(8), bl.max_steps(4)]).frame
    functions = bl.stats.frontier(RUNS, {bl.max_steps: [4, (8,)]}).frame
    pd.testing.assert_frame_equal(grid.drop(columns="max_steps"), rules)
    pd.testing.assert_frame_equal(functions, rules)
    assert grid["max_steps"].tolist() == [4, 8]
    assert bl.stats.frontier(RUNS, bl.max_steps(4)).frame["rule"].tolist() == ["max_steps(4)"]


def test_the_front_has_each_point_once_and_the_table_shows_it() -> None:
    found = bl.stats.frontier(RUNS, GRID)
    front = found.front
    assert not front.duplicated(["kept_lower", "saved_steps"]).any()
    assert (front["saved_steps"].diff().dropna() > 0).all()
    assert (front["kept_lower"].diff().dropna() < 0).all()
    assert front["rule"].tolist() == found.table["rule"].tolist()  # type: ignore[index]
    everything = found.frame[found.frame["on_front"]]
    assert {*zip(front["kept_lower"], front["saved_steps"], strict=True)} == {
        *zip(everything["kept_lower"], everything["saved_steps"], strict=True)
    }


def test_frontier_band_and_shares_come_from_resampled_tasks() -> None:
    found = bl.stats.frontier(RUNS, {"max_steps": range(1, 20)}, confidence=0.9, seed=3)
    caps = np.arange(1, 20)
    tasks = pd.factorize(pd.Series([run.task for run in RUNS]))[0]
    steps = np.array([len(run.steps) for run in RUNS])
    won = np.array([run.success is True for run in RUNS])
    weights = np.concatenate([*ClusterBootstrap(tasks, seed=3).weights()])[:, tasks].astype(float)
    kept = weights @ (won[:, None] & (steps[:, None] <= caps))
    saved = weights @ np.maximum(steps[:, None] - caps, 0)
    kept_share, saved_share = kept / (weights @ won)[:, None], saved / (weights @ steps)[:, None]
    band = found.band
    tail = float(expand_tail(0.05, 20))
    for at, low, front, high in band[["saved_share", "kept_low", "kept_share", "kept_high"]].iloc[1::40].to_numpy():
        tops = np.sort(np.where(saved_share >= at, kept_share, 0).max(axis=1))
        place = tail * (len(tops) - 1)
        assert (low, high) == (tops[int(np.floor(place))], tops[int(np.ceil(len(tops) - 1 - place))])
        whole = [
            (won & (steps <= cap)).sum() / won.sum() for cap in caps if (steps - cap).clip(0).sum() >= at * steps.sum()
        ]
        assert front == max(whole)
    share = [find_undominated(k, s) for k, s in zip(kept, saved, strict=True)]
    assert found.frame["front_share"].tolist() == np.mean(share, axis=0).tolist()


def test_intervals_resample_tasks_of_any_size_in_any_order() -> None:
    runs = [run for task, n in enumerate((1, 4, 2, 5, 3)) for run in random_group(task + 40, 1, n, f"s{task}")]
    mixed = [runs[place] for place in np.random.default_rng(0).permutation(len(runs))]
    other = random_group(9, prefix="z", model="z")
    row = bl.stats.frontier([*other, *mixed], [bl.max_steps(6)], by="model").frame.set_index("model").loc["m"]
    steps = np.array([len(run.steps) for run in mixed])
    expected = ClusterBootstrap([run.task for run in mixed]).share(np.maximum(steps - 6, 0), steps)
    np.testing.assert_allclose(row[["saved_low", "saved_high"]].astype(float), [expected.low, expected.high])


def test_samples_without_a_success_have_no_front() -> None:
    runs = group_of_runs([3, *[9] * 12], [True, *[False] * 12])
    band = bl.stats.frontier(runs, [bl.max_steps(3)]).band
    assert band["kept_low"].iloc[1] == 1.0  # the one success is kept in each sample that has it


def test_the_band_falls_and_starts_where_nothing_is_limited() -> None:
    band = bl.stats.frontier(RUNS, {"max_steps": range(1, 20)}).band
    assert band.iloc[0].tolist() == [0.0, 1.0, 1.0, 1.0]
    for name in ("kept_low", "kept_share", "kept_high"):
        assert (band[name].diff().dropna() <= 0).all()
    assert (band["kept_low"] <= band["kept_share"]).all()
    assert (band["kept_share"] <= band["kept_high"]).all()


@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_frames_and_files_give_the_same_as_runs(kind: str, tmp_path: Path) -> None:
    recorded: Any = bl.recording_df(RUNS)
    if kind == "parquet":
        recorded.to_parquet(tmp_path / "steps.parquet")
        recorded = tmp_path / "steps.parquet"
    found, expected = (bl.stats.frontier(one, GRID, by="model") for one in (recorded, RUNS))
    pd.testing.assert_frame_equal(found.frame, expected.frame)
    pd.testing.assert_frame_equal(found.band, expected.band)


def test_each_group_has_its_own_front() -> None:
    runs = [*random_group(4, prefix="a", model="a"), *random_group(5, prefix="b", model="b")]
    together = bl.stats.frontier(runs, {"max_steps": range(1, 20)}, by="model")
    assert together.front["model"].is_monotonic_increasing  # group by group
    for model in ("a", "b"):
        alone = bl.stats.frontier([run for run in runs if run.model == model], {"max_steps": range(1, 20)})
        for part, expected in ((together.frame, alone.frame), (together.band, alone.band)):
            mine = part[part["model"] == model].drop(columns="model").reset_index(drop=True)
            pd.testing.assert_frame_equal(mine, expected)


def test_without_a_success_there_is_no_front() -> None:
    found = bl.stats.frontier(group_of_runs([3, 9], [False, False]), {"max_steps": [2, 5]})
    assert not found.frame["on_front"].any()
    assert found.frame["kept_share"].isna().all()
    assert "there is no success to keep" in str(found)
    assert len(bl.stats.frontier([], {"max_steps": [2, 5]}).frame) == 2


def test_even_trade_compares_savings_with_cost_of_lost_successes() -> None:
    runs = group_of_runs([4, 6, 20, 30], [True, True, False, False])  # 60 steps, 30 for each success
    row = bl.stats.frontier(runs, {"max_steps": [5]}).frame.iloc[0]
    assert (row["saved_steps"], row["kept_lower"], row["steps_per_success"]) == (1 + 15 + 25, 1, 30)
    assert (row["saved_steps_per_lost_success"], row["even_trade"]) == (41, 41 / 30)
    assert row["steps_per_kept_success"] == 60 - 41
    assert (row["cost_per_success_usd"], row["cost_per_kept_success_usd"]) == (30, 19)  # a dollar a step
    unpriced = trade_of(steps=60, saved_steps=41, successes=2, kept=2, cost=None, saved_cost=0.0)
    assert (unpriced["even_trade"], unpriced["cost_per_success_usd"]) == (None, None)
    assert MICRO == 1_000_000


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "rules=[]: expected stop rules such as"),
        ({"max_step": [3]}, "did you mean 'max_steps'?"),
        ({"max_steps@scout": [3]}, "limits for one agent alone are those of counterfactual"),
        ({bl.max_steps: [3], "doom_loop": [3]}, "expected stop rules such as"),
        ({bl.cycle: [2]}, "cycle with 2: "),
        ([20], "rules=20: expected stop rules such as"),
        ("max_steps", "rules='max_steps': expected stop rules"),
    ],
)
def test_what_is_not_a_setting_is_named(rules: Any, message: str) -> None:
    with pytest.raises(SettingError) as error:
        bl.stats.frontier(RUNS, rules)
    assert message in str(error.value)
