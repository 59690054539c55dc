"""Timeouts of a response and of its parts."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import anyio

from boolab.core.text import duration
from boolab.errors import SettingError
from boolab.io.checks import repr_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The longest waits, in seconds; `math.inf` is no limit.

    Attributes:
        connect: For a connection.
        first_token: From the request to the first output; comments and pings are no output.
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
                msg = f"timeouts: {name}={repr_of(value)}: expected seconds > 0 (math.inf for no limit)"
                raise SettingError(msg)


class Deadline:
    """Cancels one response that takes too long: `with Deadline(timeouts) as deadline`, and report each arrival.

    After the block, `ran_out` names the timeout, or is empty. The cancel scope is anyio's, as in httpx: with
    `asyncio.timeout`, httpx could not finish closing other connections.
    """

    SHUTDOWN_TIMEOUT_S = 1.0
    """The time for a server to end a stream after the complete response."""
    TOLERANCE = 0.01
    """The share by which the wait between outputs may be too short: a timer costs as much as parsing a chunk."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._begin = self._loop.time()
        self._arrived = False
        self._allowed = timeouts.first_token
        self._scope = anyio.CancelScope(deadline=self._due(self._begin + timeouts.first_token))
        self._enough_until = self._begin
        self.ran_out = ""

    def _due(self, then: float) -> float:
        return min(then, self._begin + self._timeouts.whole)

    def arrived(self, *, output: bool, ended: bool) -> None:
        """Report an event: whether output has begun, and whether only the end of the stream is missing."""
        if not (ended or output):
            return
        now = self._loop.time()
        if ended or now >= self._enough_until:
            self._arrived = True
            self._allowed = self.SHUTDOWN_TIMEOUT_S if ended else self._timeouts.between
            self._scope.deadline = self._due(now + self._allowed)
            self._enough_until = now + self._allowed * self.TOLERANCE

    def over(self) -> None:
        """Report the end of the stream."""
        self._scope.deadline = math.inf

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        swallowed = self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            whole = self._timeouts.whole
            if self._arrived and self._loop.time() - self._begin >= whole:
                self.ran_out = f"the response was not complete within {duration(round(whole * 1000))}"
            else:
                longest = duration(round(min(self._allowed, whole) * 1000))
                self.ran_out = f"no {'further ' if self._arrived else ''}output within {longest}"
        return swallowed
