"""The parts of a `Profile`: distributions, probabilities by step, and the groups of its fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, model_validator

K = TypeVar("K", str, int)


class Strict(BaseModel):
    """A value of a file: it has no other fields, and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Figure: TypeAlias = Annotated[float, Field(ge=0, le=2**53, allow_inf_nan=False)]
_Sigma: TypeAlias = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
"""At most 10, a factor of 22,000 for each standard deviation; with a few hundred, values would exceed all floats."""
Probability: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def _are_shares(shares: dict[Any, float]) -> dict[Any, float]:
    if not sum(shares.values()) > 0:
        msg = f"expected at least one share above 0, found {shares!r}"
        raise ValueError(msg)
    return shares


Shares: TypeAlias = Annotated[dict[str, Figure], AfterValidator(_are_shares)]
"""Weights by name; they need not add up to 1."""
Counts: TypeAlias = Annotated[dict[PositiveInt, Figure], AfterValidator(_are_shares)]
"""Weights by whole number >= 1; they need not add up to 1."""


class Distribution(Strict):
    """A distribution of whole numbers >= 0: a median with a sigma, or quantiles."""

    median: Figure | None = None
    sigma: _Sigma = 0.0
    quantiles: Annotated[list[Figure], Field(min_length=2)] | None = None
    zeros: Probability = 0.0
    most: Figure | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Distribution:
        if (self.median is None) == (self.quantiles is None):
            msg = "give a number, or either median (with sigma) or quantiles"
            raise ValueError(msg)
        if self.quantiles is not None and any(a > b for a, b in pairwise(self.quantiles)):
            msg = f"quantiles {self.quantiles} do not ascend"
            raise ValueError(msg)
        if self.quantiles is not None and self.sigma:
            msg = "sigma belongs to median: quantiles need none"
            raise ValueError(msg)
        return self

    def quantile(self, p: float) -> float:
        """The value, not rounded, below which the share `p` lies; 0 < p < 1."""
        if p <= self.zeros:
            return 0.0
        p = (p - self.zeros) / (1 - self.zeros)
        if self.quantiles is not None:
            position = p * (len(self.quantiles) - 1)
            low = min(int(position), len(self.quantiles) - 2)
            lower, upper = self.quantiles[low : low + 2]
            value = lower + (upper - lower) * (position - low)
        elif self.sigma:
            value = (self.median or 0.0) * math.exp(self.sigma * NormalDist().inv_cdf(p))
        else:
            value = self.median or 0.0
        return value if self.most is None else min(value, self.most)

    def table(self, n: int) -> tuple[int, ...]:
        """The distribution as `n` equally likely whole numbers, ascending."""
        return tuple(round(self.quantile((i + 0.5) / n)) for i in range(n))


def _as_distribution(value: object) -> object:
    return {"median": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Amount: TypeAlias = Annotated[Distribution, BeforeValidator(_as_distribution)]
"""A distribution; a number stands for one with that single value."""


def constant_distribution(value: float) -> Distribution:
    """The distribution with that single value."""
    return Distribution(median=value)


class Piece(Strict):
    """A probability from a step on."""

    from_step: PositiveInt
    probability: Probability


def _as_pieces(value: object) -> object:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return [{"from_step": 1, "probability": value}] if plain else value


def _are_pieces(pieces: list[Piece]) -> list[Piece]:
    starts = [piece.from_step for piece in pieces]
    if starts[0] != 1 or any(a >= b for a, b in pairwise(starts)):
        msg = f"expected from_step to begin with 1 and to ascend, found {starts}"
        raise ValueError(msg)
    return pieces


ByStep: TypeAlias = Annotated[
    list[Piece], BeforeValidator(_as_pieces), Field(min_length=1), AfterValidator(_are_pieces)
]
"""A probability by step, constant from one `from_step` to the next; a number holds for all steps."""


def probability_at(pieces: Sequence[Piece], step: int) -> float:
    """The probability at a step, from 1."""
    return next((piece.probability for piece in reversed(pieces) if piece.from_step <= step), pieces[0].probability)


class AfterError(Strict):
    """What follows a step with a failed call: shares, and the probability that a retry fails again."""

    retry: Figure = 0.0
    vary: Figure = 1.0
    switch: Figure = 0.0
    give_up: Figure = 0.0
    fails_again: Probability | None = None

    @model_validator(mode="after")
    def _has_a_share(self) -> AfterError:
        _are_shares(self.shares)
        return self

    @property
    def shares(self) -> dict[str, float]:
        """The weights of the four possibilities."""
        return {"retry": self.retry, "vary": self.vary, "switch": self.switch, "give_up": self.give_up}


class ToolProfile(Strict):
    """The calls of a tool, and what follows them."""

    next: Shares | None = None
    calls: Counts | None = None
    error_rate: Probability = 0.0
    after_error: AfterError | None = None
    finish_factor: Figure = 1.0
    latency_ms: Amount = constant_distribution(0)
    argument_chars: Amount = constant_distribution(30)
    result_chars: Amount = constant_distribution(200)
    error_chars: Amount = constant_distribution(60)


class FinishProfile(Strict):
    """When and how the agent finishes."""

    hazard: ByStep = [Piece(from_step=1, probability=0.1)]
    tool: Annotated[str, Field(min_length=1)] | None = None
    text_chars: Amount = constant_distribution(300)


class LoopProfile(Strict):
    """How often the agent enters a loop, of how many steps, and how long it stays in it."""

    rate: Probability = 0.0
    period: Counts = {1: 1.0}
    again: Probability = 0.5


class Revisit(Strict):
    """How often a call is repeated outside a loop, and whether its result is the same."""

    rate: Probability = 0.0
    same_result: Probability = 1.0


class Tokens(Strict):
    """What requests and responses consume."""

    prompt: Amount
    output: Amount
    growth: Amount | None = None
    cached_share: Probability = 0.0
    summary: Amount = constant_distribution(300)


class Price(Strict):
    """Dollars per million tokens, which is micro-dollars per token. `cached` is the price of cached input."""

    input: Figure
    output: Figure
    cached: Figure | None = None

    @property
    def per_token(self) -> tuple[float, float, float]:
        """Micro-dollars per token of new input, of cached input, and of output."""
        return self.input, self.input if self.cached is None else self.cached, self.output


class Latency(Strict):
    """The time of a response and of its first token, in milliseconds."""

    response_ms: Amount = constant_distribution(0)
    first_token_ms: Amount | None = None


class Success(Strict):
    """The probability of success of a run, by the step at which it finished, or after which a limit stopped it."""

    finished: ByStep
    cut: ByStep | None = None
    cut_from_step: PositiveInt = 1


class Difficulty(Strict):
    """A kind of task: its share, and what differs for it."""

    share: Figure = 1.0
    hazard_factor: Figure = 1.0
    finished: ByStep | None = None
    cut: ByStep | None = None


class Reminder(Strict):
    """How the hazard changes when the model knows how many turns are left: always an assumption."""

    turns_left: PositiveInt
    factor: Figure = 1.0
    least: Probability = 0.0


def normalise(shares: Mapping[K, float]) -> dict[K, float]:
    """The shares, scaled so that they add up to 1."""
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}
