"""`tails_df`: the tails of cost, steps and minutes under each setting."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Usage
from boolab.errors import SettingError
from tests.support.billed_runs import billed_run, billed_step


def run_of(steps: int, name: str, *, source: str = "swe_agent", turns: int = 1) -> Run:
    """A run of steps of a cent and a minute each, in turns of equal length."""
    listed = [
        billed_step(
            index, Usage(100, 10, 0, cost=10_000), ("read", "x"), start_ms=(index - 1) * 60_000, duration_ms=60_000,
            turn=1 + (index - 1) * turns // steps,
        )
        for index in range(1, steps + 1)
    ]  # fmt: skip
    return billed_run(*listed, run_id=name, task=name, source=source)


RUNS = [run_of(steps, f"r{steps}") for steps in range(1, 101)]


def rows_of(frame: pd.DataFrame, measure: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame[frame["measure"] == measure].to_dict("records")  # type: ignore[assignment]
    return rows


def test_stopped_runs_count_what_they_had_spent() -> None:
    tails = bl.tails_df(RUNS, grid={"max_steps": [10, None]})
    for measure, unit in (("cost_usd", 0.01), ("steps", 1), ("minutes", 1)):
        capped, free = rows_of(tails, measure)
        assert (capped["max"], free["max"]) == pytest.approx((10 * unit, 100 * unit))
        assert (free["p50"], free["p95"]) == pytest.approx((50 * unit, 95 * unit))
        assert (capped["p50"], capped["p95"]) == pytest.approx((10 * unit, 10 * unit))
        assert free["shortfall"] == pytest.approx(98 * unit)
        assert (free["n_units"], free["n_unknown"], free["tasks"], free["unit"]) == (100, 0, 100, "run")
        assert (free["p95_low"], free["p95_high"]) == pytest.approx((90 * unit, 100 * unit))


def test_the_record_as_it_is_needs_no_setting() -> None:
    tails = bl.tails_df(RUNS)
    assert "max_steps" not in tails
    free = bl.tails_df(RUNS, grid={"max_steps": [None]}).drop(columns="max_steps")
    pd.testing.assert_frame_equal(tails, free)


def test_rules_and_groups_have_rows_of_their_own() -> None:
    runs = [replace(run, agent=f"a{n % 2}") for n, run in enumerate(RUNS)]
    tails = bl.tails_df(runs, rules=[bl.max_steps(5), bl.max_cost(0.2)], by="agent")
    assert tails[tails["measure"] == "steps"][["agent", "rule", "max"]].values.tolist() == [
        ["a0", "max_steps(5)", 5],
        ["a1", "max_steps(5)", 5],
        ["a0", "max_cost(0.2)", 20],
        ["a1", "max_cost(0.2)", 20],
    ]


def test_turns_are_counted_where_limits_count_turns() -> None:
    sessions = [run_of(20, f"s{n}", source="claude_code", turns=4) for n in range(10)]
    (row,) = rows_of(bl.tails_df(sessions, grid={"max_steps": [3]}), "minutes")
    assert (row["unit"], row["n_units"], row["tasks"], row["max"]) == ("turn", 40, 10, 3)
    (row,) = rows_of(bl.tails_df(sessions, scope="run"), "steps")
    assert (row["unit"], row["n_units"], row["max"]) == ("run", 10, 20)


def test_too_few_tasks_have_no_upper_end() -> None:
    (row,) = rows_of(bl.tails_df(RUNS[:40]), "cost_usd")
    assert (pd.isna(row["p95_high"]), row["more_needed"]) == (True, 32)
    assert not pd.isna(row["p50_high"])
    (row,) = rows_of(bl.tails_df(RUNS[:72]), "cost_usd")
    assert (pd.isna(row["p95_high"]), row["more_needed"]) == (False, 0)


def test_the_mean_of_the_dearest_needs_a_bound() -> None:
    (row,) = rows_of(bl.tails_df(RUNS), "cost_usd")
    assert pd.isna(row["shortfall_low"])
    assert pd.isna(row["shortfall_high"])
    (row,) = rows_of(bl.tails_df(RUNS, grid={"max_steps": [50]}, bounds={"cost_usd": 0.50}), "cost_usd")
    assert 0.45 < row["shortfall_low"] <= row["shortfall"] <= row["shortfall_high"] <= 0.50 + 1e-9
    with pytest.raises(SettingError, match=r"more than the bound of 0\.5"):
        bl.tails_df(RUNS, bounds={"cost_usd": 0.50})
    with pytest.raises(SettingError, match="accepted are cost_usd, steps or minutes"):
        bl.tails_df(RUNS, bounds={"cost": 0.50})


def test_unknown_amounts_are_left_out_and_counted() -> None:
    lacking = [
        replace(run, run_id=f"u{n}", steps=tuple(step._replace(start_ms=None) for step in run.steps))
        for n, run in enumerate(RUNS[:5])
    ]
    (row,) = rows_of(bl.tails_df([*RUNS, *lacking]), "minutes")
    assert (row["n_units"], row["n_unknown"], row["max"]) == (105, 5, 100)
    (row,) = rows_of(bl.tails_df(lacking), "minutes")
    assert (pd.isna(row["max"]), row["tasks"], row["more_needed"]) == (True, 0, 72)
