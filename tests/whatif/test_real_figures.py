"""Figures on real runs: two sets of the atlas."""

from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from tests.support.samples import atlas


@pytest.fixture(scope="module")
def verified() -> list[Run]:
    return atlas("swebench-verified")


@pytest.fixture(scope="module")
def airline() -> list[Run]:
    return atlas("tau-airline")


def test_the_facts_are_those_that_were_counted_by_others(verified: list[Run], airline: list[Run]) -> None:
    assert (len(verified), sum(r.n_steps for r in verified), sum(bool(r.success) for r in verified)) == (
        499,
        16707,
        168,
    )
    assert sum(run.stop_reason == "cost_budget" for run in verified) == 90
    assert sum(run.stop_reason == "cost_budget" and bool(run.success) for run in verified) == 10
    assert (len(airline), sum(r.n_steps for r in airline), sum(bool(r.success) for r in airline)) == (200, 2454, 84)


def test_cap_on_swebench_verified_keeps_cut_labelled_successes(verified: list[Run]) -> None:
    table = bl.counterfactual(verified, grid={"max_steps": [49, 67, 68]}, aggregate=True)
    assert table["successes"].tolist() == [168] * 3
    assert table["kept_lower"].tolist() == [149, 159, 160]
    share = table["saved_steps"] / (table["steps"] + table["saved_steps"])
    assert [round(100 * one, 1) for one in share] == [12.4, 2.4, 2.1]
    assert set(table["scope"]) == {"run"}


def test_recommend_and_counterfactual_count_the_same_successes(verified: list[Run]) -> None:
    """Runs that the harness submitted at its cost limit are labelled, and count as they are labelled."""
    decision = bl.recommend(verified, keep=0.9, grid={"max_steps": [65]})
    row = decision.frame.iloc[0]
    grid: dict[str, list[Any]] = {"max_steps": [65]}
    table = bl.counterfactual(verified, grid=grid, aggregate=True).iloc[0]
    assert row["successes"] == table["successes"] == 168
    assert (row["kept_lower"], row["saved"]) == (table["kept_lower"], table["saved_steps"])
    assert (decision.action, row["candidate"]) == ("leave", "a step cap of 65")
    assert (row["kept_lower"], round(100 * row["saved_share"], 1)) == (159, 3.2)


def test_benchmarks_count_through_the_run_and_auto_knows_it(airline: list[Run]) -> None:
    """In the scope of its harness a cap of 22 keeps all; counted anew at each message of the user one of 12 does."""
    for scope, cap, saved in (("auto", 22, 75), ("run", 22, 75), ("turn", 12, 23)):
        tables: Any = scope
        rows = bl.counterfactual(airline, grid={"max_steps": [cap - 1, cap]}, scope=tables, aggregate=True)
        assert rows["kept_lower"].tolist()[1] == 84, scope
        assert rows["saved_steps"].tolist()[1] == saved
    found = bl.recommend(airline, keep=0.9, grid={"max_steps": range(1, 31)}, dependence="same_tasks")
    assert found.frame["action"].tolist() == ["leave"]
