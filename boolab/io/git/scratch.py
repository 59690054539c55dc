"""Folders that a process holds with a lock, so that another process can remove those of dead ones.

Beside each folder is its lock, which is taken before the folder is made and ends with the process. Where a lock is
free, nothing uses its folder any more.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from boolab.errors import WorldError

_PREFIX: Final = "boolab-branch-"
_LOCK: Final = ".lock"
_PROBES: Final = 50
_PROBE_S: Final = 0.01
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK


class HeldError(WorldError):
    """Another process, or another part of this one, holds the folder."""


@contextmanager
def scratch_folder(owner: str, parent: Path | None = None, *, exclusive: bool = False) -> Iterator[Path]:
    """An empty folder, which is removed at the end, with its owner in its name."""
    name = owner if exclusive else f"{owner}-{os.urandom(6).hex()}"
    with ExitStack() as at_end:
        try:
            lock = _place(parent) / f"{_prefix(parent)}{name}{_LOCK}"
            folder = lock.with_name(lock.name.removesuffix(_LOCK))
            handle = _take(lock, make=True)
            for _ in range(_PROBES):  # another process may only have looked whether it is held
                if handle is not None:
                    break
                time.sleep(_PROBE_S)
                handle = _take(lock, make=True)
            if handle is None:
                raise HeldError(f"{str(folder)!r} is in use")
            at_end.callback(os.close, handle)
            at_end.callback(_remove, folder, lock)
            if exclusive:
                shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise WorldError(f"no folder can be made in {str(_place(parent))!r}: {error.strerror}") from error
        yield folder


def remove_leftovers(owners: Collection[str] | None = None, parent: Path | None = None) -> list[str]:
    """Remove folders whose process has ended; those of live processes stay."""
    removed = []
    for lock in _place(parent).glob(f"{_prefix(parent)}*{_LOCK}"):
        name = lock.name.removeprefix(_prefix(parent)).removesuffix(_LOCK)
        if owners is not None and name.rpartition("-")[0] not in owners:
            continue
        try:
            handle = _take(lock)
        except OSError:  # it is another user's, or gone
            continue
        if handle is not None:
            _remove(lock.with_name(lock.name.removesuffix(_LOCK)), lock)
            os.close(handle)
            removed.append(name)
    return removed


def is_held(name: str, parent: Path) -> bool:
    """Whether a process holds the folder of an owner who has no other one."""
    try:
        handle = _take(parent / f"{name}{_LOCK}")
    except OSError:
        return False
    if handle is None:
        return True
    os.close(handle)
    return False


def _take(lock: Path, *, make: bool = False) -> int | None:
    """The descriptor that holds a lock; None if another one holds it."""
    while True:
        handle = os.open(lock, _FLAGS | (os.O_CREAT if make else 0), 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(handle)
            if status.st_nlink and stat.S_ISREG(status.st_mode):
                return handle
        except BaseException as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return None
            raise
        os.close(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a file", str(lock))
        # it was removed as a leftover before it was held


def _remove(folder: Path, lock: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.unlink(missing_ok=True)


def _prefix(parent: Path | None) -> str:
    return _PREFIX if parent is None else ""


def _place(parent: Path | None) -> Path:
    return Path(tempfile.gettempdir()).resolve() if parent is None else parent
