"""`RateLimit`: limits on concurrent requests, and on requests per minute."""

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
from boolab.io.checks import repr_of

MINUTE_MS: Final = 60_000


class RateLimit:
    """A limit that all models with this object share, for example several models of one provider.

    `requests_per_minute` holds in every window of 60 seconds, for all threads and event loops of the process together;
    `concurrency` holds for each event loop.

    Each worker process counts for itself, in real time: with four worker processes, four times as many requests may
    begin in a minute. All copies of one limit in one process are the same object.

    Args:
        concurrency: The number of concurrent requests; None for any number.
        requests_per_minute: The number of requests that begin within 60 seconds; None for any number.
        clock: The clock; real time by default.

    Raises:
        SettingError: if a limit is not an integer >= 1.

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
                msg = f"rate_limit: {name}={repr_of(value)}: expected an integer >= 1, or None for no limit"
                raise SettingError(msg)
        self.concurrency = concurrency
        self.requests_per_minute = requests_per_minute
        self._clock = clock or WallClock()
        self._id = uuid4().hex
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._begun: list[int] = []
        """The begin times of the last minute's requests and of waiting ones, in order."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self._id, self.concurrency, self.requests_per_minute)

    def __repr__(self) -> str:
        return f"RateLimit(concurrency={self.concurrency}, requests_per_minute={self.requests_per_minute})"

    @asynccontextmanager
    async def request(self) -> AsyncIterator[int]:
        """Wait until a request may begin; the block is the time of the request.

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
                del self._places[closed]  # a semaphore refers to its loop: neither would ever be freed
            return self._places.setdefault(loop, asyncio.Semaphore(self.concurrency))

    def _reserve(self) -> int:
        """Reserve the next possible begin time, in ms of the clock."""
        now, limit = self._clock.now(), self.requests_per_minute
        if limit is None:
            return now
        with self._lock:
            del self._begun[: bisect_right(self._begun, now - MINUTE_MS)]
            start = now if len(self._begun) < limit else max(now, self._begun[-limit] + MINUTE_MS)
            insort(self._begun, start)
        return start

    def _give_back(self, start: int) -> None:
        """Cancel a reservation, since nothing was sent."""
        if self.requests_per_minute is not None:
            with self._lock:
                self._begun.remove(start)


@functools.lru_cache(maxsize=256)
def _copy(original: str, concurrency: int | None, requests_per_minute: int | None) -> RateLimit:
    """This process's only copy of another process's rate limit, which arrives with each task."""
    rate_limit = RateLimit(concurrency, requests_per_minute)
    rate_limit._id = original  # noqa: SLF001 - a copy of a copy is one of the same
    return rate_limit
