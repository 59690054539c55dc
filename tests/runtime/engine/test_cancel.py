"""Cancelling a run at every place where it waits: the record is whole, and nothing is left over.

Each scenario is a run with one more kind of thing to wait for. `tests.support.suspensions` finds all the places where
it, or a task that it started, is suspended, and strikes at each.
"""

import asyncio
import gc
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, get_args

import anyio
import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.codec import dumps, run_fields, run_of
from boolab.core.events import run_events
from boolab.core.run import Run
from boolab.core.types import Response, Step, ToolCall, ToolResult
from boolab.harnesses.presets import policies
from boolab.runtime.engine.loop import YIELD_EVERY_S
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.models.scripted import ScriptedModel
from boolab.runtime.tools.tool import ToolSpec
from tests.support.helpers import QUIET, call
from tests.support.suspensions import (
    Blow,
    Struck,
    When,
    cancel,
    cancel_twice,
    cancel_until_it_ends,
    everywhere,
    pause,
    strike,
    told,
)

PROMPTLY: Final = 12
"""At how many further places a scenario may wait after it was cancelled: each tool here tidies up at one."""


class Stage:
    """Where a scenario is played: tools of each kind, made once, and what they have given since the last `clear`."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.tools = self._tools()

    def agent(self, policy: Any = QUIET, **settings: Any) -> bl.Agent:
        """An agent with all tools."""
        return bl.Agent("tester", tools=self.tools, policy=policy, **settings)

    def _tools(self) -> tuple[ToolSpec, ...]:
        def give(what: str) -> str:
            self.given.append(what)
            return what

        @bl.tool
        def quick(what: str) -> str:
            """Answer at once."""
            return give(what)

        @bl.tool
        def long(what: str) -> str:
            """Keep the processor for longer than the loop keeps the event loop to itself."""
            start = time.perf_counter()
            while time.perf_counter() - start <= YIELD_EVERY_S:
                pass
            return give(what)

        @bl.tool
        async def slow(what: str) -> str:
            """Wait, and tidy up whatever happens."""
            try:
                await pause()
            finally:
                await pause()
            return give(what)

        @bl.tool(timeout=60)
        async def timed(what: str) -> str:
            """Wait under a deadline."""
            await pause()
            return give(what)

        @bl.tool(thread=True)
        def threaded(what: str) -> str:
            """Work in a thread."""
            return what

        @bl.tool
        async def grouped(what: str) -> str:
            """Wait for tasks of its own."""
            async with asyncio.TaskGroup() as group:
                group.create_task(pause())
                group.create_task(pause())
            return give(what)

        return quick, long, slow, timed, threaded, grouped


class Waiting(ScriptedModel):
    """A script whose model makes one wait: before it speaks, between its words, and after them."""

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        await pause()
        if emit is not None:
            emit("text", "Let ")
            await pause()
            emit("text", "me see.")
        response = await super().respond(request)
        await pause()
        return response


Play: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
"""A scenario: a coroutine function that takes the options of `run`."""

BATCH: Final = {
    "text": "Now.",
    "tool_calls": [call("slow", what="a"), call("quick", what="b"), call("timed", what="c")],
}
SHORT: Final = [{"tool_calls": [call("slow", what="d")]}, "All done."]


def in_parallel(stage: Stage) -> Play:
    """Calls side by side: with deadlines, with tasks of their own, in threads."""
    other = {"tool_calls": [call("grouped", what="e"), call("threaded", what="f")]}
    return partial(bl.run, stage.agent(), "go", model=Waiting([BATCH, other, *SHORT]))


def in_sequence(stage: Stage) -> Play:
    """Calls one after another, and a loop that gives way to others by itself."""
    long = {"tool_calls": [call("long", what="e")]}
    agent = stage.agent(QUIET.vary(execution={"calls": "sequence"}))
    return partial(bl.run, agent, "go", model=Waiting([BATCH, long, *SHORT]))


def streaming(stage: Stage) -> Play:
    """Responses that come in pieces."""
    return partial(bl.run, stage.agent(), "go", model=Waiting(SHORT), on_event=lambda _: None)


def summarised(stage: Stage) -> Play:
    """Two steps up to a cap, and a summary."""
    model = Waiting([BATCH, *SHORT], summary="In short.")
    return partial(bl.run, stage.agent("boocode", max_steps=2), "go", model=model)


def compacted(stage: Stage) -> Play:
    """A summary of the model's before the third step, and another before the fourth."""
    model = Waiting([BATCH, SHORT[0], BATCH, "All done."], summary="In short.")
    return partial(bl.run, stage.agent(), "go", model=model, compaction=bl.Compaction(at_tokens=1))


