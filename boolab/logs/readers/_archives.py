"""ZIP archives as logs, within limits.

Members are read one after the other into memory, never extracted, and never by the sizes that they declare: what they
really hold is counted. BZIP2 and LZMA are refused: `zipfile` unpacks them without a bound, 2 kB to gigabytes, and no
harness writes them. Some are compressed with Zstandard (method 93), which Python's own `zipfile` knows from 3.14 on;
before, the package `backports.zstd` is needed for them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

from boolab.errors import RunFormatError

MAX_RATIO: Final = 250
"""How many times as much as the file's own size may come out of it. Logs of Inspect hold 3 to 15 times as much, and
runs of a simulated model, whose results are filled with one letter, 76 times; Zstandard can reach ten thousand."""

FREE: Final = 16 * 2**20
"""How many bytes may come out of any file, however small. As JSON of nothing but brackets they take 450 MB."""

MAX_TOTAL: Final = 4 * 2**30
"""How many bytes are read of one file, however large, as they come out of it."""

MAX_MEMBER: Final = 256 * 2**20
"""The largest member that is read, in bytes as they come out of it."""

MAX_MEMBERS: Final = 100_000
"""The most members that an archive may have."""

_ZSTD: Final = 93
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD)


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


class Archive:
    """A ZIP file that is open for reading: use it in a `with` block.

    Args:
        path: The file.

    Raises:
        RunFormatError: if it is no ZIP file, has too many members, or needs a package that is not installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unpacked = Unpacked(path)
        self._zip = _opened(path)
        members = self._zip.infolist()
        self._members = {member.filename: member for member in members}
        if len(members) > MAX_MEMBERS:
            self._zip.close()
            raise RunFormatError(f"{len(members):,} members, more than the {MAX_MEMBERS:,} that are read", path=path)

    @property
    def names(self) -> Sequence[str]:
        """The names of its members, in the archive's order."""
        return tuple(self._members)

    def read(self, name: str) -> bytes:
        """What a member holds.

        Raises:
            RunFormatError: if it is too large, alone or together with what was read before.
            ValueError: if it is damaged.
        """
        method = self._members[name].compress_type
        if method not in _METHODS:
            msg = f"{name} is compressed by method {method}; accepted: {', '.join(map(str, _METHODS))}"
            raise ValueError(msg)
        try:
            with self._zip.open(self._members[name]) as member:
                data: bytes = member.read(min(MAX_MEMBER, self._unpacked.left) + 1)
        except Exception as error:
            msg = f"{name} cannot be unpacked ({error or type(error).__name__})"
            raise ValueError(msg) from error
        if len(data) > MAX_MEMBER:
            raise RunFormatError(f"{name} holds more than the {MAX_MEMBER:,} bytes that are read", path=self.path)
        self._unpacked.take(len(data))
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()


def _opened(path: Path) -> zipfile.ZipFile:
    """The archive, opened with the module that can unpack its members."""
    try:
        opened = zipfile.ZipFile(path)
    except OSError:
        raise
    except Exception as error:
        raise RunFormatError(f"no readable ZIP file ({error})", path=path) from error
    if hasattr(zipfile, "ZIP_ZSTANDARD") or all(member.compress_type != _ZSTD for member in opened.infolist()):
        return opened
    opened.close()
    try:
        from backports.zstd import zipfile as zstd_zipfile
    except ImportError:
        msg = "it is compressed with Zstandard, which needs a package: pip install 'boolab[zstd]'"
        raise RunFormatError(msg, path=path) from None
    return cast("zipfile.ZipFile", zstd_zipfile.ZipFile(path))
