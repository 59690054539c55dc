"""Running a function within limits, in a process of its own: how much memory it takes at most, and how long.

The processes are forked from one that has boolab loaded, so that each costs milliseconds, and is measured from there.
"""

import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

MB: Final = 2**20
_PRELOADED: Final = ("boolab", "boolab.logs.load", "boolab.store", "boolab.whatif.step_files")


class Ended(NamedTuple):
    """How a function ended."""

    value: Any
    error: str
    peak: int
    seconds: float


def run_limited(function: Callable[..., Any], *arguments: Any, memory: int = 2048 * MB, seconds: float = 20) -> Ended:
    """Call a function in a process of its own, which may not take more than that."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_PRELOADED, function.__module__])  # once: later calls find the process started
    hear, tell = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(tell, function, arguments, memory), daemon=True)
    process.start()
    tell.close()
    try:
        if not hear.poll(seconds):
            return Ended(None, "timeout", 0, seconds)
        ended: Ended = hear.recv()
    except EOFError:
        return Ended(None, "killed", 0, seconds)
    else:
        return ended
    finally:
        hear.close()
        process.kill()
        process.join()


def _call(tell: Any, function: Callable[..., Any], arguments: tuple[Any, ...], memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + memory, resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew: proc(5)
    before, start = _status("VmRSS"), time.process_time()
    value, error = None, ""
    try:
        value = function(*arguments)
    except Exception as raised:  # noqa: BLE001 - whatever it is, it is what the test is about
        error = f"{type(raised).__name__}: {raised}"[:2000]
    seconds = time.process_time() - start
    tell.send(Ended(value, error, _status("VmHWM") - before, seconds))


def _status(name: str) -> int:
    """A figure of this process, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) * 1024
