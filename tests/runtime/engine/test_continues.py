"""Going on after a cap: by the user's word, by an answer, or by itself. And what an interruption leaves behind."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import boolab as bl
from boolab.core.codec import dumps
from boolab.core.events import run_events
from boolab.core.messages import Message, Sentinel, Text
from boolab.core.types import Event, ToolResult
from boolab.logs.atif_format import run_of_trajectory, trajectory
from boolab.runtime.models.base import Emit
from boolab.whatif.from_frame import ledger_of_frame
from boolab.whatif.from_runs import ledger_of
from tests.support.helpers import QUIET, TOOLS, Listening, call, distinct, grouped, play, without_ids

SUMMED = {"text": "Summed up.", "usage": {"input_tokens": 7, "output_tokens": 2, "cost_usd": 0.5}, "latency_ms": 30}
CLASSIC = bl.policies["openhands_classic"]


def go_on(run: bl.Run, times: int = 1, **options: Any) -> bl.Run:
    """Let a run go on that its cap stopped, so many times."""
    for _ in range(times):
        run = asyncio.run(bl.resume(run, "Go on.", **options))
    return run


def boocode(n: int = 2, items: Any = None, **options: Any) -> bl.Run:
    """A run under BooCode's policy that its cap stops after n steps."""
    model = bl.ScriptedModel(distinct(99, None) if items is None else items, summary=SUMMED)
    return play(model, policy="boocode", max_steps=n, **options)


def allowing(times: int) -> Any:
    """A user who allows so many times, and then no more; the questions are its list `asked`."""
    asked: list[bl.Question] = []

    def ask(question: bl.Question) -> bool:
        asked.append(question)
        return len(asked) <= times

    ask.asked = asked  # type: ignore[attr-defined] # for the test to read
    return ask


# BooCode: two continues, each with fresh counters.


def test_boocode_continues_twice_with_counters_of_a_new_turn() -> None:
    run = go_on(boocode(), 2)
    assert [step.turn for step in run.steps] == [1, 1, 2, 2, 3, 3]
    assert (run.stop_reason, run.stop_step, run.stop.value) == ("step_cap", 2, 2)
    assert bl.runs_df(run)["n_turns"].tolist() == [3]


def test_a_third_continue_is_refused_in_clear_words() -> None:
    with pytest.raises(
        bl.SettingError, match="under boocode a run may continue 2 times after its cap; this one has 2 times"
    ):
        go_on(boocode(), 3)


@pytest.mark.parametrize("policy", ["opencode_3631", "claude_code", bl.dynamic_turns(1, 1)])
def test_a_policy_without_continues_lets_no_user_go_on(policy: bl.Policy | str) -> None:
    with pytest.raises(bl.SettingError, match="a run that its cap stopped is over: its user cannot let it continue"):
        go_on(play(distinct(9, None), policy=policy, max_steps=1))


def test_loop_at_the_cap_has_no_history_in_the_new_turn() -> None:
    same = [{"tool_calls": [call("look", what="A")], "repeat": "forever"}]
    run = go_on(boocode(2, same))
    assert (run.stop_reason, run.n_steps) == ("step_cap", 4)
    assert go_on(boocode(4, [*distinct(2, None), *same])).stop_reason == "doom_loop"


def test_resumed_run_keeps_its_earlier_summary_and_sentinel() -> None:
    run = go_on(boocode(1), 2)
    limit = "Step limit reached: max_steps(1) at step 1."
    middle = [("assistant", "Summed up."), ("sentinel", limit), ("user", "Go on.")]
    step = [("assistant", ""), ("tool", "")]
    said = [(message.role, message.text) for message in run.messages]
    assert said == [("user", "go"), *step, *middle, *step, *middle, *step, *middle[:2]]
    assert [text for text in str(run).splitlines() if limit in text] == [
        f"sentinel │ {limit}", f"sentinel │ {limit}", f"     [cap_hit] {limit}",
    ]  # fmt: skip


