"""Caps that the loop lets grow: the live loop and the offline evaluation agree, and what a message hides is bounded."""

import asyncio
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.whatif.tables import sum_rows
from tests.support.cases import cases, first
from tests.support.helpers import QUIET, call, distinct, play, steps
from tests.whatif.test_evaluate import row_of
from tests.whatif.test_presets import asked, assert_as_live, live, scripts

MANY = cases(300, suppress_health_check=[HealthCheck.too_slow])
FREE = QUIET.vary(cap={"ceiling": None})
NEVER = bl.tool_budget(10**9)


def conditions() -> st.SearchStrategy[bl.StopRule | None]:
    unknown: Any = st.sampled_from(["error", "ignore"])
    rules: list[st.SearchStrategy[bl.StopRule]] = [
        st.builds(bl.doom_loop, st.integers(2, 3)),
        st.builds(bl.error_streak, st.integers(1, 2)),
        st.builds(bl.tool_budget, st.integers(1, 9)),
        st.builds(bl.max_tokens, st.integers(0, 200), on_unknown=unknown),
    ]
    one = st.one_of(rules)
    return st.none() | one | st.builds(lambda a, b: a | b, one, one) | st.builds(lambda a, b: a & b, one, one)


@st.composite
def growing(draw: st.DrawFn, *, message: bool = False) -> bl.Policy:
    """Policies whose cap the loop lets grow."""
    order = draw(st.permutations(["max_steps", "doom_loop", "tool_budget"]))
    return QUIET.vary(
        name="growing",
        order=tuple(order),
        cap={
            "max_steps": draw(st.integers(1, 6)),
            "ceiling": draw(st.sampled_from([None, 3, 8, 200])),
            "counts": draw(st.sampled_from(["steps", "steps", "actions"])),
            "zero": "plain",
        },
        continues={
            "by": "loop",
            "times": draw(st.sampled_from([1, 1, 2, None])),
            "adds": draw(st.sampled_from([None, 1, 2, 4])),
            "counters": "kept",
            "message": message,
            "unless": draw(conditions()),
        },
    )


@MANY
@given(st.data())
def test_cap_that_grows_silently_stops_replay_as_in_live_loop(data: Any) -> None:
    recording = play(data.draw(scripts()), policy=FREE, stop=NEVER)
    policy, grid = data.draw(asked(recording, data.draw(growing())))
    row = row_of(bl.counterfactual(recording, policy=policy, grid=grid, own_limits="lifted"))
    assert row["outcome"] in ("unchanged", "truncated", "censored", "unknown")
    assert_as_live(row, recording, live(recording, policy, grid))


@MANY
@given(st.data())
def test_a_message_where_a_cap_grows_ends_what_a_recording_shows(data: Any) -> None:
    recording = play(data.draw(scripts()), policy=FREE, stop=NEVER)
    policy, grid = data.draw(asked(recording, data.draw(growing(message=True))))
    row = row_of(bl.counterfactual(recording, policy=policy, grid=grid, own_limits="lifted"))
    again = live(recording, policy, grid)
    told = [event.payload["after_step"] for event in again.events if event.kind == "extension"]
    assert (row["outcome"] == "not_identified") == bool(told)
    if told:
        assert (row["stop_step"], row["steps"], row["kept_lower"]) == (told[0], told[0], 0)
        assert row["kept_upper"] == row["success"]
        assert row["saved_is"] == "at most"
    else:
        assert_as_live(row, recording, again)


@given(st.lists(st.sampled_from(["", "A", "A A", "A B C D", "A A A B C D E"]), min_size=1, max_size=4))
def test_the_sums_of_a_cap_that_grows_are_those_of_its_table(patterns: list[str]) -> None:
    runs = [play(steps(pattern), policy=FREE, stop=NEVER) for pattern in patterns]
    policy = bl.dynamic_turns(2, 2, unless=bl.doom_loop(2), reminder=False)
    table = bl.counterfactual(runs, policy=policy, grid={"max_steps": [1, 2, 4, None]})
    sums = bl.counterfactual(runs, policy=policy, grid={"max_steps": [1, 2, 4, None]}, aggregate=True)
    pd.testing.assert_frame_equal(sum_rows(table), sums)


