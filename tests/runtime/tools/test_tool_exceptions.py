"""Exceptions that derive from BaseException: a tool's own are its error result, an interrupt goes to the caller.

`PanicException`, which extensions written in Rust raise where they panic, is one: `except Exception` does not see it.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.run import Run
from boolab.core.types import Response, ToolCall, ToolResult
from boolab.runtime.engine import portal
from boolab.runtime.models.base import Request
from boolab.runtime.models.scripted import ScriptedModel
from boolab.runtime.tools.execution import ExecutionContext, execute
from tests.support.cases import first
from tests.support.helpers import QUIET, call, look


def count_threads() -> int:
    """How many background threads of `run_sync` there are."""
    return sum(thread.name == "boolab" for thread in threading.enumerate())


@pytest.fixture(scope="module", autouse=True)
def threads_before() -> int:
    """An interrupt in another file may have left one to a tool that blocks."""
    return count_threads()


class Panic(BaseException):
    """As an extension written in Rust raises it."""


RAISED: dict[str, Callable[[], BaseException]] = {
    "panic": lambda: Panic("index out of bounds"),
    "generator exit": lambda: GeneratorExit("mine"),
    "group": lambda: BaseExceptionGroup("two", [Panic("a"), ValueError("b")]),
    "stop iteration": lambda: StopIteration("no more"),
    "stop async iteration": lambda: StopAsyncIteration("no more"),
}


def raising(what: str) -> None:
    raise RAISED[what]() if what in RAISED else SystemExit(2) if what == "exit" else KeyboardInterrupt


@bl.tool
def plain(what: str) -> None:
    """Raise it."""
    raising(what)


@bl.tool
async def waiting(what: str) -> None:
    """Raise it after a while."""
    await asyncio.sleep(0)
    raising(what)


@bl.tool(thread=True)
def threaded(what: str) -> None:
    """Raise it in a thread."""
    raising(what)


@bl.tool(timeout=60)
async def timed(what: str) -> None:
    """Raise it under a deadline."""
    await asyncio.sleep(0)
    raising(what)


@bl.tool
def with_context(what: str, ctx: bl.ToolContext) -> None:
    """Raise it, with a context."""
    raising(what)


@bl.tool
def later(what: str) -> Any:
    """Return something to wait for that raises it."""
    return waiting.function(what)


@bl.tool
async def in_a_task(what: str) -> None:
    """Raise it in a task of its own: an exit or an interrupt leaves the event loop on its way."""
    await asyncio.create_task(waiting.function(what))


NOT_IN_A_TASK = ("generator exit", "stop iteration")
TOOLS = (plain, waiting, threaded, timed, with_context, later, in_a_task)
AGENT = bl.Agent("tester", tools=(*TOOLS, look), policy=QUIET)
each_tool = pytest.mark.parametrize("name", [spec.name for spec in TOOLS])
each_policy = pytest.mark.parametrize("execution", ["sequence", "parallel"])


def script(*calls: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel([{"tool_calls": list(calls)}, "Done."])


def results(run: Run) -> list[ToolResult | None]:
    return list(run.steps[0].results)


# In a run.


@pytest.mark.parametrize(
    ("name", "what"),
    # A task that ends with a GeneratorExit closes all that awaits it, the run included; asyncio refuses the other one.
    [(spec.name, what) for spec in TOOLS for what in RAISED if spec is not in_a_task or what not in NOT_IN_A_TASK],
)
def test_any_tool_exception_is_its_error_result_also_in_parallel(name: str, what: str) -> None:
    alone = bl.run_sync(AGENT, "go", model=script(call(name, what=what)))
    batch = script(call(name, what=what), call("look", what="x"), call(name, what=what))
    together = bl.run_sync(AGENT, "go", model=batch)
    assert (alone.stop_reason, alone.n_steps, alone.text) == ("finished", 2, "Done.")
    assert (together.stop_reason, together.n_steps, together.text) == ("finished", 2, "Done.")
    (result,) = results(alone)
    assert result is not None
    assert result.is_error
    first, quiet, last = results(together)
    assert (first, quiet, last) == (
        result._replace(call_id=together.steps[0].response.tool_calls[0].id),
        quiet,
        result._replace(call_id=together.steps[0].response.tool_calls[2].id),
    )
    assert quiet is not None
    assert not quiet.is_error
    kind = "RuntimeError" if "raised StopIteration" in result.content else type(RAISED[what]()).__name__
    assert result.content.startswith(f"{kind}: ")


def test_what_a_panic_said_is_in_the_result() -> None:
    run = bl.run_sync(AGENT, "go", model=script(call("plain", what="panic")))
    assert [result and result.content for result in results(run)] == ["Panic: index out of bounds"]


@each_policy
@each_tool
def test_fatal_tool_failure_policy_ends_the_run_at_a_panic(name: str, execution: Any) -> None:
    policy = QUIET.vary(execution={"tool_failures": "unexpected_fatal", "calls": execution})
    agent = replace(AGENT, policy=policy)
    run = bl.run_sync(agent, "go", model=script(call(name, what="panic"), call("look", what="x")))
    assert (run.stop_reason, run.error) == ("error", "Panic: index out of bounds")


# An interrupt.


each_interrupt = pytest.mark.parametrize(
    ("what", "expected"), [("interrupt", KeyboardInterrupt), ("exit", SystemExit)], ids=["interrupt", "exit"]
)


@each_interrupt
@each_policy
@each_tool
def test_interrupt_in_a_tool_goes_to_the_caller(
    name: str, execution: Any, what: str, expected: type[BaseException]
) -> None:
    agent = replace(AGENT, policy=QUIET.vary(execution={"calls": execution}))
    batch = [call("waiting", what="panic"), call(name, what=what), call("look", what="x")]
    with pytest.raises(expected):
        bl.run_sync(agent, "go", model=script(*batch))
    again = bl.run_sync(agent, "go", model=script(call("look", what="x")))
    assert again.text == "Done."


def test_caller_can_catch_an_interrupt_of_a_parallel_tool() -> None:
    tidied: list[str] = []

    async def endless() -> None:
        """Wait for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            tidied.append("endless")

    agent = bl.Agent("a", tools=(plain, endless), policy=QUIET)

    async def scenario() -> str:
        with pytest.raises(KeyboardInterrupt):
            await bl.run(agent, "go", model=script(call("endless"), call("plain", what="interrupt")))
        return "the event loop goes on"

    assert asyncio.run(scenario()) == "the event loop goes on"
    assert tidied == ["endless"]


