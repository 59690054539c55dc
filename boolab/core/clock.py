"""Clocks: real time, or virtual time that advances only when a model or a tool sleeps.

Scripted models and simulated tools run on virtual time, so that tests and sweeps do not wait. Parallel work is
`fork`ed from a clock and `join`ed to it again: the step then takes as long as its longest call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import perf_counter_ns
from typing import Protocol


class Clock(Protocol):
    """The time of the loop, models and tools."""

    virtual: bool

    def now(self) -> int:
        """Integer milliseconds since the run started."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass; `TimeoutError` at the deadline of a fork."""
        ...

    def fork(self, timeout: float | None = None) -> Clock:
        """A clock for one parallel branch, with a deadline `timeout` seconds from now."""
        ...

    def expired(self) -> bool:
        """Whether this fork has reached its deadline."""
        ...

    def join(self, forks: Iterable[Clock]) -> None:
        """Advance to the latest of the forks."""
        ...


class WallClock:
    """Real time, counted from when the clock was made, plus `start_ms`."""

    virtual = False

    def __init__(self, start_ms: int = 0) -> None:
        self._zero_ns = perf_counter_ns() - start_ms * 1_000_000

    def now(self) -> int:
        return (perf_counter_ns() - self._zero_ns) // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def fork(self, timeout: float | None = None) -> WallClock:  # noqa: ARG002 - asyncio.timeout keeps real deadlines
        return self

    def expired(self) -> bool:
        return False

    def join(self, forks: Iterable[Clock]) -> None:
        """Nothing to do: real time has passed in all branches."""


class VirtualClock:
    """Time that only `sleep` advances, by whole milliseconds and at least by one.

    `deadline_ms`: the time at which `sleep` raises `TimeoutError`.
    """

    virtual = True

    def __init__(self, start_ms: int = 0, deadline_ms: int | None = None) -> None:
        self._now = start_ms
        self._deadline = deadline_ms

    def now(self) -> int:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.advance(_milliseconds(seconds))
        await asyncio.sleep(0)

    def advance(self, milliseconds: int) -> None:
        """Advance without yielding to other tasks; `TimeoutError` at the deadline."""
        due_ms = self._now + milliseconds
        if self._deadline is not None and due_ms > self._deadline:
            self._now = self._deadline
            raise TimeoutError
        self._now = due_ms

    def fork(self, timeout: float | None = None) -> VirtualClock:
        return VirtualClock(self._now, None if timeout is None else self._now + _milliseconds(timeout))

    def expired(self) -> bool:
        return self._deadline is not None and self._now >= self._deadline

    def join(self, forks: Iterable[Clock]) -> None:
        self._now = max([self._now, *(fork.now() for fork in forks)])


def _milliseconds(seconds: float) -> int:
    # If a positive sleep were rounded to 0, a polling tool would loop for ever.
    return max(round(seconds * 1000), 1) if seconds > 0 else 0
