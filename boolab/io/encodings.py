"""The encoding of a text file, by its first bytes. Logs are UTF-8; PowerShell 5 writes UTF-16, which is read too."""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import Final

from typing_extensions import Buffer

from boolab.errors import RunFormatError

_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OPENINGS: Final = tuple(
    (character.encode(encoding), encoding)
    for encoding in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
    for character in ("{", "[", "\r", "\n", " ")
)
"""How JSON without a byte order mark begins. No UTF-8 text has a zero byte there."""
_FIRST_OF_MARKS: Final = (b"\xff", b"\xfe")
"""The first bytes of the marks that hold no zero byte."""
_BLOCK: Final = 2**18


def encoding_of(start: bytes) -> str:
    r"""The encoding of a text by its first four bytes; "" if it may be UTF-8.

    Example:
        >>> encoding_of(b"\xff\xfe{\x00"), encoding_of(b"\x00{\x00"), encoding_of(b'{"a"')
        ('utf-16-le', 'utf-16-be', '')
    """
    if 0 not in start and not start.startswith(_FIRST_OF_MARKS):
        return ""
    return next((encoding for mark, encoding in (*_MARKS, *_OPENINGS) if start.startswith(mark)), "")


def in_utf8(file: io.BufferedReader, path: Path) -> io.BufferedReader:
    """The same text in UTF-8, if it is UTF-16; the file itself if it may be UTF-8."""
    encoding = encoding_of(file.peek(4)[:4])
    if encoding.startswith("utf-32"):
        msg = "its text is UTF-32, which is not read: convert it to UTF-8"
        raise RunFormatError(msg, path=path, line=1)
    return io.BufferedReader(_Recoded(file, encoding), _BLOCK) if encoding else file


class _Recoded(io.RawIOBase):
    """The bytes of a text in UTF-8, without its byte order mark."""

    def __init__(self, file: io.BufferedReader, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._left = b""
        self._begun = False

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        """That of the file in its own encoding."""
        return self._file.fileno()

    def readinto(self, buffer: Buffer) -> int:
        place = memoryview(buffer)
        data = True
        while not self._left and data:
            block = self._file.read(_BLOCK)
            text, data = self._decoder.decode(block, final=not block), bool(block)
            self._left = (text if self._begun else text.removeprefix("\ufeff")).encode("utf-8", "replace")
            self._begun = True
        taken, self._left = self._left[: len(place)], self._left[len(place) :]
        place[: len(taken)] = taken
        return len(taken)