def test_the_model_reads_its_own_summary_and_never_a_sentinel() -> None:
    model = Listening(distinct(9, None))
    run = play(model, policy="boocode", max_steps=1)
    go_on(run)
    last = model.requests[-1].messages
    assert [message.role for message in last] == ["user", "assistant", "tool", "assistant", "user"]
    assert last[-2].text == "Step limit reached: max_steps(1) at step 1. The work may be unfinished."
    assert not any(isinstance(part, Sentinel) for message in last for part in message.parts)


def test_earlier_wrap_ups_are_paid_for_in_the_totals() -> None:
    run = go_on(boocode(1), 2)
    row = bl.runs_df(run).iloc[0]
    assert (len(run.earlier_wrap_ups), row["summary_calls"], row["summary_tokens"]) == (2, 3, 27)
    assert [usage.cost for usage in run.outside] == [500_000] * 3


def test_the_counters_of_a_run_that_went_on_are_the_live_ones() -> None:
    async def live(before: bl.Run) -> list[dict[str, int | None]]:
        assert before.continuation is not None
        model = before.continuation["model"]
        agent = before.continuation["agent"]
        async with bl.start(agent, "go", model=model) as run:
            return [dict(run.progress) async for _ in run]

    items = [item | {"latency_ms": 10 * n, "usage": {"input_tokens": n, "output_tokens": 1}}
             for n, item in enumerate(distinct(9, None), 1)]  # fmt: skip
    first = boocode(3, items)
    (one, two, three) = asyncio.run(live(first))
    run = go_on(first)
    frame = bl.boundaries_df(run).set_index(["turn", "boundary"])
    for boundary, counters in enumerate((one, two, three), 1):
        for name in ("tool_calls", "tokens", "elapsed"):
            assert frame.loc[(1, boundary), name] == counters[name]
    assert frame.loc[(2, 0), "tool_calls"] == 0
    assert frame.loc[(2, 3), "elapsed"] == 40 + 50 + 60
    assert run.duration_ms == sum(range(10, 70, 10)) + 2 * 30
    assert ledger_of(run).counters["tool_calls"].tolist() == [1, 2, 3, 1, 2, 3]


def test_recording_of_a_continued_run_continues_to_the_same_run() -> None:
    first = go_on(boocode(2), 2)
    again = go_on(play(bl.RecordedModel(first), policy="boocode", max_steps=2), 2)
    assert replace(without_ids(again), started_at=None) == replace(without_ids(first), started_at=None)


def test_a_run_that_went_on_is_saved_and_told_as_it_is() -> None:
    told: list[Event] = []
    run = replace(go_on(boocode(1, on_event=told.append)), continuation=None)
    assert run_of_trajectory(json.loads(dumps(trajectory(run)))) == run
    ends = [event for event in told if event.kind == "stop"]
    assert [e for e in told if e.kind != "delta" and e is not ends[0]] == run_events(run)


def test_a_run_made_elsewhere_goes_on_with_agent_and_model() -> None:
    elsewhere = replace(boocode(), continuation=None)
    with pytest.raises(bl.SettingError, match="this run was made elsewhere: pass agent= and model="):
        go_on(elsewhere)
    agent = bl.Agent("a", tools=TOOLS, policy="boocode", max_steps=2)
    assert go_on(elsewhere, agent=agent, model=bl.ScriptedModel(distinct(9))).n_steps == 4


@pytest.mark.parametrize("answer", [None, 5, {"call_1_1": "x"}])
def test_what_lets_a_run_go_on_is_a_text(answer: Any) -> None:
    with pytest.raises(bl.SettingError, match="expected a text, such as 'continue'"):
        asyncio.run(bl.resume(boocode(), answer))


# OpenHands classic: any number of continues, and the cap grows by its first value.


def test_openhands_classic_cap_grows_by_its_first_value() -> None:
    run = play(distinct(99, None), policy=CLASSIC, max_steps=3)
    for n in (6, 9, 12, 15):
        run = go_on(run)
        assert (run.stop_reason, run.stop_step, run.stop.rule) == ("step_cap", n, f"max_steps({n})")
    assert {step.turn for step in run.steps} == {1}
    assert bl.boundaries_df(run)["boundary"].tolist() == list(range(16))


