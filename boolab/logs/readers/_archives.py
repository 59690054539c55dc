"""ZIP archives as logs, within limits.

Members are read one by one into memory, never extracted. Their unpacked bytes are counted, because declared sizes may
be wrong. BZIP2 and LZMA are refused: `zipfile` unpacks them without a bound (2 kB to gigabytes), and no harness writes
them. Zstandard (method 93) needs the package `backports.zstd` before Python 3.14.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final, Self, cast

from boolab.errors import RunFormatError, install
from boolab.io.files import open_file, size_of
from boolab.io.packed import Unpacked

MAX_MEMBER: Final = 256 * 2**20
"""The largest member, in unpacked bytes."""

MAX_MEMBERS: Final = 100_000
"""The most members that an archive may have."""

_ZSTD: Final = 93
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD)


class Archive:
    """A ZIP file that is open for reading: use it in a `with` block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_file(path)
        try:
            self._unpacked = Unpacked(path, size_of(self._file))
            self._zip = _open_zip(self._file, path)
        except BaseException:
            self._file.close()
            raise
        members = self._zip.infolist()
        self._members = {member.filename: member for member in members}
        if len(members) > MAX_MEMBERS:
            self.close()
            raise RunFormatError(f"{len(members):,} members, more than the {MAX_MEMBERS:,} that are read", path=path)

    @property
    def names(self) -> Sequence[str]:
        """The names of its members, in order."""
        return tuple(self._members)

    def read(self, name: str) -> bytes:
        """A member's bytes; a `RunFormatError` if it, or all that was read, is too large, a `ValueError` if damaged."""
        method = self._members[name].compress_type
        if method not in _METHODS:
            raise ValueError(f"{name} is compressed by method {method}; accepted: {', '.join(map(str, _METHODS))}")
        try:
            with self._zip.open(self._members[name]) as member:
                data: bytes = member.read(min(MAX_MEMBER, self._unpacked.left) + 1)
        except Exception as error:
            raise ValueError(f"{name} cannot be unpacked ({error or type(error).__name__})") from error
        if len(data) > MAX_MEMBER:
            raise RunFormatError(f"{name} holds more than the {MAX_MEMBER:,} bytes that are read", path=self.path)
        self._unpacked.take(len(data))
        return data

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _open_zip(file: BinaryIO, path: Path) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(file)
    except OSError:
        raise
    except Exception as error:
        raise RunFormatError(f"no readable ZIP file ({error})", path=path) from error
    if hasattr(zipfile, "ZIP_ZSTANDARD") or all(member.compress_type != _ZSTD for member in archive.infolist()):
        return archive
    archive.close()
    try:
        from backports.zstd import zipfile as zstd_zipfile
    except ImportError:
        msg = f"it is compressed with Zstandard, which needs a package: {install('boolab[zstd]')}"
        raise RunFormatError(msg, path=path) from None
    return cast("zipfile.ZipFile", zstd_zipfile.ZipFile(file))