def test_silent_unconditional_extension_equals_the_larger_cap() -> None:
    runs = [play(distinct(n), policy=FREE, stop=NEVER) for n in (1, 3, 5, 6, 9)]
    grown = bl.counterfactual(runs, policy=bl.dynamic_turns(3, 2, reminder=False))
    fixed = bl.counterfactual(runs, policy=bl.fixed_turns(5, reminder=False))
    pd.testing.assert_frame_equal(grown, fixed)


def test_each_turn_of_a_session_is_extended_by_itself() -> None:
    first = play(steps("A B C D E E F G", None), policy=QUIET, max_steps=4)
    session = asyncio.run(bl.resume(first, "And now?"))
    assert [step.turn for step in session.steps] == [1] * 4 + [2] * 4
    limits = bl.dynamic_turns(2, 1, unless=bl.doom_loop(2), reminder=False)
    row = row_of(bl.counterfactual(session, policy=limits))
    assert (row["stop_turn"], row["stop_step"]) == (1, 3)
    assert (row["steps"], row["saved_steps"]) == (3 + 2, 1 + 2)
    backwards = row_of(bl.counterfactual(session, policy=limits, scope="run"))
    assert (backwards["stop_step"], backwards["steps"]) == (3, 3)


def test_a_condition_is_evaluated_once_when_the_cap_is_reached() -> None:
    limits = bl.dynamic_turns(3, 3, unless=bl.doom_loop(2), reminder=False)
    table = bl.counterfactual([play(steps(p), policy=FREE, stop=NEVER) for p in ("A B B C D E F G", "A B C C C C C")],
                              policy=limits)  # fmt: skip
    assert table["stop_step"].tolist() == [3, 6]


def test_silent_extension_is_recorded_and_sends_no_message() -> None:
    run = play(distinct(9, None), policy=bl.dynamic_turns(2, 2, reminder=False))
    assert (run.stop_step, run.inputs, run.stop.rule) == (4, (), "max_steps(4)")
    assert [event.payload for event in run.events if event.kind == "extension"] == [
        {"after_step": 2, "what": "the cap grew by 2 more steps"}
    ]


def test_other_limit_at_a_growing_cap_is_the_stop_reason() -> None:
    run = play(
        steps("A A A A"), policy=QUIET.vary(continues={"times": 1, "by": "loop", "counters": "kept"}), max_steps=3
    )
    assert (run.stop_reason, run.stop.also_fired) == ("doom_loop", ())


def test_a_paused_run_has_its_extension_behind_it() -> None:
    items = [*distinct(2, None), {"tool_calls": [call("ask")]}, *distinct(9, None)]
    paused = play(items, policy=bl.dynamic_turns(2, 3, reminder=False))
    assert (paused.stop_reason, paused.n_steps) == ("paused", 3)
    assert asyncio.run(bl.resume(paused, "Blue.")).stop_step == 5


PROFILE = bl.models.Profile.of(
    {
        "tools": {"look": {"error_rate": 0.2}, "edit": {"error_rate": 0.3}},
        "finish": {"hazard": [{"from_step": 1, "probability": 0.02}, {"from_step": 4, "probability": 0.15}]},
        "loop": {"rate": 0.08, "again": 0.8},
        "after_error": {"retry": 1, "vary": 2},
        "success": {"finished": [{"from_step": 1, "probability": 0.9}, {"from_step": 9, "probability": 0.4}], "cut": 0},
        "tokens": {"prompt": 1000, "output": 100},
        "price": {"input": 3, "output": 15},
    }
)


