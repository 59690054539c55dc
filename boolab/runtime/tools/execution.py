"""The execution of calls: `execute` makes one result of one call, `execute_together` those of several of one step.

An exception, bad arguments and an unknown tool are error results, which name what is accepted. That includes exceptions
that derive from BaseException alone, such as panics of Rust extensions; only an interrupt and a cancellation reach the
caller.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import ValidationError, from_json, to_json, to_jsonable_python

from boolab.core.clock import Clock
from boolab.core.messages import Message
from boolab.core.redacted import TIMED_OUT
from boolab.core.surrogates import whole_result, whole_text
from boolab.core.types import ToolCall, ToolResult
from boolab.errors import INTERRUPTS, ToolError, describe, nearest
from boolab.runtime.tools.tool import ToolContext, ToolSpec

MAX_RESULT: Final = 64 * 2**20
"""The longest result of a call, in characters; a longer one is truncated. No model reads a hundredth of it, each later
request would contain it, and a value in SQLite has at most a billion bytes."""

Reply: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[ToolResult] | None]
"""Returns the result of a call without executing it, or None if it has to be executed."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What the execution of calls needs of their run.

    `fatal` are the exceptions of tools that end the run: all, or those that are no `ToolError`; `failures` lists them.
    """

    tools: Mapping[str, ToolSpec]
    run_id: str
    clock: Clock
    history: Sequence[Message] = ()
    reply: Reply | None = None
    caller: Any = None
    fatal: Literal["none", "unexpected", "all"] = "none"
    failures: list[str] = field(default_factory=list)
    root: Path | None = None


async def execute_together(
    calls: Sequence[ToolCall],
    indices: Sequence[int],
    step: int,
    run: ExecutionContext,
    results: list[ToolResult | None],
) -> None:
    """Execute the calls of one step that are at these places concurrently.

    `results` has one entry for each call of the step, which is set when the call ends. If a tool raises an interrupt,
    the others are cancelled, and it is raised.
    """

    async def execute_one(index: int, clock: Clock) -> None:
        try:
            results[index] = await execute(calls[index], step, index + 1, run, clock)
        except INTERRUPTS as error:
            raise _InterruptedError from error

    forks = [run.clock.fork() for _ in indices]
    waiting = list(zip(indices, forks, strict=True))
    if run.reply is not None and run.clock.virtual:
        # Replies in virtual time never wait, and a task for each would take longer than a step.
        for position, fork in waiting:
            results[position] = await _model_result(run.reply, calls[position], step, position + 1, run, fork)
        waiting = [(position, fork) for position, fork in waiting if results[position] is None]
        run = replace(run, reply=None)
    if waiting:
        try:
            async with asyncio.TaskGroup() as group:
                for position, fork in waiting:
                    group.create_task(execute_one(position, fork))
        except ExceptionGroup as errors:
            raise errors.exceptions[0].__cause__ or errors from None
    run.clock.join(forks)


class _InterruptedError(Exception):
    """Wraps an interrupt in a task: otherwise asyncio raises it from its event loop, not from the task group."""


async def execute(  # noqa: C901, PLR0912 - all ways in which a call can end
    call: ToolCall, step: int, number: int, run: ExecutionContext, clock: Clock
) -> ToolResult:
    """Execute one call, the `number`-th of a step; an exception is its result, but no interrupt or cancellation."""
    if run.reply is not None:
        replied = await _model_result(run.reply, call, step, number, run, clock)
        if replied is not None:
            return replied
    spec = run.tools.get(call.name)
    if spec is None:
        return ToolResult(call.id, _unknown_tool(call.name, run.tools), is_error=True, duration_ms=0)
    try:
        arguments = spec.validate(call.arguments or "{}")
    except (ValidationError, TypeError) as error:  # a TypeError for lone surrogates
        text, is_invalid = _bad_arguments(call, spec, error)
        return ToolResult(call.id, text, is_error=True, parse_error=is_invalid, duration_ms=0)
    start = clock.now()
    task: asyncio.Task[Any] | None = None
    try:
        if spec.needs_care:
            task = asyncio.current_task()
            context = ToolContext(run.run_id, step, number, clock, run.history, run.caller, run.root)
            value = await _execute_with_care(spec, arguments, context)
        else:
            value = spec.function(**arguments)
        if type(value) is not str and type(value) is not int and inspect.isawaitable(value):
            task = asyncio.current_task()
            value = await value
        text, failed = value if type(value) is str else _as_text(value), False
    except ToolError as error:
        text, failed = str(error), True
        if run.fatal == "all":
            run.failures.append(describe(error))
    except asyncio.CancelledError:
        if task_is_cancelled():
            raise
        text, failed = "the tool cancelled itself", True
    except INTERRUPTS:
        raise
    except BaseException as error:
        if isinstance(error, GeneratorExit) and task is not None and not _is_running(task):
            raise  # not from the tool: the coroutine of the run is closed while it waits
        text, failed = describe(error), True  # a tool's failure is data
        if run.fatal != "none":
            run.failures.append(text)
    if len(text) > MAX_RESULT:
        text = f"{text[:MAX_RESULT]}\n({len(text) - MAX_RESULT:,} more characters were cut off)"
    if not text.isascii():
        text = whole_text(text)
    return ToolResult(call.id, text, failed, False, clock.now() - start)  # noqa: FBT003 - keywords cost more here


def task_is_cancelled() -> bool:
    """Whether the running task has been cancelled at all: a model or a tool may raise CancelledError by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_running(task: asyncio.Task[Any]) -> bool:
    """Whether this code is run by the task, not by a `close` of its coroutine."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # there is no event loop any more
        return False


class FailedReply(Exception):
    """Raised by a model's `reply` for a result that ended the recorded run; `reason` is the error of that run."""

    def __init__(self, result: ToolResult, reason: str) -> None:
        super().__init__(reason)
        self.result = result


