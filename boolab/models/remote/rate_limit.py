"""`RateLimit`: how many requests are under way at once, and how many begin in a minute."""

from __future__ import annotations

import asyncio
import functools
import threading
from bisect import bisect_right, insort
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final
from uuid import uuid4
from weakref import WeakKeyDictionary

from boolab.core.clock import Clock, WallClock
from boolab.errors import SettingError

MINUTE_MS: Final = 60_000


class RateLimit:
    """A limit that all runs share whose models hold it: those of a sweep, and those of several models of one provider.

    Requests per minute hold in every window of 60 seconds, in all threads and event loops of the process together. The
    limit on requests at once is one for each event loop.

    Where it is pickled it goes to another process, which counts for itself and keeps real time: with four worker
    processes, four times as many requests may begin in a minute. All copies that one process gets of one rate_limit are
    the same.

    Args:
        concurrency: How many requests may be under way at once; None for any number.
        requests_per_minute: How many may begin within any 60 seconds; None for any number.
        clock: What time it keeps; real time by default.

    Raises:
        SettingError: if a limit is not a whole number >= 1.

    Example:
        >>> import boolab as bl
        >>> from boolab.core.clock import VirtualClock
        >>> clock = VirtualClock()
        >>> rate_limit = bl.models.RateLimit(requests_per_minute=2, clock=clock)
        >>> async def ask(times):
        ...     for _ in range(times):
        ...         async with rate_limit.request() as waited_ms:
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
                msg = f"rate_limit: {name}={value!r}: expected an integer >= 1, or None for no limit"
                raise SettingError(msg)
        self.concurrency = concurrency
        self.requests_per_minute = requests_per_minute
        self._clock = clock or WallClock()
        self._id = uuid4().hex
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._begun: list[int] = []
        """When requests begin, in order: those of the last minute, and those that wait."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self._id, self.concurrency, self.requests_per_minute)

    def __repr__(self) -> str:
        return f"RateLimit(concurrency={self.concurrency}, requests_per_minute={self.requests_per_minute})"

    @asynccontextmanager
    async def request(self) -> AsyncIterator[int]:
        """The time of one request: waits until it may begin, and gives how long that took, in ms.

        Yields:
            The milliseconds that it had to wait.
        """
        if self.concurrency is None and self.requests_per_minute is None:
            yield 0
            return
        asked = self._clock.now()
        async with self._place():
            start = self._reserve()
            wait = start - self._clock.now()
            if wait > 0:
                try:
                    await self._clock.sleep(wait / 1000)
                except BaseException:
                    self._give_back(start)
                    raise
            yield self._clock.now() - asked

    def _place(self) -> AbstractAsyncContextManager[Any]:
        if self.concurrency is None:
            return nullcontext()
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [one for one in self._places if one.is_closed()]:
                del self._places[closed]  # a semaphore holds its loop, so that neither would ever be freed
            return self._places.setdefault(loop, asyncio.Semaphore(self.concurrency))

    def _reserve(self) -> int:
        """Take the next place in the minute: when it begins, in ms of the clock."""
        now, most = self._clock.now(), self.requests_per_minute
        if most is None:
            return now
        with self._lock:
            del self._begun[: bisect_right(self._begun, now - MINUTE_MS)]
            start = now if len(self._begun) < most else max(now, self._begun[-most] + MINUTE_MS)
            insort(self._begun, start)
        return start

    def _give_back(self, start: int) -> None:
        """Leave a place in the minute to others, as nothing was sent."""
        if self.requests_per_minute is not None:
            with self._lock:
                self._begun.remove(start)


@functools.lru_cache(maxsize=256)
def _copy(original: str, concurrency: int | None, requests_per_minute: int | None) -> RateLimit:
    """This process's one copy of a rate_limit of another: pieces of work bring it along one after the other."""
    rate_limit = RateLimit(concurrency, requests_per_minute)
    rate_limit._id = original  # noqa: SLF001 - a copy of a copy is one of the same
    return rate_limit
