"""Retries: how often, how long, and what a server's Retry-After means. Pure; the waiting is done elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from boolab.errors import SettingError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How a request is tried again that failed before any output.

    The wait doubles from attempt to attempt, up to `most`, and a random part of it, up to half, is left out, so that
    runs that failed together do not come back together. What the server asks for in Retry-After is waited at least.

    Attributes:
        attempts: How many attempts are made in all; 1 is no retry.
        seconds: For how long after the first attempt began a further one may still begin.
        first: The wait after the first attempt, in seconds.
        most: The longest wait of our own, in seconds.

    Raises:
        SettingError: if a value is not one that makes sense.

    Example:
        >>> import boolab as bl
        >>> [bl.models.Retry().wait(attempt, spent=0, told=None, chance=0) for attempt in (1, 2, 3, 4, 5)]
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
                msg = f"retry: {name}={value!r}: expected seconds >= 0"
                raise SettingError(msg)

    def wait(self, attempt: int, *, spent: float, told: float | None, chance: float) -> float | None:
        """How long to wait before the next attempt, in seconds; None to give up.

        Args:
            attempt: How many attempts have been made.
            spent: The seconds since the first of them began.
            told: The seconds that the server asked for; None if it did not.
            chance: A random number from 0 to 1.

        Returns:
            The seconds.
        """
        if attempt >= self.attempts:
            return None
        own = min(self.first * 2.0 ** min(attempt - 1, 60), self.most) * (1 - chance / 2)
        wait = own if told is None else max(told, own)
        return None if spent + wait > self.seconds else wait


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """For how many seconds a server asks to be left alone; None if it does not say, infinity for what no float holds.

    Args:
        headers: The headers of its answer, with names in small letters: `retry-after-ms` (as OpenAI and Azure send),
            or `retry-after`, in seconds or as a date (RFC 9110, 10.2.3).
        now: The time that a date is compared with; by default that of the server's own `date`, else this machine's.

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
    told = headers.get("retry-after", "")
    seconds = _number(told)
    if seconds is not None:
        return seconds
    date = _date(told)
    if date is None:
        return None
    return max((date - (now or _date(headers.get("date", "")) or datetime.now(UTC))).total_seconds(), 0.0)


def _number(text: str) -> float | None:
    """A number >= 0; infinity for one that is larger than any float, such as 1e400."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number >= 0 and any(map(str.isdigit, text)) else None  # the words nan and inf have no digit


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the second for years and zones that no integer of C holds
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
