"""Tools: a typed Python function becomes a JSON schema and a validator, once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NamedTuple,
    NotRequired,
    cast,
    get_type_hints,
    overload,
)

from pydantic_core import SchemaValidator
from typing_extensions import TypedDict

from boolab.core.clock import Clock
from boolab.core.messages import Message
from boolab.core.surrogates import whole_text
from boolab.core.types import JSON
from boolab.errors import SettingError, ToolError
from boolab.io import checks
from boolab.io.checks import is_amount

if TYPE_CHECKING:
    from pydantic import TypeAdapter


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
    candidate: object = value
    if isinstance(candidate, ToolSpec):
        return candidate
    if callable(candidate):
        return tool(candidate)
    msg = f"{value!r} is no tool: expected a function, or what @tool makes of one"
    raise SettingError(msg)


def as_tools(values: Iterable[ToolSpec | Callable[..., Any]]) -> tuple[ToolSpec, ...]:
    """The tools of a list of tools and plain functions; a `SettingError` if it is none."""
    candidates: object = values
    if isinstance(candidates, str) or not isinstance(candidates, Iterable):
        msg = f"tools: {candidates!r} is not accepted; expected a list of tools or functions"
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


def _spec(
    fn: Callable[..., Any], name: str | None, read_only: bool, pauses: bool, timeout: float | None, thread: bool
) -> ToolSpec:
    label = name or str(getattr(fn, "__name__", ""))
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", label):
        msg = f"{label!r} cannot be a tool's name: expected 1 to 64 letters, digits, '_', '-' or '.'; pass name=..."
        raise SettingError(msg)
    if timeout is not None and not (is_amount(timeout) and timeout > 0):
        msg = f"{label}: timeout={checks.repr_of(timeout)}: expected seconds > 0, or None"
        raise SettingError(msg)
    summary, descriptions = _read_docstring(inspect.getdoc(fn) or "")
    adapter, context = _adapter(fn, label, descriptions)
    is_async = inspect.iscoroutinefunction(fn)
    in_thread = not is_async and (thread or timeout is not None)
    return ToolSpec(
        name=label,
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


def _adapter(fn: Callable[..., Any], name: str, descriptions: Mapping[str, str]) -> tuple[TypeAdapter[Any], str | None]:
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
        if parameter.name in descriptions:
            kind = Annotated[kind, Field(description=descriptions[parameter.name])]
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
    descriptions: dict[str, str] = {}
    section, latest, indent = "", "", None
    for line in text.splitlines():
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        if match := _SECTION.match(line):
            section, latest, indent = match[1], "", None
        elif match := _SPHINX.match(stripped):
            section, latest = "param", match[1]
            descriptions[latest] = match[2]
        elif section == "":
            summary.append(stripped)
        elif section in ("Args", "Arguments", "Parameters") and stripped:
            indent = depth if indent is None else indent
            if depth == indent and (match := _GOOGLE.match(stripped)):
                latest = match[1]
                descriptions[latest] = match[2]
            elif latest:
                descriptions[latest] = f"{descriptions[latest]} {stripped}".strip()
    paragraph = "\n".join(summary).strip().split("\n\n")[0]
    return paragraph.replace("\n", " "), descriptions


def _type_name(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type_name(option) for option in schema["anyOf"])
    kind = schema.get("type", "any")
    return f"array of {_type_name(schema['items'])}" if kind == "array" and schema.get("items") else str(kind)


_any_object: Final = SchemaValidator({"type": "dict", "keys_schema": {"type": "str"}, "values_schema": {"type": "any"}})
