"""The rules of the loop, one by one."""

import asyncio
import inspect
import logging
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab import events_df, runs_df, steps_df
from boolab.core.events import run_events
from boolab.core.messages import Sentinel, StepStart
from boolab.core.types import Event
from boolab.runtime.engine.loop import Action, loop, tool_phase
from boolab.runtime.engine.runner import run, turn_of
from boolab.runtime.engine.summaries import SUMMARY_PROMPT
from tests.support.helpers import QUIET, TOOLS, Listening, call, distinct, letter, look, play, steps, write

BOOCODE = bl.policies["boocode"]


# The seven origin tests.


def test_a_response_without_tool_calls_finishes_the_run() -> None:
    run = play(steps("A B"))
    assert (run.stop_reason, run.stop_step, run.n_steps, run.n_tool_calls) == ("finished", 2, 3, 2)
    assert run.text == "done"
    assert run.sentinel is None
    assert not run.censored


@pytest.mark.parametrize(
    ("items", "setting", "reason", "at", "kind", "words"),
    [
        (distinct(9), {"max_steps": 5}, "step_cap", 5, "cap_hit", "Step limit reached"),
        (steps("A A A A"), {}, "doom_loop", 3, "doom_loop", "Doom loop"),
        (distinct(9), {"tool_budget": 4}, "tool_budget", 4, "cap_hit", "Tool budget exhausted"),
    ],
    ids=["cap", "doom loop", "budget"],
)
def test_a_limit_ends_the_run_with_a_sentinel_of_its_kind(
    items: list[Any], setting: dict[str, Any], reason: str, at: int, kind: str, words: str
) -> None:
    run = play(items, policy=BOOCODE, **setting)
    assert (run.stop_reason, run.stop_step, run.n_steps, run.n_tool_calls) == (reason, at, at, at)
    assert run.sentinel is not None
    assert run.sentinel.kind == kind
    assert run.sentinel.text.startswith(words)
    assert run.messages[-1].parts == (run.sentinel,)


def test_zero_steps_request_one_text_and_drop_its_calls(caplog: pytest.LogCaptureFixture) -> None:
    model = Listening([{"text": "no", "tool_calls": [letter("A"), letter("B")]}, "never"])
    with caplog.at_level(logging.WARNING, "boolab.loop"):
        run = play(model, max_steps=0)
    assert (run.stop_reason, run.n_steps, run.stop_step, run.n_tool_calls) == ("finished", 1, 0, 0)
    assert [request.tools for request in model.requests] == [()]
    assert [c.arguments for c in run.steps[0].dropped] == ['{"what": "A"}', '{"what": "B"}']
    assert "tool calls dropped: look, look" in caplog.text
    assert run.sentinel is None


def test_synthesis_ends_the_turn_and_gets_calls_and_results() -> None:
    seen: list[Any] = []

    async def synthesis(calls: Any, results: Any) -> str | None:
        seen.append(([c.name for c in calls], [r.content for r in results]))
        return "the answer" if len(seen) == 2 else None

    run = play(steps("A BC D"), synthesis=synthesis)
    assert (run.stop_reason, run.stop_step, run.text) == ("synthesis", 2, "the answer")
    assert seen == [(["look"], ["seen A"]), (["look", "look"], ["seen B", "seen C"])]
    assert run.sentinel is None
    assert not run.censored


# The seventh, an abort in mid-step, stands in tests/runtime/engine/test_abort.py.


# Precedence, streaks, budgets.


def test_stop_names_the_cap_and_lists_other_rules_in_order() -> None:
    run = play(steps("A A A A"), max_steps=3, tool_budget=3)
    assert (run.stop_reason, run.stop.also_fired) == ("step_cap", ("doom_loop", "tool_budget"))


def test_doom_loop_comes_before_the_budget() -> None:
    run = play(steps("A A A A"), tool_budget=3)
    assert (run.stop_reason, run.stop.also_fired) == ("doom_loop", ("tool_budget",))


def test_a_streak_that_ended_inside_the_step_does_not_fire() -> None:
    assert play(steps("AAB"), doom_loop=2).stop_reason == "finished"
    assert play(steps("BAA"), doom_loop=2).stop_reason == "doom_loop"


def test_a_streak_runs_on_across_steps_and_is_not_capped() -> None:
    run = play(steps("A AAA A", None), doom_loop=4)
    assert (run.stop_step, run.stop.value, run.stop.overshoot) == (2, 4, 0)
    run = play(steps("A AAAA", None), doom_loop=4)
    assert (run.stop_step, run.stop.value, run.stop.overshoot) == (2, 5, 1)


@pytest.mark.parametrize(
    ("tools", "budget"), [((look,), 50), ((look, write), 10), ((), 50)], ids=["read-only", "writing", "none"]
)
def test_the_default_budget_depends_on_whether_a_tool_writes(tools: tuple[Any, ...], budget: int) -> None:
    run = play([{"tool_calls": [call("look")], "repeat": "forever"}], agent=bl.Agent("a", tools=tools, doom_loop=None))
    assert (run.stop_reason, run.stop_step) == ("tool_budget", budget)