@pytest.mark.parametrize("unless", first(2, [None, bl.doom_loop(2), bl.error_streak(1)]))
@pytest.mark.parametrize("message", [False, True])
def test_true_success_and_cost_lie_within_the_recorded_bounds(unless: bl.StopRule | None, message: bool) -> None:
    model = bl.SimulatedModel(PROFILE)
    policy = bl.dynamic_turns(5, 4, unless=unless, reminder=False).vary(continues={"message": message})

    def simulated(policy: bl.Policy, **options: Any) -> list[bl.Run]:
        return [bl.run_sync(None, f"Task {i}", model=model, seed=i, policy=policy, **options) for i in range(150)]

    recorded, truth = simulated(FREE, stop=bl.max_steps(500)), simulated(policy)
    table = bl.counterfactual(recorded, policy=policy)
    true = bl.runs_df(truth)
    won, won_before = true["success"].fillna(value=False), bl.runs_df(recorded)["success"].fillna(value=False)
    kept = (won & won_before).to_numpy(int)
    assert ((table["kept_lower"] <= kept) & (kept <= table["kept_upper"])).all()
    exact = table["saved_is"] == "exact"
    assert exact.all() == (not message)
    for column in ("steps", "tool_calls", "cost_usd"):
        spent = true[{"steps": "n_steps", "tool_calls": "n_tool_calls"}.get(column, column)]
        assert spent[exact].tolist() == pytest.approx(table.loc[exact, column].tolist())
        most = table[column] + table[f"saved_{column}"]
        assert ((table[column] <= spent + 1e-9) & (spent <= most + 1e-9)).all()
    assert (true["stop_reason"] == "step_cap").sum() > 20


def test_several_policies_are_one_table() -> None:
    runs = [play(distinct(n), policy=FREE, stop=NEVER) for n in (2, 4, 7)]
    limits = [bl.dynamic_turns(n, more, reminder=False) for n in (2, 3) for more in (1, 2)]
    table = bl.counterfactual(runs, policy=limits)
    assert table["policy"].tolist() == [limit.name for limit in limits for _ in runs]
    assert table.groupby("policy", sort=False)["steps"].sum().tolist() == [9, 11, 11, 13]
    sums = bl.counterfactual(runs, policy=limits, aggregate=True)
    assert sums.set_index("policy")["steps"].tolist() == [9, 11, 11, 13]
    for wrong, message in (
        ({"policy": []}, "at least one policy"),
        ({"policy": limits, "by": "policy"}, "by='policy'"),
        ({"policy": [limits[0], limits[0]]}, "two policies are called"),
        ({"policy": limits, "batches": True}, "one policy"),
    ):
        with pytest.raises(bl.SettingError, match=message):
            bl.counterfactual(runs, **wrong)


def test_recommend_accepts_a_growing_cap_without_a_condition() -> None:
    runs = [play(distinct(n), policy=FREE, stop=NEVER) for n in (2, 3, 4) * 30]
    runs += [play(distinct(40, None), policy=FREE, stop=bl.max_steps(40)) for _ in range(9)]
    found = bl.recommend(runs, policy=bl.dynamic_turns(2, 2, reminder=False), success="ended")
    assert found.setting["max_steps"] == 3, "which stops a run after 5 steps, and 4 is the longest success"
    with pytest.raises(bl.SettingError, match="a larger cap may stop a run earlier"):
        bl.recommend(runs, policy=bl.dynamic_turns(2, 2, reminder=False, unless=bl.doom_loop(2)), success="ended")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unless": 3}, "expected a stop rule"),
        ({"unless": bl.doom_loop(2)}, "needs by='loop'"),
        ({"message": False, "by": "ask"}, "needs by='loop'"),
        ({"message": False, "by": "loop", "counters": "fresh"}, "counters='kept'"),
    ],
)
def test_a_condition_or_a_silence_without_effect_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(bl.SettingError, match=message):
        QUIET.vary(continues={"times": 1, **fields})


def test_a_condition_is_one_more_axis_of_a_policy() -> None:
    limits = bl.dynamic_turns(2, 2, unless=bl.doom_loop(3), reminder=False)
    text = str(bl.compare_policies(limits, bl.dynamic_turns(2, 2)))
    assert "doom_loop(3" in text
    assert limits.unseen
    assert not bl.dynamic_turns(2, 2).unseen
