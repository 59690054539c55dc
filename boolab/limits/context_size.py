"""How long the next prompt will be: the counter of `max_context`.

It is a detector because it reads the results of each step beside the usage of the response: the tokens of a result are
not on record before the next request. They are estimated by characters, and how many characters a token has is learned
from the requests before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

from boolab.core.context import MIN_RESULT_CHARS, chars_per_token
from boolab.core.redacted import chars_of
from boolab.core.types import Response, Stop, StopReason
from boolab.limits.call_identity import ObservedCall

ContextAction: TypeAlias = Literal["stop", "compact", "handoff"]
"""What follows where a context is too long: the run stops, its history is summarised, or a new run takes over."""

_HANDOFF: Final = re.compile(r"max_context\(\d+, handoff\b")


class _State(NamedTuple):
    result_chars: int = 0  # of the step under way
    last_tokens: int | None = None  # of the last request and its response
    last_chars: int = 0  # of the results after them
    seen_chars: int = 0  # of results whose tokens a later request shows
    seen_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ContextSize:
    """About how many tokens the next request has: the last one, its response, and an estimate of its results.

    It is unknown where the input or the output of the last request is, and 0 before the first step of a turn.
    """

    meaning: ClassVar[str] = "tokens of the context"
    reason: ClassVar[StopReason] = "token_budget"
    least: ClassVar[int] = 1
    start: ClassVar[_State] = _State()
    name: ClassVar[str] = "context_size"

    then: ContextAction = field(default="stop", compare=False)

    def compact(self, state: _State, times: int | None) -> _State:
        # Where a log does not report compactions, the next request is shorter, which shows by itself.
        return state if times is None else state._replace(last_tokens=None)

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int]:
        return state._replace(result_chars=state.result_chars + chars_of(call.content)), 0

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        sent_tokens, output = response.usage.input_tokens, response.usage.output_tokens
        chars, last_tokens, last_chars, seen_chars, seen_tokens = state
        tokens = 0 if sent_tokens is None or last_tokens is None else sent_tokens - last_tokens
        if tokens > 0 and last_chars >= MIN_RESULT_CHARS:
            seen_chars, seen_tokens = seen_chars + last_chars, seen_tokens + tokens
        if sent_tokens is None or output is None:
            return _State(0, None, 0, seen_chars, seen_tokens), None
        tokens = sent_tokens + output
        count = tokens + ceil(chars / chars_per_token(seen_chars, seen_tokens))
        return _State(0, tokens, chars, seen_chars, seen_tokens), count


def is_handoff(stop: Stop) -> bool:
    """Whether a run ended so that a new run takes over: `bl.resume` starts it."""
    return stop.rule is not None and _HANDOFF.match(stop.rule) is not None
