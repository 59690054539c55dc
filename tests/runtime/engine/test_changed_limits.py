"""Limits that are changed while an agent runs: from which step they hold, and what the record says of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

import boolab as bl
from boolab.core.types import Event
from boolab.errors import SettingError
from boolab.widgets.replay.data import replay_data

SAME: Final[Any] = [{"tool_calls": [{"name": "ls"}], "repeat": "forever"}]
PRESETS: Final = sorted(bl.policies)
LIMITS: Final = {"max_steps": 4, "tool_budget": 3, "doom_loop": 3}


def started(agent: bl.Agent, changes: Mapping[int, Mapping[str, int | None]], **options: Any) -> bl.Run:
    """A stuck run whose limits are changed after some of its steps."""

    async def drive() -> bl.Run:
        async with bl.start(agent, "go", model=bl.ScriptedModel(SAME), **options) as run:
            if 0 in changes:
                run.set_limits(**changes[0])
            async for step in run:
                if step.index in changes:
                    run.set_limits(**changes[step.index])
        return run.run

    return asyncio.run(drive())


def stuck(**limits: Any) -> bl.Agent:
    return bl.Agent("a", **({"max_steps": 20, "tool_budget": None, "doom_loop": None} | limits))


def of_limits(run: bl.Run) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in run.events if event.kind == "limits"]


def without_id(run: bl.Run) -> bl.Run:
    return replace(run, run_id="", events=(), harness_version="")


def test_changed_cap_holds_from_the_next_boundary() -> None:
    run = started(stuck(), {2: {"max_steps": 5}})
    assert (run.n_steps, run.stop_reason, run.stop.rule, run.limits["steps"]) == (5, "step_cap", "max_steps(5)", 5)
    assert of_limits(run) == [{"after_step": 2, "max_steps": 5, "tool_budget": None, "doom_loop": None}]


def test_cap_below_the_steps_so_far_stops_at_once() -> None:
    run = started(stuck(), {6: {"max_steps": 3}})
    assert (run.n_steps, run.stop.value) == (6, 6)


def test_raised_cap_lets_the_run_continue() -> None:
    assert started(stuck(max_steps=3), {2: {"max_steps": 7}}).n_steps == 7
    assert started(stuck(max_steps=3), {1: {"max_steps": None, "tool_budget": 9}}).stop.rule == "tool_budget(9)"


def test_threshold_counts_the_steps_before_it_was_set() -> None:
    run = started(stuck(), {4: {"doom_loop": 6}})
    assert (run.n_steps, run.stop_reason, run.stop.value) == (6, "doom_loop", 6)


def test_change_in_the_middle_of_a_step_waits_for_its_end() -> None:
    seen: list[int] = []

    async def drive() -> bl.Run:
        def on_event(event: Event) -> None:
            if event.kind == "step_start":
                seen.append(event.payload["step_number"])
                if seen == [1, 2]:
                    run.set_limits(max_steps=1)

        run = bl.start(stuck(), "go", model=bl.ScriptedModel(SAME), on_event=on_event)
        async with run:
            async for _ in run:
                pass
        return run.run

    assert (asyncio.run(drive()).n_steps, seen) == (2, [1, 2])


@pytest.mark.parametrize("policy", PRESETS)
def test_start_gives_the_record_of_run_for_each_preset(policy: str) -> None:
    agent = bl.Agent("a", policy=policy, doom_loop=None, max_steps=6)
    model = bl.ScriptedModel(SAME)
    run = asyncio.run(bl.run(agent, "go", model=model))
    assert without_id(started(agent, {})) == without_id(run)


@pytest.mark.parametrize("policy", [name for name in PRESETS if {*bl.policies[name].order} & {*LIMITS}])
def test_limits_set_at_the_start_are_those_of_the_agent(policy: str) -> None:
    known: dict[str, Any] = {name: value for name, value in LIMITS.items() if name in bl.policies[policy].order}
    expected = asyncio.run(bl.run(bl.Agent("a", policy=policy, **known), "go", model=bl.ScriptedModel(SAME)))
    many: dict[str, Any] = dict.fromkeys(known, 50)
    changed = started(bl.Agent("a", policy=policy, **many), {0: known})
    assert without_id(changed) == without_id(expected)


def test_changes_before_one_boundary_are_one_event() -> None:
    async def drive() -> bl.Run:
        async with bl.start(stuck(), "go", model=bl.ScriptedModel(SAME)) as run:
            for cap in (9, 8, 7):
                run.set_limits(max_steps=cap)
            run.set_limits(doom_loop=4)
            async for _ in run:
                pass
        return run.run

    run = asyncio.run(drive())
    assert run.stop_reason == "doom_loop"
    assert of_limits(run) == [{"after_step": 0, "max_steps": 7, "tool_budget": None, "doom_loop": 4}]


def test_same_values_are_no_change_on_record() -> None:
    assert of_limits(started(stuck(max_steps=4), {1: {"max_steps": 4}})) == []


@pytest.mark.parametrize(
    ("agent", "options", "changes", "match"),
    [
        (stuck(), {}, {"max_steps": 0}, r"max_steps\(0\): expected an integer >= 1"),
        (stuck(), {}, {"doom_loop": 1}, r"doom_loop\(1\): expected an integer >= 2"),
        (stuck(), {}, {"max_step": 3}, "no limit 'max_step'; did you mean 'max_steps'"),
        (stuck(), {"stop": bl.max_steps(3)}, {"max_steps": 2}, "stop= takes their place"),
        (stuck(max_steps=0), {}, {"max_steps": 2}, "its agent may call no tools"),
        (bl.Agent("a", policy="mini_swe_agent"), {}, {"doom_loop": 2}, "no limit 'doom_loop'"),
    ],
)
def test_limit_that_cannot_be_changed_is_an_error(
    agent: bl.Agent, options: dict[str, Any], changes: dict[str, int], match: str
) -> None:
    run = bl.start(agent, "go", model=bl.ScriptedModel(SAME), **options)
    with pytest.raises(SettingError, match=match):
        run.set_limits(**changes)


def test_resumed_run_keeps_the_changed_limits() -> None:
    policy = bl.policies["boocode"].vary(continues={"times": 1, "adds": 3, "counters": "kept"})
    run = started(replace(stuck(max_steps=2), policy=policy), {1: {"max_steps": 5}})
    assert run.n_steps == 5
    assert asyncio.run(bl.resume(run, "continue")).n_steps == 8
    assert asyncio.run(bl.resume(run, "continue", agent=replace(stuck(max_steps=7), policy=policy))).n_steps == 10


def test_branch_begins_with_the_limits_of_its_agent() -> None:
    run = started(stuck(), {1: {"max_steps": 4}})
    branch = asyncio.run(bl.branch(run, 3, model=bl.ScriptedModel(SAME), agent=stuck(max_steps=6)))
    assert (branch.n_steps, of_limits(branch)) == (6, [])


def test_transcript_and_replay_say_which_limits_hold() -> None:
    run = started(stuck(), {2: {"max_steps": 5}})
    assert "** limits: max_steps 5, doom_loop none, tool_budget none" in str(run)
    events = replay_data(run, [])["steps"][2]["events"]
    assert [event["text"] for event in events] == [
        "from here on: step cap 5, tool budget: no limit, doom-loop threshold: no limit"
    ]


def test_thresholds_are_those_of_rules_and_guards() -> None:
    run = bl.start(bl.Agent("a", policy="openhands"), "go", model=bl.ScriptedModel(SAME))
    names = {threshold.counter: threshold.threshold for threshold in run.thresholds}
    assert names["steps"] > 0
    assert set(names) <= set(run.progress)


def test_snapshot_is_the_record_so_far() -> None:
    async def drive() -> tuple[list[tuple[int, str]], bl.Run, bl.Run]:
        async with bl.start(stuck(max_steps=2), "go", model=bl.ScriptedModel(SAME)) as run:
            seen = [(run.snapshot().n_steps, str(run.snapshot().stop_reason)) async for _ in run]
        return seen, run.snapshot(), run.run

    seen, snapshot, run = asyncio.run(drive())
    assert seen == [(1, "paused"), (2, "paused")]
    assert snapshot == run
