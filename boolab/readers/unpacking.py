"""How much a packed file may hold: a small one cannot fill the memory, and no honest one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from boolab.errors import RunFormatError

MAX_RATIO: Final = 250
"""How many times as much as the file's own size may come out of it. Logs of Inspect hold 3 to 15 times as much, and
runs of a simulated model, whose results are filled with one letter, 76 times; Zstandard can reach ten thousand."""

FREE: Final = 16 * 2**20
"""How many bytes may come out of any file, however small. As JSON of nothing but brackets they take 450 MB."""

MAX_TOTAL: Final = 4 * 2**30
"""How many bytes are read of one file, however large, as they come out of it."""


class Unpacked:
    """Counts what comes out of a packed file.

    Args:
        path: The file.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     Unpacked(Path(file.name)).left == FREE
        True
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.left = min(MAX_TOTAL, max(FREE, MAX_RATIO * path.stat().st_size))
        """How many bytes may still come out of it."""
        self._most = self.left

    def take(self, size: int) -> None:
        """Count so many bytes.

        Raises:
            RunFormatError: if that is more than there may be.
        """
        self.left -= size
        if self.left < 0:
            why = f"it holds more than {self._most:,} bytes when it is unpacked: no more are read of a file of its size"
            raise RunFormatError(f"{why}; split it, or pack it less", path=self.path)
