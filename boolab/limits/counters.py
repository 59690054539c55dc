"""The counters that stop rules read, and how a step changes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from boolab.core.types import UNKNOWN_USAGE, Response, Usage

COUNTERS = ("steps", "tool_calls", "input_tokens", "output_tokens", "tokens", "cost", "elapsed")
RESPONSE_COUNTERS = ("responses", "tool_steps", "supersteps")
"""Those that exist at a response alone: see `projected`."""
_AT_START = dict.fromkeys(COUNTERS, 0)
_NOTHING_KNOWN = dict.fromkeys(("input_tokens", "output_tokens", "tokens", "cost"))


Counter: TypeAlias = Any
"""The value of a counter: an int, None where it is not known, or a nullable column of them."""


class Counters(Protocol):
    """Counters by name: an int or None each (`Progress`), or a nullable column each (a DataFrame)."""

    def __getitem__(self, name: str, /) -> Counter:
        """The counter of that name."""
        ...


class Progress(dict[str, int | None]):
    """The counters of a running turn, by name. Rules read it; only the loop moves it on.

    `counters`: starting values; all others of `COUNTERS` start at 0.

    Example:
        >>> Progress(steps=2)["steps"]
        2
    """

    __slots__ = ()

    def __init__(self, **counters: int | None) -> None:
        super().__init__(_AT_START)
        self.update(counters)

    def charge(self, usage: Usage, calls: int) -> None:
        """Count what was spent, by a step or a subagent; `calls`: how many calls received a result."""
        if usage is UNKNOWN_USAGE:
            if self["cost"] is not None or self["input_tokens"] is not None or self["output_tokens"] is not None:
                self.update(_NOTHING_KNOWN)
        else:
            tokens_in, tokens_out = usage.input_tokens, usage.output_tokens
            self["input_tokens"] = _sum(self["input_tokens"], tokens_in)
            self["output_tokens"] = _sum(self["output_tokens"], tokens_out)
            self["tokens"] = _sum(self["tokens"], _sum(tokens_in, tokens_out))
            self["cost"] = _sum(self["cost"], usage.cost)
        self["tool_calls"] += calls  # type: ignore[operator] # always known


def projected(counters: Mapping[str, int | None], response: Response) -> Progress:
    """The counters at a response: as they would be, were it counted and its calls executed.

    Returns the counters of a boundary and those of `RESPONSE_COUNTERS`: responses, steps that call tools, and the
    supersteps of LangGraph, which counts a response and the calls of one as two.
    """
    n, calls = counters["steps"] or 0, len(response.tool_calls)
    response_counters = {"responses": n + 1, "tool_steps": n + (calls > 0), "supersteps": 2 * n + 2 + (calls > 0)}
    after = Progress(**counters, **response_counters)
    after.charge(response.usage, calls)
    return after


def response_counter(counter: str) -> str:
    """The name of a detector's counter at each response, as if all its calls had been executed."""
    return f"{counter} at the response"


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b
