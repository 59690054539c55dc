"""The figures of CapLab: their titles, tooltips, ticks and bounds agree with the runs."""

import re
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.harnesses.presets import policies
from boolab.harnesses.setting import Setting
from boolab.limits.table import AGENT_LIMITS
from boolab.stats.intervals import ClusterBootstrap
from boolab.widgets.caplab.controls import HARNESSES, ticks_of
from boolab.widgets.caplab.data import CapTables
from boolab.widgets.caplab.figures import CapCurve, frontier_title
from boolab.widgets.caplab.how_to_set import how_to_set
from boolab.widgets.caplab.question import Question, groups_of
from boolab.widgets.caplab.stops import chosen_columns
from tests.support.caplab_cases import several
from tests.support.cases import cases, first
from tests.support.samples import atlas

LABELS = st.sampled_from([True, False, None])


@given(several(LABELS), st.sampled_from(["turn", "run"]), st.sampled_from(["steps", "tokens"]), st.data())
@cases(40)
def test_what_is_saved_of_all_tasks_is_what_is_saved(
    runs: list[Run], scope: Any, objective: Literal["steps", "tokens"], data: st.DataObject
) -> None:
    table = CapTables(runs, Question(objective=objective)).get_table(Setting(scope=scope))
    limits = {name: data.draw(st.sampled_from(table.options[name]), label=name) for name in AGENT_LIMITS}
    columns = chosen_columns(table._settings, table.options, limits)
    saved = table._by_task.sum_saved(columns)
    assert saved.sum() == table.sums(limits)[f"saved_{table.measure}"]
    interval = table._by_task.interval(columns)
    share = saved.sum() / max(table._by_task._whole.sum(), 1)
    assert interval is None or (0 <= interval.low <= share + 1e-9 and share <= interval.high + 1e-9 <= 1 + 2e-9)


@pytest.mark.slow
def test_interval_of_savings_is_that_of_a_clustered_share() -> None:
    runs = atlas("swebench-verified")
    lab = bl.CapLab(runs)
    lab.setting = {"max_steps": 68}
    parts = [max(0, run.n_steps - 68) for run in runs]
    steps = [run.n_steps for run in runs]
    expected = ClusterBootstrap([run.task for run in runs]).share(parts, steps)
    assert sum(parts) == 351
    assert lab.answer["saved_interval"] == pytest.approx([float(expected.low), float(expected.high)], abs=1e-4)


@pytest.mark.parametrize("name", ["intercode-python", "intercode-bash"])
def test_interval_of_savings_is_that_of_the_decision(name: str) -> None:
    runs = [run for run in atlas(name) if run.model == atlas(name)[0].model]
    decision = bl.recommend(runs, keep=0.9, by=[]).evidence
    lab = bl.CapLab(runs, keep=0.9)
    lab.setting = {limit: decision[limit] for limit in ("max_steps", "doom_loop", "tool_budget")}
    assert lab.answer["saved_interval"] == pytest.approx(
        [decision["saved_share_low"], decision["saved_share_high"]], abs=1e-4
    )


@pytest.mark.parametrize("name", first(2, ["swebench-verified", "tau-airline", "intercode-bash"]))
def test_the_titles_are_true_of_the_caps_in_the_figures(name: str) -> None:
    runs = atlas(name)
    lab = bl.CapLab(runs, objective="steps")
    if len(lab._agents) > 1:
        lab.setting = {"agent": "all"}
    curve, caps = lab.answer["curve"], lab._tables.get_table(Setting(**lab.setting)).options["max_steps"]
    largest = max(cap or 0 for cap in caps)
    table = bl.counterfactual(runs, grid={"max_steps": caps}, aggregate=True, progress=False)
    kept = (table["kept_lower"] / table["successes"]).to_numpy(float)
    saved = (table["saved_steps"] / (table["steps"] + table["saved_steps"])).to_numpy(float)
    tightest = int(np.argmax(kept >= 0.95))
    assert curve["title"].startswith(f"On record the tightest cap that keeps 95% of the successes is {caps[tightest]}")
    good = [cap for cap, is_good in zip(caps[:-1], saved[:-1] > 1 - kept[:-1], strict=True) if is_good]
    words = {"Every cap": len(caps) - 1, "No cap saves": 0}
    expected = next((n for start, n in words.items() if curve["frontier_title"].startswith(start)), len(good))
    assert len(good) == expected
    if curve["frontier_title"].startswith("No cap above"):
        assert int(curve["frontier_title"].split()[3]) == max(one or 0 for one in good) < largest
    else:
        assert not good or max(one or 0 for one in good) == largest
    tip = {row[0]: row[1:] for row in curve["tips"][tightest]}
    row = table.iloc[tightest]
    assert re.match(rf"{row['kept_lower']}\b.* of {row['successes']}$", tip["kept"][0])
    assert tip["stopped"][0].split()[0] == f"{row['n_truncated']:,}"


