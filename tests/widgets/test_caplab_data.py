"""What settings make of runs: the numbers of CapLab are those of counterfactual and recommend."""

import json
import warnings
from dataclasses import replace
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import MICRO
from boolab.display.numbers import money
from boolab.errors import SettingError
from boolab.harnesses.presets import policies
from boolab.harnesses.setting import Setting, as_code, as_front_matter
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.table import AGENT_LIMITS
from boolab.report.units import Unit, turns_as_units
from boolab.runtime.agents.agent import policy_of
from boolab.stats.kept_share import KnownOutcomes, kept_bound, sure_bound
from boolab.stats.recommend.candidates import sums_of
from boolab.stats.recommend.evidence import stopped_by, stops_and_savings
from boolab.stats.recommend.groups import name_of
from boolab.stats.recommend.units import base_of, clusters_of_ledger, open_units
from boolab.store.rows import records_of
from boolab.whatif.step_table import Ledger
from boolab.widgets.caplab.controls import values_of
from boolab.widgets.caplab.data import CapTables
from boolab.widgets.caplab.page_settings import sample_values, settings_in_page
from boolab.widgets.caplab.question import Question
from boolab.widgets.caplab.table import CapTable
from tests.support.caplab_cases import Told, families, runs_of, several
from tests.support.cases import cases

LABELS = st.sampled_from([True, False, None])


def drawn(data: st.DataObject, tables: CapTables, setting: Setting) -> Setting:
    """Limits among those that the sliders have: every threshold that the data reach is one of them."""
    options = tables.get_table(setting).options
    limits: dict[str, Any] = {name: data.draw(st.sampled_from(options[name]), label=name) for name in AGENT_LIMITS}
    return setting._replace(**limits)


def counted(runs: list[Run], scope: str) -> list[Unit]:
    """What counts as one, as in the report: a run, or where no run has a label and each turn is limited, a turn."""
    if scope == "run" or any(run.success is not None for run in runs):
        return [Unit(run, of, None) for of, run in enumerate(runs)]
    return [unit for of, run in enumerate(runs) for unit in turns_as_units(run, of)]


def asked(runs: list[Run], setting: Setting, policy: str | None, **how: Any) -> pd.DataFrame:
    """The same setting, asked of `counterfactual` alone."""
    grid = {name: [value] for name, value in setting.limits.items()}
    return cast(
        "pd.DataFrame",
        bl.counterfactual(runs, grid=grid, scope=setting.scope, identity=setting.identity, policy=policy, **how),
    )


@given(
    several(LABELS), st.sampled_from(["turn", "run"]), st.sampled_from(["canonical", "raw", "tool"]),
    st.sampled_from([None, "boocode", "openhands_classic", "opencode_3631"]), st.data(),
)  # fmt: skip
@cases(40)
def test_the_sums_of_a_setting_are_those_of_counterfactual(
    runs: list[Run], scope: Any, identity: str, policy: str | None, data: st.DataObject
) -> None:
    tables = CapTables(runs, Question(policy))
    setting = drawn(data, tables, Setting(identity=identity, scope=scope))
    mine = tables.get_table(setting).sums(setting.limits)
    theirs = asked([unit.run for unit in counted(runs, scope)], setting, policy, aggregate=True).iloc[0]
    for name, value in mine.items():
        if name.startswith("unreported_"):
            continue  # what the upper end of what is saved is made of
        if name in ("cost", "saved_cost"):
            told = theirs[f"{name}_usd"]
            assert (0 if told is pd.NA else round(told * MICRO)) == value, name
        else:
            told = theirs.get(name, 0)  # a reason that the setting has no rule for has no column
            assert (0 if told is pd.NA else told) == value, name
    assert {"kept_lower", "kept_upper", "successes", "saved_steps", "saved_cost", "n_step_cap", "n_censored"} <= {*mine}


