"""The verdict of CapLab is that of the decision, or of a position: its numbers are those of the runs."""

import re
from typing import Any

import pytest

import boolab as bl
from boolab.harnesses.setting import Setting
from boolab.limits.table import AGENT_LIMITS
from boolab.stats.kept_share import kept_bound
from boolab.stats.trade import Trade
from boolab.widgets.caplab.figures import position_verdict
from tests.support.cases import first
from tests.support.samples import atlas

SETS = {"swebench-verified": 68, "tau-airline": 19}
NO_LIMITS: dict[str, Any] = dict.fromkeys(AGENT_LIMITS)


@pytest.mark.parametrize("name", SETS)
def test_caplab_verdict_and_trade_equal_counterfactual(name: str) -> None:
    runs = atlas(name)
    lab = bl.CapLab(runs)
    lab.setting = {"max_steps": SETS[name]}
    answer = lab.answer
    row = bl.counterfactual(runs, grid={"max_steps": [SETS[name]]}, aggregate=True, progress=False).iloc[0]
    assert f"keeps {row['kept_lower']:,} of {row['successes']:,} successes" in answer["verdict"][0]
    saved, spent = int(row["saved_steps"]), int(row["steps"])
    lost = int(row["successes"] - row["kept_lower"])
    expected = Trade(saved, lost, spent + saved, int(row["successes"]), counted=row["unit"])
    assert answer["trade"] == {"each": expected.each, "costs": expected.costs, "poor": expected.is_poor}


@pytest.mark.parametrize("name", SETS)
def test_bound_of_a_setting_is_that_of_lost_successes_by_task(name: str) -> None:
    runs = atlas(name)
    lab = bl.CapLab(runs)
    lab.setting = {"max_steps": SETS[name]}
    rows = bl.counterfactual(runs, grid={"max_steps": [SETS[name]]}, progress=False)
    rows["task"] = [run.task or run.run_id for run in runs]
    good = rows[[bool(run.success) for run in runs]]
    lost = (good["outcome"] != "unchanged").groupby(good["task"]).sum()
    assert lab.answer["at_least"] == pytest.approx(float(kept_bound(lost, good.groupby("task").size(), 0.05)), abs=1e-4)


@pytest.mark.parametrize("name", ["tau-airline", "intercode-bash"])
def test_bound_is_the_same_before_and_after_the_decision(name: str) -> None:
    lab = bl.CapLab(atlas(name))
    lab.setting = {"max_steps": 6}
    before = lab.answer
    assert lab.recommended["action"]
    assert (lab.answer["at_least"], lab.answer["curve"]["at_least"]) == (
        before["at_least"],
        before["curve"]["at_least"],
    )


def test_bound_of_a_group_has_the_error_of_the_decision() -> None:
    runs = atlas("intercode-bash")
    lab, decision = bl.CapLab(runs), bl.recommend(runs)
    assert decision.keys == ("model",)
    for group in decision.groups:
        place = Setting(**{**lab.setting, "agent": group.names[0]})
        assert lab._tables.get_table(place).error == pytest.approx(group.question.error)


@pytest.mark.parametrize("name", first(3, ["swebench-verified", "tau-airline", "intercode-python", "intercode-bash"]))
def test_caplab_says_of_each_group_what_the_decision_says(name: str) -> None:
    runs = atlas(name)
    lab, decision = bl.CapLab(runs), bl.recommend(runs)
    kept_apart = [agent["name"] for agent in lab._agents if lab._tables.groups[agent["name"]].key is not None]
    assert len(kept_apart) == len(decision.groups)
    for group in decision.groups:
        if decision.keys:
            lab.setting = {"agent": ", ".join(map(str, group.names))}
        found = lab.recommended
        assert (found["action"], found["reason"]) == (group.action, group.reason)
        assert found["setting"] == (group.setting if group.action == "set" else None)
        assert {*found["sentences"]} <= {*decision.sentences}
        lab.setting = group.setting
        assert lab.answer["verdict"] == found["verdict"]
        if len(decision.groups) == 1:
            assert found["verdict"] == [*decision.verdict]
            assert found["sentences"] == [*decision.sentences]
        else:
            assert found["overview"] == [*decision.verdict]