def compacted_by_hand(stage: Stage) -> Play:
    """A summary that somebody else writes."""

    async def summarise(messages: Any) -> str:
        await pause()
        return f"{len(messages)} messages"

    compaction = bl.Compaction(at_tokens=1, by=summarise)
    return partial(bl.run, stage.agent(), "go", model=Waiting([BATCH, *SHORT]), compaction=compaction)


def asked(stage: Stage) -> Play:
    """A guard that has the user asked about a call, and a cap after which the user lets it go on."""

    async def allow(question: Any) -> bool:
        await pause()
        return True

    policy = policies["opencode_v1"].vary(
        cap={"kind": "hard"}, continues={"times": None, "by": "ask"}, last_step={"action": "tools"}
    )
    thrice = {"tool_calls": [call("quick", what="x") for _ in range(3)]}
    return partial(bl.run, stage.agent(policy, max_steps=1), "go", model=Waiting([thrice, *SHORT]), ask=allow)


def steered(stage: Stage) -> Play:
    """A user who writes meanwhile."""

    async def go(**options: Any) -> Any:
        inbox = bl.Inbox()
        inbox.send("Faster.")
        return await bl.run(stage.agent("opencode_v2"), "go", model=model, inbox=inbox, **options)

    model = Waiting([BATCH, *SHORT])
    return go


def synthesised(stage: Stage) -> Play:
    """Somebody else who looks at each step's results and writes the answer."""

    async def synthesis(calls: Any, results: Any) -> str | None:
        await pause()
        return "Done." if len(calls) == 1 else None

    return partial(bl.run, stage.agent(), "go", model=Waiting([BATCH, *SHORT]), synthesis=synthesis)


def delegated(stage: Stage) -> Play:
    """Two subagents side by side, one of which starts another."""
    delegates = {"tool_calls": [call("task", agent="innermost", prompt="go")]}
    inner = bl.Agent("inner", tools=(*stage.tools, "task"), policy=QUIET, model=Waiting([delegates, "All done."]))
    innermost = replace(stage.agent(), name="innermost", model=Waiting(SHORT))
    task = bl.task_tool([inner, innermost], max_depth=2, budget="root")
    both = {"tool_calls": [call("task", agent=name, prompt="go") for name in ("inner", "innermost")]}
    agent = bl.Agent("outer", tools=(task,), policy=QUIET)
    return partial(bl.run, agent, "go", model=Waiting([both, "All done."]))


def resumed(stage: Stage) -> Play:
    """A run that asked the user, and goes on with the answer."""
    question = {"tool_calls": [call("ask_user_input", question="Which?")]}
    agent = bl.Agent("tester", tools=(*stage.tools, "ask_user_input"), policy=QUIET)
    paused = bl.run_sync(agent, "go", model=ScriptedModel([question, *SHORT]))
    model = Waiting([question, BATCH, *SHORT])
    return partial(bl.resume, paused, "This one.", model=model)


def broken_off(stage: Stage) -> Play:
    """A response that breaks off, and is asked for again."""
    broken = {"text": "Half", "error": {"status": 529, "after": 1}}
    agent = stage.agent(QUIET.vary(execution={"broken_retries": 2}))
    return partial(bl.run, agent, "go", model=Waiting([broken, *SHORT]))


