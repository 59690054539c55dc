"""`Abort`: stop running agents from outside, with their records kept."""

from __future__ import annotations

import asyncio
import threading


class Abort:
    """A switch that stops the runs it was given to: `run(..., abort=abort)`, then `abort.abort()`.

    It works in mid-stream and in mid-tool, from any thread, and for any number of runs. The run ends with `aborted`;
    calls without a result get an error result, the text so far is kept, and `run` returns the record as usual.

    Example:
        >>> import boolab as bl
        >>> abort = bl.Abort()
        >>> abort.abort(); abort.fired
        True
    """

    def __init__(self) -> None:
        self.fired = False
        self._lock = threading.Lock()
        self._tasks: dict[asyncio.Task[object], list[_Attached]] = {}

    def abort(self) -> None:
        """Stop all runs that hold this switch, now and in future."""
        with self._lock:
            self.fired = True
            tasks = list(self._tasks)
        for task in tasks:
            task.get_loop().call_soon_threadsafe(self._cancel, task)

    def attach(self) -> None:
        """From now on, firing cancels the current task. If it has fired already, the loop sees that at its boundary."""
        task = _current_task()
        with self._lock:
            self._tasks.setdefault(task, []).append(_Attached(task.cancelling()))

    def detach(self) -> None:
        """Undo the latest `attach` of the current task; a cancellation on its way is withdrawn."""
        self.absorb()
        task = _current_task()
        with self._lock:
            attached = self._tasks[task]
            attached.pop()
            if not attached:
                del self._tasks[task]
        if attached and self.fired:
            # A run inside a tool is over; the run around it, in the same task, is still to be stopped. Not at once:
            # a cancellation of the running task could not be withdrawn if it ends before it waits again.
            task.get_loop().call_soon(self._cancel, task)

    def absorb(self) -> bool:
        """Withdraw this switch's cancellation of the current task. True if nothing else cancelled the task too."""
        task = _current_task()
        attached = self._tasks.get(task)
        if not attached or not attached[-1].cancelled:
            return False
        attached[-1].cancelled = False
        return task.uncancel() <= attached[-1].cancellations

    def _cancel(self, task: asyncio.Task[object]) -> None:
        attached = self._tasks.get(task)
        if attached and not attached[-1].cancelled:
            attached[-1].cancelled = True
            task.cancel("boolab.Abort")


class _Attached:
    __slots__ = ("cancellations", "cancelled")

    def __init__(self, cancellations: int) -> None:
        self.cancellations = cancellations
        self.cancelled = False


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - runs are driven by tasks
    return task
