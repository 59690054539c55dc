"""The size of an image from its first bytes: PNG, JPEG, GIF and WebP. They come from a log, so they may be anything."""

from __future__ import annotations

import struct
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

Size: TypeAlias = tuple[int, int]
"""Width and height in pixels."""

_BEGINNING: Final = 64
"""So many characters of base64 show the format, and the size unless it is JPEG."""
_MAX_ENCODED: Final = 2**19
"""The most characters that are decoded: a JPEG may have colour profiles and a preview before its size."""
_MAX_PIXELS: Final = 2**16 - 1
"""The longest side that JPEG and GIF can have; providers take far shorter ones."""
_MARKER: Final = 0xFF
"""What begins each marker of a JPEG, also several times."""
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of a JPEG that begin a frame, which has the size."""
_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD9)})


def encoded_size(encoded: str, media_type: str = "") -> Size | None:
    """The size of an image in base64 or in a data URL; None if it has none, or is not of the type that is stated."""
    if encoded.startswith("data:"):
        head, comma, encoded = encoded.partition(",")
        media_type = head.removeprefix("data:").partition(";")[0]
        if not comma or not head.endswith(";base64"):
            return None
    size = image_size(_decoded(encoded[:_BEGINNING]), media_type)
    return size or image_size(_decoded(encoded[:_MAX_ENCODED]), media_type)


def _decoded(encoded: str) -> bytes:
    whole = "".join(encoded.split())
    try:
        return a2b_base64(whole[: len(whole) // 4 * 4])
    except ValueError:
        return b""


def image_size(data: bytes, media_type: str = "") -> Size | None:
    """The size of the image that begins with these bytes; None if it has none, or is not of the type that is stated."""
    kind = next((kind for kind, begins in _BEGINS.items() if data.startswith(begins)), None)
    stated = media_type.lower().replace("image/jpg", "image/jpeg")
    if kind is None or (stated in _READERS and stated != kind):
        return None
    try:
        size = _READERS[kind](data)
    except (struct.error, IndexError):
        return None
    return size if size is not None and all(0 < side <= _MAX_PIXELS for side in size) else None


def _png_size(data: bytes) -> Size | None:
    width, height = struct.unpack_from(">II", data, 16)
    return (width, height) if data[12:16] == b"IHDR" else None


def _gif_size(data: bytes) -> Size:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg_size(data: bytes) -> Size | None:
    offset = 2
    while data[offset] == _MARKER:
        marker = data[offset + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, offset + 5)
            return width, height
        if marker == _MARKER:
            offset += 1
        elif marker in _WITHOUT_LENGTH:
            offset += 2
        else:
            offset += 2 + struct.unpack_from(">H", data, offset + 2)[0]
    return None


def _webp_size(data: bytes) -> Size | None:
    if data[8:15] != b"WEBPVP8":
        return None
    if data[15:16] == b"X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + struct.unpack_from("<I", data[27:30] + b"\0")[0]
    if data[15:16] == b"L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack_from("<HH", data, 26)
    return width & 0x3FFF, height & 0x3FFF


_BEGINS: Final[Mapping[str, bytes]] = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
_READERS: Final[Mapping[str, Callable[[bytes], Size | None]]] = {
    "image/png": _png_size,
    "image/jpeg": _jpeg_size,
    "image/gif": _gif_size,
    "image/webp": _webp_size,
}
