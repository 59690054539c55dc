"""Precision and recall by threshold: the numbers of scorecards, for all thresholds of a detector at once."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.frames.recording import recording_df
from boolab.limits.catalog import doom_loop, error_streak, max_cost, max_steps, max_time, max_tokens, tool_budget
from boolab.limits.stop import StopRule, Threshold
from boolab.stats.scorecard.precision_recall import precision_recall_df
from boolab.stats.scorecard.scorecard import scorecard
from tests.stats.test_scorecard import numbered, run_of
from tests.stats.test_scorecard_trade import clustered
from tests.support.cases import cases
from tests.whatif.test_evaluate import sessions

RULES: list[StopRule] = [
    doom_loop(3),
    error_streak(2),
    error_streak(2, on_unknown="ignore"),
    max_steps(3),
    tool_budget(2),
    max_tokens(9),
]
UNITS = {"cost": 1_000_000, "elapsed": 1000}


def at(rule: StopRule, threshold: float) -> StopRule:
    assert isinstance(rule, Threshold)
    n = round(threshold * UNITS.get(rule.counter, 1))
    return replace(rule, threshold=n, label=f"{rule.counter} {rule.on_unknown} {n}")


@cases(40, suppress_health_check=list(HealthCheck))
@given(st.lists(sessions(), min_size=1, max_size=5), st.sampled_from(["turn", "run"]), st.data())
def test_each_row_is_that_of_a_scorecard_at_the_threshold(drawn: list[Run], scope: Any, data: Any) -> None:
    tasks = data.draw(st.sampled_from(["one", "several"]))
    runs = [replace(run, task=run.run_id if tasks == "several" else "same") for run in numbered(*drawn)]
    runs = [replace(run, success=data.draw(st.sampled_from([True, False]))) for run in runs]
    found = precision_recall_df(runs, RULES, scope=scope)
    by_name = {str(rule): rule for rule in RULES}
    swept = [at(by_name[rule], n) for rule, n in zip(found["rule"], found["threshold"], strict=True)]
    card = scorecard(runs, swept, scope=scope).frame
    same = [name for name in found.columns if name in card.columns and name != "rule"]
    assert {"precision_low", "recall_high", "lift_low", "saved_steps", "n_unknown"} <= {*same}
    known = card["n_runs"] > 0  # a scorecard has NA in rows without a run to judge, where these are 0
    pd.testing.assert_frame_equal(found.loc[known, same], card.loc[known, same])
    assert (found["kept_lower"] == found["successes"] - card["successes_lost_upper"])[known].all()
    for _, rows in found.groupby("rule"):
        assert rows["threshold"].is_monotonic_increasing
        assert rows["threshold"].is_unique
        if not rows["n_unknown"].any():
            assert rows["alarms"].is_monotonic_decreasing


def test_thresholds_are_where_alarms_change_or_as_given() -> None:
    runs = numbered(*(run_of("a " * n, success=bool(n % 2)) for n in (1, 2, 2, 5, 9)))
    found = precision_recall_df(runs, [doom_loop(4), max_steps(4)])
    assert found["threshold"].tolist() == [2, 4, 5, 9, 1, 2, 4, 5, 9]
    assert found["alarms"].tolist() == [4, 2, 2, 1, 5, 4, 2, 2, 1]
    assert found["detector"].unique().tolist() == ["repeat_streak:canonical", "steps"]
    assert precision_recall_df(runs, doom_loop(3), points=2)["threshold"].tolist() == [2, 3, 9]
    given_ones = precision_recall_df(runs, {"doom_loop": [5, 2], max_steps(1): range(1, 3)})
    assert given_ones["threshold"].tolist() == [2, 5, 1, 2]
    assert given_ones["detector"].tolist() == ["doom_loop", "doom_loop", "steps", "steps"]
    assert given_ones["rule"].tolist() == ["doom_loop(2, canonical)"] * 2 + ["max_steps(1)"] * 2


def test_dollars_and_seconds_are_thresholds_as_users_give_them() -> None:
    runs = numbered(run_of("a b c", success=False), run_of("a", success=True))  # a dollar a step
    found = precision_recall_df(runs, [max_cost(2)])
    assert found["threshold"].tolist() == [1, 2, 3]
    assert precision_recall_df(runs, {"max_cost": [0.5, 2.5]})["alarms"].tolist() == [2, 1]
    by_rule = precision_recall_df(runs, {max_cost(1): [0.5, 2.5], max_time(1, on_unknown="ignore"): [0.5]})
    assert by_rule["threshold"].tolist() == [0.5, 2.5, 0.5]
    assert by_rule["alarms"].tolist() == [2, 1, 0]


def test_what_is_saved_and_kept_are_the_shares_of_counterfactual() -> None:
    runs = clustered(1)
    found = precision_recall_df(runs, {"doom_loop": [2, 3]})
    table = bl.counterfactual(runs, grid={"doom_loop": [2, 3]}, own_limits="kept")
    steps, won = sum(run.n_steps for run in runs), sum(bool(run.success) for run in runs)
    for n, row in found.groupby("threshold"):
        rows = table[table["doom_loop"] == n]
        assert row["saved_share"].item() == pytest.approx(rows["saved_steps"].sum() / steps)
        assert row["kept_share"].item() == pytest.approx(rows["kept_lower"].sum() / won)
        for name in ("saved_share", "kept_share"):
            assert row[f"{name}_low"].item() <= row[name].item() <= row[f"{name}_high"].item()


def test_groups_and_frames_and_files_give_the_same(tmp_path: Any) -> None:
    runs = [replace(run, agent="xy"[i % 2]) for i, run in enumerate(clustered(2))]
    found = precision_recall_df(runs, [doom_loop(3), error_streak(1)], by="agent")
    assert found.columns[0] == "agent"
    assert found["agent"].unique().tolist() == ["x", "y"]
    table = recording_df(runs)
    table.to_parquet(tmp_path / "steps.parquet")
    for source in (table, tmp_path / "steps.parquet"):
        again = precision_recall_df(source, [doom_loop(3), error_streak(1)], by="agent")
        pd.testing.assert_frame_equal(again.drop(columns="agent"), found.drop(columns="agent"))
    mine = {run.run_id: run.agent == "x" for run in runs}
    assert precision_recall_df(runs, doom_loop(3), positive=mine)["n_positive"].eq(sum(mine.values())).all()


def test_without_labels_nothing_is_known_of_successes() -> None:
    runs = [replace(run, success=None) for run in clustered(2)]
    found = precision_recall_df(runs, doom_loop(3), positive={run.run_id: True for run in runs})
    assert found[["successes", "kept_lower", "kept_share", "kept_share_low"]].isna().all(axis=None)
    assert precision_recall_df([], doom_loop(3))["n_runs"].tolist() == [0]


@pytest.mark.parametrize(
    ("rules", "options", "message"),
    [
        ([], {}, "expected rules such as"),
        ({}, {}, "expected rules such as"),
        ([doom_loop(3) | max_steps(2)], {}, "has several thresholds: expected rules of one"),
        ({"doom_loop": []}, {}, "rules: doom_loop: expected thresholds such as"),
        ({"doom_lop": [3]}, {}, "doom_lop"),
        ({doom_loop(3): [1]}, {}, "expected an integer >= 2"),
        (["doom_loop"], {}, "is not a stop rule"),
        (doom_loop(3), {"points": 0}, "points"),
        (doom_loop(3), {"by": "precision"}, "the result has a column of this name"),
        (doom_loop(3), {"confidence": 2}, "confidence=2"),
    ],
)
def test_what_is_not_accepted_is_named(rules: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        precision_recall_df([run_of("a b", success=True)], rules, **options)
    assert message in str(caught.value)
