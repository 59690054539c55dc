"""Virtual and real time."""

import asyncio

import pytest

from boolab.core.clock import VirtualClock, WallClock


def test_virtual_time_moves_by_what_is_slept_and_by_nothing_else() -> None:
    clock = VirtualClock(5)
    asyncio.run(clock.sleep(0.25))
    asyncio.run(clock.sleep(0))
    asyncio.run(clock.sleep(-1))
    assert clock.now() == 255


def test_a_tiny_virtual_sleep_moves_time_so_that_polling_ends() -> None:
    async def poll() -> int:
        clock = VirtualClock().fork(timeout=0.01)
        turns = 0
        while True:
            try:
                await clock.sleep(1e-9)
            except TimeoutError:
                return turns
            turns += 1

    assert asyncio.run(poll()) == 10


def test_fork_has_its_own_time_and_join_takes_the_latest() -> None:
    clock = VirtualClock(100)
    a, b, c = clock.fork(), clock.fork(), clock.fork(timeout=1)
    asyncio.run(a.sleep(0.3))
    asyncio.run(b.sleep(0.2))
    with pytest.raises(TimeoutError):
        asyncio.run(c.sleep(5))
    assert (a.now(), b.now(), c.now(), clock.now()) == (400, 300, 1100, 100)
    clock.join([a, b])
    assert clock.now() == 400


def test_wall_clock_is_shared_by_forks_and_starts_as_given() -> None:
    clock = WallClock(start_ms=5000)
    assert clock.fork() is clock
    before = clock.now()
    asyncio.run(clock.sleep(0.005))
    clock.join([])
    assert 5000 <= before < clock.now() < 65_000
