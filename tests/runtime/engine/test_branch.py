"""Branches: the first steps of a run as they are, then live under other conditions."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.types import Event
from tests.support.cases import cases
from tests.support.helpers import QUIET, TOOLS, Listening, call, distinct, letter, play
from tests.support.walk import Counters
from tests.whatif.test_properties import FREE, NEVER, scripts

SETTINGS = ("max_steps", "tool_budget", "doom_loop")


def branched(run: bl.Run, at: int, items: Any, *, policy: bl.Policy | str = QUIET, **options: Any) -> bl.Run:
    """A branch under an agent with the tools of the helpers, as `play` runs a script."""
    limits = {name: options.pop(name) for name in SETTINGS if name in options}
    model = items if hasattr(items, "respond") else bl.ScriptedModel(items)
    agent = options.pop("agent", None) or bl.Agent("tester", tools=TOOLS, policy=policy, **limits)
    return asyncio.run(bl.branch(run, at, model=model, agent=agent, **options))


def since(run: bl.Run) -> bl.Run:
    """A branch as if it had never been another run's: to compare it with one that was not disturbed."""
    events = tuple(event for event in run.events if event.kind != "branch")
    return replace(run, run_id="", started_at=None, continuation=None, events=events)


# The same rules and the same script: the run that was not disturbed.

NUDGING = QUIET.vary(
    name="nudging",
    detectors={
        "guards": (
            bl.Guard(
                detector=bl.detectors.RepeatStreak(), ladder=((2, "nudge"), (4, "stop")), nudge="Try another way."
            ),
        )
    },
)
PROMPTING = QUIET.vary(name="prompting", finish={"conditions": ("reason_stop",), "idle_prompt": "Go on."})


OWN: dict[str, bl.Policy] = {"quiet": QUIET, "nudging": NUDGING, "prompting": PROMPTING}