def test_it_asks_at_once_where_there_is_somebody_to_ask() -> None:
    ask = allowing(2)
    run = play(distinct(99, None), policy=CLASSIC, max_steps=3, ask=ask)
    assert (run.stop_reason, run.stop_step) == ("step_cap", 9)
    assert [(question.rule, question.value, question.call) for question in ask.asked] == [
        ("max_steps(3)", 3, None), ("max_steps(6)", 6, None), ("max_steps(9)", 9, None),
    ]  # fmt: skip
    assert [e.payload["allowed"] for e in run.events if e.kind == "ask"] == [True, True, False]
    assert [m.text for _, m in run.inputs] == ["You may continue for 3 more steps."] * 2


def test_a_cap_that_grew_is_remembered_by_a_run_that_goes_on() -> None:
    declined = play(distinct(99, None), policy=CLASSIC, max_steps=3, ask=allowing(1))
    assert (go_on(declined, ask=None).stop_step, declined.stop_step) == (9, 6)
    items = [*distinct(4, None), {"tool_calls": [call("ask")]}, *distinct(9, None)]
    paused = go_on(play(items, policy=CLASSIC, max_steps=3))
    assert (paused.stop_reason, paused.n_steps) == ("paused", 5)
    assert asyncio.run(bl.resume(paused, "Blue.")).stop_step == 6


def test_user_is_asked_to_continue_at_most_the_set_times() -> None:
    ask = allowing(9)
    run = play(distinct(99, None), policy=CLASSIC.vary(continues={"times": 1}), max_steps=2, ask=ask)
    assert (run.stop_step, len(ask.asked)) == (4, 1)
    fresh = CLASSIC.vary(continues={"times": 1, "counters": "fresh"})
    run = play(distinct(99, None), policy=fresh, max_steps=2, ask=allowing(9))
    assert ([step.turn for step in run.steps], run.stop_step) == ([1, 1, 2, 2], 2)


# Turns that are reminded of, and extended by the loop.


def test_dynamic_turns_extend_once_and_tell_the_model() -> None:
    model = Listening(distinct(99, None))
    run = play(model, policy=bl.dynamic_turns(3, 2))
    assert (run.stop_reason, run.stop_step, run.stop.rule) == ("step_cap", 5, "max_steps(5)")
    assert [(before, message.text) for before, message in run.inputs] == [(4, "You may continue for 2 more steps.")]
    assert "You may continue for 2 more steps." in [message.text for message in model.of()[3]]
    assert play(distinct(2), policy=bl.dynamic_turns(3, 2)).inputs == ()


def test_an_extension_is_not_made_again_by_a_run_that_goes_on() -> None:
    items = [*distinct(3, None), {"tool_calls": [call("ask")]}, *distinct(9, None)]
    paused = play(items, policy=bl.dynamic_turns(3, 2))
    assert (paused.stop_reason, paused.n_steps) == ("paused", 4)
    assert asyncio.run(bl.resume(paused, "Blue.")).stop_step == 5


def test_fixed_turns_remind_in_each_request_and_in_no_record() -> None:
    model = Listening(distinct(99, None))
    run = play(model, policy=bl.fixed_turns(3))
    assert [messages[-1].text for messages in model.of()] == [
        "3 of 3 turns are left, this one included.",
        "2 of 3 turns are left, this one included.",
        "1 of 3 turns is left, this one included.",
    ]
    assert [sum("left" in m.text for m in messages) for messages in model.of()] == [1, 1, 1]
    assert not any("left" in message.text for message in run.messages)


# What an interruption leaves behind.


def unfinished(messages: Sequence[Message]) -> bool:
    """Whether a call stands in messages without its result."""
    parts = [part for message in messages for part in message.parts]
    calls = {part.id for part in parts if isinstance(part, bl.models.ToolCall)}
    results = {part.call_id for part in parts if isinstance(part, ToolResult)}
    return calls != results