def test_interrupt_in_a_nested_run_sync_leaves_both_runs() -> None:
    def nested() -> str:
        """Run an agent."""
        batch = script(call("plain", what="interrupt"), call("in_a_task", what="interrupt"))
        return bl.run_sync(AGENT, "go", model=batch).text

    with pytest.raises(KeyboardInterrupt):
        bl.run_sync(bl.Agent("a", tools=(nested,)), "go", model=script(call("nested")))
    assert bl.run_sync(None, "go", model=ScriptedModel(["still there"])).text == "still there"


def test_tool_that_stops_the_event_loop_stops_no_run() -> None:
    async def stops() -> str:
        """Stop the event loop."""
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "went on"

    for _ in range(2):
        run = bl.run_sync(bl.Agent("a", tools=(stops,)), "go", model=script(call("stops")))
        assert [result and result.content for result in results(run)] == ["went on"]


def test_a_background_thread_that_died_is_replaced() -> None:
    died = portal._portal()
    died.close()
    assert bl.run_sync(None, "go", model=ScriptedModel(["once more"])).text == "once more"
    assert portal._portal() is not died


# A run that is thrown away.


def test_a_call_whose_coroutine_is_closed_has_no_result() -> None:
    """The GeneratorExit that closes it is no exception of the tool's: nothing may go on after it."""
    came: list[ToolResult] = []

    @bl.tool
    async def endless() -> None:
        """Wait for ever."""
        await asyncio.get_running_loop().create_future()

    async def calling() -> None:
        clock = VirtualClock()
        run = ExecutionContext({"endless": endless}, "run", clock)
        came.append(await execute(ToolCall("c", "endless", ""), 1, 1, run, clock))

    async def scenario() -> None:
        called = calling()
        task = asyncio.create_task(called)
        await asyncio.sleep(0)
        called.close()
        task.cancel()
        await asyncio.wait([task])
        assert isinstance(task.exception(), RuntimeError)  # there is nothing left of it that could be cancelled

    asyncio.run(scenario())
    assert came == []


# In a sweep.


