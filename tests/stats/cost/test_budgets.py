"""`compare_units`: budgets in different units at the same share of stopped runs."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import MICRO, Step, Usage
from boolab.errors import SettingError
from tests.support.billed_runs import billed_run, billed_step, priced_usage
from tests.support.cases import cases
from tests.support.project import ROOT


def fresh(usage: Usage) -> int:
    return (usage.input_tokens or 0) - (usage.cached_tokens or 0) + (usage.output_tokens or 0)


AMOUNTS: dict[str, Callable[[Usage], int]] = {
    "cost": lambda u: u.cost or 0,
    "tokens": lambda u: (u.input_tokens or 0) + (u.output_tokens or 0),
    "steps": lambda _: 1,
    "weighted": lambda u: fresh(u) + 7 * (u.output_tokens or 0),
    "fresh": fresh,
}
PER_UNIT = {"cost": MICRO, "minutes": 60_000}


@st.composite
def sessions(draw: Any) -> list[Run]:
    """Runs of one to three turns, each of a few steps with calls and a text at its end."""
    made = []
    for number in range(draw(st.integers(4, 9))):
        steps: list[Step] = []
        for turn in range(1, draw(st.integers(1, 3)) + 1):
            n_steps = draw(st.integers(1, 6))
            for place in range(n_steps):
                context = draw(st.integers(1000, 50_000))
                usage = priced_usage(context, draw(st.integers(0, 900)), read=draw(st.integers(0, context)))
                calls = [("ls", "a")] if place < n_steps - 1 else []
                steps.append(billed_step(len(steps) + 1, usage, *calls, turn=turn))
        made.append(billed_run(*steps, run_id=str(number), task=str(number)))
    return made


def turns(runs: list[Run]) -> list[list[Step]]:
    """The turns of all runs."""
    return [[step for step in run.steps if step.turn == turn] for run in runs for turn in {s.turn for s in run.steps}]


def spent(turn: list[Step], amount: Callable[[Usage], int], limit: float) -> tuple[int, bool]:
    """What a turn costs under a limit that is evaluated after each step but the last, and whether that stops it."""
    used = cost = 0
    for step in turn:
        used, cost = used + amount(step.response.usage), cost + (step.response.usage.cost or 0)
        if used >= limit and step is not turn[-1]:
            return cost, True
    return cost, False


@cases(60)
@given(sessions(), st.sampled_from([0.1, 0.25, 0.5]))
def test_savings_are_those_of_an_independent_walk(runs: list[Run], stopped: float) -> None:
    frame = bl.compare_units(runs, stopped).set_index("budget")
    units = turns(runs)
    bill = sum(step.response.usage.cost or 0 for unit in units for step in unit)
    assert frame.attrs["bill_usd"] == bill / MICRO
    for name, amount in AMOUNTS.items():
        row: Any = frame.loc[name]
        assert row["n_units"] == len(units)
        if int(stopped * len(units)) == 0:
            assert row.drop(["n_units", "unit"]).isna().all()
            continue
        limit: float = round(row["limit"] * PER_UNIT.get(name, 1))
        ends = [spent(unit, amount, limit) for unit in units]
        assert sum(is_stopped for _, is_stopped in ends) == row["n_stopped"] <= stopped * len(units)
        assert sum(is_stopped for _, is_stopped in [spent(u, amount, limit - 1) for u in units]) > stopped * len(units)
        assert round(row["saved_usd"] * MICRO) == bill - sum(cost for cost, _ in ends)
        assert round(row["largest_bill_usd"] * MICRO) == max(cost for cost, _ in ends)
        assert row["saved_share_low"] <= row["saved_share"] <= row["saved_share_high"]


def test_the_counterfactual_of_each_limit_saves_the_same() -> None:
    runs = [billed_run(*steps_of(n), run_id=str(n), task=str(n)) for n in range(1, 9)]
    frame = bl.compare_units(runs, 0.25).set_index("budget")
    limits: dict[Any, Any] = frame["limit"].to_dict()
    rules = {
        "cost": bl.max_cost(limits["cost"]),
        "tokens": bl.max_tokens(int(limits["tokens"])),
        "steps": bl.max_steps(int(limits["steps"])),
        "fresh": bl.max_tokens(int(limits["fresh"]), of="fresh"),
        "weighted": bl.max_tokens(int(limits["weighted"]), of="weighted", weights={"input": 1, "output": 8}),
        "minutes": bl.max_time(limits["minutes"] * 60),
    }
    for name, rule in rules.items():
        table = bl.counterfactual(runs, rules=[rule])
        assert table["saved_cost_usd"].sum() == pytest.approx(frame.loc[name, "saved_usd"])
        assert (table["outcome"] == "truncated").sum() == frame.loc[name, "n_stopped"] == 2


def steps_of(n: int) -> list[Step]:
    usages = [priced_usage(1000 * place, 10 * place, read=1000 * (place - 1)) for place in range(1, n + 1)]
    return [billed_step(place, usage, *[("ls", "a")] * (place < n)) for place, usage in enumerate(usages, 1)]


def test_context_is_the_latest_request_and_its_response() -> None:
    sizes = [(3000, 4000, 9000), (3000, 4000, 9000), (3000, 8000, 9000)]
    runs = [
        billed_run(
            *(billed_step(i, priced_usage(size, 10), *[("ls", "a")] * (i < 3)) for i, size in enumerate(of_run, 1)),
            run_id=str(number),
        )
        for number, of_run in enumerate(sizes)
    ]
    row = bl.compare_units(runs, 0.4).set_index("budget").loc["context"]
    assert (row["limit"], row["n_stopped"]) == (4011, 1)


def test_units_that_are_not_known_have_no_limit() -> None:
    unknown = [billed_step(i, Usage(cost=100), *[("ls", "a")] * (i < 3), start_ms=None) for i in (1, 2, 3)]
    frame = bl.compare_units([billed_run(*unknown, run_id=str(n)) for n in range(4)], 0.5).set_index("budget")
    assert frame["limit"].isna().to_dict() == {
        **dict.fromkeys(["cost", "steps"], False),
        **dict.fromkeys(["tokens", "fresh", "weighted", "context", "minutes"], True),
    }


def test_units_without_a_cost_are_left_out_and_counted() -> None:
    free = billed_run(billed_step(1, Usage(10, 5)), run_id="free")
    frame = bl.compare_units([free, *(billed_run(*steps_of(3), run_id=str(n)) for n in range(4))], 0.25)
    assert frame["n_units"].tolist() == [4] * 7
    assert frame.attrs["notes"] == ("1 run without a known cost is left out.",)


@pytest.mark.parametrize("stopped", [0, 1, -0.1, 1.5])
def test_the_share_of_stopped_runs_is_between_0_and_1(stopped: float) -> None:
    with pytest.raises(SettingError, match="expected a share between 0 and 1"):
        bl.compare_units([], stopped)


@pytest.mark.slow
def test_the_figures_of_the_pages_are_those_of_the_sessions() -> None:
    runs = bl.load_dataset("atlas/coding-sessions", progress=False)
    frame = bl.compare_units(runs).set_index("budget")
    page = " ".join((ROOT / "docs/howto/where_the_money_goes.md").read_text(encoding="utf-8").split())
    names = {"cost": "in dollars", "minutes": "in minutes", "context": "by the context", "steps": "in steps"}
    for budget, row in frame.iterrows():
        name = names.get(str(budget), f"in {budget}" if budget == "tokens" else f"in {budget} tokens")
        assert f"{row['saved_share']:.0%} {name} (" in page
        assert f"${row['largest_bill_usd']:,.2f})" in page
    assert f"the {frame['n_units'].max()} turns of {len(runs)} long public sessions" in page
    assert f"cost ${frame.attrs['bill_usd']:,.2f} (" in page
    low, high = frame.loc["cost", ["saved_share_low", "saved_share_high"]]
    assert f"{low:.0%} to {high:.0%} for dollars" in page
    codex = [run for run in runs if run.source == "codex"]
    short, long = bl.deadline_margins(codex, shares=[0.01], margins=[15]).to_dict("records")
    budgets = " ".join((ROOT / "docs/howto/set_a_budget.md").read_text(encoding="utf-8").split())
    assert f"On {len(codex)} public sessions of Codex" in budgets
    assert (
        f"too short at {short['late_share']:.0%} of the moments, and 1% takes {long['margin_s']:.0f} seconds" in budgets
    )
