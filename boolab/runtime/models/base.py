"""The interface of a model.

A model is `async def respond(request, emit=None) -> Response`. It holds no state of a run (`request.index` is the
number of the request in its run), so one model serves any number of runs at once. It returns a value and never calls
the loop.

Some models also provide the results of their tool calls (a script with a `tools:` section, a recorded run): they have
a `reply` method, and no tool is executed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard, cast, runtime_checkable

from boolab.core.clock import Clock
from boolab.core.messages import Message
from boolab.core.run import Run
from boolab.core.surrogates import whole_response
from boolab.core.types import RESPONSE_WORDS, UNKNOWN_USAGE, Response, ToolCall, ToolResult, Usage
from boolab.io.checks import MAX_COUNT
from boolab.runtime.tools.tool import ToolContext, ToolSpec

_NO_DETAILS: Final = Response()[4:]

RETRYABLE: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""The HTTP statuses after which the same request may succeed; 529 is Anthropic's status for an overload."""


class NoteEvent(Protocol):
    """Adds an event to a run's record: its kind, and facts."""

    def __call__(self, kind: str, **facts: object) -> None: ...


Emit: TypeAlias = Callable[[str, str], Any]
"""Receives `("text" | "reasoning" | "tool_call", delta)` while a response streams."""


class Request(NamedTuple):
    """The input of a model.

    Attributes:
        index: The number of the request in its run, from 0.
        messages: The run's own growing list: read it, do not keep or change it.
        tools: The tools that the model may call; empty when it must answer in text.
        clock: The run's clock.
        purpose: `step` inside the loop, `summary` for the summary after it, `compaction` when the history is shortened.
        temperature: The temperature; None for the model's own.
        seed: The seed of this request, another for each request of a run; None for none.
        tool_choice: `none`: the request lists tools, but the model must answer in text.
        note: Records an event such as a retry; None if there is no record.
        run_id: The run that the request belongs to; "" for none.
        run_seed: The seed of the run, from which that of the request is made; None for none.
        max_output: The most tokens that the response may have; None for the model's own limit.

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

    index: int  # type: ignore[assignment] # hides tuple.index, which is not needed here
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...]
    clock: Clock
    purpose: Literal["step", "summary", "compaction"] = "step"
    temperature: float | None = None
    seed: int | None = None
    tool_choice: Literal["auto", "none"] = "auto"
    note: NoteEvent | None = None
    run_id: str = ""
    run_seed: int | None = None
    max_output: int | None = None

    @property
    def seed_of_run(self) -> int | None:
        """The seed of the run; that of the request, where it belongs to no run."""
        return self.seed if self.run_seed is None else self.run_seed


@runtime_checkable
class Model(Protocol):
    """Anything with a name that answers requests.

    Optional attributes, with the defaults that the loop uses (`traits_of` reads them):

    - `virtual` (False): the model's time is virtual, so the run's clock is too.
    - `summarises` (True): whether it can write a summary at a limit.
    - `compacts` (True): whether it can write a summary when the history is compacted.
    - `score` (None): a function from a run to whether it was a success, for runs without a score of the user.
    - `context_window` (None): the number of tokens that fit into a request.
    - `request_rates` (None): the dearest prices of a token of input and of output, in integers of 1e-10 dollars.
    - `output_range` (None): the fewest tokens to which a response may be limited, and the most that it has without.
    - `reply` (None): a function from a call and its context to the call's result, for models that provide results.
    - `replies_to` (None): a function from a tool's name to whether the model can provide results for that tool.
    - `has_result_of` (`replies_to`): a function from a tool's name to whether the model has at least one result of
      that tool; if not, the tool is unknown.
    - `profile` (None): what a simulated model draws from.
    - `own_tools` (None): the names of tools that are offered when neither the agent nor the run has tools.
    - `concurrency` (None): how many requests it can answer at once without becoming slower; None for any number.
      Sweeps and trials have at most so many runs active at once, unless `concurrency=` is given.
    """

    @property
    def name(self) -> str:
        """The model's name in records."""
        ...

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer a request.

        Args:
            request: The messages, the tools and the number of the request in its run.
            emit: Receives parts of the response as they arrive: a kind (`text`, `reasoning` or `tool_call`) and a text.

        Returns:
            The complete response.

        Raises:
            ModelError: if the model failed; its `partial` is what had arrived.
            ScriptExhausted: if a script or a recording has no further response.
        """
        ...


def _provides_nothing(tool: str) -> bool:  # noqa: ARG001 - the answer is the same for each tool
    return False


class ModelTraits(NamedTuple):
    """What a model can do besides answering: the optional attributes of `Model`, with their defaults."""

    virtual: bool = False
    summarises: bool = True
    compacts: bool = True
    score: Callable[[Run], Any] | None = None
    context_window: int | None = None
    request_rates: tuple[int, int] | None = None
    output_range: tuple[int, int] | None = None
    reply: Callable[[ToolCall, ToolContext], Awaitable[ToolResult] | None] | None = None
    replies_to: Callable[[str], bool] = _provides_nothing
    has_result_of: Callable[[str], bool] = _provides_nothing
    own_tools: Collection[str] | None = None
    concurrency: int | None = None
    profile: Any = None


def traits_of(model: object) -> ModelTraits:
    """The traits of a model; those that it does not have are the defaults."""
    traits = {name: getattr(model, name) for name in ModelTraits._fields if hasattr(model, name)}
    if "replies_to" in traits:
        traits.setdefault("has_result_of", traits["replies_to"])
    return ModelTraits(**traits)


class OfflineModel:
    """The base of models that answer from what they were given, and can provide the results of their calls."""

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer a request.

        Args:
            request: The messages, the tools and the number of the request in its run.
            emit: Receives parts of the response as they arrive.

        Returns:
            The complete response.
        """
        raise NotImplementedError

    def replies_to(self, tool: str) -> bool:
        """Whether the model can provide results for a tool, so that no tool is executed.

        Args:
            tool: The tool's name.

        Returns:
            True if so.
        """
        raise NotImplementedError

    def has_result_of(self, tool: str) -> bool:
        """Whether the model has at least one result of a tool; if not, the tool is unknown.

        Args:
            tool: The tool's name.

        Returns:
            True if so.
        """
        return self.replies_to(tool)


