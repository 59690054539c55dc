"""What a turn used in tokens of different weights: the counter of `max_tokens(of="fresh")` and `of="weighted"`.

It is a detector because its counter has parameters: rules with other weights read other counters. It reads the usage of
each response and no calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar, Final, TypeAlias

from boolab.core.types import MICRO, Response, StopReason, Usage
from boolab.errors import SettingError, near
from boolab.io.checks import repr_of
from boolab.limits.call_identity import ObservedCall

WEIGHTS: Final = ("input", "cached", "written", "output")
"""The kinds of tokens that have a weight. `input` is what was neither read from the cache nor written to it."""
_MAX_WEIGHT: Final = 1_000_000
_State: TypeAlias = int | None


@dataclass(frozen=True, slots=True)
class TokenCount:
    """How many tokens a turn used, each kind with its weight, in whole tokens, rounded down.

    The defaults count fresh tokens: output, and input that was not read from the cache. It is unknown where the input,
    the output or, unless it weighs as much as other input, the cached part is. What was written to the cache is 0 where
    a provider does not report it: its tokens are input then.
    """

    meaning: ClassVar[str] = "tokens by weight"
    reason: ClassVar[StopReason] = "token_budget"
    least: ClassVar[int] = 0
    start: ClassVar[int] = 0  # the state is in micro-tokens, so that weights such as 0.1 add up exactly

    input: int = MICRO  # in millionths
    cached: int = 0
    written: int = MICRO
    output: int = MICRO

    @classmethod
    def from_weights(cls, weights: Mapping[str, Any] | None) -> TokenCount:
        """The count for weights by kind; a `SettingError` for one that is not accepted.

        Example:
            >>> TokenCount.from_weights({"output": 8, "cached": 0.1}).name
            'weighted_tokens:input=1,cached=0.1,written=1,output=8'
        """
        if not isinstance(weights, Mapping) or not weights:
            msg = f"max_tokens: weights={repr_of(weights)}: expected weights such as {{'input': 1, 'output': 5}}"
            raise SettingError(msg)
        for name in weights:
            if name not in WEIGHTS:
                raise SettingError(f"max_tokens: there is no weight {name!r}{near(name, WEIGHTS, 'accepted')}")
        micro = {name: _micro_weight(name, weight) for name, weight in weights.items()}
        return cls(**{"written": micro.get("input", MICRO), **micro})

    @property
    def weights(self) -> dict[str, int | float]:
        """The weights by kind."""
        return {name: _number(getattr(self, name)) for name in WEIGHTS}

    @property
    def weights_text(self) -> str:
        """The weights as labels have them."""
        return ",".join(f"{name}={weight}" for name, weight in self.weights.items())

    @property
    def name(self) -> str:
        return "fresh_tokens" if self == FRESH else f"weighted_tokens:{self.weights_text}"

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int | None]:  # noqa: ARG002 - see `Detector`
        return state, _whole(state)

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        return self.charge(state, response.usage)

    def charge(self, state: _State, usage: Usage) -> tuple[_State, int | None]:
        """The state and the count once this was used too: by a response, or by a subagent for its caller."""
        tokens = self.micro_tokens(usage)
        state = None if state is None or tokens is None else state + tokens
        return state, _whole(state)

    def micro_tokens(self, usage: Usage) -> int | None:
        """The weighted tokens of a response in millionths; None where they are unknown."""
        sent_tokens, cached, output = usage.input_tokens, usage.cached_tokens, usage.output_tokens
        if cached is None and self.cached == self.input:
            cached = 0
        if sent_tokens is None or cached is None or output is None:
            return None
        writes = usage.cache_write_tokens or 0
        fresh = max(0, sent_tokens - cached - writes)
        return self.input * fresh + self.cached * cached + self.written * writes + self.output * output


FRESH: Final = TokenCount()
"""Output, and input that was not read from the cache."""


def _whole(state: _State) -> int | None:
    return None if state is None else state // MICRO


def _micro_weight(name: str, weight: object) -> int:
    number: Any = weight  # `Real` declares no comparison with an int
    if not isinstance(weight, bool) and isinstance(weight, Real) and 0 <= number <= _MAX_WEIGHT:
        micro = Decimal(str(weight)) * MICRO
        if micro == int(micro):
            return int(micro)
    msg = (
        f"max_tokens: weights: {name}={repr_of(weight)}: expected a number from 0 to a million, with 6 decimals at most"
    )
    raise SettingError(msg)


def _number(micro: int) -> int | float:
    return micro // MICRO if micro % MICRO == 0 else micro / MICRO
