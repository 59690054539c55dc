"""Deadline: how long to wait for a response, and for each part of it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import anyio

from boolab.core.text import duration
from boolab.errors import SettingError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait, in seconds; `math.inf` for ever.

    Attributes:
        connect: For a connection.
        first_token: From the request to the first output. What a server sends to keep the line open is none.
        between: From one output to the next.
        whole: For the whole response.

    Raises:
        SettingError: if a value is not a number above 0.

    Example:
        >>> import boolab as bl
        >>> bl.models.Timeouts(first_token=60).whole
        1800
    """

    connect: float = 10
    first_token: float = 300
    between: float = 120
    whole: float = 1800

    def __post_init__(self) -> None:
        for name in ("connect", "first_token", "between", "whole"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                msg = f"timeouts: {name}={value!r}: expected seconds > 0 (math.inf to wait for ever)"
                raise SettingError(msg)


class Deadline:
    """Watches one response: `with Deadline(timeouts) as patience`, and tell it what comes.

    Leaving the block ends the watch; `ran_out` then says what was waited for too long, or is empty. The scope is
    anyio's, as httpx's own are: what httpx closes meanwhile, connections of other requests among them, it closes to the
    end, as `asyncio.timeout` would not let it.
    """

    FAREWELL_S = 1.0
    """How long a server may take to end a stream in which it has said all."""

    EXACTNESS = 0.01
    """By which part the wait between outputs may be too short: to set a timer costs as much as to parse a chunk."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._begin = self._loop.time()
        self._heard = False
        self._allowed = timeouts.first_token
        self._scope = anyio.CancelScope(deadline=self._due(self._begin + timeouts.first_token))
        self._enough_until = self._begin
        self.ran_out = ""

    def _due(self, then: float) -> float:
        return min(then, self._begin + self._timeouts.whole)

    def heard(self, *, output: bool, ended: bool) -> None:
        """Something has come.

        Args:
            output: Whether it is output, or part of what follows some.
            ended: Whether all has come, but for the end of the stream.
        """
        if not (ended or output):
            return
        now = self._loop.time()
        if ended or now >= self._enough_until:
            self._heard = True
            self._allowed = self.FAREWELL_S if ended else self._timeouts.between
            self._scope.deadline = self._due(now + self._allowed)
            self._enough_until = now + self._allowed * self.EXACTNESS

    def over(self) -> None:
        """The stream has ended: there is nothing more to wait for."""
        self._scope.deadline = math.inf

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        swallowed = self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            self.ran_out = self._what_ran_out()
        return swallowed

    def _what_ran_out(self) -> str:
        whole = self._timeouts.whole
        if self._heard and self._loop.time() - self._begin >= whole:
            return f"the response was not complete within {_said(whole)}"
        return f"no {'further ' if self._heard else ''}output within {_said(min(self._allowed, whole))}"


def _said(seconds: float) -> str:
    return duration(round(seconds * 1000))