@pytest.mark.parametrize("where", ["stream", "tool", "ask", "synthesis", "boundary ask"])
def test_calls_without_a_result_get_one_at_an_abort(where: str) -> None:
    abort = bl.Abort()

    async def hang(*_: Any) -> Any:
        abort.abort()
        await asyncio.sleep(60)

    @bl.tool
    async def work(what: str = "") -> str:
        """Work."""
        if where == "tool":
            await hang()
        return f"worked {what}"

    class Slow(Listening):
        async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
            if where == "stream" and request.index == 2:
                await hang()
            return await super().respond(request, emit)

    policy = {"ask": bl.policies["opencode_v1"], "boundary ask": CLASSIC}.get(where, QUIET)
    # Three equal calls in one message are what opencode asks about; no detector should see any elsewhere.
    batches = [{"tool_calls": [call("work", what="" if where == "ask" else f"{n}.{i}") for i in range(3)]}
               for n in range(9)]  # fmt: skip
    agent = bl.Agent("a", tools=(work,), policy=policy, max_steps=2 if where == "boundary ask" else None)
    options: dict[str, Any] = {"synthesis": hang} if where == "synthesis" else {}
    run = bl.run_sync(agent, "go", model=Slow(batches), ask=hang, abort=abort, **options)
    assert run.stop_reason == "aborted"
    assert not unfinished(run.messages)
    expected = {"tool": ["aborted"] * 3, "ask": ["aborted"] * 3, "synthesis": [f"worked 0.{i}" for i in range(3)]}
    if where in expected:
        assert [result and result.content for result in run.steps[-1].results] == expected[where]


def test_dropped_call_is_never_sent_without_a_result() -> None:
    model = Listening([{"tool_calls": [call("look", what="A")], "finish_reason": "stop"}])
    play(model, policy=bl.policies["naive"].vary(wrap_up={"summary": "model"}), stop=bl.max_steps(0) | bl.max_steps(9))
    budget = QUIET.vary(continues={"times": 1}, budgets={"batch": "cut"}, wrap_up={"summary": "model"})
    model = Listening([{"tool_calls": [call("look", what=str(i)) for i in range(3)]}] * 9, summary="In short.")
    cut = play(model, policy=budget, tool_budget=2)
    assert len(cut.steps[0].dropped) == 1
    assert not unfinished(model.requests[-1].messages)


def test_wrap_up_message_is_no_step_of_the_model() -> None:
    """A script with conditions stands where it stood, though a summary came in between."""
    items = [*distinct(2, None), {"text": "Found.", "when": {"last_result": "seen 1"}}, "Lost."]
    assert go_on(boocode(2, items)).text == "Found."
    run = go_on(boocode(2, items))
    assert run.inputs[0].message == Message("assistant", (Text("Summed up."),))


ASK = {"tool_calls": [call("ask", question="Which?")]}
PLAIN = bl.Policy(name="plain").vary(cap={"ceiling": 50})


def spoken(run: bl.Run, kind: str) -> list[int]:
    """After which steps events of this kind happened."""
    return [event.payload["after_step"] for event in run.events if event.kind == kind]


@pytest.mark.parametrize("check", ["boundary", "call"])
def test_a_pause_neither_loses_a_nudge_nor_repeats_it(check: Any) -> None:
    guard = bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((3, "nudge"), (9, "stop")), check=check)
    run = play([*[ASK] * 5, "done"], policy=PLAIN.vary(detectors={"guards": (guard,)}))
    run = go_on(run, 5)
    assert (run.stop_reason, spoken(run, "nudge")) == ("finished", [3])


def test_nudge_is_sent_again_when_a_pattern_repeats_after_pause() -> None:
    guard = bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((2, "nudge"),), check="call")
    again = {"tool_calls": [call()]}
    run = play([again, again, ASK, again, again, "done"], policy=PLAIN.vary(detectors={"guards": (guard,)}))
    assert spoken(go_on(run), "nudge") == [2, 5]


