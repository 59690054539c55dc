"""Files that a user names: read whole, if they are files and not too large; replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from stat import S_IMODE, S_ISREG
from typing import BinaryIO, Final

_OPEN: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KERNEL: Final = ("/proc", "/sys")


def no_file(stat: os.stat_result) -> str:
    """Why something is no file of a user; empty if it is one.

    To read a pipe may block, and a device may have no end. The kernel's files describe the machine, and reading some of
    them has effects; a link in a folder of logs may lead there.

    Example:
        >>> no_file(os.stat(os.devnull))
        'a pipe or a device, not a file'
    """
    if not S_ISREG(stat.st_mode):
        return "a pipe or a device, not a file"
    return "a file of the kernel (/proc or /sys), not one of a user" if stat.st_dev in _kernels() else ""


@cache
def _kernels() -> frozenset[int]:
    """The devices of the kernel's file systems, if they are file systems of their own."""
    found = set()
    for name in _KERNEL:
        with suppress(OSError):
            found.add(os.stat(name).st_dev)  # noqa: PTH116 - no path is needed
    with suppress(OSError):
        found.discard(os.stat("/").st_dev)  # noqa: PTH116 - as above
    return frozenset(found)


def read_file(path: str | Path, most: int) -> bytes:
    """What a file holds, at most `most` bytes. Pipes, which may block, and devices, which may not end, are refused.

    Raises:
        OSError: if it cannot be read, is no file or is larger; the `strerror` has the reason.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     size = file.write(b"agent"), file.flush()
        ...     read_file(file.name, most=5)
        b'agent'
    """
    handle = os.open(path, _OPEN)
    with os.fdopen(handle, "rb") as file:
        stat = os.fstat(handle)
        if not S_ISREG(stat.st_mode):
            raise OSError(errno.EINVAL, "a pipe or a device, not a file", str(path))
        data = file.read(min(most, stat.st_size) + 1)  # to allocate `most` costs more than to read
        if len(data) == stat.st_size + 1:  # it grew, or its file system has no sizes, as /proc
            data += file.read(most)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than the {most:,} bytes that are read", str(path))
    return data


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that replaces `path` once all is written; if the block raises, the old one stays.

    It has the permissions of the old one from its first byte on. A link is replaced, not followed.

    Raises:
        OSError: if no file can be made there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(Path(folder, "agent.yaml")) as file:
        ...         size = file.write(b"name: coder")
        ...     Path(folder, "agent.yaml").read_bytes()
        b'name: coder'
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")  # a name that cannot be guessed
    made = beside.open("xb")
    try:
        with made as file:
            if path.exists():
                beside.chmod(S_IMODE(path.stat().st_mode))
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
