"""The interface of a model.

A model is `async def respond(request, emit=None) -> Response`. It holds no state of a run: `request.index` is the
number of the call in its run, so that one model serves any number of runs at once. Models return values; none of them
calls the loop.

Some models bring the results of their own tool calls (a script with a `tools:` section, a recording): they have a
`reply` beside `respond`, and nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from boolab.core.clock import Clock
from boolab.core.surrogates import whole_response
from boolab.core.types import UNKNOWN_USAGE, Message, Response, ToolCall, Usage
from boolab.tools.tool import ToolSpec

_MOST = 2**63 - 1  # what a column of integers holds


class Note(Protocol):
    """Puts something exceptional on a run's record: the kind of event, and facts."""

    def __call__(self, kind: str, **facts: object) -> None: ...


Emit: TypeAlias = Callable[[str, str], Any]
"""Receives `("text" | "reasoning" | "tool_call", delta)` while a response streams; None when nobody listens."""


class Request(NamedTuple):
    """What a model gets.

    Attributes:
        index: The number of the request in its run, from 0.
        messages: The run's own growing list: read it, do not keep or change it.
        tools: The tools on offer; empty when the model must answer in text.
        clock: The run's clock.
        purpose: `step` inside the loop, `summary` for the wrap-up after it, `compaction` when the history is shortened.
        temperature: The temperature; None for the model's own.
        seed: The seed; None for none.
        tool_choice: `none`: the model sees the tools and must answer in text all the same.
        note: Records what happens while the model is working, such as a retry; None where there is no record.
        run_id: The run that the request belongs to; "" for none.

    Example:
        >>> import boolab as bl
        >>> class Echo:
        ...     name = "echo"
        ...
        ...     async def respond(self, request: bl.models.Request, emit=None) -> bl.models.Response:
        ...         return bl.models.Response(f"{request.purpose} {request.index}")
        >>> bl.run_sync(None, "Hello", model=Echo()).text
        'step 0'
    """

    index: int  # type: ignore[assignment] # the word of the design; nobody needs tuple.index here
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...]
    clock: Clock
    purpose: Literal["step", "summary", "compaction"] = "step"
    temperature: float | None = None
    seed: int | None = None
    tool_choice: Literal["auto", "none"] = "auto"
    note: Note | None = None
    run_id: str = ""


@runtime_checkable
class Model(Protocol):
    """Anything with a name that answers requests.

    Optional attributes, asked for by the loop with these defaults:

    - `virtual` (False): the model's time is virtual, so the run's clock is too.
    - `summarises` (True): whether it can be asked for a summary at a limit.
    - `compacts` (True): whether it can be asked for a summary when its history is compacted.
    - `score` (None): a function from a run to whether it was a success, for runs whose user gave none.
    - `context_window` (None): how many tokens fit into a request.
    - `reply` (None): a `boolab.tools.tool.Reply` for models that bring the results of their own calls.
    - `replies_to` (None): whether it holds results for the tool of that name, so that nothing else need provide it.
    - `has_result_of` (`replies_to`): whether it holds one result of that tool at least; if not, the tool is unknown.
    - `own_tools` (()): names of tools whose results it brings, offered to it where neither agent nor run has any tools.
    """

    @property
    def name(self) -> str:
        """What the records call the model."""
        ...

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """One complete response.

        Args:
            request: What the model gets.
            emit: Receives parts of the response as they arrive: a kind (`text`, `reasoning` or `tool_call`) and a text;
                None when nobody listens.

        Returns:
            The response.

        Raises:
            ModelError: if it failed; what had arrived goes along as `partial`.
            ScriptExhausted: if it holds no further response.
        """
        ...


def validate_response(response: object) -> str:
    """Why a value is no proper `Response`, in words; "" if it is one.

    Models are other people's code. What they return is checked once, where it comes in, so that everything behind may
    rely on it.

    Example:
        >>> import boolab as bl
        >>> validate_response(bl.models.Response("Hi.")), validate_response(bl.models.Response(text=None))
        ('', 'text is None, not a str')
    """
    if type(response) is not Response:
        return f"it is a {type(response).__name__}, not a Response"
    text, calls, finish_reason, usage, reasoning, ttft_ms, native_finish_reason, opaque, model = response
    if type(text) is not str:
        return f"text is {text!r}, not a str"
    if wrong := _validate_calls(calls):
        return wrong
    if usage is not UNKNOWN_USAGE and not _is_usage(usage):
        return f"usage is {usage!r}, not a Usage of integers >= 0 or None"
    if finish_reason is not None and type(finish_reason) is not str:
        return f"finish_reason is {finish_reason!r}, not a str or None"
    if type(reasoning) is not str:
        return f"reasoning is {reasoning!r}, not a str"
    if native_finish_reason is not None and type(native_finish_reason) is not str:
        return f"native_finish_reason is {native_finish_reason!r}, not a str or None"
    if not (type(opaque) is type(model) is str):
        name, value = ("opaque", opaque) if type(opaque) is not str else ("model", model)
        return f"{name} is {value!r}, not a str"
    if ttft_ms is not None and not (type(ttft_ms) is int and 0 <= ttft_ms <= _MOST):
        return f"ttft_ms is {ttft_ms!r}, not an int >= 0 or None"
    return ""


def _validate_calls(calls: object) -> str:
    if type(calls) is not tuple:
        return f"tool_calls is a {type(calls).__name__}, not a tuple"
    for call in calls:
        if type(call) is not ToolCall or not (type(call[0]) is type(call[1]) is type(call[2]) is str):
            return f"{call!r} is no ToolCall of three texts (arguments are the raw text)"
    return ""


def partial_of(error: BaseException) -> Response | None:
    """What had arrived before a model failed, if the error brings it and it is a proper `Response`."""
    partial = getattr(error, "partial", None)
    return None if partial is None or validate_response(partial) else whole_response(partial)


def _is_usage(usage: object) -> bool:
    if type(usage) is not Usage:
        return False
    for n in usage:  # noqa: SIM110 - a generator costs as much again, at each response
        if n is not None and not (type(n) is int and 0 <= n <= _MOST):
            return False
    return True
