"""Compaction: a history that grows too long is summed up on the way, and the record keeps all of it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import boolab as bl
from boolab.core.codec import run_fields, run_of
from boolab.core.context import Context, estimated_tokens
from boolab.core.messages import Message, Reasoning, Text
from boolab.core.types import ToolResult
from boolab.harnesses.compaction import COMPACTION_PROMPT
from boolab.runtime.models.base import Emit
from tests.support.helpers import QUIET, Listening, call, distinct, play

USED = {"input_tokens": 90, "output_tokens": 10, "cost_usd": 0.01}
AT_100 = bl.Compaction(at_tokens=100, keep_steps=1)


def busy(n: int, end: str | None = "done", **more: Any) -> list[Any]:
    """N steps with one call each, after each of which the context has 100 tokens and the result."""
    items = [item | {"usage": USED} | more for item in distinct(n, None)]
    return items if end is None else [*items, {"text": end, "usage": USED}]


def compacted(items: Any, compaction: bl.Compaction = AT_100, *, summary: Any = "So far.", **options: Any) -> bl.Run:
    """A run whose model sums up when it is asked to."""
    return play(bl.ScriptedModel(items, compaction=summary), compaction=compaction, **options)


def texts(messages: Sequence[Message]) -> str:
    """All that is said and given in messages, in one text."""
    parts = [part for message in messages for part in message.parts]
    return " ".join(getattr(part, "text", getattr(part, "content", "")) for part in parts)


def test_compaction_runs_before_the_next_step_beyond_its_limit() -> None:
    model = Listening(busy(3), compaction="So far.")
    play(model, compaction=bl.Compaction(at_tokens=150, keep_steps=1))
    assert [request.purpose for request in model.requests] == ["step"] * 4  # 100 tokens and a short result are fewer
    model = Listening(busy(2), compaction="So far.")
    play(model, compaction=AT_100)
    assert [request.purpose for request in model.requests] == ["step", "step", "compaction", "step"]


def test_a_limit_that_is_just_reached_is_not_exceeded() -> None:
    tokens = 100 + estimated_tokens([Message("tool", (ToolResult("", "seen 0"),))])
    assert play(bl.ScriptedModel(busy(2), compaction="x"), compaction=bl.Compaction(at_tokens=tokens)).compactions == ()
    assert play(bl.ScriptedModel(busy(2), compaction="x"), compaction=bl.Compaction(at_tokens=tokens - 1)).compactions


def test_request_after_compaction_has_the_summary_and_is_shorter() -> None:
    model = Listening(busy(5), compaction="So far.")
    play(model, compaction=bl.Compaction(at_tokens=100, keep_steps=1))
    *_, before, after = model.of("step")
    assert len(after) == len(before) == 4  # prompt, summary, one step and its result
    assert "So far." in after[1].text
    assert [message.role for message in after] == ["user", "user", "assistant", "tool"]
    free = Listening(busy(5))
    play(free)
    assert len(free.of("step")[-1]) == 11


def test_compaction_request_has_no_tools_and_is_outside_the_cap() -> None:
    model = Listening(busy(3, None), compaction="So far.")
    run = play(model, compaction=AT_100, max_steps=3)
    assert (run.stop_reason, run.stop_step, run.n_steps) == ("step_cap", 3, 3)
    (asked,) = model.of("compaction")
    assert asked[-1].text == COMPACTION_PROMPT
    assert [message.role for message in asked] == ["user", "assistant", "tool", "user"]
    assert [request.tools for request in model.requests if request.purpose == "compaction"] == [()]


def test_later_compaction_includes_the_earlier_summary() -> None:
    model = Listening(busy(4), compaction="So far.")
    run = play(model, compaction=AT_100)
    first, second, *_ = model.of("compaction")
    assert "So far." not in texts(first)
    assert "So far." in texts(second)
    assert "seen 0" in texts(first)
    assert "seen 0" not in texts(second)
    assert [(one.before, one.kept_from) for one in run.compactions] == [(3, 2), (4, 3), (5, 4)]


@pytest.mark.parametrize("keep", [0, 1, 2, 3])
def test_the_latest_steps_are_kept_whole_with_their_results(keep: int) -> None:
    model = Listening(busy(5, tool_calls=[call("look", what="x"), call("fail")]), compaction="So far.")
    play(
        model, compaction=bl.Compaction(at_tokens=100, keep_steps=keep), policy=QUIET, doom_loop=None, tool_budget=None
    )
    last = model.of("step")[-1]
    assert sum(message.role == "assistant" for message in last) == keep
    for message, then in zip(last, [*last[1:], None], strict=True):
        calls = [part.id for part in message.parts if isinstance(part, bl.models.ToolCall)]
        answers = [part.call_id for part in then.parts if isinstance(part, ToolResult)] if then else []
        assert calls == answers


def test_record_keeps_all_messages_and_the_compactions_sent() -> None:
    run, free = compacted(busy(4)), play(busy(4))
    assert run.messages == free.messages
    assert run.steps == free.steps
    assert [one.summary for one in run.compactions] == ["So far."] * 3
    noted = [event for event in run.events if event.kind == "compaction"]
    assert [(e.payload["after_step"], e.payload["kept_from"], e.payload["what"]) for e in noted] == [
        (2, 2, "So far."), (3, 3, "So far."), (4, 4, "So far."),
    ]  # fmt: skip
    assert run_of(run_fields(run)) == run


def test_summaries_count_as_wrap_up_calls_and_are_in_the_totals() -> None:
    run = compacted(
        busy(3), summary={"text": "So far.", "usage": {"input_tokens": 7, "output_tokens": 2, "cost_usd": 1}}
    )
    row = bl.runs_df(run).iloc[0]
    assert (row["summary_calls"], row["summary_tokens"]) == (2, 18)
    assert (row["input_tokens"], row["output_tokens"]) == (4 * 90 + 14, 4 * 10 + 4)
    assert row["cost_usd"] == pytest.approx(2.04)
    assert "tokens 374 in, 44 out, $2.0400" in str(run)


def test_a_summary_before_and_one_after_a_limit_are_both_counted() -> None:
    model = bl.ScriptedModel(
        busy(3, None), summary={"text": "So far.", "usage": {"input_tokens": 7, "output_tokens": 2}}
    )
    row = bl.runs_df(play(model, compaction=AT_100, policy="boocode", max_steps=3)).iloc[0]
    assert (row["summary_calls"], row["summary_tokens"]) == (2, 18)


@pytest.mark.parametrize(
    ("summary", "fault", "paid"),
    [
        ({"error": {"status": 500}}, "ModelError: HTTP 500", 1),
        ({"text": "", "usage": USED}, "the model returned no text", 1),
        ({"tool_calls": [call()], "usage": USED}, "the model called tools", 1),
        (None, "the model has no summary", 0),
    ],
)
def test_failed_compaction_is_recorded_paid_and_history_is_sent(summary: Any, fault: str, paid: int) -> None:
    run = compacted(busy(4), summary=summary)
    assert run.stop_reason == "finished"
    assert [(one.fault, one.summary, one.asked) for one in run.compactions] == [(fault, "", bool(paid))]
    assert [event.payload["what"] for event in run.events] == [f"the compaction failed: {fault}"]
    assert bl.runs_df(run)["summary_calls"].tolist() == [paid]


def test_failed_compaction_keeps_partial_text_and_unknown_cost() -> None:
    broken = compacted(busy(3), summary={"text": "So far and", "usage": USED, "error": {"reset": True, "after": 6}})
    kept = broken.compactions[0].response
    assert kept is not None
    assert kept.text == "So far"
    assert bl.runs_df(broken)["summary_tokens"].tolist() == [100]
    nothing = compacted(busy(3), summary={"text": "So far.", "usage": USED, "error": {"reset": True}})
    assert bl.runs_df(nothing)["input_tokens"].isna().tolist() == [True]


def test_failed_compaction_is_retried_only_in_the_next_turn() -> None:
    model = bl.ScriptedModel(busy(9, None), summary={"error": {"reset": True}})
    run = play(model, compaction=AT_100, policy="boocode", max_steps=4)
    assert [one.before for one in run.compactions] == [3]
    assert [one.before for one in asyncio.run(bl.resume(run, "Go on.")).compactions] == [3, 5]


def test_a_branch_retries_a_compaction_that_failed_a_turn_before() -> None:
    items = [item | ({} if n in (0, 1, 5) else {"usage": {"input_tokens": 9}}) for n, item in enumerate(busy(9, None))]
    model = bl.ScriptedModel(items, summary={"error": {"reset": True}})
    first = play(model, compaction=AT_100, policy="boocode", max_steps=4)
    run = asyncio.run(bl.resume(first, "Go on."))
    assert [(step.index, step.turn) for step in run.steps if step.turn == 2][:2] == [(5, 2), (6, 2)]
    again = bl.ScriptedModel(["Done."], compaction="So far.")
    branch = asyncio.run(bl.branch(run, 6, model=again, policy="boocode", compaction=AT_100))
    assert [(one.before, one.fault == "") for one in branch.compactions] == [(3, False), (7, True)]


def test_a_function_may_sum_up_plain_or_async() -> None:
    def count(messages: Sequence[Message]) -> str:
        return f"{len(messages)} messages"

    async def count_later(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        return count(messages)

    for by in (count, count_later):
        run = play(busy(3), compaction=bl.Compaction(at_tokens=100, by=by))
        assert [one.summary for one in run.compactions] == ["3 messages", "4 messages"]
        assert bl.runs_df(run)["summary_calls"].tolist() == [0]


@pytest.mark.parametrize("what", [None, "", 5])
def test_a_function_that_gives_no_text_has_failed(what: Any) -> None:
    run = play(busy(3), compaction=bl.Compaction(at_tokens=100, by=lambda _: what))
    assert [one.fault for one in run.compactions] == [f"the function gave {what!r}, not a text"]
    assert not run.compactions[0].asked


def test_a_function_that_raises_has_failed() -> None:
    def refuse(_messages: Sequence[Message]) -> str:
        raise bl.errors.ModelError("no")

    run = play(busy(3), compaction=bl.Compaction(at_tokens=100, by=refuse))
    assert [(one.fault, one.asked) for one in run.compactions] == [("ModelError: no", False)]
    assert run.stop_reason == "finished"


def test_its_time_is_in_the_runs_time_and_in_no_steps() -> None:
    run = compacted(busy(3, latency_ms=10), summary={"text": "So far.", "latency_ms": 400})
    assert [one.duration_ms for one in run.compactions] == [400, 400]
    assert [(step.start_ms, step.duration_ms) for step in run.steps] == [(0, 10), (10, 10), (420, 10), (830, 0)]
    assert run.duration_ms == 830


def test_abort_in_compaction_ends_the_run_and_keeps_the_request() -> None:
    abort = bl.Abort()

    class Slow(Listening):
        async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
            if request.purpose == "compaction":
                abort.abort()
                await asyncio.sleep(60)
            return await super().respond(request, emit)

    ended = play(Slow(busy(4), compaction="So far."), compaction=AT_100, abort=abort)
    assert (ended.stop_reason, ended.n_steps) == ("aborted", 2)
    assert [(one.fault, one.asked) for one in ended.compactions] == [("aborted", True)]
    assert [event.kind for event in ended.events] == ["abort"]
    assert bl.runs_df(ended)["summary_calls"].tolist() == [1]


def test_abort_swallowed_by_a_compaction_still_ends_the_run() -> None:
    for outcome in ("So far.", ""):
        abort = bl.Abort()

        def swallow(_messages: Sequence[Message], abort: bl.Abort = abort, outcome: str = outcome) -> str:
            abort.abort()
            return outcome

        ended = play(busy(4), compaction=bl.Compaction(at_tokens=100, by=swallow), abort=abort)
        assert (ended.stop_reason, ended.n_steps) == ("aborted", 2)


def test_compaction_keeps_messages_sent_before_a_kept_step() -> None:
    inbox = bl.Inbox()

    def send(event: Any) -> None:
        if event.kind == "step_start" and event.payload["step_number"] in (1, 3):
            inbox.send(f"Message {event.payload['step_number']}.")

    model = Listening(busy(4), compaction="So far.")
    play(model, compaction=AT_100, inbox=inbox, on_event=send)
    summed, later = model.of("compaction")[0], model.of("step")[3]
    assert "Message 1." not in texts(summed)  # it stands before step 2, which was kept
    assert "Message 1." in texts(model.of("step")[2])
    assert "Message 1." in texts(model.of("compaction")[1])
    assert "Message 1." not in texts(later)
    assert later[-1].text == "Message 3."


def test_compaction_estimate_includes_messages_after_response() -> None:
    inbox = bl.Inbox()

    def send(event: Any) -> None:
        if event.kind == "step_start" and event.payload["step_number"] == 2:
            inbox.send("x" * 4000)

    run = compacted(busy(3), bl.Compaction(at_tokens=1000), inbox=inbox, on_event=send)
    assert [(one.before, one.tokens) for one in run.compactions] == [(3, 1102)]


def test_where_no_usage_tells_a_token_is_four_characters() -> None:
    model = bl.ScriptedModel(distinct(3), compaction="So far.")
    run = play(model, compaction=bl.Compaction(at_tokens=11))
    # The texts are "go", and for each of two steps the name "look", '{"what": "0"}' and "seen 0".
    assert run.compactions[0].tokens == -(-(2 + 2 * (4 + 13 + 6)) // 4)


def test_the_models_window_makes_a_policys_own_compaction_work() -> None:
    for name, window, limit in (("opencode_v1", 20_100, 100), ("crush", 125, 100), ("crush", 1_020_000, 1_000_000)):
        compaction = bl.policies[name].compaction
        assert compaction is not None
        assert compaction.limit(window) == limit
    for name, window in (("opencode_v1", 20_100), ("opencode_v2", 20_100), ("crush", 125)):
        model = bl.ScriptedModel(busy(3), compaction="So far.", context_window=window)
        run = play(model, policy=name)
        assert (run.context_window, len(run.compactions)) == (window, 2)
        assert play(bl.ScriptedModel(busy(3), compaction="So far."), policy=name).compactions == ()


def test_script_compacts_with_compaction_text_or_else_summary() -> None:
    both = play(bl.ScriptedModel(busy(3), summary="The end.", compaction="So far."), compaction=AT_100)
    assert both.compactions[0].summary == "So far."
    assert play(bl.ScriptedModel(busy(3), summary="The end."), compaction=AT_100).compactions[0].summary == "The end."
    ready = bl.ScriptedModel(busy(3), compaction=bl.models.Response("Ready."))
    assert play(ready, compaction=AT_100).compactions[0].summary == "Ready."


def test_a_script_file_may_hold_a_compaction_and_a_window(tmp_path: Any) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("context_window: 500\ncompaction: So far.\nitems: [Hello.]\n")
    model = bl.ScriptedModel.load(path)
    assert (model.context_window, model.compacts, model.summarises) == (500, True, False)
    path.write_text("context_window: 0\nitems: [Hello.]\n")
    with pytest.raises(bl.errors.ScriptError, match="context_window"):
        bl.ScriptedModel.load(path)


def test_script_conditions_match_after_compaction() -> None:
    items = [*busy(3, None), {"text": "Found.", "when": {"last_result": "seen 2"}}, {"text": "Lost."}]
    assert compacted(items).text == "Found."


def test_recorded_model_replays_compactions_without_a_window() -> None:
    summary = {"text": "So far.", "latency_ms": 40, "usage": USED}
    model = bl.ScriptedModel(busy(4), compaction=summary, context_window=20_100)
    first = play(model, policy="opencode_v1")
    again = play(bl.RecordedModel(first), policy="opencode_v1")
    assert len(again.compactions) == 3
    assert (again.compactions, again.steps, again.duration_ms) == (first.compactions, first.steps, first.duration_ms)


def test_resumed_run_sends_the_summary_not_the_whole_history() -> None:
    model = Listening([*busy(3, None), {"tool_calls": [call("ask")]}, "done"], compaction="So far.")
    paused = play(model, compaction=AT_100)
    assert (paused.stop_reason, len(paused.compactions)) == ("paused", 2)
    asyncio.run(bl.resume(paused, "Blue."))
    last = model.of("step")[-1]
    assert "So far." in last[1].text
    assert "seen 0" not in texts(last)
    assert "Blue." in texts(last)


@pytest.mark.parametrize(
    "wrong",
    [
        {"at_tokens": 0},
        {"keep_steps": -1},
        {"reserve": 1.5},
        {"reserve": None},
        {"by": "nobody"},
        {"small_share": 1},
        {"small_share": -0.1},
        {"small_share": float("nan")},
        {"small_share": "half"},
        {"small_share": True},
        {"prompt": ""},
        {"prompt": None},
    ],
)
def test_a_setting_that_makes_no_sense_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(bl.SettingError, match=next(iter(wrong))):
        bl.Compaction(**wrong)


def test_a_context_knows_the_whole_history_behind_it() -> None:
    hello = Message("user", (Text("Hello."),))
    history = [hello] * 5
    inner = Context((hello,), history, 3)
    assert Context((), inner, 0, (hello,)).whole is history
    assert (len(inner), inner[-1], inner[0:2]) == (3, hello, [hello, hello])


def test_compaction_limit_is_window_minus_reserve_or_a_share() -> None:
    small = bl.Compaction(reserve=40, small_window=200, small_share=0.25)
    assert [small.limit(window) for window in (100, 200, 201)] == [75, 150, 161]
    assert bl.Compaction(reserve=50).limit(40) == 1
    assert bl.Compaction(at_tokens=7, reserve=50).limit(200) == 7


def test_reasoning_counts_in_the_estimate() -> None:
    assert estimated_tokens([Message("assistant", (Reasoning("12345678"), Text("1234")))]) == 3


def test_a_context_is_read_from_either_end() -> None:
    first, second, third = messages = [Message("user", (Text(text),)) for text in "abc"]
    context = Context((first,), [third, second], 1, (third,))
    assert [context[place] for place in (0, 1, 2, -1, -2, -3)] == [*messages, third, second, first]
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            context[beyond]


def test_context_that_omits_too_much_has_only_head_and_tail() -> None:
    hello = Message("user", (Text("Hello."),))
    assert len(Context((hello,), [], 3, (hello,))) == 2