def test_without_an_agent_the_budget_is_that_of_a_raw_chat() -> None:
    model = bl.ScriptedModel([{"tool_calls": [call("write")], "repeat": "forever"}])
    policy = QUIET.vary(budgets={"no_agent": 7}, detectors={"doom_loop": None})
    assert bl.run_sync(None, "go", model=model, tools=[write], policy=policy).stop_step == 7


def test_ceiling_stops_as_step_cap_and_names_itself_as_rule() -> None:
    forever = [{"tool_calls": [call("look")], "repeat": "forever"}]
    run = play(forever, max_steps=None, tool_budget=None, doom_loop=None)
    assert (run.stop_reason, run.stop_step, run.stop.rule) == ("step_cap", 200, "ceiling(200)")
    run = play(forever, max_steps=500, tool_budget=None, doom_loop=None)
    assert (run.stop_step, run.stop.rule) == (200, "ceiling(200)")
    run = play(forever, max_steps=200, tool_budget=None, doom_loop=None)
    assert (run.stop_step, run.stop.rule) == (200, "max_steps(200)")
    for other in ("naive", "opencode_3631"):
        assert play(forever, policy=other).stop.rule == "ceiling(1000)"


def test_stop_replaces_the_limits_and_leaves_the_wrap_up() -> None:
    run = play(steps("A A A A A A"), max_steps=2, tool_budget=1, policy=BOOCODE, stop=bl.max_steps(5))
    assert (run.stop_reason, run.stop_step, run.stop.rule) == ("step_cap", 5, "max_steps(5)")
    assert run.sentinel is not None
    many = [{"tool_calls": [call("look")], "repeat": 300}, "done"]
    assert play(many, stop=bl.max_steps(10_000)).stop_reason == "finished"


def test_max_steps_zero_as_rule_stops_before_the_first_response() -> None:
    run = play(steps("A"), stop=bl.max_steps(0))
    assert (run.stop_reason, run.stop_step, run.n_steps) == ("step_cap", 0, 0)


# Every kind of call that counts.


def test_failed_calls_count_in_the_tool_budget_and_in_streaks() -> None:
    bad = {"name": "look", "arguments": '{"wha'}
    items = [{"tool_calls": [call("fail"), bad, call("nowhere")]}]
    run = play([*items, "done"])
    results = [r for r in run.steps[0].results if r]
    assert [r.is_error for r in results] == [True, True, True]
    assert [r.parse_error for r in results] == [False, True, False]
    assert "Accepted: " in results[1].content
    assert "Available: ask, fail, look, write" in results[2].content
    assert play([*items, "done"], tool_budget=3).stop_reason == "tool_budget"
    assert play([{"tool_calls": [bad], "repeat": 9}]).stop_reason == "doom_loop"


# Further stop reasons.


def usage(**numbers: Any) -> dict[str, Any]:
    return {"tool_calls": [call("look")], "usage": numbers, "latency_ms": 400, "repeat": 10}


@pytest.mark.parametrize(
    ("rule", "reason", "at", "value"),
    [
        (bl.max_tokens(250), "token_budget", 3, 330),
        (bl.max_tokens(30, "output_tokens"), "token_budget", 3, 30),
        (bl.max_tokens(200, of="input_tokens"), "token_budget", 2, 200),
        (bl.max_cost(0.3), "cost_budget", 3, 300_000),
        (bl.max_time(1.5), "time_budget", 4, 1600),
    ],
    ids=str,
)
def test_budgets_stop_at_the_first_boundary_that_reaches_them(rule: Any, reason: str, at: int, value: int) -> None:
    run = play([usage(input_tokens=100, output_tokens=10, cost_usd=0.1)], stop=rule)
    assert (run.stop_reason, run.stop_step, run.stop.value) == (reason, at, value)


def test_an_error_streak_stops_and_a_success_resets_it() -> None:
    items = [{"tool_calls": [call(name)]} for name in ("fail", "fail", "look", "fail", "fail", "fail", "look")]
    run = play(items, stop=bl.error_streak(3))
    assert (run.stop_reason, run.stop_step) == ("error_streak", 6)


def test_rule_over_unknown_tokens_ends_the_run_with_an_error() -> None:
    run = play(steps("A B"), stop=bl.max_tokens(1000))
    assert (run.stop_reason, run.stop_step) == ("error", 1)
    assert run.error is not None
    assert run.error.startswith("UnknownCounter: max_tokens(1000)")
    assert "tokens unknown" in run.error


def test_ignored_or_irrelevant_unknown_counter_stops_nothing() -> None:
    assert play(steps("A B"), stop=bl.max_tokens(1000, on_unknown="ignore")).stop_reason == "finished"
    assert play(steps("A B"), stop=bl.max_tokens(1000) & bl.max_steps(9)).stop_reason == "finished"
    assert play(steps("A B"), stop=bl.max_tokens(1000) | bl.max_steps(1)).stop_reason == "step_cap"


# Failures.


def test_failure_of_the_model_ends_the_run_and_keeps_its_record() -> None:
    run = play([*distinct(2, end=None), {"error": {"status": 500}}])
    assert (run.stop_reason, run.stop_step, run.n_steps) == ("error", 2, 3)
    assert run.error == "ModelError: HTTP 500"
    assert run.steps[-1].error == run.error
    assert run.censored


