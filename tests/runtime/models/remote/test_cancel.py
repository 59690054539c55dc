"""Cancelling a run wherever it waits for a real server: no connection is left open, and the record is whole."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.run import Run
from tests.support.helpers import look
from tests.support.model_protocols import CHAT, MESSAGES, Said, Speaks
from tests.support.model_server import RESET, Act, Asked, Forever, ModelServer, stream, whole
from tests.support.suspensions import Blow, Struck, cancel, cancel_until_it_ends, everywhere, strike, told

PROMPTLY: Final = 20
"""At how many further places a run may wait after it was cancelled: connections are closed one after another."""
CALL: Final = ("call_1", "look", '{"what": "x"}')


def check(run: Run) -> None:
    """A whole record: each call has a result, and what the model has been heard to say is there."""
    for step in run.steps:
        calls = [one.id for one in step.response.tool_calls]
        arrived = [result.call_id for result in step.results if result is not None]
        # Calls of a response that was cut in mid-stream were not executed, are marked so, and no model is sent them.
        assert arrived == calls or (step.broke_off and [one.id for one in step.dropped] == calls)
    assert run.stop_reason == "aborted" or run.wrap_up is not None
    assert not [event for event in run.events if event.kind == "fault" and "aborted" not in event.payload["what"]]


def check_nothing_left(out: Struck) -> None:
    assert out.left == []
    assert [name for name in out.unclosed if name != "_close_with_the_loop"] == []
    assert out.complaints == []
    assert out.after <= PROMPTLY or not out.struck


def answers(speaks: Speaks) -> Callable[[Asked], Sequence[Act]]:
    """A server that is busy at first, breaks off, is asked for a step, for an answer, and for a summary."""
    last = [Said("I look.", [CALL]), Said("In short.")]
    steps: list[Sequence[Act]] = [whole(speaks.error("Busy."), 529), [RESET]]
    steps += [stream(*speaks.events(said)) for said in last]
    waiting = iter(steps)
    return lambda _asked: next(waiting)


def play(speaks: Speaks, at: int, blow: Blow) -> Struck:
    """A run of a step that is tried three times, and its summary."""
    with ModelServer(reply=answers(speaks)) as server:
        model = speaks.model(server.url, rate_limit=bl.models.RateLimit(1), retry=bl.models.Retry(attempts=3))
        agent = bl.Agent("tester", tools=(look,), max_steps=1)
        out = strike(lambda: bl.run(agent, "go", model=model, clock=VirtualClock(), on_event=lambda _: None), at, blow)
        server.wait_until_left()
    return out


@pytest.mark.parametrize(
    ("speaks", "blow"), [(CHAT, cancel), (MESSAGES, cancel_until_it_ends)], ids=["openai", "anthropic"]
)
def test_cancelling_a_waiting_run_closes_its_connection(speaks: Speaks, blow: Blow) -> None:
    for at, out in everywhere(partial(play, speaks, blow=blow)):
        with told(place=at):
            if out.struck:
                assert isinstance(out.error, asyncio.CancelledError)
                check(out.error.run)  # type: ignore[attr-defined] # that is where it is
            else:
                assert out.value.stop_reason == "step_cap"
                assert out.value.text == "In short."
            check_nothing_left(out)
    assert at > len(["connect", "send", "read"]) * 4


@pytest.mark.parametrize(
    ("speaks", "blow"), [(CHAT, cancel_until_it_ends), (MESSAGES, cancel)], ids=["openai", "anthropic"]
)
def test_cancelling_an_endless_answer_closes_its_connection(speaks: Speaks, blow: Blow) -> None:
    endless = stream(speaks.opening((1, 1)), Forever(speaks.text("and on "), 0.001), end=())
    with ModelServer(reply=lambda _asked: endless) as server:
        model = speaks.model(server.url)

        async def left() -> None:
            await asyncio.to_thread(server.wait_until_left)

        for at in range(1, 16):
            with told(place=at):
                out = strike(lambda: bl.run(None, "go", model=model), at, blow, afterwards=left)
                assert isinstance(out.error, asyncio.CancelledError)
                check(out.error.run)  # type: ignore[attr-defined] # that is where it is
                check_nothing_left(out)
        assert "and on and on" in out.error.run.steps[0].response.text  # type: ignore[union-attr] # where it was struck
