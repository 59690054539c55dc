"""What the next request may cost at most, for `max_cost(hard=True)`.

The rule is evaluated before a request: it stops if what was spent, the whole context at the dearest rate of an input
token, and the shortest response that is of use at the rate of output are more than the limit. A longer response is cut
to what is left, by the limit on output that the request carries. So the bill is bounded by the limit, if the provider
charges list prices, and a text has no more tokens than bytes, as in all vocabularies of bytes.

A request under way is reserved with all turns that pay for it, so that subagents that run side by side cannot spend the
same dollars, nor those of their caller's own step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from boolab.core.messages import Message, Reasoning, Sentinel, Text, results_message
from boolab.core.prices import RATE_UNITS
from boolab.core.types import ToolCall, ToolResult, Usage
from boolab.errors import ModelError
from boolab.limits.table import COST_AHEAD
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import ModelTraits
from boolab.runtime.tools.tool import ToolSpec

_TOKENS_OF_MESSAGE: Final = 32
"""What a provider's template adds to each message or part, generously: chat templates take 3 to 10 tokens."""
_TOKENS_OF_REQUEST: Final = 2_000
"""What it adds to a prompt that was never sent, such as a text about tools."""
_TOKENS_OF_SUMMARY: Final = 256
"""What introduces a summary in a prompt."""


class RequestBound(NamedTuple):
    """What a request may cost at most, in micro-dollars, rounded up; and the most tokens of its response."""

    cost: int
    max_output: int


def set_cost_ahead(turn: Turn) -> None:
    """Set the counter of hard limits at a boundary: what will be spent at least if a request is sent."""
    base = _input_cost(turn, _context_bound(turn))
    shortest = _cost_units(_output_range(turn.plan.traits)[0], _rates(turn)[1])
    for owner, _ in turn.cost_limits:
        cost = _spent(owner)
        owner.ladder.counters[COST_AHEAD] = None if cost is None else cost + _micro(base + shortest)


def bound_request(turn: Turn, question: str = "", *, resent: bool = False) -> RequestBound:
    """The bound of the next request of a turn, so that no hard limit can be exceeded.

    `resent`: whether the request after it has the response in its prompt, as it has a summary, and must be affordable.

    Raises:
        ModelError: if not even the shortest response fits. At a boundary, the rule has stopped the turn before that.
    """
    base = _input_cost(turn, _context_bound(turn, question))
    (shortest, longest), rate = _output_range(turn.plan.traits), _rates(turn)[1]
    if resent:
        base, rate = base + _input_cost(turn, _TOKENS_OF_SUMMARY), rate + _rates(turn)[0]
    for owner, limit in turn.cost_limits:
        cost = _spent(owner)
        room = -1 if cost is None else (limit - cost) * RATE_UNITS - base
        longest = min(longest, room // rate if rate else longest)
        if room < 0 or longest < shortest:
            msg = "a hard limit on cost leaves nothing for another request"
            raise ModelError(msg)
    return RequestBound(_micro(base + _cost_units(longest, rate)), longest)


def is_affordable(turn: Turn, question: str, *, resent: bool = False) -> bool:
    """Whether hard limits on cost leave enough for a request with a question after the history."""
    try:
        return not turn.cost_limits or bound_request(turn, question, resent=resent).max_output > 0
    except ModelError:
        return False


def limit_request(turn: Turn) -> None:
    """Limit the response to the next request to what is left, and reserve what the request may cost."""
    turn.reserve(0)
    bound, (_, longest) = bound_request(turn), _output_range(turn.plan.traits)
    turn.reserve(bound.cost)
    turn.max_output = None if bound.max_output == longest else bound.max_output


def charge_outside(turn: Turn, usage: Usage) -> None:
    """Charge a request that is no step, such as a summary, to the hard limits."""
    for owner, _ in turn.cost_limits:
        owner.add_outside_cost(usage.cost)


def _spent(owner: Turn) -> int | None:
    cost, outside = owner.ladder.counters["cost"], owner.outside_cost
    return None if cost is None or outside is None else cost + outside + owner.reserved_cost


def _context_bound(turn: Turn, question: str = "") -> int:
    """The most tokens that the next request may have: the last one with its response, and what came after by bytes."""
    history, window = turn.history, turn.plan.traits.context_window
    last = history.steps[-1] if history.steps else None
    usage = None if last is None else last.response.usage
    tokens_in, tokens_out = (None, None) if usage is None else (usage.input_tokens, usage.output_tokens)
    if last is None or tokens_in is None or tokens_out is None:
        tools = sum(map(_tool_bytes, turn.plan.offered))
        bound = _TOKENS_OF_REQUEST + tools + _byte_bound(history.sent)
    else:
        answers = results_message(last.results)
        later = [message for index, message in history.inputs if index > last.index]
        bound = tokens_in + tokens_out + _byte_bound([*([answers] if answers else []), *later])
        for compacted in history.compactions[-1:]:  # what it left is a part of the last prompt, and the summary is new
            if compacted.before > last.index:
                output_tokens = None if compacted.response is None else compacted.response.usage.output_tokens
                bound += _TOKENS_OF_SUMMARY + (_n_bytes(compacted.summary) if output_tokens is None else output_tokens)
        if turn.plan.compaction is not None and turn.plan.compaction.clear_at is not None:
            # What stands in place of a result that is cleared may be longer than a short one.
            bound += _TOKENS_OF_MESSAGE * sum(len(step.results) for step in history.steps)
    bound += len(question.encode()) + _TOKENS_OF_MESSAGE
    return bound if window is None else min(bound, window)


def _byte_bound(messages: Iterable[Message]) -> int:
    """The most tokens of messages: one for each byte."""
    n = 0
    for message in messages:
        n += _TOKENS_OF_MESSAGE
        for part in message.parts:
            n += _TOKENS_OF_MESSAGE
            if isinstance(part, Text | Reasoning | Sentinel):
                n += _n_bytes(part.text)
            elif isinstance(part, ToolCall):
                n += _n_bytes(part.name) + _n_bytes(part.arguments)
            elif isinstance(part, ToolResult):
                n += _n_bytes(part.content)
    return n


def _tool_bytes(spec: ToolSpec) -> int:
    return _n_bytes(json.dumps([spec.name, spec.description, spec.parameters], default=str)) + _TOKENS_OF_MESSAGE


def _n_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _rates(turn: Turn) -> tuple[int, int]:
    rates = turn.plan.traits.request_rates
    assert rates is not None  # noqa: S101 - `Turn.cost_limits` was checked
    return rates


def _output_range(traits: ModelTraits) -> tuple[int, int]:
    assert traits.output_range is not None  # noqa: S101 - `Turn.cost_limits` was checked
    return traits.output_range


def _input_cost(turn: Turn, tokens: int) -> int:
    return _cost_units(tokens, _rates(turn)[0])


def _cost_units(tokens: int, rate: int) -> int:
    return tokens * rate


def _micro(units: int) -> int:
    """Units of a rate as micro-dollars, rounded up."""
    return -(-units // RATE_UNITS)