@pytest.mark.parametrize("where", first(2, ["here", "threads", "processes"]))
def test_panic_in_a_cell_of_a_sweep_is_the_record_of_that_cell(tmp_path: Path, where: str) -> None:
    calls = [ToolCall(f"c{n}", spec.name, '{"what": "panic"}') for n, spec in enumerate(TOOLS)]
    store = tmp_path / "runs.db"

    class Asking:
        name = "asking"

        async def respond(self, request: Any, emit: Any = None) -> Response:
            panics = request.messages[-1].text == "panic"
            if request.index == 0:
                return Response("", tuple(calls) if panics else (ToolCall("c", "look", "{}"),), "tool_calls")
            return Response("Done.")

    def swept(**options: Any) -> Any:
        tasks = ["quiet", "panic", "well"]
        return asyncio.run(bl.sweep(AGENT, tasks, Asking(), repeats=2, progress=False, store=store, **options))

    if where == "threads":
        with ThreadPoolExecutor(2) as pool:
            runs = swept(executor=pool)
    else:
        runs = swept(**({} if where == "here" else {"executor": "processes"}))
    assert [run.task for run in runs] == ["quiet"] * 2 + ["panic"] * 2 + ["well"] * 2
    assert {(run.stop_reason, run.n_steps) for run in runs} == {("finished", 2)}
    for run in runs[2:4]:
        assert [result and result.content for result in results(run)] == ["Panic: index out of bounds"] * len(TOOLS)
    assert [run.run_id for run in swept()] == [run.run_id for run in runs]


@each_interrupt
@pytest.mark.parametrize("where", first(2, ["here", "threads", "processes"]))
def test_interrupt_in_a_sweep_reaches_the_caller(where: str, what: str, expected: type[BaseException]) -> None:
    model = script(call("plain", what=what), call("look", what="x"))

    def swept(executor: Any) -> None:
        with pytest.raises(expected):
            asyncio.run(bl.sweep(AGENT, "go", model, progress=False, executor=executor))

    if where == "threads":
        with ThreadPoolExecutor(2) as pool:
            swept(pool)
    else:
        swept(None if where == "here" else "processes")


# Others' code than tools.


def test_panic_in_model_or_score_ends_the_run_with_a_record(tmp_path: Path) -> None:
    class Panicking:
        name = "panicking"

        async def respond(self, request: Any, emit: Any = None) -> Response:
            raise Panic("no tokens")

    def score(run: Run) -> bool:
        raise Panic("no score")

    run = bl.run_sync(None, "go", model=Panicking())
    assert (run.stop_reason, run.error) == ("error", "Panic: no tokens")
    path = tmp_path / "told.jsonl"
    assert bl.run_sync(None, "go", model=bl.record(Panicking(), path)).error == "Panic: no tokens"
    assert bl.run_sync(None, "go", model=bl.RecordedModel(path)).error == "Panic: no tokens"
    run = bl.run_sync(None, "go", model=ScriptedModel(["Done."]), score=score)
    assert (run.stop_reason, run.success) == ("finished", None)
    assert [event.payload["what"] for event in run.events if event.kind == "fault"] == [
        "the score failed: Panic: no score"
    ]


def test_a_summary_that_panics_does_not_change_the_end_of_a_run() -> None:
    class Panicking(ScriptedModel):
        async def respond(self, request: Request, emit: Any = None) -> Response:
            if request.purpose == "summary":
                raise Panic("no words")
            return await super().respond(request, emit)

    model = Panicking([{"tool_calls": [call()], "repeat": "forever"}], summary="In short.")
    run = bl.run_sync(bl.Agent("a", tools=(look,), max_steps=1), "go", model=model)
    assert run.stop_reason == "step_cap"
    assert run.wrap_up is not None
    assert run.wrap_up.fault == "Panic: no words"


def test_panicking_watcher_is_dropped_and_the_run_continues() -> None:
    told: list[str] = []

    def watch(event: Any) -> None:
        told.append(event.kind)
        raise Panic

    run = bl.run_sync(AGENT, "go", model=script(call("look", what="x")), on_event=watch)
    assert (run.stop_reason, len(told)) == ("finished", 1)


@pytest.mark.slow
def test_no_thread_is_left_of_what_was_raised(threads_before: int) -> None:
    gc.collect()  # a traceback may hold a runner in a cycle
    assert count_threads() <= max(threads_before, 1)