def test_text_before_a_broken_stream_is_kept_and_paid_for() -> None:
    run = play([{"text": "half a sentence", "usage": {"input_tokens": 7}, "error": {"reset": True, "after": 6}}])
    assert run.steps[0].response.text == "half a"
    assert run.steps[0].response.usage.input_tokens == 7


def test_a_response_that_cannot_be_parsed_is_paid_for() -> None:
    run = play([{"usage": {"input_tokens": 7, "output_tokens": 1}, "error": {"garbage": "<html>"}}])
    assert run.error == "ModelError: the response cannot be parsed: '<html>'"
    assert run.steps[0].response.usage.input_tokens == 7


def test_calls_of_a_broken_response_are_logged_as_dropped(caplog: pytest.LogCaptureFixture) -> None:
    class Breaking:
        name = "breaking"

        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            raise bl.errors.ModelError(
                "cut", partial=bl.models.Response("so far", (bl.models.ToolCall("c1", "look", "{}"),))
            )

    with caplog.at_level(logging.WARNING, "boolab.loop"):
        run = play(Breaking())
    assert f"run {run.run_id}: step 1: tool calls dropped: look" in caplog.messages
    assert (run.steps[0].response.text, [one.id for one in run.steps[0].dropped]) == ("so far", ["c1"])


@pytest.mark.parametrize("rule", [bl.max_cost(5) | bl.max_cost(3), bl.max_cost(3) | bl.max_cost(5)], ids=str)
def test_record_holds_the_smaller_of_two_limits_on_a_counter(rule: bl.StopRule) -> None:
    assert play(distinct(1), stop=rule).limits["cost"] == 3 * 10**6


def test_running_out_of_script_is_recorded_as_error() -> None:
    run = play(distinct(2, end=None))
    assert run.stop_reason == "error"
    assert run.error == "ScriptExhausted: the script scripted holds 2 responses; response 3 was asked for"


def test_model_that_returns_no_response_is_an_error_of_the_run() -> None:
    class Wrong:
        name = "wrong"

        async def respond(self, request: Any, emit: Any = None) -> Any:
            return {"text": "hi"}

    run = bl.run_sync(None, "go", model=Wrong())
    assert run.error == "ModelError: the response of the model wrong is malformed: it is a dict, not a Response"


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        (bl.models.Response(None), "text is None, not a str"),  # type: ignore[arg-type]
        (bl.models.Response("", None), "tool_calls is a NoneType, not a tuple"),  # type: ignore[arg-type]
        (bl.models.Response("", (bl.models.ToolCall("a", "look", {}),)), "is no ToolCall of three texts"),  # type: ignore[arg-type]
        (bl.models.Response("", (), "stop", None), "usage is None, not a Usage"),  # type: ignore[arg-type]
        (bl.models.Response("", (), "stop", bl.models.Usage(-1)), "not a Usage of integers >= 0 or None"),
        (bl.models.Response("", (), "stop", bl.models.Usage(cost=0.5)), "not a Usage of integers"),  # type: ignore[arg-type]
        (bl.models.Response("", (), 3), "finish_reason is 3"),  # type: ignore[arg-type]
        (bl.models.Response(reasoning=None), "reasoning is None"),  # type: ignore[arg-type]
        (bl.models.Response(ttft_ms=0.5), "ttft_ms is 0.5"),  # type: ignore[arg-type]
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_response_is_an_error_of_its_run(response: Any, fault: str) -> None:
    class Wrong:
        name = "wrong"

        async def respond(self, request: Any, emit: Any = None) -> Any:
            return response

    run = bl.run_sync(None, "go", model=Wrong())
    assert run.stop_reason == "error"
    assert run.error is not None
    assert fault in run.error
    assert all(len(make(run)) for make in (runs_df, steps_df, events_df))


def test_concurrent_runs_of_the_same_objects_share_no_counters() -> None:
    async def yielding(what: str = "") -> str:
        await asyncio.sleep(0)
        return what

    agent = bl.Agent("a", tools=(bl.tool(name="look")(yielding),), policy=QUIET)
    model = bl.ScriptedModel(steps("A A B B C C"))

    async def many() -> list[bl.Run]:
        return await asyncio.gather(*(run(agent, "go", model=model) for _ in range(50)))

    runs = asyncio.run(many())
    assert {r.stop_reason for r in runs} == {"finished"}
    assert {r.n_tool_calls for r in runs} == {6}
    assert len({r.run_id for r in runs}) == 50


def test_tool_that_runs_an_agent_has_its_own_counters() -> None:
    inner_model = bl.ScriptedModel(steps("A A"))
    inner_runs: list[bl.Run] = []

    async def delegate(task: str) -> str:
        inner = await run(bl.Agent("inner", tools=TOOLS, policy=QUIET, max_steps=3), task, model=inner_model)
        inner_runs.append(inner)
        return inner.text

    items = [{"tool_calls": [call("delegate", task=str(i))]} for i in range(3)]
    outer = play([*items, "end"], agent=bl.Agent("outer", tools=(delegate,), policy=QUIET, max_steps=4))
    assert (outer.stop_reason, outer.n_steps) == ("finished", 4)
    assert [(r.stop_reason, r.n_steps) for r in inner_runs] == [("finished", 3)] * 3


