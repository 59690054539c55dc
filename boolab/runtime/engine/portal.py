"""The background thread of `run_sync`: an event loop in which runs are waited for, also within another one."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

from boolab.runtime.engine.abort import Abort

BLOCKED_S: Final = 1.0
"""How long the background thread may take to answer an interrupt before it is left to what runs in it."""

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T], abort: Abort, abandoned: Callable[[], T] | None = None) -> T:
    """Wait for a coroutine in the background thread; an interrupt from the keyboard fires `abort`."""
    if not isinstance(threading.current_thread(), _Portal):
        return _portal().wait(work, abort, abandoned)
    # A tool of a run_sync runs an agent itself: that one gets a loop of its own, in a thread that ends with it.
    portal = _Portal()
    portal.start()
    try:
        return portal.wait(work, abort, abandoned)
    finally:
        portal.close()


class _Portal(threading.Thread):
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        super().__init__(name="boolab", daemon=True)
        self.loop = asyncio.new_event_loop()
        self._closing = False

    def run(self) -> None:
        while not self._closing:
            # A task that raises one of these ends the event loop with it, before the waiting caller is notified;
            # and any code in there may stop the event loop.
            with suppress(KeyboardInterrupt, SystemExit):
                self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())  # with them, the connections of real models close
        self.loop.close()

    def close(self) -> None:
        self._closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()

    def wait(self, work: Coroutine[Any, Any, T], abort: Abort, abandoned: Callable[[], T] | None) -> T:
        outcome: Future[T] = Future()

        async def report() -> None:
            # Nothing may escape into the loop: an interrupt or an exit raised in there would end its thread.
            try:
                outcome.set_result(await work)
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                outcome.set_exception(error)

        try:
            asyncio.run_coroutine_threadsafe(report(), self.loop)
            return outcome.result()
        except KeyboardInterrupt:
            if outcome.done():
                raise
            abort.abort()
            if abandoned is None or outcome.done() or not self._is_blocked():
                return outcome.result()
            with _portal_lock:  # later work gets another thread; this one ends its tool, and then waits
                if _portals.get(os.getpid()) is self:
                    del _portals[os.getpid()]
            return abandoned()

    def _is_blocked(self) -> bool:
        """Whether the event loop does nothing for a while: a plain function runs in it."""
        answered = threading.Event()
        self.loop.call_soon_threadsafe(answered.set)
        return not answered.wait(BLOCKED_S)


def _portal() -> _Portal:
    """The process's one background thread, started when it is first needed, or when the one before has died."""
    with _portal_lock:
        portal = _portals.get(os.getpid())
        if portal is None or not portal.is_alive():
            portal = _portals[os.getpid()] = _Portal()
            portal.start()
        return portal


_portals: dict[int, _Portal] = {}
"""By process: threads do not survive a fork, and the event loop of the process before is not to be closed here."""
_portal_lock = threading.Lock()
