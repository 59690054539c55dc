"""`ScriptedModel`: a model that answers from a script, for tests, demos and sweeps.

A script is a list of items, one for each response:

    - text: Let me look.
      tool_calls: [{name: search_text, arguments: {pattern: old_name}}]
      usage: {input_tokens: 900, output_tokens: 40, cost_usd: 0.004}
      latency_ms: 800
    - text: Done.

All keys of an item: `text, reasoning, tool_calls: [{id, name, arguments: mapping or raw text}], finish_reason, usage:
{input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd}, latency_ms, ttft_ms, error: {status | reset |
garbage, after}, repeat: n or forever, when: {last_result: pattern}`.

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

import asyncio
import bisect
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
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

from boolab.core.context import Context
from boolab.core.text import count
from boolab.core.types import MICRO, Message, Response, StepStart, ToolCall, ToolResult, Usage
from boolab.errors import ModelError, ScriptError, ScriptExhausted
from boolab.io.safe_regex import Pattern, compiled
from boolab.io.yaml_loader import Document, read_document
from boolab.runtime.models.base import RETRYABLE, Emit, LocalModel, Request
from boolab.runtime.models.yaml_file import accepted_keys
from boolab.runtime.tools.tool import ToolContext

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
    reasoning_tokens: _Count | None = None
    cost_usd: Annotated[float, Field(ge=0, le=MAX_AMOUNT / MICRO)] | None = None


class _Call(_Strict):
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


class _Fault(_Strict):
    status: Annotated[int, Field(ge=400, le=599)] | None = None
    reset: bool = False
    garbage: bool | str = False
    after: NonNegativeInt = 0

    @model_validator(mode="after")
    def _one_kind(self) -> _Fault:
        if (self.status is not None) + self.reset + bool(self.garbage) != 1:
            msg = "give exactly one of status, reset and garbage"
            raise ValueError(msg)
        return self


class _When(_Strict):
    last_result: str

    @field_validator("last_result")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        compiled(pattern)
        return pattern


class _Item(_Strict):
    text: str = ""
    reasoning: str = ""
    tool_calls: list[_Call] = []
    finish_reason: str | None = None
    usage: _Usage = _Usage()
    latency_ms: _Count = 0
    ttft_ms: _Count | None = None
    error: _Fault | None = None
    repeat: PositiveInt | Literal["forever"] = 1
    when: _When | None = None


class _Result(_Strict):
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
    return [{"text": one} if isinstance(one, str) else one for one in values]


_AnyItem: TypeAlias = Annotated[_Item, BeforeValidator(_as_item)]


class _Script(_Strict):
    name: str | None = None
    description: str = ""
    items: list[_AnyItem]
    summary: _AnyItem | None = None
    compaction: _AnyItem | None = None
    context_window: PositiveInt | None = None
    tools: dict[str, Annotated[list[_Result], BeforeValidator(_as_results), Field(min_length=1)]] = {}

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
_WORDS: Final = re.compile(r"(?<=\s)(?=\S)")
"""The beginnings of words: texts are streamed word by word."""


class _Compiled(NamedTuple):
    response: Response
    ids: tuple[str | None, ...]
    latency_ms: int
    fault: _Fault | None
    repeat: int
    when: Pattern | None


class ScriptedModel(LocalModel):
    """A model that answers from a script. One instance serves any number of concurrent runs.

    Latencies pass on a virtual clock, unless `realtime` is set. The items of a script and its tool results are
    explained at the top of the module `boolab.runtime.models.scripted`.

    Args:
        items: The responses in order; or a function from the messages so far to the next response (None: no more).
        realtime: Whether latencies pass in real time.
        name: The model's name in records.
        summary: The response to a request for a summary; without one, policies use their static text.
        compaction: The response to a request for a summary when the history is compacted; by default `summary`.
        context_window: The number of tokens that fit into a request; None for no limit.
        tools: Results by tool name.
        finish_tool: For a harness in which a text never ends a turn: the tool that a response without calls then calls.

    Raises:
        ScriptError: if an item is not valid.

    Example:
        >>> import boolab as bl
        >>> model = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": 3}, "Done."])
        >>> model.name, len(model)
        ('scripted', 4)
    """

    def __init__(
        self,
        items: Sequence[Any] | Callable[[Sequence[Message]], Item | None],
        *,
        realtime: bool = False,
        name: str = "scripted",
        summary: Item | None = None,
        compaction: Item | None = None,
        context_window: int | None = None,
        tools: Mapping[str, Any] | None = None,
        finish_tool: str | None = None,
    ) -> None:
        if isinstance(items, str | bytes | Mapping):
            msg = f"a script is a list of items or a function, not {items!r}"
            raise ScriptError(msg)
        self._next = items if callable(items) else None
        self.name = name
        self.description = ""
        self.virtual = not realtime
        self.finish_tool = finish_tool
        listed = [] if callable(items) else list(items)
        parts = {"summary": summary, "compaction": compaction, "context_window": context_window}
        self._set(_validate({"items": listed, **parts, "tools": dict(tools or {})}))

    @classmethod
    def load(cls, path: str | Path, *, realtime: bool = False, finish_tool: str | None = None) -> ScriptedModel:
        """Read a script from a YAML file. The model's name is that in the file, or the file's.

        Args:
            path: The YAML file.
            realtime: Whether latencies pass in real time.
            finish_tool: The tool that a response without calls calls, where a text never ends a turn.

        Returns:
            The model.

        Raises:
            ScriptError: if the file cannot be read, with its path and line.
        """
        path = Path(path)
        document = read_document(path, ScriptError)
        script = _validate(document.data, document, path)
        model = cls((), realtime=realtime, name=script.name or path.stem, finish_tool=finish_tool)
        model.description = script.description
        model._set(script)
        return model

    def _set(self, script: _Script) -> None:
        self._items = items = [_compile(item) for item in script.items]
        self._ends = [0]
        for item in items:
            self._ends.append(min(self._ends[-1] + item.repeat, FOREVER))
        self._conditional = any(item.when for item in items)
        self._single = not self._conditional and all(item.repeat == 1 for item in items)
        if self._single:
            self._items = [item._replace(response=_numbered(item, i), ids=()) for i, item in enumerate(items)]
        self._summary = None if script.summary is None else _compile(script.summary)
        self._compaction = None if script.compaction is None else _compile(script.compaction)
        self.context_window = script.context_window
        self._results = script.tools
        self.reply = self._reply if script.tools else None

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """The script: models with equal fingerprints give equal responses."""
        aside = (self._summary, self._compaction, self.context_window, self._results)
        return (self.name, self._next, self._items, self.finish_tool, *aside)

    def __len__(self) -> int:
        """The number of responses, including repetitions; `FOREVER` if the script never ends."""
        return self._ends[-1]

    def __repr__(self) -> str:
        size = "a function" if self._next else "forever" if len(self) == FOREVER else count(len(self), "response")
        return f"<ScriptedModel {self.name}: {size}>"

    @property
    def summarises(self) -> bool:
        """Whether the script has a summary."""
        return self._summary is not None

    @property
    def compacts(self) -> bool:
        """Whether the script has a summary for a compaction."""
        return self._compaction is not None or self.summarises

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        item = self._find(request)
        if self.finish_tool is not None and _is_end(item, request):
            item = _finishing(item, self.finish_tool)
        if emit is None and item.fault is None and not item.latency_ms:
            return _numbered(item, request.index)
        return await _play(item, request, emit)

    def _find(self, request: Request) -> _Compiled:
        index = request.index
        if request.purpose != "step":
            aside = self._summary if request.purpose == "summary" else self._compaction or self._summary
            if aside is None:
                msg = f"the script {self.name} holds no {request.purpose}"
                raise ScriptExhausted(msg)
            return aside
        if self._next is not None:
            item = self._next(request.messages)
            if item is None:
                msg = f"the function of script {self.name} gave no response {index + 1}"
                raise ScriptExhausted(msg)
            return _ready(item) if isinstance(item, Response) else _compile(_validate({"items": [item]}).items[0])
        if self._conditional:
            return self._find_conditional(request)
        if index >= self._ends[-1]:
            msg = f"the script {self.name} holds {count(len(self), 'response')}; response {index + 1} was asked for"
            raise ScriptExhausted(msg)
        return self._items[index if self._single else bisect.bisect_right(self._ends, index) - 1]

    def _find_conditional(self, request: Request) -> _Compiled:
        """The item for a request to a script with conditions: the results so far decide it, from the start."""
        place, used = 0, 0
        found: _Compiled | None = None
        messages = request.messages.whole if isinstance(request.messages, Context) else request.messages
        for latest in _latest_results(messages, request.index):
            while place < len(self._items):
                item = self._items[place]
                if used < item.repeat and (item.when is None or item.when.is_in(latest)):
                    break
                place, used = place + 1, 0
            else:
                msg = f"no item of script {self.name} is left for response {request.index + 1}"
                raise ScriptExhausted(msg)
            found, used = item, used + 1
        assert found is not None  # noqa: S101 - there is one response for each request
        return found

    def replies_to(self, tool: str) -> bool:
        return tool in self._results

    def _reply(self, call: ToolCall, context: ToolContext) -> Awaitable[ToolResult] | None:
        results = self._results.get(call.name)
        if results is None:
            return None
        nth = _count_calls(call.name, context) if len(results) > 1 else 0
        return _give(call, results[min(nth, len(results) - 1)], context)


async def _give(call: ToolCall, result: _Result, context: ToolContext) -> ToolResult:
    if result.latency_ms:
        await context.sleep(result.latency_ms / 1000)
    text = result.error if isinstance(result.error, str) else result.text
    return ToolResult(call.id, text, bool(result.error), duration_ms=result.latency_ms)


def _count_calls(name: str, context: ToolContext) -> int:
    """The number of calls of that tool before this one in its run."""
    assistant = [message for message in context.history if _is_response(message)]
    *earlier, latest = ([part for part in message.parts if isinstance(part, ToolCall)] for message in assistant)
    same_step = latest[: context.call - 1]
    return sum(call.name == name for calls in earlier for call in calls) + sum(c.name == name for c in same_step)


def _is_response(message: Message) -> bool:
    """Whether a message is a response of this run, not a part of its prompt."""
    return message.role == "assistant" and isinstance(message.parts[0], StepStart)


def _latest_results(messages: Sequence[Message], index: int) -> Iterator[str]:
    """For each response from the first to number `index`: the latest tool result before it ("" if none)."""
    latest = ""
    yielded = 0
    for message in messages:
        start = message.parts[0] if message.role == "assistant" and message.parts else None
        if isinstance(start, StepStart):
            for _ in range(yielded, min(start.step_number, index)):  # more than one: broken responses have no message
                yield latest
            yielded = start.step_number
        elif message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    latest = part.content
    for _ in range(yielded, index + 1):
        yield latest


async def _play(item: _Compiled, request: Request, emit: Emit | None) -> Response:
    """Stream a response: its latency passes, its deltas are emitted, and its fault is raised."""
    response = _numbered(item, request.index)
    text = response.text if item.fault is None else response.text[: item.fault.after]
    chunks = _WORDS.split(text) if emit is not None and text else []
    first = min(response.ttft_ms or 0, item.latency_ms)
    passed = 0
    if emit is not None and response.reasoning:
        emit("reasoning", response.reasoning)
        await asyncio.sleep(0)
    for i, chunk in enumerate(chunks):
        due = first + (item.latency_ms - first) * i // len(chunks)
        await request.clock.sleep((due - passed) / 1000)
        passed = due
        if emit is not None:
            emit("text", chunk)
            await asyncio.sleep(0)
    await request.clock.sleep((item.latency_ms - passed) / 1000)
    if item.fault is not None:
        raise _broken(item.fault, response._replace(text=text, tool_calls=(), finish_reason=None))
    if emit is not None:
        for call in response.tool_calls:
            emit("tool_call", f"{call.name} {call.arguments}")
            await asyncio.sleep(0)
    return response


def _broken(fault: _Fault, partial: Response) -> ModelError:
    if fault.garbage:
        raw = fault.garbage if isinstance(fault.garbage, str) else "\x00\x00"
        return ModelError(f"the response cannot be parsed: {raw!r}", partial=partial)
    where = f" after {len(partial.text)} characters" if partial.text else ""
    if not partial.text:
        partial = partial._replace(usage=Usage())
    if fault.reset:
        return ModelError(f"the connection was reset{where}", retryable=True, partial=partial)
    return ModelError(
        f"HTTP {fault.status}{where}", status=fault.status, retryable=fault.status in RETRYABLE, partial=partial
    )


def _numbered(item: _Compiled, index: int) -> Response:
    """The response, with call ids that are unique in the run."""
    if not item.ids:
        return item.response
    response = item.response
    numbered = [
        ToolCall(given or f"call_{index + 1}_{n}", call.name, call.arguments)
        for n, (given, call) in enumerate(zip(item.ids, response.tool_calls, strict=True), 1)
    ]
    return response._replace(tool_calls=tuple(numbered))


def _is_end(item: _Compiled, request: Request) -> bool:
    """Whether an item is a text of the loop without calls, and comes whole."""
    return request.purpose == "step" and item.fault is None and not item.response.tool_calls


def _finishing(item: _Compiled, tool: str) -> _Compiled:
    """The item with a call of the tool that ends a turn."""
    response = item.response._replace(tool_calls=(ToolCall("", tool, "{}"),), finish_reason="tool_calls")
    return item._replace(response=response, ids=("",))


def _ready(response: Response) -> _Compiled:
    return _Compiled(response, (), 0, None, 1, None)


def _compile(item: _Item) -> _Compiled:
    if isinstance(item, _Ready):
        return _ready(item.response)
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
        ),
        item.reasoning,
        item.ttft_ms,
    )
    return _Compiled(
        response,
        tuple(call.id for call in item.tool_calls),
        max(item.latency_ms, item.ttft_ms or 0),
        item.error,
        FOREVER if item.repeat == "forever" else item.repeat,
        None if item.when is None else compiled(item.when.last_result),
    )


def _validate(data: object, document: Document | None = None, path: Path | None = None) -> _Script:
    bare = isinstance(data, list)
    if not bare and not isinstance(data, dict):
        msg = "expected a list of items, or a mapping with 'items'"
        raise ScriptError(msg, path=path, line=1)
    try:
        return _Script.model_validate({"items": data} if bare else data)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = fault["loc"][1:] if bare and fault["loc"][:1] == ("items",) else fault["loc"]
        where = ".".join(str(p) for p in place if not str(p).startswith(("function-", "dict[", "literal[")))
        line = None if document is None else document.line(place)
        extra = fault["type"] == "extra_forbidden"
        accepted = f"; accepted here: {accepted_keys(_Script, fault['loc'])}" if extra else ""
        raise ScriptError(f"{where or 'the script'}: {fault['msg']}{accepted}", path=path, line=line) from error
    except RecursionError:
        msg = "the script is nested too deeply"
        raise ScriptError(msg, path=path) from None