# Pause and resume.


def paused_run(**options: Any) -> bl.Run:
    model = bl.ScriptedModel([*steps("A A", None), {"tool_calls": [call("ask", question="Which?")]}, *steps("A A A")])
    return play(model, **options)


def test_a_pause_tool_stops_the_loop_and_the_paused_step_counts() -> None:
    run = paused_run()
    assert (run.stop_reason, run.stop_step, run.n_steps, run.sentinel) == ("paused", 3, 3, None)
    assert run.censored


def test_a_pause_comes_before_the_caps_next_check() -> None:
    run = paused_run(max_steps=3)
    assert (run.stop_reason, run.stop.also_fired) == ("paused", ())


def test_resumed_run_has_its_own_id_and_names_its_origin(tmp_path: Path) -> None:
    first = paused_run()
    second = asyncio.run(bl.resume(first, "The first one."))
    assert len({first.run_id, second.run_id}) == 2
    assert [dict(e.payload) for e in second.events if e.kind == "resumed"] == [
        {"after_step": 3, "run_id": first.run_id, "step": 3}
    ]
    bl.save_runs([first, second], tmp_path / "runs.parquet")
    bl.save_runs([first, second], tmp_path / "runs.jsonl")
    with bl.Store(tmp_path / "runs.db") as store:
        store.add([first, second])
    for source in ([first, second], *(bl.load_runs(tmp_path / f"runs.{kind}") for kind in ("parquet", "jsonl", "db"))):
        table = runs_df(source).set_index("run_id")
        assert table.loc[second.run_id, "resumed_from"] == first.run_id
        assert table["resumed_from"].notna().sum() == 1
        assert table["parent_run_id"].isna().all()
    assert (
        runs_df(asyncio.run(bl.branch(second, 4, model=bl.ScriptedModel(steps("A")), message="On.")))["resumed_from"]
        .isna()
        .all()
    )


def test_each_resumption_after_a_cap_is_a_run_of_its_own() -> None:
    first = play([{"tool_calls": [call("look", n=n)]} for n in range(9)], policy=BOOCODE, max_steps=2)
    second = asyncio.run(bl.resume(first, "Go on."))
    third = asyncio.run(bl.resume(second, "Go on."))
    table = runs_df([first, second, third])
    assert table["resumed_from"].tolist()[1:] == [first.run_id, second.run_id]
    assert table["run_id"].is_unique


def test_a_resumed_run_remembers_steps_budget_and_recent_calls() -> None:
    first = paused_run(max_steps=4)
    resumed = asyncio.run(bl.resume(first, "The first one."))
    assert (resumed.stop_reason, resumed.stop_step, resumed.n_steps) == ("step_cap", 4, 4)
    assert resumed.run_id != first.run_id
    assert resumed.steps[2].results[0] is not None
    assert resumed.steps[2].results[0].content == "The first one."
    assert first.steps[2].results[0] is not None
    assert first.steps[2].results[0].content == "asked Which?"
    assert asyncio.run(bl.resume(paused_run(tool_budget=5), "x")).stop_step == 5
    asking = play([{"tool_calls": [call("ask")], "repeat": 9}], doom_loop=3)
    twice = asyncio.run(bl.resume(asking, "a"))
    assert twice.stop_reason == "paused"
    thrice = asyncio.run(bl.resume(twice, "b"))
    assert thrice.stop_reason == "paused"
    assert asyncio.run(bl.resume(thrice, "c")).stop_reason == "doom_loop"


def test_the_model_sees_the_answer_as_the_result_of_the_call() -> None:
    def script(messages: Any) -> Any:
        last = messages[-1]
        return {"tool_calls": [call("ask")]} if last.role == "user" else last.parts[0].content.upper()

    paused = play(bl.ScriptedModel(script))
    assert asyncio.run(bl.resume(paused, "blue")).text == "BLUE"


def test_a_pause_tool_with_bad_arguments_does_not_pause() -> None:
    assert play([{"tool_calls": [call("ask", wrong=1)]}, "done"]).stop_reason == "finished"


def test_only_a_paused_run_resumes_and_missing_answer_is_named() -> None:
    with pytest.raises(
        bl.SettingError,
        match="only a paused run, or one that its cap stopped, can be resumed; this one ended with 'finished'",
    ):
        asyncio.run(bl.resume(play(["x"]), "y"))
    with pytest.raises(bl.SettingError, match=r"for each call that waits: \['call_3_1'\]"):
        asyncio.run(bl.resume(paused_run(), {"call_9_9": "y"}))
    with pytest.raises(bl.SettingError, match="made elsewhere"):
        asyncio.run(bl.resume(replace(paused_run(), continuation=None), "y"))


