"""The limits under which runs were recorded: they stay in force, and a label beats the way a run ended."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Stop, StopReason
from boolab.errors import SettingError
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.grid import settings_of_policy
from boolab.whatif.outcomes import first_true
from boolab.whatif.policy_limits import check_identified, thresholds_of
from tests.support.helpers import distinct, letter, play, steps
from tests.whatif.test_properties import FREE, NEVER


def cut_and_labelled() -> list[Run]:
    """60 successes of 10 steps, 40 successes that a limit of the recording cut at 50, 60 failures of 60 steps."""
    short, long, failed = (play(distinct(n), policy=FREE, stop=NEVER) for n in (9, 50, 59))
    kinds: list[tuple[int, Run, bool, StopReason]] = [
        (60, short, True, "finished"),
        (40, long, True, "cost_budget"),
        (60, failed, False, "finished"),
    ]
    runs = []
    for n, made, success, reason in kinds:
        whole = made if reason == "finished" else replace(made, steps=made.steps[:50], stop=Stop(reason, 50))
        runs += [replace(whole, run_id=f"{reason}-{success}-{i}", task=f"{n}-{success}-{i}", success=success)
                 for i in range(n)]  # fmt: skip
    return runs


def test_labelled_success_cut_by_a_recorded_limit_counts() -> None:
    runs = cut_and_labelled()
    table = bl.counterfactual(runs, grid={"max_steps": [10, 49, 50, 55, None]}, aggregate=True)
    assert table["successes"].tolist() == [100] * 5
    assert table["kept_lower"].tolist() == [60, 60, 100, 100, 100]
    assert table["n_censored"].tolist() == [0] * 5


def test_recommend_never_loses_labelled_successes_that_were_cut() -> None:
    found = bl.recommend(cut_and_labelled(), keep=0.9)
    row = found.frame.iloc[0]
    assert (row["successes"], row["kept_lower"]) == (100, 100)
    assert found.setting["max_steps"] is None or found.setting["max_steps"] >= 50


@pytest.mark.parametrize("at", ["earlier", "at the stop", "later"])
def test_setting_at_or_after_the_recorded_stop_changes_nothing(at: str) -> None:
    run = replace(play(distinct(9), max_steps=5), success=True)
    assert (run.stop_reason, run.n_steps) == ("step_cap", 5)
    cap = {"earlier": 4, "at the stop": 5, "later": 6}[at]
    row = bl.counterfactual(run, grid={"max_steps": [cap]}).iloc[0]
    lifted = bl.counterfactual(run, grid={"max_steps": [cap]}, own_limits="lifted").iloc[0]
    if at == "earlier":
        assert (row["outcome"], row["kept_lower"], row["saved_steps"]) == ("truncated", 0, 1)
        assert lifted["outcome"] == "truncated"
    else:
        assert (row["outcome"], row["kept_lower"], row["saved_steps"]) == ("unchanged", 1, 0)
        assert (row["stop_reason"], row["stop_step"]) == ("step_cap", 5)
        assert lifted["outcome"] == ("censored" if at == "later" else "truncated")


def test_unlabelled_cut_run_is_unchanged_and_no_success() -> None:
    done, cut = play(steps("A B")), play(distinct(9), max_steps=3)
    table = bl.counterfactual([done, cut], grid={"max_steps": [5]}, aggregate=True).iloc[0]
    assert (table["n_unchanged"], table["successes"], table["kept_lower"]) == (2, 1, 1)
    assert (table["n_finished"], table["n_step_cap"]) == (1, 1)


def test_lifted_limits_leave_open_what_is_saved() -> None:
    run = play(distinct(9), max_steps=3)
    row = bl.counterfactual(run, grid={"max_steps": [5]}, own_limits="lifted").iloc[0]
    assert (row["outcome"], row["saved_steps"], row["saved_is"]) == ("censored", 0, "at most")
    sums = bl.counterfactual(run, grid={"max_steps": [5]}, own_limits="lifted", aggregate=True).iloc[0]
    assert sums["saved_steps_upper"] == 0
    assert bl.counterfactual([], grid={"max_steps": [5]}, aggregate=True)["scope"].tolist() == ["turn"]


def test_what_is_not_known_of_own_limits_is_said() -> None:
    with pytest.raises(SettingError, match="own_limits='mine' is not known; accepted: kept"):
        wrong: Any = "mine"
        bl.counterfactual([], grid={"max_steps": [5]}, own_limits=wrong)


def test_survival_counts_labels_of_runs_cut_by_their_limits() -> None:
    """A set in which every failure was cut at the cap says what share failed all the same."""
    good = play(distinct(3), policy=FREE, stop=NEVER)
    cut = play(distinct(9), max_steps=8)
    runs = [replace(good, run_id=f"g{i}", task=f"g{i}", success=True) for i in range(31)]
    runs += [replace(cut, run_id=f"c{i}", task=f"c{i}", success=False) for i in range(69)]
    found = bl.survival(runs)
    said = " ".join(found.sentences)
    assert "under the recorded limits, 31% (" in said
    assert ") had succeeded and 69% (" in said
    last = found.frame.iloc[-1]
    assert (last["success"], last["failure"]) == pytest.approx((0.31, 0.69))
    assert last["survival"] == pytest.approx(0.69)  # in length, who was cut goes on


def scope_data(tmp_path: Path) -> list[Run]:
    session = play(steps("A B"))
    tau = replace(session, run_id="t", source="tau_bench")
    return [session, tau]


def test_runs_of_different_scopes_are_never_mixed(tmp_path: Path) -> None:
    runs = scope_data(tmp_path)
    table = bl.counterfactual(runs, grid={"max_steps": [1, 2]}, aggregate=True)
    assert table[["scope", "max_steps", "n_runs"]].values.tolist() == [
        ["turn", 1, 1], ["turn", 2, 1], ["run", 1, 1], ["run", 2, 1]
    ]  # fmt: skip
    assert bl.recommend(runs).keys == ("source",)
    with pytest.raises(SettingError, match='expected by="source"'):
        bl.recommend(runs, by=[])
    with pytest.raises(SettingError, match="expected a table of one scope"):
        bl.Heatmap(bl.counterfactual(runs, grid={"max_steps": [1, 2], "tool_budget": [1, 2]}, aggregate=True))
    assert len(bl.recommend(runs, by="source").frame) == 2
    assert len(bl.recommend(runs, by=[], scope="run").frame) == 1


def test_auto_is_the_scope_of_each_source() -> None:
    session = play(steps("A B"))
    turns = tuple(s._replace(index=i, turn=t) for t in (1, 2) for i, s in enumerate(session.steps, 3 * t - 2))
    run = replace(session, steps=turns)
    scope: Any
    for source, scope in (("tau_bench", "run"), ("claude_code", "turn"), ("boolab", "turn")):
        again = replace(run, source=source)
        auto = bl.counterfactual(again, grid={"max_steps": [1, 2, 3, 4]})
        given = bl.counterfactual(again, grid={"max_steps": [1, 2, 3, 4]}, scope=scope)
        assert auto.to_dict("records") == given.to_dict("records")
        assert set(auto["scope"]) == {scope}


PENDING: dict[str, dict[str, Any]] = {
    "calls that were never executed": {"items": [{"tool_calls": [letter("A")], "finish_reason": "stop"}],
                                       "policy": bl.policies["naive"]},
    "calls that a cap of zero ignored": {"items": [{"tool_calls": [letter("A")]}], "max_steps": 0},
    "a last text cut by its length": {"items": [{"text": "The answer is", "finish_reason": "length"}]},
    "a last text that a filter cut": {"items": [{"text": "The", "finish_reason": "content_filter"}]},
}  # fmt: skip


@pytest.mark.parametrize("case", PENDING)
def test_run_that_ended_in_silent_failure_is_no_proxy_success(case: str) -> None:
    options = dict(PENDING[case])
    run = play(options.pop("items"), **options)
    assert run.stop_reason == "finished"
    runs = [replace(run, run_id=f"r{i}", task=f"t{i}") for i in range(40)]
    row = bl.counterfactual(runs, grid={"max_steps": [9]}, aggregate=True).iloc[0]
    assert (row["n_unchanged"], row["successes"], row["kept_lower"]) == (40, 0, 0)
    lifted = bl.counterfactual(runs, grid={"max_steps": [9]}, own_limits="lifted", aggregate=True).iloc[0]
    assert (lifted["n_censored"], lifted["successes"]) == (0, 0)  # no looser limit would have gone on
    found = bl.recommend(runs)
    assert found.frame["successes"].tolist() == [0]
    frame = bl.counterfactual(bl.recording_df(runs), grid={"max_steps": [9]}, aggregate=True).iloc[0]
    assert frame["successes"] == 0


def test_policy_as_it_comes_is_one_setting() -> None:
    assert [str(axis.rules[0]) for axis in settings_of_policy("boocode").axes] == [
        "ceiling(200)",
        "doom_loop(3, ordered)",
        "tool_budget(50)",
    ]


def test_first_true_has_step_and_whether_it_is_known() -> None:
    look = {"tool_calls": [{"name": "ls"}], "repeat": 5}
    run = bl.run_sync(None, "Look", model=bl.ScriptedModel([look]), stop=bl.max_steps(5))
    assert [array.tolist() for array in first_true(ledger_of([run]), bl.max_steps(3) & bl.tool_budget(2))] == [
        [3],
        [True],
        [False],
    ]


def test_compaction_is_not_identified() -> None:
    with pytest.raises(SettingError, match="policy p: compaction changes the requests"):
        check_identified(bl.Policy(name="p", compaction=bl.Compaction()), ["max_steps"])


def test_threshold_at_the_response_is_apart() -> None:
    policy = bl.Policy(name="p").vary(cap={"check": "response"})
    assert tuple(map(str, thresholds_of(policy, "max_steps", 3))) == ("None", "max_responses(3)")
