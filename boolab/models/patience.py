"""Patience: how long to wait for a response, and for each part of it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Self

from boolab.errors import SettingError
from boolab.transcript import duration


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


class Patience:
    """Watches one response: `async with Patience(timeouts) as patience`, and tell it what comes.

    Leaving the block ends the watch; `ran_out` then says what was waited for too long, or is empty.
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
        self._timeout = asyncio.timeout_at(self._due(self._begin + timeouts.first_token))
        self._enough_until = self._begin
        self.ran_out = ""

    def _due(self, then: float) -> float | None:
        due = min(then, self._begin + self._timeouts.whole)
        return None if math.isinf(due) else due

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
            self._timeout.reschedule(self._due(now + self._allowed))
            self._enough_until = now + self._allowed * self.EXACTNESS

    def over(self) -> None:
        """The stream has ended: there is nothing more to wait for."""
        self._timeout.reschedule(None)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> bool:
        try:
            await self._timeout.__aexit__(*raised)  # type: ignore[arg-type] # what `async with` gives
        except TimeoutError:
            self.ran_out = self._what_ran_out()
            return True
        return False

    def _what_ran_out(self) -> str:
        whole = self._timeouts.whole
        if self._heard and self._loop.time() - self._begin >= whole:
            return f"the response was not complete within {_said(whole)}"
        return f"no {'further ' if self._heard else ''}output within {_said(min(self._allowed, whole))}"


def _said(seconds: float) -> str:
    return duration(round(seconds * 1000))
