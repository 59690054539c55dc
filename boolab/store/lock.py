"""The lock of a store's writer: a lock file beside it, which the system releases when the process ends."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from boolab.errors import StoreError

WAIT_S: Final = 2.0
"""How long a writer waits for another one, in seconds."""
POLL_S: Final = 0.05
"""How long to wait between two tries, in seconds."""


def lock_path(path: Path) -> Path:
    """The lock file of a store: the same for all links to it."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.lock")


def lock(path: Path, wait_s: float = WAIT_S) -> FileLock:
    """Become the writer of a store: returns the lock, after waiting for another writer up to `wait_s` seconds.

    Raises:
        StoreError: if there still is another writer, or no lock file can be made there.
    """
    place = lock_path(path)
    held = FileLock(place, thread_local=False)
    try:
        held.acquire(timeout=wait_s, poll_interval=POLL_S)
    except Timeout:
        msg = f"it is being written by {_holder(place)}; a store has one writer at a time (and any number of readers)"
        raise StoreError(msg, path=path) from None
    except OSError as error:
        msg = f"it cannot be written: no lock file {place.name} can be made beside it ({error.strerror})"
        raise StoreError(msg, path=path) from error
    with suppress(OSError):  # only for the message of another process
        place.write_text(f"{os.getpid()}\n", encoding="utf-8")
    return held


def is_locked(path: Path) -> bool:
    """Whether a store has a writer now. No file is created or changed."""
    place = lock_path(path)
    try:
        import fcntl
    except ModuleNotFoundError:
        return _cannot_be_locked(place)
    try:
        with place.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _cannot_be_locked(place: Path) -> bool:
    """Whether the lock is held, on systems where a file can only be locked to write."""
    if not place.exists():
        return False
    probe = FileLock(place, thread_local=False)
    try:
        probe.acquire(blocking=False)
    except (Timeout, OSError):
        return True
    probe.release()
    return False


def _holder(place: Path) -> str:
    try:
        pid = place.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        pid = ""
    if pid == str(os.getpid()):
        return f"this very process (pid {pid})"
    return f"the process {pid}" if pid.isdecimal() else "another process"