@given(
    several(LABELS),
    st.sampled_from(["turn", "run"]),
    st.sampled_from([None, "boocode", "openhands_classic"]),
    st.data(),
)
@cases(40)
def test_caplab_cuts_the_runs_that_counterfactual_stops(
    runs: list[Run], scope: Any, policy: str | None, data: st.DataObject
) -> None:
    tables = CapTables(runs, Question(policy))
    setting = drawn(data, tables, Setting(scope=scope))
    answer = tables.get_table(setting).answer(setting)
    rows = {(row["run"], row["begins"]): row for row in answer["rows"]}
    units = counted(runs, scope)
    begins = [sum(step.turn < (unit.turn or 0) for step in runs[unit.of].steps) for unit in units]
    table = asked([unit.run for unit in units], setting, policy).assign(_begins=begins, _unit=range(len(units)))
    stopped = table[table["outcome"].isin(["truncated", "not_identified", "unknown"])]
    assert answer["cut"]["n"] == len(rows) == len(stopped)
    for _, there in stopped.iterrows():
        row, unit = rows[there["run_id"], there["_begins"]], units[there["_unit"]]
        assert row["reason"] == there["stop_reason"]
        before = sum(step.turn < there["stop_turn"] for step in unit.run.steps) if scope == "turn" else 0
        at = before if unit.turn is None else 0
        assert row["at"] == at + there["stop_step"]  # with what it begins after, what Replay opens at
        assert row["needed"] == there["steps"] + there["saved_steps"] == unit.run.n_steps
        assert row["success"] == (None if there["success"] is pd.NA else bool(there["success"]))
        assert row["lost"] == bool(there["success"] is not pd.NA and there["success"] and there["kept_upper"] == 0)
    place = {True: 0, None: 1, False: 2}  # what may be a lost success comes before failures
    order = [(place[row["success"]], not row["lost"]) for row in answer["rows"]]
    assert order == sorted(order)


@given(several(LABELS), st.sampled_from(["turn", "run"]))
@cases(15)
def test_an_agents_numbers_are_those_of_its_group(runs: list[Run], scope: Any) -> None:
    tables = CapTables(runs, Question())
    for agent in {run.agent for run in runs}:
        setting = Setting(max_steps=2, scope=scope, agent=agent)
        if 2 not in tables.get_table(setting).options["max_steps"]:
            continue
        sums = tables.get_table(setting).sums(setting.limits)
        units = [unit.run for unit in counted([run for run in runs if run.agent == agent], scope)]
        row = bl.counterfactual(units, grid={"max_steps": [2]}, scope=scope, aggregate=True).iloc[0]
        for name in ("n_runs", "successes", "kept_lower", "kept_upper", "n_step_cap", "saved_steps"):
            assert sums[name] == row[name], name


@given(several(st.none()), st.sampled_from(["turn", "run"]), st.data())
@cases(40)
def test_without_labels_the_numbers_are_those_of_the_report(runs: list[Run], scope: Any, data: st.DataObject) -> None:
    tables = CapTables(runs, Question(objective="steps"))
    setting = drawn(data, tables, Setting(scope=scope))
    table = tables.get_table(setting)
    answer, units = table.answer(setting), counted(runs, scope)
    theirs = asked([unit.run for unit in units], setting, None, aggregate=True).iloc[0]
    assert answer["kept"] == {"lower": theirs["kept_lower"], "upper": theirs["kept_upper"], "of": theirs["successes"]}
    assert answer["saved"][0]["saved"] == theirs["saved_steps"]
    assert answer["cut"]["n"] == theirs["n_truncated"] + theirs["n_unknown"]
    assert table.noun == ("turn" if len(units) > len(runs) else "run")
    assert {end["reason"]: end["n"] for end in answer["ends"]}.get("interrupted", 0) <= len(units) - len(runs)


@given(several(LABELS), st.data())
@cases(20)
def test_the_curve_is_the_tally_of_all_caps(runs: list[Run], data: st.DataObject) -> None:
    tables = CapTables(runs, Question(objective="steps"))
    setting = drawn(data, tables, Setting())
    table = tables.get_table(setting)
    curve = table.answer(setting)["curve"]
    grid = {name: [value] for name, value in setting.limits.items()} | {"max_steps": table.options["max_steps"]}
    rows = bl.counterfactual([unit.run for unit in counted(runs, "turn")], grid=grid, aggregate=True)
    assert [None if cap is pd.NA else cap for cap in rows["max_steps"]] == table.options["max_steps"]
    for place, (_, row) in enumerate(rows.iterrows()):
        whole = row["steps"] + row["saved_steps"]
        assert (curve["lower"][place], curve["upper"][place]) == (row["kept_lower"], row["kept_upper"])
        assert curve["saved"][place] == pytest.approx(row["saved_steps"] / whole, abs=1e-4)