async def _model_result(
    reply: Reply, call: ToolCall, step: int, number: int, run: ExecutionContext, clock: Clock
) -> ToolResult | None:
    """The model's own result, if it has one. An exception of the model becomes an error result."""
    try:
        replying = reply(call, ToolContext(run.run_id, step, number, clock, run.history, run.caller, run.root))
        result: object = None if replying is None else await replying
    except FailedReply as failed:
        run.failures.append(str(failed))
        return failed.result
    except (asyncio.CancelledError, *INTERRUPTS, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a failure is data
        text = f"The model's own reply failed: {describe(error)}"
        return ToolResult(call.id, text, is_error=True, duration_ms=0)
    if result is None or isinstance(result, ToolResult):
        return None if result is None else whole_result(result)
    text = f"The model's own reply was no ToolResult: {result!r}"
    return ToolResult(call.id, text, is_error=True, duration_ms=0)


async def _execute_with_care(spec: ToolSpec, arguments: dict[str, Any], context: ToolContext) -> object:
    clock = context.clock
    fork = clock.fork(spec.timeout)
    if spec.context is not None:
        arguments = {**arguments, spec.context: context._replace(clock=fork)}
    try:
        async with asyncio.timeout(spec.timeout) as deadline:
            if spec.is_async:
                return await spec.function(**arguments)
            if spec.in_thread:
                return (await asyncio.to_thread(_outcome, spec.function, arguments)).result()
            return spec.function(**arguments)
    except TimeoutError as error:
        if spec.timeout is None or not (deadline.expired() or fork.expired()):
            raise
        msg = f"{spec.name} {TIMED_OUT} {spec.timeout:g} s"
        raise ToolError(msg) from error
    finally:
        clock.join([fork])


def _outcome(function: Callable[..., Any], arguments: dict[str, Any]) -> Future[Any]:
    """What a function returned or raised. If a thread raised a StopIteration, asyncio would wait for ever."""
    outcome: Future[Any] = Future()
    try:
        outcome.set_result(function(**arguments))
    except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
        outcome.set_exception(error)
    return outcome


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if type(value) is int:
        return str(value)
    plain = to_jsonable_python(value, fallback=str, inf_nan_mode="constants")
    return plain if isinstance(plain, str) else to_json(plain, inf_nan_mode="constants").decode()


def _bad_arguments(call: ToolCall, spec: ToolSpec, error: Exception) -> tuple[str, bool]:
    try:
        from_json(call.arguments or "{}")
    except (ValueError, TypeError) as no_json:
        return f"The arguments of {spec.name} are not valid JSON: {no_json}. Accepted: {spec.accepted}", True
    if not isinstance(error, ValidationError):
        raise error
    faults = "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)[:5]
    )
    return f"Bad arguments for {spec.name}: {faults}. Accepted: {spec.accepted}", False


def _unknown_tool(name: str, tools: Mapping[str, ToolSpec]) -> str:
    if not tools:
        return f"There is no tool {name!r}; no tools are available. Answer in text."
    close = nearest(name, tools)
    hint = f" Did you mean {close}?" if close else ""
    return f"There is no tool {name!r}.{hint} Available: {', '.join(sorted(tools))}."
