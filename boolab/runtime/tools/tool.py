"""Tools: a typed Python function becomes a JSON schema, a validator and an executor, once.

`execute` makes one result of one call. An exception, bad arguments and an unknown tool are error results, which name
what is accepted. That includes exceptions that derive from BaseException alone, such as panics of Rust extensions; only
an interrupt and a cancellation reach the caller. `execute_together` runs several calls of one step.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    TypeAlias,
    cast,
    get_type_hints,
    overload,
)

from pydantic_core import SchemaValidator, ValidationError, from_json, to_json, to_jsonable_python
from typing_extensions import TypedDict

from boolab.core.clock import Clock
from boolab.core.redacted import TIMED_OUT
from boolab.core.surrogates import whole_result, whole_text
from boolab.core.types import JSON, Message, ToolCall, ToolResult
from boolab.errors import INTERRUPTS, SettingError, ToolError, describe, nearest
from boolab.io import checks
from boolab.io.checks import is_amount

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_RESULT: Final = 64 * 2**20
"""The longest result of a call, in characters; a longer one is truncated. No model reads a hundredth of it, each later
request would contain it, and a value in SQLite has at most a billion bytes."""


class ToolContext(NamedTuple):
    """The context of a call: annotate a parameter of a tool with this type to receive it.

    Attributes:
        run_id: The run that called it.
        step: The step's number, from 1.
        call: The call's number in the step, from 1.
        clock: The clock of the run. Sleep with `await ctx.sleep(seconds)`: under a scripted model the time is virtual.
        history: The run's growing list of messages, which must not be changed.
        caller: The turn that called the tool, only for tools that start subagents.
        root: The folder of the run: its `root`, or that of its `world`; None if it has none.

    Example:
        >>> import boolab as bl
        >>> async def wait(minutes: int, ctx: bl.ToolContext) -> str:
        ...     await ctx.sleep(60 * minutes)
        ...     return f"waited in step {ctx.step}"
        >>> given = {"tool_calls": [{"name": "wait", "arguments": {"minutes": 10}}]}
        >>> run = bl.run_sync(None, "Wait.", model=bl.ScriptedModel([given, "Done."]), tools=[wait])
        >>> run.steps[0].results[0].content, run.duration_ms
        ('waited in step 1', 600000)
    """

    run_id: str
    step: int
    call: int
    clock: Clock
    history: Sequence[Message] = ()
    caller: Any = None
    root: Path | None = None

    async def sleep(self, seconds: float) -> None:
        """Sleep on the run's clock.

        Args:
            seconds: How long.

        Raises:
            TimeoutError: at the tool's deadline.
        """
        await self.clock.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool, which `tool` makes of a function. Calling it calls the function."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Callable[..., Any] = field(repr=False)
    validate: Callable[[str], dict[str, Any]] = field(repr=False, compare=False)
    read_only: bool = False
    pauses: bool = False
    timeout: float | None = None
    in_thread: bool = False
    is_async: bool = False
    context: str | None = None
    needs_care: bool = field(default=False, repr=False)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What makes two tools equal: see `boolab.sweeps.fingerprints`."""
        kinds = (self.read_only, self.pauses, self.timeout, self.in_thread)
        return (self.name, self.description, self.parameters, kinds, self.function)

    def __call__(self, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - whatever the function returns
        return self.function(*args, **kwargs)

    @property
    def accepted(self) -> str:
        """The accepted arguments on one line, for error results.

        Example:
            >>> import boolab as bl
            >>> @bl.tool
            ... def grep(pattern: str, limit: int = 10) -> str: ...
            >>> grep.accepted
            '{"pattern": string, "limit": integer (optional)}'
        """
        required = self.parameters.get("required", ())
        entries = (
            f'"{name}": {_type_name(schema)}{"" if name in required else " (optional)"}'
            for name, schema in self.parameters.get("properties", {}).items()
        )
        return "{" + ", ".join(entries) + "}"


@overload
def tool(fn: Callable[..., Any]) -> ToolSpec: ...
@overload
def tool(
    fn: None = None,
    *,
    name: str | None = None,
    read_only: bool = False,
    pauses: bool = False,
    timeout: float | None = None,
    thread: bool = False,
) -> Callable[[Callable[..., Any]], ToolSpec]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    read_only: bool = False,
    pauses: bool = False,
    timeout: float | None = None,
    thread: bool = False,
) -> ToolSpec | Callable[[Callable[..., Any]], ToolSpec]:
    """Make a tool from a typed function, plain or async. The schema and the validator are built here, once.

    The first paragraph of the docstring becomes the description, its `Args:` section (or `:param x:` lines) the
    parameters' descriptions. A parameter annotated with `ToolContext` receives the context and is not shown to the
    model. A plain function runs in the event loop; with `thread=True` or a `timeout` it runs in a thread (which
    continues after the timeout, because Python cannot stop it).

    Args:
        fn: The function; without it, the result is a decorator with these options.
        name: The name for the model; by default the function's.
        read_only: Whether it changes nothing, on which the agent's default budget depends.
        pauses: Whether a call pauses the run until `resume` brings an answer.
        timeout: Seconds after which the call becomes an error result.
        thread: Run a plain function in a thread.

    Returns:
        A `ToolSpec`; calling it calls the function.

    Raises:
        SettingError: if the signature has no JSON schema.

    Example:
        >>> import boolab as bl
        >>> @bl.tool(read_only=True)
        ... def add(a: int, b: int = 1) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add(1, 2), add.parameters["required"]
        (3, ['a'])
    """
    if fn is None:
        return lambda fn: _spec(fn, name, read_only, pauses, timeout, thread)
    return _spec(fn, name, read_only, pauses, timeout, thread)


