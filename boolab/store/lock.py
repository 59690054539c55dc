"""The lock of a store's writer: a lock file beside it, which the system releases when the process ends."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Final

from filelock import FileLock, Timeout

from boolab.errors import StoreError
from boolab.io.files import open_file, read_file

WAIT_S: Final = 2.0
"""How long a writer waits for another one, in seconds."""
POLL_S: Final = 0.05
"""How long to wait between two tries, in seconds."""
_MAX_BYTES: Final = 4096
_LOCK: Final = re.compile(rb"\s*|\d{1,10}(\s.{0,1000})?", re.DOTALL)
"""A lock file holds the writer's process id, or nothing. A lock of `filelock` without `flock` has lines after it."""


def lock_path(path: Path) -> Path:
    """The lock file of a store: the same for all links to it."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.lock")


def lock(path: Path, wait_s: float = WAIT_S) -> FileLock:
    """Become the writer of a store: returns the lock, after waiting for another writer up to `wait_s` seconds."""
    place = lock_path(path)
    _check(place, path)
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


def _check(place: Path, path: Path) -> None:
    """Raise `StoreError` if what is at the lock file's place is none: to open it may block, to write it may destroy."""
    try:
        mode = place.lstat().st_mode
        found = read_file(place, _MAX_BYTES) if S_ISREG(mode) else b""
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"its lock file {place.name} cannot be read: {error.strerror}", path=path) from error
    if not S_ISREG(mode):
        raise StoreError(f"{place.name} beside it is no file: expected none, or a store's lock; remove it", path=path)
    if not _LOCK.fullmatch(found):
        raise StoreError(f"{place.name} beside it is no store's lock, and would be overwritten: move it", path=path)


def is_locked(path: Path) -> bool:
    """Whether a store has a writer now. No file is created or changed."""
    place = lock_path(path)
    try:
        import fcntl
    except ModuleNotFoundError:
        return _cannot_be_locked(place)
    try:
        with open_file(place) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _cannot_be_locked(place: Path) -> bool:
    """Whether the lock is held, on systems where a file can only be locked to write."""
    if not place.is_file():
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
        pid = read_file(place, _MAX_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError):
        pid = ""
    if pid == str(os.getpid()):
        return f"this very process (pid {pid})"
    return f"the process {pid}" if pid.isdecimal() else "another process"