def test_a_pausing_call_that_failed_is_not_waiting_for_an_answer() -> None:
    items = [{"tool_calls": [call("ask", wrong=1), call("ask", question="A?"), call("look")]}, "end"]
    done = asyncio.run(bl.resume(play(items), {"call_1_2": "blue"}))
    assert [r and r.content for r in done.steps[0].results][1:] == ["blue", "seen "]
    assert [r and r.is_error for r in done.steps[0].results] == [True, False, False]
    with pytest.raises(bl.SettingError, match="the answer to call_1_2 is 5; expected a text"):
        asyncio.run(bl.resume(play(items), {"call_1_2": 5}))  # type: ignore[dict-item] # on purpose


def test_options_given_to_resume_replace_those_of_the_start() -> None:
    stopped = asyncio.run(bl.resume(paused_run(), "x", stop=bl.max_steps(3)))
    assert (stopped.stop_reason, stopped.stop_step) == ("step_cap", 3)
    assert asyncio.run(bl.resume(paused_run(), "x", policy="naive")).policy == "naive"


def test_events_of_a_resumed_run_continue_after_the_pause() -> None:
    told: list[Event] = []

    async def synthesis(calls: Any, results: Any) -> str | None:
        raise ValueError

    first = paused_run(synthesis=synthesis)
    assert [e.kind for e in first.events] == ["fault"] * 2
    done = asyncio.run(bl.resume(first, "x", on_event=told.append, synthesis=None))
    events = run_events(done)
    assert [e for e in told if e.kind != "delta"] == events[-len([e for e in told if e.kind != "delta"]) :]
    assert [e.kind for e in events].count("fault") == 2
    assert done.steps[:2] == first.steps[:2]


def test_pickled_paused_run_loses_only_its_continuation() -> None:
    first = paused_run()
    again = pickle.loads(pickle.dumps(first))  # noqa: S301 - its own
    assert again == first
    assert again.continuation is None


def test_run_paused_elsewhere_resumes_with_agent_and_model() -> None:
    elsewhere = replace(paused_run(), continuation=None)
    model = bl.ScriptedModel([*steps("A A A"), "the end"])
    resumed = asyncio.run(bl.resume(elsewhere, "y", agent=bl.Agent("a", tools=TOOLS, policy=QUIET), model=model))
    assert (resumed.text, resumed.n_steps) == ("done", 4)


# The wrap-up.

SUMMARY = {"text": "I looked.", "usage": {"input_tokens": 50, "output_tokens": 5, "cost_usd": 0.001}}


def test_summary_is_requested_without_tools_outside_the_cap() -> None:
    model = Listening(distinct(9), summary=SUMMARY)
    run = play(model, max_steps=2, policy=BOOCODE)
    requests = [(request.purpose, len(request.tools), request.index) for request in model.requests]
    assert requests == [("step", 4, 0), ("step", 4, 1), ("summary", 0, 2)]
    assert (run.stop_reason, run.n_steps, run.text) == ("step_cap", 2, "I looked.")
    assert [m.role for m in run.messages][-2:] == ["assistant", "sentinel"]


def test_script_without_a_summary_gives_the_static_text() -> None:
    run = play(distinct(9), max_steps=2, policy=BOOCODE)
    assert run.wrap_up is not None
    assert run.wrap_up.response is None
    assert run.wrap_up.fault == ""
    assert "Step limit reached" in run.text


@pytest.mark.parametrize(
    ("summary", "fault"),
    [
        ({"error": {"status": 500}}, "ModelError: HTTP 500"),
        ({"tool_calls": [call("look")]}, "the model called tools"),
        ({"text": ""}, "the model returned no text"),
    ],
)
def test_failed_summary_is_recorded_and_keeps_the_stop_reason(summary: Any, fault: str) -> None:
    run = play(bl.ScriptedModel(distinct(9), summary=summary), max_steps=2, policy=BOOCODE)
    assert (run.stop_reason, run.n_steps) == ("step_cap", 2)
    assert run.wrap_up is not None
    assert run.wrap_up.fault == fault
    assert "Step limit reached" in run.text
    assert [e.payload["what"] for e in run.events if e.kind == "fault"] == [f"the summary failed: {fault}"]


def test_a_malformed_summary_fails_as_the_summary_it_is() -> None:
    class Wrong(bl.ScriptedModel):
        async def respond(self, request: bl.models.Request, emit: Any = None) -> Any:
            return None if request.purpose == "summary" else await super().respond(request, emit)

    run = play(Wrong(distinct(9), summary=SUMMARY), max_steps=2, policy=BOOCODE)
    assert run.wrap_up is not None
    assert run.wrap_up.fault == "ModelError: the summary is malformed: it is a NoneType, not a Response"


def test_summary_can_be_static_or_none_and_the_sentinel_stays() -> None:
    model = bl.ScriptedModel(distinct(9), summary=SUMMARY)
    static = play(model, max_steps=2, policy=BOOCODE.vary(wrap_up={"summary": "static"}))
    assert static.wrap_up is not None
    assert static.wrap_up.response is None
    off = play(model, max_steps=2, policy=BOOCODE.vary(wrap_up={"summary": "none"}))
    assert (off.wrap_up, off.text) == (None, "")
    assert off.sentinel == static.sentinel == Sentinel("cap_hit", "Step limit reached: max_steps(2) at step 2.")


