"""Learned rules: live as offline, what they promise, and what they refuse."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import Stop
from boolab.limits.learned.features import DEFAULT, FEATURES
from boolab.limits.learned.models import LinearModel
from boolab.limits.learned.rule import LearnedRisk
from boolab.stats.learn.table import feature_table
from boolab.whatif.from_runs import ledger_of
from tests.limits.learned.test_risk import LINEAR, TREES
from tests.limits.test_detector_folds import STEPS, Steps
from tests.support.cases import cases
from tests.support.labelled_runs import labelled_runs, made_run


@pytest.fixture(scope="module")
def runs() -> list[bl.Run]:
    return labelled_runs(100)


@pytest.fixture(scope="module")
def rule(runs: list[bl.Run]) -> bl.stats.LearnedRule:
    return bl.learn_stop(runs)


def run_of(steps: Steps, turns: list[int], run_id: str, *, success: bool = True) -> bl.Run:
    made = [
        bl.Step(n, turn, None, None, None, response, tuple(results))
        for n, ((response, results), turn) in enumerate(zip(steps, turns, strict=True), 1)
    ]
    stop = Stop("finished", len(made))
    return bl.Run(run_id=run_id, agent="", model="", policy="", task="", stop=stop, steps=tuple(made), success=success)


@cases(60)
@given(STEPS, st.data(), st.sampled_from(["run", "turn"]))
def test_table_scores_equal_the_counters_of_the_detector(steps: Steps, data: Any, scope: Any) -> None:
    turns = sorted(data.draw(st.lists(st.integers(1, 3), min_size=len(steps), max_size=len(steps))))
    some = [run_of(steps, turns, "a"), run_of(steps[:3], turns[:3], "b", success=False)]
    table = feature_table(some, DEFAULT, (), scope, "task")
    for model in (LINEAR, TREES):
        risk = LearnedRisk(model)
        ledger = ledger_of(some, [risk], scope)
        assert table.scores(model).tolist() == ledger.counters[risk.name].tolist()
        assert (table.boundary == ledger.apply_own_limits().boundary).all()


@pytest.mark.parametrize("confidence", [0.9, None])
def test_what_a_rule_saves_is_what_counterfactuals_count(runs: list[bl.Run], confidence: float | None) -> None:
    rule = bl.learn_stop(runs, confidence=confidence, folds=0)
    table = feature_table(runs, DEFAULT, (), "auto", "task")
    scores = table.scores(rule.risk.model)
    found = bl.counterfactual(runs, rules=rule)
    assert found["saved_steps"].tolist() == table.saved_steps(scores, rule.threshold).tolist()
    kept = found["outcome"] == "unchanged"
    assert kept.tolist() == (table.peaks(scores) < rule.threshold).tolist()
    card = bl.scorecard(runs, rule)
    assert card["alarms"].tolist() == [int((~kept).sum())]


def test_a_rule_stops_a_live_run_where_it_stops_the_recording(rule: bl.stats.LearnedRule) -> None:
    loose = replace(rule, threshold=400_000_000)
    look = [{"tool_calls": [{"name": "look", "arguments": {"page": n // 3}}]} for n in range(30)]
    whole = bl.run_sync(None, "Look", model=bl.ScriptedModel([*look, "Done."]))
    live = bl.run_sync(None, "Look", model=bl.ScriptedModel([*look, "Done."]), stop=loose)
    [row] = bl.counterfactual(whole, rules=loose).to_dict("records")
    assert live.stop_reason == row["stop_reason"] == "stuck"
    assert live.stop_step == row["stop_step"]
    assert live.stop.threshold == 400_000_000


def test_a_rule_works_wherever_rules_do(runs: list[bl.Run]) -> None:
    rule = bl.learn_stop(runs, confidence=None, folds=0)
    one = bl.stats.crossval(runs, lambda _: rule, folds=2, progress=False).frame.set_index("part").loc["same tasks"]
    front = bl.stats.frontier(runs, [rule, bl.max_steps(5)])
    assert one["saved_steps"] == bl.counterfactual(runs, rules=rule)["saved_steps"].sum()
    assert front["saved_steps"].iloc[0] == one["saved_steps"]
    looks = [{"tool_calls": [{"name": "look", "arguments": {"page": n // 3}}]} for n in range(30)]
    loose = replace(rule, threshold=400_000_000)

    def play(**options: Any) -> bl.Run:
        return bl.run_sync(None, "Look", model=bl.ScriptedModel([*looks, "Done."]), **options)

    first = play(stop=loose).stop_step
    assert 0 < first < 29
    both = play(stop=loose & bl.max_steps(first + 1))
    assert (both.stop_reason, both.stop_step) == ("stuck", first + 1)
    shadow = play(shadow=[loose], stop=bl.max_steps(100))
    assert shadow.stop_reason == "finished"
    # The step at whose boundary it is first true is the one that would have been next.
    assert next(step.index for step in shadow.steps if str(loose) in step.shadow_stops) == first + 1


def test_a_rule_keeps_what_it_promises_on_its_calibration_tasks(runs: list[bl.Run]) -> None:
    for confidence in (0.9, None):
        rule = bl.learn_stop(runs, confidence=confidence, folds=0)
        kept = bl.counterfactual([run for run in runs if run.success], rules=rule)["outcome"] == "unchanged"
        assert kept.mean() > 0.85
        assert rule.promise is not None
        assert rule.promise.calibration_tasks >= 45


def test_a_stronger_promise_has_a_higher_threshold(runs: list[bl.Run]) -> None:
    thresholds = [bl.learn_stop(runs, keep=keep, confidence=None, folds=0).threshold for keep in (0.5, 0.8, 0.95)]
    assert thresholds == sorted(thresholds)
    assert thresholds[-1] <= bl.learn_stop(runs, folds=0).threshold


def test_the_report_has_what_is_saved_and_kept_on_held_out_tasks(rule: bl.stats.LearnedRule) -> None:
    [row] = rule.report.frame.to_dict("records")
    assert row["n_tasks"] == 100
    for name in ("saved_share", "kept_share", "tasks_kept_share"):
        assert 0 <= row[f"{name}_low"] <= row[name] <= row[f"{name}_high"] <= 1
    assert row["tasks_kept_share"] <= row["kept_share"] + 0.05
    assert rule.report.reliability["tenth"].tolist() == [*range(1, 11)]
    # Estimates and outcomes rise together, and agree on average.
    assert rule.report.reliability[["estimate", "failed"]].corr().iloc[0, 1] > 0.9
    assert rule.report.reliability["estimate"].mean() == pytest.approx(
        rule.report.reliability["failed"].mean(), abs=0.05
    )
    assert {*rule.report.features["feature"]} == {*DEFAULT}
    text = str(rule.report)
    assert str(rule.promise).split(",")[0] in text.replace("\n", " ")
    assert "On held-out tasks (5 rules" in text
    assert "What raises the estimate most" in text
    assert "<table>" in rule._repr_html_()


def test_features_that_tell_matter_more_than_those_that_do_not(rule: bl.stats.LearnedRule) -> None:
    effects = rule.report.features.set_index("feature")["effect"]
    assert effects["calls_new_share"] < 0 < effects["steps"]
    assert abs(effects["calls_new_share"]) > 3 * abs(effects["idle_streak"])


def test_learn_stop_repeats_for_a_seed_and_differs_for_another(runs: list[bl.Run]) -> None:
    again, other = (bl.learn_stop(runs, folds=0, seed=seed) for seed in (0, 1))
    assert bl.learn_stop(runs, folds=0) == again != other
    assert str(again) != str(other)


def test_runs_without_a_label_are_left_out(runs: list[bl.Run], rule: bl.stats.LearnedRule) -> None:
    more = [*runs, made_run("?", "task ?", [("{}", "x")] * 50, success=None)]
    assert bl.learn_stop(more, folds=0) == rule


def test_a_detector_is_a_feature_too(runs: list[bl.Run], tmp_path: Path) -> None:
    streak = bl.detectors.SameError()
    rule = bl.learn_stop(runs, features=["steps", streak], folds=0)
    assert rule.risk.model.features == ("steps", "same_error")
    assert ledger_of(runs[:5], rule.detectors()).counters[rule.counter].max() > 0
    bl.stats.save_rule(rule, tmp_path / "rule.yaml")
    assert bl.stats.load_rule(tmp_path / "rule.yaml", [streak]) == rule
    with pytest.raises(bl.errors.FileError, match="feature 'same_error' is not known"):
        bl.stats.load_rule(tmp_path / "rule.yaml")


def test_errors_that_no_run_records_have_no_weight(runs: list[bl.Run]) -> None:
    def silent(run: bl.Run) -> bl.Run:
        steps = (
            step._replace(results=tuple(r and r._replace(is_error=None) for r in step.results)) for step in run.steps
        )
        return replace(run, steps=tuple(steps))

    rule = bl.learn_stop([silent(run) for run in runs])
    assert isinstance(rule.risk.model, LinearModel)
    features = dict(zip(rule.risk.model.features, rule.risk.model.weights, strict=True))
    assert {name: features[name] for name in ("error_streak", "error_share")} == {"error_streak": 0, "error_share": 0}
    assert "Never known in these runs, and without a weight: error_streak" in " ".join(rule.report.notes)
    # Where a later run records them, the rule does not mind.
    assert bl.scorecard(runs, rule)["n_unknown"].tolist() == [0]


def test_facts_give_the_same_rule(runs: list[bl.Run], rule: bl.stats.LearnedRule, tmp_path: Path) -> None:
    bl.save_runs(runs, tmp_path / "facts.jsonl", contents="facts")
    facts = bl.learn_stop(bl.load_runs(tmp_path / "facts.jsonl"), folds=0)
    assert (facts.risk.model, facts.threshold) == (rule.risk.model, rule.threshold)


@pytest.mark.slow
def test_trees_are_learned_too(runs: list[bl.Run], tmp_path: Path) -> None:
    rule = bl.learn_stop(runs, estimator="trees", confidence=None)
    assert rule.report["saved_share"][0] > 0.1
    assert "What the trees split by most" in str(rule.report)
    bl.stats.save_rule(rule, tmp_path / "trees.yaml")
    again = bl.stats.load_rule(tmp_path / "trees.yaml")
    assert again == rule
    assert ledger_of(runs, rule.detectors()).counters[rule.counter].tolist() == (
        ledger_of(runs, again.detectors()).counters[again.counter].tolist()
    )


def test_another_cluster_is_what_is_drawn(runs: list[bl.Run]) -> None:
    models = [replace(run, model=f"m{place % 60}") for place, run in enumerate(runs)]
    rule = bl.learn_stop(models, cluster="model", folds=0)
    assert rule.learned_from is not None
    assert (rule.learned_from.tasks, rule.learned_from.cluster) == (60, "model")


def test_a_report_without_tasks_to_hold_out_says_so() -> None:
    some = [replace(run, success=run.success) for run in labelled_runs(60, 1)]
    having = [run for run in some if run.success][:27]
    rule = bl.learn_stop([*having, *(run for run in some if not run.success)], confidence=None)
    assert np.isnan(rule.report["saved_share"][0])
    assert "There are too few tasks to hold some out" in str(rule.report)


REFUSED: dict[str, tuple[Callable[[list[bl.Run]], object], str]] = {
    "too few tasks": (
        lambda runs: bl.learn_stop([run for run in runs if run.task <= "task 3"]),
        r"keep=0.95 and confidence=0.9 needs 45 to set the threshold, and 5 more to fit the model",
    ),
    "too few on average": (
        lambda runs: bl.learn_stop(runs[:30], confidence=None),
        r"tasks with a success: keep=0.95 and confidence=None needs 19",
    ),
    "no label": (lambda runs: bl.learn_stop([replace(run, success=None) for run in runs]), "no run has a label"),
    "no failure": (lambda runs: bl.learn_stop([r for r in runs if r.success]), "all .* labelled runs succeeded"),
    "no success": (lambda runs: bl.learn_stop([r for r in runs if not r.success]), "all .* labelled runs failed"),
    "keep": (lambda runs: bl.learn_stop(runs, keep=95), "keep=95: expected a number between 0 and 1"),
    "confidence": (lambda runs: bl.learn_stop(runs, confidence=0), "confidence=0: expected a number between 0"),
    "calibration": (lambda runs: bl.learn_stop(runs, calibration=1), "calibration=1: expected"),
    "estimator": (
        lambda runs: bl.learn_stop(runs, estimator="tree"),  # type: ignore[arg-type]
        "estimator='tree' is not known; did you mean 'trees'",
    ),
    "feature": (
        lambda runs: bl.learn_stop(runs, features=["step"]),
        "feature 'step' is not known; did you mean 'steps'",
    ),
    "no feature": (lambda runs: bl.learn_stop(runs, features=[]), "expected at least one name"),
    "cluster": (lambda runs: bl.learn_stop(runs, cluster="tasks"), "cluster='tasks': there is no such column"),
    "folds": (lambda runs: bl.learn_stop(runs, folds=1), r"folds\(1\): expected an integer >= 2"),
    "no rule to save": (lambda _: bl.stats.save_rule(bl.max_steps(3), "x"), "expected a rule that bl.learn_stop"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_learned_is_refused(runs: list[bl.Run], name: str) -> None:
    ask, message = REFUSED[name]
    with pytest.raises(bl.SettingError, match=message):
        ask(runs)


def test_without_scikit_learn_trees_name_the_extra(runs: list[bl.Run], monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(bl.SettingError, match=r"pip install 'boolab\[learn\]'"):
        bl.learn_stop(runs, estimator="trees", folds=0)


def test_the_table_of_features_names_all_of_them() -> None:
    table = bl.stats.features_df()
    assert table["feature"].tolist() == [*FEATURES]
    assert table["default"].sum() == len(DEFAULT)
