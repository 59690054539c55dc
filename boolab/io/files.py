"""Files that people name: read whole, if they are files and not too large; replaced whole or not at all."""

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
    """Why something is no file that could be somebody's: empty if it is one.

    A pipe might be waited for, and a device might not end. What the kernel shows as files says things of the machine,
    and some of these take what is read away from others; a link in a folder of logs may lead there.

    Args:
        stat: What the system says of it.

    Example:
        >>> no_file(os.stat(os.devnull))
        'a pipe or a device, not a file'
    """
    if not S_ISREG(stat.st_mode):
        return "a pipe or a device, not a file"
    return "a file of the kernel (/proc or /sys), not one of anybody's" if stat.st_dev in _kernels() else ""


@cache
def _kernels() -> frozenset[int]:
    """The devices of the file systems in which the kernel shows itself, where there are any of their own."""
    found = set()
    for name in _KERNEL:
        with suppress(OSError):
            found.add(os.stat(name).st_dev)  # noqa: PTH116 - no path is needed
    with suppress(OSError):
        found.discard(os.stat("/").st_dev)  # noqa: PTH116 - as above
    return frozenset(found)


def read_file(path: str | Path, most: int) -> bytes:
    """What a file holds. A pipe, which might be waited for, and a device, which might not end, are refused.

    Args:
        path: The file.
        most: The most that is read, in bytes.

    Raises:
        OSError: if it cannot be read, is no file or is larger, with a `strerror` that says so.

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
        data = file.read(min(most, stat.st_size) + 1)  # room for the most that there could be costs more than the read
        if len(data) == stat.st_size + 1:  # it grew, or its system does not know sizes, as /proc
            data += file.read(most)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than the {most:,} bytes that are read", str(path))
    return data


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file beside one, which takes its place once all is written; if the block raises, the old one stays.

    Who may read the new file is who may read the old one, from its first byte on. A link is replaced, not followed.

    Args:
        path: The file, which need not be there yet.

    Raises:
        OSError: if a file cannot be made there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(Path(folder, "agent.yaml")) as file:
        ...         size = file.write(b"name: coder")
        ...     Path(folder, "agent.yaml").read_bytes()
        b'name: coder'
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")  # nobody else has it, nor guesses it
    made = beside.open("xb")
    try:
        with made as file:
            if path.exists():
                beside.chmod(S_IMODE(path.stat().st_mode))
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
