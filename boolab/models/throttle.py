"""`Throttle`: how many requests are under way at once, and how many begin in a minute."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final
from weakref import WeakKeyDictionary

from boolab.clock import Clock, WallClock
from boolab.errors import SettingError

MINUTE_MS: Final = 60_000


class Throttle:
    """A limit that all runs share whose models hold it: those of a sweep, and those of several models of one provider.

    Requests per minute hold in every window of 60 seconds, in all threads and event loops of the process together. The
    limit on requests at once is one for each event loop.

    Args:
        concurrency: How many requests may be under way at once; None for any number.
        requests_per_minute: How many may begin within any 60 seconds; None for any number.
        clock: What time it keeps; real time by default.

    Raises:
        SettingError: if a limit is not a whole number >= 1.

    Example:
        >>> from boolab.clock import VirtualClock
        >>> clock = VirtualClock()
        >>> throttle = Throttle(requests_per_minute=2, clock=clock)
        >>> async def ask(times):
        ...     for _ in range(times):
        ...         async with throttle.request() as waited_ms:
        ...             print(waited_ms, "ms")
        >>> asyncio.run(ask(3))
        0 ms
        0 ms
        60000 ms
    """

    def __init__(
        self, concurrency: int | None = None, requests_per_minute: int | None = None, *, clock: Clock | None = None
    ) -> None:
        for name, value in (("concurrency", concurrency), ("requests_per_minute", requests_per_minute)):
            if value is not None and (type(value) is not int or value < 1):
                msg = f"throttle: {name}={value!r}: expected an integer >= 1, or None for no limit"
                raise SettingError(msg)
        self.concurrency = concurrency
        self.requests_per_minute = requests_per_minute
        self._clock = clock or WallClock()
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._begun: deque[int] = deque(maxlen=requests_per_minute)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Throttle(concurrency={self.concurrency}, requests_per_minute={self.requests_per_minute})"

    @asynccontextmanager
    async def request(self) -> AsyncIterator[int]:
        """The time of one request: waits until it may begin, and gives how long that took, in ms."""
        asked = self._clock.now()
        async with self._place():
            wait = self._reserve()
            if wait:
                await self._clock.sleep(wait / 1000)
            yield self._clock.now() - asked

    def _place(self) -> AbstractAsyncContextManager[Any]:
        if self.concurrency is None:
            return nullcontext()
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._places.setdefault(loop, asyncio.Semaphore(self.concurrency))

    def _reserve(self) -> int:
        """Take the next place in the minute, and say how far off it is, in ms."""
        if self.requests_per_minute is None:
            return 0
        with self._lock:
            now = self._clock.now()
            full = len(self._begun) == self.requests_per_minute
            start = max(now, self._begun[0] + MINUTE_MS) if full else now
            self._begun.append(start)
        return start - now
