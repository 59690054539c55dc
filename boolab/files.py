"""Files that people name: read whole, if they are files and not too large."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from stat import S_ISREG
from typing import Final

_OPEN: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


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
