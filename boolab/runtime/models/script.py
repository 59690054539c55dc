"""The format of scripts, from which a `ScriptedModel` answers.

A script is a list of items, one for each response:

    - text: Let me look.
      tool_calls: [{name: search_text, arguments: {pattern: old_name}}]
      usage: {input_tokens: 900, output_tokens: 40, cost_usd: 0.004}
      latency_ms: 800
    - text: Done.

All keys of an item: `text, reasoning, tool_calls: [{id, name, arguments: mapping or raw text}], finish_reason, usage:
{input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_usd}, latency_ms, ttft_ms,
error: {status | reset | garbage, after}, repeat: n or forever, when: {last_result: pattern}`.

- `error` breaks the response off after `after` characters of its text: with an HTTP `status`, a connection `reset`, or
  `garbage` that cannot be parsed (but is paid for).
- `repeat` gives the same response n times.
- `when` skips the item and its repetitions, unless the latest tool result matches the regular expression (RE2's
  syntax).

A file may be a list of items, or a mapping with `items` and, optionally, `name`, `description` and:

- `summary`: the item for the summary that a policy requests when a limit stops the run.
- `compaction`: the item for each summary that shortens a long history; by default `summary`. Without either, the
  history is never shortened.
- `context_window`: the number of tokens that fit into a request, so that a policy's own compaction takes place.
- `tools`: results by tool, so that no tool is executed: `{text, error, latency_ms}`, or a list of them for the first,
  second, ... call of that tool. Later calls get the last one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from boolab.core.types import MICRO, Response, ToolCall, Usage
from boolab.errors import ScriptError
from boolab.io.safe_regex import Pattern, compile_pattern
from boolab.io.yaml_loader import YamlDocument, accepted_keys

FOREVER: Final = 1 << 62
MAX_AMOUNT: Final = 2**53
"""The most tokens, milliseconds and micro-dollars of an item, so that sums of many items fit a column of integers."""
MAX_CONDITIONS: Final = 1_000
"""The most items with a condition: each pattern takes up to 64 KiB and is evaluated at each step."""
_Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_AMOUNT)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Usage(_Strict):
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None
    cost_usd: Annotated[float, Field(ge=0, le=MAX_AMOUNT / MICRO)] | None = None


class _ItemCall(_Strict):
    id: str | None = None
    name: str
    arguments: dict[str, Any] | str = {}

    @field_validator("arguments")
    @classmethod
    def _are_json(cls, arguments: dict[str, Any] | str) -> dict[str, Any] | str:
        try:
            json.dumps(arguments)
        except (TypeError, ValueError) as error:
            msg = f"cannot be written as JSON: {error}; put dates and the like in quotes"
            raise ValueError(msg) from error
        return arguments


class ScriptFault(_Strict):
    """How a response breaks off."""

    status: Annotated[int, Field(ge=400, le=599)] | None = None
    reset: bool = False
    garbage: bool | str = False
    after: NonNegativeInt = 0

    @model_validator(mode="after")
    def _check_one_kind(self) -> ScriptFault:
        if (self.status is not None) + self.reset + bool(self.garbage) != 1:
            msg = "give exactly one of status, reset and garbage"
            raise ValueError(msg)
        return self


class _When(_Strict):
    last_result: str

    @field_validator("last_result")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        compile_pattern(pattern)
        return pattern


class _Item(_Strict):
    text: str = ""
    reasoning: str = ""
    tool_calls: list[_ItemCall] = []
    finish_reason: str | None = None
    usage: _Usage = _Usage()
    latency_ms: _Count = 0
    ttft_ms: _Count | None = None
    error: ScriptFault | None = None
    repeat: PositiveInt | Literal["forever"] = 1
    when: _When | None = None


class ScriptResult(_Strict):
    """The result of a tool's call."""

    text: str = ""
    error: bool | str = False
    latency_ms: _Count = 0


class _Ready(_Item):
    """A finished `Response`, used as it is."""

    response: Any


def _as_item(value: object) -> object:
    if isinstance(value, Response):
        return _Ready.model_construct(response=value)
    return {"text": value} if isinstance(value, str) else value


def _as_results(value: object) -> object:
    values = value if isinstance(value, list) else [value]
    return [{"text": result} if isinstance(result, str) else result for result in values]


_AnyItem: TypeAlias = Annotated[_Item, BeforeValidator(_as_item)]


class Script(_Strict):
    """The content of a file."""

    name: str | None = None
    description: str = ""
    items: list[_AnyItem]
    summary: _AnyItem | None = None
    compaction: _AnyItem | None = None
    context_window: PositiveInt | None = None
    tools: dict[str, Annotated[list[ScriptResult], BeforeValidator(_as_results), Field(min_length=1)]] = {}

    @model_validator(mode="before")
    @classmethod
    def _few_conditions(cls, data: object) -> object:
        items = data.get("items") if isinstance(data, dict) else None
        n = sum(isinstance(item, dict) and "when" in item for item in items) if isinstance(items, list) else 0
        if n > MAX_CONDITIONS:
            msg = f"{n:,} items have a condition (when): expected at most {MAX_CONDITIONS:,}"
            raise ValueError(msg)
        return data


Item: TypeAlias = Mapping[str, Any] | str | Response
"""One response of a script: a mapping as above, a plain text, or a finished `Response`."""


class Compiled(NamedTuple):
    """An item, prepared: its response, and what becomes of it."""

    response: Response
    ids: tuple[str | None, ...]
    latency_ms: int
    fault: ScriptFault | None
    repeat: int
    condition: Pattern | None


def ready_item(response: Response) -> Compiled:
    """The item of a finished response."""
    return Compiled(response, (), 0, None, 1, None)


def compile_item(item: _Item) -> Compiled:
    """Prepare an item."""
    if isinstance(item, _Ready):
        return ready_item(item.response)
    calls = tuple(
        ToolCall("", call.name, call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments))
        for call in item.tool_calls
    )
    usage = item.usage
    response = Response(
        item.text,
        calls,
        item.finish_reason or ("tool_calls" if calls else "stop"),
        Usage(
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.reasoning_tokens,
            None if usage.cost_usd is None else round(usage.cost_usd * MICRO),
            usage.cache_write_tokens,
        ),
        item.reasoning,
        item.ttft_ms,
    )
    return Compiled(
        response,
        tuple(call.id for call in item.tool_calls),
        max(item.latency_ms, item.ttft_ms or 0),
        item.error,
        FOREVER if item.repeat == "forever" else item.repeat,
        None if item.when is None else compile_pattern(item.when.last_result),
    )


def validate_script(data: object, document: YamlDocument | None = None, path: Path | None = None) -> Script:
    """Check a script; a `ScriptError` with the path and the line if it is not valid."""
    bare = isinstance(data, list)
    if not bare and not isinstance(data, dict):
        msg = "expected a list of items, or a mapping with 'items'"
        raise ScriptError(msg, path=path, line=1)
    try:
        return Script.model_validate({"items": data} if bare else data)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        location = fault["loc"][1:] if bare and fault["loc"][:1] == ("items",) else fault["loc"]
        field = ".".join(str(p) for p in location if not str(p).startswith(("function-", "dict[", "literal[")))
        line = None if document is None else document.line(location)
        extra = fault["type"] == "extra_forbidden"
        hint = f"; accepted here: {accepted_keys(Script, fault['loc'])}" if extra else ""
        raise ScriptError(f"{field or 'the script'}: {fault['msg']}{hint}", path=path, line=line) from error
    except RecursionError:
        msg = "the script is nested too deeply"
        raise ScriptError(msg, path=path) from None
