"""When a request is tried again, and what Retry-After means."""

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.errors import SettingError
from boolab.runtime.models.remote.options import Retry, retry_after

seconds = st.floats(0, 1e6)


retries = st.builds(Retry, attempts=st.integers(1, 20), seconds=seconds, first=seconds, most=seconds)


@given(retries, st.integers(1, 200), seconds, st.none() | seconds, st.floats(0, 1))
def test_a_wait_keeps_to_what_is_allowed(
    retry: Retry, attempt: int, spent: float, requested: float | None, chance: float
) -> None:
    wait = retry.wait(attempt, spent=spent, requested=requested, chance=chance)
    if wait is None:
        full = max(requested or 0, min(retry.first * 2.0 ** (attempt - 1), retry.most))
        assert attempt >= retry.attempts or spent + full > retry.seconds
    else:
        assert attempt < retry.attempts
        assert spent + wait <= retry.seconds
        assert wait >= (requested or 0)
        assert wait <= max(requested or 0, retry.most)


@given(st.floats(0, 1))
def test_retry_waits_double_with_at_most_half_at_random(chance: float) -> None:
    retry = Retry(attempts=10, first=1, most=8, seconds=1e6)
    waits = [retry.wait(attempt, spent=0, requested=None, chance=chance) or 0 for attempt in range(1, 10)]
    assert all(full / 2 <= wait <= full for wait, full in zip(waits, [1, 2, 4, 8, 8, 8, 8, 8, 8], strict=True))


@given(st.integers(0, 10**6))
def test_a_date_means_the_seconds_from_the_servers_own_date(later: int) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    headers = {"retry-after": format_datetime(now + timedelta(seconds=later), usegmt=True)}
    assert retry_after(headers, now) == later
    assert retry_after({**headers, "date": format_datetime(now, usegmt=True)}) == later


def test_a_date_that_has_passed_is_no_wait() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert retry_after({"retry-after": format_datetime(now - timedelta(days=1), usegmt=True)}, now) == 0


TOO_LARGE = ["Fri, 31 Dec 99999999999999999999 23:59:59 GMT", "Fri, 31 Dec 2026 23:59:59 +99999999999999"]
"""Dates of numbers that no integer of C holds."""


@pytest.mark.parametrize("requested", ["", "soon", "-3", "nan", "inf", "Sun, 99 Nov 2026 10:00:00 GMT", *TOO_LARGE])
def test_what_is_neither_seconds_nor_a_date_is_passed_over(requested: str) -> None:
    assert retry_after({"retry-after": requested}) is None
    assert retry_after({"retry-after-ms": requested}) is None


def test_seconds_that_no_float_holds_are_more_than_any_wait() -> None:
    assert retry_after({"retry-after": "1e400"}) == math.inf
    assert retry_after({"retry-after-ms": "9" * 400}) == math.inf
    assert Retry().wait(1, spent=0, requested=math.inf, chance=0) is None


def test_milliseconds_win_over_seconds() -> None:
    assert retry_after({"retry-after": "9", "retry-after-ms": "250"}) == 0.25


@pytest.mark.parametrize(
    "values",
    [{"attempts": 0}, {"attempts": True}, {"attempts": 2.0}, {"seconds": -1}, {"first": math.nan}, {"most": math.inf}],
)
def test_values_that_make_no_sense_are_refused_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(values))):
        Retry(**values)


@given(st.text(st.sampled_from("0123456789 :+-,.;aeFriJanDecGMT"), max_size=60))
def test_no_header_is_an_exception(requested: str) -> None:
    for header in (requested, f"Fri, 31 Dec {requested}", f"Fri, 31 Dec 2026 23:59:59 {requested}"):
        wait = retry_after({"retry-after": header, "retry-after-ms": requested, "date": header})
        assert wait is None or 0 <= wait <= math.inf


def test_what_the_server_asks_for_does_not_make_a_wait_shorter() -> None:
    assert Retry(first=8).wait(1, spent=0, requested=0.1, chance=0) == 8