def test_a_candidate_that_is_left_off_has_the_decisions_verdict() -> None:
    lab = bl.CapLab(atlas("swebench-verified"))
    found = lab.recommended
    assert (found["action"], found["setting"]) == ("leave", None)
    lab.setting = NO_LIMITS
    assert lab.answer["verdict"] == found["verdict"]
    lab.setting = found["candidate"]
    assert lab.answer["verdict"] == found["verdict"]


def test_groups_taken_together_have_a_decision_of_their_own() -> None:
    runs = atlas("intercode-bash")
    lab = bl.CapLab(runs)
    lab.setting = {"agent": "all"}
    pooled = bl.recommend(runs, by=[])
    assert lab.recommended["verdict"] == [*pooled.verdict]
    if pooled.groups[0].broken:
        assert "On record it keeps less than 95% for model" in " ".join(lab.recommended["verdict"])


def test_without_a_limit_nothing_is_kept_saved_or_traded() -> None:
    lab = bl.CapLab(atlas("tau-airline"))
    assert lab.answer["verdict"] == ["No limit is set: nothing is stopped, and nothing is saved."]


def test_verdict_says_first_that_a_setting_keeps_too_little() -> None:
    lab = bl.CapLab(atlas("swebench-verified"))
    lab.setting = {"max_steps": 47}
    (only,) = lab.answer["verdict"]
    assert only.startswith("A step cap of 47 keeps 148 of 168 successes, less than the 95% to keep, and saves ")
    lab.keep = 0.88
    assert "less than the 88% to keep, and" not in lab.answer["verdict"][0]


def test_several_limits_are_named_together() -> None:
    lab = bl.CapLab(atlas("tau-airline"))
    lab.setting = {"max_steps": 19, "doom_loop": 2}
    first = lab.answer["verdict"][0]
    assert re.match(r"A step cap of 19 and a doom-loop threshold of 2 keep \d+ of 84 successes", first)


def said(cap: int, kept: int, saved: int, **asked: Any) -> list[str]:
    counts = {"lower": kept, "upper": kept, "of": 168}
    spared = {"measure": "steps", "label": "steps", "saved": saved, "of": 16707, "share": saved / 16707}
    return position_verdict(Setting(max_steps=cap), counts, spared, "successes", "run", **asked)


def test_a_broken_promise_is_said_instead_of_the_trade() -> None:
    too_few = "A step cap of 47 keeps 148 of 168 successes, less than the 95% to keep, and saves 30% of the steps."
    assert said(47, 148, 5000, keep=0.95) == [too_few]
    assert said(68, 160, 351, keep=0.95, at_least=0.91) == [
        "A step cap of 68 keeps 160 of 168 successes and saves 2.1% of the steps.",
        "It is shown to keep at least 91.0% of future ones, less than the 95% to keep.",
    ]


def test_a_trade_is_good_only_where_limits_are_to_be_set() -> None:
    assert said(68, 160, 351)[1] == "The trade is poor, in steps of runs: better left off."
    assert said(68, 167, 3510)[1] == "The trade is good, in steps of runs."
    assert len(said(68, 167, 3510, is_set=False)) == 1
    assert said(68, 168, 351, is_set=False)[1] == "No success is lost on record."


def test_a_decision_that_is_given_is_shown_and_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = atlas("intercode-bash")
    decision = bl.recommend(runs, by=["model"])
    monkeypatch.setattr("boolab.widgets.caplab.data.recommend", None)
    lab = bl.CapLab(runs, decision=decision)
    for group in decision.groups:
        lab.setting = {"agent": lab.name_group(group.names)}
        assert lab.recommended["action"] == group.action
        assert lab._tables.get_table(Setting(**lab.setting)).error == pytest.approx(group.question.error)


def test_a_decision_on_another_share_is_an_error() -> None:
    runs = atlas("tau-airline")
    with pytest.raises(bl.SettingError, match="decision: keep=0.95, confidence=0.95: expected its own"):
        bl.CapLab(runs, decision=bl.recommend(runs, keep=0.9))
