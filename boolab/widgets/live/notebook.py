"""What ends a live run from the notebook: an interrupt of the idle kernel, and its cell that is run again."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

_running: Final[dict[object, Callable[[], None]]] = {}
"""What stops each run that an interrupt ends."""


def add_run(owner: object, stop: Callable[[], None]) -> None:
    """Have an interrupt of the idle kernel stop a run."""
    _running[owner] = stop


def remove_run(owner: object) -> None:
    """Have no interrupt stop it any more."""
    _running.pop(owner, None)


def keep_handler() -> None:
    """Handle interrupts of the idle kernel while something runs; called in the main thread, again and again.

    A kernel ignores interrupts while no cell runs. While one does, the interrupt is for that cell; afterwards the
    kernel restores what was there before, so this looks each time whether its handler is still there.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGINT)
    if _running and handler is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _stop_all)
    elif not _running and handler is _stop_all:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stop_all(*_: object) -> None:
    """Stop all runs, soon: the interrupt may have come while the main thread holds a lock that stopping needs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.get_event_loop_policy().get_event_loop()
    for stop in list(_running.values()):
        loop.call_soon_threadsafe(stop)


class NotebookCell:
    """The cell that a widget was made in; running it again calls `ended`."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._events, self._id = None, _cell_id()
        if self._id is not None:
            self._events = _shell().events
            self._events.register("pre_run_cell", self._on_cell)

    def leave(self) -> None:
        """Look at cells no more."""
        if self._events is not None:
            self._events.unregister("pre_run_cell", self._on_cell)
            self._events = None

    def _on_cell(self, info: Any) -> None:  # noqa: ANN401 - IPython's
        if getattr(info, "cell_id", None) == self._id:
            self._ended()


def _shell() -> Any:  # noqa: ANN401 - IPython's, where it runs
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _cell_id() -> str | None:
    """The id of the cell that is run now; None where there are none, as in a terminal."""
    parent: Any = getattr(_shell(), "get_parent", dict)()
    cell_id = parent.get("metadata", {}).get("cellId") if isinstance(parent, dict) else None
    return cell_id if isinstance(cell_id, str) else None
