"""Recommendations where runs hold those of subagents, on the simulated families that come with boolab."""

import runpy
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.harnesses.setting import Setting
from boolab.io.resources import data_path
from boolab.widgets.caplab.data import CapTables
from boolab.widgets.caplab.question import Question
from tests.support.cases import first

FOLDER = data_path("datasets") / "families"


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """The simulated families."""
    return bl.load_runs(FOLDER)


@pytest.mark.slow
def test_the_script_makes_the_families_anew_byte_for_byte(tmp_path: Path) -> None:
    runpy.run_path(str(FOLDER / "make_families.py"))["main"](tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (FOLDER / "families.jsonl").read_bytes()


def test_the_families_are_what_their_page_says(runs: list[Run]) -> None:
    frame = bl.runs_df(runs)
    assert (FOLDER / "families.jsonl").stat().st_size < 2_500_000
    assert frame["agent"].value_counts().to_dict() == {"scout": 165, "lead": 100}
    assert frame["success"].notna().tolist() == frame["agent"].eq("lead").tolist()
    good = frame[frame["success"].fillna(value=False)]
    scouts = frame[frame["parent_run_id"].isin(good["run_id"])]
    assert (len(good), good["n_steps"].min(), good["n_steps"].max()) == (82, 5, 23)
    assert (scouts["n_steps"].min(), scouts["n_steps"].max(), frame["n_steps"].max()) == (2, 13, 62)
    assert frame["parent_step"].notna().tolist() == frame["agent"].eq("scout").tolist()


def test_each_agent_of_a_family_gets_its_own_setting_and_a_note(runs: list[Run]) -> None:
    found = bl.recommend(runs, keep=0.9)
    assert found.frame["agent"].tolist() == ["lead", "scout"]
    assert found.frame["successes"].tolist() == [82, 82]
    assert found.frame["tasks"].tolist() == [82, 82]
    frame = bl.runs_df(runs)
    assert found.frame["n_units"].tolist() == [100, frame["parent_run_id"].nunique()]
    assert found.frame["unit"].tolist() == ["run", "run"]
    assert any("165 of them of subagents" in note for note in found.notes)
    assert any("100 tasks" in note for note in found.notes)


def test_recommend_keeps_what_counterfactual_keeps_of_families(runs: list[Run]) -> None:
    axes = {"max_steps": "max_steps", "doom_loop": "doom_loop", "tool_budget": "tool_budget"}
    for keep in (0.85, 0.9, 0.95):
        for row in bl.recommend(runs, keep=keep).frame.to_dict("records"):
            setting = {f"{axis}@{row['agent']}": [row[column]] for column, axis in axes.items()}
            told = bl.counterfactual(runs, grid=setting, aggregate=True).iloc[0]
            assert (row["kept_lower"], row["kept_upper"]) == (told["kept_lower"], told["kept_upper"])


def test_recommend_loses_a_family_if_the_cap_stops_one_scout(runs: list[Run]) -> None:
    def lengthened(run: Run) -> Run:
        if not run.run_id.endswith("/scout-1"):
            return run
        steps = [*(run.steps[:-1] * 40)[:40], run.steps[-1]]
        return replace(run, steps=tuple(step._replace(index=n) for n, step in enumerate(steps, 1)))

    found = bl.recommend([lengthened(run) for run in runs], keep=0.9, grid={"max_steps": range(1, 50)})
    scout = found.frame.set_index("agent").loc["scout"]
    assert scout["successes"] == 82
    assert scout["max_steps"] is pd.NA or scout["max_steps"] > 40


def test_group_of_whole_families_counts_each_family_once(runs: list[Run]) -> None:
    found = bl.recommend(runs, keep=0.9, by="model", grid={"max_steps": range(1, 70)})
    row = found.frame.iloc[0]
    assert (row["n_units"], row["successes"], row["tasks"]) == (100, 82, 82)
    told = bl.counterfactual(runs, grid={"max_steps": [row["max_steps"]]}, aggregate=True).iloc[0]
    assert (row["kept_lower"], row["kept_upper"]) == (told["kept_lower"], told["kept_upper"])


def test_family_success_by_proxy_is_that_its_root_ended(runs: list[Run]) -> None:
    found = bl.recommend(runs, keep=0.9, success="ended")
    assert found.frame["successes"].tolist() == [100, 100]
    assert found.frame["n_units"].tolist() == [100, bl.runs_df(runs)["parent_run_id"].nunique()]


def test_an_axis_of_one_agent_is_refused(runs: list[Run]) -> None:
    with pytest.raises(SettingError, match="leave @scout out"):
        bl.recommend(runs, grid={"max_steps@scout": [5, 10]})


def test_subagents_that_are_not_on_record_are_said(runs: list[Run]) -> None:
    leads = [run for run in runs if run.agent == "lead"]
    found = bl.recommend(leads, keep=0.9)
    assert "agent" not in found.frame
    assert any("165 subagents" in note and "not on record" in note for note in found.notes)


def test_survival_of_families_tells_agents_apart(runs: list[Run]) -> None:
    frame = bl.survival(runs, by="agent").frame
    assert set(frame["agent"]) == {"lead", "scout"}


@pytest.mark.parametrize("agent", ["lead", "scout"])
@pytest.mark.parametrize("cap", first(2, [5, 13, 21]))
def test_caplab_figures_of_an_agent_equal_counterfactual(runs: list[Run], agent: str, cap: int) -> None:
    tables = CapTables(runs, Question())
    setting = Setting(max_steps=cap, agent=agent)
    shown = tables.get_table(setting).answer(setting)
    grid = {f"max_steps@{agent}": [cap]}
    family = bl.counterfactual(runs, grid=grid, aggregate=True).iloc[0]
    assert shown["kept"] == {
        "lower": family["kept_lower"],
        "upper": family["kept_upper"],
        "of": family["successes"],
    }
    told = bl.counterfactual(runs, grid=grid, by="agent", aggregate=True).set_index("agent").loc[agent]
    # Of scouts that a lead would have called after one that is stopped nobody knows whether they are begun.
    assert told["saved_steps_lower"] <= shown["saved"][-1]["saved"] <= told["saved_steps_upper"]
    if agent == "lead":
        assert told["saved_steps_lower"] == told["saved_steps_upper"]


def test_caplab_recommends_per_agent_and_starts_with_the_root(runs: list[Run]) -> None:
    lab = bl.CapLab(runs, keep=0.9)
    assert lab.setting["agent"] == "lead"
    frame = bl.recommend(runs, keep=0.9).frame.set_index("agent")
    for agent in ("lead", "scout"):
        found = CapTables(runs, Question(keep=0.9)).get_recommendation(Setting(agent=agent))
        assert found["setting"]["max_steps"] == frame.loc[agent, "max_steps"]
        assert all(sentence.startswith(f"{agent}: ") for sentence in found["sentences"])
    with pytest.raises(SettingError, match="one agent has to be chosen: 'lead', 'scout'"):
        lab.setting = {"agent": "all"}


@pytest.mark.parametrize("by", [None, []])
def test_recommend_counts_successes_in_any_order_of_runs(runs: list[Run], by: list[str] | None) -> None:
    """A file of a subagent may be read before that of its parent."""
    for listed in (runs, runs[::-1]):
        found = bl.recommend(listed, success="ended", by=by)
        n_ended = sum(run.stop_reason == "finished" for run in runs if run.parent_run_id is None)
        assert set(found.frame["successes"]) == {n_ended}
        assert f"counts as a success, {n_ended} of " in " ".join(found.notes)
