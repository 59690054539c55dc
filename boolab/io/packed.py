"""JSON Lines that may be packed with bzip2, gzip or Zstandard, or be UTF-16, as bytes of UTF-8, within limits.

PowerShell 5 writes UTF-16. What a packed file holds is unpacked in pieces and counted, because a small one can hold any
amount.
"""

from __future__ import annotations

import bz2
import codecs
import io
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast

from typing_extensions import Buffer

from boolab.errors import RunFormatError, install
from boolab.io.files import open_file, size_of

PACKED: Final = ".jsonl.bz2"
"""The end of the name of a packed file that boolab writes."""

MAX_RATIO: Final = 250
"""The largest ratio of unpacked bytes to the file's size. Logs of Inspect have 3 to 15, runs of a simulated model with
results of one repeated letter 76; bzip2 and Zstandard can reach many thousands."""

FREE: Final = 16 * 2**20
"""How many unpacked bytes any file may have, however small. As JSON of brackets only, they take 450 MB."""

MAX_TOTAL: Final = 4 * 2**30
"""How many unpacked bytes any file may have, however large."""

_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OPENINGS: Final = tuple(
    (character.encode(encoding), encoding)
    for encoding, character in product(
        ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"), ("{", "[", "\r", "\n", " ")
    )
)
"""How JSON without a byte order mark begins. No UTF-8 text has a zero byte there."""
_FIRST_OF_MARKS: Final = (b"\xff", b"\xfe")
"""The first bytes of the marks that hold no zero byte."""
_BLOCK: Final = 2**18


class _Decompressor(Protocol):
    """What unpacks one piece of a file; `bz2.BZ2Decompressor` is one."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """A decompressor of gzip with the interface of the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self._full = False
        """Whether the last output was as long as it might be, so that more may wait."""

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._full and not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self._full = len(out) == max_length
        return out


def _zstd() -> _Decompressor:
    try:
        module = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError:
        msg = f"it is packed with Zstandard, which needs a package: {install('boolab[zstd]')}"
        raise RunFormatError(msg) from None
    return cast("_Decompressor", module.ZstdDecompressor())


_PACKINGS: Final[Mapping[str, Callable[[], _Decompressor]]] = {
    PACKED: bz2.BZ2Decompressor,
    ".jsonl.gz": _Gzip,
    ".jsonl.zst": _zstd,
}
"""What unpacks a file, by the end of its name. Other packed files are not opened."""


def is_packed(name: str) -> bool:
    """Whether a file is unpacked while it is read, by its name."""
    return name.endswith(tuple(_PACKINGS))


def unpacked_name(name: str) -> str:
    """The name of what a packed file holds; of another file its own."""
    return name.rpartition(".")[0] if is_packed(name) else name


def most_unpacked(size: int) -> int:
    """How many unpacked bytes are read of a file of this size."""
    return min(MAX_TOTAL, max(FREE, MAX_RATIO * size))


class DamagedFile(RunFormatError):
    """A packed file that cannot be unpacked from some place on."""


class Unpacked:
    """Counts the unpacked bytes of a file of some size."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.left = most_unpacked(size)
        """How many more bytes it may have."""
        self._max = self.left

    def take(self, size: int) -> None:
        """Count so many bytes; a `RunFormatError` if there are too many."""
        self.left -= size
        if self.left < 0:
            text = f"it holds more than {self._max:,} bytes when it is unpacked: no more are read of a file of its size"
            raise RunFormatError(f"{text}; split it, or pack it less", path=self.path)


@contextmanager
def open_unpacked(path: Path) -> Iterator[io.BufferedReader]:
    """A file, open for reading; what it holds unpacked, if it `is_packed`. UTF-16 is read as UTF-8.

    Reading from a packed file raises a `RunFormatError` if it holds too much, and `DamagedFile` where it is damaged.
    """
    with open_file(path) as file:
        if is_packed(path.name):
            packing = next(new for end, new in _PACKINGS.items() if path.name.endswith(end))
            yield io.BufferedReader(_Unpacking(file, Unpacked(path, size_of(file)), packing), _BLOCK)
        else:
            yield _recode(file, path)


def encoding_of(start: bytes) -> str:
    r"""The encoding of a text by its first four bytes; "" if it may be UTF-8."""
    if 0 not in start and not start.startswith(_FIRST_OF_MARKS):
        return ""
    return next((encoding for mark, encoding in (*_MARKS, *_OPENINGS) if start.startswith(mark)), "")


def _recode(file: io.BufferedReader, path: Path) -> io.BufferedReader:
    """The same text in UTF-8, if it is UTF-16; the file itself if it may be UTF-8."""
    encoding = encoding_of(file.peek(4)[:4])
    if encoding.startswith("utf-32"):
        msg = "its text is UTF-32, which is not read: convert it to UTF-8"
        raise RunFormatError(msg, path=path, line=1)
    return io.BufferedReader(_Recoded(file, encoding), _BLOCK) if encoding else file


class _Converted(io.RawIOBase):
    """The bytes of a file in another form, a block after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = b""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        """That of the file in its own form."""
        return self._file.fileno()

    def readinto(self, buffer: Buffer) -> int:
        window = memoryview(buffer)
        block = self._left or self._read_next(len(window))
        size = min(len(block), len(window))
        window[:size] = block[:size]
        self._left = block[size:]
        return size

    def _read_next(self, max_bytes: int) -> bytes:
        """The next bytes; none at the end. There may be more than are read at once."""
        raise NotImplementedError


class _Recoded(_Converted):
    """The bytes of a text in UTF-8, without its byte order mark."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        super().__init__(file)
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._begun = False

    def _read_next(self, max_bytes: int) -> bytes:  # noqa: ARG002 - a block is decoded whole
        data, block = b"", b"\0"
        while not data and block:
            block = self._file.read(_BLOCK)
            text = self._decoder.decode(block, final=not block)
            data = (text if self._begun else text.removeprefix("\ufeff")).encode("utf-8", "replace")
            self._begun = True
        return data


class _Unpacking(_Converted):
    """What a packed file holds, counted. `bz2.BZ2File` ignores damage that follows a whole piece."""

    def __init__(self, file: BinaryIO, count: Unpacked, packing: Callable[[], _Decompressor]) -> None:
        super().__init__(file)
        self._count = count
        self._packing = packing
        self._piece: _Decompressor | None = None

    def _read_next(self, max_bytes: int) -> bytes:
        data = b""
        while not data:
            packed = self._read_more()
            if packed is None:
                return b""
            self._piece = self._piece or self._packing()
            try:
                data = self._piece.decompress(packed, max_bytes)
            except Exception as error:  # each package has its own
                msg = "its packed data are damaged"
                raise DamagedFile(msg, path=self._count.path) from error
        self._count.take(len(data))
        return data

    def _read_more(self) -> bytes | None:
        """The packed bytes that are needed next; None at the end of the file."""
        rest = b""
        if self._piece is not None and self._piece.eof:
            rest, self._piece = self._piece.unused_data, None
        if rest or (self._piece is not None and not self._piece.needs_input):
            return rest
        rest = self._file.read(_BLOCK)
        if not rest and self._piece is not None:
            msg = "the file ends in the middle of its packed data"
            raise DamagedFile(msg, path=self._count.path)
        return rest or None
