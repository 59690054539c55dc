"""The images in the content of messages and results, of which a run keeps the sizes and no bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from boolab.core.types import Image
from boolab.io.image_size import encoded_size
from boolab.io.json_input import items, mapping, text

_KINDS: Final = ("image", "image_url", "input_image")
_SOURCES: Final = ("source", "inlineData", "inline_data")
"""What holds the data and its type: of Anthropic and ATIF, and of Gemini. Others have them in the block itself."""
_MEDIA_TYPES: Final = ("media_type", "mimeType", "mediaType", "mime_type", "mime", "MIMEType")
_DATA: Final = ("data", "Data", "image_url", "url", "image")
"""Of Anthropic, Gemini, MCP and pi; of Crush; of OpenAI; of opencode; of Inspect."""


def images_of(content: object) -> tuple[Image, ...]:
    """The images among the blocks of a content, in the form of any provider or harness that is read.

    Example:
        >>> images_of([{"type": "text", "text": "Look:"}, {"type": "image", "source": {"type": "url", "url": "a.png"}}])
        (Image(width=None, height=None),)
    """
    if isinstance(content, dict):
        return tuple(_images_in(content))
    return tuple(chain.from_iterable(map(_images_in, content))) if isinstance(content, list) else ()


def _images_in(block: object) -> Iterator[Image]:
    """The images of one block: OpenHands has several in one."""
    part = mapping(block)
    kind = part.get("type")
    if kind == "text":
        return
    holder = next((mapping(part.get(name)) for name in _SOURCES if name in part), part)
    media_type = next((word for name in _MEDIA_TYPES if (word := text(holder.get(name)))), "")
    if kind not in _KINDS and not media_type.startswith("image/"):
        return
    urls = items(part["image_urls"]) if "image_urls" in part else [_first_data(holder)]
    for url in urls:
        yield Image(*(encoded_size(text(url), media_type) or (None, None)))


def _first_data(holder: object) -> str:
    values = (mapping(holder).get(name) for name in _DATA)
    return next((word for value in values if (word := text(value) or text(mapping(value).get("url")))), "")
