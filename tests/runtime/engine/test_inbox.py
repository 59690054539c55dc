"""The inbox: messages of the user that arrive while an agent runs."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import boolab as bl
from boolab.core.types import Event
from boolab.runtime.engine.interventions import REMINDER
from boolab.whatif.from_runs import ledger_of
from tests.support.helpers import QUIET, TOOLS, distinct, play

V1, V2 = bl.policies["opencode_v1"], bl.policies["opencode_v2"]


def sending(inbox: bl.Inbox, *steps: int) -> Callable[[Event], object]:
    """A watcher that sends a message while each of those steps is under way."""

    def on_event(event: Event) -> None:
        if event.kind == "step_start" and event.payload["step_number"] in steps:
            inbox.send(f"Message {event.payload['step_number']}.")

    return on_event


def steered(items: Any, *steps: int, inbox: bl.Inbox | None = None, **options: Any) -> bl.Run:
    """A run into whose steps messages of the user fall."""
    inbox = bl.Inbox() if inbox is None else inbox
    return play(items, inbox=inbox, on_event=sending(inbox, *steps), **options)


def came_in(run: bl.Run) -> list[tuple[int, str]]:
    """The messages that came in, each with the step before which it stands."""
    return [(before, message.text) for before, message in run.inputs]


def test_message_comes_before_the_step_after_its_arrival() -> None:
    run = steered(distinct(3), 1, 3)
    assert came_in(run) == [(2, "Message 1."), (4, "Message 3.")]
    assert [message.text for message in run.messages if message.role == "user"] == ["go", "Message 1.", "Message 3."]
    assert [(event.kind, event.payload["after_step"]) for event in run.events] == [("input", 1), ("input", 3)]


def test_one_that_waits_already_comes_in_before_the_first_step() -> None:
    inbox = bl.Inbox()
    inbox.send("Hello.")
    assert came_in(play(["done"], inbox=inbox)) == [(1, "Hello.")]
    assert len(inbox) == 0


def test_kept_messages_stay_in_the_inbox_for_the_next_turn() -> None:
    inbox = bl.Inbox()
    run = steered(distinct(3), 1, 2, inbox=inbox, policy=QUIET.vary(inputs={"queued": "kept"}))
    assert (run.inputs, len(inbox)) == ((), 2)
    assert came_in(play(["done"], inbox=inbox)) == [(1, "Message 1."), (1, "Message 2.")]


def test_opencode_wraps_a_message_as_reminder_from_step_two() -> None:
    inbox = bl.Inbox()
    inbox.send("At first.")
    run = steered(distinct(3), 1, inbox=inbox, policy=V1)
    assert came_in(run) == [(1, "At first."), (2, REMINDER.format("Message 1."))]
    assert [event.kind for event in run.events] == ["input", "reminder"]


def test_second_run_of_an_agent_wraps_nothing_at_its_first_step() -> None:
    model, agent = bl.ScriptedModel(distinct(3)), bl.Agent("a", tools=TOOLS, policy=V1)
    assert bl.run_sync(agent, "go", model=model).n_steps == 4
    inbox = bl.Inbox()
    inbox.send("At first.")
    assert came_in(bl.run_sync(agent, "go", model=model, inbox=inbox)) == [(1, "At first.")]


def test_new_message_starts_a_turn_and_step_count_in_opencode_v2() -> None:
    run = steered(distinct(9, None), 2, policy=V2, max_steps=3)
    assert [step.turn for step in run.steps] == [1, 1, 2, 2, 2]
    assert (run.stop_reason, run.stop_step) == ("step_cap", 3)
    assert bl.runs_df(run)["n_turns"].tolist() == [2]
    free = play(distinct(9, None), policy=V2, max_steps=3)
    assert [step.turn for step in free.steps] == [1, 1, 1]


def test_opencode_v2_takes_a_message_before_its_cap() -> None:
    run = steered(distinct(9, None), 3, policy=V2, max_steps=3)
    assert [step.turn for step in run.steps] == [1, 1, 1, 2, 2, 2]
    assert came_in(run) == [(4, "Message 3.")]


def test_frames_and_ledger_count_such_turns_as_the_live_run_did() -> None:
    inbox = bl.Inbox()

    async def live() -> tuple[bl.Run, list[tuple[int, int | None, int | None]]]:
        agent = bl.Agent("a", tools=TOOLS, policy=V2, max_steps=3)
        options: dict[str, Any] = {"inbox": inbox, "on_event": sending(inbox, 2, 4)}
        async with bl.start(agent, "go", model=bl.ScriptedModel(distinct(9, None)), **options) as run:
            seen = [(s.turn, run.progress["steps"], run.progress["tool_calls"]) async for s in run]
        return run.run, seen

    run, seen = asyncio.run(live())
    frame = bl.boundaries_df(run)
    rows = list(zip(frame["turn"], frame["boundary"], frame["tool_calls"], strict=True))
    counted = [row for row in rows if row[1] > 0]
    # The last step of each turn with a cap has its call refused: an error result is a result.
    assert counted == seen
    ledger = ledger_of(run)
    assert ledger.counters["tool_calls"].tolist() == [calls for _, _, calls in seen]


def test_a_message_keeps_a_loop_going_that_a_text_would_end() -> None:
    for name in ("opencode_v1", "opencode_v2", "goose"):
        run = steered(["Done?", "Done."], 1, policy=name)
        assert (run.stop_reason, run.n_steps, run.text) == ("finished", 2, "Done.")
        assert len(run.inputs) == 1  # and nobody else says anything
    assert steered(["Done?", "Done."], 1).text == "Done?"


def test_message_kept_for_the_next_turn_does_not_extend_the_loop() -> None:
    inbox = bl.Inbox()
    run = steered(["Done."], 1, inbox=inbox, policy=V1.vary(inputs={"queued": "kept"}))
    assert (run.stop_reason, run.n_steps, len(inbox)) == ("finished", 1, 1)


def test_at_a_boundary_that_stops_nothing_is_let_in() -> None:
    inbox = bl.Inbox()
    run = steered(distinct(9), 2, inbox=inbox, max_steps=2)
    assert (run.stop_reason, run.inputs, [event.kind for event in run.events]) == ("step_cap", (), ["sentinel"])
    assert [message.text for message in inbox.take()] == ["Message 2."]


def test_message_during_a_tool_call_is_added_after_its_result() -> None:
    inbox = bl.Inbox()

    @bl.tool
    def work() -> str:
        """Work."""
        inbox.send("Meanwhile.")
        return "worked"

    agent = bl.Agent("a", tools=(work,), policy=QUIET)
    run = bl.run_sync(agent, "go", model=bl.ScriptedModel([{"tool_calls": [{"name": "work"}]}, "done"]), inbox=inbox)
    assert [message.role for message in run.messages] == ["user", "assistant", "tool", "user", "assistant"]


def test_messages_may_come_from_another_thread() -> None:
    inbox = bl.Inbox()

    @bl.tool(thread=True)
    def work() -> str:
        """Work."""
        others = [threading.Thread(target=inbox.send, args=(str(i),)) for i in range(20)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        return "worked"

    agent = bl.Agent("a", tools=(work,), policy=QUIET)
    run = bl.run_sync(agent, "go", model=bl.ScriptedModel([{"tool_calls": [{"name": "work"}]}, "done"]), inbox=inbox)
    assert sorted(int(text) for before, text in came_in(run) if before == 2) == list(range(20))


def test_a_live_run_has_an_inbox_of_its_own() -> None:
    async def live() -> bl.Run:
        async with bl.start(bl.Agent("a", tools=TOOLS, policy=QUIET), "go", model=bl.ScriptedModel(distinct(3))) as run:
            async for step in run:
                run.send(f"After {step.index}.")
        return run.run

    assert came_in(asyncio.run(live())) == [(2, "After 1."), (3, "After 2."), (4, "After 3.")]


def test_a_live_run_uses_the_inbox_that_it_is_given() -> None:
    inbox = bl.Inbox()
    live = bl.start(None, "go", model=bl.ScriptedModel(["x"]), inbox=inbox)
    live.send("Hello.")
    assert len(inbox) == 1


def test_a_run_that_is_resumed_keeps_its_inbox() -> None:
    inbox = bl.Inbox()
    run = play([*distinct(1, None), {"tool_calls": [{"name": "ask"}]}, "done"], inbox=inbox)
    inbox.send("By the way.")
    assert came_in(asyncio.run(bl.resume(run, "Blue."))) == [(3, "By the way.")]


def test_an_inbox_takes_texts_and_runs_take_inboxes() -> None:
    with pytest.raises(bl.SettingError, match="inbox: 5 is no text"):
        bl.Inbox().send(5)  # type: ignore[arg-type] # on purpose
    with pytest.raises(bl.SettingError, match=r"expected a bl\.Inbox"):
        play(["x"], inbox=["Hello."])


def test_what_a_budget_counts_is_not_changed_by_messages() -> None:
    assert (
        steered(distinct(9), 1, 2, stop=bl.tool_budget(3)).stop_step
        == play(distinct(9), stop=bl.tool_budget(3)).stop_step
    )
