"""An event loop that counts where its tasks wait, and lets something strike at the n-th such place.

Whatever can be cancelled can be cancelled only where a task is suspended. `strike` plays a scenario in a fresh event
loop, wraps the coroutine of each task that is made in there, and so sees each suspension of each of them: of the
scenario itself, and of every task that it starts. At the n-th it acts upon the scenario: cancels it, cancels it twice,
fires an abort, lets a timeout run out. With n = 1, 2, 3, ... until nothing is struck any more, every place is tried.

What is left over then is on record: tasks that are still there, generators of boolab's that were begun and neither
ended nor closed, what the event loop had to complain about.
"""

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import boolab

PACKAGE: Final = Path(boolab.__file__).parent
MOST: Final = 2_000
"""A scenario that waits at more places than these does not end."""

When: TypeAlias = Literal["early", "late"]
"""`early`: as soon as a task waits. `late`: what it waited for is there, and the task is about to hear of it."""


@dataclass
class Struck:
    """What became of a scenario. `seen` counts the suspensions, `after` those from the strike to the end."""

    value: Any = None
    error: BaseException | None = None
    struck: bool = False
    seen: int = 0
    after: int = 0
    cancelling: int = 0
    left: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


Blow: TypeAlias = Callable[[asyncio.Task[Any], int], object]
"""What strikes: called with the scenario's task and how many times it was called before; True to be called again at
the next suspension."""


def cancel(task: asyncio.Task[Any], _times: int) -> None:
    """Cancel the scenario once."""
    task.cancel()


def cancel_until_it_ends(task: asyncio.Task[Any], _times: int) -> bool:
    """Cancel the scenario, and again wherever it waits afterwards."""
    task.cancel()
    return True


def cancel_twice(later: int) -> Blow:
    """Cancel the scenario, and once more so many suspensions later."""

    def blow(task: asyncio.Task[Any], times: int) -> bool:
        if times in (0, later):
            task.cancel()
        return times < later

    return blow


def strike(
    scenario: Callable[[], Coroutine[Any, Any, Any]],
    at: int,
    blow: Blow = cancel,
    when: When = "early",
    afterwards: Callable[[], Awaitable[object]] | None = None,
) -> Struck:
    """Play a scenario, and strike at one suspension."""
    out = Struck()
    with asyncio.Runner() as runner:
        runner.run(_watch(scenario, at, blow, when, afterwards, out))
    return out


def everywhere(play: Callable[[int], Struck]) -> Iterator[tuple[int, Struck]]:
    """Strike at the first suspension, at the second, and so on; the last is the one that came too late to strike."""
    for at in range(1, MOST):
        out = play(at)
        yield at, out
        if not out.struck:
            return
    msg = f"the scenario has more than {MOST} suspensions"
    raise AssertionError(msg)


@contextmanager
def told(**facts: object) -> Iterator[None]:
    """Say where it was if something fails."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(", ".join(f"{name}: {value}" for name, value in facts.items()))
        raise


async def pause() -> None:
    """Wait for something that comes at once."""
    loop = asyncio.get_running_loop()
    coming = loop.create_future()
    loop.call_soon(_come, coming)
    await coming


def _come(coming: asyncio.Future[None]) -> None:
    if not coming.done():
        coming.set_result(None)


async def _watch(
    scenario: Callable[[], Coroutine[Any, Any, Any]],
    at: int,
    blow: Blow,
    when: When,
    afterwards: Callable[[], Awaitable[object]] | None,
    out: Struck,
) -> None:
    loop, hooks = asyncio.get_running_loop(), sys.get_asyncgen_hooks()
    assert hooks.firstiter is not None
    tell_the_loop = hooks.firstiter
    begun: list[Any] = []
    times = 0

    def act() -> None:
        nonlocal times
        if task.done():
            return
        if not times:
            out.struck, out.after = True, 0
        goes_on = blow(task, times)
        times = times + 1 if goes_on else -1

    def suspended(waited: object) -> None:
        out.seen += 1
        out.after += 1
        if out.seen != at and times < 1:
            return
        if when == "late" and isinstance(waited, asyncio.Future) and not waited.done():
            waited.add_done_callback(lambda _: act())  # before the task's own, which is added after this
        else:
            act()

    def begin(generator: AsyncGenerator[Any, Any]) -> None:
        begun.append(generator)
        tell_the_loop(generator)

    def make_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(_Stepping(work, suspended), loop=loop, **options)

    sys.set_asyncgen_hooks(begin, hooks.finalizer)
    loop.set_exception_handler(lambda _loop, context: out.complaints.append(str(context)))
    loop.set_task_factory(make_task)
    task = loop.create_task(scenario(), name="scenario")
    await asyncio.wait([task])
    loop.set_task_factory(None)
    out.left = [repr(one) for one in asyncio.all_tasks() - {asyncio.current_task()}]
    ours = (one for one in begun if Path(one.ag_code.co_filename).is_relative_to(PACKAGE))
    out.unclosed = [one.__qualname__ for one in ours if one.ag_frame is not None]
    out.cancelling = task.cancelling()
    if task.cancelled():
        try:
            task.result()
        except asyncio.CancelledError as cancelled:
            out.error = cancelled
    else:
        out.error = task.exception()
        out.value = None if out.error is not None else task.result()
    if afterwards is not None:
        await afterwards()
    gc.collect(1)  # tasks complain as they are freed
    await asyncio.sleep(0)


class _Stepping(Coroutine[Any, Any, Any]):
    """A coroutine around another that tells each time it is suspended."""

    def __init__(self, inner: Coroutine[Any, Any, Any], suspended: Callable[[object], None]) -> None:
        self._inner = inner
        self._suspended = suspended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # anyio looks at a coroutine's state, asyncio at its code

    def send(self, value: Any) -> Any:
        waited = self._inner.send(value)
        self._suspended(waited)
        return waited

    def throw(self, *error: Any) -> Any:
        waited = self._inner.throw(*error)
        self._suspended(waited)
        return waited

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()