def test_finished_paused_and_broken_runs_get_no_sentinel() -> None:
    for items in (["done"], [{"tool_calls": [call("ask")]}], [{"error": {"reset": True}}]):
        run = play(items, policy=BOOCODE)
        assert run.sentinel is None
        assert run.wrap_up is None


@pytest.mark.parametrize(
    ("rule", "kind", "words"),
    [
        (bl.max_steps(2), "cap_hit", "Step limit reached: max_steps(2) at step 2."),
        (bl.max_tokens(15), "cap_hit", "Token budget exhausted: max_tokens(15) at step 2."),
        (bl.max_cost(0.15), "cap_hit", "Cost budget exhausted: max_cost(0.15) at step 2."),
        (bl.max_time(0.2), "cap_hit", "Time budget exhausted: max_time(0.2) at step 2."),
        (bl.error_streak(2), "error_streak", "Too many errors in a row: error_streak(2) at step 2."),
    ],
    ids=str,
)
def test_every_limit_ends_with_a_sentinel_that_names_its_rule(rule: Any, kind: str, words: str) -> None:
    item = {"tool_calls": [call("fail")], "latency_ms": 100, "repeat": 9}
    item["usage"] = {"input_tokens": 9, "output_tokens": 1, "cost_usd": 0.1}
    assert play([item], policy=BOOCODE, stop=rule).sentinel == Sentinel(kind, words)


def test_summary_prompt_is_the_last_message_of_the_history() -> None:
    model = Listening(distinct(9), summary="sum")
    run = play(model, max_steps=2, policy=BOOCODE, seed=5)
    *history, prompt = model.requests[-1].messages
    assert (prompt.role, prompt.text, model.requests[-1].run_seed) == ("user", SUMMARY_PROMPT, 5)
    assert history == list(run.messages[:5])


def test_what_came_of_a_summary_that_broke_is_paid_for() -> None:
    summary = {
        "text": "half of it",
        "usage": {"input_tokens": 7, "output_tokens": 2},
        "error": {"reset": True, "after": 4},
    }
    run = play(bl.ScriptedModel(distinct(9), summary=summary), max_steps=2, policy=BOOCODE)
    assert run.wrap_up is not None
    assert run.wrap_up.response is not None
    assert run.wrap_up.response.usage.input_tokens == 7
    assert runs_df(run)["summary_tokens"].tolist() == [9]


def test_stop_rule_disables_zero_steps_and_the_closing_step() -> None:
    assert play(steps("A B"), max_steps=0, stop=bl.max_steps(9)).n_tool_calls == 2
    run, offered = requests_of(distinct(4), max_steps=2, stop=bl.max_steps(9))
    assert (run.stop_reason, offered) == ("finished", [4] * 5)


# opencode_3631.


def requests_of(items: list[Any], **options: Any) -> tuple[bl.Run, list[int]]:
    """The run, and how many tools each request carried."""
    model = Listening(items)
    return play(model, policy="opencode_3631", **options), [len(request.tools) for request in model.requests]


def test_opencode_3631_prompts_for_a_text_in_the_last_step_only() -> None:
    model = Listening([*steps("A", None), "summary"])
    run = play(model, policy="opencode_3631", max_steps=2)
    assert [messages[-1].text for messages in model.of()] == ["go", bl.policies["opencode_3631"].last_step.prompt]
    assert bl.policies["opencode_3631"].last_step.prompt not in [m.text for m in run.messages]


def test_3631_a_limit_above_the_ceiling_closes_at_the_ceiling() -> None:
    run, offered = requests_of(distinct(1200), max_steps=1100)
    assert (run.stop_reason, run.stop_step, run.stop.rule) == ("step_cap", 1000, "ceiling(1000)")
    assert offered[-2:] == [4, 0]


STATUS = Sentinel("cap_hit", "Step limit reached: max_steps(2) at step 2.")


def test_3631_calls_at_the_last_step_leave_a_status_of_the_limit() -> None:
    run, _ = requests_of(steps("A B", None), max_steps=2)
    assert (run.stop_reason, run.sentinel) == ("step_cap", STATUS)
    assert run.text == "Step limit reached: max_steps(2) at step 2. The work may be unfinished."
    assert [m.text for m in run.messages[-2:]] == [run.text, STATUS.text]
    assert bl.runs_df(run)["summary_calls"].item() == 0


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ({"text": "So far.", "tool_calls": [letter("B")]}, "So far."),
        ({"text": "half", "error": {"reset": True, "after": 4}}, "half"),
        ({"error": {"status": 500}}, "Step limit reached: max_steps(2) at step 2. The work may be unfinished."),
        ({"text": ""}, "Step limit reached: max_steps(2) at step 2. The work may be unfinished."),
    ],
)
def test_opencode_3631_end_without_plain_text_names_the_limit(last: dict[str, Any], text: str) -> None:
    run, _ = requests_of([*steps("A", None), last], max_steps=2)
    assert (run.stop_reason, run.text, run.sentinel) == ("step_cap", text, STATUS)


