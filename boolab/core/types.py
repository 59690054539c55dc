"""What the records of runs are made of: a response, its calls and results, a step, and why a run stopped.

Each value is built once and never changed. They are `NamedTuple`s, because a frozen dataclass costs several times as
much to build and a run of 10,000 steps builds 60,000 of them.

Units: times are integer milliseconds from the run's start, money is integer micro-dollars (`cost_usd` turns it into
dollars at the surface). `None` is *unknown*, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from boolab.core.text import flatten

JSON: TypeAlias = Any
"""A JSON value, or what should be one: text of a log, a file or a provider, to be checked before it is used."""

Scope: TypeAlias = Literal["auto", "turn", "run"]


Identity: TypeAlias = Literal["raw", "ordered", "canonical", "call+result", "tool"]
IDENTITIES: Final[tuple[str, ...]] = get_args(Identity)
Identities: TypeAlias = str | Mapping[str, str | None]
"""An identity for all tools, or by tool."""


MICRO = 1_000_000
_SHOWN_CALLS: Final = 5
_SHOWN_CHARS: Final = 60

StopReason: TypeAlias = Literal[
    "finished", "synthesis", "paused", "step_cap", "tool_budget", "doom_loop", "token_budget", "cost_budget",
    "time_budget", "error_streak", "stuck", "aborted", "error",
]  # fmt: skip
"""Why the loop ended, in the one order and for the one set of colours that every table and plot uses."""


class Usage(NamedTuple):
    """What one response consumed. `None` where the provider does not report it.

    Attributes:
        input_tokens: Tokens that were sent, the cached ones included.
        output_tokens: Tokens that came back, those of reasoning included.
        cached_tokens: Tokens of the input that the provider took from its cache.
        reasoning_tokens: Tokens of the output that were reasoning.
        cost: Micro-dollars.
        cache_write_tokens: Tokens of the input that the provider put into its cache.
        cache_write_1h_tokens: Those of them that it keeps for an hour, which cost more.

    Example:
        >>> import boolab as bl
        >>> bl.models.Usage(input_tokens=1200, output_tokens=80, cost=450).cached_tokens is None
        True
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None


UNKNOWN_USAGE = Usage()

RESPONSE_WORDS: Final = ("finish_reason", "native_finish_reason", "effort", "speed", "service_tier")
"""The fields of a response that are one word, or None where it is unknown."""


REDACTED = "<redacted>"
"""The arguments of a call that a log keeps back. What stands for a text of which something is known is a placeholder of
`boolab.core.redacted`."""


class ToolCall(NamedTuple):
    """One tool call as the model sent it.

    Attributes:
        id: What its result refers to.
        name: The tool's name.
        arguments: The raw text, parsed only where it is needed. `REDACTED` where a log leaves the arguments out: they
            are unknown, so such a call is never the same as another.

    Example:
        >>> import boolab as bl
        >>> bl.models.ToolCall("call_1", "grep", '{"pattern": "TODO"}').name
        'grep'
    """

    id: str
    name: str
    arguments: str


class Image(NamedTuple):
    """An image in a message or in a result: its size in pixels, None where the log does not show it, and no bytes."""

    width: int | None = None
    height: int | None = None


class ToolResult(NamedTuple):
    """The result of one tool call.

    `is_error` is None where a log does not record it; `parse_error` is True if the arguments were not valid JSON.
    `images` are those of the result, in order; `content` names each in brackets.
    """

    call_id: str
    content: str
    is_error: bool | None = False
    parse_error: bool = False
    duration_ms: int | None = None
    images: tuple[Image, ...] = ()


