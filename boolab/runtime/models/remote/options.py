"""The options of a remote model: how long it waits, how it retries, and how many requests it sends at once."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
from bisect import bisect_right, insort
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4
from weakref import WeakKeyDictionary

import anyio

from boolab.core.clock import Clock, WallClock
from boolab.display.numbers import duration
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
        self._scope = anyio.CancelScope(deadline=self._due_time(self._begin + timeouts.first_token))
        self._enough_until = self._begin
        self.ran_out = ""

    def _due_time(self, time: float) -> float:
        return min(time, self._begin + self._timeouts.whole)

    def report_arrival(self, *, output: bool, ended: bool) -> None:
        """Report an event: whether output has begun, and whether only the end of the stream is missing."""
        if not (ended or output):
            return
        time = self._loop.time()
        if ended or time >= self._enough_until:
            self._arrived = True
            self._allowed = self.SHUTDOWN_TIMEOUT_S if ended else self._timeouts.between
            self._scope.deadline = self._due_time(time + self._allowed)
            self._enough_until = time + self._allowed * self.TOLERANCE

    def report_end(self) -> None:
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
            limit = self._timeouts.whole
            if self._arrived and self._loop.time() - self._begin >= limit:
                self.ran_out = f"the response was not complete within {duration(round(limit * 1000))}"
            else:
                longest = duration(round(min(self._allowed, limit) * 1000))
                self.ran_out = f"no {'further ' if self._arrived else ''}output within {longest}"
        return swallowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How a request is retried that failed before any output.

    The wait doubles with each attempt, up to `most`. A random part of it, up to half, is subtracted, so that runs that
    failed together do not retry together. The wait is never shorter than the server's Retry-After.

    Attributes:
        attempts: The number of attempts; 1 is no retry.
        seconds: The longest time from the beginning of the first attempt to the beginning of another one.
        first: The wait after the first attempt, in seconds.
        most: The longest wait without Retry-After, in seconds.

    Raises:
        SettingError: if a value is not valid.

    Example:
        >>> import boolab as bl
        >>> [bl.models.Retry().wait(attempt, spent=0, requested=None, chance=0) for attempt in (1, 2, 3, 4, 5)]
        [0.5, 1.0, 2.0, 4.0, None]
    """

    attempts: int = 5
    seconds: float = 300
    first: float = 0.5
    most: float = 30

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            msg = f"retry: attempts={self.attempts!r}: expected an integer >= 1 (1 is no retry)"
            raise SettingError(msg)
        for name in ("seconds", "first", "most"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                msg = f"retry: {name}={repr_of(value)}: expected seconds >= 0"
                raise SettingError(msg)

    def wait(self, attempt: int, *, spent: float, requested: float | None, chance: float) -> float | None:
        """The wait before the next attempt.

        Args:
            attempt: The number of attempts so far.
            spent: The seconds since the first attempt began.
            requested: The seconds of the server's Retry-After; None without it.
            chance: A random number from 0 to 1.

        Returns:
            The seconds; None to give up.
        """
        if attempt >= self.attempts:
            return None
        backoff = min(self.first * 2.0 ** min(attempt - 1, 60), self.most) * (1 - chance / 2)
        wait = backoff if requested is None else max(requested, backoff)
        return None if spent + wait > self.seconds else wait


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds of a server's Retry-After, infinity if no float can hold them; None without it.

    `headers`: the headers, with lower-case names: `retry-after-ms` (OpenAI and Azure), or `retry-after`, in seconds or
    as a date (RFC 9110, 10.2.3). `now`: the time that a date is compared with; by default the server's own `date`, else
    this machine's time.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after", "")
    seconds = _number(header)
    if seconds is not None:
        return seconds
    date = _date(header)
    if date is None:
        return None
    return max((date - (now or _date(headers.get("date", "")) or datetime.now(UTC))).total_seconds(), 0.0)


def _number(text: str) -> float | None:
    """A number >= 0; infinity for one that is too large for a float, such as 1e400."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number >= 0 and any(map(str.isdigit, text)) else None  # "nan" and "inf" have no digit


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # OverflowError: a year or zone too large for C
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


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
        self._semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._begin_times: list[int] = []
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
        requested_at = self._clock.now()
        async with self._semaphore():
            start = self._reserve()
            wait = start - self._clock.now()
            if wait > 0:
                try:
                    await self._clock.sleep(wait / 1000)
                except BaseException:
                    self._cancel_reservation(start)
                    raise
            yield self._clock.now() - requested_at

    def _semaphore(self) -> AbstractAsyncContextManager[Any]:
        if self.concurrency is None:
            return nullcontext()
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed_loop in [known_loop for known_loop in self._semaphores if known_loop.is_closed()]:
                del self._semaphores[closed_loop]  # a semaphore refers to its loop: neither would ever be freed
            return self._semaphores.setdefault(loop, asyncio.Semaphore(self.concurrency))

    def _reserve(self) -> int:
        """Reserve the next possible begin time, in ms of the clock."""
        time, limit = self._clock.now(), self.requests_per_minute
        if limit is None:
            return time
        with self._lock:
            del self._begin_times[: bisect_right(self._begin_times, time - MINUTE_MS)]
            start = time if len(self._begin_times) < limit else max(time, self._begin_times[-limit] + MINUTE_MS)
            insort(self._begin_times, start)
        return start

    def _cancel_reservation(self, start: int) -> None:
        """Cancel a reservation, since nothing was sent."""
        if self.requests_per_minute is not None:
            with self._lock:
                self._begin_times.remove(start)


@functools.lru_cache(maxsize=256)
def _copy(original: str, concurrency: int | None, requests_per_minute: int | None) -> RateLimit:
    """This process's only copy of another process's rate limit, which arrives with each task."""
    rate_limit = RateLimit(concurrency, requests_per_minute)
    rate_limit._id = original  # noqa: SLF001 - a copy of a copy is one of the same
    return rate_limit
