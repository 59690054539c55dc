"""Aborting and cancelling: in mid-stream, in mid-tool, from anywhere; the record is whole."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest

import boolab as bl
from boolab.core.events import run_events
from boolab.core.types import Event
from boolab.runtime.engine.runner import run
from tests.support.helpers import QUIET, TOOLS, call, distinct, play, steps

AGENT = bl.Agent("a", tools=TOOLS, policy=QUIET)


class Silent:
    """A model that never answers."""

    name = "silent"

    def __init__(self) -> None:
        self.asked = threading.Event()

    async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
        self.asked.set()
        await asyncio.Event().wait()
        return bl.models.Response()


async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return ""


WAITING = bl.Agent("a", tools=(wait,))
WAITS = bl.ScriptedModel([{"tool_calls": [call("wait")]}])


def check_whole(run: bl.Run) -> None:
    """A record without gaps: an answer for every call, times in order, events and messages that can be read."""
    assert run.stop_reason == "aborted"
    assert run.censored
    end = 0
    for n, step in enumerate(run.steps, 1):
        assert step.index == n
        assert len(step.results) == len(step.response.tool_calls)
        assert step.start_ms is not None
        assert step.duration_ms is not None
        assert step.start_ms >= end
        end = step.start_ms + step.duration_ms
        assert all(step.results)
    assert [e.kind for e in run.events] == ["abort"]
    assert run_events(run)[-1].kind == "stop"
    assert run.messages


def test_an_abort_in_mid_stream_keeps_the_text_so_far() -> None:
    abort = bl.Abort()

    def watcher(event: Event) -> None:
        if event.payload.get("text") == "three ":
            abort.abort()

    result = play([*steps("A", None), "one two three four five"], on_event=watcher, abort=abort)
    check_whole(result)
    assert (result.n_steps, result.stop_step) == (2, 1)
    assert result.steps[-1].response.text == "one two three "
    assert result.steps[-1].error == "aborted"


def test_abort_fired_before_the_run_stops_the_first_request() -> None:
    abort = bl.Abort()
    abort.abort()
    result = play(distinct(3), abort=abort)
    check_whole(result)
    assert result.n_steps == 0


def test_an_abort_from_another_thread_wakes_a_waiting_model() -> None:
    abort, model = bl.Abort(), Silent()

    def later() -> None:
        model.asked.wait(10)
        abort.abort()

    thread = threading.Thread(target=later)
    thread.start()
    result = play(model, abort=abort)
    thread.join()
    check_whole(result)
    assert result.n_steps == 1


def test_one_abort_stops_all_runs_that_hold_it_and_no_other() -> None:
    abort = bl.Abort()

    async def scenario() -> tuple[list[bl.Run], bl.Run]:
        stopped = [asyncio.create_task(run(WAITING, "go", model=WAITS, abort=abort)) for _ in range(5)]
        other = asyncio.create_task(run(AGENT, "go", model=bl.ScriptedModel(distinct(3)), abort=bl.Abort()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        abort.abort()
        return await asyncio.gather(*stopped), await other

    stopped, other = asyncio.run(scenario())
    for record in stopped:
        check_whole(record)
    assert other.stop_reason == "finished"


def record_of(cancelled: BaseException) -> bl.Run:
    """The record that comes with a cancellation."""
    record = getattr(cancelled, "run", None)
    assert isinstance(record, bl.Run)
    return record


def test_an_outer_cancel_is_told_from_the_runs_own_abort() -> None:
    async def scenario() -> tuple[bl.Run, int]:
        abort = bl.Abort()
        task = asyncio.create_task(run(WAITING, "go", model=WAITS, abort=abort))
        await asyncio.sleep(0)
        abort.abort()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return record_of(caught.value), task.cancelling()

    record, cancelling = asyncio.run(scenario())
    check_whole(record)
    assert cancelling == 1


def test_abort_stops_a_tool_that_swallows_the_cancellation() -> None:
    abort = bl.Abort()

    async def stubborn() -> str:
        """Refuse to stop."""
        abort.abort()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "I stay"

    async def scenario() -> tuple[bl.Run, int]:
        model = bl.ScriptedModel([{"tool_calls": [call("stubborn")]}, "end"])
        result = await run(bl.Agent("a", tools=(stubborn,)), "go", model=model, abort=abort)
        await asyncio.sleep(0)
        task = asyncio.current_task()
        return result, -1 if task is None else task.cancelling()

    result, cancelling = asyncio.run(scenario())
    check_whole(result)
    assert result.steps[0].results[0] is not None
    assert (result.steps[0].results[0].content, cancelling) == ("I stay", 0)


async def under_a_timeout(work: Coroutine[Any, Any, object]) -> None:
    async with asyncio.timeout(0.01):
        await work


async def waited_for(work: Coroutine[Any, Any, object]) -> None:
    await asyncio.wait_for(work, 0.01)


async def in_a_cancel_scope(work: Coroutine[Any, Any, object]) -> None:
    with anyio.fail_after(0.01):
        await work


async def beside_a_failure(work: Coroutine[Any, Any, object]) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise TimeoutError

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(work)
            group.create_task(fails())
    except ExceptionGroup as several:
        raise several.exceptions[0] from None


@pytest.mark.parametrize("limited", [under_a_timeout, waited_for])
def test_timeout_around_a_run_raises_timeout_with_the_record(limited: Any) -> None:
    """As its context, on every release of Python; as its cause as well on all but early ones of 3.11."""

    async def scenario() -> bl.Run:
        with pytest.raises(TimeoutError) as caught:
            await limited(run(None, "go", model=Silent()))
        assert caught.value.__context__ is not None
        return record_of(caught.value.__context__)

    check_whole(asyncio.run(scenario()))


@pytest.mark.parametrize("limited", [under_a_timeout, waited_for, in_a_cancel_scope, beside_a_failure])
def test_what_was_started_keeps_its_record_whatever_cancels_it(limited: Any) -> None:
    async def scenario() -> bl.Run:
        live = bl.start(None, "go", model=Silent())

        async def watched() -> None:
            async with live:
                async for _ in live:
                    pass

        with pytest.raises(TimeoutError):
            await limited(watched())
        return live.run

    check_whole(asyncio.run(scenario()))


def test_tool_timeout_around_a_nested_run_is_reported_as_timeout() -> None:
    @bl.tool(timeout=0.01)
    async def delegate() -> str:
        """Delegate."""
        return (await run(None, "go", model=Silent())).text

    result = play([{"tool_calls": [call("delegate")]}, "end"], agent=bl.Agent("a", tools=(delegate,)))
    assert result.steps[0].results[0] is not None
    assert result.steps[0].results[0].content == "delegate did not finish within 0.01 s"


def test_a_cancellation_that_nobody_sent_is_the_models_failure() -> None:
    class Broken:
        name = "broken"

        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            raise asyncio.CancelledError

    result = play(Broken())
    assert (result.stop_reason, result.error) == ("error", "CancelledError: ")
    runs = asyncio.run(bl.sweep(AGENT, "go", Broken(), repeats=5, progress=False))
    assert [r.stop_reason for r in runs] == ["error"] * 5


def test_model_that_fails_on_abort_is_aborted() -> None:
    abort = bl.Abort()

    class Client:
        name = "client"

        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            abort.abort()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise bl.errors.ModelError("closed", partial=bl.models.Response("so far")) from None
            return bl.models.Response()

    result = play(Client(), abort=abort)
    check_whole(result)
    assert result.steps[0].response.text == "so far"


def test_streamed_text_is_kept_without_a_watcher() -> None:
    async def scenario() -> bl.Run:
        streamed = asyncio.Event()

        class Streaming:
            name = "streaming"

            async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
                emit("reasoning", "hm")
                emit("text", "one ")
                emit("text", "two ")
                streamed.set()
                await asyncio.Event().wait()
                return bl.models.Response()

        task = asyncio.create_task(run(None, "go", model=Streaming()))
        await streamed.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return record_of(caught.value)

    record = asyncio.run(scenario())
    assert (record.steps[0].response.text, record.steps[0].response.reasoning) == ("one two ", "hm")


def test_one_abort_shared_with_a_run_inside_a_tool_stops_both() -> None:
    abort = bl.Abort()
    inner_runs: list[bl.Run] = []

    class Aborting:
        name = "aborting"

        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            abort.abort()
            await asyncio.Event().wait()
            return bl.models.Response()

    async def delegate() -> str:
        """Delegate, then wait for ever."""
        inner_runs.append(await run(None, "go", model=Aborting(), abort=abort))
        await asyncio.Event().wait()
        return ""

    result = play([{"tool_calls": [call("delegate")]}, "end"], agent=bl.Agent("a", tools=(delegate,)), abort=abort)
    check_whole(result)
    check_whole(inner_runs[0])
    assert result.steps[0].results[0] is not None
    assert result.steps[0].results[0].content == "aborted"