def test_3631_a_text_at_the_last_step_needs_no_status() -> None:
    run, _ = requests_of([*steps("A", None), "All in all."], max_steps=2)
    assert (run.text, run.sentinel, run.wrap_up) == ("All in all.", None, None)


def test_3631_steps_0_is_an_error_before_the_first_request() -> None:
    with pytest.raises(bl.SettingError, match="max_steps=0 is not valid under opencode_3631: expected an integer >= 1"):
        bl.Agent("a", policy="opencode_3631", max_steps=0)
    with pytest.raises(bl.SettingError, match="max_steps=0 is not valid"):
        bl.run_sync(bl.Agent("a", max_steps=0), "go", model=bl.ScriptedModel(["x"]), policy="opencode_3631")


# naive: the failures that the loop makes visible.


def test_naive_continues_after_text_whose_reason_is_not_stop() -> None:
    run = play([{"text": "to be contin", "finish_reason": "length"}, "ued"], policy="naive")
    assert (run.stop_reason, run.n_steps, run.stop_step) == ("finished", 2, 1)


# Events, messages, logging.


def all_kinds_of_runs() -> list[bl.Run]:
    return [
        play(steps("A BC"), policy=BOOCODE),
        play(bl.ScriptedModel(distinct(9), summary=SUMMARY), max_steps=2, policy=BOOCODE),
        play(steps("A A A"), policy=BOOCODE),
        play([{"text": "x", "reasoning": "y", "tool_calls": [call("fail"), call("nowhere")]}, "z"]),
        play([{"text": "abc", "error": {"reset": True, "after": 2}}]),
        play([{"tool_calls": [call("look")], "finish_reason": "stop"}], policy="naive"),
        play(steps("A B", None), policy="opencode_3631", max_steps=2),
        paused_run(),
        play([], stop=bl.max_steps(0)),
    ]


def test_step_start_is_part_zero_and_part_numbers_are_unique() -> None:
    for record in all_kinds_of_runs():
        places = [(e.payload["message"], e.payload["part"]) for e in run_events(record) if "part" in e.payload]
        assert len(places) == len(set(places))
        starts = [e.payload for e in run_events(record) if e.kind == "step_start"]
        assert [s["part"] for s in starts] == [0] * record.n_steps
        assert [s["step_number"] for s in starts] == list(range(1, record.n_steps + 1))
        for start in starts:
            part = record.messages[start["message"]].parts[0]
            assert part == StepStart(start["step_number"], start["started_at"])


def test_events_point_at_the_parts_of_the_runs_messages() -> None:
    for record in all_kinds_of_runs():
        for event in run_events(record):
            if event.kind in ("tool_call", "tool_result"):
                part: Any = record.messages[event.payload["message"]].parts[event.payload["part"]]
                assert event.payload["call_id"] == (part.id if isinstance(part, bl.models.ToolCall) else part.call_id)


def test_the_events_told_live_are_those_derived_from_the_record() -> None:
    items = [{"text": "a b", "tool_calls": [letter("A"), letter("B")], "latency_ms": 100}, *steps("A A A")]
    cases: list[tuple[Any, dict[str, Any]]] = [(BOOCODE, {}), ("naive", {}), ("opencode_3631", {"max_steps": 2})]

    async def answer(calls: Any, results: Any) -> str | None:
        return "the answer" if len(results) == 1 else None

    async def broken(calls: Any, results: Any) -> str | None:
        raise ValueError

    cases += [(BOOCODE, {"synthesis": answer}), (BOOCODE, {"synthesis": broken}), (BOOCODE, {"score": lambda run: 3})]
    for policy, options in cases:
        told: list[Event] = []
        run = play(items, policy=policy, on_event=told.append, **options)
        assert [e for e in told if e.kind != "delta"] == run_events(run)
        assert [e.payload["text"] for e in told if e.kind == "delta" and e.payload["of"] == "text"][:2] == ["a ", "b"]


def test_failing_watcher_is_dropped_and_the_run_continues(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event] = []

    def watcher(event: Event) -> None:
        told.append(event)
        raise ValueError(event.kind)

    run = play(steps("A B"), on_event=watcher)
    assert (run.stop_reason, len(told)) == ("finished", 1)
    assert [e.payload["what"] for e in run.events] == ["on_event failed: ValueError: step_start"]
    assert "on_event failed" in caplog.text


def test_durations_follow_from_where_the_next_step_begins() -> None:
    run = play([{"tool_calls": [letter(x)], "latency_ms": ms} for x, ms in (("A", 300), ("B", 50))] + ["end"])
    frame = steps_df(run)
    assert frame["start_ms"].tolist() == [0, 300, 350]
    assert frame["duration_ms"].tolist() == [300, 50, 0]


def test_a_parallel_step_takes_as_long_as_its_longest_call() -> None:
    async def wait(seconds: float, ctx: bl.ToolContext) -> str:
        await ctx.sleep(seconds)
        return "ok"

    items = [{"tool_calls": [call("wait", seconds=s) for s in (0.5, 2.0, 1.0)], "latency_ms": 100}, "end"]
    run = play(items, agent=bl.Agent("a", tools=(wait,)))
    assert run.steps[0].duration_ms == 2100
    assert [r and r.duration_ms for r in run.steps[0].results] == [500, 2000, 1000]