class Response(NamedTuple):
    """One model response, complete.

    Attributes:
        text: The text of the answer.
        tool_calls: The calls that it makes, in order.
        finish_reason: Why it ended, in boolab's vocabulary; None where the provider gave no reason.
        usage: What it consumed.
        reasoning: The text of its reasoning, where the provider shows it.
        ttft_ms: Milliseconds from the request to the first output; None where it was not measured.
        native_finish_reason: Why it ended, in the provider's own word.
        opaque: JSON text that the provider needs back with this response, such as signatures of its reasoning. No
            other provider can use it.
        model: The model that answered, where a log names another one than the run's.
        id: What the provider or the harness calls this response, where a log has it. A copy of it in another log has
            the same id.
        effort: The reasoning effort that was asked for, in the harness's own word; a number is the largest count of
            thinking tokens. None where it is unknown.
        speed: The speed at which it was served, where the provider distinguishes them (`fast`); it changes the price.
        service_tier: The provider's tier that served it, such as `priority` or `batch`; it changes the price.

    Example:
        >>> import boolab as bl
        >>> bl.models.Response("Done.", finish_reason="stop")
        <Response 'Done.'>
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage = UNKNOWN_USAGE
    reasoning: str = ""
    ttft_ms: int | None = None
    native_finish_reason: str | None = None
    opaque: str = ""
    model: str = ""
    id: str = ""
    effort: str | None = None
    speed: str | None = None
    service_tier: str | None = None

    def __repr__(self) -> str:
        """One short line, however long the text is."""
        names = [flatten(call.name) for call in self.tool_calls]
        calls = f", calls {', '.join(names[:_SHOWN_CALLS])}" if names else ""
        rest_text = f" and {len(names) - _SHOWN_CALLS} more" if names[_SHOWN_CALLS:] else ""
        clipped_text = "…" if self.text[_SHOWN_CHARS:] else ""
        return f"<Response {self.text[:_SHOWN_CHARS]!r}{clipped_text}{calls}{rest_text}>"


class Step(NamedTuple):
    """One iteration of the loop: a response and the results of its tool calls.

    Attributes:
        index: Its number in the run, from 1.
        turn: The number of its turn, from 1.
        start_ms: Milliseconds from the run's start to its request; None where a log has no times.
        duration_ms: Milliseconds from there to the next boundary.
        model_ms: Milliseconds from there to the end of the response.
        response: The response of the model.
        results: One entry for each of `response.tool_calls`, None for a call that was dropped: paid for, never run.
        error: What broke the step, or empty.
        shadow_stops: The stop reasons of rules in shadow that were true at its boundary.
        counted: False if a limit had already stopped the run when this step ended, and the run was continued later:
            the step is paid for, but no limit counts it.

    Example:
        >>> import boolab as bl
        >>> bl.Step(1, 1, 0, 900, 850, bl.models.Response("Done."))
        <Step 1 of turn 1: <Response 'Done.'>>
    """

    index: int  # type: ignore[assignment] # it hides tuple.index, which a step does not need
    turn: int
    start_ms: int | None
    duration_ms: int | None
    model_ms: int | None
    response: Response
    results: tuple[ToolResult | None, ...] = ()
    error: str = ""
    shadow_stops: tuple[str, ...] = ()
    counted: bool = True

    @property
    def dropped(self) -> tuple[ToolCall, ...]:
        """The calls of the response that were never executed; their tokens are paid for."""
        return tuple(c for c, r in zip(self.response.tool_calls, self.results, strict=True) if r is None)

    @property
    def broke_off(self) -> bool:
        """Whether the response broke off in the middle. It is on record, but the model is not sent it."""
        return bool(self.error) and not any(self.results)

    def __repr__(self) -> str:
        """One short line, however long the results are."""
        failed = sum(result is not None and result.is_error is True for result in self.results)
        facts = f", {failed} failed" if failed else ""
        facts += f", {len(self.dropped)} dropped" if self.dropped else ""
        return f"<Step {self.index} of turn {self.turn}: {self.response!r}{facts}>"


class Stop(NamedTuple):
    """Why, where and by which rule a run ended.

    `step` is the boundary: how many tool steps were complete. `rule`, `threshold` and `value` are those of the rule
    that fired, in the rule's own units; None where no rule did. `also_fired` holds the stop reasons of all other rules
    that were true at the same boundary.
    """

    reason: StopReason
    step: int
    rule: str | None = None
    threshold: int | None = None
    value: int | None = None
    also_fired: tuple[str, ...] = ()

    @property
    def overshoot(self) -> int | None:
        """By how much the counter was above its threshold: the step that crosses a limit is completed."""
        return None if self.value is None or self.threshold is None else self.value - self.threshold


class Event(NamedTuple):
    """An event of a run: when it happened (ms from the start), its kind and its facts."""

    t_ms: int | None
    kind: str
    payload: Mapping[str, Any]


def result_slots_in(steps: Iterable[Step]) -> Iterator[ToolResult | None]:
    """The result of each call of some steps; None for a call that got none."""
    return chain.from_iterable(step.results for step in steps)


def results_in(steps: Iterable[Step]) -> Iterator[ToolResult]:
    """The results of the calls of some steps that got one."""
    return (result for result in result_slots_in(steps) if result is not None)