def watched(stage: Stage) -> Play:
    """A run that is taken step by step, with something to wait for between the steps."""

    async def go(**options: Any) -> Run:
        try:
            async with bl.start(stage.agent(), "go", model=model, **options) as live:
                async for _ in live:
                    await pause()
        except asyncio.CancelledError as cancelled:
            cancelled.run = live.run  # type: ignore[attr-defined] # where it came between two steps, only `live` has it
            raise
        return live.run

    model = Waiting([BATCH, *SHORT])
    return go


RUNS: Final = (
    in_parallel,
    in_sequence,
    streaming,
    summarised,
    compacted,
    compacted_by_hand,
    asked,
    steered,
    synthesised,
    delegated,
    resumed,
    broken_off,
    watched,
)
every_run = pytest.mark.parametrize("scenario", RUNS, ids=lambda scenario: scenario.__name__)


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> Iterator[None]:
    """Collecting garbage after each strike costs nothing if all that was there before is left out."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


GIVING: Final = frozenset({"quick", "long", "slow", "timed", "grouped"})
"""The tools that say what they gave; one in a thread goes on after nobody waits for it."""


@pytest.fixture
def ways(request: pytest.FixtureRequest) -> list[tuple[Blow, When]]:
    """How to cancel at each place: in a few ways, or in all of them."""
    if not request.config.getoption("--cancel"):
        return [(cancel, "early"), (cancel_until_it_ends, "late")]
    blows = [cancel, cancel_until_it_ends, *map(cancel_twice, range(1, 6))]
    return [(blow, when) for blow in blows for when in get_args(When)]


@pytest.fixture
def moments(request: pytest.FixtureRequest) -> list[When]:
    """At which moments to strike: at one, or at each."""
    return [*get_args(When)] if request.config.getoption("--cancel") else ["early"]


def was_cut(step: Step) -> bool:
    return step.error == "aborted" or any(is_told_aborted(result) for result in step.results)


def is_told_aborted(result: ToolResult | None) -> bool:
    """Whether a call was cut short; one of a subagent says more about it."""
    return result is not None and result.is_error is True and "aborted" in result.content


def check_record(run: Run, reference: Run) -> None:
    """A record that is whole, and so far the same as that of the run that nobody cancelled."""
    end = 0
    for n, step in enumerate(run.steps, 1):
        assert step.index == n
        assert step.start_ms is not None
        assert step.duration_ms is not None
        assert step.start_ms >= end
        end = step.start_ms + step.duration_ms
        assert [result and result.call_id for result in step.results] == [one.id for one in step.response.tool_calls]
    assert run.duration_ms is not None
    assert run.duration_ms >= end
    whole = [step for step in run.steps if not was_cut(step)]
    assert whole == list(reference.steps[: len(whole)])
    assert len(run.steps) - len(whole) <= 1
    if whole != [*run.steps]:
        cut, meant = run.steps[-1], reference.steps[len(whole)]
        assert cut.response in (meant.response, cut.response._replace(tool_calls=()))
        for result, due in zip(cut.results, meant.results, strict=False):
            assert result == due or is_told_aborted(result)
    assert [event.kind for event in run.events].count("abort") == (run.stop_reason == "aborted")
    assert run_events(run)[-1].kind == "stop"
    again = run_of(json.loads(dumps(run_fields(run))))
    assert again == replace(run, subagents=())
    check_conversation(run)


def check_end(run: Run, reference: Run) -> None:
    """Aborted, unless it had ended before: by a limit, and was cancelled in its summary, or with all of its steps."""
    if run.stop_reason != "aborted":
        assert run.stop == reference.stop
        assert len(run.steps) == len(reference.steps)
        assert run.wrap_up == reference.wrap_up or run.wrap_up.fault == "aborted"  # type: ignore[union-attr]


def check_conversation(run: Run) -> None:
    """Each call is answered, once, right after the message that holds it, and nothing else is."""
    owed: list[str] = []
    for message in run.messages:
        results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if results:
            assert results == owed
            owed = []
            continue
        assert not owed
        owed = [part.id for part in message.parts if isinstance(part, ToolCall)]
    assert not owed


def check_nothing_left(out: Struck) -> None:
    assert out.left == []
    assert out.unclosed == []
    assert out.complaints == []


def played(play: Play, stage: Stage, at: int, blow: Blow = cancel, when: When = "early") -> Struck:
    stage.given.clear()
    return strike(lambda: play(clock=VirtualClock()), at, blow, when)


def check_all_is_on_record(run: Run, given: list[str]) -> None:
    """Whatever a tool gave is in the record, and nothing else."""
    results = [
        result.content
        for one in bl.with_subagents(run)
        for step in one.steps
        for call, result in zip(step.response.tool_calls, step.results, strict=True)
        if result is not None and not result.is_error and call.name in GIVING
    ]
    assert Counter(results) == Counter(given)


def check(record: Run, reference: Run, stage: Stage, out: Struck) -> None:
    """The record is whole, though it may have been cut, and nothing is left over."""
    check_end(record, reference)
    check_record(record, reference)
    check_all_is_on_record(record, stage.given)
    check_nothing_left(out)
    assert out.after <= PROMPTLY or not out.struck


@every_run
def test_cancelling_at_any_wait_leaves_a_whole_record(
    scenario: Callable[[Stage], Play], ways: list[tuple[Blow, When]]
) -> None:
    stage = Stage()
    play = scenario(stage)
    reference = played(play, stage, 0).value
    for blow, when in ways:
        for at, out in everywhere(partial(played, play, stage, blow=blow, when=when)):
            with told(place=at, when=when, blow=blow):
                assert isinstance(out.error, asyncio.CancelledError) or not out.struck, f"{out.value!r} {out.error!r}"
                check(out.error.run if out.struck else out.value, reference, stage, out)  # type: ignore[union-attr]
        assert at > len(reference.steps)


Way: TypeAlias = Callable[[Play], tuple[Play, Callable[..., object]]]
"""A scenario that goes on after it was ended, and the blow that ends it."""


def by_an_abort(play: Play) -> tuple[Play, Callable[..., object]]:
    abort = bl.Abort()

    async def within(**options: Any) -> Any:
        record = await play(abort=abort, **options)
        await pause()  # whoever ran it goes on, also where the abort came as the run was ending
        return record

    return within, lambda *_: abort.abort()


def by_a_timeout(play: Play) -> tuple[Play, Callable[..., object]]:
    limits: list[asyncio.Timeout] = []

    async def within(**options: Any) -> Any:
        try:
            async with asyncio.timeout(None) as limit:
                limits.append(limit)
                return await play(**options)
        except TimeoutError as late:  # not `__cause__`: CPython 3.11.2 raises it without one
            return late.__context__.run  # type: ignore[union-attr] # that is where it is

    return within, lambda *_: limits[0].reschedule(0)


def by_a_cancel_scope(play: Play) -> tuple[Play, Callable[..., object]]:
    """Of anyio, whose cancellations come again in each turn of the event loop, until the scope is left."""
    scopes: list[anyio.CancelScope] = []

    async def within(**options: Any) -> Any:
        record = None
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            try:
                record = await play(**options)
            except asyncio.CancelledError as cancelled:
                record = cancelled.run  # type: ignore[attr-defined] # that is where it is
                raise
        return record

    return within, lambda *_: scopes[0].cancel()


@every_run
@pytest.mark.parametrize("way", [by_an_abort, by_a_timeout, by_a_cancel_scope], ids=lambda way: way.__name__)
def test_ending_a_run_at_any_wait_leaves_a_whole_record(
    scenario: Callable[[Stage], Play], way: Way, moments: list[When]
) -> None:
    stage = Stage()
    play = scenario(stage)
    reference = played(play, stage, 0).value

    def ended(at: int, when: When) -> Struck:
        within, blow = way(play)
        return played(within, stage, at, blow, when)

    for when in moments:
        for at, out in everywhere(partial(ended, when=when)):
            with told(place=at, when=when):
                assert out.error is None
                check(out.value, reference, stage, out)
                assert out.cancelling == 0
