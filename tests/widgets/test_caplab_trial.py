"""A trial in CapLab: a looser cap is drawn, anything else is a sentence and a table, other runs are refused."""

import asyncio
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import boolab as bl
from boolab.errors import SettingError
from boolab.stats.intervals import Interval
from boolab.trials.hazards import HazardEstimate
from boolab.trials.result import TrialEstimate
from boolab.trials.trial import Trial
from tests.support import trial_cases
from tests.support.packed import unpacked

MODEL = bl.SimulatedModel(trial_cases.profile())


@cache
def runs() -> tuple[bl.Run, ...]:
    """Runs that a cap of 8 stopped, or that ended before."""
    return tuple(trial_cases.recorded(30, MODEL))


@cache
def plan() -> Trial:
    """A trial of a cap of 24, with some of its branches."""
    made = bl.trial(runs(), {"max_steps": trial_cases.LOOSE}, model=MODEL)
    asyncio.run(made.run(8, progress=False))
    return made


def shown(lab: bl.CapLab) -> Any:
    """What the browser has been sent."""
    return unpacked(lab._view._data)


def test_looser_cap_is_marked_as_share_of_recorded_successes() -> None:
    found = plan().result
    data = shown(bl.CapLab(runs(), trial=plan()))
    mark, of = data["trial"]["mark"], found.successes
    assert (mark["cap"], mark["label"]) == (24, f"trial: {found.n_branches} of {found.n_open} branches")
    assert found.gain.value is not None
    assert mark["branches"] == {
        "value": pytest.approx((of + found.gain.value) / of, abs=1e-4),
        "low": pytest.approx((of + found.gain.low) / of, abs=1e-4),
        "high": pytest.approx((of + found.gain.high) / of, abs=1e-4),
    }
    assert mark["branches"]["high"] > 1
    assert mark["bounds"]["high"] == pytest.approx((of + found.bounds.high) / of, abs=1e-4)
    assert data["trial"]["sentence"] == found.sentences[0]
    assert (data["base"]["end"], data["base"]["known_to"]) == (24, 8)


def test_what_is_beside_the_pointer_is_what_the_result_says() -> None:
    found = plan().result
    tips = dict(shown(bl.CapLab(runs(), trial=found))["trial"]["mark"]["tips"])
    assert tips["gain"].endswith(found.success)
    assert tips["an additional success costs"] == found.price
    assert found.price in found.sentences[1]
    assert tips["bounds, by the record alone"] == f"0 to {found.bounds.high:+.0f}"
    assert found.bounds.low == 0


def test_hazards_are_a_mark_of_their_own_where_there_are_any() -> None:
    assert shown(bl.CapLab(runs(), trial=plan()))["trial"]["mark"]["hazards"] is None
    some = replace(
        plan().result, hazards=HazardEstimate(3.0, Interval(1.0, 5.0), 10, 20, None, ""), other=Interval(0.0, 0.0)
    )
    mark = shown(bl.CapLab(runs(), trial=some))["trial"]["mark"]
    of = some.successes
    assert mark["hazards"] == {name: pytest.approx((of + n) / of, abs=1e-4) for name, n in
                               (("value", 3), ("low", 1), ("high", 5))}  # fmt: skip
    assert ["hazards of longer runs", "+3 (+1 to +5)"] in mark["tips"]


def test_before_the_first_branch_there_are_only_bounds() -> None:
    before = bl.trial(runs(), {"max_steps": 24}, model=MODEL)
    mark = shown(bl.CapLab(runs(), trial=before))["trial"]["mark"]
    assert (mark["branches"], mark["hazards"]) == (None, None)
    assert mark["bounds"]["high"] > 1
    assert "gain" not in dict(mark["tips"])


@pytest.mark.parametrize(
    "change", [{"max_steps": 5}, {"max_steps": 24, "tool_budget": 99}, {"max_steps": None}, "boocode"]
)
def test_another_change_is_a_sentence_and_a_table(change: Any) -> None:
    other = bl.trial(runs(), change, model=MODEL)
    data = shown(bl.CapLab(runs(), trial=other))
    assert data["trial"]["mark"] is None
    assert data["trial"]["sentence"] == other.result.sentences[0]
    assert [row[0] for row in data["trial"]["rows"]] == ["bounds", "hazards", "branches"]
    assert "known_to" not in data["base"]


def test_a_trial_of_other_runs_is_refused() -> None:
    others = [replace(run, run_id=f"other {n}") for n, run in enumerate(runs())]
    with pytest.raises(SettingError, match="a trial of other runs: 30 runs of it are not in this lab"):
        bl.CapLab(others, trial=plan())
    some = bl.trial(runs()[:10], {"max_steps": 24}, model=MODEL)
    with pytest.raises(SettingError, match="it has 10 of the 30 runs of this lab"):
        bl.CapLab(runs(), trial=some)
    with pytest.raises(SettingError, match=r"expected the plan that bl\.trial returns"):
        bl.CapLab(runs(), trial=TrialEstimate(1.0, 0.0, 2.0))  # type: ignore[arg-type]


def test_it_is_shown_with_the_agent_whose_runs_it_is_of() -> None:
    more = [replace(run, run_id=f"b {n}", agent="b") for n, run in enumerate(runs() * 2)]
    lab = bl.CapLab([*runs(), *more], trial=plan())
    assert lab.setting["agent"] == "a"
    assert shown(lab)["trial"]["mark"]["cap"] == 24
    lab.setting = {"agent": "b", "max_steps": None}
    assert shown(lab)["trial"] is None
    assert "known_to" not in shown(lab)["base"]


def test_a_lab_that_counts_other_successes_has_no_mark() -> None:
    data = shown(bl.CapLab(runs(), success="ended", trial=plan()))
    assert data["trial"]["mark"] is None
    assert data["trial"]["sentence"] == plan().result.sentences[0]


def test_where_no_script_runs_the_sentence_is_there() -> None:
    assert plan().result.sentences[0] in bl.CapLab(runs(), trial=plan())._text()
