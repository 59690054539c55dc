"""Recommendations under a harness's policy: its limits, where it evaluates them, beside its own."""

import json
import re
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.stats.recommend.decision import Decision
from boolab.stats.recommend.question import axes_of
from tests.support.cases import first
from tests.support.project import ROOT

LOGS = ROOT / "datasets" / "runs"
ANSWERED = [
    "boocode",
    "claude_code",
    "openhands_classic",
    "langgraph_react",
    "langchain_agent",
    "pydantic_ai",
    "autogpt",
    "naive",
]


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return bl.load_runs(LOGS)


def candidate_of(found: Decision) -> dict[str, Any]:
    """The value of each limit of the setting that the evidence is about; None is off."""
    group = found.groups[0]
    return dict.fromkeys(group.question.order) | (group.candidate.setting if group.candidate else {})


@pytest.mark.parametrize("name", first(3, ANSWERED))
def test_evidence_under_a_policy_equals_the_table_under_it(name: str, runs: list[Run]) -> None:
    found = bl.recommend(runs, keep=0.9, policy=name)
    grid = {axis: [value] for axis, value in candidate_of(found).items()}
    table = bl.counterfactual(runs, grid=grid, policy=name, aggregate=True).iloc[0]
    row = found.frame.iloc[0]
    assert (row["kept_lower"], row["kept_upper"]) == (table["kept_lower"], table["kept_upper"])
    assert row["saved"] == pytest.approx(table["saved_cost_usd"])
    assert set(found.setting) == {
        axis for axis in bl.policies[name].order if axis in ("max_steps", "tool_budget", "doom_loop")
    }
    assert row["kept_lower"] >= 0.9 * row["successes"] or row["action"] == "not_yet"


def test_a_decision_is_in_the_units_of_the_policy(runs: list[Run]) -> None:
    """LangGraph counts two supersteps for a round of tools, so its limit is twice as large."""
    rounds = candidate_of(bl.recommend(runs, keep=0.9, policy="naive"))["max_steps"]
    supersteps = bl.recommend(runs, keep=0.9, policy="langgraph_react")
    assert candidate_of(supersteps)["max_steps"] == 2 * rounds
    assert any("a step cap of 20 is max_supersteps(20)" in note for note in supersteps.notes)


def test_recommend_under_boundary_policy_equals_without_policy(runs: list[Run]) -> None:
    under, without = (
        bl.recommend(runs, keep=0.9, grid={"max_steps": range(1, 80)}, **how)  # type: ignore[arg-type]
        for how in ({"policy": "boocode"}, {"identity": "ordered"})
    )
    assert candidate_of(under) == candidate_of(without)
    assert (under.action, under.groups[0].null) == (without.action, without.groups[0].null)


@pytest.mark.parametrize("name", ["openhands", "opencode_v2", "opencode_3631", "cline", "crush"])
def test_what_recordings_do_not_tell_is_refused_by_name(name: str, runs: list[Run]) -> None:
    with pytest.raises(SettingError, match=f"policy {name}: "):
        bl.recommend(runs, policy=name)


def test_limit_that_the_policy_lacks_is_refused_by_name(runs: list[Run]) -> None:
    with pytest.raises(
        SettingError, match="policy claude_code: it has no limit such as 'doom_loop'; its limits: max_steps"
    ):
        bl.recommend(runs, policy="claude_code", grid={"doom_loop": [3, 5]})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude_code", "langgraph_react"])
def test_whatif_says_what_recommend_decides_under_a_policy(
    name: str, runs: list[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", str(LOGS), "--keep", "0.9", "--policy", name]) == 0
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert bl.recommend(runs, keep=0.9, policy=name).verdict[0] in shown


def test_whatif_shows_its_table_without_advice_for_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", str(LOGS), "--policy", "openhands", "--max-steps", "20,none", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommendation"]["groups"] == []
    assert found["recommendation"]["sentences"][0].startswith("No recommendation. policy openhands: ")
    assert [row["max_steps"] for row in found["axes"]["max_steps"]] == [20, None]


def test_axes_of_a_policy_are_in_the_order_of_setting() -> None:
    assert axes_of(bl.policies["boocode"]) == ("max_steps", "doom_loop", "tool_budget")
    assert axes_of(bl.policies["claude_code"]) == ("max_steps",)
