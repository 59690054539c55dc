"""Figures of the atlas that others computed over the original files, without boolab."""

import pandas as pd
import pytest
from scipy.stats import spearmanr  # type: ignore[import-untyped] # scipy has no types

import boolab as bl
from boolab.core.run import Run
from boolab.stats.compare_rules.settings import Chooser
from tests.support.samples import atlas

SETS = ["intercode-sql", "intercode-bash", "intercode-ctf", "intercode-python", "tau-airline", "tau2-airline",
        "tau2-retail", "tau2-telecom", "swebench-verified"]  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> list[Run]:
    return bl.load_dataset("atlas")


def same_tasks(runs: list[Run], choose: Chooser) -> pd.DataFrame:
    """What a cap keeps and saves on the runs that it was chosen by."""
    found = bl.stats.crossval(runs, choose, 2, by="set").frame
    return found[found["part"] == "same tasks"].set_index("set")


@pytest.mark.parametrize(
    ("name", "cap", "kept", "saved"),
    [
        pytest.param("intercode-sql", 7, 4264, 0.248, marks=pytest.mark.slow),
        ("swebench-verified", 68, 160, 0.021),
        ("tau2-retail", 17, None, 0.017),
        ("tau2-airline", 16, None, 0.122),
    ],
)
def test_the_smallest_cap_that_keeps_95_percent(name: str, cap: int, kept: int | None, saved: float) -> None:
    row = same_tasks(atlas(name), bl.stats.smallest_cap(0.95)).loc[name]
    assert row["rule"] == f"max_steps({cap})"
    assert kept in (None, row["kept_lower"])
    assert round(row["saved_share"], 3) == saved


def test_the_75th_percentile_of_steps() -> None:
    runs = atlas("swebench-verified")
    row = same_tasks(runs, bl.stats.percentile_cap(0.75)).loc["swebench-verified"]
    assert (row["rule"], row["kept_lower"], round(row["saved_share"], 3)) == ("max_steps(49)", 149, 0.124)


@pytest.mark.slow
def test_cap_savings_follow_the_length_ratio_of_failures(whole: list[Run]) -> None:
    saved = same_tasks(whole, bl.stats.smallest_cap(0.95))["saved_share"]
    means = bl.runs_df(whole).pivot_table("n_steps", "set", "success")
    ratio = means[False] / means[True]
    # Over 19 sets, these and ten others, it was 0.91.
    assert round(spearmanr(ratio[SETS].astype(float), saved[SETS].astype(float)).statistic, 2) == 0.88


@pytest.mark.slow
def test_repeated_action_in_intercode_sql_mostly_means_failure() -> None:
    row = bl.stats.frontier(atlas("intercode-sql"), [bl.doom_loop(3)]).frame.iloc[0]
    assert (row["successes"] - row["kept_lower"], row["saved_steps"]) == (14, 19_069)
