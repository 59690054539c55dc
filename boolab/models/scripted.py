"""`ScriptedModel`: answers from a script, for tests, demos and sweeps. A model like any other; nothing is patched.

A script is a list of items, each one response:

    - text: Let me look.
      tool_calls: [{name: search_text, arguments: {pattern: old_name}}]
      usage: {input_tokens: 900, output_tokens: 40, cost_usd: 0.004}
      latency_ms: 800
    - text: Done.

All keys of an item: `text, reasoning, tool_calls: [{id, name, arguments: mapping or raw text}], finish_reason, usage:
{input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd}, latency_ms, ttft_ms, error: {status | reset |
garbage, after}, repeat: n or forever, when: {last_result: pattern}`.

- `error` breaks the response after `after` characters of its text: with an HTTP `status`, a connection `reset`, or
  `garbage` that cannot be parsed (and is paid for all the same).
- `repeat` gives the same response n times.
- `when` skips the item, its repetitions included, unless the latest tool result matches the regular expression
  (RE2's syntax: see `boolab.io.safe_regex`).

A file may be a list of items, or a mapping with `items`, and beside them `name`, `description`, and:

- `summary`: the item for the summary that a policy asks for when a limit stops the run.
- `compaction`: the item for each summary that shortens a long history on the way; without one, `summary` is used for
  that too, and without either the history is never shortened.
- `context_window`: how many tokens fit into a request, so that a policy's own compaction takes place.
- `tools`: results by tool, so that nothing is executed: `{text, error, latency_ms}`, or a list of them for the first,
  second, ... call of that tool, of which the last one stays.
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
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from boolab.core.context import Context
from boolab.core.types import MICRO, Message, Response, StepStart, ToolCall, ToolResult, Usage
from boolab.errors import ModelError, ScriptError, ScriptExhausted
from boolab.io.files import read_file
from boolab.io.safe_regex import Pattern, compiled
from boolab.io.yaml_loader import MAX_BYTES, Document, DocumentError, read_yaml
from boolab.models.base import Emit, Request
from boolab.tools.tool import ToolContext

FOREVER: Final = 1 << 62
_RETRYABLE: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


_MOST: Final = 2**53
"""The most tokens, milliseconds and micro-dollars of an item: so that sums over many fit a column of integers."""
_Count: TypeAlias = Annotated[int, Field(ge=0, le=_MOST)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Usage(_Strict):
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cached_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None
    cost_usd: Annotated[float, Field(ge=0, le=_MOST / MICRO)] | None = None


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


def _text_item(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


def _result_list(value: object) -> object:
    values = value if isinstance(value, list) else [value]
    return [_text_item(v) for v in values]


_CONDITIONS: Final = 1_000
"""How many items of a script may have a condition: each takes up to 64 KiB, and is tried at each step."""


class _Script(_Strict):
    name: str | None = None
    description: str = ""
    items: list[Annotated[_Item, BeforeValidator(_text_item)]]
    summary: Annotated[_Item, BeforeValidator(_text_item)] | None = None
    compaction: Annotated[_Item, BeforeValidator(_text_item)] | None = None
    context_window: PositiveInt | None = None
    tools: dict[str, Annotated[list[_Result], BeforeValidator(_result_list), Field(min_length=1)]] = {}

    @model_validator(mode="before")
    @classmethod
    def _few_conditions(cls, data: object) -> object:
        items = data.get("items") if isinstance(data, dict) else None
        n = sum(isinstance(item, dict) and "when" in item for item in items) if isinstance(items, list) else 0
        if n > _CONDITIONS:
            msg = f"{n:,} items have a condition (when): expected at most {_CONDITIONS:,}"
            raise ValueError(msg)
        return data


Item: TypeAlias = Mapping[str, Any] | str | Response
"""One response of a script: a mapping as above, a plain text, or a finished `Response`."""


_WORDS: Final = re.compile(r"(?<=\s)(?=\S)")
"""Where a word begins: what is streamed comes word by word."""


class _Compiled(NamedTuple):
    response: Response
    ids: tuple[str | None, ...]
    latency_ms: int
    fault: _Fault | None
    repeat: int
    when: Pattern | None


class ScriptedModel:
    """A model that answers from a script. It compiles the script once and serves any number of concurrent runs.

    Latencies move a virtual clock: nothing sleeps, unless `realtime` is set.

    Args:
        items: The responses in order; or a function from the messages so far to the next one (None: no more).
        realtime: Let latencies pass in real time.
        name: What the records call the model.
        summary: The response to a request for a summary; without one, policies use their static text.
        compaction: The response to a request for a summary on the way, when the history is compacted; without one,
            that is `summary`.
        context_window: How many tokens fit into a request; None where there is no end to them.
        tools: Results by tool name: see the module's documentation.

    Raises:
        ScriptError: if an item is not valid.

    Example:
        >>> import boolab as bl
        >>> model = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": 3}, "Done."])
        >>> model.name, len(model)
        ('scripted', 4)
    """

    _summary: _Compiled | None
    _compaction: _Compiled | None

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
    ) -> None:
        self._next = items if callable(items) else None
        if isinstance(items, str | bytes | Mapping):
            msg = f"a script is a list of items or a function, not {items!r}"
            raise ScriptError(msg)
        listed: list[Any] = [] if callable(items) else list(items)
        ready = {i: item for i, item in enumerate(listed) if isinstance(item, Response)}
        script = _validate(
            {
                "items": ["" if i in ready else item for i, item in enumerate(listed)],
                "summary": None if isinstance(summary, Response) else summary,
                "compaction": None if isinstance(compaction, Response) else compaction,
                "context_window": context_window,
                "tools": dict(tools or {}),
            }
        )
        self.name = name
        self.description = ""
        self.virtual = not realtime
        compiled = [_compile(item) for item in script.items]
        for i, response in ready.items():
            compiled[i] = _ready(response)
        self._set(compiled, script)
        if isinstance(summary, Response):
            self._summary = _ready(summary)
        if isinstance(compaction, Response):
            self._compaction = _ready(compaction)

    @classmethod
    def load(cls, path: str | Path, *, realtime: bool = False) -> ScriptedModel:
        """Read a script from a YAML file; its name is that in the file, or the file's.

        Args:
            path: The YAML file.
            realtime: Whether its latencies pass on the real clock, rather than on a virtual one.

        Returns:
            The model.

        Raises:
            ScriptError: if the file cannot be read, with its path and line.
        """
        path = Path(path)
        try:
            document = read_yaml(read_file(path, MAX_BYTES).decode())
        except OSError as error:
            raise ScriptError(f"cannot be read: {error.strerror}", path=path) from error
        except UnicodeDecodeError as error:
            msg = "is not UTF-8 text"
            raise ScriptError(msg, path=path) from error
        except DocumentError as error:
            raise ScriptError(error.message, path=path, line=error.line) from error
        script = _validate(document.data, document, path)
        model = cls((), realtime=realtime, name=script.name or path.stem)
        model.description = script.description
        model._set([_compile(item) for item in script.items], script)
        return model

    def _set(self, items: list[_Compiled], script: _Script) -> None:
        self._items = items
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
        """What the script is made of: see `boolab.sweeps.fingerprints`."""
        aside = (self._summary, self._compaction, self.context_window, self._results)
        return (self.name, self._next, self._items, *aside)

    def __len__(self) -> int:
        """How many responses the script holds, repetitions included; `FOREVER` if it never ends."""
        return self._ends[-1]

    def __repr__(self) -> str:
        size = "a function" if self._next else "forever" if len(self) == FOREVER else f"{len(self)} responses"
        return f"<ScriptedModel {self.name}: {size}>"

    @property
    def summarises(self) -> bool:
        """Whether the script holds a summary."""
        return self._summary is not None

    @property
    def compacts(self) -> bool:
        """Whether the script holds a summary for when its history is compacted."""
        return self._compaction is not None or self.summarises

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The script's response to this request: see `boolab.models.base.Model`.

        Args:
            request: The messages, the tools and the number of the call in its run.
            emit: Called with what comes, as it comes; None where nobody listens.

        Returns:
            The response, complete.
        """
        item = self._find(request)
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
            msg = f"the script {self.name} holds {len(self)} responses; response {index + 1} was asked for"
            raise ScriptExhausted(msg)
        return self._items[index if self._single else bisect.bisect_right(self._ends, index) - 1]

    def _find_conditional(self, request: Request) -> _Compiled:
        """Walk from the start: where a script with conditions stands follows from the results so far."""
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
        """Whether the script holds results for that tool.

        Args:
            tool: The tool's name.

        Returns:
            True if a call of it can be answered without the tool.
        """
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
    """How many calls of that tool came before this one in its run."""
    assistant = [message for message in context.history if _is_response(message)]
    *earlier, latest = ([part for part in message.parts if isinstance(part, ToolCall)] for message in assistant)
    same_step = latest[: context.call - 1]
    return sum(call.name == name for calls in earlier for call in calls) + sum(c.name == name for c in same_step)


