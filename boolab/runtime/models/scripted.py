"""`ScriptedModel`: a model that answers from a script, for tests, demos and sweeps."""

from __future__ import annotations

import asyncio
import bisect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from boolab.core.context import Context
from boolab.core.messages import Message, StepStart
from boolab.core.text import count
from boolab.core.types import Response, ToolCall, ToolResult, Usage
from boolab.errors import ModelError, ScriptError, ScriptExhausted
from boolab.io.yaml_loader import read_document
from boolab.runtime.models.base import RETRYABLE, Emit, OfflineModel, Request
from boolab.runtime.models.script import (
    FOREVER,
    Compiled,
    Item,
    Script,
    ScriptFault,
    ScriptResult,
    compile_item,
    ready_item,
    validate_script,
)
from boolab.runtime.tools.tool import ToolContext

_WORDS: Final = re.compile(r"(?<=\s)(?=\S)")
"""The beginnings of words: texts are streamed word by word."""


class ScriptedModel(OfflineModel):
    """A model that answers from a script. One instance serves any number of concurrent runs.

    Latencies pass on a virtual clock, unless `realtime` is set. The items of a script and its tool results are
    explained at the top of the module `boolab.runtime.models.script`.

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
        item_list = [] if callable(items) else list(items)
        parts = {"summary": summary, "compaction": compaction, "context_window": context_window}
        self._set(validate_script({"items": item_list, **parts, "tools": dict(tools or {})}))

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
        script = validate_script(document.data, document, path)
        model = cls((), realtime=realtime, name=script.name or path.stem, finish_tool=finish_tool)
        model.description = script.description
        model._set(script)
        return model

    def _set(self, script: Script) -> None:
        self._items = items = [compile_item(item) for item in script.items]
        self._ends = [0]
        for item in items:
            self._ends.append(min(self._ends[-1] + item.repeat, FOREVER))
        self._conditional = any(item.condition for item in items)
        self._single = not self._conditional and all(item.repeat == 1 for item in items)
        if self._single:
            self._items = [item._replace(response=_number_calls(item, i), ids=()) for i, item in enumerate(items)]
        self._summary = None if script.summary is None else compile_item(script.summary)
        self._compaction = None if script.compaction is None else compile_item(script.compaction)
        self.context_window = script.context_window
        self._results = script.tools
        self.reply = self._reply if script.tools else None

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """The script: models with equal fingerprints give equal responses."""
        parts = (self._summary, self._compaction, self.context_window, self._results)
        return (self.name, self._next, self._items, self.finish_tool, *parts)

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
            item = _add_finish_call(item, self.finish_tool)
        if emit is None and item.fault is None and not item.latency_ms:
            return _number_calls(item, request.index)
        return await _play(item, request, emit)

    def _find(self, request: Request) -> Compiled:
        index = request.index
        if request.purpose != "step":
            summary = self._summary if request.purpose == "summary" else self._compaction or self._summary
            if summary is None:
                msg = f"the script {self.name} holds no {request.purpose}"
                raise ScriptExhausted(msg)
            return summary
        if self._next is not None:
            item = self._next(request.messages)
            if item is None:
                msg = f"the function of script {self.name} gave no response {index + 1}"
                raise ScriptExhausted(msg)
            return (
                ready_item(item)
                if isinstance(item, Response)
                else compile_item(validate_script({"items": [item]}).items[0])
            )
        if self._conditional:
            return self._find_conditional(request)
        if index >= self._ends[-1]:
            msg = f"the script {self.name} holds {count(len(self), 'response')}; response {index + 1} was asked for"
            raise ScriptExhausted(msg)
        return self._items[index if self._single else bisect.bisect_right(self._ends, index) - 1]

    def _find_conditional(self, request: Request) -> Compiled:
        """The item for a request to a script with conditions: the results so far decide it, from the start."""
        index, repeats = 0, 0
        latest_item: Compiled | None = None
        messages = request.messages.whole if isinstance(request.messages, Context) else request.messages
        for latest_result in _latest_results(messages, request.index):
            while index < len(self._items):
                item = self._items[index]
                if repeats < item.repeat and (item.condition is None or item.condition.is_in(latest_result)):
                    break
                index, repeats = index + 1, 0
            else:
                msg = f"no item of script {self.name} is left for response {request.index + 1}"
                raise ScriptExhausted(msg)
            latest_item, repeats = item, repeats + 1
        assert latest_item is not None  # noqa: S101 - there is one response for each request
        return latest_item

    def replies_to(self, tool: str) -> bool:
        return tool in self._results

    def _reply(self, call: ToolCall, context: ToolContext) -> Awaitable[ToolResult] | None:
        results = self._results.get(call.name)
        if results is None:
            return None
        nth = _count_calls(call.name, context) if len(results) > 1 else 0
        return _give_result(call, results[min(nth, len(results) - 1)], context)


async def _give_result(call: ToolCall, result: ScriptResult, context: ToolContext) -> ToolResult:
    if result.latency_ms:
        await context.sleep(result.latency_ms / 1000)
    text = result.error if isinstance(result.error, str) else result.text
    return ToolResult(call.id, text, bool(result.error), duration_ms=result.latency_ms)


def _count_calls(name: str, context: ToolContext) -> int:
    """The number of calls of that tool before this one in its run."""
    # A response in the prompt has no `StepStart`.
    responses = (m for m in context.history if m.role == "assistant" and isinstance(m.parts[0], StepStart))
    *earlier, latest = ([part for part in message.parts if isinstance(part, ToolCall)] for message in responses)
    return sum(call.name == name for call in chain(*earlier, latest[: context.call - 1]))


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


async def _play(item: Compiled, request: Request, emit: Emit | None) -> Response:
    """Stream a response: its latency passes, its deltas are emitted, and its fault is raised."""
    response = _number_calls(item, request.index)
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
        raise _make_error(item.fault, response._replace(text=text, tool_calls=(), finish_reason=None))
    if emit is not None:
        for call in response.tool_calls:
            emit("tool_call", f"{call.name} {call.arguments}")
            await asyncio.sleep(0)
    return response


def _make_error(fault: ScriptFault, partial: Response) -> ModelError:
    if fault.garbage:
        raw = fault.garbage if isinstance(fault.garbage, str) else "\x00\x00"
        return ModelError(f"the response cannot be parsed: {raw!r}", partial=partial)
    position = f" after {len(partial.text)} characters" if partial.text else ""
    if not partial.text:
        partial = partial._replace(usage=Usage())
    if fault.reset:
        return ModelError(f"the connection was reset{position}", retryable=True, partial=partial)
    return ModelError(
        f"HTTP {fault.status}{position}", status=fault.status, retryable=fault.status in RETRYABLE, partial=partial
    )


def _number_calls(item: Compiled, index: int) -> Response:
    """The response, with call ids that are unique in the run."""
    if not item.ids:
        return item.response
    response = item.response
    numbered = [
        ToolCall(call_id or f"call_{index + 1}_{n}", call.name, call.arguments)
        for n, (call_id, call) in enumerate(zip(item.ids, response.tool_calls, strict=True), 1)
    ]
    return response._replace(tool_calls=tuple(numbered))


def _is_end(item: Compiled, request: Request) -> bool:
    """Whether an item is a text of the loop without calls, and comes whole."""
    return request.purpose == "step" and item.fault is None and not item.response.tool_calls


def _add_finish_call(item: Compiled, tool: str) -> Compiled:
    """The item with a call of the tool that ends a turn."""
    response = item.response._replace(tool_calls=(ToolCall("", tool, "{}"),), finish_reason="tool_calls")
    return item._replace(response=response, ids=("",))
