"""Files that may be packed with bzip2, as bytes to read, within limits.

What a packed file holds is unpacked in pieces and counted, because a small one can hold any amount.
"""

from __future__ import annotations

import bz2
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from boolab.errors import RunFormatError

PACKED: Final = ".bz2"
"""The end of a packed file's name."""

MAX_RATIO: Final = 250
"""The largest ratio of unpacked bytes to the file's size. Logs of Inspect have 3 to 15, runs of a simulated model with
results of one repeated letter 76; bzip2 and Zstandard can reach many thousands."""

FREE: Final = 16 * 2**20
"""How many unpacked bytes any file may have, however small. As JSON of brackets only, they take 450 MB."""

MAX_TOTAL: Final = 4 * 2**30
"""How many unpacked bytes any file may have, however large."""

_BLOCK: Final = 2**18


def most_unpacked(size: int) -> int:
    """How many unpacked bytes are read of a file of this size.

    Example:
        >>> most_unpacked(10), most_unpacked(10**6)
        (16777216, 250000000)
    """
    return min(MAX_TOTAL, max(FREE, MAX_RATIO * size))


class Unpacked:
    """Counts the unpacked bytes of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.left = most_unpacked(path.stat().st_size)
        """How many more bytes it may have."""
        self._max = self.left

    def take(self, size: int) -> None:
        """Count so many bytes; a `RunFormatError` if there are too many."""
        self.left -= size
        if self.left < 0:
            why = f"it holds more than {self._max:,} bytes when it is unpacked: no more are read of a file of its size"
            raise RunFormatError(f"{why}; split it, or pack it less", path=self.path)


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """A file, open for reading; what it holds unpacked, if its name ends in `.bz2`.

    Reading from a packed file raises a `RunFormatError` if it holds too much, and a `ValueError` if it is damaged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = Path(folder, "a.bz2").write_bytes(bz2.compress(b"agent"))
        ...     with unpacked(Path(folder, "a.bz2")) as file:
        ...         file.read()
        b'agent'
    """
    if path.suffix != PACKED:
        with path.open("rb") as file:
            yield file
        return
    with bz2.BZ2File(path) as packed:
        yield io.BufferedReader(_Counted(packed, Unpacked(path)), _BLOCK)


class _Counted(io.RawIOBase):
    """What a packed file holds, counted."""

    def __init__(self, packed: bz2.BZ2File, count: Unpacked) -> None:
        self._packed = packed
        self._count = count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        try:
            size = self._packed.readinto(cast("bytearray", buffer))
        except EOFError as error:
            msg = "the file ends in the middle of its packed data"
            raise ValueError(msg) from error
        except OSError as error:
            if error.errno is not None:
                raise
            msg = "its packed data are damaged"
            raise ValueError(msg) from error
        self._count.take(size)
        return size
