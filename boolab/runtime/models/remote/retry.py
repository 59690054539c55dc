"""Retries: their number, the waits, and the meaning of Retry-After. Pure functions: `model` waits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from boolab.errors import SettingError
from boolab.io.checks import repr_of


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
        own = min(self.first * 2.0 ** min(attempt - 1, 60), self.most) * (1 - chance / 2)
        wait = own if requested is None else max(requested, own)
        return None if spent + wait > self.seconds else wait


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds of a server's Retry-After, infinity if no float can hold them; None without it.

    `headers`: the headers, with lower-case names: `retry-after-ms` (OpenAI and Azure), or `retry-after`, in seconds or
    as a date (RFC 9110, 10.2.3). `now`: the time that a date is compared with; by default the server's own `date`, else
    this machine's time.

    Example:
        >>> retry_after({"retry-after": "2.5"}), retry_after({"retry-after-ms": "300"}), retry_after({})
        (2.5, 0.3, None)
        >>> date = "Sun, 22 Nov 2026 10:00:00 GMT"
        >>> retry_after({"date": date, "retry-after": date.replace("10:00:00", "10:01:30")})
        90.0
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after", "")
    seconds = _number(given)
    if seconds is not None:
        return seconds
    date = _date(given)
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
