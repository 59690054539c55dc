"""Stop rules on detectors: live as offline, on all that reads recordings, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.detector_rules import reaches
from boolab.detectors import RepeatStreak
from boolab.errors import SettingError
from boolab.frames import boundaries_df
from boolab.ledger import ledger_of
from boolab.scopes import Detections, PerMessage, Rearmed
from boolab.stop import StopRule, max_steps
from boolab.types import Run
from tests.cases import cases
from tests.helpers import call, play

RULES: list[StopRule] = [
    bl.doom_loop(3, {"*": "ordered", "fail": None}),
    bl.error_streak(2),
    bl.text_mention("a"),
    bl.cycle(2, 2),
    bl.cycle(None, 3, "ordered"),
    bl.cycle_detections(2, 2),
    bl.round_streak(2),
    bl.step_repeats(2, 4),
    bl.tool_window(4, 5),
    bl.tool_window(2, 5, "fail"),
    bl.same_error(2),
    bl.finish_streak(2, "length"),
    bl.idle_streak(1),
    bl.repeating_actions(2),
    bl.failing_actions(2),
    bl.alternating_actions(4),
    bl.chanting(),
    reaches(PerMessage(RepeatStreak("ordered")), 2),
    reaches(Rearmed(RepeatStreak(), 2), 2),
]

ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.sampled_from(["", "so", "over and over again " * 40]),
            "finish_reason": st.sampled_from(["tool_calls", "length"]),
            "tool_calls": st.lists(
                st.builds(call, st.sampled_from(["look", "look", "fail"]), what=st.sampled_from("AAB")),
                min_size=1,
                max_size=3,
            ),
        }
    ),
    max_size=12,
)


@cases(25, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS)
def test_a_rule_stops_a_live_run_where_it_is_first_true_in_the_recording_of_one_without_it(items: Any) -> None:
    whole = play([*items, "done"], stop=max_steps(1000))
    for rule in RULES:
        table = boundaries_df(whole, rule)
        fired = [bool(rule(dict(zip(table.columns, row, strict=True)))) for row in table.itertuples(index=False)]
        live = play([*items, "done"], stop=rule)
        if True in fired:
            assert (live.stop_step, live.stop_reason) == (fired.index(True), rule.decisive({}).reason)
        else:
            assert live.stop_reason == "finished"
        ledger = ledger_of([whole], rule.detectors())
        (counter,) = {leaf.counter for leaf in rule.leaves()}
        assert ledger.counters[counter][ledger.boundary].tolist() == table[counter].tolist()[1:]


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    scripts = ("A", "AB", "AAB")
    stuck = [play([*({"tool_calls": [call("look", what=c)]} for c in s * 15), "done"]) for s in scripts]
    failing = play([*({"tool_calls": [call("fail", what="A")]} for _ in range(15)), "done"])
    return [*stuck, failing, play(["done"])]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_scorecards_and_counterfactuals_take_every_rule(rule: StopRule, runs: list[Run]) -> None:
    table = bl.counterfactual(runs, rules=[rule])
    expected = [alarm(rule, run) for run in runs]
    assert (table["outcome"] != "unchanged").tolist()[: len(runs)] == [
        fired or run.censored for fired, run in zip(expected, runs, strict=True)
    ]
    row = bl.scorecard(runs, [rule]).frame.iloc[0]
    assert row["alarms"] == sum(expected)


def alarm(rule: StopRule, run: Run) -> bool:
    return bool(rule(boundaries_df(run, rule)).fillna(value=False).any())


@pytest.mark.parametrize("rule", RULES[2:], ids=str)
def test_a_frame_that_holds_no_calls_cannot_tell_what_these_watch(rule: StopRule, runs: list[Run]) -> None:
    with pytest.raises(SettingError, match="cannot be had from a frame, which holds no calls: pass runs"):
        bl.counterfactual(bl.recording_df(runs), rules=[rule])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bl.cycle(0, 3), r"cycle: period\(0\): expected an integer >= 1"),
        (lambda: bl.cycle(2, 1), r"cycle\(1\): expected an integer >= 2"),
        (lambda: bl.cycle(2, 3, "same"), "identity 'same' is not known"),
        (lambda: bl.cycle(2, 3, {"*": None}), "exempts every tool"),
        (lambda: bl.cycle_detections(1, 1), "expected an integer >= 2"),
        (lambda: bl.round_streak(1), r"round_streak\(1\): expected an integer >= 2"),
        (lambda: bl.step_repeats(1), r"step_repeats\(1\): expected an integer >= 2"),
        (lambda: bl.step_repeats(6, 5), r"step_repeats: window of 6\(5\): expected an integer >= 6"),
        (lambda: bl.tool_window(1, 5), r"tool_window\(1\): expected an integer >= 2"),
        (lambda: bl.tool_window(6, 5), "expected an integer >= 6"),
        (lambda: bl.same_error(0), r"same_error\(0\): expected an integer >= 1"),
        (lambda: bl.same_error(1, "guess"), "on_unknown='guess' is not known"),  # type: ignore[arg-type]
        (lambda: bl.alternating_actions(2), r"alternating_actions\(2\): expected an integer >= 3"),
        (lambda: Rearmed(RepeatStreak(), 1), "expected an integer >= 2"),
        (lambda: Detections(RepeatStreak(), True), "expected an integer >= 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make()


def test_an_unknown_status_is_an_error_of_its_own_or_ignored() -> None:
    for rule in (bl.same_error, bl.failing_actions, bl.error_streak):
        name = rule(2).detectors()[0].name
        assert rule(2)({name: None}) is None
        assert rule(2, "ignore")({name: None}) is False