def accept_response(response: object) -> Response:
    """Check what a model returned, and remove lone surrogates from it; a `ValueError` with why if it is malformed."""
    if _is_plain(response):
        return response
    if fault := validate_response(response):
        raise ValueError(fault)
    return whole_response(cast("Response", response))


def _is_plain(response: object) -> TypeGuard[Response]:
    """Whether a response is valid and all ASCII, and has no more than most responses of local models.

    It decides nothing that `validate_response` and `whole_response` do not: each step comes here, and they take three
    times as long.
    """
    if type(response) is not Response:
        return False
    text, calls, reason, usage = response[:4]
    if type(text) is not str or type(calls) is not tuple or not text.isascii():
        return False
    for call in calls:
        if type(call) is not ToolCall:
            return False
        for word in call:
            if type(word) is not str or not word.isascii():
                return False
    if reason is not None and (type(reason) is not str or not reason.isascii()):
        return False
    try:
        has_no_details = response[4:] == _NO_DETAILS
    except Exception:  # noqa: BLE001 - of whatever stands there; the fields are looked at one by one then
        return False
    return has_no_details and (usage is UNKNOWN_USAGE or _is_usage(usage))


def validate_response(response: object) -> str:
    """Why a value is not a valid `Response`; "" if it is valid.

    Users write models too, so their responses are checked once, where they enter.
    """
    if type(response) is not Response:
        return f"it is a {type(response).__name__}, not a Response"
    if type(response.text) is not str:
        return f"text is {response.text!r}, not a str"
    if wrong := _validate_calls(response.tool_calls):
        return wrong
    usage = response.usage
    if usage is not UNKNOWN_USAGE and not _is_usage(usage):
        return f"usage is {usage!r}, not a Usage of integers >= 0 or None"
    for name in ("reasoning", *RESPONSE_WORDS, "opaque", "model", "id"):
        text, optional = getattr(response, name), name in RESPONSE_WORDS
        if type(text) is not str and not (optional and text is None):
            return f"{name} is {text!r}, not a str{' or None' if optional else ''}"
    ttft_ms = response.ttft_ms
    if ttft_ms is not None and not (type(ttft_ms) is int and 0 <= ttft_ms <= MAX_COUNT):
        return f"ttft_ms is {ttft_ms!r}, not an int >= 0 or None"
    return ""


def _validate_calls(calls: object) -> str:
    if type(calls) is not tuple:
        return f"tool_calls is a {type(calls).__name__}, not a tuple"
    for call in calls:
        if type(call) is not ToolCall or not (type(call.id) is type(call.name) is type(call.arguments) is str):
            return f"{call!r} is no ToolCall of three texts (arguments are the raw text)"
    return ""


def partial_of(error: BaseException) -> Response | None:
    """The valid `Response` that a model's error has as its `partial`, if any."""
    partial = getattr(error, "partial", None)
    with suppress(ValueError):
        return None if partial is None else accept_response(partial)
    return None


def _is_usage(usage: object) -> bool:
    if type(usage) is not Usage:
        return False
    for n in usage:  # noqa: SIM110 - a generator would double the cost for each response
        if n is not None and not (type(n) is int and 0 <= n <= MAX_COUNT):
            return False
    return True