def as_tool(value: ToolSpec | Callable[..., Any]) -> ToolSpec:
    """A `ToolSpec` as it is, or that of a plain function; a `SettingError` if it is neither."""
    given: object = value
    if isinstance(given, ToolSpec):
        return given
    if callable(given):
        return tool(given)
    msg = f"{value!r} is no tool: expected a function, or what @tool makes of one"
    raise SettingError(msg)


def as_tools(values: Iterable[ToolSpec | Callable[..., Any]]) -> tuple[ToolSpec, ...]:
    """The tools of a list of tools and plain functions; a `SettingError` if it is none."""
    given: object = values
    if isinstance(given, str) or not isinstance(given, Iterable):
        msg = f"tools: {given!r} is not accepted; expected a list of tools or functions"
        raise SettingError(msg)
    return tuple(map(as_tool, values))


@lru_cache(maxsize=1024)
def open_tool(name: str) -> ToolSpec:
    """A tool that takes any arguments and has no function: its results come from the model's `reply`."""

    def function(**_: object) -> str:
        msg = f"{name} has no function here"
        raise ToolError(msg)

    return ToolSpec(
        name=whole_text(name),
        description="",
        parameters={"type": "object", "properties": {}, "additionalProperties": True},
        function=function,
        validate=cast("Callable[[str], dict[str, Any]]", _any_object.validate_json),
    )


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
    calls: Sequence[ToolCall], places: Sequence[int], step: int, run: ExecutionContext, results: list[ToolResult | None]
) -> None:
    """Execute the calls of one step that are at these places concurrently.

    `results` has one entry for each call of the step, which is set when the call ends. If a tool raises an interrupt,
    the others are cancelled, and it is raised.
    """

    async def one(place: int, clock: Clock) -> None:
        try:
            results[place] = await execute(calls[place], step, place + 1, run, clock)
        except INTERRUPTS as error:
            raise _InterruptedError from error

    forks = [run.clock.fork() for _ in places]
    waiting = list(zip(places, forks, strict=True))
    if run.reply is not None and run.clock.virtual:
        # Replies in virtual time never wait, and a task for each would take longer than a step.
        for place, fork in waiting:
            results[place] = await _replied(run.reply, calls[place], step, place + 1, run, fork)
        waiting = [(place, fork) for place, fork in waiting if results[place] is None]
        run = replace(run, reply=None)
    if waiting:
        try:
            async with asyncio.TaskGroup() as group:
                for place, fork in waiting:
                    group.create_task(one(place, fork))
        except ExceptionGroup as several:
            raise several.exceptions[0].__cause__ or several from None
    run.clock.join(forks)


class _InterruptedError(Exception):
    """Wraps an interrupt in a task: otherwise asyncio raises it from its event loop, not from the task group."""


async def execute(  # noqa: C901, PLR0912 - all ways in which a call can end
    call: ToolCall, step: int, number: int, run: ExecutionContext, clock: Clock
) -> ToolResult:
    """Execute one call, the `number`-th of a step, on a clock of its own.

    An exception of the tool becomes the result, except for an interrupt and a cancellation of this task.
    """
    if run.reply is not None:
        replied = await _replied(run.reply, call, step, number, run, clock)
        if replied is not None:
            return replied
    spec = run.tools.get(call.name)
    if spec is None:
        return ToolResult(call.id, _unknown_tool(call.name, run.tools), is_error=True, duration_ms=0)
    try:
        arguments = spec.validate(call.arguments or "{}")
    except (ValidationError, TypeError) as error:  # a TypeError for lone surrogates
        text, broken = _bad_arguments(call, spec, error)
        return ToolResult(call.id, text, is_error=True, parse_error=broken, duration_ms=0)
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
    """Raised by a model's `reply` for a result that ended the recorded run; `why` is the error of that run."""

    def __init__(self, result: ToolResult, why: str) -> None:
        super().__init__(why)
        self.result = result