def test_caps_that_stop_nothing_are_not_judged() -> None:
    rows: dict[str, Any] = {
        "kept_lower": [2] * 4,
        "upper": [2] * 4,
        "at_least": [0.2] * 4,
        "totals": [7] * 4,
        "total": 2,
    }
    curve = CapCurve(
        caps=[1, 2, 3, None], saved=[2, 1, 0, 0], stopped=[1, 1, 0, 0], measure="steps", noun="turn", **rows
    )
    than = "a larger share of the steps than it loses of the successes"
    assert frontier_title(curve) == f"Every cap that stops a turn saves {than}"
    assert frontier_title(replace(curve, saved=[0] * 4, stopped=[0] * 4)) == "No cap stops a turn"
    assert (
        frontier_title(replace(curve, kept_lower=[0, 2, 2, 2])) == f"A cap of 2 or more that stops a turn saves {than}"
    )


def test_doom_loop_points_equal_those_of_counterfactual() -> None:
    runs = atlas("swebench-verified")
    points = bl.CapLab(runs, objective="steps").answer["curve"]["doom_loops"]
    assert points
    table = bl.counterfactual(runs, grid={"doom_loop": [p["value"] for p in points]}, aggregate=True, progress=False)
    for point, (_, row) in zip(points, table.iterrows(), strict=True):
        assert point["kept"] == row["kept_lower"] / row["successes"]
        assert point["saved"] == pytest.approx(row["saved_steps"] / (row["steps"] + row["saved_steps"]))


def test_ticks_are_the_defaults_of_presets() -> None:
    named = {one: tick["value"] for tick in ticks_of("max_steps", 10_000) for one in tick["label"].split(", ")}
    assert named == {
        title: policies[preset].cap.max_steps
        for preset, title in HARNESSES.items()
        if policies[preset].cap.max_steps is not None
    }
    assert all(policies[preset].cap.counts == "steps" for preset in HARNESSES)
    assert ticks_of("max_steps", 5) == []


def test_an_agent_is_named_with_its_data_set() -> None:
    runs = [*atlas("swebench-verified"), *atlas("tau2-retail")]
    values = [(run.settings["set"],) for run in runs]
    assert [one.detail for one in groups_of(runs, ["set"], values, families=False)] == [
        "swebench-verified, 499 runs", "tau2-retail, 194 runs", "2 data sets, 693 runs",
    ]  # fmt: skip


def test_caplab_pools_data_sets_of_an_agent_only_on_request() -> None:
    names = ("intercode-ctf", "intercode-python", "tau-airline")
    sets = {name: list(atlas(name)) for name in names}
    tables = CapTables([run for runs in sets.values() for run in runs], Question())
    assert tables.keys == ["agent", "set", "model"]
    assert [*tables.groups] == [
        "", "intercode, intercode-python, gpt-4", "intercode, intercode-python, gpt-3.5",
        "intercode, intercode-ctf, gpt-4", "intercode", "all",
    ]  # fmt: skip
    assert tables.groups[""].title == "gpt-4o"  # its runs name no agent
    ctf = Setting(scope="run", agent="intercode, intercode-ctf, gpt-4")
    assert tables.get_table(ctf).base["units"] == len(sets["intercode-ctf"])
    assert "of agent intercode" in tables.get_table(ctf).base["counted_by"]
    assert tables.get_table(ctf._replace(agent="intercode")).base["units"] == 333


@pytest.mark.parametrize("agent", ["all", "coder"])
@pytest.mark.parametrize("scope", ["turn", "run"])
@pytest.mark.parametrize("identity", ["canonical", {"*": "raw", "poll": None, "ls": "tool"}])
def test_a_copy_button_names_what_its_text_sets(identity: Any, scope: Any, agent: str) -> None:
    limits = {"max_steps": 681, "tool_budget": 507, "doom_loop": 319}
    short = {"max_steps": "cap 681", "tool_budget": "budget 507", "doom_loop": "doom loop 319"}
    for chosen in (["max_steps"], ["doom_loop"], [*limits]):
        given: dict[str, Any] = {name: limits[name] for name in chosen}
        setting = Setting(**given, identity=identity, scope=scope, agent=agent)
        for way in how_to_set(setting):
            code = [line for line in way["text"].splitlines() if not line.strip().startswith(("#", "//"))]
            named = [name for name in chosen if short[name] in way["short"].split(", ")]
            there = [name for name in chosen if any(str(limits[name]) in line for line in code)]
            in_another_unit = way["name"] in ("langgraph", "gemini-cli") and named == ["max_steps"]
            assert named == there or in_another_unit, way
            assert bool(way["line"]) == bool(named)
        assert {"boolab", "python"} <= {way["name"] for way in how_to_set(setting) if way["short"]}
