"""Temporary folders that a process holds with a lock, so that another process can remove those of dead ones.

Beside each folder is its lock, which is taken before the folder is made and ends with the process. Where a lock is
free, nothing uses its folder any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from boolab.errors import WorldError

_PREFIX: Final = "boolab-branch-"
_LOCK: Final = ".lock"


@contextmanager
def own_folder(owner: str) -> Iterator[Path]:
    """An empty temporary folder, which is removed at the end.

    Args:
        owner: Whose it is: letters, digits and underscores.

    Raises:
        WorldError: if it cannot be made.

    Example:
        >>> with own_folder("a1") as folder:
        ...     remove_leftovers({"a1"})  # it is in use
        ...     folder.is_dir()
        True
        >>> folder.exists()
        False
    """
    with ExitStack() as at_end:
        try:
            lock, held = _new_lock(owner)
            folder = lock.with_suffix("")
            at_end.callback(os.close, held)
            at_end.callback(_remove, folder, lock)
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise WorldError(f"no folder can be made in {str(_place())!r}: {error.strerror}") from error
        yield folder


def remove_leftovers(owners: Collection[str]) -> None:
    """Remove the folders of these owners whose process has ended; those of live processes stay.

    Args:
        owners: Whose folders are looked at.
    """
    for lock in _place().glob(f"{_PREFIX}*{_LOCK}"):
        owner = lock.stem.removeprefix(_PREFIX).rpartition("-")[0]
        if owner not in owners:
            continue
        with suppress(OSError), lock.open("rb+") as file:  # it is another user's, or it is in use
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(lock.with_suffix(""), lock)


def _new_lock(owner: str) -> tuple[Path, int]:
    """A new lock, and the descriptor that holds it."""
    while True:
        lock = _place() / f"{_PREFIX}{owner}-{os.urandom(6).hex()}{_LOCK}"
        held = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        if os.fstat(held).st_nlink:
            return lock, held
        os.close(held)  # it was removed as a leftover before it was held


def _remove(folder: Path, lock: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.unlink(missing_ok=True)


def _place() -> Path:
    return Path(tempfile.gettempdir()).resolve()
