"""`RateLimit`: requests at once, and requests per minute."""

import asyncio
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.core.clock import VirtualClock
from boolab.errors import SettingError
from boolab.runtime.models.remote.options import MINUTE_MS, RateLimit


class StandingClock(VirtualClock):
    """A clock whose sleepers wait until somebody moves it."""

    def __init__(self) -> None:
        super().__init__()
        self._sleeping: list[tuple[int, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleeping.append((self.now() + round(seconds * 1000), woken))
        await woken.wait()

    async def move(self, ms: int) -> None:
        """Move it on, and stop wherever somebody wakes."""
        end = self.now() + ms
        for then, woken in sorted(self._sleeping, key=lambda sleeper: sleeper[0]):
            if then <= end:
                self._now = max(self._now, then)
                woken.set()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        self._sleeping = [sleeper for sleeper in self._sleeping if not sleeper[1].is_set()]
        self._now = end


@given(st.integers(1, 5), st.lists(st.integers(0, 40_000), max_size=40))
def test_no_window_of_a_minute_holds_more_than_the_limit(limit: int, pauses: list[int]) -> None:
    clock = VirtualClock()
    rate_limit = RateLimit(requests_per_minute=limit, clock=clock)
    begun: list[int] = []

    async def ask() -> None:
        for pause in pauses:
            await clock.sleep(pause / 1000)
            came = clock.now()
            async with rate_limit.request() as waited:
                assert clock.now() - came == waited
                begun.append(clock.now())

    asyncio.run(ask())
    assert len(begun) == len(pauses)
    for start in begun:
        assert sum(start <= other < start + MINUTE_MS for other in begun) <= limit


def test_nobody_waits_while_the_minute_has_room() -> None:
    clock = VirtualClock()
    rate_limit = RateLimit(requests_per_minute=3, clock=clock)

    async def ask() -> list[int]:
        waits = []
        for _ in range(3):
            async with rate_limit.request() as waited:
                waits.append(waited)
        return waits

    assert asyncio.run(ask()) == [0, 0, 0]


@given(st.integers(1, 4), st.integers(1, 20))
def test_rate_limit_bounds_concurrent_requests(limit: int, tasks: int) -> None:
    rate_limit = RateLimit(concurrency=limit)
    under_way = most = 0

    async def ask() -> None:
        nonlocal under_way, most
        async with rate_limit.request():
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1

    async def all_of_them() -> None:
        await asyncio.gather(*(ask() for _ in range(tasks)))

    asyncio.run(all_of_them())
    assert most == min(limit, tasks)


def test_a_request_that_is_cancelled_gives_its_place_back() -> None:
    rate_limit = RateLimit(concurrency=1)

    async def hold(held: asyncio.Event) -> None:
        async with rate_limit.request():
            held.set()
            await asyncio.Event().wait()

    async def try_it() -> int:
        held = asyncio.Event()
        task = asyncio.create_task(hold(held))
        await held.wait()
        task.cancel()
        async with rate_limit.request() as waited:
            return waited

    assert asyncio.run(try_it()) >= 0


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 30_000), st.booleans()), max_size=40))
def test_rate_limit_releases_a_cancelled_reservation(limit: int, came: list[tuple[int, bool]]) -> None:
    """Whoever gives up counts for nothing: no window is too full, and who comes later does not wait for the gone."""
    clock = StandingClock()
    rate_limit = RateLimit(requests_per_minute=limit, clock=clock)
    begun: list[int] = []

    async def ask() -> None:
        async with rate_limit.request():
            begun.append(clock.now())

    async def come_and_go() -> int:
        tasks = []
        for pause, gives_up in came:
            await clock.move(pause)
            tasks.append((asyncio.create_task(ask()), gives_up))
            await asyncio.sleep(0)
        for task, gives_up in tasks:
            if gives_up:
                task.cancel()
        await asyncio.sleep(0)
        await clock.move(0)
        stayed = [task for task, _ in tasks if not task.cancelled()]
        if all(task.done() for task in stayed):  # then there is nobody to wait for, but those who have begun
            free = sorted(begun)[-limit] + MINUTE_MS if len(begun) >= limit else 0
            last = asyncio.create_task(ask())
            await asyncio.sleep(0)
            await clock.move(max(free - clock.now(), 0))
            assert last.done()
        while not all(task.done() for task in stayed):
            await clock.move(MINUTE_MS)
        return len(stayed)

    stayed = asyncio.run(come_and_go())
    assert len(begun) >= stayed
    for start in begun:
        assert sum(start <= other < start + MINUTE_MS for other in begun) <= limit


def test_threads_with_loops_of_their_own_share_the_minute() -> None:
    clock = VirtualClock()
    rate_limit = RateLimit(concurrency=2, requests_per_minute=4, clock=clock)
    begun: list[int] = []

    async def ask() -> None:
        async with rate_limit.request():
            begun.append(clock.now())

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(ask())
    assert begun == [0, 0, 0, 0, MINUTE_MS]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "3"])
def test_a_limit_that_is_no_whole_number_above_zero_is_refused(limit: Any) -> None:
    with pytest.raises(SettingError, match="concurrency"):
        RateLimit(concurrency=limit)
    with pytest.raises(SettingError, match="requests_per_minute"):
        RateLimit(requests_per_minute=limit)


def copy_of(rate_limit: RateLimit) -> Any:
    return pickle.loads(pickle.dumps(rate_limit))  # noqa: S301 - our own


def test_rate_limit_copies_in_a_process_are_one_object() -> None:
    rate_limit, other = RateLimit(3, 50), RateLimit(3, 50)
    copies = [copy_of(one) for one in (rate_limit, rate_limit, copy_of(rate_limit))]
    assert {id(copy) for copy in copies} == {id(copies[0])}
    assert copies[0] is not copy_of(other)
    assert repr(copies[0]) == repr(rate_limit)