@given(several(LABELS), st.sampled_from(["turn", "run"]))
@cases(15)
def test_all_runs_stand_in_the_figures_and_each_once(runs: list[Run], scope: Any) -> None:
    setting = Setting(max_steps=1, scope=scope)
    table = CapTables(runs, Question()).get_table(setting)
    base, answer = table.base, table.answer(setting)
    lengths, of = base["lengths"], len(counted(runs, scope))
    assert sum(sum(lengths[name]) for name in ("success", "failure", "unknown")) == of == base["units"]
    assert sum(map(sum, answer["cut_by_length"].values())) == answer["cut"]["n"]
    assert sum(answer["cut_by_length"]["success"]) == answer["cut"]["succeeded"]
    assert sum(end["n"] for end in answer["ends"]) + answer["open"]["unknown"] == of


def labelled(n: int) -> list[Run]:
    """N runs of n tasks; the few that fail are the long ones."""
    rng = np.random.default_rng(1)
    words = [int(k) for k in rng.integers(2, 9, n)]
    told = [
        Told((" ".join("ABCDEFGHIJ"[i % 10] for i in range(k)) + " -",), success=True, task=f"t{n}")
        for n, k in enumerate(words)
    ]
    return runs_of(*told, *(Told(("A " * 14 + "-",), success=False, task=f"f{n}") for n in range(n // 5)))


@pytest.mark.parametrize("scope", ["turn", "run"])
@pytest.mark.parametrize("success", [None, "ended"])
def test_the_recommended_setting_is_that_of_recommend(scope: Any, success: Any) -> None:
    runs = labelled(90)
    found = CapTables(runs, Question(success=success)).get_recommendation(Setting(scope=scope))
    theirs = bl.recommend(runs, success=success, scope=scope)
    row = theirs.frame.iloc[0]
    assert (found["action"], found["reason"]) == (row["action"], row["reason"])
    assert found["setting"] == (theirs.setting if row["action"] == "set" else None)
    assert found["verdict"] == [*theirs.verdict]
    assert found["tasks"] == row["tasks"]
    assert (found["keep"], found["confidence"]) == (0.95, 0.95)
    assert [*theirs.sentences] == found["sentences"]


def long(n: int) -> list[Run]:
    """Runs of up to 600 steps: the sliders have not all of that range."""
    short = [
        Told((" ".join("ABCDEFGHIJ"[i % 10] for i in range(100 + k)) + " -",), success=True, task=f"t{k}")
        for k in range(n)
    ]
    return runs_of(*short, *(Told(("A B " * 300 + "-",), success=False, task=f"f{k}") for k in range(5)))


@pytest.mark.slow
def test_recommended_value_is_added_to_the_sliders() -> None:
    runs, tables = long(70), CapTables(long(70), Question())
    before = tables.get_table(Setting()).options["max_steps"]
    wanted = bl.recommend(runs).setting
    assert wanted["max_steps"] not in before
    assert tables.get_recommendation(Setting())["setting"] == wanted
    table = tables.get_table(Setting())
    assert table.options["max_steps"] == [*sorted({*before[:-1], wanted["max_steps"]}), None]
    row = bl.recommend(runs).frame.iloc[0]
    kept = table.answer(Setting(**wanted))["kept"]
    assert (kept["lower"], kept["upper"], kept["of"]) == (row["kept_lower"], row["kept_upper"], row["successes"])


def test_an_agent_is_asked_without_the_tools_that_others_call() -> None:
    runs = [replace(run, agent="poller") for run in labelled(90)]
    runs += [replace(run, agent="other", run_id=f"o{n}", steps=run.steps[-1:]) for n, run in enumerate(labelled(70))]
    setting = Setting(agent="other", identity={"*": "canonical", "look": None})
    assert CapTables(runs, Question()).get_recommendation(setting)["sentences"]


def test_caplab_says_how_many_more_successes_are_needed() -> None:
    found = CapTables(labelled(20), Question()).get_recommendation(Setting())
    assert found["setting"] is None
    assert (found["action"], found["reason"]) == ("not_yet", "too_few")
    assert found["words"] == f"20 successes, {found['more_needed']} more successes needed."
    assert found["more_needed"] == bl.recommend(labelled(20))["more_needed"][0] > 0
    assert found["notes"]


def test_a_recommended_setting_is_on_the_sliders() -> None:
    tables = CapTables(labelled(90), Question())
    limits = tables.get_recommendation(Setting())["setting"]
    assert tables.get_table(Setting()).answer(Setting(**limits))["kept"]["lower"] >= 0.95 * 90


def test_a_search_changes_nothing_until_its_result_is_added() -> None:
    tables = CapTables(labelled(90), Question())
    table = tables.get_table(Setting())
    found = tables.search(Setting(), tables.question)
    assert tables.find_recommendation(Setting()) is None
    assert tables.get_table(Setting()) is table
    assert table.found is None
    tables.add(Setting(), tables.question, found)
    assert tables.get_recommendation(Setting()) is found["all"]
    assert tables.get_table(Setting()).opening == found["all"]["setting"] != dict.fromkeys(AGENT_LIMITS)


def test_an_agent_without_labels_is_counted_as_it_is_alone() -> None:
    bare = runs_of(*[Told(("A B -", "A -"), agent="other")] * 3)
    both, alone = CapTables([*labelled(90), *bare], Question()), CapTables(bare, Question())
    table, own = both.get_table(Setting(agent="other")), alone.get_table(Setting())
    assert (table.noun, table.successes, table.base["proxy"]) == (own.noun, own.successes, True) == ("turn", 6, True)
    assert table.base["notes"] == own.base["notes"]
    found = both.get_recommendation(Setting(agent="other"))
    assert (found["action"], found["tasks"]) == (alone.get_recommendation(Setting())["action"], 3)
    assert not both.get_table(Setting(agent=both.first_agent)).base["proxy"]
    asked = CapTables([*labelled(90), *bare], Question(success="label"))
    assert asked.get_table(Setting(agent="other")).successes == 0
    assert asked.get_recommendation(Setting(agent="other"))["reason"] == "no_success"


def test_a_subagent_has_the_labels_of_its_root() -> None:
    lead, scout = runs_of(Told(("A B -",), success=True, agent="lead"), Told(("A -",), agent="scout"))
    (bare,) = runs_of(Told(("A -", "B -"), agent="bare"))
    runs = [lead, replace(scout, run_id="s", parent_run_id=lead.run_id), replace(bare, run_id="b")]
    proxy = {
        name: CapTables(runs, Question()).get_table(Setting(agent=name)).base["proxy"]
        for name in ("lead", "scout", "bare")
    }
    assert proxy == {"lead": False, "scout": False, "bare": True}


def stopped_unit(units: Ledger, is_stopped: Any) -> Any:
    """Whether any run of the unit is stopped, for each row."""
    return is_stopped if units.unit is None else pd.Series(is_stopped).groupby(units.unit).transform("any").to_numpy()


@given(st.sampled_from([st.booleans(), st.none() | st.booleans(), st.none()]).flatmap(families), st.data())
def test_caplab_counts_families_as_the_decision_does(runs: list[Run], data: st.DataObject) -> None:
    by = data.draw(st.sampled_from(["agent", "task", []]))
    decision = bl.recommend(runs, by=by, scope="turn")
    tables = CapTables(runs, Question(), decision=decision)
    names = tables._names(Setting(agent=tables.first_agent))
    for group in decision.groups:
        table = tables.get_table(Setting(agent=names[name_of(group.names)]))
        limits: dict[str, Any] = {name: data.draw(st.sampled_from(table.options[name])) for name in AGENT_LIMITS}
        on = {name: value for name, value in limits.items() if value is not None}
        shown = table.answer(Setting(**limits))
        sums = sums_of(group.units, on, group.question)
        assert shown["kept"] == {
            "lower": sums["kept_lower"], "upper": sums["kept_upper"], "of": group.choice.successes,
        }  # fmt: skip
        is_stopped, saved, used = stops_and_savings(group.units, on, group.question)
        assert shown["saved"][0]["saved"] * group.question.per_unit == pytest.approx(saved.sum())
        assert shown["saved"][0]["of"] * group.question.per_unit == pytest.approx(used.sum())
        stopped = stopped_by(group.units, is_stopped)
        counted = shown["families"] or shown["cut"]
        assert (counted["n"], counted["failed"], counted["succeeded"], counted["unknown"]) == stopped
        assert len({row["run"] for row in shown["rows"]}) == shown["cut"]["n"] or table.noun == "turn"
        is_lost, tasks = stopped_unit(group.units, is_stopped), clusters_of_ledger(group.units).factorize()[0]
        good, is_open = base_of(group.units), open_units(group.units)
        flags = (good & ~is_lost, good & is_lost, is_open & is_lost, is_open & ~is_lost)
        kept, lost, open_lost, open_kept = (np.bincount(tasks[flag], minlength=len(tasks)) for flag in flags)
        if (good | is_open).any() and on:
            bound = sure_bound(KnownOutcomes(kept, lost, open_lost, open_kept), group.question.error)
            if not is_open.any():
                bound = kept_bound(lost, kept + lost, group.question.error)
            assert shown["at_least"] == pytest.approx(float(bound), abs=1e-4)


@given(st.lists(LABELS, min_size=2, max_size=5).filter(lambda labels: labels.count(None) < 4), st.integers(1, 5))
@cases(4)
def test_kept_shares_are_those_of_all_outcomes_that_may_be(labels: list[bool | None], cap: int) -> None:
    told = [Told((" ".join("ABCDE"[: 1 + n]) + " -",), success=label) for n, label in enumerate(labels)]
    runs = runs_of(*told, Told(("A -",), success=True))
    shares = []
    for outcomes in product([True, False], repeat=labels.count(None)):
        values = iter(outcomes)
        complete = [replace(run, success=next(values) if run.success is None else run.success) for run in runs]
        row = bl.counterfactual(complete, grid={"max_steps": [cap]}, aggregate=True).iloc[0]
        if row["successes"]:
            shares += [row["kept_lower"] / row["successes"], row["kept_upper"] / row["successes"]]
    decision = bl.recommend(runs, grid={"max_steps": [cap]}, objective="steps", by=[])
    tables = CapTables(runs, Question(objective="steps"))
    tables.put_on_sliders({"max_steps": cap})
    table = tables.get_table(Setting())
    found = table._kept_shares(
        {**dict.fromkeys(AGENT_LIMITS), "max_steps": cap}, table.sums(Setting(max_steps=cap).limits)
    )
    assert (found is None) == (None not in labels)
    if found is None or not shares:
        return
    assert (found.low, found.high, found.unknown) == (min(shares), max(shares), labels.count(None))
    if decision.evidence["candidate"]:
        assert (decision.evidence["kept_share_lower"], decision.evidence["kept_share_upper"]) == found[:2]


def test_unknown_outcomes_are_shown_with_what_they_leave_open() -> None:
    told = [Told(("A B -",), success=True)] * 8 + [
        Told(("A B C D E -",), success=label) for label in (True, None, None)
    ]
    table = CapTables(runs_of(*told, Told(("A -",))), Question(objective="steps")).get_table(Setting())
    answer = table.answer(Setting(max_steps=4))
    assert (answer["cut"]["succeeded"], answer["cut"]["unknown"], answer["kept_shares"]) == (1, 2, "72.7 to 90%")
    texts = {number["key"]: number.get("open") for number in answer["numbers"]}
    assert texts["kept"] == "keeps 72.7 to 90%, whatever unknown ones are"
    assert texts["cut"] == "2 of unknown outcome"
    assert [row["success"] for row in answer["rows"]] == [True, None, None]


@pytest.mark.parametrize("n", [0, 2, 3, 5])
def test_savings_are_counted_in_what_recommend_counts_them_in(n: int) -> None:
    runs = runs_of(*(Told(("A B C -",), success=True, cost=1000 if place < n else None) for place in range(5)))
    table = CapTables(runs, Question()).get_table(Setting())
    assert table.measure == bl.recommend(runs).frame["objective"].iloc[0] == ("cost" if n > 2 else "steps")
    (said,) = [note for note in table.base["notes"] if "counted in steps" in note or "unknown cost" in note] or [""]
    assert (
        said
        == {
            0: "The source does not record cost: what is saved is counted in steps.",
            2: "Only 8 of 20 steps have a known cost: what is saved is counted in steps.",
            3: "2 runs of unknown cost left out of what is saved.",
            5: "",
        }[n]
    )


def test_answer_does_not_depend_on_the_setting_before() -> None:
    tables = CapTables(labelled(40), Question())
    for limits in ((4, None, None), (4, 5, None), (6, 5, None), (6, 5, 3), (6, None, 3), (4, None, None)):
        setting = Setting(*limits)
        fresh = CapTables(tables.runs, Question()).get_table(setting)
        assert tables.get_table(setting).answer(setting) == fresh.answer(setting)


@pytest.mark.parametrize("tasks", [45, 90])
@pytest.mark.parametrize("keep", [0.8, 0.9])
def test_bound_of_what_the_decision_is_about_is_at_least_keep(tasks: int, keep: float) -> None:
    runs = [replace(run, task=f"t{n % tasks}") for n, run in enumerate(labelled(90))]
    tables = CapTables(runs, Question(keep=keep))
    found = tables.get_recommendation(Setting())
    answer = tables.get_table(Setting()).answer(Setting(**found["candidate"]))
    assert answer["at_least"] >= keep
    cap = found["candidate"]["max_steps"]
    if cap is not None:
        assert (
            answer["curve"]["at_least"][tables.get_table(Setting()).options["max_steps"].index(cap)]
            == answer["at_least"]
        )
    off = tables.get_table(Setting()).answer(Setting())
    assert (off["at_least"], off["curve"]["at_least"][-1]) == (1, 1)


def test_where_nothing_is_recommended_it_opens_without_a_limit() -> None:
    tables = CapTables(labelled(20), Question())
    assert tables.get_recommendation(Setting())["setting"] is None
    assert tables.get_table(Setting()).opening == dict.fromkeys(AGENT_LIMITS)


def test_without_labels_the_proxy_is_named() -> None:
    table = CapTables(runs_of(Told(("A A -",)), Told(("A A",), cut=True)), Question()).get_table(Setting())
    assert table.base["proxy"]
    assert table.base["success"] == "runs that ended by themselves"
    assert any("proxy" in note for note in table.base["notes"])
    assert table.answer(Setting())["kept"] == {"lower": 1, "upper": 1, "of": 1}


@given(several(LABELS))
@cases(60)
def test_a_tighter_cap_never_saves_a_smaller_share(runs: list[Run]) -> None:
    table = CapTables(runs, Question()).get_table(Setting())
    shares = [share or 0 for share in table.answer(Setting())["curve"]["saved"]]
    assert shares == sorted(shares, reverse=True)


def test_assumption_about_later_turns_is_noted_if_there_are_any() -> None:
    table = CapTables(runs_of(Told(("A B C -",)), Told(("A A -",), success=True)), Question()).get_table(Setting())
    assert not any("later turns" in note for note in table.base["notes"])
    two = CapTables(runs_of(Told(("A B C -", "D D -"))), Question()).get_table(Setting())
    assert any("later turns stand as recorded" in note for note in two.base["notes"])


def test_without_runs_there_is_an_answer_too() -> None:
    table = CapTables([], Question()).get_table(Setting())
    assert table.answer(Setting())["kept"] == {"lower": 0, "upper": 0, "of": 0}
    assert table.answer(Setting())["saved"][0]["share"] is None
    assert table.base["units"] == 0


def test_missing_cost_is_noted_and_counted_in_steps() -> None:
    table = CapTables(runs_of(Told(("A A -",), cost=None)), Question()).get_table(Setting())
    assert table.measure == "steps"
    assert any("does not record cost" in note for note in table.base["notes"])


def test_a_store_is_read_like_the_runs_in_it(tmp_path: Path) -> None:
    runs = runs_of(Told(("A A -",), success=True), Told(("A B A -",), success=False))
    path = tmp_path / "runs.db"
    with bl.Store(path) as store:
        for run in runs:
            store.put(records_of(run))
    setting = Setting(max_steps=2)
    of_store, of_runs = (CapTables(some, Question()).get_table(setting).answer(setting) for some in (str(path), runs))
    assert of_store == of_runs


@pytest.mark.parametrize(
    "policy", [None, "boocode", "naive", policies["boocode"].vary(name="mine", cap={"max_steps": 7})]
)
@pytest.mark.parametrize("identity", ["canonical", {"poll": None, "*": "raw"}, {"poll": "raw"}])
@pytest.mark.parametrize("agent", ["all", "coder", 'it\'s "odd": #\n\x1b', "null", "1.0"])
def test_written_down_a_setting_is_read_back(policy: Any, identity: Any, agent: str, tmp_path: Path) -> None:
    for limits in ((18, None, 3), (None, 12, None), (None, None, None)):
        setting = Setting(limits[0], limits[1], limits[2], identity=identity, agent=agent)
        names: dict[str, Any] = {}
        exec(as_code(setting, policy), names)  # noqa: S102 - that it runs is what is tested
        assert names["agent"].settings == setting.limits
        assert RepeatStreak.of(policy_of(names["agent"]).detectors.identity) == RepeatStreak.of(identity)
        assert ("rule" in names) == any(limit is not None for limit in limits)
        path = tmp_path / "AGENTS.md"
        path.write_text(as_front_matter(setting, policy) + "\nDo it.\n", "utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (read,) = bl.load_agents(path).values()
        assert read.settings == setting.limits
        assert read.name == ("agent" if agent == "all" else agent)
        assert read.prompt == "Do it."
        if "which no agent file can express" not in as_front_matter(setting, policy):
            assert RepeatStreak.of(policy_of(read).detectors.identity) == RepeatStreak.of(identity)


def test_rule_as_code_stops_where_the_setting_does() -> None:
    runs = runs_of(Told(("A A A B B -",)), Told(("AB C D E F -",)), Told(("A B -",)))
    setting = Setting(max_steps=4, tool_budget=5, doom_loop=3, identity="ordered")
    names: dict[str, Any] = {}
    exec(as_code(setting), names)  # noqa: S102
    table = bl.counterfactual(runs, rules=names["rule"])
    rows = {
        row["run"]: (row["at"], row["reason"])
        for row in CapTables(runs, Question()).get_table(setting).answer(setting)["rows"]
    }
    stopped = table[table["outcome"] == "truncated"]
    assert rows == {row["run_id"]: (row["stop_step"], row["stop_reason"]) for _, row in stopped.iterrows()}
    assert len(rows) == 2


@given(st.sampled_from(AGENT_LIMITS), st.integers(0, 5000))
@cases(40)
def test_sliders_have_short_ranges_in_full_and_ends_of_long_ones(name: str, peak: int) -> None:
    values = values_of(name, peak)
    least = 2 if name == "doom_loop" else 1
    assert values.numbers == sorted({*values.numbers})
    assert (values.numbers[0], values.numbers[-1]) == (least, max(peak, least))
    assert len(values.numbers) <= 120
    assert values.complete == (values.numbers == list(range(least, values.numbers[-1] + 1)))


@given(st.integers(0, 200), st.integers(3, 12), st.data())
@cases(40)
def test_some_of_the_values_hold_the_ends_and_what_must_be_there(n: int, most: int, data: st.DataObject) -> None:
    values = [*range(1, n + 1), None]
    also = data.draw(st.lists(st.sampled_from(values), max_size=2))
    some = sample_values(values, most, also)
    assert some == [value for value in values if value in some]
    assert {*values[:1], *values[-2:], *also} <= {*some}
    assert len(some) <= most + len(also) + 1


def test_a_page_has_the_same_answers_as_a_notebook() -> None:
    runs = labelled(30)
    setting = Setting(max_steps=5, doom_loop=2)
    table: CapTable = CapTables(runs, Question()).get_table(setting)
    held = settings_in_page(table, setting, None, 5, all_columns=True)
    for column in held["columns"]:
        limits = {name: column[name] for name in ("tool_budget", "doom_loop")}
        for cap, answer in zip(column["caps"], column["answers"], strict=True):
            pattern, numbers = answer["how"]
            parts = held["patterns"][pattern].split("\0")
            how = json.loads("".join(chain(*zip_longest(parts, numbers, fillvalue=""))))
            there = setting._replace(max_steps=cap, **limits)
            assert {**answer, "how": how, "curve": column["curve"]} == table.answer(there, 5)


def test_page_holds_all_caps_for_shown_and_recommended_limits() -> None:
    setting = Setting(max_steps=5, doom_loop=2)
    table: CapTable = CapTables(labelled(30), Question()).get_table(setting)
    also = {"max_steps": 4, "tool_budget": 6, "doom_loop": None}
    for others in (True, False):
        held = settings_in_page(table, setting, also, 5, all_columns=others)
        caps = {(one["tool_budget"], one["doom_loop"]): one["caps"] for one in held["columns"]}
        for pair in ((None, None), (None, 2), (6, None)):
            assert caps[pair] == table.options["max_steps"]
        assert all({4, 5, None} <= {*one} for one in caps.values())
    assert held["values"] == {"tool_budget": [6, None], "doom_loop": [2, None]}


@pytest.mark.parametrize("policy", ["inspect_react", "gemini_cli"])
def test_a_policy_of_which_sums_cannot_tell_is_refused_by_name(policy: str) -> None:
    expected = "expected a policy that evaluates limits only after steps"
    with pytest.raises(SettingError, match=f"policy {policy}: .*{expected}"):
        Question(policy)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"keep": 1.5}, "keep"),
        ({"confidence": 0}, "confidence"),
        ({"objective": "time"}, "objective='time': expected one of cost"),
        ({"success": "yes"}, "success='yes': expected 'label'"),
    ],
)
def test_what_is_asked_is_checked(how: Any, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        Question(**how)


def test_labels_that_are_asked_for_must_be_there() -> None:
    with pytest.raises(SettingError, match="no run has a label"):
        CapTables(runs_of(Told(("A -",))), Question(success="label"))


def test_limit_not_on_its_slider_is_refused_with_nearest_values() -> None:
    table = CapTables(runs_of(Told(("A A A -",))), Question()).get_table(Setting())
    with pytest.raises(SettingError, match="max_steps=9 is not on its slider: expected such as 2, 3, or None"):
        table.sums({**Setting().limits, "max_steps": 9})
    with pytest.raises(SettingError, match="agent='who': no run is of this agent: 'all', 'coder'"):
        CapTables(runs_of(Told(("A -",))), Question()).get_table(Setting(agent="who"))


def test_savings_are_in_dollars_with_total_and_number_left_out() -> None:
    runs = runs_of(*(Told(("A A A -",), cost=250_000) for _ in range(3)), Told(("A A A -",), cost=None))
    table = CapTables(runs, Question()).get_table(Setting())
    row = bl.counterfactual(runs, grid={"max_steps": [2]}, aggregate=True).iloc[0]
    answer = table.answer(Setting(max_steps=2))
    cost, steps = answer["saved"]
    assert answer["numbers"][1]["below"].startswith(f"costs {money(row['cost_usd'])} where it is known")
    assert (cost["saved"], cost["of"]) == (row["saved_cost_usd"], row["saved_cost_usd"] + row["cost_usd"])
    assert (cost["saved"], cost["of"]) == (3 * 0.25 * (3 + 4), 3 * 0.25 * (1 + 2 + 3 + 4))
    assert cost["left_out"] == 1
    assert "1 run of unknown cost left out of what is saved." in table.base["notes"]
    assert (steps["saved"], steps["of"]) == (8, 16)


def test_the_cost_is_shown_beside_another_objective() -> None:
    runs = runs_of(*(Told(("A A A -",), cost=250_000) for _ in range(3)))
    table = CapTables(runs, Question(objective="steps")).get_table(Setting())
    row = bl.counterfactual(runs, grid={"max_steps": [2]}, aggregate=True).iloc[0]
    answer = table.answer(Setting(max_steps=2))
    assert [measure["measure"] for measure in answer["saved"]] == ["steps", "cost"]
    assert answer["numbers"][1]["below"].startswith(f"costs {money(row['cost_usd'])}")
    unknown = CapTables(runs_of(Told(("A A A -",), cost=None)), Question(objective="steps")).get_table(Setting())
    assert "costs" not in unknown.answer(Setting(max_steps=2))["numbers"][1]["below"]


@pytest.mark.parametrize("identity", ["canonical", {"*": "raw", "poll": None}, {"poll": "raw"}])
def test_front_matter_says_what_an_agent_file_cannot(identity: Any) -> None:
    by_tool = identity == {"poll": "raw"}
    text = as_front_matter(Setting(doom_loop=3, identity=identity, scope="run"))
    assert ("which no agent file can express" in text) == by_tool
    assert "# The numbers count limits through whole runs" in text
    assert "# Policy boocode ends a run at 200 steps too" in text
    plain = as_front_matter(Setting(max_steps=3, identity=identity))
    assert ("#" in plain) == by_tool


def test_written_setting_names_limits_that_a_policy_lacks() -> None:
    setting = Setting(max_steps=9, tool_budget=8, doom_loop=3)
    for name in ("boocode", "naive", "openhands_classic"):
        for text in (as_code(setting, name), as_front_matter(setting, name)):
            said = [line for line in text.splitlines() if "knows no" in line]
            assert len(said) == sum(axis not in policies[name].order for axis in AGENT_LIMITS)


def test_a_long_range_says_how_much_of_it_the_sliders_have() -> None:
    short, long = runs_of(Told(("A -",))), runs_of(Told(("AB " * 300 + "-",)))
    tables = [CapTables(runs, Question()).get_table(Setting()) for runs in (short, long)]
    assert not any("not every value" in note for note in tables[0].base["notes"])
    caps, calls = (len(tables[1].options[name]) - 1 for name in ("max_steps", "tool_budget"))
    assert 100 < caps < 300
    said = f": {caps} up to 300 (step cap), {calls} up to 600 (tool budget)."
    assert any(note.endswith(said) for note in tables[1].base["notes"])