def _is_response(message: Message) -> bool:
    """Whether a message is a response of this run, and no part of its prompt."""
    return message.role == "assistant" and isinstance(message.parts[0], StepStart)


def _latest_results(messages: Sequence[Message], index: int) -> Iterator[str]:
    """For each response from the first to number `index`: the latest tool result before it ("" if none)."""
    latest = ""
    asked = 0
    for message in messages:
        start = message.parts[0] if message.role == "assistant" and message.parts else None
        if isinstance(start, StepStart):
            for _ in range(asked, min(start.step_number, index)):  # responses that broke off are not among the messages
                yield latest
            asked = start.step_number
        elif message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    latest = part.content
    for _ in range(asked, index + 1):
        yield latest


async def _play(item: _Compiled, request: Request, emit: Emit | None) -> Response:
    """Stream a response: its latency passes, deltas are emitted, and it may break on the way."""
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
        f"HTTP {fault.status}{where}", status=fault.status, retryable=fault.status in _RETRYABLE, partial=partial
    )


def _numbered(item: _Compiled, index: int) -> Response:
    """The response with ids that no other response of the run has."""
    if not item.ids:
        return item.response
    response = item.response
    numbered = [
        ToolCall(given or f"call_{index + 1}_{n}", call.name, call.arguments)
        for n, (given, call) in enumerate(zip(item.ids, response.tool_calls, strict=True), 1)
    ]
    return response._replace(tool_calls=tuple(numbered))


