"""Rules in shadow: what they would have stopped, live and offline, and that they change nothing."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given

import boolab as bl
from boolab.core.run import Run
from boolab.frames.tables import steps_df
from tests.limits.test_catalog import ITEMS, RULES
from tests.support.cases import cases
from tests.support.helpers import call, play

SOME = cases(100, suppress_health_check=list(HealthCheck))
FREE = bl.max_steps(1000)


def bare(run: Run) -> Run:
    """A run without what rules in shadow leave in it."""
    steps = tuple(step._replace(shadow_stops=()) for step in run.steps)
    events = tuple(event for event in run.events if event.kind != "shadow")
    return replace(run, run_id="", steps=steps, events=events, continuation=None)


@SOME
@given(ITEMS)
def test_rules_in_shadow_change_nothing(items: Any) -> None:
    watched, plain = (play([*items, "done"], stop=FREE, shadow=rules) for rules in (RULES, []))
    assert bare(watched) == bare(plain)
    assert not any(step.shadow_stops for step in plain.steps)


@SOME
@given(ITEMS)
def test_scorecard_alarm_is_where_a_shadow_rule_is_first_true(items: Any) -> None:
    called = [{"tool_calls": [call("fail"), call("look")]}]  # what the rules name has to be on record
    run = replace(play([*called, *items, "done"], stop=FREE, shadow=RULES), success=False)
    first = {event.payload["rule"]: event.payload["after_step"] for event in run.events if event.kind == "shadow"}
    table = bl.scorecard([run], RULES).frame.set_index("rule")
    for rule in RULES:
        row = table.loc[str(rule)]
        at = first.get(str(rule))
        at = None if at == run.n_steps else at  # where the record broke off, a rule changes nothing
        assert (row["n_unknown"], row["alarms"]) == (0, int(at is not None)), rule
        assert row["saved_steps"] == (0 if at is None else run.n_steps - at), rule
        marked = [step.index for step in run.steps if str(rule) in step.shadow_stops]
        assert marked[:1] == ([] if at is None else [at + 1])


def test_would_stop_names_rules_one_by_one() -> None:
    rules = [bl.doom_loop(2, "ordered"), bl.max_steps(1)]
    run = play([{"tool_calls": [{"name": "look"}], "repeat": 2}, "done"], stop=FREE, shadow=rules)
    assert steps_df(run)["shadow_stops"].tolist() == ["", "max_steps(1)", "doom_loop(2 ordered),max_steps(1)"]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_no_name_of_a_rule_is_taken_for_two(rule: Any) -> None:
    run = play([{"tool_calls": [{"name": "look"}]}, "done"], stop=FREE)
    marked = replace(run, steps=tuple(step._replace(shadow_stops=(str(rule), "b")) for step in run.steps))
    assert steps_df(marked)["shadow_stops"][0].count(",") == 1