def test_step_starts_stop_and_end_are_logged_with_the_run_id(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "boolab.loop"):
        run = play(steps("A A A"), policy=BOOCODE)
    assert [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "boolab.loop"] == [
        *(("INFO", f"run {run.run_id}: step_start {n}/200") for n in (1, 2, 3)),
        ("INFO", f"run {run.run_id}: stopped by doom_loop at step 3: doom_loop(3, ordered), value 3"),
        ("INFO", f"run {run.run_id}: left the loop: doom_loop after 3 steps, 3 tool calls"),
    ]


def test_step_logs_count_towards_the_cap_and_have_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "boolab.loop"):
        run = play(steps("A B C"), policy=BOOCODE, max_steps=2)
    records = [r for r in caplog.records if r.name == "boolab.loop"]
    assert [r.getMessage().removeprefix(f"run {run.run_id}: ") for r in records[:2]] == [
        "step_start 1/2",
        "step_start 2/2",
    ]
    fields = [(r.event, r.run_id, r.step) for r in records]  # type: ignore[attr-defined]
    assert fields == [
        (what, run.run_id, n) for what, n in (("step_start", 1), ("step_start", 2), ("stop", 2), ("end", 2))
    ]
    _, second, stop, end = map(vars, records)
    assert (second["cap"], second["turn"], second["agent"]) == (2, 1, "tester")
    assert (stop["stop_reason"], stop["stop_rule"], stop["stop_threshold"], stop["stop_value"]) == run.stop[
        :1
    ] + run.stop[2:5]
    assert (end["n_steps"], end["n_tool_calls"]) == (2, 2)


def test_without_a_cap_a_step_is_logged_by_its_number_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "boolab.loop"):
        play(steps("A"), stop=bl.max_tokens(10_000, on_unknown="ignore"))
    assert [r.getMessage().partition(": ")[2] for r in caplog.records][:2] == ["step_start 1", "step_start 2"]


def test_tool_phase_names_the_event_and_decides_nothing() -> None:
    async def phase(items: list[Any]) -> Action:
        turn = turn_of({"agent": bl.Agent("a", tools=TOOLS), "model": bl.ScriptedModel(items)}, "go")
        request, emit = turn.begin_step()
        response = await turn.plan.model.respond(request, emit)
        turn.accept_response(response)
        return await tool_phase(turn, response)

    assert asyncio.run(phase(steps("AB"))) == "continue"
    assert asyncio.run(phase([{"tool_calls": [call("ask")]}])) == "paused"


def test_step_start_event_has_the_index_of_its_message() -> None:
    run = play(steps("A BC"))
    starts = [e.payload["message"] for e in run_events(run) if e.kind == "step_start"]
    assert starts == [1, 3, 5]
    assert [m.role for m in run.messages] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_the_messages_that_a_model_sees_are_those_of_the_record() -> None:
    seen: list[Any] = []

    def script(messages: Any) -> Any:
        seen.append(list(messages))
        return {"tool_calls": [letter("A"), letter("B")]} if len(seen) < 4 else "end"

    run = play(bl.ScriptedModel(script))
    for n, messages in enumerate(seen):
        assert messages == list(run.messages[: 1 + 2 * n])


def test_a_score_fills_success_and_a_failing_score_is_noted() -> None:
    assert play(["yes"], score=lambda run: run.text == "yes").success is True
    assert play(["no"], score=lambda run: run.text == "yes").success is False
    assert play(["no"]).success is None
    for score in (lambda run: bool(run.nonsense), lambda run: 0.7):
        broken = play(["no"], score=score)
        assert broken.success is None
        assert broken.events[0].kind == "fault"


def test_a_long_run_has_no_depth() -> None:
    run = play(distinct(1_100), policy=QUIET.vary(cap={"ceiling": None}), tool_budget=None)
    assert (run.stop_reason, run.n_steps) == ("finished", 1_101)


def test_each_fault_has_its_code() -> None:
    def fail(*_: object) -> Any:
        raise ValueError

    policy = bl.policies["boocode"].vary(continues={"by": "ask"})
    agent = bl.Agent("a", tools=TOOLS, max_steps=1)
    run = bl.run_sync(
        agent, "go", model=bl.ScriptedModel(steps("A A")), policy=policy, ask=fail, score=fail, synthesis=fail,
        on_event=fail,
    )  # fmt: skip
    codes = [event.payload["code"] for event in run.events if event.kind == "fault"]
    assert codes == ["on_event", "synthesis", "ask", "score"]


def test_the_while_loop_fits_on_a_screen() -> None:
    assert len(inspect.getsource(loop).splitlines()) <= 60


def test_a_run_that_never_waits_lets_other_tasks_in() -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async def busy() -> bl.Run:
        heart = asyncio.create_task(beat())
        policy = QUIET.vary(cap={"ceiling": None})
        done = await run(
            bl.Agent("a", tools=TOOLS, policy=policy, tool_budget=None), "go", model=bl.ScriptedModel(distinct(5000))
        )
        heart.cancel()
        return done

    assert asyncio.run(busy()).n_steps == 5001
    assert beats > 2
