"""The verdict of CapLab: its numbers are those of the runs, its bound is exact, and its trade is that of all pages."""

import re

import pytest

import boolab as bl
from boolab.harnesses.setting import Setting
from boolab.stats.kept_share import kept_bound
from boolab.stats.trade import Trade
from boolab.widgets.caplab.figures import verdict_of
from tests.support.samples import atlas

SETS = {"swebench-verified": 68, "tau-airline": 19, "intercode-bash": 4}


@pytest.mark.parametrize("name", SETS)
def test_caplab_verdict_and_trade_equal_counterfactual(name: str) -> None:
    runs = atlas(name)
    lab = bl.CapLab(runs)
    lab.setting = {"max_steps": SETS[name]}
    answer = lab.answer
    row = bl.counterfactual(runs, grid={"max_steps": [SETS[name]]}, aggregate=True, progress=False).iloc[0]
    first, trade = answer["verdict"]
    assert f"keeps {row['kept_lower']:,} of {row['successes']:,} successes" in first
    saved, spent = int(row["saved_steps"]), int(row["steps"])
    lost = int(row["successes"] - row["kept_lower"])
    expected = Trade(saved, lost, spent + saved, int(row["successes"]), counted=row["unit"])
    advice = ": better left off" if expected.is_poor else ""
    assert trade == f"{expected.sentence.split(':')[0].rstrip('.')}{advice}."  # its numbers are below it
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
    found = bl.recommend(runs, grid={"max_steps": [SETS[name]]}, objective="steps")
    if found["qualifies"][0]:
        assert lab.answer["at_least"] == pytest.approx(found["kept_bound"][0], abs=1e-4)


def test_without_a_limit_nothing_is_kept_saved_or_traded() -> None:
    lab = bl.CapLab(atlas("tau-airline"))
    lab.setting = {"max_steps": None}
    assert lab.answer["verdict"] == ["No limit is set: nothing is stopped, and nothing is saved.", ""]


def test_verdict_says_first_that_a_setting_keeps_too_little() -> None:
    lab = bl.CapLab(atlas("swebench-verified"))
    lab.setting = {"max_steps": 47}
    first, trade = lab.answer["verdict"]
    assert first.startswith("A step cap of 47 keeps 148 of 168 successes, 88.0%, less than the 95% to keep, and saves ")
    assert trade == "The trade is good, in steps of runs."
    lab.keep = 0.88
    assert "less than" not in lab.answer["verdict"][0]


def test_several_limits_are_named_together() -> None:
    lab = bl.CapLab(atlas("tau-airline"))
    lab.setting = {"max_steps": 19, "doom_loop": 2}
    (first, _) = lab.answer["verdict"]
    assert re.match(r"A step cap of 19 and a doom-loop threshold of 2 keep \d+ of 84 successes", first)


def test_verdict_has_kept_first_where_it_is_too_little() -> None:
    kept = {"lower": 160, "upper": 160, "of": 168}
    saved = {"measure": "steps", "label": "steps", "saved": 351, "of": 16707, "share": 351 / 16707}
    first, trade = verdict_of(Setting(max_steps=68), kept, saved, "successes", "run")
    assert first == "A step cap of 68 keeps 160 of 168 successes and saves 2.1% of the steps."
    assert trade == "The trade is poor, in steps of runs: better left off."
    kept = {"lower": 148, "upper": 148, "of": 168}
    assert (
        verdict_of(Setting(max_steps=47), kept, saved, "successes", "run", 0.95)[0]
        == "A step cap of 47 keeps 148 of 168 successes, 88.0%, less than the 95% to keep, and saves 2.1% of the steps."
    )
