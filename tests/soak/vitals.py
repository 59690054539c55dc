"""What a process holds: memory, open files, tasks, threads; and whether it grows."""

import asyncio
import ctypes
import gc
import os
import statistics
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Vitals(NamedTuple):
    """What this process holds: resident memory in KiB, Python's blocks of memory, open files and sockets, unfinished
    tasks, threads.

    The blocks are exact: they count what is held. The resident memory also holds what allocators keep for later, and
    what was not allocated by Python.
    """  # noqa: D205 - one sentence

    kib: int
    blocks: int
    files: int
    tasks: int
    threads: int


def vitals() -> Vitals:
    """What this process holds now; called in an event loop."""
    kib = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE // 1024
    files = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208 - and one for the listing itself
    return Vitals(kib, sys.getallocatedblocks(), files, len(asyncio.all_tasks()), threading.active_count())


def settled() -> Vitals:
    """The same, once garbage is collected and glibc has given back what it keeps for later.

    Without the latter, the resident memory is a high-water mark, and says nothing about what is held.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library: its memory is taken as it is
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return vitals()


def growth(kib: Sequence[int]) -> float:
    """By which part a series grows from its first value to its last, by the line of Theil and Sen through it.

    That line is the median of the slopes between all pairs: a few high samples do not bend it (P. K. Sen, Estimates of
    the regression coefficient based on Kendall's tau, 1968).

    Example:
        >>> round(growth([100, 101, 102, 103, 104]), 2), growth([100, 100, 180, 100, 100])
        (0.04, 0.0)
    """
    if len(kib) < 2:
        return 0.0
    slopes = [(b - a) / (j - i) for i, a in enumerate(kib) for j, b in enumerate(kib) if j > i]
    return statistics.median(slopes) * (len(kib) - 1) / statistics.median(kib)