def _ready(response: Response) -> _Compiled:
    return _Compiled(response, (), 0, None, 1, None)


def _compile(item: _Item) -> _Compiled:
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


_script_adapter: TypeAdapter[_Script] = TypeAdapter(_Script)


def _validate(data: object, document: Document | None = None, path: Path | None = None) -> _Script:
    bare = isinstance(data, list)
    if not bare and not isinstance(data, dict):
        msg = "expected a list of items, or a mapping with 'items'"
        raise ScriptError(msg, path=path, line=1)
    try:
        return _script_adapter.validate_python({"items": data} if bare else data)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = fault["loc"][1:] if bare and fault["loc"][:1] == ("items",) else fault["loc"]
        where = ".".join(str(p) for p in place if not str(p).startswith(("function-", "dict[", "literal[")))
        line = None if document is None else document.line(place)
        accepted = ""
        if fault["type"] == "extra_forbidden":
            accepted = f"; accepted here: {', '.join(_accepted_keys(fault['loc']))}"
        raise ScriptError(f"{where or 'the script'}: {fault['msg']}{accepted}", path=path, line=line) from error
    except RecursionError:
        msg = "the script is nested too deeply"
        raise ScriptError(msg, path=path) from None


def _accepted_keys(loc: tuple[int | str, ...]) -> list[str]:
    around: dict[str, type[BaseModel]] = {
        "tool_calls": _Call,
        "usage": _Usage,
        "error": _Fault,
        "when": _When,
        "items": _Item,
        "summary": _Item,
        "compaction": _Item,
    }
    names = [str(part) for part in loc[:-1]]
    model: type[BaseModel] = _Result if names[:1] == ["tools"] else _Script
    for name in names:
        model = around.get(name, model)
    return sorted(model.model_fields)
