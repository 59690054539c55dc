"""What a recording knows of a change, and where a branch begins."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import boolab as bl
from boolab.errors import SettingError
from boolab.trials.change import agent_on_record, change_of
from boolab.trials.openings import Opening, harness_of, openings_of, steps_before_cap
from tests.support.caplab_cases import Told
from tests.support.cases import first
from tests.support.trial_cases import LOOSE, TIGHT, agent, profile, recorded, undisturbed

CODER = bl.SimulatedModel.load("coder")
CAPPED = [name for name, policy in bl.policies.items() if "max_steps" in policy.order]
MODEL = bl.SimulatedModel(profile())


def opened(runs: list[bl.Run], change: Any, agents: dict[str, bl.Agent] | None = None) -> list[Opening]:
    return openings_of(runs, change_of(change), agents or {})


def continued(one: Opening, change: Any, who: bl.Agent, model: Any) -> bl.Run:
    """The run under the change, as a trial makes it."""
    tried = change_of(change)
    if one.outcome != "open":
        return one.run
    work = bl.branch(one.run, one.n_kept, model=model, agent=tried.agent(who), stop=tried.rule, seed=one.run.seed)
    return asyncio.run(work)


def content(run: bl.Run) -> Any:
    return [(step.response, step.results) for step in run.steps], run.stop.reason, run.success


@pytest.mark.parametrize("seeds", first(1, [range(2), range(2, 12)]), ids=str)
@pytest.mark.parametrize("name", CAPPED)
def test_branch_equals_the_run_under_a_looser_cap(name: str, seeds: range) -> None:
    who = bl.Agent("a", policy=name, max_steps=5)
    for seed in seeds:
        run = bl.run_sync(who, "t", model=CODER, seed=seed)
        (one,) = opened([run], {"max_steps": 9}, {"a": who})
        whole = bl.run_sync(replace(who, max_steps=9), "t", model=CODER, seed=seed)
        assert content(continued(one, {"max_steps": 9}, who, CODER)) == content(whole)


@pytest.mark.parametrize(
    ("change", "limits"),
    [
        ({"max_steps": LOOSE}, {"max_steps": TIGHT}),
        ({"max_steps": None}, {"max_steps": TIGHT, "tool_budget": 15}),
        ({"tool_budget": 20}, {"max_steps": None, "tool_budget": 6}),
        ({"doom_loop": 6}, {"max_steps": 40, "doom_loop": 2}),
        ({"max_steps": 20, "tool_budget": 9}, {"max_steps": TIGHT, "tool_budget": 12}),
        ({"max_steps": 3}, {"max_steps": TIGHT}),
        ({"max_cost": 0.1}, {"max_steps": 30}),
    ],
)
def test_branch_equals_the_run_under_any_setting(change: dict[str, Any], limits: dict[str, Any]) -> None:
    model = bl.SimulatedModel(profile(loop={"rate": 0.1, "again": 0.8}))
    who = replace(agent(), **limits)
    runs = recorded(25, model, who=who)
    whole = undisturbed(runs, model, change_of(change).agent(who))
    for one, run in zip(opened(runs, change, {"a": who}), whole, strict=True):
        if one.outcome == "truncated":
            assert run.n_steps == one.n_kept
            assert one.low <= int(bool(run.success)) - int(bool(one.success)) <= max(one.high, 0)
        else:
            assert content(continued(one, change, who, model)) == content(run)


@pytest.mark.parametrize("name", CAPPED)
def test_opening_is_unchanged_under_the_same_cap(name: str) -> None:
    who = bl.Agent("a", policy=name, max_steps=5)
    runs = [bl.run_sync(who, "t", model=CODER, seed=seed) for seed in range(2)]
    for one in opened(runs, {"max_steps": 5}, {"a": who}):
        assert (one.outcome, one.low, one.high) == ("unchanged", 0, 0)


def test_settings_that_are_those_on_record_change_nothing() -> None:
    runs = recorded(20, MODEL, who=agent(tool_budget=9))
    for change in ({"max_steps": TIGHT}, {"tool_budget": 9}, {"max_steps": TIGHT, "tool_budget": 9}):
        assert {one.outcome for one in opened(runs, change)} == {"unchanged"}
    assert {one.outcome for one in opened(runs, {"max_steps": TIGHT, "tool_budget": 5})} > {"truncated"}


def test_opening_prefers_the_record_to_the_agent() -> None:
    """The caller passed the agent of the change in place of that of the runs."""
    runs = recorded(20, MODEL)
    assert {one.outcome for one in opened(runs, {"max_steps": LOOSE}, {"a": agent(LOOSE)})} == {"open", "unchanged"}
    assert {one.outcome for one in opened(runs, {"tool_budget": 3}, {"a": agent(tool_budget=3)})} > {"truncated"}


def test_opening_under_a_tighter_soft_cap_is_not_truncated() -> None:
    """The same with the agent and by the record alone, which has the ceiling and not the cap."""
    who, tighter = (bl.Agent("a", policy="opencode_v1", max_steps=cap) for cap in (9, 5))
    for seed in range(6):
        run = bl.run_sync(who, "t", model=CODER, seed=seed)
        whole = bl.run_sync(tighter, "t", model=CODER, seed=seed)
        for agents in ({"a": who}, {}):
            (one,) = opened([run], {"max_steps": 5}, agents)
            assert (one.outcome, one.n_kept) == ("open", 4)
            assert content(continued(one, {"max_steps": 5}, who, CODER)) == content(whole)


def test_a_rule_replaces_all_limits() -> None:
    runs = recorded(20, MODEL)
    found = opened(runs, bl.max_steps(LOOSE))
    stopped = {run.run_id for run in runs if run.stop.reason == "step_cap"}
    assert {one.run.run_id for one in found if one.outcome == "open"} == stopped
    for one in found:
        whole = bl.run_sync(agent(), one.run.task, model=MODEL, seed=one.run.seed, stop=bl.max_steps(LOOSE))
        got = continued(one, bl.max_steps(LOOSE), agent(), MODEL)
        assert [step.response for step in got.steps] == [step.response for step in whole.steps]


def test_a_policy_is_a_change_too() -> None:
    runs = recorded(12, MODEL)
    found = opened(runs, bl.fixed_turns(LOOSE))
    assert {one.outcome for one in found} == {"open"}  # each request tells the model how many turns are left
    assert {one.n_kept for one in found} == {0}
    plain = opened(runs, "naive")
    assert [one.outcome for one in plain] == ["open" if run.stop.reason == "step_cap" else "unchanged" for run in runs]


def test_opening_is_unchanged_if_another_limit_holds() -> None:
    both = recorded(20, MODEL, who=agent(tool_budget=TIGHT))
    stopped = [run for run in both if run.stop.also_fired]
    assert stopped
    assert {one.outcome for one in opened(stopped, {"max_steps": LOOSE})} == {"unchanged"}


def test_runs_that_failed_for_another_reason_stay_as_they_are() -> None:
    broken = bl.run_sync(agent(), "t", model=bl.ScriptedModel([{"error": {"status": 400}}]))
    (one,) = opened([broken], {"max_steps": LOOSE})
    assert (one.outcome, one.low, one.high) == ("unchanged", 0, 0)


def test_opening_is_unknown_without_the_counter() -> None:
    silent = bl.SimulatedModel(profile(tokens=None, price=None))
    runs = recorded(6, silent)
    found = opened(runs, bl.max_tokens(500))
    assert {one.outcome for one in found} == {"unknown"}
    assert {one.outcome for one in opened(runs, {"max_tokens": 500})} == {
        "unchanged"
    }  # policies ignore what is unknown
    assert all((one.low, one.high) == (-int(bool(one.success)), int(not one.success)) for one in found)


def test_the_gain_is_bounded_by_what_a_run_was_on_record() -> None:
    found = opened(recorded(40, MODEL), {"max_steps": LOOSE})
    for one in found:
        expected = (-1, 0) if one.success else (0, 1)
        assert (one.low, one.high) == (expected if one.outcome == "open" else (0, 0))


def test_without_labels_a_success_is_a_run_that_ended_by_itself() -> None:
    runs = [replace(run, success=None) for run in recorded(20, MODEL)]
    for one in opened(runs, {"max_steps": LOOSE}):
        assert one.success == (one.run.stop.reason == "finished")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_step": 9}, "did you mean 'max_steps'"),
        ({"max_steps": 0}, "an integer >= 1"),
        ({"max_steps": 2.5}, "an integer >= 1"),
        ({"doom_loop": 1}, "an integer >= 2"),
        ({"max_cost": -1}, "a number above 0"),
        ({"max_cost": True}, "a number above 0"),
        ({}, "expected settings such as"),
        (7, "expected settings such as"),
        ("boocde", "boocode"),
    ],
)
def test_a_change_that_is_none_is_refused_with_what_is_accepted(change: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        change_of(change)


def test_an_agent_whose_policy_lacks_the_limit_is_named() -> None:
    with pytest.raises(SettingError, match="the policy naive of agent 'a' has no tool budget"):
        change_of({"tool_budget": 5}).agent(bl.Agent("a", policy="naive"))


@pytest.mark.parametrize(
    ("policy", "informs"),
    [
        (bl.dynamic_turns(TIGHT, 10, reminder=False), False),
        (bl.dynamic_turns(TIGHT, 10, unless=bl.doom_loop(3), reminder=False), False),
        (bl.dynamic_turns(5, 10), True),
        (bl.dynamic_turns(5, 3, unless=bl.doom_loop(2)), True),
    ],
    ids=str,
)
def test_opening_with_a_reminder_is_open_from_the_start(policy: bl.Policy, informs: bool) -> None:
    """Each branch is the run that the policy would have made from the start."""
    plain = bl.Agent("a", policy="naive", max_steps=TIGHT)
    loop, hurried = {"rate": 0.1, "again": 0.8}, [{"turns_left": 3, "factor": 3.0}]
    model = bl.SimulatedModel(profile(loop=loop, reminders=hurried))
    runs = recorded(20, model, who=plain)
    found = opened(runs, policy, {"a": plain})
    new = bl.Agent("a", policy=policy)
    for one, run in zip(found, undisturbed(runs, model, new), strict=True):
        if informs:
            assert (one.outcome, one.n_kept) == ("open", 0)
        if one.outcome == "truncated":
            assert run.n_steps == one.n_kept
        else:
            assert content(continued(one, policy, plain, model)) == content(run)
    assert {one.outcome for one in found} >= ({"open"} if informs else {"unchanged", "open"})


def test_opening_treats_an_abort_at_the_cap_as_the_cap() -> None:
    """Some logs, such as those of a session that was closed, do not name the limit."""
    runs = [
        replace(run, limits={}, policy="", source="claude_code", stop=run.stop._replace(reason="aborted"))
        for run in recorded(20, MODEL)
        if run.stop.reason == "step_cap"
    ]
    assert {one.outcome for one in opened(runs, {"max_steps": LOOSE})} == {"unchanged"}
    assert {one.outcome for one in opened(runs, {"max_steps": LOOSE}, {"a": agent()})} == {"open"}
    assert {one.outcome for one in opened(runs, {"max_steps": LOOSE}, {"a": agent(TIGHT + 1)})} == {"unchanged"}


def test_an_agent_on_record_has_all_limits_of_the_record() -> None:
    policy = bl.policies["naive"].vary(budgets={"seconds": 300, "tokens": 90_000, "cost": 2.5})
    run = bl.run_sync(agent(policy=policy), "t", model=MODEL, seed=0)
    again = bl.run_sync(agent_on_record(run), "t", model=MODEL, seed=0)
    assert again.limits == run.limits
    assert set(run.limits) == {"steps", "tokens", "cost", "elapsed"}
    for change in ({"max_time": 300}, {"max_tokens": 90_000, "max_cost": 2.5}):
        assert [one.outcome for one in opened([run], change)] == ["unchanged"]


def test_opening_separates_turns_from_missing_counters() -> None:
    session = replace(Told(("A B C D -", "A -")).run("session"), policy="naive", source="boolab")
    (one,) = opened([session], {"max_steps": 3})
    assert (one.outcome, one.why) == ("unknown", "turn")
    dear = Told(("A B C D -",), cost=None).run("dear")
    (other,) = opened([replace(dear, policy="")], {"max_cost": 0.1})
    assert (other.outcome, other.why) == ("unknown", "counter")


def test_steps_before_cap_are_those_not_told_of_it() -> None:
    look = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}], tools={"ls": "a.py"})

    def first(name: str) -> int:
        agent = bl.Agent("a", max_steps=5, policy=name)
        run = bl.run_sync(agent, "Look", model=look)
        return steps_before_cap(run, harness_of(run, {"a": agent}))

    assert [first(name) for name in ("naive", "opencode_v2", "inspect_react")] == [5, 4, 5]