async def _replied(
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


def _spec(
    fn: Callable[..., Any], name: str | None, read_only: bool, pauses: bool, timeout: float | None, thread: bool
) -> ToolSpec:
    shown = name or str(getattr(fn, "__name__", ""))
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", shown):
        msg = f"{shown!r} cannot be a tool's name: expected 1 to 64 letters, digits, '_', '-' or '.'; pass name=..."
        raise SettingError(msg)
    if timeout is not None and not (is_amount(timeout) and timeout > 0):
        msg = f"{shown}: timeout={checks.repr_of(timeout)}: expected seconds > 0, or None"
        raise SettingError(msg)
    summary, about = _read_docstring(inspect.getdoc(fn) or "")
    adapter, context = _adapter(fn, shown, about)
    is_async = inspect.iscoroutinefunction(fn)
    in_thread = not is_async and (thread or timeout is not None)
    return ToolSpec(
        name=shown,
        description=summary,
        parameters=_tidy(adapter.json_schema()),
        function=fn,
        validate=cast("SchemaValidator", adapter.validator).validate_json,
        read_only=read_only,
        pauses=pauses,
        timeout=timeout,
        in_thread=in_thread,
        is_async=is_async,
        context=context,
        needs_care=in_thread or timeout is not None or context is not None,
    )


def _adapter(fn: Callable[..., Any], name: str, about: Mapping[str, str]) -> tuple[TypeAdapter[Any], str | None]:
    """The validator of keyword arguments, and the name of the parameter that receives the context."""
    # Imported here: it takes long, and a run without tools of the user does not need it.
    from pydantic import ConfigDict, Field, TypeAdapter, with_config
    from pydantic.errors import PydanticUserError

    try:
        hints = get_type_hints(fn, include_extras=True)
    except (NameError, TypeError) as error:
        msg = f"tool {name}: its annotations cannot be resolved: {error}"
        raise SettingError(msg) from error
    fields: dict[str, Any] = {}
    context = None
    extra: str = "forbid"
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            msg = f"tool {name}: parameter {parameter} has no name for the model; make it an ordinary parameter"
            raise SettingError(msg)
        kind = hints.get(parameter.name, Any)
        if kind is ToolContext:
            context = parameter.name
            continue
        if parameter.name in about:
            kind = Annotated[kind, Field(description=about[parameter.name])]
        if parameter.default is not parameter.empty:
            if parameter.default is None or isinstance(parameter.default, str | int | float | bool):
                kind = Annotated[kind, Field(json_schema_extra={"default": parameter.default})]
            kind = NotRequired[kind]
        fields[parameter.name] = kind
    try:
        arguments = TypedDict(f"{name}_arguments", fields)  # type: ignore[misc] # one for each function
        config = ConfigDict(extra=cast("Any", extra), arbitrary_types_allowed=False)
        return TypeAdapter(with_config(config)(arguments)), context
    except PydanticUserError as error:
        msg = f"tool {name}: a parameter's type cannot be put into a JSON schema: {error.message}"
        raise SettingError(msg) from error


def _tidy(schema: JSON) -> JSON:
    if isinstance(schema, dict):
        return {k: _tidy(v) for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
    return [_tidy(item) for item in schema] if isinstance(schema, list) else schema


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns?|Raises|Yields?|Examples?|Notes?):\s*$")
_GOOGLE = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The summary, and the parameters' descriptions of a Google or Sphinx docstring."""
    summary: list[str] = []
    about: dict[str, str] = {}
    section, latest, indent = "", "", None
    for line in text.splitlines():
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        if match := _SECTION.match(line):
            section, latest, indent = match[1], "", None
        elif match := _SPHINX.match(stripped):
            section, latest = "param", match[1]
            about[latest] = match[2]
        elif section == "":
            summary.append(stripped)
        elif section in ("Args", "Arguments", "Parameters") and stripped:
            indent = depth if indent is None else indent
            if depth == indent and (match := _GOOGLE.match(stripped)):
                latest = match[1]
                about[latest] = match[2]
            elif latest:
                about[latest] = f"{about[latest]} {stripped}".strip()
    paragraph = "\n".join(summary).strip().split("\n\n")[0]
    return paragraph.replace("\n", " "), about


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


def _type_name(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type_name(option) for option in schema["anyOf"])
    kind = schema.get("type", "any")
    return f"array of {_type_name(schema['items'])}" if kind == "array" and schema.get("items") else str(kind)


_any_object: Final = SchemaValidator({"type": "dict", "keys_schema": {"type": "str"}, "values_schema": {"type": "any"}})