def test_call_that_is_not_executed_moves_no_guard() -> None:
    guard = bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((2, "nudge"),), check="call")
    policy = PLAIN.vary(detectors={"guards": (guard,)}, execution={"calls": "one_per_message"})
    run = play([{"tool_calls": [call("ask"), call("ask")]}, ASK, "done"], policy=policy)
    assert spoken(go_on(run, 2), "nudge") == []


def test_gemini_executes_the_same_calls_with_and_without_a_pause() -> None:
    same, other = {"tool_calls": [call()]}, {"tool_calls": [call(what="else")]}
    paused = go_on(play([*[same] * 5, ASK, other, "done"], policy="gemini_cli"))
    assert [step.results[0].is_error for step in paused.steps[:7] if step.results[0]] == [
        *[False] * 4,
        True,
        False,
        False,
    ]
    assert spoken(paused, "nudge") == [5]


def test_a_nudge_of_an_earlier_turn_is_not_given_in_a_fresh_one() -> None:
    guard = bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((2, "nudge"),))
    policy = PLAIN.vary(cap={"max_steps": 2}, continues={"times": 1}, detectors={"guards": (guard,)})
    same = {"tool_calls": [call()]}
    assert spoken(go_on(play([same, same, "done"], policy=policy)), "nudge") == [2]
    fresh = policy.vary(continues={"counters": "fresh"})
    assert spoken(go_on(play([same, same, "done"], policy=fresh)), "nudge") == []


def test_shadow_rule_is_recorded_once_across_resumed_runs() -> None:
    run = go_on(play([ASK, ASK, ASK, "done"], policy=PLAIN, shadow=[bl.max_steps(1)]), 3)
    assert spoken(run, "shadow") == [1]
    assert [step.shadow_stops for step in run.steps] == [(), *[("max_steps(1)",)] * 3]


BEYOND = pytest.mark.parametrize(
    "beyond",
    [{"last_step.action": "grace"}, {"cap.check": "response"}, {"cap.counts": "tool_steps", "cap.check": "response"}],
)


@BEYOND
def test_steps_after_a_cap_do_not_count_in_a_continued_run(beyond: Any) -> None:
    policy = PLAIN.vary(**grouped({"cap.max_steps": 2, "continues.times": 2, "finish.tools": ("finish",), **beyond}))
    run = play(distinct(12, None), policy=policy)
    stops = [(run.n_steps, run.stop.step)]
    for _ in range(2):
        run = go_on(run)
        stops.append((run.n_steps, run.stop.step))
    assert stops == [(3, 2), (6, 4), (9, 6)]


@BEYOND
def test_steps_after_a_cap_do_not_count_offline_once_continued(beyond: Any) -> None:
    policy = PLAIN.vary(**grouped({"cap.max_steps": 2, "continues.times": 2, "finish.tools": ("finish",), **beyond}))
    run = replace(go_on(play(distinct(12, None), policy=policy), 2), continuation=None)
    assert [step.index for step in run.steps if not step.counted] == [3, 6]
    counts = [1, 2, 2, 3, 4, 4, 5, 6]
    for ledger in (ledger_of(run), ledger_of_frame(bl.recording_df(run))):
        assert ledger.counters["steps"].tolist()[:8] == ledger.counters["tool_calls"].tolist()[:8] == counts
        assert np.flatnonzero(ledger.boundary).tolist() == [0, 1, 3, 4, 6, 7]
    assert bl.boundaries_df(run)["tool_calls"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert run_of_trajectory(json.loads(dumps(trajectory(run)))) == run
    table = bl.counterfactual(run, grid={"max_steps": [3]}).iloc[0]
    assert (table["steps"], table["saved_steps"]) == (4, 5)


def test_ceiling_holds_for_continued_runs_capped_at_responses() -> None:
    policy = PLAIN.vary(cap={"max_steps": 9, "ceiling": 3, "check": "response"}, continues={"times": 1})
    run = go_on(play(distinct(9, None), policy=policy))
    assert (run.n_steps, run.stop[:3]) == (3, ("step_cap", 3, "ceiling(3)"))
