"""Scorecards beside random alarms, beside a plain cap with the same successes kept, and as a trade."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.frames.recording import recording_df
from boolab.limits.catalog import doom_loop, error_streak, max_steps, max_tokens, tool_budget
from boolab.stats.intervals import ClusterBootstrap, expand_tail
from boolab.stats.scorecard.scorecard import scorecard
from tests.stats.test_scorecard import numbered, only, run_of
from tests.support.cases import cases
from tests.support.walk import walk
from tests.whatif.test_evaluate import LIMITS, MAKE, sessions

NEW = (
    *("base_rate", "lift", "lift_low", "lift_high", "same_kept_cap", "same_kept_cap_saved_steps"),
    *("steps_per_success", "steps_per_kept_success", "saved_steps_per_lost_success", "even_trade"),
    *("cost_per_success_usd", "cost_per_kept_success_usd"),
)


@cases(60, suppress_health_check=list(HealthCheck))
@given(st.lists(sessions(), min_size=1, max_size=5), st.sampled_from(["turn", "run"]), st.data())
def test_same_kept_cap_is_the_smallest_that_keeps_as_many(drawn: list[Run], scope: Any, data: Any) -> None:
    runs = numbered(*drawn)
    runs = [bl.label([run], {run.run_id: data.draw(st.booleans())})[0] for run in runs]
    name = data.draw(st.sampled_from(sorted(LIMITS)))
    setting = {name: data.draw(LIMITS[name])}
    row = only(scorecard(runs, MAKE[name](setting[name]), scope=scope))
    judged = [run for run in runs if walk(run, setting, scope)["outcome"] != "unknown"]
    won = [run for run in judged if run.success]
    if not won:
        assert (row["same_kept_cap"], row["same_kept_cap_saved_steps"], row["even_trade"]) == (None, None, None)
        return
    kept = sum("stop_turn" not in walk(run, setting, scope) for run in won)

    def keeps(cap: int) -> bool:
        return sum("stop_turn" not in walk(run, {"max_steps": cap}, scope) for run in won) >= kept

    cap = next(cap for cap in range(1, 99) if keeps(cap))
    assert row["same_kept_cap"] == cap
    assert row["same_kept_cap_saved_steps"] == sum(
        walk(run, {"max_steps": cap}, scope)["saved_steps"] for run in judged
    )
    steps, saved = sum(run.n_steps for run in judged), row["saved_steps"]
    assert row["steps_per_success"] == pytest.approx(steps / len(won))
    assert row["steps_per_kept_success"] == (pytest.approx((steps - saved) / kept) if kept else None)
    lost = len(won) - kept
    assert row["saved_steps_per_lost_success"] == (pytest.approx(saved / lost) if lost else None)
    # The trade is better than even if and only if a success costs less under the rule.
    if lost and kept and saved * len(won) != lost * steps:
        assert (row["even_trade"] > 1) is (row["steps_per_kept_success"] < row["steps_per_success"])


def clustered(seed: int, base: float = 0.5, pull: float = 0.3) -> list[Run]:
    """40 tasks of one to five runs: those that fail loop more often."""
    rng = np.random.default_rng(seed)
    runs = []
    for task in range(40):
        hard = rng.random() < base
        for _ in range(int(rng.integers(1, 6))):
            failed = bool(rng.random() < (0.9 if hard else 0.1))
            loops = rng.random() < 0.3 + pull * failed
            runs.append(run_of("a a a b" if loops else "a b c", success=not failed, task=f"task {task}"))
    return numbered(*runs)


def test_lift_is_precision_over_base_rate_and_resamples_both() -> None:
    runs = clustered(3)
    row = only(scorecard(runs, doom_loop(3)))
    failed = np.array([not run.success for run in runs])
    alarm = np.array(["a a a" in run.run_id or run.n_steps == 5 for run in runs])
    assert row["base_rate"] == pytest.approx(failed.mean())
    assert row["lift"] == pytest.approx(failed[alarm].mean() / failed.mean())
    bootstrap = ClusterBootstrap([run.task for run in runs])
    values = []
    for weights in np.concatenate(list(bootstrap.weights())):
        of_run = weights[bootstrap.codes].astype(float)
        precision = (of_run * failed * alarm).sum() / (of_run * alarm).sum()
        values.append(precision / ((of_run * failed).sum() / of_run.sum()))
    tasks = len({run.task for run, rings in zip(runs, alarm, strict=True) if rings})
    tail = float(expand_tail(0.025, tasks))
    low, high = np.quantile(values, [tail, 1 - tail])
    base = row["base_rate"]
    assert row["lift_low"] == pytest.approx(min(low, row["precision_low"] / base), rel=0.01)
    assert row["lift_high"] == pytest.approx(max(high, row["precision_high"] / base), rel=0.01)


def test_lift_interval_covers_the_true_lift_of_different_tasks() -> None:
    # P(failed) = 0.5; P(alarm | failed) = 0.6 and 0.3 else, so the precision is 2/3 and the lift 4/3.
    found = [only(scorecard(clustered(seed), doom_loop(3))) for seed in range(20)]
    assert sum(row["lift_low"] <= 4 / 3 <= row["lift_high"] for row in found) >= 17


def test_always_right_alarm_has_a_lift_interval_of_some_width() -> None:
    runs = numbered(*[run_of("a a a", success=False)] * 4, *[run_of("a b", success=i < 6) for i in range(8)])
    row = only(scorecard(runs, doom_loop(3)))
    assert (row["base_rate"], row["lift"]) == (0.5, 2)
    assert row["lift_low"] <= row["precision_low"] / 0.5 < 1


def test_no_alarm_positive_or_success_gives_no_lift_or_trade() -> None:
    fine, failed = run_of("a b c", success=True), run_of("a b", success=False)
    silent = only(scorecard([fine, failed], doom_loop(3)))
    assert (silent["base_rate"], silent["lift"], silent["lift_low"]) == (0.5, None, None)
    assert (silent["same_kept_cap"], silent["same_kept_cap_saved_steps"]) == (4, 0)
    assert (silent["steps_per_success"], silent["saved_steps_per_lost_success"], silent["even_trade"]) == (
        7,
        None,
        None,
    )
    assert only(scorecard([fine], max_steps(1)))["lift"] is None
    bad = only(scorecard([failed], max_steps(1)))
    assert (bad["base_rate"], bad["lift"], bad["same_kept_cap"], bad["steps_per_success"]) == (1, 1, None, None)
    nothing = only(scorecard([], max_steps(1)))
    assert [nothing[name] for name in NEW] == [None] * len(NEW)
    unlabelled = only(scorecard([run_of("a b")], max_steps(1), positive={"ra b": True}))
    assert (unlabelled["base_rate"], unlabelled["same_kept_cap"], unlabelled["even_trade"]) == (1, None, None)


def test_rule_that_keeps_no_success_is_compared_with_cap_one() -> None:
    row = only(scorecard(numbered(run_of("a b c", success=True), run_of("a b", success=False)), tool_budget(1)))
    assert (row["same_kept_cap"], row["same_kept_cap_saved_steps"]) == (1, 3 + 2)
    assert (row["steps_per_kept_success"], row["saved_steps_per_lost_success"], row["even_trade"]) == (None, 5, 5 / 7)


def test_costs_are_those_of_runs_that_all_report_them() -> None:
    runs = numbered(run_of("a a a a", success=False), run_of("a a a", success=True), run_of("a b", success=True))
    row = only(scorecard(runs, doom_loop(3)))  # a dollar a step; it saves 2 steps of 5, and 1 of 4
    assert (row["cost_per_success_usd"], row["cost_per_kept_success_usd"]) == (12 / 2, (12 - 3) / 1)
    silent = tuple(s._replace(response=s.response._replace(usage=bl.models.Usage())) for s in runs[0].steps)
    unknown = only(scorecard([bl.Run(**{**vars_of(runs[0]), "steps": silent}), *runs[1:]], doom_loop(3)))
    assert (unknown["cost_per_success_usd"], unknown["cost_per_kept_success_usd"]) == (None, None)
    assert unknown["steps_per_success"] == 6


def vars_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__slots__}


# --- In words ---------------------------------------------------------------------------------------------------------


def test_scorecard_compares_random_alarms_a_cap_and_costs() -> None:
    loops, work = [run_of("a a a a a b", success=False)] * 60, [run_of("a a a b", success=True)] * 2
    rest = [run_of("a b", success=False)] * 10 + [run_of("a b c d e f g h", success=True)] * 28
    card = scorecard(numbered(*loops, *work, *rest), doom_loop(3))
    row, said = only(card), card.sentences[0]
    steps = 60 * 7 + 2 * 5 + 10 * 3 + 28 * 9
    assert (row["saved_steps"], row["same_kept_cap"], row["same_kept_cap_saved_steps"]) == (60 * 4 + 2 * 2, 9, 0)
    assert f"They are right {60 / 62 / 0.7:.2f} times as often (95% interval" in said
    assert "as random alarms, of which 70% would be in runs that failed." in said
    assert "A plain cap of 9 steps keeps no fewer successes and would have saved 0 steps, 244 fewer." in said
    assert (
        "The trade is good, in steps of runs: it saves 122 steps for each lost success, and a success costs "
        f"{steps / 30:.0f} steps on record."
    ) in said


def test_a_trade_that_saves_less_than_a_success_costs_is_poor() -> None:
    runs = numbered(*[run_of("a a a b", success=True)] * 2, run_of("a b c", success=True), run_of("a b", success=False))
    card = scorecard(runs, doom_loop(3))
    assert only(card)["even_trade"] == pytest.approx(2 / (17 / 3))
    assert (
        "The trade is poor, in steps of runs: it saves 2 steps for each lost success, and a success costs 6 steps on "
        "record." in card.sentences[0]
    )
    assert (
        "A plain cap of 4 steps keeps no fewer successes and would have saved 2 steps, 2 fewer." in (card.sentences[0])
    )


def test_a_plain_cap_is_not_compared_with_itself() -> None:
    runs = numbered(run_of("a b c d", success=False), run_of("a b", success=True))
    card = scorecard(runs, [max_steps(3), tool_budget(3)])
    assert card["same_kept_cap"].tolist() == [3, 3]
    assert ["plain cap" in said for said in card.sentences] == [False, True]
    assert "would have saved 2 steps, just as many." in card.sentences[1]


# --- Frames, files, groups --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["frame", "parquet", "jsonl"])
def test_the_new_columns_of_a_table_are_those_of_its_runs(tmp_path: Path, kind: str) -> None:
    runs = clustered(5)
    rules = [doom_loop(3), error_streak(1) | max_steps(3), max_tokens(30)]
    source: Any = recording_df(runs)
    if kind != "frame":
        path = tmp_path / f"steps.{kind}"
        source.to_parquet(path) if kind == "parquet" else source.to_json(path, orient="records", lines=True)
        source = path
    of_runs, of_table = (scorecard(data, rules, by="agent").frame for data in (runs, source))
    pd.testing.assert_frame_equal(of_table[[*NEW]], of_runs[[*NEW]])


def test_a_cap_holds_for_the_group_in_which_it_is_compared() -> None:
    short, long = [run_of("a a a b", success=True, agent="x")], [run_of("a b c d e f", success=True, agent="y")]
    card = scorecard(numbered(*short, *long), doom_loop(4), by="agent")
    assert card["same_kept_cap"].tolist() == [5, 7]
