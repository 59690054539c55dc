"""Images of a size, as small as their formats allow, and others that are none."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from struct import pack

PNG, JPEG, GIF, WEBP = "image/png", "image/jpeg", "image/gif", "image/webp"


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + pack(">I4sII5B", 13, b"IHDR", width, height, 8, 2, 0, 0, 0) + bytes(40)


def jpeg(width: int, height: int, preview: int = 70_000) -> bytes:
    """With segments before the frame that are longer than what shows the size of other formats."""
    segments = [(0xE0, bytes(14)), (0xE1, bytes(min(preview, 65_000))), (0xE2, bytes(max(0, preview - 65_000)))]
    head = b"".join(b"\xff" + pack(">BH", marker, len(body) + 2) + body for marker, body in segments)
    return b"\xff\xd8" + head + b"\xff\xff\xc2" + pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + pack("<HH", width, height) + bytes(20)


def webp(width: int, height: int, kind: bytes = b"X") -> bytes:
    body = {
        b"X": bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
        b"L": b"\x2f" + pack("<I", (width - 1) | (height - 1) << 14) + bytes(10),
        b" ": bytes(3) + b"\x9d\x01\x2a" + pack("<HH", width, height),
    }[kind]
    return b"RIFF" + bytes(4) + b"WEBPVP8" + kind + bytes(4) + body


MAKERS: Mapping[str, Callable[[int, int], bytes]] = {PNG: png, JPEG: jpeg, GIF: gif, WEBP: webp}


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


SCREENSHOT = encoded(png(1369, 880))
"""About 1,606 tokens at Anthropic."""
SAMPLES: tuple[tuple[str, str, tuple[int | None, int | None]], ...] = (
    (PNG, SCREENSHOT, (1369, 880)),
    (JPEG, encoded(jpeg(640, 480)), (640, 480)),
    (GIF, encoded(gif(7, 9)), (7, 9)),
    (WEBP, encoded(webp(300, 200)), (300, 200)),
    (PNG, SCREENSHOT[:21], (None, None)),
    (JPEG, encoded(jpeg(640, 480))[:4000], (None, None)),
    (JPEG, SCREENSHOT, (None, None)),
    (PNG, encoded(b"hello" * 9), (None, None)),
    (PNG, encoded(png(2**31, 4)), (None, None)),
    (PNG, encoded(png(0, 4)), (None, None)),
    (PNG, "not base64, \ud83d", (None, None)),
    (PNG, "", (None, None)),
)
"""The type that is stated, the data, and the size: none of what is cut short, of another type, huge or no image."""
