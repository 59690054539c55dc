"""What longer runs suggest, beside a plain computation of the same."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import boolab as bl
from boolab.trials.change import change_of
from boolab.trials.hazards import HazardEstimate, hazards_of
from boolab.trials.openings import openings_of
from tests.support.cases import cases
from tests.support.helpers import distinct, play
from tests.support.trial_cases import LOOSE, agent, profile, recorded

MODEL = bl.SimulatedModel(profile())


def made(length: int, success: bool, cap: int | None, name: str) -> bl.Run:
    run = play(distinct(length), max_steps=cap)
    return replace(run, run_id=name, task=name, success=success)


def found(runs: list[bl.Run], cap: int | None, groups: list[str] | None = None) -> HazardEstimate:
    openings = openings_of(runs, change_of({"max_steps": cap}), {})
    return hazards_of(openings, {"max_steps": cap}, groups or [""] * len(runs), 0.95)


def by_hand(runs: list[bl.Run], cap: int) -> float | None:
    """Aalen and Johansen by counting, run by run and step by step."""
    gain, covered = 0.0, 0
    for run in runs:
        if run.stop.reason != "step_cap" or (run.limits["steps"] >= cap):
            continue
        later = [other for other in runs if other.n_steps > run.n_steps]
        if not later:
            continue
        alive, chance = 1.0, 0.0
        for step in range(run.n_steps + 1, cap + 1):
            at_risk = [other for other in later if other.n_steps >= step]
            over = [other for other in at_risk if other.n_steps == step and other.stop.reason == "finished"]
            if at_risk:
                chance += alive * sum(bool(other.success) for other in over) / len(at_risk)
                alive *= 1 - len(over) / len(at_risk)
        gain += chance - bool(run.success)
        covered += 1
    return gain if covered else None


some = st.tuples(st.integers(1, 12), st.booleans(), st.sampled_from([3, 5, 8, None]))


@cases(60)
@example([(3, False, 3), (3, True, 5), (5, False, 5), (5, True, 8), (5, True, 8), (5, True, 8)])  # rounds to above 1
@given(st.lists(some, min_size=2, max_size=14))
def test_hazards_gain_is_the_incidence_among_longer_runs(
    told: list[tuple[int, bool, int | None]],
) -> None:
    runs = [made(*one, f"run {place}") for place, one in enumerate(told)]
    expected, got = by_hand(runs, 10), found(runs, 10)
    if expected is None:
        assert got.gain is None
    else:
        assert got.gain == pytest.approx(expected)
        assert got.interval is not None
        assert got.gain is not None
        assert got.interval.low <= got.gain + 1e-9
        assert got.gain <= got.interval.high + 1e-9


def test_where_no_run_went_further_hazards_are_silent_and_say_so() -> None:
    runs = recorded(20, MODEL)
    got = found(runs, LOOSE)
    assert (got.gain, got.why) == (None, "No run on record used more steps than those that were stopped.")


def test_hazards_report_how_far_they_reach() -> None:
    middle = [replace(run, run_id=f"long {run.run_id}") for run in recorded(9, MODEL, who=agent(15))]
    runs = [*recorded(20, MODEL), *middle]
    assert found(runs, LOOSE).reach == max(run.n_steps for run in runs if run.n_steps <= 15)
    assert found(runs, 12).reach is None


def test_runs_of_another_group_are_not_taken_as_alike() -> None:
    short, long = recorded(20, MODEL), recorded(9, MODEL, who=agent(None))
    runs = [*short, *[replace(run, run_id=f"long {run.run_id}") for run in long]]
    assert found(runs, LOOSE).gain is not None
    groups = ["weak"] * len(short) + ["strong"] * len(long)
    assert found(runs, LOOSE, groups).gain is None


def test_runs_that_lack_a_label_or_a_cost_are_left_out_and_named() -> None:
    long = [replace(run, run_id=f"long {run.run_id}") for run in recorded(9, MODEL, who=agent(None))]
    runs = [*recorded(20, MODEL), *long]
    some = [replace(run, success=None) if place in (3, 7) else run for place, run in enumerate(runs)]
    got, expected = found(some, LOOSE), found([run for place, run in enumerate(runs) if place not in (3, 7)], LOOSE)
    assert got.left_out == "2 runs without a label (set Run.success)"
    assert got._replace(left_out="") == expected
    assert expected.gain is not None


def test_hazards_name_the_missing_costs() -> None:
    silent = bl.SimulatedModel(profile(tokens=None, price=None))
    runs = recorded(6, silent)
    got = hazards_of(openings_of(runs, change_of({"max_cost": 0.5}), {}), {"max_cost": 0.5}, [""] * 6, 0.95)
    assert got.gain is None
    assert got.why == (
        "No run on record can be used: 6 runs without a known cost of each request (bl.priced computes it for logs of "
        "Claude Code and Codex)."
    )


def test_two_limits_at_once_have_no_hazards() -> None:
    runs = recorded(9, MODEL)
    change = {"max_steps": LOOSE, "tool_budget": 9}
    got = hazards_of(openings_of(runs, change_of(change), {}), change, [""] * 9, 0.95)
    assert "one limit" in got.why


def test_hazards_are_biased_if_stopped_runs_differ() -> None:
    """The assumption is broken on purpose: hard tasks have a tight cap, and never succeed; branches show it."""
    hard = bl.SimulatedModel(profile(success={"finished": 0.0, "cut": 0.0}))
    runs = [
        *recorded(30, hard),
        *[replace(run, run_id=f"easy {run.run_id}") for run in recorded(30, MODEL, who=agent(None))],
    ]
    got = found(runs, LOOSE)
    assert got.gain is not None
    assert got.interval is not None
    assert got.interval.low > 0  # the truth is 0