@cases(100, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_branch_under_the_same_rules_equals_the_run(data: Any) -> None:
    script = data.draw(scripts(pauses=True))
    if data.draw(st.booleans()):  # text between the steps, which ends turns under some policies only
        script.insert(data.draw(st.integers(0, len(script))), {"text": "so", "finish_reason": "length"})
    name = data.draw(st.sampled_from([*OWN, *bl.policies]))
    options: dict[str, Any] = {
        "policy": OWN.get(name, name),
        "max_steps": data.draw(st.sampled_from([None, 1, 2, 3, 5])),
        "tool_budget": data.draw(st.sampled_from([None, 1, 3, 6])),
        "doom_loop": data.draw(st.sampled_from([None, 2, 3])),
        "shadow": data.draw(st.sampled_from([(), (bl.max_steps(2), bl.error_streak(1))])),
        "seed": 5,
    }
    if data.draw(st.booleans()):
        at_tokens, clear_at = data.draw(st.integers(1, 60)), data.draw(st.sampled_from([None, 20]))
        options["compaction"] = bl.Compaction(at_tokens=at_tokens, keep_steps=1, clear_at=clear_at, cut_results=4)
    model = bl.ScriptedModel(script, summary="So far.")
    first = play(model, **options)
    at = data.draw(st.integers(0, first.n_steps))
    try:
        again = branched(first, at, model, **options)
    except bl.SettingError:
        assert at == first.n_steps  # where the run ended by itself, or broke off, there is nothing to go on from
        in_turn = sum(step.turn == first.steps[-1].turn for step in first.steps)
        stopped_after_tools = first.stop_step == in_turn and any(first.steps[-1].results)
        assert first.stop_reason in ("finished", "paused", "error") or not stopped_after_tools
        return
    if at < first.n_steps or not ended_by_a_call(first):
        assert since(again) == since(first)
    assert again.run_id != first.run_id


def ended_by_a_call(run: bl.Run) -> bool:
    """Whether a guard ended the run at a call of its last step: after that step, no rule is asked again."""
    kinds = ("ask", "stop_before_call")
    return any(
        e.kind in kinds and "call_id" in e.payload and e.payload["after_step"] == run.n_steps for e in run.events
    )


def test_branch_continues_after_a_call_refused_for_good() -> None:
    first = play([{"tool_calls": [letter("A")]}] * 9, policy="roo")
    assert (first.stop_reason, ended_by_a_call(first)) == ("doom_loop", True)
    again = branched(first, first.n_steps, Listening(lambda messages: "Enough."), policy="naive")
    assert (again.text, again.steps[: first.n_steps]) == ("Enough.", first.steps)


RULES: dict[str, Any] = {
    "max_steps": bl.max_steps,
    "doom_loop": lambda n: bl.doom_loop(n, "tool"),
    "tool_budget": bl.tool_budget,
    "error_streak": bl.error_streak,
    "max_tokens": lambda n: bl.max_tokens(n, on_unknown="error"),
    "max_cost": lambda n: bl.max_cost(n, on_unknown="error"),
    "max_time": lambda n: bl.max_time(n, on_unknown="error"),
}
"""The rules for the axes of the walk, in its order of precedence."""


@cases(80, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_branch_under_other_limits_stops_as_a_walk_over_the_run(data: Any) -> None:
    script = data.draw(scripts())
    whole = play(script, policy=FREE, stop=NEVER)
    at = data.draw(st.integers(0, whole.stop_step))
    drawn = {
        "max_steps": st.integers(0, 8), "tool_budget": st.integers(0, 12), "doom_loop": st.integers(2, 4),
        "error_streak": st.integers(1, 3), "max_tokens": st.integers(0, 300),
        "max_cost": st.sampled_from([0.1, 0.25, 0.55]), "max_time": st.sampled_from([0.001, 0.011, 1.0]),
    }  # fmt: skip
    names = data.draw(st.lists(st.sampled_from(list(RULES)), min_size=1, max_size=3, unique=True))
    setting = {name: data.draw(drawn[name]) for name in RULES if name in names}
    rule: bl.StopRule | None = None
    for name, value in setting.items():
        limit = RULES[name](value)
        rule = limit if rule is None else rule | limit
    again = branched(whole, at, script, policy=FREE, stop=rule)
    assert again.steps == whole.steps[: again.n_steps]
    assert (again.stop_reason, again.stop_step, ",".join(again.stop.also_fired)) == walked(whole, at, setting)


def walked(whole: bl.Run, at: int, setting: dict[str, Any]) -> tuple[str, int, str]:
    """Where limits stop a run that stands at a boundary: the counters of all its steps, asked from there on."""
    counters = Counters(0)
    for position in range(whole.stop_step + 1):
        if position:
            counters.complete(whole.steps[position - 1])
        if position >= at and (stop := counters.ask(setting)) is not None:
            return stop[0], position, stop[1]
    return whole.stop_reason, whole.stop_step, ""


# Other conditions.


def test_branch_continues_with_another_model_tools_and_agent() -> None:
    first = play(distinct(4))
    model = Listening([*distinct(4, None), "Another end."])
    again = branched(first, 2, bl.ScriptedModel(lambda messages: f"{len(messages)} messages were read."))
    assert again.steps[:2] == first.steps[:2]
    assert again.text == "5 messages were read."
    branched(first, 2, model, max_steps=3)
    assert [len(messages) for messages in model.of()] == [5]
    assert model.of()[0] == list(first.messages[:5])


def test_the_user_speaks_at_the_branch() -> None:
    model = Listening([*distinct(9, None)])
    again = branched(play(distinct(4)), 2, model, message="Look elsewhere.", max_steps=3)
    assert [(before, message.text) for before, message in again.inputs] == [(3, "Look elsewhere.")]
    assert (model.of()[0][-1].role, model.of()[0][-1].text) == ("user", "Look elsewhere.")
    assert (again.stop_reason, again.n_steps, {step.turn for step in again.steps}) == ("step_cap", 3, {1})


def test_where_the_branch_stops_at_once_nothing_is_said() -> None:
    again = branched(play(distinct(4)), 3, distinct(9), message="Hurry.", max_steps=2)
    assert (again.stop_reason, again.inputs) == ("step_cap", ())


def test_branch_after_final_answer_opens_a_turn_with_new_counts() -> None:
    first = play(distinct(2), max_steps=3)
    again = branched(first, 3, [*distinct(2), *distinct(9)], message="And now?", max_steps=3)
    assert [step.turn for step in again.steps] == [1, 1, 1, 2, 2, 2]
    assert (again.stop_reason, again.stop_step, again.stop.value) == ("step_cap", 3, 3)
    assert bl.runs_df(again)["n_turns"].tolist() == [2]


def test_message_opens_a_turn_where_inputs_reset_the_cap() -> None:
    again = branched(play(distinct(4)), 2, distinct(9), message="Go on.", policy="opencode_v2", max_steps=2)
    assert [step.turn for step in again.steps][:4] == [1, 1, 2, 2]


def test_branch_sends_the_next_message_of_its_policy() -> None:
    same = [{"tool_calls": [letter("A")]}] * 3
    first = play([*same[:2], "done"], policy=NUDGING)
    assert first.inputs
    plain = play([*same[:2], "done"])
    assert not plain.inputs
    again = branched(plain, 2, [*same[:2], "done"], policy=NUDGING)
    assert [(given.before, given.message.text) for given in again.inputs] == [(3, "Try another way.")]


def test_messages_that_came_in_after_the_kept_steps_are_not_kept() -> None:
    inbox = bl.Inbox()
    first = play(distinct(3), inbox=inbox, on_event=lambda e: inbox.send("Hm.") if e.kind == "tool_result" else None)
    assert [given.before for given in first.inputs] == [2, 3, 4]
    again = branched(first, 2, distinct(3))
    assert [given.before for given in again.inputs] == [2]
    assert [e.payload["after_step"] for e in again.events if e.kind == "input"] == [1]


def test_branch_keeps_the_events_of_its_first_steps_alone() -> None:
    kept = (
        Event(0, "retry", {"after_step": 2, "step_number": 2}),
        Event(0, "departed", {"after_step": 2}),
        Event(0, "ask", {"after_step": 2, "call_id": "c"}),
    )
    gone = (Event(0, "ask", {"after_step": 2, "rule": "max_steps(2)"}), Event(0, "compaction", {"after_step": 2}))
    again = branched(replace(play(distinct(3)), events=(*kept, *gone)), 2, distinct(3))
    assert since(again).events == kept


def broken(_: bl.Run) -> bool:
    raise ValueError("no score")


@pytest.mark.parametrize(
    ("options", "items", "at", "code"),
    [
        ({"score": broken, "max_steps": 3}, distinct(9), 3, "score"),
        ({"policy": "boocode", "max_steps": 3}, bl.ScriptedModel(distinct(9), summary={"text": ""}), 3, "summary"),
        (
            {"policy": QUIET, "compaction": bl.Compaction(at_tokens=1, keep_steps=1)},
            bl.ScriptedModel(distinct(4), summary={"text": ""}),
            2,
            "compaction",
        ),
    ],
)
def test_a_branch_has_no_fault_that_came_after_its_kept_steps(
    options: dict[str, Any], items: Any, at: int, code: str
) -> None:
    run = play(items, **options)
    faults = [event for event in run.events if event.kind == "fault"]
    assert {event.payload["code"] for event in faults} == {code}
    assert at in [event.payload["after_step"] for event in faults]
    kept = [event for event in branched(run, at, distinct(5)).events if event.kind == "fault"]
    assert kept == [event for event in faults if event.payload["after_step"] < at]


def test_a_branch_has_the_faults_of_its_last_step() -> None:
    fault = Event(0, "fault", {"after_step": 2, "what": "the score failed: so it says"})
    assert fault in branched(replace(play(distinct(3)), events=(fault,)), 2, distinct(3)).events


def test_branch_starts_at_the_latest_end_of_the_kept_steps() -> None:
    first = play(distinct(3))
    one, two, *rest = first.steps  # as in logs of agents that work on two things at once
    overlapping = (one._replace(duration_ms=500), two._replace(start_ms=100, duration_ms=10), *rest)
    again = branched(replace(first, steps=overlapping), 2, distinct(3))
    assert again.steps[2].start_ms == 500


# Where no branch can begin.


def test_a_branch_at_a_final_answer_needs_a_message() -> None:
    with pytest.raises(bl.SettingError, match=r"step 3 ended its turn: pass message=\.\.\., the user's next message"):
        branched(play(distinct(2)), 3, ["x"])


def test_a_branch_from_a_broken_step_names_the_step_before() -> None:
    first = play([*distinct(2, None), {"text": "one two", "error": {"reset": True, "after": 3}}])
    with pytest.raises(bl.SettingError, match=r"step 3 broke off \(ModelError: .*\): branch at 2 to have it done anew"):
        branched(first, 3, ["x"])
    assert branched(first, 2, [*distinct(2), "x"]).stop_reason == "finished"


def test_branch_at_dropped_calls_names_the_step_before() -> None:
    first = play([*distinct(2, None), {"tool_calls": [call("look")], "finish_reason": "stop"}], policy="naive")
    assert first.steps[-1].results == (None,)
    with pytest.raises(bl.SettingError, match="step 3 has no results of its calls: branch at 2"):
        branched(first, 3, ["x"])


def test_a_run_that_waits_for_an_answer_is_resumed_first() -> None:
    paused = play([{"tool_calls": [call("ask", question="?")]}, "Thanks."])
    with pytest.raises(bl.SettingError, match="step 1 waits for an answer: resume the run with it"):
        branched(paused, 1, ["x"])
    answered = asyncio.run(bl.resume(paused, "the left one"))
    model = Listening(["x", "So be it."])
    assert branched(answered, 1, model).text == "So be it."
    assert model.of()[0][-1].parts[0].content == "the left one"  # type: ignore[union-attr] # it is a result


@pytest.mark.parametrize("at", [-1, 4, True, 1.0, None, "1"])
def test_at_is_a_number_of_steps_of_the_run(at: Any) -> None:
    with pytest.raises(bl.SettingError, match=r"expected a number of steps to keep, from 0 to the 3 of the run"):
        branched(play(distinct(2)), at, ["x"])


def test_branch_checks_run_message_and_options_before_requests() -> None:
    first = play(distinct(2))
    with pytest.raises(bl.SettingError, match="is no Run"):
        branched("run", 1, ["x"])  # type: ignore[arg-type] # on purpose
    with pytest.raises(bl.SettingError, match="message=3: expected the text of the user's message"):
        branched(first, 1, ["x"], message=3)
    with pytest.raises(bl.SettingError, match="message='': expected the text of the user's message"):
        branched(first, 1, ["x"], message="")
    with pytest.raises(bl.SettingError, match="unknown option 'polcy'"):
        branched(first, 1, ["x"], polcy=QUIET)
    with pytest.raises(bl.SettingError, match="has no model and none was given"):
        asyncio.run(bl.branch(first, 1, model=None))  # type: ignore[arg-type] # on purpose


# The record of a branch.


def test_branch_has_its_own_id_an_event_and_two_columns() -> None:
    first = play(distinct(4))
    again = branched(first, 2, distinct(4))
    assert [(e.kind, dict(e.payload)) for e in again.events] == [
        ("branch", {"after_step": 2, "run_id": first.run_id, "step": 2})
    ]
    row = bl.runs_df([first, again])
    assert row["branched_from"].tolist()[1] == first.run_id
    assert row["branched_from"].isna().tolist() == [True, False]
    assert row["branched_at"].tolist()[1] == 2
    assert again.run_id != first.run_id
    assert again.parent_run_id is None
    assert f"branch: run_id {first.run_id}, step 2" in str(again)


def test_branch_of_a_branch_names_both_and_counts_from_the_last() -> None:
    first = play(distinct(6))
    second = branched(first, 4, distinct(6))
    third = branched(second, 5, distinct(6))
    earlier = branched(second, 3, distinct(6))
    assert [e.payload["run_id"] for e in third.events] == [first.run_id, second.run_id]
    assert [e.payload["run_id"] for e in earlier.events] == [second.run_id]
    assert bl.runs_df(third)["branched_at"].tolist() == [5]


def test_what_was_newly_spent_are_the_steps_after_the_branch() -> None:
    used = {"usage": {"input_tokens": 10, "output_tokens": 1, "cost_usd": 0.5}}
    items = [item | used for item in distinct(4, None)]
    again = branched(play([*items, "done"]), 3, [*items, {"text": "done", **used}])
    (at,) = bl.runs_df(again)["branched_at"]
    frame = bl.steps_df(again)
    assert bl.runs_df(again)["cost_usd"].tolist() == [2.5]
    assert frame.loc[frame["step"] > at, "cost_usd"].sum() == 1.0


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_branches_are_saved_loaded_and_branched_again(tmp_path: Path, suffix: str) -> None:
    first = play(bl.ScriptedModel(distinct(9, None), summary="So far."), policy="boocode", max_steps=3)
    again = branched(first, 2, distinct(4), message="Go on.")
    bl.save_runs([first, again], tmp_path / f"runs{suffix}")
    loaded = bl.load_runs(tmp_path / f"runs{suffix}")
    assert loaded == [first, again]
    assert since(branched(loaded[1], 3, distinct(4))) == since(again)


def test_a_log_of_another_tool_is_branched(tmp_path: Path) -> None:
    asked = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"what": "A"}'}}
    lines = [
        {"role": "user", "content": "Look."}, {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen A"}, {"role": "assistant", "content": "Nothing."},
        {"role": "user", "content": "Again."}, {"role": "assistant", "content": "Still nothing."},
    ]  # fmt: skip
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": lines}))
    (log,) = bl.load_runs(tmp_path)
    model = Listening(["", "A door."])
    again = branched(log, 1, model)
    assert [message.text for message in model.of()[0][:1]] == ["Look."]
    assert (len(model.of()[0]), again.text, again.task) == (3, "A door.", log.task)
    later = branched(log, 3, Listening(["", "", "", "A wall."]), message="Once more.")
    assert [step.turn for step in later.steps] == [1, 1, 2, 3]
    assert later.text == "A wall."
    assert later.steps[:3] == log.steps


def test_a_paused_branch_is_resumed() -> None:
    script = [*distinct(2, None), {"tool_calls": [call("ask", question="?")]}, "Thanks."]
    paused = branched(play(distinct(3)), 2, script)
    assert paused.stop_reason == "paused"
    done = asyncio.run(bl.resume(paused, "yes"))
    assert done.text == "Thanks."
    assert bl.runs_df(done)["resumed_from"].item() == paused.run_id


def test_branch_counts_what_subagents_of_its_first_steps_spent() -> None:
    child = bl.Agent("child", model=bl.ScriptedModel(distinct(3)), tools=TOOLS)
    task = bl.task_tool(child)
    asks = {"tool_calls": [call(task.name, agent="child", prompt="Look.")]}
    agent = bl.Agent("parent", tools=(task, *TOOLS), policy=QUIET, tool_budget=20)
    items = [asks, *distinct(3)]
    first = bl.run_sync(agent, "go", model=bl.ScriptedModel(items))
    assert len(first.subagents) == 1
    again = branched(first, 2, items, agent=agent)
    assert since(again) == since(first)
    assert again.subagents == ()
    assert [run.run_id for run in bl.with_subagents(again)] == [again.run_id]


def test_a_branch_under_record_is_played_from_its_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = play(distinct(4))
    again = branched(first, 2, bl.record(bl.ScriptedModel(distinct(4)), path))
    matches: tuple[Any, ...] = ("order", "request")
    for match in matches:
        played = branched(first, 2, bl.RecordedModel(path, match=match))
        assert since(played) == since(again)


def test_branch_clock_continues_from_the_end_of_kept_steps() -> None:
    items = [item | {"latency_ms": 100} for item in distinct(4, None)]
    first = play([*items, "done"])
    again = branched(first, 2, [*items, "done"])
    assert [step.start_ms for step in again.steps] == [0, 100, 200, 300, 400]
    mine = branched(first, 2, [*items, "done"], clock=VirtualClock(5000))
    assert [step.start_ms for step in mine.steps] == [0, 100, 200, 300, 400]
